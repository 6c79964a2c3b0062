"""The parts of the search, each against its definition."""

from __future__ import annotations

from itertools import product
from math import inf
from random import Random

import numpy as np
import pytest
from extract_problems import problems
from extract_shapes import tangle, transformer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gerules.extract import Limits, Problem, elimination
from gerules.extract.clock import Clock
from gerules.extract.elimination import Network, eliminate
from gerules.extract.graphs import components, derive, reachable
from gerules.extract.greedy import bottom_up, greedy
from gerules.extract.mip import Mip, fractional_cycles, size_of
from gerules.extract.model import Model, build_model
from gerules.extract.network import encode
from gerules.extract.packing import make_packing
from gerules.extract.problem import Infeasible
from gerules.extract.program import Program
from gerules.extract.rounding import round_point
from gerules.extract.search import place
from gerules.extract.states import State, cost_of, cycles, is_solution, needed
from gerules.extract.swap import Swapper

SETTINGS = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
numbers = st.one_of(st.floats(0, 1e6), st.integers(0, 1 << 40).map(float), st.sampled_from([0.0, 0.5, 1e-9]))


@given(st.lists(st.tuples(numbers, st.integers(0, 999).map(float)), min_size=2, max_size=6))
def test_packed_sums_compare_as_vectors_do(vectors: list[tuple[float, float]]) -> None:
    columns = [[v[i] for v in vectors] for i in range(2)]
    packing = make_packing(columns, [sum(c) for c in columns], sum(columns[0]))
    left, right = vectors[: len(vectors) // 2], vectors[len(vectors) // 2 :]
    packed = [sum(packing.pack(v) for v in side) for side in (left, right)]
    for side, total in zip((left, right), packed, strict=True):
        seconds, count = packing.unpack(total)
        assert seconds == pytest.approx(sum(v[0] for v in side), rel=1e-9, abs=1e-9 * sum(columns[0]))
        assert count == sum(v[1] for v in side)
        assert total < packing.infinity
    apart = abs(sum(v[0] for v in left) - sum(v[0] for v in right)) > 1e-9 * sum(columns[0])
    if apart:
        assert (packed[0] < packed[1]) == (sum(v[0] for v in left) < sum(v[0] for v in right))


@given(st.lists(st.lists(st.integers(0, 7), max_size=4), min_size=8, max_size=8))
def test_components_are_mutual_reachability(edges: list[list[int]]) -> None:
    reach = [reachable([n], lambda m: edges[m]) for n in range(8)]
    found = components(edges)
    assert sorted(n for part in found for n in part) == list(range(8))
    home = {n: at for at, part in enumerate(found) for n in part}
    for a, b in product(range(8), repeat=2):
        assert (home[a] == home[b]) == (b in reach[a] and a in reach[b])
        if b in edges[a]:
            assert home[b] <= home[a]  # what is reached comes first


def test_derive_makes_nothing_from_itself() -> None:
    needs = [(), (0,), (2,), (1, 2)]
    assert derive({0: [0], 1: [1], 2: [2, 3]}, needs) == {0: 0, 1: 1}


@SETTINGS
@given(st.randoms(use_true_random=False), st.sampled_from([1, 8, 1 << 16]), st.booleans())
def test_elimination_is_the_optimum_or_a_bound(random: Random, entries: int, int64: bool) -> None:
    network = Network(1 << 50, int64)
    for _ in range(6):
        network.variable([random.randrange(9) for _ in range(random.randint(1, 3))])
    for _ in range(8):
        scope = tuple(random.sample(range(6), random.randint(1, 3)))
        shape = [network.sizes[v] for v in scope]
        values = [random.randrange(9) for _ in range(int(np.prod(shape)))]
        network.add(scope, network.array(values).reshape(shape))
    group = network.groups()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elimination, "TABLE_ENTRIES", entries)
        answer = eliminate(network)
    every = list(product(*map(range, network.sizes)))
    for leader in set(group):
        best = min(network.values(states, group)[leader] for states in every)
        reached = network.values([answer.states[v] for v in range(6)], group)[leader]
        if leader in answer.inexact:
            assert answer.bounds[leader] <= best <= reached
        else:
            assert answer.bounds[leader] == best == reached


def models(problem: Problem) -> Model | None:
    try:
        return build_model(problem)
    except Infeasible:
        return None


@SETTINGS
@given(problems(max_classes=7, max_engines=3), st.randoms(use_true_random=False))
def test_swaps_keep_the_total_true(problem: Problem, random: Random) -> None:
    model = models(problem)
    if model is None or not model.ways:
        return
    swapper = Swapper(model, bottom_up(model))
    for _ in range(30):
        cls = random.randrange(len(model.ways))
        at = random.randrange(len(model.ways[cls]))
        before = swapper.total
        better = swapper.attempt(cls, (at, random.choice(model.ways[cls][at].engines())))
        states = swapper.result()
        assert is_solution(model, states)
        assert swapper.total == cost_of(model, states)
        assert swapper.total < before if better and swapper.users[cls] else swapper.total <= before
        assert [bool(users) for users in swapper.users] == [state is not None for state in states]


@SETTINGS
@given(problems(max_classes=7, max_engines=3))
def test_the_network_costs_what_the_model_costs(problem: Problem) -> None:
    model = models(problem)
    if model is None or not model.ways:
        return
    states = Swapper(model, bottom_up(model)).result()
    encoding = encode(model)
    full = encoding.complete(states)
    assert len(full) == len(encoding.network.sizes)
    assert encoding.read(dict(enumerate(full))) == states
    group = encoding.network.groups()
    assert sum(encoding.network.values(full, group).values()) == cost_of(model, states)


@SETTINGS
@given(problems(max_classes=7, max_engines=3) | problems(max_classes=7, max_engines=1, cycles=True), st.booleans())
def test_a_solution_is_a_point_of_the_program(problem: Problem, ordered: bool) -> None:
    model = models(problem)
    if model is None or not model.ways:
        return
    states = Swapper(model, bottom_up(model)).result()
    program = Program(model)
    program.build()
    if ordered:
        program.order()
    point = program.point(states)
    assert program.read(point) == states
    assert sum(round(x) * cost for x, cost in zip(point, program.costs(), strict=True) if cost) == cost_of(
        model, states
    )
    assert all(0 <= x <= 1 for x in point)
    for lower, upper, entries in program.rows:
        assert lower - 1e-9 <= sum(value * point[column] for column, value in entries.items()) <= upper + 1e-9


@SETTINGS
@given(problems(max_classes=7, max_engines=1, cycles=True))
def test_levels_leave_no_room_for_a_cycle(problem: Problem) -> None:
    model = models(problem)
    if model is None or not model.ways:
        return
    program = Program(model)
    program.build()
    built = len(program.rows)
    program.order()
    cyclic: list[State | None] = [(len(ways) - 1, 0) for ways in model.ways]
    values = [1.0 if cyclic[cls] == (at, engine) else 0.0 for cls, at, engine in program.columns]
    # whatever the levels: along a cycle each would have to be above the next
    above: dict[tuple[int, int], bool] = {}
    first = len(values) + len(program.moved)
    for _, upper, entries in program.rows[built:]:
        user, used = (next(c - first for c, v in entries.items() if c >= first and v == sign) for sign in (-1.0, 1.0))
        taken = sum(value * values[column] for column, value in entries.items() if column < first)
        above[program.levels[user], program.levels[used]] = taken > upper
    for cycle in cycles(model, cyclic):
        assert all(above[edge] for edge in zip(cycle, [*cycle[1:], cycle[0]], strict=True))


@SETTINGS
@given(problems(max_classes=7, max_engines=1, cycles=True))
def test_a_cut_forbids_its_cycle_and_no_solution(problem: Problem) -> None:
    model = models(problem)
    if model is None or not model.ways:
        return
    program = Program(model)
    program.build()
    cyclic: list[State | None] = [(len(ways) - 1, 0) for ways in model.ways]
    solution = Swapper(model, bottom_up(model)).result()
    for cycle in cycles(model, cyclic):
        _, upper, entries = program.cut(cycle)
        assert sum(value * program.point(cyclic)[column] for column, value in entries.items()) > upper
        assert sum(value * program.point(solution)[column] for column, value in entries.items()) <= upper
    found = fractional_cycles(program, program.point(cyclic))
    assert bool(found) == bool(_all_cycles(model, cyclic))


def _all_cycles(model: Model, states: list[State | None]) -> list[int]:
    """The classes on cycles of a choice, needed or not."""
    edges = [list(model.ways[c][s[0]].children) if s else [] for c, s in enumerate(states)]
    return [n for part in components(edges) if len(part) > 1 for n in part]


def test_both_greedy_choices_are_solutions_and_share() -> None:
    model = build_model(transformer(3, engines=1, rewrites=20))
    for choice in (greedy(model), bottom_up(model)):
        assert choice is not None
        assert is_solution(model, choice)
        assert cost_of(model, Swapper(model, choice).result()) < model.packing.infinity
    assert greedy(model, work=10) is None


def test_placing_never_makes_it_dearer() -> None:
    model = build_model(tangle(300, 50, rewrites=10))
    states = bottom_up(model)
    placed = place(model, states)
    assert is_solution(model, placed)
    assert cost_of(model, placed) < cost_of(model, Swapper(model, states).result())
    assert sorted(needed(model, placed)) == [cls for cls, state in enumerate(placed) if state is not None]


def test_highs_alone_finds_the_optimum_and_proves_it() -> None:
    model = build_model(tangle(60, 6, engines=3, rewrites=10))
    start = Swapper(model, bottom_up(model)).result()
    answer = Mip(model, start, cost_of(model, start), 0, Clock(inf), Limits()).run()
    assert is_solution(model, answer.states)
    assert answer.bound == answer.cost == cost_of(model, answer.states) < cost_of(model, start)
    exact = eliminate(encode(model).network)
    assert not exact.inexact
    assert answer.cost >= sum(exact.bounds.values())


def test_highs_without_leave_to_work_says_so() -> None:
    model = build_model(tangle(60, 6, engines=3, rewrites=10))
    start = Swapper(model, bottom_up(model)).result()
    cost = cost_of(model, start)
    assert Mip(model, start, cost, 0, Clock(inf), Limits(rounds=0)).run().stopped == "iterations"
    assert Mip(model, start, cost, 0, Clock(-1.0), Limits()).run().stopped == "time"


def test_the_size_of_a_program_is_known_before_it_is_built() -> None:
    for model in (build_model(tangle(200, 20, rewrites=20)), build_model(transformer(3, engines=1, rewrites=20))):
        program = Program(model)
        program.build()
        entries = sum(len(row) for *_, row in program.rows)
        assert size_of(model) / 3 < entries < size_of(model) * 3


def test_rounding_a_solution_gives_nothing_dearer() -> None:
    model = build_model(tangle(100, 8, engines=3, rewrites=20))
    start = Swapper(model, bottom_up(model)).result()
    program = Program(model)
    program.build()
    same = round_point(program, program.point(start), start, Clock(inf))
    assert same is not None and cost_of(model, same) == cost_of(model, start)
    free = round_point(program, [0.5] * len(program.costs()), start, Clock(inf))
    assert free is not None and is_solution(model, free)
    assert cost_of(model, free) < cost_of(model, start)


def test_a_clock_tells_those_it_is_part_of() -> None:
    whole = Clock(1000.0)
    half = whole.part(0.5)
    assert 400.0 < half.left() <= 500.0
    assert not half.over() and not whole.timed
    assert half.part(0.0).over()
    assert half.timed and whole.timed and not whole.over()
