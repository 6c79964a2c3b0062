"""Elimination with cycles forbidden as they show up: which parts of a model are solved exactly, which are hard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gerules.extract.clock import Clock
from gerules.extract.elimination import eliminate, find
from gerules.extract.model import Model
from gerules.extract.network import Encoding
from gerules.extract.states import State, cycles

CYCLE_ROUNDS = 20  # how often all variables may be eliminated again because of cycles,
CYCLE_WORK = 50_000  # beside this many
TWOS_EACH = 2  # cycles of two forbidden early for each class of a knot, and one of three
THREES_WORK = 200_000  # steps in search of cycles of three


@dataclass(frozen=True)
class Part:
    """A hard part as a model of its own. `classes[i]` is the class of the whole that its class i is; `bound` is
    elimination's, in terms of the network's `groups`."""

    model: Model
    classes: tuple[int, ...]
    groups: frozenset[int]
    bound: int


@dataclass(frozen=True)
class Settled:
    """States for every class: optimal outside the hard parts, a guess (perhaps cyclic) inside. `bound` covers the
    whole model; `group` is the group of each variable of the network."""

    states: list[State | None]
    bound: int
    parts: list[Part]
    group: list[int]


def short_cycles(model: Model) -> list[tuple[int, ...]]:
    """The cycles of two and three classes, each once, but no more than a few for each class of a knot. They are what a
    rewrite and its inverse make; forbidding them early saves most rounds."""
    found: list[tuple[int, ...]] = []
    work = THREES_WORK
    for knot in model.knots:
        members = set(knot)
        needs = {cls: {c for way in model.ways[cls] for c in way.children if c in members} for cls in knot}
        twos = threes = 0
        for cls in knot:
            for second in sorted(needs[cls]):
                if second <= cls:
                    continue
                if cls in needs[second] and twos < TWOS_EACH * len(knot):
                    twos += 1
                    found.append((cls, second))
            for second in sorted(c for c in needs[cls] if c > cls):
                work -= len(needs[second])
                if threes >= len(knot) or work < 0:
                    break
                for third in sorted(c for c in needs[second] if c > cls):
                    if cls in needs[third] and threes < len(knot):
                        threes += 1
                        found.append((cls, second, third))
    return found


def settle(encoding: Encoding, clock: Clock) -> Settled:
    """Eliminate, forbid the cycles that come up, and again, until none does or the work or the time is spent."""
    model, network = encoding.model, encoding.network
    for short in short_cycles(model):
        encoding.forbid(short)
    answer = eliminate(network)
    states = dict(answer.states)
    bounds = dict(answer.bounds)
    doubtful = set(answer.inexact)  # variables: one of each group that is not known to be optimal
    group = network.groups()
    work = CYCLE_WORK + CYCLE_ROUNDS * len(network.sizes)
    while True:
        hard = {group[v] for v in doubtful}
        touched: set[int] = set()
        for cycle in cycles(model, encoding.read(states)):
            movable = [cls for cls in cycle if network.sizes[cls] > 1]
            if any(group[cls] in hard for cls in movable) or work < 0 or clock.over():
                doubtful.update(movable)
            else:
                encoding.forbid(cycle)
                touched.update(movable)
        if not touched:
            break
        group = network.groups()
        stale = {group[cls] for cls in touched}
        members = [v for v, leader in enumerate(group) if leader in stale]
        work -= len(members)
        bounds = {leader: bound for leader, bound in bounds.items() if group[leader] not in stale}
        again = eliminate(network, members)
        states.update(again.states)
        bounds.update(again.bounds)
        doubtful = {v for v in doubtful if group[v] not in stale} | again.inexact
    chosen = encoding.read(states)
    hard = {group[v] for v in doubtful}
    if hard and not cycles(model, chosen):
        # a guess that costs its bound is the optimum
        full = encoding.complete(chosen)
        values = network.values(full, group)
        hard = {leader for leader in hard if values[leader] > bounds[leader]}
    return Settled(chosen, sum(bounds.values()), _parts(encoding, group, hard, bounds), group)


def _parts(encoding: Encoding, group: Sequence[int], hard: set[int], bounds: dict[int, int]) -> list[Part]:
    """The hard groups, those of one knot together, each with the settled classes around it."""
    model, sizes = encoding.model, encoding.network.sizes
    knot_of: dict[int, int] = {}
    leader = list(range(len(sizes)))  # of the groups, joined by the knots with a hard one
    for at, knot in enumerate(model.knots):
        knot_of.update(dict.fromkeys(knot, at))
        movable = sorted({group[cls] for cls in knot if sizes[cls] > 1})
        if not hard.isdisjoint(movable):
            heads = [find(leader, g) for g in movable]
            for head in heads:
                leader[head] = min(heads)
    clusters: dict[int, set[int]] = {find(leader, g): set() for g in sorted(hard)}
    for g in sorted(set(group)):
        if find(leader, g) in clusters:
            clusters[find(leader, g)].add(g)
    members: dict[int, list[int]] = {head: [] for head in sorted(clusters)}
    for cls in range(len(model.ways)):
        head = find(leader, group[cls])
        if sizes[cls] > 1 and head in members:
            members[head].append(cls)
    parts: list[Part] = []
    for head, classes in members.items():
        if not classes:
            continue  # nothing to choose: such variables are in no table together
        kept = sorted({*classes, *_around(model, sizes, classes, knot_of)})
        part = model.only({cls: model.ways[cls] for cls in kept}, [cls for cls in kept if cls in model.forced])
        parts.append(Part(part, tuple(kept), frozenset(clusters[head]), sum(bounds[g] for g in clusters[head])))
    return parts


def _around(model: Model, sizes: Sequence[int], classes: Sequence[int], knot_of: dict[int, int]) -> set[int]:
    """The classes with one state that matter to those given: what they send or receive, and who shares it."""
    around: set[int] = set()
    knots = {knot_of[cls] for cls in classes if cls in knot_of}
    for at in sorted(knots):
        around.update(cls for cls in model.knots[at] if sizes[cls] == 1)
    for cls in classes:
        for way in model.ways[cls]:
            for child in way.children:
                if sizes[child] == 1 and (model.moves[child] is not None or way.tied):
                    around.add(child)
                    around.update(user for user in model.users[child] if sizes[user] == 1)
        around.update(
            user
            for user in model.users[cls]
            if sizes[user] == 1 and (model.moves[cls] is not None or any(way.tied for way in model.ways[user]))
        )
    return around
