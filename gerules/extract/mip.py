"""HiGHS on a hard part: components in order, cycles cut off as they show up, the bound kept whatever happens.

Component 0 of the cost is minimised first; once it is proved, the next one with the first held at its optimum, and so
on. Before the integer program, cycles are cut off its relaxation (shortest paths in fractional points), which lifts
the bound where an e-graph is full of cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil, floor, gcd, isfinite
from time import monotonic

from gerules.extract.highs import Relaxation, minimise
from gerules.extract.limits import Limits
from gerules.extract.model import Model
from gerules.extract.program import INFINITY, Program
from gerules.extract.states import State, cost_of, cycles, needed

INTEGRAL_BELOW = 10**7  # objective coefficients up to here stay integers; larger ones are scaled to SCALED_COST in all
SCALED_COST = 1e5
TOLERANCE = 1e-6  # HiGHS's own
VIOLATION = 1e-3  # of a cycle cut that is worth a row
SEPARATION_ROUNDS = 40
SEPARATION_SHARE = 0.4  # of the time left


@dataclass(frozen=True)
class MipAnswer:
    """The best acyclic solution met (None if nothing beats the incumbent), the packed cost of it or of the incumbent,
    a packed lower bound, and the limit that cut the search."""

    states: list[State | None] | None
    cost: int
    bound: int
    stopped: str | None


def solve_mip(
    model: Model, incumbent: Sequence[State | None], cost: int, bound: int, deadline: float, limits: Limits
) -> MipAnswer:
    """Search for something cheaper than the incumbent, and a bound better than the packed one given."""
    if size_of(model) > limits.entries:
        return MipAnswer(None, cost, bound, "size")
    program = Program(model)
    program.build()
    return _Run(program, list(incumbent), cost, bound, deadline, limits).run()


def size_of(model: Model) -> int:
    """About how many entries the rows of a model have: an edge is in a row for each engine, or in one where nothing
    moves, and each of these rows has the value's states."""
    states = [sum(len(way.engines()) for way in ways) for ways in model.ways]
    total = sum(states)
    for cls, users in enumerate(model.users):
        rows = 1 if model.moves[cls] is None else 1 + model.engines
        total += len(users) * (rows + states[cls]) + sum(states[user] for user in users)
    return total


@dataclass(frozen=True)
class _Objective:
    """Coefficients of one component; `divisor` of it makes 1 where they are integers, else `unit` of them makes 1."""

    coefficients: list[float]
    divisor: int
    unit: float
    whole: bool

    def lower(self, bound: float) -> int:
        """The component that a bound of the objective stands for."""
        if not isfinite(bound) or bound <= 0:
            return 0
        if self.whole:
            return ceil(bound - TOLERANCE) * self.divisor
        return max(0, floor((bound - TOLERANCE) / self.unit))

    def held(self, value: int) -> float:
        """The right side of a row that keeps the component at a value."""
        return value / self.divisor + 0.5 if self.whole else value * self.unit + TOLERANCE


class _Run:
    def __init__(
        self,
        program: Program,
        incumbent: list[State | None],
        cost: int,
        bound: int,
        deadline: float,
        limits: Limits,
    ) -> None:
        self.program = program
        self.model = program.model
        self.packing = program.model.packing
        self.best = incumbent
        self.cost = self.start = cost
        self.known = bound
        self.deadline = deadline
        self.nodes = limits.nodes
        self.iterations = limits.iterations
        self.rounds = limits.rounds
        self.stopped: str | None = None
        self.components = [self.packing.split(packed) for packed in program.costs()]

    def run(self) -> MipAnswer:
        width = len(self.packing.shifts)
        bound: list[int] = []
        for at in range(width):
            objective = self._objective(at)
            lower = self._minimise(at, objective, bound)
            bound.append(lower)
            if lower < self.packing.split(self.cost)[at]:
                break
            if at + 1 < width:
                row = {c: v for c, v in enumerate(objective.coefficients) if v}
                if row:
                    self.program.rows.append((-INFINITY, objective.held(lower), row))
        proved = len(bound) == width and bound[-1] >= self.packing.split(self.cost)[-1]
        packed = sum(part << shift for part, shift in zip(bound, self.packing.shifts, strict=False))
        lower_bound = self.cost if proved else min(self.cost, max(packed, self.known))
        found = self.best if self.cost < self.start else None
        return MipAnswer(found, self.cost, lower_bound, None if proved else self.stopped)

    def _objective(self, at: int) -> _Objective:
        raw = [parts[at] for parts in self.components]
        divisor = gcd(*raw) or 1
        if max(raw, default=0) // divisor <= INTEGRAL_BELOW:
            return _Objective([float(v // divisor) for v in raw], divisor, 1.0, True)
        unit = SCALED_COST / max(1, self.packing.split(self.cost)[at])
        return _Objective([v * unit for v in raw], 1, unit, False)

    def _minimise(self, at: int, objective: _Objective, before: Sequence[int]) -> int:
        """A lower bound of a component while those before are held; it is the best solution's where that is proved."""
        known = self.packing.split(self.known)
        lower = known[at] if list(known[:at]) == list(before) else 0
        if not any(objective.coefficients) or lower >= self._now(at):
            return self._now(at)
        if at == 0 and self.model.knots:
            lower = max(lower, objective.lower(self._separate(objective)))
        while lower < self._now(at):
            left = self.deadline - monotonic()
            if left <= 0:
                self.stopped = "time"
            if self.stopped is None and (self.nodes <= 0 or self.iterations <= 0 or self.rounds <= 0):
                self.stopped = "iterations"
            if self.stopped is not None:
                break
            self.rounds -= 1
            outcome = minimise(
                objective.coefficients,
                self.program.rows,
                len(self.program.columns),
                self.program.point(self.best),
                left,
                self.nodes,
            )
            self.nodes -= outcome.nodes
            self.iterations -= outcome.iterations
            lower = max(lower, objective.lower(outcome.bound))
            if outcome.stopped is not None:
                self.stopped = outcome.stopped
            acyclic = outcome.values is None or self._take(outcome.values)
            if acyclic and outcome.stopped is None:
                # solved: what is left between bound and solution is HiGHS's tolerance
                return self._now(at)
        return min(lower, self._now(at))

    def _now(self, at: int) -> int:
        return self.packing.split(self.cost)[at]

    def _take(self, values: Sequence[float]) -> bool:
        """Keep a solution if it is the best; where it is cyclic, cut its cycles off and say so."""
        states = self.program.read(values)
        found = cycles(self.model, states)
        for cycle in found:
            self.program.rows.append(self.program.cut(cycle))
        if found:
            return False
        kept: list[State | None] = [None] * len(states)
        for cls in needed(self.model, states):
            kept[cls] = states[cls]
        cost = cost_of(self.model, kept)
        if cost < self.cost:
            self.best, self.cost = kept, cost
        return True

    def _separate(self, objective: _Objective) -> float:
        """Cut cycles off the relaxation while that finds some; its last bound."""
        until = monotonic() + SEPARATION_SHARE * (self.deadline - monotonic())
        relaxation = Relaxation(objective.coefficients, self.program.rows)
        bound = -INFINITY
        for _ in range(SEPARATION_ROUNDS):
            outcome = relaxation.solve(until - monotonic(), self.iterations)
            self.iterations -= outcome.iterations
            if outcome.values is None:
                break
            bound = outcome.bound
            found = fractional_cycles(self.program, outcome.values)
            for cycle in found:
                row = self.program.cut(cycle)
                self.program.rows.append(row)
                relaxation.add(row)
            if not found or monotonic() > until:
                break
        return bound


def fractional_cycles(program: Program, values: Sequence[float]) -> list[list[int]]:
    """Cycles whose cut a fractional point violates, shortest first found; no class twice as the first of one. An edge
    is as long as its class is needed without it, and a cycle is violated if it is shorter than its first class is
    needed."""
    model = program.model
    found: list[list[int]] = []
    covered: set[int] = set()
    for knot in model.knots:
        members = set(knot)
        amount = {cls: sum(values[c] for c in program.by_class[cls]) for cls in knot}
        edges: dict[int, list[tuple[int, float]]] = {}
        for cls in knot:
            if amount[cls] <= VIOLATION:
                continue
            flow: dict[int, float] = {}
            for c in program.by_class[cls]:
                if values[c] > TOLERANCE:
                    for child in model.ways[cls][program.columns[c][1]].children:
                        if child in members:
                            flow[child] = flow.get(child, 0.0) + values[c]
            edges[cls] = [(child, max(0.0, amount[cls] - part)) for child, part in sorted(flow.items())]
        for first in sorted(edges, key=lambda cls: (-amount[cls], cls)):
            if first in covered:
                continue
            cycle = _shortest_cycle(first, edges, amount[first] - VIOLATION)
            if cycle is not None:
                covered.update(cycle)
                found.append(cycle)
    return found


def _shortest_cycle(first: int, edges: dict[int, list[tuple[int, float]]], below: float) -> list[int] | None:
    distance = {first: 0.0}
    came: dict[int, int] = {}
    heap = [(0.0, first)]
    done: set[int] = set()
    while heap:
        length, cls = heappop(heap)
        if cls in done:
            continue
        done.add(cls)
        for child, step in edges.get(cls, ()):
            total = length + step
            if total >= below:
                continue
            if child == first:
                cycle = [cls]
                while cycle[-1] != first:
                    cycle.append(came[cycle[-1]])
                return cycle[::-1]
            if total < distance.get(child, below):
                distance[child] = total
                came[child] = cls
                heappush(heap, (total, child))
    return None
