"""The portfolio: the input graph, exact elimination where tables stay small, search and HiGHS for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from gerules.extract.clock import Clock
from gerules.extract.exact import Settled, settle
from gerules.extract.greedy import bottom_up
from gerules.extract.limits import Limits
from gerules.extract.model import Model, build_model
from gerules.extract.network import Encoding, encode
from gerules.extract.problem import METHODS, Infeasible, Problem, Solution, check, evaluate
from gerules.extract.search import search
from gerules.extract.states import State, cost_of, needed, translate
from gerules.extract.swap import Swapper
from gerules.extract.trim import trimmed

INPUT_SHARE = 0.4  # of the time, at most, for placing the input graph

Placement = tuple[Mapping[int, int], Mapping[int, int]]  # class -> option, class -> engine


@dataclass(frozen=True)
class Placed:
    """A solution of a model: packed cost and bound, what found it, what cut the search."""

    states: list[State | None]
    cost: int
    bound: int
    method: str
    stopped: str | None


def solve(problem: Problem, *, time_limit: float = 10.0, limits: Limits | None = None) -> Solution:
    """The cheapest choice of option and engine that the limits allow to find, never dearer than the input graph under
    the best placement found for it, with a lower bound.

    `time_limit` is in seconds; `limits` count work, so that the answer is the same every time while the clock does not
    cut it. Raises Infeasible where the roots cannot be made, ValueError where the problem is malformed.
    """
    check(problem)
    problem, cut = trimmed(problem)
    clock = Clock(time_limit)
    limits = limits or Limits()
    model = build_model(problem)
    before: tuple[float, ...] | None = None
    given: Placement | None = None
    if not _is_input(model):
        before, given = _input(problem, clock.part(INPUT_SHARE), limits)
    found = solve_model(model, problem.incumbent, clock, limits)
    choice: Mapping[int, int]
    engine: Mapping[int, int]
    choice, engine = translate(model, found.states)
    cost = evaluate(problem, choice, engine)
    if before is None:
        before, given = cost, (choice, engine)
    bound = cost if found.bound >= found.cost else min(cost, model.packing.unpack(found.bound))
    method, stopped = found.method, "time" if clock.timed else found.stopped
    if cut:  # a bound on what was kept is none on what was left out
        bound, stopped = (0.0,) * len(cost), stopped or "size"
    if given is not None and before <= cost:
        choice, engine = given
        cost, method = before, "input"
        bound = min(bound, cost)
    gap = (cost[0] - bound[0]) / cost[0] if cost[0] else 0.0
    return Solution(choice, engine, cost, before, bound, gap, method, stopped)


def _is_input(model: Model) -> bool:
    """Whether nothing but the input graph is left to choose."""
    incumbent = model.problem.incumbent
    return all(
        len(ways) == 1 and incumbent.get(cls) == ways[0].option
        for cls, ways in zip(model.names, model.ways, strict=True)
    ) and all(incumbent.get(cls, leaf) == leaf for cls, leaf in model.free.items())


def _input(problem: Problem, clock: Clock, limits: Limits) -> tuple[tuple[float, ...], Placement | None]:
    """The input graph under its best placement found: cost, and choice with engines; infinite where there is none."""
    try:
        model = build_model(problem, problem.incumbent)
    except Infeasible:
        return (inf,) * problem.width(), None
    placement = translate(model, solve_model(model, problem.incumbent, clock, limits).states)
    return evaluate(problem, *placement), placement


def solve_model(model: Model, given: Mapping[int, int], clock: Clock, limits: Limits) -> Placed:
    """The best states found for a model, and a bound. `given` is the input graph's option for the problem's classes."""
    encoding = encode(model)
    settled = settle(encoding, clock)
    states = settled.states
    slack = 0  # between what the hard parts cost and their bounds
    methods = ["elimination"]
    stops: list[str] = []
    left = sum(len(part.classes) for part in settled.parts)
    for part, bound in zip(settled.parts, _bounds(encoding, settled), strict=True):
        guess = [states[cls] for cls in part.classes]
        found = search(part.model, guess, given, bound, clock.part(len(part.classes) / left), limits)
        left -= len(part.classes)
        for cls, state in zip(part.classes, found.states, strict=True):
            states[cls] = state
        slack += found.cost - found.bound
        methods.append(found.method)
        stops.extend([found.stopped] if found.stopped else [])
    kept: list[State | None] = [None] * len(states)
    for cls in needed(model, states):
        kept[cls] = states[cls]
    cost = cost_of(model, kept)
    stopped = next((stop for stop in stops if stop != "time"), None)
    return Placed(kept, cost, cost - slack, max(methods, key=METHODS.index), stopped)


def _bounds(encoding: Encoding, settled: Settled) -> list[int]:
    """The bounds that elimination has for the hard parts, in terms of the parts' own models: those also count the
    settled classes around. Any solution shows the difference."""
    if not settled.parts:
        return []
    some = [Swapper(part.model, bottom_up(part.model)).result() for part in settled.parts]
    whole = list(settled.states)
    for part, states in zip(settled.parts, some, strict=True):
        for cls, state in zip(part.classes, states, strict=True):
            whole[cls] = state
    values = encoding.network.values(encoding.complete(whole), settled.group)
    return [
        part.bound + cost_of(part.model, states) - sum(values[leader] for leader in part.groups)
        for part, states in zip(settled.parts, some, strict=True)
    ]
