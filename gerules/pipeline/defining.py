"""What no engine of a target takes, written out by its definition.

Rules of exactness `defines` say what an operator is by others, and so do the bodies that schemas ship. They save no
cost: where every node has an engine nothing happens here, and a node that has one is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import onnx_ir as ir

from gerules.egraph.choices import NODE, Candidate, Candidates
from gerules.egraph.optimize import Outcome
from gerules.graph import infer_facts
from gerules.pipeline.conversion import Converter
from gerules.pipeline.costs import TargetCosts
from gerules.pipeline.options import Options
from gerules.pipeline.problems import egraph_view, is_constant
from gerules.pipeline.rules import CONVERT, Loaded, load_rules
from gerules.pipeline.subject import Subject
from gerules.target.graph_view import GraphView


@dataclass(frozen=True)
class Defined:
    """What was written out: the rules that are on for it, and what they did."""

    loaded: Loaded
    outcome: Outcome


@dataclass
class Taken:
    """Which nodes of the main graph may be there: those that an engine takes, and those that stay for want of another
    way (`left`). What lies in bodies goes with the node that has them."""

    subject: Subject
    costs: TargetCosts
    left: set[ir.Node] = field(default_factory=set)

    def node(self, view: GraphView, node: ir.Node) -> bool:
        """Whether a node may stay as it is; one of a body that is written out has no graph yet."""
        if node in self.left or is_constant(node) or node.graph not in (None, self.subject.model.graph):
            return True
        return any(self.costs.target.supported(view, node))

    def usable(self, found: Candidates) -> Callable[[Candidate], bool]:
        """Whether a candidate may be chosen."""
        view = egraph_view(found, self.subject.table, self.subject.view({}).operator)
        left = {n.number for n in found.encoded.nodes if n.node in self.left or is_constant(n.node)}

        def may(candidate: Candidate) -> bool:
            if candidate.kind != NODE or candidate.original in left:
                return True
            return any(vector is not None for vector in self.costs.vectors(view, candidate.index))

        return may


def define_missing(subject: Subject, costs: TargetCosts, target: str, options: Options) -> Defined | None:
    """Writes out in place the nodes that no engine takes, as far as their definitions lead to what engines take; None
    where nothing had to be, or could be. The nodes of `subject` have names."""
    taken = Taken(subject, costs)
    view = subject.view(infer_facts(subject.model, subject.dimensions.facts, table=subject.table))
    lost = {node for node in subject.model.graph if not taken.node(view, node)}
    if not lost:
        return None
    loaded = load_rules(
        options.rules,
        only_rules=options.only_rules,
        enable=(*options.enable, "defines"),
        disable=options.disable,
        schedule=CONVERT,
        target=target,
    )
    while not lost <= taken.left:
        outcome = Outcome()
        stuck = Converter(subject, loaded, {}, taken=taken).define(outcome)
        if not stuck:
            return Defined(loaded, outcome) if outcome.changed else None
        taken.left |= {s.node for s in stuck}
    return None


__all__ = ["Defined", "Taken", "define_missing"]
