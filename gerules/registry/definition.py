"""What an operator is: one definition of a registry, as plain data.

A registry is a domain at a version. Definitions come from the installed ONNX schemas, from rule files (`op`), and,
later, from JSON and headers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

REQUIRED, OPTIONAL, VARIADIC = "required", "optional", "variadic"


@dataclass(frozen=True, slots=True)
class Operand:
    """A formal input or output. `type` is a type variable of the definition (`T`) or a concrete type text
    (`tensor(i64)`); `types` the admitted element types in our names (`f32`), or `seq(f32)`, `optional(f32)`, ..."""

    name: str
    kind: str  # REQUIRED, OPTIONAL, VARIADIC
    type: str
    types: frozenset[str] = frozenset()
    homogeneous: bool = True
    minimum: int = 0  # of a variadic one: how many at least


@dataclass(frozen=True, slots=True)
class Attribute:
    """A formal attribute. `type` is one of int, float, str, tensor, graph, sparse_tensor, type, and ints, floats,
    strs, tensors, graphs, ...; `default` is canonical text (see `gerules.graph.attributes`), None where none."""

    name: str
    type: str
    required: bool = False
    default: str | None = None


@dataclass(frozen=True, slots=True)
class OperatorDef:
    """One registered version of one operator. `domain` is "" for ai.onnx; `since` is the version that brought this
    definition, as text; attributes are in registry order (sorted by name for ONNX)."""

    domain: str
    name: str
    since: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    attributes: tuple[Attribute, ...]
    constraints: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    has_body: bool = False
    deprecated: bool = False
    deterministic: bool = True
    doc: str = field(default="", repr=False, compare=False)

    @property
    def key(self) -> str:
        """`Clip@11`, or `ge.Concat@1.8.0`: how messages and rules call it."""
        prefix = f"{self.domain}." if self.domain else ""
        return f"{prefix}{self.name}@{self.since}"

    def attribute(self, name: str) -> Attribute | None:
        return next((a for a in self.attributes if a.name == name), None)
