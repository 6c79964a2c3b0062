"""What the examples of rule files show of operators: which shapes, contents and attributes go together.

An author's example is a well-typed instance. Operators whose operands have to fit in many ways (recurrent ones,
attention, quantised convolutions) are hardly met by chance; a draw may begin from what an example has for them, with
dimension symbols drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gerules.dsl import ast
from gerules.egraph.program import Knowledge
from gerules.errors import GerulesError
from gerules.graph.dims import Dim
from gerules.static import Context, Unknown, compile_expr


@dataclass(frozen=True, slots=True)
class Sample:
    """One call of an operator in an example: shapes by operand place, contents of constants by place, attributes as
    written."""

    shapes: Mapping[int, tuple[Dim, ...]]
    contents: Mapping[int, object]
    attributes: Mapping[str, ast.Expr]


@dataclass
class Samples:
    """Samples by operator, of all its versions; those of one version are not told from those of another."""

    by_operator: dict[tuple[str, str], list[Sample]] = field(default_factory=dict)

    @staticmethod
    def of(known: Knowledge, context: Context) -> Samples:
        found = known.kept.get("samples")
        if found is None:
            found = known.kept["samples"] = _collect(known, context)
        assert isinstance(found, Samples)
        return found

    def get(self, domain: str, name: str) -> Sequence[Sample]:
        return self.by_operator.get((domain, name), ())


def _collect(known: Knowledge, context: Context) -> Samples:
    samples = Samples()
    for entry in known.program.examples:
        typed: dict[str, tuple[Dim, ...]] = {}
        roots: list[ast.Expr] = list(entry.statement.given)
        if isinstance(entry.statement.outcome, ast.Becomes):
            roots.append(entry.statement.outcome.right)
        calls = _calls(roots, typed, context)
        for call in calls:
            assert isinstance(call.head, ast.Symbol)
            try:
                definition = known.ground.scope.operator(call.head, entry.file)
            except GerulesError:  # of a registry that is not loaded
                continue
            sample = _sample(call, typed, context)
            listed = samples.by_operator.setdefault((definition.domain, definition.name), [])
            if sample is not None and sample not in listed:
                listed.append(sample)
    return samples


def _calls(roots: Sequence[ast.Expr], typed: dict[str, tuple[Dim, ...]], context: Context) -> list[ast.Call]:
    """The operator calls below some terms; typed leaves are taken down on the way."""
    found: list[ast.Call] = []
    pending: list[object] = list(reversed(roots))
    while pending:
        node = pending.pop()
        match node:
            case ast.Typed(name=name, dims=dims):
                shape = _shape(dims, context)
                if shape is not None:
                    typed[name] = shape
            case ast.Call(head=head, operands=operands):
                if isinstance(head, ast.Symbol):
                    found.append(node)
                pending += reversed(operands)
            case ast.Bind(expr=inner) | ast.Index(base=inner):
                pending.append(inner)
            case ast.Rest(expr=rest):
                pending.append(rest)
    return found


def _shape(dims: Sequence[ast.Expr], context: Context) -> tuple[Dim, ...] | None:
    try:
        values = [compile_expr(d, context)({}) for d in dims]
    except (Unknown, GerulesError):
        return None
    if not all(isinstance(v, (int, Dim)) for v in values):
        return None
    return tuple(v if isinstance(v, Dim) else Dim.of(int(v)) for v in values)  # type: ignore[call-overload]


def _sample(call: ast.Call, typed: Mapping[str, tuple[Dim, ...]], context: Context) -> Sample | None:
    shapes: dict[int, tuple[Dim, ...]] = {}
    contents: dict[int, object] = {}
    for place, operand in enumerate(call.operands):
        match operand:
            case ast.Typed(name=name) | ast.Name(id=name) if name in typed:
                shapes[place] = typed[name]
            case ast.Call(head=ast.Name(id="splat"), operands=(_, ast.ListExpr(items=dims), *_)):
                shape = _shape(dims, context)
                if shape is not None:
                    shapes[place] = shape
            case ast.Call(head=ast.Name(id="const" | "dims"), operands=(first, *_)):
                try:
                    contents[place] = compile_expr(first, context)({})
                except (Unknown, GerulesError):
                    continue
    if len(shapes) + len(contents) < 1 or not (len(call.operands) > 1 or call.keywords):
        return None
    return Sample(shapes, contents, {k.name: k.value for k in call.keywords})
