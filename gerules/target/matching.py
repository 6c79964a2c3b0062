"""What a pattern is matched against and what a match is.

A pattern (`patterns`) is compiled once and tried on any view of nodes: a graph, or e-classes with several producers a
value. A match is an environment: variables as tensors (None where absent), attributes typed by the operator's
definition, nodes as `NodeView`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from gerules.dsl import ast
from gerules.errors import Diagnostic, Refused
from gerules.registry.definition import OperatorDef
from gerules.static import NodeView, TensorView, Value


class View(Protocol):
    """Nodes and values as patterns see them. An opaque node's operator has no `since`."""

    def operator(self, node: Any) -> OperatorDef:
        """The definition of the node's operator at its version."""
        ...

    def attributes(self, node: Any) -> Mapping[str, str]:
        """Canonical text of every attribute, defaults filled in, "" where unset."""
        ...

    def operands(self, node: Any) -> Sequence[Any]:
        """Operands by place, None where absent; a variadic one flattened."""
        ...

    def results(self, node: Any) -> Sequence[Any]:
        """Results by place, None where not asked for."""
        ...

    def producers(self, value: Any) -> Sequence[Any]:
        """The nodes that give the value: one or none in a graph, several in an e-class."""
        ...

    def tensor(self, value: Any) -> TensorView:
        """What is known of the value."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """A match so far: variables as rules see them, the values and nodes behind them, and all nodes matched."""

    env: Mapping[str, Value] = field(default_factory=dict)
    behind: Mapping[str, Any] = field(default_factory=dict)
    nodes: tuple[Any, ...] = ()

    def bind(self, name: str, value: Value, behind: Any) -> Found:
        return Found({**self.env, name: value}, {**self.behind, name: behind}, self.nodes)


OfNode: TypeAlias = Callable[[View, Any, Found], Iterator[Found]]
OfValue: TypeAlias = Callable[[View, Any, bool, Found], Iterator[Found]]
"""Matches an operand; the flag says that its place may be empty."""


@dataclass(frozen=True)
class Heads:
    """The operators at the root of a pattern, by key; `opaque` those that no registry has: all, or one by domain and
    name."""

    keys: frozenset[str]
    opaque: bool | tuple[str, str] = False

    def admits(self, operator: OperatorDef) -> bool:
        if operator.since:
            return operator.key in self.keys
        return self.opaque if isinstance(self.opaque, bool) else self.opaque == (operator.domain, operator.name)


class Resolve(Protocol):
    """What capital names of operators mean in the file of a pattern."""

    def heads(self, symbol: ast.Symbol) -> Heads: ...

    def members(self, domain: ast.Expr) -> Heads: ...

    def dtype_attribute(self, operator: OperatorDef, attribute: str) -> bool: ...


@dataclass(frozen=True)
class Matcher:
    """A compiled pattern. `names` are the variables that a match binds and what they stand for; `flat` says that only
    the root's operator is asked for, so that a match depends on nothing beyond the node and its operands' tensors."""

    heads: Heads
    names: Mapping[str, str]
    flat: bool
    _match: OfNode = field(repr=False)

    def found(self, view: View, node: Any) -> Iterator[Found]:
        """Every match at a node, with the nodes that took part."""
        if self.heads.admits(view.operator(node)):
            yield from self._match(view, node, Found())

    def match(self, view: View, node: Any) -> Iterator[Mapping[str, Value]]:
        """Every match at a node: its variables."""
        for found in self.found(view, node):
            yield found.env


def node_view(view: View, node: Any) -> Value:
    """A node as rules see it: as a tensor its first result, `[i]` its results; None for a node without results."""
    results = tuple(None if r is None else view.tensor(r) for r in view.results(node))
    first = next((r for r in results if r is not None), None)
    return None if first is None else NodeView(first.info, first.constant, results)


def no_pattern(expr: ast.Node, why: str, hint: str | None = None) -> Refused:
    return Refused(Diagnostic("GR600", why, span=expr.span, hint=hint))
