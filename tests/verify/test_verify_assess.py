"""Where instances are rare they are drawn near the rule's own examples."""

from __future__ import annotations

import pytest

from gerules.dsl.program import load_program, shipped_sources
from gerules.egraph.program import Knowledge, knowledge
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify.assess import Settings, Tools, assess_case
from gerules.verify.case import cases_of


@pytest.fixture(scope="module")
def known() -> Knowledge:
    return knowledge(load_program(shipped_sources(), onnx_registry(), known_functions()))


def test_examples_show_where_instances_are(known: Knowledge) -> None:
    (case,) = cases_of(known, known.program.rewrites["algebra/concat.concat_slices"])
    settings = Settings(trials=10, prover=False)
    near = assess_case(case, known, settings, Tools())
    blind = assess_case(case, known, settings, Tools(near=lambda plan: ()))
    assert near.status == "tested" and blind.trials < near.trials <= 10 and blind.drawn < near.drawn


def test_where_there_are_enough_they_are_not_asked(known: Knowledge) -> None:
    (case,) = cases_of(known, known.program.rewrites["algebra/slice.slice_all"])
    verdict = assess_case(case, known, Settings(trials=10, prover=False), Tools(near=pytest.fail))  # type: ignore[arg-type]
    assert (verdict.status, verdict.trials) == ("tested", 10)
