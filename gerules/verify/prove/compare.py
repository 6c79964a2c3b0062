"""Whether two tensors of one world are equal: shapes, then elements at an index that could be any.

Elements are compared by their form: a choice is split by its condition, two applications of one function by their
arguments. What is left are equations between whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import z3

from gerules.verify.prove import arith
from gerules.verify.prove.access_sums import DOT, OF_ONE, SUM, single
from gerules.verify.prove.arith import Bool, Int
from gerules.verify.prove.regroup import groups, ravel, regrouped
from gerules.verify.prove.ring import equal_sums
from gerules.verify.prove.statics import literal
from gerules.verify.prove.values import ends_of, lawful
from gerules.verify.prove.world import ELEMENT, FLAT, NUMBER, Beyond, Binder, Index, Tensor, World, type_name, work_name

Pair = tuple[z3.ExprRef, z3.ExprRef, tuple[Bool, ...]]


def same_shapes(a: Tensor, b: Tensor) -> Bool:
    if a.rank != b.rank:
        return False
    return arith.conjunction(arith.eq(x, y) for x, y in zip(a.shape, b.shape, strict=True))


def same_tensors(world: World, a: Tensor, b: Tensor) -> bool:
    """Whether b is proved to be a: element type, shape, elements."""
    if a is b:
        return True
    if str(a.kind) != str(b.kind):
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
        if world.tolerant and _by_laws(world, left, right, tuple(given), tolerant=True):
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
    waiting: list[Pair] = [(left, right, tuple(given))]
    descended = False
    while waiting:
        a, b, path = waiting.pop()
        if a.eq(b):
            continue
        if _one_choice(a, b):
            truth = a.arg(0)
            (c, then, other), (d, then_too, other_too) = _choice(a), _choice(b)
            waiting += [(c, d, path), (then, then_too, (*path, truth)), (other, other_too, (*path, z3.Not(truth)))]
            descended = True
            read(world, a.arg(0))
            continue
        split = next((t for t in (a, b) if z3.is_app_of(t, z3.Z3_OP_ITE)), None)
        if split is not None:
            condition, then, other = split.children()
            read(world, condition)
            for truth, branch in ((condition, then), (z3.Not(condition), other)):
                if not world.proves(z3.Not(truth), path):
                    pair = (branch, b) if split is a else (a, branch)
                    waiting.append((*pair, (*path, truth)))
            continue
        if _by_binders(world, a, b, path, waiting) or _by_place(world, a, b, path):
            continue
        if _by_order(world, a, b, path):
            continue
        if _by_laws(world, a, b, path):
            continue
        if _by_parts(world, a, b, path, waiting):
            descended = descended or not placed(a)
            continue
        if not world.proves(a == b, path):
            world.question = [*path, a != b]
            world.in_values = bool(world.binders) or descended or not (placed(a) and placed(b))
            return False
    return True


def read(world: World, term: z3.ExprRef) -> None:
    """Notes which elements of leaves a term takes for their value, rather than to hand them on."""
    waiting = [world.premises().normal(term)]
    while waiting:
        node = waiting.pop()
        if node.sort() == ELEMENT and node.num_args() and placed(node) and not node.decl().eq(NUMBER):
            world.values.setdefault(node.decl().name(), set()).add(node.get_id())
            world.keep(node)
        else:
            waiting += node.children()


def _one_choice(a: z3.ExprRef, b: z3.ExprRef) -> bool:
    """Whether both choose by the truth of an element: then what is chosen by and from may be compared part by part."""
    return all(z3.is_app_of(t, z3.Z3_OP_ITE) and t.arg(0).decl().name() == "truth" for t in (a, b))


def _choice(a: z3.ExprRef) -> list[z3.ExprRef]:
    return [a.arg(0).arg(0), a.arg(1), a.arg(2)]


ORDER: Final[Mapping[str, Callable[[Int, Int], Bool]]] = {
    "Equal": arith.eq,
    "Greater": lambda x, y: arith.lt(y, x),
    "GreaterOrEqual": lambda x, y: arith.le(y, x),
    "Less": arith.lt,
    "LessOrEqual": arith.le,
}


def _by_order(world: World, a: z3.ExprRef, b: z3.ExprRef, path: tuple[Bool, ...]) -> bool:
    """Whether one compares whole numbers that are known, and the other says what comes out. Contents of whole types are
    the numbers that they are, so that nothing wraps around."""
    for asked, answer in ((a, b), (b, a)):
        order = ORDER.get(work_name(asked).partition("@")[0])
        kind = world.labelled.get(type_name(asked))
        if order is None or kind is None or not all(e.decl().eq(NUMBER) for e in asked.children()):
            continue
        types = world.types(kind)
        if not types or any(t[0] not in "iu" for t in types):
            continue
        holds = order(*(e.arg(0) for e in asked.children()))
        if answer.eq(literal(True)):
            return world.proves(holds, path)
        if answer.eq(literal(False)):
            return world.proves(arith.negation(holds), path)
    return False


def _by_laws(world: World, a: z3.ExprRef, b: z3.ExprRef, path: tuple[Bool, ...], tolerant: bool = False) -> bool:
    """Whether elements are one by what operators do to them; indices are put into one form first. Zeros of both signs
    are one where the rule is judged within a tolerance, but only as what both sides come to."""
    names = {type_name(t) for t in (a, b) if not placed(t)}
    kind = world.labelled.get(names.pop()) if len(names) == 1 else None
    if kind is None or not ends_of(a) | ends_of(b) <= {str(kind.find())}:
        return False
    premises = world.premises()
    known = [p for p in premises.rest if any(c.sort() == ELEMENT for c in p.children()) or z3.is_not(p)]
    left, right = premises.normal(a), premises.normal(b)
    left, right = _indices(world, left, right, path)
    if left.eq(right):
        return True  # of any function: no law is needed, and no element is taken for its value
    if not lawful(world, left, right, world.types(kind), known, tolerant):
        return False
    world.lawfully += 1
    if not tolerant:
        read(world, a)
        read(world, b)
    return True


def _indices(
    world: World, left: z3.ExprRef, right: z3.ExprRef, path: tuple[Bool, ...]
) -> tuple[z3.ExprRef, z3.ExprRef]:
    """Elements of leaves at places that are proved equal are written alike."""
    found: list[z3.ExprRef] = []
    pairs: list[tuple[z3.ExprRef, z3.ExprRef]] = []
    waiting = [left, right]
    while waiting:
        node = waiting.pop()
        if node.sort() == ELEMENT and node.num_args() and placed(node) and not node.decl().eq(NUMBER):
            twin = next((f for f in found if f.decl().eq(node.decl()) and _same_place(world, f, node, path)), None)
            if twin is None:
                found.append(node)
            elif not twin.eq(node):
                pairs.append((node, twin))
        elif node.sort() == ELEMENT:
            waiting += node.children()
    return (z3.substitute(left, *pairs), z3.substitute(right, *pairs)) if pairs else (left, right)


def _same_place(world: World, a: z3.ExprRef, b: z3.ExprRef, path: tuple[Bool, ...]) -> bool:
    return all(x.eq(y) or world.proves(x == y, path) for x, y in zip(a.children(), b.children(), strict=True))


def _by_binders(world: World, a: z3.ExprRef, b: z3.ExprRef, path: tuple[Bool, ...], waiting: list[Pair]) -> bool:
    """Whether elements that are reductions come down to others, which are left for later."""
    left, right = world.binders.get(a.get_id()), world.binders.get(b.get_id())
    if left is None and right is None and not (world.reassociates and {work_name(a), work_name(b)} & {"Add", "Mul"}):
        return False
    if left is not None and right is not None and (left.operation, left.kind) == (right.operation, right.kind):
        first, second = _long(world, left, path), _long(world, right, path)
        if len(first) == len(second) and all(
            world.proves(arith.eq(left.extents[k], right.extents[j]), path) for k, j in zip(first, second, strict=True)
        ):
            index = [world.integer("k") for _ in first]
            inner = (
                *path,
                *(c for i, k in zip(index, first, strict=True) for c in (i >= 0, arith.lt(i, left.extents[k]))),
            )
            parts = [_body(x, places, index) for x, places in ((left, first), (right, second))]
            if not world.reassociates:
                waiting += [(x, y, inner) for x, y in zip(*parts, strict=True)]
                return True
            if all(equal_elements(world, x, y, inner) for x, y in zip(*parts, strict=True)):
                return True
        elif not world.reassociates:
            return _regrouped(world, left, right, path, waiting)
    if world.reassociates:
        return equal_sums(world, a, b, path, lambda x, y, given: equal_elements(world, x, y, given))
    for one, other in ((left, b), (right, a)):
        if one is None:
            continue
        if one.operation in OF_ONE and not _long(world, one, path):
            waiting.append((single(one.operation, one.kind, _body(one, [], [])), other, path))
            return True
        if one.operation in (SUM, DOT) and any(world.proves(arith.eq(d, 0), path) for d in one.extents):
            waiting.append((NUMBER(z3.IntVal(0)), other, path))
            return True
    return False


def _by_place(world: World, a: z3.ExprRef, b: z3.ExprRef, path: tuple[Bool, ...]) -> bool:
    """Whether one is the element of a leaf at an index and the other the one at a place of its row-major sequence."""
    for at, flat in ((a, b), (b, a)):
        if flat.decl().name() == at.decl().name() + FLAT:
            leaf = next((t for t in world.leaves if t.name == at.decl().name()), None)
            if leaf is not None:
                return world.proves(arith.eq(ravel(at.children(), leaf.shape), flat.arg(0)), path)
    return False


def _regrouped(world: World, left: Binder, right: Binder, path: tuple[Bool, ...], waiting: list[Pair]) -> bool:
    """Whether two reductions visit elements in one row-major order under two shapes; then what they reduce is left."""
    ours, theirs = (tuple(x.extents[k] for k in _long(world, x, path)) for x in (left, right))
    parts = groups(world, theirs, ours)
    if parts is None:
        return False
    index, given = inside(world, ours)
    inner = (*path, *given)
    first = _body(left, _long(world, left, path), index)
    second = _body(right, _long(world, right, path), regrouped(world, parts, index, theirs, ours))
    waiting += [(x, y, inner) for x, y in zip(first, second, strict=True)]
    return True


def _long(world: World, binder: Binder, path: tuple[Bool, ...]) -> list[int]:
    """The indices that do not run over one place only."""
    return [k for k, d in enumerate(binder.extents) if not world.proves(arith.eq(d, 1), path)]


def _body(binder: Binder, places: list[int], index: Sequence[arith.Int]) -> tuple[z3.ExprRef, ...]:
    full: list[arith.Int] = [0] * len(binder.extents)
    for k, i in zip(places, index, strict=True):
        full[k] = i
    return binder.body(tuple(full))


def placed(element: z3.ExprRef) -> bool:
    """Whether an element is one of a leaf, or a constant: not the work of an operator."""
    return all(child.sort() != ELEMENT for child in element.children())


def _by_parts(
    world: World,
    a: z3.ExprRef,
    b: z3.ExprRef,
    path: tuple[Bool, ...],
    waiting: list[Pair],
) -> bool:
    """Applications of one function: whole-number arguments are asked now, elements are left for later."""
    if not (a.decl().eq(b.decl()) and a.num_args()):
        return False
    pairs = list(zip(a.children(), b.children(), strict=True))
    if not all(x.eq(y) or world.proves(x == y, path) for x, y in pairs if x.sort() != ELEMENT):
        return False
    waiting += [(x, y, path) for x, y in pairs if x.sort() == ELEMENT]
    return True
