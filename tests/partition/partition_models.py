"""Models for the tests of partitions, and running them in onnxruntime, whole or piece by piece."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from gerules.partition.cluster import Clustering, cluster
from gerules.partition.split import Partitions

F = TensorProto.FLOAT


def sums(reads: Sequence[Sequence[int]]) -> ir.Graph:
    """A graph of n nodes `n0`.. that add the results of the nodes named by number; of `x` where there are none."""
    x = ir.val("x", ir.DataType.FLOAT, ir.Shape([4]))
    values: list[ir.Value] = []
    nodes = []
    for index, before in enumerate(reads):
        result = ir.val(f"v{index}", ir.DataType.FLOAT, ir.Shape([4]))
        operands = [values[b] for b in before] or [x]
        nodes.append(ir.Node("", "Sum", operands, name=f"n{index}", outputs=[result]))
        values.append(result)
    return ir.Graph([x], values[-1:], nodes=nodes, opset_imports={"": 17}, name="sums")


def model_of(text: str) -> onnx.ModelProto:
    """A model in ONNX textual syntax."""
    return onnx.parser.parse_model(text)


def clusters_of(model: onnx.ModelProto, placement: Mapping[str, str], **options: object) -> Clustering:
    return cluster(ir.from_proto(model).graph, placement, **options)  # type: ignore[arg-type]


def named(clustering: Clustering) -> list[set[str]]:
    return [set(c.nodes) for c in clustering.clusters]


def is_executable(clustering: Clustering) -> bool:
    """Whether every node finds what it reads when clusters run in order, and nodes in order inside of them."""
    net = clustering.net
    made = {*net.inputs, *net.initializers}
    for piece in clustering.clusters:
        for name in piece.nodes:
            node = net.nodes[net.position[name]]
            if not set(node.reads) <= made:
                return False
            made.update(node.results)
    return True


def is_complete(clustering: Clustering) -> bool:
    """Whether every node is in one cluster, or in several if it is copied."""
    count: dict[str, int] = {}
    for piece in clustering.clusters:
        for name in piece.nodes:
            count[name] = count.get(name, 0) + 1
    return count == {n.name: len(clustering.copies.get(n.name, (0,))) for n in clustering.net.nodes}


def is_connected(clustering: Clustering, together: Sequence[Sequence[str]] = ()) -> bool:
    """Whether the nodes of each cluster, copies apart, hang together by edges or by a group of `together`."""
    net = clustering.net
    for piece in clustering.clusters:
        own = [n for n in piece.nodes if n not in clustering.copies]
        joined: dict[str, set[str]] = {n: set() for n in own}
        for name in own:
            for before in net.before[net.position[name]]:
                other = net.nodes[before].name
                if other in joined:
                    joined[name].add(other)
                    joined[other].add(name)
        for group in together:
            inside = [n for n in group if n in joined]
            for name in inside[1:]:
                joined[name].add(inside[0])
                joined[inside[0]].add(name)
        if own:
            seen, waiting = {own[0]}, [own[0]]
            while waiting:
                for other in joined[waiting.pop()] - seen:
                    seen.add(other)
                    waiting.append(other)
            if seen != set(own):
                return False
    return True


# ------------------------------------------------------------------ running


def run(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], outputs: Sequence[str]) -> dict[str, np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return dict(zip(outputs, session.run(list(outputs), dict(feeds)), strict=True))


def run_pieces(partitions: Partitions, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run plain partitions in order; each gets by name what it says that it needs, and nothing else."""
    pool = dict(feeds)
    for item in partitions.items:
        if item.outputs:
            pool |= run(item.model, {name: pool[name] for name in item.inputs}, item.outputs)
    return pool


def assert_pieces_equal_whole(model: onnx.ModelProto, partitions: Partitions, feeds: Mapping[str, np.ndarray]) -> None:
    outputs = list(dict.fromkeys(o.name for o in model.graph.output))
    whole = run(model, feeds, outputs)
    pieces = run_pieces(partitions, feeds)
    for name in outputs:
        np.testing.assert_array_equal(pieces[name], whole[name], err_msg=name)


# ------------------------------------------------------------------ random models


def random_model(seed: int, count: int, declared: bool) -> onnx.ModelProto:
    """A model of about `count` nodes with shared values, several results, absent operands, captured values (two bodies
    deep), constants, functions, annotations and metadata; outputs that are read too, inputs passed through, and
    initializers that are outputs. Values are declared or left to inference."""
    rng = random.Random(seed)
    values, halves = ["x", "y", "w0"], [""]
    halves.clear()
    nodes: list[onnx.NodeProto] = []

    def add(op: str, reads: Sequence[str], results: Sequence[str], **attributes: object) -> None:
        name = f"{op.lower()}_{len(nodes)}"
        domain = str(attributes.pop("domain", ""))
        nodes.append(helper.make_node(op, reads, results, name=name, domain=domain, **attributes))
        nodes[-1].doc_string = f"made {len(nodes)}th" if rng.random() < 0.2 else ""

    for at in range(count):
        kind = rng.choice(["two", "two", "one", "clip", "split", "concat", "if", "constant", "call", "scaled"])
        value, a, b = f"v{at}", rng.choice(values), rng.choice(values)
        if kind == "two":
            add(rng.choice(["Add", "Sub", "Max"]), [a, b], [value])
        elif kind == "clip":
            add("Clip", [a, "", "top"], [value])
        elif kind == "split":
            add("Split", [a], [f"{value}a", f"{value}b"], axis=0)
            halves += [f"{value}a", f"{value}b"]
            continue
        elif kind == "concat" and halves:
            add("Concat", [rng.choice(halves), rng.choice(halves)], [value], axis=0)
        elif kind == "if":
            add("If", ["flag"], [value], then_branch=_body("Add", a, b, value), else_branch=_nested(a, b, value))
        elif kind == "constant":
            data = numpy_helper.from_array(np.full(4, rng.randint(-3, 3), np.float32))
            add("Constant", [], [value], value=data)
        elif kind == "call":
            add(rng.choice(["Twice", "Thrice"]), [a], [value], domain="local")
        elif kind == "scaled":
            add("Mul", [a, "w1"], [value])
        else:
            add("Relu", [a], [value])
        values.append(value)
    made = values[3:]
    chosen = rng.sample(made, min(len(made), 3)) if made else []
    outputs = [*chosen, "x", "w0"] if rng.random() < 0.5 else chosen or ["x"]
    return _finish(nodes, outputs, values[3:], halves, declared)


def _body(op: str, a: str, b: str, name: str) -> onnx.GraphProto:
    node = helper.make_node(op, [a, b], [f"{name}_{op}"], name=f"{name}_{op}")
    return helper.make_graph([node], f"{name}_{op}_body", [], [helper.make_tensor_value_info(f"{name}_{op}", F, [4])])


def _nested(a: str, b: str, name: str) -> onnx.GraphProto:
    inner = helper.make_node(
        "If",
        ["flag"],
        [f"{name}_deep"],
        name=f"{name}_if",
        then_branch=_body("Sub", a, b, f"{name}_t"),
        else_branch=_body("Mul", b, a, f"{name}_e"),
    )
    return helper.make_graph([inner], f"{name}_else", [], [helper.make_tensor_value_info(f"{name}_deep", F, [4])])


def _finish(
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[str],
    whole: Sequence[str],
    halves: Sequence[str],
    declared: bool,
) -> onnx.ModelProto:
    rng = np.random.default_rng(1)
    weights = {name: rng.integers(-4, 4, 4).astype(np.float32) for name in ("w0", "w1", "unused")}
    weights["top"] = np.float32(3.5).reshape(())
    graph = helper.make_graph(
        nodes,
        "random",
        [helper.make_tensor_value_info(n, F, [4]) for n in ("x", "y")]
        + [helper.make_tensor_value_info("flag", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info(n, F, [4]) for n in outputs],
        [numpy_helper.from_array(data, name) for name, data in weights.items()],
        doc_string="a random graph",
        value_info=[helper.make_tensor_value_info(n, F, [4]) for n in reversed(whole)] * declared
        + [helper.make_tensor_value_info(n, F, [2]) for n in halves] * declared,
    )
    annotation = graph.quantization_annotation.add(tensor_name="w1")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="top")
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1), helper.make_opsetid("ai.onnx.ml", 3)]
    twice = helper.make_function(
        "local", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], imports[:1]
    )
    thrice = helper.make_function(
        "local",
        "Thrice",
        ["a"],
        ["c"],
        [helper.make_node("Twice", ["a"], ["b"], domain="local"), helper.make_node("Add", ["a", "b"], ["c"])],
        imports[:2],
    )
    idle = helper.make_function("local", "Idle", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], imports[:1])
    model = helper.make_model(
        graph,
        functions=[thrice, idle, twice],
        opset_imports=imports,
        ir_version=9,
        producer_name="somebody",
        producer_version="1",
        doc_string="a random model",
    )
    helper.set_model_props(model, {"author": "nobody", "gerules.dims": "N=1..4"})
    return model


def random_feeds(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.integers(-5, 5, 4).astype(np.float32),
        "y": rng.integers(-5, 5, 4).astype(np.float32),
        "flag": np.array(bool(seed % 2)),
    }


def random_placement(model: onnx.ModelProto, seed: int, engines: Sequence[str]) -> dict[str, str]:
    rng = random.Random(seed)
    return {n.name: rng.choice(engines) for n in model.graph.node}
