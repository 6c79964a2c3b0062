"""Mutants of a rewrite: the same rule with one small mistake, as people make them.

A condition is dropped or made weaker, operands or attributes change places, an axis, a number or a version is off by
one, an operator is a relative of the right one. Every mutant is a rule that the checker admits and that reads
differently; what only makes a rule fire less often is none, since it cannot make it wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from gerules.dsl import ast
from gerules.dsl.program import Entry, Program
from gerules.dsl.resolve import DTYPES
from gerules.dsl.rules_check import check_rewrite, strip
from gerules.dsl.show import show
from gerules.dsl.sorts import Report
from gerules.dsl.vocabulary import Vocabulary, vocabulary
from gerules.egraph.program import Knowledge
from gerules.errors import GerulesError
from gerules.verify.mutate_terms import class_changes, side_changes
from gerules.verify.trees import Change, Path, changed

KINDS: Final = ("drop", "weaken", "swap", "shift", "attribute", "version", "operator")
"""What mutants change: a condition that is gone or weaker, the order of operands, a number, a named attribute, the
version of an operator, the operator."""

_TOLERATED = frozenset({"GR145"})  # growth is no question of truth


@dataclass(frozen=True)
class Mutant:
    """One changed rule. `what` says what was changed, for a reader who knows the rule; `label` tells it from the
    others of the rule."""

    rule: str
    kind: str
    label: str
    what: str
    statement: ast.Rewrite
    lost: ast.Expr | None = None
    """The condition that is gone or weaker: the mutant is a mistake only where it does not hold."""


def mutants(entry: Entry[ast.Rewrite], known: Knowledge, words: Vocabulary | None = None) -> Iterator[Mutant]:
    """Every mutant of a rewrite, in a stable order: conditions as they stand, then the left side, then the right.

    `words` is `vocabulary(known.program)`, to be given where many rules are mutated.
    """
    program = known.program
    words = vocabulary(program) if words is None else words
    rule = entry.statement
    seen = {_essence(rule)}
    counts: dict[str, int] = {}
    for change, statement, lost in _changes(entry, known):
        essence = _essence(statement)
        if essence in seen or strip(statement.left) == strip(statement.right):
            continue
        seen.add(essence)
        if not _sound(statement, entry, program, words):
            continue
        number = counts[change.kind] = counts.get(change.kind, 0) + 1
        yield Mutant(entry.full, change.kind, f"{entry.full}~{change.kind}{number}", change.what, statement, lost)


def _essence(rule: ast.Rewrite) -> object:
    """What makes two rules the same: operators, sides and the set of conditions."""
    return rule.over, rule.left, rule.right, frozenset(rule.when)


def _sound(statement: ast.Rewrite, entry: Entry[ast.Rewrite], program: Program, words: Vocabulary) -> bool:
    """Whether the checker admits the rule."""
    report = Report()
    try:
        check_rewrite(program, words, replace(entry, statement=statement, written=statement), report)
    except GerulesError:
        return False
    return not any(d.severity == "error" and d.code not in _TOLERATED for d in report.found)


def _changes(entry: Entry[ast.Rewrite], known: Knowledge) -> Iterator[tuple[Change, ast.Rewrite, ast.Expr | None]]:
    rule, program = entry.statement, known.program
    for number, condition in enumerate(rule.when):
        before, after = rule.when[:number], rule.when[number + 1 :]
        what = f"without `{show(condition)}`"
        yield Change("drop", condition, what), replace(rule, when=(*before, *after)), condition
        for change in _weaker(condition, program):
            weak = replace(rule, when=(*before, change.node, *after))
            yield change, weak, condition
    for change in class_changes(entry, known):
        yield change, replace(rule, over=change.node), None
    for change in side_changes(rule.left, entry, known, made=rule.both):
        yield change, replace(rule, left=change.node), None
    for change in side_changes(rule.right, entry, known, made=True):
        yield change, replace(rule, right=change.node), None


# ---------------------------------------------------------------------------------------------------- weaker conditions


def _weaker(condition: ast.Expr, program: Program) -> Iterator[Change]:
    """The condition with one part that holds more often. A part under `not` has to hold less often instead."""
    for path, part, positive in _parts(condition):
        for other in _relaxed(part, program, whole=not path) if positive else _tightened(part):
            whole = changed(condition, path, other)
            yield Change("weaken", whole, f"`{show(whole)}` for `{show(condition)}`")


def _parts(condition: ast.Expr) -> Iterator[tuple[Path, ast.Expr, bool]]:
    """The conditions within a condition with their paths, and whether the whole holds more often if they do."""
    pending: list[tuple[Path, ast.Expr, bool]] = [((), condition, True)]
    while pending:
        path, part, positive = pending.pop()
        yield path, part, positive
        if isinstance(part, ast.Logical):
            pending += [((*path, ("operands", i)), o, positive) for i, o in reversed(list(enumerate(part.operands)))]
        elif isinstance(part, ast.Unary) and part.op == "not":
            pending.append(((*path, ("operand", None)), part.operand, not positive))
        elif _quantifier(part):
            assert isinstance(part, ast.Call)
            pending.append(((*path, ("operands", 0)), part.operands[0], positive))


def _quantifier(part: ast.Expr) -> str:
    if isinstance(part, ast.Call) and isinstance(part.head, ast.Name) and part.head.id in ("all", "some"):
        return part.head.id if len(part.operands) == 1 else ""
    return ""


def _relaxed(part: ast.Expr, program: Program, whole: bool) -> Iterator[ast.Expr]:
    """What holds more often than a part of a condition; `whole` where the part is all of it."""
    match part:
        case ast.Logical(op="and", operands=operands):
            for number in range(len(operands)):
                rest = operands[:number] + operands[number + 1 :]
                yield rest[0] if len(rest) == 1 else replace(part, operands=rest)
            yield replace(part, op="or")
        case ast.Call() if _quantifier(part) == "all":
            yield replace(part, head=ast.Name("some"))
        case ast.Compare(op="==", left=left, right=right) if _ordered(left) and _ordered(right):
            yield replace(part, op="<=")
            yield replace(part, op=">=")
        case ast.Compare(op=">"):
            yield replace(part, op=">=")
        case ast.Compare(op="<"):
            yield replace(part, op="<=")
        case ast.Compare(op=">=", right=right):
            yield replace(part, right=shifted(right, -1))
        case ast.Compare(op="<=", right=right):
            yield replace(part, right=shifted(right, 1))
        case ast.Compare(op="in", right=right) if whole:
            yield from (replace(part, right=wider) for wider in _wider(right, program))


def _tightened(part: ast.Expr) -> Iterator[ast.Expr]:
    match part:
        case ast.Logical(op="or", operands=operands):
            for number in range(len(operands)):
                rest = operands[:number] + operands[number + 1 :]
                yield rest[0] if len(rest) == 1 else replace(part, operands=rest)
        case ast.Compare(op="in", right=ast.SetExpr(items=items)) if len(items) > 1:
            for number in range(len(items)):
                yield replace(part, right=ast.SetExpr(items[:number] + items[number + 1 :]))


def _ordered(side: ast.Expr) -> bool:
    """Whether this side of an equality may be a number or a list of them: texts and element types have no order."""
    if isinstance(side, ast.Text | ast.Word | ast.Symbol | ast.SetExpr):
        return False
    if isinstance(side, ast.Field) and side.name == "dtype":
        return False
    return not (isinstance(side, ast.Name) and side.id in DTYPES)


def _wider(right: ast.Expr, program: Program) -> Iterator[ast.Expr]:
    """A set with one more element: of element types one of another kind, of numbers the next one."""
    if isinstance(right, ast.SetExpr) and right.items and all(isinstance(i, ast.Number) for i in right.items):
        numbers = [int(i.value) for i in right.items if isinstance(i, ast.Number)]
        for more in (max(numbers) + 1, min(numbers) - 1):
            yield replace(right, items=(*right.items, number(more)))
        return
    held = _element_types(right, program)
    if not held:
        return
    for more_of in _FAMILIES:
        outside = [t for t in more_of if t not in held]
        if outside:
            yield ast.Binary("|", right, ast.SetExpr((ast.Name(outside[0]),)))


_FAMILIES: Final[tuple[tuple[str, ...], ...]] = (
    ("f32", "f16", "f64", "bf16"),
    ("i64", "i32", "i8", "i16"),
    ("u8", "u64", "u16", "u32"),
    ("bool",),
)


def _element_types(expr: ast.Expr, program: Program) -> frozenset[str]:
    """The element types of a set; empty where it is another set, or cannot be read."""
    found: set[str] = set()
    pending: list[ast.Expr] = [expr]
    while pending:
        part = pending.pop()
        if isinstance(part, ast.Binary) and part.op == "|":
            pending += [part.left, part.right]
        elif isinstance(part, ast.SetExpr) and all(isinstance(i, ast.Name) and i.id in DTYPES for i in part.items):
            found |= {i.id for i in part.items if isinstance(i, ast.Name)}
        elif isinstance(part, ast.Symbol):
            found |= program.element_types(part.name) or frozenset()
        else:
            return frozenset()
    return frozenset(found)


def number(value: int | float) -> ast.Expr:
    """A number as it is written: a negative one is a minus before it."""
    return ast.Unary("-", ast.Number(-value)) if value < 0 else ast.Number(value)


def shifted(expr: ast.Expr, by: int) -> ast.Expr:
    """`expr + by`; a literal is computed."""
    if isinstance(expr, ast.Number):
        return number(expr.value + by)
    if isinstance(expr, ast.Unary) and expr.op == "-" and isinstance(expr.operand, ast.Number):
        return number(by - expr.operand.value)
    return ast.Binary("+" if by > 0 else "-", expr, ast.Number(abs(by)))
