"""Canonical text of scalars and lists: how attribute values, defaults and numbers are written everywhere.

int `3`; float the shortest decimal that reads back as the same float32 (`0.1`, `-0.0`, `nan`, `inf`); str the string
itself with tab, newline, carriage return and backslash escaped (the empty one `\\e`); lists `[1, 2, 0]`, `[0.5, 1.0]`,
and JSON for strings.
Text never holds a tab or a newline, so that it can stand in a column of a TSV file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

EMPTY = "\\e"
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"}
_UNESCAPES = {"\\": "\\", "t": "\t", "n": "\n", "r": "\r", "0": "\0"}
_TRANSLATION = str.maketrans(_ESCAPES)


def format_float(value: float) -> str:
    """The shortest decimal that reads back as the same float32; always with a point, an exponent, or `nan`, `inf`."""
    single = np.float32(value)
    if math.isnan(single):
        return "-nan" if math.copysign(1.0, float(single)) < 0 else "nan"
    if math.isinf(single):
        return "inf" if single > 0 else "-inf"
    return repr(float(str(single)))


def parse_float(text: str) -> float:
    """The float32 that `text` stands for, as a Python float. Raises ValueError."""
    with np.errstate(over="ignore"):
        return float(np.float32(float(text)))


def escape(value: str) -> str:
    """`value` without control characters that would break a line or a column; the empty string is `\\e`, since no text
    at all stands for what is unset."""
    return value.translate(_TRANSLATION) or EMPTY


def unescape(text: str) -> str:
    """The inverse of `escape`. Raises ValueError for an escape that `escape` never writes."""
    if "\\" not in text:
        return text
    if text == EMPTY:
        return ""
    parts = []
    position = 0
    while position < len(text):
        character = text[position]
        if character != "\\":
            parts.append(character)
            position += 1
            continue
        following = text[position + 1 : position + 2]
        if following not in _UNESCAPES:
            raise ValueError(f"unknown escape \\{following} in {text!r}")
        parts.append(_UNESCAPES[following])
        position += 2
    return "".join(parts)


def format_ints(values: Iterable[int]) -> str:
    return f"[{', '.join(map(str, values))}]"


def parse_ints(text: str) -> tuple[int, ...]:
    """`[1, 2, 0]` -> (1, 2, 0). Raises ValueError."""
    return tuple(int(item) for item in _items(text))


def format_floats(values: Iterable[float]) -> str:
    return f"[{', '.join(map(format_float, values))}]"


def parse_floats(text: str) -> tuple[float, ...]:
    """`[0.5, 1.0]` -> (0.5, 1.0). Raises ValueError."""
    return tuple(parse_float(item) for item in _items(text))


def format_strs(values: Iterable[str]) -> str:
    return json.dumps(list(values), ensure_ascii=False)


def parse_strs(text: str) -> tuple[str, ...]:
    """A JSON list of strings. Raises ValueError."""
    values = json.loads(text)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"not a list of strings: {text!r}")
    return tuple(values)


PLAIN: Mapping[str, Callable[[str], object]] = {
    "int": int,
    "float": parse_float,
    "str": unescape,
    "ints": parse_ints,
    "floats": parse_floats,
    "strs": parse_strs,
}
"""Types of attributes whose texts need nothing else to be read, and how they are."""


def _items(text: str) -> list[str]:
    if not (text.startswith("[") and text.endswith("]")):
        raise ValueError(f"not a list: {text!r}")
    body = text[1:-1].strip()
    return [item.strip() for item in body.split(",")] if body else []
