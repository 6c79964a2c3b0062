"""Small random problems against trying everything: the optimum, the bound, the input graph, and what is infeasible."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from extract_problems import brute_force, problems
from hypothesis import HealthCheck, given, settings

from gerules.extract import Infeasible, Problem, evaluate, exact, network, portfolio, solve
from gerules.extract.elimination import Answer, Network, eliminate
from gerules.extract.greedy import bottom_up

SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def assert_optimal(problem: Problem) -> None:
    best = brute_force(problem)
    if best is None:
        with pytest.raises(Infeasible) as caught:
            solve(problem)
        assert caught.value.classes
        for cls, options in caught.value.options.items():
            for option in options:
                assert problem.options[option].cls == cls
                assert all(problem.cost(option, e) is None for e in range(len(problem.engines)))
        return
    solution = solve(problem)
    assert evaluate(problem, solution.choice, solution.engine) == solution.cost
    assert solution.cost == best
    assert solution.lower_bound == best
    assert solution.gap == 0.0
    assert solution.stopped is None
    given = brute_force(problem, dict(problem.incumbent))
    assert solution.before == (given if given is not None else (inf,) * problem.width())


@SETTINGS
@given(problems())
def test_elimination_is_exact(problem: Problem) -> None:
    assert_optimal(problem)


@SETTINGS
@given(problems(max_classes=4, max_engines=3, width=1))
def test_three_engines(problem: Problem) -> None:
    assert_optimal(problem)


@SETTINGS
@given(problems(max_classes=6, max_engines=1, width=3))
def test_one_engine_and_more_components(problem: Problem) -> None:
    assert_optimal(problem)


@SETTINGS
@given(problems())
def test_costs_beyond_64_bits(problem: Problem) -> None:
    def wide(vector: tuple[float, ...] | None) -> tuple[float, ...] | None:
        return None if vector is None else (vector[0] * 2.0**70, vector[1] * 2.0**40, vector[0] * 2.0**-30)

    options = tuple(replace(o, costs=tuple(map(wide, o.costs))) for o in problem.options)
    transfer = problem.transfer
    assert_optimal(replace(problem, options=options, transfer=lambda c, a, b: transfer(c, a, b) * 2.0**70))


def test_long_cycles_are_forbidden_over_path_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "CYCLE_ENTRIES", 1)
    monkeypatch.setattr(exact, "short_cycles", lambda model: [])

    @SETTINGS
    @given(problems(max_classes=6, max_engines=1, cycles=True))
    def run(problem: Problem) -> None:
        assert_optimal(problem)

    run()


@pytest.mark.parametrize("blind", [False, True])
def test_search_and_highs_without_elimination(monkeypatch: pytest.MonkeyPatch, blind: bool) -> None:
    """Elimination claims nothing; `blind`: its guess is not even a start, so that HiGHS has to find the optimum."""

    def unsure(net: Network, variables: list[int] | None = None) -> Answer:
        answer = eliminate(net, variables)
        return Answer(answer.states, dict.fromkeys(answer.bounds, 0), frozenset(answer.bounds))

    monkeypatch.setattr(exact, "eliminate", unsure)
    if blind:
        real = portfolio.search
        monkeypatch.setattr(portfolio, "search", lambda model, guess, *rest: real(model, list(bottom_up(model)), *rest))

    @settings(SETTINGS, max_examples=100)
    @given(problems(max_engines=3, max_classes=4))
    def run(problem: Problem) -> None:
        assert_optimal(problem)

    run()
