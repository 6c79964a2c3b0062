"""Whether two tensors of one world are equal: shapes, then elements at an index that could be any.

Elements are compared by their form: a choice is split by its condition, two applications of one function by their
arguments. What is left are equations between whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import z3

from gerules.verify.prove import arith
from gerules.verify.prove.arith import Bool
from gerules.verify.prove.world import ELEMENT, Beyond, Index, Tensor, World


def same_shapes(a: Tensor, b: Tensor) -> Bool:
    if a.rank != b.rank:
        return False
    return arith.conjunction(arith.eq(x, y) for x, y in zip(a.shape, b.shape, strict=True))


def same_tensors(world: World, a: Tensor, b: Tensor) -> bool:
    """Whether b is proved to be a: element type, shape, elements."""
    if a is b:
        return True
    if a.kind.find() is not b.kind.find() and str(a.kind) != str(b.kind):
        return False
    return world.proves(same_shapes(a, b)) and same_elements(world, a, b)


def inside(world: World, shape: Sequence[arith.Int]) -> tuple[Index, list[Bool]]:
    """An index that could be any within a shape, and that it is one."""
    index = tuple(world.integer(f"i{k}") for k in range(len(shape)))
    given: list[Bool] = []
    for i, d in zip(index, shape, strict=True):
        given += [i >= 0, arith.lt(i, d)]
    return index, given


def same_elements(world: World, a: Tensor, b: Tensor) -> bool:
    """Whether elements are equal wherever the index lies within; shapes are known to be."""
    index, given = inside(world, a.shape)
    try:
        left, right = a.at(index), b.at(index)
        if equal_elements(world, left, right, given):
            return True
    except Beyond:
        if not world.views:
            raise
    if not world.views:
        return False
    place = world.integer("place")
    flat, other = a.flat(place), b.flat(place)
    if flat is None or other is None:
        raise Beyond("an index through a change of shape")
    return equal_elements(world, flat, other, [place >= 0, arith.lt(place, a.size)])


def equal_elements(world: World, left: z3.ExprRef, right: z3.ExprRef, given: Sequence[Bool]) -> bool:
    """Whether two elements are equal under `given`."""
    waiting: list[tuple[z3.ExprRef, z3.ExprRef, tuple[Bool, ...]]] = [(left, right, tuple(given))]
    while waiting:
        a, b, path = waiting.pop()
        if a.eq(b):
            continue
        split = next((t for t in (a, b) if z3.is_app_of(t, z3.Z3_OP_ITE)), None)
        if split is not None:
            condition, then, other = split.children()
            for truth, branch in ((condition, then), (z3.Not(condition), other)):
                if not world.proves(z3.Not(truth), path):
                    pair = (branch, b) if split is a else (a, branch)
                    waiting.append((*pair, (*path, truth)))
            continue
        if not _by_parts(world, a, b, path, waiting) and not world.proves(a == b, path):
            world.question = [*path, a != b]
            world.in_values = not (placed(a) and placed(b))
            return False
    return True


def placed(element: z3.ExprRef) -> bool:
    """Whether an element is one of a leaf, or a constant: not the work of an operator."""
    return all(child.sort() != ELEMENT for child in element.children())


def _by_parts(
    world: World,
    a: z3.ExprRef,
    b: z3.ExprRef,
    path: tuple[Bool, ...],
    waiting: list[tuple[z3.ExprRef, z3.ExprRef, tuple[Bool, ...]]],
) -> bool:
    """Applications of one function: whole-number arguments are asked now, elements are left for later."""
    if not (a.decl().eq(b.decl()) and a.num_args()):
        return False
    pairs = list(zip(a.children(), b.children(), strict=True))
    if not all(x.eq(y) or world.proves(x == y, path) for x, y in pairs if x.sort() != ELEMENT):
        return False
    waiting += [(x, y, path) for x, y in pairs if x.sort() == ELEMENT]
    return True
