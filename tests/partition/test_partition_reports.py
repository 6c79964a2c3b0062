"""Seven situations that engineers have reported of partitioners, from placement on: what is chosen before (an engine
for each node, a rewrite) is given here, what follows has to hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from partition_models import (
    assert_pieces_equal_whole,
    clusters_of,
    is_complete,
    is_connected,
    is_executable,
    model_of,
    named,
)

from gerules.errors import Refused
from gerules.partition.explain import why_not_merged
from gerules.partition.merge import merge_files
from gerules.partition.split import split

DATA = Path(__file__).parents[1] / "data" / "partition"


def load(name):
    return model_of((DATA / f"{name}.onnxtxt").read_text())


def place(model, host, npu="npu"):
    """Nodes of the operators or names in `host` on the cpu, all others on the npu."""
    return {n.name: "cpu" if {n.op_type, n.name} & set(host) else npu for n in model.graph.node}


def feeds_of(model):
    rng = np.random.default_rng(0)
    return {
        v.name: rng.standard_normal([d.dim_value or 2 for d in v.type.tensor_type.shape.dim]).astype(np.float32)
        for v in model.graph.input
    }


def together(clustering, *nodes):
    return any(set(nodes) <= cluster for cluster in named(clustering))


CASES = [
    ("independent_pieces_then_a_bridge", ["Erf"], 5, [], ["p+r", "q+s"]),
    ("reflect_pad_border", ["Pad"], 6, ["conv1+act1"], []),
    ("densely_connected_all_supported", [], 1, [], []),
    ("big_islands_are_worth_it", ["Erf", "tiny"], 3, ["host+tiny+host2", "m0+m1+m2", "m3+m4"], []),
    ("lone_pieces_may_stay_apart", ["Erf"], 3, [], ["add1+add3", "add1+add2"]),
]


@pytest.mark.parametrize(("name", "host", "most", "joined", "apart"), CASES, ids=[c[0] for c in CASES])
def test_reported(name, host, most, joined, apart):
    model = load(name)
    clustering = clusters_of(model, place(model, host))
    assert is_complete(clustering)
    assert is_executable(clustering)
    assert is_connected(clustering)
    assert len(clustering.clusters) <= most
    assert all(together(clustering, *pair.split("+")) for pair in joined)
    assert not any(together(clustering, *pair.split("+")) for pair in apart)
    partitions = split(model, clustering)
    for item in partitions.items:
        onnx.checker.check_model(item.model, full_check=True)
    assert_pieces_equal_whole(model, partitions, feeds_of(model))
    files = split(model, clustering, border_nodes=True).files()
    assert merge_files(files) == model.SerializeToString()


@pytest.mark.parametrize("copied", [False, True])
def test_a_quantised_group_stays_whole(copied):
    model = load("quantised_group_stays_whole")
    clustering = clusters_of(
        model,
        place(model, ["Erf"]),
        groups=[("dq_x", "dq_w", "conv", "q1")],
        duplicable=lambda facts, engine: copied and facts.op == "DequantizeLinear" and engine == "npu",
    )
    assert together(clustering, "dq_x", "dq_w", "conv", "q1")
    assert len(clustering.clusters) == 2
    assert_pieces_equal_whole(model, split(model, clustering), feeds_of(model))


def test_nodes_without_an_engine_are_named_in_one_report():
    model = load("no_engine_for_two_nodes_refused")
    with pytest.raises(Refused) as caught:
        clusters_of(model, {"ok": "npu", "fine": "npu"})
    assert [d.node for d in caught.value.diagnostics] == ["lost_det", "lost_cum"]
    assert all("engine" in d.message for d in caught.value.diagnostics)


def test_the_reason_for_a_border_is_its_path():
    model = load("independent_pieces_then_a_bridge")
    clustering = clusters_of(model, place(model, ["Erf"]))
    assert why_not_merged(clustering, "q", "s").path[1] == "f2"
    assert why_not_merged(clustering, "p", "r").path[1] == "f1"
