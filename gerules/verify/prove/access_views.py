"""Meanings of operators that stretch, reorder or reshape: Expand, Transpose, Reshape and their kin."""

from __future__ import annotations

import z3

from gerules.verify.prove import arith
from gerules.verify.prove.access import meaning, stretch
from gerules.verify.prove.application import Application
from gerules.verify.prove.arith import Int
from gerules.verify.prove.functions import broadcast_shapes, subsets
from gerules.verify.prove.regroup import Groups, groups, ravel, regrouped
from gerules.verify.prove.world import Beyond, Hole, Index, Skip, Tensor


@meaning("Identity")
def identity(app: Application) -> Tensor:
    return app.tensor(0)


@meaning("Expand")
def expand(app: Application) -> Tensor:
    """The broadcast of the shape and the target: a 1 in the target keeps the extent."""
    x = app.tensor(0)
    target = app.entries(1, range(app.world.ranks + 1), "target")
    app.world.demand(*(arith.le(0, d) for d in target))
    shape = broadcast_shapes(app.world, [x.shape, target])
    return Tensor(x.kind, shape, lambda i: x.at(stretch(i, x.shape, shape)), uniform=x.uniform)


@meaning("Broadcast", domain="gerules")
def broadcast(app: Application) -> Tensor:
    """Full rank, extent 1 on `axes`, stretched there; elsewhere the extents are those of x."""
    x = app.tensor(0)
    mask = app.attribute("axes", map(frozenset, subsets(x.rank)))
    if not isinstance(mask, frozenset):
        raise Beyond("axes of a Broadcast that are not concrete")
    if not mask <= set(range(x.rank)):
        app.fail()
    shape = app.vector("extents", x.rank)
    for axis, (d, whole) in enumerate(zip(x.shape, shape, strict=True)):
        app.world.demand(arith.eq(d, 1 if axis in mask else whole), arith.le(0, whole))
    return Tensor(
        x.kind, shape, lambda i: x.at(tuple(0 if a in mask else j for a, j in enumerate(i))), uniform=x.uniform
    )


@meaning("Transpose")
def transpose(app: Application) -> Tensor:
    """Axis j of the result is axis perm[j] of x; without perm the axes are reversed."""
    x = app.tensor(0)
    perm = app.order(x.rank)
    order = tuple(reversed(range(x.rank))) if perm is None else app.concrete(perm)
    if sorted(order) != list(range(x.rank)):
        app.fail()
    back = {axis: j for j, axis in enumerate(order)}
    shape = tuple(x.shape[axis] for axis in order)
    return Tensor(x.kind, shape, lambda i: x.at(tuple(i[back[a]] for a in range(x.rank))), uniform=x.uniform)


def _axes(app: Application, rank: int) -> tuple[int, ...] | None:
    """The axes of Squeeze and Unsqueeze: an attribute, since 13 an operand. Negative since 11."""
    negative = app.since >= (11,)
    if app.since < (13,):
        axes = app.axes_attribute("axes", rank, negative)
    else:
        axes = None if app.optional(1) is None else app.axes(1, rank, negative)
    if axes is not None and not negative and any(a < 0 for a in axes):
        app.fail()
    return axes


@meaning("Squeeze")
def squeeze(app: Application) -> Tensor:
    """Axes of one element go; all of them where none are named (then which is split by cases)."""
    x = app.tensor(0)
    axes = _axes(app, x.rank)
    if axes is None:
        gone = _units(app, x)
    else:
        gone = frozenset(app.placed(axes, x.rank))
        app.world.demand(*(arith.eq(x.shape[a], 1) for a in gone))
    kept = [a for a in range(x.rank) if a not in gone]

    def at(index: Index) -> z3.ExprRef:
        full: list[Int] = [0] * x.rank
        for a, i in zip(kept, index, strict=True):
            full[a] = i
        return x.at(tuple(full))

    return Tensor(x.kind, [x.shape[a] for a in kept], at, flat=x.flat, uniform=x.uniform, size=x.size)


def _units(app: Application, x: Tensor) -> frozenset[int]:
    """Which axes have one element: every answer in turn, with what it says as a premise."""
    key = ("units", id(x))
    if key not in app.world.memo:
        chosen = app.world.pick(subsets(x.rank), app.world.fresh("axes of one element"))
        assert isinstance(chosen, tuple)
        for a, d in enumerate(x.shape):
            app.world.assume(arith.eq(d, 1) if a in chosen else arith.negation(arith.eq(d, 1)))
        app.world.memo[key] = (x, frozenset(chosen))
    found = app.world.memo[key][1]
    assert isinstance(found, frozenset)
    return found


@meaning("Unsqueeze")
def unsqueeze(app: Application) -> Tensor:
    x = app.tensor(0)
    world = app.world
    several = range(max(2, world.ranks - x.rank + 1))
    if app.since < (13,):
        value = app.attributes.get("axes")
        if isinstance(value, Hole) and value.decided:
            value = value.value
        count = len(value) if isinstance(value, tuple) else world.pick(several, world.fresh("new axes"))
        assert isinstance(count, int)
        axes = app.axes_attribute("axes", x.rank + count, app.since >= (11,))
        assert axes is not None
    else:
        held = app.tensor(1).contents
        count = world.pick(several, world.fresh("new axes")) if held is None else len(held)
        assert isinstance(count, int)
        axes = app.axes(1, x.rank + count)
    if len(axes) != count:
        raise Skip
    if app.since < (11,) and any(a < 0 for a in axes):
        app.fail()
    rank = x.rank + len(axes)
    new = set(app.placed(axes, rank))
    old = [a for a in range(rank) if a not in new]
    shape: list[Int] = [1] * rank
    for a, d in zip(old, x.shape, strict=True):
        shape[a] = d
    return Tensor(x.kind, shape, lambda i: x.at(tuple(i[a] for a in old)), flat=x.flat, uniform=x.uniform, size=x.size)


def _open(value: object) -> bool:
    return isinstance(value, Hole) and not value.decided


@meaning("Flatten")
def flatten(app: Application) -> Tensor:
    """A matrix: the axes before `axis`, and the rest."""
    x = app.tensor(0)
    axis = app.axis(x.rank, negative=app.since >= (11,), end=True)
    shape = (arith.product(x.shape[:axis]), arith.product(x.shape[axis:]))
    return view(app, x, shape)


@meaning("Reshape")
def reshape(app: Application) -> Tensor:
    """The same row-major sequence. A -1 in the target is the rest; a 0 copies the extent in its place, unless
    allowzero."""
    x = app.tensor(0)
    world = app.world
    zeros = app.flag("allowzero") if app.since >= (14,) else 0
    if app.since < (5,):
        value = app.attributes.get("shape")
        if _open(value):
            assert isinstance(value, Hole)
            count = world.pick(range(world.ranks + 1), "entries of the target")
            assert isinstance(count, int)
            value.decided, value.value = True, tuple(world.integer("target") for _ in range(count))
        target = app.attribute("shape")
        if not isinstance(target, tuple):
            raise Beyond("a Reshape whose target is an operand of another kind")
    else:
        target = app.entries(1, range(world.ranks + 1), "target")
    entries, rest = _target(app, target, zeros, x)
    if rest is not None:
        others = arith.product(e for i, e in enumerate(entries) if i != rest)
        world.demand(arith.le(1, others))
        entries[rest] = world.quotient(x.size, others)
    return view(app, x, tuple(entries))


def _target(app: Application, target: tuple[Int, ...], zeros: int, x: Tensor) -> tuple[list[Int], int | None]:
    """The entries with zeros copied, and which is -1; what open entries are is split by cases."""
    world = app.world
    entries: list[Int] = []
    rest: int | None = None
    for i, entry in enumerate(target):
        form = _form(app, entry, i, zeros, x, rest is None)
        if form == "rest":
            if rest is not None:
                app.fail()
            rest = i
            entries.append(1)
        elif form == "copy":
            if i >= x.rank:
                app.fail()
            entries.append(x.shape[i])
        else:
            world.demand(arith.le(0, entry))
            entries.append(entry)
    return entries, rest


def _form(app: Application, entry: Int, place: int, zeros: int, x: Tensor, free: bool) -> str:
    """What an entry says; `free` where none before it is the rest."""
    world = app.world
    if isinstance(entry, int):
        return "rest" if entry == -1 else "copy" if entry == 0 and not zeros else "size"
    key = ("form", entry.get_id())
    if key not in world.memo and not world.right:
        forms = [*(["rest"] if free else []), "size", *(["copy"] if zeros or place < x.rank else [])]
        form = world.pick(forms, world.fresh("form of a target's entry"))
        world.assume({"size": entry >= 1, "rest": entry == -1, "copy": entry == 0}[str(form)])
        world.memo[key] = (entry, form)
    if key not in world.memo:
        # What is computed on the right is a shape: never -1; a 0 copies what stands in its place, so it has to be one.
        form = "size"
        world.demand(arith.le(0, entry))
        if not zeros:
            same = arith.eq(x.shape[place], 0) if place < x.rank else False
            world.demand(arith.disjunction((arith.negation(arith.eq(entry, 0)), same)))
    else:
        form = str(world.memo[key][1])
    return "size" if form == "copy" and zeros else str(form)


def view(app: Application, x: Tensor, shape: tuple[Int, ...]) -> Tensor:
    """x's row-major sequence under another shape."""
    world = app.world
    world.views = world.uneven = True
    count = arith.product(shape)
    if not arith.same(count, x.size):
        world.demand(arith.eq(count, x.size))

    parts: list[Groups | None] = []

    def at(index: Index) -> z3.ExprRef:
        if all(map(arith.same, shape, x.shape)) and len(shape) == x.rank:
            return x.at(index)
        found = x.flat(ravel(index, shape))
        if found is not None:
            return found
        if not parts:
            parts.append(groups(world, x.shape, shape))
        if parts[0] is None:
            raise Beyond("an index through a change of shape")
        return x.at(regrouped(world, parts[0], index, x.shape, shape))

    return Tensor(x.kind, shape, at, flat=x.flat, uniform=x.uniform, size=x.size)
