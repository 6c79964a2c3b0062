"""What flows through a simulation: arrays, sequences, maps, absent optionals; their element types and type texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gerules.graph.dtypes import NAME_OF_NUMBER, NUMBERS, name_of_numpy, numpy_dtype

# A tensor is an array (strings: object arrays of str), a sequence a list, a map a dict, an absent optional None.
Value = Any
Array = np.ndarray[Any, np.dtype[Any]]


class _Unknown:
    """The result of an opaque operator whose type nobody stated, and of all that is computed from it."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()

_SMALL: Final = ("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "f4e2m1", "f6e2m3", "f6e3m2")
SMALL_FLOATS: Final = frozenset(numpy_dtype(name) for name in _SMALL)
HALF_FLOATS: Final = frozenset((np.dtype(np.float16), numpy_dtype("bf16")))
FLOATS: Final = frozenset((np.dtype(np.float32), np.dtype(np.float64))) | HALF_FLOATS | SMALL_FLOATS
SMALL_INTEGERS: Final = frozenset(numpy_dtype(name) for name in ("i4", "u4", "i2", "u2"))


def numpy_type(name: str) -> np.dtype[Any]:
    """The NumPy type of one of our element type names (`f32`, `bf16`, `str`, ...). KeyError where there is none."""
    return numpy_dtype(name)


def numpy_type_of_number(number: int) -> np.dtype[Any]:
    """The NumPy type of a TensorProto.DataType number. KeyError where there is none."""
    return numpy_dtype(NAME_OF_NUMBER[number])


def element_name(dtype: np.dtype[Any]) -> str:
    """Our name of a NumPy type; strings of any NumPy kind are `str`. TypeError where ONNX has no such type."""
    return name_of_numpy(dtype)


def element_number(dtype: np.dtype[Any]) -> int:
    """The TensorProto.DataType number of a NumPy type."""
    return NUMBERS[name_of_numpy(dtype)]


def element_name_of_number(number: int) -> str:
    """Our name of a TensorProto.DataType number. KeyError where there is none."""
    return NAME_OF_NUMBER[number]


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Whether elements are integers, four-bit and two-bit ones included; bool is not one."""
    return dtype.kind in "iu" or dtype in SMALL_INTEGERS


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of a value: `element` is one of our names; `wrap` is the text around it, `""` for a tensor, else
    `seq`, `optional` or `optional(seq`; `shape` has a size, a symbol's name or None per dimension, and is None where
    the rank is unknown."""

    element: str
    shape: tuple[int | str | None, ...] | None = None
    wrap: str = ""

    def __str__(self) -> str:
        inner = self.element
        for name in reversed(self.wrap.split("(")) if self.wrap else ():
            inner = f"{name}({inner})"
        return inner

    @property
    def is_tensor(self) -> bool:
        return not self.wrap


_SEQUENCE_TEXT = re.compile(r"^(optional\(seq|seq|optional)\((\w+)\)+$")


def parse_type(text: str) -> ValueType:
    """`f32`, `seq(f32)`, `optional(f32)`, `optional(seq(f32))` as a type of unknown shape."""
    match = _SEQUENCE_TEXT.match(text)
    return ValueType(match[2], None, match[1]) if match else ValueType(text)


def normalise(value: Value) -> Value:
    """A value in the one form that kernels expect: arrays of ONNX types, strings as object arrays of str, lists."""
    if isinstance(value, np.ndarray):
        kind = value.dtype.kind
        if kind == "U":
            return value.astype(object)
        if kind in "SO":
            return _text_array(value)
        return value
    if value is None or value is UNKNOWN or isinstance(value, dict):
        return value
    if isinstance(value, (list, tuple)):
        return [normalise(v) for v in value]
    return normalise(np.asarray(value))


def _text_array(value: Array) -> Array:
    result = np.empty(value.shape, dtype=object)
    flat = result.reshape(-1)
    for i, item in enumerate(value.reshape(-1).tolist()):
        flat[i] = item.decode("utf-8") if isinstance(item, bytes) else str(item)
    return result


def describe(value: Value) -> str:
    """A short text of a value's type for messages: `f32[2,3]`, `seq of 3`, `absent`."""
    if value is None:
        return "absent"
    if isinstance(value, np.ndarray):
        try:
            name = element_name(value.dtype)
        except TypeError:
            name = str(value.dtype)
        return f"{name}[{','.join(map(str, value.shape))}]"
    if isinstance(value, list):
        return f"seq of {len(value)}"
    return "map" if isinstance(value, dict) else repr(value)


def same_shape(values: Sequence[Array]) -> bool:
    """Whether all arrays have one shape and element type, so that they can be stacked."""
    first = values[0]
    return all(v.shape == first.shape and v.dtype == first.dtype for v in values)
