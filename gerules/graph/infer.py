"""Types of one node's results, by ONNX's own inference for one operator, with symbolic dimensions carried through.

The e-graph asks for every new node, so answers are remembered by text, and a node that the operator rejects has results
of which nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import onnx
import onnx.defs
import onnx.shape_inference
import onnx_ir as ir

from gerules.graph.constants import ConstantTable, decode, is_inline
from gerules.graph.dimension import Dim
from gerules.graph.dtypes import NAME_OF_NUMBER, NUMBERS, is_tensor
from gerules.graph.info import UNKNOWN, Info
from gerules.registry.definition import OPTIONAL, REQUIRED, VARIADIC, Operand, OperatorDef
from gerules.registry.text import parse_float, parse_floats, parse_ints, parse_strs, unescape

RESULTS = "results"

_WIDEST = (1 << 31) - 1
# Attributes that the inference functions of onnx 1.23 use unchecked: a value outside the range ends the process
# (found by feeding random nodes to every schema). None: it has to be the number of results.
_RANGES: Mapping[tuple[str, str], tuple[int, int | None]] = {
    ("GatherND", "batch_dims"): (0, _WIDEST),
    ("Split", "num_outputs"): (1, None),
}
_NO_TABLE = ConstantTable()


class _Query:
    """One question, equal by its texts; the definition comes along."""

    __slots__ = ("definition", "hash", "key")

    def __init__(
        self, definition: OperatorDef, attributes: Mapping[str, str], operands: Sequence[Info | None], results: int
    ) -> None:
        self.definition = definition
        texts = tuple(operand.text if operand is not None else None for operand in operands)
        self.key = (definition.key, tuple(attributes.items()), texts, results)
        self.hash = hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Query) and self.key == other.key

    def __hash__(self) -> int:
        return self.hash


def infer_node(
    definition: OperatorDef,
    attributes: Mapping[str, str],
    operands: Sequence[Info | None],
    results: int | None = None,
) -> tuple[Info, ...]:
    """What is known of the results of one node, from its operator, attributes and operands.

    `attributes` are canonical texts (an element type may stand by name where the operator wants its number; "" is
    unset); an operand is None where it is absent and `UNKNOWN` where nothing is known of it. As many results as
    `results`, or the attribute of that name, says, else as the operator requires, at least one. A result of which
    nothing can be said is `UNKNOWN`. Never raises for an odd node.
    """
    count = results if results is not None else _count(definition, attributes)
    return _infer(_Query(definition, attributes, operands, count))


def _count(definition: OperatorDef, attributes: Mapping[str, str]) -> int:
    if attributes.get(RESULTS):
        return int(attributes[RESULTS])
    return max(1, sum(output.kind == REQUIRED for output in definition.outputs))


@lru_cache(maxsize=200_000)
def _infer(query: _Query) -> tuple[Info, ...]:
    definition = query.definition
    _, attribute_items, texts, count = query.key
    operands = [None if text is None else Info.parse(text) for text in texts]
    while operands and operands[-1] is None:
        operands.pop()
    if not _admitted(definition, operands) or out_of_range(definition, dict(attribute_items), count) is not None:
        return (UNKNOWN,) * count
    weak = _by_signature(definition, operands, count)
    schema = _schema(definition.domain, definition.name, definition.since)
    if schema is None or any(operand is UNKNOWN or operand == UNKNOWN for operand in operands):
        return weak
    # Some inference functions want all required results, also those that nobody reads.
    outputs = max(count, sum(output.kind == REQUIRED for output in definition.outputs))
    node = _node(definition, dict(attribute_items), len(operands), [operand is None for operand in operands], outputs)
    if node is None:
        return weak
    symbols: dict[str, Dim] = {}
    surrogates: dict[str, str] = {}
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for position, operand in enumerate(operands):
        if operand is None:
            continue
        proto = type_proto(operand, surrogates, symbols)
        if proto is None:
            return weak
        types[f"i{position}"] = proto
        if operand.constant_text is not None and is_inline(operand.constant_text):
            data[f"i{position}"] = tensor_proto(operand.constant_text)
    imports = {"": onnx.defs.onnx_opset_version(), definition.domain: int(definition.since)}
    try:
        found = _ask(definition, schema)(schema, node, types, data, imports)
    except Exception:  # whatever the inference of an operator raises, it says that this node is none
        return weak
    made = []
    for position in range(count):
        result = found.get(f"o{position}")
        info = UNKNOWN if result is None else info_of_type(result, symbols)
        made.append(weak[position] if info == UNKNOWN else info)
    return tuple(made)


def _ask(definition: OperatorDef, schema: Any) -> Callable[..., dict[str, onnx.TypeProto]]:
    return _ask_body if definition.has_body and not schema.has_type_and_shape_inference_function else _ask_schema


def refusal(
    definition: OperatorDef, attributes: Mapping[str, str], operands: Sequence[Info | None], results: int
) -> str | None:
    """Why ONNX's inference rejects a node whose operands are known by type and shape; None where it does not."""
    while operands and operands[-1] is None:
        operands = operands[:-1]
    if not _admitted(definition, operands):
        return "the operator does not take these operands"
    odd = out_of_range(definition, attributes, results)
    if odd is not None:
        return f"attribute {odd} is out of range"
    schema = _schema(definition.domain, definition.name, definition.since)
    if schema is None:
        return None
    outputs = max(results, sum(output.kind == REQUIRED for output in definition.outputs))
    node = _node(definition, attributes, len(operands), [operand is None for operand in operands], outputs)
    if node is None:
        return None
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for position, operand in enumerate(operands):
        proto = type_proto(operand, {}, {}) if operand is not None else None
        if operand is None or proto is None:
            continue
        types[f"i{position}"] = proto
        if operand.constant_text is not None and is_inline(operand.constant_text):
            data[f"i{position}"] = tensor_proto(operand.constant_text)
    imports = {"": onnx.defs.onnx_opset_version(), definition.domain: int(definition.since)}
    try:
        _ask(definition, schema)(schema, node, types, data, imports)
    except Exception as error:
        return (str(error) or type(error).__name__).splitlines()[0]
    return None


def _ask_schema(
    schema: Any,
    node: onnx.NodeProto,
    types: Mapping[str, onnx.TypeProto],
    data: Mapping[str, onnx.TensorProto],
    imports: Mapping[str, int],
) -> dict[str, onnx.TypeProto]:
    """Types of the results by the operator's own inference function."""
    found = schema._infer_node_outputs(
        node.SerializeToString(),
        {name: proto.SerializeToString() for name, proto in types.items()},
        {name: proto.SerializeToString() for name, proto in data.items()},
        {},
        imports,
        onnx.IR_VERSION,
    )
    return {name: onnx.TypeProto.FromString(proto) for name, proto in found.items()}


def _ask_body(
    schema: Any,
    node: onnx.NodeProto,
    types: Mapping[str, onnx.TypeProto],
    data: Mapping[str, onnx.TensorProto],
    imports: Mapping[str, int],
) -> dict[str, onnx.TypeProto]:
    """The same for an operator that has a function body and no inference function: by inference over a model of the
    node alone, which looks into the body."""
    model = onnx.ModelProto(ir_version=onnx.IR_VERSION)
    for domain, version in imports.items():
        model.opset_import.add(domain=domain, version=version)
    model.graph.name = "node"
    for name, proto in types.items():
        model.graph.input.add(name=name).type.CopyFrom(proto)
    for name, tensor in data.items():
        model.graph.initializer.add().CopyFrom(tensor)
        model.graph.initializer[-1].name = name
    model.graph.node.append(node)
    for name in node.output:
        model.graph.output.add(name=name)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    return {entry.name: entry.type for entry in inferred.graph.output}


@cache
def _schema(domain: str, name: str, since: str) -> Any:
    try:
        schema = onnx.defs.get_schema(name, int(since), domain)
    except (onnx.defs.SchemaError, ValueError):
        return None
    return schema if schema.since_version == int(since) else None


def out_of_range(definition: OperatorDef, attributes: Mapping[str, str], results: int) -> str | None:
    """The attribute whose number is one that no graph can mean, and on which ONNX's inference would end the process;
    None where there is none."""
    for attribute in definition.attributes:
        text = attributes.get(attribute.name)
        if attribute.type != "int" or not text or text in NUMBERS:
            continue
        number = int(text)
        low, high = _RANGES.get((definition.name, attribute.name), (-_WIDEST, _WIDEST))
        fits = number == results if high is None else low <= number <= high
        if not fits and attribute.name != "value_int":
            return attribute.name
    return None


# ------------------------------------------------------------------------------------------- what the signature says


def formal_operand(formals: Sequence[Operand], position: int) -> Operand | None:
    """The formal operand (or result) that stands at a position, the last one where it is variadic."""
    if position < len(formals):
        return formals[position]
    return formals[-1] if formals and formals[-1].kind == VARIADIC else None


def _admitted(definition: OperatorDef, operands: Sequence[Info | None]) -> bool:
    """Whether the operator may have these operands at all, by number and types."""
    required = sum(operand.kind == REQUIRED for operand in definition.inputs)
    if len(operands) < required:
        return False
    for position, operand in enumerate(operands):
        formal = formal_operand(definition.inputs, position)
        if formal is None or (operand is None and formal.kind != OPTIONAL):
            return False
        if operand is not None and operand.dtype != "?" and formal.types and operand.dtype not in formal.types:
            return False
    return True


def _by_signature(definition: OperatorDef, operands: Sequence[Info | None], count: int) -> tuple[Info, ...]:
    """Element types of the results as far as type variables tell them."""
    known: dict[str, str] = {}
    for position, operand in enumerate(operands):
        formal = formal_operand(definition.inputs, position)
        if formal is not None and operand is not None and operand.dtype != "?" and formal.homogeneous:
            known.setdefault(formal.type, operand.dtype)
    made = []
    for position in range(count):
        formal = formal_operand(definition.outputs, position)
        dtype = None
        if formal is not None:
            dtype = known.get(formal.type) if formal.homogeneous else None
            if dtype is None and len(formal.types) == 1:
                dtype = next(iter(formal.types))
        made.append(UNKNOWN if dtype is None else Info(dtype, None))
    return tuple(made)


# ---------------------------------------------------------------------------------------------------------- protobuf


def _node(
    definition: OperatorDef, attributes: Mapping[str, str], operands: int, absent: Sequence[bool], results: int
) -> onnx.NodeProto | None:
    node = onnx.NodeProto(op_type=definition.name, domain=definition.domain)
    node.input.extend("" if absent[position] else f"i{position}" for position in range(operands))
    node.output.extend(f"o{position}" for position in range(results))
    for name, text in attributes.items():
        formal = definition.attribute(name)
        if text == "" or formal is None:
            continue
        try:
            proto = attribute_proto(name, formal.type, text)
        except ValueError:
            return None
        if proto is None:
            return None
        node.attribute.append(proto)
    return node


def attribute_proto(name: str, kind: str, text: str) -> onnx.AttributeProto | None:
    """The proto of an attribute's text; None for kinds without text and large tensors. Raises ValueError."""
    proto = onnx.AttributeProto(name=name)
    match kind:
        case "int":
            proto.type = onnx.AttributeProto.INT
            proto.i = NUMBERS[text] if text in NUMBERS else int(text)
        case "float":
            proto.type = onnx.AttributeProto.FLOAT
            proto.f = parse_float(text)
        case "str":
            proto.type = onnx.AttributeProto.STRING
            proto.s = unescape(text).encode("utf-8", "surrogateescape")
        case "ints":
            proto.type = onnx.AttributeProto.INTS
            proto.ints.extend(parse_ints(text))
        case "floats":
            proto.type = onnx.AttributeProto.FLOATS
            proto.floats.extend(parse_floats(text))
        case "strs":
            proto.type = onnx.AttributeProto.STRINGS
            proto.strings.extend(item.encode("utf-8", "surrogateescape") for item in parse_strs(text))
        case "tensor" if is_inline(text):
            proto.type = onnx.AttributeProto.TENSOR
            proto.t.CopyFrom(tensor_proto(text))
        case _:
            return None
    return proto


@lru_cache(maxsize=8192)
def tensor_proto(text: str) -> onnx.TensorProto:
    """The proto of a spelled-out constant. Not to be changed: it is shared."""
    array = decode(text, _NO_TABLE)
    proto = onnx.TensorProto(data_type=NUMBERS[text[: text.index("[")]], dims=array.shape)
    if array.dtype == object:
        proto.string_data.extend(str(item).encode("utf-8", "surrogateescape") for item in array.reshape(-1).tolist())
    elif array.dtype.name in ("int32", "int64", "float32", "float64"):
        # Some inference functions read the typed fields only.
        getattr(proto, _FIELDS[array.dtype.name]).extend(array.reshape(-1).tolist())
    else:
        proto.raw_data = ir.Tensor(array).tobytes()
    return proto


_FIELDS = {"int32": "int32_data", "int64": "int64_data", "float32": "float_data", "float64": "double_data"}


def type_proto(info: Info, surrogates: dict[str, str], symbols: dict[str, Dim]) -> onnx.TypeProto | None:
    """ONNX's type of what is known; None where there is none.

    A symbolic dimension goes in under a surrogate name: `surrogates` maps its text to that name and `symbols` the name
    back to the dimension; both are added to.
    """
    wrappers = []
    name = info.dtype
    while name.endswith(")"):
        wrapper, _, name = name.partition("(")
        name = name[:-1]
        if wrapper not in ("seq", "optional"):
            return None
        wrappers.append(wrapper)
    if name not in NUMBERS:
        return None
    proto = onnx.TypeProto()
    inner = proto
    for wrapper in wrappers:
        inner = inner.sequence_type.elem_type if wrapper == "seq" else inner.optional_type.elem_type
    inner.tensor_type.elem_type = NUMBERS[name]
    if info.shape is not None:
        inner.tensor_type.shape.SetInParent()
        for dim in info.shape:
            entry = inner.tensor_type.shape.dim.add()
            if dim is None:
                continue
            if dim.value is not None:
                if dim.value >= 0:
                    entry.dim_value = dim.value
                continue
            surrogate = surrogates.setdefault(dim.text, f"s{len(surrogates)}_")
            symbols[surrogate] = dim
            entry.dim_param = surrogate
    return proto


def info_of_type(proto: onnx.TypeProto, symbols: Mapping[str, Dim]) -> Info:
    """What an ONNX type says; dimension names that `symbols` does not hold are unknown extents."""
    wrappers = []
    while (kind := proto.WhichOneof("value")) in ("sequence_type", "optional_type"):
        wrappers.append("seq" if kind == "sequence_type" else "optional")
        proto = proto.sequence_type.elem_type if kind == "sequence_type" else proto.optional_type.elem_type
    if kind == "sparse_tensor_type":
        wrappers.append("sparse")
        name = NAME_OF_NUMBER.get(proto.sparse_tensor_type.elem_type)
    elif kind == "map_type":
        value = info_of_type(proto.map_type.value_type, symbols).dtype
        key = NAME_OF_NUMBER.get(proto.map_type.key_type)
        name = None if key is None or value == "?" else f"map({key},{value})"
    else:
        name = NAME_OF_NUMBER.get(proto.tensor_type.elem_type) if kind == "tensor_type" else None
    if name is None:
        return UNKNOWN
    for wrapper in reversed(wrappers):
        name = f"{wrapper}({name})"
    if not is_tensor(name) or not proto.tensor_type.HasField("shape"):
        return Info(name, None)
    return Info(name, tuple(_dim(dim, symbols) for dim in proto.tensor_type.shape.dim))


def _dim(dim: onnx.TensorShapeProto.Dimension, symbols: Mapping[str, Dim]) -> Dim | None:
    if dim.HasField("dim_value"):
        return Dim.of(dim.dim_value) if dim.dim_value >= 0 else None
    return symbols.get(dim.dim_param) if dim.HasField("dim_param") else None
