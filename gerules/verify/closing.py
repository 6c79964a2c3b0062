"""Closes the left side of a case: by the choices of a draw, to a `Layout`.

How operands meet rests, what an open attribute is, which results there are: all as the e-graph has it
(`gerules.egraph.query`), in numbers instead of atoms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gerules.dsl import ast
from gerules.egraph.lower import literal
from gerules.egraph.patterns import VALUE_TERMS, variables_of
from gerules.egraph.signature import RESULTS, Signature
from gerules.egraph.terms import Misfit
from gerules.egraph.texts import parse_value
from gerules.errors import Diagnostic, GerulesError
from gerules.graph.dtypes import is_tensor
from gerules.registry.definition import OPTIONAL, REQUIRED, VARIADIC, Attribute, Operand, OperatorDef
from gerules.static import free_names
from gerules.static.context import DTYPES
from gerules.verify.case import Case
from gerules.verify.joined import TypeClasses
from gerules.verify.layout import (
    Bound,
    ColumnAt,
    DrawColumn,
    DrawHeld,
    DrawLeaf,
    Fixed,
    Layout,
    ListOf,
    NodeAt,
    RestOf,
    RunNode,
    SetColumn,
    Step,
    TensorAt,
    default_value,
)

ARITIES = (1, 2, 3, 4)
"""Numbers of operands that an open list of a variadic operator is tried with."""

Pick = Callable[[int], int]


class Impossible(Exception):
    """These choices close the pattern in a way that no graph has."""


NUMERIC = frozenset(DTYPES) - {"bool", "str", "c64", "c128"}
_UNSIGNED = frozenset(t for t in DTYPES if t[0] == "u")
_FLOATS = frozenset(t for t in DTYPES if t[0] in "fb" and t != "bool")


@dataclass
class Builder:
    """Closes the pattern by the choices of `pick`."""

    resolve: Callable[[ast.Symbol], Signature]
    signature: Callable[[OperatorDef], Signature]
    params: Mapping[str, object]
    pick: Pick
    taken: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Rest -> attributes that the other side has: the others must hold their default."""
    room: Mapping[str, int] = field(default_factory=dict)
    """Rest -> how many of its operands the other side has room for."""
    present: Mapping[str, bool] = field(default_factory=dict)
    """Variables that conditions say are there, or absent."""
    limits: Mapping[str, OperatorDef] = field(default_factory=dict)
    """Operators (by constructor) of which one definition alone is meant, for the element types that it admits."""
    names: dict[str, Bound] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    conditions: list[ast.Expr] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    types: TypeClasses = field(default_factory=TypeClasses)
    absent: set[int] = field(default_factory=set)
    node_results: list[tuple[int, ...]] = field(default_factory=list)
    node_signatures: list[Signature] = field(default_factory=list)
    tensors: int = 0
    columns: int = 0
    counter: int = 0
    column_types: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.names.update({n: Fixed(v) for n, v in self.params.items()})

    # ------------------------------------------------------------------------------------------------------- small

    def tensor_number(self) -> int:
        self.tensors += 1
        return self.tensors - 1

    def column_number(self) -> int:
        self.columns += 1
        return self.columns - 1

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}_"

    def name(self, name: str, bound: Bound, where: ast.Node) -> None:
        if name == "_":
            return
        if name in self.names:
            raise Misfit(f"`{name}` stands for two things", where)
        self.names[name] = bound
        if isinstance(bound, TensorAt):
            self.order.append(bound.number)

    def head(self, expr: ast.Expr) -> Signature | None:
        if isinstance(expr, ast.Call):
            if isinstance(expr.head, ast.Symbol):
                return self.resolve(expr.head)
            if isinstance(expr.head, ast.Name):
                bound = self.names.get(expr.head.id)
                if isinstance(bound, Fixed) and isinstance(bound.value, OperatorDef):
                    return self.signature(bound.value)
        return None

    def equate(self, pattern: ast.Expr, bound: Bound) -> None:
        """A condition that what was drawn is what is written."""
        holder = self.fresh("held")
        self.names[holder] = bound
        self.conditions.append(ast.Compare("==", pattern, ast.Name(holder), span=pattern.span))

    def known(self, expr: ast.Expr) -> bool:
        """Whether everything that an expression reads is drawn by now."""
        return all(n in self.names for n in free_names(expr))

    # ---------------------------------------------------------------------------------------------------- patterns

    def root(self, expr: ast.Expr) -> Bound:
        if isinstance(expr, ast.Bind):
            bound = self.root(expr.expr)
            self.name(expr.name, bound, expr)
            return bound
        signature = self.head(expr)
        if signature is not None and signature.several:
            return NodeAt(self.call(signature, expr))  # type: ignore[arg-type]
        return TensorAt(self.tensor(expr, None, None))

    def tensor(self, expr: ast.Expr, formal: Operand | None, signature: Signature | None) -> int:
        """The tensor of a term; `formal` is the operand of `signature` that it stands for."""
        optional = formal is not None and formal.kind == OPTIONAL
        match expr:
            case ast.Name(id=name):
                bound = self.names.get(name) if name != "_" else None
                if bound is None:
                    return self.leaf(name, formal, signature, optional)
                if isinstance(bound, TensorAt):
                    return bound.number
                raise Misfit(f"`{name}` is no tensor", expr)
            case ast.Word(word="none"):
                return self.nothing()
            case ast.Bind():
                number = self.tensor(expr.expr, formal, signature)
                self.name(expr.name, TensorAt(number), expr)
                return number
            case ast.Index(base=base, index=index):
                return self.projection(base, index)
            case ast.Call(head=ast.Name(id=kind)) if kind in VALUE_TERMS:
                return self.held(kind, expr, formal, signature)
            case ast.Call():
                inner = self.head(expr)
                if inner is None or inner.several:
                    raise Misfit("this is no operator with one result", expr)
                return self.node_results[self.call(inner, expr)][0]
        raise Misfit("an operand is a variable, an operator or a value", expr)

    def nothing(self) -> int:
        number = self.tensor_number()
        self.absent.add(number)
        return number

    def leaf(self, name: str, formal: Operand | None, signature: Signature | None, optional: bool) -> int:
        if formal is None or signature is None:
            raise Misfit(f"`{name}` stands alone: there is nothing to draw it for", ast.Name(name))
        gone = optional and (not self.present[name] if name in self.present else self.pick(2) == 0)
        number = self.nothing() if gone else self.tensor_number()
        shown = name if name != "_" else self.fresh("any")
        self.names[shown] = TensorAt(number)
        self.order.append(number)
        if number not in self.absent:
            self.steps.append(DrawLeaf(number, shown, formal, signature))
        return number

    def projection(self, base: ast.Expr, index: ast.Expr) -> int:
        node = self.node(base)
        results = self.node_results[node]
        if isinstance(index, ast.Number):
            place = int(index.value)
        elif isinstance(index, ast.Name):
            bound = self.names.get(index.id)
            if bound is None:
                place = self.pick(len(results))
                column = self.column_number()
                self.steps.append(SetColumn(column, place))
                self.names[index.id] = ColumnAt(column, "index")
            else:
                raise Misfit("one index for two nodes", index)
        else:
            raise Misfit("the index of a result is a number or a variable", index)
        if place >= len(results):
            raise Impossible
        return results[place]

    def node(self, expr: ast.Expr) -> int:
        if isinstance(expr, ast.Bind):
            number = self.node(expr.expr)
            self.name(expr.name, NodeAt(number), expr)
            return number
        if isinstance(expr, ast.Name):
            bound = self.names.get(expr.id)
            if isinstance(bound, NodeAt):
                return bound.number
        signature = self.head(expr)
        if signature is None or not signature.several:
            raise Misfit("only an operator with several results can be indexed", expr)
        return self.call(signature, expr)  # type: ignore[arg-type]

    # ------------------------------------------------------------------------------------------------ known values

    def held(self, kind: str, call: ast.Call, formal: Operand | None, signature: Signature | None) -> int:
        number = self.tensor_number()
        types = ("t", number)
        self.types.limit(types, frozenset(DTYPES))
        for keyword in call.keywords:
            self.dtype_of_held(keyword, types)
        if kind in ("dims", "dim") and not call.keywords:
            self.types.limit(types, frozenset(("i64", "i32")))
        if kind == "iota":
            self.types.limit(types, frozenset(("i64",)))
        content, given = self.content(call.operands[0] if call.operands else None, kind, types)
        shape: int | None = None
        given_shape: ast.Expr | None = None
        if kind in ("splat", "iota") and len(call.operands) > 1:
            if kind == "splat":
                shape, given_shape = self.content(call.operands[1], "shape", None)
            else:
                shape, given_shape = self.content(call.operands[1], "axis", None)
        elif kind == "splat":
            shape = self.column_number()
        if kind != "const":
            self.order.append(number)
        self.steps.append(DrawHeld(number, kind, content, given, shape, given_shape, formal, signature))
        return number

    def dtype_of_held(self, keyword: ast.Keyword, types: object) -> None:
        value = keyword.value
        if isinstance(value, ast.Name) and value.id in DTYPES and value.id not in self.names:
            self.types.limit(types, frozenset((value.id,)))
        elif isinstance(value, ast.Name):
            bound = self.names.get(value.id)
            if bound is None:
                column = self.column_number()
                bound = self.names[value.id] = ColumnAt(column, "dtype")
                self.column_types.add(column)
            if isinstance(bound, ColumnAt):
                self.types.join(types, ("c", bound.number))

    def content(self, pattern: ast.Expr | None, kind: str, types: object | None) -> tuple[int, ast.Expr | None]:
        """The column of a known value's contents, and the expression that says them where it is one by now."""
        column = self.column_number()
        at = ColumnAt(column, kind)
        if pattern is None or (isinstance(pattern, ast.Name) and pattern.id == "_"):
            return column, None
        if isinstance(pattern, ast.Name) and pattern.id not in self.names and pattern.id not in DTYPES:
            self.names[pattern.id] = at
            return column, None
        if types is not None:
            self.limit_by_literal(pattern, types)
        if self.known(pattern):
            self.equate(pattern, at)
            return column, pattern
        self.equate(pattern, at)
        return column, None

    def limit_by_literal(self, pattern: ast.Expr, types: object) -> None:
        match pattern:
            case ast.Word(word="true" | "false"):
                self.types.limit(types, frozenset(("bool",)))
            case ast.Text():
                self.types.limit(types, frozenset(("str",)))
            case ast.Number(value=value):
                self.types.limit(types, NUMERIC if value == int(value) else _FLOATS)
            case ast.Unary(op="-", operand=ast.Number(value=value)):
                whole = isinstance(value, int)
                self.types.limit(types, NUMERIC - _UNSIGNED if whole else _FLOATS)

    # --------------------------------------------------------------------------------------------------- operators

    def call(self, signature: Signature, call: ast.Call) -> int:
        node = len(self.node_results)
        self.node_results.append(())
        self.node_signatures.append(signature)
        operands, first, covering = self.operands(signature, call)
        rest = covering.expr.id if covering is not None and isinstance(covering.expr, ast.Name) else None
        columns, results = self.attributes(signature, call, covering is not None, rest)
        while operands and operands[-1] in self.absent:
            operands.pop()
        outputs = tuple(self.tensor_number() for _ in range(results))
        self.node_results[node] = outputs
        self.link(node, signature, operands, outputs, columns)
        if rest is not None and rest != "_":
            named = {k.name for k in call.keywords}
            carried = {
                a.name: ColumnAt(c, signature.kind(a.name))
                for a, c in zip(signature.attributes, columns, strict=True)
                if a.name not in named
            }
            if rest in self.names:
                raise Misfit(f"`..{rest}` is bound already", call)
            self.names[rest] = RestOf(tuple(TensorAt(o) for o in operands[first:]), carried, signature)
        kept = tuple(None if o in self.absent else o for o in operands)
        self.steps.append(RunNode(node, signature, kept, tuple(columns), outputs))
        return node

    def operands(self, signature: Signature, call: ast.Call) -> tuple[list[int], int, ast.Rest | None]:
        """The operands, the place from which on a last rest stands for them, and that rest."""
        items = list(call.operands)
        last = items[-1] if items and isinstance(items[-1], ast.Rest) else None
        covering = last if last is not None and (last.expr is None or isinstance(last.expr, ast.Name)) else None
        plain = [i for i in items if not isinstance(i, ast.Rest)]
        spread = [i for i in items if isinstance(i, ast.Rest) and i is not covering]
        total = self.total(signature, len(plain), bool(spread) or covering is not None)
        if len(plain) > total:
            if signature.variadic:
                raise Impossible
            raise Misfit(f"{signature.definition.name} has at most {total} operands here", plain[total])
        widths = self.widths(spread, total - len(plain), covering is not None or not spread)
        found: list[int] = []
        for item in items:
            if not isinstance(item, ast.Rest):
                found.append(self.tensor(item, formal_at(signature, len(found)), signature))
            elif item is not covering:
                found += self.spread(item, signature, len(found), widths.pop(0))
        first = len(found)
        room = total if covering is None else self.room_of(covering, first, total)
        while len(found) < total:
            formal = formal_at(signature, len(found))
            if covering is None or len(found) >= room:
                if formal.kind == REQUIRED and len(found) < signature.fixed:
                    raise Misfit(f"{signature.definition.name} needs operand {formal.name}", call)
                if covering is not None and formal.kind == VARIADIC:
                    raise Impossible
                found.append(self.nothing())
            else:
                found.append(self.leaf("_", formal, signature, formal.kind == OPTIONAL))
        return found, first, covering

    def total(self, signature: Signature, plain: int, is_open: bool) -> int:
        if not signature.variadic:
            return signature.fixed
        if not is_open:
            return max(plain, signature.fixed)
        least = max(signature.definition.inputs[-1].minimum, plain - signature.fixed, 0)
        counts = [a for a in ARITIES if a >= least] or [least]
        return counts[self.pick(len(counts))] + signature.fixed

    def room_of(self, covering: ast.Rest, first: int, total: int) -> int:
        name = covering.expr.id if isinstance(covering.expr, ast.Name) else ""
        return min(total, first + self.room[name]) if name in self.room else total

    def widths(self, spread: Sequence[ast.Rest], free: int, open_end: bool) -> list[int]:
        """How many operands each rest that is not the covering one takes."""
        if not spread:
            return []
        patterned = not (spread[0].expr is None or isinstance(spread[0].expr, ast.Name))
        if len(spread) == 1 and (patterned or not open_end):
            return [free]
        widths: list[int] = []
        for k in range(len(spread)):
            final = k == len(spread) - 1 and not open_end
            widths.append(free - sum(widths) if final else self.pick(free - sum(widths) + 1))
        return widths

    def spread(self, rest: ast.Rest, signature: Signature, place: int, width: int) -> list[int]:
        inner = rest.expr
        if inner is None or isinstance(inner, ast.Name):
            found = []
            for k in range(width):
                formal = formal_at(signature, place + k)
                found.append(self.leaf("_", formal, signature, formal.kind == OPTIONAL))
            if isinstance(inner, ast.Name) and inner.id != "_":
                self.name(inner.id, ListOf(tuple(TensorAt(t) for t in found)), rest)
            return found
        collected: dict[str, list[Bound]] = {}
        found = []
        outer = dict(self.names)
        constants = isinstance(inner, ast.Call) and inner.head == ast.Name("const")
        for k in range(width):
            self.names = dict(outer)
            formal = formal_at(signature, place + k)
            if constants and formal.kind == OPTIONAL and self.pick(2) == 0:
                found.append(self.nothing())
                column = self.column_number()
                self.steps.append(SetColumn(column, None))
                for name in variables(inner):
                    self.names[name] = ColumnAt(column, "const")
            else:
                found.append(self.tensor(inner, formal, signature))
            for name, bound in self.names.items():
                if name not in outer:
                    collected.setdefault(name, []).append(bound)
        self.names = outer
        self.names.update({n: b for n, bs in collected.items() if n.endswith("_") and n != "_" for b in bs})
        for name in variables(inner):
            self.names[name] = ListOf(tuple(collected.get(name, ())))
        return found

    def attributes(
        self, signature: Signature, call: ast.Call, open_end: bool, rest: str | None
    ) -> tuple[list[int], int]:
        """The attribute columns, and how many results there are."""
        given = {k.name: k.value for k in call.keywords}
        unknown = [k for k in call.keywords if k.name not in {a.name for a in signature.attributes}]
        if unknown:
            raise Misfit(f"{signature.definition.key} has no attribute `{unknown[0].name}`", unknown[0])
        taken = self.taken.get(rest or "", frozenset(a.name for a in signature.attributes))
        columns: list[int] = []
        results = 1
        for attribute in signature.attributes:
            value = given.get(attribute.name)
            if attribute.name == RESULTS and signature.several:
                column, results = self.results(signature, value, open_end and RESULTS in taken, call)
                columns.append(column)
            elif value is None:
                columns.append(self.unmentioned(signature, attribute, open_end and attribute.name in taken, call))
            else:
                columns.append(self.attribute(signature, attribute, value))
        return columns, results

    def results(self, signature: Signature, value: ast.Expr | None, is_open: bool, call: ast.Call) -> tuple[int, int]:
        column = self.column_number()
        if isinstance(value, ast.Number):
            count = int(value.value)
        elif value is None and not is_open:
            if signature.default_results is None:
                raise Misfit(f"{signature.definition.name} has a free number of results: say `results=n`", call)
            count = int(signature.default_results)
        elif value is None or isinstance(value, ast.Name):
            bound = self.names.get(value.id) if isinstance(value, ast.Name) and value.id != "_" else None
            outputs = signature.definition.outputs
            least = max(1, sum(o.kind == REQUIRED for o in outputs))
            most = 3 if any(o.kind == VARIADIC for o in outputs) else max(1, len(signature.newest.outputs))
            count = least + self.pick(most - least + 1)
            if isinstance(bound, ColumnAt) and bound.kind == "int":
                self.steps.append(SetColumn(bound.number, count))
            elif bound is not None:
                raise Misfit("the number of results is a number or a variable", call)
            elif isinstance(value, ast.Name) and value.id != "_":
                self.names[value.id] = ColumnAt(column, "int")
        else:
            raise Misfit("the number of results is a number or a variable", call)
        self.steps.append(SetColumn(column, count))
        return column, count

    def unmentioned(self, signature: Signature, attribute: Attribute, is_open: bool, call: ast.Call) -> int:
        column = self.column_number()
        kind = signature.kind(attribute.name)
        if is_open:
            self.steps.append(DrawColumn(column, attribute, kind, signature))
            if kind == "dtype":
                self.column_types.add(column)
            return column
        if attribute.required:
            raise Misfit(f"{signature.definition.name} needs attribute `{attribute.name}`", call)
        self.steps.append(SetColumn(column, default_value(kind, attribute)))
        return column

    def attribute(self, signature: Signature, attribute: Attribute, value: ast.Expr) -> int:
        kind = signature.kind(attribute.name)
        name = value.id if isinstance(value, ast.Name) else None
        bound = self.names.get(name) if name is not None and name != "_" else None
        if bound is None:
            text = literal(value, kind)
            if text is not None:
                column = self.column_number()
                if kind == "dtype" and text in DTYPES:
                    self.types.limit(("c", column), frozenset((text,)))
                    self.column_types.add(column)
                self.steps.append(SetColumn(column, parse_value(kind, text) if kind != "dtype" else text or None))
                return column
        if isinstance(bound, ColumnAt) and bound.kind == kind:
            return bound.number
        column = self.column_number()
        if bound is None and name is not None:
            if name != "_":
                self.names[name] = ColumnAt(column, kind)
        elif self.known(value):
            self.equate(value, ColumnAt(column, kind))
            self.steps.append(SetColumn(column, None, value))
            return column
        else:
            self.equate(value, ColumnAt(column, kind))
        self.steps.append(DrawColumn(column, attribute, kind, signature))
        if kind == "dtype":
            self.column_types.add(column)
        return column

    def link(
        self, node: int, signature: Signature, operands: Sequence[int], outputs: Sequence[int], columns: Sequence[int]
    ) -> None:
        """Ties the element types of a node's operands and results by its type variables."""
        definition = signature.newest
        given: set[str] = set()
        for place, operand in enumerate(operands):
            if operand in self.absent:
                continue
            formal = formal_at(signature, place)
            key = self.variable(node, formal, place)
            given.add(formal.type)
            self.types.join(("t", operand), key)
            if formal.types:
                self.types.limit(key, formal.types)
            own = self.limits.get(signature.constructor)
            if own is not None and own.inputs:
                # Bodies hold constants in single precision: that is the type that they are written for.
                types = own.inputs[min(place, len(own.inputs) - 1)].types
                self.types.limit(key, frozenset(("f32",)) if "f32" in types else types)
        for place, output in enumerate(outputs):
            formals = definition.outputs
            formal = formals[min(place, len(formals) - 1)]
            key = self.variable(node, formal, place, "o")
            self.types.join(("t", output), key)
            if formal.types:
                self.types.limit(key, formal.types)
        free = [o for o in definition.outputs if o.type not in given]
        for attribute, column in zip(signature.attributes, columns, strict=True):
            if signature.kind(attribute.name) != "dtype" or column not in self.column_types or len(free) != 1:
                continue
            if attribute.required:
                self.types.join(("c", column), self.variable(node, free[0], 0, "o"))
            elif free[0].types:
                single = signature.constructor in self.limits and "f32" in free[0].types
                self.types.limit(("c", column), frozenset(("f32",)) if single else free[0].types)

    @staticmethod
    def variable(node: int, formal: Operand, place: int, side: str = "i") -> object:
        if not formal.homogeneous:
            return ("v", node, formal.type, side, place)
        return ("v", node, formal.type)

    # ------------------------------------------------------------------------------------------------------ the end

    def finish(self, root: Bound) -> Layout:
        numbers: dict[object, int] = {}
        classes: list[tuple[str, ...]] = []

        def number(key: object) -> int:
            top = self.types.find(key)
            if top not in numbers:
                numbers[top] = len(classes)
                domain = self.types.domain.get(top)
                admitted = (t for t in (DTYPES if domain is None else domain) if is_tensor(t) or t.startswith("seq("))
                classes.append(tuple(sorted(admitted, key=_simple)))
            return numbers[top]

        class_of = tuple(number(("t", t)) for t in range(self.tensors))
        column_class = {c: number(("c", c)) for c in sorted(self.column_types)}
        for t, c in enumerate(class_of):
            if not classes[c] and t not in self.absent:
                raise Impossible
        return Layout(
            tuple(self.steps),
            self.names,
            root,
            tuple(self.conditions),
            tuple(classes),
            class_of,
            column_class,
            self.columns,
            len(self.node_results),
            tuple(self.order),
            frozenset(self.absent),
        )


_SIMPLEST = ("f32", "i64", "bool", "f64", "i32", "f16", "u8", "i8", "bf16")


def _simple(name: str) -> tuple[int, str]:
    return (_SIMPLEST.index(name) if name in _SIMPLEST else len(_SIMPLEST), name)


def formal_at(signature: Signature, place: int) -> Operand:
    """The newest formal operand at a place, the last one where it is variadic."""
    inputs = signature.newest.inputs
    if not inputs:
        raise Impossible
    return inputs[min(place, len(inputs) - 1)]


def variables(expr: ast.Expr) -> tuple[str, ...]:
    """Variables that a pattern binds, in order of writing."""
    return tuple(variables_of(expr))


def unfit(case: Case, fault: Misfit) -> GerulesError:
    """What a pattern that fits no graph is: no instance where a member lacks what the rule names, else a fault."""
    if case.member:
        message = f"{case.label} has no instance: {fault.message}"
        return GerulesError(Diagnostic("GR580", message, span=fault.where.span, severity="warning"))
    return GerulesError(Diagnostic("GR581", f"{case.label} cannot be drawn: {fault.message}", span=fault.where.span))
