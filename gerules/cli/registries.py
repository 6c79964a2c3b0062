"""`registry import`, `diff` and `recover`: from flags to calls, from reports to text."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from gerules.cli.commands import progress
from gerules.errors import Exit

if TYPE_CHECKING:
    from gerules.pipeline.diffing import Diff, OperatorDiff
    from gerules.pipeline.recovering import Recovery

SHOWN = 200
"""Operators that a table for people lists at most."""


def run_import(flags: Mapping[str, Any]) -> int:
    from gerules.partition.output import check_destination, write_file
    from gerules.registry.headers import read_headers
    from gerules.registry.json_format import write_release
    from gerules.report import print_diagnostics, to_json

    output = flags["output"]
    check_destination(output, force=flags["force"], keep=flags["headers"])
    with progress() as told:
        told("reading headers")
        found = read_headers(flags["headers"])
        write_file(output, write_release(found.release).encode(), force=flags["force"], keep=flags["headers"])
    count = len(found.release.operators)
    if flags["as_json"]:
        data = {"command": "registry import", "output": str(output), "headers": found.files, "operators": count}
        click.echo(json.dumps({**data, "diagnostics": to_json(found.warnings)}, indent=1))
        return int(Exit.DONE)
    print_diagnostics(found.warnings, sys.stderr)
    warned = f", {len(found.warnings)} warnings" if found.warnings else ""
    click.echo(f"{output}: {count} operators of {found.files} headers{warned}")
    return int(Exit.DONE)


def run_diff(flags: Mapping[str, Any]) -> int:
    from gerules.pipeline.diffing import diff_registries

    with progress() as told:
        told("comparing")
        diff = diff_registries(flags["built"], flags["runtime"], flags["policy"], flags["rules"])
    if flags["as_json"]:
        click.echo(json.dumps(diff.data(), indent=1))
    elif flags["as_csv"]:
        click.echo(_csv(diff), nl=False)
    else:
        _print_diff(diff)
    return int(Exit.DONE)


def _csv(diff: Diff) -> str:
    """One line an operator."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["operator", "class", "default_changed", "type_changed", "required_changed", "refused", "rule", "reason",
         "changes", "refusals"]
    )  # fmt: skip
    for name, operator in diff.operators.items():
        data = operator.data()
        changed = [str(data[f"{what}_changed"]).lower() for what in ("default", "type", "required")]
        writer.writerow(
            [name, operator.class_, *changed, str(data["refused"]).lower(), operator.rule, operator.reason,
             "; ".join(c.text for c in operator.changes), "; ".join(operator.refusals)]
        )  # fmt: skip
    return text.getvalue()


def _print_diff(diff: Diff) -> None:
    """The operators that are not the same, the classes, and what the policy makes of it."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    shown = [o for o in diff.operators.values() if o.class_ not in ("none", "missing") or o.changes]
    if shown:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("operator", "class", "why", f"policy {diff.policy}"):
            table.add_column(column, overflow="fold")
        for operator in shown[:SHOWN]:
            why = "; ".join([operator.reason, *(c.text for c in operator.changes)])
            table.add_row(operator.name, operator.class_, why, _said(operator))
        console.print(table)
        if len(shown) > SHOWN:
            console.print(f"and {len(shown) - SHOWN} more (--csv lists all)")
        console.print()
    summary = Table(box=None, pad_edge=False, show_header=False)
    for name, count in diff.counts.items():
        if count:
            summary.add_row(name, str(count))
    console.print(f"{diff.built} -> {diff.runtime}: {len(diff.operators)} operators, {len(diff.added)} new at run time")
    console.print(summary)
    console.print(f"policy {diff.policy} refuses {len(diff.refused)} of them, taken as nodes that set what is required")


def _said(operator: OperatorDiff) -> str:
    if operator.refusals:
        return f"refused: {operator.refusals[0]}"
    if operator.rule:
        return f"by the rule {operator.rule}"
    if operator.written:
        return f"writes {', '.join(operator.written)}"
    return "accepted, with a warning" if operator.warnings else "accepted"


def run_recover(flags: Mapping[str, Any]) -> int:
    from gerules.pipeline.recovering import recover_model
    from gerules.report import print_diagnostics, to_json

    with progress() as told:
        report = recover_model(
            flags["model"],
            flags["output"],
            flags["built"],
            flags["runtime"],
            flags["policy"],
            rules=flags["rules"],
            force=flags["force"],
            progress=told,
        )
    status = Exit.REFUSED if report.refusals else Exit.DONE
    if flags["as_json"]:
        data = report.data()
        if report.refusals:
            data["diagnostics"] = to_json(report.refusals)
        click.echo(json.dumps(data, indent=1))
        return int(status)
    print_diagnostics([*report.refusals, *report.warnings], sys.stderr)
    click.echo(_recovery(report))
    return int(status)


def _recovery(report: Recovery) -> str:
    """What was done, in a few lines."""
    counts = ", ".join(f"{name} {count}" for name, count in report.strategies.items()) or "none"
    rows = [
        ("output", "nothing was written" if report.refusals else report.output),
        ("releases", f"{report.built} -> {report.runtime}, policy {report.policy}"),
        ("nodes", f"{report.nodes}: {counts}" if report.nodes else "0"),
    ]
    if report.refusals:
        rows.append(("refused", f"{len(report.refusals)} refusals, listed above"))
    if report.written:
        rows.append(("defaults", f"written out on {len(report.written)} nodes"))
    if report.rules:
        rows.append(("rules", ", ".join(f"{name} {count}" for name, count in report.rules.items())))
    if report.unregistered:
        rows.append(("unknown", f"left alone: {', '.join(report.unregistered)}"))
    if not report.refusals:
        rows.append(("verdict", report.validation))
    rows += [("note", note) for note in report.notes]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)
