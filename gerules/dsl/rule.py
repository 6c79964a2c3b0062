"""One rule under check: which names it binds, in whatever order its conditions stand, and whether each can hold."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gerules.dsl import ast
from gerules.dsl.lets import children, walk
from gerules.dsl.program import Program
from gerules.dsl.resolve import DTYPES, literal
from gerules.dsl.suggest import did_you_mean, listed
from gerules.dsl.terms import Report, Terms
from gerules.dsl.vocabulary import Vocabulary
from gerules.errors import GerulesError, Label

_TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Rule:
    """One rule under check: its terms, and the names that are bound so far."""

    def __init__(
        self,
        program: Program,
        vocabulary: Vocabulary,
        file: ast.RuleFile,
        report: Report,
        over: tuple[ast.Member, ...],
        *,
        wide: bool = False,
        loose: bool = False,
    ) -> None:
        self.terms = Terms(program, vocabulary, file, report, wide, loose)
        self.vocabulary = vocabulary
        self.report = report
        self.sound = self.terms.take_over(over)
        self.bound: dict[str, ast.Node] = {}
        self.taken_apart: set[int] = set()  # list patterns, by identity
        self.by_equality: dict[str, ast.Expr] = {}  # names that `v == ...` binds, and nothing else

    # ------------------------------------------------------------------------------------------- conditions

    def bind(self, pattern: ast.Node) -> None:
        for name, place in self.terms.binders(pattern).items():
            self.bound.setdefault(name, place)

    def settle(self, conditions: Iterable[ast.Expr]) -> None:
        """Bind all that conditions bind, whatever their order."""
        every = list(conditions)
        progress = True
        while progress:
            progress = False
            for condition in every:
                for name, place in self._bound_by(condition).items():
                    if name not in self.bound:
                        self.bound[name] = place
                        progress = True

    def _bound_by(self, condition: ast.Expr) -> dict[str, ast.Node]:
        """What a condition binds as far as names are bound yet."""
        if self._is_term(condition):
            return self.terms.binders(condition)
        found: dict[str, ast.Node] = {}
        for call in self._relations(condition):
            for operand in call.operands:
                found |= self._argument(operand)
        if isinstance(condition, ast.Compare) and condition.op == "==":
            for pattern, value in ((condition.left, condition.right), (condition.right, condition.left)):
                if isinstance(pattern, ast.Name | ast.ListExpr) and self._is_known(value, found):
                    names = self.terms.binders(pattern)
                    if any(name not in self.bound for name in names):
                        self.taken_apart.add(id(pattern))
                    if isinstance(pattern, ast.Name) and pattern.id in names and pattern.id not in self.bound:
                        self.by_equality[pattern.id] = condition
                    return found | names
                if self._is_term(pattern) and isinstance(pattern, ast.Call) and self._is_known(value, found):
                    return found | self.terms.binders(pattern)
        return found

    def _argument(self, operand: ast.Expr) -> dict[str, ast.Node]:
        if isinstance(operand, ast.Name | ast.Call | ast.Bind) and (
            isinstance(operand, ast.Name) or self._is_term(operand)
        ):
            return self.terms.binders(operand)
        return {}

    def _is_known(self, expr: ast.Expr, extra: dict[str, ast.Node]) -> bool:
        names = self.terms.used(expr)
        return all(n in self.bound or n in extra for n in names)

    def _is_term(self, node: ast.Node) -> bool:
        if isinstance(node, ast.Bind):
            return True
        if isinstance(node, ast.Index):
            return self._is_term(node.base)
        return isinstance(node, ast.Call) and self.terms.is_pattern_head(node.head)

    def _relations(self, node: ast.Node) -> list[ast.Call]:
        """The relations that a condition asks and that can bind: those under no `not` and no `or`."""
        found: list[ast.Call] = []
        pending = [node]
        while pending:
            current = pending.pop()
            if isinstance(current, ast.Unary | ast.Logical) and current.op in ("not", "or"):
                continue
            head = current.head if isinstance(current, ast.Call) else None
            if isinstance(current, ast.Call) and isinstance(head, ast.Name) and self.vocabulary.is_relation(head.id):
                found.append(current)
            pending.extend(children(current))
        return found

    def conditions(self, conditions: Iterable[ast.Expr]) -> None:
        """Check conditions after all binding is done."""
        listed_conditions = list(conditions)
        for condition in listed_conditions:
            if isinstance(condition, ast.Logical) and condition.op == "and":
                message = "conditions are separated by commas; `and` occurs inside `or`, `all` and `some`"
                self.report.add(
                    "GR167", message, condition, "write a comma for this `and`, so that each condition can be cited"
                )
            self.condition(condition)
            self._excuse(condition)
            self.unbound(condition)
        self._constants(listed_conditions)

    def _excuse(self, condition: ast.Expr) -> None:
        """`pattern == value` with a value that is not bound: the value is at fault, not what it would have bound."""
        if not (isinstance(condition, ast.Compare) and condition.op == "=="):
            return
        for pattern, value in ((condition.left, condition.right), (condition.right, condition.left)):
            missing = [n for n in self.terms.used(value) if n not in self.bound]
            if isinstance(pattern, ast.Name | ast.ListExpr) and missing:
                self.bind(pattern)
                return

    def condition(self, condition: ast.Expr) -> None:
        if self._is_term(condition):
            self.terms.term(condition, makes=False)
            return
        if isinstance(condition, ast.Compare):
            for side, other in ((condition.left, condition.right), (condition.right, condition.left)):
                if isinstance(side, ast.ListExpr) and condition.op == "==" and not self._computed(side):
                    self.terms.list_pattern(side)
                elif self._is_term(side):
                    self.terms.term(side, makes=False)
                else:
                    self.terms.static(side)
                    self._compared(side, other)
            return
        if isinstance(condition, ast.Text):
            self.report.add("GR168", "a text is no condition", condition, "is the `when` before it not finished?")
            return
        if isinstance(condition, ast.Number | ast.ListExpr | ast.SetExpr | ast.Symbol | ast.Binary):
            self.report.add(
                "GR168",
                "this is no condition",
                condition,
                "a condition compares, asks a relation, or is a term that has to be there",
            )
            return
        if isinstance(condition, ast.Name) and condition.id not in self.terms.free_names:
            self.report.add(
                "GR168",
                f"{condition.id} alone is no condition",
                condition,
                f"write `{condition.id} == ...`, or `{condition.id} != none`",
            )
            return
        self.terms.static(condition)

    def _computed(self, side: ast.ListExpr) -> bool:
        anything = any(isinstance(n, ast.Name) and n.id == "_" for n in walk(side))
        return not anything and id(side) not in self.taken_apart

    def _compared(self, side: ast.Expr, other: ast.Expr) -> None:
        """An attribute compared with a literal of another type is never equal to it."""
        if not isinstance(side, ast.Name):
            return
        known = self.terms.sorts.get(side.id)
        value = literal(other)
        if known is None or value is None:
            return
        fits: dict[str, tuple[type, ...]] = {
            "int": (int, float),
            "float": (int, float),
            "str": (str,),
            "ints": (tuple, int, float),
            "floats": (tuple, int, float),
            "strs": (tuple,),
        }
        wanted = fits.get(known[0])
        if wanted is not None and not isinstance(value, wanted):
            message = f"this never holds: {side.id} is an attribute ({known[0]})"
            self.report.add("GR143", message, other, "compare with a value of its type")

    def unbound(
        self, node: ast.Node, hint: str = "a variable is bound by the left side, by a term in `when`, or by `v == ...`"
    ) -> None:
        missing = [n for n in self.ordered(node) if n not in self.bound]
        for name in missing:
            self.bound[name] = node  # said once
            place = next((n for n in walk(node) if isinstance(n, ast.Name) and n.id == name), node)
            close = did_you_mean(name, [n for n in self.bound if n != name and not n.startswith("L")])
            self.report.add("GR140", f"nothing binds {name}", place, close if close and len(name) > 2 else hint)

    def idle(self, parts: Iterable[ast.Node], also: Iterable[str] = ()) -> None:
        """Warn of `v == ...` where nothing else in the rule speaks of v: it holds whatever the value."""
        counts: dict[str, int] = dict.fromkeys(also, 2)
        for part in parts:
            for node in walk(part):
                name = node.id if isinstance(node, ast.Name) else node.name if isinstance(node, ast.Bind) else None
                if name is not None:
                    counts[name] = counts.get(name, 0) + 1
        for name, condition in self.by_equality.items():
            if counts.get(name, 0) < 2:
                message = f"{name} is bound here and used nowhere, so this condition always holds"
                self.report.add("GR144", message, condition, "is another name meant?", severity="warning")

    def ordered(self, node: ast.Node) -> list[str]:
        used = self.terms.used(node)
        return [n for n in dict.fromkeys(x.id for x in walk(node) if isinstance(x, ast.Name)) if n in used]

    # -------------------------------------------------------------------------------------- never or always

    def _constants(self, conditions: list[ast.Expr]) -> None:
        fixed: dict[ast.Expr, tuple[object, ast.Expr]] = {}
        for condition in conditions:
            if not isinstance(condition, ast.Compare):
                continue
            left, right = literal(condition.left), literal(condition.right)
            if left is not None and right is not None:
                self._two_literals(condition, left, right)
            elif condition.left == condition.right:
                self._same_sides(condition)
            elif condition.op == "==" and right is not None:
                first = fixed.setdefault(condition.left, (right, condition))
                if first[0] != right:
                    label = Label(first[1].span, "and here another value")
                    self.report.add(
                        "GR143",
                        "this rule can never match: two conditions exclude each other",
                        condition,
                        "drop one of them",
                        [label],
                    )
            self._element_types(condition)

    def _two_literals(self, condition: ast.Compare, left: object, right: object) -> None:
        test = _TESTS.get(condition.op)
        try:
            holds = test is None or test(left, right)
        except TypeError:
            holds = False
        if holds:
            self.report.add("GR144", "this condition always holds", condition, "leave it out", severity="warning")
        else:
            self.report.add(
                "GR143",
                "this rule can never match: the condition compares two different literals",
                condition,
                "is one of them a variable?",
            )

    def _same_sides(self, condition: ast.Compare) -> None:
        if condition.op in ("==", "<=", ">="):
            self.report.add(
                "GR144",
                "this condition always holds: both sides are the same",
                condition,
                "leave it out",
                severity="warning",
            )
        elif condition.op in ("!=", "<", ">"):
            self.report.add(
                "GR143",
                "this rule can never match: both sides are the same",
                condition,
                "is one of them another variable?",
            )

    def _element_types(self, condition: ast.Compare) -> None:
        """`x.dtype in {...}`, `x.dtype == t` against what the places of x admit."""
        field = condition.left
        if not (isinstance(field, ast.Field) and field.name == "dtype" and isinstance(field.base, ast.Name)):
            return
        admitted = self.terms.types.get(field.base.id)
        wanted = self._type_set(condition)
        if not admitted or wanted is None or wanted & admitted:
            return
        several = "none of" if len(wanted) > 1 else "not"
        message = f"this rule can never match: {field.base.id} is {several} {listed(sorted(wanted), 'or')} in its place"
        self.report.add("GR143", message, condition, f"there it may be {listed(_in_order(admitted), 'or')}")

    def _type_set(self, condition: ast.Compare) -> frozenset[str] | None:
        right = condition.right
        if condition.op == "==" and isinstance(right, ast.Name) and right.id in DTYPES:
            return frozenset({right.id})
        if condition.op != "in":
            return None
        try:
            members = self.terms.program.scope.members(right, self.terms.file)
        except GerulesError:
            return None
        return frozenset(members.keys) if members.kind == "dtypes" else None


def _in_order(types: frozenset[str]) -> list[str]:
    return [t for t in DTYPES if t in types]
