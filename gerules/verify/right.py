"""The right side of a case in numbers: closures over a draw, one for each term, made once for each layout.

Element types of computed constants follow the e-graph (`gerules.egraph.query`): that of a sibling of the same type
variable, or what the place admits alone, or that of the root.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gerules.dsl import ast
from gerules.egraph.lower import literal
from gerules.egraph.patterns import VALUE_TERMS, WHOLE
from gerules.egraph.signature import RESULTS, Signature
from gerules.egraph.terms import Misfit
from gerules.egraph.texts import format_value, parse_value
from gerules.graph.dtypes import name_of_numpy, numpy_dtype
from gerules.registry.definition import REQUIRED, OperatorDef
from gerules.simulate.faults import node_fault
from gerules.static import Context, Unknown, compile_expr
from gerules.static.context import DTYPES
from gerules.verify.compute import compute
from gerules.verify.draw import Drawer, Reject, State, extents, iota
from gerules.verify.layout import Bound, ColumnAt, Fixed, Layout, ListOf, NodeAt, RestOf, TensorAt, default_value

Env = Mapping[str, object]
Make = Callable[[State, Env], object]
"""The value of a term: an array, None where it is absent; for a node the list of its results."""
DtypeOf = Callable[[State, Env], str]
Head = Callable[[ast.Expr], Signature | None]


@dataclass
class Right:
    """Compiles terms against the names of one layout."""

    layout: Layout
    names: Mapping[str, Bound]
    head: Head
    context: Context
    root: Bound

    def compile(self, expr: ast.Expr) -> tuple[Make, Signature | None]:
        """The right side: of a tensor, or of a node where the left side is one."""
        if isinstance(expr, ast.Bind):
            expr = expr.expr
        folds = isinstance(expr, ast.Call) and expr.head == ast.Name("const")
        if isinstance(self.root, NodeAt) and not folds:
            return self.node(expr)
        return self.term(expr, self.default()), None

    def default(self) -> DtypeOf:
        """The element type of a value that neither says it nor has a sibling that does."""
        if isinstance(self.root, TensorAt):
            number = self.root.number
            return lambda state, env: _dtype(state.tensors[number])
        first = next((b.number for b in self.names.values() if isinstance(b, TensorAt)), None)
        if first is None:
            return _no_dtype
        return lambda state, env: _dtype(state.tensors[first])

    def static(self, expr: ast.Expr) -> Callable[[Env], object]:
        return compile_expr(expr, self.context)

    # ----------------------------------------------------------------------------------------------------- tensors

    def term(self, expr: ast.Expr, dtype: DtypeOf) -> Make:
        match expr:
            case ast.Name(id=name):
                bound = self.names.get(name)
                if isinstance(bound, TensorAt):
                    number = bound.number
                    return lambda state, env: state.tensors[number]
                raise Misfit(f"`{name}` is not bound to a tensor", expr)
            case ast.Word(word="none"):
                return lambda state, env: None
            case ast.Index(base=base, index=index):
                return self.projection(base, index)
            case ast.Call(head=ast.Name(id=kind)) if kind in VALUE_TERMS:
                return self.value(kind, expr, dtype)
            case ast.Call(head=ast.Name(id="body")):
                return _first(self.body(expr))
            case ast.Call():
                signature = self.head(expr)
                if signature is None or signature.several:
                    raise Misfit("this is no operator with one result", expr)
                return _first(self.call(signature, expr))
        raise Misfit("a right side is made of operators, variables and values", expr)

    def projection(self, base: ast.Expr, index: ast.Expr) -> Make:
        results, _ = self.node(base)
        at = self.static(index)

        def take(state: State, env: Env) -> object:
            found = results(state, env)
            place = at(env)
            assert isinstance(found, list) and isinstance(place, int)
            if place >= len(found):
                raise Reject("no such result")
            return found[place]

        return take

    def node(self, expr: ast.Expr) -> tuple[Make, Signature | None]:
        if isinstance(expr, ast.Name):
            bound = self.names.get(expr.id)
            if isinstance(bound, NodeAt):
                number = bound.number
                return (lambda state, env: state.nodes[number]), None
        if isinstance(expr, ast.Call) and expr.head == ast.Name("body"):
            return self.body(expr), None
        signature = self.head(expr)
        if signature is None or not signature.several:
            raise Misfit("only an operator with several results stands for a node", expr)
        assert isinstance(expr, ast.Call)
        return self.call(signature, expr), signature

    # ------------------------------------------------------------------------------------------------ known values

    def value(self, kind: str, call: ast.Call, dtype: DtypeOf) -> Make:
        asked = next((k.value for k in call.keywords if k.name == "dtype"), None)
        if asked is not None:
            dtype = self.asked(asked)
        first = call.operands[0]
        if kind == "const" and isinstance(first, ast.Call) and first.head == ast.Name("evaluate"):
            return self.folded(first)
        of = self.static(first)
        if kind in ("dims", "dim"):
            fixed: DtypeOf = dtype if asked is not None else (lambda state, env: "i64")
            return lambda state, env: Drawer.as_array(_whole(of(env)), fixed(state, env))
        if kind == "splat":
            if len(call.operands) != 2:
                raise Misfit("`splat(value, shape)`", call)
            shape_of = self.static(call.operands[1])

            def splat(state: State, env: Env) -> object:
                scalar = Drawer.as_array(of(env), dtype(state, env))
                if scalar.size != 1:
                    raise Reject("a splat has one element")
                return np.full(extents(shape_of(env)), scalar.reshape(())[()], dtype=scalar.dtype)

            return splat
        if kind == "iota":
            axis_of = self.static(call.operands[1])
            return lambda state, env: iota(extents(of(env)), axis_of(env))

        def const(state: State, env: Env) -> object:
            value = of(env)
            if isinstance(value, np.ndarray) and asked is None:
                # The contents of a constant: where nothing says what type it takes, its own.
                try:
                    wanted = dtype(state, env)
                except Unknown:
                    return value
                return Drawer.as_array(value, wanted)
            return Drawer.as_array(value, dtype(state, env))

        return const

    def asked(self, asked: ast.Expr) -> DtypeOf:
        if isinstance(asked, ast.Name) and asked.id in DTYPES and asked.id not in self.names:
            text = asked.id
            return lambda state, env: text
        of = self.static(asked)
        return lambda state, env: str(of(env))

    def folded(self, call: ast.Call) -> Make:
        """`evaluate(f, v, ..r)`: the operator on the constants, and of several results each on its own."""
        names = [
            i.expr.id if isinstance(i, ast.Rest) and isinstance(i.expr, ast.Name) else getattr(i, "id", "")
            for i in call.operands
        ]
        rest = self.names.get(names[2]) if len(names) > 2 else None
        operator = self.names.get(names[0])
        if (
            not isinstance(operator, Fixed)
            or not isinstance(operator.value, OperatorDef)
            or not isinstance(rest, RestOf)
        ):
            raise Misfit("`evaluate(f, v, ..r)`", call)
        listed = self.names[names[1]]
        columns = [rest.attributes[a.name].number for a in rest.signature.attributes]
        several = isinstance(self.root, NodeAt)

        def fold(state: State, env: Env) -> object:
            operands = list(state.value(listed))  # type: ignore[call-overload]
            while operands and operands[-1] is None:
                operands.pop()
            found = compute(rest.signature, operands, [state.columns[c] for c in columns])
            return found if several else found[0]

        return fold

    # --------------------------------------------------------------------------------------------------- operators

    def call(self, signature: Signature, call: ast.Call) -> Make:
        makers: list[Make] = []
        spliced: list[bool] = []
        carried: RestOf | None = None
        count = 0
        for item in call.operands:
            if not isinstance(item, ast.Rest):
                makers.append(self.term(item, self.place_dtype(signature, count, call)))
                spliced.append(False)
                count += 1
                continue
            bound = self.names.get(item.expr.id) if isinstance(item.expr, ast.Name) else None
            if isinstance(bound, ListOf):
                tensors = [b.number for b in bound.items if isinstance(b, TensorAt)]
                if len(tensors) != len(bound.items):
                    raise Misfit("this list does not hold tensors", item)
            elif isinstance(bound, RestOf):
                tensors = [o.number for o in bound.operands]
                if item is call.operands[-1]:
                    carried = bound
            else:
                raise Misfit("this rest is not bound on the left", item)
            makers.append(_several(tensors))
            spliced.append(True)
            count += len(tensors)
        columns = self.attributes(signature, call, carried)
        name = signature.definition.name
        least = sum(o.kind == REQUIRED for o in signature.newest.inputs)

        def run(state: State, env: Env) -> object:
            operands: list[object] = []
            for make, splice in zip(makers, spliced, strict=True):
                made = make(state, env)
                operands += made if splice and isinstance(made, list) else [made]
            while operands and operands[-1] is None:
                operands.pop()
            if len(operands) < least or (len(operands) > signature.fixed and not signature.variadic):
                raise Reject(f"{name} takes other operands")
            values = [column(state, env) for column in columns]
            _well_formed(signature, operands, values)
            return compute(signature, operands, values)

        return run

    def attributes(self, signature: Signature, call: ast.Call, carried: RestOf | None) -> list[Make]:
        given = {k.name: k.value for k in call.keywords}
        columns: list[Make] = []
        for attribute in signature.attributes:
            kind = signature.kind(attribute.name)
            brought = carried.attributes.get(attribute.name) if carried is not None else None
            if attribute.name in given:
                columns.append(self.attribute(given[attribute.name], kind))
            elif brought is not None:
                if brought.kind != kind:
                    raise Misfit(f"attribute `{attribute.name}` has another type in {signature.definition.key}", call)
                columns.append(_column(brought.number))
            elif attribute.name == RESULTS and attribute.default is None:
                raise Misfit(f"{signature.definition.name} has a free number of results: say `results=n`", call)
            elif attribute.required:
                raise Misfit(f"{signature.definition.name} needs attribute `{attribute.name}`", call)
            else:
                columns.append(_constant(default_value(kind, attribute)))
        return columns

    def attribute(self, value: ast.Expr, kind: str) -> Make:
        bound = self.names.get(value.id) if isinstance(value, ast.Name) else None
        if bound is None:
            text = literal(value, kind)
            if text is not None:
                return _constant(parse_value(kind, text) if kind != "dtype" else text or None)
        if isinstance(bound, ColumnAt) and bound.kind == kind:
            return _column(bound.number)
        of = self.static(value)
        if kind == "dtype":
            return lambda state, env: str(of(env))

        def compute_column(state: State, env: Env) -> object:
            # By its text, as the e-graph keeps it: a float that is no float32 does not fit, for one.
            return parse_value(kind, format_value(kind, of(env)))

        return compute_column

    def place_dtype(self, signature: Signature, place: int, call: ast.Call) -> DtypeOf:
        """The element type of a value in an operand's place: what the schema fixes, or that of a bound sibling."""
        inputs = signature.newest.inputs
        formal = inputs[min(place, len(inputs) - 1)]
        if len(formal.types) == 1:
            only = next(iter(formal.types))
            return lambda state, env: only
        position = 0
        for item in call.operands:
            if isinstance(item, ast.Rest):
                bound = self.names.get(item.expr.id) if isinstance(item.expr, ast.Name) else None
                listed: tuple[Bound, ...] = ()
                if isinstance(bound, ListOf) and position != place:
                    listed = bound.items
                elif isinstance(bound, RestOf):
                    listed = bound.operands
                for k, one in enumerate(listed):
                    other = inputs[min(position + k, len(inputs) - 1)]
                    absent = isinstance(one, TensorAt) and one.number in self.layout.absent
                    if other.type == formal.type and isinstance(one, TensorAt) and not absent:
                        return _dtype_at(one.number)
                if isinstance(bound, ListOf) and position != place:
                    position += len(bound.items)
                continue
            other = inputs[min(position, len(inputs) - 1)]
            if position != place and other.type == formal.type and isinstance(item, ast.Name):
                at = self.names.get(item.id)
                if isinstance(at, TensorAt):
                    return _dtype_at(at.number)
            position += 1
        if "i64" in formal.types and formal.types <= WHOLE:
            return lambda state, env: "i64"
        return self.default()

    def body(self, call: ast.Call) -> Make:
        """`body(f, ..r)`: the operator by the definition that its schema gives."""
        from gerules.verify.bodies import run_body

        items = call.operands
        operator = self.names.get(items[0].id) if isinstance(items[0], ast.Name) else None
        rest = items[1] if len(items) > 1 else None
        bound = self.names.get(rest.expr.id) if isinstance(rest, ast.Rest) and isinstance(rest.expr, ast.Name) else None
        if (
            not isinstance(operator, Fixed)
            or not isinstance(operator.value, OperatorDef)
            or not isinstance(bound, RestOf)
        ):
            raise Misfit("`body(f, ..r)`", call)
        definition = operator.value
        numbers = [o.number for o in bound.operands]
        columns = [bound.attributes[a.name].number for a in bound.signature.attributes]

        def run(state: State, env: Env) -> object:
            operands = [state.tensors[n] for n in numbers]
            while operands and operands[-1] is None:
                operands.pop()
            return run_body(definition, bound.signature, operands, [state.columns[c] for c in columns])

        return run


def _first(make: Make) -> Make:
    def first(state: State, env: Env) -> object:
        found = make(state, env)
        assert isinstance(found, list)
        return found[0]

    return first


def _well_formed(signature: Signature, operands: Sequence[object], columns: Sequence[object]) -> None:
    """Raises NodeFault for a node that nobody could run, though kernels might: a required attribute without a value,
    operands of one type variable whose element types differ. Which types a version takes is not asked."""
    name = signature.definition.name
    for attribute, value in zip(signature.attributes, columns, strict=True):
        if attribute.required and value is None:
            raise node_fault(name, name, "", f"attribute {attribute.name} has no value")
    inputs = signature.newest.inputs
    found: dict[str, str] = {}
    for place, operand in enumerate(operands):
        formal = inputs[min(place, len(inputs) - 1)]
        if not formal.homogeneous or not isinstance(operand, np.ndarray):
            continue
        dtype = name_of_numpy(operand.dtype)
        if found.setdefault(formal.type, dtype) != dtype:
            raise node_fault(name, name, "", f"operands of type {formal.type} are {found[formal.type]} and {dtype}")


def _several(numbers: list[int]) -> Make:
    return lambda state, env: [state.tensors[n] for n in numbers]


def _column(number: int) -> Make:
    return lambda state, env: state.columns[number]


def _constant(value: object) -> Make:
    return lambda state, env: value


def _dtype(value: object) -> str:
    if not isinstance(value, np.ndarray):
        raise Unknown("the element type is not known")
    return name_of_numpy(value.dtype)


def _dtype_at(number: int) -> DtypeOf:
    return lambda state, env: _dtype(state.tensors[number])


def _no_dtype(state: State, env: Env) -> str:
    raise Unknown("the element type of this constant is not known")


def _whole(value: object) -> object:
    return np.asarray(value, dtype=numpy_dtype("i64")) if isinstance(value, tuple) and not value else value
