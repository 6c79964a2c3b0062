"""Canonical text of scalars and lists reads back as what it was."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gerules.registry.text import (
    escape,
    format_float,
    format_floats,
    format_ints,
    format_strs,
    parse_float,
    parse_floats,
    parse_ints,
    parse_strs,
    unescape,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.1"), (1.0, "1.0"), (-0.0, "-0.0"), (1e-5, "1e-05"), (float("inf"), "inf"), (float("-inf"), "-inf")],
)
def test_floats_have_the_shortest_text(value: float, text: str) -> None:
    assert format_float(value) == text


@given(st.floats(width=32, allow_nan=False))
def test_floats_round_trip_by_bits(value: float) -> None:
    assert struct.pack("<f", parse_float(format_float(value))) == struct.pack("<f", np.float32(value))


def test_nan_keeps_its_sign() -> None:
    assert math.copysign(1, parse_float(format_float(math.nan))) == 1
    assert math.copysign(1, parse_float(format_float(-math.nan))) == -1


@given(st.text())
def test_strings_round_trip_and_fit_a_column(value: str) -> None:
    text = escape(value)
    assert text and not set(text) & set("\t\n\r\0")
    assert unescape(text) == value


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_ints_round_trip(values: list[int]) -> None:
    assert parse_ints(format_ints(values)) == tuple(values)


@given(st.lists(st.floats(width=32, allow_nan=False)))
def test_lists_of_floats_round_trip(values: list[float]) -> None:
    assert [struct.pack("<f", v) for v in parse_floats(format_floats(values))] == [struct.pack("<f", v) for v in values]


@given(st.lists(st.text()))
def test_lists_of_strings_round_trip(values: list[str]) -> None:
    text = format_strs(values)
    assert parse_strs(text) == tuple(values)
    assert not set(text) & set("\t\n\r\0")


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (parse_ints, "1, 2"),
        (parse_ints, "[1, x]"),
        (parse_floats, "[a]"),
        (parse_strs, "[1]"),
        (parse_strs, "{"),
        (unescape, "a\\q"),
    ],
)
def test_other_text_is_refused(read: object, text: str) -> None:
    with pytest.raises(ValueError):
        read(text)  # type: ignore[operator]
