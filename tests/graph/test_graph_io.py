"""Models from files and to files: nothing is lost, nothing is half written, and what is wrong is said."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.external_data_helper
import onnx.helper
import onnx.numpy_helper
import onnx_ir as ir
import pytest
from google.protobuf import json_format
from graph_models import IF_MODEL, load, parse, write

from gerules.errors import Refused, UsageFault
from gerules.graph import io
from gerules.graph.io import load_model, name_nodes, save_model, source_of, to_proto, with_source

PLAIN = "g (float[N,4] x) => (float[N,4] y) { h = Relu(x) y = Neg(h) }"
Change = Callable[[onnx.ModelProto], None]


def reread(model: ir.Model, folder: Path) -> onnx.ModelProto:
    path = folder / "written.onnx"
    save_model(model, path)
    return onnx.load(path, load_external_data=False)


# ------------------------------------------------------------------------------------------------------- fidelity


def metadata(proto: onnx.ModelProto) -> None:
    proto.producer_name, proto.producer_version, proto.model_version = "maker", "1", 7
    proto.domain, proto.doc_string = "some.domain", "a model"
    for entries in (proto.metadata_props, proto.graph.metadata_props, proto.graph.node[0].metadata_props):
        entries.add(key="z", value="last")
        entries.add(key="a", value="first")
    proto.graph.doc_string = "a graph"
    proto.graph.node[0].doc_string = "a node"
    proto.graph.node[1].name = "named"
    proto.graph.input[0].doc_string = "an input"
    proto.graph.input[0].type.denotation = "TENSOR"
    proto.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"


def explicit_emptiness(proto: onnx.ModelProto) -> None:
    proto.doc_string = proto.graph.doc_string = proto.graph.node[0].doc_string = proto.graph.node[0].name = ""
    proto.graph.node[0].domain = ""
    proto.model_version = 0


def same_metadata_key_twice(proto: onnx.ModelProto) -> None:
    proto.metadata_props.add(key="k", value="1")
    proto.metadata_props.add(key="k", value="2")


def other_spelling_of_the_domain(proto: onnx.ModelProto) -> None:
    proto.opset_import[0].domain = "ai.onnx"
    proto.graph.node[0].domain = "ai.onnx"


def foreign_imports(proto: onnx.ModelProto) -> None:
    for domain in ("com.b", "ai.onnx.ml", "com.a"):
        proto.opset_import.add(domain=domain, version=1)


def value_infos(proto: onnx.ModelProto) -> None:
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("h", 1, ["N", 4]))
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("of nobody", 1, ["N", 4]))
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("y", 1, ["N", 4]))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(3, np.float32), "w"))


def initializers(proto: onnx.ModelProto) -> None:
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((1, 4), np.float32), "b"))
    proto.graph.initializer.append(onnx.helper.make_tensor("a", 1, [2], [1.0, 2.0]))  # typed field, not raw
    proto.graph.initializer.append(onnx.helper.make_tensor("s", 8, [2], [b"x", b"\xff"]))
    proto.graph.initializer[0].doc_string = "weights"
    proto.graph.input.append(onnx.helper.make_tensor_value_info("b", 1, [1, 4]))


def quantization(proto: onnx.ModelProto) -> None:
    for name in ("y", "h", "of nobody", "x"):
        annotation = proto.graph.quantization_annotation.add(tensor_name=name)
        annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
        annotation.quant_parameter_tensor_names.add(key="A", value="z")


def sparse(proto: onnx.ModelProto) -> None:
    values = onnx.numpy_helper.from_array(np.array([1.5, 2.5], np.float32), "w")
    indices = onnx.numpy_helper.from_array(np.array([1, 3], np.int64))
    proto.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [4]))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(4, np.float32), "dense"))
    proto.graph.node.append(onnx.helper.make_node("Add", ["w", "dense"], ["z"]))
    proto.graph.node.append(onnx.helper.make_node("Constant", [], ["c"], name="sparse constant"))
    proto.graph.node[-1].attribute.append(onnx.helper.make_attribute("sparse_value", proto.graph.sparse_initializer[0]))


def functions(proto: onnx.ModelProto) -> None:
    body = [onnx.helper.make_node("LeakyRelu", ["a"], ["b"], name="leak")]
    body[0].attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    opsets = [onnx.helper.make_opsetid("", 17)]
    function = onnx.helper.make_function("local", "F", ["a"], ["b"], body, opsets, ["slope"], doc_string="a function")
    proto.functions.append(function)
    proto.opset_import.add(domain="local", version=1)
    proto.graph.node.append(onnx.helper.make_node("F", ["x"], ["f"], domain="local", slope=0.25))


def trailing_nothing(proto: onnx.ModelProto) -> None:
    proto.graph.node.append(onnx.helper.make_node("Clip", ["x", "", ""], ["clipped"]))
    proto.graph.node.append(onnx.helper.make_node("Dropout", ["x"], ["dropped", ""]))


def odd_attributes(proto: onnx.ModelProto) -> None:
    proto.graph.node.append(onnx.helper.make_node("Op", ["x"], ["o"], domain="foreign"))
    attributes = proto.graph.node[-1].attribute
    attributes.append(onnx.helper.make_attribute("nan", float("nan")))
    attributes.add(name="bytes", type=onnx.AttributeProto.STRING, s=b"\xff\xfe")
    attributes.add(name="empty", type=onnx.AttributeProto.INTS)
    attributes.append(onnx.helper.make_attribute("type", onnx.helper.make_tensor_type_proto(1, ["N"])))
    attributes[-1].doc_string = "what it is"
    proto.opset_import.add(domain="foreign", version=1)


def map_types(proto: onnx.ModelProto) -> None:
    proto.opset_import.add(domain="ai.onnx.ml", version=3)
    proto.graph.node.append(
        onnx.helper.make_node("ZipMap", ["x"], ["m"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2, 3])
    )
    value = onnx.helper.make_map_type_proto(7, onnx.helper.make_tensor_type_proto(1, []))
    proto.graph.output.append(onnx.helper.make_value_info("m", onnx.helper.make_sequence_type_proto(value)))


def disorder(proto: onnx.ModelProto) -> None:
    first, second = (onnx.NodeProto.FromString(node.SerializeToString()) for node in proto.graph.node)
    first.doc_string = "the first"
    del proto.graph.node[:]
    proto.graph.node.extend([first, second])


def shared_output(proto: onnx.ModelProto) -> None:
    proto.graph.output.add().CopyFrom(proto.graph.output[0])
    proto.graph.output.append(onnx.helper.make_tensor_value_info("x", 1, [None, 4]))


def devices(proto: onnx.ModelProto) -> None:
    proto.ir_version = 11
    proto.configuration.add(name="two", num_devices=2, device=["a", "b"])
    proto.graph.node[0].device_configurations.add(configuration_id="two", pipeline_stage=1)


@pytest.mark.parametrize(
    "change",
    [
        metadata,
        explicit_emptiness,
        same_metadata_key_twice,
        other_spelling_of_the_domain,
        foreign_imports,
        value_infos,
        initializers,
        quantization,
        sparse,
        functions,
        trailing_nothing,
        odd_attributes,
        map_types,
        disorder,
        shared_output,
        devices,
    ],
)
def test_what_is_loaded_is_what_is_saved(change: Change, tmp_path: Path) -> None:
    proto = parse(PLAIN)
    change(proto)
    model = load_model(write(proto, tmp_path))
    # By bytes, since a NaN is not equal to itself.
    assert reread(model, tmp_path).SerializeToString(deterministic=True) == proto.SerializeToString(deterministic=True)


def test_bodies_are_what_they_were(tmp_path: Path) -> None:
    proto = parse(IF_MODEL)
    body = proto.graph.node[1].attribute[0].g
    body.doc_string = ""
    body.value_info.append(onnx.helper.make_tensor_value_info("of nobody", 1, ["N", 4]))
    body.node[0].metadata_props.add(key="z", value="1")
    body.node[0].metadata_props.add(key="a", value="2")
    model = load_model(write(proto, tmp_path))
    assert reread(model, tmp_path) == proto
    # A change in one branch leaves the other, and everything around, as it was.
    for node in next(node for node in model.graph if node.op_type == "If").attributes["else_branch"].as_graph():
        if node.op_type == "Neg":
            node.op_type = "Sign"
    expected = onnx.ModelProto.FromString(proto.SerializeToString())
    expected.graph.node[1].attribute[1].g.node[0].op_type = "Sign"
    assert to_proto(model) == expected


def test_attributes_without_a_type_field(tmp_path: Path) -> None:
    """IR version 1 had no such field, and no opset imports."""
    proto = parse("g (float[N,4] x) => (float[N,4] y) { y = Concat <axis = 1> (x) }")
    proto.ir_version = 1
    del proto.opset_import[:]
    proto.graph.node[0].attribute[0].ClearField("type")
    model = load_model(write(proto, tmp_path))
    assert model.graph.opset_imports == {"": 1}
    assert model.graph.node(0).attributes["axis"].as_int() == 1
    assert reread(model, tmp_path) == proto


def test_sparse_initializers_are_dense_inside(tmp_path: Path) -> None:
    proto = parse(PLAIN)
    sparse(proto)
    model = load_model(write(proto, tmp_path))
    tensor = model.graph.initializers["w"].const_value
    assert tensor is not None and tensor.numpy().tolist() == [0, 1.5, 0, 2.5]
    model.graph.initializers["w"].const_value = ir.tensor(np.zeros(4, np.float32), name="w")
    written = reread(model, tmp_path)
    assert not written.graph.sparse_initializer and [t.name for t in written.graph.initializer] == ["dense", "w"]


def test_only_the_change_is_written(tmp_path: Path) -> None:
    proto = parse(PLAIN)
    for change in (metadata, value_infos, quantization, trailing_nothing):
        change(proto)
    model = load_model(write(proto, tmp_path))
    relu = model.graph.node(0)
    relu.op_type = "Elu"
    relu.attributes["alpha"] = ir.AttrFloat32("alpha", 0.5)
    expected = onnx.ModelProto.FromString(proto.SerializeToString())
    expected.graph.node[0].op_type = "Elu"
    expected.graph.node[0].attribute.append(onnx.helper.make_attribute("alpha", 0.5))
    assert reread(model, tmp_path) == expected


def test_a_model_made_anew_from_another(tmp_path: Path) -> None:
    proto = parse(PLAIN)
    metadata(proto)
    model = load_model(write(proto, tmp_path))
    copy = ir.from_proto(ir.to_proto(model))
    assert source_of(copy) is None
    assert to_proto(with_source(copy, model)) == proto


def test_names_are_given_before_anything_else(tmp_path: Path) -> None:
    proto = parse(IF_MODEL)
    proto.graph.node[0].doc_string = ""
    model = load_model(write(proto, tmp_path))
    assert name_nodes(model) == 5
    names = [node.name for graph in ir.traversal.RecursiveGraphIterator(model.graph) for node in [graph]]
    assert sorted(names) == ["Abs_4", "Add_2", "If_1", "Neg_3", "Relu_0"]
    assert name_nodes(model) == 0
    written = reread(model, tmp_path)
    expected = onnx.ModelProto.FromString(proto.SerializeToString())
    expected.graph.node[0].name, expected.graph.node[1].name = "Relu_0", "If_1"
    then, other = expected.graph.node[1].attribute[0].g, expected.graph.node[1].attribute[1].g
    then.node[0].name, other.node[0].name, other.node[1].name = "Add_2", "Neg_3", "Abs_4"
    assert written == expected


def test_names_are_unique(tmp_path: Path) -> None:
    proto = parse("g (float[4] x) => (float[4] y) { a = Relu(x) b = Relu(a) c = Relu(b) y = Relu(c) }")
    proto.graph.node[0].name = "Relu_1"
    proto.graph.node[2].name = proto.graph.node[3].name = "same"
    model = load_model(write(proto, tmp_path))
    name_nodes(model)
    assert [node.name for node in model.graph] == ["Relu_1", "Relu_1_1", "same", "same_1"]


# -------------------------------------------------------------------------------------------------------- formats


def test_text_json_and_textproto(tmp_path: Path) -> None:
    model = load(PLAIN, tmp_path)
    expected = parse(PLAIN)
    for name in ("m.onnxtxt", "m.json", "m.textproto", "m.pb"):
        save_model(model, tmp_path / name)
        assert to_proto(load_model(tmp_path / name)) == expected
    assert json_format.Parse((tmp_path / "m.json").read_text(), onnx.ModelProto()) == expected


def test_text_with_a_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "m.onnxtxt"
    text = '<ir_version: 8, opset_import: ["" : 17]>\r\n' + PLAIN.replace(" {", "\r\n{")
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert to_proto(load_model(path)) == parse(PLAIN)


def test_text_that_would_lose_something_is_refused(tmp_path: Path) -> None:
    proto = parse(PLAIN)
    metadata(proto)
    with pytest.raises(Refused) as caught:
        save_model(load_model(write(proto, tmp_path)), tmp_path / "m.onnxtxt")
    assert caught.value.diagnostics[0].code == "GR343"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx"]


VALID = parse(PLAIN).SerializeToString()


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("a.onnx", b"", "GR311"),
        ("a.onnx", b" \n", "GR311"),
        ("a.onnx", VALID[:-7], "GR313"),
        ("a.onnx", VALID[: len(VALID) // 2], "GR313"),
        ("a.onnx", VALID[:2], "GR314"),
        ("a.onnx", b"PK\x03\x04 a zip file", "GR312"),
        ("a.onnx", b"just some text", "GR312"),
        ("a.onnx", b'{"irVersion": "8"}', "GR312"),
        ("a.onnx", b'<ir_version: 8, opset_import: ["" : 17]> g () => () {}', "GR312"),
        ("a.onnx", bytes(range(256)), "GR312"),
        ("a.onnxtxt", b"<ir_version: 8", "GR313"),
        ("a.onnxtxt", b"\xff\xfe\x00", "GR312"),
        ("a.json", b'{"irVersion":', "GR313"),
        ("a.json", b'{"noSuchField": 1}', "GR313"),
        ("a.json", b"[" * 100000, "GR313"),
        ("a.json", b"{}", "GR314"),
        ("a.textproto", b"ir_version: what", "GR313"),
    ],
)
def test_what_is_no_model(name: str, data: bytes, code: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(Refused) as caught:
        load_model(path)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code and diagnostic.file == str(path) and diagnostic.hint


def test_what_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.onnx", tmp_path):
        with pytest.raises(Refused) as caught:
            load_model(path)
        assert caught.value.diagnostics[0].code == "GR310"


def test_training_information_is_refused(tmp_path: Path) -> None:
    proto = parse(PLAIN)
    proto.training_info.add()
    with pytest.raises(Refused) as caught:
        load_model(write(proto, tmp_path))
    assert caught.value.diagnostics[0].code == "GR315"


def test_sparse_tensors_elsewhere_are_refused(tmp_path: Path) -> None:
    for position in (99, 1):  # outside the tensor; in an attribute of another operator
        proto = parse(PLAIN)
        values = onnx.numpy_helper.from_array(np.ones(1, np.float32), "w")
        made = onnx.helper.make_sparse_tensor(values, onnx.numpy_helper.from_array(np.array([position])), [4])
        if position == 99:
            proto.graph.sparse_initializer.append(made)
        else:
            proto.graph.node.append(onnx.helper.make_node("Op", [], ["z"], domain="foreign", a=made))
        with pytest.raises(Refused) as caught:
            load_model(write(proto, tmp_path))
        assert caught.value.diagnostics[0].code == "GR316"


# -------------------------------------------------------------------------------------------------- external data


def external(folder: Path, location: str = "weights.bin") -> Path:
    proto = parse("g (float[N,64] x) => (float[N,64] y) { h = MatMul(x, w) y = Add(h, b) }")
    weights = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(64, np.float32), "b"))
    path = folder / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=1024)
    stored = onnx.load(path, load_external_data=False)
    stored.graph.initializer[0].external_data.add(key="checksum", value="abc")
    for entry in stored.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = location
    path.write_bytes(stored.SerializeToString())
    return path


def test_external_data_stays_external(tmp_path: Path) -> None:
    model = load_model(external(tmp_path))
    assert isinstance(model.graph.initializers["w"].const_value, ir.ExternalTensor)
    target = tmp_path / "elsewhere"
    target.mkdir()
    save_model(model, target / "out.onnx")
    assert sorted(path.name for path in target.iterdir()) == ["out.onnx", "out.onnx.data"]
    first, second = onnx.load(tmp_path / "model.onnx"), onnx.load(target / "out.onnx")
    assert first.graph.node == second.graph.node
    for a, b in zip(first.graph.initializer, second.graph.initializer, strict=True):
        assert np.array_equal(onnx.numpy_helper.to_array(a), onnx.numpy_helper.to_array(b))
    tensor = load_model(target / "out.onnx").graph.initializers["w"].const_value
    assert tensor is not None
    assert np.array_equal(tensor.numpy(), onnx.numpy_helper.to_array(first.graph.initializer[0]))


def test_to_proto_leaves_external_data_where_it_is(tmp_path: Path) -> None:
    path = external(tmp_path)
    assert to_proto(load_model(path)) == onnx.load(path, load_external_data=False)


@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("../weights.bin", "GR317"),
        ("/etc/passwd", "GR317"),
        ("sub/../../weights.bin", "GR317"),
        ("link.bin", "GR317"),
        ("C:\\weights.bin", "GR317"),
        ("", "GR317"),
        ("missing.bin", "GR318"),
        (".", "GR318"),
    ],
)
def test_external_data_may_not_leave_the_folder(location: str, code: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "weights.bin").write_bytes(b"\0" * 64 * 64 * 4)
    (folder / "link.bin").symlink_to(tmp_path / "weights.bin")
    with pytest.raises(Refused) as caught:
        load_model(external(folder, location))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code and diagnostic.node == "w" and diagnostic.hint


def test_external_data_that_is_too_short(tmp_path: Path) -> None:
    path = external(tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"\0" * 100)
    with pytest.raises(Refused) as caught:
        load_model(path)
    assert caught.value.diagnostics[0].code == "GR318"


def test_external_data_without_a_length_that_is_too_short(tmp_path: Path) -> None:
    path = external(tmp_path)
    proto = onnx.load(path, load_external_data=False)
    kept = [e for e in proto.graph.initializer[0].external_data if e.key != "length"]
    del proto.graph.initializer[0].external_data[:]
    proto.graph.initializer[0].external_data.extend(kept)
    path.write_bytes(proto.SerializeToString())
    load_model(path)
    (tmp_path / "weights.bin").write_bytes(b"\0" * 100)
    with pytest.raises(Refused) as caught:
        load_model(path)
    assert caught.value.diagnostics[0].code == "GR318"


def test_a_model_beyond_the_limit_gets_a_data_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io, "MAX_MODEL_BYTES", 2000)
    proto = parse("g (float[N,30] x) => (float[N,30] y) { h = MatMul(x, w) k = Add(h, b) y = Add(k, t) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.arange(900, dtype=np.float32).reshape(30, 30), "w"))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(30, np.float32), "b"))
    proto.graph.initializer.append(onnx.helper.make_tensor("t", 1, [20, 30], np.arange(600.0)))
    save_model(load_model(write(proto, tmp_path)), tmp_path / "out.onnx")
    stored = onnx.load(tmp_path / "out.onnx", load_external_data=False)
    assert [t.data_location for t in stored.graph.initializer] == [1, 0, 1]
    loaded = onnx.load(tmp_path / "out.onnx")
    for a, b in zip(proto.graph.initializer, loaded.graph.initializer, strict=True):
        assert np.array_equal(onnx.numpy_helper.to_array(a), onnx.numpy_helper.to_array(b))


# ------------------------------------------------------------------------------------------------------- writing


def test_an_existing_file_is_kept_unless_forced(tmp_path: Path) -> None:
    model = load(PLAIN, tmp_path)
    path = tmp_path / "out.onnx"
    path.write_bytes(b"mine")
    with pytest.raises(UsageFault) as caught:
        save_model(model, path)
    assert caught.value.diagnostics[0].code == "GR340" and path.read_bytes() == b"mine"
    save_model(model, path, force=True)
    assert onnx.load(path) == parse(PLAIN)
    with pytest.raises(UsageFault):
        save_model(model, tmp_path, force=True)


def test_the_input_is_never_overwritten(tmp_path: Path) -> None:
    model = load(PLAIN, tmp_path)
    (tmp_path / "link.onnx").symlink_to(tmp_path / "model.onnx")
    for name in ("model.onnx", "link.onnx"):
        with pytest.raises(UsageFault) as caught:
            save_model(model, tmp_path / name, force=True)
        assert caught.value.diagnostics[0].code == "GR341"
    assert onnx.load(tmp_path / "model.onnx") == parse(PLAIN)


def test_the_data_of_the_input_is_never_overwritten(tmp_path: Path) -> None:
    path = external(tmp_path)
    (tmp_path / "weights.bin").rename(tmp_path / "out.onnx.data")
    stored = onnx.load(path, load_external_data=False)
    stored.graph.initializer[0].external_data[0].value = "out.onnx.data"
    path.write_bytes(stored.SerializeToString())
    with pytest.raises(UsageFault) as caught:
        save_model(load_model(path), tmp_path / "out.onnx", force=True)
    assert caught.value.diagnostics[0].code == "GR341"


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(PLAIN, tmp_path)
    with pytest.raises(Refused) as caught:
        save_model(model, tmp_path / "no" / "such" / "folder.onnx")
    assert caught.value.diagnostics[0].code == "GR342"

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(Refused) as caught:
        save_model(model, tmp_path / "out.onnx")
    assert "No space left" in caught.value.diagnostics[0].message
    assert sorted(os.listdir(tmp_path)) == ["model.onnx"]  # noqa: PTH208  (Path is patched)


def test_two_writes_are_one(tmp_path: Path) -> None:
    model = load(IF_MODEL, tmp_path)
    save_model(model, tmp_path / "a.onnx")
    save_model(model, tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
