"""Bodies of function operators: written out where a rule says so of the node, and by no other."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from gerules.errors import GerulesError
from gerules.pipeline import Options, convert_model

RULE = """opset ai.onnx 21
rewrite by_body[f in AffineGrid@20] defines:
    f({operands}) => body(f, {given})
    when {condition}
"""
OWN = ("compat/onnx_functions.affine_grid",)


def grid(folder: Path, batch: int | str) -> Path:
    """A model of one AffineGrid."""
    graph = helper.make_graph(
        [helper.make_node("AffineGrid", ["theta", "size"], ["grid"], name="even")],
        "main",
        [
            helper.make_tensor_value_info("theta", TensorProto.FLOAT, [batch, 2, 3]),
            helper.make_tensor_value_info("size", TensorProto.INT64, [4]),
        ],
        [helper.make_tensor_value_info("grid", TensorProto.FLOAT, [batch, None, None, 2])],
    )
    path = folder / "grid.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


def options(
    folder: Path, condition: str, operands: str = "t, ..r", given: str | None = None, off: bool = True
) -> Options:
    rules = folder / "own.rules"
    rules.write_text(RULE.format(operands=operands, given=given or operands, condition=condition))
    return Options(rules=(rules,), enable=("user/own.by_body",), disable=OWN if off else (), validate=False)


def converted(folder: Path, batch: int | str, chosen: Options) -> list[str]:
    convert_model(grid(folder, batch), folder / "out.onnx", 19, chosen)
    return [n.op_type for n in onnx.load(folder / "out.onnx").graph.node]


def test_a_body_is_written_out_where_its_conditions_hold_of_the_node(tmp_path: Path) -> None:
    found = converted(tmp_path, 2, options(tmp_path, "t.shape == [n, 2, 3], n >= 2"))
    assert "AffineGrid" not in found and "If" in found


@pytest.mark.parametrize("batch", [1, "N"])
def test_it_is_not_where_they_do_not_hold_or_are_not_known_to(tmp_path: Path, batch: int | str) -> None:
    with pytest.raises(GerulesError) as caught:
        converted(tmp_path, batch, options(tmp_path, "t.shape == [n, 2, 3], n >= 2"))
    assert [d.code for d in caught.value.diagnostics] == ["GR810"]


def test_a_body_is_given_what_its_operator_is_given(tmp_path: Path) -> None:
    with pytest.raises(GerulesError, match="a body takes what its operator takes") as caught:
        converted(tmp_path, 2, options(tmp_path, "t.rank == 3", "t, s", "s, t"))
    assert caught.value.diagnostics[0].code == "GR501"


@pytest.mark.parametrize("batch", [1, 2, "N"])
def test_a_grid_needs_no_body(tmp_path: Path, batch: int | str) -> None:
    found = converted(tmp_path, batch, Options())
    assert "AffineGrid" not in found and "If" not in found


def test_a_body_is_for_operands_that_have_elements(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)],
        "main",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4, 0]),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, [4]),
            helper.make_tensor_value_info("b", TensorProto.FLOAT, [4]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4, 0])],
    )
    path = tmp_path / "none.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    with pytest.raises(GerulesError) as caught:
        convert_model(path, tmp_path / "out.onnx", 17, Options())
    assert [d.code for d in caught.value.diagnostics] == ["GR810"]
