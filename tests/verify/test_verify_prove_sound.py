"""Wrong rules that a prover may fall for, each by another gap: none is proved. Right ones beside them are.

And what a proof rests on: the number of axes that a counterexample needs, and premises that can hold.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gerules.dsl.program import RuleSource, load_program, shipped_sources
from gerules.egraph.program import Knowledge, knowledge
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify.case import Case, cases_of
from gerules.verify.prove import prove, prover
from gerules.verify.prove.bound import Needs, needs
from gerules.verify.prove.prover import enough

DATA = Path(__file__).parent.parent / "data" / "verify"


@cache
def known_with(name: str) -> Knowledge:
    sources = (*shipped_sources(), RuleSource(DATA / f"{name}.rules", f"user/{name}"))
    return knowledge(load_program(sources, onnx_registry(), known_functions()))


def rules_of(name: str) -> list[str]:
    text = (DATA / f"{name}.rules").read_text()
    return [line.split()[1].rstrip(":") for line in text.splitlines() if line.startswith("rewrite ")]


@pytest.mark.parametrize("rule", rules_of("wrong_rules"))
def test_a_wrong_rule_is_not_proved(rule: str) -> None:
    known = known_with("wrong_rules")
    for case in cases_of(known, known.program.rewrites[f"user/wrong_rules.{rule}"]):
        found = prove(case, known)
        assert found.status in ("unknown", "refuted"), found.scope
        assert found.reason


@pytest.mark.parametrize("rule", rules_of("right_rules"))
def test_a_right_rule_is_proved(rule: str) -> None:
    """For all sizes; for all ranks too, but where a view of a view of many axes leaves too many structures."""
    known = known_with("right_rules")
    for case in cases_of(known, known.program.rewrites[f"user/right_rules.{rule}"]):
        found = prove(case, known)
        assert found.all_sizes, found.reason
        assert found.status == ("proved bounded" if rule in SOME_RANKS else "proved"), found.scope


SOME_RANKS = frozenset(
    ("flatten_reshape", "regroup", "regroup_split", "reshape_add", "reshape_concat", "reshape_slice", "matmul_reshape")
)


def case_of(text: str, tmp_path: Path) -> tuple[Knowledge, Case]:
    """The one case of a rule `r` of one's own."""
    path = tmp_path / "own.rules"
    path.write_text("opset ai.onnx 21\n" + text)
    sources = (*shipped_sources(), RuleSource(path, "user/own"))
    known = knowledge(load_program(sources, onnx_registry(), known_functions()))
    (case,) = cases_of(known, known.program.rewrites["user/own.r"])
    return known, case


VACUOUS = {
    "conditions that contradict": "Neg(x) => Abs(x) when all(x.shape >= 3), all(x.shape <= 2), x.rank >= 1",
    "some axis where there is none": "Neg(x) => Abs(x) when some(x.shape >= 0), x.rank == 0",
    "a size that arithmetic makes 0": "Abs(x) => Neg(x) when x.shape == [n], n + n == n",
    "sizes that arithmetic makes 0 or 1": "Neg(x) => Identity(Neg(x)) when x.shape == [n], n * n == n",
}


@pytest.mark.parametrize("name", VACUOUS)
def test_a_rule_that_speaks_of_nothing_is_not_proved(name: str, tmp_path: Path) -> None:
    known, case = case_of(f"rewrite r: {VACUOUS[name]}", tmp_path)
    found = prove(case, known)
    assert found.status == "unknown"
    assert found.reason.startswith("vacuous: ")


def test_sides_that_are_one_term_say_nothing(tmp_path: Path) -> None:
    known, case = case_of("rewrite r: Neg(x) => Abs(x)", tmp_path)
    found = prove(replace(case, right=case.left), known)
    assert (found.status, found.reason) == ("unknown", "vacuous: both sides are the same term")


def test_a_size_that_the_rule_says_is_1_may_be_1(tmp_path: Path) -> None:
    rule = "Squeeze(x, const([0])) as y => Reshape(x, dims(y.shape)) when x.rank == 2, x.shape[1] >= 1"
    known, case = case_of(f"rewrite r: {rule}", tmp_path)
    assert prove(case, known).status == "proved"


BOUNDS = {
    # What is said of axes, and how many a counterexample needs at most.
    "Neg(x) => Abs(x) when all(x.shape == 1)": Needs(0, 0, frozenset(), 0, False),
    "Neg(x) => Abs(x) when some(x.shape == 1)": Needs(0, 1, frozenset(), 0, False),
    "Neg(x) => Abs(x) when 3 <= x.rank": Needs(3, 0, frozenset(), 0, False),
    "Neg(x) => Abs(x) when x.rank > 3, x.shape[-2] == 1": Needs(4, 0, frozenset({-2}), 0, True),
    "Neg(x) => Abs(x) when x.shape == [n, m, 3]": Needs(3, 0, frozenset(), 0, False),
    "Transpose(x, perm=p) => Transpose(x, perm=p[p[p]])": Needs(0, 0, frozenset(), 4, False),
    "ReduceSum(x, const(a)) => x when a.size >= 2": Needs(0, 2, frozenset(), 0, False),
    "Transpose(x, perm=[1, 2, 0]) => x": Needs(3, 0, frozenset({0, 1, 2}), 0, True),
}


@pytest.mark.parametrize("rule", BOUNDS)
def test_what_a_rule_asks_of_ranks(rule: str, tmp_path: Path) -> None:
    _, case = case_of(f"rewrite r: {rule}", tmp_path)
    assert needs(case) == BOUNDS[rule]


def test_a_proof_for_all_ranks_is_checked_one_beyond_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whatever rule: the largest rank tried is the bound that was found last, and one."""
    known = known_with("right_rules")
    bounds: list[int] = []

    def noted(*arguments: Any) -> int:
        bounds.append(enough(*arguments))
        return bounds[-1]

    monkeypatch.setattr(prover, "enough", noted)
    for rule in ("slice_transpose", "tile_tile", "concat_of_split", "reduce_drop", "pad_transpose", "matmul_slice"):
        bounds.clear()
        (case,) = cases_of(known, known.program.rewrites[f"user/right_rules.{rule}"])
        # The proof of another name, so that it is not remembered.
        found = prove(replace(case, rule=f"{case.rule} again"), known)
        assert found.all_ranks
        assert found.scope.startswith(f"all ranks (checked to {max(bounds) + 1})")
