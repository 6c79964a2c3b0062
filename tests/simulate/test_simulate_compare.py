"""The one tolerance of validation, type by type, and what is never within it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from gerules.simulate.compare import TOLERANCES, compare
from gerules.simulate.values import UNKNOWN


@pytest.mark.parametrize(
    ("dtype", "atol", "rtol"),
    [
        (np.float64, 1e-10, 1e-9),
        (np.float32, 1e-5, 1e-4),
        (np.float16, 1e-3, 1e-2),
        (ml_dtypes.bfloat16, 1e-2, 3e-2),
    ],
)
def test_each_float_type_has_its_tolerance(dtype: Any, atol: float, rtol: float) -> None:
    for size in (0.0, 1.0, 100.0):
        original = np.array([size], dtype)
        bound = atol + rtol * size
        assert compare((original.astype(np.float64) + bound * 0.7).astype(dtype), original).equal
        assert not compare((original.astype(np.float64) + bound * 1.4).astype(dtype), original).equal


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.bool_, ml_dtypes.int4, ml_dtypes.float8_e4m3fn])
def test_others_must_be_equal(dtype: Any) -> None:
    a, b = np.array([1, 0], dtype), np.array([1, 1], dtype)
    assert compare(a, a.copy()).equal
    found = compare(b, a)
    assert not found.equal and found.index == (1,)


def test_strings_must_be_equal() -> None:
    a, b = np.array(["x", "y"], dtype=object), np.array(["x", "z"], dtype=object)
    assert compare(a, a.copy()).equal and compare(b, a).index == (1,)


def test_infinities_and_nans_must_lie_where_they_lie() -> None:
    inf, nan = np.inf, np.nan
    original = np.array([inf, -inf, nan, 1.0], np.float32)
    assert compare(original.copy(), original).equal
    for position, value in ((0, -inf), (0, 3e38), (1, nan), (2, 1.0), (3, nan), (3, inf)):
        other = original.copy()
        other[position] = value
        assert compare(other, original).index == (position,)


def test_shapes_and_types_must_be_equal() -> None:
    one = np.ones((2, 1), np.float32)
    assert "shape [1, 2] instead of [2, 1]" in compare(one.T, one).reason
    assert "f64[2,1] instead of f32[2,1]" in compare(one.astype(np.float64), one).reason
    assert "absent instead of f32[2,1]" in compare(None, one).reason
    assert compare(None, None).equal


def test_sequences_and_maps_are_compared_element_by_element() -> None:
    a = [np.ones(2, np.float32), np.zeros(2, np.float32)]
    b = [a[0], np.array([0, 1], np.float32)]
    assert compare(a, [x.copy() for x in a]).equal
    assert compare(b, a).index == (1, 1)
    assert "a sequence of 1 instead of 2" in compare(a[:1], a).reason
    assert compare([{1: 0.5}], [{1: 0.5}]).equal and not compare([{1: 0.5}], [{2: 0.5}]).equal


def test_the_first_difference_is_named_and_the_largest_error_measured() -> None:
    a = np.zeros((2, 3), np.float32)
    b = a.copy()
    b[0, 2], b[1, 1] = 0.5, 2.0
    found = compare(b, a)
    assert (found.index, found.max_abs) == ((0, 2), 2.0)
    found = compare(np.array([1.00001, 2.0], np.float32), np.array([1.0, 2.0], np.float32))
    assert (
        found.equal and found.max_abs == pytest.approx(1e-5, rel=0.1) and found.max_rel == pytest.approx(1e-5, rel=0.1)
    )


def test_what_is_unknown_is_not_compared() -> None:
    assert compare(UNKNOWN, np.ones(1)).equal and compare(np.ones(1), UNKNOWN).equal


@given(arrays(np.float32, array_shapes(max_dims=3, max_side=4), elements=st.floats(width=32)))
def test_every_array_equals_itself(x: np.ndarray) -> None:
    found = compare(x.copy(), x)
    assert found.equal and found.max_abs == 0.0


@given(arrays(np.float64, (3,), elements=st.floats(-1e6, 1e6)), arrays(np.float64, (3,), elements=st.floats(-1e6, 1e6)))
def test_the_verdict_is_the_formula(a: np.ndarray, b: np.ndarray) -> None:
    atol, rtol = TOLERANCES["f64"]
    assert compare(a, b).equal == bool((np.abs(a - b) <= atol + rtol * np.abs(b)).all())
