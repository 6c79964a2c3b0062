"""The left side of a case as a straight program: which tensors there are, which operators make them, what is drawn.

A pattern leaves open how many operands a rest stands for, which optional operands are there, how many results are asked
for. One way to close all of that is a `Layout`: a list of steps that a draw follows. Element types are linked by the
type variables of the operators, and each link is one class of types to be drawn together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gerules.dsl import ast
from gerules.egraph.signature import Signature
from gerules.egraph.texts import parse_value
from gerules.registry.definition import Attribute, Operand

# ------------------------------------------------------------------------------------------------------- bindings


@dataclass(frozen=True, slots=True)
class TensorAt:
    number: int


@dataclass(frozen=True, slots=True)
class NodeAt:
    number: int


@dataclass(frozen=True, slots=True)
class ColumnAt:
    """A static value of the draw: an attribute (`kind` its type), contents of a constant (`const`), a number."""

    number: int
    kind: str


@dataclass(frozen=True, slots=True)
class ListOf:
    items: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class RestOf:
    """What a last `..r` stands for: operands, attributes by name."""

    operands: tuple[TensorAt, ...]
    attributes: Mapping[str, ColumnAt]
    signature: Signature


@dataclass(frozen=True, slots=True)
class Fixed:
    value: object


Bound = TensorAt | NodeAt | ColumnAt | ListOf | RestOf | Fixed


# ---------------------------------------------------------------------------------------------------------- steps


@dataclass(frozen=True, slots=True)
class DrawLeaf:
    """A random operand: of which operator, at which place."""

    tensor: int
    name: str
    formal: Operand
    signature: Signature


@dataclass(frozen=True, slots=True)
class DrawHeld:
    """A value that is known to the rule: `kind` is const, splat, dims, dim or iota. What is written of its contents
    and its shape is `content` and `shape`: a column to fill, or an expression to take."""

    tensor: int
    kind: str
    content: int
    given: ast.Expr | None
    shape: int | None
    given_shape: ast.Expr | None
    formal: Operand | None
    signature: Signature | None


@dataclass(frozen=True, slots=True)
class DrawColumn:
    """An attribute that the rule leaves open."""

    column: int
    attribute: Attribute
    kind: str
    signature: Signature


@dataclass(frozen=True, slots=True)
class SetColumn:
    """An attribute with a value: as written, or computed from what is known by then."""

    column: int
    value: object
    expr: ast.Expr | None = None


@dataclass(frozen=True, slots=True)
class RunNode:
    node: int
    signature: Signature
    operands: tuple[int | None, ...]
    columns: tuple[int, ...]
    results: tuple[int, ...]


Step = DrawLeaf | DrawHeld | DrawColumn | SetColumn | RunNode


@dataclass
class Layout:
    """One closed form of a left side. `classes` are the element types that each class may take, `class_of` the class
    of each tensor, `column_class` that of each attribute that names a type."""

    steps: tuple[Step, ...]
    names: Mapping[str, Bound]
    root: Bound
    conditions: tuple[ast.Expr, ...]
    classes: tuple[tuple[str, ...], ...]
    class_of: tuple[int, ...]
    column_class: Mapping[int, int]
    columns: int
    nodes: int
    order: tuple[int, ...]
    """Tensors in the order in which names met them: what an element type is taken from where nothing says it."""
    absent: frozenset[int] = frozenset()


def default_value(kind: str, attribute: Attribute) -> object:
    text = attribute.default or ""
    return (text or None) if kind == "dtype" else parse_value(kind, text)
