"""Diagnostics as people, programs and code hosts get them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from gerules.errors import Diagnostic, Label, Span
from gerules.report import print_diagnostics, render, summary, to_github, to_json

FILE = "a.rules"


def span(line: int, column: int, end_column: int, file: str = FILE) -> Span:
    return Span(file, line, column, line, end_column)


def test_place_source_and_caret() -> None:
    text = "rewrite a:\n    Rleu(x) => x\n"
    fault = Diagnostic("GR130", "unknown operator Rleu", span(2, 5, 9), hint="did you mean `Relu`?")
    assert render([fault], {FILE: text}) == (
        "a.rules:2:5: error GR130: unknown operator Rleu\n"
        "  2 |     Rleu(x) => x\n"
        "    |     ^^^^\n"
        "  hint: did you mean `Relu`?\n"
    )


def test_other_places_have_their_words() -> None:
    text = "class A = B\n" * 12
    fault = Diagnostic(
        "GR141", "twice", span(12, 1, 6), labels=(Label(span(3, 1, 6), "the first"),), severity="warning"
    )
    assert render([fault], {FILE: text}) == (
        "a.rules:12:1: warning GR141: twice\n"
        "  12 | class A = B\n"
        "     | ^^^^^\n"
        "  a.rules:3:1: the first\n"
        "  3 | class A = B\n"
        "    | -----\n"
    )


@pytest.mark.parametrize(
    ("line", "column", "end", "shown", "marks"),
    [
        ("\tx = 1", 2, 3, " x = 1", " ^"),
        ("\u6f22\u5b57 x", 4, 5, "\u6f22\u5b57 x", "     ^"),
        ("e\u0301 x", 4, 5, "e\u0301 x", "  ^"),
        ("a\x07b", 3, 4, "a\N{MIDDLE DOT}b", "  ^"),
        ("abc", 4, 4, "abc", "   ^"),
        ("abc", 2, 1, "abc", " ^"),
    ],
)
def test_the_caret_stands_below_what_it_means(line: str, column: int, end: int, shown: str, marks: str) -> None:
    text = render([Diagnostic("GR101", "here", span(1, column, end))], {FILE: line})
    assert text.split("\n")[1:3] == [f"  1 | {shown}", f"    | {marks}"]


def test_a_long_line_is_cut_around_the_place() -> None:
    line = "x" * 500 + "HERE" + "y" * 500
    text = render([Diagnostic("GR101", "here", span(1, 501, 505))], {FILE: line})
    source, marks = text.split("\n")[1:3]
    assert len(source) < 160
    assert source[marks.index("^") : marks.rindex("^") + 1] == "HERE"


def test_a_span_over_lines_is_marked_on_its_first() -> None:
    text = render([Diagnostic("GR101", "here", Span(FILE, 1, 3, 2, 2))], {FILE: "a bcd  \nef"})
    assert text.split("\n")[2] == "    |   ^^^"


def test_without_source_or_span() -> None:
    assert render([Diagnostic("GR101", "here", span(1, 1, 2, "not/there.rules"))]) == (
        "not/there.rules:1:1: error GR101: here\n"
    )
    assert render([Diagnostic("GR301", "cyclic", node="n7", file="m.onnx")]) == "m.onnx: n7: error GR301: cyclic\n"
    assert render([Diagnostic("GR301", "cyclic", node="n7")]) == "n7: error GR301: cyclic\n"
    assert render([Diagnostic("GR701", "what")]) == "error GR701: what\n"
    assert render([]) == ""


def test_sources_are_read_from_disk_where_not_given(tmp_path: Path) -> None:
    path = tmp_path / "b.rules"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    text = render([Diagnostic("GR101", "here", span(2, 1, 4, str(path)))])
    assert text.split("\n")[1:3] == ["  2 | two", "    | ^^^"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_on_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Diagnostic("GR101", "here", span(1, 1, 2), hint="so")
    monkeypatch.delenv("NO_COLOR", raising=False)
    plain, terminal = io.StringIO(), Terminal()
    print_diagnostics([fault], plain, {FILE: "x"})
    print_diagnostics([fault], terminal, {FILE: "x"})
    assert "\x1b" not in plain.getvalue() and "\x1b[1;31merror GR101\x1b[0m" in terminal.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    quiet = Terminal()
    print_diagnostics([fault], quiet, {FILE: "x"})
    assert quiet.getvalue() == plain.getvalue()


def test_json_holds_all_there_is() -> None:
    full = Diagnostic("GR141", "twice", span(2, 1, 6), hint="rename", labels=(Label(span(1, 1, 6), "the first"),))
    bare = Diagnostic("GR301", "cyclic", node="n7", file="m.onnx", severity="warning")
    assert json.loads(json.dumps(to_json([full, bare]))) == [
        {
            "code": "GR141",
            "severity": "error",
            "message": "twice",
            "file": FILE,
            "range": {"line": 2, "column": 1, "end_line": 2, "end_column": 6},
            "hint": "rename",
            "related": [
                {
                    "file": FILE,
                    "range": {"line": 1, "column": 1, "end_line": 1, "end_column": 6},
                    "message": "the first",
                }
            ],
        },
        {"code": "GR301", "severity": "warning", "message": "cyclic", "file": "m.onnx", "node": "n7"},
    ]


def test_annotations_are_escaped() -> None:
    faults = [
        Diagnostic("GR101", "50% of\nit", span(1, 2, 3, "a,b:c.rules"), hint="so"),
        Diagnostic("GR301", "cyclic", node="n7", severity="warning"),
    ]
    assert to_github(faults) == (
        "::error file=a%2Cb%3Ac.rules,line=1,col=2,endLine=1,endColumn=3,title=GR101::50%25 of%0Ait%0Aso\n"
        "::warning title=GR301::n7: cyclic\n"
    )


def test_summary_counts() -> None:
    error, warning = Diagnostic("GR101", "a"), Diagnostic("GR126", "b", severity="warning")
    assert summary([]) == ""
    assert summary([error]) == "1 error"
    assert summary([warning, error, error, warning]) == "2 errors, 2 warnings"
