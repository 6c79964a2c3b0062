"""A release of a registry as its source has it: operators with places, kinds, types as written, and defaults.

`OperatorDef` is what rules need of an operator. A `ReleaseOperator` is all that a registration says, so that it can be
written again byte for byte and two releases can be compared: order of attributes, kinds of results, types that nobody
spelt right, bodies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

REQUIRED, OPTIONAL, DYNAMIC = "required", "optional", "dynamic"

INPUT_KINDS = (REQUIRED, OPTIONAL, DYNAMIC)
OUTPUT_KINDS = (REQUIRED, DYNAMIC)
BODY_KINDS = (REQUIRED, DYNAMIC)
ATTRIBUTE_TYPES = (
    "Int", "Float", "Bool", "String", "Type", "Tensor", "ListInt", "ListFloat", "ListBool", "ListString", "ListType",
    "ListListInt",
)  # fmt: skip

Literal = bool | int | float | str | tuple["Literal", ...]
"""A default: JSON without objects, lists as tuples."""


@dataclass(frozen=True, slots=True)
class Port:
    """A formal input or output. `kind` is one of REQUIRED, OPTIONAL, DYNAMIC; `types` are as the source has them."""

    name: str
    kind: str
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReleaseAttribute:
    """A formal attribute; `default` is None where it is required, or where a source leaves it open."""

    name: str
    type: str
    required: bool = False
    default: Literal | None = None


@dataclass(frozen=True, slots=True)
class Body:
    """A formal subgraph: REQUIRED, or DYNAMIC for any number of them."""

    name: str
    kind: str = REQUIRED


@dataclass(frozen=True, slots=True)
class ReleaseOperator:
    """One operator of a release, lists in order of declaration. `datatypes`: what a type symbol may stand for."""

    name: str
    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()
    attributes: tuple[ReleaseAttribute, ...] = ()
    bodies: tuple[Body, ...] = ()
    datatypes: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def attribute(self, name: str) -> ReleaseAttribute | None:
        return next((a for a in self.attributes if a.name == name), None)


@dataclass(frozen=True, slots=True)
class Release:
    """A domain at a version. `domain` is "" for ai.onnx; `version` digits and dots, or "" where nothing says it."""

    domain: str
    version: str
    operators: Mapping[str, ReleaseOperator] = field(hash=False)

    def __str__(self) -> str:
        name = self.domain or "ai.onnx"
        return f"{name}@{self.version}" if self.version else name


def same_default(one: Literal | None, other: Literal | None) -> bool:
    """Whether two defaults are one value: numbers are compared as numbers, a truth value is no number."""
    pending = [(one, other)]
    while pending:
        left, right = pending.pop()
        if isinstance(left, tuple) and isinstance(right, tuple):
            if len(left) != len(right):
                return False
            pending.extend(zip(left, right, strict=True))
        elif isinstance(left, bool) is not isinstance(right, bool) or left != right:
            return False
    return True


def default_text(value: Literal) -> str:
    """A default as rules and messages have it: `False`, `1e-05`, `[1, 2]`, text itself. One value has one text."""
    if isinstance(value, str):
        return value
    return _inside(value)


def _inside(value: Literal) -> str:
    # Lists nest twice at most (lists of lists of integers), so the recursion is as deep as that.
    if isinstance(value, tuple):
        return f"[{', '.join(map(_inside, value))}]"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(value) if not isinstance(value, str) else f'"{value}"'
