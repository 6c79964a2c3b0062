"""Columns and values: between the canonical text of an attribute and what static expressions compute with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from gerules.egraph.signature import RESULTS, Signature
from gerules.graph import attributes
from gerules.graph.constants import is_inline
from gerules.graph.dims import Dim
from gerules.graph.dtypes import NAME_OF_NUMBER, NUMBERS, numpy_dtype
from gerules.graph.info import Info
from gerules.registry.text import (
    escape,
    format_float,
    format_floats,
    format_ints,
    format_strs,
    parse_float,
    parse_floats,
    parse_ints,
)
from gerules.static import Unknown

EMPTY = "\\e"
"""The text of an empty string attribute: `""` is an attribute that is not set."""


def parse_value(kind: str, text: str) -> object:
    """The value of a column as rules see it; None where it is not set. Element types and constants stay texts."""
    if text == "":
        return None
    if kind == "shape":
        return tuple(_extent(item) for item in _items(text))
    if kind == "mask":
        return frozenset(parse_ints(text))
    if kind in ("int", "float", "str", "ints", "floats", "strs"):
        return attributes.parse_value(kind, text)
    return text


def _items(text: str) -> list[str]:
    shape = Info.parse(f"i64{text}").shape
    assert shape is not None
    return [str(d) for d in shape]


def _extent(text: str) -> object:
    dim = Dim.parse(text)
    return dim if dim.value is None else dim.value


def format_value(kind: str, value: object) -> str:
    """The canonical text of a computed value in a column of this type. Raises Unknown where it does not fit."""
    if isinstance(value, np.ndarray):
        value = value.item() if value.ndim == 0 else tuple(value.tolist())
    if value is None:
        return ""
    if kind == "int" and isinstance(value, (int, np.integer)):
        return str(int(value))
    if kind == "float" and isinstance(value, (int, float, np.floating)) and not isinstance(value, bool):
        text = format_float(float(value))
        # An attribute is a float32: a value that it cannot hold has no place there.
        if float(value) == parse_float(text) or math.isnan(value):
            return text
        raise Unknown(f"{value} is no float32")
    if kind == "str" and isinstance(value, str):
        return escape(value) or EMPTY
    if kind == "tensor" and isinstance(value, str) and is_inline(value):
        return value
    if kind == "mask" and isinstance(value, frozenset):
        return format_ints(sorted(value))
    if kind == "shape" and isinstance(value, Sequence) and all(isinstance(v, (int, Dim)) for v in value):
        return "[" + ",".join(map(str, value)) + "]"
    if isinstance(value, Sequence) and not isinstance(value, str):
        if kind == "ints" and all(isinstance(v, int) and not isinstance(v, bool) for v in value):
            return format_ints(value)
        if kind == "floats" and all(isinstance(v, (int, float)) for v in value):
            texts = format_floats([float(v) for v in value])
            if all(a == b or math.isnan(a) for a, b in zip(value, parse_floats(texts), strict=True)):
                return texts
            raise Unknown("a value is no float32")
        if kind == "strs" and all(isinstance(v, str) for v in value):
            return format_strs(value)
    raise Unknown(f"{value!r} is no {kind}")


def as_array(value: object, dtype: object) -> np.ndarray:
    """A computed value as a constant of an element type. Raises Unknown where it does not fit exactly."""
    if isinstance(value, np.ndarray) and (dtype is None or value.dtype == numpy_dtype(str(dtype))):
        return value
    target = numpy_dtype(str(dtype))
    if isinstance(value, (list, tuple)) and not all(isinstance(v, (int, float, bool, str, np.generic)) for v in value):
        raise Unknown("an entry is not known")
    if not isinstance(value, (int, float, bool, str, list, tuple, np.ndarray, np.generic)):
        raise Unknown(f"{value!r} is no constant")
    source = np.asarray(value) if not isinstance(value, (list, tuple)) or len(value) else np.zeros((0,), target)
    if source.dtype.kind in "USO":
        if target.kind != "O":
            raise Unknown("text is no number")
        return source.astype(object)
    if target.kind == "O":
        raise Unknown("a number is no text")
    with np.errstate(all="ignore"):
        array = source.astype(target)
        exact = target.kind not in "iub" or bool(np.all(array.astype(source.dtype) == source))
    if not exact:
        raise Unknown(f"{value!r} does not fit {dtype}")
    return array


def dtype_number(name: str) -> int:
    """ONNX's number of an element type; a number that names none (0 is "undefined") is itself."""
    return NUMBERS[name] if name in NUMBERS else int(name)


def column_texts(signature: Signature, attributes: Mapping[str, str], results: int) -> list[str]:
    """The attribute columns of a node: texts as the graph has them, element types by name."""
    texts: list[str] = []
    for attribute in signature.attributes:
        if attribute.name == RESULTS and signature.several:
            texts.append(str(results))
            continue
        text = attributes.get(attribute.name, attribute.default or "")
        if attribute.name in signature.dtype_attributes and text:
            text = NAME_OF_NUMBER.get(int(text), text)
        texts.append(text)
    return texts


def node_texts(signature: Signature, columns: Sequence[str]) -> dict[str, str]:
    """The inverse of `column_texts`, without `results`: what is set, as the graph wants it."""
    texts: dict[str, str] = {}
    for attribute, text in zip(signature.attributes, columns, strict=True):
        if attribute.name == RESULTS and signature.several:
            continue
        if attribute.name in signature.dtype_attributes and text in NUMBERS:
            text = str(NUMBERS[text])
        texts[attribute.name] = text
    return texts
