"""One row-major sequence under two shapes: factors of the one regrouped to the other.

Shapes are cut into the shortest groups of axes whose products are proved equal. Within a group an index of one shape is
one of the other by its place; where two axes or more become one that is a sum of products, else quotients and
remainders, each a symbol with what defines it. Shapes that cannot be cut are one group, if their products are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import z3

from gerules.verify.prove import arith
from gerules.verify.prove.arith import Int
from gerules.verify.prove.world import Index, World

Groups = tuple[tuple[tuple[int, int], tuple[int, int]], ...]
"""For each group the axes of the one shape and of the other, from and to."""


def groups(world: World, first: Sequence[Int], second: Sequence[Int]) -> Groups | None:
    """The shortest groups, from the front; None where products are not shown to be equal."""
    found: list[tuple[tuple[int, int], tuple[int, int]]] = []
    i = j = 0
    while i < len(first) or j < len(second):
        ends = sorted(product(range(i, len(first) + 1), range(j, len(second) + 1)), key=lambda e: (sum(e), e))
        cut = next(
            (
                (a, b)
                for a, b in ends
                if (a, b) != (i, j) and _equal(world, arith.product(first[i:a]), arith.product(second[j:b]))
            ),
            None,
        )
        if cut is None:
            return None
        found.append(((i, cut[0]), (j, cut[1])))
        i, j = cut
    return tuple(found)


def _equal(world: World, a: Int, b: Int) -> bool:
    return arith.same(a, b) or (a is not b and world.proves(arith.eq(a, b)))


def regrouped(world: World, parts: Groups, index: Index, source: Sequence[Int], target: Sequence[Int]) -> Index:
    """The index into `source` at the place of one into `target`; `parts` are the groups of source and target."""
    found: list[Int] = []
    for (a, b), (c, d) in parts:
        if b - a == d - c == 1:
            found.append(index[c])
        else:
            found += unravel(world, ravel(index[c:d], target[c:d]), source[a:b])
    return tuple(found)


def ravel(index: Sequence[Int], shape: Sequence[Int]) -> Int:
    """The place in row-major order."""
    place: Int = 0
    for i, d in zip(index, shape, strict=True):
        place = arith.add(arith.mul(place, d), i)
    return place


def unravel(world: World, place: Int, shape: Sequence[Int]) -> list[Int]:
    """The index at a place in row-major order."""
    found: list[Int] = []
    for d in reversed(shape[1:]):
        if isinstance(place, z3.ExprRef):
            place = z3.simplify(place, som=True)
        behind = world.quotient(place, d)
        found.append(arith.sub(place, arith.mul(behind, d)))
        place = behind
    return [place, *reversed(found)] if shape else []
