"""Reductions over axes, Softmax and its kin, at every version."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gerules.simulate.kernel import REFERENCE, Kernel, NodeSpec, Run, kernel
from gerules.simulate.kernels.ordered import Summation, all_axes, ordered_fold, summation, wide
from gerules.simulate.kernels.quantize import integer_limits
from gerules.simulate.values import Array, Value

Reduction = Callable[[Array, tuple[int, ...], bool, Summation], Any]


def _mean(x: Array, axes: tuple[int, ...], keep: bool, total: Summation) -> Any:
    count = math.prod(x.shape[a] for a in axes)
    y = total(x, axes, keep)
    if x.dtype.kind in "iu":
        return np.trunc(y / count)
    return y / x.dtype.type(count)


def _log_sum_exp(x: Array, axes: tuple[int, ...], keep: bool, total: Summation) -> Any:
    if math.prod(x.shape[a] for a in axes) == 0:
        return np.log(total(x, axes, keep))
    x = x if x.dtype.kind == "f" else x.astype(np.float64)
    top = np.max(x, axis=axes, keepdims=True)
    top = np.where(np.isfinite(top), top, x.dtype.type(0))
    y = np.log(total(np.exp(x - top), axes, True)) + top
    return y if keep else np.squeeze(y, axis=axes)


def _largest(x: Array, axes: tuple[int, ...], keep: bool, total: Summation) -> Any:
    return _extreme(np.max, x, axes, keep, least=True)


def _smallest(x: Array, axes: tuple[int, ...], keep: bool, total: Summation) -> Any:
    return _extreme(np.min, x, axes, keep, least=False)


def _extreme(function: Any, x: Array, axes: tuple[int, ...], keep: bool, *, least: bool) -> Any:
    if math.prod(x.shape[a] for a in axes):
        return function(x, axis=axes, keepdims=keep)
    if x.dtype.kind == "b":
        empty: Any = not least
    elif x.dtype.kind in "iu":
        empty = integer_limits(x.dtype)[0 if least else 1]
    else:
        empty = -math.inf if least else math.inf
    return np.full(np.sum(x, axis=axes, keepdims=keep).shape, empty, dtype=x.dtype)


def _root(x: Array, axes: tuple[int, ...], keep: bool, total: Summation) -> Any:
    return np.sqrt(total(np.square(x), axes, keep))


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceL1": lambda x, axes, keep, total: total(np.abs(x), axes, keep),
    "ReduceL2": _root,
    "ReduceLogSum": lambda x, axes, keep, total: np.log(total(x, axes, keep)),
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceMax": _largest,
    "ReduceMean": _mean,
    "ReduceMin": _smallest,
    "ReduceSum": lambda x, axes, keep, total: total(x, axes, keep),
    "ReduceSumSquare": lambda x, axes, keep, total: total(np.square(x), axes, keep),
}


@kernel(*_REDUCTIONS, "ReduceProd")
def reduction(spec: NodeSpec) -> Kernel:
    """Axes come from the attribute or, where the version has it, from the second operand; none means all, or none at
    all with `noop_with_empty_axes`."""
    function = _product(spec.mode) if spec.op == "ReduceProd" else _REDUCTIONS[spec.op]
    total = summation(spec.mode)
    keep, noop = bool(spec.get("keepdims", 1)), bool(spec.get("noop_with_empty_axes", 0))
    attribute = spec.get("axes")
    pointwise = spec.op not in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd")

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        axes: Any = attribute
        if len(operands) > 1 and operands[1] is not None:
            axes = operands[1].reshape(-1).tolist()
        if not axes and noop:
            if not pointwise:
                return (x,)
            found: tuple[int, ...] = ()
        else:
            found = all_axes(x, axes or None)
        y = function(wide(x), found, keep, total)
        return (np.asarray(y).astype(x.dtype, copy=False),)

    return compute


def _product(mode: str) -> Reduction:
    if mode == REFERENCE:
        return lambda x, axes, keep, total: ordered_fold(x, axes, keep, np.multiply, 1)
    return lambda x, axes, keep, total: np.prod(x, axis=axes, keepdims=keep, dtype=x.dtype)


@kernel("Softmax", "LogSoftmax", "Hardmax")
def softmax(spec: NodeSpec) -> Kernel:
    """Along `axis`; below version 13 over all axes from `axis` on, seen as one."""
    axis, flat = int(spec.get("axis", -1)), spec.version < 13
    total = summation(spec.mode)
    function = {"Softmax": _softmax, "LogSoftmax": _log_softmax, "Hardmax": _hardmax}[spec.op]

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        if flat:
            position = axis % x.ndim if x.ndim and axis < x.ndim else axis
            rows = x.reshape(math.prod(x.shape[:position]), -1) if x.size else x.reshape(0, 1)
            y = function(wide(rows), 1, total).reshape(x.shape)
        else:
            if not -x.ndim <= axis < x.ndim:
                raise ValueError(f"axis {axis} is out of range for rank {x.ndim}")
            y = function(wide(x), axis % x.ndim, total)
        return (y.astype(x.dtype, copy=False),)

    return compute


def _softmax(x: Array, axis: int, total: Summation) -> Array:
    y = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-math.inf))
    y /= total(y, (axis,), True)
    return np.asarray(y)


def _log_softmax(x: Array, axis: int, total: Summation) -> Array:
    shifted = x - np.max(x, axis=axis, keepdims=True, initial=-math.inf)
    return np.asarray(shifted - np.log(total(np.exp(shifted), (axis,), True)))


def _hardmax(x: Array, axis: int, total: Summation) -> Array:
    y = np.zeros_like(x)
    if x.size:
        np.put_along_axis(y, np.argmax(x, axis=axis, keepdims=True), 1, axis)
    return y


@kernel("ArgMax", "ArgMin")
def arg_extreme(spec: NodeSpec) -> Kernel:
    axis, keep = int(spec.get("axis", 0)), bool(spec.get("keepdims", 1))
    last = bool(spec.get("select_last_index", 0))
    function: Any = np.argmax if spec.op == "ArgMax" else np.argmin

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        found = np.asarray(function(np.flip(x, axis) if last else x, axis=axis, keepdims=keep), dtype=np.int64)
        return (np.asarray(x.shape[axis] - 1 - found) if last else found,)

    return compute
