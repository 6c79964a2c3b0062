"""Convolutions of any spatial rank: windows as columns, then one product of matrices per image and group."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from gerules.simulate.kernel import REFERENCE, Kernel, NodeSpec, Run, kernel
from gerules.simulate.kernels.ordered import ordered_matmul, per_channel, wide
from gerules.simulate.kernels.quantize import requantize
from gerules.simulate.kernels.windows import Geometry, columns, geometry, pad_for, shifted
from gerules.simulate.values import Array, Value


@kernel("Conv")
def conv(spec: NodeSpec) -> Kernel:
    """(N, C, spatial...), (M, C/group, kernel...), bias (M) or absent -> (N, M, out...)."""

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x, w = operands[0], operands[1]
        y = convolve(wide(x), wide(w), spec)
        if len(operands) > 2 and operands[2] is not None:
            y += per_channel(wide(operands[2]), y.shape[1], x.ndim)
        return (y.astype(x.dtype, copy=False),)

    return compute


def convolve(x: Array, w: Array, spec: NodeSpec) -> Array:
    """The convolution without bias, in the operands' common type; a new array."""
    group = int(spec.get("group", 1))
    channels = x.shape[1]
    if channels != w.shape[1] * group or w.shape[0] % group:
        raise ValueError(f"{channels} channels, but weights {list(w.shape)} in {group} groups")
    kernel_shape = spec.get("kernel_shape") or w.shape[2:]
    if tuple(kernel_shape) != w.shape[2:]:
        raise ValueError(f"kernel_shape {list(kernel_shape)}, but weights {list(w.shape)}")
    place = geometry(spec, x.shape[2:], kernel_shape)
    if spec.mode == REFERENCE:
        y = _in_order(x, w, group, place)
    elif group == channels and group > 1 and w.shape[0] == group:
        y = _depthwise(x, w, place)
    else:
        y = _through_blas(x, w, group, place)
    return y.reshape(x.shape[0], w.shape[0], *place.out)


def _through_blas(x: Array, w: Array, group: int, place: Geometry) -> Array:
    batch, channels = x.shape[:2]
    depth = channels // group * math.prod(place.kernel)
    windows = math.prod(place.out)
    weights = w.reshape(group, w.shape[0] // group, depth)
    plain = math.prod(place.kernel) == 1 and not any(place.before) and not any(place.after)
    if plain and set(place.strides) <= {1}:
        cells = np.ascontiguousarray(x).reshape(batch, group, depth, windows)
    elif plain:
        index = (slice(None), slice(None), *[slice(None, None, s) for s in place.strides])
        cells = np.ascontiguousarray(x[index]).reshape(batch, group, depth, windows)
    else:
        cells = columns(pad_for(x, place, 0), place).reshape(batch, group, depth, windows)
    return np.asarray(np.matmul(weights, cells))


def _depthwise(x: Array, w: Array, place: Geometry) -> Array:
    factors = w.reshape(w.shape[0], -1)
    total = np.zeros((*x.shape[:2], *place.out), dtype=np.result_type(x, w))
    part = np.empty_like(total)
    shape = (-1, *[1] * len(place.out))
    for position, view in enumerate(shifted(pad_for(x, place, 0), place)):
        np.multiply(view, factors[:, position].reshape(shape), out=part)
        total += part
    return total


def _in_order(x: Array, w: Array, group: int, place: Geometry) -> Array:
    depth = x.shape[1] // group * math.prod(place.kernel)
    cells = columns(pad_for(x, place, 0), place).reshape(x.shape[0], group, depth, math.prod(place.out))
    return ordered_matmul(w.reshape(group, w.shape[0] // group, depth), cells)


@kernel("ConvTranspose")
def conv_transpose(spec: NodeSpec) -> Kernel:
    """(N, C, spatial...), (C, M/group, kernel...), bias (M) or absent -> (N, M, out...)."""

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x, w = operands[0], operands[1]
        group = int(spec.get("group", 1))
        if x.shape[1] != w.shape[0]:
            raise ValueError(f"{x.shape[1]} channels, but weights {list(w.shape)}")
        place = _transposed(spec, x.shape[2:], w.shape[2:])
        run_it: Callable[[Array, Array, int, Geometry], Array]
        run_it = _gathered if spec.mode == REFERENCE else _scattered
        y = run_it(wide(x), wide(w), group, place)
        if len(operands) > 2 and operands[2] is not None:
            y = y + per_channel(wide(operands[2]), y.shape[1], x.ndim)
        return (y.astype(x.dtype, copy=False),)

    return compute


def _transposed(spec: NodeSpec, sizes: Sequence[int], kernel_shape: Sequence[int]) -> Geometry:
    """The geometry with `out` the output's sizes and `before` what is cut off at the front of each axis."""
    rank = len(sizes)
    strides = tuple(spec.get("strides") or (1,) * rank)
    dilations = tuple(spec.get("dilations") or (1,) * rank)
    extra = tuple(spec.get("output_padding") or (0,) * rank)
    auto = spec.get("auto_pad", "NOTSET")
    full = [
        (n - 1) * s + (k - 1) * d + 1 + e
        for n, s, k, d, e in zip(sizes, strides, kernel_shape, dilations, extra, strict=True)
    ]
    wanted = spec.get("output_shape")
    if wanted:
        wanted = tuple(wanted)[-rank:]
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = tuple(n * s for n, s in zip(sizes, strides, strict=True))
    if wanted:
        total = [max(f - o, 0) for f, o in zip(full, wanted, strict=True)]
        before = tuple(t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in total)
        out = tuple(wanted)
    else:
        pads = spec.get("pads") if auto == "NOTSET" else None
        pads = tuple(pads) if pads else (0,) * (2 * rank)
        before = pads[:rank]
        out = tuple(f - b - a for f, b, a in zip(full, before, pads[rank:], strict=True))
    if min(out, default=1) < 0:
        raise ValueError(f"the paddings are larger than the output {full}")
    return Geometry(tuple(kernel_shape), strides, dilations, before, (0,) * rank, out)


def _scattered(x: Array, w: Array, group: int, place: Geometry) -> Array:
    """Every input element adds its weights to the output."""
    batch, channels = x.shape[:2]
    made = w.shape[1]
    weights = w.reshape(group, channels // group, -1)
    cells = x.reshape(batch, group, channels // group, math.prod(x.shape[2:]))
    parts = np.matmul(weights.transpose(0, 2, 1), cells)
    parts = parts.reshape(batch, group * made, math.prod(place.kernel), *x.shape[2:])
    sizes = [
        max((n - 1) * s + e, b + o)
        for n, s, e, b, o in zip(x.shape[2:], place.strides, place.extents, place.before, place.out, strict=True)
    ]
    total = np.zeros((batch, group * made, *sizes), dtype=parts.dtype)
    grid = Geometry(place.kernel, place.strides, place.dilations, place.before, place.after, tuple(x.shape[2:]))
    for position, view in enumerate(shifted(total, grid)):
        view += parts[:, :, position]
    return total[(slice(None), slice(None), *[slice(b, b + o) for b, o in zip(place.before, place.out, strict=True)])]


def _gathered(x: Array, w: Array, group: int, place: Geometry) -> Array:
    """The same as a convolution of the input spread out with zeros, so that each output element is summed alone."""
    batch, channels = x.shape[:2]
    margins = [e - 1 for e in place.extents]
    sizes = [
        max((n - 1) * s + 1 + 2 * m, b + o + m)
        for n, s, m, b, o in zip(x.shape[2:], place.strides, margins, place.before, place.out, strict=True)
    ]
    spread = np.zeros((batch, channels, *sizes), dtype=x.dtype)
    index = [slice(m, m + (n - 1) * s + 1, s) for n, s, m in zip(x.shape[2:], place.strides, margins, strict=True)]
    spread[(slice(None), slice(None), *index)] = x
    spread = spread[(slice(None), slice(None), *[slice(b, None) for b in place.before])]
    made = w.shape[1]
    flipped = np.flip(w, axis=tuple(range(2, w.ndim))).reshape(group, channels // group, made, *place.kernel)
    weights = flipped.swapaxes(1, 2).reshape(group, made, -1)
    ones = (1,) * len(place.kernel)
    grid = Geometry(place.kernel, ones, place.dilations, place.after, place.after, place.out)
    cells = columns(spread, grid).reshape(batch, group, weights.shape[2], math.prod(place.out))
    return ordered_matmul(weights, cells).reshape(batch, group * made, *place.out)


@kernel("ConvInteger")
def conv_integer(spec: NodeSpec) -> Kernel:
    """Eight-bit x and w, their zero points or absent -> i32."""

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x_zero = operands[2] if len(operands) > 2 else None
        w_zero = operands[3] if len(operands) > 3 else None
        return (integer_convolution(operands[0], operands[1], x_zero, w_zero, spec).astype(np.int32),)

    return compute


def integer_convolution(x: Array, w: Array, x_zero: Array | None, w_zero: Array | None, spec: NodeSpec) -> Array:
    """Sums of products of eight-bit integers less their zero points, exact, as doubles: they hold 2^53."""
    values = x.astype(np.float64)
    weights = w.astype(np.float64)
    if x_zero is not None:
        values -= x_zero.astype(np.float64).reshape(-1)[0] if x_zero.size == 1 else x_zero.astype(np.float64)
    if w_zero is not None:
        weights -= w_zero.astype(np.float64).reshape((-1, *[1] * (w.ndim - 1)) if w_zero.size > 1 else ())
    return convolve(values, weights, spec)


@kernel("QLinearConv")
def qlinear_conv(spec: NodeSpec) -> Kernel:
    """x, its scale and zero point, w, its (per channel), y's, bias (i32) or absent -> y in the type of its zero."""

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = operands[:8]
        total = integer_convolution(x, w, x_zero, w_zero, spec)
        per_channel = (1, -1, *[1] * (x.ndim - 2))
        if len(operands) > 8 and operands[8] is not None:
            total += operands[8].astype(np.float64).reshape(per_channel)
        scale = x_scale.astype(np.float32) * w_scale.astype(np.float32).reshape(-1) / y_scale.astype(np.float32)
        return (requantize(total, scale.reshape(per_channel) if scale.size > 1 else scale.reshape(()), y_zero),)

    return compute
