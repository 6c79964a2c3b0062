"""Why two nodes are not in one cluster."""

from __future__ import annotations

import pytest
from partition_models import sums

from gerules.partition.cluster import cluster
from gerules.partition.explain import why_not_merged


def place(reads, engines, **options):
    return cluster(sums(reads), {f"n{i}": e for i, e in enumerate(engines)}, **options)


@pytest.mark.parametrize(
    ("reads", "engines", "options", "pair", "kind", "path"),
    [
        ([[], [0]], "AB", {}, (0, 1), "engines", ()),
        ([[], [0], [0, 1]], "ABA", {}, (0, 2), "cycle", ("n0", "n1", "n2")),
        ([[], [0], [0, 1]], "ABA", {}, (2, 0), "cycle", ("n0", "n1", "n2")),
        ([[], [0], [1], [2], [3, 0]], "ABCBA", {}, (0, 4), "cycle", ("n0", "n1", "n2", "n3", "n4")),
        ([[], []], "AA", {}, (0, 1), "unjoined", ()),
        ([[], [0]], "AA", {"may_merge": lambda a, b: False}, (1, 0), "rule", ("n0", "n1")),
        ([[], [0], [1]], "AAA", {"may_merge": lambda a, b: a.size + b.size < 3}, (0, 1), "rule", ("n0", "n1")),
    ],
)
def test_obstacles(reads, engines, options, pair, kind, path):
    obstacle = why_not_merged(place(reads, engines, **options), *(f"n{i}" for i in pair))
    assert obstacle is not None
    assert (obstacle.kind, obstacle.path) == (kind, path)
    assert all(name in obstacle.reason for name in path)


def test_a_cluster_waits_as_a_whole():
    # f1 waits for p, and r, which waits for f1, sits in one cluster with q only if nothing in it leads to f1.
    reads = [[], [], [0], [2, 1], [1], [4, 0]]
    clustering = place(reads, "AABABA")
    apart = [
        (i, j) for i in (0, 1, 3, 5) for j in (0, 1, 3, 5) if i < j and why_not_merged(clustering, f"n{i}", f"n{j}")
    ]
    assert (0, 3) in apart
    assert (1, 5) in apart
    for i, j in apart:
        obstacle = why_not_merged(clustering, f"n{i}", f"n{j}")
        assert obstacle.kind in ("cycle", "unjoined")


def test_nothing_to_explain_inside_a_cluster():
    assert why_not_merged(place([[], [0]], "AA"), "n0", "n1") is None


def test_a_choice_that_was_free():
    # n1 can go with n0 or with n3 but not with both, since n2 lies between them on another engine.
    clustering = place([[], [0], [0], [1, 2]], "AABA")
    other = 3 if clustering.cluster_of["n1"] == clustering.cluster_of["n0"] else 0
    obstacle = why_not_merged(clustering, "n1", f"n{other}")
    assert obstacle is not None
    assert obstacle.kind in ("cycle", "free")


def test_an_unknown_node():
    with pytest.raises(KeyError):
        why_not_merged(place([[]], "A"), "n0", "nobody")
