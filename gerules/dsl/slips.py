"""What a reader of rule files says when a statement cannot be parsed: each usual slip has a message of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gerules.errors import Diagnostic, Span

STATEMENT_WORDS = (
    "opset", "class", "op", "table", "function", "let", "rewrite", "fact", "deny", "warn", "merge", "group", "engine",
    "transfer", "schedule", "study", "example",
)  # fmt: skip


@dataclass(frozen=True)
class Situation:
    """A fault of syntax: `text[begin:following]` is the statement, `at` the place of the token that does not fit,
    `kind` its terminal ("" at the end of the file or where no token could be read), `expected` the terminals that
    would have fitted."""

    text: str
    span: Callable[[int, int], Span]
    begin: int
    at: int
    following: int
    kind: str
    expected: frozenset[str]


def explain(situation: Situation) -> Diagnostic:
    at = situation.at
    return Diagnostic(
        "GR101", f"unexpected {situation.text[at : at + 10]!r}", situation.span(at, min(at + 1, len(situation.text)))
    )
