"""Comparisons of whole numbers that a rule knows are proved; those that do not follow are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from gerules.dsl.program import load_program, shipped_sources, user_sources
from gerules.egraph.program import Knowledge, knowledge
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify.case import cases_of
from gerules.verify.prove import prove

RULES = """
rewrite above: Greater(dim(a), dim(b)) => const(true, dtype=bool) when a > b
rewrite at_least: GreaterOrEqual(dim(a), dim(b)) => const(true, dtype=bool) when a > b
rewrite not_below: Less(dim(a), dim(b)) => const(false, dtype=bool) when a == b
rewrite other: Equal(dim(a), dim(b)) => const(false, dtype=bool) when a < b
rewrite above_if_equal: Greater(dim(a), dim(b)) => const(true, dtype=bool) when a >= b
rewrite below_if_above: LessOrEqual(dim(a), dim(b)) => const(true, dtype=bool) when a >= b
rewrite equal_if_at_most: Equal(dim(a), dim(b)) => const(true, dtype=bool) when a <= b
"""


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Knowledge:
    path = Path(tmp_path_factory.mktemp("rules")) / "mine.rules"
    path.write_text(f"opset ai.onnx 21\n{RULES}", encoding="utf-8")
    return knowledge(load_program((*shipped_sources(), *user_sources(path)), onnx_registry(), known_functions()))


def _status(known: Knowledge, rule: str) -> str:
    (case,) = cases_of(known, known.program.rewrites[rule])
    return prove(case, known).status


@pytest.mark.parametrize("rule", ["above", "at_least", "not_below", "other"])
def test_what_follows_is_proved(known: Knowledge, rule: str) -> None:
    assert _status(known, f"user/mine.{rule}") == "proved"


@pytest.mark.parametrize("rule", ["above_if_equal", "below_if_above", "equal_if_at_most"])
def test_what_does_not_follow_is_not(known: Knowledge, rule: str) -> None:
    assert _status(known, f"user/mine.{rule}") in ("unknown", "refuted")


@pytest.mark.parametrize("rule", ["equal_extents", "other_extents", "greater_extents", "not_less_extents"])
def test_answers_about_extents_are_proved(known: Knowledge, rule: str) -> None:
    assert _status(known, f"shape/dims.{rule}") == "proved"
