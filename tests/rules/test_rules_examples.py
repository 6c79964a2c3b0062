"""Every example beside a shipped rule that is on holds, and those of the algebra that the e-graph can run today."""

from __future__ import annotations

from functools import cache

import pytest

from gerules.dsl.program import load_program, shipped_sources
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify.examples import Examples

LATER = frozenset(
    {"algebra", "broadcast/explicit", "compat/ge", "compat/signature", "compat/signature/reasons", "engines", "studies"}
)
"""Families that no default schedule runs; their examples are about operators whose types nothing infers yet."""

VERSIONS = (
    "compat/onnx",
    "compat/onnx_functions",
    "compat/onnx_ml",
    "compat/onnx_old",
    "compat/onnx_operators",
    "compat/onnx_windows",
)
FEW = {"compat/onnx_functions": 19, "compat/onnx_ml": 19}
"""How many examples a family has that has fewer than the others."""


@cache
def examples() -> Examples:
    return Examples(load_program(shipped_sources(), onnx_registry(), known_functions()), ())


def names(ruleset: str) -> frozenset[str]:
    program = examples().program
    return frozenset(f"{e.ruleset}.{e.statement.name}" for e in program.examples if e.ruleset == ruleset)


@pytest.mark.parametrize("ruleset", ["cleanup", "shape/dims", "broadcast/implicit", *VERSIONS])
def test_examples_hold(ruleset: str) -> None:
    results = examples().run(names(ruleset))
    failed = [
        f"{r.span}: {r.diagnostic.message if r.diagnostic else r.status}" for r in results if r.status != "passed"
    ]
    assert failed == []
    assert len(results) >= FEW.get(ruleset, 38)


def test_every_family_is_run_or_named() -> None:
    run = {"cleanup", "shape/dims", "broadcast/implicit", *VERSIONS}
    left = {e.ruleset for e in examples().program.examples} - run
    assert {r for r in left if r not in LATER and r.split("/")[0] not in LATER} == set()
