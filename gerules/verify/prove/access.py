"""What operators mean to the prover: for each, shape, validity and the element at an index.

A meaning is registered under the operator's name and knows its versions. What has none is element-wise if its class
says so, else opaque: equal operands and attributes give equal results, and nothing more is known of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import z3

from gerules.registry.definition import VARIADIC
from gerules.verify.prove import arith, works
from gerules.verify.prove.application import Application
from gerules.verify.prove.arith import Int
from gerules.verify.prove.functions import broadcast_shapes
from gerules.verify.prove.world import (
    ABSENT,
    ELEMENT,
    OF,
    Absent,
    Beyond,
    Hole,
    Index,
    Invalid,
    Kind,
    Node,
    Opaque,
    Tensor,
    World,
)

if TYPE_CHECKING:
    from gerules.egraph.program import Knowledge

Meaning = Callable[[Application], Tensor | Node]
MEANINGS: dict[tuple[str, str], Meaning] = {}
"""By domain and name; filled when the modules with the meanings are imported."""

SAME_WORK: Final = frozenset(
    (
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Pow",
        "And",
        "Or",
        "Xor",
        "Equal",
        "Greater",
        "Less",
        "Max",
        "Min",
        "Sum",
        "Mean",
        "PRelu",
    )
)
"""Operators whose work on elements no version changed: only which operands may be stretched."""


def meaning(*names: str, domain: str = "") -> Callable[[Meaning], Meaning]:
    """Registers the meaning of operators of a domain."""

    def register(function: Meaning) -> Meaning:
        for name in names:
            assert (domain, name) not in MEANINGS, name
            MEANINGS[domain, name] = function
        return function

    return register


def apply(app: Application, known: Knowledge) -> Tensor | Node:
    """The result of an application. Raises Beyond, Skip or Invalid."""
    definition = app.signature.definition
    found = MEANINGS.get((definition.domain, definition.name))
    works.admit_words(app)
    if found is not None:
        try:
            return found(app)
        except Beyond as why:
            if why.__class__ is not Beyond:
                raise
            return opaque(app, known, why)
    if definition.key in elementwise_keys(ById(known)) or works.shares(app, elementwise_keys(ById(known))):
        return elementwise(app)
    return opaque(app, known)


class ById:
    """Knowledge as a key: the same object."""

    def __init__(self, known: Knowledge) -> None:
        self.known = known

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ById) and other.known is self.known

    def __hash__(self) -> int:
        return id(self.known)


@lru_cache(maxsize=4)
def elementwise_keys(key: ById) -> frozenset[str]:
    """The semantic versions of the operators in the class `Elementwise`."""
    return class_keys(key, "Elementwise")


@lru_cache(maxsize=8)
def class_keys(key: ById, name: str) -> frozenset[str]:
    """The semantic versions of the operators in a class."""
    known = key.known
    members = known.program.classes.get(name)
    keys = members.keys if members is not None else ()
    return frozenset(known.semantic(known.program.definition(k)) for k in keys)


# ------------------------------------------------------------------------------------------------------ element-wise


def stretch(index: Index, shape: tuple[Int, ...], out: tuple[Int, ...]) -> Index:
    """The index into a tensor of `shape` for an index into the broadcast `out`."""
    skipped = len(out) - len(shape)
    return tuple(
        i if arith.same(d, whole) else arith.ite(arith.eq(d, 1), 0, i)
        for d, i, whole in zip(shape, index[skipped:], out[skipped:], strict=True)
    )


def function(world: World, label: str, kinds: Iterable[Kind], *arguments: z3.ExprRef) -> z3.ExprRef:
    """An uninterpreted function of elements of some types: one work on two types is two functions (7 / 2)."""
    name = f"{label}{OF}{world.label_of(kinds)}"
    return z3.Function(name, *[ELEMENT] * len(arguments), ELEMENT)(*arguments)


def element_label(app: Application) -> str:
    """The name of what an element-wise operator does: operator, attributes, element types."""
    definition = app.signature.definition
    if definition.name not in SAME_WORK:
        found = works.label(app)  # behind the name, by which laws of elements know it
        return found if found.startswith(definition.name) else definition.name + found
    told = [a.name for a in app.signature.attributes if works.told(app, a.name)]
    attributes = ",".join(f"{name}={app.text(name)}" for name in told)
    return f"{definition.name}({attributes})" if attributes else definition.name


def elementwise(app: Application) -> Tensor:
    """Any function of elements, with NumPy's broadcasting."""
    tensors = app.tensors
    label = element_label(app)
    if len(tensors) == 1 and app.signature.variadic:
        return tensors[0]
    places = "".join("-" if isinstance(o, Absent) else "x" for o in app.operands)
    if "-" in places:
        label += places
    return mapped(app, tensors, lambda e: function(app.world, label, (t.kind for t in tensors), *e), app.result_kind())


def mapped(
    app: Application, tensors: tuple[Tensor, ...], work: Callable[[list[z3.ExprRef]], z3.ExprRef], kind: Kind
) -> Tensor:
    """A function of elements over the broadcast of its operands."""
    if not tensors:
        raise Beyond(f"{app.name} without operands")
    shape = broadcast_shapes(app.world, [t.shape for t in tensors])
    uniform = None
    if all(t.uniform is not None for t in tensors) and not app.name.startswith("Cast"):
        uniform = work([t.uniform for t in tensors])

    def at(index: Index) -> z3.ExprRef:
        return work([t.at(stretch(index, t.shape, shape)) for t in tensors])

    def flat(place: Int) -> z3.ExprRef | None:
        # Of one shape all, but for one element that stands everywhere: then places are those of each operand.
        if not all(t.uniform is not None or _shaped(app.world, t, shape) for t in tensors):
            return None
        parts = [t.uniform if t.uniform is not None else t.flat(place) for t in tensors]
        return None if any(p is None for p in parts) else work([p for p in parts if p is not None])

    size = tensors[0].size if len(tensors) == 1 else None
    return Tensor(kind, shape, at, flat=flat, uniform=uniform, size=size)


def _shaped(world: World, x: Tensor, shape: tuple[Int, ...]) -> bool:
    """Whether x is shown to have this shape."""
    if x.rank != len(shape):
        return False
    return all(arith.same(a, b) or world.proves(arith.eq(a, b)) for a, b in zip(x.shape, shape, strict=True))


# ----------------------------------------------------------------------------------------------------------- opaque


def opaque(app: Application, known: Knowledge, why: Beyond | None = None) -> Tensor | Node:
    """An operator known by its name: its results are functions of what it is applied to.

    On the right an application is one of the left where operator and attributes are the same and operands are proved
    equal; results then are the same.
    """
    from gerules.verify.prove.compare import same_tensors

    world = app.world
    world.uneven = True
    works.admit_signs(app)
    label = works.label(app)
    operands = app.operands
    while operands and isinstance(operands[-1], Absent):
        operands = operands[:-1]
    impure = app.signature.definition.key in class_keys(ById(known), "Impure")
    if impure and world.right:
        raise Beyond(f"{app.name}, which gives another result each time")
    found = next(
        (
            o
            for o in world.opaque
            if not impure
            and o.label() == label
            and len(o.operands) == len(operands)
            and all(
                a is b or (isinstance(a, Tensor) and isinstance(b, Tensor) and same_tensors(world, a, b))
                for a, b in zip(o.operands, operands, strict=True)
            )
        ),
        None,
    )
    if found is None and why is not None and world.right:
        raise why  # its meaning could not say what it is, and it is none of the left side
    if found is None:
        found = Opaque(app.name, lambda: works.label(app), operands)
        if world.right:
            world.strangers.append(app.name)
        world.opaque.append(found)
    results = found.results

    def make(result: int) -> Tensor:
        if result not in results:
            results[result] = world.leaf(f"{app.name}.{result}", app.result_kind(result))
        return results[result]

    if not app.signature.several:
        return make(0)
    count = app.attributes.get("results")
    outputs = app.signature.newest.outputs
    most = 0 if any(o.kind == VARIADIC for o in outputs) else len(outputs)
    if isinstance(count, int):
        return Node(label, make, count)
    return Node(label, make, None, count if isinstance(count, Hole) else None, most)


__all__ = ["ABSENT", "MEANINGS", "Hole", "Invalid", "apply", "elementwise", "meaning"]
