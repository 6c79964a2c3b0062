"""Checks of engines, transfers, merges, groups, schedules and studies."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gerules.dsl import ast
from gerules.dsl.lets import walk
from gerules.dsl.program import Entry, Program
from gerules.dsl.resolve import literal
from gerules.dsl.rule import Rule
from gerules.dsl.rules_check import strip
from gerules.dsl.suggest import did_you_mean, listed
from gerules.dsl.terms import Report
from gerules.dsl.vocabulary import MERGE_FIELDS, VALUE_TERMS, Vocabulary
from gerules.errors import Label

PROPERTIES: Mapping[str, str] = {
    "memory": "a memory, by name",
    "streams": "a whole number from 1 on",
    "launch": "seconds",
    "parts": "engines joined with `|`",
    "attached": "true or false",
    "priority": "a number",
    "inputs": "a memory, by name",
}
COST_NAMES = frozenset({"flops", "bytes", "elements"})
STEP_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "saturate": ("limit",),
    "run": ("limit",),
    "backoff": ("limit", "ban"),
    "shuffle": ("seed", "limit"),
    "limit": ("iterations", "nodes", "seconds"),
}
STUDY_PARAMETERS = ("schedule", "nodes", "iterations", "seconds", "without", "seed", "target", "enable", "disable")


def check_engine(program: Program, vocabulary: Vocabulary, entry: Entry[ast.Engine], report: Report) -> None:
    engine = entry.statement
    properties: dict[str, ast.Property] = {}
    defaults: list[ast.Cost] = []
    supports = 0
    for clause in engine.clauses:
        if isinstance(clause, ast.Property):
            _property(program, entry, clause, properties, report)
        elif isinstance(clause, ast.Supports):
            supports += 1
            _clause(program, vocabulary, entry, clause.over, clause.pattern, clause.when, None, report)
        else:
            if clause.pattern is None:
                defaults.append(clause)
            _clause(program, vocabulary, entry, clause.over, clause.pattern, clause.when, clause.value, report)
    composite = "parts" in properties
    if len(defaults) > 1:
        label = Label(defaults[0].span, "the first one")
        report.add(
            "GR149",
            f"engine {engine.name} has two default costs",
            defaults[1],
            "keep one; `cost PATTERN = ...` is for some nodes",
            [label],
        )
    if not defaults and not composite:
        report.add(
            "GR149",
            f"engine {engine.name} has no default cost",
            engine,
            "add `cost = flops / 10e12 + bytes / 100e9`, in seconds",
        )
    if not supports and not composite:
        report.add(
            "GR151",
            f"engine {engine.name} supports nothing",
            engine,
            "add `supports[f in Onnx] f(..)`, or `parts = A | B` for a composite",
        )


def _property(
    program: Program, entry: Entry[ast.Engine], clause: ast.Property, seen: dict[str, ast.Property], report: Report
) -> None:
    name = clause.name
    if name not in PROPERTIES:
        hint = did_you_mean(name, [*PROPERTIES, "supports", "cost"]) or f"properties are {listed(PROPERTIES)}"
        report.add("GR150", f"engines have no property {name}", clause, hint)
        return
    if name in seen:
        report.add("GR150", f"{name} is given twice", clause, "keep one", [Label(seen[name].span, "the first one")])
    seen[name] = clause
    value = literal(clause.value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        "memory": isinstance(clause.value, ast.Symbol),
        "inputs": isinstance(clause.value, ast.Symbol),
        "streams": type(value) is int and value >= 1,
        "launch": number and value >= 0,  # type: ignore[operator]
        "attached": isinstance(value, bool),
        "priority": number,
        "parts": True,
    }[name]
    if not fits:
        report.add("GR150", f"{name} is {PROPERTIES[name]}", clause.value, f"write `{name} = {_SAMPLES[name]}`")
    if name == "parts":
        _parts(program, entry, clause, report)


_SAMPLES = {"memory": "Hbm", "inputs": "Hbm", "streams": "4", "launch": "4us", "attached": "true", "priority": "9"}


def _engines_of(program: Program, file: ast.RuleFile) -> dict[str, ast.Engine]:
    return {e.statement.name: e.statement for e in program.engines.values() if e.file.path == file.path}


def _parts(program: Program, entry: Entry[ast.Engine], clause: ast.Property, report: Report) -> None:
    names = _engines_of(program, entry.file)
    for node in walk(clause.value):
        if isinstance(node, ast.Binary) and node.op == "|":
            continue
        if not isinstance(node, ast.Symbol):
            report.add("GR150", f"parts is {PROPERTIES['parts']}", node, "write `parts = AiCore | AiVector`")
        elif str(node) not in names:
            report.add("GR131", f"unknown engine {node}", node, did_you_mean(str(node), names))
        elif str(node) == entry.statement.name:
            report.add("GR150", f"engine {node} is no part of itself", node, "name other engines")


def _clause(
    program: Program,
    vocabulary: Vocabulary,
    entry: Entry[ast.Engine],
    over: tuple[ast.Member, ...],
    pattern: ast.Expr | None,
    when: tuple[ast.Expr, ...],
    value: ast.Expr | None,
    report: Report,
) -> None:
    rule = Rule(program, vocabulary, entry.file, report, over, wide=True)
    rule.terms.free_names = COST_NAMES if value is not None else frozenset()
    if pattern is not None:
        _node_pattern(rule, pattern, report)
        rule.bind(pattern)
        rule.settle(when)
        rule.terms.term(pattern, makes=False)
    rule.conditions(when)
    rule.idle([p for p in (pattern, value, *when) if p is not None])
    if value is not None:
        _amount(rule, value, report)


def _node_pattern(rule: Rule, pattern: ast.Expr, report: Report) -> None:
    inner = strip(pattern)
    if isinstance(inner, ast.Index):
        inner = strip(inner.base)
    value = isinstance(inner, ast.Call) and isinstance(inner.head, ast.Name) and inner.head.id in VALUE_TERMS
    if not isinstance(inner, ast.Call) or value:
        report.add(
            "GR168", "an operator pattern is wanted here", pattern, "write `Conv(x, w, ..)`, or `[f in Onnx] f(..)`"
        )


def _amount(rule: Rule, value: ast.Expr, report: Report) -> None:
    """Seconds: an expression over flops, bytes, elements and what the pattern binds."""
    rule.terms.static(value)
    number = literal(value)
    if number is None and _least(value) < 0:
        hint = "it is taken as it is: see to it that what is taken away is the smaller part"
        report.add("GR149", "this cost can be negative", value, hint, severity="warning")
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if isinstance(number, int | float) and number < 0:
        report.add("GR149", "a cost is not negative", value, "seconds, from 0 on")
    no_number = number is not None and not is_number
    if no_number or isinstance(value, ast.Compare | ast.Logical | ast.ListExpr | ast.SetExpr | ast.Symbol):
        report.add("GR149", "a cost is a number of seconds", value, "write `flops / 10e12 + 2us`")
    names = [*sorted(rule.terms.free_names), *rule.bound]
    for name in sorted(rule.terms.used(value) - rule.bound.keys()):
        place = next((n for n in walk(value) if isinstance(n, ast.Name) and n.id == name), value)
        hint = did_you_mean(name, names) or f"here there are {listed(names)}"
        report.add("GR140", f"nothing binds {name}", place, hint)


def _least(value: ast.Expr) -> float:
    """The least value that an amount can have when all that it speaks of is at least 0; 0 where that is not seen."""
    low, _ = _range(value)
    return low


def _range(value: ast.Expr) -> tuple[float, float]:
    if isinstance(value, ast.Number):
        return float(value.value), float(value.value)
    if isinstance(value, ast.Unary) and value.op == "-":
        low, high = _range(value.operand)
        return -high, -low
    if isinstance(value, ast.Binary) and value.op in "+-*/":
        (a, b), (c, d) = _range(value.left), _range(value.right)
        if value.op == "+":
            return a + c, b + d
        if value.op == "-":
            return a - d, b - c
        if a >= 0 and c >= 0:
            return 0.0, math.inf
        return -math.inf, math.inf
    return 0.0, math.inf


def check_transfers(program: Program, vocabulary: Vocabulary, report: Report) -> None:
    """Places exist, and no pair is given twice in one file."""
    for file in program.files:
        engines = _engines_of(program, file)
        memories = {
            str(c.value)
            for e in engines.values()
            for c in e.clauses
            if isinstance(c, ast.Property) and c.name in ("memory", "inputs")
        }
        places = [*engines, *sorted(memories)]
        seen: dict[tuple[str, str], ast.Transfer] = {}
        for entry in program.transfers:
            if entry.file.path != file.path:
                continue
            transfer = entry.statement
            rule = Rule(program, vocabulary, file, report, ())
            rule.terms.free_names = frozenset({"bytes"})
            _amount(rule, transfer.value, report)
            for name in (transfer.source, transfer.target):
                if name not in places:
                    hint = did_you_mean(name, places) or f"this file has {listed(places)}"
                    report.add("GR131", f"no engine and no memory is called {name}", transfer, hint)
            ways = [(transfer.source, transfer.target)]
            if transfer.both:
                ways.append((transfer.target, transfer.source))
            for way in ways:
                first = seen.setdefault(way, transfer)
                if first is not transfer:
                    label = Label(first.span, "the first one")
                    report.add(
                        "GR152", f"the transfer from {way[0]} to {way[1]} is given twice", transfer, "keep one", [label]
                    )
                    break


def check_merge(program: Program, vocabulary: Vocabulary, entry: Entry[ast.Merge], report: Report) -> None:
    merge = entry.statement
    if merge.source == merge.target:
        report.add("GR154", "a merge is between two nodes", merge, "write `a -> b`")
    rule = Rule(program, vocabulary, entry.file, report, merge.over, wide=True)
    rule.terms.engine_names = frozenset(_engines_of(program, entry.file)) or frozenset(
        e.statement.name for e in program.engines.values()
    )
    nodes = {merge.source, merge.target}
    rule.terms.free_names = frozenset(nodes)
    rule.settle(merge.when)
    for condition in merge.when:
        for node in walk(condition):
            is_field = isinstance(node, ast.Field) and isinstance(node.base, ast.Name) and node.base.id in nodes
            if isinstance(node, ast.Field) and is_field and node.name not in MERGE_FIELDS:
                hint = did_you_mean(node.name, MERGE_FIELDS) or f"nodes have {listed(f'.{f}' for f in MERGE_FIELDS)}"
                report.add("GR154", f"nodes of a merge have no field .{node.name}", node, hint)
        _engine_names(rule, condition, report)
    _merge_conditions(rule, merge, nodes)
    rule.idle([merge])


def _engine_names(rule: Rule, condition: ast.Expr, report: Report) -> None:
    """What `.engine` is compared with is an engine."""
    if not isinstance(condition, ast.Compare):
        return
    for field, other in ((condition.left, condition.right), (condition.right, condition.left)):
        is_engine = isinstance(field, ast.Field) and field.name == "engine"
        if is_engine and isinstance(other, ast.Symbol) and str(other) not in rule.terms.engine_names:
            hint = did_you_mean(str(other), rule.terms.engine_names)
            report.add("GR131", f"unknown engine {other}", other, hint)


def _merge_conditions(rule: Rule, merge: ast.Merge, nodes: set[str]) -> None:
    """Everything but the fields of the two nodes is checked like any condition."""
    scratch = Report()
    real = rule.report
    rule.report = rule.terms.report = scratch
    rule.conditions(merge.when)
    rule.report = rule.terms.report = real
    # Fields and engines have been looked at, with the words of merges.
    real.found += [d for d in scratch.found if d.code not in ("GR169", "GR130")]


def check_group(program: Program, vocabulary: Vocabulary, entry: Entry[ast.Group], report: Report) -> None:
    group = entry.statement
    rule = Rule(program, vocabulary, entry.file, report, group.over, wide=True)
    rule.bind(group.pattern)
    rule.settle(group.when)
    rule.terms.term(group.pattern, makes=False)
    rule.conditions(group.when)
    rule.idle([group])
    calls = [n for n in walk(group.pattern) if isinstance(n, ast.Call)]
    operators = [c for c in calls if not (isinstance(c.head, ast.Name) and c.head.id in VALUE_TERMS)]
    if len(operators) < 2:
        report.add(
            "GR155", "a group keeps at least two operators together", group.pattern, "nest them: `Relu(Conv(x, ..))`"
        )


# --------------------------------------------------------------------------------------------- schedules, studies


def check_schedule(program: Program, entry: Entry[ast.Schedule], report: Report) -> None:
    known = program.rulesets()
    pending: list[ast.Step] = list(entry.statement.steps)
    while pending:
        step = pending.pop(0)
        if isinstance(step, ast.RepeatStep):
            if step.count < 1:
                report.add("GR165", "a step is repeated at least once", step, "write `repeat 50 (...)`")
            pending = [*step.steps, *pending]
            continue
        if isinstance(step, ast.RunStep):
            for name in step.rulesets:
                if name not in known and not name.startswith("user/"):
                    hint = did_you_mean(name, known) or "a ruleset is a rule file or a folder of them, below `rules/`"
                    report.add("GR153", f"there is no ruleset {name}", step, hint)
        _options(step.mode if isinstance(step, ast.RunStep) else "limit", step.options, report)


def _options(mode: str, options: tuple[ast.Keyword, ...], report: Report) -> None:
    known = STEP_OPTIONS[mode]
    seen: set[str] = set()
    for option in options:
        value = literal(option.value)
        if option.name not in known:
            hint = did_you_mean(option.name, known) or f"{mode} has {listed(known)}"
            report.add("GR165", f"{mode} has no option {option.name}", option, hint)
        elif option.name in seen:
            report.add("GR165", f"{option.name} is given twice", option, "keep one")
        elif (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or value < (0 if option.name == "seed" else 1e-9)
        ):
            report.add("GR165", f"{option.name} is a number above 0", option.value, f"write `{option.name} = 10`")
        elif option.name != "seconds" and not isinstance(value, int):
            report.add("GR165", f"{option.name} is a whole number", option.value, f"write `{option.name} = 10`")
        seen.add(option.name)


def check_study(program: Program, entry: Entry[ast.Study], report: Report) -> None:
    seen: set[str] = set()
    schedules = [e.statement.name for e in program.schedules.values()]
    for axis in entry.statement.axes:
        if axis.name not in STUDY_PARAMETERS:
            hint = did_you_mean(axis.name, STUDY_PARAMETERS) or f"studies vary {listed(STUDY_PARAMETERS, 'or')}"
            report.add("GR164", f"a study cannot vary {axis.name}", axis, hint)
        elif axis.name in seen:
            report.add("GR164", f"{axis.name} is varied twice", axis, "join the two ranges")
        seen.add(axis.name)
        if not isinstance(axis.range, ast.SetExpr | ast.Between | ast.Call):
            report.add("GR164", "a study varies over a set or a range", axis.range, "write `{1, 2, 5}` or `1..5`")
        if axis.name == "schedule" and isinstance(axis.range, ast.SetExpr):
            for item in axis.range.items:
                if not isinstance(item, ast.Name) or item.id not in schedules:
                    name = item.id if isinstance(item, ast.Name) else "this"
                    report.add("GR164", f"there is no schedule {name}", item, did_you_mean(name, schedules))
