"""Rules that are definitions, on the side of engines: used where no engine takes a node, never to save cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import onnx
import onnx.parser
import pytest

from gerules.errors import Refused
from gerules.pipeline import Options, compile_model

MODEL = """<ir_version: 10, opset_import: ["" : 20]>
g (float[4, 8] x) => (float[4, 8] z)
{
   [gelu] y = Gelu (x)
   [drop] d = Dropout (y)
   [tanh] z = Tanh (d)
}"""
LACKING = MODEL.replace("[drop]", "[sin] s = Sin (y)\n   [drop]").replace("Dropout (y)", "Dropout (s)")
SWISH = MODEL.replace("Gelu (x)", "HardSwish (x)")
CORE = """opset ai.onnx 20
engine Core:
    cost = bytes / 1e9
    supports[f in Mul | Add | Tanh | Erf | Div | Clip{more}] f(..)
    {cost}
merge same: a -> b when a.engine == b.engine
{rules}"""
HARD = """
"What the specification says of it."
rewrite swish defines:
    HardSwish(x) => Mul(x, Clip(Add(Mul(x, const(1.0 / 6.0)), const(0.5)), const(0.0), const(1.0)))
"""


def compiled(
    folder: Path, model: str = MODEL, more: str = "", cost: str = "", rules: str = "", **flags: tuple[str, ...]
) -> tuple[list[str], Mapping[str, object]]:
    """Operators of the result in order, and the manifest."""
    source, target, out = folder / "model.onnx", folder / "core.rules", folder / "out"
    onnx.save(onnx.parser.parse_model(model), source)
    target.write_text(CORE.format(more=more, cost=cost, rules=rules))
    before = source.read_bytes()
    try:
        compile_model(source, str(target), out, Options(**flags))  # type: ignore[arg-type]
    finally:
        assert source.read_bytes() == before
    nodes = onnx.load(out / "model.onnx").graph.node
    return [node.op_type for node in nodes], json.loads((out / "manifest.json").read_text())


def test_what_no_engine_takes_is_written_out_by_its_body(tmp_path: Path) -> None:
    operators, manifest = compiled(tmp_path)
    assert set(operators) <= {"Mul", "Div", "Erf", "Add", "Tanh"}
    assert "compat/onnx.function_body" in manifest["rules_fired"]  # type: ignore[operator]
    assert "compat/onnx.function_body" in manifest["unproved"]  # type: ignore[operator]
    cost, validation = manifest["cost"], manifest["validation"]
    assert isinstance(cost, dict) and isinstance(validation, dict)
    assert cost["before"] is None  # the input itself cannot run on this target
    assert (validation["ran"], validation["ok"]) == (True, True)


@pytest.mark.parametrize("cost", ["", "cost Gelu(..) = 1.0"])
def test_what_an_engine_takes_stays_however_dear_it_is(cost: str, tmp_path: Path) -> None:
    operators, _ = compiled(tmp_path, more=" | Gelu", cost=cost)
    assert operators == ["Gelu", "Tanh"]


def test_only_what_has_no_way_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused) as raised:
        compiled(tmp_path, LACKING)
    assert [(d.code, d.node) for d in raised.value.diagnostics] == [("GR630", "sin")]
    assert not (tmp_path / "out").exists()


def test_a_target_says_what_its_composites_are(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="HardSwish"):
        compiled(tmp_path, SWISH)
    operators, manifest = compiled(tmp_path, SWISH, rules=HARD)
    assert operators == ["Mul", "Add", "Clip", "Mul", "Tanh"]
    assert "user/core.swish" in manifest["rules_fired"]  # type: ignore[operator]


def test_a_definition_can_be_switched_off(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="Gelu"):
        compiled(tmp_path, disable=("function_body",))
