"""A pattern with its conditions: what `supports`, `cost`, `group` and `flops` statements have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gerules.dsl import ast
from gerules.dsl.program import Program
from gerules.errors import Diagnostic, GerulesError, Refused
from gerules.graph.dims import DimFacts
from gerules.registry.definition import OperatorDef
from gerules.registry.registry import types_only, unchanged
from gerules.static import OPAQUE, Context, Step, Test, solve_steps, split_conditions
from gerules.static.ground import file_context, ground_relations
from gerules.static.values import Value
from gerules.target.matching import Found, Heads, Matcher, OfNode, OfValue, View
from gerules.target.patterns import NODE, compile_node_term, compile_operand, compile_pattern, is_term


class FileNames:
    """What the capital names of operators mean in one file, read as engine files are: at every version. A version
    that is written stands for its whole semantic version."""

    def __init__(self, program: Program, file: ast.RuleFile) -> None:
        self.program = program
        self.file = file
        relations = ground_relations(program)
        self._dtype_attributes = relations.get("dtype_attribute", ())
        self._changes = relations.get("changes", ())
        self._reworded = relations.get("reworded", ())

    def heads(self, symbol: ast.Symbol) -> Heads:
        found = self.program.resolve(symbol, self.file, wide=True)
        if symbol.version is not None and found:
            found = self._same_meaning(found[0])
        return Heads(frozenset(definition.key for definition in found))

    def members(self, domain: ast.Expr) -> Heads:
        keys = self.program.scope.members(domain, self.file, True).keys
        return Heads(frozenset(k for k in keys if k != OPAQUE), OPAQUE in keys)

    def dtype_attribute(self, operator: OperatorDef, attribute: str) -> bool:
        """Whether an attribute names an element type; said of one version it holds for all of the operator."""
        name = operator.key.rpartition("@")[0]
        return any(
            len(row) == 2
            and row[1] == attribute
            and isinstance(row[0], frozenset)
            and any(str(key).rpartition("@")[0] == name for key in row[0])
            for row in self._dtype_attributes
        )

    def _same_meaning(self, definition: OperatorDef) -> tuple[OperatorDef, ...]:
        """The versions of an operator between which only admitted types moved."""
        chain = self.program.scope.every_version(definition.domain, definition.name)
        place = next((i for i, d in enumerate(chain) if d.key == definition.key), None)
        if place is None:
            return (definition,)  # one that was deprecated at once stands in no chain
        first = last = place
        while first > 0 and self._only_types(chain[first - 1], chain[first]):
            first -= 1
        while last + 1 < len(chain) and self._only_types(chain[last], chain[last + 1]):
            last += 1
        return chain[first : last + 1]

    def _only_types(self, older: OperatorDef, newer: OperatorDef) -> bool:
        if unchanged(older, newer):
            return _named(self._reworded, newer)
        return types_only(older, newer) and not _named(self._changes, newer)


def _named(rows: Sequence[tuple[Value, ...]], operator: OperatorDef) -> bool:
    """Whether a version stands in a relation over operators."""
    return any(len(r) == 1 and isinstance(r[0], frozenset) and operator.key in r[0] for r in rows)


@dataclass(frozen=True)
class Surroundings:
    """A file's names and the context of its expressions."""

    names: FileNames
    context: Context

    @staticmethod
    def of(
        program: Program,
        file: ast.RuleFile,
        facts: DimFacts | None = None,
        names: Mapping[str, Value] | None = None,
        relations: Mapping[str, Sequence[tuple[Value, ...]]] | None = None,
    ) -> Surroundings:
        return Surroundings(
            FileNames(program, file), file_context(program, file, facts, wide=True, names=names, relations=relations)
        )


@dataclass(frozen=True)
class _Term:
    """A term among the conditions: what `name` stands for has this form."""

    name: str
    of_node: OfNode | None
    of_value: OfValue | None

    def matches(self, view: View, found: Found) -> Iterator[Found]:
        behind = found.behind.get(self.name)
        if self.of_node is not None:
            yield from self.of_node(view, behind, found)
        elif self.of_value is not None:
            yield from self.of_value(view, behind, False, found)


@dataclass(frozen=True)
class Clause:
    """A matcher with the conditions on a match. `names` are all variables bound where both hold."""

    matcher: Matcher
    terms: tuple[_Term, ...]
    steps: tuple[Step, ...]
    names: frozenset[str]
    flat: bool

    def solutions(self, view: View, node: Any) -> Iterator[Found]:
        """Every match at a node whose conditions are known to hold."""
        for found in self.matcher.found(view, node):
            for inner in self._with_terms(view, found, 0):
                for env in solve_steps(self.steps, dict(inner.env)):
                    yield Found(env, inner.behind, inner.nodes)

    def holds(self, view: View, node: Any) -> bool:
        return next(self.solutions(view, node), None) is not None

    def failing(self, view: View, node: Any) -> ast.Expr | None:
        """The first condition that is not known to hold at a node of the right operator; None where already the
        pattern does not match, or all hold."""
        for found in self.matcher.found(view, node):
            env = dict(found.env)
            for step in self.steps:
                if next(solve_steps((step,), env), None) is None:
                    return step.expr
            return None
        return None

    def _with_terms(self, view: View, found: Found, index: int) -> Iterator[Found]:
        if index == len(self.terms):
            yield found
            return
        for after in self.terms[index].matches(view, found):
            yield from self._with_terms(view, after, index + 1)


def compile_clause(
    pattern: ast.Expr, over: Sequence[ast.Member], when: Sequence[ast.Expr], around: Surroundings
) -> Clause:
    """A clause of a statement. Raises GerulesError with every fault found."""
    matcher = compile_pattern(pattern, over, around.names, around.context)
    names: Mapping[str, str] = matcher.names
    terms: list[_Term] = []
    flat = matcher.flat
    rest: list[ast.Expr] = []
    for condition in when:
        if not is_term(condition):
            rest.append(condition)
            continue
        term, names, asks = _compile_term(condition, over, names, around)
        terms.append(term)
        flat = flat and not asks
    steps = split_conditions(rest, names, around.context)
    bound = set(names)
    for step in steps:
        if not isinstance(step, Test):
            bound.update(step.names)
    return Clause(matcher, tuple(terms), steps, frozenset(bound), flat)


def _compile_term(
    condition: ast.Expr, over: Sequence[ast.Member], names: Mapping[str, str], around: Surroundings
) -> tuple[_Term, Mapping[str, str], bool]:
    if not isinstance(condition, ast.Bind) or condition.name not in names:
        message = "a term among these conditions says of what it speaks"
        raise Refused(Diagnostic("GR602", message, span=condition.span, hint="name an operand: `const(_) as x`"))
    if names[condition.name] == NODE:
        of_node, after = compile_node_term(condition.expr, over, around.names, around.context, names)
        return _Term(condition.name, of_node, None), after, True
    of_value, after, asks = compile_operand(condition.expr, over, around.names, around.context, names)
    return _Term(condition.name, None, of_value), after, asks


def collect(faults: list[Diagnostic], error: GerulesError) -> None:
    faults.extend(d for d in error.diagnostics if d not in faults)
