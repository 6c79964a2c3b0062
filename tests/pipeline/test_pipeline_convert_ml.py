"""Versions of ai.onnx.ml, alone and together with those of ai.onnx, against onnxruntime where it has a kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from gerules.errors import Refused
from gerules.pipeline import Options, convert_model

TREE: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [1, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}
REGRESSOR: dict[str, Any] = TREE | {
    "target_treeids": [0, 0],
    "target_nodeids": [1, 2],
    "target_ids": [0, 0],
    "target_weights": [1.0, 2.0],
    "n_targets": 1,
}
CLASSIFIER: dict[str, Any] = TREE | {
    "class_treeids": [0, 0],
    "class_nodeids": [1, 2],
    "class_ids": [0, 1],
    "class_weights": [0.25, 0.75],
    "classlabels_int64s": [7, 9],
}
WORDS = np.array(["a", "b", "what", "b"], dtype=object)
NUMBERS = np.array([4, 1, 0, 2])
POINTS = np.array([[0.1, 0.2, 0.3], [0.9, 0.8, 0.7]], dtype=np.float32)
TYPES = {"O": TensorProto.STRING, "i": TensorProto.INT64, "f": TensorProto.FLOAT}


def ml_model(operator: str, version: int, x: np.ndarray, results: dict[str, int], **attributes: Any) -> onnx.ModelProto:
    node = helper.make_node(operator, ["x"], list(results), name="n", domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TYPES[x.dtype.kind], ["N", *x.shape[1:]])],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in results.items()],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, ir_version=8, opset_imports=imports)


def converted(model: onnx.ModelProto, folder: Path, **versions: int) -> onnx.ModelProto:
    onnx.save(model, folder / "model.onnx")
    wanted = {"ai.onnx.ml" if d == "ml" else "": v for d, v in versions.items()}
    convert_model(folder / "model.onnx", folder / "out.onnx", wanted, Options(force=True))
    return onnx.load(folder / "out.onnx")


def outcome(model: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, {"x": x}))


def tensor(values: list[Any], dtype: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, dtype=dtype))


LABELS: tuple[tuple[int, np.ndarray, dict[str, int], dict[str, Any], tuple[int, ...]], ...] = (
    (2, WORDS, {"y": TensorProto.INT64}, {"keys_strings": ["b", "a"], "values_int64s": [0, 1]}, (1, 4)),
    (2, WORDS, {"y": TensorProto.INT64}, {"keys_strings": ["b", "a"], "values_int64s": [7, 5]}, (1, 4)),
    (2, NUMBERS, {"y": TensorProto.STRING}, {"keys_int64s": [1, 2], "values_strings": ["u", "v"]}, (1, 4)),
    (4, NUMBERS, {"y": TensorProto.STRING}, {"keys_int64s": [1, 2], "values_strings": ["u", "v"]}, (1, 2)),
    (4, NUMBERS, {"y": TensorProto.FLOAT}, {"keys_int64s": [1, 2], "values_floats": [0.5, 1.5]}, (2,)),
)  # fmt: skip


@pytest.mark.parametrize(("version", "x", "results", "attributes", "targets"), LABELS)
def test_labels(
    version: int,
    x: np.ndarray,
    results: dict[str, int],
    attributes: dict[str, Any],
    targets: tuple[int, ...],
    tmp_path: Path,
) -> None:
    model = ml_model("LabelEncoder", version, x, results, **attributes)
    want = outcome(model, x)
    for target in targets:
        made = converted(model, tmp_path, ml=target)
        assert {i.domain: i.version for i in made.opset_import} == {"": 17, "ai.onnx.ml": target}
        for got, expected in zip(outcome(made, x), want, strict=True):
            assert got.tolist() == expected.tolist()


def test_labels_of_version_1_are_places_in_a_list(tmp_path: Path) -> None:
    model = ml_model("LabelEncoder", 1, WORDS, {"y": TensorProto.INT64}, classes_strings=["a", "b"], default_int64=-5)
    for target in (2, 4):
        assert outcome(converted(model, tmp_path, ml=target), WORDS)[0].tolist() == [0, 1, -5, 1]


def test_labels_that_are_tensors_become_lists(tmp_path: Path) -> None:
    attributes = {
        "keys_strings": ["a", "b"],
        "values_tensor": tensor([3, 4], np.int16),
        "default_tensor": tensor([9], np.int16),
    }
    model = ml_model("LabelEncoder", 4, WORDS, {"y": TensorProto.INT16}, **attributes)
    made = converted(model, tmp_path, ml=2)
    assert [n.op_type for n in made.graph.node] == ["LabelEncoder", "Cast"]
    assert outcome(made, WORDS)[0].tolist() == [3, 4, 9, 4]


@pytest.mark.parametrize(
    ("attributes", "target"),
    [
        ({"keys_strings": ["a", "a"], "values_int64s": [1, 2]}, 4),  # which of the two counts was not said
        ({"keys_strings": ["a", "b"], "values_int64s": [1, 1]}, 1),  # two words for one number
        ({"keys_strings": ["a", "b"], "values_strings": ["b", "a"]}, 1),  # words for words
    ],
)
def test_labels_that_cannot_be_said_are_refused(attributes: dict[str, Any], target: int, tmp_path: Path) -> None:
    kind = TensorProto.STRING if "values_strings" in attributes else TensorProto.INT64
    model = ml_model("LabelEncoder", 2, WORDS, {"y": kind}, **attributes)
    with pytest.raises(Refused, match=r"LabelEncoder@2 cannot be converted to opset \d of ai.onnx.ml"):
        converted(model, tmp_path, ml=target)


@pytest.mark.parametrize(
    ("operator", "attributes", "results"),
    [
        ("TreeEnsembleRegressor", REGRESSOR, {"y": TensorProto.FLOAT}),
        ("TreeEnsembleClassifier", CLASSIFIER, {"y": TensorProto.INT64, "z": TensorProto.FLOAT}),
    ],
)
@pytest.mark.parametrize(("source", "target"), [(1, 3), (3, 1)])
def test_trees_in_single_precision(
    operator: str, attributes: dict[str, Any], results: dict[str, int], source: int, target: int, tmp_path: Path
) -> None:
    model = ml_model(operator, source, POINTS, results, **attributes)
    for got, want in zip(outcome(converted(model, tmp_path, ml=target), POINTS), outcome(model, POINTS), strict=True):
        np.testing.assert_array_equal(got, want)


def test_trees_in_double_precision_have_no_way_down(tmp_path: Path) -> None:
    attributes = {k: v for k, v in REGRESSOR.items() if k not in ("nodes_values", "target_weights")}
    attributes |= {
        "nodes_values_as_tensor": tensor([0.1, 0, 0], np.float64),
        "target_weights_as_tensor": tensor([1, 2], np.float64),
    }
    model = ml_model("TreeEnsembleRegressor", 3, POINTS.astype(np.float32), {"y": TensorProto.FLOAT}, **attributes)
    with pytest.raises(Refused, match=r"has no attribute (nodes_values|target_weights)_as_tensor"):
        converted(model, tmp_path, ml=1)


def test_trees_are_gone_at_5(tmp_path: Path) -> None:
    model = ml_model("TreeEnsembleRegressor", 3, POINTS, {"y": TensorProto.FLOAT}, **REGRESSOR)
    with pytest.raises(Refused, match="TreeEnsembleRegressor was removed at opset 5"):
        converted(model, tmp_path, ml=5)


def test_two_domains_at_once(tmp_path: Path) -> None:
    model = ml_model("LabelEncoder", 2, NUMBERS, {"l": TensorProto.FLOAT}, keys_int64s=[1, 2], values_floats=[0.5, 1.5])
    model.graph.node.append(helper.make_node("ReduceMax", ["l"], ["y"], name="most", axes=[0]))
    model.graph.output[0].name = "y"
    made = converted(model, tmp_path, ml=4, onnx=18)
    assert {i.domain: i.version for i in made.opset_import} == {"": 18, "ai.onnx.ml": 4}
    assert outcome(made, NUMBERS)[0].tolist() == outcome(model, NUMBERS)[0].tolist()
