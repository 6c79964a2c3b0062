"""Public e-graphs with a proved optimum (tests/data/egraphs)."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from extract_files import load_egraph

from gerules.extract import evaluate, solve

FOLDER = Path(__file__).parent.parent / "data" / "egraphs"
INDEX = list(csv.DictReader((FOLDER / "index.csv").read_text().splitlines()))


def test_the_index_names_every_file() -> None:
    assert sorted(row["file"] for row in INDEX) == sorted(path.name for path in FOLDER.glob("*.json"))


@pytest.mark.parametrize("row", INDEX, ids=[row["file"].removesuffix(".json") for row in INDEX])
def test_optimum_is_found_and_proved(row: dict[str, str]) -> None:
    problem = load_egraph(FOLDER / row["file"])
    solution = solve(problem, time_limit=60.0)
    assert evaluate(problem, solution.choice, solution.engine) == solution.cost
    assert solution.cost[0] == pytest.approx(float(row["best"]), abs=1e-6)  # as the index rounds it
    assert solution.lower_bound == solution.cost
    assert solution.stopped is None
