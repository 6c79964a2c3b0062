"""From a program to a target: the statements of one file with engines, checked together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gerules.dsl import ast
from gerules.dsl.program import Program
from gerules.dsl.suggest import did_you_mean
from gerules.errors import Diagnostic, GerulesError, Refused, UsageFault
from gerules.static import split_conditions
from gerules.target.clauses import collect, compile_clause
from gerules.target.engines import Composite, Engine, read_engine, surroundings
from gerules.target.figures import Figures
from gerules.target.sizes import Likely
from gerules.target.target import GroupRule, MergeRule, Target
from gerules.target.transfers import read_transfers


def target_names(program: Program) -> tuple[str, ...]:
    """The targets that are loaded: rule files with engines, as `--target` calls them."""
    return tuple(dict.fromkeys(_called(entry.file) for entry in program.engines.values()))


def _called(file: ast.RuleFile) -> str:
    return file.ruleset.removeprefix("engines/").removeprefix("user/")


def load_target(program: Program, name: str, likely: Likely | None = None) -> Target:
    """The target of a name (`ascend`), a ruleset (`user/mine`), or the path of a loaded rule file.

    Raises UsageFault (GR618) where there is none of this name, Refused with every fault of its engines, transfers,
    merge and group rules.
    """
    likely = likely or Likely()
    chosen = _files(program, name)
    entries = [e for e in program.engines.values() if e.file.path in chosen]
    if not entries:
        known = target_names(program)
        hint = did_you_mean(name, known) or f"targets are {', '.join(known) or 'files with engines'}"
        raise UsageFault(Diagnostic("GR618", f"there is no target `{name}`", hint=hint))
    faults: list[Diagnostic] = []
    names = [e.statement.name for e in entries]
    composites: dict[str, Sequence[str]] = {}
    engines: list[Engine] = []
    found: list[Composite] = []
    for entry in entries:
        around = surroundings(program, entry.file, likely.facts, names, {})
        engine = read_engine(entry, around, faults)
        if isinstance(engine, Composite):
            found.append(engine)
            composites[engine.name] = engine.parts
        elif engine is not None:
            engines.append(engine)
    _check_parts(found, [e.name for e in engines], names, entries[0].statement, faults)
    extra = _input_memories(engines, faults)
    transfers = read_transfers(
        [t for t in program.transfers if t.file.path in chosen],
        {e.name: e.memory for e in engines},
        extra,
        surroundings(program, entries[0].file, likely.facts, names, composites).context,
        faults,
    )
    merges, groups = _rules(program, chosen, names, composites, likely, faults)
    figures = Figures(program, likely)
    if faults:
        raise Refused(faults)
    return Target(_called(entries[0].file), engines, found, transfers, merges, groups, figures, program)


def _files(program: Program, name: str) -> frozenset[str]:
    wanted = {name, f"engines/{name}", f"user/{name}"}
    whole = Path(name)
    return frozenset(
        file.path
        for file in program.files
        if file.ruleset in wanted
        or file.path == name
        or (name.endswith(".rules") and Path(file.path).resolve() == whole.resolve())
    )


def _check_parts(
    composites: Sequence[Composite],
    engines: Sequence[str],
    names: Sequence[str],
    statement: ast.Engine,
    faults: list[Diagnostic],
) -> None:
    for composite in composites:
        for part in composite.parts:
            if part not in engines:
                hint = did_you_mean(part, engines) or f"engines are {', '.join(engines)}"
                message = f"{part}, a part of {composite.name}, is no engine with a cost of its own"
                faults.append(Diagnostic("GR612", message, span=statement.span, hint=hint))
    if not engines and not faults:
        faults.append(Diagnostic("GR612", "the target has composites only", span=statement.span, hint="add an engine"))


def _input_memories(engines: Sequence[Engine], faults: list[Diagnostic]) -> tuple[str, ...]:
    given = {e.inputs: e for e in engines if e.inputs is not None}
    if len(given) > 1:
        engine = list(given.values())[-1]
        span = engine.written.span if engine.written else None
        message = f"inputs lie in one memory, not in {' and '.join(str(m) for m in given)}"
        faults.append(Diagnostic("GR616", message, span=span, hint="say `inputs = ...` once"))
    return tuple(str(m) for m in given)


def _rules(
    program: Program,
    chosen: frozenset[str],
    names: Sequence[str],
    composites: Mapping[str, Sequence[str]],
    likely: Likely,
    faults: list[Diagnostic],
) -> tuple[list[MergeRule], list[GroupRule]]:
    elsewhere = {e.file.path for e in program.engines.values()} - chosen
    merges: list[MergeRule] = []
    groups: list[GroupRule] = []
    for merge in program.merges.values():
        if merge.file.path in elsewhere:
            continue
        around = surroundings(program, merge.file, likely.facts, names, composites)
        rule = merge.statement
        try:
            steps = split_conditions(rule.when, (rule.source, rule.target), around.context)
            merges.append(MergeRule(merge.full, rule.source, rule.target, steps))
        except GerulesError as error:
            collect(faults, error)
    for group in program.groups.values():
        if group.file.path in elsewhere:
            continue
        around = surroundings(program, group.file, likely.facts, names, composites)
        try:
            clause = compile_clause(group.statement.pattern, group.statement.over, group.statement.when, around)
            groups.append(GroupRule(group.full, clause))
        except GerulesError as error:
            collect(faults, error)
    return merges, groups
