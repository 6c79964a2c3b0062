"""Refutations made small."""

from __future__ import annotations

from pathlib import Path

import pytest

from gerules.dsl.program import RuleSource, load_program, shipped_sources
from gerules.egraph.program import knowledge
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify.case import cases_of
from gerules.verify.shrink import elements, shrink
from gerules.verify.source import EditedSource, RandomSource, ReplaySource, segments_of
from gerules.verify.trials import Refuted, plan_case, run_trials

WRONG = {
    "nan": ("Sub(x, x) as y => splat(0, y.shape)", 1),
    "stretched": ("Add(x, splat(0, _)) => x", 2),
    "division": ("Div(Mul(x, z), z) => x", 1),
    "slice": ("Slice(x, const(s), const(e), const(a), const(p)) => x when all(p == 1), all(s == 0)", 1),
    "cast": ("Cast(Cast(x, to=t), to=u) => x when x.dtype == u", 1),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_shrinks_to_few_elements(name: str, tmp_path: Path) -> None:
    text, most = WRONG[name]
    path = tmp_path / "own.rules"
    path.write_text(f"opset ai.onnx 21\nrewrite {name}: {text}\n")
    program = load_program([*shipped_sources(), RuleSource(path, "user/own")], onnx_registry(), known_functions())
    known = knowledge(program)
    (case,) = cases_of(known, program.rewrites[f"user/own.{name}"])
    plan = plan_case(case, known)
    refutation = run_trials(plan, 2000).refutation
    assert refutation is not None
    small = shrink(plan, refutation)
    assert small.shrunk and elements(small) <= elements(refutation)
    assert small.left is not None and getattr(small.left, "size", 0) <= most
    assert shrink(plan, refutation).choices == small.choices
    again = plan.trial(ReplaySource(small.choices))
    assert isinstance(again, Refuted) and again.refutation.reason == small.reason


def test_segments_hold_all_decisions() -> None:
    source = RandomSource(7)
    first = source.below(9)
    source.step()
    kept = source.contents(5, 3), source.below(4), source.many(3, 2)
    edited = EditedSource(segments_of(source))
    assert edited.below(9) == first
    edited.step()
    assert (edited.contents(5, 3), edited.below(4), edited.many(3, 2)) == kept
    assert edited.choices == source.choices
