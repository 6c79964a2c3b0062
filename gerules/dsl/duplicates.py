"""Rules of different names that say the same."""

from __future__ import annotations

from gerules.dsl import ast
from gerules.dsl.lets import children
from gerules.dsl.program import Entry, Program
from gerules.dsl.resolve import DTYPES
from gerules.dsl.terms import Report
from gerules.errors import Label


def canonical_form(entry: Entry[ast.Rewrite] | Entry[ast.Fact], opsets: object) -> tuple[object, ...]:
    """A rule of a file with these `opset` lines, up to the names of its variables; equal forms say the same."""
    statement = entry.statement
    names: dict[str, str] = {}
    heads = {m.name for m in statement.over}

    def rename(node: ast.Node) -> object:
        if isinstance(node, ast.Name):
            if node.id == "_" or node.id in DTYPES:
                return node.id
            return ("v", names.setdefault(node.id, str(len(names))))
        if isinstance(node, ast.Call):
            head: object = node.head
            if isinstance(head, ast.Name):
                head = ("v", names.setdefault(head.id, str(len(names)))) if head.id in heads else head.id
            keywords = sorted(((k.name, rename(k.value)) for k in node.keywords), key=repr)
            return ("call", head, tuple(rename(o) for o in node.operands), tuple(keywords))
        if isinstance(node, ast.Bind):
            return ("as", rename(node.expr), names.setdefault(node.name, str(len(names))))
        parts = tuple(rename(child) for child in children(node))
        plain = node if not parts else None
        return (type(node).__name__, getattr(node, "op", ""), getattr(node, "name", ""), parts, plain)

    over = tuple((names.setdefault(m.name, str(len(names))), m.domain) for m in statement.over)
    if isinstance(statement, ast.Rewrite):
        sides: tuple[object, ...] = (
            statement.both,
            statement.exactness,
            rename(statement.left),
            rename(statement.right),
        )
    else:
        sides = tuple(rename(c) for c in statement.conclusions)
    when = tuple(rename(c) for c in statement.when)
    return (type(statement).__name__, opsets, over, sides, when)


def check_duplicates(program: Program, report: Report) -> None:
    """Two rules of different names that say the same."""
    seen: dict[tuple[object, ...], Entry[ast.Rewrite] | Entry[ast.Fact]] = {}
    entries: list[Entry[ast.Rewrite] | Entry[ast.Fact]] = [*program.rewrites.values()]
    entries += [e for e in program.facts.values() if e.statement.when]
    opsets = {
        file.path: tuple((s.domain, s.version) for s in file.statements if isinstance(s, ast.Opset))
        for file in program.files
    }
    for entry in entries:
        form = canonical_form(entry, opsets[entry.file.path])
        first = seen.setdefault(form, entry)
        if first is not entry:
            message = f"{entry.statement.name} says what {first.full} says"
            label = Label(first.statement.span, "the same rule")
            report.add("GR128", message, entry.statement, "keep one of the two", [label], severity="warning")
