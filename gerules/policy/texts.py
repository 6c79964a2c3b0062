"""Cells as text: what egglog's tables can hold, and back."""

from __future__ import annotations

from gerules.dsl import ast
from gerules.registry.text import escape, unescape

_GUARD = "\\|"
"""Put around text that begins or ends with a space: the engine's reader of tables strips cells."""


def encode(text: str) -> str:
    """Text without tabs and line breaks, never empty, without space at its ends."""
    made = escape(text)
    return f"{_GUARD}{made}{_GUARD}" if made != made.strip() else made


def decode(text: str) -> str:
    """The inverse of `encode`."""
    if text.startswith(_GUARD):
        text = text[len(_GUARD) : -len(_GUARD)]
    return unescape(text)


def quoted(text: str) -> str:
    """An egglog string literal of encoded text."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def cell_text(expr: ast.Expr) -> str | None:
    """A literal of a rule as a text column has it: `False`, `-1`, `[1, 2]`; None where it is no literal."""
    # Lists in rules nest as deep as they are written.
    match expr:
        case ast.Text(value=value):
            return value
        case ast.Number(value=value):
            return number_text(value)
        case ast.Unary(op="-", operand=ast.Number(value=value)):
            return number_text(-value)
        case ast.Word(word=word):
            return {"true": "True", "false": "False", "inf": "inf", "none": ""}[word]
        case ast.ListExpr(items=items):
            parts = [f'"{i.value}"' if isinstance(i, ast.Text) else cell_text(i) for i in items]
            return None if None in parts else f"[{', '.join(p for p in parts if p is not None)}]"
    return None


def number_text(value: int | float) -> str:
    """A number as one text: whole ones without a point."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(value)
