"""What rule files say outright: facts without a condition, as rows; and the context that a file's expressions have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product

from gerules.dsl import ast
from gerules.dsl.program import Entry, Program
from gerules.errors import GerulesError
from gerules.graph.dims import Dim, DimFacts
from gerules.registry.definition import OperatorDef
from gerules.static.context import Context
from gerules.static.evaluate import compile_expr
from gerules.static.values import OPAQUE, Unknown, Value

Row = tuple[Value, ...]


def file_context(
    program: Program,
    file: ast.RuleFile,
    facts: DimFacts | None = None,
    *,
    wide: bool = False,
    names: Mapping[str, Value] | None = None,
    relations: Mapping[str, Sequence[Row]] | None = None,
) -> Context:
    """The context of a file's expressions: its classes, its operators (`wide`, as engine files read them: at every
    version), other capital `names` (engines, memories), and the relations given beside the ground facts."""
    classes = program.wide_classes if wide else program.classes
    given = names or {}

    def symbol(written: ast.Symbol) -> Value:
        if written.version is None and not written.domain and written.name in given:
            return given[written.name]
        if written.name == OPAQUE and not written.domain:
            return frozenset((OPAQUE,))
        try:
            found = program.resolve(written, file, wide)
        except GerulesError:
            if written.domain or written.version is not None:
                raise
            return Dim.symbol(written.name)
        return frozenset(definition.key for definition in found)

    return Context(
        facts=facts or DimFacts(),
        classes={name: frozenset(members.keys) for name, members in classes.items() if name not in given},
        symbol=symbol,
        relations={**ground_relations(program), **(relations or {})},
    )


def ground_relations(program: Program) -> Mapping[str, tuple[Row, ...]]:
    """The rows of every relation that facts without conditions conclude (`neutral_right(Sub, 0)`), in order. An
    operator is the frozenset of the keys of all its versions, or of the one that is written."""
    return _cached_rows(_Identity(program))


class _Identity:
    """A program as the key of a cache: itself, not what it holds."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def __hash__(self) -> int:
        return id(self.program)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.program is self.program


@lru_cache(maxsize=8)
def _cached_rows(identity: _Identity) -> Mapping[str, tuple[Row, ...]]:
    program = identity.program
    found: dict[str, list[Row]] = {}
    for entry in program.facts.values():
        if entry.statement.when:
            continue
        for conclusion in entry.statement.conclusions:
            if isinstance(conclusion, ast.Call) and isinstance(conclusion.head, ast.Name) and not conclusion.keywords:
                found.setdefault(conclusion.head.id, []).extend(_rows(program, entry, conclusion))
    return {name: tuple(rows) for name, rows in found.items()}


def _rows(program: Program, entry: Entry[ast.Fact], conclusion: ast.Call) -> Iterator[Row]:
    over = entry.statement.over
    choices = [program.members(member.domain, entry.file) for member in over]
    for chosen in product(*choices):
        operators: dict[str, OperatorDef] = {m.name: d for m, d in zip(over, chosen, strict=True)}
        row = tuple(_argument(program, entry.file, operand, operators) for operand in conclusion.operands)
        if not any(isinstance(v, Unknown) for v in row):
            yield row


def _argument(program: Program, file: ast.RuleFile, operand: ast.Expr, operators: Mapping[str, OperatorDef]) -> Value:
    if isinstance(operand, ast.Symbol):
        try:
            return frozenset(d.key for d in program.resolve(operand, file, wide=True))
        except GerulesError:
            return Dim.symbol(operand.name)
    if isinstance(operand, ast.Name) and operand.id in operators:
        return frozenset((operators[operand.id].key,))
    try:
        return compile_expr(operand, Context())({})
    except Unknown as unknown:
        return unknown
