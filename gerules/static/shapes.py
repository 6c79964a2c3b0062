"""Functions on shapes, symbolic extents included: what an operator makes of them, and questions about them."""

from __future__ import annotations

import itertools
import math

import numpy as np

from gerules.graph.dims import Dim, DimError, DimFacts
from gerules.static.extents import (
    accumulate,
    broadcast_two,
    calculate,
    computed,
    is_one,
    known_at_least,
    product,
    same_extent,
    undefined,
)
from gerules.static.host import Extents, host
from gerules.static.lists import axis_of, distinct_axes
from gerules.static.values import LONGEST, TensorView, Truth, Unknown, Value, conjunction, lift, show, whole


@host("ones(s: shape) -> mask", asks=True)
def ones(facts: DimFacts, s: Extents) -> Value:
    return frozenset(i for i, d in enumerate(s) if is_one(facts, d))


@host("stretched(small: shape, large: shape) -> mask", asks=True)
def stretched(facts: DimFacts, small: Extents, large: Extents) -> Value:
    if len(small) != len(large):
        raise Unknown("the ranks differ")
    axes = []
    for i, (a, b) in enumerate(zip(small, large, strict=True)):
        if is_one(facts, a):
            if not is_one(facts, b):
                axes.append(i)
        elif not same_extent(facts, a, b):
            raise Unknown(f"axis {i}: {show((a,))} and {show((b,))} are not known to be equal")
    return frozenset(axes)


@host("only_ones_move(extents: shape, perm: ints) -> bool", asks=True)
def only_ones_move(facts: DimFacts, extents: Extents, perm: tuple[int, ...]) -> Value:
    if sorted(perm) != list(range(len(extents))):
        raise Unknown(f"{show(perm)} is no order of {len(extents)} axes")
    one = [is_one(facts, d) for d in extents]
    if _ascending([p for p in perm if one[p] is not True]):
        return True
    return None if _ascending([p for p in perm if one[p] is False]) else False


def _ascending(numbers: list[int]) -> bool:
    return all(a < b for a, b in itertools.pairwise(numbers))


@host("one_shape(extents: shape*) -> bool", asks=True)
def one_shape(facts: DimFacts, *extents: Extents) -> Value:
    """Whether all of these extents are equal, rank and every axis."""
    if not extents:
        return True
    first, *others = extents
    if any(len(s) != len(first) for s in others):
        return False
    return conjunction(same_extent(facts, a, b) for s in others for a, b in zip(first, s, strict=True))


@host("same_but(k: int, extents: shape*) -> bool", asks=True)
def same_but(facts: DimFacts, k: int, *extents: Extents) -> Value:
    """All of these extents are equal on every axis but k."""
    if not extents:
        return True
    first = extents[0]
    if any(len(e) != len(first) for e in extents):
        return False
    skipped = axis_of(k, len(first))
    return conjunction(
        same_extent(facts, e[i], first[i]) for e in extents[1:] for i in range(len(first)) if i != skipped
    )


@host("keep(s: shape, m: mask, x: value) -> shape")
def keep(s: Extents, m: frozenset[int], x: TensorView) -> Value:
    """Extents s on the axes of the mask, those of x elsewhere."""
    shape = x.shape
    if len(shape) != len(s):
        raise Unknown("the ranks differ")
    return tuple(a if i in m else b for i, (a, b) in enumerate(zip(s, shape, strict=True)))


@host("mirrored_start(extents: shape, d: ints, s: ints, e: ints, p: ints) -> ints", symbolic=True)
def mirrored_start(extents: Extents, d: Extents, s: Extents, e: Extents, p: Extents) -> Value:
    """The start of the window on x that holds what the window (s, e, p) on x, reversed on axes d, holds."""
    return _mirrored(extents, d, s, e, p, 0)


@host("mirrored_end(extents: shape, d: ints, s: ints, e: ints, p: ints) -> ints", symbolic=True)
def mirrored_end(extents: Extents, d: Extents, s: Extents, e: Extents, p: Extents) -> Value:
    """The stop of the window whose start is `mirrored_start`."""
    return _mirrored(extents, d, s, e, p, 1)


def _mirrored(extents: Extents, d: Extents, s: Extents, e: Extents, p: Extents, which: int) -> Value:
    rank = len(extents)
    if not len(s) == len(e) == len(p) == rank:
        raise Unknown("one entry an axis is needed")
    turned = set(distinct_axes(tuple(whole(a, "an axis") for a in d), rank))
    return tuple(
        _mirrored_axis(extents[i], s[i], e[i], p[i])[which] if i in turned else (s[i], e[i])[which] for i in range(rank)
    )


def _mirrored_axis(n: Value, s: Value, e: Value, p: Value) -> tuple[Value, Value]:
    """On an axis of extent n the j-th of k entries is x[n - 1 - s - p j]; read upwards they start at j = k - 1."""
    if n is None or s is None or e is None or p is None:
        return None, None
    step = whole(p, "a step")
    if step < 1:
        raise Unknown("a window has positive steps")
    last = calculate("//", calculate("-", calculate("-", e, s), 1), step)  # k - 1 = ceil((e - s) / p) - 1
    stop = calculate("-", n, s)
    return calculate("-", calculate("-", stop, 1), calculate("*", last, step)), stop


@host("resolve(extents: shape, target: shape, allowzero: int) -> shape", asks=True)
def resolve(facts: DimFacts, extents: Extents, target: Extents, allowzero: int) -> Value:
    """The shape that Reshape gives: -1 is the quotient of the element counts, and unless allowzero is 1 a 0 copies the
    extent in its place. Unknown while a symbolic entry may be -1, or 0 where that would copy another extent."""
    entries: list[int | Dim | None] = []
    rest: int | None = None
    copied: set[int] = set()
    for i, entry in enumerate(target):
        here = extents[i] if i < len(extents) else None
        if entry is None:
            raise Unknown(f"entry {i} of the target is not known")
        if entry == 0 and not allowzero:
            if i >= len(extents):
                raise Unknown(f"entry {i} copies an extent that there is not")
            entries.append(here)
            copied.add(i)
        elif entry == -1:
            if rest is not None:
                raise Unknown("two entries are -1")
            rest = i
            entries.append(1)
        else:
            # A 0 past the last axis of the operand is refused by Reshape itself.
            certain = 0 if allowzero or i >= len(extents) else 1
            if not _stands(facts, entry, here, certain):
                raise Unknown(f"{show(entry)} may be {'-1' if allowzero else '0'}")
            entries.append(entry)
    if rest is not None:
        above = tuple(d for i, d in enumerate(extents) if i not in copied)
        entries[rest] = _quotient(above, tuple(e for i, e in enumerate(entries) if i != rest and i not in copied))
    return tuple(entries)


def _stands(facts: DimFacts, entry: int | Dim, here: int | Dim | None, least: int) -> bool:
    """Whether an entry of a target is certainly at least `least`, or the extent in its place or a factor of it (so that
    a 0 copies a 0)."""
    return known_at_least(facts, entry, least) or bool(same_extent(facts, entry, here)) or _divides(facts, entry, here)


def _divides(facts: DimFacts, entry: int | Dim, here: int | Dim | None) -> bool:
    """Whether an extent is a multiple of an entry, by their normal forms."""
    if here is None or isinstance(here, int) or not known_at_least(facts, entry, 0) or entry == 0:
        return False
    try:
        quotient = lift(here).floordiv(lift(entry))
    except DimError:
        return False
    return quotient * lift(entry) == here


@host("literal_target(target: shape, extents: shape) -> bool", asks=True)
def literal_target(facts: DimFacts, target: Extents, extents: Extents) -> Value:
    """As a target of Reshape without allowzero `target` means itself."""
    truths: list[Truth] = []
    for i, entry in enumerate(target):
        here = extents[i] if i < len(extents) else None
        if entry is None:
            truths.append(None)
        elif _stands(facts, entry, here, 1):
            truths.append(True)
        else:
            truths.append(
                False if known_at_least(facts, 0, entry) and same_extent(facts, entry, here) is False else None
            )
    return conjunction(truths)


def _quotient(extents: Extents, others: Extents) -> int | Dim | None:
    """Element count over the product of the other entries; equal factors go first, so that neither side is needed
    whole."""
    above, below = list(extents), []
    for d in others:
        if d is not None and d in above:
            above.remove(d)
        else:
            below.append(d)
    if None in above or None in below:
        return None
    numerator, denominator = product(tuple(above)), product(tuple(below))
    assert isinstance(numerator, (int, Dim)) and isinstance(denominator, (int, Dim))
    if denominator == 0:
        raise Unknown("-1 beside an extent of 0 has no value")
    return computed(lambda: lift(numerator).floordiv(lift(denominator)))


@host("reduced(s: shape, axes: ints, keepdims: int) -> shape")
def reduced(s: Extents, axes: tuple[int, ...], keepdims: int) -> Value:
    """The shape that a reduction over these axes leaves; over all if there are none."""
    gone = set(distinct_axes(axes, len(s))) if axes else set(range(len(s)))
    if keepdims:
        return tuple(1 if i in gone else d for i, d in enumerate(s))
    return tuple(d for i, d in enumerate(s) if i not in gone)


@host("cut(s: shape, start: int, stop: int, step: int) -> shape")
def cut(s: Extents, start: int, stop: int, step: int) -> Value:
    """`s[start:stop:step]` as Python takes it."""
    return s[start:stop:step] if step else undefined("a step of 0")


@host("fill_dim(d: dim, n: int) -> shape")
def fill_dim(d: int | Dim, n: int) -> Value:
    """n extents d."""
    return (d,) * n if 0 <= n <= LONGEST else undefined(f"{n} is no length of a list")


@host("scaled(s: shape, factors: floats) -> shape")
def scaled(s: Extents, factors: tuple[float, ...]) -> Value:
    """floor(extent * factor), calculated in float32 as ONNX's shape inference does; a symbol needs a whole factor."""
    if len(s) != len(factors):
        raise Unknown(f"{len(factors)} factors for {len(s)} extents")
    return tuple(_scaled(d, factor) for d, factor in zip(s, factors, strict=True))


def _scaled(d: int | Dim | None, factor: float) -> int | Dim | None:
    if d is None or not math.isfinite(factor):
        return None
    if isinstance(d, int):
        with np.errstate(over="ignore"):
            scaled_extent = np.float32(d) * np.float32(factor)
        return math.floor(scaled_extent) if math.isfinite(scaled_extent) else None
    return computed(lambda: d * int(factor)) if float(factor).is_integer() else None


@host("joined(parts: shape*) -> shape")
def joined(*parts: Extents) -> Value:
    return tuple(entry for part in parts for entry in part)


@host("chosen(a: shape, b: shape, then: shape, other: shape) -> shape", asks=True)
def chosen(facts: DimFacts, a: Extents, b: Extents, then: Extents, other: Extents) -> Value:
    """Entry by entry: that of `then` where a and b are known equal, of `other` where they are known different, else
    not known. Lists of one entry stretch."""
    lists = (a, b, then, other)
    lengths = {len(x) for x in lists if len(x) != 1}
    if len(lengths) > 1:
        raise Unknown("the lists have different lengths")
    count = max(lengths, default=1)
    left, right, first, second = (x * count if len(x) == 1 else x for x in lists)
    truths = [same_extent(facts, x, y) for x, y in zip(left, right, strict=True)]
    return tuple(None if t is None else x if t else y for t, x, y in zip(truths, first, second, strict=True))


@host("einsum_flops(equation: str, extents: shape*) -> dim", asks=True)
def einsum_flops(facts: DimFacts, equation: str, *extents: Extents) -> Value:
    """Twice the product of the extents of all letters; an ellipsis counts as the product of what it stands for."""
    terms = equation.replace(" ", "").split("->")[0].split(",")
    if len(terms) != len(extents):
        raise Unknown(f"{equation} has {len(terms)} operands, not {len(extents)}")
    letters: dict[str, Value] = {}
    stretched: Value = ()
    for term, shape in zip(terms, extents, strict=True):
        head, dots, back = term.partition("...")
        middle = len(shape) - len(head) - len(back)
        if middle < 0 or (middle and not dots):
            raise Unknown(f"{term} does not name the {len(shape)} axes of its operand")
        if dots:
            stretched = broadcast_two(facts, stretched, shape[len(head) : len(head) + middle])
        for letter, d in zip(head + back, shape[: len(head)] + shape[len(head) + middle :], strict=True):
            if d is None:
                raise Unknown(f"the extent of {letter} is not known")
            letters[letter] = broadcast_two(facts, letters.get(letter, 1), d)
    assert isinstance(stretched, tuple)
    return accumulate("*", (*letters.values(), *stretched), 2)
