"""The order in which the operands and attributes of one operator are drawn: such that conditions are hints.

`all(e >= x.shape[a])` says what `e` is only once `a` is known. What is drawn for one operator may be drawn in any
order, so each condition that ties a drawn value to others puts it behind them, unless an earlier one says the opposite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gerules.dsl import ast
from gerules.static import Context, free_names
from gerules.static import Step as Condition
from gerules.verify.hints import _Work
from gerules.verify.layout import DrawColumn, DrawHeld, DrawLeaf, Layout, SetColumn, Step

Edge = tuple[int, int]


def in_hint_order(layout: Layout, conditions: Sequence[Condition], context: Context) -> Layout:
    """The layout with the draws between two operators in an order in which conditions help. Stable: what no condition
    orders stays as it is."""
    work = _Work(layout, context)
    runs = _runs(layout.steps)
    run_of = {at: number for number, run in enumerate(runs) for at in run}
    edges: set[Edge] = set()
    unmet: list[list[frozenset[Edge]]] = []
    for condition in conditions:
        for ways in _ties(condition.expr, work):
            kept = [w for w in ways if all(run_of.get(a) == run_of.get(b) or a < b for a, b in w)]
            inside = [frozenset((a, b) for a, b in w if run_of.get(a) == run_of.get(b)) for w in kept]
            now = next((w for w in inside if all(a < b for a, b in w)), None)
            if now is not None:
                edges |= now
            elif inside:
                unmet.append(sorted(inside, key=lambda w: (sum(a > b for a, b in w), sorted(w))))
    for choices in unmet:
        fitting = next((w for w in choices if _acyclic(edges | w)), None)
        edges |= fitting or frozenset()
    if all(a < b for a, b in edges):
        return layout
    order = list(range(len(layout.steps)))
    for run in runs:
        order[run[0] : run[-1] + 1] = _sorted(run, edges)
    return replace(layout, steps=tuple(layout.steps[at] for at in order))


def _runs(steps: Sequence[Step]) -> list[list[int]]:
    """Neighbouring steps that draw, or set what is written, without a look at anything else."""
    runs: list[list[int]] = []
    last = -2
    for at, step in enumerate(steps):
        match step:
            case DrawLeaf() | DrawColumn() | SetColumn(expr=None) | DrawHeld(given=None, given_shape=None):
                if last != at - 1:
                    runs.append([])
                runs[-1].append(at)
                last = at
    return runs


def _ties(condition: ast.Expr, work: _Work) -> Iterator[list[frozenset[Edge]]]:
    """For each comparison within a condition the ways in which it can be a hint: what has to come before what."""
    pending = [condition]
    while pending:
        match pending.pop():
            case ast.Call(head=ast.Name(id="all" | "some"), operands=operands) | ast.Logical(operands=operands):
                pending += reversed(operands)
            case ast.Compare(op="==" | "<=" | ">=" | "<" | ">", left=left, right=right):
                yield [w for w in (_way(left, right, work), _way(right, left, work)) if w]
            case ast.Compare(op="in", left=left, right=right):
                yield [w for w in (_way(left, right, work),) if w]


def _way(target: ast.Expr, value: ast.Expr, work: _Work) -> frozenset[Edge]:
    """What has to be drawn before the target so that the value is known; empty where it is no target."""
    before = list(free_names(value))
    what = "content"
    if isinstance(target, ast.Index):
        before += free_names(target.index)
        target, what = target.base, "extent"
    if isinstance(target, ast.Field):
        what, target = (what if what == "extent" else target.name), target.base
    if not isinstance(target, ast.Name) or target.id not in work.layout.names:
        return frozenset()
    at, _ = work.target(work.layout.names[target.id], what)
    if at is None or any(name not in work.time for name in before):
        return frozenset()
    return frozenset((work.time[name], at) for name in before if work.time[name] != at)


def _acyclic(edges: set[Edge] | frozenset[Edge]) -> bool:
    left = set(edges)
    while left:
        ends = {b for _, b in left}
        free = {(a, b) for a, b in left if a not in ends}
        if not free:
            return False
        left -= free
    return True


def _sorted(run: Sequence[int], edges: set[Edge]) -> list[int]:
    """A run with each step behind those that it waits for, the first that can go first."""
    waiting = list(run)
    made: list[int] = []
    while waiting:
        ready = next(at for at in waiting if not any(a in waiting and b == at for a, b in edges))
        waiting.remove(ready)
        made.append(ready)
    return made
