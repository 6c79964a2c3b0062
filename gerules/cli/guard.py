"""What becomes of a command's outcome: an exit status, and text that helps."""

from __future__ import annotations

import json
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from gerules.errors import Diagnostic, Exit, GerulesError, UsageFault

INTERRUPTED = 130
FORMS = {"as_json": "--json", "as_csv": "--csv", "github": "--github"}
"""In which form a report is printed, by flag."""


def run_guarded(job: Callable[[], int], flags: Mapping[str, Any]) -> None:
    """Runs a command and ends the process with its status. No traceback is shown for a user's mistake; one of gerules
    itself goes to a file (or to the terminal with `--debug`)."""
    try:
        _one_form(flags)
        status = job()
    except GerulesError as error:
        _say(error.diagnostics, flags)
        status = int(error.status)
    except KeyboardInterrupt:
        click.echo("interrupted; nothing was written", err=True)
        status = INTERRUPTED
    except (click.ClickException, click.exceptions.Exit):
        raise
    except BrokenPipeError:
        status = Exit.DONE
        sys.stderr.close()
    except MemoryError:
        _say([Diagnostic("GR798", "there is not enough memory for this model", hint="use a larger machine")], flags)
        status = int(Exit.REFUSED)
    except Exception as error:
        _say([_internal(error, bool(flags.get("debug")))], flags)
        status = int(Exit.INTERNAL)
    raise click.exceptions.Exit(status)


def _one_form(flags: Mapping[str, Any]) -> None:
    """Raises UsageFault (GR708) where a report is asked for in two forms."""
    asked = [flag for name, flag in FORMS.items() if flags.get(name)]
    if len(asked) > 1:
        hint = f"leave out {asked[0]} or {asked[1]}"
        raise UsageFault(Diagnostic("GR708", f"{' and '.join(asked)} do not go together", hint=hint))


def _internal(error: Exception, debug: bool) -> Diagnostic:
    trace = "".join(traceback.format_exception(error))
    if debug:
        click.echo(trace, err=True)
        where = "the traceback is above"
    else:
        with tempfile.NamedTemporaryFile(
            "w", prefix="gerules-fault-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(f"{' '.join(map(str, sys.argv))}\n{trace}")
        where = f"the traceback lies in {Path(file.name)}"
    message = f"this is a fault of gerules itself: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return Diagnostic("GR999", message, hint=f"{where}; please report it with the model and the rules")


def _say(diagnostics: Any, flags: Mapping[str, Any]) -> None:
    from gerules.report import print_diagnostics, summary, to_json

    if flags.get("as_json"):
        click.echo(json.dumps({"diagnostics": to_json(diagnostics)}, indent=1))
        return
    print_diagnostics(diagnostics, sys.stderr)
    if len(diagnostics) > 1:
        click.echo(summary(diagnostics), err=True)
