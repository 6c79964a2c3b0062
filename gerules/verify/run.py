"""Verifying rule files: which rules, what is known of them already, who works it out, what comes of it.

A verdict in the registry whose key is the rule's is kept; the rest is worked out in processes of their own. What comes
out does not depend on how many there are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from gerules.dsl.program import Entry, Program, RuleSource, load_program, shipped_sources, user_sources
from gerules.dsl.suggest import did_you_mean
from gerules.egraph.program import Knowledge, knowledge
from gerules.errors import Diagnostic, GerulesError, UsageFault
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify.assess import (
    NEVER,
    OUR_FAULT,
    Settings,
    Tools,
    prover_available,
    reason_of,
    rule_detail,
    rule_status,
    shrinker_available,
)
from gerules.verify.case import cases_of
from gerules.verify.keys import KINDS, Keys, statements
from gerules.verify.registry import (
    TRIALS,
    Recorded,
    Verdicts,
    home_of,
    read_verdicts,
    shipped_verdicts_path,
    stamp_of,
    write_verdicts,
)
from gerules.verify.standing import refuted, unknown
from gerules.verify.verdict import CaseVerdict, RuleVerdict
from gerules.verify.workers import Pool, Unit, Verifying, run_here

CHUNK: Final = 24
"""Cases of one rule that go to a process together: they share plans and proofs."""
SECONDS: Final = 600.0
"""How long a rule may take where nobody says otherwise: a guard, not a budget."""

Watch = Callable[[int, int, str], None]
"""Is told how many cases are through, of how many, and of which rule the last was."""


def unwatched(done: int, count: int, rule: str) -> None:
    """For a run that nobody watches."""


@dataclass(frozen=True)
class Outcome:
    """One rule: its verdict, where it stands, and whether it was known before (`current`)."""

    verdict: RuleVerdict
    entry: Entry[Any]
    current: bool
    cut: bool = False

    @property
    def trials(self) -> int:
        return sum(c.trials for c in self.verdict.cases)

    @property
    def drawn(self) -> int:
        return sum(c.drawn for c in self.verdict.cases)

    @property
    def met(self) -> bool:
        """Whether any instance met the rule's conditions, as far as that was looked for."""
        cases = self.verdict.cases
        return not cases or not all(c.detail.startswith(NEVER) for c in cases)

    def diagnostics(self) -> list[Diagnostic]:
        """What is wrong with the rule: an error where it is refuted or never applies, a warning where it is unknown."""
        verdict, span = self.verdict, self.entry.statement.span
        if verdict.status == "refuted":
            return [refuted(verdict.rule, verdict.detail, span)]
        if not self.met:
            message = f"{verdict.rule} applies to nothing: {verdict.detail}"
            hint = "is a condition too strong, or two that exclude each other?"
            return [Diagnostic("GR598", message, span, hint=hint)]
        if verdict.status == "unknown":
            return [unknown(self.entry, verdict.rule, verdict.detail)]
        return []


@dataclass(frozen=True)
class Report:
    """What a run of `verify` found, in the order of kinds and files. `homes` are the registries that were written;
    `seconds` is the wall time of all, `unwritten` says which registries could not be written."""

    outcomes: tuple[Outcome, ...]
    program: Program
    notes: tuple[str, ...] = ()
    homes: tuple[Path, ...] = ()
    seconds: float = 0.0
    differences: tuple[str, ...] = ()
    unwritten: tuple[Diagnostic, ...] = ()

    @property
    def verdicts(self) -> tuple[RuleVerdict, ...]:
        return tuple(o.verdict for o in self.outcomes)

    @property
    def failed(self) -> bool:
        return bool(self.differences) or any(d.severity == "error" for o in self.outcomes for d in o.diagnostics())

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What is wrong with the rules: errors for what is refuted or never applies, warnings for what is unknown."""
        found = [d for outcome in self.outcomes for d in outcome.diagnostics()]
        if self.differences:
            hint = "verify again, and keep what is written"
            found += [Diagnostic("GR597", f"the recorded verdict differs: {d}", hint=hint) for d in self.differences]
        return (*found, *self.unwritten)


@dataclass(frozen=True)
class Request:
    """What to verify and how. `paths` are files and folders; `rule` a name, full name, ruleset or pattern with `*`;
    `verdicts` a registry in the place of those beside the rules; `fresh` forgets what is known; `write` keeps what is
    found; `inline` works in this process. `seconds` is for each rule."""

    paths: tuple[str | Path, ...]
    rule: str | None = None
    seconds: float | None = None
    settings: Settings = field(default_factory=Settings)
    jobs: int = 2
    fresh: bool = False
    write: bool = True
    compare: bool = False
    verdicts: Path | None = None
    inline: bool = False
    tools: Tools = field(default_factory=Tools)


def verify_rules(
    paths: Sequence[str | Path],
    *,
    rule: str | None = None,
    seconds: float | None = None,
    trials: int = TRIALS,
    seed: int = 0,
    jobs: int = 2,
    fresh: bool = False,
    write: bool = True,
    compare: bool = False,
    verdicts: Path | None = None,
    inline: bool = False,
    watch: Watch = unwatched,
) -> Report:
    """Verifies the rules in files and folders; the shipped rules around them are known to them as always.

    `compare` writes nothing and lists where the registry says something else. Raises GerulesError where files cannot
    be read or are no rules, UsageFault (GR595) where `rule` names none. A registry that cannot be written (GR594) is
    told in the report: what was found is not lost.
    """
    settings = Settings(trials, seed, prover_available())
    request = Request(
        tuple(paths), rule, seconds, settings, jobs, fresh or compare, write and not compare, compare, verdicts, inline
    )
    return verify(request, watch)


def verify(request: Request, watch: Watch = unwatched) -> Report:
    """`verify_rules` with everything in one value."""
    started = time.monotonic()
    given = [(source, home_of(Path(path))) for path in request.paths for source in user_sources(path)]
    run = _prepared(request, given)
    program = run.known.program
    outcomes = run.outcomes(chosen_of(program, run.homes, request.rule), watch)
    differences = run.differences(outcomes) if request.compare else ()
    written, unwritten = run.write(outcomes) if request.write else ((), ())
    seconds = time.monotonic() - started
    return Report(outcomes, program, run.notes(outcomes), written, seconds, differences, unwritten)


def _prepared(request: Request, given: Sequence[tuple[RuleSource, Path]]) -> _Run:
    """The rules read, and what is recorded of them. `given` are rule files, each with its registry."""
    sources, known = read_rules([source for source, _ in given])
    homes = {source.display: request.verdicts or home for source, home in given}
    registries = {home: read_verdicts(home) for home in dict.fromkeys(homes.values())}
    return _Run(request, known, sources, Keys(known), registries, homes)


class Verifier:
    """Verdicts one rule at a time, as a test runner asks for them. The files (each with its registry) are read once,
    current verdicts are taken, and one process is kept for the others. Nothing is written.

    Raises GerulesError where the files are no rules or a registry cannot be read.
    """

    def __init__(self, given: Sequence[tuple[RuleSource, Path]], request: Request) -> None:
        self._run = _prepared(request, given)
        self._run.pool = self._run.new_pool(jobs=1, keep=True)
        self.program = self._run.known.program

    def outcome(self, kind: str, full: str) -> Outcome:
        """The verdict on one statement. Raises KeyError where there is none of the kind with this name."""
        named = next((s for s in statements(self.program) if s[:2] == (kind, full)), None)
        if named is None:
            raise KeyError(f"{kind} {full}")
        return self._run.outcomes([named], unwatched)[0]

    def close(self) -> None:
        """Ends the process."""
        if self._run.pool is not None:
            self._run.pool.close()


def sources_of(given: Sequence[RuleSource]) -> tuple[RuleSource, ...]:
    """The shipped files, and those given that are none of them.

    Always in this order: what a rule is tried with comes from all examples in theirs, and a rule has the same verdict
    whether its file or its folder is named.
    """
    theirs = {s.path.resolve(): s for s in given}
    shipped = tuple(theirs.pop(s.path.resolve(), s) for s in shipped_sources())
    return (*shipped, *theirs.values())


def read_rules(given: Sequence[RuleSource]) -> tuple[tuple[RuleSource, ...], Knowledge]:
    """All files that verification knows, and what they say. Raises GerulesError with all faults of the files."""
    sources = sources_of(given)
    return sources, knowledge(load_program(sources, onnx_registry(), known_functions()))


Named = tuple[str, str, Entry[Any]]


def chosen_of(program: Program, files: Iterable[str], rule: str | None) -> list[Named]:
    """The statements of some files, or those that `rule` means. Raises UsageFault (GR595) where it means none."""
    inside = set(files)
    all_of_them = [s for s in statements(program) if s[2].file.path in inside]
    if rule is None:
        return all_of_them
    found = [s for s in all_of_them if _is_meant(s[2], s[1], rule)]
    if not found:
        names = [full for _, full, _ in all_of_them]
        known = [*names, *(n.rpartition(".")[2] for n in names)]
        hint = did_you_mean(rule, known) or "give the name of a rule of these files, its ruleset, or a pattern with `*`"
        raise UsageFault(Diagnostic("GR595", f"--rule {rule}: there is no such rule in these files", hint=hint))
    return found


def _is_meant(entry: Entry[Any], full: str, rule: str) -> bool:
    return (
        rule in (full, full.rpartition(".")[2], entry.ruleset)
        or entry.ruleset.startswith(rule + "/")
        or ("*" in rule and (fnmatchcase(full, rule) or fnmatchcase(full.rpartition(".")[2], rule)))
    )


@dataclass
class _Run:
    request: Request
    known: Knowledge
    sources: tuple[RuleSource, ...]
    keys: Keys
    registries: dict[Path, Verdicts]
    homes: dict[str, Path]
    faults: list[str] = field(default_factory=list)
    pool: Pool | None = None
    """Processes that are kept between calls; else each call has its own."""

    def outcomes(self, chosen: Sequence[Named], watch: Watch) -> tuple[Outcome, ...]:
        keys = {full: self.keys.key(kind, entry) for kind, full, entry in chosen}
        before = {full: self._recorded(full, entry, keys[full]) for _, full, entry in chosen}
        kept = {full: r for full, r in before.items() if r is not None and self._keeps(r, keys[full])}
        open_ones = [s for s in chosen if s[1] not in kept]
        collected = self._work(open_ones, watch)
        found: list[Outcome] = []
        for kind, full, entry in chosen:
            if full in kept:
                found.append(Outcome(replace(kept[full].verdict, rule=full), entry, True))
                continue
            cases, why = collected[full]
            outcome = _outcome(kind, full, entry, keys[full], cases, why)
            old = before[full]
            if old is not None and _stands(old, keys[full], outcome):
                outcome = Outcome(replace(old.verdict, rule=full), entry, True)
            found.append(outcome)
        order = {kind: place for place, kind in enumerate(KINDS)}
        return tuple(sorted(found, key=lambda o: order[o.verdict.kind]))

    def _recorded(self, full: str, entry: Entry[Any], key: str) -> Recorded | None:
        return None if self.request.fresh else self.registries[self.homes[entry.file.path]].find(full, key)

    def _keeps(self, recorded: Recorded, key: str) -> bool:
        """What is refuted is looked at again: its author wants to see the instance."""
        settings = self.request.settings
        current = recorded.serves(key, settings.trials, settings.seed, settings.prover)
        return current and recorded.verdict.status != "refuted"

    def _work(self, chosen: Sequence[Named], watch: Watch) -> dict[str, tuple[list[CaseVerdict], str]]:
        """Cases in their order, and why the last are missing ("" where none is)."""
        units: list[Unit] = []
        found: dict[str, dict[int, Sequence[CaseVerdict]]] = {}
        early: dict[str, str] = {}
        for kind, full, entry in chosen:
            found[full] = {}
            made, fault = self._units(kind, full, entry)
            units += made
            if fault is not None:
                found[full][0] = [CaseVerdict(full, "", "", "unknown", fault)]
        sizes = {unit: max(1, unit.last - unit.first) for unit in units}
        total, through = sum(sizes.values()), 0

        def done(unit: Unit, cases: Sequence[CaseVerdict], ended: str) -> None:
            nonlocal through
            through += sizes[unit]
            found[unit.full][unit.first] = [*cases, *self._missing(unit, len(cases), ended)]
            if ended:
                early.setdefault(unit.full, ended)
            watch(through, total, unit.full)

        request = self.request
        if request.inline:
            run_here(self.known, units, Verifying(request.settings, request.tools), done)
        elif units:
            pool = self.pool or self.new_pool(request.jobs)
            pool.done = done
            pool.run(units)
        return {
            full: ([case for first in sorted(parts) for case in parts[first]], early.get(full, ""))
            for full, parts in found.items()
        }

    def new_pool(self, jobs: int, keep: bool = False) -> Pool:
        """Processes that know the rules; whoever runs them says what becomes of results."""
        request = self.request
        limit = SECONDS if request.seconds is None else request.seconds
        work = Verifying(request.settings, request.tools)
        return Pool(self.sources, work, max(1, jobs), limit, lambda unit, found, ended: None, keep)

    def _units(self, kind: str, full: str, entry: Entry[Any]) -> tuple[list[Unit], str | None]:
        if kind != "rewrite":
            return [Unit(kind, full)], None
        try:
            count = sum(1 for _ in cases_of(self.known, entry))
        except GerulesError as fault:
            return [], reason_of(fault)
        return [Unit(kind, full, k, min(count, k + CHUNK)) for k in range(0, count, CHUNK)], None

    def _missing(self, unit: Unit, there: int, ended: str) -> list[CaseVerdict]:
        """Verdicts for the cases of a unit that ended early."""
        if not ended:
            return []
        limit = SECONDS if self.request.seconds is None else self.request.seconds
        why = f"not through within {limit:g} seconds" if ended == "time" else "its process died"
        if unit.kind != "rewrite":
            return [CaseVerdict(unit.full, "", "", "unknown", why)]
        cases = list(cases_of(self.known, self.known.program.rewrites[unit.full]))[unit.first + there : unit.last]
        return [CaseVerdict(c.label, c.member, c.direction, "unknown", why) for c in cases]

    # ------------------------------------------------------------------------------------------------- what is kept

    def _by_home(self, outcomes: Sequence[Outcome]) -> dict[Path, list[Outcome]]:
        found: dict[Path, list[Outcome]] = {home: [] for home in self.registries}
        for outcome in outcomes:
            found[self.homes[outcome.entry.file.path]].append(outcome)
        return found

    def write(self, outcomes: Sequence[Outcome]) -> tuple[tuple[Path, ...], tuple[Diagnostic, ...]]:
        """Puts new verdicts into their registries; verdicts on rules that are gone from a file read whole leave it.
        Gives the registries that were written, and why others could not be."""
        written: list[Path] = []
        faults: list[Diagnostic] = []
        for home, some in self._by_home(outcomes).items():
            made = self._updated(home, some)
            if not made.rules and not home.exists():
                continue
            try:
                if write_verdicts(made, home):
                    written.append(home)
            except UsageFault as fault:
                faults += fault.diagnostics
        return tuple(written), tuple(faults)

    def _updated(self, home: Path, outcomes: Sequence[Outcome]) -> Verdicts:
        settings = self.request.settings
        made = self.registries[home].with_rules(
            Recorded(o.verdict, settings.trials, settings.seed, settings.prover, o.cut)
            for o in outcomes
            if not o.current
        )
        rulesets = {e.ruleset for _, _, e in statements(self.known.program) if self.homes.get(e.file.path) == home}
        here = {full for _, full, _ in statements(self.known.program)}
        made = made.without(n for n in made.rules if n not in here and n.rpartition(".")[0] in rulesets)
        if home == shipped_verdicts_path():
            made = made.without(n for n in made.rules if n not in here)
            current = {full: self.keys.key(kind, entry) for kind, full, entry in statements(self.known.program)}
            shipped = {f.path for f in self.known.program.files if not f.ruleset.startswith("user/")}
            whole = all(
                full in made.rules and made.rules[full].verdict.key == current[full]
                for _, full, entry in statements(self.known.program)
                if entry.file.path in shipped
            )
            made = replace(made, stamp=stamp_of() if whole else "")
        return made

    def differences(self, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
        """Where what was found is not what is recorded."""
        found: list[str] = []
        for home, some in self._by_home(outcomes).items():
            recorded = self.registries[home]
            if self.request.rule is not None:
                names = {o.verdict.rule for o in some}
                recorded = replace(recorded, rules={n: r for n, r in recorded.rules.items() if n in names})
            fresh = self._updated_from_nothing(some)
            found += recorded.differences(fresh)
        return tuple(found)

    def _updated_from_nothing(self, outcomes: Sequence[Outcome]) -> Verdicts:
        settings = self.request.settings
        return Verdicts().with_rules(
            Recorded(o.verdict, settings.trials, settings.seed, settings.prover, o.cut) for o in outcomes
        )

    def notes(self, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
        notes = list(self.faults)
        if any(not o.current for o in outcomes):
            if not self.request.settings.prover and not prover_available():
                notes.append("z3 is not installed, so nothing was proved: pip install 'gerules[verify]'")
            if not shrinker_available():
                notes.append("hypothesis is not installed, so witnesses are not shrunk: pip install 'gerules[verify]'")
        return tuple(notes)


def _stands(old: Recorded, key: str, new: Outcome) -> bool:
    """A refutation stands until the rule changes, whatever other draws find."""
    return old.verdict.key == key and old.verdict.status == "refuted" and new.verdict.status != "refuted"


def _outcome(kind: str, full: str, entry: Entry[Any], key: str, cases: Sequence[CaseVerdict], why: str) -> Outcome:
    status = rule_status(cases)
    exactness = entry.statement.exactness if kind == "rewrite" else ""
    verdict = RuleVerdict(full, kind, exactness, status, rule_detail(cases, status), key, tuple(cases))
    # What a limit or a fault of our own cut off is looked at again next time.
    return Outcome(verdict, entry, False, bool(why) or any(c.detail.startswith(OUR_FAULT) for c in cases))
