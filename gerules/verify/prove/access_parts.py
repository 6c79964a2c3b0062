"""Meanings of operators that take parts or put them together: Slice, Pad, Concat, Split, Tile, Gather."""

from __future__ import annotations

from collections.abc import Callable

import z3

from gerules.verify.prove import arith
from gerules.verify.prove.access import meaning
from gerules.verify.prove.application import Application
from gerules.verify.prove.arith import Bool, Int
from gerules.verify.prove.functions import floor_div
from gerules.verify.prove.statics import literal
from gerules.verify.prove.world import FAR, NUMBER, Beyond, Hole, Index, Leaf, Node, Skip, Tensor, whole


def moved(x: Tensor, shape: list[Int], source: Callable[[Index], Index]) -> Tensor:
    """Elements of x, each from its place."""
    return Tensor(x.kind, shape, lambda i: x.at(source(i)), uniform=x.uniform)


def cells(app: Application, low: Int, high: Int, step: Int) -> Int:
    """How many of low, low + step, ... lie below high (step >= 1)."""
    span = arith.sub(high, low)
    if isinstance(step, int) and step == 1:
        return arith.most(span, 0)
    count = app.world.quotient(arith.sub(arith.add(span, step), 1), step)
    return arith.ite(arith.le(span, 0), 0, count)


@meaning("Window", domain="gerules")
def window(app: Application) -> Tensor:
    """The normal form of Slice: 0 <= start, stop <= extent, step >= 1, one entry an axis."""
    x = app.tensor(0)
    starts, stops, steps = (app.vector(name, x.rank) for name in ("start", "stop", "step"))
    shape: list[Int] = []
    for n, s, e, p in zip(x.shape, starts, stops, steps, strict=True):
        app.world.demand(arith.le(0, s), arith.le(s, n), arith.le(0, e), arith.le(e, n), arith.le(1, p))
        shape.append(cells(app, s, e, p))
    return moved(
        x, shape, lambda i: tuple(arith.add(s, arith.mul(j, p)) for s, j, p in zip(starts, i, steps, strict=True))
    )


@meaning("Slice")
def slice_(app: Application) -> Tensor:
    """Python's slices on some axes, clamped; with a negative step a start before the first element is the first."""
    x = app.tensor(0)
    rank = x.rank
    if app.since < (10,):
        starts, ends, axes = _slice_attributes(app, rank)
        steps: tuple[Int, ...] = (1,) * len(starts)
    else:
        starts, ends, axes, steps = _slice_operands(app, rank)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        app.fail()
    if app.since < (11,) and any(a < 0 for a in axes):
        app.fail()
    placed = app.placed(axes, rank)
    shape, low, stride = list(x.shape), [0] * rank, [1] * rank
    low_: list[Int] = list(low)
    stride_: list[Int] = list(stride)
    for s, e, a, p in zip(starts, ends, placed, steps, strict=True):
        shape[a], low_[a], stride_[a] = _cut(app, x.shape[a], s, e, p)
    return moved(
        x, shape, lambda i: tuple(arith.add(s, arith.mul(j, p)) for s, j, p in zip(low_, i, stride_, strict=True))
    )


def _slice_attributes(app: Application, rank: int) -> tuple[tuple[Int, ...], tuple[Int, ...], tuple[int, ...]]:
    axes = app.axes_attribute("axes", rank, negative=False)
    if axes is None:
        starts = app.attributes.get("starts")
        count = len(starts) if isinstance(starts, tuple) else None
        if isinstance(starts, Hole) and isinstance(starts.value, tuple):
            count = len(starts.value)
        if count is None:
            picked = app.world.pick(range(rank + 1), "bounds")
            assert isinstance(picked, int)
            count = picked
        axes = tuple(range(count))
    return app.vector("starts", len(axes)), app.vector("ends", len(axes)), axes


def _slice_operands(
    app: Application, rank: int
) -> tuple[tuple[Int, ...], tuple[Int, ...], tuple[int, ...], tuple[Int, ...]]:
    negative = app.since >= (11,)
    axes = None
    if app.optional(3) is not None:
        axes = app.axes(3, rank, negative)
        lengths: range | tuple[int, ...] = (len(axes),)
    else:
        lengths = range(rank + 1)
    starts = app.entries(1, lengths, "start")
    ends = app.entries(2, (len(starts),), "end")
    if axes is None:
        axes = tuple(range(len(starts)))
    if app.optional(4) is None:
        return starts, ends, axes, (1,) * len(starts)
    steps = app.entries(4, (len(starts),), "step")
    return starts, ends, axes, steps


def _cut(app: Application, n: Int, start: Int, end: Int, step: Int) -> tuple[Int, Int, Int]:
    """How many elements are left of an axis, the first of them, and the step."""
    world = app.world
    if _backwards(app, step):
        world.demand(arith.le(step, -1))
        back = arith.sub(0, step)
        s, e = _from_end(start, n), _from_end(end, n)
        first = arith.least(arith.most(s, 0), arith.sub(n, 1))
        last = -1 if isinstance(end, int) and end <= -FAR else arith.least(arith.most(e, -1), arith.sub(n, 1))
        count = cells(app, last, first, back)
        return arith.ite(arith.le(n, 0), 0, count), first, step
    world.demand(arith.le(1, step))
    first = _clamped(_from_end(start, n), n)
    stop = n if isinstance(end, int) and end >= FAR else _clamped(_from_end(end, n), n)
    return cells(app, first, stop, step), first, step


def _backwards(app: Application, step: Int) -> bool:
    if isinstance(step, int):
        return step < 0
    key = ("sign", step.get_id())
    world = app.world
    if key not in world.memo:
        if world.right:
            world.memo[key] = (step, not world.proves(step >= 1))
        else:
            chosen = world.pick((False, True), world.fresh("a step is negative"))
            world.assume(step <= -1 if chosen else step >= 1)
            world.memo[key] = (step, chosen)
    return bool(world.memo[key][1])


def _from_end(index: Int, n: Int) -> Int:
    return arith.ite(arith.lt(index, 0), arith.add(index, n), index)


def _clamped(index: Int, n: Int) -> Int:
    return arith.least(arith.most(index, 0), n)


# --------------------------------------------------------------------------------------------------------- padding


@meaning("Padding", domain="gerules")
def padding(app: Application) -> Tensor:
    """The normal form of Pad: `interior` values between neighbours, low and high around; negative amounts cut off."""
    x, value = app.tensor(0), app.tensor(1)
    lows, highs, inner = (app.vector(name, x.rank) for name in ("low", "high", "interior"))
    shape: list[Int] = []
    for n, a, b, i in zip(x.shape, lows, highs, inner, strict=True):
        spread = arith.add(n, arith.mul(arith.most(arith.sub(n, 1), 0), i))
        extent = arith.add(arith.add(a, spread), b)
        app.world.demand(arith.le(0, i), arith.le(0, extent))
        shape.append(extent)
    filling = _single(app, value)
    if not app.world.right or shape:
        app.world.guards += 1

    def at(index: Index) -> z3.ExprRef:
        places: list[Int] = []
        inside: list[Bool] = []
        for j, n, a, i in zip(index, x.shape, lows, inner, strict=True):
            place = arith.sub(j, a)
            if isinstance(i, int) and i == 0:
                inside.append(arith.le(0, place))
            else:
                gap = arith.add(i, 1)
                q = app.world.quotient(place, gap)
                inside += [arith.le(0, place), arith.eq(arith.mul(q, gap), place)]
                place = q
            inside.append(arith.lt(place, n))
            places.append(place)
        return arith.choose(arith.conjunction(inside), x.at(tuple(places)), filling)

    uniform = x.uniform if x.uniform is not None and x.uniform.eq(filling) else None
    return Tensor(x.kind, shape, at, uniform=uniform)


def _single(app: Application, value: Tensor) -> z3.ExprRef:
    """The one element of a tensor that is used as a scalar."""
    if value.uniform is not None:
        return value.uniform
    if isinstance(value, Leaf) and not value.decided:
        value.decide(0)
    for d in value.shape:
        app.world.demand(arith.le(1, d))
    return value.at((0,) * value.rank)


@meaning("Pad")
def pad(app: Application) -> Tensor:
    """Amounts as an attribute (before 11) or operand, on some axes since 18. Negative amounts cut off before anything
    is filled in; a reflection is no longer than its axis."""
    x = app.tensor(0)
    rank = x.rank
    if app.since < (11,):
        amounts = app.vector("paddings" if app.since < (2,) else "pads", 2 * rank)
        axes: tuple[int, ...] = tuple(range(rank))
    else:
        axes = tuple(range(rank))
        if app.since >= (18,) and app.optional(3) is not None:
            axes = app.placed(app.axes(3, rank), rank)
        amounts = app.entries(1, (2 * len(axes),), "amount")
    if len(amounts) != 2 * len(axes):
        app.fail()
    modes = ("constant", "reflect", "edge", *(("wrap",) if app.since >= (19,) else ()))
    mode = app.attribute("mode", modes)
    if mode not in modes:
        app.fail()
    filling = _filling(app) if mode == "constant" else None
    if filling is not None:
        app.world.guards += 1
    lows: list[Int] = [0] * rank
    highs: list[Int] = [0] * rank
    for k, a in enumerate(axes):
        lows[a], highs[a] = amounts[k], amounts[k + len(axes)]
    return _padded(app, x, lows, highs, str(mode), filling)


def _filling(app: Application) -> z3.ExprRef:
    if app.since < (11,):
        value = app.attributes.get("value")
        if isinstance(value, Hole):
            return value.element()
        return getattr(value, "term", None) if hasattr(value, "term") else literal(value)
    value = app.optional(2)
    return NUMBER(z3.IntVal(0)) if value is None else _single(app, value)


def _padded(
    app: Application, x: Tensor, lows: list[Int], highs: list[Int], mode: str, filling: z3.ExprRef | None
) -> Tensor:
    shape: list[Int] = []
    for n, a, b in zip(x.shape, lows, highs, strict=True):
        cut = arith.add(arith.add(n, arith.least(a, 0)), arith.least(b, 0))
        app.world.demand(arith.le(0, cut))
        if mode != "constant":
            padded = arith.disjunction((arith.lt(0, a), arith.lt(0, b)))
            app.world.demand(arith.disjunction((arith.negation(padded), arith.le(1, cut))))
        if mode == "reflect":
            app.world.demand(arith.disjunction((arith.le(a, 0), arith.lt(a, cut))))
            app.world.demand(arith.disjunction((arith.le(b, 0), arith.lt(b, cut))))
        shape.append(arith.add(arith.add(n, a), b))

    def at(index: Index) -> z3.ExprRef:
        places: list[Int] = []
        inside: list[Bool] = []
        for j, n, a, b in zip(index, x.shape, lows, highs, strict=True):
            # Places within what is left of x once negative amounts have cut.
            front = arith.sub(0, arith.least(a, 0))
            left = arith.add(arith.sub(n, front), arith.least(b, 0))
            place = arith.sub(j, arith.most(a, 0))
            if mode == "constant":
                if not (arith.same(a, 0) and arith.same(b, 0)):
                    inside += [arith.le(0, place), arith.lt(place, left)]
            else:
                place = _outside(app, place, left, mode)
            places.append(arith.add(place, front))
        found = x.at(tuple(places))
        return found if filling is None else arith.choose(arith.conjunction(inside), found, filling)

    uniform = None
    if x.uniform is not None and (filling is None or filling.eq(x.uniform)):
        uniform = x.uniform
    return Tensor(x.kind, shape, at, uniform=uniform)


def _outside(app: Application, place: Int, n: Int, mode: str) -> Int:
    """Where a place outside of 0 .. n - 1 takes its element from."""
    if mode == "edge":
        return arith.least(arith.most(place, 0), arith.sub(n, 1))
    if mode == "reflect":
        folded = arith.ite(arith.lt(place, 0), arith.sub(0, place), place)
        return arith.ite(arith.lt(folded, n), folded, arith.sub(arith.mul(2, arith.sub(n, 1)), folded))
    return arith.sub(place, arith.mul(n, floor_div(app.world, place, n)))


# ------------------------------------------------------------------------------------------- concatenation and kin


@meaning("Concat")
def concat(app: Application) -> Tensor:
    """Side by side on `axis`; elsewhere the extents are equal."""
    parts = app.tensors
    if not parts:
        raise Skip
    app.like(parts)
    rank = parts[0].rank
    if any(p.rank != rank for p in parts):
        app.fail()
    if len(parts) == 1:
        if rank or app.world.right:
            app.axis(rank, negative=app.since >= (11,))
        else:
            raise Skip
        return parts[0]
    axis = app.axis(rank, negative=app.since >= (11,))
    for p in parts[1:]:
        app.world.demand(
            *(arith.eq(a, b) for k, (a, b) in enumerate(zip(parts[0].shape, p.shape, strict=True)) if k != axis)
        )
    borders: list[Int] = [0]
    for p in parts:
        borders.append(arith.add(borders[-1], p.shape[axis]))
    shape = list(parts[0].shape)
    shape[axis] = borders[-1]

    def at(index: Index) -> z3.ExprRef:
        found: z3.ExprRef | None = None
        for p, border, start in reversed(list(zip(parts, borders[1:], borders, strict=False))):
            here = p.at((*index[:axis], arith.sub(index[axis], start), *index[axis + 1 :]))
            found = here if found is None else arith.choose(arith.lt(index[axis], border), here, found)
        assert found is not None
        return found

    first = parts[0].uniform
    alike = first is not None and all(p.uniform is not None and p.uniform.eq(first) for p in parts)
    return Tensor(parts[0].kind, shape, at, uniform=first if alike else None)


@meaning("Split")
def split(app: Application) -> Node:
    """Parts of given sizes along `axis`, or equal ones (which have to divide, but with num_outputs)."""
    x = app.tensor(0)
    if x.rank == 0:
        app.fail()
    axis = app.axis(x.rank, negative=app.since >= (11,))
    held = app.attributes.get("results")
    if isinstance(held, Hole) and not held.decided:
        held.value, held.decided = app.world.pick((1, 2, 3), "number of parts"), True
    results = app.attribute("results")
    if not isinstance(results, int):
        raise Beyond("a number of parts that is not concrete")
    count = results
    n = x.shape[axis]
    sizes = _sizes(app, n, count)
    if sizes is None or len(sizes) != count:
        app.fail()
    assert sizes is not None
    app.world.demand(arith.eq(arith.total(sizes), n), *(arith.le(0, s) for s in sizes))

    def part(result: int) -> Tensor:
        start = arith.total(sizes[:result])
        shape = list(x.shape)
        shape[axis] = sizes[result]
        return moved(x, shape, lambda i: (*i[:axis], arith.add(i[axis], start), *i[axis + 1 :]))

    return Node(app.label(), part, count)


def _sizes(app: Application, n: Int, count: int) -> tuple[Int, ...] | None:
    if app.since < (2,):
        raise Beyond("Split below 2")
    if app.since < (13,):
        value = app.attributes.get("split")
        if isinstance(value, Hole) and not value.decided:
            value.decide((None, "sizes") if not value.required and value.default is None else ("sizes",))
            if value.value == "sizes":
                value.value = tuple(app.world.integer("size") for _ in range(count))
        found = app.attribute("split")
        if isinstance(found, tuple):
            return found
    elif app.optional(1) is not None:
        if app.since >= (18,) and app.attribute("num_outputs") is not None:
            app.fail()
        return app.entries(1, (count,), "size")
    if app.since >= (18,):
        number = app.attribute("num_outputs", (count,))
        if number is None:
            app.fail()
        if number != count:
            app.fail()
        each = floor_div(app.world, arith.add(n, count - 1), count)
        return (*(each,) * (count - 1), arith.sub(n, arith.mul(count - 1, each)))
    each = floor_div(app.world, n, count)
    return (each,) * count


@meaning("Tile")
def tile(app: Application) -> Tensor:
    """Every axis repeated; the source index is the remainder."""
    if app.since < (6,):
        raise Beyond("Tile below 6")
    x = app.tensor(0)
    repeats = app.entries(1, (x.rank,), "repeat")
    if len(repeats) != x.rank:
        app.fail()
    app.world.demand(*(arith.le(0, r) for r in repeats))
    shape = [arith.mul(d, r) for d, r in zip(x.shape, repeats, strict=True)]

    def source(index: Index) -> Index:
        return tuple(
            i if isinstance(r, int) and r == 1 else arith.sub(i, arith.mul(d, app.world.quotient(i, d)))
            for i, d, r in zip(index, x.shape, repeats, strict=True)
        )

    return moved(x, shape, source)


@meaning("Gather")
def gather(app: Application) -> Tensor:
    """Entries along `axis` by an index tensor; negative ones count from the end (one semantic version has all of
    1 to 13). That indices lie within is known of those of the left side, and to be shown of those of the right."""
    x, indices = app.tensor(0), app.tensor(1)
    if x.rank == 0:
        app.fail()
    axis = app.axis(x.rank, negative=True)
    n = x.shape[axis]
    low = arith.sub(0, n)
    for entry in indices.contents or ():
        app.world.demand(arith.le(low, entry), arith.lt(entry, n))
    shape = [*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]]
    if indices.contents is None:
        _within(app, indices, low, n)
    left = not app.world.right

    def source(index: Index) -> Index:
        place = index[axis : axis + indices.rank]
        entry = whole(indices.at(place))
        if left and indices.contents is None:
            inside = arith.conjunction(
                arith.conjunction((arith.le(0, i), arith.lt(i, d))) for i, d in zip(place, indices.shape, strict=True)
            )
            known = arith.conjunction((arith.le(low, entry), arith.lt(entry, n)))
            app.world.pre.append(z3.Implies(inside, known))
        return (*index[:axis], _from_end(entry, n), *index[axis + indices.rank :])

    return moved(x, shape, source)


def _within(app: Application, indices: Tensor, low: Int, n: Int) -> None:
    """Indices lie within an axis: on the left what a variable holds is known to; on the right they have to come from
    variables of which that is known."""
    world = app.world
    if not world.right:
        if isinstance(indices, Leaf):
            world.within.append((indices.name, low, n))
        return
    waiting = [indices.at(tuple(world.integer("any") for _ in range(indices.rank)))]
    while waiting:
        element = waiting.pop()
        if z3.is_app_of(element, z3.Z3_OP_ITE):
            waiting += element.children()[1:]
            continue
        if element.decl().eq(NUMBER):
            world.demand(arith.le(low, element.arg(0)), arith.lt(element.arg(0), n))
            continue
        known = [(a, b) for name, a, b in world.within if name == element.decl().name()]
        if not known:
            raise Beyond("indices that are not known to lie within their axis")
        fits = [arith.conjunction((arith.le(low, a), arith.le(b, n))) for a, b in known]
        world.demand(arith.disjunction(fits))
