"""Patterns of a tensor's contents: `const(v)`, `splat(v, s)`, `dims(s)`, `dim(d)`, `iota(s, axis)`."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import TypeAlias

import numpy as np

from gerules.dsl import ast
from gerules.errors import Diagnostic, Refused
from gerules.graph.constants import ConstantTable, decode, is_inline
from gerules.static import Context, TensorView, Unknown, compile_expr, destructure, free_names, same_literal
from gerules.static.steps import Match, binds
from gerules.static.values import Value, plain, settled

VALUE_HEADS = ("const", "splat", "dims", "dim", "iota")
_PARAMETERS = {"const": 1, "splat": 2, "dims": 1, "dim": 1, "iota": 2}
_NO_TABLE = ConstantTable()

OfTensor: TypeAlias = Callable[[TensorView, dict[str, Value]], bool]
_Read: TypeAlias = Callable[[TensorView], tuple[Value, ...]]


def compile_contents(call: ast.Call, context: Context, names: MutableMapping[str, str]) -> OfTensor:
    """A matcher of tensors, which extends the variables; raises Unknown where it cannot be told. Names that it binds
    are added to `names`. Raises Refused (GR601) for a pattern of another form."""
    assert isinstance(call.head, ast.Name)
    kind = call.head.id
    if len(call.operands) != _PARAMETERS[kind] or any(k.name != "dtype" for k in call.keywords):
        raise Refused(Diagnostic("GR601", f"`{kind}` takes {_PARAMETERS[kind]} operands and `dtype=`", span=call.span))
    parts = [
        _part(operand, context, names, literal=kind in {"const", "splat"} and i == 0)
        for i, operand in enumerate(call.operands)
    ]
    dtype = [_part(k.value, context, names, literal=False) for k in call.keywords]
    read = _READERS[kind]

    def match(tensor: TensorView, env: dict[str, Value]) -> bool:
        if not all(test(tensor.info.dtype, env) for test in dtype):
            return False
        return all(test(value, env) for test, value in zip(parts, read(tensor), strict=True))

    return match


def _part(expr: ast.Expr, context: Context, names: MutableMapping[str, str], *, literal: bool) -> Match:
    known = set(names)
    if literal and not free_names(expr) and not (isinstance(expr, ast.Name) and expr.id == "_"):
        wanted = compile_expr(expr, context)({})
        return lambda value, env: same_literal(value, wanted)
    if not binds(expr, known):
        raise Refused(
            Diagnostic("GR601", "a pattern of contents is a variable, a list of such, or a value", span=expr.span)
        )
    match, bound = destructure(expr, known, context)
    names.update(dict.fromkeys(bound, "static"))
    return match


def constant_of(tensor: TensorView) -> np.ndarray:
    """The contents of a constant at hand or spelled out in what is known. Raises Unknown."""
    if tensor.constant is not None:
        return tensor.constant
    text = tensor.info.constant_text
    if text is None or not is_inline(text):
        raise Unknown("the contents are not known")
    return decode(text, _NO_TABLE)


def _constant(tensor: TensorView) -> tuple[Value, ...]:
    return (constant_of(tensor),)


def _splat(tensor: TensorView) -> tuple[Value, ...]:
    """The one element all over, and the shape."""
    text = tensor.info.uniform
    if text is not None:
        return plain(decode(text, _NO_TABLE)), tensor.shape
    array = constant_of(tensor)
    flat = array.reshape(-1)
    if not flat.size or (flat.size > 1 and flat.tobytes() != flat[:1].tobytes() * flat.size):
        raise Unknown("the elements are not one value")
    return plain(flat[:1].reshape(())), tensor.shape


def _dims(tensor: TensorView) -> tuple[Value, ...]:
    entries = tensor.info.entries
    if entries is None or tensor.info.rank != 1:
        raise Unknown("the entries are not known")
    return (settled(entries),)


def _dim(tensor: TensorView) -> tuple[Value, ...]:
    entries = tensor.info.entries
    if entries is None or tensor.info.rank != 0 or entries[0] is None:
        raise Unknown("the entry is not known")
    return (settled(entries)[0],)


def _iota(tensor: TensorView) -> tuple[Value, ...]:
    """Shape and axis of a tensor whose elements count along one axis."""
    array = constant_of(tensor)
    for axis in range(array.ndim):
        counts = np.arange(array.shape[axis]).reshape([-1 if i == axis else 1 for i in range(array.ndim)])
        if array.shape[axis] > 1 and np.array_equal(array, np.broadcast_to(counts, array.shape)):
            return tensor.shape, axis
    raise Unknown("the elements do not count along an axis")


_READERS: dict[str, _Read] = {"const": _constant, "splat": _splat, "dims": _dims, "dim": _dim, "iota": _iota}
