"""From a fractional point to a solution: the best choice among the states that the point uses.

A relaxation of a placement is whole nearly everywhere. What it leaves open is small enough for elimination, which
decides it all at once (the idea of "relaxation enforced neighbourhoods", T. Berthold 2014).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gerules.extract.clock import Clock
from gerules.extract.exact import settle
from gerules.extract.model import Way
from gerules.extract.network import encode
from gerules.extract.program import Program
from gerules.extract.states import State, is_solution, needed

USED = 1e-6


def round_point(
    program: Program, values: Sequence[float], incumbent: Sequence[State | None], clock: Clock
) -> list[State | None] | None:
    """The best solution that elimination finds among the states used by a point or by the incumbent; None where what
    it reads back has a cycle or a gap."""
    model = program.model
    used: list[dict[int, set[int]]] = [{} for _ in model.ways]  # class -> way -> engines
    for column, (cls, at, engine) in enumerate(program.columns):
        if values[column] > USED or incumbent[cls] == (at, engine):
            used[cls].setdefault(at, set()).add(engine)
    keep: dict[int, Sequence[Way]] = {}
    for cls, ways in enumerate(used):
        kept: list[Way] = []
        for at, engines in ways.items():
            way = model.ways[cls][at]
            costs = tuple(cost if engine in engines else None for engine, cost in enumerate(way.costs))
            kept.append(replace(way, costs=costs))
        if kept:
            keep[cls] = kept
    part = model.only(keep, model.roots)
    states: list[State | None] = [None] * len(model.ways)
    for cls, state in zip(sorted(keep), settle(encode(part), clock).states, strict=True):
        states[cls] = None if state is None else (list(used[cls])[state[0]], state[1])
    if not is_solution(model, states):
        return None
    trimmed: list[State | None] = [None] * len(states)
    for cls in needed(model, states):
        trimmed[cls] = states[cls]
    return trimmed
