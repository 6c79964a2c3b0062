"""A graph as patterns and costs see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from gerules.dsl.protocols import RegistryLike
from gerules.graph.attributes import attribute_text
from gerules.graph.constants import ConstantError, ConstantTable, decode
from gerules.graph.info import UNKNOWN, Info
from gerules.registry.definition import OperatorDef
from gerules.static import TensorView
from gerules.static.values import Array

BODY = "<body>"
"""What stands for the text of an attribute that has none: a graph, a type, a function's attribute."""


class GraphView:
    """The nodes of a graph and of its bodies, with `infos` as `infer_facts` gives them.

    `opsets` are the versions that the model imports. `declared` are operators of rule files by key; what neither the
    registry nor they have is opaque: a definition without `since`.
    """

    def __init__(
        self,
        infos: Mapping[ir.Value, Info],
        opsets: Mapping[str, int],
        registry: RegistryLike,
        table: ConstantTable | None = None,
        declared: Mapping[str, OperatorDef] | None = None,
    ) -> None:
        self._infos = infos
        self._opsets = opsets
        self._registry = registry
        self._table = table or ConstantTable()
        self._declared = declared or {}
        self._operators: dict[tuple[str, str], OperatorDef] = {}
        self._tensors: dict[ir.Value, TensorView] = {}

    def operator(self, node: ir.Node) -> OperatorDef:
        key = (node.domain, node.op_type)
        if key not in self._operators:
            self._operators[key] = self._define(*key)
        return self._operators[key]

    def _define(self, domain: str, name: str) -> OperatorDef:
        version = self._opsets.get(domain)
        found = None if version is None else self._registry.lookup(domain, name, version)
        return (
            found or self._declared.get(f"{domain}.{name}@{version or 1}") or OperatorDef(domain, name, "", (), (), ())
        )

    def attributes(self, node: ir.Node) -> Mapping[str, str]:
        texts = {formal.name: formal.default or "" for formal in self.operator(node).attributes}
        for name, attribute in node.attributes.items():
            text = attribute_text(attribute, self._table)
            texts[name] = BODY if text is None else text
        return texts

    def operands(self, node: ir.Node) -> Sequence[ir.Value | None]:
        return node.inputs

    def results(self, node: ir.Node) -> Sequence[ir.Value | None]:
        return tuple(value if value.name else None for value in node.outputs)

    def producers(self, value: ir.Value) -> Sequence[ir.Node]:
        producer = value.producer()
        return () if producer is None else (producer,)

    def tensor(self, value: ir.Value) -> TensorView:
        made = self._tensors.get(value)
        if made is None:
            info = self._infos.get(value, UNKNOWN)
            made = self._tensors[value] = TensorView(info, self._contents(info))
        return made

    def _contents(self, info: Info) -> Array | None:
        if info.constant_text is None:
            return None
        try:
            return decode(info.constant_text, self._table)
        except ConstantError:
            return None

    @staticmethod
    def name(node: ir.Node) -> str:
        """How messages call a node."""
        return node.name or node.op_type
