"""Mutants of rules between versions: what a right side needs, which changes are mistakes, which are said to be none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gerules.dsl import ast
from gerules.dsl.program import Entry, RuleSource, load_program, shipped_sources
from gerules.egraph.program import Knowledge, knowledge
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify.case import cases_of
from gerules.verify.mutate import mutants
from gerules.verify.outcome import Refutation
from gerules.verify.trials import plan_case, run_trials


def _rule(tmp_path: Path, text: str) -> tuple[Knowledge, Entry[ast.Rewrite]]:
    path = tmp_path / "mine.rules"
    path.write_text(f"opset ai.onnx 21\n{text}\n", encoding="utf-8")
    sources = (*shipped_sources(), RuleSource(path, "user/mine"))
    known = knowledge(load_program(sources, onnx_registry(), known_functions()))
    (entry,) = [e for name, e in known.program.rewrites.items() if name.startswith("user/mine.")]
    return known, entry


def _refutation(tmp_path: Path, text: str) -> Refutation | None:
    known, entry = _rule(tmp_path, text)
    for case in cases_of(known, entry):
        found = run_trials(plan_case(case, known), accepted=150, seed=3)
        assert found.accepted or found.refutation is not None
        if found.refutation is not None:
            return found.refutation
    return None


def _whats(tmp_path: Path, text: str) -> list[str]:
    known, entry = _rule(tmp_path, text)
    return [m.what for m in mutants(entry, known)]


def test_a_required_attribute_needs_a_value(tmp_path: Path) -> None:
    # A Concat of 1 may leave its axis out, one of 4 may not.
    found = _refutation(tmp_path, "rewrite a: Concat@1(..x, axis=a) => Concat@4(..x, axis=a)")
    assert found is not None and "attribute axis has no value" in found.reason
    assert _refutation(tmp_path, "rewrite a: Concat@1(..x, axis=a) => Concat@4(..x, axis=a) when a != none") is None


def test_operands_of_one_type_variable_have_one_type(tmp_path: Path) -> None:
    text = "rewrite a: QuantizeLinear@23(x, s, z, axis=a) => QuantizeLinear@21(x, s, z, axis=a) when s.dtype == f32"
    found = _refutation(tmp_path, text)
    assert found is not None and "operands of type T1 are" in found.reason
    assert _refutation(tmp_path, f"{text}, x.dtype == f32") is None


@pytest.mark.parametrize(
    "right",
    ["Split@18(x, none, axis=a, results=n)", "Split@18(x, none, axis=a, num_outputs=n + 1, results=n)"],
)
def test_sizes_or_their_number(tmp_path: Path, right: str) -> None:
    found = _refutation(tmp_path, f"rewrite a: Split@13(x, none, axis=a, results=n) => {right}")
    assert found is not None and found.reason.startswith("the right side fails")


def test_a_direction_is_misspelt_at_one_version_only(tmp_path: Path) -> None:
    text = 'rewrite a: GRU@1(..r, direction="foward")[1] => GRU@3(..r, direction="{}")[1]'
    found = _refutation(tmp_path, text.format("foward"))
    assert found is not None and "there is no direction foward" in found.reason
    assert _refutation(tmp_path, text.format("forward")) is None


def test_what_only_fires_less_often_is_no_mutant(tmp_path: Path) -> None:
    left = "ReduceSum@13(x, none, keepdims={}, noop_with_empty_axes=1)"
    dropped = "`ReduceSum@13(x, none, noop_with_empty_axes=1)` for"
    assert not any(w.startswith(dropped) for w in _whats(tmp_path, f"rewrite a: {left.format('_')} => x"))
    assert any(w.startswith(dropped) for w in _whats(tmp_path, f"rewrite a: {left.format('0')} => x"))


def test_an_element_type_and_a_number_do_not_change_places(tmp_path: Path) -> None:
    found = _whats(tmp_path, "rewrite a: CastLike@19(x, y, saturate=s) => Cast@19(x, to=y.dtype, saturate=s)")
    assert not any("to=s" in w for w in found)


def test_operands_of_older_commutative_operators_are_alike(tmp_path: Path) -> None:
    assert not any("Mul@7(y, x)" in w for w in _whats(tmp_path, "rewrite a: Mul@6(x, y) => Mul@7(x, y)"))
    assert any("Sub@7(y, x)" in w for w in _whats(tmp_path, "rewrite a: Sub@6(x, y) => Sub@7(x, y)"))
