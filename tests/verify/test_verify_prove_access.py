"""Numbers put into the prover's meaning of an operator give what the simulator gives: shape, elements and failures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from itertools import product

import numpy as np
import pytest
import z3

from gerules.dsl import ast
from gerules.dsl.parser import parse_text
from gerules.dsl.program import load_program, shipped_sources
from gerules.egraph.program import Knowledge, knowledge
from gerules.registry import onnx_registry
from gerules.simulate import NodeFault, SimulationFault
from gerules.static import Context, known_functions
from gerules.verify.prove import access_parts, access_sums, access_values, access_views
from gerules.verify.prove.solve import Memory
from gerules.verify.prove.terms import Reader
from gerules.verify.prove.world import NUMBER, Chooser, Invalid, Node, Skip, Tensor, World
from gerules.verify.terms import Evaluation, evaluate_term

LOADED = (access_parts, access_sums, access_values, access_views)


@cache
def shipped() -> Knowledge:
    return knowledge(load_program(shipped_sources(), onnx_registry(), known_functions()))


def term(text: str) -> tuple[ast.Expr, ast.RuleFile]:
    """The term, with abbreviations of the shipped files written out."""
    file, faults = parse_text(f"opset ai.onnx 21\nrewrite r: {text} => x\n", "own.rules", "user/own")
    assert not faults, faults
    rule = next(s for s in file.statements if isinstance(s, ast.Rewrite))
    return shipped().program.expand_lets(rule.left), file


class Meaning:
    """The prover's meaning of a term at arrays."""

    def __init__(self, text: str, arrays: Mapping[str, np.ndarray]) -> None:
        expr, file = term(text)
        self.arrays = arrays
        self.world = World(Chooser(), 3, 100_000, Memory())
        kind = self.world.kind()
        env: dict[str, object] = {name: self.leaf(name, array, kind) for name, array in arrays.items()}
        made = Reader(self.world, shipped(), file, env, 3).side(expr)
        assert not self.world.chooser.taken, "nothing is left open where all is numbers"
        self.result = made[0] if isinstance(made, Node) else made

    def leaf(self, name: str, array: np.ndarray, kind: object) -> Tensor:
        sorts = [z3.IntSort()] * array.ndim
        element = z3.Function(name, *sorts, NUMBER.range()) if sorts else None
        return Tensor(
            kind,  # type: ignore[arg-type]
            array.shape,
            lambda i: element(*i) if element is not None else z3.Const(name, NUMBER.range()),
            flat=z3.Function(f"{name}.flat", z3.IntSort(), NUMBER.range()),
            contents=tuple(int(v) for v in array.reshape(-1)) if array.dtype == np.int64 and array.ndim == 1 else None,
        )

    @property
    def valid(self) -> bool:
        return all(z3.is_true(z3.simplify(p)) for p in self.world.pre)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(number(d) for d in self.result.shape)

    def elements(self) -> np.ndarray:
        places = product(*map(range, self.shape))
        return np.array([self.value(self.result.at(i)) for i in places]).reshape(self.shape)

    def value(self, element: object) -> float:
        element = z3.simplify(element)
        binder = self.world.binders.get(element.get_id())  # type: ignore[attr-defined]
        if binder is not None:
            runs = product(*(range(number(d)) for d in binder.extents))
            parts = [math.prod(self.value(p) for p in binder.body(i)) for i in runs]
            return WORK[binder.operation](parts)
        name = element.decl().name()  # type: ignore[attr-defined]
        arguments = element.children()  # type: ignore[attr-defined]
        if name == "number":
            return float(arguments[0].as_long())
        if name.endswith(".flat"):
            return float(self.arrays[name.removesuffix(".flat")].reshape(-1)[arguments[0].as_long()])
        if name in self.arrays:
            return float(self.arrays[name][tuple(a.as_long() for a in arguments)])
        return float(
            FUNCTIONS[name.partition(" of ")[0].partition("(")[0].partition("@")[0]](*map(self.value, arguments))
        )


WORK = {
    "ReduceSum": sum,
    "dot": sum,
    "ReduceMax": max,
    "ReduceMin": min,
    "ReduceProd": math.prod,
    "ReduceMean": lambda parts: sum(parts) / len(parts),
    "ReduceL1": lambda parts: sum(map(abs, parts)),
    "ReduceSumSquare": lambda parts: sum(p * p for p in parts),
}
FUNCTIONS = {"Add": lambda a, b: a + b, "Mul": lambda a, b: a * b, "Max": max, "Min": min, "Neg": lambda a: -a,
             "PRelu": lambda a, b: a if a >= 0 else a * b}  # fmt: skip


def meant(text: str, arrays: Mapping[str, np.ndarray]) -> Meaning | None:
    """The meaning; None where the operator is not valid."""
    try:
        meaning = Meaning(text, arrays)
    except (Skip, Invalid):
        return None
    return meaning if meaning.valid else None


def number(value: object) -> int:
    return value if isinstance(value, int) else int(z3.simplify(value).as_long())


def simulated(text: str, arrays: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """What the simulator gives; None where the operator fails."""
    expr, file = term(text)
    evaluation = Evaluation(lambda s: shipped().program.resolve(s, file)[-1], Context(), shipped(), 0)
    evaluation.values.update(arrays)
    try:
        found = evaluate_term(evaluation, expr)
    except (NodeFault, SimulationFault):
        return None
    return found[0] if isinstance(found, list) else found  # type: ignore[return-value]


def draw(*shape: int) -> np.ndarray:
    """Whole numbers, so that sums have one value in any order."""
    return np.random.default_rng(sum(shape) + len(shape)).integers(-9, 10, shape).astype(np.float32)


VALID = (
    ("Identity(x)", [(2, 3)]),
    ("Expand(x, const([2, 3]))", [(1, 3)]),
    ("Expand(x, const([4, 1, 3]))", [(2, 1)]),
    ("Expand(x, const([0, 3]))", [(1, 3)]),
    ("gerules.Broadcast(x, axes={0, 2}, extents=[2, 3, 4])", [(1, 3, 1)]),
    ("Transpose(x, perm=[2, 0, 1])", [(2, 3, 4)]),
    ("Transpose(x)", [(2, 3)]),
    ("Squeeze@13(x, const([0, -1]))", [(1, 3, 1)]),
    ("Squeeze@11(x, axes=[-3])", [(1, 3, 1)]),
    ("Unsqueeze@13(x, const([-1, 0]))", [(2, 3)]),
    ("Unsqueeze@1(x, axes=[1, 3])", [(2, 3)]),
    ("Flatten@11(x, axis=-1)", [(2, 3, 4)]),
    ("Flatten@9(x, axis=3)", [(2, 3, 4)]),
    ("Slice@1(x, starts=[1, -2], ends=[9, -1], axes=[0, 1])", [(4, 5)]),
    ("Slice@1(x, starts=[1], ends=[-1])", [(4, 5)]),
    ("Slice(x, const([3]), const([-9]), const([1]), const([-2]))", [(2, 6)]),
    ("Slice(x, const([-9]), const([-20]), const([0]), const([-1]))", [(3,)]),
    ("Slice(x, const([5]), const([1]), const([0]), const([1]))", [(6,)]),
    ("Slice(x, const([0]), const([9]), const([-1]), const([3]))", [(2, 8)]),
    ("Slice(x, const([-1]), const([-9223372036854775807]), const([0]), const([-1]))", [(5, 2)]),
    ("Slice(x, const([-1]), const([-9223372036854775807]), const([0]), const([-1]))", [(0, 2)]),
    ("gerules.Window(x, start=[1, 0], stop=[6, 3], step=[2, 3])", [(7, 3)]),
    ("gerules.Window(x, start=[3], stop=[1], step=[1])", [(4,)]),
    ("gerules.Padding(x, v, low=[1, -1], high=[2, 0], interior=[2, 1])", [(3, 2), ()]),
    ("gerules.Padding(x, v, low=[-2], high=[1], interior=[1])", [(3,), ()]),
    ("gerules.Padding(x, v, low=[1], high=[1], interior=[3])", [(0,), ()]),
    ("Pad@2(x, pads=[1, 0, 0, 2])", [(2, 3)]),
    ("Pad@11(x, const([1, -1, 0, 2]), v)", [(2, 3), ()]),
    ("Pad@18(x, const([2, 1]), v, const([-1]))", [(2, 3), ()]),
    ('Pad@11(x, const([0, 2, 1, 1]), mode="reflect")', [(2, 3)]),
    ('Pad@11(x, const([0, 4, 1, 5]), mode="edge")', [(2, 3)]),
    ('Pad@19(x, const([0, 4, 1, 5]), mode="wrap")', [(2, 3)]),
    ("Concat(x, v, w, axis=-2)", [(2, 3), (1, 3), (4, 3)]),
    ("Split@13(x, const([2, 1, 3]), axis=1, results=3)", [(2, 6)]),
    ("Split@18(x, none, axis=0, num_outputs=3, results=3)", [(7, 2)]),
    ("Tile(x, const([2, 1, 3]))", [(2, 1, 2)]),
    ("Tile(x, const([0, 2]))", [(2, 1)]),
    ("Gather(x, const([2, -1, 0]), axis=1)", [(2, 3)]),
    ("Add(x, v)", [(2, 1, 3), (4, 1)]),
    ("Add(x, v)", [(0, 1), (1, 3)]),
    ("Mul@6(x, v, broadcast=1, axis=1)", [(2, 3, 4), (3,)]),
    ("Add@6(x, v, broadcast=1)", [(2, 3, 4), (3, 4)]),
    ("Max(x, v, w)", [(2, 3), (3,), (1, 1)]),
    ("Max@6(x, v)", [(2, 3), (2, 3)]),
    ("Neg(x)", [(2, 3)]),
    ("PRelu(x, v)", [(2, 3), (3,)]),
    ("Clip@6(x, min=-2.0, max=3.0)", [(2, 3)]),
    ("Clip@11(x, const(-2.0), const(3.0))", [(2, 3)]),
    ("Clip@11(x, none, const(3.0))", [(2, 3)]),
    ("MatMul(x, v)", [(5, 1, 2, 3), (4, 3, 2)]),
    ("MatMul(x, v)", [(3,), (4, 3, 2)]),
    ("MatMul(x, v)", [(2, 3), (3,)]),
    ("MatMul(x, v)", [(3,), (3,)]),
    ("MatMul(x, v)", [(2, 0), (0, 3)]),
    ("ReduceSum@13(x, const([0, -1]), keepdims=0)", [(2, 3, 4)]),
    ("ReduceSum@11(x, axes=[1], keepdims=1)", [(2, 3, 4)]),
    ("ReduceSum@13(x, none)", [(2, 3)]),
    ("ReduceMax@18(x, const([1]))", [(2, 3)]),
    ("ReduceMin@18(x, none, keepdims=0)", [(2, 3)]),
    ("ReduceProd@18(x, const([]), noop_with_empty_axes=1)", [(2, 3)]),
    ("ReduceL1@18(x, const([0]))", [(2, 3)]),
    ("ReduceSumSquare@18(x, const([-2]), keepdims=0)", [(2, 3)]),
    ("ConstantOfShape(const([2, 3]))", [(1,)]),
    ("Shape@15(x, start=1, end=-1)", [(2, 3, 4)]),
    ("Size(x)", [(2, 3, 4)]),
    ("Reshape(x, const([2, 3]))", [(2, 3)]),
    ("Reshape(x, const([6]))", [(6,)]),
    ("Dropout(x)", [(2, 3)]),
)


def arrays_of(shapes: list[tuple[int, ...]]) -> dict[str, np.ndarray]:
    return {name: draw(*shape) for name, shape in zip("xvw", shapes, strict=False)}


@pytest.mark.parametrize(("text", "shapes"), VALID, ids=lambda part: str(part)[:60])
def test_the_meaning_of_an_operator_is_what_the_simulator_does(text: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = arrays_of(shapes)
    expected = simulated(text, arrays)
    meaning = Meaning(text, arrays)
    assert expected is not None and meaning.valid
    assert meaning.shape == expected.shape
    np.testing.assert_array_equal(meaning.elements(), expected.astype(float))


INVALID = (
    ("Expand(x, const([2, 3]))", [(2, 2)]),
    ("Add(x, v)", [(2, 3), (2,)]),
    ("Squeeze@13(x, const([1]))", [(1, 3)]),
    ("Concat(x, v, axis=0)", [(2, 3), (2, 4)]),
    ("gerules.Window(x, start=[1], stop=[9], step=[1])", [(4,)]),
    ("gerules.Padding(x, v, low=[-5], high=[1], interior=[0])", [(3,), ()]),
    ('Pad@11(x, const([3, 0]), mode="reflect")', [(3,)]),
    ('Pad@11(x, const([1, 0]), mode="edge")', [(0,)]),
    ("Split@13(x, const([2, 2]), axis=0, results=2)", [(5,)]),
    ("MatMul(x, v)", [(2, 3), (2, 3)]),
    ("MatMul(x, v)", [(), (3,)]),
    ("PRelu(x, v)", [(3,), (2, 3)]),
    ("Gather(x, const([3]), axis=0)", [(3,)]),
    ("Max@6(x, v)", [(2, 3), (3,)]),
    ("Transpose(x, perm=[0, 0])", [(2, 3)]),
)


@pytest.mark.parametrize(("text", "shapes"), INVALID, ids=lambda part: str(part)[:60])
def test_what_an_operator_refuses_is_not_valid(text: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = arrays_of(shapes)
    assert simulated(text, arrays) is None
    assert meant(text, arrays) is None


def test_every_slice_of_a_short_axis() -> None:
    """All bounds and steps around the borders."""
    x = draw(3)
    for start, end, step in product(range(-5, 6), range(-5, 6), (-2, -1, 1, 2)):
        text = f"Slice(x, const([{start}]), const([{end}]), const([0]), const([{step}]))"
        expected = simulated(text, {"x": x})
        assert expected is not None
        meaning = Meaning(text, {"x": x})
        assert meaning.shape == expected.shape, text
        np.testing.assert_array_equal(meaning.elements(), expected, err_msg=text)


def test_every_padding_of_a_short_axis() -> None:
    for n, low, high, inner in product((0, 1, 3), (-3, -1, 0, 2), (-2, 0, 1), (0, 1, 2)):
        arrays = {"x": draw(n), "v": draw()}
        text = f"gerules.Padding(x, v, low=[{low}], high=[{high}], interior=[{inner}])"
        expected = simulated(text, arrays)
        meaning = meant(text, arrays)
        assert (meaning is None) == (expected is None), text
        if meaning is not None and expected is not None:
            assert meaning.shape == expected.shape, text
            np.testing.assert_array_equal(meaning.elements(), expected, err_msg=text)
