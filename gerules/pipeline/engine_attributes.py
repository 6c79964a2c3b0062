"""Attributes of another registry's operators in an ONNX file.

ONNX has fewer types than such a registry. Bool is an INT, ListBool INTS; Type is a STRING (`DT_FLOAT`), ListType
STRINGS; ListListInt is a STRING in JSON (`[[1, 2], []]`); Tensor is a TENSOR; all others are what they are called.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from gerules.registry.release import Literal
from gerules.registry.text import format_float

DATA_TYPES: Mapping[str, ir.DataType] = {
    "DT_FLOAT": ir.DataType.FLOAT, "DT_FLOAT16": ir.DataType.FLOAT16, "DT_DOUBLE": ir.DataType.DOUBLE,
    "DT_BF16": ir.DataType.BFLOAT16, "DT_INT8": ir.DataType.INT8, "DT_INT16": ir.DataType.INT16,
    "DT_INT32": ir.DataType.INT32, "DT_INT64": ir.DataType.INT64, "DT_UINT8": ir.DataType.UINT8,
    "DT_UINT16": ir.DataType.UINT16, "DT_UINT32": ir.DataType.UINT32, "DT_UINT64": ir.DataType.UINT64,
    "DT_BOOL": ir.DataType.BOOL,
}  # fmt: skip
"""Those of the registries' data types that ONNX has."""
_WHOLE = frozenset({"DT_INT8", "DT_INT16", "DT_INT32", "DT_INT64", "DT_UINT8", "DT_UINT16", "DT_UINT32", "DT_UINT64"})


def value_of(attribute: ir.Attr, type_: str) -> object:
    """The value of an attribute of a registered type; the ONNX attribute itself where it has no plain value, or refers
    to an attribute of the function around it."""
    if attribute.is_ref():
        return attribute
    value = attribute.value
    match attribute.type:
        case ir.AttributeType.INT:
            return bool(value) if type_ == "Bool" and value in (0, 1) else int(value)
        case ir.AttributeType.FLOAT:
            return _single(value)
        case ir.AttributeType.STRING:
            return _rows(_text(value)) if type_ == "ListListInt" else _text(value)
        case ir.AttributeType.INTS:
            whole = type_ == "ListBool" and all(v in (0, 1) for v in value)
            return tuple(bool(v) if whole else int(v) for v in value)
        case ir.AttributeType.FLOATS:
            return tuple(_single(v) for v in value)
        case ir.AttributeType.STRINGS:
            return tuple(_text(v) for v in value)
    return attribute


def attribute_of(name: str, value: object, type_: str) -> ir.Attr:
    """The ONNX attribute for a value of a registered type."""
    if isinstance(value, ir.Attr):
        # It goes by its new name.
        return ir.Attr(name, value.type, value.value, value.ref_attr_name) if value.name != name else value
    if type_ == "ListListInt" and isinstance(value, tuple):
        return ir.AttrString(name, json.dumps(value))
    if type_ == "Float" and isinstance(value, (int, float)):
        return ir.AttrFloat32(name, float(value))
    if isinstance(value, int):
        return ir.AttrInt64(name, int(value))
    if isinstance(value, float):
        return ir.AttrFloat32(name, value)
    if isinstance(value, tuple):
        return _list_attribute(name, value, type_)
    return ir.AttrString(name, str(value))


def _list_attribute(name: str, value: tuple[Literal, ...], type_: str) -> ir.Attr:
    if type_ == "ListFloat" or any(isinstance(v, float) for v in value):
        return ir.AttrFloat32s(name, [float(v) for v in value if isinstance(v, (int, float))])
    if type_ in ("ListString", "ListType") or any(isinstance(v, str) for v in value):
        return ir.AttrStrings(name, [str(v) for v in value])
    return ir.AttrInt64s(name, [int(v) for v in value if isinstance(v, int)])


def constant_type(value: Literal, types: Sequence[str]) -> ir.DataType:
    """The element type of a constant operand: the first that the input admits and that holds the value, else f32 for
    numbers with a point and i32 for whole ones."""
    items = value if isinstance(value, tuple) else (value,)
    whole = all(isinstance(v, int) for v in items)
    for name in types:
        truth = (name == "DT_BOOL") == all(isinstance(v, bool) for v in items)
        if name in DATA_TYPES and truth and (whole or name not in _WHOLE):
            return DATA_TYPES[name]
    return ir.DataType.INT32 if whole and items else ir.DataType.FLOAT


def _single(value: float) -> float:
    """The shortest decimal that is this float32, as registries write it."""
    return float(format_float(value))


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _rows(text: str) -> object:
    try:
        rows = json.loads(text)
    except ValueError:
        return text
    if isinstance(rows, list) and all(isinstance(row, list) for row in rows):
        return tuple(tuple(row) for row in rows)
    return text
