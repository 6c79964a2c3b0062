"""What rule files say of nodes that cannot be converted: `deny` statements of the rulesets that conversions run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from gerules.dsl import ast
from gerules.dsl.program import Entry, Program
from gerules.errors import GerulesError
from gerules.static import NodeView, TensorView
from gerules.target.clauses import Clause, Surroundings, compile_clause
from gerules.target.graph_view import GraphView
from gerules.target.matching import Found
from gerules.target.patterns import is_term

_HOLE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class _Denial:
    statement: ast.Refuse
    clause: Clause


@dataclass(frozen=True)
class Denials:
    """The denies of a program that are about one node each, for one target. Conditions may ask `target(domain,
    version)` beside what patterns of engines may ask."""

    entries: tuple[_Denial, ...]

    @classmethod
    def of(cls, program: Program, rulesets: Iterable[str], target: Mapping[str, int]) -> Denials:
        """Those of rulesets (files or folders). A deny that begins with no operator speaks of something else."""
        names = tuple(rulesets)
        rows = tuple((domain or "ai.onnx", version) for domain, version in sorted(target.items()))
        made: list[_Denial] = []
        for entry in program.refuses.values():
            inside = any(entry.ruleset == n or entry.ruleset.startswith(n + "/") for n in names)
            if inside and entry.statement.severity == "deny":
                made += _compiled(program, entry, rows)
        return cls(tuple(made))

    def reason(self, view: GraphView, node: ir.Node) -> str | None:
        """What the first deny that holds of a node says; None where none does."""
        for denial in self.entries:
            for found in denial.clause.solutions(view, node):
                return _filled(denial.statement.message, view, found)
        return None


def _compiled(program: Program, entry: Entry[ast.Refuse], target: tuple[tuple[str, int], ...]) -> list[_Denial]:
    statement = entry.statement
    first = next((c for c in statement.when if is_term(c)), None)
    if first is None:
        return []
    around = Surroundings.of(program, entry.file, relations={"target": target})
    try:
        clause = compile_clause(first, statement.over, [c for c in statement.when if c is not first], around)
    except GerulesError:
        return []  # it asks what is not known of a node: whoever runs that says so
    return [_Denial(statement, clause)]


def _filled(message: str, view: GraphView, found: Found) -> str:
    def text(match: re.Match[str]) -> str:
        name = match[1]
        behind = found.behind.get(name)
        if isinstance(behind, ir.Node):
            return view.name(behind)
        value = found.env.get(name)
        if isinstance(behind, ir.Value) and isinstance(value, (NodeView, TensorView)):
            return behind.name or "a value"
        if isinstance(value, (tuple, list)):
            return f"[{', '.join(map(str, value))}]"
        return str(value)

    return _HOLE.sub(text, message)


__all__ = ["Denials"]
