"""Which rule files are loaded and which of their rules are on.

A rule is on when it is bitwise (no word) and its verdict is proved, proved bounded or tested. `defines`, `reassociates`
and `finite` are off until asked for by `enable`: by name, ruleset or word; so are rules of which nothing is known. A
refuted rule of the user is an error. A rule that nobody has verified yet, or that changed since, is on and said to be
so: its examples were run, and the result is validated. Programs and engines are kept within the process, so that a
second call with the same rules costs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from pathlib import Path

from gerules.dsl import ast
from gerules.dsl.pending import pending, pending_rule
from gerules.dsl.program import Entry, Program, RuleSource, load_program, shipped_sources, user_sources
from gerules.dsl.suggest import did_you_mean
from gerules.egraph.optimize import Engine, RuleSet
from gerules.egraph.program import knowledge
from gerules.errors import Diagnostic, Refused, UsageFault
from gerules.paths import rules_root
from gerules.pipeline.options import Options
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify.standing import NONE, NOT_VERIFIED, STALE, Standing, refuted, standings

EXACTNESS = ("defines", "reassociates", "finite")
"""The words of rules that are off until asked for."""
NOT_LOADED = ("broadcast/explicit", "broadcast/legality", "studies", "compat/ge", "compat/signature")
"""Shipped families that are loaded only where the user names them: another dialect, experiments, and rules about
registries that have to be given first."""
ENGINES = "engines/"
CONVERT, CLEANUP = "convert", "cleanup"
"""The schedule of conversions, and the ruleset of which it runs only what computes constants: a converted model is no
cleaned one."""


@dataclass(frozen=True)
class Loaded:
    """Rule files put together. `on` are the full names of the rewrites that take part; `notes` what the user should
    know of those that do not; `standings` what is known of those that do."""

    program: Program
    on: tuple[str, ...]
    engine: Engine
    notes: tuple[str, ...] = ()
    standings: Mapping[str, Standing] = field(default_factory=dict)

    def unproved(self, rules: Iterable[str]) -> tuple[str, ...]:
        """Those of some rules that are not proved, sorted."""
        return tuple(sorted(n for n in set(rules) if not self.standings.get(n, NOT_VERIFIED).proved))


def rules_of(options: Options, target: str | None = None) -> Loaded:
    """The rules that a run's options turn on."""
    return load_rules(
        options.rules,
        only_rules=options.only_rules,
        enable=options.enable,
        disable=options.disable,
        schedule=options.schedule,
        target=target,
    )


def load_rules(
    rules: Sequence[str | Path] = (),
    *,
    only_rules: bool = False,
    enable: Sequence[str] = (),
    disable: Sequence[str] = (),
    schedule: str = "standard",
    target: str | None = None,
) -> Loaded:
    """The shipped rules and those of the user, with what is on.

    `target` is a shipped name (`ascend`) or the path of a rule file with engines, which is loaded too. Raises
    UsageFault where a name or a path means nothing (GR701, GR702, GR703), GerulesError with all faults of the files.
    """
    given = tuple(s for path in rules for s in user_sources(path))
    sources = _sources(given, target)
    return _loaded(
        _Key(sources, _stamp(sources)),
        tuple(s.ruleset for s in given),
        only_rules,
        tuple(enable),
        tuple(disable),
        schedule,
    )


# ------------------------------------------------------------------------------------------------------------ files


def _sources(given: Sequence[RuleSource], target: str | None) -> tuple[RuleSource, ...]:
    shipped = [s for s in shipped_sources() if not _left_out(s.ruleset) and not s.ruleset.startswith(ENGINES)]
    return (*shipped, *given, *target_sources(target))


def _left_out(ruleset: str) -> bool:
    return any(ruleset == name or ruleset.startswith(name + "/") for name in NOT_LOADED)


def shipped_targets() -> dict[str, RuleSource]:
    """The shipped targets by name."""
    return {s.ruleset.removeprefix(ENGINES): s for s in shipped_sources() if s.ruleset.startswith(ENGINES)}


def target_sources(target: str | None) -> tuple[RuleSource, ...]:
    """The rule file of a target. Raises UsageFault (GR701) where there is none."""
    if target is None:
        return ()
    known = shipped_targets()
    if target in known:
        return (known[target],)
    path = Path(target)
    if path.is_file():
        return user_sources(path)
    names = ", ".join(known)
    hint = did_you_mean(target, list(known)) or f"targets are {names}, or the path of a rule file with engines"
    raise UsageFault(Diagnostic("GR701", f"there is no target `{target}` (there are {names})", hint=hint))


@dataclass(frozen=True)
class _Key:
    """Identifies rule files by what they are and when they were written."""

    sources: tuple[RuleSource, ...]
    stamp: tuple[tuple[int, int], ...]


def _stamp(sources: Sequence[RuleSource]) -> tuple[tuple[int, int], ...]:
    found = []
    for source in sources:
        try:
            status = os.stat(source.path)  # noqa: PTH116  # os.stat is several times faster, and there are many files
        except OSError:
            found.append((0, 0))
            continue
        found.append((status.st_mtime_ns, status.st_size))
    return tuple(found)


@lru_cache(maxsize=8)
def _program_of(key: _Key) -> Program:
    return load_program(key.sources, onnx_registry(), known_functions())


# -------------------------------------------------------------------------------------------------------- what is on


@lru_cache(maxsize=8)
def _loaded(
    key: _Key,
    given: tuple[str, ...],
    only_rules: bool,
    enable: tuple[str, ...],
    disable: tuple[str, ...],
    schedule: str,
) -> Loaded:
    program = _program_of(key)
    _check_names(program, enable, "--enable")
    _check_names(program, disable, "--disable")
    program = _scheduled(program, schedule, given)
    users = set(given)
    on: list[str] = []
    off: list[str] = []
    for full, entry in program.rewrites.items():
        theirs = entry.ruleset in users
        if only_rules and not theirs:
            continue
        asked = any(_names(entry, name) for name in enable)
        if any(_names(entry, name) for name in disable):
            continue
        if entry.statement.exactness and not asked:
            if theirs:
                off.append(full)
            continue
        if theirs and pending_rule(program, entry) is not None:
            continue
        if schedule == CONVERT and not theirs and entry.ruleset == CLEANUP and not _computes(entry.statement):
            continue
        on.append(full)
    failed = _failed_examples(program, {n for n in on if program.rewrites[n].ruleset in users})
    on = [n for n in on if n not in failed]
    known = cache(partial(knowledge, program))
    stands = standings(program, known, on, users)
    on, said = _by_standing(program, on, stands, users, enable)
    files = {f.path for f in program.files if f.ruleset in users}
    later = tuple(f"{d.code}: {d.message}" for d in pending(program, files))
    asked_for = [n for n in on if any(_names(program.rewrites[n], e) for e in enable)]
    notes = (*later, *failed.values(), *_notes(program, off, asked_for, schedule), *said)
    engine = Engine(RuleSet(program, tuple(on), schedule), _known=known() if known.cache_info().currsize else None)
    return Loaded(program, tuple(on), engine, notes, {n: stands[n] for n in on})


def _by_standing(
    program: Program,
    on: Sequence[str],
    stands: Mapping[str, Standing],
    users: Collection[str],
    enable: Sequence[str],
) -> tuple[list[str], list[str]]:
    """The rules that stay on by what is known of them, and what to say. Raises Refused (GR592) where a rule of the user
    is refuted."""
    wrong = [n for n in on if stands[n].status == "refuted" and program.rewrites[n].ruleset in users]
    if wrong:
        raise Refused([refuted(n, stands[n].detail, program.rewrites[n].statement.span) for n in wrong])
    kept, notes = [], []
    for name in on:
        standing, entry = stands[name], program.rewrites[name]
        named = any(word in (entry.full, entry.statement.name) for word in enable)
        if standing.status == "refuted" or (standing.status == "unknown" and not named):
            if entry.ruleset in users:
                notes.append(f"off: {name}, of which nothing is known ({standing.detail}): --enable {name} to use it")
            continue
        kept.append(name)
    for status, text in ((NONE, "on though not verified"), (STALE, "on though changed since verified")):
        theirs = [n for n in kept if stands[n].status == status and program.rewrites[n].ruleset in users]
        others = [n for n in kept if stands[n].status == status and program.rewrites[n].ruleset not in users]
        for names in (theirs, others):
            if names:
                paths = dict.fromkeys(program.rewrites[n].file.path for n in names)
                place = next(iter(paths)) if len(paths) == 1 else str(rules_root()) if names is others else "them"
                some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
                notes.append(f"{text}: {some} (gerules verify {place})")
    return kept, notes


def _failed_examples(program: Program, rules: Collection[str]) -> dict[str, str]:
    """Those of some rewrites that an example speaks against, with what to say of them: a rule is on only when every
    example of it passes. The shipped ones are kept by tests."""
    from gerules.verify.examples import Examples

    failed: dict[str, str] = {}
    runner = Examples(program)
    for entry in program.examples:
        full = f"{entry.ruleset}.{entry.statement.name}"
        if full not in rules or full in failed:
            continue
        found = runner.one(full, entry).diagnostic
        if found is not None and found.severity == "error":
            where = f" ({found.span})" if found.span is not None else ""
            failed[full] = f"off: {full}, as its example fails{where}: {found.message}"
    return failed


def _names(entry: Entry[ast.Rewrite], name: str) -> bool:
    """Whether a word of the command line means this rule: its name, full name, ruleset, or exactness."""
    statement = entry.statement
    return (
        name in (entry.full, statement.name, entry.ruleset)
        or entry.ruleset.startswith(name + "/")
        or (name in EXACTNESS and statement.exactness == name)
    )


def _computes(rule: ast.Rewrite) -> bool:
    """Whether a rewrite replaces a node on constants by the constant that it computes."""
    return isinstance(rule.right, ast.Call) and rule.right.head == ast.Name("const")


def _check_names(program: Program, names: Sequence[str], flag: str) -> None:
    faults = []
    for name in names:
        if name in EXACTNESS or any(_names(entry, name) for entry in program.rewrites.values()):
            continue
        known = [*EXACTNESS, *program.rewrites, *(e.statement.name for e in program.rewrites.values())]
        hint = did_you_mean(name, known) or f"give the name of a rule or a ruleset, or one of {', '.join(EXACTNESS)}"
        faults.append(Diagnostic("GR702", f"{flag} {name}: there is no such rule", hint=hint))
    if faults:
        raise UsageFault(faults)


def _scheduled(program: Program, schedule: str, given: Sequence[str]) -> Program:
    """The program with a schedule that also runs shipped files that the user names by path."""
    found = next((f for f, e in program.schedules.items() if schedule in (f, e.statement.name)), None)
    if found is None:
        names = sorted(e.statement.name for e in program.schedules.values())
        hint = did_you_mean(schedule, names) or f"schedules are {', '.join(names)}"
        raise UsageFault(Diagnostic("GR703", f"there is no schedule `{schedule}`", hint=hint))
    entry = program.schedules[found]
    run = _run_names(entry.statement.steps)
    more = tuple(
        name
        for name in given
        if not name.startswith("user/") and not any(name == r or name.startswith(r + "/") for r in run)
    )
    if not more:
        return program
    statement = replace(entry.statement, steps=tuple(_with(step, more) for step in entry.statement.steps))
    return replace(program, schedules={**program.schedules, found: replace(entry, statement=statement)})


def _run_names(steps: Sequence[ast.Step]) -> tuple[str, ...]:
    names: list[str] = []
    pending = list(steps)
    while pending:
        step = pending.pop()
        if isinstance(step, ast.RunStep):
            names += step.rulesets
        elif isinstance(step, ast.RepeatStep):
            pending += step.steps
    return tuple(names)


def _with(step: ast.Step, more: tuple[str, ...]) -> ast.Step:
    """A step of a schedule that runs `more` wherever it runs the user's files. As deep as the schedule nests."""
    if isinstance(step, ast.RepeatStep):
        return replace(step, steps=tuple(_with(s, more) for s in step.steps))
    if isinstance(step, ast.RunStep) and "user" in step.rulesets:
        return replace(step, rulesets=(*step.rulesets, *more))
    return step


def _notes(program: Program, off: Sequence[str], asked: Sequence[str], schedule: str) -> tuple[str, ...]:
    notes = []
    if off:
        words = sorted({program.rewrites[n].statement.exactness for n in off})
        flags = " ".join(f"--enable {word}" for word in words)
        notes.append(f"off until asked for ({flags}): {', '.join(off)}")
    entry = next(e for f, e in program.schedules.items() if schedule in (f, e.statement.name))
    run = _run_names(entry.statement.steps)
    idle = [
        n for n in asked if not n.startswith("user/") and not any(_inside(program.rewrites[n].ruleset, r) for r in run)
    ]
    if idle:
        some = ", ".join(idle[:3]) + (" and others" if len(idle) > 3 else "")
        notes.append(f"schedule {schedule} does not run {some}: name another with --schedule, or the file with --rules")
    return tuple(notes)


def _inside(ruleset: str, name: str) -> bool:
    return ruleset == name or ruleset.startswith(name + "/")
