"""The host functions by name: what rules may call, pure, total up to `Unknown`.

`prelude.rules` and the files that use them declare the same signatures; `known_functions` is what the checker compares
with. `body` and `evaluate`, which need an e-graph and a simulator, come from the rooms that have them
(`Context.functions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from gerules.static import elements, extents, lists, shapes, windows
from gerules.static.host import FUNCTIONS, HostFunction, host
from gerules.static.values import TensorView, Unknown, Value

__all__ = ["HostFunction", "extents", "host", "known_functions", "lists", "shapes", "shipped_functions", "windows"]


@cache
def shipped_functions() -> Mapping[str, HostFunction]:
    """All host functions by name."""
    return dict(sorted(FUNCTIONS.items()))


def known_functions() -> Mapping[str, str]:
    """Signature by name, of the functions that rule files declare (not of those built into the language)."""
    return {name: f.signature for name, f in shipped_functions().items() if not f.builtin}


@host("lossless(from: dtype, to: dtype) -> bool")
def lossless(source: str, target: str) -> Value:
    return elements.lossless(source, target)


@host("lowest(t: dtype) -> float")
def lowest(t: str) -> Value:
    """The least finite value."""
    return _limit(t, 0)


@host("highest(t: dtype) -> float")
def highest(t: str) -> Value:
    """The largest finite value."""
    return _limit(t, 1)


@host("constant(x: value) -> bool")
def constant(x: TensorView) -> Value:
    """Whether the contents of a tensor are known before the graph runs, as numbers."""
    entries = x.info.entries
    return (
        x.constant is not None
        or x.info.constant_text is not None
        or (entries is not None and all(d is not None and d.value is not None for d in entries))
    )


@host("element_type(word: str) -> dtype")
def element_type(word: str) -> Value:
    """The element type that `TensorProto.DataType` calls by this word."""
    found = _WORDS.get(word.upper())
    if found is None:
        raise Unknown(f"{word} is no element type")
    return found


_WORDS = {
    "FLOAT": "f32", "DOUBLE": "f64", "FLOAT16": "f16", "BOOL": "bool", "STRING": "str",
    "INT8": "i8", "INT16": "i16", "INT32": "i32", "INT64": "i64",
    "UINT8": "u8", "UINT16": "u16", "UINT32": "u32", "UINT64": "u64",
}  # fmt: skip


def _limit(t: str, which: int) -> Value:
    limits = elements.limits(t)
    if limits is None:
        raise Unknown(f"{t} has no least and largest value")
    return limits[which]
