"""Models with what is seldom: foreign operators, functions, loops, sequences, order, external data, no nodes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from gerules.errors import Refused
from gerules.pipeline import Options, compile_model, partition_model, rewrite_model

HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.foo" : 1, "my" : 1]> '
MODELS = {
    "a foreign operator": (
        "g (float[2,3] x) => (float[2,3] y) <float[2,3] b>"
        " { a = Identity(x) b = com.foo.Bar<k=3>(a) c = Identity(b) y = Relu(c) }",
        2,
    ),
    "a function of the model": (
        "g (float[2,3] x) => (float[2,3] y) { a = Identity(x) b = my.F(a) c = Identity(b) y = Relu(c) }"
        ' <domain: "my", opset_import: ["" : 17]> F (p) => (q) { t = Identity(p) q = Neg(t) }',
        2,
    ),
    "the input handed on": ("g (float[2] x) => (float[2] y, float[2] z) { y = Identity(x) z = Identity(y) }", 2),
    "one value, two outputs": (
        "g (float[4] x) => (float[4] y, float[4] z) { a = Relu(x) y = Identity(a) z = Identity(a) }",
        2,
    ),
    "an initializer that is an input": ("g (float[2] x, float[2] w={0,0}) => (float[2] y) { y = Add(x, w) }", 1),
    "constants all the way": (
        "g (float[2] x) => (float[2] z) <float[2] w={1,2}, float[2] v={3,4}> { y = Add(w, v) z = Add(x, y) }",
        1,
    ),
    "a loop": (
        "g (float[2] x) => (float[2] y, float[3,2] s) <int64 n={3}, bool c={1}> { i = Identity(x) y, s = Loop(n, c, i)"
        " <body = b (int64 it, bool ci, float[2] a) => (bool co, float[2] ao, float[2] so)"
        " { co = Identity(ci) t = Identity(a) ao = Add(t, x) so = Identity(ao) }> }",
        4,
    ),
    "a scan": (
        "g (float[2] h, float[3,2] x) => (float[2] y, float[3,2] s) { y, s = Scan<num_scan_inputs=1,"
        " body = b (float[2] a, float[2] e) => (float[2] ao, float[2] so)"
        " { u = Identity(a) ao = Add(u, e) so = Identity(ao) }>(h, x) }",
        3,
    ),
    "nodes out of order": (
        "g (float[4] x) => (float[2] y) <int64 i={1}> { s = SplitToSequence<axis=0>(x, two) y = SequenceAt(s, i)"
        " two = Constant<value = int64 {2}>() }",
        3,
    ),
    "strings": ("g (string[N] x) => (string[N] y) { y = Identity(x) }", 1),
    "work that nobody reads": ("g (float[4] x) => (float[4] y) { d = Neg(x) e = Abs(d) y = Relu(x) }", 1),
    "draws": (
        "g (float[4] x) => (float[4] y)"
        " { d = RandomNormalLike(x) e = RandomNormalLike(x) z = Add(d, e) y = Add(x, z) }",
        4,
    ),
    "no nodes": ("g (float[4] x) => (float[4] x) { }", 0),
    "half precision": ("g (float16[4] x) => (float16[4] y) { a = Relu(x) y = Identity(a) }", 1),
    "a shape given at run time": (
        "g (float[N,M] x, int64[2] s) => (float y) { a = Reshape(x, s) y = ReduceSum<keepdims=0>(a) }",
        2,
    ),
}


def nodes(path: Path) -> int:
    stack, count = [onnx.load(path).graph], 0
    while stack:
        for node in stack.pop().node:
            count += 1
            stack += [a.g for a in node.attribute if a.HasField("g")]
    return count


@pytest.mark.parametrize("name", MODELS)
def test_rewrite_compile_and_partition(name: str, tmp_path: Path) -> None:
    text, left = MODELS[name]
    source = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(HEAD + text), source)
    assert rewrite_model(source, tmp_path / "out.onnx").verdict.ok
    assert nodes(tmp_path / "out.onnx") == left
    onnx.checker.check_model(onnx.load(tmp_path / "out.onnx"))
    assert compile_model(source, "ascend", tmp_path / "compiled").verdict.ok
    assert partition_model(source, "ascend", tmp_path / "parts").verdict.ok
    assert nodes(tmp_path / "parts" / "model.onnx") == nodes(source)


def test_an_unknown_type_makes_validation_partial_and_a_border_impossible(tmp_path: Path) -> None:
    source = tmp_path / "model.onnx"
    text = "g (float[2,3] x) => (float[2,3] y) { a = Identity(x) b = com.foo.Bar(a) c = Identity(b) y = Relu(c) }"
    onnx.save(onnx.parser.parse_model(HEAD + text), source)
    report = rewrite_model(source, tmp_path / "out.onnx")
    assert report.verdict.ok and report.verdict.partial
    assert any("Bar" in note for note in report.verdict.notes)
    with pytest.raises(Refused) as caught:
        compile_model(source, "ascend", tmp_path / "compiled")
    assert {d.code for d in caught.value.diagnostics} == {"GR655"}
    assert not (tmp_path / "compiled").exists()


def test_external_data_comes_along(tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    model = onnx.parser.parse_model(
        HEAD + "g (float[2,64] x) => (float[2,64] y) { i = Identity(x) m = MatMul(i, w) y = Identity(m) }"
    )
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    source = folder / "model.onnx"
    onnx.save(model, source, save_as_external_data=True, location="model.bin", size_threshold=0)
    assert rewrite_model(source, tmp_path / "out.onnx").nodes_after == 1
    compile_model(source, "generic", tmp_path / "compiled")
    for result in (tmp_path / "out.onnx", tmp_path / "compiled" / "model.onnx"):
        [kept] = onnx.load(result).graph.initializer
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(kept), weight)
    assert sorted(p.name for p in folder.iterdir()) == ["model.bin", "model.onnx"]


def test_text_and_json_models(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[N] y) { a = Identity(x) y = Relu(a) }'
    (tmp_path / "model.onnxtxt").write_text(text)
    rewrite_model(tmp_path / "model.onnxtxt", tmp_path / "out.json")
    report = rewrite_model(tmp_path / "out.json", tmp_path / "again.onnx", Options(only_rules=True))
    assert report.nodes_before == 1 and not report.changed


def test_costs_of_several_likely_sizes_are_averaged(tmp_path: Path) -> None:
    source = tmp_path / "model.onnx"
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[N] y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(text), source)

    def elements(likely: str) -> float:
        report = rewrite_model(source, tmp_path / "out.onnx", Options(likely=(likely,), validate=False, force=True))
        assert report.cost is not None
        return report.cost.before[0]

    assert elements("N=64") == 64
    assert elements("N=64,128") == 96


def test_the_manifest_says_what_was_not_validated(tmp_path: Path) -> None:
    source = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(HEAD + MODELS["half precision"][0]), source)
    compile_model(source, "ascend", tmp_path / "out", Options(validate=False))
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["validation"]["ran"] is False and manifest["validation"]["ok"] is False
    assert manifest["coverage"] == {"AiVector": {"nodes": 1.0, "flops": 1.0}}
    assert set(manifest["unproved"]) <= manifest["rules_fired"].keys()


TARGET = """opset ai.onnx 17
engine Fast:
    cost = 1us
    supports[f in MatMul | Relu] f(..)
engine Slow:
    cost = 9us
    supports[f in MatMul | Relu | Add | Neg] f(..)
transfer Fast <-> Slow = 50us
merge same: a -> b when a.engine == b.engine
group pair: Neg(Relu(..))
"""


def test_a_group_is_placed_whole(tmp_path: Path) -> None:
    """Relu alone would run on the fast engine; its group needs the slow one."""
    source, target = tmp_path / "model.onnx", tmp_path / "machine.rules"
    target.write_text(TARGET)
    text = "g (float[4,4] x) => (float[4,4] y, float[4,4] m) { m = MatMul(x, x) r = Relu(m) y = Neg(r) }"
    model = onnx.parser.parse_model(HEAD + text)
    for node, name in zip(model.graph.node, ("m", "r", "n"), strict=True):
        node.name = name
    onnx.save(model, source)
    for job, folder in ((compile_model, "compiled"), (partition_model, "parts")):
        job(source, str(target), tmp_path / folder)
        manifest = json.loads((tmp_path / folder / "manifest.json").read_text())
        home = [c for c in manifest["clusters"] if "r" in c["nodes"]]
        assert len(home) == 1 and "n" in home[0]["nodes"] and home[0]["engine"] == "Slow"


def test_a_group_that_no_engine_takes_is_refused(tmp_path: Path) -> None:
    source, target = tmp_path / "model.onnx", tmp_path / "machine.rules"
    target.write_text(TARGET.replace("MatMul | Relu | Add | Neg", "MatMul | Add | Neg"))
    onnx.save(onnx.parser.parse_model(HEAD + "g (float[4] x) => (float[4] y) { r = Relu(x) y = Neg(r) }"), source)
    with pytest.raises(Refused) as caught:
        partition_model(source, str(target), tmp_path / "parts")
    assert [d.code for d in caught.value.diagnostics] == ["GR713"]
