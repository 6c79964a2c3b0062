"""Proofs of rules for all sizes, by z3 (the `verify` extra). Where z3 is missing the rest of gerules works without.

`prove` takes one case and says what could be proved of it; see `prover` for how.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gerules.dsl import ast
    from gerules.egraph.program import Knowledge
    from gerules.verify.case import Case
    from gerules.verify.verdict import Proof

RLIMIT = 2_000_000
"""z3's resource units for one query: about half a second, and the same on every machine."""


@cache
def available() -> bool:
    """Whether z3 is installed."""
    return find_spec("z3") is not None


def prove(case: Case, known: Knowledge, rlimit: int = RLIMIT) -> Proof:
    """What can be proved of a case. Raises ImportError where z3 is not installed (`available` tells).

    `refuted` is a suspicion: `Proof.model` holds sizes and structure to be replayed as a draw.
    """
    from gerules.verify.prove.prover import prove as run

    return run(case, known, rlimit)


def prove_alike(case: Case, right: ast.Expr, known: Knowledge, rlimit: int = RLIMIT) -> Proof:
    """Whether another right side is the same as that of the case wherever the case fires, the case itself being right.

    Raises ImportError where z3 is not installed.
    """
    from gerules.verify.prove.prover import prove_alike as run

    return run(case, right, known, rlimit)
