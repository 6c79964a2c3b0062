"""Resize and Upsample of every version, one axis after the other: interpolation along axes is separable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gerules.simulate.kernel import Kernel, NodeSpec, Run, kernel
from gerules.simulate.values import Array, Value


@dataclass(frozen=True, slots=True)
class _Axis:
    """How one axis is resized: sizes before and after, the scale, the region (for `tf_crop_and_resize`)."""

    size: int
    out: int
    scale: float
    start: float = 0.0
    end: float = 1.0


@dataclass(frozen=True, slots=True)
class _Rule:
    """What all axes share."""

    mode: str
    coordinates: str
    nearest: str
    cubic_a: float
    antialias: bool
    exclude_outside: bool
    extrapolation: float


@kernel("Upsample", until=9)
def upsample(spec: NodeSpec) -> Kernel:
    """Scales are two attributes at version 1, one at 7, an operand at 9."""
    mode = {"bilinear": "linear"}.get(spec.get("mode", "nearest"), spec.get("mode", "nearest"))
    rule = _Rule(mode, "asymmetric", "floor", -0.75, False, False, 0.0)
    stated = spec.get("scales")
    if "height_scale" in spec.attributes:
        stated = (1.0, 1.0, spec.attributes["height_scale"], spec.attributes["width_scale"])

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        scales = np.asarray(stated, dtype=np.float32) if stated is not None else operands[1]
        return (_resized(x, _by_scales(x, scales, range(x.ndim)), rule),)

    return compute


@kernel("Resize", until=10)
def resize_10(spec: NodeSpec) -> Kernel:
    """Version 10: x and scales, coordinates x / scale, the nearest element by rounding down where there are more
    elements than before, up where there are fewer (as onnxruntime does; the text does not say)."""
    rule = _Rule(spec.get("mode", "nearest"), "asymmetric", "simple", -0.75, False, False, 0.0)

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        return (_resized(x, _by_scales(x, operands[1], range(x.ndim)), rule),)

    return compute


@kernel("Resize", since=11)
def resize(spec: NodeSpec) -> Kernel:
    """x, region or absent, scales or sizes (the other absent or empty)."""
    rule = _Rule(
        spec.get("mode", "nearest"),
        spec.get("coordinate_transformation_mode", "half_pixel"),
        spec.get("nearest_mode", "round_prefer_floor"),
        spec.get("cubic_coeff_a", -0.75),
        bool(spec.get("antialias", 0)),
        bool(spec.get("exclude_outside", 0)),
        spec.get("extrapolation_value", 0.0),
    )
    policy = spec.get("keep_aspect_ratio_policy", "stretch")
    stated_axes = spec.get("axes")

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        given: list[Value] = [*operands, *[None] * (4 - len(operands))]
        x, region, scales, sizes = given
        axes = [a % x.ndim for a in stated_axes] if stated_axes else list(range(x.ndim))
        if sizes is not None and sizes.size:
            plan = _by_sizes(x, [int(s) for s in sizes], axes, policy)
        elif scales is not None and scales.size:
            plan = _by_scales(x, scales, axes)
        else:
            raise ValueError("neither scales nor sizes are given")
        if rule.coordinates == "tf_crop_and_resize" and region is not None and region.size:
            ends = region.reshape(2, -1).tolist()
            for i, axis in enumerate(axes):
                known = plan[axis]
                plan[axis] = _Axis(known.size, known.out, known.scale, ends[0][i], ends[1][i])
        return (_resized(x, plan, rule),)

    return compute


def _by_scales(x: Array, scales: Array, axes: Sequence[int]) -> dict[int, _Axis]:
    if scales.size != len(axes):
        raise ValueError(f"{scales.size} scales for {len(axes)} axes")
    if not (np.isfinite(scales) & (scales > 0)).all():
        raise ValueError("a scale is greater than 0")
    plan = {}
    for axis, scale in zip(axes, list(scales.astype(np.float32).reshape(-1)), strict=True):
        out = int(np.floor(np.float32(x.shape[axis]) * scale))  # in single precision, as shapes are inferred
        plan[axis] = _Axis(x.shape[axis], out, float(scale))
    return plan


def _by_sizes(x: Array, sizes: Sequence[int], axes: Sequence[int], policy: str) -> dict[int, _Axis]:
    if len(sizes) != len(axes):
        raise ValueError(f"{len(sizes)} sizes for {len(axes)} axes")
    if any(size < 0 for size in sizes):
        raise ValueError("a size is 0 or more")
    scales = [size / x.shape[axis] if x.shape[axis] else 1.0 for axis, size in zip(axes, sizes, strict=True)]
    if policy == "stretch":
        return {a: _Axis(x.shape[a], n, s) for a, n, s in zip(axes, sizes, scales, strict=True)}
    scale = min(scales) if policy == "not_larger" else max(scales)
    return {a: _Axis(x.shape[a], math.floor(scale * x.shape[a] + 0.5), scale) for a in axes}


def _resized(x: Array, plan: dict[int, _Axis], rule: _Rule) -> Array:
    y = x
    exact = rule.mode == "nearest"
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    for axis, place in plan.items():
        whole = place.start == 0.0 and place.end == 1.0
        if place.out == place.size and place.scale == 1.0 and whole:
            continue
        if place.out == 0 or place.size == 0:
            y = np.zeros([*y.shape[:axis], place.out, *y.shape[axis + 1 :]], dtype=y.dtype)
            continue
        at = _coordinates(place, rule.coordinates)
        if exact:
            nearest = rule.nearest if rule.nearest != "simple" else "ceil" if place.scale < 1 else "floor"
            index = np.clip(_nearest(at, nearest), 0, place.size - 1)
            y = np.take(y, index, axis=axis)
        else:
            y = _interpolated(y.astype(wide, copy=False), axis, place, at, rule)
        if rule.coordinates == "tf_crop_and_resize":
            outside = (at < 0) | (at > place.size - 1)
            if outside.any():
                shape = [-1 if a == axis else 1 for a in range(y.ndim)]
                y = np.where(outside.reshape(shape), np.asarray(rule.extrapolation).astype(y.dtype), y)
    if not exact and x.dtype.kind in "iu":
        return np.trunc(y).astype(x.dtype)
    return np.asarray(y).astype(x.dtype, copy=False)


def _coordinates(place: _Axis, mode: str) -> Array:
    """Where each output element lies in the input."""
    at = np.arange(place.out, dtype=np.float64)
    if mode == "align_corners":
        reach = place.scale * place.size - 1  # the output's length before it is rounded down
        return at * (place.size - 1) / reach if reach > 0 and place.out > 1 else np.zeros_like(at)
    if mode == "asymmetric":
        return at / place.scale
    if mode == "half_pixel":
        return (at + 0.5) / place.scale - 0.5
    if mode == "pytorch_half_pixel":
        return (at + 0.5) / place.scale - 0.5 if place.out > 1 else np.zeros_like(at)
    if mode == "half_pixel_symmetric":
        adjustment = place.out / (place.scale * place.size)
        return place.size / 2 * (1 - adjustment) + (at + 0.5) / place.scale - 0.5
    if mode == "tf_half_pixel_for_nn":
        return (at + 0.5) / place.scale
    if mode == "tf_crop_and_resize":
        reach = float(place.size - 1)
        if place.out == 1:
            return np.full_like(at, 0.5 * (place.start + place.end) * reach)
        return place.start * reach + at * (place.end - place.start) * reach / (place.out - 1)
    raise ValueError(f"there is no coordinate_transformation_mode {mode}")


def _nearest(at: Array, mode: str) -> Array:
    if mode == "round_prefer_floor":
        found = np.ceil(at - 0.5)
    elif mode == "round_prefer_ceil":
        found = np.floor(at + 0.5)
    elif mode == "floor":
        found = np.floor(at)
    elif mode == "ceil":
        found = np.ceil(at)
    else:
        raise ValueError(f"there is no nearest_mode {mode}")
    return np.asarray(found).astype(np.int64)


def _interpolated(x: Array, axis: int, place: _Axis, at: Array, rule: _Rule) -> Array:
    first, weights = _weights(at, place, rule)
    index = first[:, None] + np.arange(weights.shape[1])
    if rule.exclude_outside:
        weights = np.where((index < 0) | (index >= place.size), 0.0, weights)
        totals = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(totals == 0, 1.0, totals)
    index = np.clip(index, 0, place.size - 1)
    shape = [-1 if a == axis else 1 for a in range(x.ndim)]
    total: Any = 0.0
    for k in range(weights.shape[1]):
        total = total + np.take(x, index[:, k], axis=axis) * weights[:, k].reshape(shape)
    return np.asarray(total)


def _weights(at: Array, place: _Axis, rule: _Rule) -> tuple[Array, Array]:
    """For each output the first input element that counts, and the weights of it and those after."""
    base = np.floor(at).astype(np.int64)
    # Sampling down, antialiasing stretches the kernel over all elements that one output stands for.
    shrink = min(place.scale, 1.0) if rule.antialias else 1.0
    if rule.mode == "linear":
        reach, function = 1, _triangle
    elif rule.mode == "cubic":
        reach, function = 2, _cubic
    else:
        raise ValueError(f"there is no mode {rule.mode}")
    start = math.floor(-reach / shrink) + 1
    offsets = np.arange(start, 2 - start)
    distance = (base[:, None] + offsets - at[:, None]) * shrink
    weights = function(np.abs(distance), rule.cubic_a)
    if rule.antialias:
        weights = weights / weights.sum(axis=1, keepdims=True)
    return base + start, weights


def _triangle(distance: Array, a: float) -> Array:
    return np.clip(1.0 - distance, 0.0, 1.0)


def _cubic(distance: Array, a: float) -> Array:
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
