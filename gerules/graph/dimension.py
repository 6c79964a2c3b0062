"""A dimension in normal form: an integer polynomial over symbols and a few functions of polynomials.

Two dimensions that the normal form can tell equal have the same text, so equality is equality of text and nothing about
dimensions is ever rewritten. Every symbol is an extent, hence at least 0; a divisor is never 0, since the program
that divided by it would not have run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final

from gerules.registry.text import escape

MAX_TERMS: Final = 64
MAX_DEPTH: Final = 24
MAX_TEXT: Final = 2000

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_INTEGER = re.compile(r"-?[0-9]+\Z")
FUNCTIONS: Final = ("floor", "mod", "min", "max", "broadcast")


class DimError(ValueError):
    """No such dimension: text that is none, extents that do not broadcast, a zero divisor, or an overlong polynomial.

    Callers that compute with dimensions of a graph treat the result as unknown.
    """


class Atom:
    """A symbol (`kind` "symbol") or an application of one of `FUNCTIONS`. Equal when the texts are."""

    __slots__ = ("arguments", "depth", "kind", "name", "text")

    def __init__(self, kind: str, name: str = "", arguments: tuple[Dim, ...] = ()) -> None:
        self.kind = kind
        self.name = name
        self.arguments = arguments
        self.depth = 1 + max((argument.depth for argument in arguments), default=-1)
        if kind == "symbol":
            self.text = name if _IDENTIFIER.match(name) else "'" + escape(name).replace("'", "\\'") + "'"
        else:
            self.text = f"{kind}({','.join(argument.text for argument in arguments)})"
        if self.depth > MAX_DEPTH or len(self.text) > MAX_TEXT:
            raise DimError(f"the dimension is too large to keep: {self.text[:60]}...")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __lt__(self, other: Atom) -> bool:
        return self.text < other.text

    def __repr__(self) -> str:
        return f"Atom({self.text})"


Monomial = tuple[Atom, ...]  # sorted by text, repeated for powers; () is 1
Terms = tuple[tuple[Monomial, int], ...]  # by degree, highest first, then by text; no coefficient is 0


class Dim:
    """An immutable polynomial with its canonical text (`2*N*T+3`), made by `of`, `symbol`, `parse` or arithmetic."""

    __slots__ = ("depth", "terms", "text", "value")

    terms: Terms
    text: str
    value: int | None  # the number, where it is one
    depth: int  # how deep functions nest in it

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        if not terms:
            self.value, self.text, self.depth = 0, "0", 0
        elif len(terms) == 1 and not terms[0][0]:
            self.value, self.text, self.depth = terms[0][1], str(terms[0][1]), 0
        else:
            self.value = None
            self.text = _text(terms)
            self.depth = max(atom.depth for monomial, _ in terms for atom in monomial)
            if len(terms) > MAX_TERMS or len(self.text) > MAX_TEXT:
                raise DimError(f"the dimension is too large to keep: {self.text[:60]}...")

    @staticmethod
    def of(value: int) -> Dim:
        return _constant(value)

    @staticmethod
    def symbol(name: str) -> Dim:
        """The symbol of this name; any non-empty name will do. Raises DimError."""
        return _symbol(name)

    @staticmethod
    def parse(text: str) -> Dim:
        """Reads canonical text, and also `//`, `%`, parentheses and spaces. Raises DimError."""
        return _parse(text)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Dim) and self.text == other.text)

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Dim({self.text})"

    def __reduce__(self) -> tuple[Callable[[str], Dim], tuple[str]]:
        return _parse, (self.text,)

    def __add__(self, other: Dim | int) -> Dim:
        other = _lift(other)
        if self.value is not None and other.value is not None:
            return _constant(self.value + other.value)
        if other.value == 0:
            return self
        if self.value == 0:
            return other
        return _combine((*self.terms, *other.terms))

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return Dim(tuple((monomial, -coefficient) for monomial, coefficient in self.terms))

    def __sub__(self, other: Dim | int) -> Dim:
        other = _lift(other)
        if self.text == other.text:
            return _constant(0)
        return self + -other

    def __rsub__(self, other: int) -> Dim:
        return _lift(other) - self

    def __mul__(self, other: Dim | int) -> Dim:
        other = _lift(other)
        if self.value is not None:
            self, other = other, self
        if other.value is not None:
            factor = other.value
            if self.value is not None:
                return _constant(self.value * factor)
            if factor == 1:
                return self
            return Dim(tuple((m, c * factor) for m, c in self.terms)) if factor else _constant(0)
        if len(self.terms) * len(other.terms) > MAX_TERMS * MAX_TERMS:
            raise DimError(f"the product is too large to keep: {self.text[:60]} * {other.text[:60]}")
        return _combine(
            (tuple(sorted(m + n)) if m and n else m or n, c * d) for m, c in self.terms for n, d in other.terms
        )

    __rmul__ = __mul__

    def floordiv(self, divisor: Dim | int) -> Dim:
        """The floor of the quotient. Raises DimError for a divisor of 0."""
        return _floor(self, _lift(divisor))

    def mod(self, divisor: Dim | int) -> Dim:
        """The remainder, with the divisor's sign (as in Python). Raises DimError for a divisor of 0."""
        return _mod(self, _lift(divisor))

    def minimum(self, other: Dim | int) -> Dim:
        return _extreme("min", self, _lift(other))

    def maximum(self, other: Dim | int) -> Dim:
        return _extreme("max", self, _lift(other))

    __floordiv__ = floordiv
    __mod__ = mod

    @property
    def nonnegative(self) -> bool:
        """Whether it is at least 0 whatever the symbols are; False means that the form does not say so."""
        if self.value is not None:
            return self.value >= 0
        return all(c > 0 and all(map(_atom_nonnegative, m)) for m, c in self.terms)

    def symbols(self) -> tuple[str, ...]:
        """The names of all symbols in it, sorted."""
        names: set[str] = set()
        pending = [self]
        while pending:
            for monomial, _ in pending.pop().terms:
                for atom in monomial:
                    if atom.kind == "symbol":
                        names.add(atom.name)
                    pending.extend(atom.arguments)
        return tuple(sorted(names))

    def evaluate(self, binding: Mapping[str, int]) -> int:
        """The number at a binding of its symbols. Raises KeyError (a symbol without value) and DimError."""
        if self.value is not None:
            return self.value
        total = 0
        for monomial, coefficient in self.terms:
            for atom in monomial:
                coefficient *= _evaluate_atom(atom, binding)
            total += coefficient
        return total

    def substitute(self, values: Mapping[str, Dim]) -> Dim:
        """The dimension with symbols replaced, in normal form again. Raises DimError."""
        if self.value is not None or not any(name in values for name in self.symbols()):
            return self
        total = _constant(0)
        for monomial, coefficient in self.terms:
            product = _constant(coefficient)
            for atom in monomial:
                product = product * _substitute_atom(atom, values)
            total = total + product
        return total


def broadcast(a: Dim, b: Dim) -> Dim:
    """The extent of two axes that are stretched to each other.

    1 gives way to the other, an extent of 2 or more (or 0) wins over one that is not known. Raises DimError for two
    extents that do not broadcast.
    """
    if a.text == b.text or b.value == 1:
        return a
    if a.value == 1:
        return b
    if a.value is not None and b.value is not None:
        raise DimError(f"extents {a} and {b} do not broadcast")
    parts: dict[str, Dim] = {}
    for dim in (a, b):
        atom = _only_atom(dim)
        for part in atom.arguments if atom is not None and atom.kind == "broadcast" else (dim,):
            parts[part.text] = part
    for text in [text for text, part in parts.items() if _held_to(part, parts)]:
        del parts[text]
    if len(parts) == 1:
        return next(iter(parts.values()))
    winners = sorted((part for part in parts.values() if _beats(part)), key=lambda d: (d.value is None, d.text))
    if winners:
        return winners[0]
    return _of_atom(Atom("broadcast", arguments=tuple(parts[text] for text in sorted(parts))))


def _held_to(dim: Dim, others: Mapping[str, Dim]) -> bool:
    """Whether it is min(n, c) beside n, with c >= 2: the two only go together where they are equal."""
    atom = _only_atom(dim)
    if atom is None or atom.kind != "min":
        return False
    rest = [a for a in atom.arguments if a.text not in others]
    return len(rest) < len(atom.arguments) and all(_beats(a) and a.value != 0 for a in rest)


def _beats(dim: Dim) -> bool:
    """Whether no stretching can make it another extent: it is certainly not 1."""
    return dim.value != 1 if dim.value is not None else (dim - 2).nonnegative


# ---------------------------------------------------------------------------------------------------- construction


@lru_cache(maxsize=4096)
def _constant(value: int) -> Dim:
    return Dim((((), value),) if value else ())


@lru_cache(maxsize=4096)
def _symbol(name: str) -> Dim:
    if not name:
        raise DimError("a dimension symbol has no name")
    return _of_atom(Atom("symbol", name))


def _of_atom(atom: Atom) -> Dim:
    return Dim((((atom,), 1),))


def _lift(value: Dim | int) -> Dim:
    return value if isinstance(value, Dim) else _constant(value)


def _rank(term: tuple[Monomial, int]) -> tuple[int, tuple[str, ...]]:
    return -len(term[0]), tuple(atom.text for atom in term[0])


def _combine(terms: Iterable[tuple[Monomial, int]]) -> Dim:
    total: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, 0) + coefficient
    return Dim(tuple(sorted(((m, c) for m, c in total.items() if c), key=_rank)))


def _text(terms: Terms) -> str:
    parts: list[str] = []
    for monomial, coefficient in terms:
        product = "*".join(atom.text for atom in monomial)
        size = abs(coefficient)
        body = str(size) if not monomial else product if size == 1 else f"{size}*{product}"
        parts.append(("-" if coefficient < 0 else "+" if parts else "") + body)
    return "".join(parts)


def _only_atom(dim: Dim) -> Atom | None:
    if len(dim.terms) == 1 and dim.terms[0][1] == 1 and len(dim.terms[0][0]) == 1:
        return dim.terms[0][0][0]
    return None


# ------------------------------------------------------------------------------------------------ floor, mod, min, max


def _divide_monomial(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """The quotient of two products of atoms, None where the division leaves a rest."""
    rest = list(monomial)
    for atom in divisor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def _exact_quotient(dividend: Dim, divisor: Dim) -> Dim | None:
    """Polynomial long division; None where it leaves a rest. The order of terms is a monomial order within a degree,
    and a step that does not lower the leading term ends it."""
    lead, factor = divisor.terms[0]
    quotient = _constant(0)
    rest = dividend
    for _ in range(MAX_TERMS):
        if rest.value == 0:
            return quotient
        monomial, coefficient = rest.terms[0]
        part = _divide_monomial(monomial, lead)
        if part is None or coefficient % factor:
            return None
        step = Dim(((part, coefficient // factor),))
        quotient = quotient + step
        rest = rest - step * divisor
    return None


def common_factor(dims: Iterable[Dim]) -> tuple[Monomial, int]:
    """The product of atoms and the number that divide every term of all the polynomials."""
    terms = [term for dim in dims for term in dim.terms]
    number = math.gcd(*(c for _, c in terms))
    shared = list(terms[0][0])
    for monomial, _ in terms[1:]:
        rest = list(monomial)
        kept = []
        for atom in shared:
            if atom in rest:
                rest.remove(atom)
                kept.append(atom)
        shared = kept
    return tuple(shared), number


def _floor(dividend: Dim, divisor: Dim) -> Dim:
    if divisor.value == 0:
        raise DimError(f"division of {dividend} by zero")
    if dividend.value is not None and divisor.value is not None:
        return _constant(dividend.value // divisor.value)
    if divisor.value == 1 or dividend.value == 0:
        return dividend
    if divisor.value is not None:
        return _floor_by_number(dividend, divisor.value)
    exact = _exact_quotient(dividend, divisor)
    if exact is not None:
        return exact
    whole = _constant(0)
    if len(divisor.terms) == 1:  # take out every term that the divisor divides
        parts = [(term, _exact_quotient(Dim((term,)), divisor)) for term in dividend.terms]
        whole = _combine(t for _, q in parts if q is not None for t in q.terms)
        dividend = _combine(term for term, q in parts if q is None)
    monomial, number = common_factor((dividend, divisor))
    if monomial or number > 1:
        common = Dim(((monomial, number),))
        reduced = _exact_quotient(dividend, common), _exact_quotient(divisor, common)
        if reduced[0] is not None and reduced[1] is not None:
            dividend, divisor = reduced[0], reduced[1]
            if divisor.value is not None:
                return whole + _floor(dividend, divisor)
    return whole + _of_atom(Atom("floor", arguments=(dividend, divisor)))


def _floor_by_number(dividend: Dim, divisor: int) -> Dim:
    if divisor < 0:
        dividend, divisor = -dividend, -divisor
    whole = _combine((m, c // divisor) for m, c in dividend.terms)
    rest = _combine((m, c % divisor) for m, c in dividend.terms)
    if rest.value is not None:
        return whole
    common = math.gcd(divisor, *(c for m, c in rest.terms if m))
    if common > 1:  # floor((g*u + c) / (g*k)) = floor((u + floor(c/g)) / k)
        rest = _combine((m, c // common) for m, c in rest.terms)
        return whole + _floor(rest, _constant(divisor // common))
    inner = _inner_floor(rest)
    if inner is not None:  # floor((floor(p/a) + c) / b) = floor((p + a*c) / (a*b))
        (p, a), c = inner
        return whole + _floor(p + a * c, _constant(a * divisor))
    return whole + _of_atom(Atom("floor", arguments=(rest, _constant(divisor))))


def _inner_floor(dim: Dim) -> tuple[tuple[Dim, int], int] | None:
    """((p, a), c) where the dimension is floor(p, a) + c with a number a > 0."""
    monomial, coefficient = dim.terms[0]
    if len(monomial) != 1 or coefficient != 1 or len(dim.terms) > 2 or (len(dim.terms) == 2 and dim.terms[1][0]):
        return None
    atom = monomial[0]
    if atom.kind != "floor" or atom.arguments[1].value is None or atom.arguments[1].value <= 0:
        return None
    return (atom.arguments[0], atom.arguments[1].value), dim.terms[1][1] if len(dim.terms) == 2 else 0


def _mod(dividend: Dim, divisor: Dim) -> Dim:
    if divisor.value == 0:
        raise DimError(f"division of {dividend} by zero")
    quotient = _floor(dividend, divisor)
    if not any(atom.kind == "floor" for m, _ in quotient.terms for atom in m) or quotient.value is not None:
        return dividend - quotient * divisor
    number = divisor.value
    if number is not None and number > 0:
        rest = _combine((m, c % number) for m, c in dividend.terms)
        inner = _only_atom(rest)
        if inner is not None and inner.kind == "mod":
            modulus = inner.arguments[1].value
            if modulus is not None and modulus % number == 0:
                return _mod(inner.arguments[0], divisor)
            if modulus is not None and 0 < modulus <= number:
                return rest
        common = math.gcd(number, *(c for _, c in rest.terms))
        if common > 1:
            inside = _combine((m, c // common) for m, c in rest.terms)
            return _mod(inside, _constant(number // common)) * common
        return _of_atom(Atom("mod", arguments=(rest, divisor)))
    if len(divisor.terms) == 1:
        dividend = _combine(t for t in dividend.terms if _exact_quotient(Dim((t,)), divisor) is None)
    return _of_atom(Atom("mod", arguments=(dividend, divisor)))


def _extreme(kind: str, a: Dim, b: Dim) -> Dim:
    kept: list[Dim] = []
    for dim in (a, b):
        atom = _only_atom(dim)
        for part in atom.arguments if atom is not None and atom.kind == kind else (dim,):
            kept = _with_candidate(kind, kept, part)
    if len(kept) == 1:
        return kept[0]
    return _of_atom(Atom(kind, arguments=tuple(sorted(kept, key=lambda d: d.text))))


def _with_candidate(kind: str, kept: list[Dim], part: Dim) -> list[Dim]:
    """The candidates with one more, without those that can never be the extreme one."""
    remaining = []
    for other in kept:
        difference = part - other if kind == "min" else other - part
        if difference.nonnegative:
            return kept
        if not (-difference).nonnegative:
            remaining.append(other)
    return [*remaining, part]


def _atom_nonnegative(atom: Atom) -> bool:
    match atom.kind:
        case "symbol" | "broadcast":
            return True
        case "floor" | "min":
            return all(argument.nonnegative for argument in atom.arguments)
        case "mod":
            return atom.arguments[1].nonnegative
    return any(argument.nonnegative for argument in atom.arguments)


def apply_function(kind: str, arguments: tuple[Dim, ...]) -> Dim:
    """One of `FUNCTIONS` on dimensions. Raises DimError."""
    if len(arguments) < 2 or (kind in ("floor", "mod") and len(arguments) != 2):
        raise DimError(f"{kind} takes {'two' if kind in ('floor', 'mod') else 'two or more'} dimensions")
    result = arguments[0]
    for argument in arguments[1:]:
        match kind:
            case "floor":
                result = _floor(result, argument)
            case "mod":
                result = _mod(result, argument)
            case "min" | "max":
                result = _extreme(kind, result, argument)
            case "broadcast":
                result = broadcast(result, argument)
            case _:
                raise DimError(f"no function of dimensions: {kind}")
    return result


def _evaluate_atom(atom: Atom, binding: Mapping[str, int]) -> int:
    if atom.kind == "symbol":
        return binding[atom.name]
    values = [argument.evaluate(binding) for argument in atom.arguments]
    match atom.kind:
        case "min":
            return min(values)
        case "max":
            return max(values)
        case "broadcast":
            stretched = {value for value in values if value != 1}
            if len(stretched) > 1:
                raise DimError(f"extents {sorted(stretched)} do not broadcast in {atom.text}")
            return stretched.pop() if stretched else 1
    if values[1] == 0:
        raise DimError(f"division by zero in {atom.text}")
    return values[0] // values[1] if atom.kind == "floor" else values[0] % values[1]


def _substitute_atom(atom: Atom, values: Mapping[str, Dim]) -> Dim:
    if atom.kind == "symbol":
        return values.get(atom.name) or _symbol(atom.name)
    return apply_function(atom.kind, tuple(argument.substitute(values) for argument in atom.arguments))


# --------------------------------------------------------------------------------------------------------- reading


@lru_cache(maxsize=65536)
def _parse(text: str) -> Dim:
    if _INTEGER.match(text):
        return _constant(int(text))
    if _IDENTIFIER.match(text):
        return _symbol(text)
    from gerules.graph.dimension_reader import Reader  # which needs this module

    return Reader(text).read()
