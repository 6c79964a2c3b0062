"""The values that elements, sizes and attributes are drawn from, the simplest first.

Elements are chosen by number from a table for each element type, so that a draw is a list of small numbers. A mood
says how far into the table a draw reaches: small whole numbers, moderate ones, or everything with what is special.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from gerules.graph.dtypes import numpy_dtype

WHOLE, MODERATE, SPECIAL, EDGE = 0, 1, 2, 3
"""Moods: whole numbers of at most 3; moderate numbers; zeros of both signs, NaN, infinities and extremes too."""

LARGE = 4
"""A mood of its own: moderate numbers, and where the type has such, finite ones beyond single precision."""

SIZES = (1, 2, 3, 0, 4, 5)
"""Extents, the simplest first."""

_WHOLE = (0.0, 1.0, 2.0, 3.0, -1.0, -2.0, -3.0, 0.5)
_MODERATE = (0.5, -0.5, 1.5, -0.0, 0.1, -0.1, 0.7, 2.3, -1.7, 3.3, 1 / 3, -2 / 3, 5.0, -6.25, 7.9, 10.0, 1.0009765625)
_TWICE = 1 + 2.0**-11 + 2.0**-40
"""Rounded to f32 it lies in the middle of two f16, so that rounding twice is not rounding once."""
_TEXTS = ("", "a", "b", "ab", "A", "1", "-2.5", " a b", "é")
_HUGE = 1 << 63


@cache
def table(dtype: str, mood: int) -> np.ndarray:
    """The values of an element type that a mood reaches."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype == "str":
        return np.array(_TEXTS, dtype=object)
    kind = numpy_dtype(dtype)
    if mood == LARGE:
        base = table(dtype, MODERATE)
        return np.concatenate([base, np.array([2.0**130, -(2.0**130)])]) if dtype == "f64" else base
    if dtype in ("c64", "c128"):
        base = table("f32" if dtype == "c64" else "f64", mood)
        return (base[:, None] + 1j * base[None, :4]).reshape(-1).astype(kind)
    if dtype[0] in "iu":
        return _integers(dtype, mood)
    values: list[float] = list(_WHOLE)
    if mood >= MODERATE:
        values += (*_MODERATE, _TWICE)
    with np.errstate(all="ignore"):
        if mood == EDGE:
            edges = (0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"))
            return np.concatenate([np.array(edges).astype(kind), _extremes(dtype)[:2]])
        if mood >= SPECIAL:
            values += [float("nan"), float("inf"), float("-inf"), -0.0]
            made = np.array(values).astype(kind)
            return np.concatenate([made, _extremes(dtype)])
        made = np.array(values).astype(kind)
    finite = np.isfinite(made.astype(np.float64))
    return made[finite]


def _extremes(dtype: str) -> np.ndarray:
    """The largest, the least normal and the least subnormal numbers, of both signs."""
    import ml_dtypes

    kind = numpy_dtype(dtype)
    info: Any = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
    smallest = getattr(info, "smallest_subnormal", info.tiny)
    found = [info.max, info.min, info.tiny, smallest]
    with np.errstate(all="ignore"):
        made = np.array([np.asarray(v).astype(kind) for v in found], dtype=kind)
        return np.concatenate([made, (-made[2:].astype(np.float64)).astype(kind)])


def _integers(dtype: str, mood: int) -> np.ndarray:
    bits = int(dtype[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype[0] == "i" else (0, (1 << bits) - 1)
    values = [0, 1, 2, 3, -1, -2, -3, 4]
    if mood >= MODERATE:
        values += [5, 6, 7, -5, 9, 17, 31, 33, 64, 100]
    if mood >= SPECIAL:
        values += [high, low, high - 1, low + 1, 1 << (bits // 2), 127, 128, 255, -128]
    kept = [v for v in values if low <= v <= high]
    wide = np.array(kept, dtype=np.uint64 if dtype == "u64" else np.int64)
    return wide.astype(numpy_dtype(dtype))
