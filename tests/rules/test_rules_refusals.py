"""What is said of nodes that no rule between versions reaches: which node, which operand, which version."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from gerules.errors import GerulesError
from gerules.pipeline import convert_model

CASES = [
    (
        13,
        12,
        "float[2,3] x, int64[1] a",
        "float[2,1] y",
        "y = ReduceSum(x, a)",
        "axes is computed at run time; opset 12 needs it constant",
    ),
    (
        18,
        13,
        "float[2,3] x, int64[1] a",
        "float[2,1] y",
        "y = ReduceMax(x, a)",
        "axes is computed at run time; opset 13 needs it constant",
    ),
    (13, 11, "float[2,3] x, int64[1] a", "float[1,2,3] y", "y = Unsqueeze(x, a)", "axes is computed at run time"),
    (
        13,
        9,
        "float[8] x, int64[1] s, int64[1] e",
        "float[4] y",
        "y = Slice(x, s, e)",
        "starts, ends are computed at run time",
    ),
    (13, 10, "float[8] x, int64[2] p", "float[9] y", "y = Pad(x, p)", "pads is computed at run time"),
    (13, 12, "float[6] x, int64[2] s", "float[3] y, float[3] z", "y, z = Split(x, s)", "split is computed at run time"),
    (11, 9, "float[8] x, int64[1] k", "float[3] y, int64[3] i", "y, i = TopK(x, k)", "opset 9 needs it constant"),
    (
        19,
        18,
        "float[1,1,8] x",
        "float[1,1,6] y",
        "y = AveragePool<kernel_shape=[2], dilations=[2]>(x)",
        "dilated by [2]",
    ),
    (28, 13, "float[8] x, float[8] z", "float[8] y", "y = Mod(x, z)", "opset 28"),
]


@pytest.mark.parametrize(("source", "target", "inputs", "outputs", "body", "said"), CASES, ids=[c[4] for c in CASES])
def test_reasons(tmp_path: Path, source: int, target: int, inputs: str, outputs: str, body: str, said: str) -> None:
    text = f'<ir_version: 7, opset_import: ["" : {source}]> g ({inputs}) => ({outputs}) {{ {body} }}'
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    with pytest.raises(GerulesError) as refused:
        convert_model(path, tmp_path / "out.onnx", target)
    messages = [d.message for d in refused.value.diagnostics]
    assert len(messages) == 1 and said in messages[0], messages
    assert not (tmp_path / "out.onnx").exists()
