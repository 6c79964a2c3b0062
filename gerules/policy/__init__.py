"""Facts, denies and warnings over tables: decided by the engine in strata, before or beside any graph.

Rules of this kind speak of tables only (operators, places, names, settings), not of tensors. `decide` compiles what is
asked for, loads the rows, runs stratum after stratum and reads the answers back.
"""

from __future__ import annotations

from gerules.policy.decide import Answers, Decision, Policy, Refusal
from gerules.policy.model import Cell, Row

__all__ = ["Answers", "Cell", "Decision", "Policy", "Refusal", "Row"]
