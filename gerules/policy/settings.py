"""Values of attributes between types: what of one type is the same value of another, and text back to values."""

from __future__ import annotations

import json
import struct

from gerules.registry.json_format import fits
from gerules.registry.release import Literal, default_text


def as_type(value: object, type_: str) -> Literal | None:
    """The same value as an attribute of a type; None where it is none. Nothing is rounded."""
    if isinstance(value, tuple):
        if not type_.startswith("List"):
            return None
        inner = "ListInt" if type_ == "ListListInt" else type_.removeprefix("List")
        items = [as_type(item, inner) for item in value]
        return None if any(i is None for i in items) else tuple(i for i in items if i is not None)
    if isinstance(value, bool):
        return value if type_ == "Bool" else int(value) if type_ == "Int" else None
    if isinstance(value, int):
        if type_ == "Bool":
            return bool(value) if value in (0, 1) else None
        if type_ == "Float":
            return float(value) if _single(float(value)) == value else None
        return value if type_ == "Int" else None
    if isinstance(value, float):
        return int(value) if type_ == "Int" and value.is_integer() else value if type_ == "Float" else None
    if isinstance(value, str) and type_ in ("String", "Type", "Tensor", "Int"):
        return value if fits(value, type_) and (type_ != "Type" or value.startswith("DT_")) else None
    return None


def _single(value: float) -> float:
    try:
        found: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf")
    return found


def value_text(value: object) -> str:
    """A value as rules have it; what has no text (a tensor, a body) as a word that equals no default."""
    if isinstance(value, (bool, int, float, str, tuple)):
        return default_text(value)
    return f"<{type(value).__name__}>"


def value_of(text: str, type_: str) -> Literal | None:
    """The value of a type that a text of rules stands for; None where it is none."""
    if type_ in ("String", "Type", "Tensor"):
        return as_type(text, type_)
    if type_ == "Bool":
        return {"True": True, "true": True, "1": True, "False": False, "false": False, "0": False}.get(text)
    if type_ == "Int" and text.startswith("DT_"):
        return text
    try:
        parsed = json.loads(_json(text))
    except ValueError:
        return None
    return as_type(_frozen(parsed), type_)


def number_of(text: str) -> Literal:
    """The number or list of numbers that a text of rules stands for; the text itself where it is none."""
    for type_ in ("Int", "Float", "ListInt", "ListFloat"):
        value = value_of(text, type_)
        if value is not None:
            return value
    return text


def _json(text: str) -> str:
    return text.replace("True", "true").replace("False", "false") if text.startswith("[") and '"' not in text else text


def _frozen(value: object) -> object:
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value
