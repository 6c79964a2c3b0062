"""One draw of a layout: element types, extents, attributes and contents, and the left side computed on the way.

Extents come from a small pool that is drawn first, so that equal extents, and such as stretch to each other, come up by
themselves. An operator that fails on what was drawn ends the draw: the instance is ill-typed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gerules.dsl import ast
from gerules.egraph.lower import literal
from gerules.egraph.texts import as_array, parse_value
from gerules.graph import constants
from gerules.graph.dims import Dim
from gerules.registry.definition import Operand
from gerules.simulate import NodeFault, SimulationFault
from gerules.static import Bind, Context, NodeView, Step, Test, Unknown, compile_expr, solve_steps
from gerules.static.context import DTYPES
from gerules.verify.compute import LARGEST, NO_TABLE, TooLarge, compute, far, inadmissible, measure, view
from gerules.verify.hints import FIRST, Guide, Hint
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
from gerules.verify.outcome import CANNOT
from gerules.verify.palette import EDGE, LARGE, SIZES, SPECIAL, table
from gerules.verify.proposals import Proposals
from gerules.verify.samples import Sample, Samples
from gerules.verify.source import Source
from gerules.verify.words import Words, is_flag, stated_rank

ILL_TYPED = "ill-typed"
UNPREPARED = "GR413"
"""The code of a node that cannot be prepared with its attributes."""


class Reject(Exception):
    """The draw is no instance of the rule. `reason` is a condition as written, or why there is no left side;
    `progress` says how far it came (1 would be an instance), `causes` the segments of the draw to blame."""

    def __init__(self, reason: str, progress: float = 0.0, causes: tuple[int, ...] = ()) -> None:
        super().__init__(reason)
        self.reason, self.progress, self.causes = reason, progress, causes


@dataclass
class State:
    """What is drawn so far."""

    layout: Layout
    source: Source
    dtypes: list[str]
    propose: Proposals
    tensors: list[object]
    columns: list[object]
    nodes: list[list[object]]

    samples: dict[int, Sample] = field(default_factory=dict)
    """For some nodes what an example shows of them."""
    sizes: dict[str, int] = field(default_factory=dict)
    """What the dimension symbols of samples are in this draw."""

    def __post_init__(self) -> None:
        self.names = Names(self.layout, self.tensors, self.columns, self.nodes)

    def value(self, bound: Bound) -> object:
        """What a name stands for, as static expressions see it."""
        return self.names.value(bound)


class Names(dict[str, object]):
    """The names of a draw as an environment of static expressions: each is read when it is first asked for, and
    conditions add what they bind. It does not know its state: what holds itself is freed late."""

    __slots__ = ("columns", "layout", "nodes", "tensors")

    def __init__(self, layout: Layout, tensors: list[object], columns: list[object], nodes: list[list[object]]) -> None:
        super().__init__()
        self.layout, self.tensors, self.columns, self.nodes = layout, tensors, columns, nodes

    def __missing__(self, name: str) -> object:
        value = self[name] = self.value(self.layout.names[name])
        return value

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


@dataclass
class Drawer:
    """Draws instances of one layout. `steps` are the conditions in order, `texts` how they are written."""

    layout: Layout
    steps: Sequence[Step]
    texts: Sequence[str]
    guide: Guide
    context: Context
    words: Words
    samples: Samples
    finite: bool = False
    regroups: bool = False
    """Whether sums may be regrouped: then elements are small whole numbers, whose sums are exact."""
    large: bool = False
    """Whether of finite numbers large ones count too: where the rule has no steps of its own that overflow."""
    _compiled: dict[int, Callable[[Mapping[str, object]], object]] = field(default_factory=dict)

    def draw(self, source: Source) -> State:
        """An instance of the left side of which all conditions hold. Raises Reject."""
        layout, guide = self.layout, self.guide
        total = len(layout.steps) + len(self.steps)
        source.step()
        dtypes = self.types(source)
        small = source.below(2, "small") == 0
        sizes = SIZES[:3] if small else SIZES
        pool = tuple(sizes[source.below(len(sizes))] for _ in range(3))
        base = source.below(3 if small else 5, "rank")
        moods = 1 if guide.sized or self.regroups else SPECIAL + self.large if self.finite else EDGE + 1
        mood = source.below(moods)
        if mood == SPECIAL and self.finite:
            mood = LARGE
        propose = Proposals(source, pool, base, mood, small)
        state = State(
            layout,
            source,
            dtypes,
            propose,
            [None] * len(layout.class_of),
            [None] * layout.columns,
            [[] for _ in range(layout.nodes)],
        )
        for column, cls in layout.column_class.items():
            state.columns[column] = dtypes[cls]
        for node, signature in guide.nodes:
            listed = self.samples.get(signature.newest.domain, signature.newest.name)
            if listed and source.below(2, "sample"):
                state.samples[node] = listed[source.below(len(listed))]
        done = self.ask(state, guide.after[0], 0, total)
        for index, step in enumerate(layout.steps):
            source.step()
            try:
                self.step(state, index, step)
            except NodeFault:
                raise Reject(ILL_TYPED, done / total, guide.causes[index]) from None
            except TooLarge:
                raise Reject("too large", done / total, guide.causes[index] or (1,)) from None
            except Reject as reject:
                reject.progress, reject.causes = done / total, guide.causes[index] or (1,)
                raise
            except SimulationFault as fault:
                if fault.diagnostics[0].code == UNKNOWN:
                    raise  # no draw will do: nothing says what the operator computes
                raise Reject(_fault(fault), done / total, guide.causes[index]) from None
            done = self.ask(state, guide.after[index + 1], done + 1, total)
        return state

    def ask(self, state: State, numbers: Sequence[int], done: int, total: int) -> int:
        """Asks conditions; names are extended by what they bind. Raises Reject with the one that fails."""
        env = state.names
        for number in numbers:
            step = self.steps[number]
            if isinstance(step, Test):
                holds = step.test(env)
            elif isinstance(step, Bind):
                try:
                    holds = step.match(step.value(env), env)
                except Unknown:
                    holds = False
            else:
                found = next(solve_steps((step,), env), None)
                holds = found is not None
                if found is not None:
                    for name in step.names:
                        env[name] = found[name]
            if not holds:
                raise Reject(self.texts[number], done / total, self.guide.condition_causes[number] or (1,))
            done += 1
        return done

    def types(self, source: Source) -> list[str]:
        """An element type for each class. Raises Reject where conditions on types leave none."""
        layout, choice = self.layout, self.guide.types
        if choice.unmet:
            raise Reject(choice.unmet)
        dtypes = ["?"] * len(layout.classes)
        level: object = choice.tree
        for cls in choice.order:
            assert isinstance(level, dict)
            options = tuple(level)
            dtypes[cls] = options[source.below(len(options), f"dtype {cls}")]
            level = level[dtypes[cls]]
        for cls in choice.free:
            options = layout.classes[cls]
            if options:
                dtypes[cls] = options[source.below(len(options), f"dtype {cls}")]
        return dtypes

    # ------------------------------------------------------------------------------------------------------- steps

    def step(self, state: State, index: int, step: object) -> None:
        match step:
            case DrawLeaf(tensor=number, formal=formal):
                state.tensors[number] = self.leaf(state, index, state.dtypes[state.layout.class_of[number]], formal)
            case SetColumn(column=column, value=value, expr=None):
                state.columns[column] = value
                self.forget(state, column)
            case SetColumn(column=column, expr=expr):
                assert expr is not None
                state.columns[column] = self.evaluate(state, expr)
            case DrawColumn():
                state.columns[step.column] = self.attribute(state, index, step)
            case DrawHeld():
                self.held(state, index, step)
            case RunNode():
                self.run(state, step)

    @staticmethod
    def forget(state: State, column: int) -> None:
        """A column that is set after it was drawn (the number of results under another name) is read anew."""
        for name, bound in state.layout.names.items():
            if isinstance(bound, ColumnAt) and bound.number == column:
                state.names.pop(name, None)

    def run(self, state: State, step: RunNode) -> None:
        operands = [None if o is None else state.tensors[o] for o in step.operands]
        columns = [state.columns[c] for c in step.columns]
        distant = any(map(far, operands)) or any(map(far, columns))
        if distant or self.guide.sized:
            measure(step.signature, operands, columns, distant)
        results = compute(step.signature, operands, columns)
        state.nodes[step.node] = results
        for number, value in zip(step.results, results, strict=True):
            state.tensors[number] = value

    def inadmissible(self, state: State) -> str | None:
        """Why ONNX's inference rejects the left side; None where it does not."""
        for step in self.layout.steps:
            if isinstance(step, RunNode):
                operands = [None if o is None else state.tensors[o] for o in step.operands]
                reason = inadmissible(step.signature, operands, [state.columns[c] for c in step.columns])
                if reason is not None:
                    return reason
        return None

    # ------------------------------------------------------------------------------------------------------ values

    def evaluate(self, state: State, expr: ast.Expr) -> object:
        """A static expression over what is drawn. Raises Reject where it has no value."""
        compiled = self._compiled.get(id(expr))
        if compiled is None:
            compiled = self._compiled[id(expr)] = compile_expr(expr, self.context)
        try:
            return compiled(state.names)
        except Unknown as unknown:
            raise Reject(f"no value: {unknown}") from None

    def hint(self, state: State, index: int, *kinds: str) -> tuple[Hint, object] | None:
        """A hint on what a step draws with its value; None three times in twenty, and where none has a value."""
        hints = self.guide.hints.get(index)
        if hints is None:
            return None
        hints = tuple(h for h in hints if h.what in kinds)
        if not hints or state.source.below(20) >= 17:
            return None
        hint = hints[state.source.below(len(hints))]
        try:
            if hint.items is not None:
                return hint, state.propose.items(hint.items, state.names, hint.what == "content")
            assert hint.known is not None
            return hint, hint.known(state.names)
        except Unknown:
            return None

    def sampled(self, state: State, index: int) -> tuple[Sample, int | str] | None:
        """The sample that a step may begin from, and which operand or attribute of it the step draws."""
        if not state.samples or index not in self.guide.places:
            return None
        node, place = self.guide.places[index]
        sample = state.samples.get(node)
        return None if sample is None or state.source.below(8) == 7 else (sample, place)

    def sampled_shape(self, state: State, index: int) -> tuple[int, ...] | None:
        found = self.sampled(state, index)
        shape = found[0].shapes.get(found[1]) if found is not None and isinstance(found[1], int) else None
        if found is None or shape is None:
            return None
        # Where contents go with them they are taken as they are.
        free = not found[0].contents
        return tuple(max(0, self.other(state, dim) if free else self.sized(state, dim)) for dim in shape)

    def other(self, state: State, dim: Dim) -> int:
        """An extent of a sample, mostly as it is; one that is a number is another one wherever it stands."""
        if dim.value is None or dim.value < 2:
            return self.sized(state, dim)
        text = str(dim.value)
        if text not in state.sizes:
            state.sizes[text] = (dim.value, 1, 2, 0, *(dim.value,) * 4)[state.source.below(8)]
        return state.sizes[text]

    def sampled_contents(self, state: State, index: int, dtype: str) -> np.ndarray | None:
        """What the sample that a step begins from has as contents of this operand, or others of their shape."""
        found = self.sampled(state, index)
        if found is None or not isinstance(found[1], int) or found[1] not in found[0].contents:
            return None
        contents = found[0].contents[found[1]]
        if isinstance(contents, tuple):
            contents = tuple(self.sized(state, v) if isinstance(v, Dim) else v for v in contents)
        made = self.as_array(contents, dtype)
        # Numbers of a list say how much there is of something; elements may be any.
        return self.array(state, dtype, made.shape) if dtype[0] in "fb" and state.source.below(2) else made

    @staticmethod
    def sized(state: State, dim: Dim) -> int:
        """An extent of a sample, its symbols drawn, each once."""
        for symbol in dim.symbols():
            if symbol not in state.sizes:
                state.sizes[symbol] = state.propose.extent()
        return dim.evaluate(state.sizes)

    def leaf(self, state: State, index: int, dtype: str, formal: Operand) -> object:
        listed = bool(formal.types) and all(t[0] in "iu" for t in formal.types) and len(formal.types) <= 2
        contents = None if dtype.endswith(")") else self.sampled_contents(state, index, dtype)
        if contents is not None:
            return contents
        shape = self.shape(state, index, listed)
        if dtype.startswith("seq("):
            inner = dtype[4:-1]
            return [
                self.array(state, inner, shape if state.source.below(2) == 0 else state.propose.shape(False))
                for _ in range(state.source.below(4))
            ]
        return self.array(state, dtype, shape, listed)

    def shape(self, state: State, index: int, listed: bool) -> tuple[int, ...]:
        propose = state.propose
        step = self.layout.steps[index]
        stated = _stated_rank(step) if isinstance(step, (DrawLeaf, DrawHeld)) else None
        sampled = self.sampled_shape(state, index)
        hinted = self.hint(state, index, "shape", "rank", "size", "extent") if sampled is None else None
        if sampled is not None:
            shape = sampled
        elif hinted is None and stated is not None:
            shape = () if stated == 0 else (propose.length() if listed else propose.extent(),)
        elif hinted is None:
            shape = propose.shape(listed)
        else:
            hint, value = hinted
            at = None
            if hint.index is not None:
                try:
                    at = hint.index(state.names)
                except Unknown:
                    at = None
            shape = propose.hinted_shape(hint, value, at, listed)
        count = 1
        for n in shape:
            count *= n
        if count > LARGEST:
            raise Reject("too large")
        propose.shapes.append(shape)
        return shape

    def array(self, state: State, dtype: str, shape: tuple[int, ...], listed: bool = False) -> np.ndarray:
        count = 1
        for n in shape:
            count *= n
        if listed and len(shape) <= 1:
            numbers = state.propose.numbers(count)
            with np.errstate(all="ignore"):
                return np.array(numbers, dtype=np.int64).reshape(shape).astype(table(dtype, 0).dtype)
        values = table(dtype, state.propose.mood)
        return values[np.array(state.source.contents(len(values), count), dtype=np.intp)].reshape(shape)

    def attribute(self, state: State, index: int, step: DrawColumn) -> object:
        """A value of an attribute: what a hint says, else its default as often as not."""
        source, attribute, kind = state.source, step.attribute, step.kind
        if kind == "dtype" and step.column in state.layout.column_class:
            # A type that need not be given is tied to others by conditions alone, not by its class.
            hinted = None if attribute.required else self.hint(state, index, "content")
            told = None if hinted is None else state.propose.hinted(*hinted, kind)
            if isinstance(told, str) and told in DTYPES:
                return told
            if not attribute.required and source.below(2) == 0:
                return default_value(kind, attribute)
            return state.dtypes[state.layout.column_class[step.column]]
        sampled = self.sampled(state, index)
        if sampled is not None:
            written = sampled[0].attributes.get(attribute.name)
            text = literal(written, kind) if written is not None else attribute.default or ""
            if text is not None and not (attribute.required and text == ""):
                return (text or None) if kind == "dtype" else parse_value(kind, text)
        hinted = self.hint(state, index, "content", "length")
        if hinted is not None:
            value = state.propose.hinted(*hinted, kind)
            if kind == "strs" and isinstance(value, tuple) and not all(isinstance(v, str) for v in value):
                # A hint about the length: which words they are is left open.
                words = self.words.known(step.signature.newest, attribute.name)
                return tuple(words[c] for c in source.many(len(words), len(value)))
            return float(np.float32(value)) if kind == "float" and isinstance(value, (int, float)) else value
        if not attribute.required and source.below(2) == 0:
            return default_value(kind, attribute)
        return self.free(state, step)

    def free(self, state: State, step: DrawColumn) -> object:
        source, propose = state.source, state.propose
        match step.kind:
            case "int":
                newest = step.signature.newest
                if is_flag(newest.domain, newest.name, int(newest.since), step.attribute.name):
                    return source.below(2)
                return propose.whole()
            case "float":
                return propose.real()
            case "str":
                words = self.words.known(step.signature.newest, step.attribute.name)
                return words[source.below(len(words))]
            case "ints" | "shape":
                return propose.numbers(propose.length())
            case "mask":
                return frozenset(i for i in range(propose.base) if source.below(2))
            case "floats":
                return tuple(propose.real() for _ in range(propose.length()))
            case "strs":
                words = self.words.known(step.signature.newest, step.attribute.name)
                return tuple(words[c] for c in source.many(len(words), source.below(4)))
            case "tensor":
                dtype = ("f32", "i64", "bool", "f64", "i32", "u8", "f16", "str")[source.below(8)]
                return constants.encode(self.array(state, dtype, propose.shape(True)), NO_TABLE)
        raise Reject(f"attributes of type {step.kind} are not drawn")

    def held(self, state: State, index: int, step: DrawHeld) -> None:
        """A constant, a splat, dimensions: contents that the rule knows."""
        dtype = state.dtypes[state.layout.class_of[step.tensor]]
        if step.kind == "const":
            array = self.constant(state, index, step, dtype)
            state.tensors[step.tensor] = state.columns[step.content] = array
        elif step.kind in ("dims", "dim"):
            value = self.evaluate(state, step.given) if step.given is not None else self.extents_of(state, index, step)
            state.columns[step.content] = value
            state.tensors[step.tensor] = self.as_array(value, dtype)
        elif step.kind == "splat":
            self.splat(state, index, step, dtype)
        else:
            given = self.evaluate(state, step.given) if step.given is not None else self.shape(state, index, False)
            shape = extents(given)
            state.columns[step.content] = shape
            assert step.shape is not None
            expr = step.given_shape
            axis = self.evaluate(state, expr) if expr is not None else state.source.below(max(1, len(shape)))
            state.columns[step.shape] = axis
            state.tensors[step.tensor] = iota(shape, axis, dtype)

    def constant(self, state: State, index: int, step: DrawHeld, dtype: str) -> np.ndarray:
        if step.given is not None:
            return self.as_array(self.evaluate(state, step.given), dtype)
        whole = dtype[0] in "iu"
        contents = self.sampled_contents(state, index, dtype)
        if contents is not None:
            return contents
        hinted = self.hint(state, index, "content", "length")
        if hinted is not None:
            hint, value = hinted
            if isinstance(value, (tuple, list)) or whole:
                value = state.propose.hinted(hint, value, "ints" if hint.each or isinstance(value, tuple) else "int")
            else:
                value = state.propose.hinted(hint, value, "float")
            return self.as_array(value, dtype)
        listed = bool(step.formal is not None and step.formal.types and all(t[0] in "iu" for t in step.formal.types))
        if listed or (whole and state.source.below(2)):
            return self.array(state, dtype, self.shape(state, index, True), True)
        return self.array(state, dtype, self.shape(state, index, state.source.below(3) == 0))

    def extents_of(self, state: State, index: int, step: DrawHeld) -> object:
        propose = state.propose
        hinted = self.hint(state, index, "content", "length")
        if hinted is not None:
            return propose.hinted(*hinted, "ints" if step.kind == "dims" else "int")
        return propose.shape(False) if step.kind == "dims" else propose.extent()

    def splat(self, state: State, index: int, step: DrawHeld, dtype: str) -> None:
        if step.given is not None:
            scalar = self.as_array(self.evaluate(state, step.given), dtype)
        else:
            hinted = self.hint(state, index, "content")
            if hinted is not None:
                scalar = self.as_array(state.propose.hinted(*hinted, "int" if dtype[0] in "iu" else "float"), dtype)
            else:
                scalar = self.array(state, dtype, ())
        if scalar.size != 1:
            raise Reject("a splat has one element")
        given = (
            self.evaluate(state, step.given_shape) if step.given_shape is not None else self.shape(state, index, False)
        )
        shape = extents(given)
        if step.shape is not None:
            state.columns[step.shape] = shape
        state.columns[step.content] = scalar.reshape(())
        state.tensors[step.tensor] = np.full(shape, scalar.reshape(())[()], dtype=scalar.dtype)

    @staticmethod
    def as_array(value: object, dtype: str) -> np.ndarray:
        try:
            return as_array(value, dtype)
        except (Unknown, OverflowError, ValueError, TypeError) as error:
            raise Reject(f"no constant: {error}") from None


def _stated_rank(step: DrawLeaf | DrawHeld) -> int | None:
    """The rank that the documentation of an operand states, where it does."""
    if step.signature is None or step.formal is None:
        return None
    newest = step.signature.newest
    return stated_rank(newest.domain, newest.name, int(newest.since), newest.inputs.index(step.formal))


UNKNOWN = "GR403"
"""The code of an operator that has no kernel at all."""


def _fault(fault: SimulationFault) -> str:
    """Attributes that an operator cannot be prepared with are no instance; what cannot be computed at all is said."""
    found = fault.diagnostics[0]
    return ILL_TYPED if found.code == UNPREPARED else f"{CANNOT}{found.message}"


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


__all__ = ["FIRST", "ILL_TYPED", "UNKNOWN", "UNPREPARED", "Drawer", "Reject", "State", "extents", "iota"]
