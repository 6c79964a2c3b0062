"""Laws of facts and refusals over tables alone: there are tables for which they hold.

Such rules decide what is done with a graph, and nothing can be run to see whether they decide well. What can be seen is
that they decide at all: small tables are filled with what the conditions ask for (`law_tables`), and the strata are run
on them until the statement has held.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gerules.dsl import ast
from gerules.dsl.program import Entry, Program
from gerules.egraph.program import Knowledge
from gerules.errors import GerulesError
from gerules.policy import Policy, Row
from gerules.verify.law_tables import Chase, head_of, words_of
from gerules.verify.source import stable_seed
from gerules.verify.verdict import CaseVerdict

ROUNDS = 120
"""Tables that are tried at most."""
ENOUGH = 2
"""Tables for which the statement held, after which no more are tried."""


def check_policy(
    known: Knowledge, entry: Entry[ast.Fact] | Entry[ast.Refuse], seed: int = 0, rounds: int = ROUNDS
) -> CaseVerdict:
    """Whether a fact or refusal over tables can hold."""
    program = known.program
    try:
        law = _Tables(program, entry)
        held = tried = 0
        while tried < rounds and held < ENOUGH:
            tables = law.draw(stable_seed(f"{entry.full} {seed} {tried}"))
            tried += 1
            try:
                held += law.holds(tables)
            except GerulesError as fault:
                if fault.diagnostics[0].code != "GR665":  # a function of two values: no such tables exist
                    raise
    except GerulesError as fault:
        return CaseVerdict(entry.full, "", "", "unknown", fault.diagnostics[0].message)
    if not held:
        detail = f"no instance was found that meets its conditions: it held for none of {tried} tables"
        return CaseVerdict(entry.full, "", "", "unknown", detail, drawn=tried)
    return CaseVerdict(entry.full, "", "", "tested", f"it held for {held} of {tried} tables", held, tried)


@dataclass
class _Tables:
    """The statement among the facts that it needs, alone in concluding what it concludes."""

    program: Program
    entry: Entry[ast.Fact] | Entry[ast.Refuse]

    def __post_init__(self) -> None:
        folder = self.entry.ruleset.rpartition("/")[0] or self.entry.ruleset
        self.policy = Policy(self.program, (folder,))
        statement = self.entry.statement
        self.wanted: tuple[str, ...] = ()
        self.refuses: tuple[str, ...] = ()
        if isinstance(statement, ast.Fact):
            self.wanted = (head_of(statement.conclusions[0]),)
            facts = self.policy.facts
            others = (e for e in facts if head_of(e.statement.conclusions[0]) not in self.wanted)
            self.policy.__dict__["facts"] = (*others, self.entry)
        else:
            self.refuses = (self.entry.full,)
        self.decision = self.policy.decision(self.wanted, self.refuses)
        self.words = words_of(self.policy)

    def draw(self, seed: int) -> dict[str, list[Row]]:
        """Rows for every table that the statement depends on."""
        chase = Chase(self.policy, self.words, random.Random(seed))
        chase.statement(self.entry.statement)
        tables: dict[str, list[Row]] = {}
        for name in self.decision.needed:
            declared = self.program.tables.get(name)
            if self.policy.relations[name].table and declared is not None and declared.statement.source is None:
                tables[name] = list(chase.rows.get(name, {}).values())
        return tables

    def holds(self, tables: Mapping[str, Iterable[Row]]) -> bool:
        answers = self.decision.run(tables)
        if self.refuses:
            return any(r.rule == self.entry.full for r in answers.refusals)
        assert isinstance(self.entry.statement, ast.Fact)
        return any(_fits(self.entry.statement.conclusions[0], row) for row in answers.rows[self.wanted[0]])


def _fits(conclusion: ast.Expr, row: Row) -> bool:
    """Whether a row can be what a conclusion says: a bound has to be reached."""
    if isinstance(conclusion, ast.Compare) and isinstance(conclusion.right, ast.Number):
        return row[-1] == conclusion.right.value
    return True
