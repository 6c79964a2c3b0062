"""Checks of single rules: rewrites, facts, denies. Bound variables, sides, growth, conditions that never hold."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from gerules.dsl import ast
from gerules.dsl.lets import children, walk
from gerules.dsl.program import Entry, Program
from gerules.dsl.resolve import DTYPES, literal
from gerules.dsl.suggest import did_you_mean, listed
from gerules.dsl.terms import NODE, TENSOR, Report, Terms
from gerules.dsl.vocabulary import ENGINE_TABLES, VALUE_TERMS, Vocabulary, conclusion_heads
from gerules.errors import GerulesError, Label

HOLE = re.compile(r"\{([^{}]*)\}")


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
        lenient: bool = False,
    ) -> None:
        self.terms = Terms(program, vocabulary, file, report, wide, loose)
        self.vocabulary = vocabulary
        self.report = report
        self.lenient = lenient  # a fact's `x.shape == ...` ranges over all tensors
        self.sound = self.terms.take_over(over)
        self.bound: dict[str, ast.Node] = {}

    # ------------------------------------------------------------------------------------------- conditions

    def bind(self, pattern: ast.Node) -> None:
        for name, place in self.terms.binders(pattern).items():
            self.bound.setdefault(name, place)

    def settle(self, conditions: Iterable[ast.Expr]) -> None:
        """Bind all that conditions bind, whatever their order."""
        waiting = list(conditions)
        progress = True
        while progress:
            progress = False
            for condition in list(waiting):
                new = self._bound_by(condition)
                if new is None:
                    continue
                waiting.remove(condition)
                for name, place in new.items():
                    if name not in self.bound:
                        self.bound[name] = place
                        progress = True

    def _bound_by(self, condition: ast.Expr) -> dict[str, ast.Node] | None:
        """What a condition binds; None where that depends on names that are not bound yet."""
        if self._is_term(condition):
            return self.terms.binders(condition)
        found: dict[str, ast.Node] = {}
        for call in self._relations(condition):
            for operand in call.operands:
                found |= self._argument(operand)
        if isinstance(condition, ast.Compare) and condition.op == "==":
            for pattern, value in ((condition.left, condition.right), (condition.right, condition.left)):
                if isinstance(pattern, ast.Name | ast.ListExpr) and self._is_known(value, found):
                    return found | self.terms.binders(pattern)
                if self._is_term(pattern) and isinstance(pattern, ast.Call) and self._is_known(value, found):
                    return found | self.terms.binders(pattern)
        return found or None

    def _argument(self, operand: ast.Expr) -> dict[str, ast.Node]:
        if isinstance(operand, ast.Name | ast.Call | ast.Bind) and (
            isinstance(operand, ast.Name) or self._is_term(operand)
        ):
            return self.terms.binders(operand)
        return {}

    def _is_known(self, expr: ast.Expr, extra: dict[str, ast.Node]) -> bool:
        names = self.terms.used(expr)
        if self.lenient and isinstance(expr, ast.Field) and isinstance(expr.base, ast.Name):
            self.bound.setdefault(expr.base.id, expr)
        return all(n in self.bound or n in extra for n in names)

    def _is_term(self, node: ast.Node) -> bool:
        if isinstance(node, ast.Bind):
            return True
        if isinstance(node, ast.Index):
            return self._is_term(node.base)
        return isinstance(node, ast.Call) and self.terms.is_pattern_head(node.head)

    def _relations(self, node: ast.Node) -> list[ast.Call]:
        """The relations that a condition asks and that can bind: those under no `not`."""
        found: list[ast.Call] = []
        pending = [node]
        while pending:
            current = pending.pop()
            if isinstance(current, ast.Unary) and current.op == "not":
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
            self._condition(condition)
            self._unbound(condition)
        self._constants(listed_conditions)

    def _condition(self, condition: ast.Expr) -> None:
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
        if isinstance(condition, ast.Number | ast.Text | ast.ListExpr | ast.SetExpr | ast.Symbol | ast.Binary):
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
        return not anything and all(name in self.bound for name in self.terms.used(side))

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

    def _unbound(
        self, node: ast.Node, hint: str = "a variable is bound by the left side, by a term in `when`, or by `v == ...`"
    ) -> None:
        missing = [n for n in self._ordered(node) if n not in self.bound]
        for name in missing:
            self.bound[name] = node  # said once
            place = next((n for n in walk(node) if isinstance(n, ast.Name) and n.id == name), node)
            close = did_you_mean(name, [n for n in self.bound if n != name and not n.startswith("L")])
            self.report.add("GR140", f"nothing binds {name}", place, close if close and len(name) > 2 else hint)

    def _ordered(self, node: ast.Node) -> list[str]:
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


# ---------------------------------------------------------------------------------------------------------- rewrites


def strip(node: ast.Node) -> ast.Node:
    """Without the `as y` outside."""
    while isinstance(node, ast.Bind):
        node = node.expr
    return node


def check_rewrite(program: Program, vocabulary: Vocabulary, entry: Entry[ast.Rewrite], report: Report) -> None:
    statement = entry.statement
    rule = Rule(program, vocabulary, entry.file, report, statement.over)
    left, right = strip(statement.left), strip(statement.right)
    if isinstance(left, ast.Name | ast.Word | ast.Number | ast.Text | ast.ListExpr | ast.SetExpr):
        message = (
            "the left side is no operator term: it would match every value"
            if isinstance(left, ast.Name)
            else "the left side is no term"
        )
        report.add("GR168", message, statement.left, "a rewrite starts from an operator: `Relu(x) => ...`")
        return
    rule.bind(statement.left)
    if statement.both:
        rule.bind(statement.right)
    rule.settle(statement.when)
    sort = rule.terms.term(statement.left, makes=False)
    other = rule.terms.term(statement.right, makes=not statement.both)
    if statement.both:
        _both_ways(rule, statement)
    rule.conditions(statement.when)
    if not rule.sound:
        return
    rule._unbound(statement.left, "a variable is bound where a term of the left side has it as operand or attribute")
    rule._unbound(statement.right, "the right side may use what the left side or `when` binds")
    _sides(rule, statement, sort, other)
    if left == right:
        report.add("GR142", "both sides are the same", statement.right, "such a rule changes nothing")
    else:
        _growth(rule, statement, left)


def _both_ways(rule: Rule, statement: ast.Rewrite) -> None:
    """Read from the right, all that the left side needs has to be bound there too."""
    for side, other, way in ((statement.left, statement.right, "<="), (statement.right, statement.left, "=>")):
        back = Rule(rule.terms.program, rule.vocabulary, rule.terms.file, Report(), ())
        back.terms.params = rule.terms.params
        back.bind(other)
        back.settle(statement.when)
        missing = [n for n in back._ordered(side) if n not in back.bound]
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
    rule = Rule(program, vocabulary, entry.file, report, statement.over, loose=assumption, lenient=True)
    rule.settle(statement.when)
    rule.conditions(statement.when)
    for conclusion in statement.conclusions:
        _conclusion(rule, conclusion, assumption)
    if rule.sound:
        for conclusion in statement.conclusions:
            hint = (
                "an assumption is about dimensions (N) and operators, not about variables"
                if assumption
                else "a conclusion may use what `when` binds"
            )
            rule._unbound(conclusion, hint)


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
            if isinstance(side, ast.Call) and rule.terms.is_pattern_head(side.head) and not _is_dimension(rule, side):
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


def _is_dimension(rule: Rule, call: ast.Call) -> bool:
    return isinstance(call.head, ast.Name) and call.head.id not in VALUE_TERMS and call.head.id not in rule.terms.params


def _operands(rule: Rule, call: ast.Call, assumption: bool) -> None:
    """The columns of a concluded relation; operators among them are looked up, dimensions of an assumption are not."""
    name = call.head.id if isinstance(call.head, ast.Name) else ""
    rule.terms._arity(call, name)
    loose = rule.terms.loose
    rule.terms.loose = assumption and name == "likely"
    for operand in call.operands:
        if (
            isinstance(operand, ast.Call)
            and rule.terms.is_pattern_head(operand.head)
            and not _is_dimension(rule, operand)
        ):
            rule.terms.term(operand, makes=True)
        elif isinstance(operand, ast.Symbol):
            rule.terms.symbol(operand)
        else:
            rule.terms.static(operand)
    rule.terms.loose = loose


def check_refuse(program: Program, vocabulary: Vocabulary, entry: Entry[ast.Refuse], report: Report) -> None:
    statement = entry.statement
    rule = Rule(program, vocabulary, entry.file, report, statement.over, lenient=True)
    rule.settle(statement.when)
    rule.conditions(statement.when)
    known = {*rule.bound, *rule.terms.params}
    for matched in HOLE.finditer(statement.message):
        name = matched[1]
        if name not in known:
            hint = did_you_mean(name, known) or f"a hole is a variable of `when`: {listed(sorted(known), 'or')}"
            report.add("GR146", f"nothing binds the hole {{{name}}} of the message", statement, hint)


# ------------------------------------------------------------------------------------------------- all rules at once


def canonical_form(entry: Entry[ast.Rewrite] | Entry[ast.Fact]) -> tuple[object, ...]:
    """A rule up to the names of its variables; equal forms say the same."""
    statement = entry.statement
    names: dict[str, str] = {}
    heads = {m.name for m in statement.over}

    def rename(node: ast.Node) -> object:
        if isinstance(node, ast.Name):
            if node.id == "_" or node.id in DTYPES:
                return node.id
            return ("v", names.setdefault(node.id, str(len(names))))
        if isinstance(node, ast.Call):
            head: object = node.head
            if isinstance(head, ast.Name):
                head = ("v", names.setdefault(head.id, str(len(names)))) if head.id in heads else head.id
            keywords = sorted(((k.name, rename(k.value)) for k in node.keywords), key=repr)
            return ("call", head, tuple(rename(o) for o in node.operands), tuple(keywords))
        if isinstance(node, ast.Bind):
            return ("as", rename(node.expr), names.setdefault(node.name, str(len(names))))
        parts = tuple(rename(child) for child in children(node))
        plain = replace(node) if not parts else None
        return (type(node).__name__, getattr(node, "op", ""), getattr(node, "name", ""), parts, plain)

    opsets = tuple((s.domain, s.version) for s in entry.file.statements if isinstance(s, ast.Opset))
    over = tuple((names.setdefault(m.name, str(len(names))), m.domain) for m in statement.over)
    if isinstance(statement, ast.Rewrite):
        sides: tuple[object, ...] = (
            statement.both,
            statement.exactness,
            rename(statement.left),
            rename(statement.right),
        )
    else:
        sides = tuple(rename(c) for c in statement.conclusions)
    when = tuple(rename(c) for c in statement.when)
    return (type(statement).__name__, opsets, over, sides, when)


def check_duplicates(program: Program, report: Report) -> None:
    """Two rules of different names that say the same."""
    seen: dict[tuple[object, ...], Entry[ast.Rewrite] | Entry[ast.Fact]] = {}
    entries: list[Entry[ast.Rewrite] | Entry[ast.Fact]] = [*program.rewrites.values()]
    entries += [e for e in program.facts.values() if e.statement.when]
    for entry in entries:
        form = canonical_form(entry)
        first = seen.setdefault(form, entry)
        if first is not entry:
            message = f"{entry.statement.name} says what {first.full} says"
            label = Label(first.statement.span, "the same rule")
            report.add("GR128", message, entry.statement, "keep one of the two", [label], severity="warning")
