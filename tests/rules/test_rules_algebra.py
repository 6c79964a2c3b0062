"""The algebra: the table of its documentation names rules that are there, and examples show each of their
conditions."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from gerules.dsl import ast
from gerules.dsl.program import Program, load_program, shipped_sources
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify.examples import Examples

DOCUMENT = Path(__file__).parents[2] / "docs" / "algebra.md"
WITHOUT = frozenset({"algebra/iota.iota_expand"})
"""Rules with a value that the e-graph does not match (`iota`), and so without an example."""


@cache
def program() -> Program:
    return load_program(shipped_sources(), onnx_registry(), known_functions())


def rewrites() -> list[str]:
    return [name for name in program().rewrites if name.startswith("algebra/")]


def test_the_table_has_thirty_lines_and_names_rules() -> None:
    found: dict[int, list[str]] = {}
    for line in DOCUMENT.read_text().splitlines():
        match = re.match(r"\| (\d+) \|.*\| (`.*) \| [ER] \|$", line)
        if match:
            found[int(match[1])] = re.findall(r"`([^`]+)`", match[2].split(" (")[0])
    assert sorted(found) == list(range(1, 31))
    for number, names in found.items():
        ruleset = names[0].rpartition(".")[0]
        full = [name if "." in name else f"{ruleset}.{name}" for name in names]
        assert [name for name in full if name not in program().rewrites] == [], number


def test_the_words_of_exactness_are_those_of_the_table() -> None:
    lines = list(re.finditer(r"\| `(algebra/[^`]+)`.*\| ([ER]) \|", DOCUMENT.read_text()))
    assert len(lines) == 27
    for match in lines:
        assert program().rewrites[match[1]].statement.exactness == {"E": "", "R": "reassociates"}[match[2]], match[1]


def conditions() -> list[tuple[str, ast.Expr]]:
    return [(name, c) for name in rewrites() for c in program().rewrites[name].written.when]


def test_every_condition_is_shown_holding_its_rule_back() -> None:
    shown: dict[str, list[ast.Expr]] = {}
    for entry in program().examples:
        outcome = entry.written.outcome
        full = f"{entry.ruleset}.{entry.statement.name}"
        if isinstance(outcome, ast.Stays):
            shown.setdefault(full, []).append(outcome.because)
        elif isinstance(outcome, ast.Becomes) and outcome.refuted_without is not None:
            shown.setdefault(full, []).append(outcome.refuted_without)
    missing = [f"{name}: {c}" for name, c in conditions() if name not in WITHOUT and c not in shown.get(name, [])]
    assert missing == []
    assert len(conditions()) >= 69


def test_every_rule_is_shown_firing() -> None:
    fires = {
        f"{e.ruleset}.{e.statement.name}"
        for e in program().examples
        if isinstance(e.statement.outcome, ast.Becomes) and e.statement.outcome.refuted_without is None
    }
    assert [name for name in rewrites() if name not in fires | WITHOUT] == []


@pytest.mark.parametrize("ruleset", ["concat", "pad", "reduce", "slice", "views", "commute"])
def test_examples_hold_in_the_e_graph_and_in_numbers(ruleset: str) -> None:
    names = frozenset(n for n in rewrites() if n.startswith(f"algebra/{ruleset}."))
    results = Examples(program()).run(names)
    assert [f"{r.span}: {r.diagnostic and r.diagnostic.message}" for r in results if r.status != "passed"] == []
    assert results and all(r.simulated for r in results)
