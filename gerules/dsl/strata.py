"""Are facts stratified: no relation depends on its own absence, nor on a bound that it helps to settle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gerules.dsl import ast
from gerules.dsl.lets import children
from gerules.dsl.program import Entry, Program
from gerules.dsl.terms import Report
from gerules.dsl.vocabulary import Vocabulary, conclusion_heads
from gerules.errors import Label

Edge = tuple[str, bool, Entry[ast.Fact], ast.Node]
"""To which relation, whether through `not` (or a bound that is read), by which fact, at which condition."""


def asked(node: ast.Node, bounded: frozenset[str]) -> Iterator[tuple[str, bool, ast.Node]]:
    """The applied names in a condition, and whether their absence (or final bound) is asked for."""
    pending: list[tuple[ast.Node, bool]] = [(node, False)]
    while pending:
        current, negative = pending.pop()
        if isinstance(current, ast.Unary) and current.op == "not":
            negative = True
        if isinstance(current, ast.Call) and isinstance(current.head, ast.Name):
            yield current.head.id, negative or current.head.id in bounded, current
        pending.extend((child, negative) for child in reversed(children(current)))


def check_strata(program: Program, vocabulary: Vocabulary, report: Report) -> None:
    """Report each group of facts that leads back to itself through `not`, or through `==` on a bound."""
    edges: dict[str, list[Edge]] = {}
    for entry in program.facts.values():
        heads = [
            c.head.id for k in entry.statement.conclusions for c in conclusion_heads(k) if isinstance(c.head, ast.Name)
        ]
        for condition in entry.statement.when:
            for name, negative, where in asked(condition, vocabulary.bounded):
                if name in vocabulary.relations:
                    for head in heads:
                        edges.setdefault(head, []).append((name, negative, entry, where))
    component = components({head: [e[0] for e in out] for head, out in edges.items()})
    said: set[int] = set()
    for head, out in edges.items():
        for name, negative, entry, where in out:
            if not negative or component.get(head) != component.get(name) or component[head] in said:
                continue
            said.add(component[head])
            way = _way_back(name, head, edges, component)
            names = " needs ".join([head, *(n for n, _ in way)])
            how = "the absence" if name not in vocabulary.bounded else "the final bound"
            labels = [Label(e.statement.span, f"{n} depends on it here") for n, e in way[1:] if e is not entry]
            report.add(
                "GR148",
                f"these facts are not stratified: {names}, by {how} of {name}",
                where,
                "a fact may ask for the absence only of what is settled before it",
                labels,
            )


def _way_back(
    start: str, goal: str, edges: Mapping[str, list[Edge]], component: Mapping[str, int]
) -> list[tuple[str, Entry[ast.Fact]]]:
    """Relations from `start` to `goal` within one group, shortest way, each with the fact that leads on to it."""
    first = next(e for out in edges.values() for e in out if e[0] == start)
    came: dict[str, tuple[str, Entry[ast.Fact]] | None] = {start: None}
    queue = [start]
    for name in queue:
        if name == goal:
            break
        for following, _, entry, _ in edges.get(name, []):
            if following not in came and component.get(following) == component[start]:
                came[following] = (name, entry)
                queue.append(following)
    way: list[tuple[str, Entry[ast.Fact]]] = []
    at: str | None = goal
    while at is not None:
        step = came.get(at)
        way.append((at, step[1] if step else first[2]))
        at = step[0] if step else None
    return way[::-1]


def components(graph: Mapping[str, list[str]]) -> dict[str, int]:
    """The strongly connected component of each name (Tarjan, with a stack of its own)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    found: dict[str, int] = {}
    stack: list[str] = []
    for root in graph:
        if root in index:
            continue
        work: list[tuple[str, Iterator[str]]] = [(root, iter(graph.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            name, following = work[-1]
            child = next(following, None)
            if child is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    number = len(found)
                    while True:
                        member = stack.pop()
                        found[member] = number
                        if member == name:
                            break
            elif child not in index:
                index[child] = low[child] = len(index)
                stack.append(child)
                work.append((child, iter(graph.get(child, ()))))
            elif child not in found:
                low[name] = min(low[name], index[child])
    return found
