"""Extraction problems: from the candidates of an e-graph, and straight from a graph whose nodes all stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from gerules.dsl.suggest import did_you_mean
from gerules.egraph.choices import CONSTANT, LEAF, NODE, PROJECTION, Candidates, EGraphView
from gerules.egraph.encode import captured_values
from gerules.errors import Diagnostic, Refused
from gerules.extract import Option, Problem, Solution
from gerules.graph.constants import ConstantTable
from gerules.graph.info import UNKNOWN, Info
from gerules.graph.structure import bodies
from gerules.partition.placed import PIN_KEY
from gerules.pipeline.costs import Costs, TargetCosts
from gerules.registry import canonical_domain
from gerules.registry.definition import OperatorDef
from gerules.target.graph_view import GraphView


def is_constant(node: ir.Node) -> bool:
    """A Constant node: the format's other way of writing an initializer. It has no place and costs nothing."""
    return node.op_type == "Constant" and canonical_domain(node.domain) == ""


def pins(graph: ir.Graph, costs: Costs) -> dict[ir.Node, int]:
    """The engines that users wished for (metadata `gerules.engine`). Raises Refused (GR711) for an unknown one."""
    found: dict[ir.Node, int] = {}
    faults: list[Diagnostic] = []
    for node in graph:
        wish = node.metadata_props.get(PIN_KEY)
        if not wish:
            continue
        if wish in costs.engines:
            found[node] = costs.engines.index(wish)
            continue
        hint = did_you_mean(wish, list(costs.engines)) or f"engines are {', '.join(costs.engines)}"
        faults.append(
            Diagnostic("GR711", f"node {node.name} is pinned to {wish}, which is no engine", node=node.name, hint=hint)
        )
    if faults:
        raise Refused(faults)
    return found


# --------------------------------------------------------------------------------------------------- of an e-graph


def problem_of_candidates(
    found: Candidates, view: EGraphView, costs: Costs, pinned: Mapping[ir.Node, int] | None = None
) -> Problem:
    """The choice of e-node and engine. Options are numbered as the candidates are."""
    nodes = {n.number: n.node for n in found.encoded.nodes}
    options: list[Option] = []
    held: dict[int, int] = {}
    for index, candidate in enumerate(found.options):
        rank = 0 if candidate.original is not None else 1
        if candidate.kind == NODE:
            vectors = costs.vectors(view, candidate.index)
            options.append(Option(candidate.cls, candidate.children, vectors, rank=rank))
            if pinned and candidate.original is not None and nodes[candidate.original] in pinned:
                held[index] = pinned[nodes[candidate.original]]
        elif candidate.kind == PROJECTION:
            options.append(Option(candidate.cls, candidate.children, (), projection=True))
        else:
            options.append(_leaf(candidate.cls, costs, candidate.kind == CONSTANT))
    sizes = _Sizes(lambda cls: found.saturated.infos.get(cls, UNKNOWN), costs)
    return Problem(
        tuple(options), found.saturated.classes, found.roots, costs.engines, sizes.transfer, found.incumbent, {}, held
    )


def _leaf(cls: int, costs: Costs, constant: bool = False) -> Option:
    if isinstance(costs, TargetCosts) and costs.input_place is not None:
        return Option(cls, (), costs.at_input())
    return Option(cls, (), (), leaf=True)


@dataclass
class _Sizes:
    """Transfers of classes by their likely bytes."""

    info: Callable[[int], Info]
    costs: Costs
    known: dict[int, float] = field(default_factory=dict)

    def transfer(self, cls: int, source: int, target: int) -> float:
        if cls not in self.known:
            self.known[cls] = self.costs.size(self.info(cls))
        return self.costs.transfer(self.known[cls], source, target)


def nothing_made(found: Candidates) -> bool:
    """Whether the graph is all that there is to choose: no e-node of a rule, no contents found out, nothing shared."""
    made = any(c.kind == NODE and c.original is None for c in found.options)
    given = {found.saturated.value_class[n] for n in found.encoded.constant}
    return not made and found.saturated.constants.keys() <= given and nothing_shared(found)


def nothing_shared(found: Candidates) -> bool:
    """Whether every node of the input graph is an e-node of its own that the roots need."""
    needed: set[int] = set()
    pending = list(found.roots)
    seen = set(pending)
    while pending:
        option = found.incumbent.get(pending.pop())
        if option is None:
            return False
        candidate = found.options[option]
        if candidate.kind == NODE:
            needed.add(option)
        for child in candidate.children:
            if child not in seen:
                seen.add(child)
                pending.append(child)
    return len(needed) == len(found.encoded.nodes)


def egraph_view(found: Candidates, table: ConstantTable, stand_in: Callable[[ir.Node], OperatorDef]) -> EGraphView:
    """The view of candidates; `stand_in` gives the definition that an opaque node is seen as."""
    opaque = {n.number: stand_in(n.node) for n in found.encoded.nodes if n.signature is None}
    return EGraphView(found, table, opaque)


# ------------------------------------------------------------------------------------------------------ of a graph


@dataclass(frozen=True)
class GraphProblem:
    """A graph all of whose nodes stay. `class_of` has the class of each node that has a place."""

    problem: Problem
    class_of: Mapping[ir.Node, int]

    def placement(self, solution: Solution) -> dict[str, str]:
        """Node name -> engine, Constant nodes apart."""
        engines = self.problem.engines
        return {n.name or "": engines[solution.engine[c]] for n, c in self.class_of.items()}


def problem_of_graph(
    graph: ir.Graph,
    view: GraphView,
    costs: Costs,
    infos: Mapping[ir.Value, Info],
    pinned: Mapping[ir.Node, int] | None = None,
) -> GraphProblem:
    """The placement of a graph as it is: every node is a root and has one option."""
    number: dict[ir.Value, int] = {}
    options: list[Option] = []
    values: list[ir.Value | None] = []
    class_of: dict[ir.Node, int] = {}
    held: dict[int, int] = {}

    def new(value: ir.Value | None) -> int:
        values.append(value)
        if value is not None:
            number[value] = len(values) - 1
        return len(values) - 1

    order = list(graph)
    for node in order:
        if is_constant(node):
            continue
        if len(node.outputs) == 1:
            class_of[node] = new(node.outputs[0])
        else:
            class_of[node] = new(None)
            for value in node.outputs:
                new(value)
    for node, cls in class_of.items():
        children = []
        for value in _reads(node):
            if value not in number:
                options.append(_leaf(new(value), costs))
            children.append(number[value])
        if pinned and node in pinned:
            held[len(options)] = pinned[node]
        options.append(Option(cls, tuple(children), costs.vectors(view, node)))
        if len(node.outputs) != 1:
            options += [Option(number[v], (cls,), (), projection=True) for v in node.outputs]
    sizes = _Sizes(lambda cls: infos.get(v, UNKNOWN) if (v := values[cls]) is not None else UNKNOWN, costs)
    incumbent = {option.cls: index for index, option in enumerate(options)}
    roots = tuple(class_of.values())
    return GraphProblem(
        Problem(tuple(options), len(values), roots, costs.engines, sizes.transfer, incumbent, {}, held), class_of
    )


def _reads(node: ir.Node) -> Sequence[ir.Value]:
    """What has to be there before a node runs: operands, and what its bodies read from outside."""
    operands = [v for v in node.inputs if v is not None]
    if bodies(node):
        operands += list(captured_values(node))
    return list(dict.fromkeys(operands))


__all__ = [
    "CONSTANT",
    "LEAF",
    "GraphProblem",
    "egraph_view",
    "is_constant",
    "nothing_made",
    "nothing_shared",
    "pins",
    "problem_of_candidates",
    "problem_of_graph",
]
