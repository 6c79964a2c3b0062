"""Strongly connected components, without recursion (Tarjan 1972)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def strong_components(following: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """The components of a graph given as successors of every element, each sorted, in reverse topological order."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    components: list[list[int]] = []
    for start in following:
        if start in number:
            continue
        trail = [(start, 0)]
        while trail:
            element, at = trail.pop()
            if at == 0:
                number[element] = low[element] = len(number)
                stack.append(element)
                on_stack.add(element)
            children = following[element]
            while at < len(children):
                child = children[at]
                at += 1
                if child not in number:
                    trail.append((element, at))
                    trail.append((child, 0))
                    break
                if child in on_stack:
                    low[element] = min(low[element], number[child])
            else:
                if low[element] == number[element]:
                    component = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.append(member)
                        if member == element:
                            break
                    components.append(sorted(component))
                if trail:
                    parent = trail[-1][0]
                    low[parent] = min(low[parent], low[element])
    return components
