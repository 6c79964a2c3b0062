"""The fate of mutants: killed where they are wrong, equivalent where that is proved, else survivors."""

from __future__ import annotations

from pathlib import Path

import pytest

from gerules.dsl.program import load_program, shipped_sources, user_sources
from gerules.egraph.program import Knowledge, knowledge
from gerules.errors import GerulesError
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify.case import cases_of
from gerules.verify.mutation import Effort, MutationResult, opposite, run_mutation, score
from gerules.verify.narrowing import narrowed
from gerules.verify.pinned import pinned_plans, pins_of
from gerules.verify.trials import plan_case, run_trials

SAMPLE = (
    "algebra/concat.slice_of_first",
    "cleanup.drop_transpose_default",
    "cleanup.transpose_transpose",
    "compat/onnx.clip_11",
    "cleanup.drop_tile",
)
"""Rules of several kinds whose mutants are all refuted or proved."""


@pytest.fixture(scope="module")
def shipped() -> Knowledge:
    return knowledge(load_program(shipped_sources(), onnx_registry(), known_functions()))


def _mutated(tmp_path: Path, text: str, effort: Effort | None = None) -> MutationResult:
    path = tmp_path / "mine.rules"
    path.write_text(f"opset ai.onnx 21\n{text}\n", encoding="utf-8")
    known = knowledge(load_program((*shipped_sources(), *user_sources(path)), onnx_registry(), known_functions()))
    (entry,) = [e for name, e in known.program.rewrites.items() if name.startswith("user/mine.")]
    return run_mutation(known, entry, effort)


@pytest.mark.parametrize("rule", SAMPLE)
def test_no_mutant_of_a_shipped_rule_survives(shipped: Knowledge, rule: str) -> None:
    result = run_mutation(shipped, shipped.program.rewrites[rule])
    assert result.verdicts
    assert not result.survivors, [(v.mutant.what, v.how) for v in result.survivors]
    assert result.score == 1.0


def test_a_useless_condition_is_equivalent_or_survives(tmp_path: Path) -> None:
    result = _mutated(tmp_path, "rewrite a: Transpose(x, perm=p) => x when p == range(x.rank), x.rank >= 0")
    (useless,) = [v for v in result.verdicts if v.mutant.what == "without `x.rank >= 0`"]
    assert useless.fate == "equivalent"
    (needed,) = [v for v in result.verdicts if v.mutant.what == "without `p == range(x.rank)`"]
    assert needed.fate == "killed"
    assert "of user/mine.a" in needed.how


def test_mutants_of_a_rule_that_is_wrong_are_not_judged(tmp_path: Path) -> None:
    with pytest.raises(GerulesError, match="itself is refuted by") as fault:
        _mutated(tmp_path, "rewrite a: Sub(x, x) as y => splat(0, y.shape) when x.rank <= 3")
    assert fault.value.diagnostics[0].code == "GR589"


def test_without_the_prover_what_is_not_refuted_survives(tmp_path: Path) -> None:
    text = "rewrite a: Relu(Relu(x)) => Relu(x) when x.rank <= 3"
    result = _mutated(tmp_path, text, Effort(trials=20, draws=200, prover=False))
    assert not result.equivalent
    assert "without `x.rank <= 3`" in [v.mutant.what for v in result.survivors]
    assert result.score < 1.0


def test_a_rule_of_foreign_operators_is_not_judged(shipped: Knowledge) -> None:
    foreign = [n for n in shipped.program.rewrites if n.startswith("compat/ge.")]
    result = run_mutation(shipped, shipped.program.rewrites[foreign[0]])
    assert not result.verdicts
    assert "not loaded" in result.untried


def test_scores_add_up(tmp_path: Path) -> None:
    good = _mutated(tmp_path, "rewrite a: Sub(x, x) as y => splat(0, y.shape) when x.dtype in Integer")
    bad = _mutated(tmp_path, "rewrite a: Relu(Relu(x)) => Relu(x) when x.rank <= 3", Effort(trials=20, prover=False))
    judged = [v for r in (good, bad) for v in r.verdicts if v.fate != "equivalent"]
    assert score((good, bad)) == sum(v.fate == "killed" for v in judged) / len(judged)
    assert score(()) == 1.0


def test_draws_near_an_example_are_instances(shipped: Knowledge) -> None:
    """Two windows that fit each other are hardly met by chance; an example shows some."""
    (case,) = cases_of(shipped, shipped.program.rewrites["algebra/concat.concat_slices"])
    assert any(pins.values["s"] == (1, 0) and pins.shapes["x"] == (8, 4) for pins in pins_of(case, shipped))
    near = pinned_plans(plan_case(case, shipped))[0]
    ran = run_trials(near, accepted=20, most=2000)
    assert ran.refutation is None
    assert ran.accepted == 20


def test_opposites(tmp_path: Path) -> None:
    path = tmp_path / "mine.rules"
    path.write_text(
        "opset ai.onnx 21\nrewrite a: Relu(x) => x when all(x.shape >= 1 and x.shape != 3 or x.shape == 0), "
        "not x.dtype in {f16}, x.dtype in {f32}\n",
        encoding="utf-8",
    )
    from gerules.dsl.show import show

    known = knowledge(load_program((*shipped_sources(), *user_sources(path)), onnx_registry(), known_functions()))
    when = known.program.rewrites["user/mine.a"].statement.when
    assert [show(opposite(c)) for c in when] == [
        "some((x.shape < 1 or x.shape == 3) and x.shape != 0)",
        "x.dtype in {f16}",
        "not x.dtype in {f32}",
    ]


def test_a_condition_that_follows_within_one_operator_is_equivalent(tmp_path: Path) -> None:
    """Of `Expand(x, _) as e` alone it is seen that `e` has no lower rank; the whole has too many structures."""
    text = (
        "rewrite a[f in Idempotent]: f(Expand(x, _) as e, const(a), keepdims=1) as y"
        " => Expand(f(x, const(a), keepdims=1), dims(y.shape))"
        " when x.rank == e.rank, a.size >= 1, all(e.shape[a] >= 1)"
    )
    result = _mutated(tmp_path, text, Effort(trials=30, draws=400))
    (wider,) = [v for v in result.verdicts if v.mutant.what == "`x.rank >= e.rank` for `x.rank == e.rank`"]
    assert wider.fate == "equivalent"
    (dropped,) = [v for v in result.verdicts if v.mutant.what == "without `x.rank == e.rank`"]
    assert dropped.fate == "killed"


def test_what_holds_of_one_operand_is_not_taken_to_hold_of_all(shipped: Knowledge) -> None:
    (case,) = cases_of(shipped, shipped.program.rewrites["broadcast/implicit.sink_concat"])
    assert narrowed(case, case.when[0]) is None
    (case,) = cases_of(shipped, shipped.program.rewrites["broadcast/implicit.sink_transpose"])
    assert narrowed(case, case.when[0]) is not None
