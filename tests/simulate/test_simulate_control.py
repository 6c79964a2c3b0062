"""Bodies, captured values, functions, sequences, optionals, opaque operators, random draws, faults."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from gerules.simulate.engine import Simulator, evaluate_node
from gerules.simulate.faults import NodeFault, SimulationFault
from gerules.simulate.opaque import OpaqueValues
from gerules.simulate.values import UNKNOWN


def parse(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21, "own" : 1]>\n{text}')


def f(*values: Any) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def test_values_are_captured_four_bodies_deep() -> None:
    model = parse("""
    g (float[2] x, bool c) => (float[2] y) {
        a = Add(x, x)
        y = If (c) <
            then_branch = t1 () => (float[2] r1) {
                r1 = If (c) <
                    then_branch = t2 () => (float[2] r2) {
                        b = Mul(a, x)
                        r2 = If (c) <
                            then_branch = t3 () => (float[2] r3) {
                                r3 = If (c) <
                                    then_branch = t4 () => (float[2] r4) { r4 = Add(a, b) },
                                    else_branch = e4 () => (float[2] r5) { r5 = Identity(b) }
                                >
                            },
                            else_branch = e3 () => (float[2] r6) { r6 = Identity(x) }
                        >
                    },
                    else_branch = e2 () => (float[2] r7) { r7 = Identity(x) }
                >
            },
            else_branch = e1 () => (float[2] r8) { r8 = Neg(a) }
        >
    }""")
    simulator = Simulator(model)
    x = f(1, 2)
    assert simulator.run({"x": x, "c": np.array(True)})["y"].tolist() == [2 + 2, 4 + 8]
    assert simulator.run({"x": x, "c": np.array(False)})["y"].tolist() == [-2, -4]


def test_a_body_may_shadow_a_name_of_the_graph() -> None:
    inner = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["t"]), helper.make_node("Exp", ["t"], ["r"])],
        "b", [], [helper.make_tensor_value_info("r", 1, [1])],
    )  # fmt: skip
    other = helper.make_graph(
        [helper.make_node("Identity", ["t"], ["r2"])], "e", [], [helper.make_tensor_value_info("r2", 1, [1])]
    )
    nodes = [
        helper.make_node("Abs", ["x"], ["t"]),
        helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=other),
        helper.make_node("Add", ["y", "t"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, [1]), helper.make_tensor_value_info("c", 9, [])],
        [helper.make_tensor_value_info("z", 1, [1])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    simulator = Simulator(model)
    assert simulator.run({"x": f(0), "c": np.array(True)})["z"].tolist() == [1]
    assert simulator.run({"x": f(-3), "c": np.array(False)})["z"].tolist() == [6]


LOOP = """
    g (int64 n, float[1] x) => (float[1] last, float[k, 1] all) {{
        c = Constant <value: tensor = bool {{{start}}}> ()
        two = Constant <value: tensor = float[1] {{2}}> ()
        last, all = Loop (n, c, x) <body = b (int64 i, bool go, float[1] v) => (bool go2, float[1] w, float[1] scan) {{
            w = Mul(v, two)
            limit = Constant <value: tensor = float[1] {{20}}> ()
            less = Less(w, limit)
            go2 = Squeeze(less)
            scan = Add(w, x)
        }}>
    }}"""


@pytest.mark.parametrize(("count", "last", "scanned"), [(3, 8, [3, 5, 9]), (9, 32, [3, 5, 9, 17, 33]), (0, 1, [])])
def test_loops_end_by_count_or_condition_and_collect(count: int, last: float, scanned: list[float]) -> None:
    got = Simulator(parse(LOOP.format(start="1"))).run({"n": np.array(count), "x": f(1)})
    assert got["last"].tolist() == [last]
    assert got["all"].shape == (len(scanned), 1) and got["all"].reshape(-1).tolist() == scanned


def test_a_loop_whose_condition_is_false_at_once_gives_what_came_in() -> None:
    got = Simulator(parse(LOOP.format(start="0"))).run({"n": np.array(3), "x": f(5)})
    assert got["last"].tolist() == [5] and got["all"].shape == (0, 1)


def test_scan_takes_axes_and_directions() -> None:
    model = parse("""
    g (float[1] s, float[1, 3] x) => (float[1] last, float[1, 3] sums) {
        last, sums = Scan (s, x) <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [-1],
            scan_input_directions = [1], scan_output_directions = [1],
            body = b (float[1] a, float[1] v) => (float[1] t, float[1] u) { t = Add(a, v) u = Identity(t) }>
    }""")
    got = Simulator(model).run({"s": f(10), "x": f([1, 2, 3])})
    assert got["last"].tolist() == [16]
    assert got["sums"].tolist() == [[16, 15, 13]]  # from the last element to the first, written backwards


def test_sequence_map_and_sequences_flow_through_the_graph() -> None:
    model = parse("""
    g (seq(float[2]) s, float[2] x) => (seq(float[2]) r, int64 n) {
        r = SequenceMap (s, x) <body = b (float[2] v, float[2] w) => (float[2] o) { o = Add(v, w) }>
        n = SequenceLength(r)
    }""")
    got = Simulator(model).run({"s": [f(1, 2), f(3, 4)], "x": f(10, 10)})
    assert [v.tolist() for v in got["r"]] == [[11, 12], [13, 14]] and got["n"] == 2


def test_optionals_are_values_or_absent() -> None:
    model = parse("""
    g (optional(float[2]) o) => (bool has, float[2] y) {
        has = OptionalHasElement(o)
        y = If (has) <
            then_branch = t () => (float[2] a) { a = OptionalGetElement(o) },
            else_branch = e () => (float[2] b) { b = Constant <value: tensor = float[2] {7, 7}> () }
        >
    }""")
    simulator = Simulator(model)
    assert simulator.run({"o": f(1, 2)})["y"].tolist() == [1, 2]
    assert simulator.run({"o": None})["y"].tolist() == [7, 7]
    assert simulator.run({})["y"].tolist() == [7, 7]


def test_functions_nest_and_pass_attributes_on() -> None:
    model = parse("""
    g (float[3] x) => (float[3] y, float[3] z) {
        y = own.outer <slope: float = 0.5> (x)
        z = own.outer (x)
    }
    <domain: "own", opset_import: ["" : 21, "own" : 1]>
    inner <alpha: float = 0.25> (x) => (y) { y = LeakyRelu <alpha: float = @alpha> (x) }
    <domain: "own", opset_import: ["" : 21, "own" : 1]>
    outer <slope: float = 0.125> (x) => (y) {
        t = own.inner <alpha: float = @slope> (x)
        y = Add(t, t)
    }""")
    got = Simulator(model).run({"x": f(-8, 0, 1)})
    assert got["y"].tolist() == [-8, 0, 2] and got["z"].tolist() == [-2, 0, 2]


def test_a_function_that_calls_itself_is_refused() -> None:
    model = parse("""
    g (float[1] x) => (float[1] y) { y = own.f(x) }
    <domain: "own", opset_import: ["" : 21, "own" : 1]>
    f (x) => (y) { y = own.f(x) }""")
    with pytest.raises(SimulationFault, match="GR405"):
        Simulator(model)


OPAQUE = 'g (float[N, 2] x) => (float[N, 2] y) {{ t = Abs(x) u = "{domain}.Magic" (t) y = Neg(u) }}'


def _opaque(shape: Any) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Abs", ["x"], ["t"], name="a"),
        helper.make_node("Magic", ["t"], ["u"], name="m", domain="elsewhere"),
        helper.make_node("Neg", ["u"], ["y"], name="n"),
        helper.make_node("Exp", ["t"], ["z"], name="e"),
    ]
    known = [helper.make_tensor_value_info("u", 1, shape)] if shape is not None else []
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, ["N", 2])],
        [helper.make_tensor_value_info("y", 1, ["N", 2]), helper.make_tensor_value_info("z", 1, ["N", 2])],
        value_info=known,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("elsewhere", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def test_opaque_results_are_random_of_the_stated_type_and_the_same_each_time() -> None:
    first, second = (OpaqueValues(5, {"N": 3}) for _ in range(2))
    x = f([-1, 2], [3, -4], [5, 6])
    got = Simulator(_opaque(["N", 2]), opaque=first).run({"x": x})
    again = Simulator(_opaque(["N", 2]), opaque=second).run({"x": x + 1})
    assert got["y"].shape == (3, 2) and got["y"].tolist() == again["y"].tolist()
    assert first.operands["m", 0][0].tolist() == np.abs(x).tolist() and not first.untyped


def test_an_opaque_result_of_unknown_type_makes_what_follows_unknown() -> None:
    opaque = OpaqueValues()
    got = Simulator(_opaque(None), opaque=opaque).run({"x": f([1, 2])})
    assert got["y"] is UNKNOWN and got["z"].shape == (1, 2)
    assert list(opaque.untyped) == ["m"]


def test_an_opaque_operator_without_a_policy_is_refused_by_name() -> None:
    with pytest.raises(SimulationFault, match=r"GR412.*m has an operator"):
        Simulator(_opaque(["N", 2])).run({"x": f([1, 2])})


def test_random_nodes_draw_by_name_and_seeded_ones_by_seed() -> None:
    model = parse("""
    g () => (float[4] a, float[4] b, float[4] c, float[4] d) {
        [one] a = RandomNormal <shape = [4]> ()
        [two] b = RandomNormal <shape = [4]> ()
        [three] c = RandomUniform <shape = [4], seed = 3.0> ()
        [four] d = RandomUniform <shape = [4], seed = 3.0> ()
    }""")
    got = Simulator(model).run({})
    again = Simulator(model).run({})
    assert all(got[n].tolist() == again[n].tolist() for n in "abcd")
    assert got["a"].tolist() != got["b"].tolist()
    assert Simulator(model, seed=1).run({})["a"].tolist() != got["a"].tolist()


def test_a_random_node_in_a_loop_draws_anew_each_time() -> None:
    model = parse("""
    g (int64 n) => (float[k, 2] all) {
        c = Constant <value: tensor = bool {1}> ()
        all = Loop (n, c) <body = b (int64 i, bool go) => (bool go2, float[2] v) {
            go2 = Identity(go)
            v = RandomUniform <shape = [2]> ()
        }>
    }""")
    rows = Simulator(model).run({"n": np.array(3)})["all"]
    assert len({tuple(r) for r in rows.tolist()}) == 3


def test_intermediate_values_can_be_asked_for_by_name() -> None:
    model = parse("g (float[2] x) => (float[2] y) { a = Abs(x) b = Exp(a) y = Neg(b) }")
    simulator = Simulator(model)
    assert simulator.value_names == ("x", "a", "b", "y")
    assert list(simulator.run({"x": f(-1, 2)}, ["a", "x"])) == ["a", "x"]
    with pytest.raises(SimulationFault, match="GR406"):
        simulator.run({"x": f(1, 2)}, ["nothing"])


def test_faults_name_the_node_and_say_why() -> None:
    model = parse("g (float[2] x, float[3] z) => (float[2] y) { [sum] y = Add(x, z) }")
    with pytest.raises(NodeFault) as caught:
        Simulator(model).run({"x": f(1, 2), "z": f(1, 2, 3)})
    [diagnostic] = caught.value.diagnostics
    assert diagnostic.code == "GR410" and diagnostic.node == "sum"
    assert diagnostic.hint == "its operands were f32[2], f32[3]"


@pytest.mark.parametrize(
    ("feeds", "code"), [({}, "GR407"), ({"x": f(1, 2), "nobody": f(1)}, "GR407")], ids=["missing", "unknown"]
)
def test_feeds_are_checked_by_name(feeds: dict[str, Any], code: str) -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    with pytest.raises(SimulationFault, match=code):
        Simulator(model).run(feeds)


def test_an_operator_that_its_opset_lacks_is_refused() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 12]> g (float[2] x) => (float[2] y) { [h] y = HardSwish(x) }'
    )
    with pytest.raises(SimulationFault, match=r"GR403.*HardSwish at opset 12"):
        Simulator(model)


def test_a_value_that_nothing_makes_is_refused() -> None:
    graph = helper.make_graph(
        [helper.make_node("Neg", ["later"], ["y"]), helper.make_node("Abs", ["x"], ["later"])],
        "g", [helper.make_tensor_value_info("x", 1, [1])], [helper.make_tensor_value_info("y", 1, [1])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(SimulationFault, match=r"GR401.*later"):
        Simulator(model)


def test_a_default_of_an_input_can_be_fed_over() -> None:
    weight = onnx.numpy_helper.from_array(f(2, 2), "w")
    graph = helper.make_graph(
        [helper.make_node("Neg", ["w"], ["v"]), helper.make_node("Mul", ["x", "v"], ["y"])], "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("x", "w")],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])], initializer=[weight],
    )  # fmt: skip
    simulator = Simulator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    assert simulator.run({"x": f(1, 2)})["y"].tolist() == [-2, -4]
    assert simulator.run({"x": f(1, 2), "w": f(3, 3)})["y"].tolist() == [-3, -6]
    assert simulator.run({"x": f(1, 2)})["y"].tolist() == [-2, -4]


def chain(length: int) -> ir.Model:
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1024]))
    nodes, value = [], x
    for k in range(length):
        node = ir.Node("", ("Abs", "Neg", "Relu")[k % 3], [value], name=f"n{k}")
        node.outputs[0].name = f"v{k}"
        nodes.append(node)
        value = node.outputs[0]
    graph = ir.Graph([x], [value], nodes=nodes, opset_imports={"": 21}, name="chain")
    return ir.Model(graph, ir_version=10)


def test_ten_thousand_nodes_in_a_row_run_and_hold_few_values_at_once() -> None:
    """Of 10,000 values of 4 KiB no more than a handful live at once (all of them would be 40 MiB)."""
    import tracemalloc

    simulator = Simulator(chain(10_000))
    x = np.ones(1024, dtype=np.float32)
    simulator.run({"x": x})
    tracemalloc.start()
    got = simulator.run({"x": x})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert got["v9999"].shape == (1024,)
    assert peak < 1 << 20


def test_values_are_freed_after_their_last_use() -> None:
    seen: list[Any] = []
    model = parse("g (float[8] x) => (float[8] y) { a = Abs(x) b = Exp(a) c = Neg(b) y = Add(c, x) }")
    simulator = Simulator(model)
    simulator.run({"x": np.ones(8, np.float32)})
    [plan] = simulator._plans.values()
    first = plan.steps[0]

    def watched(operands: Any, run: Any) -> Any:
        results = first.kernel(operands, run)
        seen.append(weakref.ref(results[0]))
        return results

    def check(operands: Any, run: Any) -> Any:
        results = plan.steps[2].kernel(operands, run)
        gc.collect()
        seen.append(seen[0]() is None)
        return results

    from dataclasses import replace

    steps = (replace(first, kernel=watched), plan.steps[1], replace(plan.steps[2], kernel=check), plan.steps[3])
    [key] = simulator._plans
    simulator._plans[key] = replace(plan, steps=steps)
    simulator.run({"x": np.ones(8, np.float32)})
    assert seen[1] is True


def test_constants_are_computed_once() -> None:
    model = parse("""
    g (float[2] x) => (float[2] y) {
        c = Constant <value: tensor = float[2] {1, 2}> ()
        d = Exp(c)
        y = Mul(x, d)
    }""")
    simulator = Simulator(model)
    simulator.run({"x": f(1, 1)})
    [plan] = simulator._plans.values()
    assert [s.op for s in plan.steps] == ["Mul"]


def test_a_constant_node_that_fails_does_so_only_when_it_runs() -> None:
    model = parse("""
    g (float[2] x, bool c) => (float[2] y) {
        y = If (c) <
            then_branch = t () => (float[2] a) {
                s = Constant <value: tensor = int64[1] {3}> ()
                k = Constant <value: tensor = float[2] {1, 2}> ()
                a = Reshape(k, s)
            },
            else_branch = e () => (float[2] b) { b = Identity(x) }
        >
    }""")
    simulator = Simulator(model)
    assert simulator.run({"x": f(1, 2), "c": np.array(False)})["y"].tolist() == [1, 2]
    with pytest.raises(NodeFault, match="Reshape"):
        simulator.run({"x": f(1, 2), "c": np.array(True)})


def test_a_single_node_is_evaluated_for_folding() -> None:
    assert evaluate_node("", "Add", 14, {}, [f(1), f(2)], 1)[0].tolist() == [3]
    values = evaluate_node("", "Split", 13, {"axis": 0}, [f(1, 2), np.array([1, 1])], 2)
    assert [v.tolist() for v in values] == [[1], [2]]
    with pytest.raises(SimulationFault, match="GR403"):
        evaluate_node("", "Nothing", 14, {}, [f(1)], 1)
    with pytest.raises(NodeFault, match="GR410"):
        evaluate_node("", "Add", 14, {}, [f(1, 2), f(1, 2, 3)], 1)


def test_an_initializer_without_contents_is_refused() -> None:
    model = ir.from_proto(parse("g (float[2] x) => (float[2] y) { y = Neg(x) }"))
    model.graph.initializers["w"] = ir.Value(name="w", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2]))
    with pytest.raises(SimulationFault, match=r"GR402.*w has no contents"):
        Simulator(model)


def test_a_function_that_is_given_a_graph_is_refused() -> None:
    model = parse("""
    g (float[1] x) => (float[1] y) { y = own.f <body = b () => (float[1] r) { r = Neg(x) }> (x) }
    <domain: "own", opset_import: ["" : 21]>
    f <body> (x) => (y) { y = Neg(x) }""")
    with pytest.raises(SimulationFault, match="GR404"):
        Simulator(model)


def test_an_operator_without_a_kernel_is_refused_by_name() -> None:
    with pytest.raises(SimulationFault, match=r"GR411.*Gradient at opset 1"):
        evaluate_node("ai.onnx.preview.training", "Gradient", 1, {"xs": ["x"], "y": "y"}, [f(1)], 1)


def test_attributes_that_make_no_sense_are_refused() -> None:
    model = parse('g (float[1] x) => (float[1] y) { [slip] y = RNN <direction = "sideways"> (x, x, x) }')
    with pytest.raises(SimulationFault, match=r"GR413.*slip.*sideways"):
        Simulator(model)


def test_sizes_of_opaque_results_may_be_polynomials() -> None:
    opaque = OpaqueValues(0, {"N": 3})
    got = Simulator(_opaque(["2*N+1", 2]), opaque=opaque).run({"x": f([1, 2])})
    assert got["y"].shape == (7, 2)
    unbound = OpaqueValues(0, {})
    assert Simulator(_opaque(["M", 2]), opaque=unbound).run({"x": f([1, 2])})["y"] is UNKNOWN
    assert list(unbound.untyped) == ["m"]


def test_unknown_values_flow_through_bodies() -> None:
    body = helper.make_graph(
        [helper.make_node("Add", ["u", "x"], ["r"])], "b", [], [helper.make_tensor_value_info("r", 1, [1])]
    )
    other = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["s"])], "e", [], [helper.make_tensor_value_info("s", 1, [1])]
    )
    nodes = [
        helper.make_node("Magic", ["x"], ["u"], name="m", domain="elsewhere"),
        helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=other),
        helper.make_node("Neg", ["x"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, [1]), helper.make_tensor_value_info("c", 9, [])],
        [helper.make_tensor_value_info("y", 1, [1]), helper.make_tensor_value_info("z", 1, [1])],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("elsewhere", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    got = Simulator(model, opaque=OpaqueValues()).run({"x": f(1), "c": np.array(True)})
    assert got["y"] is UNKNOWN and got["z"].tolist() == [-1]
