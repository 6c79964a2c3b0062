"""What can be left out before anything is searched, without losing the best solution."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from gerules.extract.graphs import components, derive

if TYPE_CHECKING:
    from gerules.extract.model import Moves, Way

BAN_WORK = 3_000_000  # steps spent on finding options that only close cycles
SUBSET_CHILDREN = 6  # options with more children are beaten by equal children only


def without_cycle_closers(by_class: MutableMapping[int, list[int]], needs: Sequence[tuple[int, ...]]) -> None:
    """Drop each option with a child that cannot be made without the option's own class. Small components first, until
    the work allowed is spent: what is left is only slower."""
    names = sorted(by_class)
    number = {cls: i for i, cls in enumerate(names)}
    edges = [sorted({number[c] for i in by_class[cls] for c in needs[i]}) for cls in names]
    knots = [[names[i] for i in sorted(part)] for part in components(edges) if len(part) > 1]
    work = 0
    for knot in sorted(knots, key=lambda part: (len(part), part)):
        members = set(knot)
        inner = {i: tuple(c for c in needs[i] if c in members) for cls in knot for i in by_class[cls]}
        size = sum(1 + len(children) for children in inner.values())
        if work + size * len(knot) > BAN_WORK:
            return
        work += size * len(knot)
        for banned in knot:
            if not any(inner[i] for i in by_class[banned]):
                continue
            made = derive_within({cls: by_class[cls] for cls in knot if cls != banned}, inner)
            by_class[banned] = [i for i in by_class[banned] if all(c in made for c in inner[i])]


def derive_within(by_class: Mapping[int, Sequence[int]], needs: Mapping[int, tuple[int, ...]]) -> set[int]:
    numbers = {option: at for at, option in enumerate(needs)}
    return set(derive({cls: [numbers[i] for i in options] for cls, options in by_class.items()}, list(needs.values())))


def without_beaten(ways: list[Way], stands_for: MutableMapping[int, int]) -> list[Way]:
    """Drop each way that another of its class beats or equals on every engine with a part of its children; of equals
    the first stays. `stands_for` gets (option dropped -> option that beat it)."""
    if len(ways) == 1:
        return ways
    by_children: dict[tuple[int, ...], list[Way]] = {}
    # fewer children first, so that what beats a way has been seen; the sort is stable in (rank, option)
    for way in sorted(ways, key=lambda w: len(w.children)):
        rivals: list[Way] = []
        if len(way.children) <= SUBSET_CHILDREN:
            for size in range(len(way.children) + 1):
                for part in combinations(way.children, size):
                    rivals.extend(by_children.get(part, ()))
        else:
            rivals.extend(by_children.get(way.children, ()))
        winner = next((r for r in rivals if _beats(r, way)), None)
        if winner is not None:
            stands_for[way.option] = winner.option
            continue
        same = by_children.setdefault(way.children, [])
        for rival in [r for r in same if _beats(way, r)]:
            same.remove(rival)
            stands_for[rival.option] = way.option
        same.append(way)
    kept = {way.option for same in by_children.values() for way in same}
    return [way for way in ways if way.option in kept]


def _beats(rival: Way, way: Way) -> bool:
    if rival.tied or way.tied:
        return rival.tied and way.tied and rival.children == way.children
    return all(c is None or (r is not None and r <= c) for r, c in zip(rival.costs, way.costs, strict=True))


def without_beaten_engines(ways: list[list[Way]], moves: Sequence[Moves | None]) -> None:
    """Take from each way the engines that are dearer than another one even if that one brings every operand over and
    sends every result away. Classes of nodes with several results are left alone: their values are elsewhere."""
    count = len(ways)
    sources: list[set[int]] = [{e for way in options for e in way.engines()} for options in ways]
    targets: list[set[int]] = [set() for _ in range(count)]
    pulled = [False] * count
    for options in ways:
        for way in options:
            for child in way.children:
                if way.tied:
                    pulled[child] = True
                else:
                    targets[child].update(way.engines())

    # what bringing a value to an engine costs at most
    entry = [
        [max((table[source][engine] for source in sources[cls]), default=0) for engine in range(len(table))]
        if table is not None
        else None
        for cls, table in enumerate(moves)
    ]
    for cls in range(count):
        if pulled[cls]:
            continue
        table = moves[cls]
        for at, way in enumerate(ways[cls]):
            able = way.engines()
            if way.tied or len(able) < 2:
                continue
            brought = [column for child in way.children if (column := entry[child]) is not None]
            costs = list(way.costs)
            for old in able:
                mine = way.costs[old]
                assert mine is not None
                for new in able:
                    other = costs[new]
                    if new == old or other is None or mine <= other:
                        continue
                    margin = mine - other - sum(column[new] for column in brought)
                    if margin > 0 and table is not None:
                        margin -= sum(max(0, table[new][to] - table[old][to]) for to in targets[cls])
                    if margin > 0:
                        costs[old] = None
                        break
            if len(able) > sum(cost is not None for cost in costs):
                ways[cls][at] = replace(way, costs=tuple(costs))
