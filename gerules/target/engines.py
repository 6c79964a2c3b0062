"""Engines as tables: who takes which node, at what cost.

An engine takes a node where one of its `supports` clauses matches and its conditions are *known* to hold; the cost is
that of the last `cost` clause that matches, else the default, at likely sizes, with the engine's launch added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gerules.dsl import ast
from gerules.dsl.program import Entry, Program
from gerules.dsl.suggest import did_you_mean
from gerules.errors import Diagnostic, GerulesError, Refused
from gerules.graph.dims import DimFacts
from gerules.registry.definition import OperatorDef
from gerules.static import Unknown, compile_expr
from gerules.static.evaluate import ValueOf
from gerules.static.values import is_number
from gerules.target.clauses import Clause, Surroundings, collect, compile_clause
from gerules.target.figures import Figures, variables
from gerules.target.matching import View
from gerules.target.sizes import SizedView, likeness

FIGURE_NAMES = ("flops", "bytes", "elements")


@dataclass(frozen=True)
class CostRule:
    """A `cost` clause: seconds where it matches."""

    clause: Clause
    value: ValueOf
    written: ast.Cost


@dataclass(frozen=True)
class Engine:
    """One engine of a target. `memory` is where its values lie, `launch` seconds a node (and a cluster), `streams` how
    many queues it has, `priority` breaks ties (lower first), `attached` says that it is the host of the others."""

    name: str
    memory: str
    launch: float = 0.0
    streams: int = 1
    priority: int = 0
    attached: bool = False
    inputs: str | None = None
    supports: tuple[Clause, ...] = field(default=(), repr=False)
    costs: tuple[CostRule, ...] = field(default=(), repr=False)
    default: ValueOf | None = field(default=None, repr=False)
    written: ast.Engine | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Composite:
    """Engines whose nodes may share a cluster under one launch."""

    name: str
    parts: tuple[str, ...]
    launch: float = 0.0
    streams: int = 1


@dataclass(frozen=True)
class _Tried:
    """The clauses of one engine that can match one operator."""

    supports: tuple[Clause, ...]
    costs: tuple[CostRule, ...]  # the last one first

    @property
    def flat(self) -> bool:
        return all(c.flat for c in self.supports) and all(c.clause.flat for c in self.costs)


class CostTable:
    """Seconds of nodes on every engine. Nodes that look alike are calculated once."""

    def __init__(self, engines: Sequence[Engine], figures: Figures) -> None:
        self.engines = tuple(engines)
        self.figures = figures
        self._tried: dict[str, tuple[_Tried, ...]] = {}
        self._known: dict[object, tuple[float | None, ...]] = {}

    def supported(self, view: View, node: Any) -> tuple[bool, ...]:
        """Whether each engine takes the node."""
        tried = self._clauses(view.operator(node))
        return tuple(any(clause.holds(view, node) for clause in t.supports) for t in tried)

    def costs(self, view: View, node: Any) -> tuple[float | None, ...]:
        """Seconds of a node on each engine, launch included, as the mean over the scenarios; None where the engine does
        not take it. Raises Refused (GR620) where a cost has no value or is negative."""
        tried = self._clauses(view.operator(node))
        if not (all(t.flat for t in tried) and self.figures.flat(view.operator(node))):
            return self._calculate(view, node, tried)
        key = likeness(view, node)
        if key not in self._known:
            self._known[key] = self._calculate(view, node, tried)
        return self._known[key]

    def _calculate(self, view: View, node: Any, tried: Sequence[_Tried]) -> tuple[float | None, ...]:
        takes = [any(clause.holds(view, node) for clause in t.supports) for t in tried]
        totals = [0.0] * len(tried)
        scenarios = self.figures.likely.scenarios
        for scenario in range(scenarios):
            sized = SizedView(view, self.figures.likely, scenario)
            free = variables(self.figures.of(sized, node))
            for i, (engine, t) in enumerate(zip(self.engines, tried, strict=True)):
                if takes[i]:
                    totals[i] += _seconds(engine, t.costs, sized, node, free)
        return tuple(
            total / scenarios + engine.launch if taken else None
            for total, engine, taken in zip(totals, self.engines, takes, strict=True)
        )

    def _clauses(self, operator: OperatorDef) -> tuple[_Tried, ...]:
        key = operator.key
        if key not in self._tried:
            self._tried[key] = tuple(
                _Tried(
                    tuple(c for c in engine.supports if c.matcher.heads.admits(operator)),
                    tuple(c for c in reversed(engine.costs) if c.clause.matcher.heads.admits(operator)),
                )
                for engine in self.engines
            )
        return self._tried[key]

    def refusals(self, view: View, node: Any) -> list[tuple[Engine, Clause, ast.Expr | None]]:
        """Clauses that name the node's operator and did not take it, with the condition that failed (None: the
        pattern)."""
        tried = self._clauses(view.operator(node))
        return [
            (engine, clause, clause.failing(view, node))
            for engine, t in zip(self.engines, tried, strict=True)
            for clause in t.supports
        ]


def _seconds(engine: Engine, rules: Sequence[CostRule], view: SizedView, node: Any, free: Mapping[str, float]) -> float:
    for rule in rules:
        found = next(rule.clause.solutions(view, node), None)
        if found is not None:
            return _evaluate(rule.value, {**found.env, **free}, engine, view, node)
    if engine.default is None:
        message = f"no cost clause of {engine.name} fits {view.operator(node).key}, and it has no default cost"
        raise Refused(Diagnostic("GR620", message, hint="add `cost = flops / 1e12 + bytes / 1e9`"))
    return _evaluate(engine.default, free, engine, view, node)


def _evaluate(value: ValueOf, env: Mapping[str, object], engine: Engine, view: SizedView, node: Any) -> float:
    operator = view.operator(node).key
    try:
        seconds = value(env)
    except Unknown as unknown:
        message = f"the cost of {operator} on {engine.name} has no value: {unknown}"
        raise Refused(Diagnostic("GR620", message, hint="a cost is made of numbers that every match has")) from None
    if not is_number(seconds) or not 0 <= float(seconds) < float("inf"):  # type: ignore[arg-type]
        message = f"the cost of {operator} on {engine.name} is {seconds}, which is no time"
        raise Refused(Diagnostic("GR620", message, hint="seconds are 0 or more"))
    return float(seconds)  # type: ignore[arg-type]


# -------------------------------------------------------------------------------------------------------- reading

_PROPERTIES = ("memory", "parts", "launch", "streams", "priority", "attached", "inputs")


def read_engine(entry: Entry[ast.Engine], around: Surroundings, faults: list[Diagnostic]) -> Engine | Composite | None:
    """An engine statement, or None with its faults: an unknown property (GR613), a property of the wrong kind
    (GR617), no default cost (GR615), and what its patterns and conditions have."""
    statement = entry.statement
    before = len(faults)
    values: dict[str, Any] = {}
    supports: list[Clause] = []
    costs: list[CostRule] = []
    default: ValueOf | None = None
    for clause in statement.clauses:
        try:
            if isinstance(clause, ast.Property):
                values[clause.name] = _property(statement.name, clause, around)
            elif isinstance(clause, ast.Supports):
                supports.append(compile_clause(clause.pattern, clause.over, clause.when, around))
            elif clause.pattern is None:
                default = compile_expr(clause.value, around.context)
            else:
                compiled = compile_clause(clause.pattern, clause.over, clause.when, around)
                costs.append(CostRule(compiled, compile_expr(clause.value, around.context), clause))
        except GerulesError as error:
            collect(faults, error)
    if len(faults) > before:
        return None
    name = statement.name
    launch, streams = values.get("launch", 0.0), values.get("streams", 1)
    if "parts" in values:
        return Composite(name, values["parts"], launch, streams)
    if default is None:
        message = f"engine {name} has neither a default cost nor parts"
        faults.append(Diagnostic("GR615", message, span=statement.span, hint="add `cost = flops / 1e12 + bytes / 1e9`"))
        return None
    return Engine(
        name,
        values.get("memory", name),
        launch,
        streams,
        values.get("priority", 0),
        values.get("attached", False),
        values.get("inputs"),
        tuple(supports),
        tuple(costs),
        default,
        statement,
    )


def _property(engine: str, written: ast.Property, around: Surroundings) -> Any:
    name, value = written.name, written.value
    if name not in _PROPERTIES:
        hint = did_you_mean(name, _PROPERTIES) or f"properties are {', '.join(_PROPERTIES)}"
        raise Refused(Diagnostic("GR613", f"engine {engine} has an unknown property `{name}`", written.span, hint=hint))
    if name in {"memory", "inputs"}:
        if isinstance(value, ast.Symbol) and not value.domain and value.version is None:
            return value.name
        raise _kind(written, "the name of a memory, as `Hbm`")
    if name == "parts":
        return _parts(written, value)
    try:
        number = compile_expr(value, around.context)({})
    except Unknown:
        number = None
    if name == "attached":
        if isinstance(number, bool):
            return number
        raise _kind(written, "true or false")
    if not is_number(number):
        raise _kind(written, "a number")
    if name == "launch":
        if float(number) >= 0:  # type: ignore[arg-type]
            return float(number)  # type: ignore[arg-type]
        raise _kind(written, "a time of 0 or more, as `4us`")
    if not isinstance(number, int) or (name == "streams" and number < 1):
        raise _kind(written, "a whole number" + (" from 1 on" if name == "streams" else ""))
    return number


def _parts(written: ast.Property, value: ast.Expr) -> tuple[str, ...]:
    parts: list[str] = []
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, ast.Binary) and part.op == "|":
            pending.extend((part.right, part.left))
        elif isinstance(part, ast.Symbol):
            parts.append(part.name)
        else:
            raise _kind(written, "engines, as `AiCore | AiVector`")
    return tuple(parts)


def _kind(written: ast.Property, wanted: str) -> Refused:
    return Refused(Diagnostic("GR617", f"`{written.name}` is {wanted}", written.span, hint=f"write {wanted}"))


def surroundings(
    program: Program,
    file: ast.RuleFile,
    facts: DimFacts,
    engines: Sequence[str],
    composites: Mapping[str, Sequence[str]],
) -> Surroundings:
    """The names of an engine file: engines stand for themselves; `part(engine, composite)` has a row a part."""
    rows = tuple((part, composite) for composite, parts in composites.items() for part in parts)
    return Surroundings.of(program, file, facts, {name: name for name in engines}, {"part": rows})
