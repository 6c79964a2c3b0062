"""Laws of what operators do to elements: in bits, for every element type that the rule admits.

Where two elements are not one by their form, what operators do is written out for each element type: whole numbers as
bit vectors of their width, with wrap-around; floats as IEEE 754 has them, in the type's own format, with every NaN one.
Elements of tensors and constants of the rule are any value. So `x * 1 = x` is shown of all 2^64 doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Final, TypeAlias

import z3

from gerules.verify.prove.statics import literal
from gerules.verify.prove.world import BELOW, ELEMENT, NOT_ABOVE, NUMBER, World, type_name, work_name

Term: TypeAlias = z3.ExprRef
BITS: Final = 10
"""How many times the resources of another question one in bits may use."""

ROUND: Final = z3.RNE()

_WIDTHS: Final = {f"{sign}{bits}": bits for sign in "iu" for bits in (2, 4, 8, 16, 32, 64)}
_FORMATS: Final = {"f16": (5, 11), "bf16": (8, 8), "f32": (8, 24), "f64": (11, 53)}
TYPES: Final = (*_WIDTHS, *_FORMATS, "bool")
"""Element types that laws can be shown for."""


class Unwritten(Exception):
    """An operator whose work is not written out for an element type."""


class NoSuchValue(Unwritten):
    """A literal that an element type does not have: -0.0 among whole numbers."""


def sort_of(kind: str) -> z3.SortRef:
    if kind == "bool":
        return z3.BoolSort()
    return z3.BitVecSort(_WIDTHS[kind]) if kind in _WIDTHS else z3.FPSort(*_FORMATS[kind])


def constant(kind: str, element: Term) -> Term | None:
    """A literal element as a value of a type; None where it is no literal, NoSuchValue where the type lacks it."""
    if element.eq(literal(True)) or element.eq(literal(False)):
        if kind != "bool":
            raise NoSuchValue
        return z3.BoolVal(bool(element.eq(literal(True))))
    if element.decl().eq(NUMBER) and z3.is_int_value(element.arg(0)):
        number = int(element.arg(0).as_long())
        if kind in _FORMATS:
            return z3.FPVal(number, sort_of(kind))
        if kind == "bool":
            raise NoSuchValue
        low = -(2 ** (_WIDTHS[kind] - 1)) if kind.startswith("i") else 0
        if not low <= number < low + 2 ** _WIDTHS[kind]:
            raise NoSuchValue
        return z3.BitVecVal(number, _WIDTHS[kind])
    end = work_name(element)
    if end in ENDS:
        if kind == "bool":
            raise Unwritten
        return _end(kind, end == HIGHEST)
    if z3.is_const(element):
        try:
            value = float(element.decl().name())
        except ValueError:
            return None
        if kind not in _FORMATS:
            raise NoSuchValue
        return z3.fpMinusZero(sort_of(kind)) if str(value) == "-0.0" else z3.FPVal(value, sort_of(kind))
    return None


LOWEST: Final = "lowest"
HIGHEST: Final = "highest"
ENDS: Final = frozenset((LOWEST, HIGHEST))
"""Constants that are the ends of their type."""


def _end(kind: str, high: bool) -> Term:
    """The largest or the least finite value of a type."""
    if kind in _FORMATS:
        exponent, significand = _FORMATS[kind]
        bits = z3.Concat(
            z3.BitVecVal(0 if high else 1, 1),
            z3.BitVecVal(2**exponent - 2, exponent),
            z3.BitVecVal(2 ** (significand - 1) - 1, significand - 1),
        )
        return z3.simplify(z3.fpToFP(bits, sort_of(kind)))
    width = _WIDTHS[kind]
    least = -(2 ** (width - 1)) if kind.startswith("i") else 0
    return z3.BitVecVal(least + 2**width - 1 if high else least, width)


def below(kind: str, a: Term, b: Term, strict: bool) -> Term:
    if kind in _FORMATS:
        return z3.fpLT(a, b) if strict else z3.fpLEQ(a, b)
    if kind.startswith("u"):
        return z3.ULT(a, b) if strict else z3.ULE(a, b)
    if kind == "bool":
        raise Unwritten
    return a < b if strict else a <= b


def _largest(kind: str, a: Term, b: Term, flip: bool) -> Term:
    """Max and Min as NumPy has them: a NaN wins; of equal ones the first."""
    more = below(kind, b, a, False) if not flip else below(kind, a, b, False)
    found = z3.If(more, a, b)
    if kind in _FORMATS:
        found = z3.If(z3.fpIsNaN(a), a, z3.If(z3.fpIsNaN(b), b, found))
    return found


def _relu(kind: str, a: Term) -> Term:
    zero = z3.fpPlusZero(sort_of(kind)) if kind in _FORMATS else z3.BitVecVal(0, _WIDTHS[kind])
    return _largest(kind, a, zero, False)


def _sign(kind: str, a: Term) -> Term:
    if kind in _FORMATS:
        one = z3.FPVal(1.0, sort_of(kind))
        zero = z3.fpPlusZero(sort_of(kind))
        return z3.If(z3.fpIsNaN(a), a, z3.If(z3.fpIsZero(a), zero, z3.If(z3.fpIsNegative(a), z3.fpNeg(one), one)))
    one, zero = z3.BitVecVal(1, _WIDTHS[kind]), z3.BitVecVal(0, _WIDTHS[kind])
    if kind.startswith("u"):
        return z3.If(a == zero, zero, one)
    return z3.If(a == zero, zero, z3.If(a < zero, -one, one))


def _numbers(whole: Callable[..., Term] | None, floating: Callable[..., Term] | None) -> Callable[..., Term]:
    def run(kind: str, *arguments: Term) -> Term:
        chosen = floating if kind in _FORMATS else whole
        if chosen is None or kind == "bool":
            raise Unwritten
        return chosen(*arguments)

    return run


def _truths(f: Callable[..., Term]) -> Callable[..., Term]:
    def run(kind: str, *arguments: Term) -> Term:
        if kind != "bool":
            raise Unwritten
        return f(*arguments)

    return run


def _rounded(mode: z3.FPRMRef) -> Callable[..., Term]:
    return _numbers(None, lambda a: z3.fpRoundToIntegral(mode, a))


def _absolute(kind: str, a: Term) -> Term:
    if kind in _FORMATS:
        return z3.fpAbs(a)
    return a if kind.startswith("u") else z3.If(a < 0, -a, a)


def _shift(left: bool) -> Callable[..., Term]:
    return _numbers(lambda a, b: a << b if left else z3.LShR(a, b), None)


WORK: Final[Mapping[str, Callable[..., Term]]] = {
    "Add": _numbers(lambda a, b: a + b, lambda a, b: z3.fpAdd(ROUND, a, b)),
    "Sub": _numbers(lambda a, b: a - b, lambda a, b: z3.fpSub(ROUND, a, b)),
    "Mul": _numbers(lambda a, b: a * b, lambda a, b: z3.fpMul(ROUND, a, b)),
    "Div": _numbers(None, lambda a, b: z3.fpDiv(ROUND, a, b)),
    "Max": lambda kind, *parts: reduce(lambda a, b: _largest(kind, a, b, False), parts),
    "Min": lambda kind, *parts: reduce(lambda a, b: _largest(kind, a, b, True), parts),
    "And": _truths(z3.And),
    "Or": _truths(z3.Or),
    "Xor": _truths(z3.Xor),
    "Not": _truths(z3.Not),
    "BitwiseAnd": _numbers(lambda a, b: a & b, None),
    "BitwiseOr": _numbers(lambda a, b: a | b, None),
    "BitwiseXor": _numbers(lambda a, b: a ^ b, None),
    "BitwiseNot": _numbers(lambda a: ~a, None),
    "BitShift(direction=LEFT)": _shift(True),
    "BitShift(direction=RIGHT)": _shift(False),
    "Neg": _numbers(lambda a: -a, z3.fpNeg),
    "Abs": _absolute,
    "Relu": _relu,
    "Sign": _sign,
    "Ceil": _rounded(z3.RTP()),
    "Floor": _rounded(z3.RTN()),
    "Round": _rounded(z3.RNE()),
}
"""What operators do to elements of a type, by name without version (and with what attributes say)."""

COMMUTATIVE: Final = frozenset(("Add", "Mul"))
"""Both orders are one value, which z3 is not asked: of floats it would have to be shown bit by bit."""


def work_of(label: str) -> Callable[..., Term]:
    """The work of a function of elements by its name in terms: `Neg@6`, `BitShift@11(direction=LEFT)`."""
    head, bracket, attributes = label.partition("(")
    name = head.partition("@")[0]
    found = WORK.get(name + bracket + attributes) or (WORK.get(name) if not bracket else None)
    if found is None:
        raise Unwritten
    return found


class Writing:
    """Elements as values of one type."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.sort = sort_of(kind)
        self.seen: dict[int, tuple[Term, Term]] = {}

    def value(self, element: Term) -> Term:
        """Depth is that of the rule's terms."""
        key = element.get_id()
        if key not in self.seen:
            self.seen[key] = (element, self._value(element))
        return self.seen[key][1]

    def _value(self, element: Term) -> Term:
        known = constant(self.kind, element)
        if known is not None:
            return known
        children = element.children()
        if not children or all(c.sort() != ELEMENT for c in children):
            return z3.Const(f"value {len(self.seen)}", self.sort)
        values = [self.value(c) for c in children]
        if work_name(element) in COMMUTATIVE:
            values.sort(key=_shape)
        try:
            return work_of(work_name(element))(self.kind, *values)
        except Unwritten:  # any value then, the same for the same work on the same elements
            return z3.Const(f"work {len(self.seen)}", self.sort)

    def premise(self, condition: z3.BoolRef) -> Term | None:
        """An order or equation of elements as one of values; None where the condition is about something else."""
        if z3.is_not(condition):
            inner = self.premise(condition.arg(0))
            return None if inner is None else z3.Not(inner)
        if condition.num_args() == 2 and condition.arg(0).sort() == ELEMENT:
            a, b = (self.value(c) for c in condition.children())
            if condition.decl().eq(BELOW):
                return below(self.kind, a, b, True)
            if condition.decl().eq(NOT_ABOVE):
                return below(self.kind, a, b, False)
            if z3.is_eq(condition):
                return a == b
        return None


def lawful(
    world: World,
    left: Term,
    right: Term,
    admitted: Iterable[str],
    premises: Sequence[z3.BoolRef],
    tolerant: bool = False,
) -> bool:
    """Whether two elements are the same bits for every admitted element type; False where one is not written out.

    `tolerant`: for finite numbers, and zeros of both signs are one.
    """
    kinds = sorted(admitted)
    if not kinds or any(kind not in TYPES for kind in kinds):
        return False
    met = False
    for kind in kinds:
        answer = _lawful(world, kind, left, right, premises, tolerant)
        if answer is False:
            return False
        met = met or answer is True
    return met


def _lawful(
    world: World, kind: str, left: Term, right: Term, premises: Sequence[z3.BoolRef], tolerant: bool
) -> bool | None:
    """None where the left side has a literal that the type lacks: then the rule never meets that type."""
    writing = Writing(kind)
    try:
        a = writing.value(left)
    except NoSuchValue:
        return None
    except Unwritten:
        return False
    try:
        b = writing.value(right)
        # Of what else premises speak has other types perhaps: there may be an i32 only where 1 < v < 2 has no answer.
        met = set(writing.seen)
        premises = [p for p in premises if elements_of(p) <= met]
        given = [g for g in map(writing.premise, premises) if g is not None]
    except Unwritten:
        return False
    if a.eq(b):
        return True
    goal = a == b
    if tolerant and kind in _FORMATS:
        goal = z3.Or(goal, z3.fpEQ(a, b))
        given += [z3.Not(z3.Or(z3.fpIsInf(v), z3.fpIsNaN(v))) for _, v in writing.seen.values() if _is_open(v)]
    key = f"{world.rlimit} {kind} {_shape(goal)} {[_shape(g) for g in given]}"
    if key not in world.memory.proved:
        world.laws += 1
        # A context of its own: how far z3 comes within its resources then depends on no earlier question.
        context = z3.Context()
        solver = z3.Solver(ctx=context)
        solver.set("rlimit", BITS * world.rlimit)
        solver.add([f.translate(context) for f in (*given, z3.Not(goal))])
        world.memory.proved[key] = solver.check() == z3.unsat
    return world.memory.proved[key]


def ends_of(element: Term) -> set[str]:
    """The types whose ends stand in an element."""
    found: set[str] = set()
    waiting = [element]
    while waiting:
        node = waiting.pop()
        if work_name(node) in ENDS:
            found.add(type_name(node))
        waiting += node.children()
    return found


def _is_open(value: Term) -> bool:
    """Whether a value may be any: an element of a tensor, or what a constant of the rule holds."""
    return bool(z3.is_const(value) and value.decl().name().startswith("value "))


def elements_of(condition: Term) -> set[int]:
    """The elements in a condition that are no literals: leaves at a place, constants of the rule, work of operators."""
    found: set[int] = set()
    waiting = [condition]
    while waiting:
        node = waiting.pop()
        if node.sort() != ELEMENT:
            waiting += node.children()
        elif not (node.decl().eq(NUMBER) or _is_literal(node)):
            found.add(node.get_id())
    return found


def _is_literal(element: Term) -> bool:
    if not z3.is_const(element):
        return False
    if element.eq(literal(True)) or element.eq(literal(False)):
        return True
    try:
        float(element.decl().name())
    except ValueError:
        return False
    return True


def _shape(element: Term) -> str:
    return str(element.sexpr())
