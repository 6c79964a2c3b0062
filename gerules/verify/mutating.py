"""Mutation of many rules over processes: `gerules verify --mutate`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gerules.dsl.program import user_sources
from gerules.dsl.vocabulary import Vocabulary, vocabulary
from gerules.egraph.program import Knowledge
from gerules.errors import Diagnostic, GerulesError
from gerules.verify.assess import prover_available, reason_of
from gerules.verify.mutation import Effort, MutationResult, run_mutation, score
from gerules.verify.run import SECONDS, Watch, chosen_of, read_rules, unwatched
from gerules.verify.workers import Pool, Unit, run_here


@dataclass(frozen=True)
class Unmutated:
    """A rule whose mutants could not all be judged, and why."""

    rule: str
    reason: str


@dataclass(frozen=True)
class MutationReport:
    """What became of the mutants of all rules, in the order of the files; `lost` are rules without a result."""

    results: tuple[MutationResult, ...]
    lost: tuple[Unmutated, ...]
    seconds: float
    notes: tuple[str, ...] = ()
    spans: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def score(self) -> float:
        """Of the mutants that are not proved equivalent, the part that was killed."""
        return score(self.results)

    @property
    def failed(self) -> bool:
        return bool(self.lost) or any(r.survivors for r in self.results)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """A warning for each survivor, an error for each rule without a result."""
        found = [
            Diagnostic(
                "GR588",
                f"{result.rule} with {verdict.mutant.what} is not refuted ({verdict.how})",
                self.spans.get(result.rule),
                hint="a check is missing, or the condition does nothing: leave it out",
                severity="warning",
            )
            for result in self.results
            for verdict in result.survivors
        ]
        found += [
            Diagnostic("GR589", f"the mutants of {lost.rule} were not judged: {lost.reason}", self.spans.get(lost.rule))
            for lost in self.lost
        ]
        return tuple(found)


@dataclass
class Mutating:
    """The mutation of one rule a unit."""

    effort: Effort
    _words: Vocabulary | None = None

    def __call__(self, known: Knowledge, unit: Unit) -> Iterator[MutationResult | Unmutated]:
        if self._words is None:
            self._words = vocabulary(known.program)
        try:
            yield run_mutation(known, known.program.rewrites[unit.full], self.effort, self._words)
        except GerulesError as fault:
            yield Unmutated(unit.full, reason_of(fault))
        except Exception as fault:  # one rule that trips us up must not take the others with it
            yield Unmutated(unit.full, f"this is a fault of gerules: {type(fault).__name__}: {fault}")


def mutate_rules(
    paths: Sequence[str | Path],
    *,
    rule: str | None = None,
    seconds: float | None = None,
    seed: int = 0,
    jobs: int = 2,
    inline: bool = False,
    watch: Watch = unwatched,
) -> MutationReport:
    """Judges every mutant of the rewrites in files and folders. Raises as `verify_rules` does."""
    started = time.monotonic()
    given = [source for path in paths for source in user_sources(path)]
    sources, known = read_rules(given)
    chosen = [s for s in chosen_of(known.program, [g.display for g in given], rule) if s[0] == "rewrite"]
    units = [Unit("mutation", full) for _, full, _ in chosen]
    found: dict[str, Any] = {}

    def done(unit: Unit, results: Sequence[Any], ended: str) -> None:
        limit = SECONDS if seconds is None else seconds
        why = f"not through within {limit:g} seconds" if ended == "time" else "its process died"
        found[unit.full] = results[0] if results else Unmutated(unit.full, why)
        watch(len(found), len(units), unit.full)

    work = Mutating(Effort(seed=seed, prover=prover_available()))
    if inline:
        run_here(known, units, work, done)
    elif units:
        Pool(sources, work, max(1, jobs), SECONDS if seconds is None else seconds, done).run(units)
    in_order = [found[full] for _, full, _ in chosen]
    notes = () if prover_available() else ("z3 is not installed, so no mutant is proved equivalent",)
    return MutationReport(
        tuple(r for r in in_order if isinstance(r, MutationResult)),
        tuple(r for r in in_order if isinstance(r, Unmutated)),
        time.monotonic() - started,
        notes,
        {full: entry.statement.span for _, full, entry in chosen},
    )
