"""Files of partitions, case by case: borders, channels, what is copied, what is refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from partition_models import assert_pieces_equal_whole, clusters_of, model_of, run, run_pieces

from gerules.errors import InternalFault, Refused
from gerules.graph.io import load_model
from gerules.partition.merge import merge_files
from gerules.partition.protos import self_contained, to_bytes
from gerules.partition.split import node_ranges, split

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
X = np.arange(4, dtype=np.float32) - 1.5


def pieces(text, placement, **options):
    model = model_of(HEAD + text)
    return model, split(model, clusters_of(model, placement), **options)


def faces(partitions):
    return [(item.file, item.inputs, item.outputs) for item in partitions.items]


def assert_comes_back(model, placement):
    partitions = split(model, clusters_of(model, placement), border_nodes=True)
    assert merge_files(partitions.files()) == to_bytes(model)


# ------------------------------------------------------------------ borders


def test_a_value_used_twice_by_one_cluster_is_one_channel():
    model, found = pieces(
        "g (float[4] x) => (float[4] z) { [a] p = Relu(x) [b] q = Exp(p) [c] r = Neg(p) [d] z = Add(q, r) }",
        {"a": "Npu", "b": "Cpu", "c": "Cpu", "d": "Cpu"},
    )
    assert faces(found) == [("000_Npu.onnx", ("x",), ("p",)), ("001_Cpu.onnx", ("p",), ("z",))]
    (channel,) = found.channels
    assert (channel.value, channel.source, channel.target, channel.bytes) == ("p", 0, 1, 16)
    assert (channel.parent_op_type, channel.parent_node_name) == ("Relu", "a")
    assert (channel.peer_index, channel.placeholder_anchor, channel.end_anchor) == (0, 0, 0)
    assert_pieces_equal_whole(model, found, {"x": X})


def test_one_pair_for_each_consuming_cluster_numbered_by_position_and_consumer():
    model, found = pieces(
        "g (float[4] x) => (float[4] z, float[4] o) {"
        "[a] p, q = Split<axis=0>(x) [b] r = Concat<axis=0>(q, p) [c] s = Concat<axis=0>(p, p)"
        "[d] z = Add(s, r) [e] o = Neg(r) }",
        {"a": "A", "b": "B", "c": "C", "d": "A", "e": "C"},
    )
    listed = [(c.peer_index, c.value, c.source, c.target, c.placeholder_anchor, c.end_anchor) for c in found.channels]
    assert listed == [
        (0, "p", 0, 1, 0, 1),
        (1, "p", 0, 2, 0, 0),
        (2, "q", 0, 1, 1, 0),
        (3, "r", 1, 3, 0, 1),
        (4, "r", 1, 4, 0, 0),
        (5, "s", 2, 3, 0, 0),
    ]
    assert_pieces_equal_whole(model, found, {"x": X})


def test_an_absent_operand_stays_absent_and_counts_in_anchors():
    model, found = pieces(
        'g (float[4] x, float h) => (float[4] z) { [m] l = Neg(h) [a] z = Clip(x, "", l) }', {"m": "A", "a": "B"}
    )
    assert found.channels[0].end_anchor == 2
    assert list(found.items[1].model.graph.node[0].input) == ["x", "", "l"]
    assert found.items[1].inputs == ("x", "l")
    assert_pieces_equal_whole(model, found, {"x": X, "h": np.array(-1.0, np.float32)})


def test_an_output_that_is_read_too_leaves_once():
    model, found = pieces(
        "g (float[4] x) => (float[4] p, float[4] z) { [a] p = Relu(x) [b] z = Exp(p) }", {"a": "A", "b": "B"}
    )
    assert faces(found) == [("000_A.onnx", ("x",), ("p",)), ("001_B.onnx", ("p",), ("z",))]
    assert_pieces_equal_whole(model, found, {"x": X})
    assert_comes_back(model, {"a": "A", "b": "B"})


def test_an_input_passed_straight_to_an_output_needs_no_file():
    model, found = pieces("g (float[4] x, float[4] y) => (float[4] z, float[4] y) { [a] z = Relu(x) }", {"a": "A"})
    assert faces(found) == [("000_A.onnx", ("x",), ("z",))]
    assert set(run_pieces(found, {"x": X, "y": X})) == {"x", "y", "z"}
    assert_comes_back(model, {"a": "A"})


@pytest.mark.parametrize(
    ("body", "giver"), [("[a] p = Relu(x) [b] z = Add(p, w)", 1), ("[a] p = Relu(x) [b] z = Exp(p)", 0)]
)
def test_an_initializer_that_is_an_output_is_given_by_the_first_that_holds_it(body, giver):
    model, found = pieces(
        f"g (float[4] x) => (float[4] z, float[4] w) <float[4] w = {{1.0, 2.0, 3.0, 4.0}}> {{ {body} }}",
        {"a": "A", "b": "B"},
    )
    assert "w" in found.items[giver].outputs
    assert sum("w" in item.outputs for item in found.items) == 1
    for item in found.items:
        onnx.checker.check_model(item.model, full_check=True)
    assert_pieces_equal_whole(model, found, {"x": X})
    assert_comes_back(model, {"a": "A", "b": "B"})


def test_what_bodies_capture_comes_in_and_counts_behind_the_operands():
    model, found = pieces(
        "g (float[4] x, bool c) => (float[4] z) <float[4] w = {1.0, 2.0, 3.0, 4.0}> {"
        "[a] p = Relu(x) [h] q = Exp(p) [k] k = Constant<value_float=2.0>()"
        "[i] z = If(c) <then_branch = t () => (float[4] r) { [t1] r = Add(p, q) },"
        " else_branch = e () => (float[4] s) { [e1] u = Mul(q, w) [e2] s = Mul(u, k) }> }",
        {"a": "A", "h": "B", "i": "C"},
    )
    assert found.items[2].inputs == ("c", "p", "q")
    assert {(c.value, c.target): c.end_anchor for c in found.channels} == {
        ("p", 1): 0, ("p", 2): 1, ("q", 2): 2
    }  # fmt: skip
    assert [t.name for t in found.items[2].model.graph.initializer] == ["w"]
    assert [n.name for n in found.items[2].model.graph.node] == ["k", "i"]
    for flag in (True, False):
        assert_pieces_equal_whole(model, found, {"x": X, "c": np.array(flag)})
    assert_comes_back(model, {"a": "A", "h": "B", "i": "C"})


def test_a_loop_with_its_body_is_one_node():
    model, found = pieces(
        "g (float[4] x, int64 n, bool c) => (float[4] z) {"
        "[a] p = Relu(x)"
        "[l] y = Loop(n, c, x) <body = b (int64 i, bool d, float[4] s) => (bool e, float[4] t)"
        " { [b1] e = Identity(d) [b2] t = Add(s, p) }> [o] z = Exp(y) }",
        {"a": "A", "l": "B", "o": "A"},
    )
    assert [item.inputs for item in found.items] == [("x",), ("x", "n", "c", "p"), ("y",)]
    assert_pieces_equal_whole(model, found, {"x": X, "n": np.array(3), "c": np.array(True)})


def test_sequences_cross_borders():
    _, found = pieces(
        "g (float[4] x) => (float[4] z) { [a] s = SequenceConstruct(x, x)"
        "[k] k = Constant<value = int64 {1}>() [b] z = SequenceAt(s, k) }",
        {"a": "A", "b": "B"},
    )
    assert found.channels[0].bytes is None
    assert run_pieces(found, {"x": X})["z"].tolist() == X.tolist()


# ------------------------------------------------------------------ what goes along


def test_each_file_has_the_functions_imports_and_metadata_that_it_needs():
    model = model_of(
        '<ir_version: 9, opset_import: ["" : 17, "local" : 1, "unused" : 3], producer_name: "somebody">'
        "g (float[4] x) => (float[4] z) { [a] p = local.Outer(x) [b] z = local.Other(p) }"
        '<domain: "local", opset_import: ["" : 17]> Other (a) => (b) { b = Neg(a) }'
        '<domain: "local", opset_import: ["" : 17]> Inner (a) => (b) { b = Exp(a) }'
        '<domain: "local", opset_import: ["" : 17, "local" : 1]> Outer (a) => (b) { b = local.Inner(a) }'
    )
    model.graph.value_info.append(helper.make_tensor_value_info("p", TensorProto.FLOAT, [4]))
    helper.set_model_props(model, {"author": "nobody"})
    model.graph.node[0].metadata_props.add(key="note", value="kept")
    found = split(model, clusters_of(model, {"a": "A", "b": "B"}))
    assert [[f.name for f in item.model.functions] for item in found.items] == [["Inner", "Outer"], ["Other"]]
    for item in found.items:
        assert {o.domain: o.version for o in item.model.opset_import} == {"": 17, "local": 1, "unused": 3}
        assert item.model.producer_name == "somebody"
        assert item.model.ir_version == 9
        assert [(p.key, p.value) for p in item.model.metadata_props] == [("author", "nobody")]
    assert found.items[0].model.graph.node[0].metadata_props[0].value == "kept"
    assert_pieces_equal_whole(model, found, {"x": X})


def test_an_initializer_that_is_an_input_too_can_still_be_given():
    weight = numpy_helper.from_array(np.ones(4, np.float32), "w")
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in ("x", "w")]
    nodes = [helper.make_node("Relu", ["x"], ["p"], name="a"), helper.make_node("Add", ["p", "w"], ["z"], name="b")]
    graph = helper.make_graph(nodes, "g", infos, [helper.make_tensor_value_info("z", TensorProto.FLOAT, [4])], [weight])
    for version in (3, 8):
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=version)
        found = split(model, clusters_of(model, {"a": "A", "b": "B"}))
        assert found.items[1].inputs == ("p",)
        assert [v.name for v in found.items[1].model.graph.input] == ["p", "w"]
        for item in found.items:
            onnx.checker.check_model(item.model, full_check=True)
        assert_pieces_equal_whole(model, found, {"x": X})
        assert_comes_back(model, {"a": "A", "b": "B"})
    given = run(found.items[1].model, {"p": X, "w": X}, ["z"])["z"]
    np.testing.assert_array_equal(given, X + X)


def test_sparse_initializers_go_along():
    model, _ = pieces("g (float[4] x) => (float[4] z) { [a] p = Relu(x) [b] z = Add(p, p) }", {"a": "A", "b": "B"})
    values = numpy_helper.from_array(np.array([2.0], np.float32), "w")
    indices = numpy_helper.from_array(np.array([1], np.int64), "w_indices")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    model.graph.node[1].input[1] = "w"
    found = split(model, clusters_of(model, {"a": "A", "b": "B"}))
    assert [len(item.model.graph.sparse_initializer) for item in found.items] == [0, 1]
    assert_comes_back(model, {"a": "A", "b": "B"})


def test_external_data_is_read_in(tmp_path):
    weight = np.arange(300, dtype=np.float32)
    text = HEAD + "g (float[300] x) => (float[300] z) { [a] z = Add(x, w) }"
    model = model_of(text)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=0)
    loaded = load_model(path)
    proto = self_contained(loaded)
    np.testing.assert_array_equal(numpy_helper.to_array(proto.graph.initializer[0]), weight)
    partitions = split(loaded, clusters_of(proto, {"a": "A"}), border_nodes=True)
    assert merge_files(partitions.files()) == to_bytes(proto)
    raw = onnx.load(path, load_external_data=False)
    with pytest.raises(Refused, match="GR656"):
        split(raw, clusters_of(proto, {"a": "A"}))


# ------------------------------------------------------------------ types and sizes


def test_types_of_borders_are_written_declared_given_or_inferred():
    text = "g (float[N, 3] x) => (float[N, 3] z) { [a] p = Relu(x) [b] z = Exp(p) }"
    _, found = pieces(text, {"a": "A", "b": "B"})
    border = found.items[1].model.graph.input[0]
    assert border.type.tensor_type.elem_type == TensorProto.FLOAT
    assert [d.dim_param or d.dim_value for d in border.type.tensor_type.shape.dim] == ["N", 3]
    assert found.channels[0].bytes is None
    _, found = pieces(text, {"a": "A", "b": "B"}, sizes={"p": 96})
    assert found.channels[0].bytes == 96


FOREIGN = (
    '<ir_version: 8, opset_import: ["" : 17, "far" : 1]> g (float[4] x) => (float[4] z)'
    " { [a] p, q = far.Away(x) [b] r = far.Off(p) [c] z = far.Near(r, q) }"
)


def test_an_unknown_type_on_a_border_is_refused_by_name():
    model = model_of(FOREIGN)
    with pytest.raises(Refused) as caught:
        split(model, clusters_of(model, {"a": "A", "b": "B", "c": "A"}))
    assert [(d.code, d.node) for d in caught.value.diagnostics] == [("GR655", "p"), ("GR655", "q"), ("GR655", "r")]


def test_a_given_type_is_enough():
    model = model_of(FOREIGN)
    kind = helper.make_tensor_type_proto(TensorProto.INT64, [2, "N"])
    found = split(model, clusters_of(model, {"a": "A", "b": "B", "c": "A"}), types=dict.fromkeys("pqr", kind))
    assert found.items[1].model.graph.input[0].type == kind


def test_unknown_types_inside_a_cluster_are_nobodys_business():
    model = model_of(FOREIGN)
    assert len(split(model, clusters_of(model, dict.fromkeys("abc", "A"))).items) == 1


# ------------------------------------------------------------------ border nodes


def test_border_nodes_say_who_their_peers_are():
    model, found = pieces(
        "g (float[4] x) => (float[4] z, float[4] o) {"
        "[a] p, q = Split<axis=0>(x) [b] z = Concat<axis=0>(q, p) [c] o = Concat<axis=0>(p, q) [d] e = Exp(q) }",
        {"a": "A", "b": "B", "c": "A", "d": "B"},
        border_nodes=True,
    )
    first, second = found.items[0].model, found.items[1].model
    assert {o.domain: o.version for o in second.opset_import} == {"": 17, "gerules": 1}
    assert list(second.graph.input) == []
    assert [v.name for v in first.graph.output] == ["o"]
    ends = [n for n in first.graph.node if n.op_type == "End"]
    placeholders = [n for n in second.graph.node if n.op_type == "PlaceHolder"]

    def said(node):
        return {a.name: helper.get_attribute_value(a) for a in node.attribute}

    assert [(list(n.input), list(n.output)) for n in ends] == [(["p"], []), (["q"], []), (["q"], [])]
    assert [said(n) for n in ends] == [
        {"peerIndex": 0, "parentOpType": b"Split", "parentNodeName": b"a", "anchorIndex": 1},
        {"peerIndex": 1, "parentOpType": b"Split", "parentNodeName": b"a", "anchorIndex": 0},
        {"peerIndex": 2, "parentOpType": b"Split", "parentNodeName": b"a", "anchorIndex": 0},
    ]
    assert [(list(n.input), list(n.output)) for n in placeholders] == [([], ["p"]), ([], ["q"])]
    assert [said(n)["anchorIndex"] for n in placeholders] == [0, 1]
    assert {n.domain for n in ends + placeholders} == {"gerules"}
    for item in found.items:
        onnx.checker.check_model(item.model)
        assert {n.output[0] for n in item.model.graph.node if n.op_type == "PlaceHolder"} <= {
            v.name for v in item.model.graph.value_info if v.type.tensor_type.elem_type == TensorProto.FLOAT
        }
    assert merge_files(found.files()) == to_bytes(model)


def test_names_of_border_nodes_are_their_own():
    model, found = pieces(
        "g (float[4] x) => (float[4] z) { [End_0] p = Relu(x) [PlaceHolder_0] z = Exp(p) }",
        {"End_0": "A", "PlaceHolder_0": "B"},
        border_nodes=True,
    )
    assert [n.name for item in found.items for n in item.model.graph.node] == [
        "End_0", "_End_0", "_PlaceHolder_0", "PlaceHolder_0"
    ]  # fmt: skip
    assert merge_files(found.files()) == to_bytes(model)


def test_a_graph_without_nodes_comes_back():
    model = model_of(HEAD + "g (float[4] x) => (float[4] x) <float w = {1.0}> { }")
    assert split(model, clusters_of(model, {})).items == ()
    assert_comes_back(model, {})


def test_a_piece_is_not_split_again():
    _, found = pieces(
        "g (float[4] x) => (float[4] z) { [a] p = Relu(x) [b] z = Exp(p) }", {"a": "A", "b": "B"}, border_nodes=True
    )
    piece = found.items[0].model
    with pytest.raises(Refused, match="GR656"):
        split(piece, clusters_of(piece, dict.fromkeys((n.name for n in piece.graph.node), "A")))


def test_clusters_of_another_model_are_our_fault():
    model, _ = pieces("g (float[4] x) => (float[4] z) { [a] z = Relu(x) }", {"a": "A"})
    other = model_of(HEAD + "g (float[4] x) => (float[4] z) { [b] z = Relu(x) }")
    with pytest.raises(InternalFault):
        split(model, clusters_of(other, {"b": "A"}))


# ------------------------------------------------------------------ names of files


@pytest.mark.parametrize(
    ("engine", "file"),
    [("AiCore", "000_AiCore.onnx"), ("My Engine/../x", "000_My_Engine_.._x.onnx"), ("Ä", "000__.onnx")],
)
def test_file_names_are_safe(engine, file):
    _, found = pieces("g (float[4] x) => (float[4] z) { [a] z = Relu(x) }", {"a": engine})
    assert [item.file for item in found.items] == [file]
    assert found.items[0].engine == engine


def test_file_names_sort_as_they_run_beyond_a_thousand():
    chain = "".join(f"[n{i}] v{i + 1} = Relu(v{i}) " for i in range(1001))
    _, found = pieces(f"g (float[4] v0) => (float[4] v1001) {{ {chain} }}", {f"n{i}": "AB"[i % 2] for i in range(1001)})
    names = [item.file for item in found.items]
    assert names == sorted(names)
    assert (names[0], names[-1]) == ("0000_A.onnx", "1000_A.onnx")


@pytest.mark.parametrize(
    ("positions", "text"), [([], ""), ([3], "3"), ([0, 1, 2, 5, 7, 8], "0-2,5,7-8"), ([4, 2, 3], "4,2-3")]
)
def test_ranges(positions, text):
    assert node_ranges(positions) == text
