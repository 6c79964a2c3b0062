"""Element-wise operators: NumPy's functions, C's division, and the broadcast attributes of versions 1 to 6."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from gerules.simulate.kernel import REFERENCE, Kernel, NodeSpec, Run, kernel, simple
from gerules.simulate.kernels.erf import erf
from gerules.simulate.kernels.ordered import wide
from gerules.simulate.values import Array, Value


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind not in "iu":
        return np.asarray(np.true_divide(a, b)).astype(a.dtype, copy=False)
    if a.dtype.kind == "u":
        return np.asarray(np.floor_divide(a, b))
    quotient = np.floor_divide(a, b)  # C rounds towards zero, NumPy down
    return np.asarray(quotient + ((np.remainder(a, b) != 0) & ((a < 0) != (b < 0)))).astype(a.dtype)


def _power(a: Array, b: Array) -> Array:
    """The result has the base's type; the exponent may have another."""
    if a.dtype.kind in "iu":
        if b.dtype.kind in "iu" and not (b.dtype.kind == "i" and (b < 0).any()):
            return np.asarray(np.power(a, b.astype(a.dtype)))
        return np.asarray(np.power(a.astype(np.float64), b.astype(np.float64))).astype(a.dtype)
    return np.asarray(np.power(wide(a), b.astype(wide(a).dtype))).astype(a.dtype)


@simple("Softsign")
def softsign(x: Array) -> Value:
    return np.asarray(x / (np.abs(x) + x.dtype.type(1))).astype(x.dtype, copy=False)


_BINARY: dict[str, Callable[[Array, Array], Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": _divide,
    "Pow": _power,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "Greater": np.greater,
    "Less": np.less,
    "Equal": np.equal,
    "GreaterOrEqual": np.greater_equal,
    "LessOrEqual": np.less_equal,
}


@kernel(*_BINARY)
def binary(spec: NodeSpec) -> Kernel:
    """Both operands stretch as in NumPy; where the version has a `broadcast` attribute only the second does, along
    `axis`, and only if asked to."""
    function = _BINARY[spec.op]
    legacy = "broadcast" in spec.attributes
    asked, axis = bool(spec.get("broadcast", 0)), spec.get("axis")
    mixed = spec.op == "Pow"
    boolean = spec.op not in ("Add", "Sub", "Mul", "Div", "Pow")

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        a, b = operands
        if a.dtype != b.dtype and not mixed:
            raise ValueError(f"operands of types {a.dtype} and {b.dtype}")
        if legacy:
            b = _laid_along(a, b, asked, axis)
        y = function(a, b)
        return (np.asarray(y, dtype=np.bool_) if boolean else np.asarray(y),)

    return compute


def _laid_along(a: Array, b: Array, asked: bool, axis: int | None) -> Array:
    if not asked:
        if a.shape != b.shape:
            raise ValueError(f"shapes {list(a.shape)} and {list(b.shape)} differ, and broadcast is off")
        return b
    if b.ndim > a.ndim:
        raise ValueError(f"the second operand has more axes, {b.ndim}, than the first, {a.ndim}")
    start = a.ndim - b.ndim if axis is None else axis % a.ndim if a.ndim else 0
    return b.reshape(b.shape + (1,) * (a.ndim - start - b.ndim))


_UNARY: dict[str, Callable[[Array], Any]] = {
    "Abs": np.abs,
    "Ceil": np.ceil,
    "Cos": np.cos,
    "Erf": erf,
    "Exp": np.exp,
    "Floor": np.floor,
    "Log": np.log,
    "Neg": np.negative,
    "Reciprocal": lambda x: np.true_divide(x.dtype.type(1), x),
    "Relu": lambda x: np.maximum(x, x.dtype.type(0)),
    "Round": np.rint,
    "Sigmoid": lambda x: _sigmoid(x),
    "Sign": np.sign,
    "Sin": np.sin,
    "Sqrt": np.sqrt,
    "Tanh": np.tanh,
}


@kernel(*_UNARY)
def unary(spec: NodeSpec) -> Kernel:
    function = _UNARY[spec.op]

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        return (np.asarray(function(x)).astype(x.dtype, copy=False),)

    return compute


def _sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)); exp overflows to infinity for very small x, which gives 0 as it should."""
    values = wide(x)
    y = np.exp(np.negative(values))
    y += values.dtype.type(1)
    return np.asarray(np.true_divide(values.dtype.type(1), y))


@simple("Not")
def logical_not(x: Array) -> Array:
    return np.asarray(np.logical_not(x))


@simple("Identity")
def identity(x: Value) -> Value:
    return x


def _folded(operands: Sequence[Array], function: Callable[[Array, Array], Any]) -> Array:
    return np.asarray(reduce(function, operands))


@kernel("Sum", "Mean", "Max", "Min")
def variadic(spec: NodeSpec) -> Kernel:
    """Any number of operands, from the first to the last; below version 8 they must have one shape."""
    function: Any = {"Sum": np.add, "Mean": np.add, "Max": np.maximum, "Min": np.minimum}[spec.op]
    mean, strict = spec.op == "Mean", spec.version < 8

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        first = operands[0]
        if strict and any(x.shape != first.shape for x in operands):
            raise ValueError(f"operands of different shapes at version {spec.version}")
        if len(operands) == 1:
            return (first,)
        y = _folded([wide(x) for x in operands] if mean else operands, function)
        if mean:
            y = y / y.dtype.type(len(operands))
        return (y.astype(first.dtype, copy=False),)

    return compute


@kernel("Clip")
def clip(spec: NodeSpec) -> Kernel:
    """Bounds from attributes below version 11, from operands (each may be absent) since. Where they cross, the upper
    one wins, as in onnxruntime and the specification's function body."""
    low, high = (spec.get("min"), spec.get("max")) if spec.version < 11 else (None, None)
    exact = spec.mode == REFERENCE

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        lower = operands[1] if len(operands) > 1 else low
        upper = operands[2] if len(operands) > 2 else high
        if spec.version < 6:  # the limits of the type itself
            lower = np.finfo(x.dtype).min if lower is None else lower
            upper = np.finfo(x.dtype).max if upper is None else upper
        y = x
        # By the letter a bound is a scalar; models give one of one element too.
        if exact and any(isinstance(v, np.ndarray) and v.ndim for v in (lower, upper)):
            raise ValueError("a bound is a scalar")
        if lower is not None:
            y = np.maximum(y, np.asarray(lower).astype(x.dtype).reshape(()))
        if upper is not None:
            y = np.minimum(y, np.asarray(upper).astype(x.dtype).reshape(()))
        return (np.asarray(y),)

    return compute


@kernel("PRelu")
def prelu(spec: NodeSpec) -> Kernel:
    """x where positive, else slope * x. Below version 7 the slope is one number or one per channel (axis 1), since
    then it stretches to x."""
    per_channel = spec.version < 7

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x, slope = operands
        if per_channel and slope.size > 1 and (x.ndim < 2 or slope.shape != x.shape[1:2]):
            raise ValueError(f"a slope {list(slope.shape)} for {list(x.shape)}")
        if per_channel and slope.size > 1:
            slope = slope.reshape(-1, *[1] * (x.ndim - 2))
        elif per_channel:
            slope = slope.reshape(())
        y = np.where(x < 0, x * slope, x).astype(x.dtype, copy=False)
        if y.shape != x.shape:
            raise ValueError(f"a slope {list(slope.shape)} does not fit {list(x.shape)}")
        return (y,)

    return compute


@kernel("LeakyRelu")
def leaky_relu(spec: NodeSpec) -> Kernel:
    alpha = spec.get("alpha", 0.01)

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        return (np.where(x < 0, x * x.dtype.type(alpha), x).astype(x.dtype, copy=False),)

    return compute


@kernel("Mod")
def mod(spec: NodeSpec) -> Kernel:
    """The remainder with the divisor's sign, or with the dividend's (`fmod`)."""
    function: Any = np.fmod if spec.get("fmod", 0) else np.mod

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        a, b = operands
        return (np.asarray(function(wide(a), wide(b))).astype(a.dtype, copy=False),)

    return compute


@kernel("Where")
def where(spec: NodeSpec) -> Kernel:
    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        condition, a, b = operands
        if a.dtype != b.dtype:
            raise ValueError(f"operands of types {a.dtype} and {b.dtype}")
        return (np.where(condition, a, b),)

    return compute
