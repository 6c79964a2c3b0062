"""What static expressions mean: LANGUAGE section 3, construct by construct."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from gerules.dsl import ast
from gerules.dsl.parser import parse_text
from gerules.errors import Refused
from gerules.graph.dims import Dim, DimFacts
from gerules.static import (
    Context,
    TensorView,
    Unknown,
    compile_condition,
    compile_expr,
    compile_truth,
    free_names,
    run_steps,
    solve_steps,
    split_conditions,
)
from gerules.registry.definition import OperatorDef


def conditions(text: str) -> tuple[ast.Expr, ...]:
    file, faults = parse_text(f"fact probe: held(x) when {text}", "probe.rules", "probe")
    assert not faults, faults
    statement = file.statements[0]
    assert isinstance(statement, ast.Fact)
    return statement.when


def expression(text: str) -> ast.Expr:
    condition = conditions(f"probe == {text}")[0]
    assert isinstance(condition, ast.Compare)
    return condition.right


def test_smoke() -> None:
    context = Context(facts=DimFacts.from_flags(dims=["N=2..64"]))
    n = Dim.symbol("N")
    env = {"s": (1, n, 4), "p": (2, 0, 1)}
    assert compile_expr(expression("s[p]"), context)(env) == (4, 1, n)
    assert compile_expr(expression("[..s, 7] * 2"), context)(env) == (2, n * 2, 8, 14)
    assert compile_condition(conditions("some(s >= 5 or p == 2)")[0], context)(env)
    assert compile_condition(conditions("all(s >= 1)")[0], context)(env)
    assert not compile_condition(conditions("all(s >= 2)")[0], context)(env)
    steps = split_conditions(conditions("b >= 1, s == [..a, b, 4]"), {"s"}, context)
    assert run_steps(steps, env)
    assert env["b"] == n and env["a"] == (1,)
