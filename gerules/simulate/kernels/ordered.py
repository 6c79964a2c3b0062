"""Sums and products of matrices, twice: fast (BLAS, NumPy's pairwise sums), and ordered.

Ordered means that every output element is computed alone, in index order, starting from the first summand. Its bits
then depend on nothing but its own summands, so that two graphs can be compared bit by bit. Half precision is summed
in single precision and rounded once, in both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gerules.simulate.kernel import REFERENCE
from gerules.simulate.values import HALF_FLOATS, SMALL_FLOATS, Array

Summation = Callable[[Array, tuple[int, ...], bool], Array]
Contraction = Callable[[Array, Array], Array]


def wide(array: Array) -> Array:
    """The array in the type in which sums over it are made: single precision for shorter floats, else as it is."""
    return array.astype(np.float32) if array.dtype in HALF_FLOATS or array.dtype in SMALL_FLOATS else array


def summation(mode: str) -> Summation:
    """A function (array, axes, keepdims) -> sum in the array's own type."""
    return ordered_sum if mode == REFERENCE else _fast_sum


def contraction(mode: str) -> Contraction:
    """A function (a, b) -> a @ b for stacks of matrices, in their own type."""
    return ordered_matmul if mode == REFERENCE else fast_matmul


def all_axes(array: Array, axes: Sequence[int] | None) -> tuple[int, ...]:
    """Axes counted from the front, in order; all of them for None. Raises ValueError for an axis out of range."""
    if axes is None:
        return tuple(range(array.ndim))
    found = []
    for axis in axes:
        if not -array.ndim <= axis < array.ndim:
            raise ValueError(f"axis {axis} is out of range for rank {array.ndim}")
        found.append(axis % array.ndim)
    return tuple(sorted(set(found)))


def _fast_sum(array: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return np.asarray(np.sum(array, axis=axes, keepdims=keepdims, dtype=array.dtype))


def ordered_fold(array: Array, axes: tuple[int, ...], keepdims: bool, combine: Any, empty: Any) -> Array:
    """Folds the elements along `axes` in index order, all outputs side by side; `empty` where there are none."""
    kept = [a for a in range(array.ndim) if a not in axes]
    count = math.prod(array.shape[a] for a in axes)
    moved = np.transpose(array, (*axes, *kept)).reshape(count, *[array.shape[a] for a in kept])
    if count == 0:
        total = np.full(moved.shape[1:], empty, dtype=array.dtype)
    else:
        total = np.array(moved[0])
        for item in moved[1:]:
            total = combine(total, item)
    if keepdims:
        total = np.asarray(total).reshape([1 if a in axes else n for a, n in enumerate(array.shape)])
    return np.asarray(total, dtype=array.dtype)


def ordered_sum(array: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """The sum along axes, each output element in index order."""
    return ordered_fold(array, axes, keepdims, np.add, 0)


def fast_matmul(a: Array, b: Array) -> Array:
    """`a @ b` through BLAS for floats; integers exactly (through double precision where it holds them)."""
    if a.dtype.kind in "iu" and a.dtype.itemsize <= 2 and a.dtype == b.dtype:
        return np.asarray(np.matmul(a.astype(np.float64), b.astype(np.float64))).astype(a.dtype)
    return np.asarray(np.matmul(a, b))


def ordered_matmul(a: Array, b: Array) -> Array:
    """`a @ b` with every element summed in index order; the shapes that `np.matmul` takes."""
    if a.ndim == 1 or b.ndim == 1:
        left, right = (a[None, :] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)
        result = np.asarray(ordered_matmul(left, right))
        if b.ndim == 1:
            result = result[..., 0]
        if a.ndim == 1:
            result = result[..., 0, :] if b.ndim > 1 else result[..., 0]
        return np.asarray(result)
    depth = a.shape[-1]
    if b.shape[-2] != depth:
        raise ValueError(f"matrices of shapes {list(a.shape)} and {list(b.shape)} do not multiply")
    dtype: Any = np.result_type(a, b)
    if depth == 0:
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return np.zeros((*lead, a.shape[-2], b.shape[-1]), dtype=dtype)
    total: Any = a[..., :, 0, None] * b[..., None, 0, :]
    for k in range(1, depth):
        total = total + a[..., :, k, None] * b[..., None, k, :]
    return np.asarray(total, dtype=dtype)


def per_channel(v: Array, channels: int, rank: int) -> Array:
    """A vector with one entry a channel, laid along axis 1 of `rank` axes. Raises ValueError where it is none."""
    if v.shape != (channels,):
        raise ValueError(f"{list(v.shape)} for {channels} channels")
    return v.reshape(1, -1, *[1] * (rank - 2))
