"""Rules with the mistakes that people make: each is refuted by an instance that fits on one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gerules.dsl.program import load_program, shipped_sources, user_sources
from gerules.egraph.program import Knowledge, knowledge
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify.case import cases_of
from gerules.verify.replay import confirm, replay
from gerules.verify.shrink import shrink
from gerules.verify.trials import plan_case, run_trials
from gerules.verify.witness import Witness, describe, save, witness_of

WRONG = Path(__file__).parents[1] / "data" / "verify" / "wrong"
NAMES = sorted(path.stem for path in WRONG.glob("*.rules"))
LARGEST = 3


@pytest.fixture(scope="module")
def known() -> Knowledge:
    return knowledge(load_program((*shipped_sources(), *user_sources(WRONG)), onnx_registry(), known_functions()))


@pytest.fixture(scope="module")
def witnesses(known: Knowledge) -> dict[str, Witness | None]:
    return {name: _refute(known, name) for name in NAMES}


def _refute(known: Knowledge, name: str) -> Witness | None:
    for case in cases_of(known, known.program.rewrites[f"user/{name}.{name}"]):
        plan = plan_case(case, known)
        found = run_trials(plan).refutation
        if found is not None:
            return witness_of(plan, shrink(plan, found))
    return None


def test_there_are_many_mistakes_and_each_file_says_which() -> None:
    assert len(NAMES) >= 50
    for name in NAMES:
        assert (WRONG / f"{name}.rules").read_text(encoding="utf-8").startswith("# The mistake: ")


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_rule_is_refuted_by_a_small_instance(witnesses: dict[str, Witness | None], name: str) -> None:
    witness = witnesses[name]
    assert witness is not None
    assert witness.shrunk
    assert witness.elements <= LARGEST, describe(witness)
    assert confirm(witness)


@pytest.mark.parametrize("name", NAMES)
def test_its_witness_runs_from_the_files(witnesses: dict[str, Witness | None], name: str, tmp_path: Path) -> None:
    witness = witnesses[name]
    assert witness is not None
    paths = save(witness, tmp_path)
    assert [p.suffix for p in paths] == [".onnxtxt", ".onnxtxt", ".json"]
    for path in paths:
        assert replay(path).differs, replay(path).text
