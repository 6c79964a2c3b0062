"""Rules as text: what is shown reads as what it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gerules.dsl import ast
from gerules.dsl.parser import parse_text
from gerules.dsl.program import read, shipped_sources
from gerules.dsl.show import show, show_rewrite


def _rewrites() -> list[ast.Rewrite]:
    return [s for source in shipped_sources() for s in read(source)[0].statements if isinstance(s, ast.Rewrite)]


def test_every_shipped_rewrite_reads_back_as_itself() -> None:
    rules = _rewrites()
    text = "\n".join(map(show_rewrite, rules))
    file, faults = parse_text(text, "shown.rules", "user/shown")
    assert not faults
    assert list(file.statements) == rules
    assert len(rules) > 200


@pytest.mark.parametrize(
    "text",
    [
        "a - (b - c) + d",
        "a - b - c",
        "-(a + b) * -c",
        "(a or b) and c == d",
        "not x.dtype in {f16, bf16} | Integer",
        "all(e >= x.shape[a] or e == -0.0)",
        "(Split(x, s, ..r, axis=k) as n)[0]",
        'f(..p, "a\\"b\\\\c", ..(Expand(x, _) as e), none)',
        "m % (p * q) // r",
        "p[q[0]][-1].size",
    ],
)
def test_brackets_stand_where_they_are_needed(text: str) -> None:
    file, faults = parse_text(f"rewrite a: Relu(x) => x when {text}", "a.rules", "user/a")
    assert not faults
    (rule,) = file.statements
    assert isinstance(rule, ast.Rewrite)
    assert show(rule.when[0]) == text
    again, _ = parse_text(show_rewrite(replace(rule)), "a.rules", "user/a")
    assert again.statements == file.statements
