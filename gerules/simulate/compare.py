"""Whether two values agree, and where they first do not: the tolerance of validation, which is the only one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gerules.simulate.values import FLOATS, UNKNOWN, Array, Value, describe, element_name, is_integer

# Element type -> (atol, rtol): |a - b| <= atol + rtol |b|, b the original. Types that are not here must be equal.
TOLERANCES: Final[dict[str, tuple[float, float]]] = {
    "f64": (1e-10, 1e-9),
    "f32": (1e-5, 1e-4),
    "f16": (1e-3, 1e-2),
    "bf16": (1e-2, 3e-2),
    "c128": (1e-10, 1e-9),  # of the components' type
    "c64": (1e-5, 1e-4),
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """`equal` within tolerance; the largest errors over finite numbers (0.0 where none are compared); where it is not
    equal, the first index that differs (None where whole values do) and why."""

    equal: bool
    max_abs: float = 0.0
    max_rel: float = 0.0
    index: tuple[int, ...] | None = None
    reason: str = ""


def compare(value: Value, original: Value) -> Comparison:
    """Compares a value with the original's: shapes and element types equal, NaN where NaN, infinities equal, numbers
    within `TOLERANCES`, sequences and maps element by element (the index then starts with the position)."""
    if value is UNKNOWN or original is UNKNOWN:
        return Comparison(True)
    if isinstance(original, np.ndarray) and isinstance(value, np.ndarray):
        return _arrays(value, original)
    if isinstance(original, list) and isinstance(value, list):
        return _sequences(value, original)
    if isinstance(original, dict) and isinstance(value, dict):
        return _maps(value, original)
    if value is None and original is None:
        return Comparison(True)
    return Comparison(False, reason=f"{describe(value)} instead of {describe(original)}")


def _sequences(value: list[Value], original: list[Value]) -> Comparison:
    if len(value) != len(original):
        return Comparison(False, reason=f"a sequence of {len(value)} instead of {len(original)}")
    largest_abs = largest_rel = 0.0
    for position, (a, b) in enumerate(zip(value, original, strict=True)):
        found = compare(a, b)
        largest_abs, largest_rel = max(largest_abs, found.max_abs), max(largest_rel, found.max_rel)
        if not found.equal:
            return Comparison(False, largest_abs, largest_rel, (position, *(found.index or ())), found.reason)
    return Comparison(True, largest_abs, largest_rel)


def _maps(value: dict[Any, Value], original: dict[Any, Value]) -> Comparison:
    if list(value) != list(original):
        return Comparison(False, reason="the keys of the maps differ")
    keys = list(original)
    return _sequences([np.asarray(value[k]) for k in keys], [np.asarray(original[k]) for k in keys])


def _arrays(value: Array, original: Array) -> Comparison:
    if value.dtype != original.dtype:
        return Comparison(False, reason=f"{describe(value)} instead of {describe(original)}")
    if value.shape != original.shape:
        return Comparison(False, reason=f"shape {list(value.shape)} instead of {list(original.shape)}")
    if value.size == 0:
        return Comparison(True)
    tolerance = TOLERANCES.get(element_name(original.dtype))
    if tolerance is None:
        return _exact(value, original)
    return _within(value, original, *tolerance)


def _exact(value: Array, original: Array) -> Comparison:
    a, b = value, original
    if original.dtype in FLOATS:  # eight bits and less: exact, NaN equal to NaN
        a, b = value.astype(np.float64), original.astype(np.float64)
        different = (a != b) & ~(np.isnan(a) & np.isnan(b))
    else:
        different = np.asarray(a != b, dtype=np.bool_)
    if not different.any():
        return Comparison(True)
    index = _first(different)
    error = 0.0
    if is_integer(original.dtype):
        error = max(abs(int(value[index]) - int(original[index])), 0)
    return Comparison(False, float(error), 0.0, index, f"{value[index]!s} instead of {original[index]!s}")


def _within(value: Array, original: Array, atol: float, rtol: float) -> Comparison:
    wide = np.complex128 if original.dtype.kind == "c" else np.float64
    a, b = value.astype(wide, copy=False), original.astype(wide, copy=False)
    with np.errstate(all="ignore"):
        error = np.abs(a - b)
        size = np.abs(b)
        finite = np.isfinite(a) & np.isfinite(b)
        # Where one is not finite only equality counts, and NaN equals NaN.
        special = ~finite & (a != b) & ~(np.isnan(a) & np.isnan(b))
        different = (finite & ~(error <= atol + rtol * size)) | special
        counted = np.where(finite, error, 0.0)
        max_abs = float(counted.max())
        relative = np.where(finite & (size > 0), counted / np.where(size > 0, size, 1.0), 0.0)
        max_rel = float(relative.max())
    if not different.any():
        return Comparison(True, max_abs, max_rel)
    index = _first(different)
    return Comparison(False, max_abs, max_rel, index, f"{value[index]!s} instead of {original[index]!s}")


def _first(different: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(different)), different.shape))
