"""From placed nodes to clusters: connected pieces of one engine, as few as can be, that can run one after the other."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import onnx_ir as ir

from gerules.errors import Diagnostic, InternalFault, Refused
from gerules.partition.components import strong_components
from gerules.partition.contraction import (
    Contraction,
    by_distance,
    by_source,
    by_target,
    level_order,
    levels_of,
    merge_pairwise,
)
from gerules.partition.net import Net, Node, net_of

SEARCH_STEPS_PER_EDGE = 60
"""Search budget of one attempt. Real networks and chains need less than 5; wide random graphs can need thousands."""
SMALL = 3000
"""Up to so many units all orders of merging are tried, above it two."""


@dataclass(frozen=True)
class NodeFacts:
    """What the merge rules may ask of a node. `engine` is where it is placed; `stream` and `label` the user's wish
    (metadata `gerules.stream_label`, "" where there is none); `dynamic` whether an extent of a result is no number;
    `dtype` the element type of the first result; `elements` its number of elements, None where not known; `size` the
    number of nodes of the cluster that it belongs to at the time of asking."""

    name: str
    engine: str
    op: str
    domain: str = ""
    stream: str = ""
    label: str = ""
    dynamic: bool = False
    size: int = 1
    dtype: str = ""
    elements: int | None = None


MayMerge = Callable[[NodeFacts, NodeFacts], bool]
"""Whether two nodes, joined by an edge from the first to the second, may share a cluster (acyclicity apart). Rules
speak of kinds of nodes, so that `name` and `elements` are not filled in here."""
Duplicable = Callable[[NodeFacts, str], bool]
"""Whether a node whose operands are all constant may be copied into clusters of an engine."""


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


def same_engine(first: NodeFacts, second: NodeFacts) -> bool:
    """The usual merge rule."""
    return first.engine == second.engine


def never(facts: NodeFacts, engine: str) -> bool:
    """The usual rule of copying: Constant nodes alone."""
    return False


def cluster(
    graph: ir.Graph,
    placement: Mapping[str, str],
    *,
    may_merge: MayMerge = same_engine,
    groups: Iterable[Iterable[str]] = (),
    streams: Mapping[str, int] | None = None,
    composites: Mapping[str, str] | None = None,
    duplicable: Duplicable = never,
) -> Clustering:
    """Clusters of `graph`, whose nodes lie on the engines that `placement` says (Constant nodes need none).

    `groups` lists node names that stay in one cluster whatever the merge rules say; groups that overlap are one.
    `streams` is the number of streams of an engine (default 1), `composites` the composite that an engine is part of;
    parts of one composite may share a cluster, which then runs on the composite. Constant nodes, and nodes over
    constants alone that `duplicable` admits on every engine that needs them, are copied into the clusters of their
    readers and joined by no edge.

    Raises Refused: GR650 (cyclic graph), GR651 (names), GR652 (a node without a place), GR653 (a group over engines),
    GR654 (a group that cannot stay whole without a cycle).
    """
    net = net_of(graph)
    composites = composites or {}
    _check_placed(net, placement)
    facts = _facts_of(net, placement)
    copied = _copied(net, facts, placement, duplicable)
    join = partial(_join, composites)
    units = _units(net, placement, groups, copied, join)
    roots = _merge(net, facts, units, may_merge, join)
    return _number(net, facts, placement, units, roots, copied, streams or {}, may_merge, composites)


def is_constant(node: Node) -> bool:
    """A Constant node: the format's other way of writing an initializer."""
    return node.op_type == "Constant" and node.domain in ("", "ai.onnx")


# ------------------------------------------------------------------ what is known before merging


def _check_placed(net: Net, placement: Mapping[str, str]) -> None:
    lost = [node for node in net.nodes if node.name not in placement and not is_constant(node)]
    if lost:
        hint = "place every node"
        raise Refused(
            [Diagnostic("GR652", f"node {n.name!r} ({n.op_type}) has no engine", node=n.name, hint=hint) for n in lost]
        )


def _facts_of(net: Net, placement: Mapping[str, str]) -> dict[str, NodeFacts]:
    facts = {}
    for node in net.nodes:
        results = [net.types[v] for v in node.results if v]
        facts[node.name] = NodeFacts(
            name=node.name,
            engine=placement.get(node.name, ""),
            op=node.op_type,
            domain=node.domain,
            stream=node.label,
            label=node.label,
            dynamic=any(t.dynamic for t in results),
            dtype=results[0].dtype if results else "",
            elements=results[0].size if results else None,
        )
    return facts


def _copied(
    net: Net, facts: Mapping[str, NodeFacts], placement: Mapping[str, str], duplicable: Duplicable
) -> frozenset[int]:
    """Positions of the nodes that are copied into each cluster that reads them."""
    constant = set()
    for index in net.order:
        reads = net.nodes[index].reads
        if all((v in net.initializers or net.producer.get(v, (-1, 0))[0] in constant) for v in reads):
            constant.add(index)
    needed: dict[int, dict[str, None]] = {}
    for index in reversed(net.order):
        if index not in constant:
            continue
        engines: dict[str, None] = {}
        for value in net.nodes[index].results:
            for reader in net.readers.get(value, ()):
                engine = placement.get(net.nodes[reader].name)
                if engine is not None:
                    engines[engine] = None
                engines.update(needed.get(reader, {}))
        needed[index] = engines
    copied: set[int] = set()
    for index in net.order:
        if index not in constant:
            continue
        node = net.nodes[index]
        before = net.predecessors(index)
        if is_constant(node) or (
            all(p in copied for p in before)
            and all(duplicable(facts[node.name], engine) for engine in sorted({*needed[index], placement[node.name]}))
        ):
            copied.add(index)
    if len(copied) == len(net.nodes):
        # With nothing to be copied into, they are ordinary nodes, if they have a place.
        _check_has_place(net, placement)
        return frozenset()
    return frozenset(copied)


def _check_has_place(net: Net, placement: Mapping[str, str]) -> None:
    lost = [node for node in net.nodes if node.name not in placement]
    if lost:
        hint = "the graph consists of constants alone: place them too"
        raise Refused([Diagnostic("GR652", f"node {n.name!r} has no engine", node=n.name, hint=hint) for n in lost])


def _join(composites: Mapping[str, str], first: str, second: str) -> str | None:
    """The engine of a cluster over two engines: the one, or the composite that both are part of."""
    if first == second:
        return first
    both = composites.get(first, first)
    return both if both == composites.get(second, second) else None


# ------------------------------------------------------------------ units: nodes and whole groups


@dataclass(frozen=True)
class _Units:
    """What merging starts from. `members[u]` are positions of nodes, `engine[u]` where they run together."""

    members: tuple[tuple[int, ...], ...]
    engine: tuple[str, ...]
    of: Mapping[int, int]


def _units(
    net: Net,
    placement: Mapping[str, str],
    groups: Iterable[Iterable[str]],
    copied: frozenset[int],
    join: Callable[[str, str], str | None],
) -> _Units:
    parent = list(range(len(net.nodes)))

    def find(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    def unite(indices: Sequence[int]) -> None:
        for index in indices[1:]:
            first, second = sorted((find(indices[0]), find(index)))
            parent[second] = first

    grouped = False
    for group in groups:
        indices = []
        for name in group:
            if name not in net.position:
                raise InternalFault(Diagnostic("GR900", f"a group names node {name!r}, which the graph does not have"))
            if net.position[name] not in copied:
                indices.append(net.position[name])
        unite(indices)
        grouped = grouped or len(indices) > 1
    if grouped:
        _check_groups(net, placement, copied, find, join)
        _close_groups(net, placement, copied, find, unite, join)
    return _gather(net, placement, copied, find, join)


def _gather(
    net: Net,
    placement: Mapping[str, str],
    copied: frozenset[int],
    find: Callable[[int], int],
    join: Callable[[str, str], str | None],
) -> _Units:
    number: dict[int, int] = {}
    members: list[list[int]] = []
    of: dict[int, int] = {}
    for index in net.order:
        if index in copied:
            continue
        root = find(index)
        if root not in number:
            number[root] = len(members)
            members.append([])
        of[index] = number[root]
        members[number[root]].append(index)
    engines = []
    for indices in members:
        engine = placement[net.nodes[indices[0]].name]
        for index in indices[1:]:
            engine = join(engine, placement[net.nodes[index].name]) or engine
        engines.append(engine)
    return _Units(tuple(tuple(m) for m in members), tuple(engines), of)


def _check_groups(
    net: Net,
    placement: Mapping[str, str],
    copied: frozenset[int],
    find: Callable[[int], int],
    join: Callable[[str, str], str | None],
) -> None:
    """Every group on one engine, or on parts of one composite. Raises Refused GR653 with all that are not."""
    gathered: dict[int, list[Node]] = {}
    for index in net.order:
        if index not in copied:
            gathered.setdefault(find(index), []).append(net.nodes[index])
    faults = []
    for nodes in gathered.values():
        engine: str | None = placement[nodes[0].name]
        for node in nodes[1:]:
            engine = join(engine, placement[node.name]) if engine is not None else None
        if engine is None:
            places = ", ".join(f"{n.name} on {placement[n.name]}" for n in nodes)
            hint = "place the whole group on one engine, or drop the group"
            faults.append(
                Diagnostic(
                    "GR653", f"a group must stay in one cluster, but lies on several engines: {places}", hint=hint
                )
            )
    if faults:
        raise Refused(faults)


def _close_groups(
    net: Net,
    placement: Mapping[str, str],
    copied: frozenset[int],
    find: Callable[[int], int],
    unite: Callable[[Sequence[int]], None],
    join: Callable[[str, str], str | None],
) -> None:
    """Take into a group what lies on a path from it back to it. Raises Refused GR654 where that runs elsewhere."""
    following: dict[int, dict[int, None]] = {}
    for index in net.order:
        if index in copied:
            continue
        following.setdefault(find(index), {})
        for before in net.predecessors(index):
            if before not in copied and find(before) != find(index):
                following.setdefault(find(before), {})[find(index)] = None
    faults = []
    for component in strong_components({root: list(after) for root, after in following.items()}):
        if len(component) == 1:
            continue
        inside = set(component)
        members = [net.nodes[i] for i in net.order if i not in copied and find(i) in inside]
        engine: str | None = placement[members[0].name]
        for node in members[1:]:
            engine = join(engine, placement[node.name]) if engine is not None else None
        if engine is not None:
            unite(sorted(component))
            continue
        places = ", ".join(f"{n.name} on {placement[n.name]}" for n in members)
        what = f"a group cannot stay in one cluster: a path leaves it and comes back through another engine ({places})"
        hint = "place the path on the group's engine, or drop the group"
        faults.append(Diagnostic("GR654", what, node=members[0].name, hint=hint))
    if faults:
        raise Refused(faults)


# ------------------------------------------------------------------ merging


class _Permit:
    """Whether two joined groups may merge by the rules: every edge between them must be permitted. Remembers answers
    by what the rules can see."""

    def __init__(self, may_merge: MayMerge, kinds: Sequence[tuple[NodeFacts, NodeFacts]]) -> None:
        self._may_merge = may_merge
        self._kinds = kinds
        self._known: dict[tuple[int, int, int], bool] = {}

    def __call__(self, contraction: Contraction, source: int, target: int) -> bool:
        if contraction.join(contraction.colour[source], contraction.colour[target]) is None:
            return False
        sizes = contraction.size[source], contraction.size[target]
        return all(self.edge(kind, *sizes) for kind in sorted(contraction.kinds[source][target]))

    def edge(self, kind: int, source_size: int, target_size: int) -> bool:
        key = (kind, source_size, target_size)
        answer = self._known.get(key)
        if answer is None:
            first, second = self._kinds[kind]
            if source_size != 1:
                first = replace(first, size=source_size)
            if target_size != 1:
                second = replace(second, size=target_size)
            answer = self._known[key] = bool(self._may_merge(first, second))
        return answer


def _merge(
    net: Net,
    facts: Mapping[str, NodeFacts],
    units: _Units,
    may_merge: MayMerge,
    join: Callable[[str, str], str | None],
) -> list[int]:
    """The root unit of every unit, after the attempt that leaves the fewest clusters."""
    kinds: list[tuple[NodeFacts, NodeFacts]] = []
    edges = _unit_edges(net, facts, units, kinds)
    permit = _Permit(may_merge, kinds)
    weights = [len(members) for members in units.members]
    forbidden = {
        (s, t)
        for s, t, kind in edges
        if join(units.engine[s], units.engine[t]) is None or not permit.edge(kind, weights[s], weights[t])
    }
    order = _unit_order(len(weights), edges)
    level = levels_of(order, edges, lambda s, t: (s, t) not in forbidden)
    order = level_order(order, edges, level)
    candidates = [e for e in edges if join(units.engine[e[0]], units.engine[e[1]]) is not None]
    inside = [e for e in candidates if level[e[0]] == level[e[1]] and (e[0], e[1]) not in forbidden]

    first_answer = by_target(order, inside)
    ways = [by_target(order, candidates), by_source(order, candidates)]
    if len(order) <= SMALL:
        ways.append(by_distance(order, candidates))
    attempts = list(ways)
    attempts += [[*first_answer, *pairs] for pairs in ways[:2]]
    budget = SEARCH_STEPS_PER_EDGE * (len(edges) + len(order)) + 100_000
    best: list[int] | None = None
    fewest = 0
    for pairs in attempts:
        contraction = Contraction(order, edges, weights, units.engine, join)
        merge_pairwise(contraction, pairs, permit, budget)
        roots = [contraction.find(u) for u in range(len(order))]
        count = len(set(roots))
        if best is None or count < fewest:
            best, fewest = roots, count
        if fewest == _least_possible(len(order), candidates, forbidden):
            break
    return best or []


def _least_possible(count: int, candidates: Sequence[tuple[int, int, int]], forbidden: set[tuple[int, int]]) -> int:
    """A lower bound for the number of clusters: connected pieces over permitted edges, cycles not looked at."""
    parent = list(range(count))
    pieces = count
    for source, target, _ in candidates:
        while parent[source] != source:
            parent[source] = parent[parent[source]]
            source = parent[source]
        while parent[target] != target:
            parent[target] = parent[parent[target]]
            target = parent[target]
        if source != target:
            parent[source] = target
            pieces -= 1
    return pieces


def _unit_edges(
    net: Net, facts: Mapping[str, NodeFacts], units: _Units, kinds: list[tuple[NodeFacts, NodeFacts]]
) -> list[tuple[int, int, int]]:
    """(from, to, kind) between units; `kinds` is filled with the pairs of facts that differ in what rules can see."""
    seen: dict[NodeFacts, int] = {}
    sample: list[NodeFacts] = []
    kind_of: dict[int, int] = {}
    for index in units.of:
        known = facts[net.nodes[index].name]
        key = replace(known, name="", elements=None)
        if key not in seen:
            seen[key] = len(sample)
            sample.append(key)
        kind_of[index] = seen[key]
    number: dict[tuple[int, int], int] = {}
    edges: dict[tuple[int, int, int], None] = {}
    for target in units.of:
        for source in net.predecessors(target):
            if source not in units.of or units.of[source] == units.of[target]:
                continue
            pair = (kind_of[source], kind_of[target])
            if pair not in number:
                number[pair] = len(kinds)
                kinds.append((sample[pair[0]], sample[pair[1]]))
            edges[units.of[source], units.of[target], number[pair]] = None
    return list(edges)


def _unit_order(count: int, edges: Sequence[tuple[int, int, int]]) -> list[int]:
    """A topological order of units, the smallest number first."""
    following: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for source, target in dict.fromkeys((s, t) for s, t, _ in edges):
        following[source].append(target)
        waiting[target] += 1
    ready = [u for u in range(count) if waiting[u] == 0]
    order = []
    while ready:
        unit = heapq.heappop(ready)
        order.append(unit)
        for after in following[unit]:
            waiting[after] -= 1
            if waiting[after] == 0:
                heapq.heappush(ready, after)
    if len(order) != count:
        raise InternalFault(Diagnostic("GR901", "clusters wait for each other in a cycle"))
    return order


# ------------------------------------------------------------------ numbering


def _number(
    net: Net,
    facts: Mapping[str, NodeFacts],
    placement: Mapping[str, str],
    units: _Units,
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
        for before in net.predecessors(index):
            if before in piece_of and piece_of[before] != piece_of[index]:
                joined[piece_of[before], piece_of[index], 0] = None
    number = {piece: at for at, piece in enumerate(_unit_order(len(gathered), list(joined)))}
    cluster_of = {index: number[piece] for index, piece in piece_of.items()}
    engine_of = [""] * len(gathered)
    for piece, members in enumerate(gathered):
        engine = placement[net.nodes[members[0]].name]
        for index in members[1:]:
            engine = _join(composites, engine, placement[net.nodes[index].name]) or engine
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
