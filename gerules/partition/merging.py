"""From units to clusters: several orders of merging, the fewest clusters win."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gerules.errors import Diagnostic, InternalFault
from gerules.partition.contraction import (
    Contraction,
    by_distance,
    by_source,
    by_target,
    level_order,
    levels_of,
    merge_pairwise,
)
from gerules.partition.facts import MayMerge, NodeFacts
from gerules.partition.net import Net
from gerules.partition.units import Units

SEARCH_STEPS_PER_EDGE = 60
"""Search budget of one attempt. Real networks and chains need less than 5; wide random graphs can need thousands."""
SMALL = 3000
"""Up to so many units all orders of merging are tried, above it two."""


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
            first, second = _sized(first, source_size), _sized(second, target_size)
            answer = self._known[key] = bool(self._may_merge(first, second))
        return answer


def _sized(f: NodeFacts, size: int) -> NodeFacts:
    # Written out because it is called for every merge, and `replace` takes four times as long.
    return NodeFacts(f.name, f.engine, f.op, f.domain, f.stream, f.label, f.dynamic, size, f.dtype, f.elements)


def merge_units(
    net: Net,
    facts: Mapping[str, NodeFacts],
    units: Units,
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
    order = topological(len(weights), edges)
    level = levels_of(order, edges, lambda s, t: (s, t) not in forbidden)
    order = level_order(order, edges, level)
    candidates = [e for e in edges if join(units.engine[e[0]], units.engine[e[1]]) is not None]
    ways = [by_source(order, candidates), by_target(order, candidates)]
    if len(order) <= SMALL:
        ways.append(by_distance(order, candidates))
    least = _least_possible(len(order), candidates)
    budget = SEARCH_STEPS_PER_EDGE * (len(edges) + len(order)) + 100_000
    best: list[int] = []
    fewest = len(order) + 1
    for pairs in ways:
        contraction = Contraction(order, edges, weights, units.engine, join)
        if not merge_pairwise(contraction, pairs, permit, budget):
            # Searches are long here. What is inside a level merges without any; the rest as far as there is time.
            inside = [e for e in candidates if level[e[0]] == level[e[1]] and (e[0], e[1]) not in forbidden]
            contraction = Contraction(order, edges, weights, units.engine, join)
            merge_pairwise(contraction, [*by_target(order, inside), *pairs], permit, budget)
        roots = [contraction.find(u) for u in range(len(order))]
        if len(set(roots)) < fewest:
            best, fewest = roots, len(set(roots))
        if fewest == least:
            break
    return best


def _least_possible(count: int, candidates: Sequence[tuple[int, int, int]]) -> int:
    """A lower bound for the number of clusters: pieces joined by edges that engines admit; cycles not looked at."""
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
    net: Net, facts: Mapping[str, NodeFacts], units: Units, kinds: list[tuple[NodeFacts, NodeFacts]]
) -> list[tuple[int, int, int]]:
    """(from, to, kind) between units; `kinds` is filled with the pairs of facts that differ in what rules can see."""
    seen: dict[tuple[object, ...], int] = {}
    sample: list[NodeFacts] = []
    kind_of: dict[int, int] = {}
    for index in units.of:
        known = facts[net.nodes[index].name]
        key = (known.engine, known.op, known.domain, known.stream, known.label, known.dynamic, known.dtype)
        if key not in seen:
            seen[key] = len(sample)
            sample.append(replace(known, name="", elements=None))
        kind_of[index] = seen[key]
    number: dict[tuple[int, int], int] = {}
    edges: dict[tuple[int, int, int], None] = {}
    for target in units.of:
        for source in net.before[target]:
            if source not in units.of or units.of[source] == units.of[target]:
                continue
            pair = (kind_of[source], kind_of[target])
            if pair not in number:
                number[pair] = len(kinds)
                kinds.append((sample[pair[0]], sample[pair[1]]))
            edges[units.of[source], units.of[target], number[pair]] = None
    return list(edges)


def topological(count: int, edges: Sequence[tuple[int, int, int]]) -> list[int]:
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
