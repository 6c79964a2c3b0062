"""From lark's tree to the syntax tree of `gerules.dsl.ast`.

The walk is a loop with its own stack, so that a deep expression ends in a diagnostic and never in a RecursionError.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from lark import Token, Tree

from gerules.dsl import ast
from gerules.errors import Diagnostic, Span

MAX_DEPTH = 100
_BALANCE_FROM = 32
_SECONDS = {"ns": Decimal("1e-9"), "us": Decimal("1e-6"), "ms": Decimal("1e-3"), "s": Decimal(1)}
_BYTES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_NUMBER = re.compile(r"(?P<value>\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?P<unit>ns|us|ms|s|KiB|MiB|GiB)?$")
_SYMBOL = re.compile(r"(?P<domain>(?:[a-z]\w*\.)*)(?P<name>[A-Z]\w*)(?:@(?P<version>[\d.]+))?$")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


class Misbuilt(Exception):
    """A statement that the grammar admits and the language does not; carries its diagnostic."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic
        super().__init__(diagnostic.message)


def number(text: str) -> int | float:
    """The value of a number as written, its unit applied: seconds for times, bytes for sizes."""
    matched = _NUMBER.match(text)
    assert matched, text
    value, unit = matched["value"], matched["unit"]
    if unit is None:
        return int(value) if value.isdigit() else float(value)
    if unit in _SECONDS:
        return float(Decimal(value) * _SECONDS[unit])
    size = Decimal(value) * _BYTES[unit]
    return int(size) if size == size.to_integral_value() else float(size)


def unquote(text: str) -> str:
    """The characters of a string literal; an escaped character that has no meaning of its own stands for itself."""
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text[1:-1])


class Builder:
    """Builds the statements of one parsed stretch of a file.

    `line` and `offset` are what to add to the positions that lark counted within the stretch.
    """

    def __init__(self, file: str, line: int = 0, offset: int = 0) -> None:
        self._file = file
        self._line = line
        self._offset = offset

    def statements(self, tree: Tree[Any]) -> tuple[list[ast.AnyStatement], list[Diagnostic]]:
        """All statements below `tree` (rule `start`), and what cannot be built."""
        built: list[ast.AnyStatement] = []
        faults: list[Diagnostic] = []
        for child in tree.children:
            try:
                built.append(self._walk(child))
            except Misbuilt as fault:
                faults.append(fault.diagnostic)
        return built, faults

    def _walk(self, root: Tree[Any]) -> Any:
        pending: list[tuple[Tree[Any], list[Any], int]] = [(root, [], 0)]
        depths: list[int] = [0]
        while True:
            tree, done, position = pending.pop()
            children = tree.children
            while position < len(children):
                child = children[position]
                if isinstance(child, Tree):
                    break
                done.append(child)
                position += 1
            if position < len(children):
                pending.append((tree, done, position + 1))
                pending.append((children[position], [], 0))
                depths.append(0)
                continue
            method: Callable[[Tree[Any], list[Any]], Any] = getattr(self, f"_{tree.data}")
            depth = depths.pop() + 1
            if tree.data in ("sum", "product", "intersection") or (tree.data == "union" and len(done) < _BALANCE_FROM):
                depth += len(done) // 2
            if depth > MAX_DEPTH:
                message = f"this expression is nested more than {MAX_DEPTH} deep"
                raise Misbuilt(Diagnostic("GR120", message, self._span(tree), hint="name parts of it with `let`"))
            node = method(tree, done)
            if not pending:
                return node
            pending[-1][1].append(node)
            depths[-1] = max(depths[-1], depth)

    # ------------------------------------------------------------------------------------------------ places

    def _span(self, tree: Tree[Any]) -> Span:
        meta = tree.meta
        if meta.empty:
            return Span(self._file, self._line + 1, 1, self._line + 1, 1, self._offset, self._offset)
        return Span(
            self._file,
            meta.line + self._line,
            meta.column,
            meta.end_line + self._line,
            meta.end_column,
            meta.start_pos + self._offset,
            meta.end_pos + self._offset,
        )

    def _token_span(self, token: Token) -> Span:
        line, column, end_line, end_column = token.line, token.column, token.end_line, token.end_column
        assert line is not None and column is not None and end_line is not None and end_column is not None
        start, end = token.start_pos, token.end_pos
        assert start is not None and end is not None
        return Span(
            self._file,
            line + self._line,
            column,
            end_line + self._line,
            end_column,
            start + self._offset,
            end + self._offset,
        )

    @staticmethod
    def _between(first: Span, last: Span) -> Span:
        return Span(first.file, first.line, first.column, last.end_line, last.end_column, first.start, last.end)

    # ------------------------------------------------------------------------------------------- expressions

    def _name(self, tree: Tree[Any], parts: list[Any]) -> ast.Name:
        return ast.Name(str(parts[0]), span=self._span(tree))

    def _symbol(self, tree: Tree[Any], parts: list[Any]) -> ast.Symbol:
        return self._symbol_of(parts[0])

    def _symbol_of(self, token: Token) -> ast.Symbol:
        matched = _SYMBOL.match(token)
        assert matched, token
        return ast.Symbol(
            matched["domain"].rstrip("."), matched["name"], matched["version"], span=self._token_span(token)
        )

    def _number(self, tree: Tree[Any], parts: list[Any]) -> ast.Number:
        return ast.Number(number(parts[0]), str(parts[0]), span=self._span(tree))

    def _string(self, tree: Tree[Any], parts: list[Any]) -> ast.Text:
        return ast.Text(unquote(parts[0]), span=self._span(tree))

    def _word(self, tree: Tree[Any], parts: list[Any]) -> ast.Word:
        return ast.Word(str(parts[0]), span=self._span(tree))

    def _rest(self, tree: Tree[Any], parts: list[Any]) -> ast.Rest:
        return ast.Rest(parts[0], span=self._span(tree))

    def _keyword(self, tree: Tree[Any], parts: list[Any]) -> ast.Keyword:
        return ast.Keyword(str(parts[0]), parts[1], span=self._span(tree))

    def _call(self, tree: Tree[Any], parts: list[Any]) -> ast.Call:
        token = parts[0]
        if token.type == "NAME":
            return self._applied(tree, ast.Name(str(token), span=self._token_span(token)), parts[1:])
        return self._applied(tree, self._symbol_of(token), parts[1:])

    def _opaque(self, tree: Tree[Any], parts: list[Any]) -> ast.Call:
        span = self._between(self._token_span(parts[0]), self._token_span(parts[1]))
        return self._applied(tree, ast.OpaqueOp(unquote(parts[0]), unquote(parts[1]), span=span), parts[2:])

    def _applied(self, tree: Tree[Any], head: ast.Name | ast.Symbol | ast.OpaqueOp, items: list[Any]) -> ast.Call:
        operands: list[ast.Expr] = []
        keywords: dict[str, ast.Keyword] = {}
        for item in items:
            if isinstance(item, ast.Keyword):
                if item.name in keywords:
                    message = f"attribute {item.name} is given twice"
                    raise Misbuilt(Diagnostic("GR121", message, item.span, hint="keep one of the two"))
                keywords[item.name] = item
            elif item is not None:
                if keywords and not isinstance(item, ast.Rest):
                    message = "an operand stands after an attribute"
                    hint = "operands come first, then attributes by name, then `..` for whatever else"
                    raise Misbuilt(Diagnostic("GR122", message, item.span, hint=hint))
                operands.append(item)
        return ast.Call(head, tuple(operands), tuple(keywords.values()), span=self._span(tree))

    def _list(self, tree: Tree[Any], parts: list[Any]) -> ast.ListExpr:
        return ast.ListExpr(tuple(p for p in parts if p is not None), span=self._span(tree))

    def _set(self, tree: Tree[Any], parts: list[Any]) -> ast.SetExpr:
        return ast.SetExpr(tuple(p for p in parts if p is not None), span=self._span(tree))

    def _typed(self, tree: Tree[Any], parts: list[Any]) -> ast.Typed:
        dims = tuple(p for p in parts[2:] if p is not None)
        return ast.Typed(str(parts[0]), str(parts[1]), dims, span=self._span(tree))

    def _field(self, tree: Tree[Any], parts: list[Any]) -> ast.Field:
        return ast.Field(parts[0], str(parts[1]), span=self._span(tree))

    def _index(self, tree: Tree[Any], parts: list[Any]) -> ast.Index:
        return ast.Index(parts[0], parts[1], span=self._span(tree))

    def _minus(self, tree: Tree[Any], parts: list[Any]) -> ast.Unary:
        return ast.Unary("-", parts[-1], span=self._span(tree))

    def _negate(self, tree: Tree[Any], parts: list[Any]) -> ast.Unary:
        return ast.Unary("not", parts[0], span=self._span(tree))

    def _chain(self, tree: Tree[Any], parts: list[Any]) -> ast.Expr:
        """`a + b - c`: operands and operators alternate; nests to the left."""
        node: ast.Expr = parts[0]
        for operator, operand in zip(parts[1::2], parts[2::2], strict=True):
            node = ast.Binary(str(operator), node, operand, span=self._between(node.span, operand.span))
        return node

    _sum = _product = _chain

    def _intersection(self, tree: Tree[Any], parts: list[Any]) -> ast.Expr:
        return self._associated("&", parts)

    def _union(self, tree: Tree[Any], parts: list[Any]) -> ast.Expr:
        return self._associated("|", parts)

    def _associated(self, operator: str, parts: list[Any]) -> ast.Expr:
        """Nests to the left; a long one (a class of two hundred operators) as a balanced tree, in the same order."""
        while len(parts) >= _BALANCE_FROM:
            paired: list[Any] = []
            for left, right in zip(parts[::2], parts[1::2], strict=False):
                paired.append(ast.Binary(operator, left, right, span=self._between(left.span, right.span)))
            parts = paired + parts[len(parts) - len(parts) % 2 :]
        node = parts[0]
        for operand in parts[1:]:
            node = ast.Binary(operator, node, operand, span=self._between(node.span, operand.span))
        return node  # type: ignore[no-any-return]

    def _comparison(self, tree: Tree[Any], parts: list[Any]) -> ast.Compare:
        return ast.Compare(str(parts[1]), parts[0], parts[2], span=self._span(tree))

    def _conjunction(self, tree: Tree[Any], parts: list[Any]) -> ast.Logical:
        return ast.Logical("and", tuple(parts), span=self._span(tree))

    def _disjunction(self, tree: Tree[Any], parts: list[Any]) -> ast.Logical:
        return ast.Logical("or", tuple(parts), span=self._span(tree))

    def _between_(self, tree: Tree[Any], parts: list[Any]) -> ast.Between:
        return ast.Between(parts[0], parts[1], span=self._span(tree))

    def _bind(self, tree: Tree[Any], parts: list[Any]) -> ast.Bind:
        return ast.Bind(parts[0], str(parts[1]), span=self._span(tree))

    # -------------------------------------------------------------------------------------------- statements

    def _statement(self, tree: Tree[Any], parts: list[Any]) -> ast.AnyStatement:
        doc, statement = parts
        return replace(statement, doc=doc) if doc else statement  # type: ignore[no-any-return]

    def _doc(self, tree: Tree[Any], parts: list[Any]) -> str:
        return " ".join(unquote(p).strip() for p in parts)

    def _use(self, tree: Tree[Any], parts: list[Any]) -> ast.Opset:
        version = str(parts[1])
        if not re.fullmatch(r"\d+(?:\.\d+)*", version):
            message = f"{version} is no version"
            raise Misbuilt(
                Diagnostic(
                    "GR123", message, self._token_span(parts[1]), hint="an integer, or a release in digits and dots"
                )
            )
        return ast.Opset(parts[0], version, span=self._span(tree))

    def _domain(self, tree: Tree[Any], parts: list[Any]) -> str:
        return ".".join(parts)

    def _class(self, tree: Tree[Any], parts: list[Any]) -> ast.ClassDecl:
        return ast.ClassDecl(self._plain(parts[0], "class"), parts[1], span=self._span(tree))

    def _plain(self, token: Token, kind: str) -> str:
        """The name of a declared thing, which carries neither domain nor version."""
        symbol = self._symbol_of(token)
        if symbol.domain or symbol.version:
            message = f"the name of {'an' if kind[0] in 'aeiou' else 'a'} {kind} has no domain and no version"
            raise Misbuilt(Diagnostic("GR124", message, symbol.span, hint=f"write `{symbol.name}`"))
        return symbol.name

    def _op(self, tree: Tree[Any], parts: list[Any]) -> ast.OpDecl:
        return ast.OpDecl(self._symbol_of(parts[0]), parts[1], parts[2], span=self._span(tree))

    def _params(self, tree: Tree[Any], parts: list[Any]) -> tuple[ast.Param, ...]:
        return tuple(p for p in parts if p is not None)

    _results = _params

    def _param(self, tree: Tree[Any], parts: list[Any]) -> ast.Param:
        return ast.Param(str(parts[0]), parts[1], parts[2], span=self._span(tree))

    def _type(self, tree: Tree[Any], parts: list[Any]) -> ast.TypeExpr:
        return ast.TypeExpr(str(parts[0]), str(parts[1] or ""), span=self._span(tree))

    def _table(self, tree: Tree[Any], parts: list[Any]) -> ast.TableDecl:
        name, params, result, source = parts
        return ast.TableDecl(str(name), params, result, unquote(source) if source else None, span=self._span(tree))

    def _function(self, tree: Tree[Any], parts: list[Any]) -> ast.FunctionDecl:
        return ast.FunctionDecl(str(parts[0]), parts[1], parts[2], span=self._span(tree))

    def _names(self, tree: Tree[Any], parts: list[Any]) -> tuple[str, ...]:
        return tuple(str(p) for p in parts)

    def _let(self, tree: Tree[Any], parts: list[Any]) -> ast.LetDecl:
        return ast.LetDecl(str(parts[0]), parts[1] or (), parts[2], span=self._span(tree))

    def _over(self, tree: Tree[Any], parts: list[Any]) -> tuple[ast.Member, ...]:
        return tuple(parts)

    def _member(self, tree: Tree[Any], parts: list[Any]) -> ast.Member:
        return ast.Member(str(parts[0]), parts[2], span=self._span(tree))

    def _conditions(self, tree: Tree[Any], parts: list[Any]) -> tuple[ast.Expr, ...]:
        return tuple(parts)

    def _when(self, tree: Tree[Any], parts: list[Any]) -> tuple[ast.Expr, ...]:
        return parts[0]  # type: ignore[no-any-return]

    def _rewrite(self, tree: Tree[Any], parts: list[Any]) -> ast.Rewrite:
        name, over, exactness, left, arrow, right, when = parts
        return ast.Rewrite(
            str(name),
            over or (),
            str(exactness or ""),
            left,
            arrow == "<=>",
            right,
            when or (),
            span=self._span(tree),
        )

    def _fact(self, tree: Tree[Any], parts: list[Any]) -> ast.Fact:
        name, over, conclusions, when = parts
        return ast.Fact(str(name), over or (), conclusions, when or (), span=self._span(tree))

    def _refuse(self, tree: Tree[Any], parts: list[Any]) -> ast.Refuse:
        severity, name, over, message, when = parts
        return ast.Refuse(str(severity), str(name), over or (), unquote(message), when, span=self._span(tree))

    def _merge(self, tree: Tree[Any], parts: list[Any]) -> ast.Merge:
        name, over, source, target, when = parts
        return ast.Merge(str(name), over or (), str(source), str(target), when, span=self._span(tree))

    def _group(self, tree: Tree[Any], parts: list[Any]) -> ast.Group:
        name, over, pattern, when = parts
        return ast.Group(str(name), over or (), pattern, when or (), span=self._span(tree))

    def _engine(self, tree: Tree[Any], parts: list[Any]) -> ast.Engine:
        return ast.Engine(self._plain(parts[0], "engine"), tuple(parts[1:]), span=self._span(tree))

    def _property(self, tree: Tree[Any], parts: list[Any]) -> ast.Property:
        return ast.Property(str(parts[0]), parts[1], span=self._span(tree))

    def _supports(self, tree: Tree[Any], parts: list[Any]) -> ast.Supports:
        over, pattern, when = parts
        return ast.Supports(over or (), pattern, when or (), span=self._span(tree))

    def _cost(self, tree: Tree[Any], parts: list[Any]) -> ast.Cost:
        over, pattern, value, when = parts
        return ast.Cost(over or (), pattern, value, when or (), span=self._span(tree))

    def _transfer(self, tree: Tree[Any], parts: list[Any]) -> ast.Transfer:
        source, direction, target, value = parts
        places = self._plain(source, "engine"), self._plain(target, "engine")
        return ast.Transfer(*places, direction == "<->", value, span=self._span(tree))

    def _schedule(self, tree: Tree[Any], parts: list[Any]) -> ast.Schedule:
        return ast.Schedule(str(parts[0]), tuple(parts[1:]), span=self._span(tree))

    def _run(self, tree: Tree[Any], parts: list[Any]) -> ast.RunStep:
        return ast.RunStep(str(parts[0]), parts[1], parts[2] or (), span=self._span(tree))

    def _repeat(self, tree: Tree[Any], parts: list[Any]) -> ast.RepeatStep:
        count = number(parts[0])
        if not isinstance(count, int) or not str(parts[0]).isdigit():
            message = f"a step is repeated a whole number of times, not {parts[0]}"
            raise Misbuilt(Diagnostic("GR123", message, self._token_span(parts[0]), hint="write `repeat 50 (...)`"))
        return ast.RepeatStep(count, tuple(parts[1:]), span=self._span(tree))

    def _limit(self, tree: Tree[Any], parts: list[Any]) -> ast.LimitStep:
        return ast.LimitStep(parts[0], span=self._span(tree))

    def _rulesets(self, tree: Tree[Any], parts: list[Any]) -> tuple[str, ...]:
        return tuple(parts)

    def _path(self, tree: Tree[Any], parts: list[Any]) -> str:
        return "/".join(parts)

    def _options(self, tree: Tree[Any], parts: list[Any]) -> tuple[ast.Keyword, ...]:
        return tuple(parts)

    _option = _keyword

    def _study(self, tree: Tree[Any], parts: list[Any]) -> ast.Study:
        return ast.Study(str(parts[0]), tuple(parts[1:]), span=self._span(tree))

    def _vary(self, tree: Tree[Any], parts: list[Any]) -> ast.Vary:
        return ast.Vary(str(parts[0]), parts[-1], span=self._span(tree))

    def _example(self, tree: Tree[Any], parts: list[Any]) -> ast.Example:
        return ast.Example(str(parts[0]), parts[1], parts[2], span=self._span(tree))

    def _becomes(self, tree: Tree[Any], parts: list[Any]) -> ast.Becomes:
        arrow, right, refuted = parts
        if arrow != "=>":
            message = "an example goes one way: `=>`"
            raise Misbuilt(
                Diagnostic("GR125", message, self._token_span(arrow), hint="write a second example for the way back")
            )
        return ast.Becomes(right, refuted, span=self._span(tree))

    def _stays(self, tree: Tree[Any], parts: list[Any]) -> ast.Stays:
        return ast.Stays(parts[0], span=self._span(tree))

    def _gives(self, tree: Tree[Any], parts: list[Any]) -> ast.Gives:
        return ast.Gives(parts[0], span=self._span(tree))
