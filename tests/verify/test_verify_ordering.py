"""What is drawn for one operator is drawn such that conditions are hints."""

from __future__ import annotations

from pathlib import Path

from gerules.dsl.program import load_program, shipped_sources, user_sources
from gerules.egraph.program import knowledge
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify.case import cases_of
from gerules.verify.plan import CasePlan
from gerules.verify.trials import plan_case, run_trials


def _plan(tmp_path: Path, rule: str) -> CasePlan:
    path = tmp_path / "mine.rules"
    path.write_text(f"opset ai.onnx 21\nrewrite a: {rule}\n", encoding="utf-8")
    known = knowledge(load_program((*shipped_sources(), *user_sources(path)), onnx_registry(), known_functions()))
    (case,) = cases_of(known, known.program.rewrites["user/mine.a"])
    return plan_case(case, known)


def test_an_end_that_depends_on_the_axes_is_drawn_after_them(tmp_path: Path) -> None:
    rule = "Slice(x, const(s), const(e), const(a)) => x when all(s == 0), all(e >= x.shape[a])"
    ran = run_trials(_plan(tmp_path, rule))
    assert ran.refutation is None
    assert ran.accepted == 200
    assert ran.rate > 0.2


def test_conditions_that_wait_for_each_other_leave_the_order(tmp_path: Path) -> None:
    rule = (
        "Slice(x, const(s), const(e), const(a)) => x when s == e - x.shape[a], e == s + x.shape[a], a >= s, all(s == 0)"
    )
    assert run_trials(_plan(tmp_path, rule), accepted=20).accepted == 20


def test_the_same_draw_gives_the_same_instance(tmp_path: Path) -> None:
    rule = "Slice(x, const(s), const(e), const(a)) => x when all(e >= x.shape[a])"
    first, second = (run_trials(_plan(tmp_path, rule)).refutation for _ in range(2))
    assert first is not None and second is not None
    assert first.choices == second.choices
