"""Operator patterns, compiled.

An unversioned operator is every version whose operands and attributes fit; what a pattern does not mention has its
default or is absent, unless it ends in `..` (LANGUAGE, 3). Recursion is as deep as the pattern, never as the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from gerules.dsl import ast
from gerules.registry.definition import REQUIRED, VARIADIC, OperatorDef
from gerules.static import Context, Unknown, Value, compile_expr, free_names, same_literal
from gerules.static.context import DTYPES
from gerules.static.values import equal, plain
from gerules.target.contents import VALUE_HEADS, compile_contents
from gerules.target.decode import decode_attribute
from gerules.target.matching import Found, Heads, Matcher, OfNode, OfValue, Resolve, View, no_pattern, node_view

NODE, VALUE, LIST, STATIC = "node", "value", "list", "static"
"""What a variable stands for."""


def compile_pattern(expr: ast.Expr, over: Sequence[ast.Member], resolve: Resolve, context: Context) -> Matcher:
    """A matcher of nodes. Raises Refused (GR600) where the pattern is none of an operator."""
    compiler = _PatternCompiler(over, resolve, context)
    heads, match = compiler.node(expr)
    return Matcher(heads, compiler.names, compiler.operators == 1, match)


def compile_operand(
    expr: ast.Expr, over: Sequence[ast.Member], resolve: Resolve, context: Context, names: Mapping[str, str]
) -> tuple[OfValue, Mapping[str, str], bool]:
    """A matcher of values (a bare term among conditions), all names bound after it with what they stand for, and
    whether it asks for operators behind the value."""
    compiler = _PatternCompiler(over, resolve, context)
    compiler.names.update(names)
    match = compiler.value(expr)
    return match, compiler.names, compiler.operators > 0


def compile_node_term(
    expr: ast.Expr, over: Sequence[ast.Member], resolve: Resolve, context: Context, names: Mapping[str, str]
) -> tuple[OfNode, Mapping[str, str]]:
    """A matcher of nodes among conditions, and all names bound after it."""
    compiler = _PatternCompiler(over, resolve, context)
    compiler.names.update(names)
    _, match = compiler.node(expr)
    return match, compiler.names


def is_term(expr: ast.Expr) -> bool:
    """Whether an expression says that an operator or a value of a certain form is there."""
    inner = expr.expr if isinstance(expr, ast.Bind) else expr
    inner = inner.base if isinstance(inner, ast.Index) else inner
    if isinstance(inner, ast.Bind):
        return True
    return isinstance(inner, ast.Call) and (
        not isinstance(inner.head, ast.Name) or inner.head.id in VALUE_HEADS or isinstance(expr, ast.Bind)
    )


class _PatternCompiler:
    def __init__(self, over: Sequence[ast.Member], resolve: Resolve, context: Context) -> None:
        self.over = {member.name: member for member in over}
        self.resolve = resolve
        self.context = context
        self.names: dict[str, str] = {}
        self.operators = 0

    # ------------------------------------------------------------------------------------------------------- nodes

    def node(self, expr: ast.Expr) -> tuple[Heads, OfNode]:
        if isinstance(expr, ast.Bind):
            if isinstance(expr.expr, ast.Index):
                heads, inner = self.node(expr.expr.base)
                return heads, self._of_result(inner, self._result_number(expr.expr), expr.name)
            heads, inner = self.node(expr.expr)
            return heads, self._named_node(inner, expr.name)
        if isinstance(expr, ast.Index):
            heads, inner = self.node(expr.base)
            return heads, self._of_result(inner, self._result_number(expr), None)
        if not isinstance(expr, ast.Call):
            raise no_pattern(
                expr, "this is no pattern of an operator", "write an operator with its operands: `Relu(x)`"
            )
        self.operators += 1
        parameter: str | None = None
        if isinstance(expr.head, ast.Symbol):
            heads = self.resolve.heads(expr.head)
        elif isinstance(expr.head, ast.OpaqueOp):
            heads = Heads(frozenset(), (expr.head.domain, expr.head.op))
        elif expr.head.id in self.over:
            parameter = expr.head.id
            heads = self.resolve.members(self.over[parameter].domain)
            self.names[parameter] = STATIC
        else:
            raise no_pattern(expr, f"`{expr.head.id}` is no operator parameter", f"add `[{expr.head.id} in ...]`")
        attributes, bare = self._attributes(expr)  # first, as in a match: operands may repeat an attribute's variable
        operands = self._operands(expr)

        def match(view: View, node: Any, found: Found) -> Iterator[Found]:
            operator = view.operator(node)
            if not heads.admits(operator):
                return
            if parameter is not None:
                known = found.env.get(parameter)
                if known is None:
                    found = found.bind(parameter, operator, operator)
                elif not (isinstance(known, OperatorDef) and known.key == operator.key):
                    return
            after = attributes(view, node, operator, found)
            if after is None or not (bare or _rest_is_default(view, node, operator, named)):
                return
            after = Found(after.env, after.behind, (*after.nodes, node))
            yield from operands(view, _padded(view.operands(node), operator), operator, after)

        named = frozenset(k.name for k in expr.keywords)
        return heads, match

    def _named_node(self, inner: OfNode, name: str) -> OfNode:
        again = name in self.names
        self.names[name] = NODE

        def match(view: View, node: Any, found: Found) -> Iterator[Found]:
            for after in inner(view, node, found):
                if again and name in after.behind:
                    if after.behind[name] == node or after.behind[name] in view.results(node):
                        yield after
                else:
                    yield after.bind(name, node_view(view, node), node)

        return match

    def _of_result(self, inner: OfNode, number: int, name: str | None) -> OfNode:
        """At a node of which result `number` is asked for, which `name` stands for."""
        if name is not None:
            self.names[name] = VALUE

        def match(view: View, node: Any, found: Found) -> Iterator[Found]:
            results = view.results(node)
            result = results[number] if number < len(results) else None
            if result is None:
                return
            for after in inner(view, node, found):
                yield after if name is None else after.bind(name, view.tensor(result), result)

        return match

    # ---------------------------------------------------------------------------------------------------- operands

    def _operands(self, call: ast.Call) -> _Sequence:
        """A matcher of the operand list. A rest that has a pattern takes every operand that no place takes, so after
        it a last `..` stands for attributes alone."""
        items: list[_Item] = []
        for operand in call.operands:
            if not isinstance(operand, ast.Rest):
                items.append(_Item(self.value(operand), False, False))
            elif operand.expr is None or isinstance(operand.expr, ast.Name):
                name = None if operand.expr is None or operand.expr.id == "_" else operand.expr.id
                greedy = any(item.rest and item.patterned for item in items)
                if greedy and operand is call.operands[-1] and name is None:
                    continue
                items.append(_Item(self._rest(name), True, False))
            else:
                items.append(_Item(self._each(operand.expr), True, True))
        return _Sequence(tuple(items))

    def _rest(self, name: str | None) -> _OfList:
        if name is None:
            return lambda view, values, found: iter((found,))
        again = name in self.names
        self.names[name] = LIST

        def match(view: View, values: Sequence[Any], found: Found) -> Iterator[Found]:
            if again and name in found.behind:
                if found.behind[name] == tuple(values):
                    yield found
            else:
                tensors = tuple(None if v is None else view.tensor(v) for v in values)
                yield found.bind(name, tensors, tuple(values))

        return match

    def _each(self, pattern: ast.Expr) -> _OfList:
        """`..pattern`: every operand that is there matches, and the pattern's variables become lists."""
        before = set(self.names)
        single = self.value(pattern)
        lists = [n for n in self.names if n not in before]

        def match(view: View, values: Sequence[Any], found: Found) -> Iterator[Found]:
            env: dict[str, list[Value]] = {name: [] for name in lists}
            behind: dict[str, list[Any]] = {name: [] for name in lists}
            nodes = found.nodes
            for value in values:
                if value is None:
                    continue
                start = Found({**found.env}, {**found.behind}, nodes)
                first = next(single(view, value, False, start), None)
                if first is None:
                    return
                nodes = first.nodes
                for name in lists:
                    env[name].append(first.env.get(name))
                    behind[name].append(first.behind.get(name))
            yield Found(
                {**found.env, **{n: tuple(v) for n, v in env.items()}},
                {**found.behind, **{n: tuple(v) for n, v in behind.items()}},
                nodes,
            )

        return match

    def value(self, expr: ast.Expr) -> OfValue:
        if isinstance(expr, ast.Bind):
            return self._named_value(self.value(expr.expr), expr.name)
        if isinstance(expr, ast.Name):
            return _anything if expr.id == "_" else self._named_value(_anything, expr.id)
        if isinstance(expr, ast.Word) and expr.word == "none":
            return lambda view, value, may_lack, found: iter((found,) if value is None else ())
        if isinstance(expr, ast.Index):
            return self._result(expr)
        if isinstance(expr, ast.Call):
            if isinstance(expr.head, ast.Name) and expr.head.id in VALUE_HEADS and expr.head.id not in self.over:
                return self._contents(expr)
            _, node = self.node(expr)
            return _produced(node, 0, True)
        raise no_pattern(expr, "this is no pattern of an operand", "an operand is a variable, a term, `none` or `_`")

    def _named_value(self, inner: OfValue, name: str) -> OfValue:
        again = name in self.names
        self.names[name] = VALUE

        def match(view: View, value: Any, may_lack: bool, found: Found) -> Iterator[Found]:
            if value is None and not may_lack:
                return
            for after in inner(view, value, may_lack, found):
                if again and name in after.behind:
                    if after.behind[name] == value:
                        yield after
                else:
                    yield after.bind(name, None if value is None else view.tensor(value), value)

        return match

    def _result(self, expr: ast.Index) -> OfValue:
        _, node = self.node(expr.base)
        return _produced(node, self._result_number(expr), False)

    def _result_number(self, expr: ast.Index) -> int:
        if not isinstance(expr.index, ast.Number) or not isinstance(expr.index.value, int):
            raise no_pattern(expr.index, "a result is named by its number", "write `node[0]`")
        return expr.index.value

    def _contents(self, call: ast.Call) -> OfValue:
        contents = compile_contents(call, self.context, self.names)

        def match(view: View, value: Any, may_lack: bool, found: Found) -> Iterator[Found]:
            if value is None:
                return
            env = dict(found.env)
            try:
                if not contents(view.tensor(value), env):
                    return
            except Unknown:
                return
            yield Found(env, found.behind, found.nodes)

        return match

    # -------------------------------------------------------------------------------------------------- attributes

    def _attributes(self, call: ast.Call) -> tuple[_OfAttributes, bool]:
        """A matcher of the named attributes, and whether the others may be anything."""
        last = call.operands[-1] if call.operands else None
        bare = isinstance(last, ast.Rest) and (last.expr is None or isinstance(last.expr, ast.Name))
        tests = [(k.name, self._attribute(k.value)) for k in call.keywords]
        resolve = self.resolve

        def match(view: View, node: Any, operator: OperatorDef, found: Found) -> Found | None:
            if not tests:
                return found
            texts = view.attributes(node)
            env, behind = dict(found.env), dict(found.behind)
            for name, test in tests:
                formal = operator.attribute(name)
                if formal is not None:
                    value = decode_attribute(formal.type, texts.get(name, ""), resolve.dtype_attribute(operator, name))
                elif name == "results":
                    value = sum(r is not None for r in view.results(node))
                else:
                    return None
                if not test(value, env, behind):
                    return None
            return Found(env, behind, found.nodes)

        return match, bare

    def _attribute(self, expr: ast.Expr) -> Callable[[Value, dict[str, Value], dict[str, Any]], bool]:
        if isinstance(expr, ast.Name) and expr.id == "_":
            return lambda value, env, behind: True
        if isinstance(expr, ast.Name) and expr.id not in DTYPES and expr.id not in self.names:
            name = expr.id
            self.names[name] = STATIC

            def bind(value: Value, env: dict[str, Value], behind: dict[str, Any]) -> bool:
                env[name] = behind[name] = value
                return True

            return bind
        wanted = compile_expr(expr, self.context)
        facts, literal = self.context.facts, not free_names(expr)

        def test(value: Value, env: dict[str, Value], behind: dict[str, Any]) -> bool:
            try:
                expected = plain(wanted(env))
            except Unknown:
                return False
            if literal and isinstance(expected, (bool, int, float)) and isinstance(plain(value), (int, float)):
                return same_literal(int(expected) if isinstance(expected, bool) else expected, value)
            return equal(value, expected, facts) is True

        return test


_OfList: TypeAlias = Callable[[View, Sequence[Any], Found], Iterator[Found]]
_OfAttributes: TypeAlias = Callable[[View, object, OperatorDef, Found], Found | None]


@dataclass(frozen=True, slots=True)
class _Item:
    match: Callable[..., Iterator[Found]]
    rest: bool
    patterned: bool


@dataclass(frozen=True, slots=True)
class _Sequence:
    """Matches an operand list: places one operand each, rests as many as there are. Depth is the pattern's length."""

    items: tuple[_Item, ...]

    def __call__(self, view: View, values: Sequence[Any], operator: OperatorDef, found: Found) -> Iterator[Found]:
        return self._from(0, 0, view, values, operator, found)

    def _from(
        self,
        item: int,
        place: int,
        view: View,
        values: Sequence[Any],
        operator: OperatorDef,
        found: Found,
    ) -> Iterator[Found]:
        if item == len(self.items):
            if all(v is None for v in values[place:]):
                yield found
            return
        current = self.items[item]
        if not current.rest:
            if place < len(values):
                for after in current.match(view, values[place], _may_lack(operator, place), found):
                    yield from self._from(item + 1, place + 1, view, values, operator, after)
            return
        needed = sum(not later.rest for later in self.items[item + 1 :])
        most = len(values) - needed
        if not any(later.rest for later in self.items[item + 1 :]):
            stops: Sequence[int] = (most,) if most >= place else ()
        else:
            stops = range(place, most + 1)
        for stop in stops:
            for after in current.match(view, values[place:stop], found):
                yield from self._from(item + 1, stop, view, values, operator, after)


def _padded(values: Sequence[Any], operator: OperatorDef) -> Sequence[Any]:
    """Operands with those that were left out at the end."""
    if not operator.since or any(formal.kind == VARIADIC for formal in operator.inputs):
        return values
    lacking = len(operator.inputs) - len(values)
    return (*values, *(None,) * lacking) if lacking > 0 else values


def _may_lack(operator: OperatorDef, place: int) -> bool:
    return True if not operator.since or place >= len(operator.inputs) else operator.inputs[place].kind != REQUIRED


def _rest_is_default(view: View, node: Any, operator: OperatorDef, named: frozenset[str]) -> bool:
    """Whether every attribute that the pattern does not name has its default, or is unset."""
    formals = {a.name: a.default or "" for a in operator.attributes}
    return all(text == formals.get(name, "") for name, text in view.attributes(node).items() if name not in named)


def _anything(view: View, value: Any, may_lack: bool, found: Found) -> Iterator[Found]:
    yield found


def _produced(node: OfNode, result: int, only: bool) -> OfValue:
    """A value that is result number `result` of a node that matches; `only`: of an operator with one result."""

    def match(view: View, value: Any, may_lack: bool, found: Found) -> Iterator[Found]:
        if value is None:
            return
        for producer in view.producers(value):
            results = view.results(producer)
            if result < len(results) and results[result] == value and not (only and _several(results)):
                yield from node(view, producer, found)

    return match


def _several(results: Sequence[Any]) -> bool:
    return sum(r is not None for r in results) > 1
