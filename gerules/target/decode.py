"""Attribute texts as values of rules."""

from __future__ import annotations

from functools import lru_cache

from gerules.graph.constants import ConstantTable, decode
from gerules.graph.dims import Dim
from gerules.graph.dtypes import NAME_OF_NUMBER
from gerules.registry.text import PLAIN
from gerules.static.values import Value, settle

_NO_TABLE = ConstantTable()


@lru_cache(maxsize=65536)
def decode_attribute(kind: str, text: str, is_dtype: bool = False) -> Value:
    """The value of an attribute's canonical text, by the type that its definition gives; None where it is unset.

    An int that names an element type (`is_dtype`) is that name, and 0, which names none, stays 0. Raises ValueError
    for text that is no such value.
    """
    if text == "":
        return None
    if is_dtype or kind == "dtype":
        return NAME_OF_NUMBER.get(int(text), int(text)) if text.isdigit() else text
    if kind in PLAIN:
        return PLAIN[kind](text)
    match kind:
        case "bool":
            return bool(int(text))
        case "dim":
            return settle(Dim.parse(text))
        case "mask":
            return frozenset(axis for axis in range(int(text).bit_length()) if int(text) >> axis & 1)
        case "shape":
            entries = text.strip("[]").split(",") if text.strip("[] ") else []
            return tuple(None if e.strip() == "?" else settle(Dim.parse(e.strip())) for e in entries)
        case "tensor" if "|" in text:
            return decode(text, _NO_TABLE)
    return text
