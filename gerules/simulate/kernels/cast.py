"""Cast and CastLike at every version, Constant, BitCast's neighbours: from one element type to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np
from onnx import TensorProto, numpy_helper

from gerules.simulate.kernel import Kernel, NodeSpec, Run, kernel
from gerules.simulate.values import FLOATS, SMALL_FLOATS, SMALL_INTEGERS, Array, Value, normalise, numpy_type_of_number

_E8M0: Final = np.dtype(ml_dtypes.float8_e8m0fnu)


def to_small_float(x: Array, target: np.dtype[Any], saturate: bool, round_mode: str = "up") -> Array:
    """Floats of eight bits and less: with `saturate` what is too large becomes the largest finite number."""
    if target == _E8M0:
        flat = x.astype(np.float32).reshape(-1)  # it writes into what it is given, and cannot into a scalar
        return np.asarray(numpy_helper.to_float8e8m0(flat, saturate, round_mode)).astype(target).reshape(x.shape)
    if not saturate:
        return x.astype(target)
    largest = float(ml_dtypes.finfo(target).max)  # type: ignore[no-untyped-call]  # no stubs
    return np.asarray(np.clip(x, -largest, largest)).astype(target)


def _ends(made: Array, x: Array, target: np.dtype[Any], spec: NodeSpec) -> Array:
    """A float outside of the range of an integer type has no defined value: the reference kernels take the nearest end,
    so that no rule is right because a machine wraps."""
    if spec.mode != "reference" or target.kind not in "iu" or target in SMALL_INTEGERS or not _is_float(x):
        return made
    ends = np.iinfo(target)
    wide = _numbers(x).astype(np.float64)
    made = np.where(wide <= ends.min, ends.min, np.where(wide >= ends.max, ends.max, made)).astype(target)
    return np.where(np.isnan(wide), np.array(0, dtype=target), made)


def _is_float(x: Array) -> bool:
    return x.dtype.kind == "f" or x.dtype in FLOATS


def cast_to(x: Array, target: np.dtype[Any], saturate: bool = True, round_mode: str = "up") -> Array:
    """The array in another element type; strings are read and written as numbers in Python's notation."""
    if target.kind == "O":
        return x if x.dtype.kind == "O" else np.asarray(normalise(_numbers(x).astype(np.str_)))
    if x.dtype.kind == "O":
        x = _read(x, target)
    if x.dtype == target:
        return x
    if target in SMALL_FLOATS:
        return to_small_float(_numbers(x), target, saturate, round_mode)
    if target.kind == "b":
        return np.asarray(_numbers(x) != 0)
    if target in SMALL_INTEGERS:
        numbers = _numbers(x)
        return (np.trunc(numbers).astype(np.int32) if numbers.dtype.kind == "f" else numbers).astype(target)
    return _numbers(x).astype(target)


def _numbers(x: Array) -> Array:
    """Types that NumPy does not know, in the next one that it does."""
    if x.dtype in SMALL_FLOATS:
        return x.astype(np.float32)
    return x.astype(np.int32) if x.dtype in SMALL_INTEGERS else x


def _read(x: Array, target: np.dtype[Any]) -> Array:
    whole = target.kind in "iu" or target in SMALL_INTEGERS
    values = [int(s) if whole and s.strip().lstrip("+-").isdigit() else float(s) for s in x.reshape(-1).tolist()]
    kind: Any = (target if target.kind in "iu" else np.int64) if whole else np.float64
    return np.array(values, dtype=kind).reshape(x.shape)


@kernel("Cast")
def cast(spec: NodeSpec) -> Kernel:
    to = spec.attributes["to"]
    target = numpy_type_of_number(TensorProto.DataType.Value(to.upper()) if isinstance(to, str) else int(to))
    saturate, round_mode = bool(spec.get("saturate", 1)), spec.get("round_mode", "up")

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        made = cast_to(operands[0], target, saturate, round_mode)
        return (_ends(made, operands[0], target, spec),)

    return compute


@kernel("CastLike")
def cast_like(spec: NodeSpec) -> Kernel:
    saturate, round_mode = bool(spec.get("saturate", 1)), spec.get("round_mode", "up")

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        target = operands[1].dtype
        made = cast_to(operands[0], target, saturate, round_mode)
        return (_ends(made, operands[0], target, spec),)

    return compute


_CONSTANT_TYPES: Final[dict[str, Any]] = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_string": object,
    "value_strings": object,
}


@kernel("Constant")
def constant(spec: NodeSpec) -> Kernel:
    given = [name for name in spec.attributes if name == "value" or name in _CONSTANT_TYPES]
    if len(given) != 1:
        raise ValueError(f"a Constant needs one value, this has {given or 'none'}")
    content = spec.attributes[given[0]]
    result = content if given[0] == "value" else np.array(content, dtype=_CONSTANT_TYPES[given[0]])

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        return (result,)

    return compute
