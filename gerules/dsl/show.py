"""Expressions and rewrites as text again, in the language's own words, on one line.

What was read from a file is better shown as it was written; this is for what no file holds: rules that were changed.
Reading the text gives an equal tree.
"""

from __future__ import annotations

from gerules.dsl import ast

_LOOSEST, _OR, _AND, _NOT, _COMPARE, _BETWEEN, _UNION, _MEET, _SUM, _PRODUCT, _MINUS, _POSTFIX = range(12)
_BINARY = {"|": _UNION, "&": _MEET, "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT}


def show(expr: ast.Expr | ast.Keyword) -> str:
    """An expression as it would be written. Names that came out of abbreviations are shown as they are."""
    return _text(expr, _LOOSEST)


def show_rewrite(rule: ast.Rewrite) -> str:
    """A rewrite as one line of a rule file."""
    over = ", ".join(f"{m.name} in {show(m.domain)}" for m in rule.over)
    head = f"rewrite {rule.name}" + (f"[{over}]" if over else "") + (f" {rule.exactness}" if rule.exactness else "")
    when = f" when {', '.join(map(show, rule.when))}" if rule.when else ""
    return f"{head}: {show(rule.left)} {'<=>' if rule.both else '=>'} {show(rule.right)}{when}"


def _text(expr: ast.Node, around: int) -> str:
    """Expressions are at most some hundred levels deep (GR120)."""
    text, level = _level(expr)
    return f"({text})" if level < around else text


def _level(expr: ast.Node) -> tuple[str, int]:
    match expr:
        case ast.Bind(expr=inner, name=name):
            return f"{_text(inner, _OR)} as {name}", _LOOSEST
        case ast.Logical(op=op, operands=operands):
            level = _OR if op == "or" else _AND
            return f" {op} ".join(_text(o, level + 1) for o in operands), level
        case ast.Unary(op="not", operand=operand):
            return f"not {_text(operand, _NOT)}", _NOT
        case ast.Compare(op=op, left=left, right=right):
            return f"{_text(left, _BETWEEN)} {op} {_text(right, _BETWEEN)}", _COMPARE
        case ast.Between(low=low, high=high):
            return f"{_text(low, _UNION)}..{_text(high, _UNION)}", _BETWEEN
        case ast.Binary(op=op, left=left, right=right):
            level = _BINARY[op]
            return f"{_text(left, level)} {op} {_text(right, level + 1)}", level
        case ast.Unary(operand=operand):
            return f"-{_text(operand, _MINUS)}", _MINUS
        case ast.Field(base=base, name=name):
            return f"{_text(base, _POSTFIX)}.{name}", _POSTFIX
        case ast.Index(base=base, index=index):
            return f"{_text(base, _POSTFIX)}[{show(index)}]", _POSTFIX
    return _atom(expr), _POSTFIX


def _atom(expr: ast.Node) -> str:
    match expr:
        case ast.Name(id=name):
            return name
        case ast.Symbol():
            return str(expr)
        case ast.OpaqueOp(domain=domain, op=op):
            return f"{_quoted(domain)}::{_quoted(op)}"
        case ast.Number(value=value, text=text):
            return text or repr(value)
        case ast.Text(value=value):
            return _quoted(value)
        case ast.Word(word=word):
            return word
        case ast.Rest(expr=inner):
            return f"..{_text(inner, _OR) if inner is not None else ''}"
        case ast.Keyword(name=name, value=value):
            return f"{name}={_text(value, _LOOSEST)}"
        case ast.Call(head=head, operands=operands, keywords=keywords):
            return f"{_atom(head)}({', '.join(_text(item, _LOOSEST) for item in (*operands, *keywords))})"
        case ast.ListExpr(items=items):
            return f"[{', '.join(_text(item, _LOOSEST) for item in items)}]"
        case ast.SetExpr(items=items):
            return f"{{{', '.join(_text(item, _LOOSEST) for item in items)}}}"
        case ast.Typed(name=name, dtype=dtype, dims=dims):
            return f"{name}: {dtype}[{', '.join(_text(d, _LOOSEST) for d in dims)}]"
    raise AssertionError(f"no expression: {expr}")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
