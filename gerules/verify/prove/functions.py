"""The host functions of rules in symbols.

One that makes structure from sizes (`stretched`, `ones`) is split: every answer it might give is tried, with what the
answer says of the sizes as a premise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, combinations

import z3

from gerules.graph.dims import DimFacts
from gerules.static import elements
from gerules.static.functions import shipped_functions
from gerules.static.values import Unknown
from gerules.verify.prove import arith
from gerules.verify.prove.arith import Bool, Int
from gerules.verify.prove.world import ELEMENT, OF, Beyond, Element, Kind, Skip, Tensor, World

Value = object
Entries = tuple[Int, ...]


def floor_div(world: World, a: Int, b: Int) -> Int:
    if isinstance(b, int) and b == 0:
        raise Skip
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if isinstance(b, int) and b < 0:
        raise Beyond("a quotient by a negative number")
    world.demand(arith.le(1, b))
    return world.quotient(a, b)


def floor_mod(world: World, a: Int, b: Int) -> Int:
    if isinstance(a, int) and isinstance(b, int) and b:
        return a % b
    return arith.sub(a, arith.mul(b, floor_div(world, a, b)))


def subsets(count: int) -> list[tuple[int, ...]]:
    """All sets of axes, in order."""
    return list(chain.from_iterable(combinations(range(count), n) for n in range(count + 1)))


def whole(value: Value, what: str = "a number") -> int:
    if isinstance(value, int):
        return value
    if isinstance(value, z3.ArithRef) and z3.is_int_value(value):
        return int(value.as_long())
    raise Beyond(f"{what} that structure depends on is not concrete")


def numbers(value: Value) -> tuple[int, ...]:
    return tuple(whole(v, "an entry") for v in entries(value))


def entries(value: Value) -> Entries:
    if not isinstance(value, tuple):
        raise Beyond("a list is wanted")
    return value


def integer(value: Value) -> Int:
    if (isinstance(value, int) and not isinstance(value, bool)) or isinstance(value, z3.ArithRef):
        return value
    raise Beyond("a whole number is wanted")


def _axis(a: int, rank: int) -> int:
    if not -rank <= a < rank:
        raise Skip
    return a % rank


def _broadcast(world: World, *shapes: Value) -> Value:
    lists = [s if isinstance(s, tuple) else (integer(s),) for s in shapes]
    result = broadcast_shapes(world, lists)
    return result if any(isinstance(s, tuple) for s in shapes) else result[0]


def broadcast_shapes(world: World, shapes: Sequence[Entries]) -> Entries:
    """NumPy's broadcast of shapes; demands that they go together."""
    rank = max((len(s) for s in shapes), default=0)
    world.uneven = world.uneven or any(0 < len(s) < rank for s in shapes)
    result: list[Int] = []
    for axis in range(rank):
        here = [s[axis - rank + len(s)] for s in shapes if axis - rank + len(s) >= 0]
        result.append(broadcast_extents(world, here))
    return tuple(result)


def broadcast_extents(world: World, extents: Sequence[Int]) -> Int:
    common = extents[0]
    for extent in extents[1:]:
        if arith.same(common, extent):
            continue
        world.demand(arith.disjunction((arith.eq(common, extent), arith.eq(common, 1), arith.eq(extent, 1))))
        common = arith.ite(arith.eq(common, 1), extent, common)
    return common


def _put(world: World, s: Value, axes: Value, values: Value) -> Value:
    found = list(entries(s))
    places = [_axis(a, len(found)) for a in numbers(axes)]
    new = entries(values)
    if len(places) != len(new) or len(set(places)) != len(places):
        raise Skip
    for place, entry in zip(places, new, strict=True):
        found[place] = entry
    return tuple(found)


def _replace(world: World, s: Value, k: Value, d: Value) -> Value:
    return _put(world, s, (whole(k),), (d,))


def _fill(world: World, v: Value, n: Value) -> Value:
    return (v,) * whole(n)


def _half(pads: Value) -> int:
    count = len(entries(pads))
    if count % 2:
        raise Skip
    return count // 2


def _low(world: World, pads: Value) -> Value:
    return entries(pads)[: _half(pads)]


def _high(world: World, pads: Value) -> Value:
    return entries(pads)[_half(pads) :]


def _full_pads(world: World, rank: Value, pads: Value, axes: Value) -> Value:
    count, half, given = whole(rank), _half(pads), entries(pads)
    places = [_axis(a, count) for a in numbers(axes)]
    if half != len(places) or len(set(places)) != half:
        raise Skip
    found: list[Int] = [0] * (2 * count)
    for i, a in enumerate(places):
        found[a], found[a + count] = given[i], given[i + half]
    return tuple(found)


def _padded(pads: Entries, axis: int) -> Bool:
    half = len(pads) // 2
    return arith.disjunction((arith.negation(arith.eq(pads[axis], 0)), arith.negation(arith.eq(pads[axis + half], 0))))


def _only_axis(world: World, pads: Value) -> Value:
    half, given = _half(pads), entries(pads)
    axis = world.pick(range(half), world.fresh("the padded axis"))
    assert isinstance(axis, int)
    for a in range(half):
        padded = _padded(given, a)
        world.assume(padded if a == axis else arith.negation(padded))
    return axis


def _first_of_several(world: World, pads: Value) -> Value:
    half, given = _half(pads), entries(pads)
    axis = world.pick(range(half), world.fresh("the first padded axis"))
    assert isinstance(axis, int)
    for a in range(axis):
        world.assume(arith.negation(_padded(given, a)))
    world.assume(_padded(given, axis))
    world.assume(arith.disjunction(_padded(given, a) for a in range(axis + 1, half)))
    return axis


def _pads_on(world: World, pads: Value, axis: Value) -> Value:
    half, kept = _half(pads), whole(axis)
    return tuple(p if i % half == kept else 0 for i, p in enumerate(entries(pads)))


def _pads_off(world: World, pads: Value, axis: Value) -> Value:
    half, cleared = _half(pads), whole(axis)
    return tuple(0 if i % half == cleared else p for i, p in enumerate(entries(pads)))


def _place(world: World, index: Value, n: Value) -> Value:
    """Where an index of a Slice with positive step lies: from the end if negative, then held to 0 .. n."""

    def one(i: Value, d: Value) -> Int:
        k, extent = integer(i), integer(d)
        return arith.ite(arith.lt(k, 0), arith.most(arith.add(k, extent), 0), arith.least(k, extent))

    return _lifted(one, index, n)


def _lifted(f: Callable[[Value, Value], Value], a: Value, b: Value) -> Value:
    if isinstance(a, tuple) and isinstance(b, tuple):
        if len(a) != len(b):
            raise Skip
        return tuple(_lifted(f, x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, tuple):
        return tuple(_lifted(f, x, b) for x in a)
    if isinstance(b, tuple):
        return tuple(_lifted(f, a, y) for y in b)
    return f(a, b)


def _least(world: World, a: Value, b: Value) -> Value:
    return _lifted(lambda x, y: arith.least(integer(x), integer(y)), a, b)


def _most(world: World, a: Value, b: Value) -> Value:
    return _lifted(lambda x, y: arith.most(integer(x), integer(y)), a, b)


def _reduced(world: World, s: Value, axes: Value, keepdims: Value) -> Value:
    shape = entries(s)
    gone = {_axis(a, len(shape)) for a in numbers(axes)} or set(range(len(shape)))
    if whole(keepdims):
        return tuple(1 if i in gone else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in gone)


def _same_but(world: World, k: Value, *extents: Value) -> Bool:
    shapes = [entries(e) for e in extents]
    if not shapes:
        return True
    if any(len(s) != len(shapes[0]) for s in shapes):
        return False
    skipped = _axis(whole(k), len(shapes[0]))
    return arith.conjunction(arith.eq(s[i], shapes[0][i]) for s in shapes[1:] for i in range(len(s)) if i != skipped)


def _only_ones_move(world: World, extents: Value, perm: Value) -> Bool:
    """Split by which axes have one element, so that views of the rest are seen to be one."""
    shape, order = entries(extents), numbers(perm)
    if sorted(order) != list(range(len(shape))):
        raise Skip
    return arith.conjunction(
        arith.disjunction((arith.eq(shape[order[i]], 1), arith.eq(shape[order[j]], 1)))
        for i in range(len(order))
        for j in range(i + 1, len(order))
        if order[i] > order[j]
    )


def _literal_target(world: World, target: Value, extents: Value) -> Bool:
    """Every entry is at least 1, or stands on an extent that it equals or divides: a 0 then copies a 0."""
    shape = entries(extents)
    truths: list[Bool] = []
    for i, entry in enumerate(entries(target)):
        positive = arith.le(1, entry)
        if i < len(shape):
            truths.append(arith.disjunction((positive, arith.conjunction((arith.eq(entry, 0), arith.eq(shape[i], 0))))))
        else:
            truths.append(positive)
    return arith.conjunction(truths)


def _stretched(world: World, small: Value, large: Value) -> Value:
    a, b = entries(small), entries(large)
    if len(a) != len(b):
        raise Skip
    mask = world.pick(subsets(len(a)), world.fresh("the stretched axes"))
    assert isinstance(mask, tuple)
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        world.assume(arith.eq(x, 1) if i in mask else arith.eq(x, y))
    return frozenset(mask)


def _ones(world: World, s: Value) -> Value:
    shape = entries(s)
    mask = world.pick(subsets(len(shape)), world.fresh("the axes of one element"))
    assert isinstance(mask, tuple)
    for i in mask:
        world.assume(arith.eq(shape[i], 1))
    return frozenset(mask)


def _keep(world: World, s: Value, m: Value, x: Value) -> Value:
    assert isinstance(m, frozenset) and isinstance(x, Tensor)
    shape = entries(s)
    if len(shape) != x.rank:
        raise Skip
    return tuple(a if i in m else b for i, (a, b) in enumerate(zip(shape, x.shape, strict=True)))


def _mirrored(which: int) -> Callable[..., Value]:
    def run(world: World, extents: Value, d: Value, s: Value, e: Value, p: Value) -> Value:
        shape, starts, stops, steps = entries(extents), entries(s), entries(e), entries(p)
        turned = {_axis(a, len(shape)) for a in numbers(d)}
        found: list[Int] = []
        for i, n in enumerate(shape):
            if i not in turned:
                found.append((starts[i], stops[i])[which])
                continue
            last = floor_div(world, arith.sub(arith.sub(stops[i], starts[i]), 1), steps[i])
            stop = arith.sub(n, starts[i])
            found.append((arith.sub(arith.sub(stop, 1), arith.mul(last, steps[i])), stop)[which])
        return tuple(found)

    return run


def _range(world: World, a: Value, *more: Value) -> Value:
    low, high = (whole(a), whole(more[0])) if more else (0, whole(a))
    return tuple(range(low, high))


def _sum(world: World, *xs: Value) -> Value:
    terms = xs[0] if len(xs) == 1 and isinstance(xs[0], tuple) else xs
    return arith.total(integer(t) for t in entries(terms))


def _product(world: World, s: Value) -> Value:
    return arith.product(entries(s))


def _lossless(world: World, source: Value, target: Value) -> Bool:
    a, b = (str(v) for v in (source, target))
    if a in elements.ELEMENTS and b in elements.ELEMENTS:
        return elements.lossless(a, b)
    raise Beyond("whether a conversion of open types loses something")


def _concrete(name: str) -> Callable[..., Value]:
    """A function of structure alone: the engine's own, on concrete arguments."""

    def run(world: World, *arguments: Value) -> Value:
        given = [
            numbers(a) if isinstance(a, tuple) else whole(a) if not isinstance(a, frozenset) else a for a in arguments
        ]
        try:
            return shipped_functions()[name].bind(DimFacts())(*given)
        except Unknown:
            raise Skip from None

    return run


def end(world: World, name: str, kind: Value) -> Value:
    """The least or largest finite value of an element type, as an element."""
    if not isinstance(kind, Kind):
        raise Beyond(f"{name} of what is no element type")
    return Element(z3.Const(f"{name}{OF}{world.label_of((kind,))}", ELEMENT))


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "lowest": lambda world, kind: end(world, "lowest", kind),
    "highest": lambda world, kind: end(world, "highest", kind),
    "broadcast": _broadcast,
    "product": _product,
    "sum": _sum,
    "range": _range,
    "put": _put,
    "replace": _replace,
    "replace_dim": _replace,
    "fill": _fill,
    "fill_dim": _fill,
    "low": _low,
    "high": _high,
    "full_pads": _full_pads,
    "only_axis": _only_axis,
    "first_of_several": _first_of_several,
    "pads_on": _pads_on,
    "pads_off": _pads_off,
    "place": _place,
    "least": _least,
    "most": _most,
    "reduced": _reduced,
    "same_but": _same_but,
    "only_ones_move": _only_ones_move,
    "literal_target": _literal_target,
    "stretched": _stretched,
    "ones": _ones,
    "keep": _keep,
    "mirrored_start": _mirrored(0),
    "mirrored_end": _mirrored(1),
    "lossless": _lossless,
    **{name: _concrete(name) for name in ("minus", "renumber", "spread", "tail", "swapped", "axes")},
}
"""Every function that rules may call here; another one is beyond the prover."""
