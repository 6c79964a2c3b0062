"""Random nodes of operators with several versions: there and back again, the numbers stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from report_judge import run

from gerules.errors import Refused
from gerules.pipeline.converting import convert_bytes

OPSETS = (7, 8, 9, 10, 11, 12, 13, 15, 17, 18, 19, 21, 23, 26)
REDUCTIONS = (
    "ReduceMean",
    "ReduceSum",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
)
ALONG = ("Softmax", "LogSoftmax", "Hardmax", "Flatten")
"""Operators with an axis and nothing else."""
OPERATORS = (*REDUCTIONS, *ALONG, "Squeeze", "Unsqueeze", "Clip", "Slice", "Split", "Pad")
MODES = ("constant", "reflect", "edge")
SHAPE = (2, 3, 4)


def node(draw: st.DrawFn, opset: int) -> tuple[onnx.NodeProto, dict[str, np.ndarray]]:
    """A node over `x` with constant operands, as its operator is at the opset."""
    axis = draw(st.integers(-3 if opset >= 11 else 0, 2))
    operator = draw(st.sampled_from(OPERATORS))
    name: dict[str, Any] = {"name": "n"}
    ints = {"c": np.array([axis])}
    if operator in REDUCTIONS:
        keep = {"keepdims": draw(st.integers(0, 1))}
        if opset >= (13 if operator == "ReduceSum" else 18):
            return helper.make_node(operator, ["x", "c"], ["y"], **name, **keep), ints
        return helper.make_node(operator, ["x"], ["y"], axes=[axis], **name, **keep), {}
    if operator in ("Squeeze", "Unsqueeze"):
        source = "one" if operator == "Squeeze" else "x"
        if opset >= 13:
            return helper.make_node(operator, [source, "c"], ["y"], **name), ints
        return helper.make_node(operator, [source], ["y"], axes=[axis], **name), {}
    if operator in ALONG:
        return helper.make_node(operator, ["x"], ["y"], axis=axis, **name), {}
    if operator == "Clip":
        low, high = np.float32(-0.5), np.float32(draw(st.floats(0, 2, width=16)))
        if opset >= 11:
            return helper.make_node(operator, ["x", "l", "h"], ["y"], **name), {"l": np.array(low), "h": np.array(high)}
        return helper.make_node(operator, ["x"], ["y"], min=float(low), max=float(high), **name), {}
    if operator == "Pad":
        pads, mode = draw(st.lists(st.integers(0, 1), min_size=6, max_size=6)), draw(st.sampled_from(MODES))
        if opset >= 11:
            return helper.make_node(operator, ["x", "p"], ["y"], mode=mode, **name), {"p": np.array(pads)}
        return helper.make_node(operator, ["x"], ["y"], pads=pads, mode=mode, **name), {}
    start, end = draw(st.integers(-2, 1)), draw(st.integers(2, 9))
    if operator == "Slice":
        if opset >= 10:
            operands = {"s": np.array([start]), "e": np.array([end]), "c": np.array([axis])}
            return helper.make_node(operator, ["x", "s", "e", "c"], ["y"], **name), operands
        return helper.make_node(operator, ["x"], ["y"], starts=[start], ends=[end], axes=[axis], **name), {}
    cut = draw(st.integers(1, SHAPE[axis] - 1))
    sizes = [cut, SHAPE[axis] - cut]
    if opset >= 13:
        return helper.make_node(operator, ["x", "p"], ["y", "z"], axis=axis, **name), {"p": np.array(sizes)}
    return helper.make_node(operator, ["x"], ["y", "z"], axis=axis, split=sizes, **name), {}


@st.composite
def models(draw: st.DrawFn) -> tuple[onnx.ModelProto, int]:
    """A model of one node, and another opset."""
    opset, other = draw(st.sampled_from(OPSETS)), draw(st.sampled_from(OPSETS))
    made, operands = node(draw, opset)
    shape = (1, 1, 1) if "one" in made.input else SHAPE
    inputs = [helper.make_tensor_value_info(made.input[0], TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in made.output]
    constants = [numpy_helper.from_array(value, name) for name, value in operands.items()]
    graph = helper.make_graph([made], "g", inputs, outputs, constants)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)]), other


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(models())
def test_there_and_back_again(drawn: tuple[onnx.ModelProto, int]) -> None:
    model, other = drawn
    opset = model.opset_import[0].version
    there = convert_bytes(model.SerializeToString(), other)
    back = convert_bytes(there, opset)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    feeds = {model.graph.input[0].name: np.random.default_rng(0).normal(size=shape).astype(np.float32)}
    want = run(model, feeds, reference=False)
    for step in (there, back):
        got = run(onnx.load_from_string(step), feeds, reference=False)
        for name, value in want.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6)


def test_what_no_older_opset_can_say_is_refused() -> None:
    made = helper.make_node("ScatterND", ["x", "i", "u"], ["y"], name="n", reduction="max")
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, (4,)),
        helper.make_tensor_value_info("i", TensorProto.INT64, (1, 1)),
        helper.make_tensor_value_info("u", TensorProto.FLOAT, (1,)),
    ]
    graph = helper.make_graph([made], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, (4,))])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 18)])
    with pytest.raises(Refused, match=r"ScatterND@18 cannot be converted to opset 13: .*max"):
        convert_bytes(model.SerializeToString(), 13)
