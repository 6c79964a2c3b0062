"""What splitting and merging need of ONNX messages: types of values, bytes, functions in use, self-contained models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx
import onnx_ir as ir
from onnx import shape_inference

from gerules.errors import Diagnostic, Refused
from gerules.graph.dtypes import BITS, NAME_OF_NUMBER
from gerules.graph.external import external_tensors, is_external, tensor_protos
from gerules.graph.io import to_proto

DOMAIN = "gerules"
PLACEHOLDER, END = "PlaceHolder", "End"
FunctionKey = tuple[str, str, str]

_SMALL_CONSTANT = 256


def self_contained(model: ir.Model) -> onnx.ModelProto:
    """`model` as one message that holds all its weights itself, external data read in. `to_bytes` of it is what
    `merge` gives back. Raises Refused GR656 where it would be larger than a message can be (2 GiB)."""
    try:
        proto = to_proto(model)
        tensors = {(str(t.location), t.offset or 0, t.length): t for t in external_tensors(model)}
        for tensor in tensor_protos(proto):
            if is_external(tensor):
                said = {entry.key: entry.value for entry in tensor.external_data}
                length = int(said["length"]) if "length" in said else None
                data = tensors[said.get("location", ""), int(said.get("offset", "0")), length].tobytes()
                tensor.ClearField("external_data")
                tensor.ClearField("data_location")
                tensor.raw_data = data
    except ValueError as error:
        raise Refused(_too_large()) from error
    return proto


def to_bytes(model: onnx.ModelProto) -> bytes:
    """The file of `model`. Raises Refused GR656 above 2 GiB."""
    try:
        data: bytes = model.SerializeToString(deterministic=True)
    except ValueError as error:
        raise Refused(_too_large()) from error
    return data


def _too_large() -> Diagnostic:
    hint = "a partitioned model has to hold its weights itself, which ONNX files can up to 2 GiB"
    return Diagnostic("GR656", "the model is too large to be written with its weights inside", hint=hint)


def check_can_be_split(model: onnx.ModelProto) -> None:
    """Raises Refused GR656 for a model that was split before, or whose weights lie in other files."""
    for node in model.graph.node:
        if node.domain == DOMAIN and node.op_type in (PLACEHOLDER, END):
            what = f"node {node.name!r} is a {node.op_type}: the model is a piece of another that was split before"
            raise Refused(Diagnostic("GR656", what, node=node.name, hint="merge the pieces, then partition the whole"))
    for tensor in tensor_protos(model):
        if is_external(tensor):
            what = f"the data of tensor {tensor.name!r} lies in another file"
            raise Refused(Diagnostic("GR656", what, node=tensor.name, hint="read external data in before splitting"))


# ------------------------------------------------------------------ types


def is_typed(kind: onnx.TypeProto) -> bool:
    """Whether the element type is known."""
    while True:
        which = kind.WhichOneof("value")
        if which in ("tensor_type", "sparse_tensor_type"):
            return bool(getattr(kind, which).elem_type)
        if which == "sequence_type":
            kind = kind.sequence_type.elem_type
        elif which == "optional_type":
            kind = kind.optional_type.elem_type
        elif which == "map_type":
            return bool(kind.map_type.key_type) and is_typed(kind.map_type.value_type)
        else:
            return bool(which)


def has_rank(kind: onnx.TypeProto) -> bool:
    """Whether nothing is left to be inferred about a tensor's rank."""
    return kind.WhichOneof("value") != "tensor_type" or bool(kind.tensor_type.HasField("shape"))


def declared(graph: onnx.GraphProto) -> dict[str, onnx.ValueInfoProto]:
    """What the graph says of its values; inputs and outputs over the rest, initializers where nothing else does."""
    found: dict[str, onnx.ValueInfoProto] = {}
    for tensor in graph.initializer:
        info = onnx.ValueInfoProto(name=tensor.name)
        info.type.tensor_type.elem_type = tensor.data_type
        info.type.tensor_type.shape.CopyFrom(
            onnx.TensorShapeProto(dim=[onnx.TensorShapeProto.Dimension(dim_value=d) for d in tensor.dims])
        )
        found[tensor.name] = info
    for sparse in graph.sparse_initializer:
        info = onnx.ValueInfoProto(name=sparse.values.name)
        info.type.sparse_tensor_type.elem_type = sparse.values.data_type
        found[sparse.values.name] = info
    for value in (*graph.value_info, *graph.input, *graph.output):
        known = found.get(value.name)
        if known is None or is_typed(value.type) or not is_typed(known.type):
            found[value.name] = value
    return found


def inferred(model: onnx.ModelProto) -> dict[str, onnx.ValueInfoProto]:
    """What ONNX's own inference knows of the values; nothing where it fails. Large weights are not copied."""
    bare = onnx.ModelProto(ir_version=model.ir_version)
    bare.opset_import.extend(model.opset_import)
    bare.functions.extend(model.functions)
    bare.graph.name = model.graph.name
    bare.graph.node.extend(model.graph.node)
    bare.graph.value_info.extend(model.graph.value_info)
    bare.graph.output.extend(model.graph.output)
    bare.graph.input.extend(model.graph.input)
    inputs = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        elements = 1
        for extent in tensor.dims:
            elements *= extent
        if elements <= _SMALL_CONSTANT:
            bare.graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            shape = onnx.TensorShapeProto(dim=[onnx.TensorShapeProto.Dimension(dim_value=d) for d in tensor.dims])
            value = bare.graph.input.add(name=tensor.name)
            value.type.tensor_type.elem_type = tensor.data_type
            value.type.tensor_type.shape.CopyFrom(shape)
    try:
        result = shape_inference.infer_shapes(bare, data_prop=True)
    except Exception:
        # Inference stops with errors of several kinds at what it does not understand; then it knows nothing more
        # than is declared, and whoever needs more says so by the name of the value.
        return {}
    return {value.name: value for value in (*result.graph.value_info, *result.graph.output)}


def static_bytes(kind: onnx.TypeProto) -> int | None:
    """Bytes of a tensor whose extents are all numbers; None for any other value."""
    if kind.WhichOneof("value") != "tensor_type" or not kind.tensor_type.HasField("shape"):
        return None
    name = NAME_OF_NUMBER.get(kind.tensor_type.elem_type)
    if name is None or name == "str":
        return None
    bits = BITS[name]
    for extent in kind.tensor_type.shape.dim:
        if not extent.HasField("dim_value") or extent.dim_value < 0:
            return None
        bits *= extent.dim_value
    return (bits + 7) // 8


# ------------------------------------------------------------------ functions


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """`nodes` and those of their bodies, however deep."""
    waiting = list(nodes)
    waiting.reverse()
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                waiting.extend(reversed(attribute.g.node))
            elif attribute.type == onnx.AttributeProto.GRAPHS:
                for body in attribute.graphs:
                    waiting.extend(reversed(body.node))


def function_key(function: onnx.FunctionProto) -> FunctionKey:
    return function.domain, function.name, function.overload


def functions_in_use(
    nodes: Sequence[onnx.NodeProto], functions: Mapping[FunctionKey, onnx.FunctionProto]
) -> list[FunctionKey]:
    """The model-local functions that `nodes` call, directly or through others, in the order of `functions`."""
    if not functions:
        return []
    used: set[FunctionKey] = set()
    waiting: list[Iterable[onnx.NodeProto]] = [nodes]
    while waiting:
        for node in all_nodes(waiting.pop()):
            key = (node.domain, node.op_type, node.overload)
            if key in functions and key not in used:
                used.add(key)
                waiting.append(functions[key].node)
    return [key for key in functions if key in used]
