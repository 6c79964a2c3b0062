"""What rules over tables are made of once their names are understood: plain data between checking and egglog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gerules.dsl import ast
from gerules.errors import Diagnostic, Refused

Cell = str | int | float
Row = tuple[Cell, ...]

TEXT, INT, FLOAT = "String", "i64", "f64"
"""The sorts of columns."""

_INTS, _FLOATS = ("int", "dim", "mask"), ("float",)


def sort_of(type_: str) -> str:
    """The sort of a declared column type."""
    return INT if type_ in _INTS else FLOAT if type_ in _FLOATS else TEXT


@dataclass(frozen=True, slots=True)
class Relation:
    """One relation: a table, or what facts conclude. A function has its result as last column; `bound` is "min" or
    "max" where facts conclude it with `<=` or `>=`. `types` are the declared types of the columns, "" where open."""

    name: str
    sorts: tuple[str, ...]
    types: tuple[str, ...]
    function: bool = False
    bound: str = ""
    table: bool = False

    @property
    def arity(self) -> int:
        """Operands in a rule: the columns without the result."""
        return len(self.sorts) - int(self.function)


@dataclass(frozen=True, slots=True)
class Clause:
    """One way for a rule to hold: positive conditions as egglog facts, and what must not hold."""

    facts: tuple[str, ...]
    absent: tuple[Absent, ...]


@dataclass(frozen=True, slots=True)
class Absent:
    """`not p(...)`: the relation, its operands as egglog text, None where anything will do."""

    relation: str
    operands: tuple[str | None, ...]

    @property
    def mask(self) -> str:
        return "".join("_" if o is None else "k" for o in self.operands)


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a rule adds: a row, or a value that is merged by the relation's bound."""

    relation: str
    operands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Translated:
    """A statement: the ways to hold, and what follows. `holes` are the variables that a refusal carries."""

    name: str
    clauses: tuple[Clause, ...]
    conclusions: tuple[Conclusion, ...]
    holes: tuple[str, ...] = ()
    hole_texts: tuple[str, ...] = ()
    hole_sorts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Words:
    """Every relation that rules may name, and the classes they ask for (as one-column relations)."""

    relations: Mapping[str, Relation]
    classes: dict[str, tuple[str, ...]] = field(default_factory=dict)


def refused(code: str, message: str, where: ast.Node | None, hint: str | None = None) -> Refused:
    return Refused(Diagnostic(code, message, span=where.span if where is not None else None, hint=hint))
