"""The choice of e-node and engine: plain data only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gerules.extract.limits import Limits
from gerules.extract.problem import METHODS, Infeasible, Option, Problem, Solution, evaluate

if TYPE_CHECKING:
    from gerules.extract.portfolio import solve

__all__ = ["METHODS", "Infeasible", "Limits", "Option", "Problem", "Solution", "evaluate", "solve"]


def __getattr__(name: str) -> object:
    # NumPy and HiGHS only for those who solve
    if name == "solve":
        from gerules.extract.portfolio import solve

        return solve
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
