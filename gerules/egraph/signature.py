"""What an operator looks like in the e-graph: its constructor, its sort, its columns.

One constructor for each semantic version. Columns are operands, then attributes in registry order, all as canonical
text; an operator with several results has sort `N`, a column `results` with the number of results asked for, and
projections `(Out n i)`; a variadic operand is one `Ts` column; an impure operator has its node's number as last column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gerules.registry.definition import OPTIONAL, REQUIRED, VARIADIC, Attribute, OperatorDef

RESULTS = "results"
_UNFIT = ("graph", "graphs", "sparse_tensor", "sparse_tensors", "tensors", "type", "types", "type_proto", "type_protos")


@dataclass(frozen=True)
class Signature:
    """The form of one semantic version in the e-graph.

    `definition` is the oldest definition of the semantic version, `newest` the newest: type inference asks the newest.
    `dtype_attributes` are the int attributes that name an element type: their columns hold `f32`, not `1`.
    """

    definition: OperatorDef
    newest: OperatorDef
    impure: bool = False
    dtype_attributes: frozenset[str] = frozenset()

    @cached_property
    def constructor(self) -> str:
        domain = re.sub(r"\W", "_", self.definition.domain)
        name = re.sub(r"\W", "_", self.definition.name)
        since = self.definition.since.replace(".", "_")
        return f"{domain + '__' if domain else ''}{name}_{since}"

    @cached_property
    def several(self) -> bool:
        """Whether the operator denotes a node with projections (sort N)."""
        outputs = self.definition.outputs
        return len(outputs) != 1 or outputs[0].kind == VARIADIC

    @property
    def sort(self) -> str:
        return "N" if self.several else "T"

    @cached_property
    def fixed(self) -> int:
        """How many operand columns of sort T there are."""
        return sum(o.kind != VARIADIC for o in self.definition.inputs)

    @cached_property
    def variadic(self) -> bool:
        return any(o.kind == VARIADIC for o in self.definition.inputs)

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attribute columns, `results` last where the operator has several."""
        columns = tuple(a for a in self.newest.attributes if a.type not in _UNFIT)
        return (*columns, Attribute(RESULTS, "int", False, self.default_results)) if self.several else columns

    @cached_property
    def default_results(self) -> str | None:
        """`results` where a rule does not say: the required ones, at least one; None where it is variadic."""
        outputs = self.definition.outputs
        if not outputs or any(o.kind == VARIADIC for o in outputs):
            return None
        return str(max(1, sum(o.kind == REQUIRED for o in outputs)))

    @cached_property
    def representable(self) -> bool:
        """Whether every attribute has a text form; operators with bodies have not."""
        return all(a.type not in _UNFIT for a in self.newest.attributes)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The sorts of the constructor's arguments."""
        operands = ("T",) * self.fixed + (("Ts",) if self.variadic else ())
        return (*operands, *("String",) * len(self.attributes), *(("i64",) if self.impure else ()))

    def kind(self, attribute: str) -> str:
        """The type of an attribute column as static expressions see it."""
        if attribute in self.dtype_attributes:
            return "dtype"
        return next(a.type for a in self.attributes if a.name == attribute)

    def operand_kind(self, place: int) -> str:
        inputs = self.definition.inputs
        return inputs[place].kind if place < len(inputs) else inputs[-1].kind

    def optional(self, place: int) -> bool:
        return self.operand_kind(place) == OPTIONAL


@dataclass
class Signatures:
    """The signatures of all operators that a program speaks of, by definition.

    `representative` maps a definition's key to the key of the oldest definition of its semantic version, `members` the
    other way; what is in neither is a semantic version of its own.
    """

    lookup: Callable[[str], OperatorDef]
    representative: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    impure: frozenset[str] = frozenset()
    dtype_attributes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    _made: dict[str, Signature] = field(default_factory=dict)

    def of(self, definition: OperatorDef) -> Signature:
        key = self.representative.get(definition.key, definition.key)
        if key not in self._made:
            oldest = self.lookup(key) if key != definition.key else definition
            chain = self.members.get(key, (key,))
            newest = self.lookup(chain[-1]) if len(chain) > 1 else oldest
            name = f"{oldest.domain}.{oldest.name}" if oldest.domain else oldest.name
            self._made[key] = Signature(
                oldest,
                newest,
                name in self.impure or not oldest.deterministic,
                frozenset().union(*(self.dtype_attributes.get(k, frozenset()) for k in chain)),
            )
        return self._made[key]

    def all(self) -> Iterable[Signature]:
        return self._made.values()
