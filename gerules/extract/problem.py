"""What extraction is asked and what it answers, as plain data, and the walk that judges every answer.

A class is a value (or a node with several results); its options are the e-nodes that can make it. A solution gives
each class that the roots reach one option and one engine, without a cycle. Its cost is the sum over the classes
chosen, each once however often it is used, plus each value's transfers, each once for every engine that it is
brought to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import fsum, inf

METHODS = ("input", "elimination", "greedy", "bottom-up", "one-swap", "highs")


@dataclass(frozen=True, slots=True)
class Option:
    """One e-node.

    `children` are the classes that it needs (they may repeat; absent operands are left out). `costs` has for each
    engine a lexicographic cost vector, all of one length, finite and not negative, or None where the engine does not
    support it. A `projection` is one result of a node with several: its only child is the node's class, it costs
    nothing and sits wherever the node sits (`costs` is not read; no leaf may be in the child's class). A `leaf` is a
    graph input, an initializer or a constant: in every memory at no cost, on no engine, without children. Equal
    costs are decided by the lower `rank` (0: an e-node of the input graph), then by the lower index.
    """

    cls: int
    children: tuple[int, ...]
    costs: tuple[tuple[float, ...] | None, ...]
    projection: bool = False
    leaf: bool = False
    rank: int = 0


@dataclass(frozen=True)
class Problem:
    """One extraction. The index of an option in `options` is its id; classes are numbered from 0.

    `transfer(class, from engine, to engine)` is what bringing a value over costs (it joins component 0 of the cost
    vector): finite, not negative, paid once for each engine that a value is brought to, never asked for equal
    engines or leaves. `incumbent` gives the input graph's option for each class that the input graph computes;
    it covers the roots and has no cycle. `incumbent_engines` are engines known for those classes, as far as known: a
    hint. `pinned` options can only be chosen on the engine given (pins of projections and leaves are not read).
    """

    options: tuple[Option, ...]
    classes: int
    roots: tuple[int, ...]
    engines: tuple[str, ...]
    transfer: Callable[[int, int, int], float]
    incumbent: Mapping[int, int]
    incumbent_engines: Mapping[int, int]
    pinned: Mapping[int, int]

    def width(self) -> int:
        """The length of the cost vectors; 1 where there is nothing but leaves."""
        for option in self.options:
            if not option.leaf and not option.projection:
                for vector in option.costs:
                    if vector is not None:
                        return len(vector)
        return 1

    def cost(self, option: int, engine: int) -> tuple[float, ...] | None:
        """The cost vector of an option that is neither leaf nor projection; None where unsupported or pinned away."""
        if self.pinned.get(option, engine) != engine:
            return None
        return self.options[option].costs[engine]


@dataclass(frozen=True)
class Solution:
    """An answer. `choice` has the option of every class that the roots need, `engine` the engine of each that is not
    a leaf. `cost` is `evaluate` of the two; `before` that of the input graph, not rewritten, under the best placement
    found (infinite in every component where some node of it has no engine). `lower_bound` is at most the cost of any
    solution, in lexicographic order; `gap` is (cost - bound) / cost of component 0, 0 to 1, and 0 where that cost is
    0. `method` is one of METHODS: what found the answer; `stopped` says which limit cut the search:
    ``"time"`` (only then may two runs differ), ``"iterations"`` (counted work), ``"size"`` (too large for HiGHS),
    ``"failed"`` (HiGHS gave up); None where none did.
    """

    choice: Mapping[int, int]
    engine: Mapping[int, int]
    cost: tuple[float, ...]
    before: tuple[float, ...]
    lower_bound: tuple[float, ...]
    gap: float
    method: str
    stopped: str | None


class Infeasible(Exception):
    """No solution exists. `classes` are those that the roots cannot do without and that no engine can make, in
    ascending order; `options` has for each of them its options that no engine supports, in ascending order."""

    def __init__(self, options: Mapping[int, tuple[int, ...]]) -> None:
        self.options = dict(sorted(options.items()))
        self.classes = tuple(self.options)
        super().__init__(f"no engine supports what makes classes {', '.join(map(str, self.classes))}")


def evaluate(problem: Problem, choice: Mapping[int, int], engine: Mapping[int, int]) -> tuple[float, ...]:
    """The cost vector of a solution, by walking it from the roots; sums are correctly rounded (`fsum`), so that they
    depend on no order.

    Raises ValueError where it is none: a class without a choice or with another class's option, a cycle, an engine
    that is missing, does not support its option or is not the pinned one, a projection away from its node.
    """
    order = walk(problem, choice)
    sums: list[list[float]] = [[] for _ in range(problem.width())]
    arrived: set[tuple[int, int]] = set()
    for cls in order:
        option = problem.options[choice[cls]]
        if option.leaf:
            continue
        if cls not in engine:
            raise ValueError(f"class {cls} has no engine")
        here = engine[cls]
        if option.projection:
            if engine.get(option.children[0]) != here:
                raise ValueError(f"projection {choice[cls]} is away from its node")
            continue
        vector = problem.cost(choice[cls], here)
        if vector is None:
            raise ValueError(f"option {choice[cls]} of class {cls} cannot be on engine {here}")
        for column, value in zip(sums, vector, strict=True):
            column.append(value)
        for child in option.children:
            if problem.options[choice[child]].leaf or engine[child] == here or (child, here) in arrived:
                continue
            arrived.add((child, here))
            sums[0].append(problem.transfer(child, engine[child], here))
    return tuple(fsum(column) for column in sums)


def walk(problem: Problem, choice: Mapping[int, int]) -> list[int]:
    """The classes that the roots reach under a choice, children first. Raises ValueError on a cycle or a gap."""
    order: list[int] = []
    state: dict[int, int] = {}  # 1: on the path, 2: done
    for root in problem.roots:
        stack = [root]
        while stack:
            cls = stack[-1]
            if state.get(cls):
                stack.pop()
                if state[cls] == 1:
                    state[cls] = 2
                    order.append(cls)
                continue
            if cls not in choice or problem.options[choice[cls]].cls != cls:
                raise ValueError(f"class {cls} has no option of its own chosen")
            state[cls] = 1
            for child in problem.options[choice[cls]].children:
                seen = state.get(child)
                if seen == 1:
                    raise ValueError(f"the choice is cyclic through class {child}")
                if not seen:
                    stack.append(child)
    return order


def check(problem: Problem) -> None:
    """Raise ValueError where a problem is malformed: the fault of who built it, not of a model or a rule."""
    width = problem.width()
    engines = len(problem.engines)
    leaves = {option.cls for option in problem.options if option.leaf}
    for index, option in enumerate(problem.options):
        where = f"option {index}"
        if not 0 <= option.cls < problem.classes or not all(0 <= c < problem.classes for c in option.children):
            raise ValueError(f"{where} names a class outside 0..{problem.classes - 1}")
        if option.leaf:
            if option.children:
                raise ValueError(f"{where} is a leaf with children")
        elif option.projection:
            if len(option.children) != 1 or option.children[0] in leaves:
                raise ValueError(f"{where} is a projection of no node")
        elif len(option.costs) != engines:
            raise ValueError(f"{where} has costs for {len(option.costs)} engines of {engines}")
        elif any(v is not None and (len(v) != width or not all(0 <= x < inf for x in v)) for v in option.costs):
            raise ValueError(f"{where} has a cost vector that is not {width} finite numbers from 0")
    if not all(0 <= pin < engines for pin in problem.pinned.values()):
        raise ValueError("a pin names no engine")
    walk(problem, problem.incumbent)
