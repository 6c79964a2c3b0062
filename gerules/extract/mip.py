"""HiGHS on a hard part: components in order, cycles cut off as they show up, the bound kept whatever happens.

Component 0 of the cost is minimised first; once it is proved, the next one with the first held at its optimum, and so
on. Before the integer program comes its relaxation: cycles are cut off it (shortest paths in fractional points), which
lifts the bound where an e-graph is full of cycles, and what its reduced costs exclude is left out from then on.
Placements are often whole at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil, floor, gcd, isfinite

from gerules.extract.clock import Clock
from gerules.extract.highs import Relaxation, minimise
from gerules.extract.limits import Limits
from gerules.extract.model import Model
from gerules.extract.program import INFINITY, Program
from gerules.extract.rounding import round_point
from gerules.extract.states import State, cost_of, cycles, needed

INTEGRAL_BELOW = 10**6  # an objective that costs up to here stays in integers; a larger one is scaled to SCALED_COST
SCALED_COST = 1e5
TOLERANCE = 1e-6  # HiGHS's own
TRUSTED = 1e-9  # part of a bound that is left off for its rounding
VIOLATION = 1e-3  # of a cycle cut that is worth a row
FIXING_MARGIN = 1e-3  # in units of the objective, beside the gap that reduced costs have to exceed
SEPARATION_ROUNDS = 40
SEPARATION_SHARE = 0.4  # of the time left
RELAXATION_SHARE = 0.8  # of the time left, for the first relaxation: without it there is no bound


@dataclass(frozen=True)
class MipAnswer:
    """The best acyclic solution met, its packed cost, a packed lower bound, and the limit that cut the search."""

    states: list[State | None]
    cost: int
    bound: int
    stopped: str | None


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
        bound -= TOLERANCE + TRUSTED * bound
        return ceil(bound - TOLERANCE) * self.divisor if self.whole else max(0, floor(bound / self.unit))

    def held(self, value: int) -> float:
        """The right side of a row that keeps the component at a value."""
        return value / self.divisor + 0.5 if self.whole else value * self.unit + TOLERANCE


class Mip:
    """One run on a model. `best` and `cost` are the best solution so far, at first the incumbent; `bound` is a packed
    lower bound known before."""

    def __init__(
        self,
        model: Model,
        incumbent: Sequence[State | None],
        cost: int,
        bound: int,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self.program = Program(model)
        self.program.build()
        self.model = model
        self.packing = model.packing
        self.best = list(incumbent)
        self.cost = cost
        self.known = bound
        self.clock = clock
        self.nodes = limits.nodes
        self.iterations = limits.iterations
        self.rounds = limits.rounds
        self.stopped: str | None = None
        self.out: set[int] = set()  # columns that are in nothing as cheap as the best
        self.components = [self.packing.split(packed) for packed in self.program.costs()]
        self.relaxed: int | None = None  # component 0 of a lower bound, once the relaxation is solved

    def offer(self, states: Sequence[State | None]) -> None:
        """Take a solution from elsewhere, if it is cheaper."""
        cost = cost_of(self.model, states)
        if cost < self.cost:
            self.best, self.cost = list(states), cost

    def relax(self) -> int:
        """Solve the relaxation and round it: component 0 of a lower bound."""
        if self.relaxed is None:
            objective = self._objective(0)
            useless = not any(objective.coefficients)
            self.relaxed = self._now(0) if useless else objective.lower(self._relax(objective))
        return self.relaxed

    def run(self) -> MipAnswer:
        """Go on to the end, or to a limit."""
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
        return MipAnswer(self.best, self.cost, lower_bound, None if proved else self.stopped)

    def _objective(self, at: int) -> _Objective:
        raw = [parts[at] for parts in self.components]
        divisor = gcd(*raw) or 1
        now = self._now(at)
        if now // divisor <= INTEGRAL_BELOW:
            # dearer columns than the best solution are in none that matters; they need not be told apart
            return _Objective([float(min(v, now + divisor) // divisor) for v in raw], divisor, 1.0, True)
        unit = SCALED_COST / now
        return _Objective([min(v, 2 * now) * unit for v in raw], 1, unit, False)

    def _minimise(self, at: int, objective: _Objective, before: Sequence[int]) -> int:
        """A lower bound of a component while those before are held; it is the best solution's where that is proved."""
        known = self.packing.split(self.known)
        lower = known[at] if list(known[:at]) == list(before) else 0
        if not any(objective.coefficients) or lower >= self._now(at):
            return self._now(at)
        lower = max(lower, self._least(at))
        if at == 0 and lower < self._now(at):
            lower = max(lower, self.relax())
        while lower < self._now(at):
            if self.clock.over():
                self.stopped = "time"
            if self.stopped is None and (self.nodes <= 0 or self.iterations <= 0 or self.rounds <= 0):
                self.stopped = "iterations"
            if self.stopped is not None:
                break
            self.rounds -= 1
            if self.model.knots and not self.program.levels:
                self.program.order()
                self.components = [self.packing.split(packed) for packed in self.program.costs()]
                objective = self._objective(at)
            outcome = minimise(
                objective.coefficients,
                self.program.rows,
                len(self.program.columns),
                self.out,
                self.program.point(self.best),
                self.clock.left(),
                self.nodes,
            )
            self.nodes -= outcome.nodes
            self.iterations -= outcome.iterations
            lower = max(lower, objective.lower(outcome.bound))
            if outcome.stopped is not None:
                self.stopped = outcome.stopped
                if outcome.stopped == "time":
                    self.clock.mark()
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
        self.offer(kept)
        return True

    def _least(self, at: int) -> int:
        """The least of a component that the classes cost that every solution needs."""
        program = self.program
        return sum(min(self.components[c][at] for c in program.by_class[cls]) for cls in sorted(self.model.forced))

    def _relax(self, objective: _Objective) -> float:
        """Solve the relaxation of component 0 and cut cycles off while that finds some: its last bound. Where its
        solution is whole it is the best; else its reduced costs say what can be left out."""
        whole = len(self.program.columns)
        relaxation = Relaxation(objective.coefficients, self.program.rows)
        clock = self.clock.part(SEPARATION_SHARE)
        first = self.clock.part(RELAXATION_SHARE)
        outcome = relaxation.solve(first.left(), self.iterations)
        bound = -INFINITY
        for _ in range(SEPARATION_ROUNDS):
            self.iterations -= outcome.iterations
            if outcome.values is None or outcome.reduced is None:
                if outcome.stopped == "time":
                    clock.mark()
                break
            bound = outcome.bound
            if all(min(value, 1 - value) < TOLERANCE for value in outcome.values[:whole]):
                rows = len(self.program.rows)
                self._take(outcome.values)
                found = self.program.rows[rows:]
            else:
                found = [self.program.cut(cycle) for cycle in fractional_cycles(self.program, outcome.values)]
                self.program.rows.extend(found)
                if not found:
                    rounded = round_point(self.program, outcome.values, self.best, self.clock)
                    if rounded is not None:
                        self.offer(rounded)
            best = self._now(0) * objective.unit / objective.divisor
            slack = max(0.0, best - bound) + FIXING_MARGIN
            self.out.update(column for column in range(whole) if outcome.reduced[column] > slack)
            if not found or clock.over():
                break
            for row in found:
                relaxation.add(row)
            outcome = relaxation.solve(clock.left(), self.iterations)
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
