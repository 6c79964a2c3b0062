"""The choice of e-node and engine: plain data only."""

from __future__ import annotations

from gerules.extract.problem import METHODS, Infeasible, Option, Problem, Solution, evaluate

__all__ = ["METHODS", "Infeasible", "Option", "Problem", "Solution", "evaluate"]
