"""Meanings of operators that look at elements in ways of their own, and of makers of values."""

from __future__ import annotations

import z3

from gerules.verify.prove import arith
from gerules.verify.prove.access import element_label, elementwise, function, mapped, meaning
from gerules.verify.prove.application import Application
from gerules.verify.prove.arith import Bool, Int
from gerules.verify.prove.functions import broadcast_shapes
from gerules.verify.prove.statics import literal
from gerules.verify.prove.values import HIGHEST, LOWEST
from gerules.verify.prove.world import (
    ELEMENT,
    NUMBER,
    Beyond,
    Element,
    Hole,
    Kind,
    Leaf,
    Node,
    Skip,
    Tensor,
    work_name,
)

TRUTH = z3.Function("truth", ELEMENT, z3.BoolSort())
"""Whether an element of type bool is true."""


def truth(element: z3.ExprRef) -> Bool:
    if element.eq(literal(True)):
        return True
    if element.eq(literal(False)):
        return False
    if element.num_args() == 1 and work_name(element).startswith("Not@"):
        return arith.negation(truth(element.arg(0)))
    return TRUTH(element)


@meaning("Where")
def where(app: Application) -> Tensor:
    condition, x, z = app.tensor(0), app.tensor(1), app.tensor(2)
    return mapped(app, (condition, x, z), lambda e: arith.choose(truth(e[0]), e[1], e[2]), app.result_kind())


def scalar(app: Application, operand: Tensor) -> z3.ExprRef:
    """The element of an operand that has to be a scalar."""
    if isinstance(operand, Leaf) and not operand.decided:
        operand.decide(0)
    if operand.rank:
        raise Beyond(f"a limit of {app.name} that is no scalar")
    return operand.at(())


@meaning("Clip")
def clip(app: Application) -> Tensor:
    """Min(high, Max(x, low)), by definition; a limit that is absent is left out. Attributes before 11, and before 6
    those that are absent are the ends of the type."""
    x = app.tensor(0)
    low: z3.ExprRef | None
    high: z3.ExprRef | None
    if app.since < (11,):
        low, high = (_attribute(app, name, end, x.kind) for name, end in (("min", LOWEST), ("max", HIGHEST)))
    else:
        limits = [app.optional(1), app.optional(2)]
        low, high = (None if t is None else scalar(app, t) for t in limits)

    def work(element: z3.ExprRef) -> z3.ExprRef:
        if low is not None:
            element = function(app.world, "Max", (x.kind,), element, low)
        return element if high is None else function(app.world, "Min", (x.kind,), element, high)

    return mapped(app, (x,), lambda e: work(e[0]), x.kind)


def _attribute(app: Application, name: str, end: str, kind: Kind) -> z3.ExprRef:
    """A limit that is an attribute; of one that is absent the end of the type."""
    value = app.attributes.get(name)
    open_ = isinstance(value, Hole) and not value.decided and value.default is None and not value.required
    if isinstance(value, Hole) and open_ and not app.world.pick((True, False), value.name + " is set"):
        value.decided = True
    if isinstance(value, Hole) and value.decided:
        value = value.value
    if value is None:
        return function(app.world, end, (kind,))
    if isinstance(value, Hole):
        value.required = True
        return value.element()
    return value.term if isinstance(value, Element) else literal(value)


def _target(app: Application) -> Kind:
    value = app.attributes.get("to")
    if isinstance(value, Hole):
        return app.world.derived_kind(f"to {value.name}")
    return value if isinstance(value, Kind) else app.world.named_kind(str(value))


@meaning("Cast")
def cast(app: Application) -> Tensor:
    """A conversion of elements: nothing where the types are one; back from a type that holds every value, nothing."""
    x = app.tensor(0)
    return converted(app, x, _target(app), [a for a in ("saturate", "round_mode") if a in app.attributes])


@meaning("CastLike")
def cast_like(app: Application) -> Tensor:
    x, like = app.tensor(0), app.tensor(1)
    return converted(app, x, like.kind, [a for a in ("saturate", "round_mode") if a in app.attributes])


def converted(app: Application, x: Tensor, target: Kind, attributes: list[str]) -> Tensor:
    world, source = app.world, x.kind
    name = app.signature.definition.key

    def work(element: z3.ExprRef) -> z3.ExprRef:
        # Which types are one is told by conditions, which are read after the left side: so it is asked here.
        if str(source) == str(target):
            return element
        if element.num_args() == 1 and element.decl().name() == f"cast exactly {target}>{source}":
            return element.arg(0)
        if any(str(a) == str(source) and str(b) == str(target) for a, b in world.lossless):
            return z3.Function(f"cast exactly {source}>{target}", ELEMENT, ELEMENT)(element)
        label = f"cast {name} {source}>{target} {[app.text(a) for a in attributes]}"
        return z3.Function(label, ELEMENT, ELEMENT)(element)

    return mapped(app, (x,), lambda e: work(e[0]), target)


@meaning("PRelu")
def prelu(app: Application) -> Tensor:
    """The slope is stretched to x (since 7), never x to the slope."""
    x, slope = app.tensor(0), app.tensor(1)
    if app.since < (7,):
        raise Beyond("PRelu below 7")
    shape = broadcast_shapes(app.world, [x.shape, slope.shape])
    if len(shape) != x.rank:
        app.fail()
    app.world.demand(*(arith.eq(a, b) for a, b in zip(shape, x.shape, strict=True)))
    made = mapped(app, (x, slope), lambda e: function(app.world, "PRelu", (x.kind,), *e), x.kind)
    return Tensor(x.kind, x.shape, made.at, uniform=made.uniform)


@meaning("Dropout")
def dropout(app: Application) -> Node:
    """Outside of training x itself, and a mask that lets everything through."""
    x = app.tensor(0)
    if app.since < (7,):
        if app.attribute("is_test", (0, 1)) != 1:
            raise Beyond("Dropout in training")
    elif app.since >= (12,):
        ratio, training = app.optional(1), app.optional(2)
        if isinstance(ratio, Leaf) and not ratio.decided:
            ratio.decide(0)
        if ratio is not None and ratio.rank:
            app.fail()
        if training is not None and (training.uniform is None or not training.uniform.eq(literal(False))):
            raise Beyond("Dropout in training")
    true = literal(True)
    mask = Tensor(app.world.named_kind("bool"), x.shape, lambda i: true, flat=lambda i: true, uniform=true)

    def make(result: int) -> Tensor:
        if result and app.since < (10,):
            raise Beyond("the mask of Dropout below 10")
        return mask if result else x

    return Node(app.label(), make, None)


@meaning("ConstantOfShape")
def constant_of_shape(app: Application) -> Tensor:
    shape = app.entries(0, range(app.world.ranks + 1), "extent")
    app.world.demand(*(arith.le(0, d) for d in shape))
    value = app.attributes.get("value")
    if value is not None:
        raise Beyond("ConstantOfShape with a value of its own")
    zero = NUMBER(z3.IntVal(0))
    return Tensor(app.world.named_kind("f32"), shape, lambda i: zero, flat=lambda i: zero, uniform=zero)


@meaning("Shape")
def shape_of(app: Application) -> Tensor:
    """The extents of x, from `start` to `end` as Python cuts lists (since 15)."""
    x = app.tensor(0)
    extents = x.shape
    if app.since >= (15,):
        start = app.attribute("start", range(-x.rank, x.rank + 1))
        end = app.attribute("end", range(-x.rank, x.rank + 1))
        assert isinstance(start, int) and (end is None or isinstance(end, int))
        extents = extents[start:end]
    return numbers(app.world.named_kind("i64"), extents)


@meaning("Size")
def size_of(app: Application) -> Tensor:
    size = app.tensor(0).size
    return Tensor(app.world.named_kind("i64"), (), lambda i: NUMBER(size), contents=(size,), uniform=NUMBER(size))


def numbers(kind: Kind, entries: tuple[Int, ...]) -> Tensor:
    """A vector of whole numbers."""

    def at(index: tuple[Int, ...]) -> z3.ExprRef:
        found: Int = 0
        for place, entry in reversed(list(enumerate(entries))):
            found = arith.ite(arith.eq(index[0], place), entry, found)
        return NUMBER(found)

    return Tensor(kind, (len(entries),), at, contents=entries)


@meaning("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less")
def binary(app: Application) -> Tensor:
    """NumPy's broadcasting since 7. Before, operands are of one shape, or with broadcast=1 the second lies within the
    first: from `axis` on, else at its end, or is one element."""
    if "broadcast" not in app.attributes:
        return elementwise(app)
    x, y = app.tensor(0), app.tensor(1)
    name = app.name
    kind = app.result_kind()
    if not app.flag("broadcast"):
        app.like((x, y))
        if x.rank != y.rank:
            app.fail()
        app.world.demand(*(arith.eq(a, b) for a, b in zip(x.shape, y.shape, strict=True)))
        return Tensor(kind, x.shape, lambda i: function(app.world, name, (x.kind, y.kind), x.at(i), y.at(i)))
    if y.rank > x.rank:
        app.fail()
    axis = app.attribute("axis", range(-x.rank, x.rank - y.rank + 1))
    start = x.rank - y.rank if axis is None else axis
    assert isinstance(start, int)
    start = start + x.rank if start < 0 else start
    if start + y.rank > x.rank:
        app.fail()
    inside = x.shape[start : start + y.rank]
    app.world.uneven = True
    app.world.guards += 1
    alike = arith.conjunction(arith.eq(a, b) for a, b in zip(inside, y.shape, strict=True))
    one = arith.conjunction(arith.eq(d, 1) for d in y.shape)
    app.world.demand(arith.disjunction((alike, one)))

    def at(index: tuple[Int, ...]) -> z3.ExprRef:
        place = tuple(arith.ite(one, 0, i) for i in index[start : start + y.rank])
        return function(app.world, name, (x.kind, y.kind), x.at(index), y.at(place))

    return Tensor(kind, x.shape, at)


@meaning("Max", "Min", "Sum", "Mean")
def variadic(app: Application) -> Tensor:
    """NumPy's broadcasting since 8; before, operands of one shape."""
    parts = app.tensors
    if not parts:
        raise Skip
    if app.since >= (8,) or len(parts) == 1:
        return elementwise(app)
    app.like(parts)
    for p in parts[1:]:
        if p.rank != parts[0].rank:
            app.fail()
        app.world.demand(*(arith.eq(a, b) for a, b in zip(parts[0].shape, p.shape, strict=True)))
    label = element_label(app)

    def at(index: tuple[Int, ...]) -> z3.ExprRef:
        return function(app.world, label, (p.kind for p in parts), *(p.at(index) for p in parts))

    return Tensor(app.result_kind(), parts[0].shape, at)
