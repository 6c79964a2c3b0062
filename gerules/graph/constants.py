"""Canonical text of constant arrays: equal text means equal element type, shape and bits.

Small arrays are spelled out, `f32[2,3]|<hex of little-endian bytes in C order>` (one byte an element for types narrower
than a byte) and `str[2]|<JSON>`; large ones, `f32[2,3]#<SHA-256>`, lie in a `ConstantTable`.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from gerules.graph.dimension import Dim
from gerules.graph.dtypes import BITS, NUMBERS, name_of_numpy, numpy_dtype

MAX_INLINE_BYTES = 1024

Array = npt.NDArray[np.generic]

_HEADER = re.compile(r"([a-z0-9]+)\[([0-9,]*)\]([|#])")


class ConstantError(ValueError):
    """Text that is no constant, or one that the table does not hold."""


class ConstantTable:
    """The large constants of one run, by digest. Arrays are kept as they come, not copied."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def __len__(self) -> int:
        return len(self._arrays)

    def keep(self, digest: str, array: Array) -> None:
        self._arrays.setdefault(digest, array)

    def find(self, digest: str) -> Array:
        """Raises ConstantError."""
        if digest not in self._arrays:
            raise ConstantError(f"no constant with digest {digest[:16]}... is kept here")
        return self._arrays[digest]


def encode(array: npt.ArrayLike, table: ConstantTable) -> str:
    """The canonical text of an array; a large one is put into the table. Raises TypeError for a type ONNX lacks."""
    array = np.asarray(array)
    name = name_of_numpy(array.dtype)
    header = f"{name}[{','.join(map(str, array.shape))}]"
    if name == "str":
        body = json.dumps([_as_text(item) for item in array.ravel().tolist()])
        if len(body) <= MAX_INLINE_BYTES:
            return f"{header}|{body}"
        return _keep(header, body.encode(), array, table)
    little = array.astype(array.dtype.newbyteorder("<"), copy=False) if array.dtype.byteorder == ">" else array
    if BITS[name] < 8:  # which bits the rest of the byte holds depends on who made the array
        little = (np.ascontiguousarray(little).view(np.uint8) & (2 ** BITS[name] - 1)).view(array.dtype)
    if array.nbytes <= MAX_INLINE_BYTES:
        return f"{header}|{little.tobytes().hex()}"
    return _keep(header, np.ascontiguousarray(little).view(np.uint8).data, little, table)


def decode(text: str, table: ConstantTable) -> Array:
    """The array that a text stands for, read-only; strings as an object array of `str`. Raises ConstantError."""
    match = _HEADER.match(text)
    if match is not None and match[3] == "#":
        return table.find(text[match.end() :])
    return _decode_inline(text)


def dtype_and_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """The element type and the shape that a constant's text begins with. Raises ConstantError."""
    match = _HEADER.match(text)
    if match is None or match[1] not in NUMBERS:
        raise ConstantError(f"not the text of a constant: {text[:60]!r}")
    return match[1], tuple(int(extent) for extent in match[2].split(",") if extent)


def is_inline(text: str) -> bool:
    """Whether the text spells the constant out."""
    match = _HEADER.match(text)
    return match is not None and match[3] == "|"


def as_array(value: object, dtype: str | None = None) -> Array:
    """A number, string, list of them, or array as an array of an element type (that of an array where none is given).

    Floats are rounded; what an integer type, a bool or a string cannot hold exactly, and a finite number that a float
    type takes to infinity, is a ConstantError.
    """
    array = np.asarray(_plain(value))
    name = dtype if dtype is not None else name_of_numpy(array.dtype)
    if name not in NUMBERS:
        raise ConstantError(f"{name} is no element type of constants")
    if name == "str" or array.dtype.kind in "USO":
        if name != "str" or not all(isinstance(item, str | bytes) for item in array.ravel().tolist()):
            raise ConstantError(f"{value!r} cannot be held by {name}")
        return array.astype(object)
    wanted = numpy_dtype(name)
    if array.dtype == wanted:
        return array
    with np.errstate(all="ignore"):
        try:
            made = array.astype(wanted)
        except (TypeError, ValueError, OverflowError):
            raise ConstantError(f"{value!r} cannot be held by {name}") from None
        if name[0] in "fbc" and name != "bool":
            lost = np.isfinite(array.astype(np.complex128)) & ~np.isfinite(made.astype(np.complex128))
        else:
            lost = made.astype(object) != array.astype(object)
    if np.any(lost):
        raise ConstantError(f"{value!r} cannot be held by {name}")
    return made


def scalar_text(text: str, table: ConstantTable) -> str | None:
    """The text of the scalar that every element is, bit by bit; None where elements differ or there are none."""
    array = decode(text, table)
    if array.size == 0:
        return None
    first = array.reshape(-1)[:1]
    if array.dtype == object:
        same = all(item == first[0] for item in array.ravel().tolist())
    else:
        bytes_ = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)
        same = bool((bytes_ == bytes_[0]).all())
    return encode(first.reshape(()), table) if same else None


def tensor_of(text: str, table: ConstantTable, name: str | None = None) -> ir.TensorProtocol:
    """The onnx_ir tensor of a constant's text, bits and bytes as they were. Raises ConstantError."""
    array = decode(text, table)
    if array.dtype == object:
        strings = [_as_text(item).encode("utf-8", "surrogateescape") for item in array.ravel().tolist()]
        return ir.StringTensor(strings, shape=ir.Shape(array.shape), name=name)
    return ir.Tensor(array, name=name)


def _keep(header: str, body: bytes | memoryview, array: Array, table: ConstantTable) -> str:
    digest = hashlib.sha256(header.encode())
    digest.update(body)
    name = digest.hexdigest()
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    table.keep(name, array)
    return f"{header}#{name}"


def _plain(value: object) -> object:
    """Dimensions that are numbers as numbers, also within lists."""
    if isinstance(value, Dim):
        if value.value is None:
            raise ConstantError(f"the dimension {value} is no number")
        return value.value
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _as_text(item: object) -> str:
    # ONNX strings are bytes; those that are no UTF-8 pass through as lone surrogates.
    return item.decode("utf-8", "surrogateescape") if isinstance(item, bytes) else str(item)


@lru_cache(maxsize=8192)
def _decode_inline(text: str) -> Array:
    name, shape = dtype_and_shape(text)
    body = text[text.index("]") + 2 :]
    try:
        if name == "str":
            array = np.empty(shape, dtype=object)
            items = json.loads(body)
            if len(items) != array.size:
                raise ConstantError(f"{len(items)} strings for shape {list(shape)}")
            array.reshape(-1)[:] = items
        else:
            array = np.frombuffer(bytes.fromhex(body), dtype=numpy_dtype(name).newbyteorder("<")).reshape(shape)
            array = array.astype(numpy_dtype(name), copy=False)
    except ConstantError:
        raise
    except ValueError as error:
        raise ConstantError(f"not the text of a constant: {text[:60]!r} ({error})") from None
    array.flags.writeable = False
    return array
