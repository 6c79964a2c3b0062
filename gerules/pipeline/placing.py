"""The best engine for every node of a graph that stays as it is: pins and groups held, refusals by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from gerules.errors import Diagnostic, Refused
from gerules.extract import Infeasible, Problem, Solution, solve
from gerules.graph.info import Info
from gerules.pipeline.costs import TargetCosts
from gerules.pipeline.problems import GraphProblem, pins, problem_of_graph
from gerules.pipeline.subject import Subject
from gerules.target.graph_view import GraphView


@dataclass(frozen=True)
class Placement:
    """A graph under its best placement. `engines` is node name -> engine (Constant nodes apart), `groups` the node
    names of each atomic group."""

    engines: Mapping[str, str]
    groups: tuple[tuple[str, ...], ...]
    solution: Solution

    @property
    def cost(self) -> tuple[float, ...]:
        return self.solution.cost


def place(
    graph: ir.Graph, subject: Subject, costs: TargetCosts, infos: Mapping[ir.Value, Info], time_limit: float
) -> Placement:
    """Raises Refused: GR630 with every node that no engine takes, GR711, GR712 (a pin to an engine that does not take
    the node), GR713 (a group that no engine takes whole)."""
    view = subject.view(infos)
    pinned = pins(graph, costs)
    problem = problem_of_graph(graph, view, costs, infos, pinned)
    refuse_unsupported(problem, view, costs, pinned)
    groups = [group for group in costs.target.groups(view, list(problem.class_of)) if len(group) > 1]
    held: dict[ir.Node, frozenset[int]] = {}
    while True:
        try:
            solution = solve(_held(problem, held), time_limit=time_limit)
        except Infeasible as fault:
            raise Refused(_contradictory(problem, held, fault)) from None
        torn = [g for g in groups if g[0] not in held and not _together(g, problem, solution, costs)]
        if not torn:
            break
        for group in torn:
            home = _home(group, problem, view, costs)
            held.update(dict.fromkeys(group, home))
    names = tuple(tuple(node.name or "" for node in group) for group in groups)
    return Placement(problem.placement(solution), names, solution)


def refuse_unsupported(
    problem: GraphProblem, view: GraphView, costs: TargetCosts, pinned: Mapping[ir.Node, int]
) -> None:
    """Raises Refused with all nodes that have no engine, or not the one that they are pinned to."""
    vectors = {option.cls: option.costs for option in problem.problem.options if not option.projection}
    lost_nodes = [n for n, cls in problem.class_of.items() if all(v is None for v in vectors[cls])]
    faults = list(costs.target.unsupported(view, lost_nodes, GraphView.name))
    lost = {d.node for d in faults}
    for node, engine in pinned.items():
        if node.name in lost or node not in problem.class_of:
            continue
        if not costs.target.supported(view, node)[engine]:
            name = costs.engines[engine]
            takes = [e for e, s in zip(costs.engines, costs.target.supported(view, node), strict=False) if s]
            message = f"node {node.name} ({node.op_type}) is pinned to {name}, which does not support it"
            hint = f"{', '.join(takes)} would take it; change its metadata `gerules.engine`"
            faults.append(Diagnostic("GR712", message, node=node.name, hint=hint))
    if faults:
        raise Refused(faults)


def _contradictory(
    problem: GraphProblem, held: Mapping[ir.Node, frozenset[int]], fault: Infeasible
) -> list[Diagnostic]:
    node_of = {cls: node for node, cls in problem.class_of.items()}
    found = []
    for cls in fault.classes:
        node = node_of.get(cls)
        if node is not None:
            message = f"node {node.name} ({node.op_type}) has no engine left that keeps its group whole"
            found.append(Diagnostic("GR713", message, node=node.name, hint="drop the pin of a node, or the group"))
    return found or [Diagnostic("GR713", "no placement keeps all groups whole", hint="drop a pin or a group")]


def _held(problem: GraphProblem, held: Mapping[ir.Node, frozenset[int]]) -> Problem:
    """The problem with some nodes kept to some engines."""
    if not held:
        return problem.problem
    allowed = {problem.class_of[node]: engines for node, engines in held.items()}
    options = tuple(
        option
        if option.leaf or option.projection or option.cls not in allowed
        else replace(
            option,
            costs=tuple(v if engine in allowed[option.cls] else None for engine, v in enumerate(option.costs)),
        )
        for option in problem.problem.options
    )
    return replace(problem.problem, options=options)


def _together(group: Sequence[ir.Node], problem: GraphProblem, solution: Solution, costs: TargetCosts) -> bool:
    """Whether a group lies on one engine, or on parts of one composite."""
    engines = {costs.engines[solution.engine[problem.class_of[node]]] for node in group}
    if len(engines) == 1:
        return True
    return any(engines <= set(parts) for parts in costs.target.parts.values())


def _home(group: Sequence[ir.Node], problem: GraphProblem, view: GraphView, costs: TargetCosts) -> frozenset[int]:
    """The engines of the cheapest engine or composite that takes a whole group."""
    target = costs.target
    place = {engine: k for k, engine in enumerate(target.engines)}
    rows = [target.costs(view, node) for node in group]
    best: tuple[float, frozenset[int]] | None = None
    for parts in [*((e,) for e in target.engines), *target.parts.values()]:
        engines = frozenset(place[e] for e in parts if e in place)
        taken = [[seconds for e in engines if (seconds := row[e]) is not None] for row in rows]
        if not all(taken):
            continue
        total = sum(map(min, taken))
        if best is None or total < best[0]:
            best = (total, engines)
    if best is None:
        names = ", ".join(f"{n.name} ({n.op_type})" for n in group)
        message = f"no engine of {target.name} takes the whole group of {names}"
        raise Refused(
            Diagnostic("GR713", message, node=group[0].name, hint="add `supports` clauses, or drop the group")
        )
    return best[1]
