"""The normal forms of rules in numbers: windows, paddings with an interior, broadcasts by axes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from gerules.simulate import NodeFault, SimulationFault, evaluate_node
from gerules.simulate.kernel import BOTH


def _run(op: str, operands: list[Any], mode: Any = "fast", **attributes: Any) -> Any:
    return evaluate_node("gerules", op, 1, attributes, operands, 1, kernels=mode)[0]


ONE = np.array(9.0, dtype=np.float32)


@pytest.mark.parametrize("mode", BOTH)
def test_a_window_is_a_python_slice_of_every_axis(mode: Any) -> None:
    x = np.arange(40, dtype=np.float32).reshape(8, 5)
    found = _run("Window", [x], mode, start=(1, 0), stop=(8, 4), step=(3, 2))
    assert np.array_equal(found, x[1:8:3, 0:4:2])


def test_windows_of_every_start_stop_and_step() -> None:
    for n in range(5):
        x = np.arange(n)
        for s, e, p in product(range(n + 1), range(n + 1), (1, 2, 3)):
            found = _run("Window", [x], start=(s,), stop=(e,), step=(p,))
            assert found.shape == (max(0, -(-(e - s) // p)),)
            assert np.array_equal(found, x[s:e:p])


def test_a_window_of_a_scalar() -> None:
    assert _run("Window", [np.array(3)], start=(), stop=(), step=()) == 3


@pytest.mark.parametrize(
    ("start", "stop", "step"), [((-1,), (2,), (1,)), ((0,), (4,), (1,)), ((4,), (3,), (1,)), ((0,), (3,), (0,)),
                                ((0,), (-1,), (1,)), ((0,), (3,), (-1,)), ((0, 0), (3, 1), (1, 1))],
)  # fmt: skip
def test_a_window_that_leaves_the_axis_fails(start: Any, stop: Any, step: Any) -> None:
    with pytest.raises(NodeFault):
        _run("Window", [np.arange(3)], start=start, stop=stop, step=step)


def _spelled_out(x: list[float], low: int, high: int, interior: int, value: float) -> list[float]:
    spread: list[float] = []
    for place, element in enumerate(x):
        spread += [value] * interior * (place > 0) + [element]
    full = [value] * max(low, 0) + spread + [value] * max(high, 0)
    return full[max(-low, 0) : len(full) - max(-high, 0)]


@pytest.mark.parametrize("mode", BOTH)
def test_paddings_of_every_amount(mode: Any) -> None:
    for n, low, high, interior in product(range(4), range(-3, 4), range(-3, 4), range(3)):
        x = np.arange(1, n + 1, dtype=np.float32)
        extent = low + n + max(n - 1, 0) * interior + high
        if extent < 0:
            with pytest.raises(NodeFault):
                _run("Padding", [x, ONE], mode, low=(low,), high=(high,), interior=(interior,))
            continue
        found = _run("Padding", [x, ONE], mode, low=(low,), high=(high,), interior=(interior,))
        assert found.tolist() == _spelled_out(x.tolist(), low, high, interior, 9.0)


def test_axes_are_padded_on_their_own() -> None:
    x = np.ones((1, 2), dtype=np.int8)
    found = _run("Padding", [x, np.array(0, dtype=np.int8)], low=(1, 0), high=(0, -1), interior=(5, 1))
    assert found.dtype == np.int8
    assert found.tolist() == [[0, 0], [1, 0]]


def test_an_interior_below_zero_fails() -> None:
    with pytest.raises(NodeFault):
        _run("Padding", [np.arange(3.0), np.array(0.0)], low=(0,), high=(0,), interior=(-1,))


def test_text_is_padded_with_text() -> None:
    x = np.array(["a"], dtype=object)
    found = _run("Padding", [x, np.array("z", dtype=object)], low=(1,), high=(1,), interior=(0,))
    assert found.tolist() == ["z", "a", "z"]


def test_a_broadcast_stretches_its_axes_alone() -> None:
    x = np.arange(3.0).reshape(1, 3)
    assert np.array_equal(_run("Broadcast", [x], axes=(0,), extents=(2, 3)), np.broadcast_to(x, (2, 3)))
    for axes, extents in [((1,), (1, 3)), ((0,), (2, 4)), ((), (2, 3)), ((2,), (1, 3)), ((0,), (2,))]:
        with pytest.raises(NodeFault):
            _run("Broadcast", [x], axes=axes, extents=extents)


def test_nodes_at_borders_stay_opaque() -> None:
    with pytest.raises(SimulationFault):
        _run("PlaceHolder", [], peerIndex=0)


def test_a_reflection_longer_than_its_axis_fails() -> None:
    """As onnxruntime has it: the specification does not say what lies behind the second edge."""
    x = np.arange(3.0)
    found = evaluate_node("", "Pad", 21, {"mode": "reflect"}, [x, np.array([2, 2])], 1)[0]
    assert found.tolist() == [2, 1, 0, 1, 2, 1, 0]
    for amounts in ([3, 0], [0, 3]):
        with pytest.raises(NodeFault):
            evaluate_node("", "Pad", 21, {"mode": "reflect"}, [x, np.array(amounts)], 1)
