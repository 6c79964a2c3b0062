"""The order that merging keeps, and merging itself, against plain models of both."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gerules.partition.components import strong_components
from gerules.partition.contraction import Contraction, by_target, level_order, levels_of, merge_pairwise
from gerules.partition.ordering import Ordering


def listed(ordering, elements):
    return sorted(elements, key=ordering.label.__getitem__)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 12), st.integers(0, 10**6))
def test_moving_in_an_order(count, seed):
    rng = random.Random(seed)
    model = list(range(count))
    rng.shuffle(model)
    ordering = Ordering(model)
    for _ in range(30):
        chosen = rng.sample(model, rng.randint(0, len(model) - 1))
        anchor = rng.choice([x for x in model if x not in chosen])
        rest = [x for x in model if x not in chosen]
        at = rest.index(anchor)
        if rng.random() < 0.5:
            ordering.move_after(chosen, anchor)
            at += 1
        else:
            ordering.move_before(chosen, anchor)
        model = rest[:at] + chosen + rest[at:]
        assert listed(ordering, model) == model


def test_gaps_are_spread_when_they_are_used_up():
    ordering = Ordering(range(3))
    for step in range(1000):
        # Two elements change places behind the first again and again, which halves the same gap each time.
        ordering.move_after([2 - step % 2], 0)
        assert listed(ordering, range(3)) == [0, 2 - step % 2, 1 + step % 2]


def random_edges(count, seed):
    rng = random.Random(seed)
    return [(a, b, 0) for b in range(count) for a in range(b) if rng.random() < 2.5 / count]


def is_topological(contraction, edges):
    label = contraction.ordering.label
    for source, target, _ in edges:
        a, b = contraction.find(source), contraction.find(target)
        if a != b and label[a] >= label[b]:
            return False
    return True


def reaches(contraction, edges, source, target):
    """Whether a path of two edges or more leads from one group to the other."""
    after = {}
    for a, b, _ in edges:
        first, second = contraction.find(a), contraction.find(b)
        if first != second:
            after.setdefault(first, set()).add(second)
    seen = after.get(source, set()) - {target}
    waiting = list(seen)
    while waiting:
        for x in after.get(waiting.pop(), set()) - seen:
            seen.add(x)
            waiting.append(x)
    return target in seen


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 25), st.integers(0, 10**6))
def test_a_merge_happens_exactly_where_no_second_path_leads(count, seed):
    edges = random_edges(count, seed)
    contraction = Contraction(range(count), edges, [1] * count, "A" * count, lambda a, b: a)
    rng = random.Random(seed)
    for _ in range(2 * count):
        if not edges:
            return
        source, target = (contraction.find(x) for x in rng.choice(edges)[:2])
        if source == target:
            continue
        forbidden = reaches(contraction, edges, source, target)
        assert (contraction.try_merge(source, target) is None) == forbidden
        assert is_topological(contraction, edges)
    assert sum(contraction.size[r] for r in contraction.roots()) == count


@pytest.mark.parametrize("budget", [0, 1, 10])
def test_a_budget_ends_the_search_and_what_there_is_is_sound(budget):
    edges = random_edges(60, 3)
    contraction = Contraction(range(60), edges, [1] * 60, "A" * 60, lambda a, b: a)
    assert not merge_pairwise(contraction, by_target(range(60), edges), lambda *_: True, budget)
    assert is_topological(contraction, edges)
    assert contraction.work <= budget + 200


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 30), st.integers(0, 10**6))
def test_levels_only_go_up_and_their_order_is_topological(count, seed):
    edges = random_edges(count, seed)
    colour = [random.Random(seed + i).choice("AB") for i in range(count)]
    level = levels_of(range(count), edges, lambda a, b: colour[a] == colour[b])
    assert all(level[a] + (colour[a] != colour[b]) <= level[b] for a, b, _ in edges)
    order = level_order(range(count), edges, level)
    rank = {x: at for at, x in enumerate(order)}
    assert sorted(order) == list(range(count))
    assert all(rank[a] < rank[b] for a, b, _ in edges)


def test_components():
    graph = {0: [1], 1: [2], 2: [0, 3], 3: [4], 4: [], 5: [5, 6], 6: [5]}
    assert sorted(strong_components(graph)) == [[0, 1, 2], [3], [4], [5, 6]]


def test_components_of_a_long_chain_and_a_long_cycle():
    count = 50_000
    assert len(strong_components({i: [i + 1] if i + 1 < count else [] for i in range(count)})) == count
    assert strong_components({i: [(i + 1) % count] for i in range(count)}) == [list(range(count))]
