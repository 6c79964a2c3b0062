"""Why two nodes are not in one cluster."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from gerules.partition.cluster import Clustering

ENGINES, UNJOINED, RULE, CYCLE, FREE = "engines", "unjoined", "rule", "cycle", "free"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What keeps two nodes apart. `kind` says what:

    - `engines`: they run on different engines that no composite joins;
    - `cycle`: `path` leads from one to the other through a cluster of neither, which would have to run in between;
    - `rule`: `path` is an edge between their clusters that no merge rule admits;
    - `unjoined`: no edge joins their clusters; `path` is empty;
    - `free`: nothing forbids it; another choice was as good.

    `path` holds names of nodes, in the order in which they run; `reason` is a sentence.
    """

    kind: str
    reason: str
    path: tuple[str, ...] = ()


def why_not_merged(clustering: Clustering, first: str, second: str) -> Obstacle | None:
    """The obstacle between two nodes, None where they share a cluster. Raises KeyError for an unknown node."""
    here, there = clustering.holders(first), clustering.holders(second)
    if set(here) & set(there):
        return None
    one, other = clustering.clusters[here[0]], clustering.clusters[there[0]]
    composites = clustering.composites
    if one.engine != other.engine and composites.get(one.engine, one.engine) != composites.get(
        other.engine, other.engine
    ):
        return Obstacle(ENGINES, f"{first} runs on {one.engine} and {second} on {other.engine}")
    for source, target in ((one.id, other.id), (other.id, one.id)):
        path = _path_around(clustering, source, target)
        if path:
            between = next(n for n in path if clustering.cluster_of[n] not in (source, target))
            engine = clustering.clusters[clustering.cluster_of[between]].engine
            reason = f"{between} ({engine}) has to run between them: {' -> '.join(path)}"
            return Obstacle(CYCLE, reason, path)
    return _obstacle_of_edges(clustering, one.id, other.id)


def _obstacle_of_edges(clustering: Clustering, one: int, other: int) -> Obstacle:
    net = clustering.net
    sizes = {at: len(clustering.clusters[at].nodes) for at in (one, other)}
    joined = False
    for index in net.order:
        name = net.nodes[index].name
        target = clustering.cluster_of.get(name)
        if target not in (one, other):
            continue
        for before in net.before[index]:
            producer = net.nodes[before].name
            source = clustering.cluster_of.get(producer)
            if source not in (one, other) or source == target:
                continue
            joined = True
            facts = (
                replace(clustering.facts[producer], name="", elements=None, size=sizes[source]),
                replace(clustering.facts[name], name="", elements=None, size=sizes[target]),
            )
            if not clustering.may_merge(*facts):
                return Obstacle(RULE, f"no merge rule joins {producer} -> {name}", (producer, name))
    if not joined:
        return Obstacle(UNJOINED, "no edge joins their clusters")
    return Obstacle(FREE, "nothing forbids it; another choice gives as few clusters")


def _path_around(clustering: Clustering, source: int, target: int) -> tuple[str, ...]:
    """Names of nodes on a path from cluster `source` to cluster `target` with at least one node of neither; the
    shortest in clusters. Empty where there is none."""
    following: dict[int, list[int]] = {}
    for a, b in clustering.edges:
        following.setdefault(a, []).append(b)
    came: dict[int, int] = {}
    waiting = deque(x for x in following.get(source, ()) if x != target)
    came.update((x, source) for x in waiting)
    while waiting:
        at = waiting.popleft()
        if at == target:
            break
        for after in following.get(at, ()):
            if after not in came and after != source:
                came[after] = at
                waiting.append(after)
    if target not in came:
        return ()
    route = [target]
    while route[-1] != source:
        route.append(came[route[-1]])
    route.reverse()
    return _through_nodes(clustering, set(route), source, target)


def _through_nodes(clustering: Clustering, allowed: set[int], source: int, target: int) -> tuple[str, ...]:
    """The edges, as node names in a row, over which a path leads through the `allowed` clusters from `source` to
    `target`. A cluster waits as a whole, so that a path may enter it at one node and leave it from another."""
    net = clustering.net
    edge: dict[tuple[int, int], tuple[str, str]] = {}
    for index in net.order:
        name = net.nodes[index].name
        at = clustering.cluster_of.get(name, -1)
        if at not in allowed:
            continue
        for before in net.before[index]:
            producer = net.nodes[before].name
            made = clustering.cluster_of.get(producer, -1)
            if made in allowed and made != at:
                edge.setdefault((made, at), (producer, name))
    path: list[str] = []
    at = source
    route = sorted(allowed)
    # Clusters are numbered in an execution order, so that the route in order of numbers is the route.
    for after in route[route.index(source) + 1 :]:
        for name in edge[at, after]:
            if not path or path[-1] != name:
                path.append(name)
        at = after
    return tuple(path)
