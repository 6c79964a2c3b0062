"""What a node costs, as extraction asks for it: with a target in seconds on each engine, without one as a vector."""

from __future__ import annotations

from typing import Any, Protocol

from gerules.dsl.program import Program
from gerules.graph.info import Info
from gerules.target import Likely, PlainCost, Target, View
from gerules.target.figures import ELEMENT_BYTES, sized_views
from gerules.target.plain import COMPONENTS
from gerules.target.sizes import USUAL

Vectors = tuple[tuple[float, ...] | None, ...]
INPUTS = "inputs"
"""The place of graph inputs and constants where a target says in which memory they lie."""


class Costs(Protocol):
    """Costs of nodes and transfers over any view of nodes.

    `engines` are places that nodes can be put on; `components` what the entries of a cost vector mean.
    """

    @property
    def engines(self) -> tuple[str, ...]: ...
    @property
    def components(self) -> tuple[str, ...]: ...
    @property
    def input_place(self) -> int | None: ...
    def vectors(self, view: View, node: Any) -> Vectors: ...
    def transfer(self, size: float, source: int, target: int) -> float: ...
    def size(self, info: Info) -> float: ...


class PlainCosts:
    """Costs without a target: one engine, the lexicographic vector of CONTRACTS."""

    engines = ("any",)
    components = COMPONENTS
    input_place: int | None = None

    def __init__(self, program: Program, likely: Likely) -> None:
        self._cost = PlainCost(program, likely)

    def vectors(self, view: View, node: Any) -> Vectors:
        return (self._cost.cost(view, node),)

    def transfer(self, size: float, source: int, target: int) -> float:
        return 0.0

    def size(self, info: Info) -> float:
        return 0.0


class TargetCosts:
    """Seconds on each engine, then the number of nodes, then the priority of the engine; transfers by likely bytes.

    Where the target has inputs in one memory there is one place more, for graph inputs and constants only.
    """

    components = ("seconds", "nodes", "priority")

    def __init__(self, target: Target, likely: Likely) -> None:
        self.target = target
        self._likely = likely
        self._priority = tuple(float(target.priority[e]) for e in target.engines)
        lowest = min(self._priority)
        self._priority = tuple(p - lowest for p in self._priority)
        self.input_place = len(target.engines) if target.inputs is not None else None
        self.engines = target.engines if self.input_place is None else (*target.engines, INPUTS)
        self._sizes: dict[str, float] = {}

    def vectors(self, view: View, node: Any) -> Vectors:
        found: list[tuple[float, ...] | None] = [
            None if seconds is None else (seconds, 1.0, self._priority[place])
            for place, seconds in enumerate(self.target.costs(view, node))
        ]
        return tuple(found) if self.input_place is None else (*found, None)

    def at_input(self) -> Vectors:
        """The vectors of a graph input or constant that lies in the memory of inputs."""
        return (*(None for _ in self.target.engines), (0.0, 0.0, 0.0))

    def transfer(self, size: float, source: int, target: int) -> float:
        if source == self.input_place:
            return self.target.input_transfer(size, self.engines[target])
        return self.target.transfer(size, self.engines[source], self.engines[target])

    def size(self, info: Info) -> float:
        """Bytes of a value at the likely sizes, their mean over several."""
        if info.text not in self._sizes:
            total = 0.0
            views = sized_views(_NO_VIEW, self._likely)
            for view in views:
                found = view.sized(info)[0].bytes()
                known = found.value if found is not None else None
                total += float(USUAL * ELEMENT_BYTES if known is None else known)
            self._sizes[info.text] = total / len(views)
        return self._sizes[info.text]


_NO_VIEW: Any = None  # sizes are asked of infos, never of the view behind
