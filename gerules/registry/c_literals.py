"""As much of C++ as defaults in headers need: comments, strings, and literals with a little arithmetic."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from gerules.registry.release import Literal

_PIECE = re.compile(
    r'//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z)|R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
    re.S,
)  # fmt: skip
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.M)
_DEAD = re.compile(r"^[ \t]*#[ \t]*if[ \t]+0\b.*?^[ \t]*#[ \t]*(?:endif|else)\b", re.M | re.S)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.S)
_NUMBER = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFlLuU]*(?![\w.])")
_CAST = re.compile(r"\b(?:static_cast\s*<[^<>]*>|(?:std\s*::\s*)?(?:vector|string|initializer_list)\s*(?:<[^<>]*>)?"
                   r"|u?int\d*_t|int|float|double|bool|AscendString)\s*(?=[({])")  # fmt: skip
_SCOPE = re.compile(r"\b[A-Za-z_]\w*\s*::\s*")
_NAMES: Mapping[str, Literal] = {
    "true": True,
    "false": False,
    "INT_MAX": 2**31 - 1,
    "INT_MIN": -(2**31),
    "INT32_MAX": 2**31 - 1,
    "INT32_MIN": -(2**31),
    "INT64_MAX": 2**63 - 1,
    "INT64_MIN": -(2**63),
    "UINT32_MAX": 2**32 - 1,
    "FLT_MAX": 3.4028234663852886e38,
    "FLT_MIN": 1.1754943508222875e-38,
    "FLT_EPSILON": 1.1920928955078125e-07,
}


class Unreadable(Exception):
    """This is no literal that can be read; the text says why."""


def without_comments(text: str) -> str:
    """The text with comments, preprocessor directives and `#if 0` parts as spaces: offsets and lines stay."""
    text = _PIECE.sub(lambda m: m[0] if m[0][0] in "\"'R" else _blank(m[0]), text)
    text = _DEAD.sub(lambda m: _blank(m[0]), text)
    return _DIRECTIVE.sub(lambda m: _blank(m[0]), text).replace("\\\n", " \n")


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def masked(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with each string as \\x01NUMBER\\x02, padded to the length it had, and the strings' values."""
    strings: list[str] = []

    def put(match: re.Match[str]) -> str:
        whole = match[0]
        if match["mark"] is not None:
            strings.append(whole[whole.index("(") + 1 : whole.rindex(")")])
        else:
            strings.append(_ESCAPE.sub(_unescape, whole[1:-1]))
        token = f"\x01{len(strings) - 1}\x02"
        blank = _blank(whole[len(token) :]) if len(whole) >= len(token) else ""
        return token + blank

    return _PIECE.sub(put, text), tuple(strings)


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code.isdigit():
        return chr(int(code, 8))
    return {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}.get(code, code)


def split_arguments(text: str) -> list[str]:
    """The text at its commas outside of brackets. Brackets that do not match are let through."""
    parts: list[str] = []
    depth = start = 0
    for position, character in enumerate(text):
        if character in "({[":
            depth += 1
        elif character in ")}]":
            depth = max(0, depth - 1)
        elif character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    parts.append(text[start:])
    return [part for part in parts if part.strip()]


def literal_of(text: str, strings: Sequence[str], constants: Mapping[str, Literal]) -> Literal:
    """The value of `-1`, `1.0e-5f`, `{0, 1}`, `"text"`, `ge::DT_FLOAT`, `1 << 4`, a constant. Raises Unreadable."""
    text = _SCOPE.sub("", _CAST.sub("", text)).strip()
    if not text:
        raise Unreadable("there is none")
    text = _NUMBER.sub(lambda m: _number(m[1]), text)
    text = re.sub(r"\x01(\d+)\x02", lambda m: f" _s[{m[1]}] ", text)
    text = re.sub(r"(\])\s+(?=_s\[)", r"\1 + ", text)  # strings side by side are one
    text = " ".join(text.split())
    try:
        tree = ast.parse(_brackets(text), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Unreadable(f"`{text[:40]}` is no literal") from None
    return _value(tree, strings, constants)


def _brackets(text: str) -> str:
    """Lists in braces as tuples of Python, `{}` as the empty one."""
    text = re.sub(r",\s*\}", "}", text)
    text = re.sub(r"\{\s*\}", "()", text)
    return text.replace("{", "(").replace("}", ",)")


def _number(text: str) -> str:
    if text[:2].lower() == "0x":
        return str(int(text, 16))
    if text.isdigit():
        return str(int(text, 8) if text[0] == "0" and len(text) > 1 and set(text) <= set("01234567") else int(text))
    return repr(float(text))


def _value(tree: ast.expr, strings: Sequence[str], constants: Mapping[str, Literal]) -> Literal:
    # As deep as the brackets of one default.
    match tree:
        case ast.Constant(value=bool() | int() | float() as value):
            return value
        case ast.Tuple(elts=items):
            return tuple(_value(item, strings, constants) for item in items)
        case ast.Subscript(value=ast.Name(id="_s"), slice=ast.Constant(value=int() as number)):
            return strings[number]
        case ast.Name(id=name):
            if name in constants:
                return constants[name]
            if name in _NAMES:
                return _NAMES[name]
            if name.startswith("DT_"):
                return name
            raise Unreadable(f"nothing says what {name} is")
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as op, operand=inner):
            operand = _value(inner, strings, constants)
            if isinstance(operand, (int, float)):
                return -operand if isinstance(op, ast.USub) else operand
        case ast.BinOp(left=left, op=op, right=right):
            return _computed(_value(left, strings, constants), op, _value(right, strings, constants))
    raise Unreadable("it is no literal")


def _computed(left: Literal, op: ast.operator, right: Literal) -> Literal:
    if isinstance(left, str) and isinstance(right, str) and isinstance(op, ast.Add):
        return left + right
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        whole = isinstance(left, int) and isinstance(right, int)
        match op:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.Div() if right:
                # C++ rounds the quotient of integers towards zero.
                return int(left / right) if whole else left / right
            case ast.LShift() if isinstance(left, int) and isinstance(right, int) and 0 <= right < 64:
                return left << right
    raise Unreadable("its arithmetic is not followed")
