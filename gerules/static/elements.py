"""Element types as sets of values: which is contained in which, and their limits.

Sources: IEEE 754 (f16, f32, f64), the bfloat16 and OCP 8-bit and microscaling formats (f8*, f4e2m1, f8e8m0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Floating:
    """`precision`: bits of the significand with the hidden one; `tiny`: exponent of the least positive value;
    `top`: largest finite value; what else there is: infinities, NaN, minus zero, signs, zero itself."""

    precision: int
    tiny: int
    top: float
    infinite: bool = True
    nan: bool = True
    minus_zero: bool = True
    signed: bool = True
    zero: bool = True


@dataclass(frozen=True, slots=True)
class Whole:
    low: int
    high: int


def _signed(bits: int) -> Whole:
    return Whole(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _unsigned(bits: int) -> Whole:
    return Whole(0, 2**bits - 1)


ELEMENTS: Mapping[str, Floating | Whole | None] = {
    "f64": Floating(53, -1074, (2 - 2.0**-52) * 2.0**1023),
    "f32": Floating(24, -149, (2 - 2.0**-23) * 2.0**127),
    "f16": Floating(11, -24, 65504.0),
    "bf16": Floating(8, -133, (2 - 2.0**-7) * 2.0**127),
    "f8e4m3fn": Floating(4, -9, 448.0, infinite=False),
    "f8e4m3fnuz": Floating(4, -10, 240.0, infinite=False, minus_zero=False),
    "f8e5m2": Floating(3, -16, 57344.0),
    "f8e5m2fnuz": Floating(3, -17, 57344.0, infinite=False, minus_zero=False),
    "f8e8m0": Floating(1, -127, 2.0**127, infinite=False, minus_zero=False, signed=False, zero=False),
    "f6e2m3": Floating(4, -3, 7.5, infinite=False, nan=False),
    "f6e3m2": Floating(3, -4, 28.0, infinite=False, nan=False),
    "f4e2m1": Floating(2, -1, 6.0, infinite=False, nan=False),
    **{f"i{bits}": _signed(bits) for bits in (2, 4, 8, 16, 32, 64)},
    **{f"u{bits}": _unsigned(bits) for bits in (2, 4, 8, 16, 32, 64)},
    "bool": Whole(0, 1),
    "c64": None,
    "c128": None,
    "str": None,
}
"""Every element type by name; None where it is neither whole nor floating."""

_PARTS = {"c64": "f32", "c128": "f64"}


def lossless(source: str, target: str) -> bool:
    """Whether every value of `source` is a value of `target`, so that a cast there and back is the identity.

    A bool is 0 or 1 in every numeric type; no number is a bool, and nothing but a string is a string.
    """
    if source == target:
        return True
    if target in _PARTS:
        return lossless(_PARTS.get(source, source), _PARTS[target])
    a, b = ELEMENTS[source], ELEMENTS[target]
    if a is None or b is None or target == "bool":
        return False
    if isinstance(a, Whole):
        if isinstance(b, Whole):
            return b.low <= a.low and a.high <= b.high
        if not b.zero or (a.low < 0 and not b.signed):
            return False
        return _exact(a.high, b) and _exact(-a.low, b)
    if isinstance(b, Whole):
        return False
    return (
        a.precision <= b.precision
        and a.tiny >= b.tiny
        and a.top <= b.top
        and (b.infinite or not a.infinite)
        and (b.nan or not a.nan)
        and (b.minus_zero or not a.minus_zero)
        and (b.signed or not a.signed)
        and (b.zero or not a.zero)
    )


def _exact(largest: int, b: Floating) -> bool:
    """Whether 0 up to `largest` are all values of b: 2^p - 1 needs p bits, and 2^p one."""
    return largest <= 2**b.precision and largest <= b.top


def limits(name: str) -> tuple[float | int, float | int] | None:
    """The least and the largest finite value; ints for whole types; None where there are none."""
    kind = ELEMENTS[name]
    if kind is None or name == "bool":
        return None
    if isinstance(kind, Whole):
        return kind.low, kind.high
    return (-kind.top if kind.signed else 2.0**kind.tiny), kind.top
