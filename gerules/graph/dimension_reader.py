"""Reads dimensions: canonical text, and what people write (`//`, `%`, parentheses, spaces)."""

from __future__ import annotations

import re

from gerules.graph.dimension import FUNCTIONS, MAX_DEPTH, Dim, DimError, apply_function
from gerules.registry.text import unescape

_TOKEN = re.compile(r"\s*(?:([0-9]+)|([A-Za-z_][A-Za-z0-9_]*)|'((?:[^'\\]|\\.)*)'|(//|[-+*%(),]))")


class Reader:
    """Reads one dimension by descent; nesting is bounded."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str]] = []
        self.position = 0
        self.nesting = 0
        start = 0
        while start < len(text.rstrip()):
            match = _TOKEN.match(text, start)
            if match is None:
                raise DimError(f"not a dimension: {text!r} at column {start + 1}")
            kind = ("number", "name", "quoted", "sign")[(match.lastindex or 0) - 1]
            self.tokens.append((kind, match[match.lastindex or 0]))
            start = match.end()
        self.tokens.append(("end", ""))

    def read(self) -> Dim:
        result = self._sum()
        if self.tokens[self.position][0] != "end":
            raise self._error()
        return result

    def _error(self) -> DimError:
        return DimError(f"not a dimension: {self.text!r}, {self.tokens[self.position][1] or 'its end'!r} is unexpected")

    def _take(self, *signs: str) -> str | None:
        kind, text = self.tokens[self.position]
        if kind == "sign" and text in signs:
            self.position += 1
            return text
        return None

    def _sum(self) -> Dim:
        self.nesting += 1
        if self.nesting > 2 * MAX_DEPTH:
            raise DimError(f"the dimension nests too deep: {self.text[:60]!r}")
        total = self._product()
        while sign := self._take("+", "-"):
            part = self._product()
            total = total + part if sign == "+" else total - part
        self.nesting -= 1
        return total

    def _product(self) -> Dim:
        total = self._factor()
        while sign := self._take("*", "//", "%"):
            part = self._factor()
            total = total * part if sign == "*" else total.floordiv(part) if sign == "//" else total.mod(part)
        return total

    def _factor(self) -> Dim:
        negative = False
        while self._take("-"):
            negative = not negative
        result = self._primary()
        return -result if negative else result

    def _primary(self) -> Dim:
        kind, text = self.tokens[self.position]
        if self._take("("):
            result = self._sum()
            if not self._take(")"):
                raise self._error()
            return result
        if kind not in ("number", "name", "quoted"):
            raise self._error()
        self.position += 1
        if kind == "number":
            return Dim.of(int(text))
        if kind == "quoted":
            return Dim.symbol(unescape(text.replace("\\'", "'")))
        if text in FUNCTIONS and self._take("("):
            arguments = [self._sum()]
            while self._take(","):
                arguments.append(self._sum())
            if not self._take(")"):
                raise self._error()
            return apply_function(text, tuple(arguments))
        return Dim.symbol(text)
