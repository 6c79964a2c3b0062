"""As much of C++ as defaults in headers need: comments, strings, and literals with a little arithmetic."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping, Sequence

from gerules.registry.release import Literal

_PIECE = re.compile(
    r'//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z)|R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<=\d)\'(?=\d)|\'(?:\\.|[^\'\\\n])+\'',
    re.S,
)  # fmt: skip
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.M)
_CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b([^\n]*)", re.M)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)(\([^()\n]*\))?((?:\\\n|[^\n])*)", re.M)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|[0-7]{1,3}|.)", re.S)
_NUMBER = re.compile(
    r"(?<![\w.])(0[xX][0-9a-fA-F']+|0[bB][01']+|(?:\d[\d']*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFlLuU]*(?![\w.])"
)
_CAST = re.compile(r"\b(?:static_cast\s*<[^<>]*>|(?:std\s*::\s*)?(?:vector|string|initializer_list)\s*(?:<[^<>]*>)?"
                   r"|u?int\d*_t|int|float|double|bool|AscendString)\s*(?=[({])")  # fmt: skip
_SCOPE = re.compile(r"\b[A-Za-z_]\w*\s*::\s*")
_NAMES: Mapping[str, Literal] = {
    "true": True,
    "false": False,
    "TRUE": True,
    "FALSE": False,
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
    """The text with comments, preprocessor directives and dead parts (`#if 0`) as spaces: offsets and lines stay. Of
    parts that a macro decides both are kept."""
    text = _PIECE.sub(lambda m: m[0] if m[0][0] in "\"'R" else _blank(m[0]), text)
    for start, end in _dead_parts(text):
        text = text[:start] + _blank(text[start:end]) + text[end:]
    return _DIRECTIVE.sub(lambda m: _blank(m[0]), text).replace("\\\n", " \n")


def macros(text: str) -> dict[str, tuple[bool, str, int]]:
    """The macros that a text defines: whether they take arguments, what they stand for, and where they are defined."""
    text = _PIECE.sub(lambda m: m[0] if m[0][0] in "\"'R" else _blank(m[0]), text)
    return {m[1]: (m[2] is not None, m[3].replace("\\\n", " ").strip(), m.start()) for m in _DEFINE.finditer(text)}


def _dead_parts(text: str) -> list[tuple[int, int]]:
    """Parts between conditional directives that are never compiled, whatever is defined."""
    open_: list[list[bool | None]] = []  # of each conditional: what is known of its branches so far, the current last
    dead: list[tuple[int, int]] = []
    start = 0
    for match in _CONDITIONAL.finditer(text):
        if any(branches[-1] is False for branches in open_):
            dead.append((start, match.start()))
        start = match.end()
        word, holds = match[1], _holds(match[2])
        if word in ("if", "ifdef", "ifndef"):
            open_.append([holds if word == "if" else None])
        elif not open_:
            continue
        elif word == "endif":
            open_.pop()
        else:
            before = open_[-1]
            if word == "else":
                holds = True
            if True in before:
                holds = False
            elif None in before and holds is True:
                holds = None
            before.append(holds)
    return dead


def _holds(condition: str) -> bool | None:
    """Whether `0`, `(1)`, `false` holds; None for what macros decide."""
    return {"0": False, "false": False, "1": True, "true": True}.get(condition.strip().strip("()").strip())


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def masked(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with each string as \\x01NUMBER\\x02, padded to the length it had, and the strings' values."""
    strings: list[str] = []

    def put(match: re.Match[str]) -> str:
        whole = match[0]
        if whole == "'":
            return whole  # it separates digits
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
    if code[0] in "xu" and len(code) > 1:
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
    text = text.replace("'", "")
    if text[:2].lower() in ("0x", "0b"):
        return str(int(text, 0))
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
            case ast.Mod() if whole and right:
                return int(math.fmod(left, right))
            case ast.BitOr() if isinstance(left, int) and isinstance(right, int):
                return left | right
            case ast.LShift() if isinstance(left, int) and isinstance(right, int) and 0 <= right < 64:
                return left << right
    raise Unreadable("its arithmetic is not followed")
