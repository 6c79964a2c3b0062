"""Laws of facts about operators alone (`neutral_right(Mul, 1)`, `same_operator(f, g)`).

What such a fact means is what rules do with it: every rewrite that asks for a row is tried on that row, and one that
asks for its absence is tried on it too, and has to be wrong. Relations that no rewrite asks for, because they decide
what an operator is, have laws of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from gerules.dsl import ast
from gerules.dsl.program import Entry
from gerules.egraph.ground import Ground, Row
from gerules.egraph.program import Knowledge
from gerules.errors import GerulesError
from gerules.registry.definition import OperatorDef
from gerules.verify.case import Case, cases_of
from gerules.verify.law_instances import operands_text
from gerules.verify.law_versions import check_changes, check_reworded, check_same, check_unconnected
from gerules.verify.plan import plan_case
from gerules.verify.trials import run_trials
from gerules.verify.verdict import CaseVerdict, Status, worst


def named(params: Mapping[str, object]) -> str:
    """How a member is called: the operators that parameters stand for."""
    return ",".join(v.key if isinstance(v, OperatorDef) else str(v) for v in params.values())


def check_ground(known: Knowledge, entry: Entry[ast.Fact], trials: int, seed: int) -> Iterator[CaseVerdict]:
    """A verdict for each row that the fact gives."""
    ground = _before_closing(known)
    statement = entry.statement
    for params, _ in ground.instances(statement.over, statement.when, entry.file):
        for conclusion in statement.conclusions:
            assert isinstance(conclusion, ast.Call) and isinstance(conclusion.head, ast.Name)
            row = tuple(ground.value(o, params, entry.file) for o in conclusion.operands)
            member = _row_text(row)
            law = LAWS.get(conclusion.head.id, _by_consumers(conclusion.head.id))
            try:
                yield law(known, entry.full, member, row, trials, seed)
            except GerulesError as fault:
                yield CaseVerdict(entry.full, member, "", "unknown", fault.diagnostics[0].message)


def _before_closing(known: Knowledge) -> Ground:
    """The ground facts as they are before versions of one meaning are made one."""
    found = known.kept.get("open ground")
    if found is None:
        old = known.ground
        found = known.kept["open ground"] = Ground(old.scope, old.facts, old.tables)
    assert isinstance(found, Ground)
    return found


def _row_text(row: Row) -> str:
    return ", ".join(v.key if isinstance(v, OperatorDef) else repr(v) for v in row)


RowLaw = Callable[[Knowledge, str, str, Row, int, int], CaseVerdict]


def _by_consumers(relation: str) -> RowLaw:
    """The law of a relation that rewrites ask for: on this row each of them is right."""

    def law(known: Knowledge, full: str, member: str, row: Row, trials: int, seed: int) -> CaseVerdict:
        statuses: list[Status] = []
        accepted = drawn = 0
        rules: dict[str, None] = {}
        for case in cases_asking(known, relation, row):
            ran = run_trials(plan_case(case, known), accepted=trials, seed=seed)
            accepted, drawn = accepted + ran.accepted, drawn + ran.drawn
            if ran.refutation is not None:
                found = ran.refutation
                detail = f"with it {case.label} is wrong: {found.reason}, for {operands_text(found.operands)}"
                return CaseVerdict(full, member, "", "refuted", detail, trials=accepted, drawn=drawn)
            rules[case.rule] = None
            statuses.append("tested" if ran.accepted else "unknown")
        if not statuses:
            return _by_what_it_holds_back(known, full, member, relation, row, trials, seed)
        names = ", ".join(rules)
        if worst(statuses) == "unknown":
            return CaseVerdict(full, member, "", "unknown", f"no instance was found of {names}", drawn=drawn)
        return CaseVerdict(full, member, "", "tested", f"{accepted} trials of {names}", trials=accepted, drawn=drawn)

    return law


def _by_what_it_holds_back(
    known: Knowledge, full: str, member: str, relation: str, row: Row, trials: int, seed: int
) -> CaseVerdict:
    """The law of a relation that rewrites ask not to hold: on this row one of them would be wrong."""
    tried: dict[str, None] = {}
    drawn = 0
    for case in cases_asking(known, relation, row, held_back=True):
        tried[case.rule] = None
        ran = run_trials(plan_case(case, known), accepted=trials, seed=seed)
        drawn += ran.drawn
        if ran.refutation is not None:
            detail = f"without it {case.label} is wrong: {ran.refutation.reason}"
            return CaseVerdict(full, member, "", "tested", detail, trials=ran.accepted + 1, drawn=drawn)
    if not tried:
        return CaseVerdict(full, member, "", "unknown", f"no rewrite asks for `{relation}` of it")
    detail = f"without it {', '.join(tried)} showed no difference"
    return CaseVerdict(full, member, "", "unknown", detail, drawn=drawn)


def cases_asking(known: Knowledge, relation: str, row: Row, held_back: bool = False) -> Iterator[Case]:
    """The cases of all rewrites in which the row is what `relation` was asked for; if `held_back`, those that would be
    there if `not relation(...)` was not asked."""
    for entry in known.program.rewrites.values():
        statement = entry.statement
        asked = {c: c.operand if isinstance(c, ast.Unary) and c.op == "not" else None for c in statement.when}
        candidates = [inner if held_back else c for c, inner in asked.items() if (inner is not None) == held_back]
        calls = [c for c in candidates if isinstance(c, ast.Call) and c.head == ast.Name(relation)]
        if not calls:
            continue
        if held_back:
            statement = replace(statement, when=tuple(c for c, inner in asked.items() if inner not in calls))
        for case in cases_of(known, entry, statement):
            if any(_asks(known, call, case, row) for call in calls):
                yield case


def _asks(known: Knowledge, call: ast.Call, case: Case, row: Row) -> bool:
    if len(call.operands) != len(row):
        return False
    key = known.ground.key
    return all(
        o == ast.Name("_") or key(known.ground.value(o, case.params, case.file)) == key(v)
        for o, v in zip(call.operands, row, strict=True)
    )


def _dtype_attribute(known: Knowledge, full: str, member: str, row: Row, trials: int, seed: int) -> CaseVerdict:
    """The operator has the attribute, it is one number, and a default names an element type (0 is none)."""
    from gerules.graph.dtypes import NAME_OF_NUMBER

    operator, name = row
    assert isinstance(operator, OperatorDef)
    attribute = next((a for a in operator.attributes if a.name == name), None)
    if attribute is None:
        return CaseVerdict(full, member, "", "refuted", f"{operator.key} has no attribute {name}")
    if attribute.type != "int":
        detail = f"{name} of {operator.key} is of type {attribute.type}, no number"
        return CaseVerdict(full, member, "", "refuted", detail)
    if attribute.default and int(attribute.default) not in (0, *NAME_OF_NUMBER):
        detail = f"{name} of {operator.key} is {attribute.default} by default, which names no element type"
        return CaseVerdict(full, member, "", "refuted", detail)
    return CaseVerdict(full, member, "", "tested", "the schema has it", trials=1, drawn=1)


LAWS: Mapping[str, RowLaw] = {
    "same_operator": check_same,
    "changes": check_changes,
    "reworded": check_reworded,
    "unconnected": check_unconnected,
    "dtype_attribute": _dtype_attribute,
}
"""Relations that say what an operator is. All others mean what rules make of them."""
