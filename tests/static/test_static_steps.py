"""Conditions in the order in which they can be answered, and what they bind."""

from __future__ import annotations

import pytest
from static_helpers import ADD, CONTEXT, conditions, dims, expression, tensor

from gerules.errors import Refused
from gerules.graph.dims import Dim
from gerules.static import free_names, run_steps, solve_steps, split_conditions

CASES = [
    # what is bound at first, conditions, what is bound after (None: they do not hold)
    ({"x": tensor("f32[1,N]")}, "n == x.rank", {"n": 2}),
    ({"x": tensor("f32[1,N]")}, "x.rank == n, n >= 2", {"n": 2}),
    ({"x": tensor("f32[1,N]")}, "n >= 2, n == x.rank", {"n": 2}),
    ({"x": tensor("f32[1,N]")}, "n == x.rank, n >= 3", None),
    ({"a": tensor("f32[8,M,K]")}, "a.shape == [..p, m, k]", {"p": (8,), "m": Dim.symbol("M"), "k": Dim.symbol("K")}),
    ({"a": tensor("f32[M,K]")}, "a.shape == [..p, m, k]", {"p": ()}),
    ({"a": tensor("f32[K]")}, "a.shape == [..p, m, k]", None),
    ({"a": tensor("f32[2,3,5,7]")}, "a.shape == [n, c, ..sp]", {"n": 2, "c": 3, "sp": (5, 7)}),
    ({"a": tensor("f32[2,3,5,7]")}, "a.shape == [n, ..r, w], r == [c, h]", {"r": (3, 5), "c": 3, "h": 5}),
    ({"a": tensor("f32[M,1]")}, "a.shape == [m, 1]", {"m": Dim.symbol("M")}),
    ({"a": tensor("f32[M,2]")}, "a.shape == [m, 1]", None),
    ({"a": tensor("f32[M,L]")}, "a.shape == [m, 1]", None),
    ({"a": tensor("f32[M,?]")}, "a.shape == [m, k]", None),
    ({"a": tensor("f32[M,?]")}, "a.shape == [m, _]", {"m": Dim.symbol("M")}),
    ({"a": tensor("f32[M,?]")}, "a.shape == [m, ..r]", {"r": (None,)}),
    ({"a": tensor("f32[*]")}, "a.shape == [..r]", None),
    ({"a": tensor("f32[4,4]")}, "a.shape == [m, m]", {"m": 4}),
    ({"a": tensor("f32[4,5]")}, "a.shape == [m, m]", None),
    ({"a": tensor("f32[4,5]"), "m": 4}, "a.shape == [m, k]", {"k": 5}),
    ({"a": tensor("f32[4,5]")}, "a.shape == [.., k]", {"k": 5}),
    ({"k": 3}, "[..p, q] == range(k)", {"p": (0, 1), "q": 2}),
    ({"e": "AiCore"}, "part(e, c)", {"c": "AiCube"}),
    ({"e": "AiCore", "d": "AiVector"}, "part(e, c), part(d, c)", {"c": "AiCube"}),
    ({"e": "AiCpu"}, "part(e, c)", None),
    ({"e": "AiVector"}, 'part(e, c), c == "Other"', None),
    ({"e": "AiCore"}, 'part(e, c), c == "Other"', {"c": "Other"}),
    ({"f": ADD}, "neutral(f, v)", {"v": -0.0}),
    ({"e": "AiVector"}, "part(e, _)", {}),
]


@pytest.mark.parametrize(("bound", "text", "expected"), CASES, ids=[f"{i}-{c[1]}" for i, c in enumerate(CASES)])
def test_steps(bound: dict[str, object], text: str, expected: dict[str, object] | None) -> None:
    steps = split_conditions(conditions(text), bound, CONTEXT)
    env = dict(bound)
    assert run_steps(steps, env) is (expected is not None)
    if expected is None:
        assert env == bound
    else:
        assert {name: env[name] for name in expected} == expected


def test_every_row_that_fits_is_a_solution() -> None:
    steps = split_conditions(conditions("part(e, c)"), ("e",), CONTEXT)
    assert [s["c"] for s in solve_steps(steps, {"e": "AiCore"})] == ["AiCube", "Other"]


def test_all_conditions_without_a_binding_are_reported() -> None:
    with pytest.raises(Refused) as caught:
        split_conditions(conditions("n >= 2, x.rank == 1, m + 1 == x.rank"), ("x",), CONTEXT)
    assert [d.code for d in caught.value.diagnostics] == ["GR642", "GR642"]
    assert "`n`" in caught.value.diagnostics[0].message
    assert "`m`" in caught.value.diagnostics[1].message


def test_free_names_leave_out_functions_types_and_anything() -> None:
    assert free_names(expression("product(s[k]) + [..r, _, m] + x.rank")) == ("s", "k", "r", "m", "x")
    assert free_names(expression("x.dtype == f32 or t in {f16, u}")) == ("x", "t", "u")


def test_destructuring_answers_like_construction() -> None:
    shape = dims(2, "N", 5)
    steps = split_conditions(conditions("s == [..p, d], t == [..p, d]"), ("s",), CONTEXT)
    env: dict[str, object] = {"s": shape}
    assert run_steps(steps, env)
    assert env["t"] == shape
