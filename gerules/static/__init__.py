"""Values of static expressions: numbers, lists, sets, dimensions, element types, host functions. Pure."""

from gerules.static.context import Context
from gerules.static.evaluate import compile_condition, compile_expr, compile_truth
from gerules.static.functions import known_functions
from gerules.static.steps import (
    Ask,
    Bind,
    Step,
    Test,
    destructure,
    free_names,
    run_steps,
    solve_steps,
    split_conditions,
)
from gerules.static.values import OPAQUE, NodeView, TensorView, Unknown, Value, same_literal

__all__ = [
    "OPAQUE",
    "Ask",
    "Bind",
    "Context",
    "NodeView",
    "Step",
    "TensorView",
    "Test",
    "Unknown",
    "Value",
    "compile_condition",
    "compile_expr",
    "compile_truth",
    "destructure",
    "free_names",
    "known_functions",
    "run_steps",
    "same_literal",
    "solve_steps",
    "split_conditions",
]
