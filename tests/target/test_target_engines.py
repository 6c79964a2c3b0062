"""Targets: who takes what at what cost, transfers, merge and group rules, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from target_helpers import DATA, Graph, data_graph, data_program, graph, program

from gerules.errors import Exit, Refused, UsageFault
from gerules.graph.dims import DimFacts
from gerules.registry import onnx_registry
from gerules.target import Likely, PlainCost, Target, load_target, target_names
from gerules.target.graph_view import GraphView

US = 1e-6


def target(text: str, likely: Likely | None = None, *more: str) -> Target:
    return load_target(program(text, *more), "t0", likely)


def costs(made: Target, g: Graph, node: str) -> dict[str, float]:
    """Seconds by engine, of those that take the node."""
    found = made.costs(g.view, g.nodes[node])
    return {e: c for e, c in zip(made.engines, found, strict=True) if c is not None}


# -------------------------------------------------------------------------------- the target files that there are


def test_ascend_takes_and_costs_as_calculated_by_hand() -> None:
    made = load_target(data_program("ascend"), "ascend")
    assert made.engines == ("AiCore", "AiVector", "AiCpu", "HostCpu", "Dvpp")
    assert made.memory == {"AiCore": "Hbm", "AiVector": "Hbm", "AiCpu": "Hbm", "HostCpu": "Ddr", "Dvpp": "Hbm"}
    assert made.parts == {"AiCube": ("AiCore", "AiVector")}
    assert made.composite_of == {"AiCore": "AiCube", "AiVector": "AiCube"}
    launch = {"AiCore": 4, "AiVector": 3, "AiCpu": 30, "HostCpu": 0, "Dvpp": 0, "AiCube": 5}
    assert made.launch == pytest.approx({engine: us * US for engine, us in launch.items()})
    assert made.streams["AiVector"] == 8 and made.streams["AiCube"] == 1
    assert made.priority["HostCpu"] == 9 and made.priority["AiCore"] == 0
    assert made.attached == {"HostCpu"}
    assert made.inputs is None
    g = graph(
        """
        g (float[64,48] a, float[48,32] b, float16[64,48] ah, float16[48,32] bh, float16[64,50] ao, float16[50,32] bo,
           float[1,8,16,16] x, float[4,8,3,3] w, float[4,2,3,3] wg, uint8[1,3,32,32] im, float[4] sc, int64[1] ax,
           string[2] s)
        => (float[64,32] m)
        {
            [single] m = MatMul(a, b)
            [half] mh = MatMul(ah, bh)
            [odd] mo = MatMul(ao, bo)
            [conv] c = Conv <pads = [1, 1, 1, 1]> (x, w)
            [grouped] cg = Conv <group = 4> (x, wg)
            [relu] r = Relu(x)
            [reduce] rs = ReduceSum(x, ax)
            [resize] ri = Resize <mode = "linear"> (im, , sc)
            [text] st = Identity(s)
            [thing] t = com.example.Thing(x)
        }
        """
    )
    ai_cpu = 30 * US + 2048 / 4e9
    host = 2048 / 1e9
    moved = 4 * (64 * 48 + 48 * 32 + 2048)
    assert costs(made, g, "single") == pytest.approx(
        {"AiCore": 4 * US + 2 * 2048 * 48 / 40e12 + moved / 1.2e12, "AiCpu": ai_cpu, "HostCpu": host}
    )
    assert costs(made, g, "half") == pytest.approx(
        {"AiCore": 4 * US + 2 * 2048 * 48 / 160e12 + moved / 2 / 1.2e12, "AiCpu": ai_cpu, "HostCpu": host}
    )
    # the last clause that matches: 50 is no multiple of 16
    assert costs(made, g, "odd")["AiCore"] == pytest.approx(4 * US + 2 * 2048 * 50 / 160e12 + 16 * 2048 / 1.2e12)
    assert costs(made, g, "conv")["AiCore"] == pytest.approx(
        4 * US + 2 * 4 * 256 * 72 / 40e12 + 4 * (8 * 256 + 4 * 72 + 4 * 256) / 1.2e12
    )
    assert "AiCore" not in costs(made, g, "grouped")  # neither one group nor one a channel
    assert costs(made, g, "relu")["AiVector"] == pytest.approx(3 * US + 2048 / 2e12 + 2 * 4 * 2048 / 1.2e12)
    assert set(costs(made, g, "relu")) == {"AiVector", "AiCpu", "HostCpu"}
    assert set(costs(made, g, "reduce")) == {"AiVector", "AiCpu", "HostCpu"}
    assert set(costs(made, g, "resize")) == {"AiCpu", "HostCpu"}  # its result's shape is not known
    assert set(costs(made, g, "text")) == {"HostCpu"}
    assert set(costs(made, g, "thing")) == {"HostCpu"}
    assert made.transfer(12e9, "AiCore", "HostCpu") == pytest.approx(20 * US + 1)
    assert made.transfer(12e9, "HostCpu", "Dvpp") == pytest.approx(20 * US + 1)
    assert made.transfer(2.4e12, "AiCore", "AiVector") == pytest.approx(US + 1)
    assert made.transfer(2.4e12, "AiVector", "AiCpu") == 0
    assert made.transfer(2.4e12, "AiCpu", "AiCpu") == 0
    assert made.part("AiVector", "AiCube") and not made.part("AiCpu", "AiCube")


def test_generic_bounds_by_bytes_and_leaves_control_to_the_host() -> None:
    made = load_target(data_program("generic"), "generic")
    g = graph(
        """
        g (float[1024,1024] small, float[8192,4096] large, float[N,4] free, bool c) => (float[1024,1024] y)
        {
            [small] y = Relu(small)
            [large] z = Relu(large)
            [free] f = Relu(free)
            [if] i = If (c) <then_branch = t () => (float[1] a) { a = Constant <value_floats = [1.0]> () },
                             else_branch = e () => (float[1] b) { b = Constant <value_floats = [2.0]> () }>
        }
        """
    )
    assert set(costs(made, g, "small")) == {"Npu", "Gpu", "Cpu"}
    assert set(costs(made, g, "large")) == {"Gpu", "Cpu"}
    assert set(costs(made, g, "free")) == {"Gpu", "Cpu"}  # the bound is not known to hold
    assert set(costs(made, g, "if")) == {"Cpu"}
    promised = load_target(data_program("generic"), "generic", Likely(facts=DimFacts.from_flags(dims=["N=1..64"])))
    assert set(costs(promised, g, "free")) == {"Npu", "Gpu", "Cpu"}


REPORTS = [
    (
        "big_islands_are_worth_it",
        {
            "m0": {"Npu": 2 * 64**3 / 2e12 + US, "Cpu": 2 * 64**3 / 600e6 + 2 * US},
            "host": {"Cpu": 4096 / 600e6 + 2 * US},
            "tiny": {"Npu": 4096 / 2e12 + US, "Cpu": 4096 / 600e6 + 2 * US},
        },
        [],
        [],
    ),
    (
        "densely_connected_all_supported",
        {"act0": {"Npu": US}, "act1": {"Npu": US, "Cpu": 3 * US}, "sum1": {"Npu": US}},
        [],
        [],
    ),
    (
        "no_engine_for_two_nodes_refused",
        {"ok": {"Npu": US, "Cpu": 3 * US}, "fine": {"Npu": US}, "lost_det": {}, "lost_cum": {}},
        [],
        ["lost_det", "lost_cum"],
    ),
    (
        "quantised_group_stays_whole",
        {"host": {"Cpu": 3 * US}, "q0": {"Npu": US}, "conv": {"Npu": US}},
        [("dq_x", "dq_w", "conv", "q1")],
        [],
    ),
    ("reflect_pad_border", {"pad1": {"Cpu": 3 * US}, "conv1": {"Npu": US, "Cpu": 3 * US}}, [], []),
]


@pytest.mark.parametrize(("name", "expected", "groups", "refused"), REPORTS, ids=[r[0] for r in REPORTS])
def test_the_targets_of_the_reported_cases(
    name: str, expected: dict[str, dict[str, float]], groups: list[tuple[str, ...]], refused: list[str]
) -> None:
    made = load_target(data_program(name), name)
    g = data_graph(name)
    nodes = list(g.nodes.values())
    for node, by_engine in expected.items():
        assert costs(made, g, node) == pytest.approx(by_engine)
    assert [tuple(n.name for n in group) for group in made.groups(g.view, nodes)] == groups
    found = made.unsupported(g.view, nodes, GraphView.name)
    assert [d.node for d in found] == refused
    assert made.memory == {"Npu": "Npu", "Cpu": "Cpu"}
    assert made.transfer(10e9, "Npu", "Cpu") == pytest.approx(1 + 20 * US)


@pytest.mark.parametrize("path", sorted(DATA.glob("*.rules")), ids=lambda p: p.stem)
def test_every_target_file_loads(path: Any) -> None:
    if path.stem != "ops":
        assert load_target(data_program(path.stem), path.stem).engines


# --------------------------------------------------------------------------------------------------------- costs

TWO = """
engine Fast:
    cost = flops / 1e9
    supports[f in MatMul | Relu] f(..)
engine Slow:
    cost = bytes / 1e6 + elements
    supports f(..)
transfer Fast <-> Slow = 1us
"""


def slow(cost: str, *clauses: str) -> str:
    lines = "\n    ".join(clauses)
    return f"engine Slow:\n    launch = 2us\n    cost = {cost}\n    supports[f in Onnx] f(..)\n    {lines}"


RELU = "g (float[4,5] x) => (float[4,5] y) { [n] y = Relu(x) }"
MATMUL = "g (float[4,5] x, float[5,6] w) => (float[4,6] y) { [n] y = MatMul(x, w) }"
SQUARE = "g (float[4,4] x) => (float[4,4] y) { [n] y = MatMul(x, x) }"
TOPK = "g (float[4,5] x, int64[1] k) => (float[4,5] y, int64[4,5] i) <int64[1] k = {5}> { [n] y, i = TopK(x, k) }"
POOL = "g (float[1,2,4,4] x) => (float[1,2,3,3] y) { [n] y = MaxPool <kernel_shape = [2, 2]> (x) }"
SHAPED = "g (float[N,M] x) => (float[N,M] y) { [n] y = Relu(x) }"


@pytest.mark.parametrize(
    ("text", "cost", "expected"),
    [
        (RELU, "elements", 20),
        (RELU, "bytes", 160),
        (RELU, "flops", 20),
        (RELU, "3us + 1ms", 0.001003),
        (MATMUL, "flops", 2 * 24 * 5),
        (MATMUL, "bytes", 4 * (20 + 30 + 24)),
        (SQUARE, "bytes", 4 * 32),  # every operand once
        (TOPK, "elements", 40),
        (TOPK, "bytes", 80 + 8 + 80 + 160),
        (TOPK, "flops", 40),  # no fact: the elements of the results
        (POOL, "flops", 18 * 4),
        (SHAPED, "elements", 8),  # N is a batch, M is anything
    ],
)
def test_free_names_of_a_cost(text: str, cost: str, expected: float) -> None:
    assert costs(target(slow(cost)), graph(text), "n") == pytest.approx({"Slow": expected + 2 * US})


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        (("cost Relu(x) = 7",), 7),
        (("cost Relu(x) = 7", "cost[f in Unary] f(x) = 8"), 8),  # the last that matches
        (("cost[f in Unary] f(x) = 8 when x.rank == 3",), 20),
        (("cost[f in Unary] f(x) as y = y.size * 3 + x.shape[-1] + flops",), 60 + 5 + 20),
        (("cost[f in Unary] f(x) = k * 2 when x.shape == [k, 5]",), 8),
        (("cost Sigmoid(x) = 7",), 20),
        (("cost[f in Unary] f(x) = 8 when x.shape == [n, m], n < m, m % 16 != 0",), 8),
    ],
)
def test_the_last_cost_that_matches_counts(clauses: Sequence[str], expected: float) -> None:
    assert costs(target(slow("elements", *clauses)), graph(RELU), "n") == pytest.approx({"Slow": expected + 2 * US})


@pytest.mark.parametrize(
    ("likely", "expected"),
    [
        (Likely({"N": (64,)}), 64 * 8),
        (Likely({"N": (64, 128)}), 96 * 8),
        (Likely({"N": (64, 128), "M": (1, 2)}), (64 + 256) / 2),
        (Likely({"N": (1, 2, 3), "M": (5,)}), 10),
        (Likely(facts=DimFacts.from_flags(dims=["N=2..10", "M=3"])), 6 * 3),
    ],
)
def test_likely_sizes_are_averaged(likely: Likely, expected: float) -> None:
    assert costs(target(slow("elements"), likely), graph(SHAPED), "n") == pytest.approx({"Slow": expected + 2 * US})


def test_sizes_that_nothing_says_are_assumed_and_marked() -> None:
    g = graph(
        "g (float[3,4] x, int64[2] s) => (float[a,b] y) { [z] z = NonZero(x) [n] y = Expand(x, s) [r] r = Relu(x) }"
    )
    made = target(slow("elements"))
    assert [f.assumed for f in made.figures_of(g.view, g.nodes["z"])] == [True]
    assert made.figures_of(g.view, g.nodes["z"])[0].elements == 2 * 8
    assert [f.assumed for f in made.figures_of(g.view, g.nodes["r"])] == [False]


def test_costs_do_not_depend_on_which_node_was_asked_first() -> None:
    g = graph(
        """g (float[4,4] x, float[4,4] w) => (float[4,4] y)
        { [one] a = MatMul(x, x) [two] b = MatMul(x, w) [three] y = MatMul(b, b) [s] s = Add(y, a) }"""
    )
    made = target(slow("bytes"))
    once, twice = 4 * 32 + 2 * US, 4 * 48 + 2 * US
    assert [costs(made, g, n)["Slow"] for n in ("one", "two", "three", "two")] == pytest.approx(
        [once, twice, once, twice]
    )


def test_a_clause_that_looks_behind_operands_is_asked_for_each_node() -> None:
    text = "engine E:\n    cost = 1\n    supports Relu(Sigmoid(x))\n    supports Sigmoid(x)"
    g = graph("g (float[2] x) => (float[2] y) { [s] a = Sigmoid(x) [yes] b = Relu(a) [no] y = Relu(b) }")
    made = target(text)
    assert [bool(costs(made, g, n)) for n in ("s", "yes", "no")] == [True, True, False]


# ----------------------------------------------------------------------------------------------------- transfers

MEMORIES = """
engine A:
    memory = M1
    cost = 1
    supports Relu(x)
engine B:
    memory = M1
    cost = 1
    supports Relu(x)
engine C:
    cost = 1
    supports Relu(x)
"""


def test_transfers_by_engine_then_by_memory() -> None:
    made = target(
        MEMORIES + "transfer M1 -> C = bytes\ntransfer C -> M1 = 2 * bytes\ntransfer A -> C = 7\ntransfer A <-> B = 3"
    )
    pairs = {(a, b): made.transfer(10, a, b) for a in "ABC" for b in "ABC"}
    assert pairs == {
        ("A", "A"): 0, ("A", "B"): 3, ("A", "C"): 7,
        ("B", "A"): 3, ("B", "B"): 0, ("B", "C"): 10,
        ("C", "A"): 20, ("C", "B"): 20, ("C", "C"): 0,
    }  # fmt: skip


def test_inputs_lie_everywhere_or_in_one_memory() -> None:
    assert target(MEMORIES + "transfer M1 <-> C = bytes").input_transfer(5, "C") == 0
    text = MEMORIES.replace("    memory = M1\n", "    memory = M1\n    inputs = Host\n", 1)
    made = target(text + "transfer M1 <-> C = bytes\ntransfer Host -> M1 = 3\ntransfer Host -> C = 4")
    assert made.inputs == "Host"
    assert [made.input_transfer(5, e) for e in "ABC"] == [3, 3, 4]


# ------------------------------------------------------------------------------------------- merging and groups


@dataclass(frozen=True)
class Facts:
    engine: str
    stream: str = ""
    label: str = ""
    dynamic: bool = False
    size: int = 1
    dtype: str | None = "f32"
    op: str = "Relu@14"


MERGES = """
engine Core:
    cost = 1
    supports Relu(x)
engine Vector:
    cost = 1
    supports Relu(x)
engine Host:
    cost = 1
    supports Relu(x)
engine Cube:
    parts = Core | Vector
transfer Core <-> Vector = 1
transfer Core <-> Host = 1
transfer Vector <-> Host = 1
table part(engine: engine, composite: engine)
"""


@pytest.mark.parametrize(
    ("rule", "a", "b", "expected"),
    [
        ("a.engine == b.engine", Facts("Core"), Facts("Core"), True),
        ("a.engine == b.engine", Facts("Core"), Facts("Vector"), False),
        ("a.engine == Core", Facts("Core"), Facts("Vector"), True),
        ("a.engine == Core", Facts("Host"), Facts("Core"), False),
        ("a.engine in {Core, Vector}", Facts("Vector"), Facts("Vector"), True),
        ('a.label == b.label, a.label != ""', Facts("Core"), Facts("Core"), False),
        ('a.label == b.label, a.label != ""', Facts("Core", label="l"), Facts("Host", label="l"), True),
        ("a.stream == b.stream", Facts("Core", "1"), Facts("Core", "2"), False),
        ("a.dynamic == b.dynamic", Facts("Core", dynamic=True), Facts("Core"), False),
        ("not a.dynamic", Facts("Core"), Facts("Core"), True),
        ("not a.dynamic", Facts("Core", dynamic=True), Facts("Core"), False),
        ("a.size + b.size <= 4", Facts("Core", size=2), Facts("Core", size=2), True),
        ("a.size + b.size <= 4", Facts("Core", size=3), Facts("Core", size=2), False),
        ("a.dtype == f32", Facts("Core"), Facts("Core", dtype="f16"), True),
        ("b.dtype in {f16, bf16}", Facts("Core"), Facts("Core", dtype="f16"), True),
        ("b.dtype == f16", Facts("Core"), Facts("Core", dtype=None), False),
        ("b.dtype != f16", Facts("Core"), Facts("Core", dtype=""), False),
        ("a.op in Unary", Facts("Core"), Facts("Core"), True),
        ("a.op in View", Facts("Core"), Facts("Core"), False),
        ("a.op == Relu", Facts("Core"), Facts("Core"), True),
        ("part(a.engine, c), part(b.engine, c)", Facts("Core"), Facts("Vector"), True),
        ("part(a.engine, c), part(b.engine, c)", Facts("Core"), Facts("Host"), False),
        ("part(a.engine, Cube)", Facts("Core"), Facts("Host"), True),
        ("not part(a.engine, Cube)", Facts("Core"), Facts("Host"), False),
    ],
)
def test_merge_rules(rule: str, a: Facts, b: Facts, expected: bool) -> None:
    made = target(f"{MERGES}merge rule: a -> b when {rule}")
    assert made.may_merge(a, b) is expected
    assert made.may_merge(a, b) is expected  # from what it kept


def test_any_merge_rule_is_enough_and_none_merges_nothing() -> None:
    assert not target(MERGES).may_merge(Facts("Core"), Facts("Core"))
    both = target(MERGES + "merge never: a -> b when a.size >= 9\nmerge same: a -> b when a.engine == b.engine")
    assert both.may_merge(Facts("Core"), Facts("Core"))


def test_merge_takes_definitions_and_other_objects_of_the_right_fields() -> None:
    relu = onnx_registry().lookup("", "Relu", 21)
    node = SimpleNamespace(engine="Core", stream="", label="", dynamic=False, size=1, dtype="f32", op=relu)
    made = target(MERGES + "merge rule: a -> b when a.op in Unary, b.op == Relu")
    assert made.may_merge(node, node)


def test_groups_that_share_a_node_are_one() -> None:
    g = graph(
        """g (float[2] x) => (float[2] z, float[2] w)
        { [r] a = Relu(x) [e1] b = Exp(a) [e2] c = Exp(a) [s] d = Sin(b) [t] z = Tanh(c) [u] w = Tanh(d) }"""
    )
    made = target(MERGES + "group pair: Exp(Relu(x))\ngroup tail: Tanh(Sin(x)) when x.rank == 1")
    assert [[n.name for n in group] for group in made.groups(g.view, g.nodes.values())] == [
        ["r", "e1", "e2"],
        ["s", "u"],
    ]
    assert made.groups(g.view, [g.nodes["e1"], g.nodes["s"]]) == []


def test_rules_of_files_without_engines_hold_for_every_target_and_those_of_another_for_none() -> None:
    other = "engine Other:\n    cost = 1\n    supports Relu(x)\nmerge theirs: a -> b when a.engine == b.engine"
    made = target(MERGES, None, other)
    assert not made.may_merge(Facts("Core"), Facts("Core"))
    assert made.engines == ("Core", "Vector", "Host")
    made = target(MERGES, None, other, "merge ours: a -> b when a.engine == b.engine\ngroup g: Exp(Relu(x))")
    assert made.may_merge(Facts("Core"), Facts("Core"))
    assert len(made.group_rules) == 1


# --------------------------------------------------------------------------------------------------- what is refused


def test_all_nodes_without_an_engine_are_named_with_what_kept_the_engines_from_them() -> None:
    text = """
    engine Npu:
        cost = 1
        supports[f in Unary] f(x) when x.dtype == f16, x.rank == 2
        supports Pad(mode="constant", ..)
    """
    g = graph(
        """g (float[2] x, int64[2] p) => (float[2] a, float[k] b, float[2] c)
        { [first] a = Relu(x) [second] b = Pad <mode = "reflect"> (x, p) [third] c = Add(x, x)
          [fourth] d = com.example.Op(x) }"""
    )
    made = target(text)
    found = made.unsupported(g.view, g.nodes.values(), GraphView.name)
    assert [(d.code, d.node, d.message, d.hint) for d in found] == [
        (
            "GR630",
            "first",
            "no engine of t0 supports Relu@14 of first with operands (f32[2])",
            "Npu takes it only when x.dtype == f16",
        ),
        (
            "GR630",
            "second",
            "no engine of t0 supports Pad@21 of second with operands (f32[2], i64[2])",
            "Npu takes it with other attributes or operands",
        ),
        (
            "GR630",
            "third",
            "no engine of t0 supports Add@14 of third with operands (f32[2], f32[2])",
            "add a `supports` clause for it to an engine of the target",
        ),
        (
            "GR630",
            "fourth",
            'no engine of t0 supports "com.example"::"Op" of fourth with operands (f32[2])',
            "add a `supports` clause for it to an engine of the target",
        ),
    ]


ONE = "engine E:\n    cost = 1\n    supports Relu(x)\n"


@pytest.mark.parametrize(
    ("text", "codes", "hint"),
    [
        (ONE + "    colour = 1", ["GR613"], "properties are"),
        (ONE + "    lunch = 1us", ["GR613"], "launch"),
        (ONE + "    memory = 3", ["GR617"], "memory"),
        (ONE + "    streams = 0", ["GR617"], "whole number"),
        (ONE + "    streams = 1.5", ["GR617"], "whole number"),
        (ONE + "    launch = -1us", ["GR617"], "4us"),
        (ONE + '    launch = "soon"', ["GR617"], "number"),
        (ONE + "    attached = 1", ["GR617"], "true or false"),
        (ONE + "    parts = 1", ["GR617"], "AiCore | AiVector"),
        ("engine E:\n    supports Relu(x)", ["GR615"], "cost ="),
        (ONE + "engine F:\n    parts = E | G", ["GR612"], "E"),
        ("engine F:\n    parts = E", ["GR612"], "engines are"),
        (ONE + "transfer E <-> Elsewhere = 1", ["GR610"], "there are E"),
        (ONE + "engine F:\n    cost = 1\n    supports Relu(x)\n", ["GR614", "GR614"], "transfer E <-> F"),
        (ONE + "engine F:\n    cost = 1\n    supports Relu(x)\ntransfer E -> F = 1", ["GR614"], "transfer F <-> E"),
        (
            ONE + "engine F:\n    cost = 1\n    supports Relu(x)\ntransfer E <-> F = 1\ntransfer F -> E = 2",
            ["GR611"],
            "drop one",
        ),
        (
            ONE + "    inputs = M\nengine F:\n    inputs = L\n    memory = E\n    cost = 1\n    supports Relu(x)\n"
            "transfer M -> E = 1\ntransfer L -> E = 1",
            ["GR616"],
            "once",
        ),
        (ONE + "    inputs = Host", ["GR614"], "transfer Host <-> E"),
        (ONE + "    supports Relu(x) when z >= 1", ["GR642"], "bound by the pattern"),
        (ONE + "    supports Relu(x + 1)", ["GR600"], "operand"),
        (ONE + "    cost Relu(x) = nowhere(x)", ["GR640"], "prelude"),
        (ONE + "merge m: a -> b when c.engine == E", ["GR642"], "bound by"),
        (ONE + "fact wrong: flops(y) == 3 when x.rank == 1", ["GR603"], "as y"),
        (ONE + "    colour = 1\n    memory = 3\n    supports Relu(x) when z >= 1", ["GR613", "GR617", "GR642"], ""),
    ],
)
def test_faulty_targets_are_refused_with_every_fault(text: str, codes: list[str], hint: str) -> None:
    with pytest.raises(Refused) as caught:
        target(text)
    assert [d.code for d in caught.value.diagnostics] == codes
    assert hint in (caught.value.diagnostics[0].hint or "")


def test_an_unknown_target_is_a_usage_fault_with_a_suggestion() -> None:
    made = data_program("ascend")
    assert target_names(made) == ("ascend",)
    with pytest.raises(UsageFault) as caught:
        load_target(made, "acsend")
    assert caught.value.status is Exit.USAGE
    assert caught.value.diagnostics[0].code == "GR618"
    assert "ascend" in (caught.value.diagnostics[0].hint or "")


def test_a_target_is_found_by_name_ruleset_and_path() -> None:
    made = program(ONE, "merge m: a -> b when a.engine == b.engine")
    assert [load_target(made, name).name for name in ("t0", "user/t0", "t0.rules", "./t0.rules")] == ["t0"] * 4
    with pytest.raises(UsageFault):
        load_target(made, "t1")


@pytest.mark.parametrize("cost", ["0 - 1", "1 / (x.rank - 2)", "x.dtype"])
def test_a_cost_that_is_no_time_is_refused(cost: str) -> None:
    made = target(f"engine E:\n    cost = 1\n    supports Relu(x)\n    cost Relu(x) = {cost}")
    g = graph(RELU)
    with pytest.raises(Refused, match="GR620"):
        made.costs(g.view, g.nodes["n"])


def test_a_transfer_that_is_no_time_is_refused() -> None:
    made = target(MEMORIES + "transfer M1 <-> C = 3 - bytes")
    assert made.transfer(1, "A", "C") == 2
    with pytest.raises(Refused, match="GR621"):
        made.transfer(4, "A", "C")


# --------------------------------------------------------------------------------------------- without a target


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (RELU, (20, 0, 20, 160, 1)),
        (MATMUL, (0, 0, 240, 296, 1)),
        (
            "g (float[1,5] x, int64[2] s) => (float[4,5] y) <int64[2] s = {4, 5}> { [n] y = Expand(x, s) }",
            (0, 1, 20, 20 + 16 + 80, 1),
        ),
        ("g (float[4,5] x) => (float[5,4] y) { [n] y = Transpose(x) }", (0, 0, 0, 160, 1)),
        ("g (float[4] x) => (float[4] y) { [n] y = com.example.Thing(x) }", (0, 0, 4, 32, 1)),
        (SHAPED, (8, 0, 8, 64, 1)),
    ],
)
def test_plain_cost(text: str, expected: tuple[float, ...]) -> None:
    g = graph(text)
    plain = PlainCost(program())
    assert plain.cost(g.view, g.nodes["n"]) == pytest.approx(expected)
    assert plain.cost(g.view, g.nodes["n"]) == pytest.approx(expected)


def test_plain_cost_without_classes_knows_no_operator() -> None:
    g = graph(RELU)
    assert PlainCost(program(ops=False)).cost(g.view, g.nodes["n"]) == (0, 0, 20, 160, 1)


def test_plain_cost_is_a_mean_over_likely_sizes() -> None:
    g = graph(SHAPED)
    assert PlainCost(program(), Likely({"N": (1, 3)})).cost(g.view, g.nodes["n"])[0] == pytest.approx(16)
