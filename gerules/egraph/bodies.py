"""Which operators are written out as the body of their schema, by which rule, and at which nodes.

A rule `f(..r) => body(f, ..r)` has no instance in the e-graph: a body is written out for one node, where nothing else
makes it (`gerules.egraph.convert`). What its conditions ask beyond operators is asked of that node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from gerules.dsl import ast
from gerules.dsl.protocols import RegistryLike
from gerules.egraph.lower import is_body_rule
from gerules.egraph.optimize import Engine
from gerules.egraph.terms import Misfit, refuse
from gerules.graph.constants import ConstantTable
from gerules.graph.dims import Dim, DimFacts
from gerules.graph.info import UNKNOWN, Info
from gerules.registry.definition import OperatorDef
from gerules.target.clauses import Clause, Surroundings, compile_clause
from gerules.target.graph_view import GraphView


class NodeView(GraphView):
    """Nodes at operator versions of their own, as patterns see them."""

    def __init__(
        self,
        infos: Mapping[ir.Value, Info],
        define: Callable[[ir.Node], OperatorDef | None],
        registry: RegistryLike,
        table: ConstantTable,
    ) -> None:
        super().__init__(infos, {}, registry, table)
        self._definition = define

    def operator(self, node: ir.Node) -> OperatorDef:
        return self._definition(node) or OperatorDef(node.domain, node.op_type, "", (), (), ())

    def known(self, value: ir.Value) -> Info:
        """What is known of a value."""
        return self._infos.get(value, UNKNOWN)


@dataclass(frozen=True)
class BodyRule:
    """A rule by which an operator may be written out; `clause` asks the node, None where nothing is left to ask."""

    name: str
    clause: Clause | None

    def holds(self, view: NodeView, node: ir.Node) -> bool:
        return self.clause is None or self.clause.holds(view, node)


def body_rules(engine: Engine, facts: DimFacts) -> dict[str, tuple[BodyRule, ...]]:
    """Key of each definition that may be written out -> the rules that say so. Raises Refused (GR501) for a rule whose
    body is not given what its operator is given, GR600 and the like for conditions that cannot be asked of a node."""
    program, ground = engine.rules.program, engine.known.ground
    found: dict[str, list[BodyRule]] = {}
    for name in engine.rules.rewrites:
        entry = program.rewrites[name]
        rule = entry.statement
        if not is_body_rule(rule):
            continue
        left = rule.left.expr if isinstance(rule.left, ast.Bind) else rule.left
        if not _as_given(left, rule.right):
            raise refuse(name, Misfit("a body takes what its operator takes, all of it and in this order", rule.right))
        clauses: dict[tuple[ast.Expr, ...], Clause | None] = {}
        assert isinstance(left, ast.Call)
        plain = len(left.operands) == 1 and isinstance(left.operands[0], ast.Rest) and not left.keywords
        for params, when in ground.instances(rule.over, rule.when, entry.file):
            rest = tuple(when)
            if rest not in clauses:
                around = Surroundings.of(program, entry.file, facts)
                asks = bool(rest) or not plain
                clauses[rest] = compile_clause(rule.left, rule.over, rest, around) if asks else None
            for value in params.values():
                if isinstance(value, OperatorDef):
                    found.setdefault(value.key, []).append(BodyRule(name, clauses[rest]))
    return {key: tuple(rules) for key, rules in found.items()}


def _as_given(left: ast.Expr, right: ast.Expr) -> bool:
    if not (isinstance(left, ast.Call) and isinstance(right, ast.Call) and right.operands):
        return False
    return right.operands[0] == left.head and right.operands[1:] == left.operands and right.keywords == left.keywords


def nothing(operand: Info) -> bool:
    """Whether an operand is known to have no elements; a list of axes may be empty."""
    listed = operand.dtype == "i64" and len(operand.shape or ()) == 1
    return not listed and operand.shape is not None and Dim.of(0) in operand.shape


__all__ = ["BodyRule", "NodeView", "body_rules", "nothing"]
