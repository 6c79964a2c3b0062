"""Problems with crowded classes: an answer in time, and no bound that is not one."""

from __future__ import annotations

from gerules.extract import Option, Problem, solve
from gerules.extract.trim import MOST, trimmed


def crowded(count: int) -> Problem:
    """One class with `count` ways to make it from a leaf, the cheapest of them the last but one."""
    leaf = Option(0, (), (None,), leaf=True)
    ways = [Option(1, (0,), ((float(count - k), 1.0),), rank=0 if k == 0 else 1) for k in range(count)]
    ways[-2] = Option(1, (0,), ((0.5, 1.0),), rank=1)
    return Problem((leaf, *ways), 2, (1,), ("any",), lambda c, a, b: 0.0, {0: 0, 1: 1}, {}, {})


def test_small_problems_are_left_as_they_are() -> None:
    problem = crowded(MOST)
    assert trimmed(problem) == (problem, False)


def test_the_input_and_the_cheapest_are_kept() -> None:
    problem = crowded(5 * MOST)
    kept, cut = trimmed(problem)
    assert cut
    supported = [i for i, o in enumerate(kept.options) if o.costs[0] is not None]
    assert len(supported) == MOST
    assert 1 in supported, "the input graph's own option"
    assert len(kept.options) == len(problem.options), "ids stay"


def test_a_crowded_problem_says_that_it_was_cut_and_claims_no_bound() -> None:
    solution = solve(crowded(5 * MOST))
    assert solution.cost == (0.5, 1.0)
    assert solution.stopped == "size"
    assert solution.lower_bound == (0.0, 0.0) and solution.gap == 1.0
