"""Checks of rewrites, facts and denies: sides, growth, conclusions, holes of messages."""

from __future__ import annotations

import re

from gerules.dsl import ast
from gerules.dsl.absence import check_absence
from gerules.dsl.element_types import types_listed
from gerules.dsl.lets import children, walk
from gerules.dsl.program import Entry, Program
from gerules.dsl.rule import Rule
from gerules.dsl.suggest import did_you_mean, listed
from gerules.dsl.terms import NODE, TENSOR, Report
from gerules.dsl.vocabulary import ENGINE_TABLES, VALUE_TERMS, Vocabulary, conclusion_heads
from gerules.errors import Label, Span

HOLE = re.compile(r"\{([^{}]*)\}")


def strip(node: ast.Node) -> ast.Node:
    """Without the `as y` outside."""
    while isinstance(node, ast.Bind):
        node = node.expr
    return node


def check_rewrite(program: Program, vocabulary: Vocabulary, entry: Entry[ast.Rewrite], report: Report) -> None:
    statement = entry.statement
    rule = Rule(program, vocabulary, entry.file, report, statement.over)
    left, right = strip(statement.left), strip(statement.right)
    wrong = _no_start(rule, left)
    if wrong:
        report.add("GR168", wrong, statement.left, "a rewrite starts from an operator: `Relu(x) => ...`")
        return
    rule.bind(statement.left)
    if statement.both:
        rule.bind(statement.right)
    rule.settle(statement.when)
    before = len(report.found)
    sort = rule.terms.term(statement.left, makes=False)
    if len(report.found) > before:  # what a faulty left side speaks of counts as bound: one report is enough
        for name in sorted(rule.terms.used(statement.left)):
            rule.bound.setdefault(name, statement.left)
    other = rule.terms.term(statement.right, makes=not statement.both)
    if statement.both:
        _both_ways(rule, statement)
    rule.conditions(statement.when)
    if not rule.sound:
        return
    rule.unbound(statement.left, "a variable is bound where a term of the left side has it as operand or attribute")
    rule.unbound(statement.right, "the right side may use what the left side or `when` binds")
    rule.idle([statement])
    _sides(rule, statement, sort, other)
    _types(rule, statement)
    check_absence(rule, statement)
    if left == right:
        report.add("GR142", "both sides are the same", statement.right, "such a rule changes nothing")
    else:
        _growth(rule, statement, left)


def _no_start(rule: Rule, left: ast.Node) -> str | None:
    """Why a rewrite cannot start from this; None where it can."""
    root = left
    while isinstance(root, ast.Index | ast.Bind):
        root = root.base if isinstance(root, ast.Index) else root.expr
    if isinstance(root, ast.Name):
        return "the left side is no operator term: it would match every value"
    if not isinstance(root, ast.Call):
        return "the left side is no term"
    if isinstance(root.head, ast.Name) and not rule.terms.is_pattern_head(root.head):
        name = root.head.id
        if rule.vocabulary.is_function(name) or rule.vocabulary.is_relation(name):
            return f"{name}(...) is computed, not rewritten: the left side is no operator term"
    return None


def _both_ways(rule: Rule, statement: ast.Rewrite) -> None:
    """Read from the right, all that the left side needs has to be bound there too."""
    for side, other, way in ((statement.left, statement.right, "<="), (statement.right, statement.left, "=>")):
        back = Rule(rule.terms.program, rule.vocabulary, rule.terms.file, Report(), ())
        back.terms.params = rule.terms.params
        back.bind(other)
        back.settle(statement.when)
        missing = [n for n in back.ordered(side) if n not in back.bound]
        for name in missing:
            place = next(n for n in walk(side) if isinstance(n, ast.Name) and n.id == name)
            text = "from the right" if way == "<=" else "from the left"
            rule.report.add(
                "GR140", f"read {text}, nothing binds {name}", place, "write `=>` if the rule holds one way only"
            )
        for node in walk(side):
            anonymous = isinstance(node, ast.Rest) and node.expr is None
            if anonymous or (isinstance(node, ast.Name) and node.id == "_"):
                sign = "`..`" if anonymous else "`_`"
                rule.report.add("GR140", f"read the other way, {sign} is to be made", node, "name it, or write `=>`")


def _sides(rule: Rule, statement: ast.Rewrite, left: str, right: str) -> None:
    if {left, right} != {NODE, TENSOR}:
        return
    several = statement.left if left == NODE else statement.right
    definitions = rule.terms.definitions_of(strip(several))
    name = definitions[-1].name if definitions else "this"
    names = listed(o.name for o in definitions[-1].outputs) if definitions else ""
    message = f"{name} has several results ({names}), and the other side is one tensor: say which"
    rule.report.add("GR138", message, several, f"write `{name}(...)[0]`")


def _types(rule: Rule, statement: ast.Rewrite) -> None:
    """Both sides are one value, so they have an element type in common."""
    left, right = rule.terms.types_of(statement.left), rule.terms.types_of(statement.right)
    if left and right and not left & right:
        message = f"the left side is {types_listed(left)}, and this is {types_listed(right)}"
        rule.report.add("GR127", message, statement.right, "both sides are one value, of one element type")


def _growth(rule: Rule, statement: ast.Rewrite, left: ast.Node) -> None:
    """The right side holds the value of the left side as an operand: one match makes the next."""
    root = statement.left.name if isinstance(statement.left, ast.Bind) else None
    inside = [
        n
        for n in _operand_terms(statement.right)
        if (isinstance(n, ast.Name) and n.id == root and root) or strip(n) == left
    ]
    if not inside or any(_bounds(rule, condition) for condition in statement.when):
        return
    message = "this grows without end: the right side holds what the left side stands for"
    hint = "a condition that fails on the result bounds it; to take the value as it is, match its operands"
    rule.report.add("GR145", message, inside[0], hint, [Label(statement.left.span, "this value")])


def _operand_terms(right: ast.Expr) -> list[ast.Node]:
    """The terms that stand as operands somewhere below the root of the right side."""
    found: list[ast.Node] = []
    pending: list[ast.Node] = [right]
    while pending:
        current = pending.pop()
        if isinstance(current, ast.Call):
            if isinstance(current.head, ast.Name) and current.head.id in VALUE_TERMS:
                continue
            operands = [o.expr if isinstance(o, ast.Rest) and o.expr is not None else o for o in current.operands]
            found += operands
            pending += operands
        elif isinstance(current, ast.Index | ast.Bind):
            pending += children(current)[:1]
    return found


def _bounds(rule: Rule, condition: ast.Expr) -> bool:
    """A condition bounds growth if it speaks of what is matched, not of operators alone."""
    return bool(rule.terms.used(condition))


# ------------------------------------------------------------------------------------------------- facts and denies


def check_fact(program: Program, vocabulary: Vocabulary, entry: Entry[ast.Fact], report: Report) -> None:
    statement = entry.statement
    assumption = not statement.when
    rule = Rule(program, vocabulary, entry.file, report, statement.over, loose=assumption)
    rule.settle(statement.when)
    rule.conditions(statement.when)
    for conclusion in statement.conclusions:
        _conclusion(rule, conclusion, assumption)
    rule.idle([statement])
    if rule.sound:
        for conclusion in statement.conclusions:
            hint = (
                "an assumption is about dimensions (N) and operators, not about variables"
                if assumption
                else "a conclusion may use what `when` binds"
            )
            rule.unbound(conclusion, hint)


def _conclusion(rule: Rule, conclusion: ast.Expr, assumption: bool) -> None:
    report = rule.report
    for call in conclusion_heads(conclusion):
        name = call.head.id if isinstance(call.head, ast.Name) else ""
        entry = rule.terms.program.tables.get(name)
        if entry is not None and (name in ENGINE_TABLES or entry.statement.source):
            by = f"the file {entry.statement.source}" if entry.statement.source else "the engine"
            report.add(
                "GR147",
                f"{name} is a table that {by} gives",
                call,
                "conclude a relation of another name",
                [Label(entry.statement.span, "declared here")],
            )
    if isinstance(conclusion, ast.Call) and isinstance(conclusion.head, ast.Name):
        name = conclusion.head.id
        if rule.vocabulary.is_function(name):
            report.add(
                "GR147",
                f"{name} is a function, and a fact concludes a relation",
                conclusion,
                f"write `{name}(...) == ...`",
            )
            return
        if name in rule.terms.params:
            report.add("GR147", "a fact concludes no term", conclusion, "a rewrite makes terms")
            return
        if not rule.vocabulary.is_relation(name):
            rule.terms.unknown_head(conclusion, name)
            return
        _operands(rule, conclusion, assumption)
        return
    if isinstance(conclusion, ast.Compare) and conclusion.op in ("==", ">=", "<="):
        for side in (conclusion.left, conclusion.right):
            if isinstance(side, ast.Call) and rule.terms.is_pattern_head(side.head):
                rule.terms.term(side, makes=True)
            elif (
                isinstance(side, ast.Call)
                and isinstance(side.head, ast.Name)
                and rule.vocabulary.is_relation(side.head.id)
            ):
                _operands(rule, side, assumption)
            else:
                rule.terms.static(side)
        return
    hint = "conclusions are relations, `==`, `>=`, `<=`, and `% k ==`"
    report.add("GR147", "this cannot be concluded", conclusion, hint)


def _operands(rule: Rule, call: ast.Call, assumption: bool) -> None:
    """The columns of a concluded relation; operators among them are looked up, dimensions of an assumption are not."""
    name = call.head.id if isinstance(call.head, ast.Name) else ""
    rule.terms.arity(call, name)
    loose = rule.terms.loose
    rule.terms.loose = assumption and name == "likely"
    for operand in call.operands:
        if isinstance(operand, ast.Call) and rule.terms.is_pattern_head(operand.head):
            rule.terms.term(operand, makes=True)
        elif isinstance(operand, ast.Symbol):
            rule.terms.symbol(operand)
        else:
            rule.terms.static(operand)
    rule.terms.loose = loose


def check_refuse(program: Program, vocabulary: Vocabulary, entry: Entry[ast.Refuse], report: Report) -> None:
    statement = entry.statement
    rule = Rule(program, vocabulary, entry.file, report, statement.over)
    rule.settle(statement.when)
    rule.conditions(statement.when)
    rule.idle([statement], HOLE.findall(statement.message))
    known = {*rule.bound, *rule.terms.params}
    for matched in HOLE.finditer(statement.message):
        name = matched[1]
        if name not in known:
            hint = did_you_mean(name, known) or f"a hole is a variable of `when`: {listed(sorted(known), 'or')}"
            report.add(
                "GR146",
                f"nothing binds the hole {{{name}}} of the message",
                ast.Node(span=_hole(entry, matched[0])),
                hint,
            )


def _hole(entry: Entry[ast.Refuse], hole: str) -> Span:
    """Where a hole of the message stands; the whole statement where it is written with escapes."""
    span, source = entry.statement.span, entry.file.source
    start = source.find(hole, span.start, span.end)
    if start < 0:
        return span
    line = span.line + source.count("\n", span.start, start)
    column = start - source.rfind("\n", 0, start)
    return Span(span.file, line, column, line, column + len(hole), start, start + len(hole))
