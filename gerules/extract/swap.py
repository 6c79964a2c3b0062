"""One-swap local search: change the way or the engine of one class at a time while that makes the whole cheaper.

Reference counts say which classes a change frees and which it brings in; a class that comes in takes the state it had
last. Only changes inside a knot (a strongly connected component) are checked for cycles.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf

from gerules.extract.clock import Clock
from gerules.extract.model import Model, Way
from gerules.extract.states import State

CLOCK_EVERY = 16  # attempts between looks at the clock
STEPS_EACH = 16  # operands, classes that come or go, or are looked at for a cycle, that count as one more attempt
PROBE_EFFORT = 60  # attempts that may follow a forced change


class Swapper:
    """A choice under change. `states` has a state for every class, needed or not, and no cycle even among those that
    are not needed; `total` is the packed cost of what is needed. `attempts` counts the changes tried."""

    def __init__(self, model: Model, states: Sequence[State]) -> None:
        self.model = model
        self.states = list(states)
        self.users = [0] * len(model.ways)
        self.arrivals: list[dict[int, int]] = [{} for _ in model.ways]  # engine -> users that want the value there
        self.total = 0
        self.attempts = 0
        self.left = 0  # of the attempts allowed
        self.clock = Clock(inf)
        self.steps = 0  # since the last attempt was counted
        self.look = 0  # attempts at which to look at the clock
        self.cut: str | None = None
        self.entered: list[int] = []  # classes that came in since this was emptied
        self.knot = [-1] * len(model.ways)
        for at, members in enumerate(model.knots):
            for cls in members:
                self.knot[cls] = at
        self.tied_users: list[list[int]] = [[] for _ in model.ways]
        for cls, ways in enumerate(model.ways):
            for node in sorted({way.children[0] for way in ways if way.tied}):
                self.tied_users[node].append(cls)
        for root in model.roots:
            self._use(root)

    def result(self) -> list[State | None]:
        return [(self.states[cls][0], self.engine(cls)) if self.users[cls] else None for cls in range(len(self.states))]

    def engine(self, cls: int) -> int:
        """Where a class sits: a projection where its node does."""
        way = self.model.ways[cls][self.states[cls][0]]
        while way.tied:
            cls = way.children[0]
            way = self.model.ways[cls][self.states[cls][0]]
        return self.states[cls][1]

    def improve(self, attempts: int, clock: Clock) -> str | None:
        """Swap until nothing helps; the limit that stopped it before that, or None."""
        self.left, self.clock = attempts, clock
        return self._descend(sorted(cls for cls, users in enumerate(self.users) if users), -1, [])

    def probe(self, attempts: int, clock: Clock, effort: int = PROBE_EFFORT) -> str | None:
        """Force each state of each needed class in turn, though it makes the whole dearer, and let what is near
        follow; keep what ends up cheaper, take back the rest. Repeated until nothing helps or a limit stops it."""
        self.left, self.clock = attempts, clock
        helped = True
        while helped:
            helped = False
            for cls in range(len(self.states)):
                for at, way in enumerate(self.model.ways[cls]):
                    for engine in way.engines() if not way.tied else [self.states[cls][1]]:
                        if self.users[cls] and (at, engine) != self.states[cls]:
                            helped = self._force(cls, (at, engine), effort) or helped
                            if self.stopped() is not None:
                                return self.stopped()
        return None

    def stopped(self) -> str | None:
        return self.cut or ("iterations" if self.left <= 0 else None)

    def _late(self) -> bool:
        if self.attempts < self.look:
            return False
        self.look = self.attempts + CLOCK_EVERY
        return self.clock.over()

    def _spend(self, way: Way) -> None:
        """One attempt, or several where a way has many operands or the one before moved many classes."""
        work = 1 + (len(way.children) + self.steps) // STEPS_EACH
        self.steps = 0
        self.left -= work
        self.attempts += work

    def _force(self, cls: int, state: State, effort: int) -> bool:
        before, old = self.total, self.states[cls]
        log = [(cls, old)]
        self._spend(self.model.ways[cls][state[0]])
        self.entered.clear()
        self._set(cls, state)
        if old[0] != state[0] and self._on_cycle(cls):
            self._set(cls, old)
            self.total = before
            return False
        near = [*self.model.ways[cls][state[0]].children, *self.model.ways[cls][old[0]].children]
        # what came in is there for others too
        for value in (cls, *self.entered):
            near += [user for user in self.model.users[value] if self.users[user]]
        allowance = self.left - effort
        self.left, rest = min(self.left, effort), max(0, allowance)
        self._descend(list(dict.fromkeys(near)), cls, log)
        self.left += rest
        if self.total < before:
            return True
        for changed, back in reversed(log):
            self._set(changed, back)
        self.total = before
        return False

    def _descend(self, start: Sequence[int], fixed: int, log: list[tuple[int, State]]) -> str | None:
        """Swap from some classes on until nothing helps, `fixed` left as it is; `log` gets (class, state before)."""
        waiting = deque(start)
        queued = set(waiting)
        while waiting:
            cls = waiting.popleft()
            queued.discard(cls)
            if not self.users[cls] or cls == fixed:
                continue
            before = self.total
            for at, way in enumerate(self.model.ways[cls]):
                for engine in way.engines() if not way.tied else [self.states[cls][1]]:
                    old = self.states[cls]
                    if (at, engine) == old:
                        continue
                    if self.left <= 0:
                        return "iterations"
                    self._spend(way)
                    if self._late():
                        self.cut = "time"
                    if self.cut is not None:
                        return self.cut
                    if self.attempt(cls, (at, engine)):
                        log.append((cls, old))
            self.entered.clear()
            if self.total < before:
                way = self.model.ways[cls][self.states[cls][0]]
                for near in sorted({cls, *way.children, *(u for u in self.model.users[cls] if self.users[u])}):
                    if near not in queued:
                        queued.add(near)
                        waiting.append(near)
        return None

    def attempt(self, cls: int, state: State) -> bool:
        """Give a class another state if that is cheaper and closes no cycle."""
        before = self.total
        old = self.states[cls]
        self._set(cls, state)
        if self.total < before and not (old[0] != state[0] and self._on_cycle(cls)):
            return True
        self._set(cls, old)
        self.total = before  # the counts go back by themselves; sums taken on a cycle may not
        return False

    def _set(self, cls: int, state: State) -> None:
        if not self.users[cls]:
            self.states[cls] = state
            return
        old = self.states[cls]
        if old[0] == state[0]:
            # only the engine: its own cost, its operands' way in, its value's way out
            self._charge(cls, -1)
            self._bring(cls, -1)
            self.states[cls] = state
            self._charge(cls, 1)
            self._bring(cls, 1)
            return
        sent = self._results(cls)
        for value in sent:
            self._send(value, -1)
        self.states[cls] = state
        # the new way first: what both need must not be dropped between
        self._enter(cls, state)
        self._leave(cls, old)
        for value in sent:
            self._send(value, 1)

    def _results(self, cls: int) -> list[int]:
        """The needed values that sit where a class sits: it and its projections."""
        found = [cls]
        for value in found:
            for user in self.tied_users[value]:
                way = self.model.ways[user][self.states[user][0]]
                if self.users[user] and way.tied and way.needs(value):
                    found.append(user)
        return found

    def _send(self, value: int, sign: int) -> None:
        moves = self.model.moves[value]
        if moves is not None and self.users[value]:
            here = self.engine(value)
            self.total += sign * sum(moves[here][target] for target in self.arrivals[value])

    def _charge(self, cls: int, sign: int) -> None:
        way = self.model.ways[cls][self.states[cls][0]]
        if not way.tied:
            cost = way.costs[self.states[cls][1]]
            assert cost is not None
            self.total += sign * cost
        for value in self._results(cls):
            self._send(value, sign)

    def _bring(self, cls: int, sign: int) -> None:
        """The operands of a class arrive on its engine, or no longer."""
        way, here = self.model.ways[cls][self.states[cls][0]], self.states[cls][1]
        if way.tied:
            return
        for child in way.children:
            self._arrive(child, here, sign)

    def _arrive(self, child: int, here: int, sign: int) -> None:
        moves = self.model.moves[child]
        if moves is None:
            return
        count = self.arrivals[child].get(here, 0) + sign
        if count:
            self.arrivals[child][here] = count
        else:
            del self.arrivals[child][here]
        if (count == 1 and sign > 0) or (count == 0 and sign < 0):
            self.total += sign * moves[self.engine(child)][here]

    def _use(self, cls: int) -> None:
        """One more user; a class that comes in brings what it needs."""
        work = [cls]
        while work:
            cls = work.pop()
            self.users[cls] += 1
            if self.users[cls] == 1:
                self.entered.append(cls)
                self.steps += 1
                self._price(cls, self.states[cls], 1)
                work.extend(self.model.ways[cls][self.states[cls][0]].children)
                self._wait_for(cls)

    def _wait_for(self, cls: int) -> None:
        way = self.model.ways[cls][self.states[cls][0]]
        if not way.tied:
            for child in way.children:
                self._arrive(child, self.states[cls][1], 1)

    def _price(self, cls: int, state: State, sign: int) -> None:
        way = self.model.ways[cls][state[0]]
        if not way.tied:
            cost = way.costs[state[1]]
            assert cost is not None
            self.total += sign * cost

    def _enter(self, cls: int, state: State) -> None:
        self._price(cls, state, 1)
        for child in self.model.ways[cls][state[0]].children:
            self._use(child)
        self._wait_for(cls)

    def _leave(self, cls: int, state: State) -> None:
        work = [(cls, state)]
        while work:
            cls, state = work.pop()
            self.steps += 1
            way = self.model.ways[cls][state[0]]
            self._price(cls, state, -1)
            for child in way.children:
                if not way.tied:
                    self._arrive(child, state[1], -1)
            for child in way.children:
                self.users[child] -= 1
                if not self.users[child]:
                    work.append((child, self.states[child]))

    def _on_cycle(self, cls: int) -> bool:
        knot = self.knot[cls]
        if knot < 0:
            return False
        seen: set[int] = set()
        work = [cls]
        while work:
            for child in self.model.ways[(at := work.pop())][self.states[at][0]].children:
                if child == cls:
                    return True
                if self.knot[child] == knot and child not in seen:
                    seen.add(child)
                    work.append(child)
        self.steps += len(seen)
        return False
