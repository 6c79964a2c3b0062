"""What the user says of dimensions: promises (`--dim`, `--assume`), likely sizes and sizes for validation.

Promises become facts about `Dim`s; every extent is at least 0 without being promised.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from gerules.errors import Diagnostic, UsageFault
from gerules.graph.dimension import FUNCTIONS, Dim, DimError, broadcast, common_factor

__all__ = [
    "FUNCTIONS",
    "Assumption",
    "Dim",
    "DimError",
    "DimFacts",
    "DimRange",
    "broadcast",
    "likely_values",
    "parse_assume_flag",
    "parse_at_flag",
    "parse_dim_flag",
    "parse_likely_flag",
]

_RANGE = re.compile(r"([0-9]+)(?:\.\.([0-9]+))?\Z")
_HIDDEN = "\0"
_COMPARISON = re.compile(r"(==|>=|<=|=|>|<|!=)")


@dataclass(frozen=True, slots=True)
class DimRange:
    """`--dim NAME=low..high`: the extent lies in it, both ends included."""

    name: str
    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.name}={self.low}" + ("" if self.low == self.high else f"..{self.high}")


@dataclass(frozen=True, slots=True)
class Assumption:
    """`--assume`: `left == right` or `left >= right` (`relation` is "==" or ">="; `<=` is turned round)."""

    relation: str
    left: Dim
    right: Dim
    text: str = field(default="", compare=False)

    def holds(self, binding: Mapping[str, int]) -> bool:
        """Whether it holds at a binding of all its symbols."""
        left, right = self.left.evaluate(binding), self.right.evaluate(binding)
        return left == right if self.relation == "==" else left >= right


# ---------------------------------------------------------------------------------------------------------- flags


_MOST = 2**63 - 1
"""The greatest extent that an ONNX model can state."""


def _fault(code: str, message: str, hint: str) -> NoReturn:
    raise UsageFault(Diagnostic(code, message, hint=hint))


def _split_flag(flag: str, text: str, example: str) -> tuple[str, str]:
    name, sign, value = text.rpartition("=")
    if not sign or not name.strip() or not value.strip():
        _fault("GR301", f"--{flag} {text}: this is not NAME=SIZE", f"write it as `--{flag} {example}`")
    return name.strip().strip("'"), value.strip()


def parse_dim_flag(text: str) -> DimRange:
    """`N=4` or `N=1..64`. Raises UsageFault (GR301, GR302)."""
    name, value = _split_flag("dim", text, "N=4` or `--dim N=1..64")
    match = _RANGE.match(value)
    if match is None:
        _fault(
            "GR301", f"--dim {text}: {value!r} is neither a size nor a range", "write `--dim N=4` or `--dim N=1..64`"
        )
    low = int(match[1])
    high = int(match[2]) if match[2] else low
    if high > _MOST:
        _fault("GR301", f"--dim {text}: no dimension has more than {_MOST} elements", "promise a smaller size")
    if low > high:
        _fault(
            "GR302", f"--dim {text}: the range is empty, {low} is above {high}", f"write `--dim {name}={high}..{low}`"
        )
    return DimRange(name, low, high)


def parse_assume_flag(text: str) -> Assumption:
    """`H % 8 == 0`, `A == B`, `A >= 2`, `N*M == K`, `A < B`. Raises UsageFault (GR303)."""
    sides = _COMPARISON.split(text)
    hint = 'write a comparison of dimensions, as `--assume "H % 8 == 0"` or `--assume "A >= 2"`'
    if len(sides) != 3 or sides[1] in ("=", "!="):
        _fault("GR303", f"--assume {text!r}: this is not one comparison with ==, >=, <=, > or <", hint)
    try:
        left, right = Dim.parse(sides[0].strip()), Dim.parse(sides[2].strip())
        match sides[1]:
            case "==":
                return Assumption("==", left, right, text)
            case ">=":
                return Assumption(">=", left, right, text)
            case "<=":
                return Assumption(">=", right, left, text)
            case ">":
                return Assumption(">=", left, right + 1, text)
        return Assumption(">=", right, left + 1, text)
    except DimError as error:
        _fault("GR303", f"--assume {text!r}: {error}", hint)


def parse_likely_flag(text: str) -> tuple[str, tuple[int, ...]]:
    """`N=64` or `N=64,128`: a name and sizes. Raises UsageFault (GR304)."""
    name, value = _split_flag("likely", text, "N=64` or `--likely N=64,128")
    sizes = [item.strip() for item in value.split(",")]
    if not all(re.fullmatch(r"[0-9]+", size) for size in sizes):
        _fault(
            "GR304", f"--likely {text}: {value!r} is no list of sizes", "write `--likely N=64` or `--likely N=64,128`"
        )
    return name, tuple(map(int, sizes))


def parse_at_flag(text: str) -> tuple[str, int]:
    """`N=3`: a name and its size. Raises UsageFault (GR305)."""
    name, value = _split_flag("at", text, "N=3")
    if not re.fullmatch(r"[0-9]+", value) or int(value) > _MOST:
        _fault("GR305", f"--at {text}: {value!r} is no size", "write `--at N=3`, once for each dimension")
    return name, int(value)


# ---------------------------------------------------------------------------------------------------------- facts


class DimFacts:
    """What is promised of dimension symbols, and what follows from it. Immutable once made.

    Raises UsageFault (GR306) for promises that contradict each other.
    """

    def __init__(self, ranges: Iterable[DimRange] = (), assumptions: Iterable[Assumption] = ()) -> None:
        self.ranges = tuple(ranges)
        self.assumptions = tuple(assumptions)
        self._low: dict[str, int] = {}
        self._high: dict[str, int] = {}
        self._substitution: dict[str, Dim] = {}
        self._at_least_zero: list[Dim] = []
        for promised in self.ranges:
            self._low[promised.name] = max(promised.low, self._low.get(promised.name, 0))
            self._high[promised.name] = min(promised.high, self._high.get(promised.name, promised.high))
        for name, high in sorted(self._high.items()):
            if self._low[name] > high:
                self._contradiction([str(r) for r in self.ranges if r.name == name])
            if self._low[name] == high:
                self._substitution[name] = Dim.of(high)
        for assumption in self.assumptions:
            self._assume(assumption)
        self._normal: dict[str, Dim] = {}

    @classmethod
    def from_flags(cls, dims: Sequence[str] = (), assumes: Sequence[str] = ()) -> DimFacts:
        """The facts of all `--dim` and `--assume` flags. Raises one UsageFault with every fault found."""
        faults: list[Diagnostic] = []
        ranges: list[DimRange] = []
        assumptions: list[Assumption] = []
        for text in dims:
            try:
                ranges.append(parse_dim_flag(text))
            except UsageFault as fault:
                faults.extend(fault.diagnostics)
        for text in assumes:
            try:
                assumptions.append(parse_assume_flag(text))
            except UsageFault as fault:
                faults.extend(fault.diagnostics)
        if faults:
            raise UsageFault(faults)
        return cls(ranges, assumptions)

    @property
    def texts(self) -> tuple[str, ...]:
        """The promises as text, for metadata: `N=1..64`, `H % 8 == 0`."""
        return (*map(str, self.ranges), *(assumption.text for assumption in self.assumptions))

    def symbols(self) -> tuple[str, ...]:
        """Every symbol that a promise speaks of, sorted."""
        names = {promised.name for promised in self.ranges}
        for assumption in self.assumptions:
            names.update(assumption.left.symbols(), assumption.right.symbols())
        return tuple(sorted(names))

    def normal(self, dim: Dim) -> Dim:
        """The dimension with what the promises fix put in: promised sizes, equalities, divisibility.

        A symbol promised divisible by k becomes k times a symbol that exists only here (its name ends in a zero byte).
        """
        if dim.value is not None or not self._substitution:
            return dim
        found = self._normal.get(dim.text)
        if found is None:
            try:
                found = dim.substitute(self._substitution)
            except DimError:
                found = dim
            self._normal[dim.text] = found
        return found

    def known(self, dim: Dim) -> Dim:
        """As `normal`, but in symbols of the graph alone: sizes and equalities put in."""
        found = self.normal(dim)
        return dim if any(name.endswith(_HIDDEN) for name in found.symbols()) else found

    def lower(self, dim: Dim) -> int | None:
        """The greatest number known to be at most the dimension; None where there is none."""
        return self._interval(self.normal(dim))[0]

    def upper(self, dim: Dim) -> int | None:
        """The least number known to be at least the dimension; None where there is none."""
        return self._interval(self.normal(dim))[1]

    def divides(self, divisor: int, dim: Dim) -> bool | None:
        """Whether the dimension is a multiple of the number; None where that is not known."""
        terms = self.normal(dim).terms
        if divisor == 0:
            return self.equal(dim, Dim.of(0))
        if all(c % divisor == 0 for m, c in terms if m):
            return all(c % divisor == 0 for _, c in terms)
        common = math.gcd(divisor, *(c for m, c in terms if m))
        return False if any(c % common for m, c in terms if not m) else None

    def equal(self, a: Dim, b: Dim) -> bool | None:
        """Whether two dimensions are equal at every size that the promises admit; None where that is not known.

        False means that they differ at every such size.
        """
        if a.text == b.text:
            return True
        difference = self._difference(a, b)
        if difference is None:
            return None
        if difference.value is not None:
            return difference.value == 0
        low, high = self._interval(difference)
        if (low is not None and low > 0) or (high is not None and high < 0):
            return False
        common = math.gcd(*(c for m, c in difference.terms if m))
        return False if any(c % common for m, c in difference.terms if not m) else None

    def at_least(self, a: Dim, b: Dim) -> bool | None:
        """Whether a >= b at every size that the promises admit (False: at none); None where that is not known."""
        difference = self._difference(a, b)
        if difference is None:
            return None
        low, high = self._interval(difference)
        if low is not None and low >= 0:
            return True
        if high is not None and high < 0:
            return False
        shared, _ = common_factor((difference,))
        if shared and Dim(((shared, 1),)).nonnegative:  # M*(64-N) >= 0 as 64-N is
            rest = self._interval(difference.floordiv(Dim(((shared, 1),))))[0]
            if rest is not None and rest >= 0:
                return True
        for assumed in self._at_least_zero:
            above = self._difference(difference, assumed)
            bound = self._interval(above)[0] if above is not None else None
            if bound is not None and bound >= 0:
                return True
        return None

    def violated(self, binding: Mapping[str, int]) -> tuple[str, ...]:
        """The promises that a binding breaks, as text; those about symbols that it does not bind are left out."""
        broken = [
            str(promised)
            for promised in self.ranges
            if promised.name in binding and not promised.low <= binding[promised.name] <= promised.high
        ]
        for assumption in self.assumptions:
            bound = all(name in binding for name in (*assumption.left.symbols(), *assumption.right.symbols()))
            if bound and not assumption.holds(binding):
                broken.append(assumption.text)
        return tuple(broken)

    def symbol_range(self, name: str) -> tuple[int, int | None]:
        """The least and the greatest size that the promises admit for a symbol (None: no bound)."""
        dim = Dim.symbol(name)
        return max(0, self.lower(dim) or 0), self.upper(dim)

    def step(self, name: str) -> int:
        """The number that every admitted size of a symbol is a multiple of; 1 where nothing is promised."""
        found = self.normal(Dim.symbol(name))
        return math.gcd(*(c for _, c in found.terms)) if found.value is None else 1

    # ------------------------------------------------------------------------------------------------- inside

    def _contradiction(self, promises: Sequence[str]) -> NoReturn:
        said = " and ".join(f"`{promise}`" for promise in promises)
        if len(promises) == 1:
            _fault("GR306", f"the promise {said} can never hold", "correct it or leave it out")
        _fault("GR306", f"the promises {said} contradict each other", "leave one of them out")

    def _difference(self, a: Dim, b: Dim) -> Dim | None:
        try:
            return self.normal(a) - self.normal(b)
        except DimError:
            return None

    def _assume(self, assumption: Assumption) -> None:
        left = assumption.left.substitute(self._substitution)
        right = assumption.right.substitute(self._substitution)
        difference = left - right
        if assumption.relation == "==":
            if difference.value is not None:
                if difference.value != 0:
                    self._contradiction(self.texts)
                return
            if not self._assume_multiple(left, right):
                self._assume_equal(difference)
            return
        if (bound := self._interval(difference)[1]) is not None and bound < 0:
            self._contradiction(self.texts)
        self._at_least_zero.append(difference)
        self._assume_bound(difference)

    def _assume_bound(self, difference: Dim) -> None:
        """`c*N + d >= 0` bounds N."""
        linear = [(m, c) for m, c in difference.terms if m]
        if len(linear) != 1 or len(linear[0][0]) != 1 or linear[0][0][0].kind != "symbol":
            return
        name, factor = linear[0][0][0].name, linear[0][1]
        rest = next((c for m, c in difference.terms if not m), 0)
        if factor > 0:
            self._low[name] = max(self._low.get(name, 0), -(rest // factor))
        else:
            bound = rest // -factor
            self._high[name] = min(self._high.get(name, bound), bound)
        if name in self._high and self._low.get(name, 0) > self._high[name]:
            self._contradiction(self.texts)

    def _assume_multiple(self, left: Dim, right: Dim) -> bool:
        """`N % k == r`: N becomes k*n + r. Other remainders are kept as equations."""
        if right.value is None:
            left, right = right, left
        if right.value is None or len(left.terms) != 1 or len(left.terms[0][0]) != 1:
            return False
        if right.value % left.terms[0][1]:
            self._contradiction(self.texts)
        right = Dim.of(right.value // left.terms[0][1])
        atom = left.terms[0][0][0]
        if atom.kind != "mod" or (modulus := atom.arguments[1].value) is None or modulus <= 0:
            return False
        if right.value is None or not 0 <= right.value < modulus:
            self._contradiction(self.texts)
        terms = [t for t in atom.arguments[0].terms if t[0]]
        constant = next((c for m, c in atom.arguments[0].terms if not m), 0)
        if len(terms) != 1 or terms[0][1] != 1 or len(terms[0][0]) != 1 or terms[0][0][0].kind != "symbol":
            return False
        name = terms[0][0][0].name
        rest = (right.value - constant) % modulus
        part = name + _HIDDEN
        low = self._low.get(name, 0)
        self._low[part] = max(0, -((rest - low) // modulus))
        if name in self._high:
            self._high[part] = (self._high[name] - rest) // modulus
            if self._low[part] > self._high[part]:
                self._contradiction(self.texts)
        self._replace(name, Dim.symbol(part) * modulus + rest)
        return True

    def _assume_equal(self, difference: Dim) -> None:
        """`p == q`: a symbol that occurs alone, with factor 1, and nowhere else in it is put in terms of the rest."""
        candidates = []
        for monomial, coefficient in difference.terms:
            if len(monomial) == 1 and abs(coefficient) == 1 and monomial[0].kind == "symbol":
                rest = Dim(tuple(t for t in difference.terms if t[0] != monomial))
                if monomial[0].name not in rest.symbols():
                    # Keep the text that reads shortest, the symbol that sorts first.
                    candidates.append((monomial[0].name, rest * -coefficient))
        if not candidates:
            self._at_least_zero.extend((difference, -difference))
            return
        name, value = max(candidates)
        low, high = self._low.get(name, 0), self._high.get(name)
        self._replace(name, value)
        self._at_least_zero.append(value - low)
        self._assume_bound(value - low)
        if high is not None:
            self._at_least_zero.append(Dim.of(high) - value)
            self._assume_bound(Dim.of(high) - value)

    def _replace(self, name: str, value: Dim) -> None:
        single = {name: value}
        self._substitution = {key: known.substitute(single) for key, known in self._substitution.items()}
        self._substitution[name] = value
        self._at_least_zero = [known.substitute(single) for known in self._at_least_zero]

    def _interval(self, dim: Dim) -> tuple[int | None, int | None]:
        """Bounds of a polynomial, term by term."""
        if dim.value is not None:
            return dim.value, dim.value
        low: int | None = 0
        high: int | None = 0
        for monomial, coefficient in dim.terms:
            bounds: tuple[int | None, int | None] = (coefficient, coefficient)
            for atom in monomial:
                bounds = _product(bounds, self._atom_interval(atom.kind, atom.name, atom.arguments))
            low = None if low is None or bounds[0] is None else low + bounds[0]
            high = None if high is None or bounds[1] is None else high + bounds[1]
        return low, high

    def _atom_interval(self, kind: str, name: str, arguments: tuple[Dim, ...]) -> tuple[int | None, int | None]:
        if kind == "symbol":
            return self._low.get(name, 0), self._high.get(name)
        bounds = [self._interval(argument) for argument in arguments]
        lows, highs = [b[0] for b in bounds], [b[1] for b in bounds]
        match kind:
            case "min":
                return _all(lows, least=True), min((h for h in highs if h is not None), default=None)
            case "max":
                return max((b for b in lows if b is not None), default=None), _all(highs, least=False)
            case "broadcast":
                return min([1, *(b for b in lows if b is not None)]), _all(highs, least=False)
            case "mod":
                positive = lows[1] is not None and lows[1] >= 0
                return (0 if positive else None), (highs[1] - 1 if positive and highs[1] is not None else None)
        divisor = arguments[1].value
        if divisor is None or divisor <= 0:
            nonnegative = lows[0] is not None and lows[0] >= 0 and lows[1] is not None and lows[1] >= 0
            return (0, highs[0]) if nonnegative else (None, None)
        return (
            None if lows[0] is None else lows[0] // divisor,
            None if highs[0] is None else highs[0] // divisor,
        )


def _all(values: Sequence[int | None], *, least: bool) -> int | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return min(known) if least else max(known)


def _product(a: tuple[int | None, int | None], b: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
    """Bounds of a product of two intervals."""
    if None not in a and None not in b:
        corners = [x * y for x in a for y in b if x is not None and y is not None]
        return min(corners), max(corners)
    if _is_nonnegative(a) and _is_nonnegative(b):
        low = a[0] * b[0] if a[0] is not None and b[0] is not None else None
        high = a[1] * b[1] if a[1] is not None and b[1] is not None else None
        return low, 0 if 0 in (a[1], b[1]) else high
    if _is_nonnegative(b) and a[1] is not None and a[1] <= 0:
        flipped = _product((-a[1], None if a[0] is None else -a[0]), b)
        return (None if flipped[1] is None else -flipped[1]), (None if flipped[0] is None else -flipped[0])
    if _is_nonnegative(a) and b[1] is not None and b[1] <= 0:
        return _product(b, a)
    return None, None


def _is_nonnegative(bounds: tuple[int | None, int | None]) -> bool:
    return bounds[0] is not None and bounds[0] >= 0


# --------------------------------------------------------------------------------------------------------- likely


def likely_values(
    symbols: Iterable[str], facts: DimFacts, flags: Mapping[str, tuple[int, ...]] | None = None
) -> dict[str, tuple[int, ...]]:
    """Sizes at which costs are taken, for each symbol: those of `--likely`, else the middle of the promised range,
    else 1 for a dimension called batch or N, else 8."""
    given = flags or {}
    chosen: dict[str, int] = {}
    values: dict[str, tuple[int, ...]] = {}
    for name in symbols:
        if name in given:
            values[name] = given[name]
            continue
        found = facts.normal(Dim.symbol(name))
        for part in found.symbols():
            if part not in chosen:
                chosen[part] = given[part][0] if given.get(part) else _usual(part, facts)
        values[name] = (found.evaluate(chosen),)
    return values


def _usual(name: str, facts: DimFacts) -> int:
    low, high = facts.symbol_range(name)
    if high is not None:
        return (low + high) // 2
    if name.endswith(_HIDDEN):
        return max(low, 1)
    return max(low, 1 if name == "N" or re.search("batch", name, re.IGNORECASE) else 8)
