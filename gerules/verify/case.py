"""What is verified: one rewrite with its operator parameters bound, in one direction.

A rule over a class is as many claims as the class has members that fit; a rule with `<=>` is two claims for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from gerules.dsl import ast
from gerules.dsl.program import Entry
from gerules.egraph.program import Knowledge
from gerules.registry.definition import OperatorDef


@dataclass(frozen=True)
class Case:
    """One claim: wherever `left` and `when` hold, `right` is the same.

    `member` names the bound operators (`Add@7`, `Clip@6,Clip@11`), or is empty; `direction` is ">" or "<" for the two
    ways of a rule that holds both ways, else empty. Lets are written out; conditions on operators alone are decided and
    gone from `when`.
    """

    rule: str
    member: str
    direction: str
    statement: ast.Rewrite
    file: ast.RuleFile
    params: Mapping[str, object]
    left: ast.Expr
    right: ast.Expr
    when: tuple[ast.Expr, ...]

    @property
    def exactness(self) -> str:
        return self.statement.exactness

    @cached_property
    def label(self) -> str:
        """How reports call it: `broadcast/implicit.sink[Add@7]`, `compat/onnx.clip_11>`."""
        return self.rule + self.direction + (f"[{self.member}]" if self.member else "")


def cases_of(known: Knowledge, entry: Entry[ast.Rewrite], statement: ast.Rewrite | None = None) -> Iterator[Case]:
    """Every claim of a rewrite, members in the order of their class, forwards before backwards.

    `statement` stands for the entry's own where a changed rule (a mutant) is to be verified in its place. Raises
    GerulesError where ground facts or names are at fault.
    """
    rule = entry.statement if statement is None else statement
    for params, rest in known.ground.instances(rule.over, rule.when, entry.file):
        member = ",".join(v.key if isinstance(v, OperatorDef) else str(v) for v in params.values())
        sides = [(">" if rule.both else "", rule.left, rule.right)]
        if rule.both:
            sides.append(("<", rule.right, rule.left))
        for direction, left, right in sides:
            yield Case(entry.full, member, direction, rule, entry.file, dict(params), left, right, rest)
