"""Abbreviations (`let`) replaced by what they stand for, hygienically and within bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from gerules.dsl import ast
from gerules.dsl.build import MAX_DEPTH
from gerules.dsl.suggest import listed
from gerules.errors import Diagnostic, GerulesError, Label

MAX_NODES = 20_000


def children(node: ast.Node) -> list[ast.Node]:
    """The direct parts of a node, in order of writing."""
    found: list[ast.Node] = []
    for name in _parts(type(node)):
        value = getattr(node, name)
        if isinstance(value, ast.Node):
            found.append(value)
        elif isinstance(value, tuple):
            found.extend(v for v in value if isinstance(v, ast.Node))
    return found


_PARTS: dict[type, tuple[str, ...]] = {}


def _parts(kind: type) -> tuple[str, ...]:
    if kind not in _PARTS:
        assert is_dataclass(kind)
        # Names and texts have no parts; what is left holds nodes or tuples of nodes (or of texts).
        texts = {"str", "bool", "int", "str | None", "int | float", "Span"}
        _PARTS[kind] = tuple(f.name for f in fields(kind) if f.type not in texts)
    return _PARTS[kind]


def walk(node: ast.Node, most: int | None = None) -> list[ast.Node]:
    """`node` and all nodes below it, in order of writing; with a stack of its own. Stops beyond `most`."""
    found: list[ast.Node] = []
    pending = [node]
    while pending and (most is None or len(found) <= most):
        current = pending.pop()
        found.append(current)
        pending.extend(reversed(children(current)))
    return found


def bound_in(body: ast.Expr) -> set[str]:
    """Names that the body of a let binds itself: those after `as`."""
    return {n.name for n in walk(body) if isinstance(n, ast.Bind)}


def mentions(expr: ast.Node) -> set[str]:
    """All small-letter names that an expression mentions, heads of calls included."""
    return {n.id for n in walk(expr) if isinstance(n, ast.Name)}


def cycle(lets: Mapping[str, ast.LetDecl]) -> list[str] | None:
    """Names of lets that lead back to the first of them, or None."""
    state: dict[str, int] = {}
    for root in lets:
        if root in state:
            continue
        path: list[tuple[str, list[str]]] = [(root, _uses(root, lets))]
        state[root] = 1
        while path:
            name, uses = path[-1]
            if not uses:
                state[name] = 2
                path.pop()
                continue
            used = uses.pop(0)
            if state.get(used) == 1:
                names = [n for n, _ in path]
                return [*names[names.index(used) :], used]
            if used not in state:
                state[used] = 1
                path.append((used, _uses(used, lets)))
    return None


def _uses(name: str, lets: Mapping[str, ast.LetDecl]) -> list[str]:
    let = lets[name]
    return sorted((mentions(let.value) - set(let.params)) & lets.keys())


@dataclass
class _Expansion:
    lets: Mapping[str, ast.LetDecl]
    root: ast.Node
    nodes: int = 0
    calls: int = 0
    active: list[str] = field(default_factory=list)

    def fail(self, code: str, message: str, where: ast.Node, hint: str) -> GerulesError:
        return GerulesError(Diagnostic(code, message, where.span, hint=hint))

    def unbounded(self) -> GerulesError:
        message = f"with its abbreviations written out this has more than {MAX_NODES} parts, or is too deep"
        return self.fail("GR120", message, self.root, "lets that use each other twice grow twofold each time")

    def bounded(self, result: ast.Node) -> None:
        """What a let puts in place was not walked, so the result is measured once more. Raises GerulesError."""
        if self.calls and (len(walk(result, MAX_NODES)) > MAX_NODES or depth_of(result) > 2 * MAX_DEPTH):
            raise self.unbounded()

    def expand(self, node: Any, env: Mapping[str, Any], depth: int) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES or depth > 2 * MAX_DEPTH:
            raise self.unbounded()
        if isinstance(node, ast.Name):
            return self._name(node, env, depth)
        if isinstance(node, ast.Call) and isinstance(node.head, ast.Name):
            let = self.lets.get(node.head.id) if node.head.id not in env else None
            if let is not None and let.params:
                return self._apply(let, node, env, depth)
            if node.head.id in env or node.head.id in self.lets:
                return self._headed(node, env, depth)
        if isinstance(node, ast.Bind) and node.name in env:
            renamed = env[node.name]
            if not isinstance(renamed, ast.Name):
                message = f"{node.name} is a parameter here, and what it stands for is no name"
                raise self.fail("GR163", message, node, "give a variable, or choose another name after `as`")
            return replace(node, expr=self.expand(node.expr, env, depth + 1), name=renamed.id)
        if isinstance(node, ast.Rest) and isinstance(node.expr, ast.Name):
            value = self.expand(node.expr, env, depth + 1)
            return value if isinstance(value, ast.Rest) else replace(node, expr=value)
        return self._rebuilt(node, env, depth)

    def _headed(self, call: ast.Call, env: Mapping[str, Any], depth: int) -> ast.Node:
        """A call whose head is a parameter (`let twice(f, x) = f(f(x))`) or a let without parameters."""
        head = self.expand(call.head, env, depth + 1)
        if not isinstance(head, (ast.Name, ast.Symbol)):
            message = f"{getattr(call.head, 'id', 'this')} stands for something that takes no operands"
            raise self.fail("GR163", message, call, "only an operator, a parameter or a function can be applied")
        operands = tuple(self.expand(operand, env, depth + 1) for operand in call.operands)
        keywords = tuple(replace(k, value=self.expand(k.value, env, depth + 1)) for k in call.keywords)
        return replace(call, head=head, operands=operands, keywords=keywords)

    def _rebuilt(self, node: ast.Node, env: Mapping[str, Any], depth: int) -> ast.Node:
        changed: dict[str, Any] = {}
        for name in _parts(type(node)):
            value = getattr(node, name)
            if isinstance(value, ast.Node):
                new: Any = self.expand(value, env, depth + 1)
                if new is not value:
                    changed[name] = new
            elif isinstance(value, tuple):
                new = tuple(self.expand(v, env, depth + 1) if isinstance(v, ast.Node) else v for v in value)
                if any(a is not b for a, b in zip(new, value, strict=True)):
                    changed[name] = new
        return replace(node, **changed) if changed else node

    def _name(self, node: ast.Name, env: Mapping[str, Any], depth: int) -> ast.Node:
        if node.id in env:
            value: ast.Node = env[node.id]
            return value
        let = self.lets.get(node.id)
        if let is None:
            return node
        if let.params:
            return node  # a rule's own variable may have the name of a let with parameters
        return self._body(let, {}, node, depth)

    def _apply(self, let: ast.LetDecl, call: ast.Call, env: Mapping[str, Any], depth: int) -> ast.Node:
        if call.keywords:
            message = f"{let.name} is an abbreviation and takes its operands by place"
            raise self.fail("GR163", message, call, f"write `{let.name}({', '.join(let.params)})`")
        if len(call.operands) != len(let.params):
            count = f"{len(let.params)} operand{'' if len(let.params) == 1 else 's'}"
            message = f"{let.name} takes {count}, not {len(call.operands)}"
            raise self.fail("GR163", message, call, f"write `{let.name}({', '.join(let.params)})`")
        values = [self.expand(operand, env, depth + 1) for operand in call.operands]
        return self._body(let, dict(zip(let.params, values, strict=True)), call, depth)

    def _body(self, let: ast.LetDecl, env: dict[str, Any], where: ast.Node, depth: int) -> ast.Node:
        if let.name in self.active:
            names = listed([*self.active[self.active.index(let.name) :], let.name], "and then")
            raise self.fail(
                "GR162", f"the abbreviation {let.name} leads back to itself: {names}", let, "a let names something else"
            )
        self.calls += 1
        for name in bound_in(let.value) - set(let.params):
            # A capital first letter: no name that a person writes in this place can meet it.
            env[name] = ast.Name(f"L{self.calls}_{name}", span=where.span)
        self.active.append(let.name)
        expanded = self.expand(let.value, env, depth + 1)
        self.active.pop()
        return expanded  # type: ignore[no-any-return]


def depth_of(node: ast.Node) -> int:
    """How many levels an expression has."""
    deepest = 0
    pending = [(node, 1)]
    while pending:
        current, depth = pending.pop()
        deepest = max(deepest, depth)
        pending.extend((child, depth + 1) for child in children(current))
    return deepest


def expand(expr: ast.Expr, lets: Mapping[str, ast.LetDecl]) -> ast.Expr:
    """`expr` with every abbreviation written out.

    Names that a let binds itself (`as y`) are renamed at each use. Raises GerulesError: GR162 for recursion, GR163
    for a use that does not fit the let's parameters, GR120 where the result has no bounds.
    """
    expansion = _Expansion(lets, expr)
    expanded: ast.Expr = expansion.expand(expr, {}, 0)
    expansion.bounded(expanded)
    return expanded


def expand_statement(statement: ast.AnyStatement, lets: Mapping[str, ast.LetDecl]) -> ast.AnyStatement:
    """The same for every expression of a statement."""
    try:
        expansion = _Expansion(lets, statement)
        expanded = expansion._rebuilt(statement, {}, 0)
        expansion.bounded(expanded)
        return expanded  # type: ignore[return-value]
    except GerulesError as fault:
        if isinstance(statement, ast.LetDecl):
            raise
        outside = [d for d in fault.diagnostics if not _within(d, statement)]
        if not outside:
            raise
        label = Label(statement.span, "used here")
        raise GerulesError([replace(d, labels=(*d.labels, label)) for d in fault.diagnostics]) from None


def _within(diagnostic: Diagnostic, statement: ast.Node) -> bool:
    span = diagnostic.span
    return (
        span is not None
        and span.file == statement.span.file
        and (statement.span.start <= span.start and span.end <= statement.span.end)
    )
