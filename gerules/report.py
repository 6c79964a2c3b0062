"""Diagnostics for people, for programs, and for code hosts.

`render` gives text: place, code and message, the source line with the place underlined, secondary places, the hint.
`to_json` gives the same as data, `to_github` as workflow annotations.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from gerules.errors import Diagnostic, Span

_WIDEST = 140
_STYLES = {"error": "1;31", "warning": "1;33", "place": "1", "gutter": "34", "mark": "31", "label": "34", "hint": "32"}


class _Pen:
    def __init__(self, color: bool) -> None:
        self._color = color

    def __call__(self, style: str, text: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self._color and text else text


def render(diagnostics: Sequence[Diagnostic], sources: Mapping[str, str] | None = None, color: bool = False) -> str:
    """Text of diagnostics in their order, one paragraph each.

    `sources` gives the text of files by the name that spans use; a file that is not among them is read from disk, and
    where it cannot be read the source line is left out.
    """
    known = dict(sources or {})
    lines: dict[str, list[str]] = {}
    pen = _Pen(color)
    return "\n".join(_one(d, known, lines, pen) for d in diagnostics)


def _one(diagnostic: Diagnostic, sources: Mapping[str, str], lines: dict[str, list[str]], pen: _Pen) -> str:
    place = str(diagnostic.span) if diagnostic.span else diagnostic.file or ""
    if diagnostic.node and not diagnostic.span:
        place = f"{place}: {diagnostic.node}" if place else diagnostic.node
    head = pen(diagnostic.severity, f"{diagnostic.severity} {diagnostic.code}")
    parts = [f"{pen('place', place + ':')} {head}: {diagnostic.message}" if place else f"{head}: {diagnostic.message}"]
    if diagnostic.span:
        parts += _excerpt(diagnostic.span, "^", sources, lines, pen)
    for label in diagnostic.labels:
        parts.append(f"  {label.span}: {pen('label', label.text)}")
        parts += _excerpt(label.span, "-", sources, lines, pen)
    if diagnostic.hint:
        parts.append(f"  {pen('hint', 'hint:')} {diagnostic.hint}")
    return "\n".join(parts) + "\n"


def _excerpt(span: Span, mark: str, sources: Mapping[str, str], lines: dict[str, list[str]], pen: _Pen) -> list[str]:
    """The first line of a span with the place underlined."""
    if span.file not in lines:
        lines[span.file] = _lines_of(span.file, sources)
    source = lines[span.file]
    if not 1 <= span.line <= len(source):
        return []
    line = source[span.line - 1]
    if not line.strip():
        return []
    begin = min(span.column - 1, len(line))
    end = min(span.end_column - 1, len(line)) if span.end_line == span.line else len(line.rstrip())
    first, last = 0, len(line)
    if last > _WIDEST:
        first = max(0, min(begin - 20, last - _WIDEST))
        last = first + _WIDEST
    text = "".join(_visible(c) for c in line[first:last])
    before = _width(line[first:begin])
    length = max(1, _width(line[begin : max(begin, min(end, last))]))
    gutter = str(span.line)
    blank = " " * len(gutter)
    dots = "..." if first else ""
    underline = " " * (before + len(dots)) + pen("mark" if mark == "^" else "label", mark * length)
    return [
        f"  {pen('gutter', gutter + ' |')} {dots}{text.rstrip()}",
        f"  {pen('gutter', blank + ' |')} {underline}",
    ]


def _lines_of(file: str, sources: Mapping[str, str]) -> list[str]:
    text = sources.get(file)
    if text is None:
        try:
            text = Path(file).read_bytes().decode("utf-8-sig", "replace")
        except (OSError, ValueError):
            return []
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.split("\n")


def _visible(character: str) -> str:
    if character == "\t":
        return " "
    return character if character.isprintable() else "\N{MIDDLE DOT}"


def _width(text: str) -> int:
    """Columns that text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )  # fmt: skip


def print_diagnostics(
    diagnostics: Sequence[Diagnostic], stream: TextIO, sources: Mapping[str, str] | None = None
) -> None:
    """Write diagnostics to a stream: in colour on a terminal unless NO_COLOR is set, else plain."""
    if diagnostics:
        color = stream.isatty() and not os.environ.get("NO_COLOR")
        stream.write(render(diagnostics, sources, color))


def summary(diagnostics: Sequence[Diagnostic]) -> str:
    """`2 errors, 1 warning`, or ""."""
    parts = []
    for severity in ("error", "warning"):
        count = sum(d.severity == severity for d in diagnostics)
        if count:
            parts.append(f"{count} {severity}{'s' if count > 1 else ''}")
    return ", ".join(parts)


def to_json(diagnostics: Sequence[Diagnostic]) -> list[dict[str, Any]]:
    """Diagnostics as plain data for JSON: code, severity, message, and where there are any file, range, node, hint,
    related. Lines and columns count from 1, ends are exclusive."""
    return [_data(d) for d in diagnostics]


def _data(diagnostic: Diagnostic) -> dict[str, Any]:
    data: dict[str, Any] = {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
    }
    file = diagnostic.span.file if diagnostic.span else diagnostic.file
    if file:
        data["file"] = file
    if diagnostic.span:
        data["range"] = _range(diagnostic.span)
    if diagnostic.node:
        data["node"] = diagnostic.node
    if diagnostic.hint:
        data["hint"] = diagnostic.hint
    if diagnostic.labels:
        data["related"] = [{"file": x.span.file, "range": _range(x.span), "message": x.text} for x in diagnostic.labels]
    return data


def _range(span: Span) -> dict[str, int]:
    return {"line": span.line, "column": span.column, "end_line": span.end_line, "end_column": span.end_column}


def to_github(diagnostics: Sequence[Diagnostic]) -> str:
    """Diagnostics as workflow commands, one a line: code hosts show them beside the source."""
    return "".join(_command(d) + "\n" for d in diagnostics)


def _command(diagnostic: Diagnostic) -> str:
    fields: list[tuple[str, str]] = []
    if diagnostic.span:
        span = diagnostic.span
        fields += [("file", span.file), ("line", str(span.line)), ("col", str(span.column))]
        fields += [("endLine", str(span.end_line)), ("endColumn", str(span.end_column))]
    elif diagnostic.file:
        fields.append(("file", diagnostic.file))
    fields.append(("title", diagnostic.code))
    message = diagnostic.message
    if diagnostic.node and not diagnostic.span:
        message = f"{diagnostic.node}: {message}"
    if diagnostic.hint:
        message += f"\n{diagnostic.hint}"
    kind = "warning" if diagnostic.severity == "warning" else "error"
    properties = ",".join(f"{key}={_escaped(value, True)}" for key, value in fields)
    return f"::{kind} {properties}::{_escaped(message, False)}"


def _escaped(text: str, is_property: bool) -> str:
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if is_property else text
