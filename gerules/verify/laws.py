"""What has to be true of a statement that is no rewrite, and whether it is.

A rewrite says that two terms are equal. Other statements say something too: a fact that a shape is this one, that an
operator may be crossed, that a number is neutral; an engine that it takes an operator at a cost. `check_law` tests each
by its meaning, in numbers wherever there are any.
"""

from __future__ import annotations

from gerules.dsl.program import Program
from gerules.egraph.program import Knowledge
from gerules.verify.law_facts import check_fact
from gerules.verify.law_refusals import check_refusal
from gerules.verify.law_targets import check_engine, check_group, check_merge, check_transfer
from gerules.verify.verdict import CaseVerdict


def check_law(
    program: Program, known: Knowledge, kind: str, full: str, *, trials: int = 200, seed: int = 0
) -> tuple[CaseVerdict, ...]:
    """What is known of one statement: a verdict for each operator, row or clause that it speaks of.

    `kind` is fact, deny, merge, group, engine or transfer, `full` its full name. `tested` has its number of instances,
    `refuted` a witness in its detail, `unknown` a reason. Raises KeyError where there is no such statement,
    GerulesError where it cannot be read.
    """
    match kind:
        case "fact":
            return check_fact(known, program.facts[full], trials, seed)
        case "deny":
            return check_refusal(known, program.refuses[full], trials, seed)
        case "merge":
            return check_merge(program, program.merges[full])
        case "group":
            return check_group(known, program.groups[full], seed)
        case "engine":
            return check_engine(known, program.engines[full], seed)
        case "transfer":
            entry = next((t for t in program.transfers if t.full == full), None)
            if entry is not None:
                return check_transfer(program, entry)
    raise KeyError(f"{kind} {full}")
