"""The examples beside facts, denies and warnings over tables: rows in, what follows out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gerules.dsl import ast
from gerules.dsl.lets import walk
from gerules.dsl.program import Entry, Program
from gerules.dsl.vocabulary import SIGNATURE_TABLES
from gerules.errors import Diagnostic, GerulesError, InternalFault, Span
from gerules.policy.decide import Answers, Policy, operator_text
from gerules.policy.judging import SIGNATURE
from gerules.policy.model import INT, TEXT, Cell, Relation, Row
from gerules.policy.texts import cell_text, number_text
from gerules.policy.version_examples import is_between_releases

Tested = Entry[ast.Fact] | Entry[ast.Refuse]


def about_tables(program: Program, entry: Entry[ast.Example]) -> bool:
    """Whether an example gives rows of tables, for a fact, deny or warning: then it is run here."""
    if entry.full not in program.facts and entry.full not in program.refuses:
        return False
    return all(_is_row(program, given) for given in entry.statement.given)


def _is_row(program: Program, given: ast.Expr) -> bool:
    call = given.left if isinstance(given, ast.Compare) and given.op == "==" else given
    if not isinstance(call, ast.Call) or not isinstance(call.head, ast.Name):
        return False
    return all(isinstance(o, ast.Symbol) or cell_text(o) is not None for o in call.operands)


def run_example(program: Program, entry: Entry[ast.Example]) -> Diagnostic | None:
    """What is wrong with an example; None where it holds. Raises GerulesError for rules that cannot be run."""
    rule: Tested = program.facts[entry.full] if entry.full in program.facts else program.refuses[entry.full]
    try:
        _Example(program, entry, rule).check()
    except _Failed as failed:
        message = f"example of {entry.full}: {failed.message}"
        return Diagnostic("GR570", message, span=failed.span or entry.statement.span, hint=failed.hint)
    return None


class _Failed(Exception):
    def __init__(self, message: str, span: Span | None = None, hint: str | None = None) -> None:
        self.message, self.span, self.hint = message, span, hint


class _Example:
    def __init__(self, program: Program, entry: Entry[ast.Example], rule: Tested) -> None:
        self.program, self.entry, self.rule = program, entry, rule
        theirs = {f.ruleset for f in program.files if f.ruleset.startswith("user")}
        self.rulesets = tuple(sorted({entry.ruleset, SIGNATURE} | theirs))

    def check(self) -> None:
        outcome = self.entry.statement.outcome
        if isinstance(outcome, ast.Gives):
            self._gives(outcome)
        elif isinstance(outcome, ast.Stays):
            self._stays(outcome)

    # ---------------------------------------------------------------------------------------------------- outcomes

    def _gives(self, outcome: ast.Gives) -> None:
        heads = [name for fact in outcome.facts if (name := _relation_of(fact)) is not None]
        refuses = (self.rule.full,) if isinstance(self.rule.statement, ast.Refuse) else ()
        policy = Policy(self.program, self.rulesets)
        answers = self._run(policy, tuple(dict.fromkeys(heads)), refuses)
        for fact in outcome.facts:
            if isinstance(fact, ast.Text):
                self._message(answers, fact)
                continue
            name = _relation_of(fact)
            relation = policy.relations.get(name) if name is not None else None
            if name is None or relation is None:
                raise _Failed("an example of a rule over tables gives rows, or the text of a deny", fact.span)
            row = _row(fact, relation)
            if row not in answers.rows[name]:
                found = [r for r in answers.rows[name] if r[: relation.arity] == row[: relation.arity]]
                hint = (
                    f"{name} holds of {_shown(found[0])}"
                    if found
                    else f"{name} holds of {len(answers.rows[name])} rows"
                )
                raise _Failed("this does not follow", fact.span, hint)

    def _message(self, answers: Answers, fact: ast.Text) -> None:
        messages = [r.message for r in answers.refusals]
        if fact.value not in messages:
            hint = f"it says: {messages[0]}" if messages else "its conditions do not hold"
            raise _Failed("the rule does not say this", fact.span, hint)

    def _stays(self, outcome: ast.Stays) -> None:
        if self._holds(self.rule.statement.when):
            raise _Failed("the rule fires here")
        cited = (outcome.because, self.program.expand_lets(outcome.because))
        left = tuple(c for c in self.rule.statement.when if c not in cited)
        if len(left) == len(self.rule.statement.when):
            return
        try:
            fires = self._holds(left)
        except InternalFault:
            return  # the condition binds what others read: it cannot be dropped
        if not fires:
            message = "something else holds the rule back: without the condition cited it does not fire either"
            raise _Failed(message, outcome.because.span)

    def _holds(self, when: tuple[ast.Expr, ...]) -> bool:
        """Whether some conditions hold of the rows given."""
        statement = self.rule.statement
        asked = ast.Refuse("warn", statement.name, statement.over, "", when, span=statement.span)
        probe = Entry(f"{self.rule.full}?", asked, asked, self.rule.file)
        policy = Policy(self.program, self.rulesets, (probe,))
        return bool(self._run(policy, (), (probe.full,)).refusals)

    def _run(self, policy: Policy, wanted: tuple[str, ...], refuses: tuple[str, ...]) -> Answers:
        relations = policy.relations
        tables: dict[str, list[Row]] = {}
        for given in self.entry.statement.given:
            name = _relation_of(given)
            relation = relations.get(name) if name is not None else None
            if name is None or relation is None:
                raise _Failed("this is no row of a table", given.span)
            tables.setdefault(name, []).append(_row(given, relation))
        for name, table in self.program.tables.items():
            # What lies in files stays; an example that gives rows of such a table gives all of them.
            if table.statement.source is None:
                tables.setdefault(name, [])
        return policy.decide(tables, wanted, refuses)


def _relation_of(fact: ast.Expr) -> str | None:
    call = fact.left if isinstance(fact, ast.Compare) else fact
    return call.head.id if isinstance(call, ast.Call) and isinstance(call.head, ast.Name) else None


def _row(fact: ast.Expr, relation: Relation) -> Row:
    call = fact.left if isinstance(fact, ast.Compare) else fact
    assert isinstance(call, ast.Call)
    values = [*call.operands, *([fact.right] if isinstance(fact, ast.Compare) else [])]
    if len(values) != len(relation.sorts):
        raise _Failed(f"{relation.name} has {len(relation.sorts)} columns, its result included", fact.span)
    return tuple(_cell(value, sort) for value, sort in zip(values, relation.sorts, strict=True))


def _cell(value: ast.Expr, sort: str) -> Cell:
    if isinstance(value, ast.Symbol):
        return operator_text(replace(value, version=None))
    text = cell_text(value)
    if text is None:
        raise _Failed("a row of an example has literals and operators", value.span)
    if sort == TEXT:
        return text
    try:
        return int(text) if sort == INT else float(text)
    except ValueError:
        raise _Failed(f"{text} stands where a number is wanted", value.span) from None


def _shown(row: Row) -> str:
    return ", ".join(c if isinstance(c, str) else number_text(c) for c in row)


def runnable(program: Program, entry: Tested) -> bool:
    """Whether a fact, deny or warning speaks only of tables that are filled where two releases are compared."""
    users = (f.ruleset for f in program.files if f.ruleset.startswith("user"))
    policy = Policy(program, tuple(dict.fromkeys((entry.ruleset, SIGNATURE, *users))))
    try:
        if isinstance(entry.statement, ast.Refuse):
            decision = policy.decision((), (entry.full,))
        else:
            heads = (_relation_of(c) for c in entry.statement.conclusions)
            decision = policy.decision(tuple(h for h in heads if h is not None))
    except GerulesError:
        return False
    tables = [program.tables[n] for n in decision.needed if n in program.tables]
    return bool(decision.needed) and all(t.statement.source or t.statement.name in SIGNATURE_TABLES for t in tables)


def without_decided(program: Program, found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Diagnostics without those that say "not yet" of what `diff` and `recover` run: facts, denies and tables between
    releases, and rewrites from one release to another."""
    between = between_releases(program)
    found = [d for d in found if not (d.code in _FOREIGN and d.span in between)]
    said = {d.span for d in found if d.code == "GR193"}
    found = [d for d in found if not (d.code == "GR502" and d.span in said)]
    files = {d.span.file for d in found if d.code in _NOT_YET and d.span is not None}
    places: set[Span] = set()
    entries: list[Tested] = [*program.facts.values(), *program.refuses.values()]
    for entry in entries:
        if entry.file.path in files and runnable(program, entry):
            places.add(entry.statement.span)
            for node in walk(entry.statement):
                if isinstance(node, ast.Call) and isinstance(node.head, ast.Name):
                    table = program.tables.get(node.head.id)
                    places |= {table.statement.span} if table is not None else set()
    return [d for d in found if not (d.code in _NOT_YET and d.span in places)]


_NOT_YET = ("GR191", "GR194", "GR510")
_FOREIGN = ("GR193", "GR502")


def between_releases(program: Program) -> frozenset[Span]:
    """Where rewrites between releases of one registry speak of its operators."""
    places: set[Span] = set()
    for entry in program.rewrites.values():
        if is_between_releases(program, entry):
            symbols = [n for n in walk(entry.statement) if isinstance(n, ast.Symbol)]
            places |= {entry.statement.span, *(s.span for s in symbols)}
    return frozenset(places)
