"""What the files decide where one wrong word would change numbers in silence: versions, neutral elements, targets of
Reshape, the length of a sliced table."""

from __future__ import annotations

from functools import cache

import pytest

from gerules.dsl.program import load_program, shipped_sources
from gerules.egraph.program import Knowledge, knowledge
from gerules.graph.dims import Dim, DimFacts, broadcast
from gerules.registry import onnx_registry
from gerules.static.functions import shipped_functions
from gerules.static.values import Unknown


@cache
def known() -> Knowledge:
    return knowledge(load_program(shipped_sources(), onnx_registry()))


def semantic(name: str, since: int) -> str:
    return known().semantic(onnx_registry().definition("", name, since))


@pytest.mark.parametrize(
    ("name", "older", "newer"),
    [
        ("Add", 7, 14), ("Relu", 6, 14), ("Clip", 11, 13), ("Identity", 1, 25), ("MatMul", 1, 13), ("Cast", 6, 13),
        ("Cast", 19, 23), ("Reshape", 5, 13), ("Transpose", 1, 25), ("MaxPool", 10, 12), ("Pad", 11, 13),
        ("Mod", 10, 13), ("Gather", 1, 13), ("Expand", 8, 13), ("Resize", 19, 19), ("Sum", 8, 13),
        ("Conv", 1, 11), ("AveragePool", 10, 11),
    ],
)  # fmt: skip
def test_one_meaning(name: str, older: int, newer: int) -> None:
    assert semantic(name, older) == semantic(name, newer)


@pytest.mark.parametrize(
    ("name", "older", "newer"),
    [
        ("Softmax", 11, 13), ("Softmax", 1, 11), ("Flatten", 9, 11), ("Concat", 4, 11),
        ("Sum", 6, 8), ("Mod", 13, 28),
        ("Max", 6, 8), ("PRelu", 6, 7), ("AveragePool", 19, 22), ("MaxPool", 12, 22),
        ("ConvTranspose", 1, 11), ("BatchNormalization", 14, 15), ("Pad", 18, 19), ("Resize", 18, 19),
        ("ScatterND", 16, 18), ("ScatterElements", 16, 18), ("Dropout", 7, 10), ("OneHot", 9, 11),
        ("ReduceMean", 1, 11),
        ("Slice", 10, 11), ("Split", 2, 11), ("Unsqueeze", 1, 11), ("TopK", 10, 11), ("GroupNormalization", 18, 21),
        ("RoiAlign", 10, 16), ("Compress", 9, 11), ("ArgMax", 1, 11),
        ("AveragePool", 11, 19), ("LpPool", 11, 18), ("Split", 13, 18),
        ("Cast", 23, 24), ("LogSoftmax", 11, 13), ("Hardmax", 11, 13),
    ],
)  # fmt: skip
def test_another_meaning(name: str, older: int, newer: int) -> None:
    assert semantic(name, older) != semantic(name, newer)


def test_each_change_that_is_named_is_a_registered_version() -> None:
    registry = onnx_registry()
    for row in known().ground.rows("changes"):
        (definition,) = row
        assert definition.since in registry.versions(definition.domain, definition.name)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("relation", "rows"),
    [
        ("neutral_right", {("Sub", 0), ("Mul", 1), ("Div", 1), ("BitShift", 0)}),
        ("neutral_left", {("Mul", 1)}),
        ("neutral_float", {("Add", "-0.0")}),
        ("neutral_int", {("Add", 0), ("BitwiseOr", 0), ("BitwiseXor", 0)}),
        ("absorbing", {("Mul", 0)}),
    ],
)
def test_neutral_elements(relation: str, rows: set[tuple[str, object]]) -> None:
    found = set()
    for operator, value in known().ground.rows(relation):
        found.add((operator.name, "-0.0" if str(value) == "-0.0" else value))  # type: ignore[attr-defined]
    assert found == rows


N, T = Dim.symbol("N"), Dim.symbol("T")


@pytest.mark.parametrize(
    ("extents", "target", "literal"),
    [
        ((N, 6), (N, 2, 3), True),
        ((N * T,), (N, 1), True),  # a 0 in place of N copies N * T, which then is 0
        ((N, T, 8), (N * T, 8), None),  # a 0 in place of N * T copies N
        ((N, 4), (4, N), None),
        ((0, 6, 2), (0, 0, 3), False),
        ((0, 6), (0, 3, 2), True),
    ],
)
def test_targets_that_mean_themselves(
    extents: tuple[object, ...], target: tuple[object, ...], literal: bool | None
) -> None:
    ask = shipped_functions()["literal_target"].bind(DimFacts())
    try:
        found = ask(target, extents)
    except Unknown:
        found = None
    assert found is literal


def test_a_symbol_past_the_last_axis_is_no_copy() -> None:
    """Reshape refuses a 0 there, so the entry is what it says."""
    resolve = shipped_functions()["resolve"].bind(DimFacts())
    assert resolve((N * T,), (N, 1, 1, T), 0) == (N, 1, 1, T)
    with pytest.raises(Unknown):
        resolve((N, T, 8), (N * T, 8), 0)


def test_a_table_cut_to_a_length_has_that_length_where_it_is_added() -> None:
    cut = Dim.parse("min(128,N)")
    assert broadcast(cut, N) == N
    assert broadcast(N, cut) == N
    assert broadcast(Dim.parse("min(1,N)"), N) != N
    assert broadcast(cut, T) not in (cut, T)
