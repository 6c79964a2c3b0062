"""The problem made small: only classes that matter, options that can win, integer costs.

`build_model` removes what no engine supports, what the roots do not reach, self-loops and options that can only close
a cycle, options and engines that another one beats in every surrounding, and classes that cost nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from gerules.extract.graphs import components, derive, reachable
from gerules.extract.packing import Packing, make_packing
from gerules.extract.problem import Infeasible, Problem, evaluate, walk
from gerules.extract.prune import without_beaten, without_beaten_engines, without_cycle_closers

FEW_CHILDREN = 8  # that a look along is faster for than halving

Vectors = tuple[tuple[float, ...] | None, ...]  # of one option: a cost vector for each engine
Moves = tuple[tuple[int, ...], ...]  # packed transfer costs of one value: [from engine][to engine]


@dataclass(frozen=True, slots=True)
class Way:
    """An option that is left. `children` are distinct classes of the model in ascending order; `costs` are packed,
    None where an engine is out. A `tied` way is a projection: it sits on its child's engine at no cost."""

    option: int
    children: tuple[int, ...]
    costs: tuple[int | None, ...]
    tied: bool = False

    def needs(self, child: int) -> bool:
        children = self.children
        if len(children) <= FEW_CHILDREN:
            return child in children
        at = bisect_left(children, child)
        return at < len(children) and children[at] == child

    def engines(self) -> list[int]:
        return [e for e, cost in enumerate(self.costs) if cost is not None]


@dataclass(frozen=True)
class Model:
    """`ways[c]` are the ways of class c by (rank, option), at least one; `names[c]` is its number in the problem.
    `moves[c]` is None where moving its value costs nothing. `stands_for` leads from an option that was beaten to the
    one that beat it (whose children are a part of its own); `free` has the leaf of every class that has one."""

    problem: Problem
    engines: int
    ways: tuple[tuple[Way, ...], ...]
    roots: tuple[int, ...]
    moves: tuple[Moves | None, ...]
    names: tuple[int, ...]
    free: Mapping[int, int]
    stands_for: Mapping[int, int]
    packing: Packing

    @cached_property
    def users(self) -> tuple[tuple[int, ...], ...]:
        """For each class the classes with a way that needs it, ascending."""
        found: list[dict[int, None]] = [{} for _ in self.ways]
        for cls, ways in enumerate(self.ways):
            for way in ways:
                for child in way.children:
                    found[child][cls] = None
        return tuple(tuple(users) for users in found)

    @cached_property
    def forced(self) -> frozenset[int]:
        """The classes that every solution needs, as far as the single ways show: roots, then what all ways share."""
        seen = set(self.roots)
        work = list(self.roots)
        while work:
            ways = self.ways[work.pop()]
            shared = set(ways[0].children)
            for way in ways[1:]:
                shared &= set(way.children)
            new = sorted(shared - seen)
            seen.update(new)
            work.extend(new)
        return frozenset(seen)

    @cached_property
    def knots(self) -> tuple[tuple[int, ...], ...]:
        """The strongly connected components of more than one class, members ascending: only there can cycles be."""
        edges = [sorted({child for way in ways for child in way.children}) for ways in self.ways]
        return tuple(tuple(sorted(c)) for c in components(edges) if len(c) > 1)

    def only(self, keep: Mapping[int, Sequence[Way]], roots: Sequence[int]) -> Model:
        """The model of the classes kept, in ascending order, each with the ways given (at least one); ways lose the
        children that are not kept."""
        kept = sorted(keep)
        number = {c: i for i, c in enumerate(kept)}
        ways = tuple(
            tuple(replace(way, children=tuple(number[c] for c in way.children if c in number)) for way in keep[cls])
            for cls in kept
        )
        return Model(
            self.problem,
            self.engines,
            ways,
            tuple(number[r] for r in roots),
            tuple(self.moves[c] for c in kept),
            tuple(self.names[c] for c in kept),
            self.free,
            self.stands_for,
            self.packing,
        )


def build_model(problem: Problem, only: Mapping[int, int] | None = None) -> Model:
    """The model of a problem, or of the one choice `only` (class -> option). Raises Infeasible."""
    vectors = _vectors(
        problem, range(len(problem.options)) if only is None else sorted(only[c] for c in walk(problem, only))
    )
    free: dict[int, int] = {}
    for index, option in enumerate(problem.options):
        if option.leaf and vectors[index] is not None:
            best = free.get(option.cls)
            if best is None or option.rank < problem.options[best].rank:
                free[option.cls] = index

    needs: list[tuple[int, ...]] = []
    for option in problem.options:
        needs.append(tuple(sorted({c for c in option.children if c not in free})))
    by_class: dict[int, list[int]] = {}
    for index, option in enumerate(problem.options):
        if vectors[index] is not None and option.cls not in free and option.cls not in needs[index]:
            by_class.setdefault(option.cls, []).append(index)
    derived = derive(by_class, needs)
    roots = tuple(dict.fromkeys(r for r in problem.roots if r not in free))
    if any(r not in derived for r in roots):
        raise blame(problem, vectors, derived.keys() | free.keys(), roots)
    for cls in list(by_class):
        options = [i for i in by_class[cls] if all(c in derived for c in needs[i])]
        by_class[cls] = sorted(options, key=lambda i: (problem.options[i].rank, i))
    if only is None:
        _keep_reached(by_class, needs, roots)
        without_cycle_closers(by_class, needs)
    _keep_reached(by_class, needs, roots)

    transfers = _transfers(problem, vectors, by_class, needs)
    packing = _packing(problem, vectors, by_class, transfers, {**derived, **free})
    names = sorted(by_class)
    number = {cls: i for i, cls in enumerate(names)}
    ways: list[list[Way]] = []
    for cls in names:
        ways.append([])
        for index in by_class[cls]:
            children = tuple(number[c] for c in needs[index])
            costs = tuple(None if v is None else packing.pack(v) for v in vectors[index] or ())
            ways[-1].append(Way(index, children, costs, problem.options[index].projection))
    stands_for: dict[int, int] = {}
    if only is None:
        ways = [without_beaten(options, stands_for) for options in ways]
    moves = [_moves(packing, transfers.get(cls)) for cls in names]
    if len(problem.engines) > 1:
        without_beaten_engines(ways, moves)
    whole = Model(
        problem,
        len(problem.engines),
        tuple(map(tuple, ways)),
        tuple(number[r] for r in roots),
        tuple(moves),
        tuple(names),
        free,
        stands_for,
        packing,
    )
    reached = reachable(whole.roots, lambda c: (child for way in whole.ways[c] for child in way.children))
    if len(reached) == len(whole.ways):
        return whole
    return whole.only({c: whole.ways[c] for c in reached}, whole.roots)


def blame(problem: Problem, vectors: Sequence[Vectors | None], possible: set[int], roots: Sequence[int]) -> Infeasible:
    """What keeps the roots from being made: of every impossible class that they cannot do without, the options that
    no engine supports. Below an impossible class that is, what all its options need and what the input graph needs
    there cannot be done without; where that says nothing, what any option needs."""
    options: dict[int, list[int]] = {}
    for index, option in enumerate(problem.options):
        options.setdefault(option.cls, []).append(index)
    found: dict[int, tuple[int, ...]] = {}
    seen = {r for r in roots if r not in possible}
    work = sorted(seen)
    while work:
        cls = work.pop()
        mine = options.get(cls, [])
        lacking = tuple(i for i in mine if vectors[i] is None)
        if lacking or not mine:
            found[cls] = lacking
        impossible = [{c for c in problem.options[i].children if c not in possible} for i in mine]
        needed = set.intersection(*impossible) if impossible else set()
        if cls in problem.incumbent:
            needed |= {c for c in problem.options[problem.incumbent[cls]].children if c not in possible}
        if not needed and not lacking:
            needed = set().union(*impossible)
        new = sorted(needed - seen)
        seen.update(new)
        work.extend(new)
    return Infeasible(found)


def _vectors(problem: Problem, options: Iterable[int]) -> list[Vectors | None]:
    """The cost vectors of the options given, by engine; None for the other ones and where no engine supports one. A
    projection costs nothing anywhere."""
    nothing = ((0.0,) * problem.width(),) * len(problem.engines)
    found: list[Vectors | None] = [None] * len(problem.options)
    for index in options:
        option = problem.options[index]
        if option.leaf or option.projection:
            found[index] = nothing
            continue
        vectors = option.costs
        if index in problem.pinned:
            vectors = tuple(problem.cost(index, engine) for engine in range(len(problem.engines)))
        if any(vector is not None for vector in vectors):
            found[index] = vectors
    return found


def _keep_reached(by_class: dict[int, list[int]], needs: Sequence[tuple[int, ...]], roots: Sequence[int]) -> None:
    reached = reachable(roots, lambda c: (child for index in by_class[c] for child in needs[index]))
    for cls in [c for c in by_class if c not in reached]:
        del by_class[cls]


def _packing(
    problem: Problem,
    vectors: Sequence[Vectors | None],
    by_class: Mapping[int, list[int]],
    transfers: Mapping[int, Sequence[Sequence[float]]],
    choice: Mapping[int, int],
) -> Packing:
    """A packing wide enough for every solution that is worth having: at most the choice given, each on its cheapest
    engine."""
    width = problem.width()
    columns: list[set[float]] = [set() for _ in range(width)]
    for table in transfers.values():
        for row in table:
            columns[0].update(row)
    sums = [0.0] * width
    for options in by_class.values():
        most = [0.0] * width
        for index in options:
            for vector in vectors[index] or ():
                if vector is not None:
                    for i, value in enumerate(vector):
                        columns[i].add(value)
                        if value > most[i]:
                            most[i] = value
        for i in range(width):
            sums[i] += most[i]
    if len(problem.engines) == 1:
        return make_packing(columns, sums, sums[0])
    placed: dict[int, int] = {}
    for cls in walk(problem, choice):
        option = problem.options[choice[cls]]
        if option.projection:
            placed[cls] = placed[option.children[0]]
        elif not option.leaf:
            placed[cls] = min((v, e) for e, v in enumerate(vectors[choice[cls]] or ()) if v is not None)[1]
    return make_packing(columns, sums, evaluate(problem, choice, placed)[0])


def _transfers(
    problem: Problem,
    vectors: Sequence[Vectors | None],
    by_class: Mapping[int, list[int]],
    needs: Sequence[tuple[int, ...]],
) -> dict[int, list[list[float]]]:
    """Transfer costs [from][to] between the engines that a class's options and its users' can be on, where any is
    above 0. Raises ValueError where one is no finite number from 0."""
    count = len(problem.engines)
    if count == 1:
        return {}
    sources: dict[int, set[int]] = {}
    targets: dict[int, set[int]] = {}
    for cls, options in by_class.items():
        sources[cls] = set()
        for index in options:
            if problem.options[index].projection:
                sources[cls] = set(range(count))
                continue
            engines = [e for e, vector in enumerate(vectors[index] or ()) if vector is not None]
            sources[cls].update(engines)
            for child in needs[index]:
                targets.setdefault(child, set()).update(engines)
    found: dict[int, list[list[float]]] = {}
    for cls in by_class:
        table = [[0.0] * count for _ in range(count)]
        for source in sources[cls]:
            for target in targets.get(cls, ()):
                if source != target:
                    cost = problem.transfer(cls, source, target)
                    if not 0 <= cost < inf:
                        raise ValueError(f"the transfer of class {cls} from {source} to {target} costs {cost}")
                    table[source][target] = cost
        if any(map(any, table)):
            found[cls] = table
    return found


def _moves(packing: Packing, transfers: Sequence[Sequence[float]] | None) -> Moves | None:
    if transfers is None:
        return None
    return tuple(tuple(packing.pack_first(cost) if cost else 0 for cost in row) for row in transfers)
