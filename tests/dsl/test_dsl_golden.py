"""Every message of the language, as its reader sees it.

A file `golden/GRnnn_what.rules` is loaded alone; `golden/GRnnn_what.txt` is what is printed. With GERULES_GOLDEN=write
in the environment the expected texts are written anew: read the difference before it is committed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from gerules.dsl.codes import CODES
from gerules.dsl.pending import pending
from gerules.dsl.program import Program, RuleSource, check_program
from gerules.errors import Diagnostic, GerulesError
from gerules.registry import onnx_registry
from gerules.registry.definition import OperatorDef
from gerules.report import render

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(GOLDEN.glob("*.rules"))
ROOM = Path(__file__).parents[2] / "gerules" / "dsl"
HOST_FUNCTIONS = {"lossless": "lossless(from: dtype, to: dtype) -> bool", "fill": "fill(v: int, n: int) -> ints"}


class At21:
    """The installed registry as it was at opset 21: the texts do not change with the onnx package."""

    def __init__(self) -> None:
        self._whole = onnx_registry()

    def lookup(self, domain: str, name: str, version: int | str) -> OperatorDef | None:
        return None if int(version) > 21 else self._whole.lookup(domain, name, version)

    def definition(self, domain: str, name: str, since: int | str) -> OperatorDef:
        return self._whole.definition(domain, name, since)

    def versions(self, domain: str, name: str) -> Sequence[str]:
        return [v for v in self._whole.versions(domain, name) if int(v) <= 21]

    def names(self, domain: str) -> Sequence[str]:
        return [name for name in self._whole.names(domain) if self.versions(domain, name)]

    def newest(self, domain: str) -> str | None:
        return "21" if domain in ("", "ai.onnx") else self._whole.newest(domain)


REGISTRY = At21()


def shown(path: Path) -> str:
    source = RuleSource(path, f"user/{path.stem}", path.name)
    program, diagnostics = check_program([source], REGISTRY, HOST_FUNCTIONS)
    if path.stem.startswith("GR19"):
        assert diagnostics == [], "what is not run yet is still read without complaint"
        diagnostics = not_yet(program)
    return render(diagnostics, program.sources)


def not_yet(program: Program) -> list[Diagnostic]:
    """What running everything in a program would complain of."""
    return pending(program, {file.path for file in program.files})


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_golden(path: Path) -> None:
    text = shown(path)
    expected = path.with_suffix(".txt")
    if os.environ.get("GERULES_GOLDEN") == "write":
        expected.write_text(text, "utf-8")
    assert text == expected.read_text("utf-8")
    code = path.stem[:5]
    assert f" {code}: " in text, f"{path.name} does not show {code}"


def test_a_missing_file_has_a_message() -> None:
    source = RuleSource(GOLDEN / "not_there.rules", "user/not_there", "not_there.rules")
    _, diagnostics = check_program([source], REGISTRY)
    assert render(diagnostics) == (GOLDEN / "GR115_cannot_read.txt").read_text("utf-8")


def test_every_code_is_described_and_used() -> None:
    used = {
        code
        for path in ROOM.glob("*.py")
        if path.name != "codes.py"
        for code in re.findall(r"GR\d{3}", path.read_text("utf-8"))
    }
    assert used == set(CODES)


def test_every_code_has_a_golden_text() -> None:
    shown_codes = {path.stem[:5] for path in GOLDEN.glob("*.txt")}
    assert set(CODES) - shown_codes == set()
    assert shown_codes - set(CODES) == set()


def test_every_code_is_in_the_reference() -> None:
    reference = (ROOM.parents[1] / "docs" / "language.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| (GR\d{3}) \| (.*) \|$", reference, re.MULTILINE))
    assert rows == dict(CODES)


def test_golden_texts_have_their_rules() -> None:
    alone = {p.stem for p in GOLDEN.glob("*.txt")} - {p.stem for p in CASES}
    assert alone == {"GR115_cannot_read"}


def test_messages_end_without_a_full_stop_and_fit_a_line() -> None:
    for path in CASES:
        program, diagnostics = check_program(
            [RuleSource(path, f"user/{path.stem}", path.name)], REGISTRY, HOST_FUNCTIONS
        )
        assert program is not None
        for diagnostic in diagnostics:
            assert not diagnostic.message.endswith("."), diagnostic
            assert len(diagnostic.message) < 160, diagnostic
            assert diagnostic.span is not None or diagnostic.file is not None, diagnostic
            assert GerulesError(diagnostic).diagnostics == (diagnostic,)
