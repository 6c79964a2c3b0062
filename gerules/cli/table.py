"""Reports as a few lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gerules.pipeline.checking import Checked
    from gerules.pipeline.report import CostReport, Report

SHOWN_RULES = 8


def render_report(report: Report) -> str:
    """Nodes, cost, partitions, what fired, the verdict; what else the user should know."""
    rows = [("output", report.output), ("nodes", _from_to(report.nodes_before, report.nodes_after))]
    if report.cost is not None:
        rows += _cost_rows(report.cost)
    if report.partitions:
        count = sum(report.partitions.values())
        rows.append(("partitions", f"{count}: {', '.join(f'{e} {n}' for e, n in report.partitions.items())}"))
    if report.command != "partition":
        rows.append(("rules", _fired(report)))
    rows.append(("verdict", report.verdict.text))
    if report.stopped:
        rows.append(("stopped", f"by a limit ({report.stopped}); this is the best found until then"))
    if report.unproved:
        rows.append(("unproved", _unproved(report.unproved)))
    rows += [("note", note) for note in (*report.notes, *report.verdict.notes)]
    if "total" in report.seconds:
        rows.append(("seconds", f"{report.seconds['total']:.2f}"))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def _unproved(rules: Sequence[str]) -> str:
    """Rules that took part and are not proved, the first of them by name."""
    shown = ", ".join(rules[:SHOWN_RULES])
    rest = len(rules) - SHOWN_RULES
    count = f"{len(rules)} rule{'s' if len(rules) > 1 else ''} that took part {'are' if len(rules) > 1 else 'is'}"
    return f"{count} not proved: {shown}" + (f", and {rest} more" if rest > 0 else "")


def _from_to(before: int, after: int) -> str:
    return str(before) if before == after else f"{before} -> {after}"


def _cost_rows(cost: CostReport) -> list[tuple[str, str]]:
    gap = f"at most {cost.gap:.1%} from the best possible" if cost.gap > 0 else "the best possible"
    if cost.components[0] == "seconds":
        before = "no engine takes all of it" if cost.before[0] == float("inf") else _seconds(cost.before[0])
        moved = _seconds(cost.after[0]) if cost.before == cost.after else f"{before} -> {_seconds(cost.after[0])}"
        return [("cost", f"{moved} ({gap} of what the rules reach; {cost.method})")]
    rows = [
        (name, f"{b:.6g}" if b == a else f"{b:.6g} -> {a:.6g}")
        for name, b, a in zip(cost.components[:-1], cost.before[:-1], cost.after[:-1], strict=True)
    ]
    return rows


def _seconds(value: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if value * factor >= 1:
            return f"{value * factor:.4g} {unit}"
    return f"{value * 1e9:.4g} ns"


def _fired(report: Report) -> str:
    if not report.fired:
        return "none fired"
    by_count = sorted(report.fired.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{name} {count}" for name, count in by_count[:SHOWN_RULES])
    rest = len(by_count) - SHOWN_RULES
    return shown + (f", and {rest} more" if rest > 0 else "")


def render_check(checked: Checked) -> str:
    """One line: how many files, rules and examples, and what was wrong."""
    from gerules.report import summary

    examples = f"{checked.examples} examples" if checked.ran else "examples not run"
    said = summary(checked.diagnostics) or "no errors"
    return f"{checked.files} files, {checked.rules} rules, {examples}: {said}"
