"""Quantised values: QuantizeLinear and DequantizeLinear at every version and granularity, integer products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from gerules.simulate.kernel import Kernel, NodeSpec, Run, kernel
from gerules.simulate.kernels.cast import to_small_float
from gerules.simulate.values import SMALL_FLOATS, Array, Value, numpy_type_of_number


def integer_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The least and the largest integer of a type, four and two bits included."""
    info = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]  # no stubs
    return int(info.min), int(info.max)


def along(scale: Array, x: Array, axis: int, block: int) -> Array:
    """A scale or zero point so that it meets every element of x: one for all, one per index of `axis`, or one per
    block of `block` elements along it."""
    if scale.ndim == 0 or scale.size == 1:
        return scale.reshape(())
    axis %= x.ndim
    if block > 0:
        spread = np.repeat(scale, block, axis=axis)
        index = tuple(slice(0, n) for n in x.shape)
        if spread.ndim != x.ndim or any(a < b for a, b in zip(spread.shape, x.shape, strict=True)):
            raise ValueError(f"scales of shape {list(scale.shape)} in blocks of {block} for {list(x.shape)}")
        return spread[index]
    if scale.ndim != 1 or scale.shape[0] != x.shape[axis]:
        raise ValueError(f"{list(scale.shape)} scales for axis {axis} of {list(x.shape)}")
    return scale.reshape([-1 if a == axis else 1 for a in range(x.ndim)])


@kernel("QuantizeLinear")
def quantize_linear(spec: NodeSpec) -> Kernel:
    """x, scale, zero point or absent -> round(x / scale) + zero, saturated."""
    axis, block = int(spec.get("axis", 1)), int(spec.get("block_size", 0))
    stated, precision = int(spec.get("output_dtype", 0)), int(spec.get("precision", 0))
    saturate = bool(spec.get("saturate", 1))

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x, scale = operands[0], operands[1]
        zero = operands[2] if len(operands) > 2 else None
        if zero is not None and zero.shape != scale.shape and not zero.size == scale.size == 1:
            raise ValueError(f"zero points {list(zero.shape)} for scales {list(scale.shape)}")
        target = zero.dtype if zero is not None else numpy_type_of_number(stated) if stated else np.dtype(np.uint8)
        work = numpy_type_of_number(precision) if precision else scale.dtype if spec.version >= 23 else np.float32
        values = x.astype(work) if x.dtype != np.float64 else x
        ratio = np.asarray(values / along(scale.astype(values.dtype), x, axis, block))
        if target in SMALL_FLOATS:
            if zero is not None:
                ratio = ratio + along(zero.astype(ratio.dtype), x, axis, block)
            return (to_small_float(ratio.astype(np.float32), target, saturate),)
        whole = np.rint(ratio.astype(np.float32) if ratio.dtype.itemsize < 4 else ratio)
        if zero is not None and zero.any():
            whole = whole + along(zero.astype(whole.dtype), x, axis, block)
        return (_saturated(whole, target),)

    return compute


def _saturated(values: Array, target: np.dtype[Any]) -> Array:
    low, high = integer_limits(target)
    return np.asarray(np.clip(values, low, high)).astype(np.int32).astype(target)


def requantize(total: Array, scale: Array, zero: Array) -> Array:
    """round(total * scale) + zero, saturated, in the zero point's type."""
    whole = np.rint(total.astype(np.float32) * scale)
    return _saturated(np.asarray(whole + zero.astype(np.float32)), zero.dtype)


@kernel("DequantizeLinear")
def dequantize_linear(spec: NodeSpec) -> Kernel:
    """x, scale, zero point or absent -> (x - zero) * scale in the scale's type (or `output_dtype`)."""
    axis, block = int(spec.get("axis", 1)), int(spec.get("block_size", 0))
    stated = int(spec.get("output_dtype", 0))

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x, scale = operands[0], operands[1]
        zero = operands[2] if len(operands) > 2 else None
        target = numpy_type_of_number(stated) if stated else scale.dtype
        work = np.float64 if target == np.float64 else np.float32
        if zero is not None and zero.any() and x.dtype not in SMALL_FLOATS:
            shift = along(zero.astype(np.int32), x, axis, block)
            values = (x.astype(np.int32) - shift).astype(work)
        else:
            values = x.astype(work)
            if zero is not None and x.dtype in SMALL_FLOATS:
                values -= along(zero.astype(work), x, axis, block)
        values = values * along(scale.astype(work), x, axis, block)
        return (np.asarray(values).astype(target, copy=False),)

    return compute


@kernel("MatMulInteger")
def matmul_integer(spec: NodeSpec) -> Kernel:
    """Eight-bit a and b, their zero points (a's per row, b's per column) or absent -> i32."""

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        a_zero = operands[2] if len(operands) > 2 else None
        b_zero = operands[3] if len(operands) > 3 else None
        return (_integer_product(operands[0], operands[1], a_zero, b_zero).astype(np.int32),)

    return compute


def _integer_product(a: Array, b: Array, a_zero: Array | None, b_zero: Array | None) -> Array:
    """The exact product of eight-bit matrices less their zero points, as doubles."""
    left, right = a.astype(np.float64), b.astype(np.float64)
    if a_zero is not None:
        rows = a_zero.astype(np.float64)
        left = left - (rows.reshape(()) if rows.size == 1 else rows[..., None] if rows.ndim == 1 else rows)
    if b_zero is not None:
        right = right - b_zero.astype(np.float64)
    return np.asarray(np.matmul(left, right))


@kernel("QLinearMatMul")
def qlinear_matmul(spec: NodeSpec) -> Kernel:
    """a, scale, zero, b, scale, zero, y's scale and zero -> y in the type of its zero."""

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = operands
        total = _integer_product(a, b, a_zero, b_zero)
        rows = a_scale.astype(np.float32)
        rows = rows.reshape(()) if rows.size == 1 else rows[..., None] if rows.ndim == 1 else rows
        scale = rows * b_scale.astype(np.float32) / y_scale.astype(np.float32)
        return (requantize(total, np.asarray(scale), y_zero),)

    return compute
