"""Conditions in an order in which they can be answered: tests, bindings, and questions to relations.

`v == expr` with v unbound binds v; a list pattern (`[..p, m, k]`) binds what stands in it; a relation binds its unbound
arguments, once for each row that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gerules.dsl import ast
from gerules.errors import Diagnostic, Refused
from gerules.graph.dims import DimFacts
from gerules.static.context import DTYPES, Context
from gerules.static.evaluate import Env, ValueOf, compile_condition, compile_expr, row_entry
from gerules.static.values import Unknown, Value, equal_entries, plain

Match: TypeAlias = Callable[[Value, dict[str, Value]], bool]
"""Whether a value fits a pattern; extends the variables. Raises Unknown."""


@dataclass(frozen=True, slots=True)
class Test:
    """A condition whose variables are all bound."""

    test: Callable[[Env], bool]
    expr: ast.Expr


@dataclass(frozen=True, slots=True)
class Bind:
    """`pattern == value` where the pattern binds `names`: a variable, or a list that is taken apart."""

    names: tuple[str, ...]
    value: ValueOf
    match: Match
    expr: ast.Expr


@dataclass(frozen=True, slots=True)
class Ask:
    """A relation with unbound arguments `names`; one solution for each row that fits."""

    names: tuple[str, ...]
    rows: Sequence[tuple[Value, ...]]
    arguments: tuple[ValueOf | str | None, ...]  # a value, the name to bind, or None for `_`
    expr: ast.Expr


Step: TypeAlias = Test | Bind | Ask


def free_names(expr: ast.Node) -> tuple[str, ...]:
    """The variables of an expression, in order of writing: no element types, function heads or `_`."""
    found: dict[str, None] = {}
    pending: list[ast.Node] = [expr]
    while pending:
        node = pending.pop()
        match node:
            case ast.Name(id=name):
                if name != "_" and name not in DTYPES:
                    found[name] = None
            case ast.Call(operands=operands, keywords=keywords):
                pending.extend(reversed((*operands, *(k.value for k in keywords))))
            case ast.ListExpr(items=items) | ast.SetExpr(items=items) | ast.Logical(operands=items):
                pending.extend(reversed(items))
            case ast.Rest(expr=inner):
                if inner is not None:
                    pending.append(inner)
            case ast.Field(base=inner) | ast.Unary(operand=inner):
                pending.append(inner)
            case ast.Index(base=left, index=right) | ast.Between(low=left, high=right):
                pending.extend((right, left))
            case ast.Binary(left=left, right=right) | ast.Compare(left=left, right=right):
                pending.extend((right, left))
            case ast.Bind(expr=inner, name=name):
                pending.append(inner)
                found[name] = None
    return tuple(found)


def split_conditions(conditions: Iterable[ast.Expr], bound: Iterable[str], context: Context) -> tuple[Step, ...]:
    """The conditions as steps, each after those that bind its variables and otherwise in order of writing.

    Raises Refused (GR642) with every condition whose variables nothing binds.
    """
    known = set(bound)
    steps: list[Step] = []
    waiting = list(conditions)
    while waiting:
        position, step = _first_ready(waiting, known, context)
        steps.append(step)
        if not isinstance(step, Test):
            known.update(step.names)
        del waiting[position]
    return tuple(steps)


def _first_ready(waiting: list[ast.Expr], known: set[str], context: Context) -> tuple[int, Step]:
    for position, condition in enumerate(waiting):
        step = _step(condition, known, context)
        if step is not None:
            return position, step
    raise Refused([_unbound(condition, known) for condition in waiting])


def _unbound(condition: ast.Expr, known: set[str]) -> Diagnostic:
    missing = ", ".join(f"`{n}`" for n in free_names(condition) if n not in known)
    hint = "a variable is bound by the pattern, or by `v == ...` with all else known"
    return Diagnostic("GR642", f"nothing binds {missing} in this condition", span=condition.span, hint=hint)


def _step(condition: ast.Expr, known: set[str], context: Context) -> Step | None:
    unbound = [n for n in free_names(condition) if n not in known]
    if not unbound:
        return Test(compile_condition(condition, context), condition)
    if isinstance(condition, ast.Compare) and condition.op == "==":
        for pattern, value in ((condition.left, condition.right), (condition.right, condition.left)):
            if all(n in known for n in free_names(value)) and binds(pattern, known):
                match, names = destructure(pattern, known, context)
                return Bind(names, compile_expr(value, context), match, condition)
    if isinstance(condition, ast.Call) and isinstance(condition.head, ast.Name):
        return _ask(condition, condition.head.id, known, context)
    return None


def _ask(call: ast.Call, name: str, known: set[str], context: Context) -> Ask | None:
    rows = context.relations.get(name)
    if rows is None or call.keywords:
        return None
    arguments: list[ValueOf | str | None] = []
    names: list[str] = []
    for operand in call.operands:
        if isinstance(operand, ast.Name) and operand.id == "_":
            arguments.append(None)
        elif isinstance(operand, ast.Name) and operand.id not in known and operand.id not in DTYPES:
            arguments.append(operand.id)
            names.append(operand.id)
        elif all(n in known for n in free_names(operand)):
            arguments.append(compile_expr(operand, context))
        else:
            return None
    return Ask(tuple(dict.fromkeys(names)), rows, tuple(arguments), call)


# -------------------------------------------------------------------------------------------------- destructuring


def binds(pattern: ast.Expr, known: set[str]) -> bool:
    """Whether a pattern binds all its unbound variables: it is one, or a list of such patterns with one rest."""
    if isinstance(pattern, ast.Name):
        return True
    if not isinstance(pattern, ast.ListExpr):
        return all(n in known for n in free_names(pattern))
    rests = [item for item in pattern.items if isinstance(item, ast.Rest) and not _known_rest(item, known)]
    if len(rests) > 1 or any(r.expr is not None and not isinstance(r.expr, ast.Name) for r in rests):
        return False
    return all(isinstance(item, ast.Rest) or binds(item, known) for item in pattern.items)


def _known_rest(rest: ast.Rest, known: set[str]) -> bool:
    return rest.expr is not None and _is_known(rest.expr, known)


def _is_known(expr: ast.Expr, known: set[str]) -> bool:
    return not (isinstance(expr, ast.Name) and expr.id == "_") and all(n in known for n in free_names(expr))


def destructure(pattern: ast.Expr, known: Iterable[str], context: Context) -> tuple[Match, tuple[str, ...]]:
    """A match of a value against a pattern, and the names that it binds. The pattern satisfies `binds`.

    The match raises Unknown where an entry that it needs is not known; a name is never bound to an unknown entry.
    """
    names: list[str] = []
    match = _matcher(pattern, set(known), names, context)
    return match, tuple(names)


def _matcher(pattern: ast.Expr, known: set[str], names: list[str], context: Context) -> Match:
    if isinstance(pattern, ast.Name) and pattern.id == "_":
        return _anything
    if isinstance(pattern, ast.ListExpr) and not _is_known(pattern, known):
        return _list_matcher(pattern, known, names, context)
    if isinstance(pattern, ast.Name) and not _is_known(pattern, known):
        name = pattern.id
        known.add(name)
        names.append(name)

        def bind(value: Value, env: dict[str, Value]) -> bool:
            env[name] = value
            return True

        return bind
    return _equals(compile_expr(pattern, context), context.facts)


def _equals(wanted: ValueOf, facts: DimFacts) -> Match:
    def equals(value: Value, env: dict[str, Value]) -> bool:
        truth = equal_entries(plain(value), plain(wanted(env)), facts)
        if truth is None:
            raise Unknown("not known to be equal")
        return truth

    return equals


def _list_matcher(pattern: ast.ListExpr, known: set[str], names: list[str], context: Context) -> Match:
    """Entries before the rest from the front, those after it from the back, then the rest."""
    items = pattern.items
    rest = next((i for i, item in enumerate(items) if isinstance(item, ast.Rest)), None)
    spread = [i for i, item in enumerate(items) if isinstance(item, ast.Rest)]
    if len(spread) > 1:  # known lists beside the one that is bound
        raise Refused(
            Diagnostic(
                "GR643", "a list pattern has one rest at most", span=pattern.span, hint="take it apart in two steps"
            )
        )
    front = [_matcher(item, known, names, context) for item in items[:rest]]
    back = [] if rest is None else [_matcher(item, known, names, context) for item in items[rest + 1 :]]
    middle: Match | None = None
    if rest is not None:
        inner = items[rest]
        assert isinstance(inner, ast.Rest)
        middle = _matcher(inner.expr or ast.Name("_"), known, names, context)

    def match(value: Value, env: dict[str, Value]) -> bool:
        entries = plain(value)
        if not isinstance(entries, tuple):
            raise Unknown("it is not a list")
        count = len(front) + len(back)
        if len(entries) < count or (middle is None and len(entries) != count):
            return False
        stop = len(entries) - len(back)
        pairs = (*zip(front, entries, strict=False), *zip(back, entries[stop:], strict=True))
        if not all(_entry(test, entry, env) for test, entry in pairs):
            return False
        return middle is None or middle(entries[len(front) : stop], env)

    return match


def _entry(test: Match, entry: Value, env: dict[str, Value]) -> bool:
    if entry is None and test is not _anything:
        raise Unknown("an entry is not known")
    return test(entry, env)


def _anything(value: Value, env: dict[str, Value]) -> bool:
    return True


# ------------------------------------------------------------------------------------------------------- running


def solve_steps(steps: Sequence[Step], env: dict[str, Value]) -> Iterator[dict[str, Value]]:
    """Every extension of `env` that satisfies the steps; depth of recursion is the number of relations asked."""
    for i, step in enumerate(steps):
        if isinstance(step, Test):
            if not step.test(env):
                return
        elif isinstance(step, Bind):
            try:
                if not step.match(step.value(env), env):
                    return
            except Unknown:
                return
        else:
            for extended in _answers(step, env):
                yield from solve_steps(steps[i + 1 :], extended)
            return
    yield env


def run_steps(steps: Sequence[Step], env: dict[str, Value]) -> bool:
    """Whether the steps hold; `env` is extended by what they bind (the first solution)."""
    for solution in solve_steps(steps, dict(env)):
        env.update(solution)
        return True
    return False


def _answers(step: Ask, env: dict[str, Value]) -> Iterator[dict[str, Value]]:
    try:
        given = [a if a is None or isinstance(a, str) else _Given(a(env)) for a in step.arguments]
    except Unknown:
        return
    for row in step.rows:
        if len(row) != len(given):
            continue
        extended = dict(env)
        for argument, entry in zip(given, row, strict=True):
            if argument is None:
                continue
            if isinstance(argument, _Given):
                if not row_entry(argument.value, entry):
                    break
            elif argument in extended and argument in step.names and argument not in env:
                if not row_entry(extended[argument], entry):
                    break
            else:
                extended[argument] = entry
        else:
            yield extended


@dataclass(frozen=True, slots=True)
class _Given:
    value: Value
