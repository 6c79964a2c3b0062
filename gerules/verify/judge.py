"""Whether both sides of a rule came to the same: bits, or within the tolerance of the element type."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gerules.simulate.compare import compare
from gerules.simulate.values import describe


@dataclass(frozen=True, slots=True)
class Fault:
    """Where two values first differ, and how."""

    index: tuple[int, ...] | None
    reason: str


def differ(left: object, right: object, bitwise: bool) -> Fault | None:
    """None where the two values are the same. NaN equals NaN whatever its bits; zeros of different sign differ in bits
    and agree within tolerance."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        if left.dtype != right.dtype or left.shape != right.shape:
            return Fault(None, f"{describe(left)} and {describe(right)}")
        if left.size == 0 or (left.dtype.kind != "O" and left.tobytes() == right.tobytes()):
            return None
        if bitwise:
            return _bits(left, right)
    elif isinstance(left, list) and isinstance(right, list):
        if len(left) != len(right):
            return Fault(None, f"sequences of {len(left)} and {len(right)}")
        for position, (a, b) in enumerate(zip(left, right, strict=True)):
            fault = differ(a, b, bitwise)
            if fault is not None:
                return Fault((position, *(fault.index or ())), fault.reason)
        return None
    found = compare(right, left)
    return None if found.equal else Fault(found.index, found.reason)


def _bits(left: np.ndarray, right: np.ndarray) -> Fault | None:
    if left.dtype.kind in "Obiu":
        different = np.asarray(left != right, dtype=np.bool_)
    elif left.dtype.kind == "c":
        parts = left.real.dtype
        a, b = (np.ascontiguousarray(v).reshape(-1).view(parts).reshape(*v.shape, 2) for v in (left, right))
        different = np.asarray(_float_bits(a, b).any(axis=-1))
    else:
        different = _float_bits(left, right)
    if not different.any():
        return None
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(different)), different.shape))
    return Fault(index, f"{left[index]!s} and {right[index]!s}")


def _float_bits(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    whole = np.dtype(f"u{left.dtype.itemsize}")
    # A copy in order, since only that can be read as whole numbers; of a scalar it stays a scalar.
    different = np.asarray(left.copy(order="C").view(whole) != right.copy(order="C").view(whole))
    with np.errstate(all="ignore"):
        return np.asarray(different & ~((left != left) & (right != right)), dtype=np.bool_)
