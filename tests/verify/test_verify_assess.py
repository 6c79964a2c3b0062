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


@pytest.mark.parametrize("rule", ["algebra/slice.slice_slice_empty", "algebra/concat.concat_slices"])
def test_examples_show_where_instances_are(known: Knowledge, rule: str) -> None:
    (case,) = cases_of(known, known.program.rewrites[rule])
    settings = Settings(prover=False)
    verdict = assess_case(case, known, settings, Tools())
    assert verdict.status == "tested"
    blind = assess_case(case, known, settings, Tools(near=lambda plan: ()))
    assert blind.trials < verdict.trials
