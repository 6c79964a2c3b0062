"""Trials of rules: right ones are accepted, wrong ones refuted, and a seed decides everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from gerules.dsl.program import RuleSource, load_program, shipped_sources
from gerules.egraph.program import Knowledge, knowledge
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify.case import Case, cases_of
from gerules.verify.source import ReplaySource
from gerules.verify.trials import Refuted, plan_case, run_trials


@pytest.fixture(scope="module")
def shipped() -> Knowledge:
    return knowledge(load_program(shipped_sources(), onnx_registry(), known_functions()))


def first_case(known: Knowledge, rule: str) -> Case:
    return next(cases_of(known, known.program.rewrites[rule]))


def loaded(tmp_path: Path, text: str) -> tuple[Knowledge, list[Case]]:
    path = tmp_path / "own.rules"
    path.write_text("opset ai.onnx 21\n" + text)
    program = load_program([*shipped_sources(), RuleSource(path, "user/own")], onnx_registry(), known_functions())
    known = knowledge(program)
    own = [e for e in program.rewrites.values() if e.ruleset == "user/own"]
    return known, [case for entry in own for case in cases_of(known, entry)]


@pytest.mark.parametrize("rule", ["cleanup.drop_identity", "cleanup.neutral_right", "broadcast/implicit.expand_expand"])
def test_a_right_rule_is_accepted(shipped: Knowledge, rule: str) -> None:
    trials = run_trials(plan_case(first_case(shipped, rule), shipped), 50)
    assert trials.accepted == 50 and trials.refutation is None


def test_a_wrong_rule_is_refuted_and_the_refutation_replays(tmp_path: Path) -> None:
    known, (case,) = loaded(tmp_path, "rewrite wrong: Add(x, splat(0, _)) => x")
    plan = plan_case(case, known)
    trials = run_trials(plan, 200)
    assert trials.refutation is not None
    again = plan.trial(ReplaySource(trials.refutation.choices))
    assert isinstance(again, Refuted) and again.refutation.reason == trials.refutation.reason


def test_a_seed_decides_everything(shipped: Knowledge) -> None:
    case = first_case(shipped, "broadcast/implicit.sink")
    first, second = (run_trials(plan_case(case, shipped), 40, seed=3) for _ in range(2))
    assert (first.accepted, first.drawn, first.rejected_by) == (second.accepted, second.drawn, second.rejected_by)
