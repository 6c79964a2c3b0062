"""A choice in terms of a model: for each class the way and the engine, or None where it is not chosen."""

from __future__ import annotations

from collections.abc import Sequence

from gerules.extract.model import Model

State = tuple[int, int]  # number of the way among its class's, engine


def cost_of(model: Model, states: Sequence[State | None]) -> int:
    """The packed cost of what the roots reach. The choice has no cycle."""
    total = 0
    arrived: set[tuple[int, int]] = set()
    for cls in needed(model, states):
        state = states[cls]
        assert state is not None
        way, here = model.ways[cls][state[0]], state[1]
        if way.tied:
            continue
        cost = way.costs[here]
        assert cost is not None
        total += cost
        for child in way.children:
            moves, there = model.moves[child], states[child]
            assert there is not None
            if moves is not None and there[1] != here and (child, here) not in arrived:
                arrived.add((child, here))
                total += moves[there[1]][here]
    return total


def needed(model: Model, states: Sequence[State | None]) -> list[int]:
    """The classes that the roots reach, in the order found."""
    seen = set(model.roots)
    order = sorted(seen)
    position = 0
    while position < len(order):
        cls = order[position]
        position += 1
        state = states[cls]
        assert state is not None
        for child in model.ways[cls][state[0]].children:
            if child not in seen:
                seen.add(child)
                order.append(child)
    return order


def cycles(model: Model, states: Sequence[State | None]) -> list[list[int]]:
    """Cycles in a choice, one for each edge that closes one on a depth-first walk from the roots; empty if none. What
    is needed and not chosen (in a guess) ends a path."""
    colour = [0] * len(model.ways)
    found: list[list[int]] = []
    for root in model.roots:
        if colour[root]:
            continue
        path = [root]
        depth = {root: 0}
        edges = [iter(_children(model, states, root))]
        colour[root] = 1
        while path:
            for child in edges[-1]:
                if colour[child] == 1:
                    found.append(path[depth[child] :])
                elif not colour[child]:
                    colour[child] = 1
                    depth[child] = len(path)
                    path.append(child)
                    edges.append(iter(_children(model, states, child)))
                    break
            else:
                colour[path.pop()] = 2
                edges.pop()
    return found


def _children(model: Model, states: Sequence[State | None], cls: int) -> tuple[int, ...]:
    state = states[cls]
    return () if state is None else model.ways[cls][state[0]].children


def is_solution(model: Model, states: Sequence[State | None]) -> bool:
    """Whether all that the roots reach is chosen, without a cycle."""
    seen = set(model.roots)
    work = sorted(seen)
    while work:
        cls = work.pop()
        if states[cls] is None:
            return False
        for child in _children(model, states, cls):
            if child not in seen:
                seen.add(child)
                work.append(child)
    return not cycles(model, states)


def translate(model: Model, states: Sequence[State | None]) -> tuple[dict[int, int], dict[int, int]]:
    """The same in terms of the problem: class -> option and class -> engine for all that the roots need."""
    choice: dict[int, int] = {}
    engine: dict[int, int] = {}
    problem = model.problem
    for root in problem.roots:
        if root in model.free:
            choice[root] = model.free[root]
    for cls in needed(model, states):
        state = states[cls]
        assert state is not None
        option = model.ways[cls][state[0]].option
        choice[model.names[cls]] = option
        engine[model.names[cls]] = state[1]
        for child in problem.options[option].children:
            if child in model.free:
                choice[child] = model.free[child]
    return choice, engine
