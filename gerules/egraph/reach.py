"""The cheapest way to every class that can be made at all, by candidates of a conversion.

Costs are added up along the tree of a choice: what the input graph has already costs nothing, what a rule made costs
one, what follows from a definition of an operator (`defines`) much more, so that it is used only where nothing else is
there. Integers, for trees of deep graphs are large.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gerules.egraph.choices import CONSTANT, NODE, Candidate, Candidates

MADE, DEFINED = 1, 1 << 16
"""What a node costs that a rule made, and one that a rule of exactness `defines` made."""


@dataclass(frozen=True)
class Reached:
    """Option and cost of every class that can be made."""

    choice: Mapping[int, int]
    cost: Mapping[int, int]

    def reaches(self, roots: Sequence[int]) -> bool:
        return all(root in self.choice for root in roots)


def reach(
    found: Candidates, defines: Callable[[str], bool], usable: Callable[[Candidate], bool] = lambda candidate: True
) -> Reached:
    """The choice of least cost for each class, without a cycle: a class is settled after all that it is made of.
    `defines` says whether a rule is one of exactness `defines`, `usable` whether a candidate may be chosen."""
    given = {found.saturated.value_class[n] for n in found.encoded.constant}
    own = [_own(found, option, given, defines) for option in found.options]
    users: dict[int, list[int]] = {}
    missing: list[int] = []
    queue: list[tuple[int, int, int]] = []
    for index, option in enumerate(found.options):
        children = set(option.children)
        missing.append(len(children))
        if not usable(option):
            continue
        for child in children:
            users.setdefault(child, []).append(index)
        if not children:
            queue.append((own[index], _rank(option), index))
    heapq.heapify(queue)
    choice: dict[int, int] = {}
    cost: dict[int, int] = {}
    while queue:
        spent, _, index = heapq.heappop(queue)
        cls = found.options[index].cls
        if cls in choice:
            continue
        choice[cls], cost[cls] = index, spent
        for user in users.get(cls, ()):
            missing[user] -= 1
            if missing[user] == 0:
                option = found.options[user]
                total = own[user] + sum(cost[child] for child in option.children)
                heapq.heappush(queue, (total, _rank(option), user))
    return Reached(choice, cost)


def _rank(option: Candidate) -> int:
    return 0 if option.original is not None else 1


def _own(found: Candidates, option: Candidate, given: set[int], defines: Callable[[str], bool]) -> int:
    if option.kind == CONSTANT:
        return 0 if option.cls in given else MADE
    if option.kind != NODE or option.original is not None:
        return 0
    return DEFINED if defines(found.saturated.nodes[option.index].made_by) else MADE


__all__ = ["DEFINED", "MADE", "Reached", "reach"]
