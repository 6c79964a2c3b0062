"""Small tables on which a statement over tables may hold: what its conditions ask for is put there, where it can be.

A condition that asks a table gives it a row; one that asks a relation begs the conditions of one of the facts that
conclude it. Variables stand for words of the rules or for a few others. Whether the statement then holds is for the
strata to say: what is denied, and how numbers compare, is left to chance here.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

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

    @cached_property
    def led(self) -> frozenset[ast.Expr]:
        """The relations that facts conclude from what a file has, by name."""
        found = {ast.Name(name) for name, table in self.policy.program.tables.items() if rows_of_file(table)}
        files = frozenset(found)
        count = -1
        while count != len(found):
            count = len(found)
            for fact in (e.statement for e in self.policy.facts):
                if any(isinstance(n, ast.Call) and n.head in found for c in fact.when for n in walk(c)):
                    found.update(ast.Name(head_of(c)) for c in fact.conclusions)
        return frozenset(found) - files

    def statement(self, statement: ast.Fact | ast.Refuse) -> None:
        self.conditions(statement.when, {}, DEPTH)

    def conditions(self, when: Sequence[ast.Expr], env: dict[str, Cell], depth: int) -> None:
        # What a file has first, itself or below a fact, then equalities with a word: they say what variables stand for.
        def order(condition: ast.Expr) -> int:
            if self.listed(condition):
                return 0
            if isinstance(condition, ast.Call) and condition.head in self.led:
                return 1
            return 2 if isinstance(condition, ast.Compare) and condition.op == "==" else 3

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
        cells: list[Cell | None] = [self.cell(operand, env, depth) for operand in call.operands]
        if relation.function and len(cells) < len(relation.sorts):
            cells.append(result)
        facts = [f for f in self.policy.facts for c in f.statement.conclusions if _fits(c, relation, cells)]
        if facts and (not relation.table or self.source.random() < 0.5):
            if depth:
                cells = self.fact(self.source.choice(facts).statement, relation, cells, depth - 1)
            row = self.filled(relation, cells)
        else:
            row = self.filled(relation, self.there(relation, cells))
            if relation.table:
                self.rows.setdefault(relation.name, {})[row[:-1] if relation.function else row] = row
        for operand, cell in zip(call.operands, row, strict=False):
            if isinstance(operand, ast.Name) and operand.id != "_":
                env.setdefault(operand.id, cell)
        return row[-1] if row else ""

    def there(self, relation: Relation, cells: Sequence[Cell | None]) -> Sequence[Cell | None]:
        """A row that is there already, where one agrees with all that is known of this one: always for a function of
        what is known, else as often as not."""
        rows = self.rows.get(relation.name, {})
        if relation.function:
            row = rows.get(tuple(c for c in cells[:-1] if c is not None))
            if row is not None and cells[-1] is None:
                return row
        fitting = [r for r in rows.values() if all(c in (None, d) for c, d in zip(cells, r, strict=False))]
        if None in cells and any(c is not None for c in cells) and fitting and self.source.random() < 0.5:
            return self.source.choice(fitting)
        return cells

    def filled(self, relation: Relation, cells: Sequence[Cell | None]) -> Row:
        """A row of which what is left open is drawn."""
        return tuple(self.drawn(relation, place) if cell is None else cell for place, cell in enumerate(cells))

    def fact(self, fact: ast.Fact, relation: Relation, cells: Sequence[Cell | None], depth: int) -> list[Cell | None]:
        """Makes the conditions of a fact hold; what is known by then of the row that it concludes."""
        conclusion = next(c for c in fact.conclusions if _fits(c, relation, cells))
        env: dict[str, Cell] = {}
        pairs = list(zip(_operands(conclusion), cells, strict=False))
        for operand, cell in pairs:
            if isinstance(operand, ast.Name) and cell is not None:
                env.setdefault(operand.id, cell)
        self.conditions(fact.when, env, depth)
        told = [cell if cell is not None else self.literal(operand, env) for operand, cell in pairs]
        return [*told, *cells[len(told) :]]

    def cell(self, operand: ast.Expr, env: dict[str, Cell], depth: int) -> Cell | None:
        """What stands at a place of a row; None where that is open."""
        return self.row(operand, None, env, depth) if isinstance(operand, ast.Call) else self.literal(operand, env)

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


def head_of(conclusion: ast.Expr) -> str:
    """The relation that a conclusion speaks of; "" where it is none."""
    call = conclusion.left if isinstance(conclusion, ast.Compare) else conclusion
    return call.head.id if isinstance(call, ast.Call) and isinstance(call.head, ast.Name) else ""


def _fits(conclusion: ast.Expr, relation: Relation, cells: Sequence[Cell | None]) -> bool:
    """Whether a fact may conclude this row."""
    call = conclusion.left if isinstance(conclusion, ast.Compare) else conclusion
    if not isinstance(call, ast.Call) or call.head != ast.Name(relation.name):
        return False
    written = zip(_operands(conclusion), cells, strict=False)
    return all(c in (None, o.value) for o, c in written if isinstance(o, (ast.Text, ast.Number)))
