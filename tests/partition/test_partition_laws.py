"""Laws on random models: clusters are complete, connected and executable; pieces compute what the whole does; merging
gives the whole back byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partition_models import (
    assert_pieces_equal_whole,
    clusters_of,
    is_complete,
    is_connected,
    is_executable,
    named,
    random_feeds,
    random_model,
    random_placement,
)

from gerules.errors import Refused
from gerules.partition.merge import merge_files
from gerules.partition.split import split

MODELS = st.tuples(st.integers(0, 10**6), st.integers(0, 40), st.booleans())
ENGINES = st.sampled_from([("Npu",), ("Npu", "Cpu"), ("Core", "Vector", "Cpu")])


@settings(max_examples=120, deadline=None)
@given(MODELS, ENGINES, st.integers(0, 10**6))
def test_clusters_are_complete_connected_and_executable(model, engines, seed):
    proto = random_model(*model)
    placement = random_placement(proto, seed, engines)
    clustering = clusters_of(proto, placement, streams={"Npu": 2}, composites={"Core": "Cube", "Vector": "Cube"})
    assert is_complete(clustering)
    assert is_executable(clustering)
    assert is_connected(clustering)
    for at, piece in enumerate(clustering.clusters):
        assert piece.id == at
        assert piece.stream == (at % 2 if piece.engine == "Npu" else 0)
        assert {placement[n] for n in piece.nodes if n not in clustering.copies} <= {piece.engine}
    for source, target in clustering.edges:
        assert source < target


@settings(max_examples=100, deadline=None)
@given(MODELS, st.integers(0, 10**6), st.data())
def test_groups_stay_whole_or_are_refused(model, seed, data):
    proto = random_model(*model)
    names = [n.name for n in proto.graph.node]
    groups = data.draw(st.lists(st.lists(st.sampled_from(names), min_size=2, max_size=4), max_size=4)) if names else []
    placement = random_placement(proto, seed, ("Npu", "Cpu"))
    try:
        clustering = clusters_of(proto, placement, groups=groups)
    except Refused as refusal:
        assert {d.code for d in refusal.diagnostics} <= {"GR653", "GR654"}
        assert groups
        return
    assert is_complete(clustering)
    assert is_executable(clustering)
    assert is_connected(clustering, groups)
    for group in groups:
        own = [n for n in group if n not in clustering.copies]
        assert len({clustering.cluster_of[n] for n in own}) <= 1


@settings(max_examples=60, deadline=None)
@given(MODELS, ENGINES, st.integers(0, 10**6))
def test_merging_gives_the_bytes_back(model, engines, seed):
    proto = random_model(*model)
    partitions = split(proto, clusters_of(proto, random_placement(proto, seed, engines)), border_nodes=True)
    for item in partitions.items:
        onnx.checker.check_model(item.model)
    assert merge_files(partitions.files()) == proto.SerializeToString()


@settings(max_examples=25, deadline=None)
@given(MODELS, st.integers(0, 10**6))
def test_pieces_in_order_compute_what_the_whole_does(model, seed):
    proto = random_model(*model)
    onnx.checker.check_model(proto, full_check=True)
    partitions = split(proto, clusters_of(proto, random_placement(proto, seed, ("Npu", "Cpu"))))
    for item in partitions.items:
        onnx.checker.check_model(item.model)
    if proto.graph.node:
        assert_pieces_equal_whole(proto, partitions, random_feeds(seed))


@pytest.mark.parametrize("seed", range(5))
def test_two_runs_give_the_same(seed):
    proto = random_model(seed, 40, True)
    placement = random_placement(proto, seed, ("Npu", "Cpu"))
    first, second = (split(proto, clusters_of(proto, placement), border_nodes=True) for _ in range(2))
    assert first.files() == second.files()
    assert named(clusters_of(proto, placement)) == named(clusters_of(proto, placement))


DIGEST = """
import hashlib
from partition_models import clusters_of, random_model, random_placement
from gerules.partition.split import split
found = hashlib.sha256()
for seed in range(8):
    model = random_model(seed, 40, seed % 2 == 0)
    placement = random_placement(model, seed, ("Npu", "Cpu"))
    for name, data in split(model, clusters_of(model, placement), border_nodes=seed % 3 == 0).files().items():
        found.update(name.encode() + data)
print(found.hexdigest())
"""


def test_hash_seeds_do_not_matter():
    said = set()
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", DIGEST]
        said.add(subprocess.check_output(command, env=environment, cwd=Path(__file__).parent, text=True))
    assert len(said) == 1
