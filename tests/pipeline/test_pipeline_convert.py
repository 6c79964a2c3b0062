"""`convert`: what stays, what is refused and why, functions, bodies, constants, IR versions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper
from report_judge import run

from gerules.errors import Refused, UsageFault
from gerules.pipeline import Options, convert_model
from gerules.pipeline.converting import convert_bytes, wanted_versions

X = np.linspace(-2.0, 3.0, 24, dtype=np.float32).reshape(2, 3, 4)


def model_of(text: str, opset: int, ir_version: int = 8) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>\n{text}')


def converted(model: onnx.ModelProto, opset: int, tmp_path: Path, x: np.ndarray = X, **more: object) -> onnx.ModelProto:
    """The model at another opset: valid, and of the same numbers on `x`."""
    source, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(model, source)
    report = convert_model(source, out, opset, Options(force=True), **more)  # type: ignore[arg-type]
    assert report.verdict.ok
    after = onnx.load(out)
    onnx.checker.check_model(after, full_check=True)
    assert next(i.version for i in after.opset_import if i.domain == "") == opset
    assert [v.name for v in after.graph.input] == [v.name for v in model.graph.input]
    assert [v.name for v in after.graph.output] == [v.name for v in model.graph.output]
    feeds = {model.graph.input[0].name: x}
    for name, want in run(model, feeds, reference=True).items():
        np.testing.assert_allclose(run(after, feeds, reference=True)[name], want, rtol=1e-5, atol=1e-6)
    return after


def refusal(model: onnx.ModelProto, opset: int, tmp_path: Path) -> list[tuple[str | None, str]]:
    source, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(model, source)
    with pytest.raises(Refused) as caught:
        convert_model(source, out, opset)
    assert not out.exists()
    return [(d.node, d.message) for d in caught.value.diagnostics]


def ops(model: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in model.graph.node if n.op_type != "Constant"]


# ---------------------------------------------------------------------------------------------------- what is converted


def test_what_means_the_same_stays_as_it_is(tmp_path: Path) -> None:
    model = model_of("g (float[2, 3, 4] x) => (float[2, 3, 4] y) { [a] s = Relu (x) [b] y = Sigmoid (s) }", 13)
    after = converted(model, 7, tmp_path)
    assert after.graph == model.graph


@pytest.mark.parametrize("opset", [8, 11, 13, 18, 28])
def test_axes_move_between_attribute_and_operand(opset: int, tmp_path: Path) -> None:
    text = "g (float[2, 3, 4] x) => (float[2, 4] y) { [m] y = ReduceMean <axes = [1], keepdims = 0> (x) }"
    after = converted(model_of(text, 12), opset, tmp_path)
    assert ops(after) == ["ReduceMean"]


@pytest.mark.parametrize(
    "through", ["Identity (c)", "Cast <to = 7> (c)", "Concat <axis = 0> (c, d)", "Unsqueeze (e, z)"]
)
def test_operands_are_constant_through_what_is_computed_of_constants(through: str, tmp_path: Path) -> None:
    text = f"""g (float[2, 3, 4] x) => (float[2, 3, 4] y)
    <int64[1] c = {{1}}, int64[0] d = {{}}, int64 e = {{1}}, int64[1] z = {{0}}> {{
       a = {through}
       [m] r = ReduceMean <keepdims = 1> (x, a)
       [s] y = Sub (x, r)
    }}"""
    after = converted(model_of(text, 18), 11, tmp_path)
    mean = next(n for n in after.graph.node if n.op_type == "ReduceMean")
    assert list(helper.get_node_attr_value(mean, "axes")) == [1]


def test_a_body_is_written_out_and_converted_itself(tmp_path: Path) -> None:
    text = "g (float[2, 3, 4] x) => (float[2, 3, 4] y) { [h] y = HardSwish (x) }"
    assert "HardSwish" not in ops(converted(model_of(text, 22), 9, tmp_path))


def test_a_body_within_a_body(tmp_path: Path) -> None:
    text = """g (float[2, 3, 4] x) => (float[2, 3, 4] y)
    <float[3] s = {1.0, 2.0, 3.0}, float[3] b = {0.5, 0.0, -1.0}> {
       [n] y = GroupNormalization <num_groups = 3> (x, s, b)
    }"""
    # The body takes the variance as a difference of means, which loses digits far from zero: judged near it.
    after = converted(model_of(text, 21), 17, tmp_path, x=X - X.mean(axis=-1, keepdims=True))
    assert "GroupNormalization" not in ops(after)
    far = X.astype(np.float64)
    whole = (far - far.mean(-1, keepdims=True)) / np.sqrt(far.var(-1, keepdims=True) + 1e-5)
    exact = whole * np.array([[1.0], [2.0], [3.0]]) + np.array([[0.5], [0.0], [-1.0]])
    np.testing.assert_allclose(run(after, {"x": X}, reference=True)["y"], exact, rtol=1e-5, atol=1e-6)


def test_bodies_with_loops_are_taken_over_and_converted(tmp_path: Path) -> None:
    text = """g (float[2, 3, 4] x) => (float[2, 3, 4] y) <float a = {0.0}, float d = {1.0}, float n = {4.0}> {
       [r] r = Range (a, n, d)
       [s] y = Add (x, r)
    }"""
    assert "Range" not in ops(converted(model_of(text, 13, 8), 10, tmp_path))


def test_bodies_of_control_flow_are_converted_with_what_they_capture(tmp_path: Path) -> None:
    text = """g (float[2, 3, 4] x) => (float[2, 1, 3, 4] y) <int64[1] a = {1}, float z = {0.0}> {
       [i] d = Identity (x)
       [g0] g = ReduceSum <keepdims = 0> (x)
       [g1] f = Greater (g, z)
       [p] y = If (f) <then_branch = t () => (float[2, 1, 3, 4] u) { [t1] u = Unsqueeze (d, a) },
                       else_branch = e () => (float[2, 1, 3, 4] v) { [e1] n = Neg (d) [e2] v = Unsqueeze (n, a) }>
    }"""
    model = model_of(text, 13)
    after = converted(model, 11, tmp_path)
    branch = next(n for n in after.graph.node if n.op_type == "If").attribute[0].g
    assert any(n.op_type == "Unsqueeze" and len(n.input) == 1 for n in branch.node)


FUNCTION = """<ir_version: 8, opset_import: ["" : 13, "my" : 1]>
g (float[2, 3, 4] x) => (float[2, 1, 3, 4] y) { [c] s = my.f (x) [d] y = Neg (s) }
<domain: "my", opset_import: ["" : 13]> f (a) => (b) {
   k = Constant <value_ints = [1]> ()
   b = Unsqueeze (a, k)
}"""


def test_functions_are_converted_inside(tmp_path: Path) -> None:
    after = converted(onnx.parser.parse_model(FUNCTION), 11, tmp_path)
    [function] = after.functions
    assert [i.version for i in function.opset_import if i.domain == ""] == [11]
    assert any(n.op_type == "Unsqueeze" and len(n.input) == 1 for n in function.node)


def test_functions_are_written_out_where_the_ir_version_has_none(tmp_path: Path) -> None:
    after = converted(onnx.parser.parse_model(FUNCTION), 11, tmp_path, ir_version=7)
    assert not after.functions and after.ir_version == 7 and "Unsqueeze" in ops(after)


# ---------------------------------------------------------------------------------------------- constants, IR versions


def old_model() -> onnx.ModelProto:
    """IR version 3: initializers are inputs too."""
    graph = helper.make_graph(
        [
            helper.make_node("Reshape", ["x", "s"], ["r"], name="r"),
            helper.make_node("Add", ["r", "w"], ["y"], name="a"),
        ],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 4]),
            helper.make_tensor_value_info("s", TensorProto.INT64, [2]),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [4]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [6, 4])],
        [
            numpy_helper.from_array(np.array([6, 4]), "s"),
            numpy_helper.from_array(np.ones(4, np.float32), "w"),
        ],
    )
    return helper.make_model(graph, ir_version=3, opset_imports=[helper.make_opsetid("", 8)])


def test_models_whose_initializers_are_inputs_stay_so(tmp_path: Path) -> None:
    model = old_model()
    text = model.graph.node.add(op_type="Pad", input=["y"], output=["z"], name="p")
    text.attribute.append(helper.make_attribute("pads", [0, 1, 0, 1]))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [6, 6]))
    after = converted(model, 13, tmp_path)
    assert after.ir_version == 3
    assert {t.name for t in after.graph.initializer} <= {v.name for v in after.graph.input}


def test_the_ir_version_can_be_asked_for(tmp_path: Path) -> None:
    text = "g (float[2, 3, 4] x) => (float[2, 3, 4] y) <float w = {2.0}> { [m] y = Mul (x, w) }"
    after = converted(model_of(text, 13), 9, tmp_path, ir_version=3)
    assert after.ir_version == 3 and not after.graph.initializer


def test_constants_are_spelt_as_the_opset_has_them(tmp_path: Path) -> None:
    text = "g (float[2, 3, 4] x) => (float[2, 3, 4] y) { w = Constant <value_float = 2.0> () [m] y = Mul (x, w) }"
    after = converted(model_of(text, 13), 9, tmp_path)
    [constant] = [n for n in after.graph.node if n.op_type == "Constant"]
    assert [a.name for a in constant.attribute] == ["value"]


def test_metadata_is_kept(tmp_path: Path) -> None:
    model = model_of(
        "g (float[2, 3, 4] x) => (float[2, 4] y) { [m] y = ReduceMean <axes = [1], keepdims = 0> (x) }", 12
    )
    model.metadata_props.add(key="author", value="someone")
    model.producer_name, model.doc_string = "maker", "a model"
    after = converted(model, 18, tmp_path)
    assert [(p.key, p.value) for p in after.metadata_props] == [("author", "someone")]
    assert (after.producer_name, after.doc_string) == ("maker", "a model")


# ------------------------------------------------------------------------------------------------------ what is refused


def test_all_nodes_that_cannot_be_converted_are_told_at_once(tmp_path: Path) -> None:
    text = """g (float[2, 3, 4] x, int64[1] a) => (float[2, 3, 4] y) {
       [one] r = ReduceMax (x, a)
       [two] q = ReduceMin (x, a)
       [three] p = Sub (r, q)
       [four] y = Add (x, p)
    }"""
    found = refusal(model_of(text, 18), 13, tmp_path)
    assert [node for node, _ in found] == ["one", "two"]
    assert all("computed at run time; opset 13 needs it constant" in message for _, message in found)


def test_a_refusal_says_which_type_and_since_when(tmp_path: Path) -> None:
    text = "g (bfloat16[2, 3] x) => (bfloat16[2, 3] y) { [m] y = Gather (x, i) }"
    model = model_of(text, 13)
    model.graph.initializer.append(numpy_helper.from_array(np.array([0, 1]), "i"))
    [(node, message)] = refusal(model, 11, tmp_path)
    assert node == "m" and "bf16 is not admitted by Gather before opset 13 (as data)" in message


def test_a_refusal_tells_what_the_body_lacks(tmp_path: Path) -> None:
    text = "g (float[3, 5] x, int64[3] t) => (float l) { [loss] l = SoftmaxCrossEntropyLoss (x, t) }"
    [(node, message)] = refusal(model_of(text, 13), 9, tmp_path)
    assert node == "loss" and "new at opset 12" in message and "GatherElements is new at opset 11" in message


@pytest.mark.parametrize("text", ["99", "6", "0", "x", "my.domain=3", "ai.onnx.ml=77", ""])
def test_versions_that_do_not_exist(text: str) -> None:
    with pytest.raises(UsageFault):
        wanted_versions((text,))


def test_versions_by_domain() -> None:
    assert wanted_versions(("17", "ai.onnx.ml=3")) == {"": 17, "ai.onnx.ml": 3}
    assert wanted_versions(("ai.onnx=13",)) == {"": 13}
    with pytest.raises(UsageFault):
        wanted_versions(("17", "ai.onnx=13"))
    with pytest.raises(UsageFault):
        wanted_versions(())


def test_a_model_that_claims_an_opset_which_has_no_such_operator(tmp_path: Path) -> None:
    model = model_of("g (float[2, 3, 4] x) => (float[2, 3, 4] y) { [c] y = Celu (x) }", 9)
    [(node, message)] = refusal(model, 13, tmp_path)
    assert node == "c" and "Celu" in message and "9" in message


def test_an_ir_version_that_does_not_exist(tmp_path: Path) -> None:
    source = tmp_path / "model.onnx"
    onnx.save(old_model(), source)
    for version in (2, 99):
        with pytest.raises(UsageFault):
            convert_model(source, tmp_path / "out.onnx", 13, ir_version=version)


def test_bytes_in_bytes_out() -> None:
    model = model_of("g (float[2, 3, 4] x) => (float[2, 3, 1] y) { [m] y = ReduceMax <axes = [-1]> (x) }", 13)
    after = onnx.load_from_string(convert_bytes(model.SerializeToString(), 18))
    assert len(after.graph.node[0].input) == 2


def test_without_validation_the_report_says_so(tmp_path: Path) -> None:
    source = tmp_path / "model.onnx"
    onnx.save(old_model(), source)
    report = convert_model(source, tmp_path / "out.onnx", 13, Options(validate=False))
    assert not report.verdict.ran and report.verdict.text == "not validated"


def test_a_deny_of_the_rules_speaks_first(tmp_path: Path) -> None:
    rules = tmp_path / "mine.rules"
    rules.write_text(
        "opset ai.onnx 21\ntable target(domain: str, version: int)\n"
        'deny no_trilu: "{y} keeps a triangle of {s}, and nobody does below opset {t}"\n'
        '    when Trilu@14(x, ..) as y, s == x.shape, target("ai.onnx", t), t < 14\n'
    )
    source = tmp_path / "model.onnx"
    onnx.save(model_of("g (float[3, 4] x) => (float[3, 4] y) { [tri] y = Trilu (x) }", 14), source)
    with pytest.raises(Refused) as caught:
        convert_model(source, tmp_path / "out.onnx", 13, Options(rules=(rules,)))
    assert "tri keeps a triangle of [3, 4], and nobody does below opset 13" in str(caught.value)


SCAN = """<ir_version: 8, opset_import: ["" : 9]>
g (float[4] s, float[3, 4] x) => (float[4] t, float[3, 4] y) {
   [scan] t, y = Scan <num_scan_inputs = 1, scan_input_directions = [1],
       body = b (float[4] a, float[4] e) => (float[4] n, float[4] o) { n = Add (a, e) o = Identity (n) }> (s, x)
}"""


def test_a_scan_gains_and_loses_its_batch_axis() -> None:
    model = onnx.parser.parse_model(SCAN)
    there = convert_bytes(model.SerializeToString(), 8)
    back = convert_bytes(there, 13)
    feeds = {"s": X[0, 0], "x": X[1]}
    want = run(model, feeds, reference=False)
    for step in (there, back):
        after = onnx.load_from_string(step)
        onnx.checker.check_model(after, full_check=True)
        for name, value in run(after, feeds, reference=False).items():
            np.testing.assert_allclose(value, want[name], rtol=1e-6)
    assert [n.op_type for n in onnx.load_from_string(there).graph.node].count("Scan") == 1
