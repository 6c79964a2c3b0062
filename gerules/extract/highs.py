"""The thin layer over HiGHS: rows and columns in, values and a bound out; one thread, quiet, nothing random."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from gerules.extract.program import INFINITY, Row


@dataclass(frozen=True)
class Outcome:
    """`values` of the columns (None if no solution was found), a lower `bound` of the objective, the `nodes` and
    simplex `iterations` spent, the limit that ended the run (None: solved), and of a relaxation the reduced costs."""

    values: list[float] | None
    bound: float
    nodes: int
    iterations: int
    stopped: str | None
    reduced: list[float] | None = None


class Relaxation:
    """The linear relaxation, kept warm while rows are added."""

    def __init__(self, objective: Sequence[float], rows: Sequence[Row]) -> None:
        self.highs = _load(objective, rows, 0, ())

    def add(self, row: Row) -> None:
        lower, upper, entries = row
        self.highs.addRow(lower, upper, len(entries), np.array(list(entries)), np.array(list(entries.values())))

    def solve(self, seconds: float, iterations: int) -> Outcome:
        _option(self.highs, "time_limit", self.highs.getRunTime() + max(0.0, seconds))
        _option(self.highs, "simplex_iteration_limit", max(1, iterations))
        self.highs.run()
        status = self.highs.getModelStatus()
        info = self.highs.getInfo()
        solved = status == highspy.HighsModelStatus.kOptimal
        solution = self.highs.getSolution()
        values = list(solution.col_value) if solved else None
        reduced = list(solution.col_dual) if solved else None
        bound = float(info.objective_function_value) if solved else -INFINITY
        spent = max(0, int(info.simplex_iteration_count))
        return Outcome(values, bound, 0, spent, None if solved else _limit(status), reduced)


def minimise(
    objective: Sequence[float],
    rows: Sequence[Row],
    integral: int,
    out: Collection[int],
    start: Sequence[float],
    seconds: float,
    nodes: int,
) -> Outcome:
    """Minimise over columns from 0 to 1, of which the first `integral` are whole and those `out` are 0. `start` is a
    solution, unless rows added since forbid it."""
    highs = _load(objective, rows, integral, out)
    _option(highs, "time_limit", max(0.0, seconds))
    _option(highs, "mip_max_nodes", max(1, nodes))
    _option(highs, "mip_rel_gap", 0.0)
    _option(highs, "mip_abs_gap", 1e-6)
    solution = highspy.HighsSolution()
    solution.col_value = list(start)
    highs.setSolution(solution)
    highs.run()
    status = highs.getModelStatus()
    info = highs.getInfo()
    solved = status == highspy.HighsModelStatus.kOptimal
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    values = list(highs.getSolution().col_value) if found else None
    spent = max(0, int(info.simplex_iteration_count))
    bound = float(info.mip_dual_bound) if found else -INFINITY
    return Outcome(values, bound, max(1, int(info.mip_node_count)), spent, None if solved else _limit(status))


class _Quiet(highspy.Highs):
    """HiGHS without the lines that its constructor prints once the callbacks are on."""

    def enableCallbacks(self) -> None:
        self.silent()
        super().enableCallbacks()  # type: ignore[no-untyped-call]  # it has no annotations


def _load(objective: Sequence[float], rows: Sequence[Row], integral: int, out: Collection[int]) -> Any:
    highs: Any = _Quiet()  # type: ignore[no-untyped-call]
    _option(highs, "threads", 1)
    _option(highs, "parallel", "off")
    _option(highs, "random_seed", 0)
    lp = highspy.HighsLp()
    columns = len(objective)
    lp.num_col_ = columns
    lp.num_row_ = len(rows)
    lp.col_cost_ = np.array(objective, dtype=np.float64)
    lp.col_lower_ = np.zeros(columns)
    upper = np.ones(columns)
    upper[sorted(out)] = 0.0
    lp.col_upper_ = upper
    lp.row_lower_ = np.array([max(row[0], -highspy.kHighsInf) for row in rows], dtype=np.float64)
    lp.row_upper_ = np.array([min(row[1], highspy.kHighsInf) for row in rows], dtype=np.float64)
    matrix = lp.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    matrix.start_ = np.cumsum([0, *(len(row[2]) for row in rows)], dtype=np.int32)
    matrix.index_ = np.array([column for row in rows for column in row[2]], dtype=np.int32)
    matrix.value_ = np.array([value for row in rows for value in row[2].values()], dtype=np.float64)
    if integral:
        whole, real = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
        lp.integrality_ = [whole if column < integral else real for column in range(columns)]
    highs.passModel(lp)
    return highs


def _option(highs: Any, name: str, value: float | int | str | bool) -> None:
    if highs.setOptionValue(name, value) != highspy.HighsStatus.kOk:
        raise RuntimeError(f"HiGHS has no option {name}")


def _limit(status: Any) -> str:
    """Which limit a status other than optimal stands for; "failed" where HiGHS gave up for reasons of its own."""
    if status == highspy.HighsModelStatus.kTimeLimit:
        return "time"
    counted = ("kIterationLimit", "kSolutionLimit", "kInterrupt")
    return "iterations" if any(status == getattr(highspy.HighsModelStatus, name) for name in counted) else "failed"
