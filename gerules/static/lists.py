"""Functions on lists of numbers: entries, pads, orders and sets of axes."""

from __future__ import annotations

from gerules.graph.constants import ConstantError, ConstantTable, decode, dtype_and_shape, is_inline
from gerules.graph.dims import Dim
from gerules.static.extents import count_from, undefined
from gerules.static.host import Extents, host
from gerules.static.values import LONGEST, Unknown, Value, listed, plain, show, whole

_NO_TABLE = ConstantTable()  # stays empty: only for constants that are spelled out


def axis_of(a: int, rank: int) -> int:
    if not -rank <= a < rank:
        raise Unknown(f"there is no axis {a} of {rank}")
    return a % rank


def distinct_axes(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    placed = tuple(axis_of(a, rank) for a in axes)
    if len(set(placed)) != len(placed):
        raise Unknown(f"an axis occurs twice in {show(axes)}")
    return placed


@host("put(s: shape, axes: ints, values: shape) -> shape")
def put(s: Extents, axes: tuple[int, ...], values: Extents) -> Value:
    if len(axes) != len(values):
        raise Unknown(f"{len(axes)} axes and {len(values)} values")
    entries = list(s)
    for a, value in zip(distinct_axes(axes, len(s)), values, strict=True):
        entries[a] = value
    return tuple(entries)


@host("replace(v: ints, i: int, w: int) -> ints", symbolic=True)
def replace(v: Extents, i: int | Dim, w: int | Dim) -> Value:
    return put(v, (whole(i, "an axis"),), (w,))


@host("replace_dim(s: shape, k: int, d: dim) -> shape")
def replace_dim(s: Extents, k: int, d: int | Dim) -> Value:
    return put(s, (k,), (d,))


@host("fill(v: int, n: int) -> ints", symbolic=True)
def fill(v: int | Dim, n: int | Dim) -> Value:
    count = whole(n, "a length")
    if not 0 <= count <= LONGEST:
        raise Unknown(f"{count} is no length of a list")
    return (v,) * count


@host("taken(extent: int, start: int, end: int, step: int) -> ints")
def taken(extent: int, start: int, end: int, step: int) -> Value:
    """The places that a Slice takes on an axis of `extent`."""
    if step == 0:
        raise Unknown("a step of 0")
    first, last, stride = slice(start, end, step).indices(extent)
    count = len(range(first, last, stride))
    if count > LONGEST:
        raise Unknown(f"{count} places")
    return tuple(range(first, last, stride))


@host("entries_of(t: any) -> any")
def entries_of(t: Value) -> Value:
    """The number or the list that an attribute of type tensor holds."""
    if not isinstance(t, str) or not is_inline(t):
        raise Unknown(f"{show(t)} is no tensor that is spelled out")
    array = decode(t, _NO_TABLE)
    if array.ndim > 1:
        raise Unknown(f"a tensor of {array.ndim} axes is no list")
    return plain(array)


@host("type_of(t: any) -> dtype")
def type_of(t: Value) -> Value:
    """The element type of an attribute of type tensor."""
    if not isinstance(t, str):
        raise Unknown(f"{show(t)} is no tensor")
    try:
        return dtype_and_shape(t)[0]
    except ConstantError as error:
        raise Unknown(str(error)) from error


@host("distinct(v: any) -> bool")
def distinct(v: Value) -> Value:
    """Whether no two entries are equal; of a list that is not set there are none. NaN equals nothing, and so holds."""
    entries = () if v is None else listed(plain(v))
    return len(set(entries)) == len(entries)


@host("tail(from: int, count: int) -> ints")
def tail(start: int, count: int) -> Value:
    """`count` numbers from `start` on."""
    return count_from(start, count)


@host("low(pads: ints) -> ints", symbolic=True)
def low(pads: Extents) -> Value:
    return pads[: half_of(pads)]


@host("high(pads: ints) -> ints", symbolic=True)
def high(pads: Extents) -> Value:
    return pads[half_of(pads) :]


def half_of(pads: tuple[object, ...]) -> int:
    if len(pads) % 2:
        raise Unknown(f"pads have a first and a second half, not {len(pads)} entries")
    return len(pads) // 2


@host("full_pads(rank: int, pads: ints, axes: ints) -> ints")
def full_pads(rank: int, pads: tuple[int, ...], axes: tuple[int, ...]) -> Value:
    half = half_of(pads)
    if half != len(axes):
        raise Unknown(f"{len(axes)} axes and pads for {half}")
    entries = [0 for _ in count_from(0, 2 * rank)]
    for i, a in enumerate(distinct_axes(axes, rank)):
        entries[a], entries[a + rank] = pads[i], pads[i + half]
    return tuple(entries)


def _padded(pads: tuple[int, ...]) -> list[int]:
    half = half_of(pads)
    return [a for a in range(half) if pads[a] or pads[a + half]]


@host("only_axis(pads: ints) -> int")
def only_axis(pads: tuple[int, ...]) -> Value:
    padded = _padded(pads)
    return padded[0] if len(padded) == 1 else undefined(f"{len(padded)} axes are padded, not one")


@host("first_of_several(pads: ints) -> int")
def first_of_several(pads: tuple[int, ...]) -> Value:
    padded = _padded(pads)
    return padded[0] if len(padded) > 1 else undefined(f"{len(padded)} axes are padded, not several")


@host("pads_on(pads: ints, axis: int) -> ints")
def pads_on(pads: tuple[int, ...], axis: int) -> Value:
    half = half_of(pads)
    kept = axis_of(axis, half)
    return tuple(p if i % half == kept else 0 for i, p in enumerate(pads))


@host("pads_off(pads: ints, axis: int) -> ints")
def pads_off(pads: tuple[int, ...], axis: int) -> Value:
    half = half_of(pads)
    cleared = axis_of(axis, half)
    return tuple(0 if i % half == cleared else p for i, p in enumerate(pads))


# ------------------------------------------------------------------------------------------------ sets of axes, orders


@host("minus(axes: ints, drop: ints) -> ints")
def minus(axes: tuple[int, ...], drop: tuple[int, ...]) -> Value:
    return tuple(a for a in axes if a not in drop)


@host("renumber(axes: ints, dropped: ints) -> ints")
def renumber(axes: tuple[int, ...], dropped: tuple[int, ...]) -> Value:
    if set(axes) & set(dropped) or any(a < 0 for a in (*axes, *dropped)):
        raise Unknown(f"{show(axes)} does not stay when {show(dropped)} goes")
    return tuple(a - sum(d < a for d in set(dropped)) for a in axes)


@host("spread(b: ints, a: ints) -> ints")
def spread(b: tuple[int, ...], a: tuple[int, ...]) -> Value:
    """Axes b of what is left when axes a are gone, as axes of the whole."""
    if any(axis < 0 for axis in (*a, *b)):
        raise Unknown("axes are counted from the front here")
    gone, placed = sorted(set(a)), []
    for axis in b:
        for g in gone:
            if g <= axis:
                axis += 1
        placed.append(axis)
    return tuple(placed)


@host("swapped(rank: int, i: int, j: int) -> ints")
def swapped(rank: int, i: int, j: int) -> Value:
    order = list(count_from(0, rank))
    i, j = axis_of(i, rank), axis_of(j, rank)
    order[i], order[j] = order[j], order[i]
    return tuple(order)


@host("axes(m: mask) -> ints")
def axes(m: frozenset[int]) -> Value:
    return tuple(sorted(m))
