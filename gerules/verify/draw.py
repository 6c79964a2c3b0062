"""One draw of a layout: element types, extents, attributes and contents, and the left side computed on the way.

Extents come from a small pool that is drawn first, so that equal extents, and such as stretch to each other, come up by
themselves. An operator that fails on what was drawn ends the draw: the instance is ill-typed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from gerules.dsl import ast
from gerules.egraph.signature import RESULTS, Signature
from gerules.egraph.texts import as_array, dtype_number, format_value, node_texts
from gerules.graph import constants
from gerules.graph.constants import ConstantTable
from gerules.graph.dims import Dim
from gerules.graph.dtypes import name_of_numpy
from gerules.graph.infer import infer_node, refusal
from gerules.graph.info import Info
from gerules.registry.definition import Attribute, Operand
from gerules.simulate import NodeFault, SimulationFault, evaluate_node
from gerules.simulate.kernel import REFERENCE
from gerules.simulate.schema import OWN_DOMAIN
from gerules.static import Context, NodeView, TensorView, Unknown, compile_expr
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
    default_value,
)
from gerules.verify.palette import SIZES, SPECIAL, table
from gerules.verify.source import Source
from gerules.verify.words import Words

LARGEST = 600
"""Elements of a leaf at most."""
FAR = 64
"""Whole numbers above this may be extents that nobody can compute with: they are looked at first."""

_NO_TABLE = ConstantTable()


class Reject(Exception):
    """The draw is no instance of the rule; `reason` is a condition, or why there is no left side. `depth` says how far
    it came."""

    def __init__(self, reason: str, depth: int = 0) -> None:
        super().__init__(reason)
        self.reason, self.depth = reason, depth


@dataclass
class State:
    """What is drawn so far."""

    layout: Layout
    source: Source
    dtypes: list[str]
    pool: tuple[int, ...]
    base_rank: int
    mood: int
    tensors: list[object]
    columns: list[object]
    nodes: list[list[object]]
    names: dict[str, object] = field(default_factory=dict)

    def value(self, bound: Bound) -> object:
        """What a name stands for, as static expressions see it."""
        match bound:
            case TensorAt(number=number):
                return view(self.tensors[number])
            case ColumnAt(number=number):
                return self.columns[number]
            case NodeAt(number=number):
                results = tuple(view(r) for r in self.nodes[number])
                first = results[0]
                return NodeView(first.info, None, results) if first is not None else None
            case ListOf(items=items):
                return tuple(self.value(i) for i in items)
            case RestOf(operands=operands):
                return tuple(v for o in operands if (v := view(self.tensors[o.number])) is not None)
            case Fixed(value=value):
                return value


@lru_cache(maxsize=50_000)
def _view(dtype: str, shape: tuple[int, ...]) -> TensorView:
    return TensorView(Info(dtype, tuple(map(Dim.of, shape))))


def view(value: object) -> TensorView | None:
    """What a rule may ask of a tensor: its type and shape. Contents are known of constants alone, and those are
    columns of their own."""
    if value is None:
        return None
    if isinstance(value, np.ndarray):
        return _view(name_of_numpy(value.dtype), value.shape)
    return TensorView(Info("?", None))


@dataclass
class Drawer:
    """Draws instances of layouts. `words` are texts that attributes of a name have been seen with."""

    context: Context
    words: Words
    finite: bool = False
    _compiled: dict[int, Callable[[Mapping[str, object]], object]] = field(default_factory=dict)

    def draw(self, layout: Layout, source: Source) -> State:
        """Raises Reject."""
        dtypes = [c[source.below(len(c), f"dtype {i}")] if c else "?" for i, c in enumerate(layout.classes)]
        pool = tuple(SIZES[source.below(len(SIZES))] for _ in range(3))
        base = source.below(5)
        mood = source.below(SPECIAL if self.finite else SPECIAL + 1)
        state = State(
            layout,
            source,
            dtypes,
            pool,
            base,
            mood,
            [None] * len(layout.class_of),
            [None] * layout.columns,
            [[] for _ in range(layout.nodes)],
        )
        for column, cls in layout.column_class.items():
            state.columns[column] = dtypes[cls]
        for depth, step in enumerate(layout.steps):
            try:
                self.step(state, step)
            except Reject as reject:
                reject.depth = depth
                raise
        return state

    def step(self, state: State, step: object) -> None:
        match step:
            case DrawLeaf(tensor=number, formal=formal):
                state.tensors[number] = self.leaf(state, state.dtypes[state.layout.class_of[number]], formal)
            case SetColumn(column=column, value=value, expr=None):
                state.columns[column] = value
            case SetColumn(column=column, expr=expr):
                assert expr is not None
                state.columns[column] = self.evaluate(state, expr)
            case DrawColumn(column=column, attribute=attribute, kind=kind, signature=signature):
                state.columns[column] = self.attribute(state, column, attribute, kind, signature)
            case DrawHeld():
                self.held(state, step)
            case RunNode():
                self.run(state, step)

    # ------------------------------------------------------------------------------------------------------ values

    def evaluate(self, state: State, expr: ast.Expr) -> object:
        """A static expression over what is drawn. Raises Reject where it has no value."""
        compiled = self._compiled.get(id(expr))
        if compiled is None:
            compiled = self._compiled[id(expr)] = compile_expr(expr, self.context)
        try:
            return compiled(Names(state))
        except Unknown as unknown:
            raise Reject(f"no value: {unknown}") from None

    def leaf(self, state: State, dtype: str, formal: Operand) -> object:
        listed = formal.types and all(t[0] in "iu" for t in formal.types) and len(formal.types) <= 2
        return self.array(state, dtype, self.shape(state, bool(listed)), bool(listed))

    def shape(self, state: State, listed: bool) -> tuple[int, ...]:
        source, pool = state.source, state.pool
        if listed:
            rank = (1, 0, 2)[source.below(3)]
            if rank == 1:
                count = source.below(3)
                return (state.base_rank,) if count == 0 else (pool[source.below(3)],) if count == 1 else (1,)
        elif source.below(4) < 3:
            rank = state.base_rank
        else:
            rank = source.below(5)
        shape = tuple(pool[source.below(len(pool))] for _ in range(rank))
        if int(np.prod(shape)) > LARGEST:
            raise Reject("too large")
        return shape

    def array(self, state: State, dtype: str, shape: tuple[int, ...], listed: bool = False) -> object:
        count = 1
        for n in shape:
            count *= n
        if dtype.endswith(")"):
            raise Reject(f"values of type {dtype} are not drawn")
        if listed and state.source.below(2):
            values = np.array([-1, 0, *state.pool, *range(len(shape) + state.base_rank)])
            picked = state.source.many(len(values), count)
            with np.errstate(all="ignore"):
                return values[picked].reshape(shape).astype(table(dtype, 0).dtype)
        values = table(dtype, state.mood)
        return values[np.array(state.source.many(len(values), count), dtype=np.intp)].reshape(shape)

    def numbers(self, state: State) -> tuple[int, ...]:
        """A list of whole numbers: axes, extents, amounts or a permutation."""
        source = state.source
        lengths = (
            state.base_rank,
            1,
            2,
            0,
            2 * state.base_rank,
            max(0, state.base_rank - 2),
            2 * max(0, state.base_rank - 2),
        )
        count = lengths[source.below(len(lengths))]
        manner = source.below(4)
        if manner == 0:
            return tuple((0, 1, 2, -1, 3, -2)[c] for c in source.many(6, count))
        if manner == 1:
            order = list(range(count))
            return tuple(order.pop(source.below(len(order))) for _ in range(count))
        if manner == 2:
            return (source.below(3),) * count
        return tuple(state.pool[c] for c in source.many(len(state.pool), count))

    def attribute(self, state: State, column: int, attribute: Attribute, kind: str, signature: Signature) -> object:
        """A value of an attribute: its default as often as not."""
        source = state.source
        if kind == "dtype" and column in state.layout.column_class:
            if not attribute.required and source.below(2) == 0:
                return default_value(kind, attribute)
            return state.dtypes[state.layout.column_class[column]]
        if not attribute.required and source.below(2) == 0:
            return default_value(kind, attribute)
        return self.free(state, attribute.name, kind, signature)

    def free(self, state: State, name: str, kind: str, signature: Signature) -> object:
        source = state.source
        match kind:
            case "int":
                values = (0, 1, 2, -1, 3, -2, *state.pool)
                return values[source.below(len(values))]
            case "float":
                return (0.0, 1.0, 0.5, 2.0, -1.0, -0.0)[source.below(6)]
            case "str":
                words = self.words.known(signature.newest, name)
                return words[source.below(len(words))]
            case "ints" | "shape":
                return self.numbers(state)
            case "mask":
                return frozenset(i for i in range(state.base_rank) if source.below(2))
            case "floats":
                return tuple((0.0, 1.0, 0.5, 2.0, -1.0)[c] for c in source.many(5, len(self.numbers(state))))
            case "strs":
                words = self.words.known(signature.newest, name)
                return tuple(words[c] for c in source.many(len(words), source.below(3)))
            case "tensor":
                dtype = ("f32", "i64", "bool", "f64")[source.below(4)]
                shape = self.shape(state, True)
                array = self.array(state, dtype, shape)
                return constants.encode(array, _NO_TABLE)  # type: ignore[arg-type]
        raise Reject(f"attributes of type {kind} are not drawn")

    def held(self, state: State, step: DrawHeld) -> None:
        """A constant, a splat, dimensions: contents that the rule knows."""
        dtype = state.dtypes[state.layout.class_of[step.tensor]]
        source = state.source
        if step.kind == "const":
            if step.given is not None:
                array = self.as_array(self.evaluate(state, step.given), dtype)
            else:
                whole = dtype[0] in "iu"
                array = self.array(state, dtype, self.shape(state, whole or source.below(2) == 0), whole)  # type: ignore[assignment]
            state.tensors[step.tensor] = state.columns[step.content] = array
            return
        if step.kind in ("dims", "dim"):
            value = self.evaluate(state, step.given) if step.given is not None else None
            if value is None:
                value = (
                    tuple(state.pool[c] for c in source.many(3, source.below(5)))
                    if step.kind == "dims"
                    else state.pool[source.below(3)]
                )
            state.columns[step.content] = value
            state.tensors[step.tensor] = self.as_array(value, dtype)
            return
        if step.kind == "splat":
            if step.given is not None:
                scalar = self.as_array(self.evaluate(state, step.given), dtype)
            else:
                scalar = self.array(state, dtype, ())  # type: ignore[assignment]
            given = self.evaluate(state, step.given_shape) if step.given_shape is not None else self.shape(state, False)
            shape = extents(given)
            if step.shape is not None:
                state.columns[step.shape] = shape
            state.columns[step.content] = scalar.reshape(())
            state.tensors[step.tensor] = np.full(shape, scalar.reshape(())[()], dtype=scalar.dtype)
            return
        given = self.evaluate(state, step.given) if step.given is not None else self.shape(state, False)
        shape = extents(given)
        state.columns[step.content] = shape
        assert step.shape is not None
        axis = (
            self.evaluate(state, step.given_shape) if step.given_shape is not None else source.below(max(1, len(shape)))
        )
        state.columns[step.shape] = axis
        state.tensors[step.tensor] = iota(shape, axis, dtype)

    @staticmethod
    def as_array(value: object, dtype: str) -> np.ndarray:
        try:
            return as_array(value, dtype)
        except (Unknown, OverflowError, ValueError, TypeError) as error:
            raise Reject(f"no constant: {error}") from None

    # --------------------------------------------------------------------------------------------------- operators

    def run(self, state: State, step: RunNode) -> None:
        operands = [None if o is None else state.tensors[o] for o in step.operands]
        columns = [state.columns[c] for c in step.columns]
        if any(map(_far, operands)):
            measure(step.signature, operands, columns)
        results = compute(step.signature, operands, columns)
        state.nodes[step.node] = results
        for number, value in zip(step.results, results, strict=True):
            state.tensors[number] = value


def measure(signature: Signature, operands: Sequence[object], columns: Sequence[object]) -> None:
    """Raises Reject where results are larger than can be computed, or where that is not known."""
    if signature.newest.domain == OWN_DOMAIN:
        return
    texts, results = texts_of(signature, columns)
    for info in infer_node(signature.newest, texts, infos_of(operands), results):
        size = info.size()
        if size is None or size.value is None or size.value > 20 * LARGEST:
            raise Reject("too large")


def _far(value: object) -> bool:
    """Whether a value holds numbers that could be extents nobody can compute with."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.ndim <= 1 and bool((value > FAR).any())


def infos_of(values: Sequence[object]) -> list[Info | None]:
    """What is known of values with their contents, where they are few numbers."""
    found: list[Info | None] = []
    for value in values:
        seen = view(value)
        small = isinstance(value, np.ndarray) and value.dtype.kind in "iuf" and value.ndim <= 1 and value.size <= 16
        found.append(None if seen is None else Info.of_array(value, _NO_TABLE) if small else seen.info)
    return found


def texts_of(signature: Signature, columns: Sequence[object]) -> tuple[dict[str, str], int]:
    """Attribute texts of a node, and the number of its results."""
    texts: list[str] = []
    results = 1
    for attribute, value in zip(signature.attributes, columns, strict=True):
        if attribute.name == RESULTS and signature.several:
            results = int(value)  # type: ignore[call-overload]
        kind = signature.kind(attribute.name)
        texts.append("" if value is None else str(value) if kind in ("dtype", "tensor") else format_value(kind, value))
    return node_texts(signature, texts), results


def refused(layout: Layout, state: State) -> str | None:
    """Why ONNX's inference rejects the left side; None where it does not."""
    for step in layout.steps:
        if isinstance(step, RunNode) and step.signature.newest.domain != OWN_DOMAIN:
            texts, results = texts_of(step.signature, [state.columns[c] for c in step.columns])
            operands = infos_of([None if o is None else state.tensors[o] for o in step.operands])
            reason = refusal(step.signature.newest, texts, operands, results)
            if reason is not None:
                return reason
    return None


class Names(dict[str, object]):
    """The names of a draw as an environment of static expressions: each is read when it is first asked for, and
    conditions add what they bind."""

    __slots__ = ("state",)

    def __init__(self, state: State) -> None:
        super().__init__()
        self.state = state

    def __missing__(self, name: str) -> object:
        value = self[name] = self.state.value(self.state.layout.names[name])
        return value


def extents(value: object) -> tuple[int, ...]:
    """A shape of numbers. Raises Reject."""
    if isinstance(value, np.ndarray):
        value = tuple(value.reshape(-1).tolist())
    if not isinstance(value, tuple) or not all(
        isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in value
    ):
        raise Reject("no shape")
    if int(np.prod(value)) > 20 * LARGEST:
        raise Reject("too large")
    return value


def iota(shape: Sequence[int], axis: object, dtype: str = "i64") -> np.ndarray:
    """Counting along an axis. Raises Reject where there is no such axis."""
    if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        raise Reject("no axis")
    axis %= len(shape)
    line = np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return np.broadcast_to(line, shape).astype(table(dtype, 0).dtype)


def compute(signature: Signature, operands: Sequence[object], columns: Sequence[object]) -> list[object]:
    """The results of an operator on operands and attribute values. Raises NodeFault, SimulationFault."""
    definition = signature.newest
    values: dict[str, object] = {}
    results = 1
    for attribute, value in zip(signature.attributes, columns, strict=True):
        if attribute.name == RESULTS and signature.several:
            results = int(value)  # type: ignore[call-overload]
        elif value is not None:
            kind = signature.kind(attribute.name)
            if kind == "dtype":
                value = dtype_number(str(value))
            elif kind == "tensor":
                value = constants.decode(str(value), _NO_TABLE)
            values[attribute.name] = value
    found = evaluate_node(
        definition.domain, definition.name, int(definition.since), values, operands, results, kernels=REFERENCE
    )
    return [np.asarray(r) if isinstance(r, np.generic) else r for r in found]


FAULTS = (NodeFault, SimulationFault)
