"""Every shipped rule file is read, checked, and has an example for each rewrite that is on."""

from __future__ import annotations

import pytest

from gerules.dsl import ast
from gerules.dsl.program import RuleSource, check_program, load_program, shipped_sources
from gerules.registry import onnx_registry

SOURCES = {source.ruleset: source for source in shipped_sources()}
EXPECTED = [
    "algebra/commute", "algebra/concat", "algebra/iota",
    "algebra/pad", "algebra/reduce", "algebra/slice", "algebra/views",
    "broadcast/explicit", "broadcast/implicit", "broadcast/legality", "cleanup", "compat/ge", "compat/onnx",
    "compat/onnx_functions", "compat/onnx_ml", "compat/onnx_old", "compat/onnx_operators", "compat/onnx_refusals",
    "compat/onnx_windows",
    "compat/signature", "compat/signature/reasons", "engines/ascend", "engines/generic", "ops", "prelude", "schedules",
    "shape/dims",
    "studies/limits", "studies/schedules",
]  # fmt: skip


UNTESTED = frozenset({"algebra/iota.iota_expand"})
"""Rules with a value that the e-graph does not match yet (`iota`)."""


def test_all_families_are_there() -> None:
    assert sorted(SOURCES) == EXPECTED


def test_the_files_fit_together() -> None:
    _, found = check_program(tuple(SOURCES.values()), onnx_registry())
    assert [f"{d.span} {d.code} {d.message}" for d in found if d.severity == "error"] == []


@pytest.mark.parametrize("ruleset", ["cleanup", "broadcast", "shape", "compat/onnx", "algebra"])
def test_rewrites_that_are_on_have_examples(ruleset: str) -> None:
    program = load_program(tuple(SOURCES.values()), onnx_registry())
    missing = [
        name
        for name in program.without_example()
        if name.startswith((f"{ruleset}.", f"{ruleset}/"))
        and name not in UNTESTED
        and program.rewrites[name].statement.exactness == ""
    ]
    assert missing == []


def test_the_standard_schedule() -> None:
    program = load_program(tuple(SOURCES.values()), onnx_registry())
    (standard,) = [e.statement for e in program.schedules.values() if e.statement.name == "standard"]
    repeat = standard.steps[0]
    assert isinstance(repeat, ast.RepeatStep) and repeat.count == 2000
    assert [s.rulesets for s in repeat.steps if isinstance(s, ast.RunStep)] == [
        ("shape",),
        ("cleanup", "broadcast/implicit", "compat", "user"),
    ]


def test_names_are_unique_within_a_file() -> None:
    program = load_program(tuple(SOURCES.values()), onnx_registry())
    for file in program.files:
        names = [
            s.name for s in file.statements if isinstance(s, (ast.Rewrite, ast.Fact, ast.Refuse, ast.Merge, ast.Group))
        ]
        assert sorted(set(names)) == sorted(names), file.ruleset


@pytest.mark.parametrize("source", SOURCES.values(), ids=lambda s: s.ruleset)
def test_files_are_plain_text(source: RuleSource) -> None:
    text = source.path.read_bytes()
    assert text.isascii() and b"\t" not in text and b"\r" not in text
    assert max(map(len, text.decode().splitlines())) <= 200
