"""First choices of a way for every class, blind to transfers: a way costs what it costs on its cheapest engine."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush

from gerules.extract.model import Model, Way
from gerules.extract.states import State, cycles

SET_WORK = 6_000_000  # entries of cost sets copied; deep graphs would need their square

Choice = list[State]  # a way and its cheapest engine for every class of a model


def own(way: Way) -> int:
    """What a way costs on its cheapest engine."""
    return min(cost for cost in way.costs if cost is not None)


def greedy(model: Model, work: int = SET_WORK) -> Choice | None:
    """For each class the way with the least cost of all that lies below it, each class counted once (cost sets,
    repeated until nothing falls). None where that takes more than `work`, or ends in a cycle."""
    costs = [[own(way) for way in ways] for ways in model.ways]
    best: list[tuple[int, int, dict[int, int]] | None] = [None] * len(model.ways)  # total, way, class -> its cost
    waiting = deque((cls, at) for cls, ways in enumerate(model.ways) for at, way in enumerate(ways) if not way.children)
    queued = set(waiting)
    using = _using(model)
    while waiting:
        cls, at = waiting.popleft()
        queued.discard((cls, at))
        below: list[tuple[int, int, dict[int, int]]] = []
        for child in model.ways[cls][at].children:
            found = best[child]
            if found is None or cls in found[2]:
                break
            below.append(found)
        if len(below) < len(model.ways[cls][at].children):
            continue
        merged: dict[int, int] = {}
        if below:
            below.sort(key=lambda item: -len(item[2]))
            work -= sum(len(item[2]) for item in below)
            if work < 0:
                return None
            merged = dict(below[0][2])
            for item in below[1:]:
                merged.update(item[2])
        merged[cls] = costs[cls][at]
        total = sum(merged.values())
        known = best[cls]
        if known is not None and (total, at) >= known[:2]:
            continue
        best[cls] = (total, at, merged)
        for user in using[cls]:
            if user not in queued:
                queued.add(user)
                waiting.append(user)
    choice: Choice = []
    for cls, found in enumerate(best):
        choice.append((0, _cheapest(model.ways[cls][0])) if found is None else _state(model, cls, found[1]))
    unreached = any(best[root] is None for root in model.roots)
    return None if unreached or cycles(model, choice) else choice


def bottom_up(model: Model, rounds: int = 4) -> Choice:
    """For each class the way with the least cost below it, where a class that several others use is charged to each
    in part (by its users in the round before). Classes are settled cheapest first, so no cycle can arise."""
    share = [1] * len(model.ways)
    best: tuple[int, Choice] | None = None
    for _ in range(rounds):
        choice = _settle(model, share)
        users = [0] * len(model.ways)
        total = 0
        seen = set(model.roots)
        work = sorted(seen)
        while work:
            cls = work.pop()
            way = model.ways[cls][choice[cls][0]]
            total += own(way)
            for child in way.children:
                users[child] += 1
                if child not in seen:
                    seen.add(child)
                    work.append(child)
        if best is not None and total >= best[0]:
            break
        best = (total, choice)
        share = [max(1, count) for count in users]
    assert best is not None
    return best[1]


def _settle(model: Model, share: Sequence[int]) -> Choice:
    missing = [[len(way.children) for way in ways] for ways in model.ways]
    totals = [[own(way) for way in ways] for ways in model.ways]
    using = _using(model)
    heap = [
        (totals[cls][at], cls, at)
        for cls, ways in enumerate(model.ways)
        for at, way in enumerate(ways)
        if not way.children
    ]
    heap.sort()
    chosen: list[int | None] = [None] * len(model.ways)
    while heap:
        total, cls, at = heappop(heap)
        if chosen[cls] is not None:
            continue
        chosen[cls] = at
        for user, way in using[cls]:
            totals[user][way] += total // share[cls]
            missing[user][way] -= 1
            if not missing[user][way] and chosen[user] is None:
                heappush(heap, (totals[user][way], user, way))
    return [(0, _cheapest(model.ways[c][0])) if at is None else _state(model, c, at) for c, at in enumerate(chosen)]


def _using(model: Model) -> list[list[tuple[int, int]]]:
    using: list[list[tuple[int, int]]] = [[] for _ in model.ways]
    for cls, ways in enumerate(model.ways):
        for at, way in enumerate(ways):
            for child in way.children:
                using[child].append((cls, at))
    return using


def _state(model: Model, cls: int, at: int) -> State:
    return at, _cheapest(model.ways[cls][at])


def _cheapest(way: Way) -> int:
    return min((cost, engine) for engine, cost in enumerate(way.costs) if cost is not None)[1]
