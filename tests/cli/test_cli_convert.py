"""`gerules convert` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import onnx.parser
import pytest
from cli_helpers import gerules

REDUCE = """<ir_version: 8, opset_import: ["" : 12]>
reduce (float[2, 3, 4] x) => (float[2, 4] y) { [mean] y = ReduceMean <axes = [1], keepdims = 0> (x) }"""
RUN_TIME = """<ir_version: 8, opset_import: ["" : 18]>
late (float[2, 3, 4] x, int64[1] a) => (float[2, 3, 4] y) { [most] r = ReduceMax (x, a) [sub] y = Sub (x, r) }"""


def saved(text: str, folder: Path) -> Path:
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def opset_of(path: Path) -> int:
    return next(i.version for i in onnx.load(path).opset_import if i.domain == "")


def test_convert(tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    result = gerules("convert", saved(REDUCE, tmp_path), "--opset", "18", "-o", out)
    assert result.exit_code == 0, result.output
    assert "validated" in result.output and opset_of(out) == 18


def test_the_report_as_data(tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    result = gerules("convert", saved(REDUCE, tmp_path), "--opset", "18", "-o", out, "--json")
    found = json.loads(result.output)
    assert (found["command"], found["changed"], found["validation"]["ok"]) == ("convert", True, True)
    assert sum(found["rules_made"].values()) == 1


def test_unvalidated(tmp_path: Path) -> None:
    result = gerules("convert", saved(REDUCE, tmp_path), "--opset", "13", "--no-validate", "-o", tmp_path / "out.onnx")
    assert result.exit_code == 0 and "not validated" in result.output


def test_a_refusal(tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    result = gerules("convert", saved(RUN_TIME, tmp_path), "--opset", "13", "-o", out)
    assert result.exit_code == 1 and not out.exists()
    assert "most" in result.output and "computed at run time; opset 13 needs it constant" in result.output


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--opset", "99"), "ai.onnx are 7 to"),
        (("--opset", "nine"), "no version"),
        (("--opset", "their.ops=3"), "nobody knows"),
        (("--opset", "13", "--ir-version", "99"), "IR version"),
        ((), "no opset"),
    ],
)
def test_what_does_not_exist(flags: tuple[str, ...], said: str, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    result = gerules("convert", saved(REDUCE, tmp_path), *flags, "-o", out)
    assert result.exit_code == 2 and said in result.output and not out.exists()


def test_an_operator_that_the_claimed_opset_does_not_have(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 9]> g (float[2] x) => (float[2] y) { [act] y = HardSwish (x) }'
    result = gerules("convert", saved(text, tmp_path), "--opset", "13", "-o", tmp_path / "out.onnx")
    assert result.exit_code == 1 and "act" in result.output and "HardSwish" in result.output
