"""What flows through a simulation: arrays, sequences, maps, absent optionals; their element types and type texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

# A tensor is an array (strings: object arrays of str), a sequence a list, a map a dict, an absent optional None.
Value = Any
Array = np.ndarray[Any, np.dtype[Any]]


class _Unknown:
    """The result of an opaque operator whose type nobody stated, and of all that is computed from it."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()

# Our name of an element type -> (ONNX TensorProto number, NumPy type).
_ELEMENTS: Final[dict[str, tuple[int, np.dtype[Any]]]] = {
    "f32": (1, np.dtype(np.float32)),
    "u8": (2, np.dtype(np.uint8)),
    "i8": (3, np.dtype(np.int8)),
    "u16": (4, np.dtype(np.uint16)),
    "i16": (5, np.dtype(np.int16)),
    "i32": (6, np.dtype(np.int32)),
    "i64": (7, np.dtype(np.int64)),
    "str": (8, np.dtype(object)),
    "bool": (9, np.dtype(np.bool_)),
    "f16": (10, np.dtype(np.float16)),
    "f64": (11, np.dtype(np.float64)),
    "u32": (12, np.dtype(np.uint32)),
    "u64": (13, np.dtype(np.uint64)),
    "c64": (14, np.dtype(np.complex64)),
    "c128": (15, np.dtype(np.complex128)),
    "bf16": (16, np.dtype(ml_dtypes.bfloat16)),
    "f8e4m3fn": (17, np.dtype(ml_dtypes.float8_e4m3fn)),
    "f8e4m3fnuz": (18, np.dtype(ml_dtypes.float8_e4m3fnuz)),
    "f8e5m2": (19, np.dtype(ml_dtypes.float8_e5m2)),
    "f8e5m2fnuz": (20, np.dtype(ml_dtypes.float8_e5m2fnuz)),
    "u4": (21, np.dtype(ml_dtypes.uint4)),
    "i4": (22, np.dtype(ml_dtypes.int4)),
    "f4e2m1": (23, np.dtype(ml_dtypes.float4_e2m1fn)),
    "f8e8m0": (24, np.dtype(ml_dtypes.float8_e8m0fnu)),
    "u2": (25, np.dtype(ml_dtypes.uint2)),
    "i2": (26, np.dtype(ml_dtypes.int2)),
}
_BY_NUMBER: Final = {number: name for name, (number, _) in _ELEMENTS.items()}
_BY_DTYPE: Final = {dtype: name for name, (_, dtype) in _ELEMENTS.items()}

SMALL_FLOATS: Final = frozenset(np.dtype(d) for n, (_, d) in _ELEMENTS.items() if n.startswith(("f8", "f4")))
HALF_FLOATS: Final = frozenset((np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)))
FLOATS: Final = frozenset((np.dtype(np.float32), np.dtype(np.float64))) | HALF_FLOATS | SMALL_FLOATS


def numpy_type(name: str) -> np.dtype[Any]:
    """The NumPy type of one of our element type names (`f32`, `bf16`, `str`, ...). KeyError where there is none."""
    return _ELEMENTS[name][1]


def numpy_type_of_number(number: int) -> np.dtype[Any]:
    """The NumPy type of a TensorProto.DataType number. KeyError where there is none."""
    return _ELEMENTS[_BY_NUMBER[number]][1]


def element_name(dtype: np.dtype[Any]) -> str:
    """Our name of a NumPy type; strings of any NumPy kind are `str`. KeyError where ONNX has no such type."""
    return "str" if dtype.kind in "OUS" else _BY_DTYPE[dtype]


def element_number(dtype: np.dtype[Any]) -> int:
    """The TensorProto.DataType number of a NumPy type."""
    return _ELEMENTS[element_name(dtype)][0]


def element_name_of_number(number: int) -> str:
    """Our name of a TensorProto.DataType number. KeyError where there is none."""
    return _BY_NUMBER[number]


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
        name = element_name(value.dtype) if value.dtype.kind in "OUS" or value.dtype in _BY_DTYPE else str(value.dtype)
        return f"{name}[{','.join(map(str, value.shape))}]"
    if isinstance(value, list):
        return f"seq of {len(value)}"
    return "map" if isinstance(value, dict) else repr(value)


def same_shape(values: Sequence[Array]) -> bool:
    """Whether all arrays have one shape and element type, so that they can be stacked."""
    first = values[0]
    return all(v.shape == first.shape and v.dtype == first.dtype for v in values)
