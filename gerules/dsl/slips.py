"""What a reader of rule files says when a statement cannot be parsed: each usual slip has a message of its own.

A slip is told by the token that does not fit, what stands around it, and what would have fitted. The first that
recognises the situation speaks; the last resort lists what would have fitted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from gerules.dsl.suggest import listed, nearest
from gerules.errors import Diagnostic, Label, Span

STATEMENT_WORDS = (
    "opset", "class", "op", "table", "function", "let", "rewrite", "fact", "deny", "warn", "merge", "group", "engine",
    "transfer", "schedule", "study", "example",
)  # fmt: skip
RULE_WORDS = ("rewrite", "fact", "deny", "warn", "merge", "group", "example", "schedule", "study")
_CLOSERS = {"(": ")", "[": "]", "{": "}"}

_WORDS = {
    "NAME": "a name", "SYMBOL": "an operator or class", "NUMBER": "a number", "RELEASE": "a version",
    "STRING": "a text in quotes", "WORD": "none, true, false or inf", "ARROW": "`=>`", "DIRECTION": "`->`",
    "COMPARE": "a comparison", "EQUAL": "`=`", "COMMA": "`,`", "COLON": "`:`", "LPAR": "`(`", "RPAR": "`)`",
    "LSQB": "`[`", "RSQB": "`]`", "LBRACE": "`{`", "RBRACE": "`}`", "DOT": "`.`", "VBAR": "`|`", "AMPERSAND": "`&`",
    "PLUS": "`+`", "MINUS": "`-`", "STAR": "`*`", "SLASH": "`/`", "PERCENT": "`%`", "OPTIONAL": "`?`", "IN": "`in`",
    "EXACTNESS": "an exactness", "SEVERITY": "`deny`", "MODE": "`saturate` or `run`",
    "_TO": "`->`", "_REST": "`..`", "_OF": "`::`", "_BELOW": "`/`",
}  # fmt: skip


class Word(NamedTuple):
    """A token before the fault."""

    text: str
    start: int


_TOKEN = re.compile(r'#[^\n]*|"(?:[^"\\\n]|\\.)*"|<=>|<->|=>|->|==|!=|<=|>=|\.\.|::|//|[\w.@]*\w|\S')


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
    inside: str = ""  # the statement that `begin` lies in, where it begins a clause
    before: tuple[Word, ...] = field(init=False)
    open: tuple[Word, ...] = field(init=False)

    def __post_init__(self) -> None:
        words = [
            Word(m[0], m.start()) for m in _TOKEN.finditer(self.text, self.begin, self.at) if not m[0].startswith("#")
        ]
        stack: list[Word] = []
        for word in words:
            if word.text in _CLOSERS:
                stack.append(word)
            elif stack and word.text == _CLOSERS[stack[-1].text]:
                stack.pop()
        object.__setattr__(self, "before", tuple(words))
        object.__setattr__(self, "open", tuple(stack))

    @property
    def token(self) -> str:
        """The text of the token that does not fit; "" at the end."""
        matched = _TOKEN.match(self.text, self.at)
        return matched[0] if matched and self.at < len(self.text) else ""

    @property
    def last(self) -> str:
        return self.before[-1].text if self.before else ""

    @property
    def keyword(self) -> str:
        """The statement's keyword, or "" if it has none."""
        if self.inside:
            return self.inside
        words = [w.text for w in self.before if not w.text.startswith('"')]
        first = words[0] if words else self.token
        return first if first in STATEMENT_WORDS else ""

    @property
    def misread(self) -> str:
        """A sign of two characters whose first was read as a sign of its own: `==`, `=>`, `->`; else ""."""
        sign = self.text[self.at - 1 : self.at + 1] if self.at else ""
        return sign if sign in ("==", "=>", "->") else ""

    @property
    def at_statement(self) -> bool:
        """The token is the first of the next statement (or of its doc string), or the end."""
        return not self.token or self.at >= self.following or (self.token in STATEMENT_WORDS and self.starts_line)

    @property
    def starts_line(self) -> bool:
        return self.text[self.text.rfind("\n", 0, self.at) + 1 : self.at].strip("\ufeff \t") == ""

    def seen(self, *words: str) -> bool:
        """Whether one of these stood before, outside brackets or not."""
        return any(w.text in words for w in self.before)

    def where(self, start: int | None = None, length: int | None = None) -> Span:
        start = self.at if start is None else start
        if length is None:
            length = max(1, len(self.token)) if start == self.at else 1
        return self.span(start, min(start + length, len(self.text)))

    def end_of_last(self) -> Span:
        """Just behind the last token before the fault."""
        if not self.before:
            return self.where()
        word = self.before[-1]
        return self.span(word.start + len(word.text), word.start + len(word.text))


Slip = Callable[[Situation], Diagnostic | None]


def explain(situation: Situation) -> Diagnostic:
    """The message for a fault of syntax."""
    for slip in _SLIPS:
        diagnostic = slip(situation)
        if diagnostic is not None:
            return diagnostic
    return _unexpected(situation)


def _strings_and_ends(s: Situation) -> Diagnostic | None:
    if s.token == ";":
        return Diagnostic("GR109", "nothing ends a statement: `;` has no meaning", s.where(), hint="leave the `;` out")
    if s.token == "'":
        hint = "write \"...\" instead of '...'"
        return Diagnostic("GR109", "strings have double quotes", s.where(), hint=hint)
    if s.token == '"' and s.kind == "":
        end = s.text.find("\n", s.at)
        span = s.where(s.at, (end if end >= 0 else len(s.text)) - s.at)
        return Diagnostic("GR113", "this string has no end on its line", span, hint='close it with `"`')
    return None


def _unknown_statement(s: Situation) -> Diagnostic | None:
    if s.token in _CLAUSE_WORDS and s.starts_line and s.keyword not in ("engine", "schedule", "study"):
        return _stray(s, Word(s.token, s.at))
    words = [w for w in s.before if not w.text.startswith('"')] or [Word(s.token, s.at)]
    first = words[0]
    if (
        s.inside
        or first.text in STATEMENT_WORDS
        or first.start < s.begin
        or not re.fullmatch(r"[A-Za-z_]\w*", first.text)
    ):
        return None
    line = s.text.rfind("\n", 0, first.start) + 1
    if s.text[line : first.start].strip("\ufeff \t"):
        return None
    if first.text in ("supports", "cost", "vary", "when") or (len(words) > 1 and words[1].text == "="):
        return _stray(s, first)
    found = nearest(first.text, STATEMENT_WORDS)
    hint = f"did you mean `{found}`?" if found else f"statements begin with {listed(STATEMENT_WORDS, 'or', most=20)}"
    span = s.where(first.start, len(first.text))
    return Diagnostic("GR110", f"unknown statement `{first.text}`", span, hint=hint)


_CLAUSE_WORDS = ("supports", "cost", "vary", "saturate", "run", "backoff", "shuffle", "repeat", "limit")


def _stray(s: Situation, first: Word) -> Diagnostic:
    span = s.where(first.start, len(first.text))
    message = f"`{first.text}` stands outside of a statement"
    return Diagnostic("GR110", message, span, hint=f"statements begin with {listed(STATEMENT_WORDS, 'or', most=20)}")


def _logic(s: Situation) -> Diagnostic | None:
    around = s.text[max(0, s.at - 1) : s.at + 2]
    if s.token == "not" and re.match(r"not\s+in\b", s.text[s.at :]):
        return Diagnostic(
            "GR105",
            "`not` stands before the whole condition",
            s.where(),
            hint="write `not t in {f32}` for `t not in {f32}`",
        )
    if s.token == "!":
        return Diagnostic("GR105", "`!` is written `not`", s.where(), hint="write `not q(x)`")
    for sign, word in (("&&", "and"), ("||", "or")):
        if around.startswith(sign):
            instead = "a comma" if word == "and" else "`or`"
            return Diagnostic(
                "GR105", f"`{sign}` is written as {instead}", s.where(s.at - 1, 2), hint=_LOGIC_HINTS[word]
            )
    return None


_LOGIC_HINTS = {"and": "conditions are separated by commas", "or": "write `p or q`"}


def _attributes(s: Situation) -> Diagnostic | None:
    hint = "attributes stand in the call, by name: `Cast(x, to=f32)`"
    if s.token == "{" and s.last == ")":
        return Diagnostic("GR106", "attributes have no braces of their own", s.where(), hint=hint)
    if not s.open or s.open[-1].text != "(":
        return None
    if s.token == ":" and s.keyword != "example":
        return Diagnostic("GR106", "an attribute is set with `=`", s.where(), hint=hint)
    leaf = s.before[-3:]
    is_leaf = len(leaf) == 3 and leaf[1].text == ":" and s.expected == {"LSQB"}
    if not is_leaf and not (s.last == ":" and s.expected == {"NAME"}):
        return None
    colon = leaf[1] if is_leaf else s.before[-1]
    if s.keyword == "example" and (is_leaf and re.fullmatch(r"[a-z]+\d*\w*", leaf[2].text)):
        message = f"`{leaf[0].text}: {leaf[2].text}` has no shape"
        text = "a leaf says its shape: `x: f32[2, N]`, a scalar is `x: f32[]`; an attribute is set with `=`"
        return Diagnostic(
            "GR119", message, s.where(leaf[0].start, s.before[-1].start - leaf[0].start + len(s.last)), hint=text
        )
    return Diagnostic("GR106", "an attribute is set with `=`", s.where(colon.start, 1), hint=hint)


def _arrow(s: Situation) -> Diagnostic | None:
    if s.keyword not in ("rewrite", "example") or s.open or s.seen("=>", "<=>", "when") or not s.seen(":"):
        return None
    back = s.misread == "->"
    if s.token in ("=", "->", "==>", "~>", "==") or back:
        sign = "->" if back else s.token
        return _no_arrow(s, sign, s.where(s.at - back, len(sign)))
    if s.keyword == "rewrite" and s.token == "when":
        return Diagnostic(
            "GR104", "this rewrite has no `=>` before its conditions", s.where(), hint="write `LEFT => RIGHT when ...`"
        )
    return None


def _no_arrow(s: Situation, sign: str, span: Span) -> Diagnostic:
    hint = "write `Relu(x) => x`; `<=>` if it may be read both ways"
    return Diagnostic("GR104", f"a rewrite has `=>` (or `<=>`) between its sides, not `{sign}`", span, hint=hint)


def _equals(s: Situation) -> Diagnostic | None:
    if s.token != "=" or s.misread or (s.open and s.expected <= {"RPAR", "COMMA"}):
        return None
    if s.seen("when") or s.keyword in ("fact", "deny", "warn", "example") or s.open:
        hint = "`=` names an attribute inside a call, `==` compares"
        return Diagnostic("GR103", "a condition compares with `==`", s.where(), hint=hint)
    return None


def _comma(s: Situation) -> Diagnostic | None:
    in_conditions = (s.seen("when", "gives") or s.keyword in ("fact", "example")) and s.seen(":", "supports", "cost")
    if not in_conditions or s.open or s.at_statement:
        return None
    names = [w for w in s.before if re.match(r"[a-z_]", w.text)]
    if s.keyword == "engine" and names and (s.misread == "==" or s.expected == {"EQUAL"}):
        # In an engine a name after a condition is read as that of a property.
        index = s.before.index(names[-1])
        return _comma_at(s, index - 1, names[-1].start) if index else None
    if s.kind in ("NAME", "SYMBOL", "NUMBER", "WORD", "_NOT", "LSQB", "LBRACE") and s.before:
        if s.token in _CONDITION_WORDS:
            return None
        if s.last in ("when", ",", "=>", "<=>", ":", "gives", "==", "and", "or", "not", "in"):
            return None
        return _comma_at(s, len(s.before) - 1, s.at)
    return None


_CONDITION_WORDS = ("if", "where", "for", "provided", "unless", "with")


def _comma_at(s: Situation, index: int, next_start: int) -> Diagnostic:
    word = s.before[index]
    end = word.start + len(word.text)
    label = Label(s.where(next_start, 1), "the next condition")
    message, hint = "a comma is missing after this condition", "conditions are separated by commas"
    return Diagnostic("GR102", message, s.where(end - 1, 1), hint=hint, labels=(label,))


def _condition_words(s: Situation) -> Diagnostic | None:
    if s.token not in _CONDITION_WORDS or not s.keyword:
        return None
    if s.token == "for" and s.keyword in RULE_WORDS:
        hint = f"operators stand in brackets after the name: `{s.keyword} a[f in Unary]: ...`"
    else:
        hint = "conditions come after `when`, separated by commas"
    return Diagnostic("GR108", f"`{s.token}` has no meaning here", s.where(), hint=hint)


def _header(s: Situation) -> Diagnostic | None:
    kind = s.keyword
    if kind not in (*RULE_WORDS, "engine") or s.seen(":") or s.open:
        return None
    form = {"engine": "engine Npu: ...", "deny": 'deny a: "..." when ...', "warn": 'warn a: "..." when ...'}.get(
        kind, f"{kind} a: ..."
    )
    article = f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
    hint = f"write `{form}`"
    if s.last == kind:
        if s.kind == "SYMBOL" and kind != "engine":
            message = f"the name of {article} begins with a small letter"
        elif s.kind == "NAME" and kind == "engine":
            message = "the name of an engine begins with a capital letter"
        elif s.kind in ("WORD", "EXACTNESS", "MODE"):
            return Diagnostic("GR117", f"`{s.token}` is a reserved word", s.where(), hint="choose another name")
        else:
            message = f"{article} has a name, and a colon after it"
        return Diagnostic("GR107", message, s.where(), hint=hint)
    if "COLON" in s.expected and s.token != ":":
        return Diagnostic("GR107", f"{article} has a colon after its name", s.where(), hint=hint)
    return None


def _refusal(s: Situation) -> Diagnostic | None:
    if s.keyword not in ("deny", "warn", "merge") or s.expected != {"_WHEN"}:
        return None
    what = {"deny": "it refuses every graph", "warn": "it warns of every graph", "merge": "it merges everything"}[
        s.keyword
    ]
    message = f"a {s.keyword} needs conditions, else {what}"
    return Diagnostic("GR111", message, s.end_of_last(), hint="add `when ...`")


def _doc(s: Situation) -> Diagnostic | None:
    hint = "begin a line within a statement with `#` for a comment"
    message = "a doc string goes before a statement"
    if s.kind == "STRING" and s.starts_line and s.at < s.following and s.keyword:
        return Diagnostic("GR112", message, s.where(), hint=hint)
    if len(s.before) > 2 and s.last.startswith('"') and (s.inside or (s.token and not s.at_statement)):
        # It was taken for the doc string of a next statement.
        word = s.before[-1]
        if not s.text[s.text.rfind("\n", 0, word.start) + 1 : word.start].strip():
            return Diagnostic("GR112", message, s.where(word.start, len(word.text)), hint=hint)
    return None


def _brackets(s: Situation) -> Diagnostic | None:
    if s.token in (")", "]", "}"):
        if not s.open:
            return Diagnostic(
                "GR113", f"`{s.token}` closes nothing", s.where(), hint="leave it out, or open the bracket"
            )
        opened = s.open[-1]
        if _CLOSERS[opened.text] != s.token:
            label = Label(s.where(opened.start, 1), "opened here")
            message = f"`{opened.text}` is closed by `{s.token}`"
            return Diagnostic(
                "GR113", message, s.where(), hint=f"close it with `{_CLOSERS[opened.text]}`", labels=(label,)
            )
        return None
    if s.open and (s.at_statement or s.token in ("=>", "<=>", "->", "when", ":") or s.misread == "=>"):
        opened = s.open[-1]
        hint = f"a `{_CLOSERS[opened.text]}` is missing"
        return Diagnostic("GR113", f"`{opened.text}` is not closed", s.where(opened.start, 1), hint=hint)
    return None


def _unfinished(s: Situation) -> Diagnostic | None:
    if not s.at_statement or not s.keyword:
        return None
    compared = next((w for w in s.before if w.text == "=="), None)
    if s.keyword == "rewrite" and compared and "ARROW" in s.expected and not s.seen("=>", "<=>"):
        return _no_arrow(s, "==", s.where(compared.start, 2))
    expected = _expectations(s.expected)
    hint = f"after `{s.last}` there should be {expected}" if expected else None
    return Diagnostic("GR116", f"this {s.keyword} is not finished", s.end_of_last(), hint=hint)


def _reserved(s: Situation) -> Diagnostic | None:
    if s.token in ("none", "true", "false", "inf", "not") and "NAME" in s.expected:
        return Diagnostic("GR117", f"`{s.token}` is a reserved word", s.where(), hint="choose another name")
    if s.token == "=" and s.last in ("none", "true", "false", "inf") and s.open:
        word = s.before[-1]
        span = s.where(word.start, len(word.text))
        return Diagnostic(
            "GR117", f"`{s.last}` is a reserved word and names no attribute", span, hint="check the attribute's name"
        )
    return None


def _chained(s: Situation) -> Diagnostic | None:
    if s.kind not in ("COMPARE", "IN") or not s.seen("==", "!=", "<=", ">=", "<", ">", "in"):
        return None
    if "COMMA" not in s.expected and "RPAR" not in s.expected and "_AND" not in s.expected:
        return None
    hint = "write two conditions: `a <= b, b <= c`"
    return Diagnostic("GR118", "comparisons do not chain", s.where(), hint=hint)


def _unexpected(s: Situation) -> Diagnostic:
    if s.token.startswith(".") and s.last == "..":
        return Diagnostic(
            "GR101", "`...` has a dot too many", s.where(s.at - 2, 3), hint="`..` stands for whatever else"
        )
    expected = _expectations(s.expected)
    hint = f"here there may be {expected}" if expected else None
    if not s.token:
        return Diagnostic("GR116", "the file ends within a statement", s.end_of_last(), hint=hint)
    return Diagnostic("GR101", f"`{s.token}` does not fit here", s.where(), hint=hint)


def _expectations(expected: frozenset[str]) -> str:
    """Terminals in words; "" where there are too many to help."""
    if {"NAME", "SYMBOL", "NUMBER"} <= expected:
        return "an expression"
    if {"PLUS", "STAR"} <= expected:
        closers = [_WORDS[name] for name in ("ARROW", "COLON", "RPAR", "RSQB", "RBRACE") if name in expected]
        return listed([*closers, "an operator sign"], "or")
    names = {
        _WORDS.get(name) or f"`{name.strip('_').lower()}`" for name in expected if not name.startswith(("__", "$"))
    }
    return listed(sorted(names), "or") if 0 < len(names) <= 6 else ""


_SLIPS: tuple[Slip, ...] = (
    _strings_and_ends, _unknown_statement, _logic, _attributes, _arrow, _equals, _refusal, _doc, _header, _reserved,
    _condition_words, _comma, _chained, _brackets, _unfinished,
)  # fmt: skip
