"""Rule files from text to syntax tree, with one report for each faulty statement.

A file without faults is read in one pass. At a fault, reading goes on at the next line that begins a statement (with
the doc lines above it), so that five mistakes give five reports; what stands before and after is kept.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from gerules.dsl import ast
from gerules.dsl.build import Builder
from gerules.dsl.slips import STATEMENT_WORDS, Situation, explain
from gerules.errors import Diagnostic, Span
from gerules.paths import grammar_path

# A line that begins a statement: its keyword and a name, at the margin or indented; at the margin anything that has
# the form `word name ... :` (a misspelt keyword), or a keyword alone.
_KEYWORDS = "|".join(STATEMENT_WORDS)
_START = re.compile(
    rf"^(?:[ \t\ufeff]*(?:{_KEYWORDS})[ \t]+(?!(?:in|as|and|or|when|not|is)\b)[A-Za-z_]"
    rf"|\ufeff?(?:{_KEYWORDS})(?!\w|[ \t]*=)"
    r"|(?!(?:when|supports|cost|vary|repeat|limit|saturate|run|backoff|shuffle|stays|gives|refuted|and|or|not|if"
    r"|where|for|with)\b)[a-z]\w*[ \t]+[A-Za-z_][\w.@]*(?:\[[^\]\n]*\])?(?:[ \t]+[a-z]+)?[ \t]*[:=](?!=))",
    re.MULTILINE,
)
_DOC_LINE = re.compile(r'[ \t]*"(?:[^"\\\n]|\\.)*"[ \t]*(?:#.*)?$')
_NEEDS_TEXT = re.compile(r"[ \t]*(?:deny|warn)\b[^\"]*:[ \t]*(?:#.*)?$")


@cache
def _lark() -> Lark:
    built = Lark(grammar_path().read_text("utf-8"), parser="lalr", lexer="contextual", propagate_positions=True)
    # An atom passes a dozen levels of precedence on its way up, each with the whole machinery of tree building; where
    # a level has one part and hands it on, taking that part is all there is to do: a quarter of the time of reading.
    callbacks = built.parser.parser.parser.callbacks
    for rule in callbacks:
        if rule.options.expand1 and rule.alias is None and len(rule.expansion) == 1:
            callbacks[rule] = itemgetter(0)
    return built


def decode(data: bytes, path: str) -> tuple[str, list[Diagnostic]]:
    """The text of a rule file: UTF-8, a byte-order mark and Windows line ends dropped; or why it is none."""
    if b"\0" in data:
        return "", [
            Diagnostic("GR114", "this is a binary file, not rules", file=path, hint="rule files are plain text")
        ]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = data.count(b"\n", 0, fault.start) + 1
        message = f"byte {data[fault.start]:#04x} on line {line} is not UTF-8"
        return "", [Diagnostic("GR114", message, file=path, hint="save the file as UTF-8")]
    return normalise(text), []


def normalise(text: str) -> str:
    """Text with a leading byte-order mark dropped and every line end a single newline."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def parse_file(path: str | Path, root: str | Path | None = None) -> tuple[ast.RuleFile, list[Diagnostic]]:
    """Parse the file at `path`; its ruleset is its path below `root` without suffix, or `user/STEM` without a root.

    A file that cannot be read or is no text gives an empty tree and one diagnostic.
    """
    path = Path(path)
    ruleset = f"user/{path.stem}" if root is None else path.relative_to(root).with_suffix("").as_posix()
    return parse_as(path, str(path), ruleset)


def parse_as(path: Path, shown: str, ruleset: str) -> tuple[ast.RuleFile, list[Diagnostic]]:
    """Parse the file at `path` as `ruleset`; diagnostics call it `shown`."""
    try:
        data = path.read_bytes()
    except OSError as fault:
        reason = fault.strerror or type(fault).__name__
        diagnostic = Diagnostic(
            "GR115", f"cannot read the file: {reason}", file=shown, hint="check the path and its rights"
        )
        return ast.RuleFile(shown, ruleset, "", ()), [diagnostic]
    text, faults = decode(data, shown)
    if faults:
        return ast.RuleFile(shown, ruleset, "", ()), faults
    return parse_text(text, shown, ruleset)


def parse_text(text: str, path: str, ruleset: str) -> tuple[ast.RuleFile, list[Diagnostic]]:
    """The syntax tree of `text`, and a diagnostic for each statement that cannot be read (those are left out)."""
    text = normalise(text)
    return _Reading(text, path).read(ruleset)


class _Reading:
    def __init__(self, text: str, path: str) -> None:
        self._text = text
        self._path = path
        self._lines = [0, *(m.end() for m in re.finditer("\n", text))]
        self._statements: list[ast.AnyStatement] = []
        self._faults: list[Diagnostic] = []
        self._broken: list[str] = []

    def read(self, ruleset: str) -> tuple[ast.RuleFile, list[Diagnostic]]:
        position: int | None = 0
        while position is not None:
            position = self._stretch(position)
        broken = tuple(dict.fromkeys(self._broken))
        return ast.RuleFile(self._path, ruleset, self._text, tuple(self._statements), broken), self._faults

    def _stretch(self, start: int) -> int | None:
        """Read from `start` up to the end or the first fault; where to go on after the fault."""
        fault = self._try(start, len(self._text))
        if fault is None:
            return None
        at = self._unread(fault, self._place(fault, start))
        begin, following = self._around(at, start)
        self._try(start, begin)
        statement = re.compile(r'(?:\s|"(?:[^"\\\n]|\\.)*"|#.*)*').match(self._text, begin)
        is_engine = statement is not None and self._word(statement.end()) == "engine"
        declared = _DECLARED.match(self._text, statement.end()) if statement else None
        if declared:
            self._broken.append(declared[1])
        if not is_engine or not self._clauses(begin, following):
            self._faults.append(explain(self._situation(fault, at, begin, following)))
        return following if following < len(self._text) else None

    def _try(self, start: int, end: int) -> UnexpectedInput | None:
        """Parse a stretch and keep its statements; or its first fault."""
        if not self._text[start:end].strip():
            return None
        try:
            tree: Any = _lark().parse(self._text[start:end])
        except UnexpectedInput as fault:
            return fault
        line = bisect_right(self._lines, start) - 1
        assert self._lines[line] == start, "a stretch begins with a line"
        statements, faults = Builder(self._path, line, start).statements(tree)
        self._statements += statements
        self._faults += faults
        return None

    def _place(self, fault: UnexpectedInput, start: int) -> int:
        if isinstance(fault, UnexpectedToken) and fault.token.type != "$END":
            return start + int(fault.token.start_pos or 0)
        if isinstance(fault, UnexpectedCharacters):
            return start + int(fault.pos_in_stream or 0)
        return len(self._text.rstrip())

    def _unread(self, fault: UnexpectedInput, at: int) -> int:
        """The place of the fault; where the keyword of a statement was read as a name, because the statement before
        is not finished, that of the keyword."""
        index = bisect_right(self._boundaries, at, key=lambda boundary: boundary[1]) - 1
        if index < 1:
            return at
        start = self._boundaries[index][1]
        word = self._word(start)
        is_header = _expected(fault) & {"NAME", "SYMBOL", "COLON"}
        if word in STATEMENT_WORDS and not self._text[start + len(word) : at].strip() and at > start and not is_header:
            return start
        return at

    def _around(self, at: int, start: int) -> tuple[int, int]:
        """Where the statement at fault begins, and where the next one does.

        A fault at the very beginning of a statement is that of the statement before: it was not finished.
        """
        boundaries = self._boundaries
        index = bisect_right(boundaries, (at, len(self._text))) - 1
        if index >= 0 and boundaries[index][1] == at and self._word(at) in STATEMENT_WORDS:
            unfinished = index > 0 and boundaries[index][0] > start
            index -= unfinished
        begin = max(boundaries[index][0], start) if index >= 0 else start
        following = boundaries[index + 1][0] if index + 1 < len(boundaries) else len(self._text)
        return begin, following

    def _word(self, at: int) -> str:
        matched = re.compile(r"\w+").match(self._text, at)
        return matched[0] if matched else ""

    @property
    def _boundaries(self) -> list[tuple[int, int]]:
        """Of each line that begins a statement: where its doc lines begin, and where its first word does."""
        if not hasattr(self, "_found"):
            self._found: list[tuple[int, int]] = []
            floor = 0
            for matched in _START.finditer(self._text):
                word = matched.start() + len(matched[0]) - len(matched[0].lstrip(" \t\ufeff"))
                line = bisect_right(self._lines, matched.start()) - 1
                first = line
                while first > 0 and self._lines[first - 1] >= floor and self._is_doc(first - 1):
                    first -= 1
                if first < line and first > 0 and _NEEDS_TEXT.match(self._line(first - 1)):
                    first += 1
                self._found.append((self._lines[first], word))
                floor = self._lines[line + 1] if line + 1 < len(self._lines) else len(self._text)
        return self._found

    def _line(self, index: int) -> str:
        end = self._lines[index + 1] - 1 if index + 1 < len(self._lines) else len(self._text)
        return self._text[self._lines[index] : end]

    def _is_doc(self, index: int) -> bool:
        return _DOC_LINE.match(self._line(index)) is not None

    def _situation(self, fault: UnexpectedInput, at: int, begin: int, following: int, inside: str = "") -> Situation:
        kind = ""
        expected = _expected(fault)
        if isinstance(fault, UnexpectedToken):
            kind = "" if fault.token.type == "$END" else fault.token.type
            if kind and fault.token.start_pos is not None and self._word(at) in STATEMENT_WORDS and at == following:
                expected = (
                    expected if "NAME" in expected or kind.startswith("_") else frozenset({"NAME", "SYMBOL", "NUMBER"})
                )
        return Situation(self._text, self._span, begin, min(at, len(self._text)), following, kind, expected, inside)

    def _span(self, start: int, end: int) -> Span:
        line, last = bisect_right(self._lines, start) - 1, bisect_right(self._lines, end) - 1
        columns = start - self._lines[line] + 1, end - self._lines[last] + 1
        return Span(self._path, line + 1, columns[0], last + 1, columns[1], start, end)

    def _clauses(self, begin: int, end: int) -> bool:
        """Faults in the clauses of an engine: each clause is read alone under a made-up engine. False if none."""
        stretch = self._text[begin:end]
        starts = [m.start() for m in _CLAUSE.finditer(stretch)]
        head = "engine X:"
        found: list[Diagnostic] = []
        for first, last in zip(starts, [*starts[1:], len(stretch)], strict=False):
            try:
                _lark().parse(head + stretch[first:last])
            except UnexpectedInput as fault:
                shift = begin + first - len(head)
                ended = isinstance(fault, UnexpectedToken) and fault.token.type == "$END"
                at = (
                    begin + first + len(stretch[first:last].rstrip())
                    if ended
                    else max(self._place(fault, shift), shift)
                )
                situation = self._situation(fault, at, begin + first, begin + last, "engine")
                found.append(explain(situation))
        self._faults += found
        return bool(found)


_DECLARED = re.compile(r"[a-z]\w*[ \t]+((?:[a-z]\w*\.)*\w+)")
_CLAUSE = re.compile(r"^[ \t]+(?=(?:supports|cost)\b|[a-z]\w*[ \t]*=(?!=))", re.MULTILINE)


def _expected(fault: UnexpectedInput) -> frozenset[str]:
    """The terminals that would have fitted."""
    if isinstance(fault, UnexpectedToken):
        return frozenset(fault.accepts or fault.expected)
    if isinstance(fault, UnexpectedCharacters):
        return frozenset(fault.allowed or ())
    return frozenset(fault.expected if isinstance(fault, UnexpectedEOF) else ())
