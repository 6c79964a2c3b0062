"""Every command that changes a model says which rules took part unproved: as text, as JSON, in the manifest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_helpers import gerules, write_model, write_text

from gerules.verify.run import verify_rules

RULES = """opset ai.onnx 17

"Two transpositions are one."
rewrite back: Transpose(Transpose(x, perm=[1, 0]), perm=[1, 0]) => x

"A sigmoid is never negative."
rewrite relu_sigmoid: Relu(Sigmoid(x)) => Sigmoid(x)
"""
MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[4, 8] x) => (float[4, 8] z)
{
   [one] a = Transpose <perm = [1, 0]> (x)
   [two] b = Transpose <perm = [1, 0]> (a)
   [sig] s = Sigmoid (b)
   [re] z = Relu (s)
}"""
SWISH = """opset ai.onnx 14
"What the specification says of it."
rewrite swish defines:
    HardSwish(x) => Mul(x, Clip(Add(Mul(x, const(1.0 / 6.0)), const(0.5)), const(0.0), const(1.0)))
"""
BOTH = ["user/my.back", "user/my.relu_sigmoid"]


@pytest.mark.parametrize(
    ("registry", "unproved", "note"),
    [
        ("absent", BOTH, "on though not verified: user/my.back, user/my.relu_sigmoid"),
        ("current", BOTH[1:], ""),
        ("stale", BOTH, "on though changed since verified: user/my.back"),
    ],
)
def test_rewriting(registry: str, unproved: list[str], note: str, tmp_path: Path) -> None:
    rules = write_text(tmp_path, "my.rules", RULES)
    if registry != "absent":
        verify_rules([rules], inline=True, trials=20)
    if registry == "stale":
        write_text(tmp_path, "my.rules", RULES.replace("=> x", "=> x when x.rank == 2"))
    model = write_model(tmp_path, MODEL)
    flags = ("--only-rules", "--rules", rules)
    shown = gerules("rewrite", model, *flags, "-o", tmp_path / "text.onnx")
    assert shown.exit_code == 0, shown.output
    count = "1 rule that took part is" if len(unproved) == 1 else f"{len(unproved)} rules that took part are"
    assert f"{count} not proved: {', '.join(unproved)}" in shown.stdout
    assert note in shown.stdout
    result = gerules("rewrite", model, *flags, "-o", tmp_path / "json.onnx", "--json")
    assert json.loads(result.stdout)["unproved"] == unproved


def test_compiling(tmp_path: Path) -> None:
    rules = write_text(tmp_path, "my.rules", RULES)
    verify_rules([rules], inline=True, trials=20)
    out = tmp_path / "out"
    flags = ("--only-rules", "--rules", rules, "--target", "generic", "-o", out, "--json")
    result = gerules("compile", write_model(tmp_path, MODEL), *flags)
    assert result.exit_code == 0, result.output
    manifest = json.loads((out / "manifest.json").read_text())
    assert set(manifest["rules_fired"]) == set(BOTH)
    assert manifest["unproved"] == json.loads(result.stdout)["unproved"] == BOTH[1:]


def test_converting(tmp_path: Path) -> None:
    rules = write_text(tmp_path, "my.rules", SWISH)
    text = '<ir_version: 8, opset_import: ["" : 14]>\ng (float[4, 8] x) => (float[4, 8] y) { [h] y = HardSwish (x) }'
    model = write_model(tmp_path, text)
    flags = ("--opset", "13", "--rules", rules, "--disable", "function_body", "--json")
    result = gerules("convert", model, *flags, "-o", tmp_path / "out.onnx")
    assert result.exit_code == 0, result.output
    assert "user/my.swish" in json.loads(result.stdout)["unproved"]


def test_a_refuted_rule_stops_the_run(tmp_path: Path) -> None:
    rules = write_text(tmp_path, "my.rules", RULES.replace("Relu(Sigmoid(x)) => Sigmoid(x)", "Relu(Sigmoid(x)) => x"))
    verify_rules([rules], inline=True, trials=20)
    out = tmp_path / "out.onnx"
    result = gerules("rewrite", write_model(tmp_path, MODEL), "--only-rules", "--rules", rules, "-o", out)
    assert result.exit_code == 1
    assert "error GR592: user/my.relu_sigmoid is refuted" in result.stderr
    assert not out.exists()
