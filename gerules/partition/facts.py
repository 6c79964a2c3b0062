"""What merge rules and the rule of copying may ask of a placed node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gerules.errors import Diagnostic, Refused
from gerules.partition.net import Net, Node


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What the merge rules may ask of a node. `engine` is where it is placed; `stream` and `label` the user's wish
    (metadata `gerules.stream_label`, "" where there is none); `dynamic` whether an extent of a result is no number;
    `dtype` the element type of the first result; `elements` its number of elements, None where not known; `size` the
    number of nodes of the cluster that it belongs to at the time of asking."""

    name: str
    engine: str
    op: str
    domain: str = ""
    stream: str = ""
    label: str = ""
    dynamic: bool = False
    size: int = 1
    dtype: str = ""
    elements: int | None = None


MayMerge = Callable[[NodeFacts, NodeFacts], bool]
"""Whether two nodes, joined by an edge from the first to the second, may share a cluster (acyclicity apart). Rules
speak of kinds of nodes, so that `name` and `elements` are not filled in here."""
Duplicable = Callable[[NodeFacts, str], bool]
"""Whether a node whose operands are all constant may be copied into clusters of an engine."""


def same_engine(first: NodeFacts, second: NodeFacts) -> bool:
    """The usual merge rule."""
    return first.engine == second.engine


def never(facts: NodeFacts, engine: str) -> bool:
    """The usual rule of copying: Constant nodes alone."""
    return False


def is_constant(node: Node) -> bool:
    """A Constant node: the format's other way of writing an initializer."""
    return node.op_type == "Constant" and node.domain in ("", "ai.onnx")


def check_placed(net: Net, placement: Mapping[str, str]) -> None:
    lost = [node for node in net.nodes if node.name not in placement and not is_constant(node)]
    if lost:
        hint = "place every node"
        raise Refused(
            [Diagnostic("GR652", f"node {n.name!r} ({n.op_type}) has no engine", node=n.name, hint=hint) for n in lost]
        )


def facts_of(net: Net, placement: Mapping[str, str], operators: Mapping[str, str]) -> dict[str, NodeFacts]:
    facts = {}
    for node in net.nodes:
        results = [net.types[v] for v in node.results if v]
        facts[node.name] = NodeFacts(
            name=node.name,
            engine=placement.get(node.name, ""),
            op=operators.get(node.name, node.op_type),
            domain=node.domain,
            stream=node.label,
            label=node.label,
            dynamic=any(t.dynamic for t in results),
            dtype=results[0].dtype if results else "",
            elements=results[0].size if results else None,
        )
    return facts


def join_engines(composites: Mapping[str, str], first: str, second: str) -> str | None:
    """The engine of a cluster over two engines: the one, or the composite that both are part of."""
    if first == second:
        return first
    both = composites.get(first, first)
    return both if both == composites.get(second, second) else None
