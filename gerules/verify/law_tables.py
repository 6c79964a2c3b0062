"""Small tables on which a statement over tables may hold: what its conditions ask for is put there, where it can be.

A condition that asks a table gives it a row; one that asks a relation begs the conditions of one of the facts that
conclude it. Variables stand for words of the rules or for a few others. Whether the statement then holds is for the
strata to say: what is denied, and how numbers compare, is left to chance here.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gerules.dsl import ast
from gerules.dsl.lets import walk
from gerules.policy import Cell, Policy, Row
from gerules.policy.model import INT, Relation
from gerules.policy.tables import rows_of_file

PLAIN: Mapping[str, tuple[Cell, ...]] = {"op": ("Foo",), "node": ("n",), "engine": ("Npu", "Cpu"), "dtype": ("f32",)}
TEXTS: tuple[Cell, ...] = ("x", "y")
INTS: tuple[Cell, ...] = (0, 1, -1, 2)
DEPTH = 8
"""Facts below facts, after which a condition is given up."""

Rows = dict[str, dict[Row, Row]]


def words_of(policy: Policy) -> dict[str, dict[int, list[Cell]]]:
    """Relation -> column -> the words and numbers that rules write there."""
    found: dict[str, dict[int, list[Cell]]] = {}
    statements: list[ast.Fact | ast.Refuse] = [e.statement for e in policy.facts]
    for statement in (*statements, *(e.statement for e in policy.refuses)):
        conclusions = statement.conclusions if isinstance(statement, ast.Fact) else ()
        for node in (n for c in (*statement.when, *conclusions) for n in walk(c)):
            call, result = node, None
            if isinstance(node, ast.Compare) and isinstance(node.left, ast.Call):
                call, result = node.left, node.right
            if not isinstance(call, ast.Call) or not isinstance(call.head, ast.Name):
                continue
            for place, operand in enumerate((*call.operands, result)):
                if isinstance(operand, (ast.Text, ast.Number)):
                    column = found.setdefault(call.head.id, {}).setdefault(place, [])
                    if operand.value not in column:
                        column.append(operand.value)
    return found


@dataclass
class Chase:
    """One try: rows by table, filled from the conditions of a statement."""

    policy: Policy
    words: Mapping[str, Mapping[int, Sequence[Cell]]]
    source: random.Random
    rows: Rows = field(default_factory=dict)

    def statement(self, statement: ast.Fact | ast.Refuse) -> None:
        self.conditions(statement.when, {}, DEPTH)

    def conditions(self, when: Sequence[ast.Expr], env: dict[str, Cell], depth: int) -> None:
        # What a file has first, then equalities with a word: they say what variables stand for.
        def order(condition: ast.Expr) -> int:
            if self.listed(condition):
                return 0
            return 1 if isinstance(condition, ast.Compare) and condition.op == "==" else 2

        for condition in sorted(when, key=order):
            self.condition(condition, env, depth)

    def listed(self, condition: ast.Expr) -> Sequence[Row]:
        """The rows that a file has of the table that a condition asks."""
        if not isinstance(condition, ast.Call) or not isinstance(condition.head, ast.Name):
            return ()
        table = self.policy.program.tables.get(condition.head.id)
        return () if table is None else rows_of_file(table)

    def taken(self, call: ast.Call, rows: Sequence[Row], env: dict[str, Cell], depth: int) -> None:
        """Lets a condition hold by one of the rows that a file has."""
        fitting = [
            r for r in rows if all(self.literal(o, env) in (None, c) for o, c in zip(call.operands, r, strict=False))
        ]
        if not fitting:
            return
        for operand, cell in zip(call.operands, self.source.choice(fitting), strict=False):
            if isinstance(operand, ast.Name) and operand.id != "_":
                env[operand.id] = cell
            elif isinstance(operand, ast.Call):
                self.row(operand, cell, env, depth)

    def condition(self, condition: ast.Expr, env: dict[str, Cell], depth: int) -> None:
        # As deep as facts lie below facts, and those are bounded.
        match condition:
            case ast.Logical(op="or", operands=operands):
                self.condition(self.source.choice(operands), env, depth)
            case ast.Logical(operands=operands):
                self.conditions(operands, env, depth)
            case ast.Call() if rows := self.listed(condition):
                self.taken(condition, rows, env, depth)
            case ast.Call():
                self.row(condition, None, env, depth)
            case ast.Compare(op=op, left=left, right=right) if op != "in":
                if isinstance(right, ast.Call) and not isinstance(left, ast.Call):
                    left, right = right, left
                wanted = self.literal(right, env) if op == "==" else None
                if isinstance(left, ast.Name) and wanted is not None:
                    env.setdefault(left.id, wanted)
                made: Cell | None = None
                for call in (n for n in walk(left) if isinstance(n, ast.Call)):
                    made = self.row(call, wanted if call is left else None, env, depth)
                    if op == "==" and call is left and isinstance(right, ast.Name):
                        env.setdefault(right.id, made)
                equal = made if op == "==" and isinstance(left, ast.Call) else None
                for call in (n for n in walk(right) if isinstance(n, ast.Call)):
                    self.row(call, equal if call is right else None, env, depth)

    def literal(self, expr: ast.Expr, env: Mapping[str, Cell]) -> Cell | None:
        if isinstance(expr, (ast.Text, ast.Number)):
            return expr.value
        return env.get(expr.id) if isinstance(expr, ast.Name) else None

    def row(self, call: ast.Call, result: Cell | None, env: dict[str, Cell], depth: int) -> Cell:
        """Makes a row of a table, or the conditions of a fact that concludes it; the value of a function."""
        assert isinstance(call.head, ast.Name)
        relation = self.policy.relations.get(call.head.id)
        if relation is None:
            return ""
        cells = [self.cell(relation, place, operand, env, depth) for place, operand in enumerate(call.operands)]
        if relation.function and len(cells) < len(relation.sorts):
            key = tuple(cells)
            known = self.rows.get(relation.name, {}).get(key)
            if result is None:
                result = known[-1] if known is not None else self.drawn(relation, len(cells))
            cells.append(result)
        facts = [f for f in self.policy.facts for c in f.statement.conclusions if _fits(c, relation, cells)]
        if facts and (not relation.table or self.source.random() < 0.5):
            if depth:
                self.fact(self.source.choice(facts).statement, relation, cells, depth - 1)
        elif relation.table:
            row = tuple(cells)
            self.rows.setdefault(relation.name, {})[row[:-1] if relation.function else row] = row
        return cells[-1] if cells else ""

    def fact(self, fact: ast.Fact, relation: Relation, cells: Sequence[Cell], depth: int) -> None:
        conclusion = next(c for c in fact.conclusions if _fits(c, relation, cells))
        env: dict[str, Cell] = {}
        for operand, cell in zip(_operands(conclusion), cells, strict=False):
            if isinstance(operand, ast.Name):
                env.setdefault(operand.id, cell)
        self.conditions(fact.when, env, depth)

    def cell(self, relation: Relation, place: int, operand: ast.Expr, env: dict[str, Cell], depth: int) -> Cell:
        match operand:
            case ast.Text(value=value) | ast.Number(value=value):
                return value
            case ast.Name(id="_"):
                return self.drawn(relation, place)
            case ast.Name(id=name):
                if name not in env:
                    env[name] = self.drawn(relation, place)
                return env[name]
            case ast.Call():
                return self.row(operand, None, env, depth)
        return self.drawn(relation, place)

    def drawn(self, relation: Relation, place: int) -> Cell:
        if relation.sorts[place] == INT:
            return self.source.choice(INTS)
        written = [w for w in self.words.get(relation.name, {}).get(place, ()) if isinstance(w, str)]
        plain = PLAIN.get(relation.types[place], TEXTS)
        if written and (self.source.random() < 0.6 or relation.types[place] in PLAIN):
            return self.source.choice(written)
        return self.source.choice(plain)


def _operands(conclusion: ast.Expr) -> tuple[ast.Expr, ...]:
    if isinstance(conclusion, ast.Compare):
        return (*_operands(conclusion.left), conclusion.right)
    return conclusion.operands if isinstance(conclusion, ast.Call) else ()


def _fits(conclusion: ast.Expr, relation: Relation, cells: Sequence[Cell]) -> bool:
    """Whether a fact may conclude this row."""
    call = conclusion.left if isinstance(conclusion, ast.Compare) else conclusion
    if not isinstance(call, ast.Call) or call.head != ast.Name(relation.name):
        return False
    written = zip(_operands(conclusion), cells, strict=False)
    return all(o.value == c for o, c in written if isinstance(o, (ast.Text, ast.Number)))
