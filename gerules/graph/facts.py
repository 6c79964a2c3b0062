"""What is known of every value of a graph before anything is rewritten.

From the declared types, ONNX's shape inference over the whole graph, constants, and the sizes and equalities that the
user promises. A dimension name counts only where it stands in the type of a graph input and is an identifier: exporters
give names like `?` or `unk__3` to unrelated dimensions, and names of intermediate values are notes that nothing keeps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import onnx
import onnx.shape_inference
import onnx_ir as ir

from gerules.errors import Diagnostic
from gerules.graph.constants import MAX_INLINE_BYTES, ConstantTable
from gerules.graph.dimension import Dim
from gerules.graph.dims import DimFacts
from gerules.graph.dtypes import is_tensor, type_name
from gerules.graph.infer import infer_node, info_of_type, type_proto
from gerules.graph.info import UNKNOWN, Contradiction, Info, join
from gerules.graph.structure import all_graphs, bodies, constant_tensor, constant_values, is_foreign

__all__ = ["declared_info", "infer_facts", "infer_node", "input_symbols"]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_GENERATED = re.compile(r"unk__[0-9]+\Z")


def input_symbols(graph: ir.Graph) -> tuple[str, ...]:
    """The dimension names of a graph's inputs that count, in order of first appearance."""
    names: dict[str, None] = {}
    for value in graph.inputs:
        for dim in value.shape or ():
            name = None if isinstance(dim, int) else dim.value
            if name and _IDENTIFIER.match(name) and not _GENERATED.match(name):
                names[name] = None
    return tuple(names)


def declared_info(value: ir.Value, symbols: Iterable[str], facts: DimFacts) -> Info:
    """What a value's declared type says; dimension names other than `symbols` are unknown extents."""
    name = type_name(value.type)
    if name is None:
        return UNKNOWN
    if value.shape is None or not is_tensor(name):
        return Info(name, None)
    known = symbols if isinstance(symbols, frozenset | dict) else frozenset(symbols)
    dims: list[Dim | None] = []
    for dim in value.shape:
        if isinstance(dim, int):
            dims.append(Dim.of(dim) if dim >= 0 else None)
        else:
            dims.append(facts.known(Dim.symbol(dim.value)) if dim.value in known and dim.value else None)
    return Info(name, tuple(dims))


def infer_facts(
    model: ir.Model | ir.Graph,
    facts: DimFacts | None = None,
    *,
    table: ConstantTable | None = None,
    diagnostics: list[Diagnostic] | None = None,
) -> dict[ir.Value, Info]:
    """What is known of every value of a graph and, recursively, of its bodies; `UNKNOWN` where nothing is.

    Promised sizes and equalities are put in for the symbols. With a `table` large constants are known by content too.
    Warnings are appended to `diagnostics`: a declared type that contradicts what the graph computes (which is then
    left out), or a graph on which ONNX's inference gives up (then the declared types are all there is).
    """
    return _Inference(model, facts or DimFacts(), table, diagnostics if diagnostics is not None else []).run()


class _Inference:
    """One run over one graph."""

    def __init__(
        self, model: ir.Model | ir.Graph, facts: DimFacts, table: ConstantTable | None, diagnostics: list[Diagnostic]
    ) -> None:
        self.model = model if isinstance(model, ir.Model) else None
        self.graph = model.graph if isinstance(model, ir.Model) else model
        self.facts = facts
        self.table = table
        self.diagnostics = diagnostics
        self.names = dict.fromkeys(input_symbols(self.graph))
        self.surrogates: dict[str, str] = {}
        self.symbols: dict[str, Dim] = {}
        self.declared: dict[ir.Value, Info] = {}
        self.proto = self._proto()

    def run(self) -> dict[ir.Value, Info]:
        for graph in all_graphs(self.graph):
            for value in _values(graph):
                self.declared[value] = declared_info(value, self.names, self.facts)
        found = self._pass({})
        if found is None:
            found = dict(self.declared)
        else:
            known = self._joined(found)
            if any(info != found[value] for value, info in known.items()):
                again = self._pass(known)
                found = known if again is None else self._joined(again)
            else:
                found = known
        self._add_constants(found)
        return found

    # ------------------------------------------------------------------------------------------------ ONNX's part

    def _pass(self, known: Mapping[ir.Value, Info]) -> dict[ir.Value, Info] | None:
        """The types that inference finds, starting from the inputs and what is known already."""
        for graph, graph_proto in _parallel(self.graph, self.proto.graph):
            self._prepare(graph, graph_proto, known)
        try:
            inferred = onnx.shape_inference.infer_shapes(self.proto, data_prop=True)
        except Exception as error:  # InferenceError, ValueError and others, depending on the operator
            self.diagnostics.append(
                Diagnostic(
                    "GR331",
                    f"ONNX's shape inference gives up on this graph: {str(error).strip().splitlines()[0][:200]}",
                    hint="types are taken from the model's value_info alone",
                    severity="warning",
                )
            )
            return None
        found: dict[ir.Value, Info] = {}
        for graph, graph_proto in _parallel(self.graph, inferred.graph):
            types = {
                entry.name: entry.type
                for entries in (graph_proto.value_info, graph_proto.output, graph_proto.input)
                for entry in entries
            }
            for value in _values(graph):
                entry = types.get(value.name or "")
                found[value] = UNKNOWN if entry is None else info_of_type(entry, self.symbols)
        return found

    def _proto(self) -> onnx.ModelProto:
        """The model without the contents of large initializers."""
        proto = onnx.ModelProto(ir_version=self.model.ir_version if self.model is not None else onnx.IR_VERSION)
        for domain, version in self.graph.opset_imports.items():
            proto.opset_import.add(domain=domain, version=version)
        small = [
            value
            for value in self.graph.initializers.values()
            if value.const_value is not None and value.const_value.nbytes <= MAX_INLINE_BYTES
        ]
        view: Any = ir.GraphView(
            self.graph.inputs, self.graph.outputs, nodes=self.graph, initializers=small, name="graph"
        )
        ir.serde.serialize_graph_into(proto.graph, view)
        if self.model is not None:
            for function in self.model.functions.values():
                ir.serde.serialize_function_into(proto.functions.add(), function)
        return proto

    def _prepare(self, graph: ir.Graph, proto: onnx.GraphProto, known: Mapping[ir.Value, Info]) -> None:
        """Puts what is known into a graph's proto, dimension names as surrogates, and takes everything else out."""
        del proto.value_info[:]
        for value, entry in zip(graph.inputs, proto.input, strict=True):
            self._set_type(entry, known.get(value, self.declared[value]))
        for value, entry in zip(graph.outputs, proto.output, strict=True):
            entry.ClearField("type")
            # Inference wants an element type for the outputs of a body.
            declared = known.get(value) or self.declared.get(value, UNKNOWN)
            defined = value.producer() is None and (value.is_graph_input() or value.is_initializer())
            if defined or value in known or not is_tensor(declared.dtype):
                self._set_type(entry, declared)
            else:
                self._set_type(entry, Info(declared.dtype, None))
        functions = self.model.functions if self.model is not None else {}
        given = {value.name for value in graph.inputs} | {value.name for value in graph.outputs}
        for value in graph.initializers.values():
            if value.name not in given:
                self._set_type(proto.value_info.add(name=value.name), self.declared[value])
        for node in graph:
            foreign = is_foreign(node, self.graph.opset_imports, functions)  # type: ignore[arg-type]
            for value in node.outputs:
                if value.name and value.name not in given and (foreign or value in known):
                    self._set_type(proto.value_info.add(name=value.name), known.get(value, self.declared[value]))

    def _set_type(self, entry: onnx.ValueInfoProto, info: Info) -> None:
        made = type_proto(info, self.surrogates, self.symbols) if info != UNKNOWN else None
        if made is not None:
            entry.type.CopyFrom(made)
        elif info == UNKNOWN:
            entry.ClearField("type")

    # --------------------------------------------------------------------------------------------------- our part

    def _joined(self, found: Mapping[ir.Value, Info]) -> dict[ir.Value, Info]:
        known: dict[ir.Value, Info] = {}
        for value, info in found.items():
            declared = self.declared[value]
            try:
                known[value] = join(info, declared)
            except Contradiction:
                known[value] = info
                self.diagnostics.append(
                    Diagnostic(
                        "GR332",
                        f"value {value.name!r} is declared {declared}, but the graph computes {info}",
                        node=value.name,
                        hint="the declared type is not believed; correct or delete it in the model",
                        severity="warning",
                    )
                )
        return known

    def _add_constants(self, found: dict[ir.Value, Info]) -> None:
        version = self.model.ir_version if self.model is not None else None
        for graph in all_graphs(self.graph):
            fixed = constant_values(graph, version if graph is self.graph else None)
            for name, value in graph.initializers.items():
                if name in fixed and value.const_value is not None:
                    self._add_constant(found, value, value.const_value)
            for node in graph:
                tensor = constant_tensor(node)
                if tensor is not None:
                    self._add_constant(found, node.outputs[0], tensor)

    def _add_constant(self, found: dict[ir.Value, Info], value: ir.Value, tensor: ir.TensorProtocol) -> None:
        if self.table is None and tensor.nbytes > MAX_INLINE_BYTES:
            return
        table = self.table if self.table is not None else ConstantTable()
        made = Info.of_array(tensor.numpy(), table)
        if made.constant_text is not None and (self.table is not None or not len(table)):
            found[value] = made


def _values(graph: ir.Graph) -> list[ir.Value]:
    """Every value that a graph itself defines, once, in order."""
    values: dict[ir.Value, None] = dict.fromkeys(graph.inputs)
    values.update(dict.fromkeys(graph.initializers.values()))
    for node in graph:
        values.update(dict.fromkeys(node.outputs))
    return list(values)


def _parallel(graph: ir.Graph, proto: onnx.GraphProto) -> Iterable[tuple[ir.Graph, onnx.GraphProto]]:
    """A graph and its bodies beside their protos, which have the same nodes in the same order."""
    pairs = []
    pending = [(graph, proto)]
    while pending:
        current, current_proto = pending.pop()
        pairs.append((current, current_proto))
        for node, node_proto in zip(current, current_proto.node, strict=True):
            inner = bodies(node)
            if inner:
                protos = [p for a in node_proto.attribute for p in ([a.g] if a.HasField("g") else a.graphs)]
                pending.extend(zip((body for _, body in inner), protos, strict=True))
    return pairs
