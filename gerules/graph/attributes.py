"""Canonical text of attribute values and back, exactly (the payload of a NaN aside).

int `3`, float the shortest decimal of the float32, str the string itself escaped (the empty one `\\e`), lists
`[1, 2]` and JSON for strings, tensor the text of a constant. What is unset is "". Graphs, sparse tensors, types and
references to a function's attributes have no text: callers keep such nodes as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from gerules.graph.constants import ConstantTable, as_array, decode, encode, tensor_of
from gerules.graph.dimension import Dim
from gerules.graph.dtypes import NAME_OF_NUMBER, NUMBERS
from gerules.registry.definition import OperatorDef
from gerules.registry.text import (
    PLAIN,
    escape,
    format_float,
    format_floats,
    format_ints,
    format_strs,
    parse_float,
    parse_floats,
    parse_ints,
    parse_strs,
    unescape,
)

UNSET = ""

KINDS: Mapping[ir.AttributeType, str] = {
    ir.AttributeType.INT: "int",
    ir.AttributeType.FLOAT: "float",
    ir.AttributeType.STRING: "str",
    ir.AttributeType.INTS: "ints",
    ir.AttributeType.FLOATS: "floats",
    ir.AttributeType.STRINGS: "strs",
    ir.AttributeType.TENSOR: "tensor",
    ir.AttributeType.GRAPH: "graph",
    ir.AttributeType.GRAPHS: "graphs",
    ir.AttributeType.TENSORS: "tensors",
    ir.AttributeType.SPARSE_TENSOR: "sparse_tensor",
    ir.AttributeType.SPARSE_TENSORS: "sparse_tensors",
    ir.AttributeType.TYPE_PROTO: "type",
    ir.AttributeType.TYPE_PROTOS: "types",
}

TEXT_KINDS = frozenset({"int", "float", "str", "ints", "floats", "strs", "tensor"})


def attribute_text(attribute: ir.Attr, table: ConstantTable) -> str | None:
    """The canonical text of an attribute's value; None where it has none."""
    if attribute.is_ref():
        return None
    value: Any = attribute.value
    match KINDS.get(attribute.type):
        case "int":
            return str(int(value))
        case "float":
            return format_float(value)
        case "str":
            return escape(_text(value))
        case "ints":
            return format_ints(int(item) for item in value)
        case "floats":
            return format_floats(value)
        case "strs":
            return format_strs(_text(item) for item in value)
        case "tensor":
            return encode(value.numpy(), table)
    return None


def attribute_from_text(name: str, kind: str, text: str, table: ConstantTable) -> ir.Attr:
    """The attribute of this name whose value has this text; `kind` is one of `TEXT_KINDS`.

    Raises ValueError for text that is no value of that kind, the text of what is unset included.
    """
    match kind:
        case "int":
            return ir.AttrInt64(name, int(text))
        case "float":
            return ir.AttrFloat32(name, parse_float(text))
        case "str":
            return ir.AttrString(name, unescape(text))
        case "ints":
            return ir.AttrInt64s(name, parse_ints(text))
        case "floats":
            return ir.AttrFloat32s(name, parse_floats(text))
        case "strs":
            return ir.AttrStrings(name, parse_strs(text))
        case "tensor":
            return ir.AttrTensor(name, tensor_of(text, table))
    raise ValueError(f"attribute {name}: no value of kind {kind!r} has a text form")


def parse_value(kind: str, text: str, table: ConstantTable | None = None) -> object:
    """The Python value of an attribute's text: int, float, str, a tuple of them, or an array; None for `UNSET`.

    Raises ValueError. Only a large tensor needs the table.
    """
    if text == UNSET:
        return None
    if kind in PLAIN:
        return PLAIN[kind](text)
    if kind == "tensor":
        return decode(text, table or ConstantTable())
    raise ValueError(f"no value of kind {kind!r} has a text form")


def format_value(kind: str, value: object, table: ConstantTable | None = None) -> str:
    """The canonical text of a Python value as an attribute of this kind; None is `UNSET`.

    Integers are taken for floats, numbers of integral value for ints, dimensions that are numbers for either. Raises
    ValueError for a value that is none of the kind.
    """
    if value is None:
        return UNSET
    match kind:
        case "int":
            return str(_integer(value))
        case "float":
            return format_float(_number(value))
        case "str" if isinstance(value, str | bytes):
            return escape(_text(value))
        case "tensor":
            return encode(as_array(value), table if table is not None else ConstantTable())
    if isinstance(value, np.ndarray):
        value = value.reshape(-1).tolist()
    if isinstance(value, list | tuple):
        match kind:
            case "ints":
                return format_ints(map(_integer, value))
            case "floats":
                return format_floats(map(_number, value))
            case "strs" if all(isinstance(item, str | bytes) for item in value):
                return format_strs(map(_text, value))
    raise ValueError(f"{value!r} is no attribute value of kind {kind}")


def dtype_number(name: str) -> int:
    """The number by which int attributes name an element type. Raises ValueError."""
    if name not in NUMBERS:
        raise ValueError(f"{name} is no element type")
    return NUMBERS[name]


def dtype_name(number: int) -> str:
    """The inverse of `dtype_number`. Raises ValueError."""
    if number not in NAME_OF_NUMBER:
        raise ValueError(f"{number} is the number of no element type")
    return NAME_OF_NUMBER[number]


def node_attributes(node: ir.Node, definition: OperatorDef, table: ConstantTable) -> dict[str, str] | None:
    """The canonical text of every formal attribute of a node's operator, in registry order.

    An attribute that is not set has its default, or `UNSET`. None where one that is set has no text, is of another kind
    than the registry says, or is not in the registry.
    """
    formal = {attribute.name: attribute for attribute in definition.attributes}
    texts = {name: attribute.default or UNSET for name, attribute in formal.items()}
    for name, attribute in node.attributes.items():
        if name not in formal or KINDS.get(attribute.type) != formal[name].type:
            return None
        text = attribute_text(attribute, table)
        if text is None:
            return None
        texts[name] = text
    return texts


def _number(value: object) -> float:
    if isinstance(value, Dim):
        value = value.value
    if isinstance(value, int | float | np.number):
        return float(value)
    raise ValueError(f"{value!r} is no number")


def _integer(value: object) -> int:
    number = _number(value) if not isinstance(value, int) else value
    if number != int(number):
        raise ValueError(f"{value!r} is no integer")
    return int(number)


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
