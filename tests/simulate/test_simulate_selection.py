"""Single nodes: what verification found at the edges of kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gerules.simulate import NodeFault, SimulationFault, evaluate_node


def _run(op: str, version: int, operands: list[Any], **attributes: Any) -> Any:
    return evaluate_node("", op, version, attributes, operands, 1)[0]


def test_zeros_of_both_signs_are_two_attributes() -> None:
    """The kernel of one is not that of the other, whichever came first."""
    for value in (0.0, -0.0, 0.0):
        assert math.copysign(1.0, float(_run("Constant", 13, [], value_float=value))) == math.copysign(1.0, value)
        listed = _run("Constant", 13, [], value_floats=(1.0, value))
        assert math.copysign(1.0, float(listed[1])) == math.copysign(1.0, value)


@pytest.mark.parametrize("version", [1, 22])
@pytest.mark.parametrize("shape", [(), (2,), (0, 3)])
def test_softsign_of_every_rank(version: int, shape: tuple[int, ...]) -> None:
    x = np.full(shape, -3.0, dtype=np.float32)
    found = _run("Softsign", version, [x])
    assert found.dtype == np.float32 and np.array_equal(found, np.full(shape, -0.75, dtype=np.float32))


def test_a_scalar_is_cast_to_an_exponent() -> None:
    found = _run("Cast", 28, [np.array(3, dtype=np.uint16)], to=24)
    assert found.shape == () and float(found) == 4.0


@pytest.mark.parametrize(
    ("op", "version", "operands", "attributes"),
    [
        ("LRN", 13, [np.ones((1, 1), dtype=np.float32)], {"size": -2}),
        ("Resize", 10, [np.ones(2, dtype=np.float32), np.array([-1.0], dtype=np.float32)], {}),
        ("Resize", 13, [np.ones(2, dtype=np.float32), None, None, np.array([-1])], {}),
        ("Expand", 13, [np.ones(2, dtype=np.float32), np.array([[2]])], {}),
    ],
)
def test_what_has_no_meaning_fails(op: str, version: int, operands: list[Any], attributes: dict[str, Any]) -> None:
    with pytest.raises((NodeFault, SimulationFault)):
        _run(op, version, operands, **attributes)
