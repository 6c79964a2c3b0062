"""What the graph knows of values, as clusters and files take it."""

from __future__ import annotations

from onnx import TensorProto, helper
from partition_models import clusters_of, model_of

from gerules.graph.info import Info
from gerules.partition.known import type_protos, value_sizes, value_types
from gerules.partition.net import ValueType
from gerules.partition.split import split

INFOS = {
    "a": Info.parse("f32[N,4]"),
    "b": Info.parse("i64[2]=[N,4]"),
    "c": Info.parse("bf16[2*N,?]"),
    "d": Info.parse("f32[*]"),
    "e": Info.parse("seq(f32)[*]"),
    "f": Info.parse("?"),
    "g": Info.parse("bool[]"),
}


def test_value_types():
    assert value_types(INFOS) == {
        "a": ValueType("f32", ("N", 4)),
        "b": ValueType("i64", (2,)),
        "c": ValueType("bf16", ("2*N", None)),
        "d": ValueType("f32", None),
        "e": ValueType("seq(f32)", None),
        "g": ValueType("bool", ()),
    }


def test_type_protos():
    assert type_protos(INFOS) == {
        "a": helper.make_tensor_type_proto(TensorProto.FLOAT, ["N", 4]),
        "b": helper.make_tensor_type_proto(TensorProto.INT64, [2]),
        "c": helper.make_tensor_type_proto(TensorProto.BFLOAT16, [None, None]),
        "d": helper.make_tensor_type_proto(TensorProto.FLOAT, None),
        "e": helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None)),
        "g": helper.make_tensor_type_proto(TensorProto.BOOL, []),
    }


def test_value_sizes():
    assert value_sizes(INFOS, {"N": 3}) == {"a": 48, "b": 16, "g": 1}
    assert value_sizes(INFOS, {}) == {"b": 16, "g": 1}


def test_channels_get_their_sizes():
    model = model_of(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 4] z)'
        " { [u] a = Relu(x) [v] z = Exp(a) }"
    )
    clustering = clusters_of(model, {"u": "A", "v": "B"}, types=value_types(INFOS))
    assert clustering.facts["u"].dtype == "f32"
    found = split(model, clustering, types=type_protos(INFOS), sizes=value_sizes(INFOS, {"N": 3}))
    assert found.channels[0].bytes == 48
