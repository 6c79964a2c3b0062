"""Meanings of operators that make one element of many: reductions and matrix products.

An element is a `Binder`: the operation, the extents of the indices that it runs over, and what stands under it. It is
never written out.
"""

from __future__ import annotations

from collections.abc import Callable

import z3

from gerules.verify.prove import arith
from gerules.verify.prove.access import meaning, stretch
from gerules.verify.prove.application import Application
from gerules.verify.prove.arith import Int
from gerules.verify.prove.functions import broadcast_shapes
from gerules.verify.prove.world import ELEMENT, OF, Beyond, Binder, Index, Kind, Skip, Tensor, World

SUM = "ReduceSum"
DOT = "dot"
"""A sum of products; what it sums is two elements."""

OF_ONE = frozenset((SUM, DOT, "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"))
"""Operations that leave a single element as it is."""

REDUCTIONS = (
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceSumSquare",
)


def bound(
    world: World,
    operation: str,
    kind: Kind,
    extents: tuple[Int, ...],
    body: Callable[[Index], tuple[z3.ExprRef, ...]],
) -> z3.ExprRef:
    """An element that is a reduction. Indices that run over one place are no indices."""
    kept = [k for k, d in enumerate(extents) if not (isinstance(d, int) and d == 1)]

    def short(index: Index) -> tuple[z3.ExprRef, ...]:
        full: list[Int] = [0] * len(extents)
        for k, i in zip(kept, index, strict=True):
            full[k] = i
        return body(tuple(full))

    if not kept and operation in OF_ONE:
        return single(operation, world.label_of((kind,)), short(()))
    element = z3.Const(world.fresh("reduced"), ELEMENT)
    text = world.label_of((kind,))
    world.binders[element.get_id()] = Binder(operation, tuple(extents[k] for k in kept), short, element, text)
    return element


def single(operation: str, kind: str, parts: tuple[z3.ExprRef, ...]) -> z3.ExprRef:
    """What is left of a reduction of one."""
    return z3.Function(f"Mul{OF}{kind}", ELEMENT, ELEMENT, ELEMENT)(*parts) if operation == DOT else parts[0]


@meaning(*REDUCTIONS)
def reduction(app: Application) -> Tensor:
    """Over axes given as an attribute or an operand; over all where none are, unless noop_with_empty_axes."""
    x = app.tensor(0)
    rank = x.rank
    noop = app.flag("noop_with_empty_axes") if "noop_with_empty_axes" in app.attributes else 0
    axes: tuple[int, ...] | None
    if "axes" in app.attributes:
        axes = app.axes_attribute("axes", rank, app.since >= (11,))
    else:
        axes = None if app.optional(1) is None else app.axes(1, rank)
    if app.since < (11,) and axes is not None and any(a < 0 for a in axes):
        app.fail()
    gone = app.placed(axes or (), rank)
    if not gone and not noop:
        gone = tuple(range(rank))
    keep = app.flag("keepdims", 1)
    # In the order of the axes, not in that of writing: so elements are visited in the order of the index.
    places = sorted(gone)
    shape = [1 if a in gone else d for a, d in enumerate(x.shape) if keep or a not in gone]
    extents = tuple(x.shape[a] for a in places)

    def at(index: Index) -> z3.ExprRef:
        def body(inner: Index) -> tuple[z3.ExprRef, ...]:
            outer = iter(index)
            full: list[Int] = []
            for a in range(rank):
                if a in gone:
                    full.append(inner[places.index(a)])
                    if keep:
                        next(outer)
                else:
                    full.append(next(outer))
            return (x.at(tuple(full)),)

        return bound(app.world, app.name, x.kind, extents, body)

    return Tensor(app.result_kind(), shape, at)


@meaning("MatMul")
def matmul(app: Application) -> Tensor:
    """NumPy's: the last axis of the first with the last but one of the second; axes before are broadcast; a vector is a
    row on the left and a column on the right."""
    a, b = app.tensor(0), app.tensor(1)
    if not a.rank or not b.rank:
        app.fail()
    if not app.world.right:
        app.world.named |= {"row", "column"}
    app.world.uneven = True
    contracted = a.shape[-1]
    app.world.demand(arith.eq(contracted, b.shape[-2] if b.rank > 1 else b.shape[0]))
    batch = broadcast_shapes(app.world, [a.shape[:-2], b.shape[:-2]])
    rows = a.shape[-2:-1]
    columns = b.shape[-1:] if b.rank > 1 else ()
    shape = (*batch, *rows, *columns)

    def at(index: Index) -> z3.ExprRef:
        front = index[: len(batch)]
        row = index[len(batch) : len(batch) + len(rows)]
        column = index[len(batch) + len(rows) :]

        def body(inner: Index) -> tuple[z3.ExprRef, ...]:
            left = (*stretch(front, a.shape[:-2], batch), *row, *inner)
            right = (*stretch(front, b.shape[:-2], batch), *inner, *column)
            return a.at(left), b.at(right)

        return bound(app.world, DOT, a.kind, (contracted,), body)

    return Tensor(app.result_kind(), shape, at)


__all__ = ["Beyond", "Skip", "bound", "matmul", "reduction"]
