"""Laws of facts: what a fact concludes is compared with what running the operators gives.

A shape or contents: with the shape and the contents of the result. A number of flops: it is one, and does not fall when
sizes grow. That an operator may be crossed: Expand before and after it give the same. Facts about operators alone are
in `law_ground`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from gerules.dsl import ast
from gerules.dsl.lets import walk
from gerules.dsl.program import Entry, Program
from gerules.dsl.show import show
from gerules.egraph.answers import extent_of, fitting
from gerules.egraph.program import Knowledge
from gerules.errors import GerulesError
from gerules.graph.dims import Dim
from gerules.graph.dtypes import name_of_numpy
from gerules.graph.info import Info
from gerules.static import Context, NodeView, TensorView, Unknown, compile_expr, compile_truth, free_names
from gerules.static.values import is_number
from gerules.verify.case import Case
from gerules.verify.law_ground import check_ground, named
from gerules.verify.law_instances import Instance, instances_of, operands_text, split_terms
from gerules.verify.law_policy import check_policy
from gerules.verify.plan import plan_case
from gerules.verify.trials import run_trials
from gerules.verify.verdict import CaseVerdict, Status

NEVER = "no instance was found that meets its conditions"
GROWN = (1, 2, 3, 8)
"""By what all extents are multiplied to see whether flops fall."""

FORMULA = 40
"""Instances on which a formula of extents is looked at; on each it is evaluated at several sizes."""
CROSSED = 80
"""Crossings of each operator: there is one fact for many."""

Judge = Callable[[Instance], "str | None"]
"""What is wrong with a conclusion on an instance; None where it holds. Raises Unknown where it says nothing."""


def check_fact(known: Knowledge, entry: Entry[ast.Fact], trials: int, seed: int) -> tuple[CaseVerdict, ...]:
    """A verdict for each operator that the fact speaks of, or for each row that it gives."""
    statement = entry.statement
    relations = {n for c in statement.conclusions if (n := relation_of(c)) is not None}
    if relations and relations <= known.ground.relations():
        return tuple(check_ground(known, entry, trials, seed))
    found: list[CaseVerdict] = []
    for params, rest in known.ground.instances(statement.over, statement.when, entry.file):
        terms, conditions = split_terms(rest, params)
        if not terms:
            return (check_policy(known, entry, seed),)
        member = named(params)
        try:
            found.append(_Law(known, entry, member, params, terms, conditions).verdict(trials, seed))
        except GerulesError as fault:
            found.append(CaseVerdict(entry.full, member, "", "unknown", fault.diagnostics[0].message))
    return tuple(found) or (CaseVerdict(entry.full, "", "", "unknown", "it speaks of no operator"),)


def relation_of(conclusion: ast.Expr) -> str | None:
    """The relation that a conclusion is about; None where it is about a tensor."""
    if isinstance(conclusion, ast.Call) and isinstance(conclusion.head, ast.Name):
        return conclusion.head.id
    return None


@dataclass
class _Law:
    known: Knowledge
    entry: Entry[ast.Fact]
    member: str
    params: Mapping[str, object]
    terms: tuple[ast.Expr, ...]
    conditions: tuple[ast.Expr, ...]

    def verdict(self, trials: int, seed: int) -> CaseVerdict:
        conclusions = self.entry.statement.conclusions
        relations = [c for c in conclusions if relation_of(c) is not None]
        if relations:
            return self._relation(str(relation_of(relations[0])), trials, seed)
        label = self.entry.full + (f"[{self.member}]" if self.member else "")
        drawn = instances_of(self.known, label, self.entry.file, self.params, self.terms, self.conditions)
        judges = [(c, judge_of(c, drawn.plan.context)) for c in conclusions]
        wrong: list[tuple[int, str]] = []
        said = 0
        flops = all(isinstance(c, ast.Compare) and _is_flops(c.left) for c in conclusions)
        for instance in drawn.take(min(trials, FORMULA) if flops else trials, seed):
            for conclusion, judge in judges:
                try:
                    fault = judge(instance)
                except Unknown:
                    continue
                said += 1
                if fault is not None and instance.admissible:
                    wrong.append((instance.size, f"{show(conclusion)}: {fault}, for {instance.text()}"))
        drawn.label = self.entry.full
        if wrong:
            return drawn.verdict(self.member, "refuted", min(wrong)[1])
        if not drawn.found:
            why = f" ({drawn.commonest})" if drawn.commonest else ""
            return drawn.verdict(self.member, "unknown", f"{NEVER} in {drawn.drawn} draws{why}")
        if not said:
            return drawn.verdict(self.member, "unknown", f"it says nothing of {drawn.found} instances")
        return drawn.verdict(self.member, "tested", f"{drawn.found} instances")

    # ------------------------------------------------------------------------------------------------ relations

    def _relation(self, name: str, trials: int, seed: int) -> CaseVerdict:
        """What a relation over tensors promises: by its own law, or nothing that numbers could deny."""
        full, member = self.entry.full, self.member
        if name in CROSSING:
            return self._crossing(trials, seed)
        if only_forbids(self.known.program, name):
            detail = f"`{name}` only forbids, so nothing follows from it that could be wrong"
            return CaseVerdict(full, member, "", "tested", detail, trials=1, drawn=1)
        static = tuple(c for c in self.conditions if not asks_relation(self.known.program, c))
        drawn = instances_of(self.known, full, self.entry.file, self.params, self.terms, static)
        count = len(drawn.take(min(trials, 20), seed))
        if not count:
            return drawn.verdict(member, "unknown", f"{NEVER} in {drawn.drawn} draws")
        return drawn.verdict(member, "tested", f"`{name}` names what its conditions say; {count} instances meet them")

    def _crossing(self, trials: int, seed: int) -> CaseVerdict:
        """Every operand of the operator, stretched before or the result after: the same."""
        full, member, term = self.entry.full, self.member, self.terms[0]
        program = self.known.program
        call = term.expr if isinstance(term, ast.Bind) else term
        if not isinstance(call, ast.Call) or len(self.terms) > 1:
            detail = "what is crossed is one operator: `crossable(y) when f(..) as y`"
            return CaseVerdict(full, member, "", "unknown", detail)
        name = term.name if isinstance(term, ast.Bind) else "y"
        given = {name, *(o.id for o in call.operands if isinstance(o, ast.Name))}
        told = tuple(c for c in self.conditions if {*free_names(c)} <= given and not asks_relation(program, c))
        case = crossing_case(full, member, self.entry.file, self.params, call, name, told)
        ran = run_trials(plan_case(case, self.known), accepted=min(trials, CROSSED), seed=seed)
        detail = f"{ran.accepted} crossings"
        if ran.refutation is not None:
            held = [c for c in self.conditions if c not in told and not isinstance(c, ast.Unary)]
            found = ran.refutation
            shapes = operands_text(found.operands)
            detail = f"crossing an Expand changes the result: {found.reason}, for {shapes}"
            status: Status = "unknown" if held else "refuted"
            return CaseVerdict(full, member, "", status, detail, trials=ran.accepted, drawn=ran.drawn)
        if not ran.accepted:
            return CaseVerdict(full, member, "", "unknown", f"{NEVER} in {ran.drawn} draws", drawn=ran.drawn)
        return CaseVerdict(full, member, "", "tested", detail, trials=ran.accepted, drawn=ran.drawn)


def judge_of(conclusion: ast.Expr, context: Context) -> Judge:
    """What tells whether a conclusion about a tensor holds."""
    if isinstance(conclusion, ast.Compare) and conclusion.op == "==":
        for side, other in ((conclusion.left, conclusion.right), (conclusion.right, conclusion.left)):
            if isinstance(other, ast.Call) and other.head in (ast.Name("dims"), ast.Name("dim")):
                assert isinstance(side, ast.Name)
                return contents_judge(side.id, other, context)
            if _is_flops(side):
                return flops_judge(other, context)
    truth = compile_truth(conclusion, context)
    shown = [s for s in sides(conclusion) if isinstance(s, ast.Field)]
    actual = [(show(s), compile_expr(s, context)) for s in shown]

    def judge(instance: Instance) -> str | None:
        holds = truth(instance.env)
        if holds is None:
            raise Unknown("not known")
        if holds:
            return None
        told = ", ".join(f"{name} is {_list(value(instance.env))}" for name, value in actual)
        return told or "it does not hold"

    return judge


def _is_flops(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Call) and expr.head == ast.Name("flops")


CROSSING = ("crossable",)
"""Relations that say of a result that an Expand may move from the operands of its operator to it."""


def crossing_case(
    full: str,
    member: str,
    file: ast.RuleFile,
    params: Mapping[str, object],
    call: ast.Call,
    name: str,
    conditions: tuple[ast.Expr, ...] = (),
) -> Case:
    """`f(..p, Expand(x, _), ..q) as y => Expand(f(..p, x, ..q), dims(y.shape))` for the operator of `call`; x has the
    name of its first operand, where that has one."""
    expand = ast.Symbol("", "Expand", "13")
    first = call.operands[0] if call.operands else None
    named = isinstance(first, ast.Name) and first.id not in ("_", name)
    x = first if named and isinstance(first, ast.Name) else ast.Name("stretched")
    p, q = ast.Rest(ast.Name("before")), ast.Rest(ast.Name("after"))
    stretched = ast.Call(expand, (x, ast.Name("_")))
    left = ast.Bind(ast.Call(call.head, (p, stretched, q), call.keywords), name)
    shape = ast.Call(ast.Name("dims"), (ast.Field(ast.Name(name), "shape"),))
    right = ast.Call(expand, (ast.Call(call.head, (p, x, q), call.keywords), shape))
    rule = ast.Rewrite("crossing", (), "", left, False, right, (), span=call.span)
    return Case(full, member, "", rule, file, params, left, right, conditions)


def only_forbids(program: Program, relation: str) -> bool:
    """Whether rules ask for a relation only to hold back (`not barrier(y)`)."""
    asked = 0
    for entries in (program.rewrites, program.facts, program.refuses):
        for entry in entries.values():
            for condition in entry.statement.when:
                negated = isinstance(condition, ast.Unary) and condition.op == "not"
                for node in walk(condition):
                    if isinstance(node, ast.Call) and node.head == ast.Name(relation):
                        asked += 1
                        if not negated:
                            return False
    return asked > 0


def asks_relation(program: Program, condition: ast.Expr) -> bool:
    """Whether a condition asks a table or a relation that facts conclude."""
    names = {relation_of(c) for e in program.facts.values() for c in e.statement.conclusions} | set(program.tables)
    return any(relation_of(node) in names for node in walk(condition) if isinstance(node, ast.Call))


def sides(conclusion: ast.Expr) -> Iterator[ast.Expr]:
    if isinstance(conclusion, ast.Compare):
        yield from (conclusion.left, conclusion.right)


def contents_judge(name: str, told: ast.Call, context: Context) -> Judge:
    """`y == dims(v)` or `y == dim(v)`: the integers that the tensor holds."""
    value = compile_expr(told.operands[0], context)
    rank = 1 if told.head == ast.Name("dims") else 0

    def judge(instance: Instance) -> str | None:
        wanted = value(instance.env)
        entries = wanted if isinstance(wanted, tuple) else (wanted,)
        if any(e is None for e in entries):
            raise Unknown("an entry is not known")
        found = instance.array(name)
        if not isinstance(found, np.ndarray):
            raise Unknown("there is no such result")
        if None in fitting(tuple(map(extent_of, entries)), name_of_numpy(found.dtype)):
            raise Unknown("a number is beyond the range of the type, and then nothing is concluded")
        if found.ndim == rank and [v.item() for v in found.reshape(-1)] == [_number(e) for e in entries]:
            return None
        return f"{name} is {found.tolist()}, not {_list(wanted)}"

    return judge


def _number(entry: object) -> object:
    return entry.value if isinstance(entry, Dim) else entry


def flops_judge(told: ast.Expr, context: Context) -> Judge:
    """`flops(y) == v`: a number of steps, 0 or more, that does not fall when every extent grows."""
    value = compile_expr(told, context)

    def judge(instance: Instance) -> str | None:
        names = instance.values()
        before = -math.inf
        for factor in GROWN:
            env = {n: grown(v, factor) for n, v in names.items()}
            flops = _number(value(env))
            if not is_number(flops) or not math.isfinite(flops) or flops < 0:  # type: ignore[arg-type, operator]
                return f"it is {flops} with all extents times {factor}, which is no number of steps"
            if flops < before:  # type: ignore[operator]
                return f"it falls from {before:g} to {flops:g} when all extents grow {factor} times"
            before = float(flops)  # type: ignore[arg-type]
        return None

    return judge


def grown(value: object, factor: int) -> object:
    """A tensor with all its extents times `factor`; lists of tensors likewise, anything else as it is."""
    match value:
        case NodeView(info=info, results=results):
            return NodeView(_grown(info, factor), None, tuple(grown(r, factor) for r in results))  # type: ignore[misc]
        case TensorView(info=info):
            return TensorView(_grown(info, factor))
        case tuple() if any(isinstance(v, TensorView) for v in value):
            return tuple(grown(v, factor) for v in value)
    return value


def _grown(info: Info, factor: int) -> Info:
    if info.shape is None:
        return info
    return Info(info.dtype, tuple(None if d is None else d * Dim.of(factor) for d in info.shape))


def _list(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value)
