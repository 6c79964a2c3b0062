"""The reference says what is true: its sample is sound, its table of slips is what is said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gerules.dsl.assemble import assemble
from gerules.dsl.checker import check
from gerules.dsl.parser import parse_text
from gerules.dsl.resolve import DTYPES
from gerules.dsl.slips import STATEMENT_WORDS
from gerules.errors import Diagnostic
from gerules.registry import onnx_registry

REFERENCE = (Path(__file__).parents[2] / "docs" / "language.md").read_text("utf-8")


def found(text: str) -> list[Diagnostic]:
    file, faults = parse_text(text, "a.rules", "user/a")
    program, more = assemble([file], onnx_registry())
    return faults + more + check(program)


def test_the_sample_is_sound() -> None:
    section = REFERENCE.split("## 1.")[1].split("Seven ideas")[0]
    sample = "\n".join(line[4:] for line in section.split("\n") if line.startswith("    "))
    declared = "class Elementwise = Binary | Relu | Where\n"
    engine = "engine Cpu:\n    cost = 1us\n    supports[f in Elementwise] f(..)\n"
    first, rest = sample.split("\n", 1)
    assert found(f"{first}\n{declared}{rest}\n{engine}") == []


def test_every_statement_is_in_the_table() -> None:
    table = REFERENCE.split("## 2.")[1].split("## 3.")[0]
    for word in STATEMENT_WORDS:
        assert re.search(rf"`{word} ", table) or re.search(rf"`{word}`", table), word


SLIPS = {
    "rewrite a: Relu(x) => x when x.rank == 1\n    x.size == 2": "a comma is missing after this condition",
    "rewrite a: Relu(x) => x when x.rank = 1": "a condition compares with `==`",
    "rewrite a: Relu(x) -> x": "a rewrite has `=>` (or `<=>`) between its sides",
    "rewrite a: Cast(x, to: f32) => x": "attributes stand in the call, by name: `Cast(x, to=f32)`",
    "rewrite: Relu(x) => x": "a rewrite has a name, and a colon after it",
    "rewrite a: Relu(x) => x if x.rank == 1": "conditions come after `when`",
    "rewrite a: Relu(x) => x;": "nothing ends a statement",
    "rewrite a: Pad(x, p, mode='edge') => x": "strings have double quotes",
    "rewrit a: Relu(x) => x": "did you mean `rewrite`?",
    'deny a: "no"': "a deny needs conditions, else it refuses every graph",
    'rewrite a: Relu(x) => x\n    "why"\n    when x.rank == 1': "a doc string goes before a statement",
    "rewrite a: relu(x) => x": "the operator is `Relu`",
    "rewrite a: Relu(Dropout(x, ..)) => x": "Dropout has two results (output and mask): say which",
    "rewrite a: Clip@10(x, ..) => x": "Clip was registered at 1, 6, 11, 12 and 13",
    "rewrite a: f(x) => x": "f is no operator parameter",
}


@pytest.mark.parametrize("text", SLIPS)
def test_slip(text: str) -> None:
    words = SLIPS[text]
    assert words in REFERENCE
    first = found("opset ai.onnx 21\n" + text)[0]
    assert words in f"{first.message}; {first.hint}"


def test_element_types_are_those_of_the_registry() -> None:
    registry = onnx_registry()
    known = {
        t
        for name in registry.names("")
        for o in registry.definition("", name, registry.versions("", name)[-1]).inputs
        for t in o.types
    }
    assert {t for t in known if "(" not in t} <= set(DTYPES)
