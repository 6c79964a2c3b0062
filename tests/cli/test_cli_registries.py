"""`registry import`, `diff` and `recover` as commands: what they print, their statuses, bad input."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper

from gerules.cli.main import main

DATA = Path(__file__).parents[1] / "data" / "ge_registry"
A = """{
"Bar":{"inputs":[["x","required",["ALL"]]],"outputs":[["y","required",["ALL"]]],"attrs":[]},
"Foo":{"inputs":[["x","required",["ALL"]],["w","optional",["ALL"]]],"outputs":[["y","required",["ALL"]]],"attrs":[["k","Int","optional",1]]},
"Gone":{"inputs":[],"outputs":[],"attrs":[]}
}
"""
B = """{
"Bar":{"inputs":[["x","required",["ALL"]],["b","optional",["ALL"]]],"outputs":[["y","required",["ALL"]]],"attrs":[]},
"Foo":{"inputs":[["x","required",["ALL"]]],"outputs":[["y","required",["ALL"]]],"attrs":[["k","Float","optional",2]]},
"New":{"inputs":[],"outputs":[],"attrs":[]}
}
"""


def gerules(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [str(w) for w in words], standalone_mode=False)


def status(result: Result) -> int:
    return result.return_value if isinstance(result.return_value, int) else result.exit_code


@pytest.fixture
def registries(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "A-1.0.json").write_text(A)
    (tmp_path / "B-2.0.json").write_text(B)
    return tmp_path / "A-1.0.json", tmp_path / "B-2.0.json"


def test_import_gives_the_sample_byte_for_byte(tmp_path: Path) -> None:
    out = tmp_path / "R.json"
    result = gerules("registry", "import", DATA / "sample_ops.h", "-o", out)
    assert status(result) == 0 and out.read_bytes() == (DATA / "sample_ops.json").read_bytes()
    assert "4 operators of 1 headers, 2 warnings" in result.stdout
    assert "sample_ops.h:25" in result.stderr and "GR211" in result.stderr
    assert status(gerules("registry", "import", DATA / "sample_ops.h", "-o", out)) == 2, "it exists"
    data = json.loads(gerules("registry", "import", DATA, "-o", out, "--force", "--json").stdout)
    assert data["operators"] == 4 and len(data["diagnostics"]) == 2


def test_import_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "e.h").write_text("// nothing\n")
    result = gerules("registry", "import", tmp_path / "e.h", "-o", tmp_path / "R.json")
    assert status(result) == 1 and "GR210" in result.stderr and not (tmp_path / "R.json").exists()
    assert status(gerules("registry", "import", tmp_path / "none.h", "-o", tmp_path / "R.json")) == 1


def test_diff_as_json(registries: tuple[Path, Path]) -> None:
    one, other = registries
    result = gerules("diff", one, other, "--policy", "ge", "--json")
    data = json.loads(result.stdout)
    assert status(result) == 0
    assert data["counts"] == {
        "missing": 1, "failed_direction": 0, "failed_prefix": 0, "outputs_shrunk": 0, "failed_forward_required": 0,
        "backward_adds_required": 0, "forward": 1, "backward": 1, "none": 0,
    }  # fmt: skip
    foo = data["ops"]["Foo"]
    assert foo["class"] == "forward" and foo["reason"] == "w of the inputs is left out: this runtime's does not have it"
    assert (foo["default_changed"], foo["type_changed"], foo["required_changed"]) == (True, True, False)
    assert {c["what"]: (c["built"], c["runtime"]) for c in foo["changes"]} == {
        "default": ("1", "2"), "type": ("Int", "Float"),
    }  # fmt: skip
    assert data["ops"]["Gone"]["refused"] and not foo["refused"]
    assert data["added"] == ["New"]


def test_the_policy_decides_refusals_and_never_classes(registries: tuple[Path, Path]) -> None:
    found = {
        policy: json.loads(gerules("diff", *registries, "--policy", policy, "--json").stdout)
        for policy in ("default", "ge", "strict")
    }
    assert len({json.dumps(d["counts"]) for d in found.values()}) == 1
    refused = {p: [n for n, o in d["ops"].items() if o["refused"]] for p, d in found.items()}
    assert refused == {"default": ["Gone"], "ge": ["Gone"], "strict": ["Bar", "Foo", "Gone"]}
    assert found["default"]["ops"]["Foo"]["written"] == ["k"]


def test_diff_as_csv_and_for_people(registries: tuple[Path, Path]) -> None:
    rows = list(csv.DictReader(io.StringIO(gerules("diff", *registries, "--csv").stdout)))
    assert [(r["operator"], r["class"], r["default_changed"]) for r in rows] == [
        ("Bar", "backward", "false"), ("Foo", "forward", "true"), ("Gone", "missing", "false"),
    ]  # fmt: skip
    text = gerules("diff", *registries).stdout
    assert "ge@1.0 -> ge@2.0: 3 operators, 1 new at run time" in text and "policy default refuses 1" in text


def test_diff_of_onnx() -> None:
    data = json.loads(gerules("diff", "onnx:12", "onnx:13", "--json").stdout)
    assert data["ops"]["Squeeze"]["class"] == "failed_direction"
    assert data["ops"]["Relu"]["class"] == "none"


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (("onnx:99", "onnx:13"), "GR223", 2),
        (("onnx:13", "foo:1"), "GR223", 2),
        (("none.json", "onnx:13"), "GR222", 1),
        (("{bad}", "onnx:13"), "GR204", 1),
        (("{kind}", "onnx:13"), "GR206", 1),
        (("{text}", "onnx:13"), "GR202", 1),
    ],
)
def test_diff_of_what_is_no_registry(tmp_path: Path, words: tuple[str, str], code: str, expected: int) -> None:
    empty = '{"inputs":[],"outputs":[],"attrs":[]}'
    files = {
        "bad": f'{{"A":{empty},"A":{empty}}}',
        "kind": '{"A":{"inputs":[["x","maybe",[]]],"outputs":[],"attrs":[]}}',
        "text": "REG_OP(A)",
    }
    for name, text in files.items():
        (tmp_path / f"{name}.json").write_text(text)
    given = [w.format(**{n: tmp_path / f"{n}.json" for n in files}) for w in words]
    for more in ((), ("--json",)):
        result = gerules("diff", *given, *more)
        assert status(result) == expected and code in result.output
        assert "Traceback" not in result.output


def test_a_policy_that_there_is_not(registries: tuple[Path, Path]) -> None:
    result = gerules("diff", *registries, "--policy", "none")
    assert result.exception is not None and "none" in str(result.exception)


def save(path: Path, inputs: list[str], **attributes: object) -> Path:
    node = helper.make_node("Foo", inputs, ["y"], domain="ge", name="foo", **attributes)
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "aby"]
    graph = helper.make_graph([node], "g", values[:2], values[2:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ge", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


def test_recover(tmp_path: Path, registries: tuple[Path, Path]) -> None:
    model, out = save(tmp_path / "m.onnx", ["a", ""]), tmp_path / "o.onnx"
    words = ("recover", model, "--built", f"ge@1.0={registries[0]}", "--runtime", f"ge={registries[1]}", "-o", out)
    result = gerules(*words)
    assert status(result) == 0 and "forward 1" in result.stdout and "not validated numerically" in result.stdout
    assert "written out as 1" in result.stderr
    (node,) = onnx.load(out).graph.node
    assert list(node.input) == ["a"] and node.attribute[0].f == 1.0
    assert status(gerules(*words)) == 2, "it exists"
    data = json.loads(gerules(*words, "--force", "--json", "--policy", "ge").stdout)
    assert (data["strategies"], data["policy"], data["runtime"]) == ({"forward": 1}, "ge", "ge@2.0")


def test_recover_refuses_with_everything_in_one_report(tmp_path: Path, registries: tuple[Path, Path]) -> None:
    model, out = save(tmp_path / "m.onnx", ["a", "b"]), tmp_path / "o.onnx"
    words = ("recover", model, "--built", registries[0], "--runtime", registries[1], "-o", out, "--policy", "strict")
    result = gerules(*words)
    assert status(result) == 1 and not out.exists()
    assert "refused 1" in result.stdout and result.stderr.count("GR810") == 3
    data = json.loads(gerules(*words, "--json").stdout)
    assert len(data["refusals"]) == 3 and data["strategies"] == {"refused": 1}


def test_recover_of_a_model_without_such_nodes(tmp_path: Path, registries: tuple[Path, Path]) -> None:
    model, out = save(tmp_path / "m.onnx", ["a"]), tmp_path / "o.onnx"
    words = ("--built", f"t@1={registries[0]}", "--runtime", f"t@2={registries[1]}", "-o", out)
    result = gerules("recover", model, *words)
    assert status(result) == 0 and "no nodes of the domain t" in result.stdout
    assert out.read_bytes() == model.read_bytes()


def test_recover_with_registries_of_two_domains(tmp_path: Path, registries: tuple[Path, Path]) -> None:
    model = save(tmp_path / "m.onnx", ["a"])
    words = ("--built", f"t@1={registries[0]}", "--runtime", f"ge@2={registries[1]}", "-o", tmp_path / "o.onnx")
    result = gerules("recover", model, *words)
    assert status(result) == 2 and "GR821" in result.stderr
