"""The search for a hard part: several starts, each placed and improved, then HiGHS with the best as incumbent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from gerules.extract.elimination import eliminate
from gerules.extract.greedy import bottom_up, greedy, own
from gerules.extract.limits import Limits
from gerules.extract.mip import solve_mip
from gerules.extract.model import Model, Way
from gerules.extract.network import encode
from gerules.extract.states import State, cost_of, cycles, is_solution, needed
from gerules.extract.swap import Swapper

ROUNDS = 8  # of swapping and placing in turn


@dataclass(frozen=True)
class Found:
    """A solution of a model: packed cost and lower bound (0 where none is known), what found it, what cut it short."""

    states: list[State | None]
    cost: int
    bound: int
    method: str
    stopped: str | None


def search(
    model: Model, guess: Sequence[State | None], given: Mapping[int, int], bound: int, deadline: float, limits: Limits
) -> Found:
    """The best solution found. `guess` is a state for every class or None, perhaps cyclic; `given` the option of the
    input graph for the classes of the problem; a cost of `bound` cannot be beaten, so the search ends there."""
    fallback = bottom_up(model)
    starts: list[tuple[str, list[State]]] = []
    if is_solution(model, guess):
        starts.append(("elimination", _filled(guess, fallback)))
    incumbent = _incumbent(model, given, fallback)
    if incumbent is not None:
        starts.append(("input", incumbent))
    sets = greedy(model)
    if sets is not None:
        starts.append(("greedy", sets))
    starts.append(("bottom-up", fallback))
    best: Found | None = None
    stopped: str | None = None
    tried: set[tuple[State, ...]] = set()
    for method, start in starts:
        if tuple(start) in tried:
            continue
        tried.add(tuple(start))
        states, cost, improved, cut = _descend(model, start, method == "elimination", deadline, limits)
        stopped = stopped or cut
        if best is None or cost < best.cost:
            best = Found(states, cost, bound, "one-swap" if improved else method, None)
        if best.cost <= bound or monotonic() > deadline:
            break
    assert best is not None
    if best.cost <= bound:
        return Found(best.states, best.cost, best.cost, best.method, None)
    exact = solve_mip(model, best.states, best.cost, bound, deadline, limits)
    result = best
    if exact.states is not None and exact.cost < best.cost:
        result = Found(exact.states, exact.cost, bound, "highs", None)
    proved = min(max(bound, exact.bound), result.cost)
    cut = None if proved >= result.cost else exact.stopped or stopped
    return Found(result.states, result.cost, proved, result.method, cut)


def _filled(states: Sequence[State | None], fallback: Sequence[State]) -> list[State]:
    return [fallback[cls] if state is None else state for cls, state in enumerate(states)]


def _incumbent(model: Model, given: Mapping[int, int], fallback: Sequence[State]) -> list[State] | None:
    """The input graph's choice, where an option was beaten the one that beat it; None if that is no solution."""
    states = list(fallback)
    for cls, ways in enumerate(model.ways):
        option = given.get(model.names[cls], -1)
        while option in model.stands_for:
            option = model.stands_for[option]
        for at, way in enumerate(ways):
            if way.option == option:
                engine = min((own(way), e) for e in way.engines() if way.costs[e] == own(way))[1]
                states[cls] = (at, engine)
    return None if cycles(model, states) else states


def _descend(
    model: Model, start: list[State], placed: bool, deadline: float, limits: Limits
) -> tuple[list[State | None], int, bool, str | None]:
    """Place (unless the start is `placed`), swap, place again until nothing falls: the states needed, their cost,
    whether swaps helped, and the limit that cut it."""
    states = start
    cost: int | None = None
    improved = False
    cut: str | None = None
    for at in range(ROUNDS):
        if at or not placed:
            states = _filled(place(model, states), states)
        swapper = Swapper(model, states)
        before = swapper.total
        cut = swapper.improve(limits.attempts, deadline)
        if cost is not None and swapper.total >= cost:
            break
        improved = improved or swapper.total < before
        cost = swapper.total
        states = list(swapper.states)
        states = _filled(swapper.result(), states)
        if cut is not None or model.engines == 1:
            break
    result: list[State | None] = [None] * len(states)
    for cls in needed(model, states):
        result[cls] = states[cls]
    assert cost is not None
    return result, cost_of(model, result), improved, cut


def place(model: Model, states: Sequence[State]) -> list[State | None]:
    """The best engines found for the ways chosen, for the classes needed: never dearer than `states`."""
    order = sorted(needed(model, states))
    current: list[State | None] = [None] * len(states)
    for cls in order:
        current[cls] = states[cls]
    if model.engines == 1:
        return current
    keep: list[Sequence[Way] | None] = [None] * len(states)
    for cls in order:
        keep[cls] = [model.ways[cls][states[cls][0]]]
    part = model.only(keep, model.roots)
    encoding = encode(part)
    answer = eliminate(encoding.network)
    placed: list[State | None] = [None] * len(states)
    for at, state in enumerate(encoding.read(answer.states)):
        assert state is not None
        placed[order[at]] = (states[order[at]][0], state[1])
    return placed if cost_of(model, placed) < cost_of(model, _tied_along(model, current)) else current


def _tied_along(model: Model, states: Sequence[State | None]) -> list[State | None]:
    return list(Swapper(model, [(0, 0) if s is None else s for s in states]).result())
