"""Models and rule files that are broken, hostile or odd: a clear error or a result, never half of one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import onnx.helper as oh
import pytest
from cli_helpers import GATE, GATE_RULES, everything, gerules, names, write_model, write_text
from onnx import TensorProto

from gerules.errors import Exit

RULES_BODY = GATE_RULES.split("\n", 1)[1]


def graph(nodes: list[onnx.NodeProto], outputs: tuple[str, ...] = ("y",), **more: object) -> onnx.ModelProto:
    made = oh.make_graph(
        nodes,
        "g",
        [oh.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [oh.make_tensor_value_info(o, TensorProto.FLOAT, [2, 3]) for o in outputs],
        **more,
    )
    return oh.make_model(made, opset_imports=[oh.make_opsetid("", 17)], ir_version=8)


def truncated(path: Path) -> None:
    whole = write_model(path.parent, GATE, "whole.onnx")
    path.write_bytes(whole.read_bytes()[:-60])
    whole.unlink()


def cyclic(path: Path) -> None:
    loop = [oh.make_node("Add", ["x", "b"], ["a"], name="first"), oh.make_node("Neg", ["a"], ["b"], name="second")]
    onnx.save(graph([*loop, oh.make_node("Relu", ["a"], ["y"])]), path)


def undefined(path: Path) -> None:
    onnx.save(graph([oh.make_node("Add", ["x", "ghost"], ["y"], name="reader")]), path)


def forbidden_type(path: Path) -> None:
    cast = oh.make_node("Cast", ["x"], ["s"], to=TensorProto.STRING)
    onnx.save(graph([cast, oh.make_node("Relu", ["s"], ["r"], name="bad"), oh.make_node("Neg", ["x"], ["y"])]), path)


def leaving_the_folder(path: Path) -> None:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "../secret.bin"), ("offset", "0"), ("length", "24")):
        weight.external_data.add(key=key, value=value)
    model = graph([oh.make_node("Add", ["x", "w"], ["y"])], initializer=[weight])
    path.write_bytes(model.SerializeToString())
    (path.parent.parent / "secret.bin").write_bytes(bytes(24))


def shadowing(path: Path) -> None:
    value = [oh.make_tensor_value_info("b", TensorProto.FLOAT, None)]
    then = oh.make_graph([oh.make_node("Abs", ["x"], ["n"]), oh.make_node("Neg", ["n"], ["b"])], "then", [], value)
    other = oh.make_graph([oh.make_node("Neg", ["x"], ["b2"])], "else", [], [oh.make_tensor_value_info("b2", 1, None)])
    flag = oh.make_tensor("c", TensorProto.BOOL, [], [True])
    nodes = [
        oh.make_node("Neg", ["x"], ["n"]),
        oh.make_node("If", ["c"], ["i"], then_branch=then, else_branch=other),
        oh.make_node("Add", ["n", "i"], ["y"]),
    ]
    onnx.save(graph(nodes, initializer=[flag]), path)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def no_model(path: Path) -> None:
    path.write_bytes(b"%PDF-1.7 this is no model at all")


def missing(path: Path) -> None:
    assert not path.exists()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (truncated, "damaged"),
        (empty, "empty"),
        (no_model, "not an ONNX model"),
        (missing, "model.onnx"),
        (cyclic, "first"),
        (undefined, "ghost"),
        (forbidden_type, "bad"),
        (leaving_the_folder, "outside"),
        (shadowing, "n"),
    ],
)
@pytest.mark.parametrize("command", ["rewrite", "compile", "partition"])
def test_a_broken_model_is_refused_by_name(
    make: Callable[[Path], None], said: str, command: str, tmp_path: Path
) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    path = folder / "model.onnx"
    make(path)
    before = everything(tmp_path)
    target = ["--target", "generic"] if command != "rewrite" else []
    result = gerules(command, path, *target, "-o", folder / "out.onnx")
    assert result.exit_code == Exit.REFUSED, result.output
    assert said in result.stderr
    assert "GR3" in result.stderr
    assert everything(tmp_path) == before


def test_nodes_without_an_engine_are_all_named(tmp_path: Path) -> None:
    target = write_text(
        tmp_path,
        "small.rules",
        "opset ai.onnx 17\nengine Npu:\n    cost = 1us\n    supports Relu(..)\nengine Cpu:\n    cost = 9us\n"
        "    supports Mul(..)\ntransfer Npu <-> Cpu = 1us\nmerge same: a -> b when a.engine == b.engine\n",
    )
    nodes = [
        oh.make_node("Relu", ["x"], ["a"], name="fine"),
        oh.make_node("Erf", ["a"], ["b"], name="lost_one"),
        oh.make_node("Cos", ["b"], ["c"], name="lost_two"),
        oh.make_node("Mul", ["c", "c"], ["y"], name="also_fine"),
    ]
    onnx.save(graph(nodes), tmp_path / "model.onnx")
    for command in ("compile", "partition"):
        result = gerules(command, tmp_path / "model.onnx", "--target", target, "-o", tmp_path / "out")
        assert result.exit_code == Exit.REFUSED
        for name, operator in (("lost_one", "Erf"), ("lost_two", "Cos")):
            assert name in result.stderr and operator in result.stderr
        assert "fine (" not in result.stderr
        assert "f32[2,3]" in result.stderr
        assert not (tmp_path / "out").exists()


# -------------------------------------------------------------------------------------------------------- rule files


@pytest.mark.parametrize(
    "data",
    [
        GATE_RULES.replace(": ", ":\t").encode(),
        b"\xef\xbb\xbf" + GATE_RULES.encode(),
        GATE_RULES.replace("\n", "\r\n").encode(),
    ],
    ids=["tab", "byte-order mark", "Windows line ends"],
)
def test_odd_text_of_rules_works(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "my.rules").write_bytes(data)
    result = gerules("rewrite", write_model(tmp_path), "--rules", tmp_path / "my.rules", "-o", tmp_path / "out.onnx")
    assert result.exit_code == Exit.DONE, result.output
    assert names(tmp_path / "out.onnx") == ["sig", "mul"]


def test_an_empty_rule_file_is_no_rules(tmp_path: Path) -> None:
    rules = write_text(tmp_path, "empty.rules", "")
    result = gerules("rewrite", write_model(tmp_path), "--rules", rules, "-o", tmp_path / "out.onnx")
    assert result.exit_code == Exit.DONE
    assert gerules("check", rules).exit_code == Exit.DONE


def test_a_binary_rule_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.rules").write_bytes(bytes(range(256)))
    for command in (["check"], ["rewrite", write_model(tmp_path), "-o", tmp_path / "out.onnx", "--rules"]):
        result = gerules(*command, tmp_path / "binary.rules")
        assert result.exit_code == Exit.REFUSED
        assert "GR114" in result.stderr and "binary.rules" in result.stderr
    assert not (tmp_path / "out.onnx").exists()


def test_rules_that_are_wrong_are_refused_with_every_fault(tmp_path: Path) -> None:
    rules = write_text(
        tmp_path, "bad.rules", "opset ai.onnx 17\nrewrite a: Relux(x) => x\nrewrite b: Relu(x) => Relu(y)\n"
    )
    result = gerules("rewrite", write_model(tmp_path), "--rules", rules, "-o", tmp_path / "out.onnx")
    assert result.exit_code == Exit.REFUSED
    assert "bad.rules:2" in result.stderr and "bad.rules:3" in result.stderr
    assert not (tmp_path / "out.onnx").exists()


def test_a_rule_that_grows_without_end_is_stopped_and_reported(tmp_path: Path) -> None:
    rules = write_text(
        tmp_path,
        "grow.rules",
        "opset ai.onnx 17\nrewrite grow: Softplus(x) => Softplus(Softsign(x)) when x.rank == 2\n",
    )
    head = '<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3] x) => (float[2, 3] y)'
    text = head + " { s = Softplus(x) y = Identity(s) }"
    result = gerules("rewrite", write_model(tmp_path, text), "--rules", rules, "-o", tmp_path / "out.onnx")
    assert result.exit_code == Exit.DONE, result.output
    assert "stopped" in result.output
    assert len(names(tmp_path / "out.onnx")) == 1


def test_five_thousand_rules_are_checked_and_loaded(tmp_path: Path) -> None:
    lines = [
        f"rewrite r{i}: Add(Mul(x, const({i}.5)), const({i}.25)) => Add(const({i}.25), Mul(x, const({i}.5)))"
        for i in range(5000)
    ]
    rules = write_text(tmp_path, "many.rules", "\n".join(["opset ai.onnx 17", *lines]))
    result = gerules("check", rules, "--no-examples")
    assert result.exit_code == Exit.DONE, result.output[-2000:]
    assert "5000 rules" in result.output
    result = gerules("rewrite", write_model(tmp_path), "--rules", rules, "-o", tmp_path / "out.onnx")
    assert result.exit_code == Exit.DONE, result.output[-2000:]
    assert len(names(tmp_path / "out.onnx")) == 3


@pytest.mark.sweep
def test_five_thousand_rules_that_can_all_fire(tmp_path: Path) -> None:
    lines = [f"rewrite r{i}: Mul(Relu(x), const({i}.5)) => Relu(Mul(x, const({i}.5)))" for i in range(5000)]
    rules = write_text(tmp_path, "many.rules", "\n".join(["opset ai.onnx 17", *lines]))
    head = '<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3] x) => (float[2, 3] y) <float h = {3.5}>'
    model = write_model(tmp_path, head + " { r = Relu(x) y = Mul(r, h) }")
    result = gerules("rewrite", model, "--rules", rules, "-o", tmp_path / "out.onnx")
    assert result.exit_code == Exit.DONE, result.output[-2000:]
    assert "user/many.r3 " in result.output
