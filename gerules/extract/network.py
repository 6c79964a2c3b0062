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

from gerules.extract.elimination import Network
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


@dataclass(frozen=True)
class Encoding:
    """`network` of a model: variable c is class c, its state i is `states[c][i]`, None where it is not needed."""

    model: Model
    network: Network
    states: tuple[tuple[State | None, ...], ...]
    shared: list[Shared] = field(default_factory=list)

    def read(self, answer: Mapping[int, int]) -> list[State | None]:
        return [states[answer[cls]] for cls, states in enumerate(self.states)]

    def complete(self, chosen: Sequence[State | None]) -> list[int]:
        """A state for every variable from those of the classes: a value is on the engines where it is wanted."""
        answer = [states.index(state) for states, state in zip(self.states, chosen, strict=True)]
        for shared in self.shared:
            held = 0
            for user in shared.users:
                state = chosen[user]
                if state is None:
                    continue
                way = self.model.ways[user][state[0]]
                if not way.tied and shared.cls in way.children:
                    held |= shared.bits.get(state[1], 0) if shared.bits else 1
            own = chosen[shared.cls]
            if own is not None and held and shared.bits:
                held |= shared.bits.get(own[1], 0)
            answer.append(max(held - shared.start, 0))
        return answer

    def forbid(self, cycle: Sequence[int]) -> bool:
        """Forbid that each class of a cycle takes a way that needs the next one. False where the table is too large."""
        size = 1
        for cls in cycle:
            size *= len(self.states[cls])
        if size > CYCLE_ENTRIES:
            return False
        table = self.network.array(np.full([1] * len(cycle), self.network.infinity))
        for axis, (cls, following) in enumerate(zip(cycle, [*cycle[1:], cycle[0]], strict=True)):
            needs = [_needs(self.model, cls, state, following) for state in self.states[cls]]
            shape = [1] * len(cycle)
            shape[axis] = len(needs)
            table = table * self.network.array([1 if need else 0 for need in needs]).reshape(shape)
        self.network.add(tuple(cycle), table)
        return True


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
    tied = [any(way.tied and cls in way.children for way in model.ways[user]) for user in users]
    for user, is_tied in zip(users, tied, strict=True):
        if is_tied:
            _tie(encoding, cls, user)
    loose = [user for user in users if any(not way.tied and cls in way.children for way in model.ways[user])]
    moves = model.moves[cls]
    if not loose or (cls in model.forced and moves is None):
        return
    if len(loose) == 1:
        _pair(encoding, cls, loose[0])
        return
    if moves is None:
        groups: list[list[int]] = [[]]  # one bit: needed or not
    else:
        wanted = sorted({e for u in loose for way in model.ways[u] if cls in way.children for e in way.engines()})
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
    start = 1 if only and cls in model.forced else 0
    sets = range(start, 1 << len(engines) if engines else 2)
    table: list[list[int]] = []
    for own in encoding.states[cls]:
        row: list[int] = []
        for held in sets:
            if own is None or moves is None:
                row.append(infinity if own is None and held else 0)
            elif held and bits.get(own[1], 0) & ~held:
                row.append(infinity)  # where it is made it is: one set for one meaning
            else:
                row.append(sum(moves[own[1]][engine] for engine, bit in bits.items() if held & bit))
        table.append(row)
    variable = network.variable([0] * len(sets))
    network.add((cls, variable), network.array(table))
    encoding.shared.append(Shared(cls, tuple(users), bits, start))
    nowhere = model.engines
    square = network.array(
        [
            [
                0 if held & (bits.get(e, held) if bits else 1) or (bits and e not in bits) else infinity
                for e in range(nowhere)
            ]
            + [0]
            for held in sets
        ]
    )
    for user in users:
        network.add((variable, user), square[:, _wanted_on(encoding, user, cls, nowhere)])


def _wanted_on(encoding: Encoding, user: int, cls: int, nowhere: int) -> list[int]:
    """For each state of a user the engine that it wants a value on, `nowhere` where it does not."""
    ways = encoding.model.ways[user]
    return [
        nowhere if s is None or ways[s[0]].tied or cls not in ways[s[0]].children else s[1]
        for s in encoding.states[user]
    ]


def _needs(model: Model, cls: int, state: State | None, child: int) -> bool:
    return state is not None and child in model.ways[cls][state[0]].children
