"""Host functions: values, and agreement with what rule files declare."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from static_helpers import dims, tensor, truth, value

from gerules.dsl import ast
from gerules.dsl.parser import parse_file
from gerules.graph.dims import Dim
from gerules.graph.dtypes import numpy_dtype
from gerules.paths import rules_root
from gerules.static import known_functions
from gerules.static.elements import ELEMENTS, limits, lossless

GIVEN_ELSEWHERE = {"body", "evaluate"}  # they need an e-graph and a simulator

ENV = {
    "x": tensor("f32[1,N,4]"),
    "s": dims("B", 2, "N"),
    "holes": (1, None, 4),
    "none_known": tensor("f32[*]"),
    "pads": (0, 1, 0, 0, 2, 0),
    "fs": (2.0, 0.5, 1.0),
}

CASES = [
    ("lowest(f16)", -65504.0),
    ("highest(i8)", 127),
    ("highest(str)", "unknown"),
    # entries
    ("put([1, 2, 3], [0, -1], [7, 8])", (7, 2, 8)),
    ("put(s, [1], [N])", dims("B", "N", "N")),
    ("put([1, 2], [2], [0])", "unknown"),
    ("put([1, 2], [0, -2], [5, 6])", "unknown"),
    ("put([1, 2], [0, 1], [5])", "unknown"),
    ("replace([1, 2, 3], -1, N)", dims(1, 2, "N")),
    ("replace_dim(s, 0, 5)", dims(5, 2, "N")),
    ("fill(0, x.rank)", (0, 0, 0)),
    ("fill(0, none_known.rank)", "unknown"),
    ("fill(0, -1)", "unknown"),
    ("fill_dim(N, 2)", dims("N", "N")),
    ("tail(3, 2)", (3, 4)),
    ("cut(s, 1, 9, 1)", dims(2, "N")),
    ("cut(s, -1, -9, -1)", dims("N", 2, "B")),
    ("cut(s, 0, 1, 0)", "unknown"),
    ("joined(s, [], [1])", dims("B", 2, "N", 1)),
    ("joined()", ()),
    # pads
    ("low(pads)", (0, 1, 0)),
    ("high(pads)", (0, 2, 0)),
    ("low([1])", "unknown"),
    ("full_pads(3, [1, 2], [-1])", (0, 0, 1, 0, 0, 2)),
    ("full_pads(3, [1, 2, 3, 4], [2, 0])", (2, 0, 1, 4, 0, 3)),
    ("full_pads(3, [1, 2], [3])", "unknown"),
    ("only_axis(pads)", 1),
    ("only_axis([1, 1, 0, 0])", "unknown"),
    ("only_axis([0, 0])", "unknown"),
    ("first_of_several([0, 0, 1, 0, 3, 0])", 1),
    ("first_of_several(pads)", "unknown"),
    ("pads_on([1, 2, 3, 4], 1)", (0, 2, 0, 4)),
    ("pads_off([1, 2, 3, 4], 1)", (1, 0, 3, 0)),
    # axes and orders
    ("taken(7, -1, 0, -2)", (6, 4, 2)),
    ("taken(7, -99, 99, 3)", (0, 3, 6)),
    ("taken(3, 2, -9, -1)", (2, 1, 0)),
    ("taken(3, 2, 1, 1)", ()),
    ("taken(3, 0, 3, 0)", "unknown"),
    ("distinct([1, 2, 3])", True),
    ("distinct([1, 2, 1])", False),
    ("distinct([])", True),
    ("minus([0, 1, 2, 3], [1, 3])", (0, 2)),
    ("renumber([0, 2, 4], [1, 3])", (0, 1, 2)),
    ("renumber([0, 1], [1])", "unknown"),
    ("spread([1], [0])", (2,)),
    ("spread([0, 1], [0, 2])", (1, 3)),
    ("spread([-1], [0])", "unknown"),
    ("swapped(4, 1, 3)", (0, 3, 2, 1)),
    ("swapped(3, -1, 0)", (2, 1, 0)),
    ("axes({2, 0})", (0, 2)),
    ("ones([1, N, A, 1])", frozenset({0, 3})),
    ("stretched([1, N, 1], [4, N, 1])", frozenset({0})),
    ("stretched([1, M], [K, M])", frozenset({0})),
    ("stretched([1, M], [K, N])", "unknown"),
    ("stretched([1], [K, N])", "unknown"),
    ("stretched(holes, [2, 3, 4])", "unknown"),
    ("keep([7, 8, 9], {0, 2}, x)", dims(7, "N", 9)),
    ("keep([7, 8], {0}, x)", "unknown"),
    # extents
    ("least(3, 5)", 3),
    ("least(N, 64)", Dim.symbol("N")),
    ("least(1, N)", 1),
    ("least(N, M)", Dim.symbol("N").minimum(Dim.symbol("M"))),
    ("most([1, 2, N], 2)", dims(2, 2, "N")),
    ("most(-1, 0)", 0),
    ("place(-1, 5)", 4),
    ("place(9, 5)", 5),
    ("place(-9, 5)", 0),
    ("place(1, N)", 1),
    ("place(-1, N)", Dim.parse("N-1")),
    ("place(9223372036854775807, M)", Dim.symbol("M")),
    ("place(-9223372036854775807, M)", 0),
    ("place([0, -1], [N, 8])", (0, 7)),
    ("place(N, N)", Dim.symbol("N")),
    ("place(M - 1, N)", "unknown"),
    # reshape
    ("resolve([2, 3, 4], [0, -1], 0)", (2, 12)),
    ("resolve([N, 12], [0, 3, 4], 0)", dims("N", 3, 4)),
    ("resolve([N, M, 64], [N, M, 8, -1], 0)", dims("N", "M", 8, 8)),
    ("resolve([N, M, 64], [N, -1], 0)", dims("N", "64*M")),
    ("resolve([M, 64], [M, -1], 0)", dims("M", 64)),
    ("resolve([K, 64], [M, -1], 0)", "unknown"),
    ("resolve([K, 64], [M, -1], 1)", dims("M", "floor(64*K,M)")),
    ("resolve([0, 3], [0, 3], 1)", (0, 3)),
    ("resolve([2, 3], [-1, -1], 0)", "unknown"),
    ("resolve([2], [2, 0], 0)", "unknown"),
    ("resolve([2, 3], holes, 0)", "unknown"),
    ("resolve(holes, [-1], 0)", (None,)),
    ("resolve(holes, [0, 0, -1], 0)", (1, None, 4)),
    ("resolve([0, 4], [0, -1], 0)", (0, 4)),
    # reductions
    ("reduced([2, N, 4], [1], 1)", (2, 1, 4)),
    ("reduced([2, N, 4], [-2], 0)", (2, 4)),
    ("reduced([2, N], [], 1)", (1, 1)),
    ("reduced([2, N], [2], 1)", "unknown"),
    # chosen, scaled, einsum
    ("chosen([1, N, N], [1], [7, 8, 9], [4, 5, 6])", (7, 5, 6)),
    ("chosen([M], [1], [7], [8])", (None,)),
    ("chosen([1, 2], [1, 2, 3], [1], [2])", "unknown"),
    ("scaled([3, 5, N], fs)", dims(6, 2, "N")),
    ("scaled([10], [0.7])", (7,)),
    ("scaled([N, M], [2.0, 0.5])", dims("2*N", None)),
    ("scaled([1], fs)", "unknown"),
    ('einsum_flops("bij,bjk->bik", [2, 3, 4], [2, 4, 5])', 240),
    ('einsum_flops("...ij,jk", [7, 2, 3, 4], [4, 5])', 2 * 7 * 2 * 3 * 4 * 5),
    ('einsum_flops("ij,jk", [N, 4], [4, 5])', Dim.symbol("N") * 40),
    ('einsum_flops("ij", [1, 2, 3])', "unknown"),
    # nothing grows without a bound
    ("range(10000000)", "unknown"),
    ("tail(0, 10000000)", "unknown"),
    ("swapped(10000000, 0, 1)", "unknown"),
    ("full_pads(10000000, [1, 1], [0])", "unknown"),
    ("fill(0, 10000000)", "unknown"),
    ("fill_dim(N, 10000000)", "unknown"),
    ("scaled([9223372036854775807], [3.4e38])", (None,)),
    ("range(3, 1)", ()),
    ("range(1, 2, 3)", "unknown"),
    # coercion
    ("fill(1, 1.5)", "unknown"),
    ("low(3)", "unknown"),
    ("put([1], [0])", "unknown"),
    ("axes([1])", "unknown"),
    ("keep([1], {0}, 3)", "unknown"),
    ("lowest(3)", "unknown"),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[t for t, _ in CASES])
def test_value(text: str, expected: object) -> None:
    assert value(text, **ENV) == expected


TRUTHS = [
    ("only_ones_move([4, 1, 5], [1, 0, 2])", True),
    ("only_ones_move([4, 2, 5], [1, 0, 2])", False),
    ("only_ones_move([N, 1, M], [0, 2, 1])", True),
    ("only_ones_move([N, M], [1, 0])", None),
    ("only_ones_move([N, 2], [1, 0])", False),
    ("only_ones_move([4, 1], [0, 0])", None),
    ("same_but(1, [2, 3], [2, 4])", True),
    ("same_but(-1, [M, 3], [M, 4])", True),
    ("same_but(0, [2, 3], [2, 4])", False),
    ("same_but(1, [M, 3], [K, 4])", None),
    ("same_but(0, [2, 3], [2])", False),
    ("same_but(0)", True),
    ("literal_target([2, 3], [6])", True),
    ("literal_target([N, 3], [6])", True),
    ("literal_target([M, 3], [M, 6])", True),
    ("literal_target([M, 3], [K, 6])", None),
    ("literal_target([0, 3], [4, 6])", False),
    ("literal_target([0, 3], [0, 6])", True),
    ("literal_target([-1], [4])", False),
]


@pytest.mark.parametrize(("text", "expected"), TRUTHS, ids=[t for t, _ in TRUTHS])
def test_truth(text: str, expected: bool | None) -> None:
    assert truth(text, **ENV) is expected


def test_rule_files_declare_the_functions_that_there_are() -> None:
    declared: dict[str, str] = {}
    for path in sorted(rules_root().rglob("*.rules")):
        file, faults = parse_file(path)
        assert not faults
        for statement in file.statements:
            if isinstance(statement, ast.FunctionDecl):
                params = ", ".join(f"{p.name}: {p.type.name}{p.type.suffix}" for p in statement.params)
                declared[statement.name] = f"{statement.name}({params}) -> {statement.result.name}"
    for name in GIVEN_ELSEWHERE:
        del declared[name]
    assert declared == known_functions()


# ------------------------------------------------------------------------------------------------ element types

NARROW = [name for name, kind in ELEMENTS.items() if kind is not None and numpy_dtype(name).itemsize <= 2]


def every_value(name: str) -> np.ndarray:
    """All values of a type of at most two bytes."""
    dtype = numpy_dtype(name)
    if name == "bool":
        return np.array([False, True])
    bits = {"i4": 4, "u4": 4, "i2": 2, "u2": 2, "f4e2m1": 4, "f6e2m3": 6, "f6e3m2": 6}.get(name, dtype.itemsize * 8)
    return np.arange(2**bits, dtype=np.uint8 if dtype.itemsize == 1 else np.uint16).view(dtype)


def numbers(values: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return values.astype(np.float64)


@pytest.mark.parametrize(("source", "target"), [p for p in itertools.product(NARROW, NARROW) if p[1] != "bool"])
def test_lossless_says_what_casting_every_value_shows(source: str, target: str) -> None:
    exact = numbers(every_value(source))
    members = {float(v) for v in numbers(every_value(target)) if not np.isnan(v)}
    signed_zero = any(np.signbit(v) for v in numbers(every_value(target)) if v == 0)
    nan = bool(np.isnan(numbers(every_value(target))).any())
    contained = all(
        nan if np.isnan(v) else float(v) in members and (signed_zero or not (v == 0 and np.signbit(v))) for v in exact
    )
    assert lossless(source, target) == contained


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("i32", "f64", True),
        ("i32", "f32", False),
        ("i64", "f64", False),
        ("u16", "f32", True),
        ("f32", "f64", True),
        ("f64", "f32", False),
        ("bool", "f32", True),
        ("f32", "bool", False),
        ("f32", "c64", True),
        ("c64", "c128", True),
        ("c64", "f32", False),
        ("str", "str", True),
        ("str", "i32", False),
        ("f32", "i64", False),
    ],
)
def test_lossless_of_wide_types(source: str, target: str, expected: bool) -> None:
    assert lossless(source, target) is expected


@pytest.mark.parametrize("name", [n for n, k in ELEMENTS.items() if k is not None and n != "bool"])
def test_limits_are_those_of_numpy(name: str) -> None:
    dtype = numpy_dtype(name)
    info = ml_dtypes.finfo(dtype) if name[0] in "bf" else ml_dtypes.iinfo(dtype)
    least = float(info.min) if name[0] in "bf" else int(info.min)
    assert limits(name) == (
        2.0**-127 if name == "f8e8m0" else least,
        float(info.max) if name[0] in "bf" else int(info.max),
    )


# -------------------------------------------------------------------------------------- laws, against plain NumPy


@given(st.data())
def test_mirrored_window_is_the_window_of_the_reversed(data: st.DataObject) -> None:
    extent = data.draw(st.integers(1, 9))
    start = data.draw(st.integers(0, extent - 1))
    stop = data.draw(st.integers(start + 1, extent))
    step = data.draw(st.integers(1, 4))
    x = np.arange(extent)
    env = {"n": (extent,), "s": (start,), "e": (stop,), "p": (step,)}
    first, last = value("mirrored_start(n, [0], s, e, p)", **env), value("mirrored_end(n, [0], s, e, p)", **env)
    assert isinstance(first, tuple) and isinstance(last, tuple)
    assert np.array_equal(x[::-1][start:stop:step], x[slice(first[0], last[0], step)][::-1])


@given(st.lists(st.integers(0, 4), max_size=4), st.data())
def test_resolve_is_numpys_reshape(shape: list[int], data: st.DataObject) -> None:
    count = int(np.prod(shape))
    target = data.draw(st.permutations([1, *shape]))
    if count:
        target[data.draw(st.integers(0, len(target) - 1))] = -1
    found = value("resolve(x, t, 1)", x=tuple(shape), t=tuple(target))
    assert found == np.zeros(shape).reshape(target).shape


@given(st.integers(-12, 12), st.integers(0, 9))
def test_place_is_pythons_slice(index: int, extent: int) -> None:
    assert value("place(i, n)", i=index, n=extent) == slice(index, None).indices(extent)[0]


@given(st.permutations(range(5)), st.sets(st.integers(0, 4), max_size=4))
def test_renumber_and_spread_are_inverse(order: list[int], gone: set[int]) -> None:
    kept = tuple(a for a in order if a not in gone)
    env = {"k": kept, "d": tuple(sorted(gone))}
    assert value("spread(renumber(k, d), d)", **env) == kept
