"""What the installed ONNX schemas say of an operator at an opset: since when, defaults, bodies of functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, numpy_helper

from gerules.simulate.values import Value, ValueType, element_name_of_number, normalise

Schema = Any  # onnx.defs.OpSchema has no usable stubs

OWN_DOMAIN: Final = "gerules"
_OWN: Final[Mapping[str, frozenset[str]]] = {
    "Window": frozenset({"start", "stop", "step"}),
    "Padding": frozenset({"low", "high", "interior"}),
    "Broadcast": frozenset({"axes", "extents"}),
}
"""Operators of rules that can be computed, with their attributes. The rest of the domain (the nodes at the borders of
partitions) is opaque."""


@dataclass(frozen=True, slots=True)
class OperatorSchema:
    """The definition that governs an operator at an opset. `defaults` are Python values as in `NodeSpec`; `raw` is
    None for the operators of rules, which ONNX does not have."""

    domain: str
    op: str
    since: int
    defaults: Mapping[str, Any]
    attributes: frozenset[str]
    has_body: bool
    raw: Schema


@lru_cache(maxsize=8192)
def find_schema(domain: str, op: str, opset: int) -> OperatorSchema | None:
    """The schema in force at `opset`, None where the operator is unknown there (or the domain has no schemas)."""
    if domain == OWN_DOMAIN:
        attributes = _OWN.get(op)
        return OperatorSchema(domain, op, 1, {}, attributes, False, None) if attributes is not None else None
    try:
        raw: Schema = onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return None
    defaults: dict[str, Any] = {}
    for name, attribute in raw.attributes.items():
        proto = attribute.default_value
        if proto is None or proto.type == 0 or (proto.type == AttributeProto.TENSOR and not proto.t.data_type):
            continue
        defaults[name] = python_attribute(proto)
    return OperatorSchema(
        domain,
        op,
        raw.since_version,
        defaults,
        frozenset(raw.attributes),
        raw.has_function or raw.has_context_dependent_function,
        raw,
    )


@lru_cache(maxsize=256)
def known_domain(domain: str) -> bool:
    """Whether the installed ONNX has schemas in this domain."""
    return any(s.domain == domain for s in onnx.defs.get_all_schemas())


def is_computable(domain: str, op: str) -> bool:
    """Whether an operator has a schema's domain, or is one of the rules' own that have a kernel."""
    return known_domain(domain) or (domain == OWN_DOMAIN and op in _OWN)


def python_attribute(proto: AttributeProto) -> Any:
    """The Python value of an attribute that is no graph."""
    kind = proto.type
    if kind == AttributeProto.FLOAT:
        return proto.f
    if kind == AttributeProto.INT:
        return proto.i
    if kind == AttributeProto.STRING:
        return proto.s.decode("utf-8", "replace")
    if kind == AttributeProto.TENSOR:
        return normalise(numpy_helper.to_array(proto.t))
    if kind == AttributeProto.FLOATS:
        return tuple(proto.floats)
    if kind == AttributeProto.INTS:
        return tuple(proto.ints)
    if kind == AttributeProto.STRINGS:
        return tuple(s.decode("utf-8", "replace") for s in proto.strings)
    if kind == AttributeProto.TENSORS:
        return tuple(normalise(numpy_helper.to_array(t)) for t in proto.tensors)
    if kind == AttributeProto.TYPE_PROTO:
        return proto_type(proto.tp)
    raise ValueError(f"attribute {proto.name} has a kind without a Python value")


def proto_type(proto: Any) -> ValueType:
    """A TypeProto as our type."""
    wrap: list[str] = []
    while True:
        which = proto.WhichOneof("value")
        if which == "optional_type":
            wrap.append("optional")
            proto = proto.optional_type.elem_type
        elif which == "sequence_type":
            wrap.append("seq")
            proto = proto.sequence_type.elem_type
        else:
            break
    tensor = proto.tensor_type
    shape: tuple[int | str | None, ...] | None = None
    if tensor.HasField("shape"):
        shape = tuple(d.dim_value if d.HasField("dim_value") else (d.dim_param or None) for d in tensor.shape.dim)
    return ValueType(element_name_of_number(tensor.elem_type), shape, "(".join(wrap))


def schema_body(schema: OperatorSchema, opset: int, node: onnx.NodeProto, operands: Sequence[Value]) -> bytes | None:
    """The body that the specification gives for an operator, as the bytes of a FunctionProto; None where it gives
    none. A body that depends on the context is made for the types of `operands`."""
    raw = schema.raw
    if raw.has_function:
        return bytes(raw.function_body.SerializeToString())
    if raw.has_context_dependent_function:
        node = onnx.NodeProto.FromString(node.SerializeToString())
        for place, value in enumerate(operands):
            if value is None:
                node.input[place] = ""
        types = [operand_type(v).SerializeToString() for v in operands]
        data = bytes(raw.get_context_dependent_function(node.SerializeToString(), types))
        return _without_idle_outputs(data) if data else None
    return None


def _without_idle_outputs(data: bytes) -> bytes:
    """A body made for a node that asks for few results may name others that nothing makes: those at the end go."""
    function = onnx.FunctionProto.FromString(data)
    made = {name for node in function.node for name in node.output} | set(function.input)
    count = len(function.output)
    while count and function.output[count - 1] not in made:
        count -= 1
    del function.output[count:]
    return bytes(function.SerializeToString())


def operand_type(value: Value) -> onnx.TypeProto:
    """The TypeProto of a value at hand; of an absent one, the empty TypeProto."""
    if value is None:
        return onnx.TypeProto()
    if isinstance(value, list):
        inner = operand_type(value[0]) if value else onnx.helper.make_tensor_type_proto(TensorProto.FLOAT, None)
        return onnx.helper.make_sequence_type_proto(inner)
    number = TensorProto.STRING if value.dtype.kind == "O" else onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    return onnx.helper.make_tensor_type_proto(number, value.shape)


def make_node_proto(spec: Any, attributes: Mapping[str, Any]) -> onnx.NodeProto:
    """A NodeProto with made-up value names for a `NodeSpec`; attribute kinds are taken from the schema."""
    node = onnx.NodeProto(op_type=spec.op, domain=spec.domain, name=spec.name)
    node.input.extend(f"i{k}" for k in range(spec.operands))
    node.output.extend(f"o{k}" for k in range(spec.results))
    schema = find_schema(spec.domain, spec.op, spec.opset)
    kinds = {n: int(a.type.value) for n, a in schema.raw.attributes.items()} if schema and schema.raw else {}
    for name, value in attributes.items():
        node.attribute.append(attribute_proto(name, value, kinds.get(name)))
    return node


def attribute_proto(name: str, value: Any, kind: int | None) -> AttributeProto:
    """The AttributeProto of a Python value; `kind` is an AttributeProto.AttributeType number where it is known."""
    if isinstance(value, np.ndarray):
        return onnx.helper.make_attribute(name, numpy_helper.from_array(value))
    if isinstance(value, ValueType):
        return onnx.helper.make_attribute(name, type_proto(value))
    if kind == AttributeProto.FLOAT:
        value = float(value)
    elif kind == AttributeProto.FLOATS:
        value = [float(v) for v in value]
    elif kind == AttributeProto.TENSORS or (isinstance(value, tuple) and value and isinstance(value[0], np.ndarray)):
        value = [numpy_helper.from_array(v) for v in value]
    return onnx.helper.make_attribute(name, list(value) if isinstance(value, tuple) else value, attr_type=kind)


def type_proto(stated: ValueType) -> onnx.TypeProto:
    """Our type as a TypeProto."""
    from gerules.simulate.values import element_number, numpy_type

    proto = onnx.helper.make_tensor_type_proto(element_number(numpy_type(stated.element)), stated.shape)
    for name in reversed(stated.wrap.split("(")) if stated.wrap else ():
        make = onnx.helper.make_sequence_type_proto if name == "seq" else onnx.helper.make_optional_type_proto
        proto = make(proto)
    return proto
