"""Conditions that chance hardly meets are met: element types that need not be given, tables, nodes with bodies."""

from __future__ import annotations

from functools import cache

from gerules.dsl.program import Program, load_program, shipped_sources
from gerules.egraph.program import Knowledge, knowledge
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify.case import cases_of
from gerules.verify.plan import plan_case
from gerules.verify.trials import run_trials


@cache
def shipped() -> tuple[Program, Knowledge]:
    program = load_program(shipped_sources(), onnx_registry(), known_functions())
    return program, knowledge(program)


def test_a_type_that_need_not_be_given_is_the_one_that_a_condition_names() -> None:
    program, known = shipped()
    (case,) = cases_of(known, program.rewrites["compat/onnx_operators.quantize_type_twice"])
    ran = run_trials(plan_case(case, known), 60, 0, most=400)
    assert (ran.accepted, ran.refutation) == (60, None)
