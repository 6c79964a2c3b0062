"""Laws of denies and warnings: their conditions can hold, and then every hole of the text is filled.

That the holes are bound is asked when a file is checked. Here instances of the terms are drawn; what conditions ask of
tables and of relations that facts conclude is taken to hold, with values that make the other conditions true.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from gerules.dsl import ast
from gerules.dsl.program import Entry
from gerules.egraph.program import Knowledge
from gerules.errors import GerulesError
from gerules.static import free_names, run_steps, split_conditions
from gerules.verify.law_facts import NEVER, asks_relation
from gerules.verify.law_ground import named
from gerules.verify.law_instances import instances_of, split_terms
from gerules.verify.law_policy import check_policy
from gerules.verify.verdict import CaseVerdict

WANTED = 10
"""Instances that are enough to say that conditions can hold."""
VALUES: tuple[object, ...] = (0, 1, 7, 8, 18, 19, 21, -1, frozenset(), frozenset({0}), frozenset({1}), "x", "f32")
"""What a column of a table may hold, as far as conditions ask."""
_MOST = 2


def check_refusal(known: Knowledge, entry: Entry[ast.Refuse], trials: int, seed: int) -> tuple[CaseVerdict, ...]:
    """A verdict for each operator that the refusal speaks of; one for a refusal over tables."""
    statement = entry.statement
    found: list[CaseVerdict] = []
    for params, rest in known.ground.instances(statement.over, statement.when, entry.file):
        terms, conditions = split_terms(rest, params)
        if not terms:
            return (check_policy(known, entry, seed),)
        member = named(params)
        try:
            found.append(_verdict(known, entry, member, params, terms, conditions, min(trials, WANTED), seed))
        except GerulesError as fault:
            found.append(CaseVerdict(entry.full, member, "", "unknown", fault.diagnostics[0].message))
    return tuple(found) or (CaseVerdict(entry.full, "", "", "unknown", "it speaks of no operator"),)


def _verdict(
    known: Knowledge,
    entry: Entry[ast.Refuse],
    member: str,
    params: Mapping[str, object],
    terms: tuple[ast.Expr, ...],
    conditions: tuple[ast.Expr, ...],
    wanted: int,
    seed: int,
) -> CaseVerdict:
    asked = [c for c in conditions if asks_relation(known.program, c)]
    drawn_names = {n for t in terms for n in free_names(t)} | {*params}
    told = tuple(dict.fromkeys(n for c in asked for n in free_names(c) if n not in drawn_names))
    rest = [c for c in conditions if c not in asked]
    ready = tuple(c for c in rest if not set(free_names(c)) & set(told))
    later = [c for c in rest if c not in ready]
    drawn = instances_of(known, entry.full, entry.file, params, terms, ready)
    steps = None
    met = 0
    for instance in drawn.take(wanted * 4, seed):
        env = instance.values()
        if steps is None:
            steps = split_conditions(later, {*env, *told}, drawn.plan.context)
        met += any(run_steps(steps, {**env, **values}) for values in _assignments(told))
        if met >= wanted:
            break
    if not met:
        why = drawn.commonest if not drawn.found else "with no value that a table might give"
        return drawn.verdict(member, "unknown", f"{NEVER} in {drawn.drawn} draws ({why})")
    return drawn.verdict(member, "tested", f"{met} instances meet its conditions")


def _assignments(names: tuple[str, ...]) -> Iterator[dict[str, object]]:
    """Values for what tables tell; beyond a few names all take the same."""
    if len(names) <= _MOST:
        for values in itertools.product(VALUES, repeat=len(names)):
            yield dict(zip(names, values, strict=True))
    else:
        for value in VALUES:
            yield dict.fromkeys(names, value)
