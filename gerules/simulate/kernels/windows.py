"""Sliding windows over spatial axes: sizes, paddings and shifted views, shared by convolution and pooling."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from gerules.simulate.kernel import NodeSpec
from gerules.simulate.values import Array


@dataclass(frozen=True, slots=True)
class Geometry:
    """Where windows lie: per spatial axis the kernel, strides, dilations, what is padded before and after the input,
    and how many windows there are. The last window may reach beyond the padding (ceil_mode)."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    out: tuple[int, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """How far a window reaches, per axis."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))


def geometry(spec: NodeSpec, sizes: Sequence[int], kernel: Sequence[int]) -> Geometry:
    """The geometry for an input of spatial `sizes` from the attributes strides, dilations, pads, auto_pad, ceil_mode.

    Raises ValueError where attributes do not fit the rank or no window fits the input.
    """
    rank = len(sizes)
    strides = _per_axis(spec.get("strides"), rank, 1, "strides")
    dilations = _per_axis(spec.get("dilations"), rank, 1, "dilations")
    auto = spec.get("auto_pad", "NOTSET")
    if len(kernel) != rank:
        raise ValueError(f"a kernel of {len(kernel)} axes over {rank} spatial axes")
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        out = [-(-n // s) for n, s in zip(sizes, strides, strict=True)]
        total = [max((o - 1) * s + e - n, 0) for o, s, e, n in zip(out, strides, extents, sizes, strict=True)]
        small, large = [t // 2 for t in total], [t - t // 2 for t in total]
        before, after = (small, large) if auto == "SAME_UPPER" else (large, small)
    else:
        pads = spec.get("pads") if auto == "NOTSET" else None
        before = list(_per_axis(pads[:rank] if pads else None, rank, 0, "pads"))
        after = list(_per_axis(pads[rank:] if pads else None, rank, 0, "pads"))
        ceil = bool(spec.get("ceil_mode", 0))
        out = []
        for n, b, a, e, s in zip(sizes, before, after, extents, strides, strict=True):
            room = n + b + a - e
            count = (-(-room // s) if ceil else room // s) + 1
            if ceil and (count - 1) * s >= n + b:  # the last window must start in the input or the padding before it
                count -= 1
            out.append(count)
    if min(out, default=1) < 0:
        raise ValueError(f"the kernel {list(kernel)} does not fit the input {list(sizes)}")
    return Geometry(tuple(kernel), strides, dilations, tuple(before), tuple(after), tuple(out))


def _per_axis(values: Sequence[int] | None, rank: int, default: int, name: str) -> tuple[int, ...]:
    if not values:
        return (default,) * rank
    if len(values) != rank:
        raise ValueError(f"{name} has {len(values)} entries for {rank} spatial axes")
    return tuple(values)


def pad_for(x: Array, place: Geometry, value: float | int) -> Array:
    """`x` (N, C, spatial...) padded so far that every window lies inside."""
    widths = [(0, 0), (0, 0)]
    for n, b, a, e, s, o in zip(
        x.shape[2:], place.before, place.after, place.extents, place.strides, place.out, strict=True
    ):
        reach = (o - 1) * s + e if o else 0
        widths.append((b, max(a, reach - n - b, 0)))
    if not any(b or a for b, a in widths):
        return x
    shape = [n + b + a for n, (b, a) in zip(x.shape, widths, strict=True)]
    padded = np.full(shape, value, dtype=x.dtype) if value != 0 else np.zeros(shape, dtype=x.dtype)
    padded[tuple(slice(b, b + n) for n, (b, _) in zip(x.shape, widths, strict=True))] = x
    return padded


def shifted(padded: Array, place: Geometry) -> Iterator[Array]:
    """For each kernel position in index order the view (N, C, out...) of the elements under it."""
    for offsets in product(*map(range, place.kernel)):
        index: list[slice] = [slice(None), slice(None)]
        for offset, d, s, o in zip(offsets, place.dilations, place.strides, place.out, strict=True):
            start = offset * d
            index.append(slice(start, start + (o - 1) * s + 1 if o else start, s))
        yield padded[tuple(index)]


def columns(padded: Array, place: Geometry) -> Array:
    """All windows as an array (N, C, kernel positions, windows)."""
    batch, channels = padded.shape[:2]
    positions = math.prod(place.kernel)
    result = np.empty((batch, channels, positions, *place.out), dtype=padded.dtype)
    for position, view in enumerate(shifted(padded, place)):
        result[:, :, position] = view
    return result.reshape(batch, channels, positions, math.prod(place.out))
