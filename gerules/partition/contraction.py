"""Merging the nodes of an acyclic graph pair by pair so that it stays acyclic.

A topological order is kept while nodes merge. Two joined nodes may merge when no second path leads from one to the
other; such a path can only run between them in the order, so that the search is confined to that stretch and, run from
both ends at once, costs the smaller of the two sides (after Pearce and Kelly 2006, and Bender, Fineman, Gilbert and
Tarjan 2015, who keep an order under new edges in the same way).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gerules.partition.ordering import Ordering

Permit = Callable[["Contraction", int, int], bool]
"""Whether two joined groups (their roots, the producing one first) may merge, acyclicity apart."""


class _Side:
    """One end of a search: what was found from `start` along `edges`, and what is still to be looked at."""

    __slots__ = ("_edges", "_iterator", "at", "found", "open", "start")

    def __init__(self, start: int, edges: Sequence[Iterable[int]]) -> None:
        self.start = self.at = start
        self.found: set[int] = set()
        self.open: list[int] = []
        self._edges = edges
        self._iterator = iter(edges[start])

    def step(self) -> int | None:
        """The next element that an edge leads to; None when there is no more."""
        while True:
            for element in self._iterator:
                return element
            if not self.open:
                return None
            self.at = self.open.pop()
            self._iterator = iter(self._edges[self.at])


class Contraction:
    """Groups of the elements 0 .. n-1 under edges that stay acyclic. A group is called by its root, one of its
    elements. `size` is the weight of a group, `colour` what its members have in common (see `join`), `kinds[a][b]` the
    kinds of edges from group a to group b, `work` the steps that searches have taken so far."""

    def __init__(
        self,
        order: Sequence[int],
        edges: Iterable[tuple[int, int, int]],
        weights: Sequence[int],
        colours: Sequence[str],
        join: Callable[[str, str], str | None],
    ) -> None:
        """`order` is topological for `edges`, which are (from, to, kind); kinds are small integers. `join` says the
        colour of two groups together, None where they cannot be together."""
        count = len(order)
        self._parent = list(range(count))
        self.size = list(weights)
        self.colour = list(colours)
        self.join = join
        self.version = [0] * count
        self.kinds: list[dict[int, frozenset[int]]] = [{} for _ in range(count)]
        self.before: list[set[int]] = [set() for _ in range(count)]
        self.ordering = Ordering(order)
        self.work = 0
        single: dict[int, frozenset[int]] = {}
        for source, target, kind in edges:
            alone = single.get(kind) or single.setdefault(kind, frozenset((kind,)))
            known = self.kinds[source].get(target)
            self.kinds[source][target] = alone if known is None else known | alone
            self.before[target].add(source)

    def find(self, element: int) -> int:
        """The root of the group that holds `element`."""
        parent = self._parent
        while parent[element] != element:
            parent[element] = parent[parent[element]]
            element = parent[element]
        return element

    def roots(self) -> list[int]:
        return [x for x in range(len(self._parent)) if self._parent[x] == x]

    def try_merge(self, source: int, target: int) -> int | None:
        """Merge two joined groups unless a second path leads from `source` to `target`; the new root, or None."""
        moved = self._clear_between(source, target)
        if moved is None:
            return None
        forward, elements = moved
        label = self.ordering.label
        elements.sort(key=label.__getitem__)
        # Either what follows `source` goes behind `target`, or what leads to `target` goes before `source`; the
        # merged group then stands where nothing between its two parts is left on the wrong side.
        if forward:
            self.ordering.move_after(elements, target)
            return self._unite(source, target, place=target)
        self.ordering.move_before(elements, source)
        return self._unite(source, target, place=source)

    def _clear_between(self, source: int, target: int) -> tuple[bool, list[int]] | None:
        """What has to move so that the two can merge: (True, everything between them that follows `source`) or
        (False, everything between them that leads to `target`). None where a second path joins them."""
        label = self.ordering.label
        low, high = label[source], label[target]
        ahead = _Side(source, self.kinds)
        behind = _Side(target, self.before)
        # One edge from either side in turn; the side with fewer neighbours begins, so that a hub is not looked at for
        # the sake of a leaf.
        forward = len(self.kinds[source]) <= len(self.before[target])
        while True:
            side, other = (ahead, behind) if forward else (behind, ahead)
            self.work += 1
            element = side.step()
            if element is None:
                return forward, list(side.found)
            if element not in side.found and low < label[element] < high:
                if element in other.found:
                    return None
                side.found.add(element)
                side.open.append(element)
            elif element == other.start and side.at != side.start:
                return None
            forward = not forward

    def _unite(self, source: int, target: int, place: int) -> int:
        """One group of two; the one with more neighbours keeps its root, at the place of `place` in the order."""
        kinds, before = self.kinds, self.before
        del kinds[source][target]
        before[target].discard(source)
        degree = [len(kinds[x]) + len(before[x]) for x in (source, target)]
        keep, lose = (source, target) if degree[0] >= degree[1] else (target, source)
        if place == keep:
            self.ordering.remove(lose)
        else:
            self.ordering.move_after([keep], lose)
            self.ordering.remove(lose)
        for x, found in kinds[lose].items():
            self.work += 1
            before[x].discard(lose)
            before[x].add(keep)
            known = kinds[keep].get(x)
            kinds[keep][x] = found if known is None or known is found else known | found
        for x in before[lose]:
            self.work += 1
            found = kinds[x].pop(lose)
            known = kinds[x].get(keep)
            kinds[x][keep] = found if known is None or known is found else known | found
            before[keep].add(x)
        kinds[lose], before[lose] = {}, set()
        self._parent[lose] = keep
        self.size[keep] += self.size[lose]
        self.colour[keep] = self.join(self.colour[source], self.colour[target]) or self.colour[keep]
        self.version[keep] = max(self.version[keep], self.version[lose]) + 1
        return keep


def levels_of(
    order: Sequence[int], edges: Sequence[tuple[int, int, int]], permitted: Callable[[int, int], bool]
) -> list[int]:
    """A level for each element, in linear time: one above what it reads over a forbidden edge, that of what it reads
    over a permitted one. Edges only go up, so that merging joined elements of one level closes no cycle."""
    incoming: list[list[int]] = [[] for _ in order]
    for source, target in dict.fromkeys((s, t) for s, t, _ in edges):
        incoming[target].append(source)
    level = [0] * len(order)
    for element in order:
        for source in incoming[element]:
            step = 0 if permitted(source, element) else 1
            level[element] = max(level[element], level[source] + step)
    return level


def level_order(order: Sequence[int], edges: Sequence[tuple[int, int, int]], level: Sequence[int]) -> list[int]:
    """`order` sorted by level and, inside a level, by connected piece: topological too, and what is going to merge
    stands together, which keeps every search short."""
    parent = list(range(len(order)))

    def find(element: int) -> int:
        while parent[element] != element:
            parent[element] = parent[parent[element]]
            element = parent[element]
        return element

    for source, target, _ in edges:
        if level[source] == level[target]:
            first, second = find(source), find(target)
            parent[max(first, second)] = min(first, second)
    rank = {element: at for at, element in enumerate(order)}
    first_of: dict[int, int] = {}
    for element in order:
        first_of.setdefault(find(element), rank[element])
    return sorted(order, key=lambda x: (level[x], first_of[find(x)], rank[x]))


def merge_pairwise(
    contraction: Contraction,
    pairs: Sequence[tuple[int, int]],
    permit: Permit,
    budget: int,
) -> bool:
    """Merge joined groups as long as any two of them can, in rounds over `pairs` (joined elements, in the order of
    trying). False when `budget` (steps of search, `Contraction.work`) ended it early; what was merged is sound."""
    failed: dict[tuple[int, int], tuple[int, int]] = {}
    waiting: Sequence[tuple[int, int]] = pairs
    while True:
        left: list[tuple[int, int]] = []
        merged = False
        for first, second in waiting:
            source, target = contraction.find(first), contraction.find(second)
            if source == target:
                continue
            stamp = (contraction.version[source], contraction.version[target])
            if failed.get((source, target)) == stamp:
                left.append((first, second))
                continue
            if contraction.work > budget:
                return False
            if permit(contraction, source, target) and contraction.try_merge(source, target) is not None:
                merged = True
            else:
                failed[source, target] = stamp
                left.append((first, second))
        if not merged:
            return True
        waiting = left


def by_target(order: Sequence[int], edges: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Pairs to try: each element in topological order with what it reads, the nearest first."""
    rank = {element: at for at, element in enumerate(order)}
    joined = dict.fromkeys((source, target) for source, target, _ in edges)
    return sorted(joined, key=lambda pair: (rank[pair[1]], -rank[pair[0]]))


def by_source(order: Sequence[int], edges: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Pairs to try: each element from the last to the first with what reads it, the nearest first."""
    rank = {element: at for at, element in enumerate(order)}
    joined = dict.fromkeys((source, target) for source, target, _ in edges)
    return sorted(joined, key=lambda pair: (-rank[pair[0]], rank[pair[1]]))


def by_distance(order: Sequence[int], edges: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Pairs to try: those with the fewest neighbours in common with anything else first, then the nearest."""
    rank = {element: at for at, element in enumerate(order)}
    joined = dict.fromkeys((source, target) for source, target, _ in edges)
    fan_out: dict[int, int] = {}
    fan_in: dict[int, int] = {}
    for source, target in joined:
        fan_out[source] = fan_out.get(source, 0) + 1
        fan_in[target] = fan_in.get(target, 0) + 1
    return sorted(
        joined, key=lambda pair: (fan_out[pair[0]] * fan_in[pair[1]], rank[pair[1]] - rank[pair[0]], rank[pair[1]])
    )
