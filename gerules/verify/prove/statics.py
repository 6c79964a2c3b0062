"""Static expressions in symbols: numbers and lists whose entries may be terms, conditions that are truths of z3.

Where the engine's expression is true when something is *known*, this one is true when it is so: what is proved then
holds whatever is known. Lists have concrete lengths; what picks from them is concrete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import z3

from gerules.dsl import ast
from gerules.registry.definition import OperatorDef
from gerules.static.context import DTYPES
from gerules.static.values import in_class
from gerules.verify.prove import arith
from gerules.verify.prove.arith import Bool, Int
from gerules.verify.prove.functions import FUNCTIONS, floor_div, floor_mod
from gerules.verify.prove.world import (
    ABSENT,
    BELOW,
    ELEMENT,
    NOT_ABOVE,
    NUMBER,
    Absent,
    Beyond,
    Element,
    Hole,
    Kind,
    Leaf,
    Skip,
    Tensor,
    World,
)

if TYPE_CHECKING:
    from gerules.egraph.program import Knowledge

Value = object
Axes: TypeAlias = Bool | tuple["Axes", ...]
WORDS: Mapping[str, Value] = {"none": None, "true": True, "false": False, "inf": float("inf")}


def is_int(value: Value) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or isinstance(value, z3.ArithRef)


def settled(value: Value) -> Value:
    """A value without the wrappings of what was open: a decided attribute, the contents of a constant."""
    if isinstance(value, Hole):
        return value.value if value.decided else value
    return value


def contents(leaf: Leaf) -> Value:
    """What `const(v)` and `dims(s)` bind: the entries of a vector, the entry of a scalar."""
    if leaf.contents is not None:
        return leaf.contents[0] if not leaf.shape else leaf.contents
    if leaf.decided and not leaf.shape:
        return Element(leaf.at(()))
    if not leaf.decided:
        raise Beyond(f"what {leaf.name.partition('!')[0]} holds is asked before its operator gives it a form")
    raise Beyond("the elements of a constant tensor as static values")


class Contents:
    """The static side of a constant on the left: its leaf is decided by the operator that takes it."""

    def __init__(self, leaf: Leaf) -> None:
        self.leaf = leaf


class Untold(Beyond):
    """A condition on element types that are open here."""


class Evaluator:
    """Values of expressions in one world. `env` is shared with the reading of terms."""

    def __init__(self, world: World, known: Knowledge, file: ast.RuleFile, env: dict[str, Value]) -> None:
        self.world, self.known, self.file, self.env = world, known, file, env
        self.top: ast.Expr | None = None
        """The condition that is read: it alone may make two element types one."""

    # ------------------------------------------------------------------------------------------------------ values

    def value(self, expr: ast.Expr) -> Value:
        match expr:
            case ast.Number(value=v) | ast.Text(value=v):
                return v
            case ast.Word(word=word):
                return WORDS[word]
            case ast.Name(id=name) if name in DTYPES and name not in self.env:
                return name
            case ast.Name(id=name):
                if name not in self.env:
                    raise Beyond(f"`{name}`, which is bound nowhere")
                found = settled(self.env[name])
                return contents(found.leaf) if isinstance(found, Contents) else found
            case ast.Symbol():
                members = self.known.program.classes.get(expr.name) if expr.version is None else None
                if members is None:
                    raise Beyond(f"the symbol {expr}")
                return frozenset(members.keys)
            case ast.ListExpr(items=items):
                return self._list(items)
            case ast.SetExpr(items=items):
                return frozenset(self._member(self.value(i)) for i in items)
            case ast.Field(base=base, name=name):
                return read_field(self.value(base), name)
            case ast.Index(base=base, index=index):
                return pick(self.value(base), self.value(index))
            case ast.Unary(op="-", operand=operand):
                return elementwise(_minus, 0, self.value(operand))
            case ast.Binary(op=op, left=left, right=right):
                return self._binary(op, self.value(left), self.value(right))
            case ast.Call(head=ast.Name(id=name)) if name not in ("all", "some"):
                return self._call(name, expr)
        return self.truth(expr)

    @staticmethod
    def _member(value: Value) -> Value:
        return str(value) if isinstance(value, Kind) else value

    def _list(self, items: tuple[ast.Expr, ...]) -> tuple[Value, ...]:
        entries: list[Value] = []
        for item in items:
            if isinstance(item, ast.Rest):
                if item.expr is None:
                    raise Beyond("`..` without a name in a list")
                spliced = self.value(item.expr)
                if not isinstance(spliced, tuple):
                    raise Beyond("a rest that is no list")
                entries += spliced
            else:
                entry = self.value(item)
                if isinstance(entry, Hole):
                    raise Beyond(
                        f"an entry that is {entry.name.partition('!')[0]}, which no operator here gives a meaning"
                    )
                entries.append(entry)
        return tuple(entries)

    def _binary(self, op: str, a: Value, b: Value) -> Value:
        if isinstance(a, frozenset) and isinstance(b, frozenset):
            return a | b if op == "|" else a & b if op == "&" else a - b
        world = self.world
        table: dict[str, Callable[[Int, Int], Int]] = {
            "+": arith.add,
            "-": arith.sub,
            "*": arith.mul,
            "//": lambda x, y: floor_div(world, x, y),
            "%": lambda x, y: floor_mod(world, x, y),
        }
        if op not in table:
            raise Beyond(f"the operation {op}")
        return elementwise(table[op], a, b)

    def _call(self, name: str, call: ast.Call) -> Value:
        if name not in FUNCTIONS:
            raise Beyond(f"the function {name}")
        arguments: list[Value] = []
        for item in call.operands:
            if isinstance(item, ast.Rest):
                assert item.expr is not None
                spliced = self.value(item.expr)
                if not isinstance(spliced, tuple):
                    raise Beyond("a rest that is no list")
                arguments += spliced
            else:
                arguments.append(self.value(item))
        if any(a is None for a in arguments):
            raise Skip  # no answer, and the rule does not fire
        if any(isinstance(a, Hole) for a in arguments):
            raise Beyond(f"{name} of an attribute that no operator here gives a meaning")
        return FUNCTIONS[name](self.world, *arguments)

    # ------------------------------------------------------------------------------------------------------- truth

    def truth(self, expr: ast.Expr) -> Bool:
        match expr:
            case ast.Compare(op=op, left=left, right=right):
                a, b = self.value(left), self.value(right)
                if op == "==" and expr is self.top and (isinstance(a, Kind) or isinstance(b, Kind)):
                    return self._join_kinds(a, b)
                return self._compare(op, a, b)
            case ast.Unary(op="not", operand=operand):
                return arith.negation(self.truth(operand))
            case ast.Call(head=ast.Name(id="lossless")) if expr is self.top:
                source, target = (self.value(o) for o in expr.operands)
                self.world.lossless.append((self._kind(source), self._kind(target)))
                return True
            case ast.Logical(op=op, operands=operands):
                sides = [self.truth(side) for side in operands]
                return arith.conjunction(sides) if op == "and" else arith.disjunction(sides)
            case ast.Call(head=ast.Name(id=("all" | "some") as quantifier), operands=(inner,)):
                axes = list(_flat(self.axes(inner)))
                return arith.conjunction(axes) if quantifier == "all" else arith.disjunction(axes)
        found = self.value(expr)
        if isinstance(found, (bool, z3.BoolRef)):
            return found
        raise Beyond("a condition that is no truth")

    def axes(self, expr: ast.Expr) -> Axes:
        """The truth of a condition on every axis."""
        match expr:
            case ast.Compare(op="in", left=left, right=right):
                container = self.value(right)
                return _each(lambda a: self._in(a, container), self.value(left))
            case ast.Compare(op=op, left=left, right=right):
                return self._on_axes(op, self.value(left), self.value(right))
            case ast.Logical(op=op, operands=operands):
                result = self.axes(operands[0])
                for side in operands[1:]:
                    result = _join(op, result, self.axes(side))
                return result
            case ast.Unary(op="not", operand=operand):
                return _invert(self.axes(operand))
        return self.truth(expr)

    def _on_axes(self, op: str, a: Value, b: Value) -> Axes:
        if isinstance(a, tuple) and isinstance(b, tuple):
            if len(a) != len(b):
                raise Skip
            return tuple(self._on_axes(op, x, y) for x, y in zip(a, b, strict=True))
        if isinstance(a, tuple):
            return tuple(self._on_axes(op, x, b) for x in a)
        if isinstance(b, tuple):
            return tuple(self._on_axes(op, a, y) for y in b)
        return self._compare(op, a, b)

    def _compare(self, op: str, a: Value, b: Value) -> Bool:
        if op == "==":
            return self.equal(a, b)
        if op == "!=":
            return arith.negation(self.equal(a, b))
        if op == "in":
            return self._in(a, b)
        a, b = self._settled(a), self._settled(b)
        if isinstance(a, tuple) or isinstance(b, tuple):
            return arith.conjunction(_flat(self._on_axes(op, a, b)))
        if a is None or b is None:
            raise Skip
        a, b = _of_attribute(a), _of_attribute(b)
        if isinstance(a, Element) or isinstance(b, Element):
            return element_order(op, a, b)
        if not (is_int(a) and is_int(b)):
            raise Beyond("an order of values of this kind")
        x, y = (b, a) if op in (">", ">=") else (a, b)
        return arith.lt(x, y) if op in ("<", ">") else arith.le(x, y)

    def equal(self, a: Value, b: Value) -> Bool:
        """Whether two static values are one. Two element types are joined: the premise that they are equal."""
        for x, y in ((a, b), (b, a)):
            if isinstance(x, Hole):
                return self._equal_hole(x, y)
            if y is None or y is ABSENT:
                return self._absent(x)
        if isinstance(a, tuple) and isinstance(b, tuple):
            if len(a) != len(b):
                return False
            return arith.conjunction(self.equal(x, y) for x, y in zip(a, b, strict=True))
        if is_int(a) and is_int(b):
            return arith.eq(a, b)
        if isinstance(a, Kind) or isinstance(b, Kind):
            return self._equal_kinds(a, b)
        if isinstance(a, (str, frozenset)) and isinstance(b, (str, frozenset)):
            return a == b
        if isinstance(a, Element) and isinstance(b, Element):
            return True if a.term.eq(b.term) else a.term == b.term
        if isinstance(a, (int, float)) and isinstance(b, (int, float)):
            return a == b
        raise Beyond("an equation between values of this kind")

    def _absent(self, value: Value) -> Bool:
        if isinstance(value, Leaf) and value.optional:
            raise Beyond("whether an operand is there, which its operator does not ask")
        return value is None or isinstance(value, Absent)

    def _settled(self, value: Value) -> Value:
        """A whole number that no operator gave a meaning is any; it may be unset where it may be left out."""
        if not isinstance(value, Hole) or value.kind != "int":
            return value
        if not value.decided:
            number = self.world.integer(value.name)
            value.decide((number,) if value.required or value.default is not None else (number, None))
        return value.value

    def _equal_hole(self, hole: Hole, other: Value) -> Bool:
        if other is None:
            if hole.required or hole.default is not None:
                return False
            raise Beyond(f"whether {hole.name} is set")
        if hole.kind == "int" and not isinstance(other, Hole):
            return self.equal(self._settled(hole), other)
        raise Beyond(f"a condition on {hole.name.partition('!')[0]}, which no operator here gives a meaning")

    def _word(self, hole: Hole, container: frozenset[Value]) -> Value:
        """A text that is one of some words, as a premise: which one is decided."""
        if hole.decided:
            return hole.value
        at_top = isinstance(self.top, ast.Compare) and self.top.op == "in"
        words = sorted(str(w) for w in container)
        if not at_top or any(not isinstance(w, str) for w in container):
            raise Beyond(f"a condition on {hole.name.partition('!')[0]}, which no operator here gives a meaning")
        return hole.decide(words)

    def _kind(self, value: Value) -> Kind:
        return value if isinstance(value, Kind) else self.world.named_kind(str(value))

    def _join_kinds(self, a: Value, b: Value) -> Bool:
        """`x.dtype == t` as a premise."""
        self.world.unify(self._kind(a), self._kind(b))
        return True

    def _equal_kinds(self, a: Value, b: Value) -> Bool:
        left, right = self._kind(a).find(), self._kind(b).find()
        if left is right:
            return True
        if left.name is not None and right.name is not None:
            return left.name == right.name
        raise Untold("element types that are equal or not")

    def _in(self, value: Value, container: Value) -> Bool:
        if isinstance(value, OperatorDef) and isinstance(container, frozenset):
            return in_class(value, container)
        if isinstance(value, Kind) and isinstance(container, frozenset):
            root = value.find()
            if root.name is None:
                raise Untold("the class of an element type")
            return root.name in container
        if isinstance(value, Hole) and value.kind == "str" and isinstance(container, frozenset):
            value = self._word(value, container)
        if isinstance(value, str) and isinstance(container, frozenset):
            return value in container
        if is_int(value) and isinstance(container, (frozenset, tuple)):
            return arith.disjunction(arith.eq(value, c) for c in container)
        raise Beyond("membership of values of this kind")


# ------------------------------------------------------------------------------------------------------------ pieces


def element_order(op: str, a: Value, b: Value) -> Bool:
    """An order of elements, of which z3 knows what `values` tells."""
    left, right = (v.term if isinstance(v, Element) else literal(v) for v in (a, b))
    x, y = (right, left) if op in (">", ">=") else (left, right)
    return BELOW(x, y) if op in ("<", ">") else NOT_ABOVE(x, y)


def _of_attribute(value: Value) -> Value:
    """A float attribute that is open is an element."""
    return Element(value.element()) if isinstance(value, Hole) and value.kind == "float" else value


def literal(value: object) -> z3.ExprRef:
    """A number, word or text as an element. `1` and `1.0` are one value; -0.0 is its own."""
    if isinstance(value, bool):
        return z3.Const("true" if value else "false", ELEMENT)
    if isinstance(value, int):
        return NUMBER(z3.IntVal(value))
    if isinstance(value, float) and value.is_integer() and str(value) != "-0.0":
        return NUMBER(z3.IntVal(int(value)))
    return z3.Const(repr(value), ELEMENT)


def _minus(a: Int, b: Int) -> Int:
    if isinstance(b, float):
        return -b
    return arith.sub(a, b)


def elementwise(f: Callable[[Int, Int], Int], a: Value, b: Value) -> Value:
    if isinstance(a, tuple) and isinstance(b, tuple):
        if len(a) != len(b):
            raise Skip
        return tuple(elementwise(f, x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, tuple):
        return tuple(elementwise(f, x, b) for x in a)
    if isinstance(b, tuple):
        return tuple(elementwise(f, a, y) for y in b)
    if isinstance(b, float) and a == 0 and f is _minus:
        return -b
    if a is None or b is None:
        raise Skip
    if not (is_int(a) and is_int(b)):
        raise Beyond("arithmetic on elements")
    return f(a, b)


def read_field(base: Value, name: str) -> Value:
    if isinstance(base, Tensor):
        if name == "shape":
            return base.shape
        if name == "rank":
            return base.rank
        if name == "dtype":
            return base.kind
        if name == "size":
            return base.size
        raise Beyond(f"the field {name}")
    if isinstance(base, tuple):
        if name == "size" and not any(isinstance(b, (Tensor, tuple)) for b in base):
            return len(base)
        return tuple(read_field(b, name) for b in base)
    if base is None:
        raise Skip
    raise Beyond(f"the field {name} of this")


def pick(base: Value, index: Value) -> Value:
    if base is None or index is None:
        raise Skip
    if not isinstance(base, tuple):
        raise Beyond("an entry of what is no list")
    if any(isinstance(b, tuple) for b in base):
        return tuple(pick(b, index) for b in base)
    if isinstance(index, frozenset):
        index = tuple(sorted(index))
    if isinstance(index, tuple):
        return tuple(_at(base, i) for i in index)
    return _at(base, index)


def _at(base: tuple[Value, ...], index: Value) -> Value:
    if not isinstance(index, int):
        raise Beyond("an entry at a place that is not concrete")
    if not -len(base) <= index < len(base):
        raise Skip
    return base[index]


def _each(f: Callable[[Value], Bool], value: Value) -> Axes:
    return tuple(_each(f, v) for v in value) if isinstance(value, tuple) else f(value)


def _join(op: str, a: Axes, b: Axes) -> Axes:
    if isinstance(a, tuple) and isinstance(b, tuple):
        if len(a) != len(b):
            raise Skip
        return tuple(_join(op, x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, tuple):
        return tuple(_join(op, x, b) for x in a)
    if isinstance(b, tuple):
        return tuple(_join(op, a, y) for y in b)
    return arith.conjunction((a, b)) if op == "and" else arith.disjunction((a, b))


def _invert(a: Axes) -> Axes:
    return tuple(map(_invert, a)) if isinstance(a, tuple) else arith.negation(a)


def _flat(axes: Axes) -> list[Bool]:
    found: list[Bool] = []
    waiting: list[Axes] = [axes]
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            waiting += reversed(item)
        else:
            found.append(item)
    return found
