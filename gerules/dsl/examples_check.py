"""Checks of examples: they name a rule of their file, cite its conditions, and are made of terms that fit."""

from __future__ import annotations

from collections.abc import Mapping

from gerules.dsl import ast
from gerules.dsl.lets import walk
from gerules.dsl.program import Entry, Program
from gerules.dsl.rule import Rule
from gerules.dsl.suggest import did_you_mean
from gerules.dsl.terms import Report
from gerules.dsl.vocabulary import Vocabulary
from gerules.errors import GerulesError, Label

Tested = ast.Rewrite | ast.Fact | ast.Refuse | ast.Merge | ast.Group


AnyEntry = Entry[ast.Rewrite] | Entry[ast.Fact] | Entry[ast.Refuse] | Entry[ast.Merge] | Entry[ast.Group]


def _all_rules(program: Program) -> tuple[Mapping[str, AnyEntry], ...]:
    return (program.rewrites, program.facts, program.refuses, program.merges, program.groups)


def tested_rule(program: Program, entry: Entry[ast.Example]) -> AnyEntry | None:
    """The rule that an example is about: the one of its name in its file."""
    return next((kind[entry.full] for kind in _all_rules(program) if entry.full in kind), None)


def check_example(program: Program, vocabulary: Vocabulary, entry: Entry[ast.Example], report: Report) -> None:
    example = entry.statement
    rule = tested_rule(program, entry)
    if rule is None:
        _no_rule(program, entry, report)
        return
    _outcome(program, entry, rule, report)
    merge = isinstance(rule.statement, ast.Merge)
    terms = Rule(program, vocabulary, entry.file, report, (), loose=True, wide=merge)
    terms.terms.engine_names = frozenset(e.statement.name for e in program.engines.values())
    if merge and isinstance(rule.statement, ast.Merge):
        return  # `a.engine == AiCore` says what the nodes are: there are no terms in it
    for given in example.given:
        for node in walk(given):
            if isinstance(node, ast.Typed):
                terms.bound.setdefault(node.name, node)
        terms.bind(given)
    terms.settle(example.given)
    for given in example.given:
        terms.condition(given)
    if isinstance(example.outcome, ast.Becomes):
        terms.terms.term(example.outcome.right, makes=False)
        for node in walk(example.outcome.right):
            if isinstance(node, ast.Typed):
                terms.bound.setdefault(node.name, node)
        terms.unbound(example.outcome.right, "a leaf is typed where it first occurs: `x: f32[2, N]`")
    _leaves(example, report)


def _leaves(example: ast.Example, report: Report) -> None:
    """In a term, a leaf has a type."""
    typed = {n.name for given in example.given for n in walk(given) if isinstance(n, ast.Typed)}
    named = {n.name for given in example.given for n in walk(given) if isinstance(n, ast.Bind)}
    for given in example.given:
        for node in walk(given):
            if not isinstance(node, ast.Call) or isinstance(node.head, ast.Name):
                continue
            for operand in node.operands:
                inner = operand.expr if isinstance(operand, ast.Rest) else operand
                if isinstance(inner, ast.Name) and inner.id not in typed | named and inner.id != "_":
                    report.add(
                        "GR119",
                        f"leaf {inner.id} has no type",
                        inner,
                        f"write `{inner.id}: f32[2, N]` where it first occurs",
                    )
                elif isinstance(inner, ast.Name) and inner.id == "_":
                    report.add("GR119", "an example says each operand", inner, "write a leaf: `x: f32[2, N]`")


def _no_rule(program: Program, entry: Entry[ast.Example], report: Report) -> None:
    name = entry.statement.name
    here: list[str] = []
    elsewhere: str | None = None
    for kind in _all_rules(program):
        for other in kind.values():
            if other.file.path == entry.file.path:
                here.append(other.statement.name)
            elif other.statement.name == name:
                elsewhere = other.file.path
    hint = did_you_mean(name, here)
    if hint is None:
        hint = (
            f"{name} is in {elsewhere}; examples stand in the file of their rule"
            if elsewhere
            else "an example has the name of its rule"
        )
    report.add("GR158", f"no rule of this file is called {name}", entry.statement, hint)


def _outcome(program: Program, entry: Entry[ast.Example], rule: AnyEntry, report: Report) -> None:
    outcome = entry.written.outcome
    statement = rule.written
    if isinstance(outcome, ast.Becomes):
        if not isinstance(statement, ast.Rewrite):
            hint = "examples of facts and denies say `gives`, those of merges and groups `stays because`"
            report.add("GR166", f"{statement.name} is no rewrite, so it makes no term", outcome, hint)
        elif outcome.refuted_without is not None and outcome.refuted_without not in statement.when:
            _cite(statement, outcome.refuted_without, report)
    elif isinstance(outcome, ast.Stays):
        cited = outcome.because
        if cited not in _conditions(statement) and not _fixed(program, rule, cited):
            _cite(statement, cited, report)
    elif isinstance(statement, ast.Rewrite | ast.Merge | ast.Group):
        report.add("GR166", f"{statement.name} gives no facts", outcome, "write `=> term` or `stays because condition`")


def _conditions(statement: Tested) -> tuple[ast.Expr, ...]:
    return statement.when


def _cite(statement: Tested, cited: ast.Expr, report: Report) -> None:
    conditions = _conditions(statement)
    if conditions:
        hint = "cite it word for word"
        labels = [Label(c.span, "a condition") for c in conditions[:4]]
    else:
        hint, labels = "the rule has no conditions; `attribute == value` cites one that its pattern fixes", []
    message = f"this is no condition of {statement.name}"
    report.add("GR160", message, cited, hint, labels)


def _fixed(program: Program, rule: AnyEntry, cited: ast.Expr) -> bool:
    """`attribute == value` for an attribute that a pattern of the rule fixes, by a literal or by leaving it out."""
    if not (isinstance(cited, ast.Compare) and cited.op == "==" and isinstance(cited.left, ast.Name)):
        return False
    name = cited.left.id
    for call in _calls(rule.statement):
        for keyword in call.keywords:
            if keyword.name == name:
                if keyword.value == cited.right:
                    return True
                break
        else:
            if _has_attribute(program, rule, call, name):
                return True
    return False


def _calls(statement: Tested) -> list[ast.Call]:
    roots: list[ast.Node] = list(statement.when)
    if isinstance(statement, ast.Rewrite):
        roots += [statement.left, *([statement.right] if statement.both else [])]
    if isinstance(statement, ast.Group):
        roots.append(statement.pattern)
    return [n for root in roots for n in walk(root) if isinstance(n, ast.Call)]


def _has_attribute(program: Program, rule: AnyEntry, call: ast.Call, name: str) -> bool:
    try:
        if isinstance(call.head, ast.Symbol):
            definitions = program.resolve(call.head, rule.file, isinstance(rule.statement, ast.Group))
        else:
            domains = [
                m.domain for m in rule.statement.over if isinstance(call.head, ast.Name) and m.name == call.head.id
            ]
            definitions = program.members(domains[0], rule.file) if domains else ()
    except GerulesError:
        return False
    return any(d.attribute(name) is not None for d in definitions)
