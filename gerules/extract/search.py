"""The search for a hard part: several starts, each placed and improved, then HiGHS with the best as incumbent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gerules.extract.clock import Clock
from gerules.extract.elimination import eliminate
from gerules.extract.greedy import bottom_up, greedy, own
from gerules.extract.limits import Limits
from gerules.extract.mip import Mip, size_of
from gerules.extract.model import Model
from gerules.extract.network import encode
from gerules.extract.states import State, cost_of, cycles, is_solution, needed
from gerules.extract.swap import Swapper

ROUNDS = 8  # of forced swaps and placing in turn
LOCAL_SHARE = 0.3  # of the time, at most, before HiGHS
SMALL = 20_000  # entries: HiGHS is faster than forced swaps below


@dataclass(frozen=True)
class Found:
    """A solution of a model: packed cost and lower bound (0 where none is known), what found it, what cut it short."""

    states: list[State | None]
    cost: int
    bound: int
    method: str
    stopped: str | None


def search(
    model: Model, guess: Sequence[State | None], given: Mapping[int, int], bound: int, clock: Clock, limits: Limits
) -> Found:
    """The best solution found. `guess` is a state for every class or None, perhaps cyclic; `given` the option of the
    input graph for the classes of the problem; a cost of `bound` cannot be beaten, so the search ends there."""
    fallback = bottom_up(model)
    starts: list[tuple[str, Sequence[State | None]]] = []
    if is_solution(model, guess):
        starts.append(("elimination", list(guess)))
    incumbent = _incumbent(model, given, fallback)
    if incumbent is not None:
        starts.append(("input", incumbent))
    sets = greedy(model)
    if sets is not None:
        starts.append(("greedy", sets))
    starts.append(("bottom-up", fallback))
    large = size_of(model) > limits.entries
    local = clock if large else clock.part(LOCAL_SHARE)
    best: _Local | None = None
    tried: set[tuple[State, ...]] = set()
    for method, choice in starts:
        # what is not needed comes from one choice without cycles: then no cycle can come in with it
        start = _filled(_trimmed(model, choice), fallback)
        if tuple(start) in tried:
            continue
        tried.add(tuple(start))
        found = _descend(model, method, start, local, limits)
        if best is None or found.cost < best.cost:
            best = found
        if best.cost <= bound or local.over():
            break
    assert best is not None
    if best.cost > bound and large:
        best = _deepen(model, best, clock, limits)
    if best.cost <= bound or large:
        proved = min(bound, best.cost)
        stopped = None if proved >= best.cost else best.stopped or "size"
        return Found(_trimmed(model, best.states), best.cost, proved, best.method, stopped)
    return _with_highs(model, best, bound, clock, limits)


def _with_highs(model: Model, best: _Local, bound: int, clock: Clock, limits: Limits) -> Found:
    """The relaxation and its rounding, local search from there, the integer program."""
    mip = Mip(model, _trimmed(model, best.states), best.cost, bound, clock, limits)
    mip.relax()
    if mip.cost < best.cost:
        best = _Local(_filled(mip.best, best.states), mip.cost, "highs", best.stopped)
    if best.cost > bound and size_of(model) > SMALL:
        best = _deepen(model, best, clock.part(LOCAL_SHARE), limits)
        mip.offer(_trimmed(model, best.states))
    answer = mip.run()
    if answer.cost < best.cost:
        best = _Local(_filled(answer.states, best.states), answer.cost, "highs", best.stopped)
        if answer.bound < answer.cost:
            best = _deepen(model, best, clock, limits)
    stopped = None if answer.bound >= best.cost else answer.stopped or best.stopped
    return Found(_trimmed(model, best.states), best.cost, min(answer.bound, best.cost), best.method, stopped)


@dataclass(frozen=True)
class _Local:
    """Where a local search is: a state for every class, the cost of those needed, and what it came from."""

    states: list[State]
    cost: int
    method: str
    stopped: str | None


def _descend(model: Model, method: str, start: list[State], clock: Clock, limits: Limits) -> _Local:
    """Place a start (that of elimination is placed) and swap until no single swap helps."""
    states = start if method == "elimination" else _filled(place(model, start), start)
    swapper = Swapper(model, states)
    before = swapper.total
    stopped = swapper.improve(limits.attempts, clock)
    return _Local(
        _filled(swapper.result(), swapper.states),
        swapper.total,
        "one-swap" if swapper.total < before else method,
        stopped,
    )


def _deepen(model: Model, best: _Local, clock: Clock, limits: Limits) -> _Local:
    """Forced swaps, and placing anew, in turn until neither helps."""
    left = limits.attempts
    for _ in range(ROUNDS):
        swapper = Swapper(model, best.states)
        stopped = swapper.probe(left, clock)
        left -= swapper.attempts
        states = _filled(swapper.result(), swapper.states)
        if swapper.total < best.cost:
            best = _Local(states, swapper.total, "one-swap", stopped)
        elif stopped != best.stopped:
            best = replace(best, stopped=stopped)
        if model.engines == 1 or stopped is not None:
            break
        states = _filled(place(model, best.states), best.states)
        placed = Swapper(model, states).total
        if placed >= best.cost:
            break
        best = _Local(states, placed, "one-swap", stopped)
    return best


def _trimmed(model: Model, states: Sequence[State | None]) -> list[State | None]:
    """The states of the classes that are needed."""
    kept: list[State | None] = [None] * len(states)
    for cls in needed(model, states):
        kept[cls] = states[cls]
    return kept


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
                engine = model.problem.incumbent_engines.get(model.names[cls], -1)
                if engine not in way.engines():
                    engine = way.costs.index(own(way))
                states[cls] = (at, engine)
    return None if cycles(model, states) else states


def place(model: Model, states: Sequence[State]) -> list[State | None]:
    """The best engines found for the ways chosen, for the classes needed: never dearer than `states`."""
    order = sorted(needed(model, states))
    current: list[State | None] = [None] * len(states)
    for cls in order:
        current[cls] = states[cls]
    if model.engines == 1:
        return current
    part = model.only({cls: (model.ways[cls][states[cls][0]],) for cls in order}, model.roots)
    encoding = encode(part)
    answer = eliminate(encoding.network)
    placed: list[State | None] = [None] * len(states)
    for at, state in enumerate(encoding.read(answer.states)):
        assert state is not None
        placed[order[at]] = (states[order[at]][0], state[1])
    return placed if cost_of(model, placed) < cost_of(model, _tied_along(model, current)) else current


def _tied_along(model: Model, states: Sequence[State | None]) -> list[State | None]:
    return list(Swapper(model, [(0, 0) if s is None else s for s in states]).result())
