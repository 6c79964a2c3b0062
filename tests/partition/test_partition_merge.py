"""Merging folders: what comes back, and what is refused with which words."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper
from partition_models import clusters_of, model_of, random_model, random_placement

from gerules.errors import Refused
from gerules.partition.merge import merge_files, merge_folder, merge_model
from gerules.partition.output import write_folder
from gerules.partition.protos import to_bytes
from gerules.partition.split import MODEL_KEY, NODES_KEY, PART_KEY, SKELETON_KEY, split

TEXT = (
    '<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] z) <float[4] w = {1.0, 2.0, 3.0, 4.0}>'
    " { [a] p = Relu(x) [k] k = Constant<value_float=2.0>() [b] q = Mul(p, k) [c] r = Add(q, w) [d] z = Mul(r, k) }"
)
PLACES = {"a": "A", "b": "A", "c": "B", "d": "A"}


def files_of(text=TEXT, border_nodes=True):
    model = model_of(text)
    return model, split(model, clusters_of(model, PLACES), border_nodes=border_nodes).files()


def edited(files, name, edit):
    """`files` with one of them changed by `edit`, a function of its model."""
    model = onnx.load_model_from_string(files[name])
    edit(model)
    return files | {name: model.SerializeToString()}


def meta(model, key):
    return next(p for p in model.metadata_props if p.key == key)


def refusal(files):
    with pytest.raises(Refused) as caught:
        merge_files(files)
    return caught.value.diagnostics[0]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("inner", ["partitions/", ""])
def test_a_folder_gives_the_model_back(tmp_path, seed, inner):
    model = random_model(seed, 30, bool(seed % 2))
    found = split(model, clusters_of(model, random_placement(model, seed, ("A", "B"))), border_nodes=True)
    write_folder(tmp_path / "out", {inner + name: data for name, data in found.files().items()})
    (tmp_path / "out" / "manifest.json").write_text("not looked at")
    (tmp_path / "out" / "model.onnx").write_text("not looked at")
    assert merge_folder(tmp_path / "out") == to_bytes(model)
    assert len(merge_model(tmp_path / "out").graph) == len(model.graph.node)


def test_every_field_of_the_model_comes_back():
    model = model_of(TEXT)
    model.producer_name, model.producer_version, model.domain = "p", "1", ""
    model.model_version, model.doc_string = 7, "doc"
    model.ir_version = 11
    model.graph.doc_string = "graph"
    model.graph.metadata_props.add(key="g", value="1")
    model.graph.node[0].doc_string = ""
    model.graph.node[0].metadata_props.add(key="n", value="1")
    model.graph.node[1].attribute[0].doc_string = "attribute"
    model.metadata_props.add(key=MODEL_KEY, value="of an earlier split")
    model.metadata_props.add(key="m", value="1")
    model.configuration.add(name="target", num_devices=2, device=["A", "B"])
    model.graph.node[0].device_configurations.add(configuration_id="target", pipeline_stage=1)
    training = model.training_info.add()
    training.algorithm.name = "algorithm"
    model.graph.value_info.append(helper.make_tensor_value_info("nowhere", onnx.TensorProto.FLOAT, None))
    model.graph.value_info.append(helper.make_tensor_value_info("q", onnx.TensorProto.FLOAT, ["N"]))
    model.graph.initializer.add(name="idle", data_type=1, dims=[1], float_data=[1.0])
    found = split(model, clusters_of(model, PLACES), border_nodes=True)
    assert merge_files(found.files()) == to_bytes(model)
    assert [c.name for c in found.items[0].model.configuration] == ["target"]


def test_a_constant_in_two_files_is_one_node_again():
    model, files = files_of()
    held = [sum(n.op_type == "Constant" for n in onnx.load_model_from_string(f).graph.node) for f in files.values()]
    assert held == [1, 0, 1]
    assert merge_files(files) == to_bytes(model)


# ------------------------------------------------------------------ refusals


def test_a_missing_file_is_named_by_number():
    _, files = files_of()
    for number, name in enumerate(sorted(files)):
        found = refusal({n: d for n, d in files.items() if n != name})
        assert found.code == "GR658"
        assert f"of 3 partitions these are missing: {number:03d}" in found.message


def test_a_file_of_another_model():
    _, files = files_of()
    _, others = files_of(TEXT.replace("2.0>", "3.0>"))
    found = refusal(files | {"001_B.onnx": others["001_B.onnx"]})
    assert (found.code, found.file) == ("GR657", "001_B.onnx")
    assert "another model" in found.message


def test_one_partition_twice():
    _, files = files_of()
    found = refusal(files | {"copy.onnx": files["001_B.onnx"]})
    assert found.code == "GR657"
    assert "copy.onnx and 001_B.onnx are the same partition" in found.message


def test_plain_partitions_cannot_be_merged():
    _, files = files_of(border_nodes=False)
    found = refusal(files)
    assert found.code == "GR657"
    assert "--border-nodes" in (found.hint or "")


def test_a_file_that_is_cut_off():
    _, files = files_of()
    found = refusal(files | {"001_B.onnx": files["001_B.onnx"][:-7]})
    assert (found.code, found.file) == ("GR657", "001_B.onnx")


@pytest.mark.parametrize("kind", ["PlaceHolder", "End"])
def test_a_missing_peer_is_named_by_its_value(kind):
    _, files = files_of()

    def edit(model):
        node = next(n for n in model.graph.node if n.op_type == kind)
        model.graph.node.remove(node)

    found = refusal(edited(files, "001_B.onnx", edit))
    assert (found.code, found.node) == ("GR658", "q" if kind == "PlaceHolder" else "r")
    assert f"has no {kind}" in found.message


def change_peer(model):
    next(a for n in model.graph.node for a in n.attribute if a.name == "peerIndex").i = 1


def change_value(model):
    node = next(n for n in model.graph.node if n.op_type == "PlaceHolder")
    node.output[0] = "other"


def drop_attribute(model):
    node = next(n for n in model.graph.node if n.op_type == "PlaceHolder")
    del node.attribute[:]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (change_peer, "has no PlaceHolder"),
        (change_value, "different values"),
        (drop_attribute, "lacks an attribute"),
    ],
)
def test_peers_that_do_not_fit(edit, words):
    _, files = files_of()
    with pytest.raises(Refused) as caught:
        merge_files(edited(files, "001_B.onnx", edit))
    assert {d.code for d in caught.value.diagnostics} == {"GR658"}
    assert any(words in d.message for d in caught.value.diagnostics)


def test_two_ends_of_one_number():
    _, files = files_of()

    def twice(model):
        model.graph.node.append(next(n for n in model.graph.node if n.op_type == "End"))

    with pytest.raises(Refused, match="two End nodes have peerIndex 0"):
        merge_files(edited(files, "000_A.onnx", twice))


def lose_node(model):
    model.graph.node.remove(next(n for n in model.graph.node if n.op_type == "Mul"))


def change_constant(model):
    next(n for n in model.graph.node if n.op_type == "Constant").attribute[0].f = 9.0


def change_operator(model):
    next(n for n in model.graph.node if n.op_type == "Mul").op_type = "Div"


def spoil_place(model):
    meta(model, PART_KEY).value = "nowhere"


def spoil_skeleton(model):
    meta(model, SKELETON_KEY).value = "!"


def shift_nodes(model):
    meta(model, NODES_KEY).value = "1-3"


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lose_node, "has 2 nodes besides its borders and says that it has 3"),
        (change_constant, "is one thing in 000_A.onnx and another in 002_A.onnx"),
        (change_operator, "were changed"),
        (spoil_place, "nonsense of its place"),
        (spoil_skeleton, "lost what it carries"),
        (shift_nodes, "is one thing in"),
    ],
)
def test_files_that_were_changed(edit, words):
    _, files = files_of()
    found = refusal(edited(files, "000_A.onnx", edit))
    assert found.code == "GR657"
    assert words in found.message


@pytest.mark.parametrize("content", [None, {}, {"model.onnx": b""}, {"notes.txt": b"x"}])
def test_folders_that_hold_no_partitions(tmp_path, content):
    folder = tmp_path / "folder"
    if content is not None:
        folder.mkdir()
        for name, data in content.items():
            (folder / name).write_bytes(data)
    with pytest.raises(Refused) as caught:
        merge_folder(folder)
    assert caught.value.diagnostics[0].code == "GR657"
    assert str(folder) in caught.value.diagnostics[0].message


def test_a_file_where_a_folder_should_be(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(Refused, match="is no folder"):
        merge_folder(tmp_path / "x")
