"""Operands that may be absent: a variable in an optional place is no operand until a condition says so."""

from __future__ import annotations

from gerules.dsl import ast
from gerules.dsl.lets import walk
from gerules.dsl.rule import Rule
from gerules.errors import Label
from gerules.registry.definition import OPTIONAL, REQUIRED


def check_absence(rule: Rule, statement: ast.Rewrite) -> None:
    """Report variables that stand in optional places of what is matched, and are required in what is made."""
    _one_way(rule, statement.left, statement.right, statement.when)
    if statement.both:
        _one_way(rule, statement.right, statement.left, statement.when)


def _one_way(rule: Rule, matched: ast.Expr, made: ast.Expr, when: tuple[ast.Expr, ...]) -> None:
    there, maybe = _places(rule, (matched, *when))
    there |= _present(when)
    needed, _ = _places(rule, (made,))
    for node in walk(made):
        if isinstance(node, ast.Name) and node.id in maybe and node.id not in there and node.id in needed:
            there.add(node.id)  # said once
            message = f"{node.id} may be absent, and here an operand is required"
            label = Label(maybe[node.id].span, "an optional operand")
            rule.report.add("GR179", message, node, f"add the condition `{node.id} != none`", [label])


def _places(rule: Rule, roots: tuple[ast.Expr, ...]) -> tuple[set[str], dict[str, ast.Node]]:
    """The variables in places that every fitting definition requires, and those in places that all leave open."""
    required: set[str] = set()
    optional: dict[str, ast.Node] = {}
    for node in (n for root in roots for n in walk(root)):
        if not isinstance(node, ast.Call):
            continue
        definitions = rule.terms.definitions_of(node)
        for place, operand in enumerate(node.operands):
            if isinstance(operand, ast.Rest):
                break
            if not isinstance(operand, ast.Name) or operand.id == "_":
                continue
            kinds = {d.inputs[place].kind for d in definitions if place < len(d.inputs)}
            if kinds == {REQUIRED}:
                required.add(operand.id)
            elif kinds == {OPTIONAL}:
                optional.setdefault(operand.id, operand)
    return required, optional


def _present(when: tuple[ast.Expr, ...]) -> set[str]:
    """Variables that a condition holds only for if they are there: `v != none`, and any that reads a field."""
    found: set[str] = set()
    for condition in when:
        for node in walk(condition):
            if isinstance(node, ast.Field) and isinstance(node.base, ast.Name):
                found.add(node.base.id)
        if isinstance(condition, ast.Compare) and condition.op == "!=":
            for side, other in ((condition.left, condition.right), (condition.right, condition.left)):
                if isinstance(side, ast.Name) and isinstance(other, ast.Word) and other.word == "none":
                    found.add(side.id)
    return found
