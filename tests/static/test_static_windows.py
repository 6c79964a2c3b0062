"""Functions of windows and of resizing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from static_helpers import truth, value

from gerules.static import Unknown
from gerules.static.windows import ceil_pads, chunks, starts_late, wrapped

CASES = [
    ("integral(2.0)", 2),
    ("integral(0.5)", "unknown"),
    ("integral([3.0])", 3),
    ("per_axis(absent, 2, 1)", (1, 1)),
    ("per_axis([3, 4], 2, 1)", (3, 4)),
    ("per_axis([3], 2, 1)", "unknown"),
    ("ceil_pads([1, 3, 8], [3], [2], absent, absent)", (0, 1)),
    ("ceil_pads([N, 3, 8], [3], [2], absent, absent)", (0, 1)),
    ("ceil_pads([1, 3, N], [3], [2], absent, absent)", "unknown"),
    ("ceil_pads([1, 3, 2], [3], absent, absent, absent)", "unknown"),
    ("starts_late([1, 3, 5], [1], [3], [0, 1], absent)", True),
    ("starts_late([1, 3, 8], [3], [2], absent, absent)", False),
    ("transposed_pads([1, 1, 3], [1, 2, 3], [3], absent, absent, [8])", (1,)),
    ("chunks(7, 2)", (4, 3)),
    ("chunks(6, 3)", (2, 2, 2)),
    ("chunks(4, 3)", (2, 2, 0)),
    ("chunks(5, 4)", "unknown"),
    ("wrapped(3, 1, 2)", (2, 0, 1, 2, 0, 1)),
    ("wrapped(3, -1, 0)", (1, 2)),
    ("wrapped(0, 1, 1)", "unknown"),
    ("factors_on(3, [-1], [2.0])", (1.0, 1.0, 2.0)),
    ("factors_on(3, [3], [2.0])", "unknown"),
    ('aspect_factors([1, 1, 2, 4], [2, 3], [6, 8], "not_larger")', (1.0, 1.0, 2.0, 2.0)),
    ('aspect_factors([1, 1, 2, 4], [2, 3], [6, 8], "not_smaller")', (1.0, 1.0, 3.0, 3.0)),
    ('aspect_factors([3], absent, [5], "stretch")', "unknown"),
    ("exact_factors([2, 4], [4, 6])", (2.0, 1.5)),
    ("exact_factors([3], [2])", "unknown"),
    ("whole_extents([4, N], [1.25, 2.0])", True),
    ("whole_extents([4], [0.6])", False),
    ('element_type("INT64")', "i64"),
    ('element_type("int")', "unknown"),
    ("one_shape([2, N], [2, N], [2, N])", True),
    ("one_shape([2, N], [2])", False),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[c[0] for c in CASES])
def test_values(text: str, expected: object) -> None:
    found = truth(text, absent=None) if isinstance(expected, bool) else value(text, absent=None)
    assert found == expected


def ints(made: object) -> list[int]:
    assert isinstance(made, tuple)
    return [int(v) for v in made]


@given(
    st.integers(1, 12), st.integers(1, 5), st.integers(1, 4), st.integers(0, 4), st.integers(0, 4), st.integers(1, 3)
)
def test_rounding_down_with_these_pads_is_rounding_up(n: int, k: int, s: int, b: int, a: int, d: int) -> None:
    """The number of windows of the specification's ceil_mode (MaxPool-22), by counting where they start."""
    reach = (k - 1) * d + 1
    if n + b + a < reach:
        return
    wanted = [i for i in range(0, n + b, s) if i == 0 or i <= -(-(n + b + a - reach) // s) * s]
    try:
        low, high = ints(ceil_pads((1, 1, n), (k,), (s,), (b, a), (d,)))
    except Unknown:  # a pad as large as the kernel
        return
    assert (n + low + high - reach) // s + 1 == len(wanted)
    assert starts_late((1, 1, n), (k,), (s,), (b, a), (d,)) == (-(-(n + b + a - reach) // s) * s >= n + b)


@given(st.integers(0, 40), st.integers(1, 6))
def test_chunks_are_those_of_numpy(extent: int, parts: int) -> None:
    each = -(-extent // parts)
    if extent - each * (parts - 1) < 0:
        return
    made = ints(chunks(extent, parts))
    assert sum(made) == extent and max(made) == made[0] and len(made) == parts


@given(st.integers(1, 6), st.integers(0, 9), st.integers(0, 9))
def test_around_is_numpys_wrap(extent: int, low: int, high: int) -> None:
    x = np.arange(extent)
    assert list(x[ints(wrapped(extent, low, high))]) == list(np.pad(x, (low, high), mode="wrap"))
