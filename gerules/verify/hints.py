"""What the conditions of a rule say of a draw beforehand, and what to draw anew when one fails.

Each condition is asked as soon as what it reads is drawn. One that ties a value to others that are drawn before it
(`s == [a.shape[j], b.shape[j]]`, `all(p >= 1)`, `x.rank == e.rank`) is a hint: the value is made to fit, more often
than not. Conditions on element types alone are solved before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from gerules.dsl import ast
from gerules.egraph.signature import Signature
from gerules.static import Context, Step, TensorView, Test, compile_expr, free_names
from gerules.static.context import DTYPES
from gerules.verify.compute import plain_view
from gerules.verify.layout import (
    Bound,
    ColumnAt,
    DrawColumn,
    DrawHeld,
    DrawLeaf,
    Fixed,
    Layout,
    ListOf,
    NodeAt,
    RestOf,
    RunNode,
    SetColumn,
    TensorAt,
)

MOST_COMBINATIONS = 20_000
FIRST = 2
"""Segments of a draw before its first step: the picks of the layout, and types, sizes and mood."""

Of = Callable[[Mapping[str, object]], object]


@dataclass(frozen=True, slots=True)
class Hint:
    """`what` (contents, shape, rank, size, or the extent at `index`) stands in the order `op` to a value, on every
    entry if `each`. `known` is the value; a list that is taken apart has its items one by one, None where one is free,
    a pair where it is a rest."""

    what: str
    op: str
    known: Of | None
    each: bool = False
    index: Of | None = None
    items: tuple[Of | tuple[Of | None] | None, ...] | None = None


@dataclass(frozen=True)
class Guide:
    """What a draw of a layout needs to know of conditions. `after[i]` are the conditions asked after step i (0: before
    any); `hints[i]` what they say of what step i draws; `causes[i]` the segments that step i's operands come from, and
    `condition_causes` those of each condition."""

    after: tuple[tuple[int, ...], ...]
    hints: Mapping[int, tuple[Hint, ...]]
    causes: tuple[tuple[int, ...], ...]
    condition_causes: tuple[tuple[int, ...], ...]
    types: TypeChoice
    places: Mapping[int, tuple[int, int | str]]
    """Step -> the node that it draws for, and which operand or attribute of it."""
    nodes: tuple[tuple[int, Signature], ...]
    """Nodes with what is drawn for them."""
    sized: bool
    """Whether numbers in operands tell how much is computed: then they have to be moderate."""


@dataclass(frozen=True)
class TypeChoice:
    """Element types of the classes `order` that conditions on types tie together: nested choices, a type at each level.
    `free` are the other classes."""

    order: tuple[int, ...]
    tree: Mapping[str, object]
    free: tuple[int, ...]
    unmet: str = ""


def guide(layout: Layout, steps: Sequence[Step], texts: Sequence[str], context: Context) -> Guide:
    """`steps` are the conditions in an order in which they can be answered, `texts` how they are written."""
    work = _Work(layout, context)
    after: list[list[int]] = [[] for _ in range(len(layout.steps) + 1)]
    causes: list[tuple[int, ...]] = []
    for number, step in enumerate(steps):
        names = [n for n in free_names(step.expr) if n in work.time]
        bound = () if isinstance(step, Test) else step.names
        when = max((work.time[n] for n in names if n not in bound), default=-1)
        behind = tuple(dict.fromkeys(s for n in names if n not in bound for s in work.behind_name(n)))
        for name in bound:
            work.time[name] = when
            work.bound_behind[name] = behind
        after[when + 1].append(number)
        causes.append(behind)
    hints: dict[int, list[Hint]] = {}
    for step in steps:
        for at, hint in work.hints(step.expr):
            hints.setdefault(at, []).append(hint)
    places, nodes = work.places()
    return Guide(
        tuple(map(tuple, after)),
        {at: tuple(found) for at, found in hints.items()},
        tuple(work.behind_step(i) for i in range(len(layout.steps))),
        tuple(causes),
        _types(layout, steps, texts),
        places,
        nodes,
        any(
            not {s.definition.key, s.newest.key}.isdisjoint(context.classes.get("SizedByContents", ()))
            for _, s in nodes
        ),
    )


@dataclass
class _Work:
    layout: Layout
    context: Context
    time: dict[str, int] = field(default_factory=dict)
    bound_behind: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tensor_step: dict[int, int] = {}
        self.column_step: dict[int, int] = {}
        self.node_step: dict[int, int] = {}
        for index, step in enumerate(self.layout.steps):
            match step:
                case DrawLeaf(tensor=tensor):
                    self.tensor_step[tensor] = index
                case DrawHeld(tensor=tensor, content=content, shape=shape):
                    self.tensor_step[tensor] = index
                    self.column_step[content] = index
                    if shape is not None:
                        self.column_step[shape] = index
                case DrawColumn(column=column) | SetColumn(column=column):
                    self.column_step[column] = index
                case RunNode(node=node, results=results):
                    self.node_step[node] = index
                    self.tensor_step.update(dict.fromkeys(results, index))
        for name, bound in self.layout.names.items():
            self.time[name] = self.step_of(bound)

    def step_of(self, bound: Bound) -> int:
        match bound:
            case TensorAt(number=number):
                return self.tensor_step.get(number, -1)
            case ColumnAt(number=number):
                return self.column_step.get(number, -1)
            case NodeAt(number=number):
                return self.node_step[number]
            case ListOf(items=items):
                return max(map(self.step_of, items), default=-1)
            case RestOf(operands=operands, attributes=attributes):
                parts: tuple[Bound, ...] = (*operands, *attributes.values())
                return max(map(self.step_of, parts), default=-1)
        return -1

    # ------------------------------------------------------------------------------------------------------ causes

    def behind_step(self, index: int) -> tuple[int, ...]:
        """The segments that what step `index` makes comes from, the nearest first."""
        found: dict[int, None] = {}
        waiting = [index]
        seen = set()
        while waiting:
            at = waiting.pop(0)
            if at in seen or at < 0:
                continue
            seen.add(at)
            step = self.layout.steps[at]
            if isinstance(step, RunNode):
                waiting += [self.column_step[c] for c in step.columns if c in self.column_step]
                waiting += [self.tensor_step[o] for o in step.operands if o is not None]
            elif isinstance(step, SetColumn):
                if step.expr is not None:
                    waiting += [self.time[n] for n in free_names(step.expr) if n in self.time]
            else:
                found[at + FIRST] = None
        return tuple(found)

    def behind_name(self, name: str) -> tuple[int, ...]:
        if name in self.bound_behind:
            return self.bound_behind[name]
        bound = self.layout.names[name]
        if isinstance(bound, (ListOf, RestOf)):
            parts = bound.items if isinstance(bound, ListOf) else bound.operands
            return tuple(dict.fromkeys(s for p in parts for s in self.behind_step(self.step_of(p))))
        return self.behind_step(self.time[name])

    def places(self) -> tuple[dict[int, tuple[int, int | str]], tuple[tuple[int, Signature], ...]]:
        places: dict[int, tuple[int, int | str]] = {}
        nodes: list[tuple[int, Signature]] = []
        for step in self.layout.steps:
            if not isinstance(step, RunNode):
                continue
            nodes.append((step.node, step.signature))
            for place, operand in enumerate(step.operands):
                at = self.tensor_step.get(operand) if operand is not None else None
                if at is not None and isinstance(self.layout.steps[at], (DrawLeaf, DrawHeld)):
                    places.setdefault(at, (step.node, place))
            for attribute, column in zip(step.signature.attributes, step.columns, strict=True):
                at = self.column_step.get(column)
                if at is not None and isinstance(self.layout.steps[at], DrawColumn):
                    places.setdefault(at, (step.node, attribute.name))
        return places, tuple(nodes)

    # ------------------------------------------------------------------------------------------------------- hints

    def hints(self, condition: ast.Expr, each: bool = False) -> Iterator[tuple[int, Hint]]:
        match condition:
            case ast.Call(head=ast.Name(id="all" | "some"), operands=(inner,)):
                yield from self.hints(inner, True)
            case ast.Logical(operands=operands):
                for operand in operands:
                    yield from self.hints(operand, each)
            case ast.Compare(op="in", left=left, right=ast.Between(low=low, high=high)):
                yield from self.one(left, ">=", low, each)
                yield from self.one(left, "<=", high, each)
            case ast.Compare(op="in", left=left, right=right):
                yield from self.one(left, "in", right, each)
            case ast.Compare(op="==" | "<=" | ">=" | "<" | ">" as op, left=left, right=right):
                yield from self.one(left, op, right, each)
                yield from self.one(right, _MIRRORED[op], left, each)

    def one(self, target: ast.Expr, op: str, value: ast.Expr, each: bool) -> Iterator[tuple[int, Hint]]:
        """The hint that `target op value` is, where the target is drawn after all that the value reads."""
        index: ast.Expr | None = None
        what = "content"
        if isinstance(target, ast.Index):
            index = target.index
            target = target.base
            what = "extent"
        if isinstance(target, ast.Field):
            if what == "extent" and target.name != "shape":
                return
            what, target = (what if what == "extent" else target.name), target.base
        if not isinstance(target, ast.Name) or target.id not in self.layout.names:
            return
        at, what = self.target(self.layout.names[target.id], what)
        if at is None:
            return
        of_index = None
        if index is not None:
            if not self.before(index, at):
                return
            of_index = compile_expr(index, self.context)
        if self.before(value, at):
            if isinstance(value, (ast.Word,)) and value.word == "none":
                return
            yield at, Hint(what, op, compile_expr(value, self.context), each, of_index)
        elif op == "==" and isinstance(value, ast.ListExpr) and what in ("content", "shape"):
            yield at, Hint(what, op, None, each, None, tuple(self.item(i, at) for i in value.items))

    def item(self, item: ast.Expr, at: int) -> Of | tuple[Of | None] | None:
        if isinstance(item, ast.Rest):
            inner = item.expr
            return (compile_expr(inner, self.context) if inner is not None and self.before(inner, at) else None,)
        return compile_expr(item, self.context) if self.before(item, at) else None

    def before(self, expr: ast.Expr, at: int) -> bool:
        names = free_names(expr)
        if isinstance(expr, ast.Name) and expr.id == "_":
            return False
        return all(n in self.time and self.time[n] < at for n in names)

    def target(self, bound: Bound, what: str) -> tuple[int | None, str]:
        """The step that draws a name, and what a hint on it is about."""
        if isinstance(bound, ColumnAt):
            at = self.column_step.get(bound.number)
            step = self.layout.steps[at] if at is not None else None
            if isinstance(step, DrawHeld) and step.given is None and bound.number == step.content:
                return at, "length" if what == "size" else what
            if isinstance(step, DrawHeld) and step.given_shape is None and bound.number == step.shape:
                return at, "shape"
            if isinstance(step, DrawColumn):
                return at, "length" if what == "size" else what
            return None, what
        if isinstance(bound, TensorAt) and what in ("rank", "shape", "size", "extent"):
            at = self.tensor_step.get(bound.number)
            if at is not None and isinstance(self.layout.steps[at], (DrawLeaf, DrawHeld)):
                step = self.layout.steps[at]
                if isinstance(step, DrawHeld) and (step.kind not in ("const", "splat") or step.given_shape is not None):
                    return None, what
                return at, what
        return None, what


_MIRRORED = {"==": "==", "<=": ">=", ">=": "<=", "<": ">", ">": "<"}


# ---------------------------------------------------------------------------------------------------------- types


def _types(layout: Layout, steps: Sequence[Step], texts: Sequence[str]) -> TypeChoice:
    """The combinations of element types that conditions on types alone allow."""
    tests: list[tuple[Test, str, list[str]]] = []
    involved: dict[int, None] = {}
    for step, text in zip(steps, texts, strict=True):
        if not isinstance(step, Test):
            continue
        names = _read_types(step.expr, layout)
        if names is None or not names:
            continue
        tests.append((step, text, names))
        for name in names:
            involved[_class_of(layout, name)] = None
    order = tuple(involved)
    free = tuple(c for c in range(len(layout.classes)) if c not in involved)
    count = 1
    for c in order:
        count *= len(layout.classes[c])
    if not order or count > MOST_COMBINATIONS:
        return TypeChoice((), {}, tuple(range(len(layout.classes))))
    tree: dict[str, object] = {}
    held = [0] * len(tests)
    for combination in product(*(layout.classes[c] for c in order)):
        chosen = dict(zip(order, combination, strict=True))
        fits = True
        for k, (test, _, names) in enumerate(tests):
            env: dict[str, object] = {n: b.value for n, b in layout.names.items() if isinstance(b, Fixed)}
            for name in names:
                dtype = chosen[_class_of(layout, name)]
                env[name] = _typed(dtype) if isinstance(layout.names[name], TensorAt) else dtype
            if not test.test(env):
                fits = False
                break
            held[k] += 1
        if not fits:
            continue
        level = tree
        for dtype in combination[:-1]:
            level = level.setdefault(dtype, {})  # type: ignore[assignment]
        level[combination[-1]] = None
    unmet = "" if tree else next(text for h, (_, text, _) in zip(held, tests, strict=True) if h == 0)
    return TypeChoice(order, tree, free, unmet)


def _typed(dtype: str) -> TensorView:
    return plain_view(dtype, ())


def _class_of(layout: Layout, name: str) -> int:
    bound = layout.names[name]
    if isinstance(bound, TensorAt):
        return layout.class_of[bound.number]
    assert isinstance(bound, ColumnAt)
    return layout.column_class[bound.number]


def _read_types(expr: ast.Expr, layout: Layout) -> list[str] | None:
    """The names whose element type a condition reads, where it reads nothing else; None where it does."""
    found: dict[str, None] = {}
    pending: list[ast.Node | None] = [expr]
    while pending:
        node = pending.pop()
        match node:
            case ast.Field(base=ast.Name(id=name), name="dtype"):
                bound = layout.names.get(name)
                if not isinstance(bound, TensorAt) or bound.number in layout.absent:
                    return None
                found[name] = None
            case ast.Name(id=name) if name not in DTYPES:
                bound = layout.names.get(name)
                if isinstance(bound, Fixed):
                    continue
                if not isinstance(bound, ColumnAt) or bound.kind != "dtype" or bound.number not in layout.column_class:
                    return None
                if not _always_drawn(layout, bound.number):
                    return None
                found[name] = None
            case ast.Call(head=ast.Name(id=head), operands=operands, keywords=()):
                if head in ("evaluate", "body"):
                    return None
                pending += operands
            case ast.Unary(operand=operand):
                pending.append(operand)
            case ast.Logical(operands=operands) | ast.SetExpr(items=operands) | ast.ListExpr(items=operands):
                pending += operands
            case ast.Compare(left=left, right=right) | ast.Binary(left=left, right=right):
                pending += [left, right]
            case ast.Name() | ast.Symbol() | ast.Text() | ast.Number():
                continue
            case _:
                return None
    return list(found)


def _always_drawn(layout: Layout, column: int) -> bool:
    """Whether an attribute that names a type always has the type of its class: it is required, or a constant's."""
    for step in layout.steps:
        if isinstance(step, DrawColumn) and step.column == column:
            return step.attribute.required
    return True
