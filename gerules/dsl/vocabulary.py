"""Every small-letter name that rules of a program may apply: built-in terms and functions, tables, host functions,
and the relations that facts conclude."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gerules.dsl import ast
from gerules.dsl.lets import walk
from gerules.dsl.program import Program
from gerules.dsl.suggest import did_you_mean

VALUE_TERMS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "const": (("v", "static"),),
    "splat": (("v", "static"), ("s", "list")),
    "dims": (("s", "list"),),
    "dim": (("d", "scalar"),),
    "iota": (("s", "list"), ("axis", "scalar")),
}
"""Terms that give a tensor by its contents, with their operands: name and sort."""

BUILTIN_FUNCTIONS: Mapping[str, tuple[int, int | None]] = {
    "broadcast": (1, None),
    "product": (1, 1),
    "sum": (1, None),
    "all": (1, 1),
    "some": (1, 1),
    "range": (1, 2),
    "lower": (1, 1),
    "upper": (1, 1),
    "operators": (1, 1),
    "rulesets": (1, None),
}
"""Functions of the language itself, with the least and the greatest number of operands."""

QUANTIFIERS = ("all", "some")

BUILTIN_RELATIONS: Mapping[str, int] = {"likely": 2}

ENGINE_TABLES = frozenset(
    {"bump", "types_only", "unchanged", "grows", "has_body", "part", "placed", "supported", "target", "instance_of"}
)
"""Tables that the engine fills: what the registries say, and what placement decided."""

SIGNATURE_TABLES = frozenset(
    {
        "parameter", "beyond", "default", "kind_of", "registered", "node", "connected", "written", "policy", "past",
        "value", "gives", "used", "count", "fits",
    }
)  # fmt: skip
"""Tables about two registries and the nodes of a graph, filled where a graph is converted between releases."""

TENSOR_FIELDS = ("shape", "rank", "dtype", "size", "bytes")
LIST_FIELDS = ("size", "rank")
MERGE_FIELDS = ("engine", "stream", "label", "dynamic", "size", "dtype", "op")

COLUMN_TYPES = (
    "op", "node", "engine", "str", "strs", "int", "ints", "float", "floats", "bool", "dtype", "shape", "dim", "mask",
    "value", "any", "term", "const", "tensor",
)  # fmt: skip


@dataclass(frozen=True)
class Vocabulary:
    """Callable names of one program, computed once."""

    program: Program
    relations: Mapping[str, int] = field(default_factory=dict)  # concluded by facts, with their number of columns
    bounded: frozenset[str] = frozenset()  # of these, those that some fact concludes with `<=` or `>=`

    def is_function(self, name: str) -> bool:
        return name in BUILTIN_FUNCTIONS or name in self.program.functions

    def is_relation(self, name: str) -> bool:
        return name in self.relations or name in self.program.tables or name in BUILTIN_RELATIONS

    def knows(self, name: str) -> bool:
        return name in VALUE_TERMS or self.is_function(name) or self.is_relation(name) or name in self.program.lets

    def names(self) -> Iterator[str]:
        yield from VALUE_TERMS
        yield from BUILTIN_FUNCTIONS
        yield from BUILTIN_RELATIONS
        yield from self.program.functions
        yield from self.program.tables
        yield from self.program.lets
        yield from self.relations

    def hint(self, name: str) -> str | None:
        """What an unknown function or relation may have meant."""
        registry = self.program.registry
        same = [n for n in registry.names("") if n.lower() == name.lower()]
        if same:
            return f"the operator is `{same[0]}`: operators have capitals"
        return (
            did_you_mean(name, self.names())
            or "functions are declared with `function`, relations by the facts that conclude them"
        )


def conclusion_heads(conclusion: ast.Expr) -> tuple[ast.Call, ...]:
    """The applied names in a conclusion: `p(x)`, or those on the left of `p(x) == v`, `p(x) <= v`."""
    if isinstance(conclusion, ast.Call):
        return (conclusion,)
    if isinstance(conclusion, ast.Compare):
        return tuple(n for n in walk(conclusion.left) if isinstance(n, ast.Call))
    return ()


def vocabulary(program: Program) -> Vocabulary:
    """Collect what the facts of a program conclude."""
    relations: dict[str, int] = {}
    bounded: set[str] = set()
    taken = {*VALUE_TERMS, *BUILTIN_FUNCTIONS, *BUILTIN_RELATIONS, *program.functions, *program.lets}
    for entry in program.facts.values():
        for conclusion in entry.statement.conclusions:
            for call in conclusion_heads(conclusion):
                if not isinstance(call.head, ast.Name) or call.head.id in taken:
                    continue
                name = call.head.id
                if any(member.name == name for member in entry.statement.over):
                    continue
                relations.setdefault(name, len(call.operands))
                if isinstance(conclusion, ast.Compare) and conclusion.op in ("<=", ">="):
                    bounded.add(name)
    return Vocabulary(program, relations, frozenset(bounded))
