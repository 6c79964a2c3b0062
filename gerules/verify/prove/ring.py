"""Sums and products up to their order: rules that reassociate.

An element is a list of summands, each with the indices that it is summed over and its factors. Two such lists are one
where summands can be paired so that indices correspond (equal extents, in some order) and factors are equal, in some
order. Sums of sums are sums over both; a factor may go into a sum; a sum over what a Concat puts together is two sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

import z3

from gerules.verify.prove import arith
from gerules.verify.prove.access_sums import DOT, SUM
from gerules.verify.prove.arith import Bool, Int
from gerules.verify.prove.world import Beyond, World, work_name

Equal = Callable[[z3.ExprRef, z3.ExprRef, Sequence[Bool]], bool]
SUMMANDS = 16
"""More summands than this are beyond the prover."""


@dataclass(frozen=True, eq=False)
class Summand:
    """Factors summed over indices, each with its extent."""

    indices: tuple[tuple[z3.ArithRef, Int], ...]
    factors: tuple[z3.ExprRef, ...]

    @property
    def given(self) -> list[Bool]:
        return [c for i, d in self.indices for c in (i >= 0, arith.lt(i, d))]


def expand(world: World, element: z3.ExprRef, path: Sequence[Bool]) -> list[Summand]:
    """An element as summands whose factors are neither sums nor products."""
    done: list[Summand] = []
    waiting = [Summand((), (element,))]
    while waiting:
        if len(waiting) + len(done) > SUMMANDS:
            raise Beyond("a sum of many summands")
        summand = waiting.pop()
        for place, factor in enumerate(summand.factors):
            others = (*summand.factors[:place], *summand.factors[place + 1 :])
            made = _opened(world, summand, factor, others, path)
            if made is not None:
                waiting += made
                break
        else:
            done.append(summand)
    return done


def _opened(
    world: World, summand: Summand, factor: z3.ExprRef, others: tuple[z3.ExprRef, ...], path: Sequence[Bool]
) -> list[Summand] | None:
    binder = world.binders.get(factor.get_id())
    if binder is not None and binder.operation in (SUM, DOT):
        new = tuple(world.integer("k") for _ in binder.extents)
        indices = (*summand.indices, *zip(new, binder.extents, strict=True))
        return [Summand(indices, (*binder.body(new), *others))]
    name = work_name(factor)
    if name == "Add" and factor.num_args() == 2:
        return [Summand(summand.indices, (part, *others)) for part in factor.children()]
    if name == "Mul" and factor.num_args() == 2:
        return [Summand(summand.indices, (*factor.children(), *others))]
    if z3.is_app_of(factor, z3.Z3_OP_ITE):
        return _chosen(world, summand, factor, others, path)
    return None


def _chosen(
    world: World, summand: Summand, factor: z3.ExprRef, others: tuple[z3.ExprRef, ...], path: Sequence[Bool]
) -> list[Summand] | None:
    """A choice: decided by what is known, or where a bound index crosses a border, two sums."""
    condition, then, other = factor.children()
    given = [*path, *summand.given]
    if world.proves(condition, given):
        return [Summand(summand.indices, (then, *others))]
    if world.proves(z3.Not(condition), given):
        return [Summand(summand.indices, (other, *others))]
    for place, (index, extent) in enumerate(summand.indices):
        border = _border(condition, index)
        if border is None or not world.proves(arith.conjunction((arith.le(0, border), arith.le(border, extent))), path):
            continue
        rest = [p for k, p in enumerate(summand.indices) if k != place]
        behind = world.integer("k")
        moved = [z3.substitute(f, (index, behind + border)) for f in (other, *others)]
        return [
            Summand((*rest, (index, border)), (then, *others)),
            Summand((*rest, (behind, arith.sub(extent, border))), tuple(moved)),
        ]
    return None


def _border(condition: z3.BoolRef, index: z3.ArithRef) -> Int | None:
    """b where the condition says that the index is below b."""
    if z3.is_lt(condition) and condition.arg(0).eq(index):
        return condition.arg(1)
    return None


def equal_sums(world: World, left: z3.ExprRef, right: z3.ExprRef, path: Sequence[Bool], equal: Equal) -> bool:
    """Whether two elements are one up to the order of sums and products."""
    first, second = expand(world, left, path), expand(world, right, path)
    first = [s for s in (_trimmed(world, s, path) for s in first) if s is not None]
    second = [s for s in (_trimmed(world, s, path) for s in second) if s is not None]
    if len(first) != len(second):
        return False
    for a in first:
        fit = next((b for b in second if _same(world, a, b, path, equal)), None)
        if fit is None:
            return False
        second.remove(fit)
    return True


def _trimmed(world: World, summand: Summand, path: Sequence[Bool]) -> Summand | None:
    """Without indices that run over one place; None for a sum of nothing."""
    factors = summand.factors
    kept = []
    for index, extent in summand.indices:
        if world.proves(arith.eq(extent, 0), path):
            return None
        if world.proves(arith.eq(extent, 1), path):
            factors = tuple(z3.substitute(f, (index, z3.IntVal(0))) for f in factors)
        else:
            kept.append((index, extent))
    return Summand(tuple(kept), factors)


def _same(world: World, a: Summand, b: Summand, path: Sequence[Bool], equal: Equal) -> bool:
    if len(a.indices) != len(b.indices) or len(a.factors) != len(b.factors):
        return False
    given = [*path, *a.given]
    for order in permutations(b.indices):
        pairs = list(zip(a.indices, order, strict=True))
        if not all(world.proves(arith.eq(d, e), path) for (_, d), (_, e) in pairs):
            continue
        names = [(j, i) for (i, _), (j, _) in pairs]
        factors = [z3.substitute(f, *names) if names else f for f in b.factors]
        if _factors(world, a.factors, factors, given, equal):
            return True
    return False


def _factors(
    world: World, left: Sequence[z3.ExprRef], right: list[z3.ExprRef], given: Sequence[Bool], equal: Equal
) -> bool:
    free = list(right)
    for f in left:
        fit = next((k for k, g in enumerate(free) if equal(f, g, given)), None)
        if fit is None:
            return False
        del free[fit]
    return True
