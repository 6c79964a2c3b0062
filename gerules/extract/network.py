"""A model as a network of cost tables, and a network's states as a solution.

Each class is a variable: not needed, or one of its ways on one engine. A value with one user shares a table with it.
A value with more gets a variable of its own: the set of engines that it is on (empty where it is not needed), so that
each destination is paid once and users need not know of each other. Engines beyond SET_ENGINES are split over several
such variables. Acyclicity is not part of the network: `forbid` adds it cycle by cycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gerules.extract.elimination import Network, Table
from gerules.extract.model import Model
from gerules.extract.states import State

SET_ENGINES = 5
CYCLE_ENTRIES = 1 << 14  # of a table that forbids one cycle


@dataclass(frozen=True, slots=True)
class Shared:
    """A variable for the engines that a value is on: its state i is the set i + start, `bits` the bit of each engine;
    without bits it is whether the value is needed."""

    cls: int
    users: tuple[int, ...]
    bits: dict[int, int]
    start: int


@dataclass(frozen=True, slots=True)
class Path:
    """A variable of two states: whether a class takes a way that needs the following one, and the variable `before`
    says the same of the edges before."""

    cls: int
    following: int
    before: int | None


@dataclass(frozen=True)
class Encoding:
    """`network` of a model: variable c is class c, its state i is `states[c][i]`, None where it is not needed. The
    variables behind those of the classes are `defined` by them, in order."""

    model: Model
    network: Network
    states: tuple[tuple[State | None, ...], ...]
    defined: list[Shared | Path] = field(default_factory=list)
    squares: dict[tuple[tuple[int, ...], int], tuple[Table, Table]] = field(default_factory=dict)

    def read(self, answer: Mapping[int, int]) -> list[State | None]:
        return [states[answer[cls]] for cls, states in enumerate(self.states)]

    def complete(self, chosen: Sequence[State | None]) -> list[int]:
        """A state for every variable from those of the classes: a value is on the engines where it is wanted."""
        answer = [states.index(state) for states, state in zip(self.states, chosen, strict=True)]
        for definition in self.defined:
            if isinstance(definition, Path):
                before = definition.before is None or answer[definition.before] == 1
                cls = definition.cls
                answer.append(int(before and _needs(self.model, cls, chosen[cls], definition.following)))
            else:
                answer.append(self._held(definition, chosen) - definition.start)
        return answer

    def _held(self, shared: Shared, chosen: Sequence[State | None]) -> int:
        held = 0
        for user in shared.users:
            state = chosen[user]
            if state is not None:
                way = self.model.ways[user][state[0]]
                if not way.tied and way.needs(shared.cls):
                    held |= shared.bits.get(state[1], 0) if shared.bits else 1
        own = chosen[shared.cls]
        if own is not None and held:
            held |= shared.bits.get(own[1], 0)
        return held

    def forbid(self, cycle: Sequence[int]) -> None:
        """Forbid that each class of a cycle takes a way that needs the next one. Long cycles go over variables that
        say whether all edges so far are taken, so that no table grows with the length."""
        network = self.network
        needs = [
            network.array(self.needing(cls, following))
            for cls, following in zip(cycle, [*cycle[1:], cycle[0]], strict=True)
        ]
        size = 1
        for taken in needs:
            size *= len(taken)
        infinity = network.infinity
        if size <= CYCLE_ENTRIES:
            table = network.array(np.full([1] * len(cycle), infinity))
            for axis, taken in enumerate(needs):
                shape = [1] * len(cycle)
                shape[axis] = len(taken)
                table = table * taken.reshape(shape)
            network.add(tuple(cycle), table)
            return
        before: int | None = None
        for cls, following, taken in zip(cycle[:-1], cycle[1:], needs[:-1], strict=True):
            path = network.variable([0, 0])
            self.defined.append(Path(cls, following, before))
            # [class][path]: all edges so far and this one, or not; [class][path][before]: without those before, not
            along = np.stack([taken, 1 - taken], axis=1) * infinity
            if before is None:
                network.add((cls, path), along)
            else:
                never = np.stack([taken * 0, taken * 0 + 1], axis=1) * infinity
                network.add((cls, path, before), np.stack([never, along], axis=2))
            before = path
        assert before is not None
        network.add((cycle[-1], before), np.stack([needs[-1] * 0, needs[-1] * infinity], axis=1))

    def needing(self, cls: int, child: int) -> list[int]:
        """For each state of a class 1 if it needs another class, else 0."""
        ways = [int(way.needs(child)) for way in self.model.ways[cls]]
        return [0 if state is None else ways[state[0]] for state in self.states[cls]]


def encode(model: Model) -> Encoding:
    packing = model.packing
    network = Network(packing.infinity, packing.int64)
    states: list[tuple[State | None, ...]] = []
    for cls, ways in enumerate(model.ways):
        mine: list[State | None] = [] if cls in model.forced else [None]
        costs = [] if cls in model.forced else [0]
        for at, way in enumerate(ways):
            for engine, cost in enumerate(way.costs):
                if cost is not None:
                    mine.append((at, engine))
                    costs.append(min(cost, packing.infinity))
        network.variable(costs)
        states.append(tuple(mine))
    encoding = Encoding(model, network, tuple(states))
    for cls, users in enumerate(model.users):
        if users:
            _connect(encoding, cls, users)
    return encoding


def _connect(encoding: Encoding, cls: int, users: tuple[int, ...]) -> None:
    model = encoding.model
    tied = [any(way.tied and way.needs(cls) for way in model.ways[user]) for user in users]
    for user, is_tied in zip(users, tied, strict=True):
        if is_tied:
            _tie(encoding, cls, user)
    loose = [user for user in users if any(not way.tied and way.needs(cls) for way in model.ways[user])]
    moves = model.moves[cls]
    if not loose or (cls in model.forced and moves is None):
        return
    if len(loose) == 1:
        _pair(encoding, cls, loose[0])
        return
    if moves is None:
        groups: list[list[int]] = [[]]  # one bit: needed or not
    else:
        wanted = sorted({e for u in loose for way in model.ways[u] if way.needs(cls) for e in way.engines()})
        groups = [wanted[i : i + SET_ENGINES] for i in range(0, len(wanted), SET_ENGINES)]
    for engines in groups:
        _share(encoding, cls, loose, engines, len(groups) == 1)


def _tie(encoding: Encoding, cls: int, user: int) -> None:
    infinity = encoding.network.infinity
    table = [[0] * len(encoding.states[user]) for _ in encoding.states[cls]]
    for column, state in enumerate(encoding.states[user]):
        if state is not None and encoding.model.ways[user][state[0]].tied and _needs(encoding.model, user, state, cls):
            for row, own in enumerate(encoding.states[cls]):
                if own is None or own[1] != state[1]:
                    table[row][column] = infinity
    encoding.network.add((cls, user), encoding.network.array(table))


def _pair(encoding: Encoding, cls: int, user: int) -> None:
    """The table of a value and its only user: not there where it is needed, or what bringing it over costs."""
    model, network = encoding.model, encoding.network
    nowhere = model.engines
    moves = model.moves[cls]
    square = [[*row, 0] for row in moves] if moves is not None else [[0] * (nowhere + 1) for _ in range(nowhere)]
    square.append([network.infinity] * nowhere + [0])
    rows = [nowhere if state is None else state[1] for state in encoding.states[cls]]
    columns = _wanted_on(encoding, user, cls, nowhere)
    network.add((cls, user), network.array(square)[rows][:, columns])


def _share(encoding: Encoding, cls: int, users: Sequence[int], engines: list[int], only: bool) -> None:
    """One variable for the set of engines, of those given, that a value is on, tied to the value and its users. With
    no engines given it is whether the value is needed at all. `only`: no other variable covers more engines."""
    model, network = encoding.model, encoding.network
    infinity = network.infinity
    moves = model.moves[cls]
    bits = {engine: 1 << at for at, engine in enumerate(engines)}
    start = int(only and _always(model, cls, users))
    held, square = _sets(encoding, tuple(engines), start)
    rows: list[Table] = []
    by_engine: dict[int, Table] = {}
    for own in encoding.states[cls]:
        here = model.engines if own is None else own[1]
        if here not in by_engine:
            if own is None or moves is None:
                row = network.array([infinity if own is None and chosen else 0 for chosen in held])
            else:
                row = square[:, :-1] @ network.array([moves[here][e] if engines else 0 for e in range(model.engines)])
                if here in bits:  # where it is made it is: one set for one meaning
                    row = np.where((held == 0) | (held & bits[here] != 0), row, infinity)
            by_engine[here] = row
        rows.append(by_engine[here])
    variable = network.variable([0] * len(held))
    network.add((cls, variable), np.stack(rows))
    encoding.defined.append(Shared(cls, tuple(users), bits, start))
    covered = network.array([1 if not bits or e in bits else 0 for e in range(model.engines)] + [0])
    missing = (1 - square) * covered * infinity
    for user in users:
        network.add((variable, user), missing[:, _wanted_on(encoding, user, cls, model.engines)])


def _always(model: Model, cls: int, users: Sequence[int]) -> bool:
    """Whether some user needs a value whatever is chosen."""
    return any(
        user in model.forced and all(not way.tied and way.needs(cls) for way in model.ways[user]) for user in users
    )


def _sets(encoding: Encoding, engines: tuple[int, ...], start: int) -> tuple[Table, Table]:
    """The sets of the engines given from `start` on, as bit masks and as rows of 0 and 1 (one column for each engine
    and one for nowhere); with no engines given, nothing and everything."""
    key = (engines, start)
    if key not in encoding.squares:
        nowhere = encoding.model.engines
        held = np.arange(start, 1 << len(engines) if engines else 2)
        columns = [held >> engines.index(e) & 1 if e in engines else held * (not engines) for e in range(nowhere)]
        square = np.stack([*columns, held * 0], axis=1)
        encoding.squares[key] = held, encoding.network.array(square)
    return encoding.squares[key]


def _wanted_on(encoding: Encoding, user: int, cls: int, nowhere: int) -> list[int]:
    """For each state of a user the engine that it wants a value on, `nowhere` where it does not."""
    ways = encoding.model.ways[user]
    return [
        nowhere if s is None or ways[s[0]].tied or not ways[s[0]].needs(cls) else s[1] for s in encoding.states[user]
    ]


def _needs(model: Model, cls: int, state: State | None, child: int) -> bool:
    return state is not None and model.ways[cls][state[0]].needs(child)
