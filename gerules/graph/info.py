"""What is known of a value: element type, shape, contents, as one canonical text, and how two such facts join.

    f32[N,4]            a type and a shape        f32[N,?]    an unknown extent        f32[*]    an unknown rank
    i64[2]=[N,4]        an integer vector with symbolic entries; `?` for an unknown one; a scalar is i64[]=[N]
    f32[2]=f32[2]|...   a constant (its text, see `constants`)
    f32[N,4]~f32[]|...  every element is this scalar, bit by bit
    ?                   nothing is known, not even the type (`UNKNOWN`)

One text per state of knowledge: entries that are all numbers, and a uniform value of small static shape, are constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gerules.graph.constants import (
    MAX_INLINE_BYTES,
    ConstantError,
    ConstantTable,
    decode,
    dtype_and_shape,
    encode,
    is_inline,
    scalar_text,
)
from gerules.graph.dimension import Dim, DimError
from gerules.graph.dtypes import BITS, is_tensor, numpy_dtype

MAX_ENTRIES = 64
ENTRY_TYPES = ("i64", "i32")

Shape = tuple[Dim | None, ...]

_NO_TABLE = ConstantTable()  # stays empty: only for constants that are spelled out
_EXACT = frozenset({"i64", "i32", "i16", "i8", "i4", "i2", "u64", "u32", "u16", "u8", "u4", "u2", "bool", "str"})


class InfoError(ValueError):
    """Text that says nothing known of a value."""


class Contradiction(ValueError):
    """Two things known of one value cannot both be true; `first` and `second` are their texts."""

    def __init__(self, first: Info, second: Info) -> None:
        self.first, self.second = first, second
        super().__init__(f"{first.text} and {second.text} cannot both be known of one value")


@dataclass(frozen=True, slots=True)
class Constant:
    """All elements are known: the text of the constant."""

    text: str

    def __str__(self) -> str:
        return f"={self.text}"


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of an integer vector (or the one of a scalar) as dimensions, None where unknown."""

    dims: Shape

    def __str__(self) -> str:
        return f"={_shape_text(self.dims)}"


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every element is this scalar: the text of its constant."""

    text: str

    def __str__(self) -> str:
        return f"~{self.text}"


Content = Constant | Entries | Uniform


@dataclass(frozen=True, slots=True, eq=False)
class Info:
    """What is known of one value. Brought to canonical form when made; equal when the texts are.

    `dtype` is an element type, or `seq(f32)` and the like, which have no shape, or `?` where nothing is known. Raises
    InfoError where content and shape do not fit.
    """

    dtype: str
    shape: Shape | None
    content: Content | None = None
    text: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        shape, content = _canonical(self.dtype, self.shape, self.content)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "content", content)
        body = "[*]" if shape is None else _shape_text(shape)
        text = "?" if self.dtype == "?" else f"{self.dtype}{body}{'' if content is None else content}"
        object.__setattr__(self, "text", text)

    @staticmethod
    def of(dtype: str, dims: Sequence[Dim | int | str | None] | None = None) -> Info:
        """`Info.of("f32", ["N", 4, None])`; no list is an unknown rank."""
        if dims is None:
            return Info(dtype, None)
        return Info(dtype, tuple(_as_dim(dim) for dim in dims))

    @staticmethod
    def parse(text: str) -> Info:
        """Reads canonical text. Raises InfoError."""
        return _parse(text)

    @staticmethod
    def of_constant(text: str) -> Info:
        """What a constant's text says. Raises ConstantError."""
        dtype, extents = dtype_and_shape(text)
        return Info(dtype, tuple(map(Dim.of, extents)), Constant(text))

    @staticmethod
    def of_array(array: npt.ArrayLike, table: ConstantTable) -> Info:
        """What is known of a constant array; a large one is put into the table."""
        return Info.of_constant(encode(array, table))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Info) and self.text == other.text)

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The extents where all are numbers, else None."""
        if self.shape is None:
            return None
        extents = tuple(dim.value for dim in self.shape if dim is not None and dim.value is not None)
        return extents if len(extents) == len(self.shape) else None

    @property
    def constant_text(self) -> str | None:
        """The text of the constant that the value is, None where it is not known to be one."""
        return self.content.text if isinstance(self.content, Constant) else None

    @property
    def entries(self) -> Shape | None:
        """The entries of an integer tensor of rank 0 or 1 as dimensions, constant or not; None where unknown."""
        if isinstance(self.content, Entries):
            return self.content.dims
        if isinstance(self.content, Constant) and self.dtype in ENTRY_TYPES and is_inline(self.content.text):
            array = decode(self.content.text, _NO_TABLE)
            if array.ndim <= 1 and array.size <= MAX_ENTRIES:
                return tuple(Dim.of(int(item)) for item in array.reshape(-1).tolist())
        return None

    @property
    def uniform(self) -> str | None:
        """The text of the scalar that every element is, also of a spelled-out constant; None where not known."""
        if isinstance(self.content, Uniform):
            return self.content.text
        if isinstance(self.content, Constant) and is_inline(self.content.text):
            return scalar_text(self.content.text, _NO_TABLE)
        return None

    def with_shape(self, shape: Shape) -> Info:
        """The same type with this shape and nothing known of the contents. Raises InfoError."""
        return Info(self.dtype, shape)

    def with_content(self, entries: Shape | Dim) -> Info:
        """The same type as an integer vector with these entries, or as the scalar of one dimension (a vector of one
        where the rank is known to be 1). Raises InfoError."""
        if isinstance(entries, Dim):
            return Info(self.dtype, (Dim.of(1),) if self.rank == 1 else (), Entries((entries,)))
        return Info(self.dtype, (Dim.of(len(entries)),), Entries(entries))

    def without_content(self) -> Info:
        return self if self.content is None else Info(self.dtype, self.shape)

    def size(self) -> Dim | None:
        """The number of elements; None where an extent is unknown or the value is no tensor."""
        if self.shape is None or not is_tensor(self.dtype):
            return None
        total = Dim.of(1)
        try:
            for dim in self.shape:
                if dim is None:
                    return None
                total = total * dim
        except DimError:
            return None
        return total

    def bytes(self) -> Dim | None:
        """The number of bytes, narrow elements packed as ONNX packs them (a string counts 8); None where unknown."""
        size = self.size()
        if size is None:
            return None
        bits = BITS[self.dtype]
        return size * (bits // 8) if bits % 8 == 0 else (size * bits + 7).floordiv(8)


def join(a: Info, b: Info) -> Info:
    """Everything that either says: a commutative, associative, idempotent join.

    Known wins over unknown, a number over a symbol, of two symbolic dimensions the shorter text. Of two different
    float constants the one with the lesser text stays (rules that hold within tolerance may unite them). Raises
    Contradiction where types, ranks, extents or integer contents differ for certain.
    """
    if a is b or a.text == b.text:
        return a
    if a.dtype != b.dtype:
        if "?" in (a.dtype, b.dtype):
            return b if a.dtype == "?" else a
        raise Contradiction(a, b)
    try:
        shape = _join_shapes(a.shape, b.shape)
        if a.content is None and b.content is None:
            return Info(a.dtype, shape)
        left, right = Info(a.dtype, shape, a.content), Info(a.dtype, shape, b.content)
        return Info(a.dtype, shape, _join_contents(a.dtype, left, right))
    except (_Differ, InfoError):
        raise Contradiction(a, b) from None


def join_dims(a: Dim | None, b: Dim | None) -> Dim | None:
    """Of two dimensions known to be equal the one to keep. Raises ValueError where they differ for certain."""
    if a is None or b is None:
        return b if a is None else a
    if a.text == b.text:
        return a
    try:
        difference = (a - b).value
    except DimError:
        difference = None
    if difference is not None:
        raise _Differ
    return min(a, b, key=_preference)


class _Differ(ValueError):
    """Two parts of what is known differ."""


def _preference(dim: Dim) -> tuple[bool, int, str]:
    return dim.value is None, len(dim.text), dim.text


def _join_shapes(a: Shape | None, b: Shape | None) -> Shape | None:
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b):
        raise _Differ
    return tuple(join_dims(x, y) for x, y in zip(a, b, strict=True))


def _join_contents(dtype: str, a: Info, b: Info) -> Content | None:
    if a.content is None or b.content is None or a.content == b.content:
        return b.content if a.content is None else a.content
    if isinstance(a.content, Uniform) and isinstance(b.content, Uniform):
        return min(a.content, b.content, key=lambda content: content.text)  # different only where there is no element
    if isinstance(a.content, Uniform) or isinstance(b.content, Uniform):
        return b.content if isinstance(a.content, Uniform) else a.content
    if a.entries is not None and b.entries is not None:
        return Entries(tuple(join_dims(x, y) for x, y in zip(a.entries, b.entries, strict=True)))
    if isinstance(a.content, Entries) or isinstance(b.content, Entries):
        return b.content if isinstance(a.content, Entries) else a.content
    if dtype in _EXACT:
        raise _Differ
    return min(a.content, b.content, key=lambda content: content.text)


def _as_dim(dim: Dim | int | str | None) -> Dim | None:
    if isinstance(dim, int):
        return Dim.of(dim)
    return Dim.parse(dim) if isinstance(dim, str) else dim


def _shape_text(dims: Shape) -> str:
    return f"[{','.join('?' if dim is None else dim.text for dim in dims)}]"


def _canonical(dtype: str, shape: Shape | None, content: Content | None) -> tuple[Shape | None, Content | None]:
    if not is_tensor(dtype):
        if shape is not None or content is not None:
            raise InfoError(f"a value of type {dtype} has neither shape nor content here")
        return None, None
    if content is None:
        return shape, None
    if isinstance(content, Uniform):
        return shape, _canonical_uniform(dtype, shape, content)
    if isinstance(content, Constant):
        try:
            own, extents = dtype_and_shape(content.text)
        except ConstantError as error:
            raise InfoError(str(error)) from None
        wanted: Shape = tuple(map(Dim.of, extents))
        if own != dtype or (shape is not None and not _fits(shape, wanted)):
            raise InfoError(
                f"the constant {content.text[:60]} is no {dtype}{'' if shape is None else _shape_text(shape)}"
            )
        return wanted, content
    dims = content.dims
    if dtype not in ENTRY_TYPES:
        raise InfoError(f"only i64 and i32 have symbolic entries, not {dtype}")
    if shape is None or shape == (None,):
        shape = (Dim.of(len(dims)),) if shape is not None or len(dims) != 1 else None
    if shape is None:  # one entry of unknown rank: a scalar or a vector of one
        return None, None
    if len(shape) > 1 or (len(shape) == 1 and not _fits(shape, (Dim.of(len(dims)),))) or (not shape and len(dims) != 1):
        raise InfoError(f"{len(dims)} entries do not fill {dtype}{_shape_text(shape)}")
    shape = (Dim.of(len(dims)),) if shape else ()
    if len(dims) > MAX_ENTRIES or all(dim is None for dim in dims):
        return shape, (Constant(f"{dtype}[0]|") if not dims else None)
    numbers = [dim.value for dim in dims if dim is not None and dim.value is not None]
    if len(numbers) < len(dims):
        return shape, content
    limits = np.iinfo(numpy_dtype(dtype))
    if not all(limits.min <= number <= limits.max for number in numbers):
        return shape, None
    array = np.array(numbers, dtype=numpy_dtype(dtype)).reshape(() if not shape else (len(dims),))
    return shape, Constant(encode(array, _NO_TABLE))


def _canonical_uniform(dtype: str, shape: Shape | None, content: Uniform) -> Content:
    try:
        own, extents = dtype_and_shape(content.text)
    except ConstantError as error:
        raise InfoError(str(error)) from None
    if own != dtype or extents:
        raise InfoError(f"{content.text[:60]} is no scalar of type {dtype}")
    if shape is None or any(dim is None or dim.value is None for dim in shape):
        return content
    count = 1
    for dim in shape:
        count *= dim.value if dim is not None and dim.value is not None else 1
    scalar = decode(content.text, _NO_TABLE)
    if count * scalar.dtype.itemsize > MAX_INLINE_BYTES:
        return content
    extents = tuple(dim.value for dim in shape if dim is not None and dim.value is not None)
    text = encode(np.broadcast_to(scalar, extents), _NO_TABLE)
    return Constant(text) if is_inline(text) else content


def _fits(shape: Shape, extents: Shape) -> bool:
    """Whether a shape may be this static one."""
    return len(shape) == len(extents) and all(
        dim is None or dim.value is None or dim == extent for dim, extent in zip(shape, extents, strict=True)
    )


UNKNOWN = Info("?", None)


# --------------------------------------------------------------------------------------------------------- reading


@lru_cache(maxsize=65536)
def _parse(text: str) -> Info:
    if text == "?":
        return UNKNOWN
    start = text.find("[")
    if start <= 0:
        raise InfoError(f"not what is known of a value: {text[:80]!r}")
    dtype = text[:start]
    try:
        if text.startswith("[*]", start):
            shape, end = None, start + 3
        else:
            shape, end = _parse_shape(text, start)
        rest = text[end:]
        if not rest:
            return Info(dtype, shape)
        if rest.startswith("=["):
            dims, end = _parse_shape(rest, 1)
            if end == len(rest):
                return Info(dtype, shape, Entries(dims))
        elif rest.startswith("="):
            return Info(dtype, shape, Constant(rest[1:]))
        elif rest.startswith("~"):
            return Info(dtype, shape, Uniform(rest[1:]))
    except DimError as error:
        raise InfoError(f"not what is known of a value: {text[:80]!r} ({error})") from None
    raise InfoError(f"not what is known of a value: {text[:80]!r}")


def _parse_shape(text: str, start: int) -> tuple[Shape, int]:
    """The list of dimensions whose `[` stands at `start`, and the position after its `]`."""
    simple = text.find("]", start)
    if simple > 0 and "'" not in text[start:simple] and "(" not in text[start:simple]:
        body = text[start + 1 : simple]
        return tuple(_parse_dim(item) for item in body.split(",")) if body else (), simple + 1
    items: list[str] = []
    depth, begin, position, quoted = 0, start + 1, start + 1, False
    while position < len(text):
        character = text[position]
        if quoted:
            position += character == "\\"
            quoted = character != "'"
        elif character == "'":
            quoted = True
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif depth == 0 and character in ",]":
            items.append(text[begin:position])
            begin = position + 1
            if character == "]":
                return tuple(map(_parse_dim, items)) if items != [""] else (), position + 1
        position += 1
    raise InfoError(f"a bracket is not closed: {text[:80]!r}")


def _parse_dim(text: str) -> Dim | None:
    return None if text == "?" else Dim.parse(text)
