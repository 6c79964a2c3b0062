"""What `verify` found, as a table, as data, and for build servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    from gerules.verify.mutating import MutationReport
    from gerules.verify.run import Outcome, Report
    from gerules.verify.verdict import CaseVerdict

SHOWN_MEMBERS = 6
EXACT = "bitwise"
"""What the exactness of a rule without a word is called."""


def render_verdicts(report: Report) -> str:
    """A line a rule, under it the members with another verdict; counts at the end."""
    rows = [("rule", "verdict", "exactness", "cases", "trials", "accepted", "seconds", "")]
    notes: dict[int, list[str]] = {}
    for outcome in report.outcomes:
        verdict = outcome.verdict
        rows.append(
            (
                verdict.rule,
                verdict.status,
                exactness(outcome),
                str(len(verdict.cases)),
                str(outcome.trials),
                f"{outcome.trials / outcome.drawn:.0%}" if outcome.drawn else "-",
                f"{verdict.seconds:.2f}",
                verdict.detail,
            )
        )
        notes[len(rows) - 1] = _members(outcome)
    widths = [max(len(row[k]) for row in rows) for k in range(7)]
    lines = []
    for place, row in enumerate(rows):
        cells = [f"{c:<{w}}" if k < 3 else f"{c:>{w}}" for k, (c, w) in enumerate(zip(row[:7], widths, strict=True))]
        lines.append("  ".join([*cells, row[7]]).rstrip())
        lines += [f"    {note}" for note in notes.get(place, ())]
    return "\n".join([*lines, *summary(report)])


def exactness(outcome: Outcome) -> str:
    if outcome.verdict.kind != "rewrite":
        return "-"
    return outcome.verdict.exactness or EXACT


def _members(outcome: Outcome) -> list[str]:
    """Members by verdict, where there is more than one."""
    groups: dict[tuple[str, str], list[CaseVerdict]] = {}
    for case in outcome.verdict.cases:
        groups.setdefault((case.status, case.detail), []).append(case)
    if len(groups) < 2:
        return []
    by_status: dict[str, list[tuple[str, list[CaseVerdict]]]] = {}
    for (status, detail), cases in groups.items():
        by_status.setdefault(status, []).append((detail, cases))
    lines = []
    for status, found in by_status.items():
        members = [c for _, cases in found for c in cases]
        detail = found[0][0] if len(found) == 1 else f"{found[0][0]}, and others"
        lines.append(f"{status}: {_names(members)}: {detail}" if len(by_status) > 1 else f"{_names(members)}")
    return lines if len(by_status) > 1 else []


def _names(cases: Sequence[CaseVerdict]) -> str:
    shown = [_place(c) for c in cases[:SHOWN_MEMBERS]]
    more = len(cases) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _place(case: CaseVerdict) -> str:
    way = {">": " (forwards)", "<": " (backwards)"}.get(case.direction, "")
    return (case.member + way).strip() or "the rule"


def summary(report: Report) -> list[str]:
    """How many of each verdict, by kind; what was done; what else there is to know."""
    counts: dict[str, dict[str, int]] = {}
    for outcome in report.outcomes:
        by_status = counts.setdefault(outcome.verdict.kind, {})
        by_status[outcome.verdict.status] = by_status.get(outcome.verdict.status, 0) + 1
    lines = []
    for kind, by_status in counts.items():
        count = sum(by_status.values())
        said = ", ".join(f"{n} {s}" for s, n in sorted(by_status.items()))
        lines.append(f"{count} {kind}{'s' if count != 1 else ''}: {said}")
    fresh = sum(not o.current for o in report.outcomes)
    lines.append(
        f"{fresh} verified now, {len(report.outcomes) - fresh} verdicts were current; {report.seconds:.1f} seconds"
    )
    lines += [f"note: {note}" for note in report.notes]
    lines += [f"written: {home}" for home in report.homes]
    return lines


def verdict_data(report: Report) -> dict[str, Any]:
    """The report as plain data (docs/verify.schema.json)."""
    from gerules.report import to_json

    counts: dict[str, int] = {}
    for outcome in report.outcomes:
        counts[outcome.verdict.status] = counts.get(outcome.verdict.status, 0) + 1
    return {
        "command": "verify",
        "rules": [_rule_data(o) for o in report.outcomes],
        "counts": dict(sorted(counts.items())),
        "notes": list(report.notes),
        "written": [str(home) for home in report.homes],
        "differences": list(report.differences),
        "diagnostics": to_json(report.diagnostics()),
        "seconds": round(report.seconds, 3),
    }


def _rule_data(outcome: Outcome) -> dict[str, Any]:
    verdict, span = outcome.verdict, outcome.entry.statement.span
    return {
        "rule": verdict.rule,
        "kind": verdict.kind,
        "exactness": exactness(outcome),
        "verdict": verdict.status,
        "detail": verdict.detail,
        "file": span.file,
        "line": span.line,
        "key": verdict.key,
        "current": outcome.current,
        "trials": outcome.trials,
        "drawn": outcome.drawn,
        "seconds": round(verdict.seconds, 3),
        "cases": [_case_data(c) for c in verdict.cases],
    }


def _case_data(case: CaseVerdict) -> dict[str, Any]:
    data: dict[str, Any] = {
        "case": case.label,
        "member": case.member,
        "direction": {">": "forwards", "<": "backwards"}.get(case.direction, ""),
        "verdict": case.status,
        "detail": case.detail,
        "trials": case.trials,
        "drawn": case.drawn,
        "all_ranks": case.all_ranks,
        "all_sizes": case.all_sizes,
        "seconds": round(case.seconds, 4),
    }
    if case.witness is not None:
        from gerules.verify.witness import to_json

        data["witness"] = to_json(case.witness)
    return data


def render_mutation(report: MutationReport) -> str:
    """A line a rule: mutants killed, proved equivalent, and left; the score of all."""
    rows: list[tuple[str, ...]] = [("rule", "score", "mutants", "killed", "equivalent", "survivors", "seconds")]
    for result in report.results:
        counts = (len(result.verdicts), len(result.killed), len(result.equivalent), len(result.survivors))
        rows.append((result.rule, f"{result.score:.0%}", *map(str, counts), f"{result.seconds:.2f}"))
    widths = [max(len(row[k]) for row in rows) for k in range(7)]
    lines = [
        "  ".join(f"{c:<{w}}" if k == 0 else f"{c:>{w}}" for k, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]
    mutants = sum(len(r.verdicts) for r in report.results)
    killed, equivalent = (sum(len(getattr(r, n)) for r in report.results) for n in ("killed", "equivalent"))
    lines.append(
        f"score {report.score:.1%}: of {mutants} mutants of {len(report.results)} rules {killed} refuted, "
        f"{equivalent} proved equivalent, {mutants - killed - equivalent} left; {report.seconds:.1f} seconds"
    )
    untried = [f"{r.rule} is not mutated: {r.untried}" for r in report.results if r.untried]
    return "\n".join([*lines, *untried, *(f"note: {note}" for note in report.notes)])


def mutation_data(report: MutationReport) -> dict[str, Any]:
    """The report of a mutation as plain data."""
    from gerules.report import to_json

    return {
        "command": "verify --mutate",
        "score": report.score,
        "rules": [
            {
                "rule": result.rule,
                "score": result.score,
                "killed": len(result.killed),
                "equivalent": len(result.equivalent),
                "survivors": len(result.survivors),
                "mutants": [
                    {"mutant": v.mutant.label, "what": v.mutant.what, "fate": v.fate, "how": v.how}
                    for v in result.verdicts
                ],
                "untried": result.untried,
                "seconds": round(result.seconds, 3),
            }
            for result in report.results
        ],
        "notes": list(report.notes),
        "diagnostics": to_json(report.diagnostics()),
        "seconds": round(report.seconds, 3),
    }


def junit(report: Report) -> bytes:
    """The report as JUnit XML: a suite a ruleset, a test a rule. Refuted and never applied are failures, unknown is
    skipped."""
    suites: dict[str, list[Outcome]] = {}
    for outcome in report.outcomes:
        suites.setdefault(outcome.entry.ruleset, []).append(outcome)
    root = ElementTree.Element("testsuites", {"name": "gerules verify"})
    totals = {"tests": 0, "failures": 0, "skipped": 0}
    for ruleset, outcomes in suites.items():
        suite = ElementTree.SubElement(root, "testsuite", {"name": ruleset})
        counts = {"tests": len(outcomes), "failures": 0, "skipped": 0}
        for outcome in outcomes:
            failed = _junit_case(suite, ruleset, outcome)
            if failed:
                counts[failed] += 1
        seconds = sum(o.verdict.seconds for o in outcomes)
        suite.attrib.update({k: str(v) for k, v in counts.items()} | {"errors": "0", "time": f"{seconds:.3f}"})
        for name, count in counts.items():
            totals[name] += count
    root.attrib.update({k: str(v) for k, v in totals.items()} | {"errors": "0", "time": f"{report.seconds:.3f}"})
    ElementTree.indent(root)
    data: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return data + b"\n"


def _junit_case(suite: ElementTree.Element, ruleset: str, outcome: Outcome) -> str:
    verdict, span = outcome.verdict, outcome.entry.statement.span
    fields = {
        "classname": ruleset,
        "name": f"{verdict.kind} {verdict.rule.rpartition('.')[2]}",
        "time": f"{verdict.seconds:.3f}",
        "file": span.file,
        "line": str(span.line),
    }
    case = ElementTree.SubElement(suite, "testcase", {k: _xml(v) for k, v in fields.items()})
    if verdict.status == "refuted" or not outcome.met:
        kind = "refuted" if verdict.status == "refuted" else "never"
        failure = ElementTree.SubElement(case, "failure", {"type": kind, "message": _xml(verdict.detail)})
        failure.text = _xml(f"{span}\n" + "\n".join(witness_texts(outcome)))
        return "failures"
    if verdict.status == "unknown":
        ElementTree.SubElement(case, "skipped", {"message": _xml(verdict.detail)})
        return "skipped"
    ElementTree.SubElement(case, "system-out").text = _xml(f"{verdict.status}: {verdict.detail}")
    return ""


def witness_texts(outcome: Outcome) -> list[str]:
    """The instances that refute a rule, as they are printed."""
    from gerules.verify.witness import describe

    return [describe(c.witness) for c in outcome.verdict.cases if c.witness is not None]


def _xml(text: str) -> str:
    """Without characters that XML does not have."""
    return "".join(c if c in "\t\n\r" or (" " <= c < "\ufffe" and not "\ud800" <= c < "\ue000") else "?" for c in text)
