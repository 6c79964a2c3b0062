"""What the language says already and this release does not run yet: each gets its own message when it is run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from gerules.dsl import ast
from gerules.dsl.lets import walk
from gerules.dsl.program import Entry, Program
from gerules.errors import Diagnostic


def pending_study(study: Entry[ast.Study]) -> Diagnostic:
    """The message for a study that is to be run."""
    message = f"study {study.statement.name} is read and checked, but studies are not run yet"
    return Diagnostic("GR190", message, study.statement.span, hint="run its schedules one by one with `--schedule`")


def pending_table(table: Entry[ast.TableDecl]) -> Diagnostic | None:
    """The message for a table whose rows come from a file, when a rule reads it in a run; None for other tables."""
    statement = table.statement
    if statement.source is None:
        return None
    message = f"table {statement.name} comes from {statement.source}, and tables are not read from files yet"
    return Diagnostic(
        "GR191", message, statement.span, hint=f"write its rows as a fact: `fact rows: {statement.name}(...)`"
    )


def pending_steps(schedule: Entry[ast.Schedule], runs: Collection[str] = ("saturate", "run")) -> list[Diagnostic]:
    """The messages for the steps of a schedule whose mode is not among those that can be run."""
    found: list[Diagnostic] = []
    waiting: list[ast.Step] = list(schedule.statement.steps)
    while waiting:
        step = waiting.pop(0)
        if isinstance(step, ast.RepeatStep):
            waiting = [*step.steps, *waiting]
        elif isinstance(step, ast.RunStep) and step.mode not in runs:
            message = f"`{step.mode}` is read and checked, but not run yet"
            found.append(
                Diagnostic(
                    "GR192", message, step.span, hint="`run` and `saturate` run all rules of an iteration at once"
                )
            )
    return found


def pending_refusal(refusal: Entry[ast.Refuse]) -> Diagnostic:
    """The message for a deny or warn that a run would have to decide."""
    statement = refusal.statement
    message = f"{statement.severity} {statement.name} is read and checked, but nothing is denied or warned of yet"
    return Diagnostic("GR194", message, statement.span, hint="look at the result yourself, or leave the statement out")


def _ran(refusal: Entry[ast.Refuse]) -> bool:
    """Denies between versions and between releases are asked by `convert` and `recover`."""
    return refusal.ruleset.startswith("compat/")


def _of_target(refusal: Entry[ast.Refuse]) -> bool:
    """Whether a refusal asks for the version that a model is converted to: conversions decide it."""
    calls = (n for n in walk(refusal.statement) if isinstance(n, ast.Call) and isinstance(n.head, ast.Name))
    return any(call.head == ast.Name("target") for call in calls)


def pending_rule(program: Program, rule: Entry[ast.Rewrite]) -> Diagnostic | None:
    """The message for a rewrite over operators of a registry that is not loaded, or that reads a table from a file;
    None for other rewrites."""
    for node in walk(rule.statement):
        if isinstance(node, ast.Symbol) and program.scope.is_foreign(node, rule.file):
            message = f"{rule.full} speaks of {node}, and only `diff` and `recover` load that registry"
            return Diagnostic("GR193", message, node.span, hint="the rule is left out")
        if isinstance(node, ast.Call) and isinstance(node.head, ast.Name):
            table = program.tables.get(node.head.id)
            found = pending_table(table) if table is not None else None
            if found is not None:
                return replace(found, message=f"{found.message}; {rule.full} reads it", span=node.span)
    return None


def pending(program: Program, files: Collection[str]) -> list[Diagnostic]:
    """What the files named hold and this release does not run, as warnings."""
    found = [pending_study(e) for e in program.studies.values() if e.file.path in files]
    found += [d for e in program.tables.values() if e.file.path in files and (d := pending_table(e))]
    found += [d for e in program.schedules.values() if e.file.path in files for d in pending_steps(e)]
    found += [d for e in program.rewrites.values() if e.file.path in files and (d := pending_rule(program, e))]
    found += [pending_refusal(e) for e in program.refuses.values() if e.file.path in files and not _ran(e)]
    return [replace(d, severity="warning") for d in found]
