"""What is known of every value of a graph: declared, inferred, promised, constant."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx_ir as ir
import onnxruntime
from graph_models import HEAD, IF_MODEL, load, parse, write

from gerules.errors import Diagnostic
from gerules.graph.constants import ConstantTable
from gerules.graph.dims import DimFacts
from gerules.graph.facts import infer_facts, input_symbols
from gerules.graph.info import UNKNOWN, Info
from gerules.graph.io import load_model, to_proto
from gerules.graph.structure import all_graphs, bodies, constant_tensor, constant_values


def known(model: ir.Model, facts: DimFacts | None = None, **options: object) -> dict[str, str]:
    found = infer_facts(model, facts, **options)  # type: ignore[arg-type]
    values = [v for g in all_graphs(model.graph) for v in (*g.inputs, *g.initializers.values())]
    values += [v for g in all_graphs(model.graph) for node in g for v in node.outputs]
    assert all(value in found for value in values)
    return {value.name or "": info.text for value, info in found.items()}


def test_symbols_flow_through(tmp_path: Path) -> None:
    model = load("g (float[N,4] x, float[4,M] w) => (float[A,B] y) { h = MatMul(x, w) y = Relu(h) }", tmp_path)
    assert known(model) == {"x": "f32[N,4]", "w": "f32[4,M]", "h": "f32[N,M]", "y": "f32[N,M]"}


def test_promised_sizes_are_put_in(tmp_path: Path) -> None:
    model = load("g (float[N,K] x) => (float[N,K] y) { y = Relu(x) }", tmp_path)
    assert known(model, DimFacts.from_flags(["N=4"]))["y"] == "f32[4,K]"
    assert known(model, DimFacts.from_flags(["N=1..4"]))["y"] == "f32[N,K]"
    assert known(model, DimFacts.from_flags([], ["K == 2*N"]))["y"] == "f32[N,2*N]"
    assert known(model, DimFacts.from_flags([], ["K % 8 == 0"]))["y"] == "f32[N,K]"
    assert model.graph.inputs[0].shape is not None and str(model.graph.inputs[0].shape) == "[N,K]"


def test_names_that_mean_nothing_are_unknown_each(tmp_path: Path) -> None:
    proto = parse("g (float[N,4] x, float[N,4] z) => (float[N,4] y) { y = Add(x, z) }")
    for entry in (*proto.graph.input, *proto.graph.output):
        entry.type.tensor_type.shape.dim[0].dim_param = "?"
    model = load_model(write(proto, tmp_path))
    assert known(model) == {"x": "f32[?,4]", "z": "f32[?,4]", "y": "f32[?,4]"}
    assert input_symbols(model.graph) == ()


def test_a_negative_extent_is_unknown(tmp_path: Path) -> None:
    proto = parse("g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    model = load_model(write(proto, tmp_path))
    assert known(model) == {"x": "f32[?,4]", "y": "f32[?,4]"}


def test_names_of_intermediate_values_are_not_believed(tmp_path: Path) -> None:
    text = "g (float[N,4] x) => (float[N,4] y) <float[M,4] h> { h = Relu(x) y = Neg(h) }"
    assert known(load(text, tmp_path))["h"] == "f32[N,4]"


def test_a_declared_type_that_contradicts_is_reported(tmp_path: Path) -> None:
    text = "g (float[2,4] x) => (float[2,4] y) <float[3,4] h> { h = Relu(x) y = Neg(h) }"
    found: list[Diagnostic] = []
    assert known(load(text, tmp_path), diagnostics=found)["h"] == "f32[2,4]"
    assert [(d.code, d.severity, d.node) for d in found] == [("GR332", "warning", "h")]


def test_what_only_the_declaration_knows_is_used_downstream(tmp_path: Path) -> None:
    text = """g (float[N,4] x, int64[2] s) => (float[?,?] z) <float[6,2] y> { y = Reshape(x, s) z = Relu(y) }"""
    assert known(load(text, tmp_path))["z"] == "f32[6,2]"


def test_foreign_operators_have_their_declared_type(tmp_path: Path) -> None:
    text = (
        """g (float[N,4] x) => (float[?,?] z) <float[N,8] y> { y = my.domain.Op(x) u = my.domain.Op(y) z = Relu(y) }"""
    )
    model = load(text, tmp_path, '<ir_version: 8, opset_import: ["" : 17, "my.domain" : 1]>')
    found = known(model)
    assert found["y"] == found["z"] == "f32[N,8]"
    assert found["u"] == "?"


def test_bodies_are_known_too(tmp_path: Path) -> None:
    found = known(load(IF_MODEL, tmp_path))
    assert found["h"] == found["t"] == found["e0"] == found["e"] == found["y"] == "f32[N,4]"


def test_bodies_of_loops(tmp_path: Path) -> None:
    text = """g (int64 n, float[N,4] x) => (float[N,4] y, float[?,N,4] s) {
        c = Constant <value_int = 1> () b = Cast <to = 9> (c)
        y, s = Loop(n, b, x) <body = b (int64 i, bool ok, float[N,4] a) => (bool k, float[N,4] z, float[N,4] out) {
            k = Identity(ok) z = Add(a, x) out = Neg(z)
        }>
    }"""
    found = known(load(text, tmp_path))
    assert found["z"] == found["out"] == found["y"] == "f32[N,4]"
    assert found["s"] == "f32[?,N,4]"
    assert found["c"] == "i64[]=i64[]|0100000000000000"


def test_model_local_functions(tmp_path: Path) -> None:
    proto = parse(
        "g (float[N,4] x) => (float[?,?] y) { y = local.Twice(x) }",
        '<ir_version: 8, opset_import: ["" : 17, "local" : 1]>',
    )
    body = [onnx.helper.make_node("Add", ["a", "a"], ["b"])]
    opsets = [onnx.helper.make_opsetid("", 17)]
    proto.functions.append(onnx.helper.make_function("local", "Twice", ["a"], ["b"], body, opsets))
    assert known(load_model(write(proto, tmp_path)))["y"] == "f32[N,4]"


def test_constants(tmp_path: Path) -> None:
    proto = parse(
        "g (float[N,4] x) => (float[N,4] y) { c = Constant <value = float[1] {2}> () h = Add(x, c) y = Add(h, w) }"
    )
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(4, np.float32), "w"))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(4000, np.float32), "large"))
    model = load_model(write(proto, tmp_path))
    found = known(model)
    assert found["c"] == "f32[1]=f32[1]|00000040"
    assert found["w"] == "f32[4]=f32[4]|" + "0000803f" * 4
    assert found["large"] == "f32[4000]"  # by type alone, without a table
    table = ConstantTable()
    assert known(model, table=table)["large"].startswith("f32[4000]=f32[4000]#") and len(table) == 1


def test_initializers_that_are_inputs(tmp_path: Path) -> None:
    for version, fixed in ((3, frozenset({"w", "v"})), (8, frozenset({"v"}))):
        proto = parse("g (float[4] x, float[4] w) => (float[4] y) { h = Add(x, w) y = Add(h, v) }")
        proto.ir_version = version
        for name in ("w", "v"):
            proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(4, np.float32), name))
        if version < 4:
            proto.graph.input.add().CopyFrom(onnx.helper.make_tensor_value_info("v", 1, [4]))
        model = load_model(write(proto, tmp_path))
        assert constant_values(model) == fixed
        assert ("=" in known(model)["w"]) == (version < 4)
    assert constant_values(model.graph) == frozenset({"v"})


def test_inputs_of_the_map_type(tmp_path: Path) -> None:
    head = '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>'
    proto = parse(
        "g (float[N,3] x) => (float[N,3] y) { z = ai.onnx.ml.ZipMap <classlabels_int64s = [0, 1, 2]> (x) y = Relu(x) }",
        head,
    )
    found = known(load_model(write(proto, tmp_path)))
    assert found["z"] == "seq(map(i64,f32))[*]"


def test_a_deep_chain_and_a_wide_graph(tmp_path: Path) -> None:
    proto = parse("g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
    del proto.graph.node[:]
    names = ["x", *(f"v{k}" for k in range(9999)), "y"]
    for before, after in itertools.pairwise(names):
        proto.graph.node.append(onnx.helper.make_node("Neg", [before], [after]))
    found = known(load_model(write(proto, tmp_path)))
    assert len(found) == 10001 and set(found.values()) == {"f32[N,4]"}


def test_structure(tmp_path: Path) -> None:
    model = load(IF_MODEL, tmp_path)
    assert [graph.name for graph in all_graphs(model.graph)] == ["g", "then_graph", "else_graph"]
    branch = next(node for node in model.graph if node.op_type == "If")
    assert [name for name, _ in bodies(branch)] == ["then_branch", "else_branch"]
    assert all(constant_tensor(node) is None for node in model.graph)


def test_constant_nodes(tmp_path: Path) -> None:
    text = """g () => (float y) { y = Constant <value_float = 2.5> () a = Constant <value_ints = [1, 2]> ()
        b = Constant <value_string = "s"> () c = Constant <value_strings = ["s", "t"]> ()
        d = Constant <value = int8[1] {3}> () }"""
    model = load(text, tmp_path)
    tensors = [constant_tensor(node) for node in model.graph]
    assert all(tensor is not None for tensor in tensors)
    texts = [Info.of_array(tensor.numpy(), ConstantTable()).text for tensor in tensors if tensor is not None]
    assert texts == [
        "f32[]=f32[]|00002040",
        "i64[2]=i64[2]|01000000000000000200000000000000",
        'str[]=str[]|["s"]',
        'str[2]=str[2]|["s", "t"]',
        "i8[1]=i8[1]|03",
    ]


def test_an_unread_result_without_type_is_unknown(tmp_path: Path) -> None:
    model = load(
        "g (float[N,4] x) => (float[N,4] y) { y = foreign.Op(x) }", tmp_path, HEAD.replace("17", '17, "foreign" : 1')
    )
    model.graph.outputs[0].shape = None
    model.graph.outputs[0].type = None
    assert infer_facts(model)[model.graph.outputs[0]] == UNKNOWN


def test_what_is_known_holds_when_the_graph_runs(tmp_path: Path) -> None:
    text = """g (float[N,3,H,W] x, int64[T] i, float[T,8] e) => (float[?,?,?,?] y, float[?,?] z) {
        k = Constant <value = float[4,3,3,3] {WEIGHTS}> ()
        c = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, k)
        p = MaxPool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (c)
        t = Transpose <perm = [0, 2, 3, 1]> (p)
        s = Shape(t) zero = Constant <value_ints = [0]> () n = Gather(s, zero)
        tail = Constant <value_ints = [1, 1, -1]> () target = Concat <axis = 0> (n, tail)
        y = Reshape(t, target)
        g = Gather(e, i) u = Unsqueeze(g, zero) q = Squeeze(u, zero) both = Concat <axis = 1> (q, q, e)
        half = Constant <value_ints = [2]> () end = Constant <value_ints = [7]> () axis = Constant <value_ints = [1]> ()
        z = Slice(both, half, end, axis)
    }"""
    model = load(text.replace("WEIGHTS", ", ".join(["0.5"] * 108)), tmp_path)
    found = infer_facts(model)
    proto = to_proto(model)
    names = [value.name for node in model.graph for value in node.outputs]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in ("y", "z"))
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    by_name = {value.name: info for value, info in found.items()}
    known_extents = 0
    for binding in ({"N": 1, "H": 8, "W": 9, "T": 3}, {"N": 3, "H": 13, "W": 8, "T": 1}):
        sizes = [binding[name] for name in ("N", "H", "W", "T")]
        feeds = {
            "x": np.zeros((sizes[0], 3, *sizes[1:3]), np.float32),
            "i": np.zeros(sizes[3], np.int64),
            "e": np.zeros((sizes[3], 8), np.float32),
        }
        for output, array in zip(session.get_outputs(), session.run(None, feeds), strict=True):
            shape = by_name[output.name].shape
            assert shape is not None and len(shape) == array.ndim
            for dim, extent in zip(shape, array.shape, strict=True):
                assert dim is None or dim.evaluate(binding) == extent
                known_extents += dim is not None
    assert known_extents >= 60


def test_an_input_that_is_an_output_keeps_its_type(tmp_path: Path) -> None:
    model = load("g (float[N,4] x) => (float[?,?] x) { y = Relu(x) }", tmp_path)
    assert known(model) == {"x": "f32[N,4]", "y": "f32[N,4]"}
