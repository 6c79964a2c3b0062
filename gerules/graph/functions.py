"""What the body of an operator is for one node: the nodes of the function that the operator's schema ships.

A schema has a body, or makes one for a node's attributes and operand types (a context-dependent one); either is written
at operator versions of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import onnx.defs
import onnx_ir as ir

from gerules.graph.dtypes import onnx_type
from gerules.graph.facts import infer_facts
from gerules.graph.infer import type_proto
from gerules.graph.info import UNKNOWN, Info
from gerules.graph.structure import all_graphs, bodies
from gerules.registry.definition import OperatorDef


@dataclass(frozen=True)
class Body:
    """The body of one node. `nodes` belong to no graph; they read the node's operands. `results` are what stands for
    the node's results, None for one that is not asked for. `imports` are the operator versions that the nodes are
    written at; `infos` is what is known of the body's values, those of its inner graphs included."""

    nodes: tuple[ir.Node, ...]
    results: tuple[ir.Value | None, ...]
    imports: Mapping[str, int]
    infos: Mapping[ir.Value, Info]


def function_body(
    node: ir.Node,
    definition: OperatorDef,
    operands: Sequence[Info | None],
    newest: int,
    fresh: Callable[[str], str],
) -> Body | None:
    """The body of `node`; None where its schema has none for it. `operands` is what is known of its operands (None:
    absent); of several bodies it is the one at the newest version up to `newest`, else the oldest. `fresh` gives names
    that are free in the model."""
    proto = _proto(node, definition, operands, newest)
    if proto is None:
        return None
    made = {name for inner in proto.node for name in inner.output} | set(proto.input)
    outputs = list(proto.output)
    # A body names all results of its operator, also those that it was not asked to compute.
    del proto.output[:]
    proto.output.extend(name for name in outputs if name in made)
    function = ir.serde.deserialize_function(proto)
    _bind_attributes(function, node, definition)
    infos = _infos(function, operands)
    _rename(function, node.name or node.op_type, fresh)
    nodes = tuple(function)
    results = _connect(function, node, [name in made for name in outputs])
    return Body(nodes, results, {e.domain: e.version for e in proto.opset_import}, infos)


def _proto(
    node: ir.Node, definition: OperatorDef, operands: Sequence[Info | None], newest: int
) -> onnx.FunctionProto | None:
    try:
        schema: Any = onnx.defs.get_schema(definition.name, int(definition.since), definition.domain)
    except onnx.defs.SchemaError:
        return None
    if schema.has_function:
        version = _version(schema.function_opset_versions, newest)
        fixed: onnx.FunctionProto = onnx.FunctionProto.FromString(schema.get_function_with_opset_version(version))
        return fixed
    if not schema.has_context_dependent_function:
        return None
    version = _version(schema.context_dependent_function_opset_versions, newest)
    types = []
    for info in operands:
        kind = onnx.TypeProto() if info is None or info == UNKNOWN else type_proto(info, {}, {})
        if kind is None:
            return None
        types.append(kind.SerializeToString())
    written = ir.serde.serialize_node(node).SerializeToString()
    try:
        text = schema.get_context_dependent_function_with_opset_version(version, written, types)
    except Exception:  # the schema makes no body for these types or attributes
        return None
    made: onnx.FunctionProto = onnx.FunctionProto.FromString(text)
    return made if text else None


def _version(versions: Sequence[int], newest: int) -> int:
    return max((v for v in versions if v <= newest), default=min(versions))


def inner_nodes(nodes: Sequence[ir.Node]) -> Iterator[ir.Node]:
    """Nodes, and those of all graphs in them."""
    for node in nodes:
        yield node
        for _, body in bodies(node):
            for graph in all_graphs(body):
                yield from graph


def _bind_attributes(function: ir.Function, node: ir.Node, definition: OperatorDef) -> None:
    """Puts the node's attributes (or the schema's defaults) in the place of references to them."""
    schema: Any = onnx.defs.get_schema(definition.name, int(definition.since), definition.domain)
    for inner in inner_nodes(tuple(function)):
        for name, attribute in list(inner.attributes.items()):
            if not attribute.is_ref():
                continue
            given = node.attributes.get(attribute.ref_attr_name or "")
            if given is None:
                default = schema.attributes[attribute.ref_attr_name].default_value
                given = ir.serde.deserialize_attribute(default) if default.type else None
            if given is None:
                del inner.attributes[name]
            else:
                inner.attributes[name] = ir.Attr(name, given.type, given.value)


def _infos(function: ir.Function, operands: Sequence[Info | None]) -> dict[ir.Value, Info]:
    for value, info in zip(function.inputs, operands, strict=False):
        if info is not None and info != UNKNOWN:
            value.type = onnx_type(info.dtype)
            value.shape = _shape(info)
    return dict(infer_facts(function.graph))


def _shape(info: Info) -> ir.Shape | None:
    if info.shape is None:
        return None
    return ir.Shape(
        [
            None if d is None else d.value if d.value is not None else d.text if d.text.isidentifier() else None
            for d in info.shape
        ]
    )


def _rename(function: ir.Function, base: str, fresh: Callable[[str], str]) -> None:
    for graph in all_graphs(function.graph):
        if graph is not function.graph:
            for value in graph.inputs:
                value.name = fresh(f"{base}_{value.name}")
            for name, value in list(graph.initializers.items()):
                del graph.initializers[name]
                value.name = fresh(f"{base}_{name}")
                graph.register_initializer(value)
        for node in graph:
            node.name = fresh(f"{base}_{node.name or node.op_type}")
            for value in node.outputs:
                if value.name:
                    value.name = fresh(f"{base}_{value.name}")


def _connect(function: ir.Function, node: ir.Node, computed: Sequence[bool]) -> tuple[ir.Value | None, ...]:
    """Makes the body read the node's operands and takes it out of its function; gives its results. `computed` says
    which of them the body has."""
    operands = list(node.inputs) + [None] * (len(function.inputs) - len(node.inputs))
    given = dict(zip(function.inputs, operands, strict=False))
    for inner in inner_nodes(tuple(function)):
        for place, value in enumerate(inner.inputs):
            if value in given:
                inner.replace_input_with(place, given[value])
    for graph in all_graphs(function.graph):
        if graph is function.graph:
            continue
        for place, value in enumerate(graph.outputs):
            operand = given.get(value)
            if operand is not None:
                graph.outputs[place] = operand
    found = iter([given.get(value, value) for value in function.outputs])
    outputs = [next(found) if there else None for there in computed]
    function.graph.outputs.clear()
    function.graph.remove(tuple(function))
    asked = [v.name for v in node.outputs]
    return tuple(value if name else None for value, name in zip(outputs, asked, strict=False))


__all__ = ["Body", "function_body", "inner_nodes"]
