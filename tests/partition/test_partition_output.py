"""What is written: the manifest against its schema, placement in the model, and folders that are whole or not there."""

from __future__ import annotations

import json
import math
from pathlib import Path

import jsonschema
import onnx
import onnx_ir as ir
import pytest
from partition_models import clusters_of, model_of, random_model, random_placement

from gerules.errors import Exit, InternalFault, UsageFault
from gerules.partition.manifest import Cost, Manifest, ValidationReport, json_bytes, manifest_data, timing_bytes
from gerules.partition.output import check_destination, write_file, write_folder
from gerules.partition.placed import read_labels, read_pins, write_placement
from gerules.partition.split import split

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "manifest.schema.json").read_text())
TEXT = (
    "g (float[4] x) => (float[4] z) { [a] p = Relu(x) [k] k = Constant<value_float=2.0>()"
    " [b] q = Mul(p, k) [c] r = Exp(q) [d] z = Mul(r, k) }"
)
PLACES = {"a": "Core", "b": "Vector", "c": "Cpu", "d": "Vector"}
OPTIONS = {
    "may_merge": lambda a, b: True,
    "composites": {"Core": "Cube", "Vector": "Cube"},
    "streams": {"Cube": 4, "Vector": 2},
}


def about(**changes):
    given = {
        "nodes_before": 7,
        "nodes_after": 5,
        "cost": Cost(4e-5, 2e-5, 1e-5, "greedy", 1.5e-5),
        "rules_fired": {"b": 2, "a": 1},
        "stopped": "",
        "validation": ValidationReport(True, True, False, 0.0, 0.0, (0, 1)),
    }
    return Manifest(**(given | changes))


def placed(version=8):
    model = model_of(f'<ir_version: {version}, opset_import: ["" : 17]> {TEXT}')
    return model, clusters_of(model, PLACES, **OPTIONS)


# ------------------------------------------------------------------ manifest


@pytest.mark.parametrize("border_nodes", [False, True])
def test_the_manifest_keeps_its_schema(border_nodes):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for seed in range(6):
        model = random_model(seed, 20, True)
        clustering = clusters_of(model, random_placement(model, seed, ("Npu", "Cpu")), streams={"Npu": 2})
        data = manifest_data(about(), clustering, split(model, clustering, border_nodes=border_nodes))
        jsonschema.validate(json.loads(json_bytes(data)), SCHEMA)


def test_the_manifest_says_all_that_it_must():
    model, clustering = placed()
    data = json.loads(json_bytes(manifest_data(about(extra={"dims": {"N": 4}}), clustering, split(model, clustering))))
    assert data["nodes"] == {"before": 7, "after": 5}
    assert data["cost"]["gap"] == pytest.approx(0.5)
    assert data["clusters"] == [
        {
            "id": 0, "engine": "Cube", "stream": 0, "nodes": ["a", "k", "b"],
            "file": "partitions/000_Cube.onnx", "inputs": ["x"], "outputs": ["q"],
        },
        {
            "id": 1, "engine": "Cpu", "stream": 0, "nodes": ["c"],
            "file": "partitions/001_Cpu.onnx", "inputs": ["q"], "outputs": ["r"],
        },
        {
            "id": 2, "engine": "Vector", "stream": 0, "nodes": ["k", "d"],
            "file": "partitions/002_Vector.onnx", "inputs": ["r"], "outputs": ["z"],
        },
    ]  # fmt: skip
    assert data["channels"][0] == {
        "value": "q", "from": 0, "to": 1, "bytes": 16, "peer_index": 0, "parent_op_type": "Mul",
        "parent_node_name": "b", "placeholder_anchor": 0, "end_anchor": 0,
    }  # fmt: skip
    assert list(data["rules_fired"].items()) == [("a", 1), ("b", 2)]
    assert data["validation"]["seeds"] == [0, 1]
    assert data["dims"] == {"N": 4}


@pytest.mark.parametrize(
    ("after", "bound", "gap"), [(2.0, 1.0, 0.5), (0.0, 0.0, 0.0), (2.0, None, None), (None, 1.0, None), (1.0, 2.0, 0.0)]
)
def test_the_gap(after, bound, gap):
    assert Cost(None, after, bound, "m").gap == gap


def test_numbers_that_json_lacks_become_null():
    assert json_bytes({"a": math.nan, "b": [math.inf, 1.0], "c": {"d": -math.inf}}) == (
        b'{\n "a": null,\n "b": [\n  null,\n  1.0\n ],\n "c": {\n  "d": null\n }\n}\n'
    )


def test_an_entry_is_not_written_twice():
    model, clustering = placed()
    with pytest.raises(InternalFault):
        manifest_data(about(extra={"cost": 1}), clustering, split(model, clustering))


def test_timing_keeps_the_order_of_stages():
    assert json.loads(timing_bytes({"load": 0.12345678, "extract": 2.0})) == {"load": 0.123457, "extract": 2.0}


# ------------------------------------------------------------------ placement in the model


def node_meta(model):
    return {n.name: {p.key.removeprefix("gerules."): p.value for p in n.metadata_props} for n in model.graph.node}


def test_nodes_say_where_they_run():
    model, clustering = placed()
    marked = write_placement(model, clustering, target="ascend", engines=["Core", "Vector", "Cube", "Cpu"])
    assert node_meta(marked) == {
        "a": {"placed_engine": "Core", "cluster": "0", "stream": "0"},
        "k": {"placed_engine": "Cube,Vector", "cluster": "0,2", "stream": "0,0"},
        "b": {"placed_engine": "Vector", "cluster": "0", "stream": "0"},
        "c": {"placed_engine": "Cpu", "cluster": "1", "stream": "0"},
        "d": {"placed_engine": "Vector", "cluster": "2", "stream": "0"},
    }
    assert marked.ir_version == 8
    assert not marked.configuration
    assert not any(n.device_configurations for n in marked.graph.node)
    assert not any(n.metadata_props for n in model.graph.node)
    again = write_placement(marked, clustering, target="ascend", engines=["Core", "Vector", "Cube", "Cpu"])
    assert again == marked


def test_device_configuration_where_the_version_has_it():
    model, clustering = placed(11)
    model.configuration.add(name="mine", num_devices=1, device=["x"])
    model.configuration.add(name="ascend", num_devices=1, device=["old"])
    model.graph.node[0].device_configurations.add(configuration_id="mine", pipeline_stage=5)
    marked = write_placement(model, clustering, target="ascend", engines=["Core", "Vector", "Cube", "Cpu"])
    onnx.checker.check_model(marked, full_check=True)
    assert [(c.name, c.num_devices, list(c.device)) for c in marked.configuration] == [
        ("mine", 1, ["x"]), ("ascend", 4, ["Core", "Vector", "Cube", "Cpu"])
    ]  # fmt: skip
    first = marked.graph.node[0]
    assert [c.configuration_id for c in first.device_configurations] == ["mine", "ascend"]
    spec = first.device_configurations[1].sharding_spec[0]
    assert (spec.tensor_name, list(spec.device), first.device_configurations[1].pipeline_stage) == ("p", [0], 0)
    constant = marked.graph.node[1].device_configurations[0]
    assert list(constant.sharding_spec[0].device) == [2, 1]
    assert marked.graph.node[3].device_configurations[0].pipeline_stage == 1
    assert ir.to_proto(ir.from_proto(marked)).graph.node[3].device_configurations == (
        marked.graph.node[3].device_configurations
    )


def test_the_users_pins_and_labels_are_read():
    model, _ = placed()
    model.graph.node[0].metadata_props.add(key="gerules.engine", value="Cpu")
    model.graph.node[3].metadata_props.add(key="gerules.stream_label", value="left")
    graph = ir.from_proto(model).graph
    assert read_pins(graph) == {"a": "Cpu"}
    assert read_labels(graph) == {"c": "left"}


# ------------------------------------------------------------------ whole or not at all

FILES = {"model.onnx": b"1", "partitions/000_A.onnx": b"2"}


def tree(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_new_folder(tmp_path):
    write_folder(tmp_path / "out", FILES)
    assert tree(tmp_path) == {f"out/{name}": data for name, data in FILES.items()}


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "out").mkdir()
    write_folder(tmp_path / "out", FILES)
    assert tree(tmp_path / "out") == FILES


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_is_there_is_replaced_by_force_only(tmp_path, kind):
    out = tmp_path / "out"
    if kind == "folder":
        out.mkdir()
        (out / "old").write_text("old")
    else:
        out.write_text("old")
    before = tree(tmp_path)
    with pytest.raises(UsageFault) as caught:
        write_folder(out, FILES)
    assert caught.value.status == Exit.USAGE
    assert caught.value.diagnostics[0].code == "GR659"
    assert "--force" in (caught.value.diagnostics[0].hint or "")
    assert tree(tmp_path) == before
    write_folder(out, FILES, force=True)
    assert tree(out) == FILES
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_failure_leaves_everything_as_it_was(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").write_text("old")
    with pytest.raises(InternalFault):
        write_folder(out, FILES | {"../elsewhere": b""}, force=True)
    with pytest.raises(UsageFault):
        write_folder(out, FILES | {"model.onnx/inside": b""}, force=True)
    assert tree(tmp_path) == {"out/old": b"old"}
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_rename_that_fails_gives_the_old_folder_back(tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").write_text("old")
    rename = Path.rename

    def failing(self, target):
        if self.name == "new":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(UsageFault, match="No space left"):
        write_folder(out, FILES, force=True)
    assert tree(tmp_path) == {"out/old": b"old"}


def test_inputs_are_not_replaced(tmp_path):
    source = tmp_path / "work" / "model.onnx"
    source.parent.mkdir()
    source.write_bytes(b"m")
    for destination in (tmp_path / "work", source):
        with pytest.raises(UsageFault, match="would replace the input"):
            write_folder(destination, FILES, force=True, keep=[source])
    with pytest.raises(UsageFault, match="would replace the input"):
        write_file(tmp_path / "work" / ".." / "work" / "model.onnx", b"x", force=True, keep=[source])
    assert tree(tmp_path) == {"work/model.onnx": b"m"}


def test_the_working_folder_is_not_replaced(tmp_path, monkeypatch):
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    for destination in (".", "..", inner):
        with pytest.raises(UsageFault, match="working folder"):
            write_folder(destination, FILES, force=True)


def test_a_destination_without_a_parent(tmp_path):
    with pytest.raises(UsageFault, match="does not exist"):
        check_destination(tmp_path / "no" / "out", force=False)


def test_single_files(tmp_path):
    path = tmp_path / "model.onnx"
    write_file(path, b"1")
    with pytest.raises(UsageFault, match="exists already"):
        write_file(path, b"2")
    assert path.read_bytes() == b"1"
    write_file(path, b"2", force=True)
    assert path.read_bytes() == b"2"
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageFault, match="is a folder"):
        write_file(tmp_path / "folder", b"", force=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "model.onnx"]
