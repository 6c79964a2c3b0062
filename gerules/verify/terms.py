"""Terms of examples in numbers: random leaves, operators by the simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gerules.dsl import ast
from gerules.egraph.lower import literal
from gerules.egraph.program import Knowledge
from gerules.egraph.signature import RESULTS
from gerules.egraph.texts import as_array, dtype_number, parse_value
from gerules.graph.dims import Dim
from gerules.graph.dtypes import name_of_numpy, numpy_dtype
from gerules.registry.definition import OperatorDef
from gerules.simulate import evaluate_node
from gerules.simulate.kernel import REFERENCE
from gerules.static import Context, compile_expr

_WHOLE = frozenset({"i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"})


@dataclass
class Evaluation:
    """One draw: sizes of dimension symbols, contents of leaves, values of names."""

    operator: Callable[[ast.Symbol], OperatorDef]
    context: Context
    known: Knowledge
    seed: int
    sizes: dict[str, int] = field(default_factory=dict)
    values: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def size(self, dim: object) -> int:
        if isinstance(dim, Dim):
            for symbol in dim.symbols():
                # Distinct sizes in the first draws, equal and unit ones later.
                self.sizes.setdefault(symbol, 2 + len(self.sizes) if self.seed < 4 else 1 + self.seed % 2)
            return dim.evaluate(self.sizes)
        assert isinstance(dim, int)
        return dim

    def static(self, expr: ast.Expr) -> object:
        return concrete(self, compile_expr(expr, self.context)({}))


def concrete(evaluation: Evaluation, value: object) -> object:
    if isinstance(value, Dim):
        return evaluation.size(value)
    if isinstance(value, tuple):
        return tuple(concrete(evaluation, v) for v in value)
    return value


def draw(random: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Moderate numbers, with zeros of both signs among the floats."""
    target = numpy_dtype(dtype)
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if dtype == "str":
        return random.choice(np.array(["a", "b", "", "z"], dtype=object), shape)
    if target.kind in "iu":
        return random.integers(0, 5, shape).astype(target)
    values = random.standard_normal(shape) * 2
    values = np.where(random.random(shape) < 0.15, random.choice(np.array([0.0, -0.0]), shape), values)
    return np.asarray(values).astype(target)


def evaluate_term(evaluation: Evaluation, expr: ast.Expr) -> object:
    """The value of a ground term: an array, a list of results for an operator with several, None for `none`."""
    match expr:
        case ast.Typed(name=name, dtype=dtype, dims=dims):
            if name not in evaluation.values:
                shape = tuple(evaluation.size(compile_expr(d, evaluation.context)({})) for d in dims)
                evaluation.values[name] = draw(evaluation.random, dtype, shape)
            return evaluation.values[name]
        case ast.Name(id=name):
            return evaluation.values[name]
        case ast.Word(word="none"):
            return None
        case ast.Bind(expr=inner, name=name):
            evaluation.values[name] = evaluate_term(evaluation, inner)
            return evaluation.values[name]
        case ast.Index(base=base, index=index):
            results = evaluate_term(evaluation, base)
            assert isinstance(results, list)
            return results[int(evaluation.static(index))]  # type: ignore[call-overload]
        case ast.Call(head=ast.Name(id=kind)):
            return _value(evaluation, kind, expr)
        case ast.Call(head=ast.Symbol()):
            return _operator(evaluation, expr)
    raise ValueError(f"no ground term: {expr}")


def _value(evaluation: Evaluation, kind: str, call: ast.Call, dtype: str | None = None) -> object:
    asked = next((k.value for k in call.keywords if k.name == "dtype"), None)
    if isinstance(asked, ast.Name):
        dtype = asked.id
    value = evaluation.static(call.operands[0])
    if kind == "dims":
        return np.array(value, dtype=numpy_dtype(dtype if asked is not None and dtype else "i64"))
    if kind == "dim":
        return np.array(value, dtype=numpy_dtype(dtype if asked is not None and dtype else "i64"))
    array = as_array(value, dtype or "f32")
    if kind == "splat":
        shape = evaluation.static(call.operands[1])
        assert isinstance(shape, tuple)
        return np.full(shape, array.reshape(())[()], dtype=array.dtype)
    return array


def _operator(evaluation: Evaluation, call: ast.Call) -> object:
    assert isinstance(call.head, ast.Symbol)
    definition = evaluation.operator(call.head)
    signature = evaluation.known.signatures.of(definition)
    operands: list[object] = []
    waiting: list[tuple[int, ast.Call]] = []
    for place, item in enumerate(call.operands):
        if isinstance(item, ast.Call) and item.head in (ast.Name("const"), ast.Name("splat")):
            waiting.append((place, item))
            operands.append(None)
        else:
            operands.append(evaluate_term(evaluation, item))
    inputs = signature.newest.inputs
    for place, item in waiting:
        formal = inputs[min(place, len(inputs) - 1)]
        dtype = next(iter(formal.types)) if len(formal.types) == 1 else None
        for other, operand in enumerate(operands):
            if (
                dtype is None
                and isinstance(operand, np.ndarray)
                and inputs[min(other, len(inputs) - 1)].type == formal.type
            ):
                dtype = name_of_numpy(operand.dtype)
        if dtype is None and "i64" in formal.types and formal.types <= _WHOLE:
            dtype = "i64"
        if dtype is None:
            first = next((v for v in evaluation.values.values() if isinstance(v, np.ndarray)), None)
            dtype = name_of_numpy(first.dtype) if first is not None else "f32"
        assert isinstance(item.head, ast.Name)
        operands[place] = _value(evaluation, item.head.id, item, dtype)
    values: dict[str, object] = {}
    results = int(signature.default_results or 1)
    for keyword in call.keywords:
        kind = signature.kind(keyword.name)
        text = literal(keyword.value, kind)
        value = parse_value(kind, text) if text is not None and kind != "dtype" else text
        if text is None:
            value = evaluation.static(keyword.value)
        if keyword.name == RESULTS:
            results = int(value)  # type: ignore[call-overload]
        elif value is not None:
            values[keyword.name] = dtype_number(str(value)) if kind == "dtype" else value
    found = evaluate_node(
        definition.domain, definition.name, int(definition.since), values, operands, results, kernels=REFERENCE
    )
    return found if signature.several else found[0]
