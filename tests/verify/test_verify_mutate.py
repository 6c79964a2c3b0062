"""Mutants: each is a rule that the checker admits, says something else, and is not merely less eager."""

from __future__ import annotations

from pathlib import Path

import pytest

from gerules.dsl.program import RuleSource, load_program, shipped_sources
from gerules.dsl.show import show_rewrite
from gerules.egraph.program import Knowledge, knowledge
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify.mutate import KINDS, Mutant, mutants


@pytest.fixture(scope="module")
def shipped() -> Knowledge:
    return knowledge(load_program(shipped_sources(), onnx_registry(), known_functions()))


def _of(tmp_path: Path, text: str) -> list[Mutant]:
    path = tmp_path / "mine.rules"
    path.write_text(f"opset ai.onnx 21\n{text}\n", encoding="utf-8")
    sources = (*shipped_sources(), RuleSource(path, "user/mine"))
    known = knowledge(load_program(sources, onnx_registry(), known_functions()))
    (entry,) = [e for name, e in known.program.rewrites.items() if name.startswith("user/mine.")]
    return list(mutants(entry, known))


def _whats(found: list[Mutant]) -> list[str]:
    return [m.what for m in found]


def test_every_condition_is_dropped_and_weakened(tmp_path: Path) -> None:
    found = _of(
        tmp_path,
        "rewrite a: Slice(x, const(s), const(e), const(a), const(p)) => x "
        "when all(p == 1 and s == 0), x.dtype in {f16, f32}, a.size < 2 or not x.rank in {3, 4}",
    )
    texts = _whats(found)
    assert "without `all(p == 1 and s == 0)`" in texts
    assert "`all(p == 1)` for `all(p == 1 and s == 0)`" in texts
    assert "`all(s == 0)` for `all(p == 1 and s == 0)`" in texts
    assert "`all(p == 1 or s == 0)` for `all(p == 1 and s == 0)`" in texts
    assert "`some(p == 1 and s == 0)` for `all(p == 1 and s == 0)`" in texts
    assert "`all(p >= 1 and s == 0)` for `all(p == 1 and s == 0)`" in texts
    assert "`x.dtype in {f16, f32} | {f64}` for `x.dtype in {f16, f32}`" in texts
    assert "`a.size <= 2 or not x.rank in {3, 4}` for `a.size < 2 or not x.rank in {3, 4}`" in texts
    # Under `not` a smaller set holds more often.
    assert "`a.size < 2 or not x.rank in {4}` for `a.size < 2 or not x.rank in {3, 4}`" in texts
    assert not any("or not x.rank in {3, 4, 5}`" in t for t in texts)
    # What only holds less often is no mutant.
    assert "`a.size < 2` for `a.size < 2 or not x.rank in {3, 4}`" not in texts
    assert all(m.lost is not None for m in found if m.kind in ("drop", "weaken"))


def test_a_condition_that_binds_what_is_used_stays(tmp_path: Path) -> None:
    found = _of(
        tmp_path, "rewrite a: Transpose(x, perm=p) => Reshape(x, dims(s)) when s == x.shape, p == range(x.rank)"
    )
    dropped = [m.what for m in found if m.kind == "drop"]
    assert dropped == ["without `p == range(x.rank)`"]


def test_operands_numbers_attributes_and_operators_change(tmp_path: Path) -> None:
    found = _of(
        tmp_path,
        "rewrite a: Sub(ReduceSum(Identity(x), const(a), keepdims=1), z) as y"
        " => Sub(ReduceSum(x, const(a), keepdims=1), z)"
        " when y.rank == z.rank",
    )
    texts = " ".join(_whats(found))
    assert "`Sub(z, ReduceSum(x, const(a), keepdims=1))` for" in texts
    assert "`ReduceSum(x, const(a), keepdims=0)` for" in texts
    assert "`ReduceMean@18(x, const(a), keepdims=1)` for" in texts
    assert "`Add@14(ReduceSum(x, const(a), keepdims=1), z)` for" in texts
    assert "`ReduceSum(x, none, keepdims=1)` for" in texts


def test_nothing_is_swapped_in_a_commutative_operator(tmp_path: Path) -> None:
    found = _of(tmp_path, "rewrite a: Neg(Add(x, z)) => Add(Neg(x), Neg(z))")
    assert not [m for m in found if m.kind == "swap"]
    found = _of(tmp_path, "rewrite a: Neg(Sub(x, z)) => Add(Neg(x), z)")
    assert [m.what for m in found if m.kind == "swap"] == ["`Sub(z, x)` for `Sub(x, z)`"]


def test_operands_of_different_kinds_are_not_exchanged(tmp_path: Path) -> None:
    """Axes, indices and conditions have element types of their own: the exchange is no well-typed term."""
    for term in ("Squeeze(Identity(x), const(a)) => Squeeze(x, const(a))", "Gather(Identity(x), i) => Gather(x, i)"):
        assert not [m for m in _of(tmp_path, f"rewrite a: {term}") if "(x, none)" not in m.what and m.kind == "swap"]
    swapped = [m.what for m in _of(tmp_path, "rewrite a: Where(c, Identity(x), z) => Where(c, x, z)")]
    assert "`Where(c, z, x)` for `Where(c, x, z)`" in swapped
    assert "`Where(x, c, z)` for `Where(c, x, z)`" not in swapped
    assert "`Pow(z, x)` for `Pow(x, z)`" in [
        m.what for m in _of(tmp_path, "rewrite a: Pow(Identity(x), z) => Pow(x, z)")
    ]


def test_attributes_change_places_and_axes_are_off_by_one(tmp_path: Path) -> None:
    texts = _whats(
        _of(tmp_path, "rewrite a: Transpose(Transpose(x, perm=p), perm=q) => Transpose(x, perm=p[q]) when p != none")
    )
    assert "`q[p]` for `p[q]`" in texts
    assert "`Transpose(x)` for `Transpose(x, perm=p[q])`" in texts
    texts = _whats(_of(tmp_path, "rewrite a: Clip@6(x, min=lo, max=hi) <=> Clip@11(x, const(lo), const(hi))"))
    assert "`Clip@6(x, min=hi, max=lo)` for `Clip@6(x, min=lo, max=hi)`" in texts
    texts = _whats(_of(tmp_path, "rewrite a: Softmax(Identity(x), axis=k) => Softmax(x, axis=k)"))
    assert "`Softmax(x, axis=k + 1)` for `Softmax(x, axis=k)`" in texts
    assert "`Softmax@11(x, axis=k)` for `Softmax(x, axis=k)`" in texts


def test_versions_that_are_one_operator_or_only_grew_make_no_mutant(tmp_path: Path) -> None:
    found = _of(tmp_path, "rewrite a: Reshape(Identity(x), s) => Reshape(x, s)")
    assert not [m for m in found if m.kind == "version"]


def test_a_class_is_widened_by_an_operator_of_the_same_form(tmp_path: Path) -> None:
    texts = _whats(_of(tmp_path, "rewrite a[f in Involution]: f(f(x)) => x"))
    assert any(t.startswith("`f in Involution | ") for t in texts)


def test_mutants_of_all_shipped_rules_are_distinct_and_stable(shipped: Knowledge) -> None:
    found: dict[str, Mutant] = {}
    for entry in shipped.program.rewrites.values():
        own = list(mutants(entry, shipped))
        texts = [show_rewrite(m.statement) for m in own]
        assert len(set(texts)) == len(texts)
        assert show_rewrite(entry.statement) not in texts
        for mutant in own:
            assert mutant.kind in KINDS
            assert mutant.label not in found
            found[mutant.label] = mutant
    assert {m.kind for m in found.values()} == set(KINDS)
    assert len(found) > 1500
