"""Rules that would have helped a node that is stuck: of its forms in the e-graph one matches, and a condition does not
hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gerules.dsl import ast
from gerules.dsl.lets import walk
from gerules.dsl.program import Entry
from gerules.dsl.show import show
from gerules.egraph.program import Knowledge
from gerules.egraph.session import ENode, Saturated
from gerules.egraph.signature import RESULTS
from gerules.errors import GerulesError
from gerules.graph.constants import ConstantError, ConstantTable, decode
from gerules.graph.info import UNKNOWN
from gerules.registry.definition import OperatorDef
from gerules.static import TensorView
from gerules.target.clauses import Clause, Surroundings, compile_clause

VERSIONS = "compat/onnx"
"""What the rulesets begin with whose rules are told of."""


@dataclass(frozen=True)
class Near:
    """A rule, and the condition of it that is not known to hold, as written."""

    rule: str
    condition: str


@dataclass(frozen=True)
class ClassView:
    """The e-nodes of a saturated graph as patterns see them: values are classes, and a class has many producers."""

    saturated: Saturated
    table: ConstantTable
    members: Mapping[int, Sequence[ENode]] = field(default_factory=dict)

    @classmethod
    def of(cls, saturated: Saturated, table: ConstantTable) -> ClassView:
        members: dict[int, list[ENode]] = {}
        for node in saturated.nodes:
            if node.signature is not None:
                members.setdefault(node.cls, []).append(node)
        return cls(saturated, table, members)

    def forms(self, value: int) -> Iterator[ENode]:
        """What a value can be made by, several results included."""
        yield from self.members.get(value, ())
        for cls, node_class, _ in self.saturated.projections:
            if cls == value:
                yield from self.members.get(node_class, ())

    def operator(self, node: ENode) -> OperatorDef:
        assert node.signature is not None
        return node.signature.definition

    def attributes(self, node: ENode) -> Mapping[str, str]:
        assert node.signature is not None
        named = zip((a.name for a in node.signature.attributes), node.columns, strict=False)
        return {name: text for name, text in named if name != RESULTS}

    def operands(self, node: ENode) -> Sequence[int | None]:
        return node.children

    def results(self, node: ENode) -> Sequence[int | None]:
        assert node.signature is not None
        if not node.signature.several:
            return (node.cls,)
        places = {place: cls for cls, node_class, place in self.saturated.projections if node_class == node.cls}
        return tuple(places.get(place) for place in range(max(places, default=-1) + 1))

    def producers(self, value: int) -> Sequence[ENode]:
        return tuple(self.forms(value))

    def tensor(self, value: int) -> TensorView:
        info = self.saturated.infos.get(value, UNKNOWN)
        text = self.saturated.constants.get(value)
        try:
            return TensorView(info, None if text is None else decode(text, self.table))
        except ConstantError:
            return TensorView(info)


@dataclass(frozen=True)
class _Side:
    """A rule read in one direction. For each operator that its pattern may begin with (by semantic version) `makes` are
    the operators of what it makes, for each of its instances."""

    rule: str
    clause: Clause
    makes: Mapping[str, tuple[tuple[OperatorDef, ...], ...]]


def nearly(
    known: Knowledge,
    view: ClassView,
    value: int,
    operator: str,
    usable: Callable[[OperatorDef], bool],
    rules: Sequence[str],
) -> tuple[Near, ...]:
    """The rules among `rules` that match `value` as a version of `operator`, make what is `usable` at the target alone,
    and do not fire for one condition; in order of the rules."""
    forms = [node for node in view.forms(value) if view.operator(node).name == operator]
    found: dict[Near, None] = {}
    for rule in rules:
        for side in _sides(known, rule):
            for node in forms:
                makes = side.makes.get(known.semantic(view.operator(node)), ())
                if not any(all(map(usable, made)) for made in makes):
                    continue
                failing = side.clause.failing(view, node)
                if failing is not None:
                    found.setdefault(Near(rule, show(failing)))
    return tuple(found)


def _sides(known: Knowledge, rule: str) -> tuple[_Side, ...]:
    key = f"nearly {rule}"
    if key not in known.kept:
        known.kept[key] = tuple(_read(known, rule)) if rule.startswith(VERSIONS) else ()
    sides = known.kept[key]
    assert isinstance(sides, tuple)
    return sides


def _read(known: Knowledge, rule: str) -> Iterator[_Side]:
    entry = known.program.rewrites[rule]
    statement = entry.statement
    instances = list(known.ground.instances(statement.over, statement.when, entry.file))
    if not instances or not instances[0][1]:
        return  # without conditions of its own it fires wherever it matches
    around = Surroundings.of(known.program, entry.file)
    for left, right in ((statement.left, statement.right), (statement.right, statement.left))[: 1 + statement.both]:
        try:
            clause = compile_clause(left, statement.over, instances[0][1], around)
        except GerulesError:
            continue  # it asks what is not known of e-nodes
        makes: dict[str, list[tuple[OperatorDef, ...]]] = {}
        for params, _ in instances:
            made = tuple(_operators(known, right, params, entry))
            for first in _operators(known, _head(left), params, entry):
                makes.setdefault(known.semantic(first), []).append(made)
        yield _Side(rule, clause, {k: tuple(v) for k, v in makes.items()})


def _head(expr: ast.Expr) -> ast.Node:
    """What a pattern begins with."""
    while isinstance(expr, ast.Bind | ast.Index):
        expr = expr.expr if isinstance(expr, ast.Bind) else expr.base
    return expr.head if isinstance(expr, ast.Call) else expr


def _operators(
    known: Knowledge, expr: ast.Node, params: Mapping[str, object], entry: Entry[ast.Rewrite]
) -> Iterator[OperatorDef]:
    """The operators that an expression names, parameters replaced."""
    for node in walk(expr):
        value = params.get(node.id) if isinstance(node, ast.Name) else None
        if isinstance(value, OperatorDef):
            yield value
        elif isinstance(node, ast.Symbol):
            yield from known.program.resolve(node, entry.file)[:1]


__all__ = ["ClassView", "Near", "nearly"]
