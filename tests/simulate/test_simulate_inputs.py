"""Random inputs and the sizes at which models are validated."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir
import pytest

from gerules.graph.dims import DimFacts
from gerules.simulate.bindings import choose_bindings, runnable_inputs
from gerules.simulate.engine import Simulator
from gerules.simulate.faults import SimulationFault
from gerules.simulate.inputs import binding_names, input_specs, make_inputs


def model(text: str, opset: int = 21) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{text}'))


def test_dimensions_are_symbols_polynomials_or_their_own() -> None:
    graph = model("g (float[N, 3, N] x, float[M] z) => (float[M] y) { y = Neg(z) }")
    value = graph.graph.inputs[0]
    value.shape = ir.Shape(["?", "past + now", -1, "N"])
    graph.graph.inputs[1].shape = ir.Shape(["?"])
    specs = input_specs(graph)
    assert [str(d) for d in specs[0].dims or ()] == ["'x[0]'", "now+past", "'x[2]'", "N"]
    assert binding_names(specs) == ["x[0]", "now", "past", "x[2]", "N", "z[0]"]


def test_sizes_follow_the_binding() -> None:
    graph = model("g (float[N, 3] x, float[M] z) => (float[M] y) { y = Neg(z) }")
    graph.graph.inputs[0].shape = ir.Shape(["N + M", 3])
    feeds = make_inputs(graph, {"N": 2, "M": 5}, 0)
    assert feeds["x"].shape == (7, 3) and feeds["z"].shape == (5,)
    with pytest.raises(SimulationFault, match=r"GR421.*M"):
        make_inputs(graph, {"N": 2}, 0)


def test_an_input_without_a_type_is_refused() -> None:
    graph = model("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    graph.graph.inputs[0].type = None
    with pytest.raises(SimulationFault, match="GR420"):
        input_specs(graph)


@pytest.mark.parametrize(
    "kind", ["float", "double", "float16", "bfloat16", "int64", "int8", "uint8", "int4", "bool", "string", "complex64"]
)
def test_every_type_is_drawn_and_the_same_for_one_seed(kind: str) -> None:
    graph = model(f"g ({kind}[4, 5] x) => ({kind}[4, 5] y) {{ y = Identity(x) }}")
    first, second, other = (make_inputs(graph, {}, seed)["x"] for seed in (0, 0, 1))
    assert first.shape == (4, 5) and first.dtype == Simulator(graph).run({"x": first})["y"].dtype
    assert first.tolist() == second.tolist() and first.tolist() != other.tolist()


def test_integers_that_index_a_table_stay_within_it() -> None:
    graph = model("""
    g (int64[N, S] ids, float[7, 4] table) => (float[N, S, 4] y) {
        a = Cast <to = 6> (ids)
        b = Identity(a)
        y = Gather(table, b)
    }""")
    feeds = [make_inputs(graph, {"N": 20, "S": 20}, seed)["ids"] for seed in range(3)]
    assert min(f.min() for f in feeds) == 0 and max(f.max() for f in feeds) == 6


def test_integers_that_are_compared_take_both_branches() -> None:
    graph = model("""
    g (int64 rate) => (bool y) {
        c = Constant <value: tensor = int64 {16000}> ()
        y = Equal(rate, c)
    }""")
    rates = [make_inputs(graph, {}, seed)["rate"] for seed in (0, 1)]
    assert [r.shape for r in rates] == [(), ()] and [int(r) for r in rates] == [16000, 8000]


def test_masks_are_bits_and_ranges_override() -> None:
    graph = model("g (int64[50] attention_mask, int64[50] n) => (int64[50] y) { y = Add(attention_mask, n) }")
    feeds = make_inputs(graph, {}, 0, {"n": (10, 12)})
    assert set(feeds["attention_mask"].tolist()) == {0, 1} and set(feeds["n"].tolist()) == {10, 11, 12}
    assert set(make_inputs(graph, {}, 0, {"n": [3, 5, 9]})["n"].tolist()) == {3, 5, 9}


def test_sequences_and_optionals_are_drawn() -> None:
    graph = model("""
    g (seq(float[N]) s, optional(float[2]) o) => (int64 n, bool h) {
        n = SequenceLength(s)
        h = OptionalHasElement(o)
    }""")
    feeds = make_inputs(graph, {"N": 3}, 0)
    assert [v.shape for v in feeds["s"]] == [(3,), (3,)] and feeds["o"].shape == (2,)


def test_inputs_with_defaults_are_not_fed() -> None:
    graph = model("g (float[2] x, float[2] w = {1, 2}) => (float[2] y) { y = Add(x, w) }")
    assert list(make_inputs(graph, {}, 0)) == ["x"]


def test_default_bindings_are_two_small_and_distinct() -> None:
    graph = model("g (float[N, M] x, float[M, K] z) => (float[N, K] y) { y = MatMul(x, z) }")
    assert choose_bindings(graph) == [{"N": 2, "M": 3, "K": 4}, {"N": 5, "M": 4, "K": 3}]


def test_a_model_without_free_dimensions_has_one_binding() -> None:
    assert choose_bindings(model("g (float[2] x) => (float[2] y) { y = Neg(x) }")) == [{}]


@pytest.mark.parametrize("size", [0, 1, 4])
def test_a_promise_of_one_size_leaves_one_binding(size: int) -> None:
    graph = model("g (float[N] x) => (float[N] y) { y = Neg(x) }")
    assert choose_bindings(graph, DimFacts.from_flags([f"N={size}"], [])) == [{"N": size}]


@pytest.mark.parametrize(
    ("dims", "assumes", "expected"),
    [
        (("N=7",), (), lambda b: b["N"] == 7),
        (("N=10..64",), (), lambda b: 10 <= b["N"] <= 64),
        (("N=1..2", "M=1..2"), (), lambda b: max(b.values()) <= 2),
        ((), ("N % 8 == 0",), lambda b: b["N"] % 8 == 0 and b["N"] > 0),
        ((), ("N == M",), lambda b: b["N"] == b["M"]),
        ((), ("N >= M",), lambda b: b["N"] >= b["M"]),
    ],
)
def test_promises_are_kept(dims: Any, assumes: Any, expected: Any) -> None:
    graph = model("g (float[N] x, float[M] z) => (float[N] y, float[M] w) { y = Neg(x) w = Neg(z) }")
    facts = DimFacts.from_flags(dims, assumes)
    found = choose_bindings(graph, facts)
    assert found and all(expected(b) and not facts.violated(b) for b in found)


def test_sizes_given_are_taken_and_checked() -> None:
    graph = model("g (float[N] x, float[M] z) => (float[N] y, float[M] w) { y = Neg(x) w = Neg(z) }")
    assert choose_bindings(graph, at={"N": 9, "M": 8}) == [{"N": 9, "M": 8}]
    assert all(b["N"] == 9 for b in choose_bindings(graph, at={"N": 9}))
    with pytest.raises(SimulationFault, match=r"GR422.*N=1\.\.4"):
        choose_bindings(graph, DimFacts.from_flags(["N=1..4"]), at={"N": 9})
    with pytest.raises(SimulationFault, match="GR423") as caught:
        choose_bindings(graph, at={"Q": 9})
    assert caught.value.diagnostics[0].hint == "dimensions are: N, M"


def test_a_mask_over_past_and_present_gets_their_sum() -> None:
    graph = model("""
    g (float[B, P] past, float[B, S] now, float[B, T] mask) => (float[B, T] y) {
        both = Concat <axis = 1> (past, now)
        y = Mul(both, mask)
    }""")
    found = choose_bindings(graph)
    assert len(found) == 2 and all(b["T"] == b["P"] + b["S"] for b in found)


def test_a_batch_that_only_works_at_one() -> None:
    graph = model("""
    g (float[N, M] x) => (float[M] y) {
        z = Constant <value: tensor = int64[1] {0}> ()
        y = Squeeze(x, z)
    }""")
    found = choose_bindings(graph)
    assert len(found) == 2 and all(b["N"] == 1 for b in found)


def test_layers_that_halve_get_multiples() -> None:
    graph = model("""
    g (float[N, 1, H, W] x) => (float[N, 1, H, W] y) {
        small = AveragePool <kernel_shape = [8, 8], strides = [8, 8]> (x)
        s = Constant <value: tensor = float[4] {1, 1, 8, 8}> ()
        big = Resize <mode = "nearest"> (small, , s)
        y = Add(x, big)
    }""")
    found = choose_bindings(graph)
    assert len(found) == 2 and all(b["H"] % 8 == 0 and b["W"] % 8 == 0 for b in found)


def test_states_that_share_a_batch_and_a_long_window() -> None:
    graph = model("""
    g (float[A, T] x, float[B, 4] state) => (float[A, K] y) {
        sizes = Constant <value: tensor = int64[3] {1, 1, 200}> ()
        w = ConstantOfShape(sizes)
        one = Constant <value: tensor = int64[1] {1}> ()
        wide = Unsqueeze(x, one)
        heard = Conv(wide, w)
        flat = Squeeze(heard, one)
        y = Concat <axis = 1> (flat, state)
    }""")
    found = choose_bindings(graph)
    assert len(found) == 2 and all(b["A"] == b["B"] and b["T"] >= 256 for b in found)


def test_a_model_that_runs_nowhere_asks_for_sizes_by_name() -> None:
    graph = model("""
    g (float[N] x, float[M] z) => (float[3] y) {
        s = Constant <value: tensor = int64[1] {100003}> ()
        t = Reshape(x, s)
        y = Add(t, z)
    }""")
    with pytest.raises(SimulationFault, match=r"GR424.*N, M.*Reshape") as caught:
        choose_bindings(graph)
    assert caught.value.diagnostics[0].hint == "say at which sizes it runs: --at N=SIZE --at M=SIZE"


def test_integers_fall_back_when_the_model_fails_at_the_first_choice() -> None:
    graph = model("""
    g (int64[2] shape, float[4] x) => (float[2, 2] y) { y = Reshape <allowzero = 1> (x, shape) }""")
    feeds, outputs, failure = runnable_inputs(Simulator(graph), {}, 0)
    assert outputs["y"].shape == (2, 2)
    assert failure is None and feeds["shape"].tolist() == [2, 2]


def test_a_target_shape_at_run_time_is_one_that_fits() -> None:
    graph = model("g (float[2, 5, N] x, int64[4] s) => (float[A, B, C, D] y) { y = Reshape(x, s) }")
    binding = choose_bindings(graph)[0]
    feeds, outputs, failure = runnable_inputs(Simulator(graph), binding, 0, None)
    assert failure is None
    assert feeds["s"].tolist() == [1, 1, 1, -1]
    assert outputs["y"].size == feeds["x"].size
