"""What a node does, in numbers: flops, bytes, elements (CONTRACTS, Cost).

`flops` is what `rules/ops.rules` says by facts `flops(y) == ... when ...`, else the elements of the results; `bytes`
is every operand once and all results; `elements` are those of all results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gerules.dsl import ast
from gerules.dsl.program import Program
from gerules.errors import Diagnostic, GerulesError, Refused
from gerules.registry.definition import OperatorDef
from gerules.static import Unknown, compile_expr
from gerules.static.evaluate import ValueOf
from gerules.static.values import is_number
from gerules.target.clauses import Clause, Surroundings, collect, compile_clause
from gerules.target.matching import View
from gerules.target.sizes import USUAL, Likely, SizedView

ELEMENT_BYTES = 4
"""Bytes that an element of something that is no tensor is taken to have."""


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """Figures of one node in one scenario; `assumed` where a size was."""

    flops: float
    bytes: float
    elements: float
    assumed: bool = False


@dataclass(frozen=True)
class _FlopsRule:
    clause: Clause
    value: ValueOf


class Figures:
    """The figures of nodes, by the facts of a program at likely sizes. Raises GerulesError for a faulty flops fact."""

    def __init__(self, program: Program, likely: Likely) -> None:
        self.likely = likely
        self._rules = _flops_rules(program)
        self._by_operator: dict[str, tuple[_FlopsRule, ...]] = {}

    def of(self, view: SizedView, node: Any) -> NodeFigures:
        """Figures of a node in the scenario of the view."""
        elements, size = 0.0, 0.0
        assumed = view.assumed(node)
        for value in view.results(node):
            if value is not None:
                count, width = _extent_of(view, value)
                elements += count
                size += width
        for value in dict.fromkeys(v for v in view.operands(node) if v is not None):
            size += _extent_of(view, value)[1]
        flops = self._flops(view, node)
        return NodeFigures(elements if flops is None else flops, size, elements, assumed)

    def flat(self, operator: OperatorDef) -> bool:
        """Whether the figures of such nodes depend on nothing beyond the node and what is known of its operands."""
        return all(rule.clause.flat for rule in self._candidates(operator))

    def _flops(self, view: View, node: Any) -> float | None:
        for rule in self._candidates(view.operator(node)):
            for found in rule.clause.solutions(view, node):
                try:
                    value = rule.value(found.env)
                except Unknown:
                    continue
                if is_number(value):
                    return float(value)  # type: ignore[arg-type]
        return None

    def _candidates(self, operator: OperatorDef) -> tuple[_FlopsRule, ...]:
        key = operator.key
        if key not in self._by_operator:
            self._by_operator[key] = tuple(r for r in self._rules if r.clause.matcher.heads.admits(operator))
        return self._by_operator[key]


def _extent_of(view: SizedView, value: Any) -> tuple[float, float]:
    """Elements and bytes of a value."""
    info = view.tensor(value).info
    elements, size = info.size(), info.bytes()
    if elements is None or size is None or elements.value is None or size.value is None:
        return float(USUAL), float(USUAL * ELEMENT_BYTES)
    return float(elements.value), float(size.value)


def _flops_rules(program: Program) -> tuple[_FlopsRule, ...]:
    rules: list[_FlopsRule] = []
    faults: list[Diagnostic] = []
    around: dict[str, Surroundings] = {}
    for entry in program.facts.values():
        for conclusion in entry.statement.conclusions:
            parts = _flops_of(conclusion)
            if parts is None:
                continue
            surroundings = around.setdefault(entry.file.path, Surroundings.of(program, entry.file))
            try:
                rules.append(_compile(entry.statement, *parts, surroundings))
            except GerulesError as error:
                collect(faults, error)
    if faults:
        raise Refused(faults)
    return tuple(rules)


def _flops_of(conclusion: ast.Expr) -> tuple[str, ast.Expr] | None:
    """The variable and the value of `flops(y) == value`."""
    match conclusion:
        case ast.Compare(
            op="==", left=ast.Call(head=ast.Name(id="flops"), operands=(ast.Name(id=variable),)), right=value
        ):
            return variable, value
    return None


def _compile(fact: ast.Fact, variable: str, value: ast.Expr, around: Surroundings) -> _FlopsRule:
    root = next((c for c in fact.when if isinstance(c, ast.Bind) and c.name == variable), None)
    if root is None:
        message = f"flops of `{variable}`: no condition says what operator it is the result of"
        raise Refused(
            Diagnostic("GR603", message, span=fact.span, hint=f"write `when MatMul(a, b) as {variable}, ...`")
        )
    others = [c for c in fact.when if c is not root]
    return _FlopsRule(compile_clause(root, fact.over, others, around), compile_expr(value, around.context))


def sized_views(view: View, likely: Likely) -> Sequence[SizedView]:
    """The view in each scenario."""
    return tuple(SizedView(view, likely, scenario) for scenario in range(likely.scenarios))


def variables(figures: NodeFigures) -> Mapping[str, float]:
    """The free names of a cost expression."""
    return {"flops": figures.flops, "bytes": figures.bytes, "elements": figures.elements}
