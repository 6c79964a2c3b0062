"""Clusters of small graphs, case by case; the least number of clusters by exhaustive search; large graphs."""

from __future__ import annotations

import itertools
import random

import onnx
import onnx_ir as ir
import pytest
from partition_models import clusters_of, is_complete, is_connected, is_executable, model_of, named, sums

from gerules.errors import Refused
from gerules.partition.cluster import cluster
from gerules.partition.facts import NodeFacts
from gerules.partition.net import ValueType, net_of

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'


def place(reads, engines, **options):
    return cluster(sums(reads), {f"n{i}": e for i, e in enumerate(engines)}, **options)


@pytest.mark.parametrize(
    ("reads", "engines", "expected"),
    [
        pytest.param([[]], "A", ["0"], id="one node"),
        pytest.param([[], [0], [1]], "AAA", ["012"], id="a chain"),
        pytest.param([[], [0], [1]], "ABA", ["0", "1", "2"], id="a chain through another engine"),
        pytest.param([[], [0], [0, 1]], "ABA", ["0", "1", "2"], id="a shortcut beside another engine"),
        pytest.param([[], []], "AA", ["0", "1"], id="only an input in common"),
        pytest.param([[], [], [0, 1]], "AAA", ["012"], id="joined by a reader"),
        pytest.param([[], [0], [0], [1, 2]], "AAAA", ["0123"], id="a diamond"),
        pytest.param([[], [0, 0, 0]], "AA", ["01"], id="one value read three times"),
        pytest.param([[], [0], [0], [2, 1]], "ABBA", ["0", "1", "2", "3"], id="two sides that only share their ends"),
    ],
)
def test_shapes(reads, engines, expected):
    clustering = place(reads, engines)
    assert sorted("".join(n[1:] for n in c.nodes) for c in clustering.clusters) == expected
    assert is_complete(clustering)
    assert is_executable(clustering)


@pytest.mark.parametrize(
    ("reads", "engines", "count", "apart"),
    [
        # n1 goes with n0 or with n3, n2 lies between these two.
        ([[], [0], [0], [1, 2]], "AABA", 3, [(0, 3)]),
        # n0 -> n2 -> n5 and n1 -> n3 -> n4 on the other engine, while n0 feeds n4 and n1 feeds n5.
        ([[], [], [0], [1], [0, 3], [1, 2]], "AABBAA", 5, [(0, 5), (1, 4)]),
    ],
)
def test_choices(reads, engines, count, apart):
    clustering = place(reads, engines)
    assert len(clustering.clusters) == count
    assert is_executable(clustering)
    assert all(clustering.cluster_of[f"n{a}"] != clustering.cluster_of[f"n{b}"] for a, b in apart)


def least_clusters(reads, engines):
    """The least number of connected, ordered clusters of one engine each, by trying all partitions."""
    count = len(reads)
    joined = [set() for _ in reads]
    for index, before in enumerate(reads):
        for other in before:
            if engines[index] == engines[other]:
                joined[index].add(other)
                joined[other].add(index)

    def connected(group):
        seen, waiting = {group[0]}, [group[0]]
        while waiting:
            for other in joined[waiting.pop()].intersection(group) - seen:
                seen.add(other)
                waiting.append(other)
        return len(seen) == len(group)

    def ordered(of):
        before = {of[i]: set() for i in range(count)}
        for index, read in enumerate(reads):
            before[of[index]] |= {of[b] for b in read} - {of[index]}
        while before:
            ready = [c for c, waits in before.items() if not waits & before.keys()]
            if not ready:
                return False
            for c in ready:
                del before[c]
        return True

    best = count
    waiting = [[]]
    while waiting:
        groups = waiting.pop()
        index = sum(map(len, groups))
        if len(groups) >= best:
            continue
        if index == count:
            of = {i: at for at, group in enumerate(groups) for i in group}
            if all(connected(g) for g in groups) and ordered(of):
                best = len(groups)
            continue
        waiting.append([*groups, [index]])
        for at, group in enumerate(groups):
            if engines[group[0]] == engines[index]:
                waiting.append([*groups[:at], [*group, index], *groups[at + 1 :]])
    return best


@pytest.mark.parametrize("seed", range(60))
def test_as_few_clusters_as_exhaustive_search_finds(seed):
    rng = random.Random(seed)
    count = rng.randint(4, 8)
    reads = [sorted(rng.sample(range(i), min(i, rng.randint(0, 2)))) for i in range(count)]
    engines = [rng.choice("AB") for _ in range(count)]
    assert len(place(reads, engines).clusters) == least_clusters(reads, engines)


# ------------------------------------------------------------------ merge rules


def test_a_rule_over_labels_keeps_labels_apart():
    model = model_of(HEAD + "g (float[4] x) => (float[4] z) { [a] p = Relu(x) [b] q = Relu(p) [c] z = Relu(q) }")
    for node, label in zip(model.graph.node, ("left", "left", "right"), strict=True):
        node.metadata_props.append(onnx.StringStringEntryProto(key="gerules.stream_label", value=label))
    seen = []

    def may_merge(first: NodeFacts, second: NodeFacts) -> bool:
        seen.append((first, second))
        return first.engine == second.engine and first.label == second.label and first.stream == second.stream

    clustering = clusters_of(model, dict.fromkeys("abc", "Npu"), may_merge=may_merge)
    assert named(clustering) == [{"a", "b"}, {"c"}]
    assert {f.op for pair in seen for f in pair} == {"Relu"}
    seen.clear()
    clusters_of(model, dict.fromkeys("abc", "Npu"), may_merge=may_merge, operators=dict.fromkeys("abc", "Relu@14"))
    assert {f.op for pair in seen for f in pair} == {"Relu@14"}
    assert {f.dtype for pair in seen for f in pair} == {"", "f32"}


def test_a_rule_over_sizes_sees_the_clusters_as_they_are():
    clustering = place([[i - 1] if i else [] for i in range(10)], "A" * 10, may_merge=lambda a, b: a.size + b.size <= 4)
    sizes = [len(c.nodes) for c in clustering.clusters]
    assert sum(sizes) == 10
    assert max(sizes) <= 4
    assert all(a + b > 4 for a, b in itertools.pairwise(sizes))


def test_a_rule_over_types_and_extents():
    model = model_of(
        HEAD + "g (float[N] x) => (int64[N] z) <float[4] p> { [a] p = Relu(x) [b] q = Exp(p) [c] z = Cast<to=7>(q) }"
    )
    rule = {"may_merge": lambda a, b: a.dtype == b.dtype}
    types = {"q": ValueType("f32", (4,))}
    assert named(clusters_of(model, dict.fromkeys("abc", "Npu"), types=types, **rule)) == [{"a", "b"}, {"c"}]
    clustering = clusters_of(
        model, dict.fromkeys("abc", "Npu"), may_merge=lambda a, b: a.dynamic == b.dynamic, types=types
    )
    assert named(clustering) == [{"a", "b"}, {"c"}]
    assert clustering.facts["a"].elements == 4
    assert clustering.facts["c"].elements is None


def test_every_edge_between_two_clusters_has_to_be_admitted():
    # b may be with a and c with b, but then c would share a cluster with a, which it reads, against the rule.
    model = model_of(HEAD + "g (float[4] x) => (float[4] z) { [a] p = Relu(x) [b] q = Exp(p) [c] z = Add(p, q) }")
    clustering = clusters_of(
        model, dict.fromkeys("abc", "Npu"), may_merge=lambda a, b: not (a.op == "Relu" and b.op == "Add")
    )
    assert len(clustering.clusters) == 2
    assert clustering.cluster_of["a"] != clustering.cluster_of["c"]


def test_a_rule_cannot_join_different_engines():
    assert len(place([[], [0]], "AB", may_merge=lambda a, b: True).clusters) == 2


def test_parts_of_one_composite_share_a_cluster_of_the_composite():
    composites = {"Core": "Cube", "Vector": "Cube"}
    options = {"may_merge": lambda a, b: True, "composites": composites, "streams": {"Cube": 2}}
    clustering = place([[], [0], [1], [2]], ["Core", "Vector", "Cpu", "Vector"], **options)
    assert [(c.engine, c.stream) for c in clustering.clusters] == [("Cube", 0), ("Cpu", 0), ("Vector", 0)]


# ------------------------------------------------------------------ groups


def test_a_group_stays_whole_against_the_rules():
    clustering = place([[], [0], [1]], "AAA", may_merge=lambda a, b: False, groups=[("n0", "n1")])
    assert named(clustering) == [{"n0", "n1"}, {"n2"}]


def test_groups_that_overlap_are_one():
    clustering = place([[], [0], [1]], "AAA", may_merge=lambda a, b: False, groups=[("n0", "n1"), ("n1", "n2")])
    assert named(clustering) == [{"n0", "n1", "n2"}]


def test_a_group_takes_in_what_lies_on_a_path_through_it():
    clustering = place([[], [0], [0, 1]], "AAA", may_merge=lambda a, b: False, groups=[("n0", "n2")])
    assert named(clustering) == [{"n0", "n1", "n2"}]


def test_a_group_on_parts_of_a_composite_is_on_the_composite():
    clustering = place(
        [[], [0]], ["Core", "Vector"], may_merge=lambda a, b: False, groups=[("n0", "n1")],
        composites={"Core": "Cube", "Vector": "Cube"},
    )  # fmt: skip
    assert [c.engine for c in clustering.clusters] == ["Cube"]


@pytest.mark.parametrize(
    ("reads", "engines", "groups", "code", "words"),
    [
        ([[], [0]], "AB", [("n0", "n1")], "GR653", ["n0 on A", "n1 on B"]),
        ([[], [0], [0, 1]], "ABA", [("n0", "n2")], "GR654", ["n1 on B"]),
        ([[], [], [0], [1], [3], [2]], "AAAAAA", [], None, []),
        ([[], [], [0], [1]], "AABB", [("n0", "n3"), ("n1", "n2")], "GR653", ["n3 on B"]),
        ([[], [], [0], [1], [2], [3]], "AABBAA", [("n0", "n1"), ("n2", "n3"), ("n4", "n0")], "GR654", ["n2 on B"]),
    ],
)
def test_groups_that_cannot_be(reads, engines, groups, code, words):
    if code is None:
        assert is_complete(place(reads, engines, groups=groups))
        return
    with pytest.raises(Refused) as caught:
        place(reads, engines, groups=groups)
    assert {d.code for d in caught.value.diagnostics} == {code}
    assert all(word in str(caught.value) for word in words)


def test_two_groups_that_wait_for_each_other_become_one():
    # n0 -> n3 and n1 -> n2 with groups {n0, n2} and {n1, n3}: each group waits for the other.
    clustering = place([[], [], [1], [0]], "AAAA", may_merge=lambda a, b: False, groups=[("n0", "n2"), ("n1", "n3")])
    assert named(clustering) == [{"n0", "n1", "n2", "n3"}]


# ------------------------------------------------------------------ constants


def test_constants_are_copied_into_each_reader():
    model = model_of(
        HEAD + "g (float[4] x) => (float[4] z) <float[1] s = {2.0}> {"
        "[k] k = Constant<value_float=3.0>() [i] i = Identity(k) [a] p = Add(x, i) [b] z = Mul(p, i) }"
    )
    placement = {"i": "Npu", "a": "Npu", "b": "Cpu"}
    clustering = clusters_of(model, placement, duplicable=lambda facts, engine: facts.op == "Identity")
    assert [c.nodes for c in clustering.clusters] == [("k", "i", "a"), ("k", "i", "b")]
    assert clustering.copies == {"k": (0, 1), "i": (0, 1)}
    assert clustering.edges == ((0, 1),)


def test_a_node_over_constants_stays_where_another_engine_could_not_run_it():
    model = model_of(
        HEAD + "g (float[4] x) => (float[4] z) {"
        "[k] k = Constant<value_float=3.0>() [i] i = Identity(k) [a] p = Add(x, i) [b] z = Mul(p, i) }"
    )
    placement = {"i": "Npu", "a": "Npu", "b": "Cpu"}
    clustering = clusters_of(model, placement, duplicable=lambda facts, engine: engine == "Npu")
    assert [c.nodes for c in clustering.clusters] == [("k", "i", "a"), ("b",)]


def test_a_copied_member_goes_with_its_group():
    model = model_of(
        HEAD + "g (float[4] x) => (float[4] y, float[4] z) <float[4] w = {1.0, 2.0, 3.0, 4.0}> {"
        "[d] d = Identity(w) [a] p = Add(x, d) [b] y = Relu(p) [c] z = Mul(x, d) }"
    )
    clustering = clusters_of(
        model, {"d": "Npu", "a": "Npu", "b": "Npu", "c": "Cpu"},
        duplicable=lambda f, e: f.op == "Identity", may_merge=lambda a, b: False, groups=[("d", "a", "b")],
    )  # fmt: skip
    assert named(clustering) == [{"d", "a", "b"}, {"d", "c"}]


def test_what_depends_on_an_input_is_never_copied():
    model = model_of(
        HEAD + "g (float[4] x) => (float[4] z) { [i] i = Identity(x) [a] p = Add(x, i) [b] z = Mul(p, i) }"
    )
    clustering = clusters_of(model, {"i": "Npu", "a": "Npu", "b": "Cpu"}, duplicable=lambda f, e: True)
    assert clustering.copies == {}


@pytest.mark.parametrize(("placement", "count"), [({"k": "Cpu", "j": "Cpu"}, 2), ({}, None)])
def test_a_graph_of_constants_alone(placement, count):
    model = model_of(
        HEAD + "g () => (float y, float z) { [k] y = Constant<value_float=3.0>() [j] z = Constant<value_float=4.0>() }"
    )
    if count is None:
        with pytest.raises(Refused, match="GR652"):
            clusters_of(model, placement)
    else:
        assert [c.engine for c in clusters_of(model, placement).clusters] == ["Cpu", "Cpu"]


def test_a_constant_that_nobody_reads_lies_with_its_engine_or_in_the_first_cluster():
    text = (
        HEAD + "g (float[4] x) => (float[4] y, float k) {[a] p = Relu(x) [b] y = Exp(p) "
        "[k] k = Constant<value_float=3.0>() }"
    )
    placement = {"a": "Npu", "b": "Cpu"}
    assert clusters_of(model_of(text), placement).copies == {"k": (0,)}
    assert clusters_of(model_of(text), placement | {"k": "Cpu"}).copies == {"k": (1,)}


# ------------------------------------------------------------------ bodies, order, names


def test_what_a_body_captures_is_an_edge():
    model = model_of(
        HEAD + "g (float[4] x, bool c) => (float[4] z) {"
        "[a] p = Relu(x) [h] q = Exp(p)"
        "[i] z = If(c) <then_branch = t () => (float[4] r) { [t1] r = Add(p, q) },"
        " else_branch = e () => (float[4] s) { [e1] s = If(c) <then_branch = u () => (float[4] o) { [u1] o = Neg(q) },"
        " else_branch = v () => (float[4] w) { [v1] w = Neg(p) }> }> }"
    )
    net = net_of(ir.from_proto(model).graph)
    assert net.nodes[2].operands == ("c",)
    assert set(net.nodes[2].captured) == {"p", "q"}
    assert named(clusters_of(model, {"a": "Npu", "h": "Cpu", "i": "Npu"})) == [{"a"}, {"h"}, {"i"}]


def test_names_inside_a_body_are_not_captured():
    model = model_of(
        HEAD + "g (int64 n, bool c, float[4] x) => (float[4] z) {"
        "[l] z = Loop(n, c, x) <body = b (int64 i, bool d, float[4] y) => (bool d, float[4] w)"
        " <float[4] k = {1.0, 1.0, 1.0, 1.0}> { [m] w = Add(y, k) }> }"
    )
    assert net_of(ir.from_proto(model).graph).nodes[0].captured == ()


def test_a_graph_out_of_order_is_put_in_order():
    a = ir.val("a", ir.DataType.FLOAT, ir.Shape([4]))
    b = ir.val("b", ir.DataType.FLOAT, ir.Shape([4]))
    x = ir.val("x", ir.DataType.FLOAT, ir.Shape([4]))
    nodes = [ir.Node("", "Exp", [a], name="second", outputs=[b]), ir.Node("", "Relu", [x], name="first", outputs=[a])]
    clustering = cluster(ir.Graph([x], [b], nodes=nodes, name="g"), {"first": "A", "second": "A"})
    assert [c.nodes for c in clustering.clusters] == [("first", "second")]


def test_a_cycle_is_refused_with_its_path():
    a = ir.val("a", ir.DataType.FLOAT, ir.Shape([4]))
    b = ir.val("b", ir.DataType.FLOAT, ir.Shape([4]))
    nodes = [ir.Node("", "Exp", [b], name="one", outputs=[a]), ir.Node("", "Relu", [a], name="two", outputs=[b])]
    with pytest.raises(Refused, match=r"GR650.*(one -> two -> one|two -> one -> two)"):
        cluster(ir.Graph([], [b], nodes=nodes, name="g"), {"one": "A", "two": "A"})


def test_names_and_places_have_to_be_complete_and_all_faults_are_said_at_once():
    text = HEAD + "g (float[4] x) => (float[4] z) { [a] p = Relu(x) [a] q = Exp(p) z = Exp(q) }"
    with pytest.raises(Refused) as caught:
        clusters_of(model_of(text), {"a": "Npu"})
    assert [d.code for d in caught.value.diagnostics] == ["GR651", "GR651"]
    text = HEAD + "g (float[4] x) => (float[4] z) { [a] p = Relu(x) [b] q = Exp(p) [c] z = Exp(q) }"
    with pytest.raises(Refused) as caught:
        clusters_of(model_of(text), {"a": "Npu"})
    assert [(d.code, d.node) for d in caught.value.diagnostics] == [("GR652", "b"), ("GR652", "c")]


# ------------------------------------------------------------------ size


def test_a_chain_of_a_hundred_thousand_is_one_cluster():
    count = 100_000
    clustering = place([[i - 1] if i else [] for i in range(count)], "A" * count)
    assert [len(c.nodes) for c in clustering.clusters] == [count]


def test_runs_of_a_long_chain():
    count = 20_000
    clustering = place([[i - 1] if i else [] for i in range(count)], ["AB"[i // 7 % 2] for i in range(count)])
    assert [len(c.nodes) for c in clustering.clusters] == [7] * (count // 7) + [count % 7]


def test_a_hub_with_many_readers():
    count = 8_001
    clustering = place([[0] if i else [] for i in range(count)], ["A" if i % 2 == 0 else "B" for i in range(count)])
    assert len(clustering.clusters) == 1 + count // 2
    assert is_connected(clustering)


def test_a_wide_random_graph():
    rng = random.Random(5)
    count = 4_000
    reads = [sorted({rng.randrange(i) for _ in range(2)}) if i else [] for i in range(count)]
    clustering = place(reads, [rng.choice("AB") for _ in range(count)])
    assert is_complete(clustering)
    assert is_executable(clustering)
    assert is_connected(clustering)
