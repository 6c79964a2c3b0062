"""One statement over tables as egglog rules: conditions to facts of a query, absence to what is asked for later.

A condition with `or` makes several rules. An applied function (`default("built", f, a)`) is a row whose result gets a
name of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from gerules.dsl import ast
from gerules.policy.model import FLOAT, INT, TEXT, Absent, Clause, Conclusion, Relation, Translated, Words, refused
from gerules.policy.texts import cell_text, encode, quoted

FLIPPED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_ARITHMETIC = {"+": "+", "-": "-", "*": "*"}
_MAX_WAYS = 256

Operator = Callable[[ast.Symbol], str]
"""The text that stands for an operator in tables."""
Members = Callable[[ast.Expr], tuple[str, ...]]
"""The texts of the operators in a set."""


def ways(conditions: Sequence[ast.Expr]) -> list[tuple[ast.Expr, ...]]:
    """Conditions without `or` and `and`: each entry is one way for all of them to hold."""
    options: list[list[tuple[ast.Expr, ...]]] = []
    for condition in conditions:
        options.append(_ways_of(condition))
        count = 1
        for option in options:
            count *= len(option)
        if count > _MAX_WAYS:
            raise refused("GR661", f"these conditions hold in more than {_MAX_WAYS} ways", condition, "split the rule")
    return [tuple(c for part in choice for c in part) for choice in product(*options)]


def _ways_of(condition: ast.Expr) -> list[tuple[ast.Expr, ...]]:
    # As deep as one condition is written.
    match condition:
        case ast.Logical(op="or", operands=operands):
            return [way for operand in operands for way in _ways_of(operand)]
        case ast.Logical(op="and", operands=operands):
            return ways(operands)
        case ast.Compare(op="in", left=left, right=ast.SetExpr(items=items)):
            return [(ast.Compare("==", left, item, span=condition.span),) for item in items]
        case ast.Unary(op="not", operand=ast.Compare(op="in", left=left, right=ast.SetExpr(items=items))):
            return [tuple(ast.Compare("!=", left, item, span=condition.span) for item in items)]
        case ast.Unary(op="not", operand=ast.Compare(op=op, left=left, right=right)) if op in FLIPPED:
            return [(ast.Compare(FLIPPED[op], left, right, span=condition.span),)]
        case ast.Unary(op="not", operand=ast.Unary(op="not", operand=inner)):
            return _ways_of(inner)
    return [(condition,)]


@dataclass
class Translator:
    """Translates the statements of one program. `sorts` of variables are found per statement."""

    words: Words
    operator: Operator
    members: Members

    def translate(
        self,
        name: str,
        when: Sequence[ast.Expr],
        over: Sequence[ast.Member],
        conclusions: Sequence[ast.Expr] = (),
        holes: Sequence[str] = (),
    ) -> Translated:
        """Raises Refused (GR66x) for what rules over tables cannot say."""
        domains = tuple(ast.Compare("in", ast.Name(m.name, span=m.span), m.domain, span=m.span) for m in over)
        clauses: list[Clause] = []
        heads: list[Conclusion] = []
        texts: tuple[str, ...] = ()
        sorts: tuple[str, ...] = ()
        for number, way in enumerate(ways((*domains, *when))):
            body = _Body(self, _sorts(self.words, way, conclusions))
            for condition in way:
                body.condition(condition)
            texts = tuple(body.variable(h) for h in holes)
            sorts = tuple(body.sorts.get(h, TEXT) for h in holes)
            body.made, body.prefix = 0, "z"  # the same names whatever the way needed before
            made = [body.conclusion(c) for c in conclusions]
            if number == 0:
                heads = made
            elif made != heads:
                raise refused("GR661", f"{name} concludes differently in each of its ways", conclusions[0])
            clauses.append(Clause(tuple(body.facts), tuple(body.absent)))
        return Translated(name, tuple(clauses), tuple(heads), tuple(holes), texts, sorts)


@dataclass
class _Body:
    """The conditions of one way to hold, as they are translated."""

    of: Translator
    sorts: Mapping[str, str]
    facts: list[str] = field(default_factory=list)
    absent: list[Absent] = field(default_factory=list)
    made: int = 0
    prefix: str = "w"

    def variable(self, name: str) -> str:
        return f"v_{name}"

    def fresh(self) -> str:
        self.made += 1
        return f"{self.prefix}_{self.made}"

    # ---------------------------------------------------------------------------------------------- conditions

    def condition(self, condition: ast.Expr) -> None:
        match condition:
            case ast.Call(head=ast.Name()):
                self.row(condition)
            case ast.Unary(op="not", operand=ast.Call(head=ast.Name()) as call):
                self.absence(call)
            case ast.Compare(op="in", left=left, right=right):
                self.facts.append(f"({self.class_of(right)} {self.term(left, TEXT)})")
            case ast.Unary(op="not", operand=ast.Compare(op="in", left=left, right=right)):
                self.absent.append(Absent(self.class_of(right), (self.term(left, TEXT),)))
            case ast.Compare(op=op, left=left, right=right):
                self.comparison(condition, op, left, right)
            case _:
                raise refused(
                    "GR661",
                    "rules over tables cannot ask this",
                    condition,
                    "conditions are rows of tables, what facts conclude, `not`, comparisons and classes",
                )

    def relation(self, call: ast.Call) -> Relation:
        assert isinstance(call.head, ast.Name)
        found = self.of.words.relations.get(call.head.id)
        if found is None:
            message = f"{call.head.id} is no table and no relation of rules over tables"
            raise refused(
                "GR660", message, call, "tables are declared with `table`; host functions are not called here"
            )
        if len(call.operands) != found.arity or call.keywords:
            message = f"{found.name} has {found.arity} columns, and {len(call.operands)} are given"
            raise refused("GR660", message, call)
        return found

    def operands(self, call: ast.Call, relation: Relation) -> list[str | None]:
        """Operands as egglog text; None for `_`."""
        return [
            None if operand == ast.Name("_") else self.term(operand, sort)
            for operand, sort in zip(call.operands, relation.sorts, strict=False)
        ]

    def row(self, call: ast.Call) -> None:
        relation = self.relation(call)
        operands = [o if o is not None else self.fresh() for o in self.operands(call, relation)]
        if relation.bound:
            self.facts.append(f"(= {self.fresh()} (r_{relation.name} {' '.join(operands)}))")
            return
        if relation.function:
            operands.append(self.fresh())
        self.facts.append(f"(r_{relation.name} {' '.join(operands)})")

    def absence(self, call: ast.Call) -> None:
        relation = self.relation(call)
        operands = self.operands(call, relation)
        if relation.function and not relation.bound:
            operands.append(None)
        self.absent.append(Absent(f"r_{relation.name}", tuple(operands)))

    def class_of(self, members: ast.Expr) -> str:
        """The one-column relation that holds the members of a set."""
        found = self.of.members(members)
        classes = self.of.words.classes
        name = next((n for n, m in classes.items() if m == found), None)
        if name is None:
            name = f"c_{len(classes)}"
            classes[name] = found
        return name

    def comparison(self, where: ast.Expr, op: str, left: ast.Expr, right: ast.Expr) -> None:
        sort = self.sort(left) or self.sort(right) or TEXT
        if op not in ("==", "!=") and sort == TEXT:
            raise refused(
                "GR661", f"`{op}` compares numbers, and this is text", where, "compare text with `==` or `!=`"
            )
        one, other = self.term(left, sort), self.term(right, sort)
        if op == "==":
            self.facts.append(f"(= {one} {other})")
        else:
            self.facts.append(f"({op} {one} {other})")

    # --------------------------------------------------------------------------------------------------- terms

    def sort(self, expr: ast.Expr) -> str | None:
        return _sort(self.of.words, self.sorts, expr)

    def term(self, expr: ast.Expr, sort: str) -> str:
        match expr:
            case ast.Name(id="_"):
                return self.fresh()
            case ast.Name(id=name):
                return self.variable(name)
            case ast.Call(head=ast.Name()):
                return self.applied(expr)
            case ast.Symbol():
                return quoted(encode(self.of.operator(expr)))
            case ast.Binary(op=op, left=left, right=right) if op in _ARITHMETIC:
                inner = self.sort(expr) or INT
                if inner == TEXT:
                    raise refused("GR661", f"`{op}` computes with numbers, and this is text", expr)
                return f"({_ARITHMETIC[op]} {self.term(left, inner)} {self.term(right, inner)})"
            case ast.Unary(op="-", operand=inner_expr) if not isinstance(inner_expr, ast.Number):
                zero = "0.0" if sort == FLOAT else "0"
                return f"(- {zero} {self.term(inner_expr, sort)})"
        literal = cell_text(expr)
        if literal is None:
            hint = "terms are variables, numbers, text, operators, rows of functions, `+`, `-` and `*`"
            raise refused("GR661", "rules over tables cannot compute this", expr, hint)
        if sort == TEXT:
            return quoted(encode(literal))
        number = expr.operand.value if isinstance(expr, ast.Unary) else expr.value  # type: ignore[union-attr]
        if not isinstance(number, (int, float)):
            raise refused("GR662", f"{literal} stands where a number is wanted", expr)
        if sort == INT and not isinstance(number, int):
            raise refused("GR662", f"{literal} stands where a whole number is wanted", expr)
        signed = -number if isinstance(expr, ast.Unary) else number
        return repr(float(signed)) if sort == FLOAT else str(signed)

    def applied(self, call: ast.Call) -> str:
        relation = self.relation(call)
        if not relation.function:
            raise refused("GR661", f"{relation.name} holds or not: it has no value", call)
        operands = [o if o is not None else self.fresh() for o in self.operands(call, relation)]
        result = self.fresh()
        if relation.bound:
            self.facts.append(f"(= {result} (r_{relation.name} {' '.join(operands)}))")
        else:
            self.facts.append(f"(r_{relation.name} {' '.join([*operands, result])})")
        return result

    # --------------------------------------------------------------------------------------------- conclusions

    def conclusion(self, conclusion: ast.Expr) -> Conclusion:
        match conclusion:
            case ast.Call(head=ast.Name()) as call:
                relation = self.relation(call)
                if relation.function:
                    message = f"{relation.name} has a value: conclude `{relation.name}(...) == ...`"
                    raise refused("GR661", message, call)
                return Conclusion(relation.name, self.made_of(call, relation))
            case ast.Compare(op="==" | "<=" | ">=", left=ast.Call(head=ast.Name()) as call, right=value):
                relation = self.relation(call)
                return Conclusion(
                    relation.name, (*self.made_of(call, relation), self.term(value, relation.sorts[-1]))
                )  # fmt: skip
        raise refused("GR661", "rules over tables cannot conclude this", conclusion)

    def made_of(self, call: ast.Call, relation: Relation) -> tuple[str, ...]:
        operands = self.operands(call, relation)
        if None in operands:
            raise refused("GR661", "`_` cannot be concluded", call, "name what is meant")
        return tuple(o for o in operands if o is not None)


# ------------------------------------------------------------------------------------------------------------- sorts


def _sorts(words: Words, conditions: Sequence[ast.Expr], conclusions: Sequence[ast.Expr]) -> dict[str, str]:
    """The sort of each variable, from the columns it stands in; a comparison passes it on."""
    sorts: dict[str, str] = {}
    pending = [*conditions, *conclusions]
    calls: list[ast.Call] = []
    comparisons: list[ast.Compare] = []
    while pending:
        expr = pending.pop()
        if isinstance(expr, ast.Call):
            calls.append(expr)
            pending += expr.operands
        elif isinstance(expr, ast.Compare):
            comparisons.append(expr)
            pending += [expr.left, expr.right]
        elif isinstance(expr, ast.Unary):
            pending.append(expr.operand)
        elif isinstance(expr, ast.Binary):
            pending += [expr.left, expr.right]
    for call in calls:
        relation = words.relations.get(call.head.id) if isinstance(call.head, ast.Name) else None
        for operand, sort in zip(call.operands, relation.sorts if relation else (), strict=False):
            if isinstance(operand, ast.Name) and sort:
                sorts.setdefault(operand.id, sort)
    for _ in range(len(comparisons) + 1):
        for compare in comparisons:
            known = _sort(words, sorts, compare.left) or _sort(words, sorts, compare.right)
            for side in (compare.left, compare.right):
                if isinstance(side, ast.Name) and known:
                    sorts.setdefault(side.id, known)
    return sorts


def _sort(words: Words, sorts: Mapping[str, str], expr: ast.Expr) -> str | None:
    """The sort of a term; None where nothing says it."""
    match expr:
        case ast.Name(id=name):
            return sorts.get(name)
        case ast.Number(value=value):
            return INT if isinstance(value, int) else FLOAT
        case ast.Text() | ast.Symbol() | ast.Word():
            return TEXT
        case ast.Unary(op="-", operand=inner):
            return _sort(words, sorts, inner)
        case ast.Binary(left=left, right=right):
            return _sort(words, sorts, left) or _sort(words, sorts, right)
        case ast.Call(head=ast.Name(id=name)):
            relation = words.relations.get(name)
            return relation.sorts[-1] or None if relation is not None and relation.function else None
    return None


def infer_sorts(relations: dict[str, Relation], statements: Sequence[ast.Fact]) -> None:
    """Fills in the sorts (and declared types) of what facts conclude, from what their variables stand for."""
    words = Words(relations)
    changed = True
    while changed:
        changed = False
        for statement in statements:
            sorts = _sorts(words, statement.when, statement.conclusions)
            types = variable_types(words, statement.when)
            for conclusion in statement.conclusions:
                call = conclusion.left if isinstance(conclusion, ast.Compare) else conclusion
                if not isinstance(call, ast.Call) or not isinstance(call.head, ast.Name):
                    continue
                relation = relations.get(call.head.id)
                if relation is None or relation.table:
                    continue
                values = [*call.operands, *([conclusion.right] if isinstance(conclusion, ast.Compare) else [])]
                found = tuple(
                    known or _sort(words, sorts, value) or ""
                    for known, value in zip(relation.sorts, values, strict=False)
                )
                named = tuple(
                    known or _type_of(value, types) for known, value in zip(relation.types, values, strict=False)
                )
                if len(found) == len(relation.sorts) and (found, named) != (relation.sorts, relation.types):
                    relations[relation.name] = Relation(
                        relation.name, found, named, relation.function, relation.bound, relation.table
                    )
                    changed = True
    for name, relation in relations.items():
        relations[name] = Relation(
            name, tuple(s or TEXT for s in relation.sorts), relation.types, relation.function, relation.bound,
            relation.table,
        )  # fmt: skip


def _type_of(expr: ast.Expr, types: Mapping[str, str]) -> str:
    if isinstance(expr, ast.Symbol):
        return "op"
    return types.get(expr.id, "") if isinstance(expr, ast.Name) else ""


def variable_types(words: Words, conditions: Sequence[ast.Expr]) -> dict[str, str]:
    """The declared column type of each variable that stands in a column (`node`, `op`, ...)."""
    types: dict[str, str] = {}
    pending = list(conditions)
    while pending:
        expr = pending.pop(0)
        if isinstance(expr, ast.Call):
            relation = words.relations.get(expr.head.id) if isinstance(expr.head, ast.Name) else None
            for operand, type_ in zip(expr.operands, relation.types if relation else (), strict=False):
                if isinstance(operand, ast.Name) and operand.id != "_" and type_:
                    types.setdefault(operand.id, type_)
            pending += expr.operands
        elif isinstance(expr, (ast.Compare, ast.Binary)):
            pending += [expr.left, expr.right]
        elif isinstance(expr, ast.Unary):
            pending.append(expr.operand)
        elif isinstance(expr, ast.Logical):
            pending += expr.operands
    return types
