"""Rules over operators that only a rule file declares, on a graph that has them."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
import pytest

from gerules.errors import Difference
from gerules.pipeline import Options, rewrite_model
from gerules.pipeline.checking import check_rules

RULES = """
op ge.Relu(x: T) -> y: T
op ge.Concat(x: T, zs: T*) -> y: T
rewrite relu_relu: ge.Relu(ge.Relu(x)) => ge.Relu(x)
example relu_relu: ge.Relu(ge.Relu(x: f32[4])) => ge.Relu(x)
"""
MODEL = """
<ir_version: 8, opset_import: ["" : 17, "ge" : 1]>
g (float[4] x) => (float[4] y) <float[4] a, float[4] b> {
    a = ge.Relu (x)
    b = ge.Relu (a)
    y = Neg (b)
}
"""


def paths(folder: Path, rules: str = RULES) -> tuple[Path, Path, Path]:
    model, file = folder / "m.onnx", folder / "my.rules"
    onnx.save(onnx.parser.parse_model(MODEL), model)
    file.write_text(rules)
    return model, file, folder / "out.onnx"


def test_such_rules_are_checked_beside_those_of_the_registry(tmp_path: Path) -> None:
    _, file, _ = paths(tmp_path)
    found = check_rules([file])
    assert not found.failed and found.ran, "compat/ge.rules, which speaks of ge.Concat@1.8.0, stays read"
    slip, typo = "rewrite bad: ge.Rellu(x) => x\n", "rewrite worse: ge.Relu@2(x) => x\n"
    file.write_text(RULES + slip + typo)
    assert [d.code for d in check_rules([file]).diagnostics if d.severity == "error"] == ["GR130", "GR134"]


def test_a_rule_takes_nodes_away_where_it_is_switched_on(tmp_path: Path) -> None:
    model, file, out = paths(tmp_path)
    rewrite_model(model, out, Options(rules=(file,), enable=("user",), validate=False))
    assert [n.op_type for n in onnx.load(out).graph.node] == ["Relu", "Neg"]


def test_without_kernels_the_difference_is_said(tmp_path: Path) -> None:
    model, file, out = paths(tmp_path)
    with pytest.raises(Difference) as caught:
        rewrite_model(model, out, Options(rules=(file,), enable=("user",)))
    assert "user/my.relu_relu" in caught.value.diagnostics[0].message and not out.exists()


def test_a_declaration_alone_changes_nothing(tmp_path: Path) -> None:
    model, file, out = paths(tmp_path, RULES.split("rewrite")[0])
    rewrite_model(model, out, Options(rules=(file,)))
    assert [n.op_type for n in onnx.load(out).graph.node] == ["Relu", "Relu", "Neg"]
