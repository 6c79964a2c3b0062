"""Conditions that chance hardly meets are met: element types that need not be given, tables, nodes with bodies."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from gerules.dsl.program import Program, load_program, shipped_sources, user_sources
from gerules.egraph.program import Knowledge, knowledge
from gerules.registry import onnx_registry
from gerules.simulate import evaluate_node
from gerules.simulate.kernels.passing import passing_bodies
from gerules.static import known_functions
from gerules.verify.case import cases_of
from gerules.verify.laws import check_law
from gerules.verify.plan import plan_case
from gerules.verify.run import verify_rules
from gerules.verify.trials import run_trials
from gerules.verify.verdict import CaseVerdict


@cache
def shipped() -> tuple[Program, Knowledge]:
    program = load_program(shipped_sources(), onnx_registry(), known_functions())
    return program, knowledge(program)


def test_a_type_that_need_not_be_given_is_the_one_that_a_condition_names() -> None:
    program, known = shipped()
    (case,) = cases_of(known, program.rewrites["compat/onnx_operators.quantize_type_twice"])
    ran = run_trials(plan_case(case, known), 60, 0, most=400)
    assert (ran.accepted, ran.refutation) == (60, None)


# ------------------------------------------------------------------------------------------------------------- tables


def test_a_fact_that_rests_on_a_file_below_another_fact_is_met() -> None:
    program, known = shipped()
    for seed in range(3):
        (verdict,) = check_law(program, known, "fact", "compat/signature.cut_harmless", seed=seed)
        assert verdict.status == "tested" and verdict.drawn <= 20, verdict


def test_what_a_fact_below_binds_is_what_the_conditions_beside_it_speak_of(tmp_path: Path) -> None:
    (tmp_path / "known.csv").write_text("f,k\nAlpha,3\nBeta,5\n")
    text = """
    table listed(f: op, k: int) from "known.csv"
    table of(n: node, f: op)
    table marked(f: op, k: int)
    fact inner: weighs(n, k) when of(n, f), listed(f, k)
    fact outer: picked(n) when marked(f, k), of(n, f), weighs(n, k), k > 3
    """
    assert on_tables(tmp_path, text).status == "tested"


def test_tables_that_no_row_can_meet_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "known.csv").write_text("f,k\nAlpha,3\n")
    text = """
    table listed(f: op, k: int) from "known.csv"
    fact inner: weighs(f, k) when listed(f, k)
    fact outer: picked(f) when weighs(f, k), k > 3
    """
    verdict = on_tables(tmp_path, text)
    assert verdict.status == "unknown" and "it held for none of 120 tables" in verdict.detail


def on_tables(tmp_path: Path, text: str) -> CaseVerdict:
    """The verdict on the fact `outer` of a user's file, whose tables a program fills."""
    path = tmp_path / "mine.rules"
    path.write_text(dedent(text))
    sources = (*shipped_sources(), *user_sources(path))
    tables = ("of", "marked", *(t for t in shipped()[0].tables))
    program = load_program(sources, onnx_registry(), known_functions(), tables)
    (verdict,) = check_law(program, knowledge(program), "fact", "user/mine.outer")
    return verdict


# ------------------------------------------------------------------------------------- operators of another registry

FOREIGN = """opset ai.onnx 21
op ge.Foo(x: T) -> y: T
op ge.Bar(x: T, k: int) -> y: T
rewrite out: Relu(x) => ge.Foo(x)
rewrite sure defines: Relu(x) => ge.Bar(ge.Foo(x), k=2) when x.rank == 2
rewrite both: Relu(x) <=> ge.Foo(x) when x.rank == 2
rewrite inside: ge.Foo(Relu(x)) => ge.Bar(x, k=1) when x.rank == 2, x.shape[0] == 4
fact shaped: y.shape == x.shape when ge.Foo(x) as y
deny nowhere: "{y} stays" when ge.Foo(x) as y, x.rank == 2
"""


def test_what_nothing_computes_is_unknown_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "mine.rules"
    path.write_text(FOREIGN)
    report = verify_rules([path], inline=True, write=False, trials=20)
    assert {d.code for d in report.diagnostics()} == {"GR596"} and not report.failed
    for verdict in report.verdicts:
        assert verdict.status == "unknown" and "ge has no operator" in verdict.detail, verdict


def test_conditions_that_never_hold_are_an_error_whatever_the_right_side_is(tmp_path: Path) -> None:
    path = tmp_path / "mine.rules"
    path.write_text("opset ai.onnx 21\nop ge.Foo(x: T) -> y: T\nrewrite no: Relu(x) => ge.Foo(x) when x.rank < 0\n")
    (found,) = verify_rules([path], inline=True, write=False, trials=2).diagnostics()
    assert found.code == "GR598" and "`x.rank < 0` never held" in found.message


# -------------------------------------------------------------------------------------------------- nodes with bodies


@pytest.mark.parametrize("name", ["scan_lengths", "scan_axes", "scan_results", "scan_backwards"])
def test_conditions_on_a_node_with_a_body_are_met(name: str) -> None:
    program, known = shipped()
    (verdict,) = check_law(program, known, "deny", f"compat/onnx_refusals.{name}")
    assert (verdict.status, verdict.trials >= 10) == ("tested", True), verdict


@pytest.mark.parametrize(
    ("fact", "member"), [("loops", "Loop@1, Loop@11"), ("reworded", "If@11"), ("reworded", "Scan@11")]
)
def test_two_versions_with_bodies_are_compared(fact: str, member: str) -> None:
    program, known = shipped()
    (verdict,) = (v for v in check_law(program, known, "fact", f"compat/onnx.{fact}", trials=20) if v.member == member)
    assert (verdict.status, verdict.detail) == ("tested", "20 instances run at both versions")


def test_a_fact_that_is_wrong_of_nodes_with_bodies_is_refuted(tmp_path: Path) -> None:
    path = tmp_path / "mine.rules"
    path.write_text("opset ai.onnx 21\nfact carried: y.rank == x.rank + 1 when Loop(m, c, x, ..)[0] as y\n")
    program = load_program((*shipped_sources(), *user_sources(path)), onnx_registry(), known_functions())
    (verdict,) = check_law(program, knowledge(program), "fact", "user/mine.carried")
    assert verdict.status == "refuted", verdict


def test_a_deny_on_a_body_whose_conditions_exclude_each_other_is_met_by_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mine.rules"
    when = "Scan@9(scan_input_axes=a, ..) as n, a != none, some(a > 3), all(a < 2)"
    path.write_text(f'opset ai.onnx 21\ndeny no: "{{n}}" when {when}\n')
    program = load_program((*shipped_sources(), *user_sources(path)), onnx_registry(), known_functions())
    (verdict,) = check_law(program, knowledge(program), "deny", "user/mine.no")
    assert verdict.status == "unknown" and "no instance was found" in verdict.detail, verdict


def evaluated(op: str, version: int, attributes: dict[str, Any], operands: list[Any], results: int) -> list[Any]:
    bodies = passing_bodies(op, version, attributes, operands, results)
    return evaluate_node("", op, version, attributes, operands, results, bodies=bodies)


def test_bodies_show_what_the_operator_does_with_what_they_pass_on() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    state = np.float32(7).reshape(())
    turned = {"num_scan_inputs": 1, "scan_input_axes": (1,), "scan_input_directions": (1,)}
    kept, columns = evaluated("Scan", 9, turned, [state, x], 2)
    assert kept == 7 and np.array_equal(columns, x[:, ::-1].T)
    lengths = np.array([1, 2])
    batched = np.stack([x, x])
    (rows,) = evaluated("Scan", 8, {"num_scan_inputs": 1}, [lengths, batched], 1)
    assert np.array_equal(rows, np.stack([np.stack([x[0], 0 * x[1]]), x]))
    three, all_true = np.array(3), np.array(True)
    kept, numbers, states = evaluated("Loop", 11, {}, [three, all_true, x], 3)
    assert np.array_equal(kept, x) and list(numbers) == [0, 1, 2] and np.array_equal(states, [x, x, x])
    kept, numbers = evaluated("Loop", 11, {}, [None, None, x], 2)
    assert np.array_equal(kept, x) and list(numbers) == [0]
    assert evaluated("If", 11, {}, [np.array(True)], 2) == [1, 1]
    assert evaluated("If", 11, {}, [np.array(False)], 1) == [2]
    (elements,) = evaluated("SequenceMap", 17, {}, [[x, state]], 1)
    assert isinstance(elements, list) and np.array_equal(elements[0], x) and elements[1] == 7


def test_nodes_that_cannot_have_such_results_have_no_body() -> None:
    x = np.zeros((2, 3), np.float32)
    assert passing_bodies("Relu", 14, {}, [x], 1) == {}
    for attributes, results in (({"num_scan_inputs": 0}, 1), ({"num_scan_inputs": 3}, 1), ({"num_scan_inputs": 1}, 1)):
        with pytest.raises(ValueError, match="do not give"):
            passing_bodies("Scan", 9, attributes, [x, x], results)
    with pytest.raises(ValueError, match="has a result"):
        passing_bodies("If", 11, {}, [np.array(True)], 0)
