"""Old versions and known failures of onnx.reference, one by one: what each gives, worked out by hand.

`reference` says what onnx.reference does with the node: `right`, `wrong` (another result) or `fails` (an exception).
It is asserted too, so that the table tells when a kernel of our own is no longer needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from gerules.simulate.compare import compare
from gerules.simulate.engine import evaluate_node
from gerules.simulate.faults import NodeFault
from gerules.simulate.values import normalise


@dataclass(frozen=True)
class Case:
    node: str  # OP@VERSION, with DOMAIN:: before it where it is not ai.onnx
    operands: list[Any]
    expected: list[Any]
    reference: str
    attributes: dict[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def operator(self) -> tuple[str, str, int]:
        domain, _, rest = self.node.rpartition("::")
        op, _, version = rest.partition("@")
        return domain, op, int(version)


def f(*values: Any) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def i(*values: Any) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def text(*values: Any) -> np.ndarray:
    return np.array(values, dtype=object)


def img(*rows: Any) -> np.ndarray:
    """One image of one channel."""
    return np.array(rows, dtype=np.float32)[None, None]


_GRID = f([1, 2, 3], [4, 5, 6])
_EIGHT = f([[0, 0], [0, 0]])
_SIGMOID_ONE = 1 / (1 + np.exp(-1.0))

CASES = [
    # Broadcasting by attribute, versions 1 and 6.
    Case("Add@6", [_GRID, f(10, 20)], [f([11, 12, 13], [24, 25, 26])], "fails", {"broadcast": 1, "axis": 0}),
    Case("Add@6", [_GRID, f(1, 2, 3)], [f([2, 4, 6], [5, 7, 9])], "right", {"broadcast": 1}, "suffix by default"),
    Case("Add@1", [_GRID, _GRID], [_GRID * 2], "right"),
    Case("Sub@6", [_GRID, f(1, 2)], [f([0, 1, 2], [2, 3, 4])], "fails", {"broadcast": 1, "axis": 0}),
    Case("Mul@1", [_GRID, f(1, 2)], [f([1, 2, 3], [8, 10, 12])], "fails", {"broadcast": 1, "axis": 0}),
    Case("Div@6", [_GRID, f(1, 2)], [f([1, 2, 3], [2, 2.5, 3])], "fails", {"broadcast": 1, "axis": -2}),
    Case("Div@7", [i(-7, 7, -8), i(2, -2, 2)], [i(-3, -3, -4)], "right", note="towards zero, as in C"),
    Case("Pow@1", [f([2, 3]), f(2)], [f([4, 9])], "fails", {"broadcast": 1}),
    Case("And@1", [np.eye(2, dtype=bool), np.array([True, False])], [np.array([[True, False], [False, False]])],
         "right", {"broadcast": 1, "axis": 0}),
    Case("Equal@1", [i([1, 2], [3, 4]), i(1, 4)], [np.array([[True, False], [False, True]])], "right",
         {"broadcast": 1, "axis": 0}),
    Case("Greater@1", [_GRID, f(2, 4)], [np.array([[False, False, True], [False, True, True]])], "fails",
         {"broadcast": 1, "axis": 0}),
    Case("PRelu@6", [f([[-1.0], [-1.0]]), f(0.5, 0.25)], [f([[-0.5], [-0.25]])], "wrong", note="a slope per channel"),
    # Softmax and its kin below version 13 flatten to rows.
    Case("Softmax@1", [_EIGHT], [np.full((1, 2, 2), 0.25, np.float32)], "wrong"),
    Case("Softmax@11", [_EIGHT], [np.full((1, 2, 2), 0.25, np.float32)], "wrong", {"axis": -2}),
    Case("LogSoftmax@11", [_EIGHT], [np.full((1, 2, 2), -np.log(4.0), np.float32)], "wrong"),
    Case("Hardmax@1", [f([[1, 5], [7, 2]])], [f([[0, 0], [1, 0]])], "wrong"),
    # Training and test mode before they were operands.
    Case("BatchNormalization@6", [f([2.0], [4.0]), f(1), f(0), f(2), f(4)], [f([0.0], [1.0])], "right",
         {"is_test": 1, "epsilon": 0.0}),
    Case("BatchNormalization@7", [f([[2.0, 4.0]]), f([1, 2]), f([0, 1]), f([0, 0]), f([1, 4])], [f([[2.0, 5.0]])],
         "fails", {"spatial": 0, "epsilon": 0.0}, "statistics per position"),
    Case("BatchNormalization@9", [f([2.0], [4.0]), f(1), f(0), f(2), f(4)], [f([0.0], [1.0])], "wrong",
         {"epsilon": 0.0}),
    Case("Dropout@1", [_GRID], [_GRID], "fails", {"is_test": 1}),
    Case("Dropout@6", [_GRID], [_GRID], "fails", {"is_test": 1}),
    Case("Dropout@7", [_GRID], [_GRID, np.ones((2, 3), np.float32)], "wrong", note="the mask has the data's type"),
    Case("Dropout@10", [_GRID], [_GRID, np.ones((2, 3), bool)], "right"),
    # Attributes that became operands.
    Case("Clip@1", [_GRID], [f([2, 2, 3], [4, 4, 4])], "fails", {"min": 2.0, "max": 4.0}),
    Case("Clip@6", [_GRID], [f([2, 2, 3], [4, 4, 4])], "right", {"min": 2.0, "max": 4.0}),
    Case("Pad@1", [f(1, 2)], [f(7, 1, 2, 7, 7)], "right", {"paddings": [1, 2], "value": 7.0}),
    Case("Pad@2", [f(1, 2, 3)], [f(2, 3, 0)], "fails", {"pads": [-1, 1]}, "negative amounts cut off"),
    Case("Pad@2", [f(1, 2, 3)], [f(3, 2, 1, 2, 3, 2)], "right", {"pads": [2, 1], "mode": "reflect"}),
    Case("Slice@1", [_GRID], [f([2, 3], [5, 6])], "right", {"starts": [1], "ends": [9], "axes": [1]}),
    Case("Slice@10", [f(1, 2, 3), i(-9), i(-9), i(0), i(-1)], [f(1)], "wrong",
         note="a start before the first element is the first element"),
    Case("Split@1", [f(1, 2, 3), f(1, 2)], [f(1), f(2, 3)], "fails", {"axis": 0}, "lengths as floats"),
    Case("Split@2", [f(1, 2, 3)], [f(1), f(2, 3)], "right", {"axis": 0, "split": [1, 2]}),
    Case("TopK@1", [f(1, 3, 3, 2)], [f(3, 3), i(1, 2)], "right", {"k": 2}, "equal ones by index"),
    Case("Reshape@1", [_GRID], [f([1, 2], [3, 4], [5, 6])], "fails", {"shape": [-1, 2]}),
    Case("Cast@1", [f(1.5, -2.5)], [np.array([1, -2], np.int32)], "fails", {"to": "INT32"}),
    Case("Tile@1", [f(1, 2), f(3), f(0)], [f(1, 2, 1, 2, 1, 2)], "fails"),
    Case("Concat@1", [f([1], [2]), f([3], [4])], [f([1, 3], [2, 4])], "fails", note="axis 1 by default"),
    Case("Gemm@6", [f([1, 2]), f([3], [4]), f(1)], [f([12])], "right", {"broadcast": 1}),
    Case("Gemm@1", [f([1, 2]), f([3], [4]), f([1])], [f([12])], "fails"),
    Case("Unsqueeze@1", [f(1, 2)], [f([1, 2])], "right", {"axes": [0]}),
    Case("Squeeze@1", [f([1, 2])], [f(1, 2)], "right", {"axes": [0]}),
    Case("ReduceSum@1", [_GRID], [f([6], [15])], "right", {"axes": [1]}),
    # Pooling.
    Case("AveragePool@1", [img([1, 2], [3, 4])], [img([1, 1.5, 2], [2, 2.5, 3], [3, 3.5, 4])], "wrong",
         {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]}, "padding does not count"),
    Case("AveragePool@10", [img([1, 2, 3])], [img([1.5, 3])], "right",
         {"kernel_shape": [1, 2], "strides": [1, 2], "ceil_mode": 1}),
    Case("MaxPool@8", [img([1, 9], [3, 4])], [img([9]), i([[[2]]])], "right",
         {"kernel_shape": [2, 2], "storage_order": 1}, "columns first"),
    Case("LpPool@1", [img([3, 4])], [img([5])], "right", {"kernel_shape": [1, 2], "p": 2.0}),
    Case("GlobalLpPool@1", [img([3, 4])], [img([5])], "fails", {"p": 2.0}),
    Case("GlobalLpPool@2", [img([3, -4])], [img([7])], "fails", {"p": 1}),
    Case("MaxRoiPool@1", [img([1, 2, 3], [4, 5, 6], [7, 8, 9]), f([0, 0, 0, 1, 1])], [img([5])], "fails",
         {"pooled_shape": [1, 1]}),
    # Resizing.
    Case("Upsample@1", [img([1, 2])], [img([1, 1, 2, 2], [1, 1, 2, 2])], "fails",
         {"height_scale": 2.0, "width_scale": 2.0}),
    Case("Upsample@7", [img([1, 2])], [img([1, 1, 2, 2])], "fails", {"scales": [1.0, 1.0, 1.0, 2.0]}),
    Case("Upsample@9", [img([1, 2]), f(1, 1, 1, 2)], [img([1, 1.5, 2, 2])], "fails", {"mode": "linear"}),
    Case("Resize@10", [img([1, 2, 3, 4]), f(1, 1, 1, 0.5)], [img([1, 3])], "fails"),
    Case("Resize@10", [img([1, 2]), f(1, 1, 1, 2)], [img([1, 1.5, 2, 2])], "fails", {"mode": "linear"}),
    Case("GridSample@16", [img([1, 2]), np.zeros((1, 1, 1, 2), np.float32)], [img([1.5])], "fails",
         {"mode": "bilinear"}),
    Case("GridSample@16", [img([1, 2]), np.zeros((1, 1, 1, 2), np.float32)], [img([1.5])], "fails",
         {"mode": "bicubic", "padding_mode": "border"}),
    Case("RoiAlign@10", [img([0, 1], [2, 3]), f([0, 0, 1, 1]), i(0)], [img([1.5])], "wrong", {"sampling_ratio": 1},
         "no shift by half a pixel"),
    # Quantisation below 19.
    Case("DequantizeLinear@10", [np.array([3, 5], np.uint8), np.float32(0.5), np.uint8(1)], [f(1, 2)], "fails"),
    Case("DequantizeLinear@13", [np.array([[3, 5]], np.int8), f(0.5, 2), np.array([1, 1], np.int8)], [f([1, 8])],
         "fails", {"axis": 1}),
    # Recurrence: lengths, clipping, activations, versions with `output_sequence`.
    Case("RNN@1", [f([[1.0]]), f([[1.0]]), f([[0.0]])], [f([[[np.tanh(1.0)]]]), f([[np.tanh(1.0)]])], "fails",
         {"hidden_size": 1, "output_sequence": 1}),
    Case("RNN@7", [f([[5.0]]), f([[1.0]]), f([[0.0]])], [f([[[np.tanh(0.5)]]])], "wrong",
         {"hidden_size": 1, "clip": 0.5}),
    Case("RNN@14", [f([[1.0]], [[1.0]]), f([[1.0]]), f([[1.0]]), None, np.array([1], np.int32)],
         [f([[[1.0]]], [[[0.0]]]), f([[1.0]])], "fails", {"hidden_size": 1, "activations": ["Relu"]}, "it ends early"),
    Case("GRU@3", [f([[1.0]]), f([[0.0], [0.0], [1.0]]), np.zeros((1, 3, 1), np.float32)],
         [f([[[0.5 * np.tanh(1.0)]]])], "fails", {"hidden_size": 1, "output_sequence": 1}),
    Case("LSTM@7", [f([[1.0]]), f([[1.0], [1.0], [1.0], [1.0]]), np.zeros((1, 4, 1), np.float32)],
         [f([[[_SIGMOID_ONE * _SIGMOID_ONE]]])], "wrong",
         {"hidden_size": 1, "activations": ["Sigmoid", "Relu", "Relu"]}),
    # Elements by index.
    Case("Scatter@9", [f(1, 2, 3), i(2), f(9)], [f(1, 2, 9)], "fails"),
    Case("GatherElements@11", [f([1, 2], [3, 4]), i([1])], [f([3])], "fails", note="fewer columns than the data"),
    # Normalisation.
    Case("LpNormalization@1", [f([3, 4], [0, 0])], [f([0.6, 0.8], [0, 0])], "right", {"axis": 1}),
    Case("LRN@1", [np.ones((1, 4, 1, 1), np.float32)],
         [(1 / (1 + np.array([2, 3, 3, 2]) / 3)).reshape(1, 4, 1, 1).astype(np.float32)], "wrong",
         {"size": 3, "alpha": 1.0, "beta": 1.0}),
    # Strings and ai.onnx.ml.
    Case("StringNormalizer@10", [text("a", "", "B")], [text("", "b")], "wrong",
         {"stopwords": ["a"], "case_change_action": "LOWER"}, "an empty string is a string"),
    Case("ai.onnx.ml::LabelEncoder@1", [text("b", "z")], [i(1, -7)], "fails",
         {"classes_strings": ["a", "b"], "default_int64": -7}),
    Case("ai.onnx.ml::LabelEncoder@1", [i(1, 5)], [text("b", "?")], "fails",
         {"classes_strings": ["a", "b"], "default_string": "?"}),
    Case("ai.onnx.ml::CategoryMapper@1", [text("a", "z")], [i(5, -1)], "fails",
         {"cats_strings": ["a", "b"], "cats_int64s": [5, 6]}),
    Case("ai.onnx.ml::Normalizer@1", [f([1, -4])], [f([1, -4])], "wrong", {"norm": "MAX"}, "by the largest, signed"),
]  # fmt: skip


def _model(case: Case) -> tuple[onnx.ModelProto, dict[str, Any]]:
    domain, op, version = case.operator
    names = [f"i{k}" if x is not None else "" for k, x in enumerate(case.operands)]
    outputs = [f"o{k}" for k in range(len(case.expected))]
    node = helper.make_node(op, names, outputs, domain=domain, **case.attributes)
    feeds = {n: np.asarray(x) for n, x in zip(names, case.operands, strict=True) if n}
    inputs = [onnx.ValueInfoProto(name=n) for n in feeds]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name=n) for n in outputs])
    opsets = [helper.make_opsetid("", version if not domain else 13)]
    opsets += [helper.make_opsetid(domain, version)] if domain else []
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), feeds


def _equal(got: list[Any], expected: list[Any]) -> bool:
    return all(compare(normalise(g), normalise(e)).equal for g, e in zip(got, expected, strict=False))


@pytest.mark.parametrize("mode", ["fast", "reference"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.node)
def test_ours_is_right(case: Case, mode: Any) -> None:
    domain, op, version = case.operator
    operands = [None if x is None else np.asarray(x) for x in case.operands]
    got = evaluate_node(domain, op, version, case.attributes, operands, len(case.expected), kernels=mode)
    for value, expected in zip(got, case.expected, strict=True):
        verdict = compare(value, normalise(np.asarray(expected)))
        assert verdict.equal, (verdict, value, case.note)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.node)
def test_what_onnx_reference_does(case: Case) -> None:
    model, feeds = _model(case)
    try:
        with np.errstate(all="ignore"):
            got = ReferenceEvaluator(model).run(None, feeds)
    except Exception:
        found = "fails"
    else:
        found = "right" if _equal(got, case.expected) else "wrong"
    assert found == case.reference


def test_maps() -> None:
    [maps] = evaluate_node("ai.onnx.ml", "ZipMap", 1, {"classlabels_int64s": [7, 8]}, [f([0.25, 0.75])], 1)
    assert maps == [{7: 0.25, 8: 0.75}]
    [dense] = evaluate_node("ai.onnx.ml", "CastMap", 1, {"cast_to": "TO_INT64"}, [{2: 5.0, 1: 4.0}], 1)
    assert dense.tolist() == [[4, 5]]
    sparse = {"cast_to": "TO_FLOAT", "map_form": "SPARSE", "max_map": 3}
    assert evaluate_node("ai.onnx.ml", "CastMap", 1, sparse, [{2: 5.0}], 1)[0].tolist() == [[0, 0, 5]]


def test_training_batch_normalization_before_14_gives_the_batch_statistics_too() -> None:
    x = f([1.0], [3.0])
    y, mean, variance, own_mean, own_variance = evaluate_node(
        "", "BatchNormalization", 9, {"epsilon": 0.0, "momentum": 0.5}, [x, f(1), f(0), f(0), f(3)], 5
    )
    assert y.reshape(-1).tolist() == [-1, 1]
    assert (mean.item(), variance.item()) == (1.0, 2.0)
    assert (own_mean.item(), own_variance.item()) == (2.0, 1.0)


def test_multinomial_draws_classes_by_their_odds() -> None:
    odds = np.log(f([0.2, 0.8]))
    [drawn] = evaluate_node("", "Multinomial", 7, {"sample_size": 4000, "seed": 3.0}, [odds], 1)
    assert drawn.dtype == np.int32 and drawn.shape == (1, 4000)
    assert abs(drawn.mean() - 0.8) < 0.03


def test_splitting_into_a_sequence_checks_its_lengths() -> None:
    x = f([1, 2, 3])

    def split(lengths: Any, **attributes: Any) -> list[Any]:
        operands = [x] if lengths is None else [x, np.asarray(lengths)]
        [parts] = evaluate_node("", "SplitToSequence", 11, {"axis": 1, **attributes}, operands, 1)
        return [p.tolist() for p in parts]

    assert split(2) == [[[1, 2]], [[3]]]
    assert split([1, 2]) == [[[1]], [[2, 3]]]
    assert split(None, keepdims=0) == [[1], [2], [3]]
    with pytest.raises(NodeFault, match="3 does not split into"):
        split([1, 1])


def test_losses_ignore_a_class() -> None:
    scores, classes = np.log(f([0.5, 0.25, 0.25], [0.5, 0.25, 0.25])), i(0, 2)
    for mode in ("fast", "reference"):
        attributes = {"ignore_index": 2}
        [loss] = evaluate_node("", "NegativeLogLikelihoodLoss", 13, attributes, [scores, classes], 1, kernels=mode)
        assert loss.item() == pytest.approx(np.log(2))
        [loss, _] = evaluate_node("", "SoftmaxCrossEntropyLoss", 13, attributes, [scores, classes], 2, kernels=mode)
        assert loss.item() == pytest.approx(np.log(2))
