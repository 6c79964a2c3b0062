"""A refusal says which condition of which rule stands in the way, and what below a version is another thing."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from report_judge import run

from gerules.errors import Refused
from gerules.pipeline.converting import convert_bytes


def model(opset: int, graph: str) -> bytes:
    text = f'<ir_version: 8, opset_import: ["": {opset}]> g {graph}'
    return onnx.parser.parse_model(text).SerializeToString()


STEP = "body = b (float[2] g, float[2] e) => (float[2] t, float[2] o) { t = Add(g, e) o = Identity(t) }"
RESULTS = "(float[2] h, float[2, 3] x) => (float[2] y, float[3, 2] s)"
SCANNED = f"{RESULTS} {{ y, s = Scan <num_scan_inputs = 1, %s, {STEP}> (h, x) }}"
REASONS = (
    (
        8,
        9,
        "(int64[B] l, float[B, 2] h, float[B, 3, 2] x) => (float[B, 2] y, float[B, 3, 2] s) "
        f"{{ y, s = Scan <num_scan_inputs = 1, {STEP}> (l, h, x) }}",
        "scans sequences of different lengths (l, its sequence_lens)",
    ),
    (9, 8, SCANNED % "scan_input_axes = [1]", "scans along axes [1]"),
    (9, 8, SCANNED % "scan_output_axes = [1]", "collects its results along axes [1]"),
    (9, 8, SCANNED % "scan_output_directions = [1]", "puts results in front"),
    (10, 28, "(float[N] x, float[N] y) => (float[N] z) { z = Mod(x, y) }", "rule mod_28_whole would do, if `x"),
    (12, 11, "(float[N] x) => (float[N] z) { z = Celu <alpha = -1.0> (x) }", "rule celu would do"),
    (
        14,
        13,
        "(float[A, 3, 4] x, int64[3] s) => (float[B, C, D] y) { y = Reshape <allowzero = 1> (x, s) }",
        "rules reshape_zero and reshape_kept would do, if `literal_target",
    ),
    (
        13,
        10,
        "(float[N, 2] x, float[2] s, uint8[2] z) => (uint8[N, 2] y) { y = QuantizeLinear (x, s, z) }",
        "has a scale for each entry of axis 1; below opset 13 there is one scale for all",
    ),
)


@pytest.mark.parametrize(("source", "target", "graph", "reason"), REASONS)
def test_what_stands_in_the_way_is_said(source: int, target: int, graph: str, reason: str) -> None:
    with pytest.raises(Refused) as refused:
        convert_bytes(model(source, graph), target)
    assert reason in refused.value.diagnostics[0].message


FOUND = (
    ("<int64[2] s={1,-1}, int64[2] e={-9,0}, int64[2] a={-2,1}, int64[2] p={-1,-2}> { y = Slice(x, s, e, a, p) }", 9),
    ("<int64[1] s={-1}, int64[1] e={-99}, int64[1] a={1}, int64[1] p={-1}> { y = Slice(x, s, e, a, p) }", 7),
    ("<float l={3.0}, float u={1.0}> { y = Clip(x, l, u) }", 9),
)


@pytest.mark.parametrize(("body", "target"), FOUND)
def test_what_an_older_version_cannot_say_is_said_otherwise(body: str, target: int) -> None:
    source = onnx.load_from_string(model(13, f"(float[2, 8] x) => (float[A, B] y) {body}"))
    made = onnx.load_from_string(convert_bytes(source.SerializeToString(), target))
    x = np.random.default_rng(0).normal(size=(2, 8)).astype(np.float32)
    np.testing.assert_array_equal(run(made, {"x": x}, False)["y"], run(source, {"x": x}, False)["y"])
