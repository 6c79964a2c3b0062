"""Walks over classes: reachability, strongly connected components, what can be made of what. No recursion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence


def reachable(roots: Iterable[int], successors: Callable[[int], Iterable[int]]) -> set[int]:
    seen = set(roots)
    work = sorted(seen)
    while work:
        for node in successors(work.pop()):
            if node not in seen:
                seen.add(node)
                work.append(node)
    return seen


def derive(by_class: Mapping[int, Sequence[int]], needs: Sequence[tuple[int, ...]]) -> dict[int, int]:
    """class -> the first option found that can be made without a cycle; classes that cannot are absent. An option's
    `needs` are distinct classes."""
    users: dict[int, list[int]] = {}
    missing: dict[int, int] = {}
    owner: dict[int, int] = {}
    ready: list[int] = []
    for cls, options in by_class.items():
        for option in options:
            owner[option] = cls
            missing[option] = len(needs[option])
            if not needs[option]:
                ready.append(option)
            for child in needs[option]:
                users.setdefault(child, []).append(option)
    made: dict[int, int] = {}
    position = 0
    while position < len(ready):
        option = ready[position]
        position += 1
        cls = owner[option]
        if cls in made:
            continue
        made[cls] = option
        for user in users.get(cls, ()):
            missing[user] -= 1
            if not missing[user]:
                ready.append(user)
    return made


def components(edges: Sequence[Sequence[int]]) -> list[list[int]]:
    """Tarjan's strongly connected components, those that are reached first."""
    index = [-1] * len(edges)
    low = [0] * len(edges)
    on_stack = [False] * len(edges)
    stack: list[int] = []
    found: list[list[int]] = []
    clock = 0
    for start in range(len(edges)):
        if index[start] >= 0:
            continue
        path = [(start, 0)]
        while path:
            node, position = path.pop()
            if position == 0:
                index[node] = low[node] = clock
                clock += 1
                stack.append(node)
                on_stack[node] = True
            else:
                low[node] = min(low[node], low[edges[node][position - 1]])
            descended = False
            for at in range(position, len(edges[node])):
                target = edges[node][at]
                if index[target] < 0:
                    path.append((node, at + 1))
                    path.append((target, 0))
                    descended = True
                    break
                if on_stack[target]:
                    low[node] = min(low[node], index[target])
            if descended or low[node] != index[node]:
                continue
            members: list[int] = []
            while not members or members[-1] != node:
                members.append(stack.pop())
                on_stack[members[-1]] = False
            found.append(members)
    return found
