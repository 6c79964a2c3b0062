"""Every fault of a model is found in one run, with a code, the node or value, and a way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest
from graph_models import HEAD, IF_MODEL, parse, write

from gerules.errors import Refused
from gerules.graph.check import check_proto
from gerules.graph.io import check_model, load_model, source_of
from gerules.graph.order import cycle_free_order, find_cycle, sorted_graphs

Change = Callable[[onnx.ModelProto], None]
PLAIN = "g (float[N,4] x) => (float[N,4] y) { h = Relu(x) y = Neg(h) }"


def faults(proto: onnx.ModelProto, severity: str = "error") -> list[tuple[str, str | None]]:
    return [(d.code, d.node) for d in check_proto(proto) if d.severity == severity]


def set_opset(version: int) -> Change:
    def change(proto: onnx.ModelProto) -> None:
        proto.opset_import[0].version = version

    return change


def with_initializer(name: str, array: np.ndarray) -> Change:
    return lambda proto: proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))


def twice_imported(proto: onnx.ModelProto) -> None:
    proto.opset_import.add(domain="", version=11)


def no_import(proto: onnx.ModelProto) -> None:
    del proto.opset_import[:]


def short_initializer(proto: onnx.ModelProto) -> None:
    proto.graph.initializer.add(name="w", data_type=1, dims=[4], raw_data=b"\0" * 12)


def nameless_initializer(proto: onnx.ModelProto) -> None:
    proto.graph.initializer.add(data_type=1, dims=[1], raw_data=b"\0" * 4)


def odd_initializer_type(proto: onnx.ModelProto) -> None:
    proto.graph.initializer.add(name="w", data_type=77, dims=[1])


def empty_operand(proto: onnx.ModelProto) -> None:
    proto.graph.node[0].input[0] = ""


def attribute_twice(proto: onnx.ModelProto) -> None:
    proto.graph.node[0].attribute.add().CopyFrom(proto.graph.node[0].attribute[0])


@pytest.mark.parametrize(
    ("text", "change", "expected"),
    [
        (PLAIN, None, []),
        (IF_MODEL, None, []),
        # names
        ("g (float[N] x) => (float[N] y) { y = Add(x, z) }", None, [("GR321", "Add_0")]),
        ("g (float[N] x) => (float[N] y) { y = Relu(x) y = Neg(x) }", None, [("GR322", "Neg_1")]),
        ("g (float[N] x) => (float[N] y) { x = Relu(x) y = Neg(x) }", None, [("GR322", "Relu_0")]),
        ("g (float[N] x) => (float[N] y) { h = Relu(x) }", None, [("GR335", None)]),
        (PLAIN, nameless_initializer, [("GR336", None)]),
        (PLAIN, with_initializer("h", np.zeros(4, np.float32)), [("GR322", "Relu_0")]),
        (IF_MODEL.replace("t = Add(h, h)", "x = Add(h, h) t = Neg(x)"), None, [("GR323", "Add_0")]),
        (IF_MODEL.replace("(float[N,4] t) {", "(float[N,4] h) {"), None, [("GR335", None)]),
        (IF_MODEL.replace("Add(h, h)", "Add(h, nowhere)"), None, [("GR321", "Add_0")]),
        # what one branch defines the other does not see
        (IF_MODEL.replace("Add(h, h)", "Add(h, e0)"), None, [("GR321", "Add_0")]),
        # order
        ("g (float[N] x) => (float[N] y) { h = Add(x, y) y = Neg(h) }", None, [("GR320", "Neg_1")]),
        ("g (float[N] x) => (float[N] y) { y = Add(x, y) }", None, [("GR320", "Add_0")]),
        ("g (float[N] x) => (float[N] y) { y = Neg(h) h = Relu(x) }", None, []),
        # opsets and operators
        (PLAIN, no_import, [("GR326", "Relu_0")]),
        (PLAIN, twice_imported, [("GR326", None)]),
        (PLAIN, set_opset(99), [("GR330", None)]),
        (PLAIN, set_opset(0), [("GR330", None)]),
        ("g (float[N] x) => (float[N] y) { y = Rellu(x) }", None, [("GR325", "Rellu_0")]),
        ("g (float[N] x) => (float[N] y) { y = Gelu(x) }", None, [("GR325", "Gelu_0")]),
        ("g (float[N] x, float[1] s) => (float[N] y) { y = Upsample(x, s) }", None, [("GR325", "Upsample_0")]),
        ("g (float[N] x) => (float[N] y) { y = other.Op(x) }", None, [("GR326", "Op_0")]),
        # operands and attributes
        ("g (float[N] x) => (float[N] y) { y = Add(x) }", None, [("GR327", "Add_0")]),
        ("g (float[N] x) => (float[N] y) { y = Relu(x, x) }", None, [("GR327", "Relu_0")]),
        ("g (float[N] x) => (float[N] y) { y, z = Relu(x) }", None, [("GR327", "Relu_0")]),
        ("g (float[N] x) => (float[N] y) { y = Concat <axis = 0> () }", None, [("GR327", "Concat_0")]),
        (PLAIN, empty_operand, [("GR327", "Relu_0")]),
        ("g (float[N] x) => (float[N] y) { y = Softmax <axes = 1> (x) }", None, [("GR328", "Softmax_0")]),
        ("g (float[N] x) => (float[N] y) { y = Softmax <axis = 1.0> (x) }", None, [("GR328", "Softmax_0")]),
        ("g (float[N] x) => (float[N] y) { y = Softmax <axis = 0> (x) }", attribute_twice, [("GR328", "Softmax_0")]),
        ("g (float[N] x) => (float[N] y) { y = Cast(x) }", None, [("GR328", "Cast_0")]),
        (
            "g (float[4,4] x, int64[2,1] i) => (float[4] y) { y = GatherND <batch_dims = -1> (x, i) }",
            None,
            [("GR328", "GatherND_0")],
        ),
        # element types
        ("g (string[N] x) => (string[N] y) { y = Relu(x) }", None, [("GR324", "Relu_0")]),
        ("g (float[N] x, double[N] z) => (float[N] y) { y = Add(x, z) }", None, [("GR324", "Add_0")]),
        ("g (float[N] x) => (float[N] y) { h = Cast <to = 10> (x) y = Add(x, h) }", None, [("GR324", "Add_1")]),
        ("g (float[N] x) => (double[N] y) { y = Relu(x) }", None, [("GR324", "y")]),
        (
            "g (float[N] x) => (float[N] y) { c = Constant <value = int64[1] {1}> () y = Add(x, c) }",
            None,
            [("GR324", "Add_1")],
        ),
        (IF_MODEL.replace("e0 = Neg(h)", "d = Cast <to = 11> (h) e0 = Add(h, d)"), None, [("GR324", "Add_1")]),
        (PLAIN, short_initializer, [("GR337", "w")]),
        (PLAIN, odd_initializer_type, [("GR324", "w")]),
        (
            "g (float[N] x, float[4] w) => (float[N] y) { y = Relu(x) }",
            with_initializer("w", np.zeros(4)),
            [("GR324", "w")],
        ),
    ],
)
def test_faults(text: str, change: Change | None, expected: list[tuple[str, str | None]]) -> None:
    proto = parse(text)
    if change is not None:
        change(proto)
    assert faults(proto) == expected
    assert all(diagnostic.hint for diagnostic in check_proto(proto))


def test_all_faults_are_found_in_one_run() -> None:
    proto = parse(
        "g (float[N] x, double[N] z) => (float[N] y) { a = Rellu(x) b = Add(x, z) c = Add(x, nowhere) y = Add(x) }"
    )
    assert sorted(code for code, _ in faults(proto)) == ["GR321", "GR324", "GR325", "GR327"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("g (float[N] x) => (float[N] y) { y = Rellu(x) }", "did you mean Relu?"),
        ("g (float[N] x) => (float[N] y) { y = Gelu(x) }", "from opset 20 on"),
        ("g (float[N] x, float[1] s) => (float[N] y) { y = Upsample(x, s) }", "removed"),
        ("g (float[N] mask, float[N] x) => (float[N] y) { y = Add(x, masq) }", "did you mean 'mask'?"),
        ("g (float[N] x) => (float[N] y) { y = Softmax <axes = 1> (x) }", "did you mean 'axis'?"),
    ],
)
def test_hints(text: str, part: str) -> None:
    (found,) = [d for d in check_proto(parse(text)) if d.severity == "error"]
    assert found.hint is not None and part in found.hint


def test_functions_are_checked() -> None:
    head = '<ir_version: 8, opset_import: ["" : 17, "local" : 1]>'
    proto = parse("g (float[N] x) => (float[N] y) { y = local.F(x) }", head)
    body = [onnx.helper.make_node("Rellu", ["a"], ["b"], name="inside"), onnx.helper.make_node("Neg", ["q"], ["c"])]
    opsets = [onnx.helper.make_opsetid("", 17)]
    proto.functions.append(onnx.helper.make_function("local", "F", ["a"], ["d"], body, opsets))
    assert sorted(faults(proto), key=str) == [("GR321", "Neg_1"), ("GR325", "inside"), ("GR335", "d")]


def test_foreign_operators_are_nobodys_business() -> None:
    head = '<ir_version: 8, opset_import: ["" : 17, "com.example" : 7]>'
    proto = parse("g (float[N] x) => (float[N] y) { y = com.example.Op <anything = 3> (x, x, x) }", head)
    assert faults(proto) == []


def test_negative_extents_warn() -> None:
    proto = parse(PLAIN)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    assert faults(proto) == []
    assert faults(proto, "warning") == [("GR329", "x")]


def test_load_refuses_with_every_fault(tmp_path: Path) -> None:
    path = write(parse("g (float[N] x) => (float[N] y) { a = Rellu(x) y = Add(x, nowhere) }"), tmp_path)
    with pytest.raises(Refused) as caught:
        load_model(path)
    assert {d.code for d in caught.value.diagnostics} == {"GR321", "GR325"}
    assert all(d.file == str(path) for d in caught.value.diagnostics)


def test_check_model_keeps_the_warnings_of_loading(tmp_path: Path) -> None:
    proto = parse("g (float[N] x) => (float[N] y) { y = Neg(h) h = Relu(x) }")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    model = load_model(write(proto, tmp_path))
    assert [node.op_type for node in model.graph] == ["Relu", "Neg"]
    assert [d.code for d in check_model(model)] == ["GR329", "GR334"]
    source = source_of(model)
    assert source is not None and source.original.graph.node[0].op_type == "Neg"


def test_check_model_sees_what_was_done_to_the_model(tmp_path: Path) -> None:
    model = load_model(write(parse(PLAIN), tmp_path))
    assert check_model(model) == []
    model.graph.node(0).op_type = "Rellu"
    assert [d.code for d in check_model(model)] == ["GR325"]


# -------------------------------------------------------------------------------------------------------- order


def test_sorting_is_stable_and_looks_into_bodies() -> None:
    nodes = list(parse(IF_MODEL).graph.node)
    assert cycle_free_order(nodes) == [0, 1] and find_cycle(nodes) == []
    assert cycle_free_order(nodes[::-1]) == [1, 0]
    proto = parse(IF_MODEL)
    assert sorted_graphs(proto) == (proto, False)
    reverse = [onnx.NodeProto.FromString(n.SerializeToString()) for n in reversed(proto.graph.node)]
    del proto.graph.node[:]
    proto.graph.node.extend(reverse)
    made, moved = sorted_graphs(proto)
    assert moved and [node.op_type for node in made.graph.node] == ["Relu", "If"]
    assert [node.op_type for node in proto.graph.node] == ["If", "Relu"]
    assert faults(proto) == []


def test_a_cycle_through_a_body() -> None:
    proto = parse(IF_MODEL.replace("h = Relu(x)", "h = Relu(y)"))
    ((code, node),) = faults(proto)
    assert code == "GR320" and node in ("Relu_0", "If_1")


def test_ten_thousand_nodes_in_reverse() -> None:
    proto = parse("g (float[N] x) => (float[N] v10000) { }", HEAD)
    for k in range(10000, 0, -1):
        proto.graph.node.append(onnx.helper.make_node("Neg", ["x" if k == 1 else f"v{k - 1}"], [f"v{k}"]))
    assert faults(proto) == []
    made, moved = sorted_graphs(proto)
    assert moved and made.graph.node[0].output[0] == "v1"
    proto.graph.node[9999].input[0] = "v10000"
    assert [code for code, _ in faults(proto)] == ["GR320"]
