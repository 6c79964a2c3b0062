"""Values of static expressions, and what it means that two of them are equal, ordered or combined.

A value is an ``int``, ``float``, ``bool`` or ``str``; ``None`` (an absent operand, an unset attribute); a `Dim` (only
where symbolic: whole numbers are ints); a tuple (vectors and shapes; an entry ``None`` is an extent that is not known);
a ``frozenset`` (dtypes, axes, operator keys); an array (the contents of a constant); an `OperatorDef`; a `TensorView`;
or a mapping (a node of a merge rule, read by field).

Truth has three values: True, False, and None for "not known". Unknown is contagious but for ``or`` with a true side,
``and`` with a false one, ``all`` with a false axis, ``some`` with a true one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from gerules.graph.dims import Dim, DimError, DimFacts
from gerules.registry.definition import OperatorDef

if TYPE_CHECKING:
    from gerules.graph.info import Info

Value: TypeAlias = object
Array: TypeAlias = npt.NDArray[np.generic]
Truth: TypeAlias = bool | None
Axes: TypeAlias = Truth | tuple["Axes", ...]
"""A truth, or one an axis (nested where lists of lists are compared)."""


LONGEST = 65536
"""Lists do not grow beyond this: contents of larger constants are compared as wholes, and functions have no answer."""

OPAQUE = "Opaque"
"""The key that stands for all operators that no registry has; the definition of such a one has no `since`."""


class Unknown(Exception):
    """A value that is not known, or not defined, for these operands; the message says which and why."""


@dataclass(frozen=True, slots=True, eq=False)
class TensorView:
    """What a rule may ask of a tensor: its `info` (element type, shape, contents as far as known) and, where it is a
    constant at hand, its contents."""

    info: Info
    constant: Array | None = None

    @property
    def shape(self) -> tuple[int | Dim | None, ...]:
        """Extents, ints where they are numbers, None where not known; Unknown where even the rank is not."""
        if self.info.shape is None:
            raise Unknown("the rank is not known")
        return settled(self.info.shape)


@dataclass(frozen=True, slots=True, eq=False)
class NodeView(TensorView):
    """An operator's node: its results, None where one is not asked for. As a tensor it is its first result."""

    results: tuple[TensorView | None, ...] = ()


@lru_cache(maxsize=16384)
def settled(shape: tuple[Dim | None, ...]) -> tuple[int | Dim | None, ...]:
    """A shape whose static extents are ints."""
    return tuple(d if d is None else settle(d) for d in shape)


def settle(d: Dim | int) -> int | Dim:
    """An int where the dimension is a number."""
    if isinstance(d, int):
        return d
    value = d.value
    return d if value is None else value


def lift(a: int | Dim) -> Dim:
    return a if isinstance(a, Dim) else Dim.of(a)


def plain(value: Value) -> Value:
    """Contents of a constant as a number (rank 0) or a tuple (rank 1, not too long); anything else as it is."""
    if isinstance(value, np.ndarray):
        if value.ndim == 0:
            return _item(value[()])
        if value.ndim == 1 and value.size <= LONGEST:
            return tuple(_item(v) for v in value)
    return value


def _item(scalar: object) -> Value:
    item = scalar.item() if isinstance(scalar, np.generic) else scalar
    if isinstance(item, bytes):
        return item.decode("utf-8", "replace")
    if isinstance(item, np.generic) or type(item).__module__ == "ml_dtypes":  # narrow floats and ints have no item
        return float(item)  # type: ignore[arg-type]
    return item


def whole(value: Value, what: str = "a number") -> int:
    """An int, or Unknown: a symbol or an absent value is not one."""
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unknown(f"{what} is not a known whole number: {show(value)}")
    return value


def whole_list(value: Value, what: str = "a list") -> tuple[int, ...]:
    return tuple(whole(v, what) for v in listed(value, what))


def listed(value: Value, what: str = "a list") -> tuple[Value, ...]:
    value = plain(value)
    if not isinstance(value, tuple):
        raise Unknown(f"{what} is not a list: {show(value)}")
    return value


def extent(value: Value, what: str = "an extent") -> int | Dim:
    value = plain(value)
    if isinstance(value, Dim):
        return settle(value)
    return whole(value, what)


def show(value: Value) -> str:
    """A value for messages."""
    if value is None:
        return "nothing"
    if isinstance(value, tuple):
        return "[" + ", ".join("?" if v is None else show(v) for v in value) + "]"
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted(map(show, value))) + "}"
    return value.key if isinstance(value, OperatorDef) else str(value)


# ------------------------------------------------------------------------------------------------------- equality


def equal(a: Value, b: Value, facts: DimFacts) -> Truth:
    """Whether two values are the same. Zeros of different sign are neither known equal nor known different."""
    if type(a) is int and type(b) is int:
        return a == b
    a, b = plain(a), plain(b)
    if a is None or b is None:
        return a is b
    if isinstance(a, tuple) and isinstance(b, tuple):
        if len(a) != len(b):
            return False
        return conjunction(equal_entries(x, y, facts) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            return bool(np.array_equal(a, b))
        long = a if isinstance(a, np.ndarray) else b
        return None if isinstance(long, np.ndarray) and long.ndim == 1 else False
    if isinstance(a, Dim) or isinstance(b, Dim):
        if not (isinstance(a, (Dim, int)) and isinstance(b, (Dim, int))) or isinstance(a, bool) or isinstance(b, bool):
            return False
        return equal_extents(a, b, facts)
    if isinstance(a, TensorView) or isinstance(b, TensorView):
        return True if a is b else None
    if isinstance(a, OperatorDef) != isinstance(b, OperatorDef):
        operator, keys = (a, b) if isinstance(a, OperatorDef) else (b, a)
        assert isinstance(operator, OperatorDef)
        return isinstance(keys, frozenset) and in_class(operator, keys)
    if isinstance(a, OperatorDef) and isinstance(b, OperatorDef):
        return a.key == b.key
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    if a == 0 and b == 0 and isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return True if negative_zero(a) == negative_zero(b) else None
    return bool(a == b)


def equal_entries(a: Value, b: Value, facts: DimFacts) -> Truth:
    """`equal` of entries of a list, where None means not known."""
    return None if a is None or b is None else equal(a, b, facts)


def equal_extents(a: int | Dim, b: int | Dim, facts: DimFacts) -> Truth:
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    left, right = lift(a), lift(b)
    return True if left == right else facts.equal(left, right)


def same_literal(value: Value, literal: Value) -> bool:
    """Whether a constant's single value is the number, word or text written in a pattern: of any numeric type, but
    `0` is +0 alone and `-0.0` minus zero alone, and true and false match bool alone (CONTRACTS, Versions)."""
    value = plain(value)
    if isinstance(value, (int, float)) and isinstance(literal, (int, float)):
        if isinstance(value, bool) != isinstance(literal, bool):
            return False
        return value == literal and negative_zero(value) == negative_zero(literal)
    if isinstance(value, tuple) and isinstance(literal, tuple):
        return len(value) == len(literal) and all(map(same_literal, value, literal))
    return type(value) is type(literal) and value == literal


def negative_zero(a: int | float) -> bool:
    return isinstance(a, float) and a == 0 and math.copysign(1.0, a) < 0


def in_class(operator: OperatorDef, keys: frozenset[object]) -> bool:
    """Whether a class, given by the keys of its members (`Clip@11`), has the operator; one that no registry has is a
    member where `Opaque` is."""
    return operator.key in keys if operator.since else OPAQUE in keys


def contains(container: Value, value: Value, facts: DimFacts) -> Truth:
    """`value in container`: a set, or a list."""
    container, value = plain(container), plain(value)
    if not isinstance(container, (frozenset, tuple)):
        raise Unknown(f"{show(container)} is not a set")
    if isinstance(value, OperatorDef) and isinstance(container, frozenset):
        return in_class(value, container)
    if value is None:
        return False
    if isinstance(value, (str, int)) and isinstance(container, frozenset) and value in container:
        return disjunction(equal_entries(value, member, facts) for member in container if member == value)
    return disjunction(equal_entries(value, member, facts) for member in container)


# ---------------------------------------------------------------------------------------------------------- order


def at_least(a: Value, b: Value, facts: DimFacts) -> Truth:
    """`a >= b`, from the numbers or from what is known of the symbols."""
    if type(a) is int and type(b) is int:
        return a >= b
    a, b = plain(a), plain(b)
    if isinstance(a, Dim) or isinstance(b, Dim):
        if not isinstance(a, (int, Dim)) or not isinstance(b, (int, Dim)):
            raise Unknown(f"{show(a)} and {show(b)} have no order")
        left, right = lift(a), lift(b)
        if left == right or facts.at_least(left, right):
            return True
        return False if facts.at_least(right, left + Dim.of(1)) else None
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a >= b
    raise Unknown(f"{show(a)} and {show(b)} have no order")


def _is_nan(value: Value) -> bool:
    value = plain(value)
    return isinstance(value, float) and math.isnan(value)


def ordered(op: str, a: Value, b: Value, facts: DimFacts) -> Truth:
    """`<=`, `>=`, `<`, `>`. NaN is in no order to anything, as in IEEE 754."""
    if _is_nan(a) or _is_nan(b):
        return False
    if op == ">=":
        return at_least(a, b, facts)
    if op == "<=":
        return at_least(b, a, facts)
    return inverse(at_least(b, a, facts) if op == ">" else at_least(a, b, facts))


# ---------------------------------------------------------------------------------------------------------- truth


def inverse(truth: Truth) -> Truth:
    return None if truth is None else not truth


def conjunction(truths: Iterable[Truth]) -> Truth:
    known: Truth = True
    for truth in truths:
        if truth is False:
            return False
        if truth is None:
            known = None
    return known


def disjunction(truths: Iterable[Truth]) -> Truth:
    known: Truth = False
    for truth in truths:
        if truth is True:
            return True
        if truth is None:
            known = None
    return known


def over_axes(f: Callable[[Value, Value], Truth], a: Value, b: Value) -> Axes:
    """A comparison on every axis; a number stretches along a list. Lists of different lengths are not known to
    compare. The axes of a constant of higher rank are its elements."""
    a, b = _elements(a), _elements(b)
    if isinstance(a, tuple):
        if not isinstance(b, tuple):
            return tuple(_axis(f, x, b) for x in a)
        return tuple(_axis(f, x, y) for x, y in zip(a, b, strict=True)) if len(a) == len(b) else None
    if isinstance(b, tuple):
        return tuple(_axis(f, a, y) for y in b)
    return _truth(f, a, b)


def _elements(value: Value) -> Value:
    value = plain(value)
    if not isinstance(value, np.ndarray):
        return value
    if value.size > LONGEST:
        raise Unknown("the constant is too large to be looked through")
    return tuple(_item(v) for v in value.reshape(-1))


def _axis(f: Callable[[Value, Value], Truth], a: Value, b: Value) -> Axes:
    return None if a is None or b is None else over_axes(f, a, b)


def _truth(f: Callable[[Value, Value], Truth], a: Value, b: Value) -> Truth:
    try:
        return f(a, b)
    except Unknown:
        return None


def join_axes(f: Callable[[Iterable[Truth]], Truth], a: Axes, b: Axes) -> Axes:
    """`and` or `or` on every axis."""
    if isinstance(a, tuple):
        if not isinstance(b, tuple):
            return tuple(join_axes(f, x, b) for x in a)
        return tuple(join_axes(f, x, y) for x, y in zip(a, b, strict=True)) if len(a) == len(b) else None
    if isinstance(b, tuple):
        return tuple(join_axes(f, a, y) for y in b)
    return f((a, b))


def invert_axes(a: Axes) -> Axes:
    return tuple(map(invert_axes, a)) if isinstance(a, tuple) else inverse(a)


def flat(axes: Axes) -> Iterable[Truth]:
    """The truths of all axes; a single truth is one axis."""
    if isinstance(axes, tuple):
        for entry in axes:
            yield from flat(entry)
    else:
        yield axes


# ----------------------------------------------------------------------------------------------------- arithmetic


def elementwise(f: Callable[[Value, Value], Value], a: Value, b: Value) -> Value:
    """Arithmetic on lists, numbers stretching. An entry that is not known gives one that is not."""
    a, b = plain(a), plain(b)
    if isinstance(a, tuple):
        if not isinstance(b, tuple):
            return tuple(_entry(f, x, b) for x in a)
        if len(a) != len(b):
            raise Unknown(f"lists of {len(a)} and {len(b)} entries do not go together")
        return tuple(_entry(f, x, y) for x, y in zip(a, b, strict=True))
    if isinstance(b, tuple):
        return tuple(_entry(f, a, y) for y in b)
    if a is None or b is None:
        raise Unknown("an absent value has no arithmetic")
    return f(a, b)


def _entry(f: Callable[[Value, Value], Value], a: Value, b: Value) -> Value:
    if a is None or b is None:
        return None
    try:
        return elementwise(f, a, b)
    except Unknown:
        return None


def is_number(value: Value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def arithmetic(op: str, facts: DimFacts) -> Callable[[Value, Value], Value]:
    """`+ - * / // %` on two numbers, dimensions, or (`-`) sets; `|` and `&` on sets."""

    def run(a: Value, b: Value) -> Value:
        if isinstance(a, frozenset) and isinstance(b, frozenset):
            if op in _SETS:
                return _SETS[op](a, b)
        elif isinstance(a, Dim) or isinstance(b, Dim):
            if isinstance(a, (int, Dim)) and isinstance(b, (int, Dim)) and not (a is True or b is True):
                try:
                    return _extents(op, a, b, facts)
                except DimError as error:
                    raise Unknown(str(error)) from None
        elif is_number(a) and is_number(b) and op in _NUMBERS:
            try:
                return _NUMBERS[op](a, b)
            except (ZeroDivisionError, OverflowError) as error:
                raise Unknown(f"{show(a)} {op} {show(b)}: {error}") from None
        raise Unknown(f"{show(a)} {op} {show(b)} has no value")

    return run


_NUMBERS: Mapping[str, Callable[..., Value]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}
_SETS: Mapping[str, Callable[[frozenset[object], frozenset[object]], frozenset[object]]] = {
    "|": lambda a, b: a | b,
    "&": lambda a, b: a & b,
    "-": lambda a, b: a - b,
}


def _extents(op: str, a: int | Dim, b: int | Dim, facts: DimFacts) -> Value:
    left, right = lift(a), lift(b)
    if op == "+":
        return settle(left + right)
    if op == "-":
        return settle(left - right)
    if op == "*":
        return settle(left * right)
    if op in {"//", "%"}:
        if op == "%" and isinstance(b, int) and b and facts.divides(b, left):
            return 0
        return settle(left.floordiv(right) if op == "//" else left.mod(right))
    raise Unknown(f"{show(a)} {op} {show(b)} is not known before run time")
