"""Cost vectors as single integers, so that comparing and adding them is exact and independent of order.

Each component becomes an integer and gets its own bits, component 0 the highest. All but component 0 are scaled
exactly (floats are dyadic), and get as many bits as their largest sum can need, so nothing carries over. Component 0
is scaled exactly too where that fits 64 bits, and rounded to the bits that are left where it does not: with 15 bits
for a count of nodes that is one part in 10^12 of the cost of the whole. Numbers above `infinity` mean "worse than
what is known" and may be cut off there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

INT64_BITS = 57  # of a finite number: sums of eight infinities still fit 63
MINIMUM_BITS = 34  # of component 0: below that Python's own integers are used


@dataclass(frozen=True, slots=True)
class Packing:
    """`scales[i]` is the power of two that component i is multiplied by, `shifts[i]` the number of its lowest bit."""

    scales: tuple[int, ...]
    shifts: tuple[int, ...]
    infinity: int
    int64: bool

    def pack(self, vector: Sequence[float]) -> int:
        total = 0
        for value, scale, shift in zip(vector, self.scales, self.shifts, strict=True):
            total += scaled(value, scale) << shift
        return total

    def pack_first(self, value: float) -> int:
        """A cost of component 0 alone."""
        return scaled(value, self.scales[0]) << self.shifts[0]

    def split(self, packed: int) -> tuple[int, ...]:
        """The components as integers, in their scales."""
        parts = []
        for shift in self.shifts:
            parts.append(packed >> shift)
            packed -= parts[-1] << shift
        return tuple(parts)

    def unpack(self, packed: int) -> tuple[float, ...]:
        return tuple(
            part / (1 << scale) if scale >= 0 else float(part << -scale)
            for part, scale in zip(self.split(packed), self.scales, strict=True)
        )


def scaled(value: float, scale: int) -> int:
    """value x 2^scale, rounded to the nearest integer; exact arithmetic, so that large values survive."""
    numerator, denominator = value.as_integer_ratio() if isinstance(value, float) else (int(value), 1)
    if scale >= 0:
        numerator <<= scale
    else:
        denominator <<= -scale
    return (2 * numerator + denominator) // (2 * denominator)


def make_packing(columns: Sequence[Iterable[float]], sums: Sequence[float], upper: float) -> Packing:
    """A packing for the values in `columns` (one for each component), where a useful total of component 0 is at most
    `upper` and no total of component i is above `sums[i]`."""
    exact = [max((_places(float(v)) for v in column), default=0) for column in columns]
    low = [(int(total) + 2).bit_length() + scale for total, scale in zip(sums[1:], exact[1:], strict=True)]
    below = sum(low)
    wanted = (int(upper) + 2).bit_length() + exact[0]
    if upper < 1:  # a total below one second leaves leading zeros to use
        wanted = max(1, scaled(upper, exact[0]).bit_length() + 1)
    first = exact[0]
    int64 = True
    if below + wanted > INT64_BITS:
        if below + MINIMUM_BITS > INT64_BITS:
            int64 = False
        else:
            first -= below + wanted - INT64_BITS
    shifts = [below]
    for bits in low:
        shifts.append(shifts[-1] - bits)
    infinity = (1 << (INT64_BITS + 1)) if int64 else 1 << (below + wanted + 8)
    return Packing((first, *exact[1:]), tuple(shifts), infinity, int64)


def _places(value: float) -> int:
    """How many binary places a value has after the point."""
    return value.as_integer_ratio()[1].bit_length() - 1
