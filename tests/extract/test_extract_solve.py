"""What `solve` promises, case by case."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from extract_shapes import chain, tangle, tower, transformer

from gerules.extract import METHODS, Infeasible, Limits, Option, Problem, evaluate, solve

ENGINES = ("A", "B")


def make(
    options: list[Option],
    roots: tuple[int, ...],
    incumbent: dict[int, int],
    *,
    transfer: Callable[[int, int, int], float] = lambda cls, source, target: 1.0,
    pinned: dict[int, int] | None = None,
    engines: tuple[str, ...] = ENGINES,
) -> Problem:
    classes = max(option.cls for option in options) + 1
    return Problem(tuple(options), classes, roots, engines, transfer, incumbent, {}, pinned or {})


def on(*costs: float | None) -> tuple[tuple[float, ...] | None, ...]:
    """Cost vectors of one component."""
    return tuple(None if cost is None else (cost,) for cost in costs)


LEAF = Option(0, (), (), leaf=True)


def test_a_shared_value_is_paid_once() -> None:
    # 1 is dear, but both users can have it; 4 and 5 are cheaper each, dearer together
    options = [LEAF, Option(1, (0,), on(3)), Option(2, (1,), on(1)), Option(3, (1, 2), on(1))]
    options += [Option(4, (0,), on(2)), Option(5, (0,), on(2)), Option(2, (4,), on(1)), Option(3, (5, 2), on(1))]
    solution = solve(make(options, (3,), {0: 0, 1: 1, 2: 2, 3: 3}, engines=("A",)))
    assert solution.cost == (5.0,)
    assert 4 not in solution.choice and 5 not in solution.choice


def test_a_value_moves_once_for_each_engine() -> None:
    options = [LEAF, Option(1, (0,), on(1, None, None))]
    options += [Option(2 + i, (1,), on(None, 1, None)) for i in range(3)]
    options += [Option(5 + i, (1,), on(None, None, 1)) for i in range(2)]
    problem = make(
        options,
        (2, 3, 4, 5, 6),
        dict(enumerate(range(7))),
        transfer=lambda cls, source, target: 10.0 * target,
        engines=("A", "B", "C"),
    )
    assert solve(problem).cost == (1 + 5 + 10 + 20,)


def test_leaves_are_everywhere_and_on_no_engine() -> None:
    options = [LEAF, Option(1, (0,), on(1, None)), Option(2, (0, 1), on(None, 1))]
    solution = solve(make(options, (2, 0), {0: 0, 1: 1, 2: 2}))
    assert solution.cost == (3.0,)
    assert dict(solution.engine) == {1: 0, 2: 1}
    assert dict(solution.choice) == {0: 0, 1: 1, 2: 2}


def test_a_run_crosses_a_barrier_that_no_single_node_crosses() -> None:
    # each node is faster on B, but only twelve of them together pay for the way there and back
    options = [LEAF, Option(1, (0,), on(1, None))]
    options += [Option(2 + i, (1 + i,), on(2, 1)) for i in range(12)]
    options.append(Option(14, (13,), on(1, None)))
    problem = make(options, (14,), dict(enumerate(range(15))), transfer=lambda cls, source, target: 5.0)
    solution = solve(problem)
    assert solution.cost == (1 + 12 + 1 + 10,)
    assert {solution.engine[cls] for cls in range(2, 14)} == {1}


def test_a_projection_sits_with_its_node_and_is_moved_itself() -> None:
    options = [
        LEAF,
        Option(1, (0,), on(5, 1)),
        Option(2, (1,), (), projection=True),
        Option(3, (1,), (), projection=True),
    ]
    options += [Option(4, (2,), on(1, None)), Option(5, (3, 4), on(1, None))]
    problem = make(options, (5,), dict(enumerate(range(6))), transfer=lambda cls, source, target: float(cls))
    solution = solve(problem)
    # on A: 5 + 2; on B: 1 + 2 and both results moved, 2 + 3
    assert solution.cost == (7.0,)
    assert solution.engine[1] == solution.engine[2] == solution.engine[3] == 0


def test_a_pin_holds_its_option_only() -> None:
    options = [LEAF, Option(1, (0,), on(1, 9)), Option(1, (0,), on(2, 2), rank=1)]
    pinned = make(options, (1,), {0: 0, 1: 1}, pinned={1: 1})
    assert solve(pinned).cost == (2.0,)
    assert solve(pinned).before == (9.0,)
    assert solve(replace(pinned, options=tuple(options[:2]))).engine == {1: 1}


def test_equal_costs_keep_the_input_graph() -> None:
    options = [LEAF, Option(1, (0,), on(2)), Option(1, (0,), on(2), rank=1)]
    for order in (options, [options[0], options[2], options[1]]):
        incumbent = {0: 0, 1: order.index(options[1])}
        solution = solve(make(order, (1,), incumbent, engines=("A",)))
        assert solution.choice[1] == incumbent[1]
        assert solution.method == "input"


def test_a_cycle_that_costs_nothing_is_not_taken() -> None:
    # y = Transpose(x), x = Transpose(y): both free, but then nothing makes either
    options = [LEAF, Option(1, (0,), on(7)), Option(2, (1,), on(0)), Option(1, (2,), on(0), rank=1)]
    solution = solve(make(options, (2,), {0: 0, 1: 1, 2: 2}, engines=("A",)))
    assert solution.cost == (7.0,)


def test_what_no_engine_supports_can_be_rewritten_away() -> None:
    options = [LEAF, Option(1, (0,), on(None, None)), Option(1, (0,), on(4, None), rank=1)]
    solution = solve(make(options, (1,), {0: 0, 1: 1}))
    assert solution.cost == (4.0,)
    assert solution.before == (float("inf"),)


def test_infeasible_names_all_that_the_roots_need() -> None:
    options = [
        LEAF,
        Option(1, (0,), on(None, None)),  # below another fault
        Option(2, (1,), on(None, None)),
        Option(3, (0,), on(None, None)),  # not needed: 4 has another way
        Option(4, (3,), on(1, 1)),
        Option(5, (2, 4), on(1, 1)),
        Option(4, (0,), on(2, 2), rank=1),
        Option(2, (0,), on(None, None), rank=1),  # tried, and not supported either
        Option(6, (0,), on(None, None)),  # not reached
        Option(7, (0,), on(1, None)),  # pinned away
        Option(8, (5, 7), on(1, 1)),
    ]
    incumbent = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 8, 7: 9, 8: 10}
    with pytest.raises(Infeasible) as caught:
        solve(make(options, (8,), incumbent, pinned={9: 1}))
    assert caught.value.classes == (1, 2, 7)
    assert caught.value.options == {1: (1,), 2: (2, 7), 7: (9,)}


@pytest.mark.parametrize(
    ("options", "incumbent", "words"),
    [
        ([LEAF, Option(1, (9,), on(1, 1))], {1: 1}, "outside"),
        ([LEAF, Option(1, (0,), on(1))], {0: 0, 1: 1}, "engines"),
        ([LEAF, Option(1, (0,), on(1, -1))], {0: 0, 1: 1}, "finite"),
        ([LEAF, Option(1, (0,), on(1, float("nan")))], {0: 0, 1: 1}, "finite"),
        ([LEAF, Option(1, (0,), on(1, 1))], {0: 0}, "no option"),
        ([LEAF, Option(1, (1,), on(1, 1))], {0: 0, 1: 1}, "cyclic"),
        ([LEAF, Option(1, (0,), (), projection=True)], {0: 0, 1: 1}, "projection"),
        ([Option(1, (0,), (), leaf=True), Option(0, (), (), leaf=True)], {0: 1, 1: 0}, "leaf with children"),
    ],
)
def test_malformed_problems_are_refused(options: list[Option], incumbent: dict[int, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        solve(make(options, (1,), incumbent))


def test_a_transfer_that_is_no_cost_is_refused() -> None:
    options = [LEAF, Option(1, (0,), on(1, None)), Option(2, (1,), on(None, 1))]
    with pytest.raises(ValueError, match="transfer"):
        solve(make(options, (2,), {0: 0, 1: 1, 2: 2}, transfer=lambda cls, source, target: float("inf")))


def test_nothing_but_leaves() -> None:
    solution = solve(make([LEAF], (0,), {0: 0}))
    assert (dict(solution.choice), dict(solution.engine), solution.cost, solution.gap) == ({0: 0}, {}, (0.0,), 0.0)


def test_ten_engines() -> None:
    # more engines than one set variable takes: twelve users on all of them
    count = 10
    options = [LEAF, Option(1, (0,), on(*[5.0 if e else 30.0 for e in range(count)]))]
    for user in range(12):
        options.append(Option(2 + user, (1,), on(*[1.0 if e == user % count else None for e in range(count)])))
    problem = make(
        options,
        tuple(range(2, 14)),
        dict(enumerate(range(14))),
        transfer=lambda cls, source, target: 1.0 + (source == 3),
        engines=tuple(f"E{e}" for e in range(count)),
    )
    solution = solve(problem)
    assert solution.cost == (5 + 12 + 9,)
    assert solution.lower_bound == solution.cost


@pytest.mark.parametrize(
    "problem",
    [chain(10_000), chain(10_000, rewrites=5), transformer(8, rewrites=10), tower(80, rewrites=10)],
    ids=["chain", "chain with rewrites", "transformer", "tower"],
)
def test_shapes_of_models_are_solved_exactly(problem: Problem) -> None:
    solution = solve(problem, time_limit=120.0)
    assert solution.gap == 0.0
    assert solution.stopped is None
    assert solution.cost <= solution.before
    assert evaluate(problem, solution.choice, solution.engine) == solution.cost


def test_no_time_still_gives_a_solution_and_a_bound() -> None:
    problem = tangle(400, 60, rewrites=20)
    solution = solve(problem, time_limit=0.0)
    assert evaluate(problem, solution.choice, solution.engine) == solution.cost <= solution.before
    assert solution.lower_bound <= solution.cost
    assert 0.0 <= solution.gap <= 1.0
    assert solution.stopped == "time"
    assert solution.method in METHODS


def test_counted_limits_are_reported() -> None:
    solution = solve(tangle(300, 60, rewrites=20), time_limit=120.0, limits=Limits(attempts=10, entries=0))
    assert solution.stopped in ("iterations", "size")
    assert 0.0 < solution.gap < 1.0


def test_hash_seeds_change_nothing() -> None:
    code = (
        "from extract_shapes import tangle, transformer\n"
        "from gerules.extract import Limits, solve\n"
        "for p in (transformer(3, rewrites=20), tangle(200, 40, rewrites=20)):\n"
        "    s = solve(p, time_limit=300.0, limits=Limits(nodes=1, rounds=2))\n"
        "    print(sorted(s.choice.items()), sorted(s.engine.items()), s)\n"
    )
    printed = set()
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parent)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        printed.add(done.stdout)
    assert len(printed) == 1
    assert printed.pop().count("Solution(") == 2


MANY = 5_000


def nested_projections() -> Problem:
    options = [Option(0, (), on(1, 2))] + [Option(i, (i - 1,), (), projection=True) for i in range(1, MANY)]
    return make([*options, Option(MANY, (MANY - 1,), on(None, 1))], (MANY,), {i: i for i in range(MANY + 1)})


def one_value_for_many() -> Problem:
    options = [Option(0, (), on(1, 2))]
    options += [Option(i, (0,), on(1, 0.5) if i % 3 else on(1, None)) for i in range(1, MANY)]
    return make(options, tuple(range(1, MANY)), {i: i for i in range(MANY)})


def one_node_of_many() -> Problem:
    options = [Option(i, (), on(1, 0.5) if i % 3 else on(1, None)) for i in range(MANY)]
    return make(
        [*options, Option(MANY, tuple(range(MANY)), on(1, 1))],
        (MANY,),
        {i: i for i in range(MANY + 1)},
        transfer=lambda cls, source, target: 0.5,
    )


def one_knot_of_many() -> Problem:
    options, incumbent = [LEAF], {0: 0}
    for i in range(1, MANY):
        incumbent[i] = len(options)
        options.append(Option(i, (i - 1,), on(3)))
        if i > 1:
            options.append(Option(i - 1, (i,), on(0.5), rank=1))
    return make(options, (MANY - 1,), incumbent, engines=("A",))


@pytest.mark.parametrize(
    ("problem", "cost"),
    [
        (nested_projections(), 3.0),
        # on both: 0 on A, brought to B once, the two thirds that can be there
        (one_value_for_many(), 1 + 1 + (MANY - 1) // 3 + (MANY - 1 - (MANY - 1) // 3) / 2),
        # on B: the third of the operands that is only on A is brought over, each for itself
        (one_node_of_many(), 1 + 1.5 * ((MANY + 2) // 3) + 0.5 * (MANY - (MANY + 2) // 3)),
        (one_knot_of_many(), 3.0 * (MANY - 1)),
    ],
    ids=["nested projections", "one value for many", "one node of many", "one knot of many"],
)
def test_extreme_shapes(problem: Problem, cost: float) -> None:
    solution = solve(problem, time_limit=120.0)
    assert solution.lower_bound == solution.cost == (cost,)
