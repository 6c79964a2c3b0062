"""Conditions that chance hardly meets are met: element types that need not be given, tables, nodes with bodies."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from textwrap import dedent

from gerules.dsl.program import Program, load_program, shipped_sources, user_sources
from gerules.egraph.program import Knowledge, knowledge
from gerules.registry import onnx_registry
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
