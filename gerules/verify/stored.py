"""Tensors as text that loses nothing: `f32[2] = [nan, -0.0]`.

Numbers are written so that reading gives the same bits, but for what is in a NaN. A value is a JSON list in row-major
order, with `NaN`, `Infinity` and `-Infinity`; a complex number is a pair.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gerules.graph.dtypes import NUMBERS, name_of_numpy, numpy_dtype

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Stored:
    """A tensor by name: element type, extents, elements in row-major order as plain Python values."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: tuple[object, ...]

    @classmethod
    def of(cls, name: str, array: Array) -> Stored:
        """The text form of an array. TypeError where ONNX has no such elements."""
        dtype = name_of_numpy(array.dtype)
        return cls(name, dtype, tuple(array.shape), tuple(plain(v, dtype) for v in array.reshape(-1)))

    @property
    def type_text(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    def array(self) -> Array:
        """The tensor. ValueError where the elements do not fit the type or the extents."""
        kind = numpy_dtype(self.dtype)
        count = 1
        for extent in self.shape:
            count *= extent
        if count != len(self.values):
            raise ValueError(f"{self.name} has {len(self.values)} elements, and {self.type_text} holds {count}")
        made = np.empty(count, dtype=kind)
        for place, value in enumerate(self.values):
            made[place] = _element(value, self.dtype, kind)
        return made.reshape(self.shape)

    def __str__(self) -> str:
        return f"{self.name}: {self.type_text} = {shown(self.values, self.shape)}"

    def line(self) -> str:
        """One line from which `parse_line` makes the same tensor."""
        return f"{self.name}: {self.type_text} = {json.dumps(list(self.values))}"


def plain(value: Any, dtype: str) -> object:
    """An element as a Python value: a complex number as a pair."""
    if dtype == "str":
        return str(value)
    if dtype == "bool":
        return bool(value)
    if dtype in ("c64", "c128"):
        return [float(value.real), float(value.imag)]
    return int(value) if dtype[0] in "iu" else float(value)


def _element(value: object, dtype: str, kind: np.dtype[Any]) -> Any:
    if dtype == "str":
        return str(value)
    if dtype in ("c64", "c128"):
        if not isinstance(value, Sequence) or len(value) != 2:
            raise ValueError(f"{value!r} is no complex number")
        return complex(*value)
    if dtype == "bool":
        if not isinstance(value, bool):
            raise ValueError(f"{value!r} is neither true nor false")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is no {dtype}")
    if dtype[0] in "iu" and not isinstance(value, int):
        raise ValueError(f"{value!r} is no {dtype}")
    with np.errstate(all="ignore"):
        try:
            made = np.array(value, dtype=np.float64 if isinstance(value, float) else None).astype(kind)[()]
        except (OverflowError, TypeError) as fault:
            raise ValueError(f"{value!r} is no {dtype}") from fault
    if dtype[0] in "iu" and int(made) != value:
        raise ValueError(f"{value!r} is no {dtype}")
    return made


_LINE = re.compile(r"^([A-Za-z_]\w*): (\w+)\[((?:\d+(?:,\d+)*)?)\] = (\[.*\])$")


def parse_line(text: str) -> Stored:
    """The tensor that `Stored.line` wrote. ValueError where the text is another."""
    match = _LINE.match(text.strip())
    if match is None:
        raise ValueError(f"this is no tensor: {text.strip()[:80]}")
    if match[2] not in NUMBERS:
        raise ValueError(f"unknown element type {match[2]}")
    shape = tuple(int(n) for n in match[3].split(",")) if match[3] else ()
    stored = Stored(match[1], match[2], shape, tuple(json.loads(match[4])))
    stored.array()
    return stored


def text_of(value: object) -> str:
    """One element for people: `true`, `-0.0`, `0.1`, `"a"`, `1+2j`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return str(complex(*value)).strip("()")
    return repr(value)


def shown(values: Sequence[object], shape: Sequence[int], most: int = 24) -> str:
    """Elements for people, nested as their extents say; beyond `most` only how many there are."""
    if len(values) > most:
        return f"{len(values)} elements"
    if not shape:
        return text_of(values[0])
    if 0 in shape:
        return "[]"
    texts = [text_of(v) for v in values]
    for extent in reversed(shape):
        texts = [f"[{', '.join(texts[i : i + extent])}]" for i in range(0, len(texts), extent)]
    return texts[0]


def bits_of(value: object, dtype: str) -> str:
    """The bits of a number as text (`0x3f800000`); empty for what has none."""
    if dtype in ("str", "bool", "c64", "c128"):
        return ""
    kind = numpy_dtype(dtype)
    element = np.asarray(_element(value, dtype, kind)).astype(kind)
    return "0x" + element.tobytes()[::-1].hex()
