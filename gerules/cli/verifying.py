"""`gerules verify`: from flags to a run, from its report to text, files and a status."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gerules.errors import Diagnostic, Exit, UsageFault

if TYPE_CHECKING:
    from gerules.verify.run import Report, Watch


def run_verify(flags: Mapping[str, Any]) -> int:
    """`gerules verify` in all its forms."""
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
    saved = _save_witnesses(report, flags["witness"])
    if flags["junit"] is not None:
        from gerules.cli.verdicts import junit

        _write(flags["junit"], junit(report), "--junit")
    _tell(report, saved, flags)
    return int(Exit.REFUSED if report.failed else Exit.DONE)


def _tell(report: Report, saved: list[Path], flags: Mapping[str, Any]) -> None:
    from gerules.cli.verdicts import render_verdicts, verdict_data, witness_texts
    from gerules.report import print_diagnostics, to_github

    if flags["as_json"]:
        data = verdict_data(report) | {"witnesses": [str(path) for path in saved]}
        click.echo(json.dumps(data, indent=1, ensure_ascii=False))
        return
    if flags["github"]:
        click.echo(to_github(report.diagnostics()), nl=False)
        return
    click.echo(render_verdicts(report))
    print_diagnostics(report.diagnostics(), sys.stderr, report.program.sources)
    for outcome in report.outcomes:
        for text in witness_texts(outcome):
            click.echo(text, err=True)
    for path in saved:
        click.echo(f"saved: {path} (run it again: gerules verify --replay {path})", err=True)


def _save_witnesses(report: Report, folder: Path | None) -> list[Path]:
    """Every witness as a pair of models; beside the first registry that would take the verdicts, or where asked."""
    from gerules.verify.witness import save

    saved: list[Path] = []
    for outcome in report.outcomes:
        cases = [c for c in outcome.verdict.cases if c.witness is not None]
        if not cases:
            continue
        place = folder or Path(outcome.entry.file.path).parent / "witnesses"
        try:
            # One instance shows what is wrong with a rule; its members fail alike.
            assert cases[0].witness is not None
            saved.append(save(cases[0].witness, place)[0])
        except OSError as fault:
            message = f"the witness cannot be saved in {place}: {fault.strerror or fault}"
            raise UsageFault(Diagnostic("GR594", message, hint="name a folder with --witness DIR")) from None
    return saved


def _write(path: Path, data: bytes, flag: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as fault:
        message = f"{flag} {path}: this cannot be written: {fault.strerror or fault}"
        raise UsageFault(Diagnostic("GR594", message, hint="name another file")) from None


def _replay(flags: Mapping[str, Any]) -> int:
    from gerules.verify.replay import replay

    found = replay(flags["replay"])
    if flags["as_json"]:
        click.echo(json.dumps(found.data(), indent=1, ensure_ascii=False))
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
