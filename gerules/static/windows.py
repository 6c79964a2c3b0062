"""Functions of windows and of resizing: what pooling, transposed convolution and Resize compute from their attributes.

A list that may not be set (`any`) is None where it is not.
"""

from __future__ import annotations

import math

import numpy as np

from gerules.static.host import Extents, host
from gerules.static.lists import axis_of
from gerules.static.values import LONGEST, Unknown, Value, listed, plain, show, whole, whole_list


@host("integral(v: any) -> int")
def integral(v: Value) -> Value:
    """The whole number that v is, or that its one entry is."""
    value = plain(v)
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return whole(value)


@host("per_axis(v: any, rank: int, other: int) -> ints")
def per_axis(v: Value, rank: int, other: int) -> Value:
    """v where it is given, else `rank` entries `other`."""
    return entries(v, rank, other)


def entries(v: Value, rank: int, other: int) -> tuple[int, ...]:
    if not 0 <= rank <= LONGEST:
        raise Unknown(f"{rank} is no rank")
    if v is None or listed(v) == ():
        return (other,) * rank
    given = whole_list(v)
    if len(given) != rank:
        raise Unknown(f"{len(given)} entries for {rank} axes")
    return given


def _spatial(extents: Extents) -> tuple[int, ...]:
    if len(extents) < 3:
        raise Unknown("there are no spatial axes")
    return tuple(whole(n, "an extent") for n in extents[2:])


def _places(
    extents: Extents, kernel: Value, strides: Value, pads: Value, dilations: Value
) -> list[tuple[int, int, int, int, int]]:
    """For each spatial axis: extent, reach of a window, stride, pads before and after."""
    sizes = _spatial(extents)
    rank = len(sizes)
    k, s, d = entries(kernel, rank, 0), entries(strides, rank, 1), entries(dilations, rank, 1)
    p = entries(pads, 2 * rank, 0)
    places = [(n, (k[i] - 1) * d[i] + 1, s[i], p[i], p[i + rank]) for i, n in enumerate(sizes)]
    if any(e < 1 or s < 1 or n + b + a < e for n, e, s, b, a in places):
        raise Unknown("no window fits")
    return places


@host("ceil_pads(extents: shape, kernel: ints, strides: any, pads: any, dilations: any) -> ints")
def ceil_pads(extents: Extents, kernel: Value, strides: Value, pads: Value, dilations: Value) -> Value:
    """The pads with which rounding down gives the windows of ceil_mode: those that start before the right padding.

    `extents` are those of the whole operand; no answer where an end would be padded by a whole kernel or more.
    """
    low, high = [], []
    for (n, e, s, b, a), k in zip(_places(extents, kernel, strides, pads, dilations), whole_list(kernel), strict=True):
        count = -(-(n + b + a - e) // s) + 1
        if (count - 1) * s >= n + b:
            count -= 1
        end = max((count - 1) * s + e - n - b, a if (n + b + a - e) // s + 1 == count else 0)
        if b >= k or end >= k:
            raise Unknown("a pad as large as the kernel")
        low.append(b)
        high.append(end)
    return (*low, *high)


@host("starts_late(extents: shape, kernel: ints, strides: any, pads: any, dilations: any) -> bool")
def starts_late(extents: Extents, kernel: Value, strides: Value, pads: Value, dilations: Value) -> Value:
    """Whether ceil_mode has a window that starts in the padding on the right."""
    return any(
        -(-(n + b + a - e) // s) * s >= n + b for n, e, s, b, a in _places(extents, kernel, strides, pads, dilations)
    )


@host("transposed_pads(extents: shape, kernel: shape, strides: any, dilations: any, extra: any, out: ints) -> ints")
def transposed_pads(
    extents: Extents, kernel: Extents, strides: Value, dilations: Value, extra: Value, out: tuple[int, ...]
) -> Value:
    """What ConvTranspose pads in total on each spatial axis to give the extents `out`; `extra` is output_padding."""
    sizes, k = _spatial(extents), _spatial(kernel)
    rank = len(sizes)
    s, d, o = entries(strides, rank, 1), entries(dilations, rank, 1), entries(extra, rank, 0)
    if len(out) != rank or len(k) != rank:
        raise Unknown("output_shape has an entry for each spatial axis")
    return tuple(s[i] * (n - 1) + o[i] + (k[i] - 1) * d[i] + 1 - out[i] for i, n in enumerate(sizes))


@host("chunks(extent: int, parts: int) -> ints")
def chunks(extent: int, parts: int) -> Value:
    """The extents of `parts` parts of which the last is the smaller one (Split-18)."""
    if parts < 1 or parts > LONGEST:
        raise Unknown(f"{parts} parts")
    each = -(-extent // parts)
    last = extent - each * (parts - 1)
    if last < 0:
        raise Unknown(f"{extent} elements have no {parts} parts of {each}")
    return (*(each,) * (parts - 1), last)


@host("wrapped(extent: int, low: int, high: int) -> ints")
def wrapped(extent: int, low: int, high: int) -> Value:
    """Where each element comes from when an axis is padded around: `low` before and `high` after; negative ones cut."""
    count = extent + low + high
    if extent < 1 or not 0 <= count <= LONGEST:
        raise Unknown(f"an axis of {extent} padded by {low} and {high}")
    return tuple(i % extent for i in range(-low, extent + high))


# ------------------------------------------------------------------------------------------------------------- Resize


@host("factors_on(rank: int, axes: ints, factors: floats) -> floats")
def factors_on(rank: int, axes: tuple[int, ...], factors: tuple[float, ...]) -> Value:
    """Factors over all axes: those given on `axes`, 1 elsewhere."""
    if len(axes) != len(factors) or not 0 <= rank <= LONGEST:
        raise Unknown(f"{len(factors)} factors on {len(axes)} axes of {rank}")
    every = [1.0] * rank
    for a, factor in zip(axes, factors, strict=True):
        every[axis_of(a, rank)] = float(factor)
    return tuple(every)


@host("aspect_factors(extents: shape, axes: any, sizes: ints, policy: str) -> floats")
def aspect_factors(extents: Extents, axes: Value, sizes: tuple[int, ...], policy: str) -> Value:
    """The one factor that keep_aspect_ratio_policy chooses for `sizes` on `axes` (all where None), 1 elsewhere.

    No answer where rounding to the nearest extent is not rounding down.
    """
    rank = len(extents)
    on = tuple(range(rank)) if axes is None else tuple(axis_of(a, rank) for a in whole_list(axes))
    known = [whole(extents[a], "an extent") for a in on]
    if len(on) != len(sizes) or not known or min(known) < 1:
        raise Unknown(f"{len(sizes)} sizes for {len(on)} axes")
    each = [size / n for size, n in zip(sizes, known, strict=True)]
    if policy not in ("not_larger", "not_smaller"):
        raise Unknown(f"{show(policy)} keeps no ratio")
    factor = float(np.float32(min(each) if policy == "not_larger" else max(each)))
    if factor <= 0:
        raise Unknown("nothing is left")
    if any(math.floor(np.float32(n) * np.float32(factor)) != math.floor(n * factor + 0.5) for n in known):
        raise Unknown("the extents are not rounded down")
    return factors_on(rank, on, (factor,) * len(on))


@host("exact_factors(extents: shape, sizes: ints) -> floats")
def exact_factors(extents: Extents, sizes: tuple[int, ...]) -> Value:
    """The quotients of sizes and extents, where each is a float32 exactly."""
    if len(extents) != len(sizes):
        raise Unknown(f"{len(sizes)} sizes for {len(extents)} extents")
    factors = []
    for n, size in zip((whole(n, "an extent") for n in extents), sizes, strict=True):
        factor = float(np.float32(size / n)) if n > 0 else 0.0
        if factor <= 0 or factor * n != size:
            raise Unknown(f"{size} / {n} is no float32")
        factors.append(factor)
    return tuple(factors)


@host("whole_extents(extents: shape, factors: floats) -> bool")
def whole_extents(extents: Extents, factors: tuple[float, ...]) -> Value:
    """Whether every extent times its factor is whole."""
    if len(extents) != len(factors):
        raise Unknown(f"{len(factors)} factors for {len(extents)} extents")
    return all(
        float(f).is_integer() or (float(f) * whole(n, "an extent")).is_integer()
        for n, f in zip(extents, factors, strict=True)
    )
