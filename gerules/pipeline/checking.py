"""`check`: rule files parsed, put together with the shipped ones, checked, their examples run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gerules.dsl.pending import pending
from gerules.dsl.program import Program, RuleSource, check_program, shipped_sources, user_sources
from gerules.errors import Diagnostic, GerulesError
from gerules.pipeline.options import Progress, silent
from gerules.policy.examples import without_decided
from gerules.registry import onnx_registry
from gerules.static import known_functions


@dataclass(frozen=True)
class Checked:
    """What was found in the files of the user. `ran` says whether examples were run."""

    diagnostics: tuple[Diagnostic, ...]
    files: int
    rules: int
    examples: int
    ran: bool
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def failed(self) -> bool:
        return any(d.severity == "error" for d in self.diagnostics)

    def counts(self) -> dict[str, int | bool]:
        return {"files": self.files, "rules": self.rules, "examples": self.examples, "examples_ran": self.ran}


def check_rules(paths: Sequence[str | Path], *, examples: bool = True, progress: Progress = silent) -> Checked:
    """All diagnostics of the files named, and of the examples in them. Faults of other files are left out."""
    given: list[RuleSource] = []
    found: list[Diagnostic] = []
    for path in paths:
        try:
            given += user_sources(path)
        except GerulesError as error:
            found += error.diagnostics
    progress("checking the rules")
    shown = {s.display for s in given}
    program, faults = read_checked(given)
    found += faults
    files = [f for f in program.files if f.path in shown]
    rules = sum(1 for entry in program.rewrites.values() if entry.file.path in shown)
    count = sum(1 for entry in program.examples if entry.file.path in shown)
    ran = examples and count > 0 and not any(d.severity == "error" for d in found)
    if ran:
        progress("running the examples")
        found += _examples(program, shown)
    if not any(d.severity == "error" for d in found):
        found += _verdicts(program, shown, given)
    return Checked(tuple(found), len(files), rules, count, ran, program.sources)


def read_checked(given: Sequence[RuleSource]) -> tuple[Program, list[Diagnostic]]:
    """Rule files with the shipped ones around them, and all that is wrong in the files given; no example is run."""
    theirs = {s.path.resolve() for s in given}
    shown = {s.display for s in given}
    shipped = [s for s in shipped_sources() if s.path.resolve() not in theirs]
    program, diagnostics = check_program([*shipped, *given], onnx_registry(), known_functions())
    found = [d for d in diagnostics if _file(d) in shown or _file(d) is None]
    if not any(d.severity == "error" for d in found):
        found += pending(program, shown)
    if not any(d.severity == "error" for d in found):
        found += _lowered(program, shown)
        found = without_decided(program, found)
    return program, found


def _file(diagnostic: Diagnostic) -> str | None:
    return diagnostic.span.file if diagnostic.span is not None else diagnostic.file


def _lowered(program: Program, shown: set[str]) -> list[Diagnostic]:
    """What only shows when the rules are made into those of the e-graph."""
    from gerules.egraph.host import Host
    from gerules.egraph.program import context, knowledge, lower
    from gerules.verify.examples import LATER, WINDOW

    known, host = knowledge(program), Host()
    rewrites = [(e.statement, e.file) for e in program.rewrites.values() if e.file.path in shown]
    facts = [(e.statement, e.file) for e in program.facts.values() if e.file.path in shown]
    try:
        _, diagnostics = lower(known, host, context(program, known.ground, host), rewrites, facts, WINDOW)
        return diagnostics
    except GerulesError as error:
        return [d for d in error.diagnostics if d.code not in LATER]
    finally:
        host.close()


def _verdicts(program: Program, shown: set[str], given: Sequence[RuleSource]) -> list[Diagnostic]:
    """What is known of the rules of the user's files: refuted, verified, or neither."""
    from gerules.egraph.program import knowledge
    from gerules.verify.standing import complaints

    try:
        return complaints(program, lambda: knowledge(program), shown, {s.ruleset for s in given})
    except GerulesError as error:
        return list(error.diagnostics)


def _examples(program: Program, shown: set[str]) -> list[Diagnostic]:
    from gerules.verify.examples import Examples

    runner = Examples(program)
    results = [
        runner.one(f"{entry.ruleset}.{entry.statement.name}", entry)
        for entry in program.examples
        if entry.file.path in shown
    ]
    return [r.diagnostic for r in results if r.diagnostic is not None]
