"""From placed nodes to clusters: connected pieces of one engine, as few as can be, that can run one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import onnx_ir as ir

from gerules.partition.facts import (
    Duplicable,
    MayMerge,
    NodeFacts,
    check_placed,
    facts_of,
    join_engines,
    never,
    same_engine,
)
from gerules.partition.merging import merge_units, topological
from gerules.partition.net import Net, ValueType, net_of
from gerules.partition.units import Units, copied_nodes, find_units


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes that run together. `id` is its number in an execution order; `nodes` are names in an executable order and
    include copies of constants; `engine` is the composite where parts of one share the cluster."""

    id: int
    engine: str
    stream: int
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Clustering:
    """All clusters of a graph, in an execution order. `edges` are (producing id, consuming id), sorted; `cluster_of`
    gives the cluster of every node that is not copied, `copies` the clusters (ascending) of those that are."""

    clusters: tuple[Cluster, ...]
    edges: tuple[tuple[int, int], ...]
    cluster_of: Mapping[str, int]
    copies: Mapping[str, tuple[int, ...]]
    net: Net = field(repr=False)
    facts: Mapping[str, NodeFacts] = field(repr=False)
    may_merge: MayMerge = field(repr=False)
    composites: Mapping[str, str] = field(repr=False)

    def holders(self, node: str) -> tuple[int, ...]:
        """The clusters that hold `node`, ascending: one, or several for a copied node."""
        return self.copies.get(node) or (self.cluster_of[node],)


def cluster(
    graph: ir.Graph,
    placement: Mapping[str, str],
    *,
    may_merge: MayMerge = same_engine,
    groups: Iterable[Iterable[str]] = (),
    streams: Mapping[str, int] | None = None,
    composites: Mapping[str, str] | None = None,
    duplicable: Duplicable = never,
    types: Mapping[str, ValueType] | None = None,
    operators: Mapping[str, str] | None = None,
) -> Clustering:
    """Clusters of `graph`, whose nodes lie on the engines that `placement` says (Constant nodes need none).

    `groups` lists node names that stay in one cluster whatever the merge rules say; groups that overlap are one.
    `streams` is the number of streams of an engine (default 1), `composites` the composite that an engine is part of;
    parts of one composite may share a cluster, which then runs on the composite. Constant nodes, and nodes over
    constants alone that `duplicable` admits on every engine that needs them, are copied into the clusters of their
    readers and joined by no edge. `types` says more of values than the graph declares, for the facts of nodes;
    `operators` what the rules are to see as a node's operator (`Relu@14`) instead of its bare name.

    Raises Refused: GR650 (cyclic graph), GR651 (names), GR652 (a node without a place), GR653 (a group over engines),
    GR654 (a group that cannot stay whole without a cycle).
    """
    net = net_of(graph, types or {})
    composites = composites or {}
    check_placed(net, placement)
    facts = facts_of(net, placement, operators or {})
    copied = copied_nodes(net, facts, placement, duplicable)
    join = partial(join_engines, composites)
    units = find_units(net, placement, groups, copied, join)
    roots = merge_units(net, facts, units, may_merge, join)
    return _number(net, facts, placement, units, roots, copied, streams or {}, may_merge, composites)


# ------------------------------------------------------------------ numbering


def _number(
    net: Net,
    facts: Mapping[str, NodeFacts],
    placement: Mapping[str, str],
    units: Units,
    roots: Sequence[int],
    copied: frozenset[int],
    streams: Mapping[str, int],
    may_merge: MayMerge,
    composites: Mapping[str, str],
) -> Clustering:
    rank = {index: at for at, index in enumerate(net.order)}
    pieces: dict[int, list[int]] = {}
    for unit, root in enumerate(roots):
        pieces.setdefault(root, []).extend(units.members[unit])
    gathered = sorted(pieces.values(), key=lambda members: min(rank[i] for i in members))
    piece_of = {index: at for at, members in enumerate(gathered) for index in members}
    joined: dict[tuple[int, int, int], None] = {}
    for index in piece_of:
        for before in net.before[index]:
            if before in piece_of and piece_of[before] != piece_of[index]:
                joined[piece_of[before], piece_of[index], 0] = None
    number = {piece: at for at, piece in enumerate(topological(len(gathered), list(joined)))}
    cluster_of = {index: number[piece] for index, piece in piece_of.items()}
    engine_of = [""] * len(gathered)
    for piece, members in enumerate(gathered):
        engine = placement[net.nodes[members[0]].name]
        for index in members[1:]:
            engine = join_engines(composites, engine, placement[net.nodes[index].name]) or engine
        engine_of[number[piece]] = engine
    copies = _homes(net, placement, copied, cluster_of, engine_of)

    contents: list[list[int]] = [[] for _ in gathered]
    for index in net.order:
        for at in copies.get(index) or (cluster_of[index],):
            contents[at].append(index)
    clusters = tuple(
        Cluster(
            id=at,
            engine=engine_of[at],
            stream=at % max(1, streams.get(engine_of[at], 1)),
            nodes=tuple(net.nodes[i].name for i in members),
        )
        for at, members in enumerate(contents)
    )
    return Clustering(
        clusters=clusters,
        edges=tuple(sorted((number[s], number[t]) for s, t, _ in joined)),
        cluster_of={net.nodes[i].name: at for i, at in cluster_of.items()},
        copies={net.nodes[i].name: at for i, at in copies.items()},
        net=net,
        facts=facts,
        may_merge=may_merge,
        composites=composites,
    )


def _homes(
    net: Net,
    placement: Mapping[str, str],
    copied: frozenset[int],
    cluster_of: Mapping[int, int],
    engine_of: Sequence[str],
) -> dict[int, tuple[int, ...]]:
    """The clusters of every copied node: those of its readers; without a reader, the first of its engine, or the
    first of all."""
    homes: dict[int, tuple[int, ...]] = {}
    for index in reversed(net.order):
        if index not in copied:
            continue
        found: set[int] = set()
        for value in net.nodes[index].results:
            for reader in net.readers.get(value, ()):
                found.update(homes[reader] if reader in copied else (cluster_of[reader],))
        if not found:
            engine = placement.get(net.nodes[index].name)
            found.add(engine_of.index(engine) if engine in engine_of else 0)
        homes[index] = tuple(sorted(found))
    return homes
