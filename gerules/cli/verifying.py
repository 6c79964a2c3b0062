"""`gerules verify`: from flags to a run, from its report to text, files and a status."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gerules.errors import Diagnostic, Exit, UsageFault

if TYPE_CHECKING:
    from gerules.verify.run import Report, Watch


def run_verify(flags: Mapping[str, Any]) -> int:
    """`gerules verify` in all its forms."""
    _fit_together(flags)
    if flags["replay"] is not None:
        return _replay(flags)
    if not flags["paths"]:
        hint = "name rule files or folders, as `gerules verify my.rules`"
        raise UsageFault(Diagnostic("GR707", "verify needs a PATH", hint=hint))
    if flags["seconds"] is not None and not isfinite(flags["seconds"]):
        raise UsageFault(
            Diagnostic("GR706", f"--seconds {flags['seconds']}: this is no time", hint="as `--seconds 20`")
        )
    if flags["mutate"]:
        return _mutate(flags)
    return _verify(flags)


ALONE: Mapping[str, tuple[str, ...]] = {
    "replay": ("paths", "rule", "seconds", "fresh", "compare", "verdicts", "witness", "junit", "mutate", "github"),
    "mutate": ("fresh", "compare", "verdicts", "witness", "junit"),
}
"""Flags that say nothing beside another."""


def _fit_together(flags: Mapping[str, Any]) -> None:
    """Raises UsageFault (GR708) for flags that would be passed over."""
    for main, others in ALONE.items():
        idle = ["PATH" if name == "paths" else f"--{name}" for name in others if flags[name]]
        if flags[main] and idle:
            hint = f"leave out {', '.join(idle)}, or --{main}"
            raise UsageFault(Diagnostic("GR708", f"--{main} knows no {', '.join(idle)}", hint=hint))


@contextmanager
def watching(what: str) -> Iterator[Watch]:
    """A bar on the terminal; nothing where standard error is none."""
    if not sys.stderr.isatty():
        yield lambda done, count, rule: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading the rules", total=None)
        yield lambda done, count, rule: bar.update(task, completed=done, total=count, description=rule)


def _verify(flags: Mapping[str, Any]) -> int:
    from gerules.verify.run import verify_rules

    with watching("verifying") as watch:
        report = verify_rules(
            flags["paths"],
            rule=flags["rule"],
            seconds=flags["seconds"],
            trials=flags["trials"],
            seed=flags["seed"],
            jobs=flags["jobs"],
            fresh=flags["fresh"],
            compare=flags["compare"],
            verdicts=flags["verdicts"],
            watch=watch,
        )
    saved, unsaved = _save_witnesses(report, flags)
    if flags["junit"] is not None:
        unsaved += _write_junit(report, flags["junit"])
    _tell(report, saved, unsaved, flags)
    if report.failed:
        return int(Exit.REFUSED)
    return int(Exit.USAGE if unsaved or report.unwritten else Exit.DONE)


def _tell(report: Report, saved: list[Path], unsaved: list[Diagnostic], flags: Mapping[str, Any]) -> None:
    from gerules.cli.verdicts import render_verdicts, verdict_data, witness_texts
    from gerules.report import print_diagnostics, to_github, to_json

    if flags["as_json"]:
        data = verdict_data(report) | {"witnesses": [str(path) for path in saved]}
        data["diagnostics"] += to_json(unsaved)
        click.echo(json.dumps(data, indent=1, ensure_ascii=False))
        return
    found = [*report.diagnostics(), *unsaved]
    if flags["github"]:
        click.echo(to_github(found), nl=False)
        return
    click.echo(render_verdicts(report))
    print_diagnostics(found, sys.stderr, report.program.sources)
    for outcome in report.outcomes:
        for text in witness_texts(outcome):
            click.echo(text, err=True)
    for path in saved:
        click.echo(f"saved: {path} (run it again: gerules verify --replay {path})", err=True)


def _save_witnesses(report: Report, flags: Mapping[str, Any]) -> tuple[list[Path], list[Diagnostic]]:
    """Every witness as a pair of models, where asked or beside the rules; and why that could not be. A run that only
    compares writes nothing of itself."""
    from gerules.verify.witness import save

    saved: list[Path] = []
    faults: dict[Diagnostic, None] = {}
    folder: Path | None = flags["witness"]
    for outcome in report.outcomes:
        witness = next((c.witness for c in outcome.verdict.cases if c.witness is not None), None)
        if witness is None or (flags["compare"] and folder is None):
            continue
        try:
            # One instance shows what is wrong with a rule; its members fail alike.
            saved.append(save(witness, folder or Path(outcome.entry.file.path).parent / "witnesses")[0])
        except UsageFault as fault:
            hint = "name a folder with --witness DIR"
            faults |= {replace(d, hint=hint): None for d in fault.diagnostics}
    return saved, list(faults)


def _write_junit(report: Report, path: Path) -> list[Diagnostic]:
    from gerules.cli.verdicts import junit
    from gerules.verify.writing import JUNIT, write_whole

    try:
        write_whole(path, junit(report), JUNIT)
    except UsageFault as fault:
        return list(fault.diagnostics)
    return []


def _replay(flags: Mapping[str, Any]) -> int:
    from gerules.verify.replay import replay

    found = replay(flags["replay"])
    if flags["as_json"]:
        click.echo(json.dumps({"command": "verify --replay", **found.data()}, indent=1, ensure_ascii=False))
    else:
        click.echo(found.text)
    return int(Exit.DIFFERENCE if found.differs else Exit.DONE)


def _mutate(flags: Mapping[str, Any]) -> int:
    from gerules.cli.verdicts import mutation_data, render_mutation
    from gerules.report import print_diagnostics, to_github
    from gerules.verify.mutating import mutate_rules

    with watching("mutating") as watch:
        report = mutate_rules(
            flags["paths"],
            rule=flags["rule"],
            seconds=flags["seconds"],
            seed=flags["seed"],
            jobs=flags["jobs"],
            watch=watch,
        )
    if flags["as_json"]:
        click.echo(json.dumps(mutation_data(report), indent=1, ensure_ascii=False))
    elif flags["github"]:
        click.echo(to_github(report.diagnostics()), nl=False)
    else:
        click.echo(render_mutation(report))
        print_diagnostics(report.diagnostics(), sys.stderr)
    return int(Exit.REFUSED if report.failed else Exit.DONE)
