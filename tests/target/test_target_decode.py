"""Attribute texts as values of rules, by declared kind."""

from __future__ import annotations

import numpy as np
import pytest

from gerules.graph.dims import Dim
from gerules.target.decode import decode_attribute


@pytest.mark.parametrize(
    ("kind", "text", "is_dtype", "expected"),
    [
        ("int", "", False, None),
        ("int", "-3", False, -3),
        ("int", "1", True, "f32"),
        ("int", "f32", True, "f32"),
        ("int", "0", True, 0),
        ("dtype", "bf16", False, "bf16"),
        ("bool", "1", False, True),
        ("float", "0.1", False, float(np.float32(0.1))),
        ("str", "a\\tb", False, "a\tb"),
        ("str", "\\e", False, ""),
        ("ints", "[1, 2, 0]", False, (1, 2, 0)),
        ("ints", "[]", False, ()),
        ("floats", "[0.5, 1.0]", False, (0.5, 1.0)),
        ("strs", '["a", "b"]', False, ("a", "b")),
        ("dim", "2*N", False, Dim.parse("2*N")),
        ("dim", "4", False, 4),
        ("mask", "5", False, frozenset({0, 2})),
        ("shape", "[N, 4, ?]", False, (Dim.symbol("N"), 4, None)),
        ("shape", "[]", False, ()),
        ("graph", "<body>", False, "<body>"),
    ],
)
def test_decode(kind: str, text: str, is_dtype: bool, expected: object) -> None:
    found = decode_attribute(kind, text, is_dtype)
    assert found == expected
    assert type(found) is type(expected)


def test_a_tensor_is_its_array() -> None:
    found = decode_attribute("tensor", "f32[2]|0000803f00000040", False)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [1.0, 2.0]
