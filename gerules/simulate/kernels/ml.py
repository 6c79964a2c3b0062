"""ai.onnx.ml operators that onnx.reference lacks: maps in and out, categories, labels at version 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from gerules.simulate.kernel import Kernel, NodeSpec, Run, kernel
from gerules.simulate.values import Array, Value

_DOMAIN: Final = "ai.onnx.ml"
_CAST_TO: Final[dict[str, Any]] = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": object}


@kernel("ZipMap", domain=_DOMAIN)
def zip_map(spec: NodeSpec) -> Kernel:
    """(rows, classes) scores -> one map from label to score per row."""
    labels = spec.get("classlabels_int64s") or spec.get("classlabels_strings") or ()

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        scores = operands[0] if operands[0].ndim == 2 else operands[0].reshape(1, -1)
        if scores.shape[1] != len(labels):
            raise ValueError(f"{scores.shape[1]} scores for {len(labels)} labels")
        return ([dict(zip(labels, row.tolist(), strict=True)) for row in scores],)

    return compute


@kernel("CastMap", domain=_DOMAIN)
def cast_map(spec: NodeSpec) -> Kernel:
    """A map from whole numbers -> (1, n) values in order of key; `SPARSE` puts each at its key, zeros between."""
    dtype = _CAST_TO[spec.get("cast_to", "TO_FLOAT")]
    sparse, size = spec.get("map_form", "DENSE") == "SPARSE", int(spec.get("max_map", 1))

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        items = sorted(operands[0].items())
        empty: Any = "" if dtype is object else 0
        values: list[Any] = [empty] * size if sparse else [_as(v, dtype) for _, v in items]
        if sparse:
            for key, value in items:
                values[int(key)] = _as(value, dtype)
        return (np.array(values, dtype=dtype).reshape(1, -1),)

    return compute


def _as(value: Any, dtype: Any) -> Any:
    return str(value) if dtype is object else float(value) if dtype is np.float32 else int(float(value))


@kernel("CategoryMapper", domain=_DOMAIN)
def category_mapper(spec: NodeSpec) -> Kernel:
    """Strings to numbers or numbers to strings, by two lists of one length."""
    strings, numbers = spec.get("cats_strings") or (), spec.get("cats_int64s") or ()
    return _lookup(strings, numbers, spec.get("default_string", "_Unused"), spec.get("default_int64", -1))


@kernel("LabelEncoder", until=1, domain=_DOMAIN)
def label_encoder_1(spec: NodeSpec) -> Kernel:
    """Version 1: the labels are strings, their numbers the positions in `classes_strings`."""
    labels = spec.get("classes_strings") or ()
    unknown, number = spec.get("default_string", "_Unused"), spec.get("default_int64", -1)
    return _lookup(labels, range(len(labels)), unknown, number)


def _lookup(strings: Sequence[str], numbers: Sequence[int], default_string: str, default_number: int) -> Kernel:
    to_number = dict(zip(strings, numbers, strict=True))
    to_string = dict(zip(numbers, strings, strict=True))

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x: Array = operands[0]
        found: list[Any]
        if x.dtype.kind == "O":
            found = [to_number.get(v, default_number) for v in x.reshape(-1).tolist()]
            return (np.array(found, dtype=np.int64).reshape(x.shape),)
        found = [to_string.get(int(v), default_string) for v in x.reshape(-1).tolist()]
        return (np.array(found, dtype=object).reshape(x.shape),)

    return compute


@kernel("Normalizer", domain=_DOMAIN)
def normalizer(spec: NodeSpec) -> Kernel:
    """Each row divided by its largest element (MAX, signs as they are), sum of sizes (L1) or length (L2); rows whose
    norm is 0 stay."""
    norm = spec.get("norm", "MAX")
    if norm not in ("MAX", "L1", "L2"):
        raise ValueError(f"there is no norm {norm}")

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0].astype(np.float32)
        if norm == "MAX":
            size = x.max(axis=-1, keepdims=True)
        elif norm == "L1":
            size = np.abs(x).sum(axis=-1, keepdims=True)
        else:
            size = np.sqrt(np.square(x).sum(axis=-1, keepdims=True))
        return (np.divide(x, size, out=x.copy(), where=size != 0),)

    return compute
