"""Extents: arithmetic of the language that is no operator, bounds, least and most, and the truths that functions of
shapes ask for."""

from __future__ import annotations

from collections.abc import Callable

from gerules.graph import dims
from gerules.graph.dims import Dim, DimFacts
from gerules.static.host import Extents, host
from gerules.static.values import LONGEST, Truth, Unknown, Value, arithmetic, elementwise, equal_entries, extent, lift


@host("range(a: int, b: int*) -> ints", builtin=True)
def _range(a: int, *more: int) -> Value:
    if len(more) > 1:
        raise Unknown("range takes one or two numbers")
    return count_from(0, a) if not more else count_from(a, more[0] - a)


def count_from(start: int, count: int) -> tuple[int, ...]:
    """start, start + 1, ...; none where count is negative. Unknown beyond the longest list."""
    if count > LONGEST:
        raise Unknown(f"a list of {count} entries is too long")
    return tuple(range(start, start + count))


@host("product(s: shape) -> dim", builtin=True)
def product(s: Extents) -> Value:
    return accumulate("*", s, 1)


@host("sum(xs: any*) -> dim", builtin=True)
def _sum(*xs: Value) -> Value:
    terms = xs[0] if len(xs) == 1 and isinstance(xs[0], tuple) else xs
    return accumulate("+", terms, 0)


def accumulate(op: str, entries: tuple[Value, ...], start: int) -> Value:
    if op == "*" and 0 in entries:
        return 0
    total: Value = start
    for entry in entries:
        if entry is None:
            raise Unknown("an entry is not known")
        total = calculate(op, total, entry)
    return total


_ARITHMETIC = {op: arithmetic(op, DimFacts()) for op in ("+", "-", "*", "//")}


def calculate(op: str, a: Value, b: Value) -> Value:
    return elementwise(_ARITHMETIC[op], a, b)


@host("broadcast(xs: any*) -> shape", asks=True, builtin=True)
def broadcast(facts: DimFacts, *xs: Value) -> Value:
    """Shapes of NumPy's broadcasting, or the extent where all are extents. An extent of 2 or more wins over a symbol;
    two numbers that do not go together have no broadcast."""
    if not xs:
        return ()
    result = xs[0]
    for x in xs[1:]:
        result = broadcast_two(facts, result, x)
    return result


def broadcast_two(facts: DimFacts, a: Value, b: Value) -> Value:
    if isinstance(a, tuple) and isinstance(b, tuple):
        rank = max(len(a), len(b))
        left: Extents = (1,) * (rank - len(a)) + a
        right: Extents = (1,) * (rank - len(b)) + b
        return tuple(broadcast_extents(facts, x, y) for x, y in zip(left, right, strict=True))
    if isinstance(a, tuple) or isinstance(b, tuple):
        raise Unknown("a shape and an extent do not broadcast")
    answer = broadcast_extents(facts, extent(a), extent(b))
    if answer is None:
        raise Unknown("the broadcast is not known")
    return answer


def broadcast_extents(facts: DimFacts, a: int | Dim | None, b: int | Dim | None) -> int | Dim | None:
    """The common extent; None where it is not known. Unknown where the two cannot broadcast."""
    if a is None or b is None:
        known = b if a is None else a
        return known if isinstance(known, int) and known != 1 else None
    if isinstance(a, int) and isinstance(b, int):
        if a != b and 1 not in (a, b):
            raise Unknown(f"{a} and {b} do not broadcast")
        return b if a == 1 else a
    if a == 1 or b == 1:
        return b if a == 1 else a
    left, right = lift(a), lift(b)
    if left == right or facts.equal(left, right) or facts.at_least(left, Dim.of(2)):
        return a
    if facts.at_least(right, Dim.of(2)):
        return b
    return computed(lambda: dims.broadcast(left, right))


def computed(calculation: Callable[[], Dim]) -> int | Dim:
    """A dimension, an int where it is a number; Unknown where there is none or it is too large to keep."""
    try:
        d = calculation()
    except dims.DimError as error:
        raise Unknown(str(error)) from None
    return d if d.value is None else d.value


@host("lower(d: dim) -> int", asks=True, builtin=True)
def lower(facts: DimFacts, d: int | Dim) -> Value:
    return d if isinstance(d, int) else _bound(facts.lower(d), d)


@host("upper(d: dim) -> int", asks=True, builtin=True)
def upper(facts: DimFacts, d: int | Dim) -> Value:
    return d if isinstance(d, int) else _bound(facts.upper(d), d)


def _bound(bound: int | None, d: Dim) -> int:
    return bound if bound is not None else undefined(f"{d} has no known bound")


def undefined(why: str) -> int:
    raise Unknown(why)


def is_one(facts: DimFacts, d: int | Dim | None) -> Truth:
    if d is None:
        return None
    if isinstance(d, int):
        return d == 1
    if facts.equal(d, Dim.of(1)):
        return True
    return False if facts.at_least(d, Dim.of(2)) or facts.equal(d, Dim.of(1)) is False else None


def same_extent(facts: DimFacts, a: int | Dim | None, b: int | Dim | None) -> Truth:
    return equal_entries(a, b, facts)


@host("least(a: dim, b: dim) -> dim", asks=True)
def least(facts: DimFacts, a: int | Dim, b: int | Dim) -> Value:
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    left, right = lift(a), lift(b)
    if left == right or facts.at_least(right, left):
        return a
    return b if facts.at_least(left, right) else computed(lambda: left.minimum(right))


@host("most(a: dim, b: dim) -> dim", asks=True)
def most(facts: DimFacts, a: int | Dim, b: int | Dim) -> Value:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    left, right = lift(a), lift(b)
    if left == right or facts.at_least(left, right):
        return a
    return b if facts.at_least(right, left) else computed(lambda: left.maximum(right))


_BEYOND = 2**31 - 1
"""No extent is that large."""


@host("place(index: dim, n: dim) -> dim", asks=True)
def place(facts: DimFacts, index: int | Dim, n: int | Dim) -> Value:
    """Where an index of a Slice with a positive step lies on an axis of extent n: from the end if negative, then
    clamped to 0..n."""
    if isinstance(index, int) and abs(index) >= _BEYOND and not isinstance(n, int):
        return n if index > 0 else 0  # what exporters write for "to the end"
    if known_at_least(facts, index, 0):
        return least(facts, index, n)
    if known_at_least(facts, -1, index):
        return most(facts, extent(calculate("+", index, n)), 0)
    raise Unknown(f"{index} is not known to count from the front or from the end")


def known_at_least(facts: DimFacts, a: int | Dim, b: int | Dim) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return a >= b
    return bool(facts.at_least(lift(a), lift(b)))
