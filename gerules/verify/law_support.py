"""What a `supports` clause names is there: operators, attributes, element types that the schemas admit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gerules.dsl import ast
from gerules.dsl.lets import walk
from gerules.dsl.program import Entry, Program
from gerules.errors import GerulesError
from gerules.graph.dims import DimFacts
from gerules.registry.definition import OperatorDef
from gerules.static import Context, Unknown, compile_expr
from gerules.static.context import DTYPES
from gerules.target.engines import surroundings
from gerules.verify.verdict import CaseVerdict


def check_supports(program: Program, entry: Entry[ast.Engine]) -> Iterator[CaseVerdict]:
    """A verdict for each `supports` clause of an engine, in order."""
    context = surroundings(program, entry.file, DimFacts(), (), {}).context
    clauses = [c for c in entry.statement.clauses if isinstance(c, ast.Supports)]
    for number, clause in enumerate(clauses):
        member = f"supports {number + 1}"
        try:
            faults, count = _checked(program, entry.file, clause, context)
        except GerulesError as fault:
            yield CaseVerdict(entry.full, member, "", "unknown", fault.diagnostics[0].message)
            continue
        if faults:
            yield CaseVerdict(entry.full, member, "", "refuted", "; ".join(faults), drawn=count)
        else:
            yield CaseVerdict(entry.full, member, "", "tested", f"{count} names are in the schemas", count, count)


def _checked(program: Program, file: ast.RuleFile, clause: ast.Supports, context: Context) -> tuple[list[str], int]:
    """What a clause names and no schema has, and how much it names."""
    call = _call(clause.pattern)
    operators = _operators(program, file, clause, call)
    faults: list[str] = []
    count = len(operators)
    called = _called(operators)
    for keyword in call.keywords:
        count += 1
        if operators and not any(a.name == keyword.name for d in operators for a in d.attributes):
            faults.append(f"no version of {called} has an attribute {keyword.name}")
    places = dict(_places(clause.pattern, call))
    for name, dtype in dict.fromkeys(_types(clause.when, context)):
        if name in places:
            count += 1
            if operators and not any(dtype in _admitted(d, places[name]) for d in operators):
                faults.append(f"no version of {called} admits {dtype} for {name}")
    return faults, count


def _call(pattern: ast.Expr) -> ast.Call:
    while isinstance(pattern, (ast.Bind, ast.Index)):
        pattern = pattern.expr if isinstance(pattern, ast.Bind) else pattern.base
    assert isinstance(pattern, ast.Call)
    return pattern


def _operators(program: Program, file: ast.RuleFile, clause: ast.Supports, call: ast.Call) -> Sequence[OperatorDef]:
    if isinstance(call.head, ast.Name):
        domain = next(m.domain for m in clause.over if m.name == call.head.id)
        return program.members(domain, file, True)
    return program.resolve(call.head, file, True) if isinstance(call.head, ast.Symbol) else ()


def _called(operators: Sequence[OperatorDef]) -> str:
    names = list(dict.fromkeys(d.name for d in operators))
    return " or ".join(names) if len(names) <= 4 else f"{names[0]}, {names[1]} and {len(names) - 2} others"


def _places(pattern: ast.Expr, call: ast.Call) -> Iterator[tuple[str, int]]:
    """Variables of a pattern with the operand that they stand for; -1 for what names the result."""
    if isinstance(pattern, ast.Bind):
        yield pattern.name, -1
    for place, operand in enumerate(call.operands):
        if isinstance(operand, ast.Rest):
            return
        inner: ast.Expr | ast.Rest = operand
        while isinstance(inner, ast.Bind):
            yield inner.name, place
            inner = inner.expr
        if isinstance(inner, ast.Name) and inner.id != "_":
            yield inner.id, place


def _types(conditions: Sequence[ast.Expr], context: Context) -> Iterator[tuple[str, str]]:
    """Variables with the element types that conditions name for them."""
    for node in (n for c in conditions if not _negated(c) for n in walk(c)):
        match node:
            case ast.Compare(op="in" | "==", left=ast.Field(base=ast.Name(id=name), name="dtype"), right=right):
                try:
                    value = compile_expr(right, context)({})
                except (Unknown, GerulesError):
                    continue
                named = value if isinstance(value, (frozenset, tuple)) else (value,)
                yield from ((name, t) for t in sorted(map(str, named)) if t in DTYPES)


def _negated(condition: ast.Expr) -> bool:
    return isinstance(condition, ast.Unary) and condition.op == "not"


def _admitted(operator: OperatorDef, place: int) -> frozenset[str]:
    formals = operator.outputs if place < 0 else operator.inputs
    if not formals:
        return frozenset()
    formal = formals[min(max(place, 0), len(formals) - 1)]
    return formal.types or frozenset(DTYPES)
