"""What static expressions are evaluated against: known dimensions, declared names, relations, functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gerules.dsl.ast import Symbol
from gerules.graph.dims import Dim, DimFacts
from gerules.static.elements import ELEMENTS
from gerules.static.values import Value

if TYPE_CHECKING:
    from gerules.static.host import HostFunction

DTYPES = frozenset(ELEMENTS)
"""Element types: small-letter names that are never variables."""


def dimension(symbol: Symbol) -> Value:
    """A capital name that nothing declares is a dimension symbol."""
    return Dim.symbol(symbol.name)


@dataclass(frozen=True)
class Context:
    """Everything that an expression's value depends on beside its variables.

    `facts`: what is promised of dimension symbols. `classes`: class name -> members (element types, numbers, operator
    keys as `values.in_class` reads them). `symbol`: the value of any other capital name (an operator is the frozenset
    of its keys; else a dimension symbol). `relations`: rows by name; a row's operator may be such a frozenset.
    `lookups`: tables with a result: arguments -> result. `functions`: host functions beside and before the shipped
    ones (`evaluate` of the simulator, for one).
    """

    facts: DimFacts = field(default_factory=DimFacts)
    classes: Mapping[str, frozenset[object]] = field(default_factory=dict)
    symbol: Callable[[Symbol], Value] = dimension
    relations: Mapping[str, Sequence[tuple[Value, ...]]] = field(default_factory=dict)
    lookups: Mapping[str, Mapping[tuple[Value, ...], Value]] = field(default_factory=dict)
    functions: Mapping[str, HostFunction] = field(default_factory=dict)
