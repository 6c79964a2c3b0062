"""The commands: from flags to a call of the pipeline, from its report to text."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from typing import Any

import click

from gerules.cli.table import render_check, render_report
from gerules.errors import Diagnostic, Exit, UsageFault
from gerules.pipeline.options import Options, Progress, silent


@contextmanager
def progress() -> Iterator[Progress]:
    """Tells on the terminal what is being done; silent where standard error is none."""
    if not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield lambda stage: status.update(stage)


def _options(flags: Mapping[str, Any], told: Progress) -> Options:
    return Options(
        rules=tuple(flags.get("rules", ())),
        only_rules=bool(flags.get("only_rules")),
        enable=tuple(flags.get("enable", ())),
        disable=tuple(flags.get("disable", ())),
        schedule=str(flags.get("schedule", "standard")),
        dims=tuple(flags["dim"]),
        assume=tuple(flags["assume"]),
        likely=tuple(flags["likely"]),
        at=tuple(flags["at"]),
        time_limit=_seconds(flags["time_limit"]),
        validate=not flags["no_validate"],
        force=bool(flags["force"]),
        keep_failed=flags["keep_failed"],
        border_nodes=bool(flags.get("border_nodes")),
        seeds=_seeds(flags["seed"]),
        progress=told,
    )


def _seeds(texts: tuple[str, ...]) -> tuple[int, ...]:
    faults = [
        Diagnostic("GR705", f"--seed {text}: this is no number", hint="write `--seed 3`, once for each seed")
        for text in texts
        if not (text.isascii() and text.isdigit())
    ]
    if faults:
        raise UsageFault(faults)
    return tuple(int(text) for text in texts) or (0, 1)


def _seconds(limit: float) -> float:
    if not isfinite(limit):
        hint = "write a number of seconds, as `--time-limit 60`"
        raise UsageFault(Diagnostic("GR706", f"--time-limit {limit}: this is no time", hint=hint))
    return float(limit)


def _report(report: Any, flags: Mapping[str, Any]) -> int:
    text = json.dumps(report.data(), indent=1) if flags["as_json"] else render_report(report)
    click.echo(text)
    return int(Exit.DONE)


def run_compile(flags: Mapping[str, Any]) -> int:
    from gerules.pipeline import compile_model

    with progress() as told:
        report = compile_model(flags["model"], flags["target"], flags["output"], _options(flags, told))
    return _report(report, flags)


def run_rewrite(flags: Mapping[str, Any]) -> int:
    from gerules.pipeline import rewrite_model

    with progress() as told:
        report = rewrite_model(flags["model"], flags["output"], _options(flags, told))
    return _report(report, flags)


def run_convert(flags: Mapping[str, Any]) -> int:
    from gerules.pipeline import convert_model
    from gerules.pipeline.converting import wanted_versions

    wanted = wanted_versions(flags["opset"])
    with progress() as told:
        options = _options({**flags, "time_limit": 10.0}, told)
        report = convert_model(flags["model"], flags["output"], wanted, options, ir_version=flags["ir_version"])
    return _report(report, flags)


def run_partition(flags: Mapping[str, Any]) -> int:
    from gerules.pipeline import partition_model

    with progress() as told:
        report = partition_model(flags["model"], flags["target"], flags["output"], _options(flags, told))
    return _report(report, flags)


def run_merge(flags: Mapping[str, Any]) -> int:
    from gerules.partition.merge import merge_folder
    from gerules.partition.output import check_destination, write_file

    folder, output = flags["folder"], flags["output"]
    check_destination(output, force=flags["force"])
    data = merge_folder(folder)
    write_file(output, data, force=flags["force"])
    if flags["as_json"]:
        click.echo(json.dumps({"command": "merge", "output": str(output), "bytes": len(data)}))
    else:
        click.echo(f"{output}: {len(data)} bytes")
    return int(Exit.DONE)


def run_check(flags: Mapping[str, Any]) -> int:
    from gerules.pipeline.checking import check_rules
    from gerules.report import print_diagnostics, to_github, to_json

    with progress() as told:
        found = check_rules(flags["paths"], examples=not flags["no_examples"], progress=told)
    if flags["as_json"]:
        click.echo(json.dumps({"diagnostics": to_json(found.diagnostics), **found.counts()}, indent=1))
    elif flags["github"]:
        click.echo(to_github(found.diagnostics), nl=False)
    else:
        print_diagnostics(found.diagnostics, sys.stderr, found.sources)
        click.echo(render_check(found))
    return int(Exit.REFUSED if found.failed else Exit.DONE)
