"""Models that claim an opset and use what another one brought: refused with the node, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
import pytest

from gerules.errors import Refused
from gerules.pipeline import convert_model

MODELS = {
    # what is wrong with the model: (its text, code, node, words of the message)
    "operand of a newer form": (
        '["" : 9]> g (float[1,2] x, int64[1] a) => (float[2] y) { [sq] y = Squeeze (x, a) }', "GR327", "sq", "Squeeze@1"
    ),
    "attribute of an older form": (
        '["" : 13]> g (float[2] x) => (float[2] y) { [c] y = Clip <min=0.0> (x) }', "GR328", "c", "Clip@13"
    ),
    "element type of a newer form": (
        '["" : 9]> g (bfloat16[2] x) => (bfloat16[2] y) { [r] y = Relu (x) }', "GR324", "r", "bf16"
    ),
    "operator of a newer opset in a body": (
        '["" : 9]> g (bool c, float[2] x) => (float[2] y) { [i] y = If (c) <'
        "then_branch = t () => (float[2] z) { [act] z = HardSwish (x) }, "
        "else_branch = e () => (float[2] z) { z = Relu (x) }> }", "GR325", "act", "HardSwish"
    ),
    "opset that does not exist": (
        '["" : 99]> g (float[2] x) => (float[2] y) { [r] y = Relu (x) }', "GR330", None, "opset 99"
    ),
    "no opset at all": ('["ge" : 1]> g (float[2] x) => (float[2] y) { [r] y = Relu (x) }', "GR326", "r", "no version"),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("opset", [8, 13, 21])
def test_a_model_that_is_not_what_it_claims(name: str, opset: int, tmp_path: Path) -> None:
    text, code, node, words = MODELS[name]
    source, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    onnx.save(onnx.parser.parse_model(f"<ir_version: 8, opset_import: {text}"), source)
    with pytest.raises(Refused) as caught:
        convert_model(source, out, opset)
    (said,) = caught.value.diagnostics
    assert (said.code, said.node) == (code, node) and words in said.message and said.hint
    assert not out.exists()


def test_a_domain_that_no_node_is_of_may_claim_anything(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 9, "ai.onnx.ml" : 99]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    assert convert_model(tmp_path / "m.onnx", tmp_path / "out.onnx", 13).verdict.ok
