"""Cost without a target: element-wise elements, then Expand nodes, then flops, bytes and nodes (CONTRACTS, Cost).

Which operators are element-wise or only broadcast is said by the classes `Elementwise` and `Broadcasting` of the rules.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from gerules.dsl.program import Program
from gerules.target.figures import Figures, sized_views
from gerules.target.matching import View
from gerules.target.sizes import Likely, likeness

PlainVector: TypeAlias = tuple[float, float, float, float, float]

COMPONENTS = ("elementwise elements", "broadcast nodes", "flops", "bytes", "nodes")


class PlainCost:
    """The lexicographic cost of nodes, as the mean over the scenarios of likely sizes. Raises GerulesError for a faulty
    flops fact."""

    def __init__(self, program: Program, likely: Likely | None = None) -> None:
        self.likely = likely or Likely()
        self.figures = Figures(program, self.likely)
        self._elementwise = _keys(program, "Elementwise")
        self._broadcasting = _keys(program, "Broadcasting")
        self._known: dict[object, PlainVector] = {}

    def cost(self, view: View, node: Any) -> PlainVector:
        """(elements of an element-wise node, 1 for a node that only broadcasts, flops, bytes, 1). Nodes that look
        alike are calculated once."""
        if not self.figures.flat(view.operator(node)):
            return self._calculate(view, node)
        alike = likeness(view, node)
        if alike not in self._known:
            self._known[alike] = self._calculate(view, node)
        return self._known[alike]

    def _calculate(self, view: View, node: Any) -> PlainVector:
        key = view.operator(node).key
        broadcasting = float(key in self._broadcasting)
        elements = flops = size = 0.0
        for sized in sized_views(view, self.likely):
            figures = self.figures.of(sized, node)
            elements += figures.elements if key in self._elementwise else 0.0
            flops += figures.flops
            size += figures.bytes
        scenarios = self.likely.scenarios
        return elements / scenarios, broadcasting, flops / scenarios, size / scenarios, 1.0


def _keys(program: Program, name: str) -> frozenset[str]:
    """The members of a class at every version; none where no rule file declares it."""
    members = program.wide_classes.get(name)
    return frozenset(members.keys) if members is not None else frozenset()
