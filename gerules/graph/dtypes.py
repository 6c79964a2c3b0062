"""Element types: our names, ONNX's numbers, NumPy's types, widths.

Names are `f32`, `bf16`, `i4`, `f8e4m3fn`, ... for tensors, and `seq(f32)`, `optional(f32)`, `map(i64,f32)` for what is
no tensor.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

# name, number in TensorProto, NumPy type, bits an element
_TABLE: tuple[tuple[str, int, Any, int], ...] = (
    ("f32", 1, np.float32, 32),
    ("u8", 2, np.uint8, 8),
    ("i8", 3, np.int8, 8),
    ("u16", 4, np.uint16, 16),
    ("i16", 5, np.int16, 16),
    ("i32", 6, np.int32, 32),
    ("i64", 7, np.int64, 64),
    ("str", 8, np.object_, 64),
    ("bool", 9, np.bool_, 8),
    ("f16", 10, np.float16, 16),
    ("f64", 11, np.float64, 64),
    ("u32", 12, np.uint32, 32),
    ("u64", 13, np.uint64, 64),
    ("c64", 14, np.complex64, 64),
    ("c128", 15, np.complex128, 128),
    ("bf16", 16, ml_dtypes.bfloat16, 16),
    ("f8e4m3fn", 17, ml_dtypes.float8_e4m3fn, 8),
    ("f8e4m3fnuz", 18, ml_dtypes.float8_e4m3fnuz, 8),
    ("f8e5m2", 19, ml_dtypes.float8_e5m2, 8),
    ("f8e5m2fnuz", 20, ml_dtypes.float8_e5m2fnuz, 8),
    ("u4", 21, ml_dtypes.uint4, 4),
    ("i4", 22, ml_dtypes.int4, 4),
    ("f4e2m1", 23, ml_dtypes.float4_e2m1fn, 4),
    ("f8e8m0", 24, ml_dtypes.float8_e8m0fnu, 8),
    ("u2", 25, ml_dtypes.uint2, 2),
    ("i2", 26, ml_dtypes.int2, 2),
    ("f6e2m3", 27, ml_dtypes.float6_e2m3fn, 6),
    ("f6e3m2", 28, ml_dtypes.float6_e3m2fn, 6),
)

NAMES: tuple[str, ...] = tuple(name for name, *_ in _TABLE)
NUMBERS: dict[str, int] = {name: number for name, number, *_ in _TABLE}
NAME_OF_NUMBER: dict[int, str] = {number: name for name, number, *_ in _TABLE}
BITS: dict[str, int] = {name: bits for name, _, _, bits in _TABLE}
_NUMPY: dict[str, np.dtype] = {name: np.dtype(kind) for name, _, kind, _ in _TABLE}
_NAME_OF_NUMPY: dict[np.dtype, str] = {kind: name for name, kind in _NUMPY.items()}


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy type of an element type; `str` is an object array of Python strings. Raises KeyError."""
    return _NUMPY[name]


def name_of_numpy(dtype: np.dtype) -> str:
    """The name of a NumPy type, whatever its byte order. Raises TypeError."""
    if dtype.kind in "US":
        return "str"
    name = _NAME_OF_NUMPY.get(dtype) or _NAME_OF_NUMPY.get(dtype.newbyteorder("="))
    if name is None:
        raise TypeError(f"NumPy type {dtype} is no ONNX element type")
    return name


def onnx_dtype(name: str) -> ir.DataType:
    """ONNX's data type of a name. Raises KeyError."""
    return ir.DataType(NUMBERS[name])


def name_of_onnx(dtype: ir.DataType | int) -> str | None:
    """The name of an ONNX data type; None for UNDEFINED and what is not known here."""
    return NAME_OF_NUMBER.get(int(dtype))


def type_name(type_: ir.TypeProtocol | None) -> str | None:
    """The name of a value's type: `f32`, `seq(f32)`, `optional(seq(f32))`; None where it is not known.

    A sparse tensor is `sparse(f32)`.
    """
    wrappers = []
    while isinstance(type_, ir.SequenceType | ir.OptionalType):
        wrappers.append("seq" if isinstance(type_, ir.SequenceType) else "optional")
        type_ = type_.elem_type
    if type_ is None or (name := name_of_onnx(type_.dtype)) is None:
        return None
    if isinstance(type_, ir.SparseTensorType):
        wrappers.append("sparse")
    for wrapper in reversed(wrappers):
        name = f"{wrapper}({name})"
    return name


@cache
def is_tensor(name: str) -> bool:
    """Whether the name is that of a dense tensor's elements."""
    return name in NUMBERS


def onnx_type(name: str) -> ir.TypeProtocol:
    """The onnx_ir type of a name. Raises KeyError for names (maps) that onnx_ir has no type for."""
    wrappers = []
    while name.endswith(")"):
        wrapper, _, name = name.partition("(")
        wrappers.append(wrapper)
        name = name[:-1]
    makers = {"seq": ir.SequenceType, "optional": ir.OptionalType}
    if wrappers and wrappers[-1] == "sparse":
        wrappers.pop()
        result: ir.TypeProtocol = ir.SparseTensorType(onnx_dtype(name))
    else:
        result = ir.TensorType(onnx_dtype(name))
    for wrapper in reversed(wrappers):
        result = makers[wrapper](result)
    return result
