"""Pooling over windows, over whole channels and over regions, at every version."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from gerules.simulate.kernel import REFERENCE, Kernel, NodeSpec, Run, kernel
from gerules.simulate.kernels.ordered import summation, wide
from gerules.simulate.kernels.quantize import integer_limits
from gerules.simulate.kernels.windows import Geometry, geometry, pad_for, shifted
from gerules.simulate.values import Array, Value


def _spatial(x: Array) -> None:
    if x.ndim < 3:
        raise ValueError(f"pooling needs spatial axes, the operand has rank {x.ndim}")


def _place(spec: NodeSpec, x: Array) -> Geometry:
    _spatial(x)
    return geometry(spec, x.shape[2:], spec.get("kernel_shape") or x.shape[2:])


@kernel("MaxPool")
def max_pool(spec: NodeSpec) -> Kernel:
    """(N, C, spatial...) -> the largest element of each window and, if asked for, where it lies in the whole input,
    flattened by rows (`storage_order` 0) or with the spatial axes by columns (1)."""
    order = int(spec.get("storage_order", 0))

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        place = _place(spec, x)
        padded = pad_for(x, place, _least(x.dtype))
        if spec.mode == REFERENCE or (spec.results > 1 and spec.wants(1)):
            # Also where no places are asked for: which of two zeros is kept does not depend on that.
            return _with_indices(x, padded, place, order)
        views = shifted(padded, place)
        y = np.array(next(views))
        for view in views:
            np.maximum(y, view, out=y)
        return (y,)

    return compute


def _least(dtype: np.dtype[Any]) -> float | int:
    return integer_limits(dtype)[0] if dtype.kind in "iu" else -math.inf


def _with_indices(x: Array, padded: Array, place: Geometry, order: int) -> Sequence[Value]:
    sizes = x.shape[2:]
    weights = [1] * len(sizes)
    axes = range(len(sizes)) if order == 1 else reversed(range(len(sizes)))
    step = 1
    for axis in axes:
        weights[axis] = step
        step *= sizes[axis]
    best: Array | None = None
    index = np.zeros((), dtype=np.int64)
    for offsets, view in zip(product(*map(range, place.kernel)), shifted(padded, place), strict=True):
        flat = np.zeros(place.out, dtype=np.int64)
        inside = np.ones(place.out, dtype=np.bool_)
        for axis, offset in enumerate(offsets):
            shape = [-1 if a == axis else 1 for a in range(len(sizes))]
            at = np.arange(place.out[axis]) * place.strides[axis] + offset * place.dilations[axis] - place.before[axis]
            flat = flat + (at * weights[axis]).reshape(shape)
            inside = inside & ((at >= 0) & (at < sizes[axis])).reshape(shape)
        if best is None:
            best = np.array(view)
            index = np.broadcast_to(flat, best.shape).copy()
            found = np.broadcast_to(inside, best.shape).copy()
            continue
        # NaN is kept, as it is where no places are asked for.
        better = inside & ((view > best) | ((view != view) & (best == best)) | ~found)
        best[better] = view[better]
        index[better] = np.broadcast_to(flat, best.shape)[better]
        found |= inside
    assert best is not None
    planes = np.arange(x.shape[0] * x.shape[1], dtype=np.int64) * math.prod(sizes)
    return best, index + planes.reshape(x.shape[0], x.shape[1], *[1] * len(sizes))


@kernel("AveragePool")
def average_pool(spec: NodeSpec) -> Kernel:
    """The mean of each window over the elements of the input in it, or over those and its padding
    (`count_include_pad`); what lies beyond the padding never counts."""
    padding_counts = bool(spec.get("count_include_pad", 0))

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        place = _place(spec, x)
        y = _window_sum(wide(x), place)
        for axis, size in enumerate(x.shape[2:]):
            low, high = (-place.before[axis], size + place.after[axis]) if padding_counts else (0, size)
            counts = _counts(place, axis, low, high)
            y /= counts.reshape([-1 if a == axis + 2 else 1 for a in range(x.ndim)]).astype(y.dtype)
        return (y.astype(x.dtype, copy=False),)

    return compute


def _window_sum(x: Array, place: Geometry) -> Array:
    views = shifted(pad_for(x, place, 0), place)
    total = np.array(next(views))
    for view in views:
        total += view
    return total


def _counts(place: Geometry, axis: int, low: int, high: int) -> Array:
    """How many positions of each window along an axis lie in [low, high)."""
    starts = np.arange(place.out[axis]) * place.strides[axis] - place.before[axis]
    at = starts[:, None] + np.arange(place.kernel[axis]) * place.dilations[axis]
    return np.asarray(((at >= low) & (at < high)).sum(axis=1))


@kernel("LpPool")
def lp_pool(spec: NodeSpec) -> Kernel:
    """(sum of |x|^p)^(1/p) over each window; padding is zero."""
    p = float(spec.get("p", 2))

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        powers = _power(wide(x), p)
        return (_root(_window_sum(powers, _place(spec, x)), p).astype(x.dtype, copy=False),)

    return compute


def _power(x: Array, p: float) -> Array:
    return np.abs(x) if p == 1 else np.square(x) if p == 2 else np.abs(x) ** x.dtype.type(p)


def _root(x: Array, p: float) -> Array:
    return x if p == 1 else np.sqrt(x) if p == 2 else x ** x.dtype.type(1.0 / p)


@kernel("GlobalAveragePool")
def global_average_pool(spec: NodeSpec) -> Kernel:
    total = summation(spec.mode)

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        _spatial(x)
        count = math.prod(x.shape[2:])
        y = total(wide(x), tuple(range(2, x.ndim)), True)
        return ((y / y.dtype.type(count)).astype(x.dtype, copy=False),)

    return compute


@kernel("GlobalMaxPool")
def global_max_pool(spec: NodeSpec) -> Kernel:
    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        _spatial(x)
        return (np.asarray(x.max(axis=tuple(range(2, x.ndim)), keepdims=True)),)

    return compute


@kernel("GlobalLpPool")
def global_lp_pool(spec: NodeSpec) -> Kernel:
    p, total = float(spec.get("p", 2)), summation(spec.mode)

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        _spatial(x)
        return (_root(total(_power(wide(x), p), tuple(range(2, x.ndim)), True), p).astype(x.dtype, copy=False),)

    return compute


@kernel("MaxRoiPool")
def max_roi_pool(spec: NodeSpec) -> Kernel:
    """(N, C, H, W), regions (R, 5) of (image, x1, y1, x2, y2) -> (R, C, pooled height, pooled width), as in Fast
    R-CNN: corners are rounded, both ends belong to the region, empty bins give 0."""
    height, width = spec.attributes["pooled_shape"]
    scale = np.float32(spec.get("spatial_scale", 1.0))

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x, regions = operands
        y = np.zeros((regions.shape[0], x.shape[1], height, width), dtype=x.dtype)
        for r, region in enumerate(regions):
            image = x[int(region[0])]
            x1, y1, x2, y2 = (int(np.floor(c * scale + np.float32(0.5))) for c in region[1:].astype(np.float32))
            rows = _bins(y1, max(y2 - y1 + 1, 1), height, x.shape[2])
            cols = _bins(x1, max(x2 - x1 + 1, 1), width, x.shape[3])
            for (i, (top, bottom)), (j, (left, right)) in product(enumerate(rows), enumerate(cols)):
                if top < bottom and left < right:
                    y[r, :, i, j] = image[:, top:bottom, left:right].max(axis=(1, 2))
        return (y,)

    return compute


def _bins(start: int, length: int, count: int, size: int) -> list[tuple[int, int]]:
    step = np.float32(length) / np.float32(count)
    bins = []
    for i in range(count):
        low, high = int(np.floor(i * step)) + start, int(np.ceil((i + 1) * step)) + start
        bins.append((min(max(low, 0), size), min(max(high, 0), size)))
    return bins


SAMPLES = 2**22
"""Points that one region of RoiAlign may be sampled at: more is no region of an image."""


@kernel("RoiAlign")
def roi_align(spec: NodeSpec) -> Kernel:
    """As in onnx.reference, but that a region whose adaptive grid nobody can compute is refused, not tried."""
    from gerules.simulate.reference import reference_kernel

    plain = reference_kernel(spec)
    assert plain is not None
    out = np.array([spec.get("output_width", 1), spec.get("output_height", 1)])

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        rois: Array = operands[1]
        ratio = spec.get("sampling_ratio", 0)
        if rois.ndim != 2 or rois.shape[1] != 4:
            raise ValueError(f"regions of the shape {list(rois.shape)}, not [n, 4]")
        sides = (rois[:, 2:] - rois[:, :2]).astype(np.float64) * spec.get("spatial_scale", 1.0)
        grid = np.full(sides.shape, float(ratio)) if ratio > 0 else np.ceil(np.maximum(sides, 1.0) / out)
        points = (grid * out).prod(axis=1)
        if not bool((points <= SAMPLES).all()):
            raise ValueError("a region is too large to be sampled, or no number")
        return plain(operands, run)

    return compute
