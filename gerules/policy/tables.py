"""Tables that lie in CSV files beside the rules that declare them."""

from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path

from gerules.dsl import ast
from gerules.dsl.program import Entry
from gerules.errors import Diagnostic, Refused
from gerules.paths import rules_root
from gerules.policy.model import INT, TEXT, Cell, Row, sort_of


def rows_of_file(table: Entry[ast.TableDecl]) -> list[Row]:
    """The rows of a table that comes from a file; none where it comes from elsewhere.

    The file lies beside the rule file, its first line names the columns (a function's result may be called anything).
    Raises Refused (GR664) where it cannot be read or a row does not fit.
    """
    statement = table.statement
    if statement.source is None:
        return []
    path = _beside(table) / statement.source
    names = tuple(p.name for p in statement.params)
    types = [p.type.name for p in statement.params]
    if statement.result is not None:
        types.append(statement.result.name)
    try:
        stamp = path.stat().st_mtime_ns
        return list(_rows(path, stamp, names, tuple(types)))
    except OSError as error:
        message = f"table {statement.name} cannot be read: {error.strerror or error}"
        raise Refused(
            Diagnostic("GR664", message, span=statement.span, file=str(path), hint="it lies beside its rule file")
        ) from error


def _beside(table: Entry[ast.TableDecl]) -> Path:
    """The folder of the rule file. Shipped files are found wherever the working folder is by now."""
    if not table.ruleset.startswith("user"):
        shipped = rules_root() / f"{table.ruleset}.rules"
        if shipped.is_file():
            return shipped.parent
    return Path(table.file.path).parent


@lru_cache(maxsize=64)
def _rows(path: Path, stamp: int, names: tuple[str, ...], types: tuple[str, ...]) -> tuple[Row, ...]:
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    lines = csv.reader(text.splitlines())
    header = next(lines, [])
    if tuple(header[: len(names)]) != names or len(header) != len(types):
        wanted = ", ".join(names) + (", and the result" if len(types) > len(names) else "")
        message = f"the first line of the table is {','.join(header)!r}; its columns are {wanted}"
        raise Refused(Diagnostic("GR664", message, file=str(path), hint="the first line names the columns"))
    rows: list[Row] = []
    for line in lines:
        if not line:
            continue
        if len(line) != len(types):
            message = f"line {lines.line_num} has {len(line)} cells, and there are {len(types)} columns"
            raise Refused(Diagnostic("GR664", message, file=str(path)))
        rows.append(tuple(_cell(text, type_, path, lines.line_num) for text, type_ in zip(line, types, strict=True)))
    return tuple(rows)


def _cell(text: str, type_: str, path: Path, line: int) -> Cell:
    sort = sort_of(type_)
    if sort == TEXT:
        return text
    try:
        return int(text) if sort == INT else float(text)
    except ValueError as error:
        raise Refused(Diagnostic("GR664", f"line {line}: {text!r} is no {type_}", file=str(path))) from error
