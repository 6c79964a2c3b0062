"""Runs of verify: what is kept, what is worked out, what becomes of rules that fail, hang or crash."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from gerules.dsl.program import shipped_sources, user_sources
from gerules.egraph.program import Knowledge
from gerules.errors import Diagnostic, GerulesError, Refused, UsageFault
from gerules.verify.assess import Settings, Tools
from gerules.verify.case import Case
from gerules.verify.registry import NAME, read_verdicts
from gerules.verify.run import Report, Request, sources_of, verify
from gerules.verify.verdict import CaseVerdict, Proof

RULES = """opset ai.onnx 17
class Two = Add | Mul
rewrite good: Relu(Relu(x)) => Relu(x)
rewrite many[f in Two]: f(x, y) => f(y, x)
rewrite ways: Neg(Neg(x)) <=> Identity(Identity(x))
fact law: flops(y) == y.size when Erf(x) as y
"""


@dataclass(frozen=True)
class Ran:
    accepted: int = 200
    drawn: int = 250
    rejected_by: Mapping[str, int] = field(default_factory=dict)
    refutation: Any = None
    never: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shown:
    """What stands for a witness."""

    short: str = "x = [1.0]: 1.0 and 2.0"


def settled(case: Case, known: Knowledge) -> Proof:
    return Proof("proved", "all ranks, all sizes", all_ranks=True, all_sizes=True)


def law(known: Knowledge, kind: str, full: str, settings: Settings) -> list[CaseVerdict]:
    return [CaseVerdict(full, "", "", "tested", f"{settings.trials} sizes", settings.trials, settings.trials)]


def plain(case: Case, known: Knowledge) -> Any:
    return case


def accepts(plan: Any, accepted: int, seed: int) -> Ran:
    return Ran(accepted)


def nowhere(plan: Any) -> tuple[Any, ...]:
    return ()


def shown(plan: Any, found: Any) -> Any:
    return Shown()


def nothing(plan: Any, model: object) -> Any:
    return None


# Functions of this module, so that other processes can have them too.
FINE = Tools(plan=plain, trials=accepts, near=nowhere, witness=shown, prove=settled, replay_model=nothing, law=law)


def run(folder: Path, tools: Tools = FINE, text: str = RULES, **more: Any) -> Report:
    path = folder / "a.rules"
    path.write_text(text)
    request = Request((path,), settings=Settings(trials=20), tools=tools, inline=True)
    return verify(replace(request, **more))


def said(report: Report) -> dict[str, tuple[str, str]]:
    return {o.verdict.rule.rpartition(".")[2]: (o.verdict.status, o.verdict.detail) for o in report.outcomes}


def test_every_rule_has_a_verdict(tmp_path: Path) -> None:
    report = run(tmp_path)
    assert said(report) == {
        "good": ("proved", "all ranks, all sizes"),
        "many": ("proved", "all ranks, all sizes"),
        "ways": ("proved", "all ranks, all sizes"),
        "law": ("tested", "20 sizes"),
    }
    cases = {o.verdict.rule: [c.label for c in o.verdict.cases] for o in report.outcomes}
    assert cases["user/a.many"] == ["user/a.many[Add@14]", "user/a.many[Mul@14]"]
    assert cases["user/a.ways"] == ["user/a.ways>", "user/a.ways<"]
    assert not report.failed and report.diagnostics() == ()
    assert report.homes == (tmp_path / NAME,)


def test_current_verdicts_are_kept(tmp_path: Path) -> None:
    run(tmp_path)
    before = (tmp_path / NAME).read_text()
    report = run(tmp_path, Tools(trials=pytest.fail, law=pytest.fail))  # type: ignore[arg-type]
    assert all(o.current for o in report.outcomes)
    assert [o.verdict.status for o in report.outcomes] == ["proved", "proved", "proved", "tested"]
    assert [len(o.verdict.cases) for o in report.outcomes] == [1, 2, 2, 1]
    assert report.homes == () and (tmp_path / NAME).read_text() == before


def test_only_what_changed_is_worked_out(tmp_path: Path) -> None:
    run(tmp_path)
    report = run(tmp_path, text=RULES.replace("Relu(Relu(x)) =>", "Relu(Abs(x)) =>") + "# a remark\n")
    assert {o.verdict.rule for o in report.outcomes if not o.current} == {"user/a.good"}


def test_a_rule_that_is_gone_leaves_the_registry(tmp_path: Path) -> None:
    run(tmp_path)
    run(tmp_path, text=RULES.replace("rewrite good: Relu(Relu(x)) => Relu(x)\n", ""))
    assert set(read_verdicts(tmp_path / NAME).rules) == {"user/a.many", "user/a.ways", "user/a.law"}


@pytest.mark.parametrize(
    "again", [{"fresh": True}, {"settings": Settings(trials=21)}, {"settings": Settings(trials=20, seed=1)}]
)
def test_what_is_asked_for_anew_is_worked_out(tmp_path: Path, again: dict[str, Any]) -> None:
    run(tmp_path)
    assert not any(o.current for o in run(tmp_path, **again).outcomes)


def test_what_was_not_proved_for_want_of_the_prover_is_proved_later(tmp_path: Path) -> None:
    report = run(tmp_path, settings=Settings(trials=20, prover=False))
    assert said(report)["good"] == ("tested", "20 trials")
    assert said(run(tmp_path))["good"][0] == "proved"
    assert said(run(tmp_path, settings=Settings(trials=20, prover=False)))["good"][0] == "proved"


def only(name: str, ran: Ran) -> Callable[[Any, int, int], Ran]:
    return lambda plan, accepted, seed: ran if plan.rule.endswith("." + name) else Ran(accepted)


def test_a_refuted_rule_fails_the_run_with_its_witness(tmp_path: Path) -> None:
    report = run(tmp_path, replace(FINE, trials=only("good", Ran(3, 4, refutation="it"))))
    assert said(report)["good"] == ("refuted", Shown().short)
    assert report.failed
    [found] = report.diagnostics()
    assert found.code == "GR592" and Shown().short in found.message
    assert found.span is not None and found.span.line == 3
    assert report.outcomes[0].verdict.cases[0].witness == Shown()


def test_one_refuted_member_refutes_the_rule(tmp_path: Path) -> None:
    def trials(plan: Case, accepted: int, seed: int) -> Ran:
        return Ran(1, 1, refutation="it") if plan.member == "Mul@14" else Ran(accepted)

    verdict = said(run(tmp_path, replace(FINE, trials=trials)))["many"]
    assert verdict == ("refuted", f"Mul@14: {Shown().short} (1 of 2 cases)")


def test_a_witness_that_does_not_replay_refutes_nothing(tmp_path: Path) -> None:
    tools = replace(FINE, trials=only("good", Ran(3, 4, refutation="it")), witness=lambda plan, found: None)
    report = run(tmp_path, tools)
    assert said(report)["good"] == ("unknown", "a difference was seen that does not replay")
    assert not report.failed
    assert [(d.code, d.severity) for d in report.diagnostics()] == [("GR596", "warning")]


SUSPECT = replace(FINE, prove=lambda case, known: Proof("refuted", model={"n": 0}))


def test_what_the_prover_suspects_is_replayed(tmp_path: Path) -> None:
    tools = replace(SUSPECT, replay_model=lambda plan, model: "it" if plan.rule.endswith(".good") else None)
    verdicts = said(run(tmp_path, tools))
    assert verdicts["good"] == ("refuted", Shown().short)
    assert verdicts["ways"] == ("tested", "20 trials; no proof: the prover's counterexample does not replay")


def test_a_rule_that_applies_to_nothing_is_an_error(tmp_path: Path) -> None:
    report = run(tmp_path, replace(FINE, trials=only("good", Ran(0, 500, never=("x.rank == -1",)))))
    [found] = report.diagnostics()
    assert found.code == "GR598" and "`x.rank == -1` never held in 500 draws" in found.message
    assert report.failed and said(report)["good"][0] == "unknown"


def test_draws_that_nothing_computes_say_nothing_of_a_rule(tmp_path: Path) -> None:
    seen = {"not computed: Gradient at opset 1 cannot be simulated": 3, "x.rank == 1": 497}
    report = run(tmp_path, replace(FINE, trials=only("good", Ran(0, 500, seen, never=tuple(seen)))))
    assert said(report)["good"] == ("unknown", next(iter(seen)))
    assert [d.code for d in report.diagnostics()] == ["GR596"] and not report.failed


def test_a_member_without_instances_says_nothing_of_the_others(tmp_path: Path) -> None:
    def trials(plan: Case, accepted: int, seed: int) -> Ran:
        return Ran(0, 500) if plan.member == "Mul@14" else Ran(accepted)

    report = run(tmp_path, replace(FINE, trials=trials))
    assert said(report)["many"] == ("proved", "all ranks, all sizes (1 of 2 cases)")
    assert not report.failed


def broken(case: Case, known: Knowledge) -> Any:
    if case.rule.endswith(".good"):
        raise GerulesError(Diagnostic("GR581", "nothing of this kind can be drawn"))
    if case.rule.endswith(".ways"):
        raise ZeroDivisionError("by zero")
    return case


def test_a_rule_that_cannot_be_drawn_is_unknown_and_the_next_goes_on(tmp_path: Path) -> None:
    verdicts = said(run(tmp_path, replace(FINE, plan=broken)))
    assert verdicts["good"] == ("unknown", "nothing of this kind can be drawn (GR581)")
    assert verdicts["ways"][0] == "unknown" and "ZeroDivisionError" in verdicts["ways"][1]
    assert verdicts["many"][0] == "proved"


def test_a_refutation_stands_until_the_rule_changes(tmp_path: Path) -> None:
    run(tmp_path, replace(FINE, trials=only("good", Ran(3, 4, refutation="it"))))
    assert said(run(tmp_path))["good"] == ("refuted", Shown().short)
    assert said(run(tmp_path, fresh=True))["good"][0] == "proved"


def test_rules_are_chosen_by_name(tmp_path: Path) -> None:
    assert set(said(run(tmp_path, rule="good"))) == {"good"}
    assert set(said(run(tmp_path, rule="user/a.many"))) == {"many"}
    assert set(said(run(tmp_path, rule="*.w*"))) == {"ways"}
    assert len(said(run(tmp_path, rule="user/a"))) == 4
    with pytest.raises(UsageFault) as raised:
        run(tmp_path, rule="god")
    assert raised.value.diagnostics[0].code == "GR595" and "good" in (raised.value.diagnostics[0].hint or "")


def test_one_rule_leaves_the_other_verdicts_alone(tmp_path: Path) -> None:
    run(tmp_path)
    run(tmp_path, rule="good", fresh=True)
    assert len(read_verdicts(tmp_path / NAME).rules) == 4


def test_comparing_writes_nothing_and_names_what_differs(tmp_path: Path) -> None:
    run(tmp_path)
    before = (tmp_path / NAME).read_text()
    same = run(tmp_path, compare=True, fresh=True, write=False)
    assert same.differences == () and not same.failed
    other = run(tmp_path, replace(FINE, trials=only("good", Ran(19))), compare=True, fresh=True, write=False)
    assert other.differences == ("user/a.good: the verdicts on its members differ",)
    assert other.failed and other.diagnostics()[-1].code == "GR597"
    assert (tmp_path / NAME).read_text() == before


def test_what_is_wrong_with_the_files_is_said_as_always(tmp_path: Path) -> None:
    with pytest.raises(GerulesError) as raised:
        run(tmp_path, text="opset ai.onnx 17\nrewrite r: Relu(x) => y\n")
    assert raised.value.diagnostics[0].code == "GR140"
    with pytest.raises(GerulesError) as raised:
        verify(Request((tmp_path / "none.rules",)))
    assert raised.value.diagnostics[0].code == "GR115"


def test_progress_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.rules"
    path.write_text(RULES)
    seen: list[tuple[int, int, str]] = []
    verify(Request((path,), tools=FINE, inline=True), lambda *news: seen.append(news))
    assert [news[:2] for news in seen] == [(1, 6), (3, 6), (5, 6), (6, 6)]


# -------------------------------------------------------------------------------------------- processes of their own


def hang(case: Case, known: Knowledge) -> Any:
    if case.rule.endswith(".good") or case.member == "Mul@14":
        time.sleep(600)
    return case


def crash(case: Case, known: Knowledge) -> Any:
    if case.rule.endswith(".good"):
        os._exit(11)
    return case


def leave(case: Case, known: Knowledge) -> Any:
    if case.rule.endswith(".good"):
        raise SystemExit
    return case


def panic(case: Case, known: Knowledge) -> Any:
    if case.rule.endswith(".good"):
        raise BaseException("as Rust does")
    return case


def test_a_rule_that_hangs_is_unknown_and_the_next_goes_on(tmp_path: Path) -> None:
    report = run(tmp_path, replace(FINE, plan=hang), inline=False, seconds=1.0)
    verdicts = said(report)
    assert verdicts["good"] == ("unknown", "not through within 1 seconds")
    assert verdicts["many"] == ("unknown", "Mul@14: not through within 1 seconds (1 of 2 cases)")
    assert verdicts["ways"][0] == "proved" and verdicts["law"][0] == "tested"
    # It is looked at again, as the machine was at fault, perhaps.
    assert {o.verdict.rule for o in run(tmp_path).outcomes if not o.current} == {"user/a.good", "user/a.many"}


@pytest.mark.parametrize("plan", [crash, leave, panic])
def test_a_rule_that_crashes_is_unknown_and_the_next_goes_on(
    plan: Callable[[Case, Knowledge], Any], tmp_path: Path
) -> None:
    verdicts = said(run(tmp_path, replace(FINE, plan=plan), inline=False))
    assert verdicts["good"] == ("unknown", "its process died")
    assert [verdicts[n][0] for n in ("many", "ways", "law")] == ["proved", "proved", "tested"]


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_the_number_of_processes_changes_nothing(jobs: int, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    run(there, inline=False, jobs=jobs)
    data = json.loads((there / NAME).read_text())
    assert [g["members"] for g in data["rules"]["user/a.many"]["cases"]] == [["Add@14", "Mul@14"]]
    run(here)
    assert read_verdicts(here / NAME).differences(read_verdicts(there / NAME)) == []


def test_the_e_graph_runs_in_other_processes(tmp_path: Path) -> None:
    """Laws of rules over tables run it: a copy of this process would wait for its threads for ever."""
    (signature,) = [s.path for s in shipped_sources() if s.ruleset == "compat/signature"]
    settings = Settings(trials=5, prover=False)
    request = Request((signature,), rule="larger", seconds=60, settings=settings, verdicts=tmp_path / NAME)
    (outcome,) = verify(request).outcomes
    assert outcome.verdict.status == "tested"


def test_a_refusal_inside_of_a_rule_is_its_reason(tmp_path: Path) -> None:
    def refuse(case: Case, known: Knowledge) -> Any:
        raise Refused(Diagnostic("GR403", "there is no kernel"))

    assert said(run(tmp_path, replace(FINE, plan=refuse)))["good"] == ("unknown", "there is no kernel (GR403)")


def test_naming_a_file_or_its_folder_loads_the_same() -> None:
    shipped = shipped_sources()
    folder = user_sources(shipped[0].path.parent)
    for given in ([], folder, folder[:1], list(reversed(shipped))):
        assert [s.path for s in sources_of(given)] == [s.path for s in shipped]
