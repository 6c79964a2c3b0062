"""Instances near those that a rule's own examples show.

An example is an instance on which all conditions hold, or all but the one that it cites: the best place to look for
what a lost condition was good for. A draw takes shapes, attributes and contents from the example, some of them off by
one, and the rest at random.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from gerules.dsl import ast
from gerules.egraph.program import Knowledge
from gerules.errors import GerulesError
from gerules.graph.dims import Dim
from gerules.registry.definition import Operand
from gerules.static import Context, Unknown, compile_expr
from gerules.verify.case import Case
from gerules.verify.draw import Drawer, Reject, State
from gerules.verify.layout import ColumnAt, DrawColumn, DrawHeld, DrawLeaf
from gerules.verify.plan import CasePlan, static_context

SIZES = (2, 3, 1, 4, 0, 5)
"""What a dimension symbol of an example may be."""


@dataclass(frozen=True)
class Pins:
    """What an example says of the names of a rule: extents of tensors, values of attributes and contents."""

    shapes: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    values: Mapping[str, object] = field(default_factory=dict)


def pins_of(case: Case, known: Knowledge) -> tuple[Pins, ...]:
    """What each example of the case's rule says, as far as its terms fit the left side."""
    context = static_context(known)
    found: list[Pins] = []
    rule = known.program.rewrites.get(case.rule)
    # A mutant is shown by what the examples say of the rule as it is written.
    lefts = [case.left] if rule is None else [rule.statement.left, rule.statement.right, case.left]
    for entry in known.program.examples:
        if f"{entry.ruleset}.{entry.statement.name}" != case.rule:
            continue
        for given in _terms(entry.statement.given):
            for left in lefts:
                if (pins := _read(left, given, context)) is not None and pins not in found:
                    found.append(pins)
                    break
    return tuple(found)


def _read(left: ast.Expr, given: ast.Expr, context: Context) -> Pins | None:
    reader = _Reader(context)
    reader.match(left, given)
    return Pins(reader.shapes, reader.values) if reader.shapes or reader.values else None


def _terms(given: Sequence[ast.Expr]) -> Iterator[ast.Expr]:
    """The terms of an example, the last first, earlier ones written out where a later one speaks of them by name."""
    known = {g.name: g.expr for g in given if isinstance(g, ast.Bind)}
    for term in reversed(given):
        inner = term.expr if isinstance(term, ast.Bind) else term
        yield _written_out(inner, known)


def _written_out(term: ast.Expr, known: Mapping[str, ast.Expr]) -> ast.Expr:
    """Terms of examples are a few operators deep."""
    match term:
        case ast.Name(id=name) if name in known:
            return _written_out(known[name], {n: e for n, e in known.items() if n != name})
        case ast.Call():
            return replace(term, operands=tuple(_written_out(o, known) for o in term.operands))
        case ast.Index(base=base):
            return replace(term, base=_written_out(base, known))
    return term


@dataclass
class _Reader:
    """Goes over a pattern and a term together."""

    context: Context
    shapes: dict[str, tuple[object, ...]] = field(default_factory=dict)
    values: dict[str, object] = field(default_factory=dict)
    typed: dict[str, tuple[object, ...]] = field(default_factory=dict)

    def match(self, pattern: ast.Expr, term: ast.Expr) -> None:
        if isinstance(term, ast.Typed):
            self.typed[term.name] = tuple(self.static(d) for d in term.dims)
        match pattern:
            case ast.Bind(expr=inner):
                self.match(inner, term)
            case ast.Name(id=name):
                leaf = term.name if isinstance(term, ast.Typed) else term.id if isinstance(term, ast.Name) else ""
                if leaf in self.typed:
                    self.shapes.setdefault(name, self.typed[leaf])
            case ast.Index(base=base) if isinstance(term, ast.Index):
                self.match(base, term.base)
            case ast.Call(head=ast.Name(id="const" | "dims" | "dim" | "splat" | "iota")):
                if isinstance(term, ast.Call) and isinstance(term.head, ast.Name):
                    for ours, theirs in zip(pattern.operands, term.operands, strict=False):
                        self.value(ours, theirs)
            case ast.Call() if isinstance(term, ast.Call):
                for ours, theirs in zip(pattern.operands, term.operands, strict=False):
                    if isinstance(ours, ast.Rest):
                        break
                    self.match(ours, theirs)
                theirs_by_name = {k.name: k.value for k in term.keywords}
                for keyword in pattern.keywords:
                    if keyword.name in theirs_by_name:
                        self.value(keyword.value, theirs_by_name[keyword.name])

    def value(self, pattern: ast.Expr, term: ast.Expr) -> None:
        if isinstance(pattern, ast.Name) and pattern.id != "_":
            value = self.static(term)
            if value is not None:
                self.values.setdefault(pattern.id, value)

    def static(self, expr: ast.Expr) -> object:
        try:
            return compile_expr(expr, self.context)({})
        except (Unknown, GerulesError):
            return None


@dataclass
class PinnedDrawer(Drawer):
    """Draws near what an example says."""

    pins: Pins = field(default_factory=Pins)

    def __post_init__(self) -> None:
        self.columns = {b.number: n for n, b in self.layout.names.items() if isinstance(b, ColumnAt)}
        self.sizes: dict[str, int] = {}

    def draw(self, source: object) -> State:
        self.sizes = {}
        return super().draw(source)  # type: ignore[arg-type]

    def step(self, state: State, index: int, step: object) -> None:
        if isinstance(step, DrawLeaf) and step.name in self.pins.shapes:
            state.tensors[step.tensor] = self.pinned_leaf(state, index, step, self.pins.shapes[step.name])
        elif isinstance(step, DrawColumn) and (value := self.pinned(state, step.column)) is not None:
            state.columns[step.column] = value
        elif isinstance(step, DrawHeld) and step.kind == "const" and step.given is None:
            value = self.pinned(state, step.content)
            if value is None:
                return super().step(state, index, step)
            array = self.as_array(value, state.dtypes[state.layout.class_of[step.tensor]])
            state.tensors[step.tensor] = state.columns[step.content] = array
        else:
            super().step(state, index, step)

    def pinned(self, state: State, column: int) -> object:
        """The example's value of a column: as it is, or off by one in one entry; None where it is drawn instead."""
        value = self.pins.values.get(self.columns.get(column, ""))
        mode = state.source.below(8)
        if value is None or mode == 7:
            return None
        value = self.concrete(state, value)
        if mode < 4:
            return value
        by = (1, -1)[state.source.below(2)]
        if isinstance(value, int) and not isinstance(value, bool):
            return value + by
        if isinstance(value, tuple) and value and all(isinstance(v, int) for v in value):
            place = state.source.below(len(value))
            return (*value[:place], value[place] + by, *value[place + 1 :])
        return value

    def pinned_leaf(self, state: State, index: int, step: DrawLeaf, dims: tuple[object, ...]) -> object:
        mode = state.source.below(8)
        dtype = state.dtypes[state.layout.class_of[step.tensor]]
        if mode == 7 or any(d is None for d in dims) or dtype.endswith(")"):
            return self.leaf(state, index, dtype, step.formal)
        shape = self.concrete(state, dims)
        assert isinstance(shape, tuple)
        if mode >= 5 and shape:
            place = state.source.below(len(shape))
            shape = (*shape[:place], max(0, shape[place] + (1, -1)[state.source.below(2)]), *shape[place + 1 :])
        if int(np.prod(shape)) > LARGEST:
            raise Reject("too large")
        state.propose.shapes.append(shape)
        return self.array(state, dtype, shape, self.is_list(step.formal))

    @staticmethod
    def is_list(formal: Operand) -> bool:
        return bool(formal.types) and all(t[0] in "iu" for t in formal.types) and len(formal.types) <= 2

    def concrete(self, state: State, value: object) -> object:
        """A value with its dimension symbols drawn, each once."""
        if isinstance(value, tuple):
            return tuple(self.concrete(state, v) for v in value)
        if isinstance(value, Dim):
            for symbol in value.symbols():
                if symbol not in self.sizes:
                    self.sizes[symbol] = SIZES[state.source.below(len(SIZES))]
            return value.evaluate(self.sizes)
        return value


LARGEST = 600
"""Elements of a leaf at most."""


@dataclass
class PinnedPlan(CasePlan):
    """A case drawn near one of its examples."""

    pins: Pins = field(default_factory=Pins)

    def _ready(self, pick):  # type: ignore[no-untyped-def]  # the same as of the plan that it extends
        ready = super()._ready(pick)
        given = {f.name: getattr(ready.drawer, f.name) for f in fields(Drawer) if f.init and f.name != "_compiled"}
        return replace(ready, drawer=PinnedDrawer(**given, pins=self.pins))


def pinned_plans(plan: CasePlan) -> tuple[PinnedPlan, ...]:
    """The plan once for each of the examples of its rule."""
    return tuple(
        PinnedPlan(plan.case, plan.known, plan.context, plan.words, plan.samples, pins=pins)
        for pins in pins_of(plan.case, plan.known)
    )
