"""Static expressions, compiled once into closures: no walk over the syntax tree at a call.

`compile_expr` gives the value and raises `Unknown`; `compile_condition` answers False where the answer is not known
(LANGUAGE, idea 6). The order of evaluation is that of writing; nothing here has a side effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from gerules.dsl import ast
from gerules.errors import Diagnostic, InternalFault, Refused
from gerules.graph.dims import Dim
from gerules.registry.definition import OperatorDef
from gerules.static.context import DTYPES, Context
from gerules.static.functions import HostFunction, shipped_functions
from gerules.static.values import (
    Axes,
    NodeView,
    TensorView,
    Truth,
    Unknown,
    Value,
    arithmetic,
    conjunction,
    contains,
    disjunction,
    elementwise,
    equal,
    flat,
    in_class,
    inverse,
    invert_axes,
    is_number,
    join_axes,
    ordered,
    over_axes,
    plain,
    same_literal,
    settle,
    show,
    whole,
)

Env = Mapping[str, Value]
ValueOf = Callable[[Env], Value]
TruthOf = Callable[[Env], Truth]
AxesOf = Callable[[Env], Axes]

TENSOR_FIELDS = ("shape", "rank", "dtype", "size", "bytes")
QUANTIFIERS = ("all", "some")
_WORDS: Mapping[str, Value] = {"none": None, "true": True, "false": False, "inf": float("inf")}


def compile_expr(expr: ast.Expr, context: Context) -> ValueOf:
    """A function from variables to the value of `expr`; raises `Unknown` where that is not known or not defined.

    Raises Refused (GR640) at once where `expr` has no static value at all (a pattern, an unknown function).
    """
    return _Compiler(context).value(expr)


def compile_condition(expr: ast.Expr, context: Context) -> Callable[[Env], bool]:
    """A function from variables to whether `expr` is known to hold. Never raises Unknown."""
    truth = compile_truth(expr, context)
    return lambda env: truth(env) is True


def compile_truth(expr: ast.Expr, context: Context) -> TruthOf:
    """Like `compile_condition`, with None for not known."""
    return _Compiler(context).truth(expr)


def no_value(expr: ast.Expr, why: str, hint: str | None = None) -> Refused:
    return Refused(Diagnostic("GR640", why, span=expr.span, hint=hint))


class _Compiler:
    """One method a kind of expression. `value` and `truth` are of the whole, `axes` is a truth on every axis."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.facts = context.facts
        self.operators = {op: arithmetic(op, context.facts) for op in ("+", "-", "*", "/", "//", "%", "|", "&")}

    # ------------------------------------------------------------------------------------------------------ values

    def value(self, expr: ast.Expr) -> ValueOf:
        match expr:
            case ast.Number(value=v) | ast.Text(value=v):
                return _constant(v)
            case ast.Word(word=word):
                return _constant(_WORDS[word])
            case ast.Name(id=name):
                return _constant(name) if name in DTYPES else self._variable(expr, name)
            case ast.Symbol():
                return _constant(self.symbol(expr))
            case ast.ListExpr(items=items):
                return self._list(items)
            case ast.SetExpr(items=items):
                return self._set(items)
            case ast.Field(base=base, name=name):
                return _then(self.value(base), partial(read_field, name))
            case ast.Index(base=base, index=index):
                return _both(self.value(base), self.value(index), pick)
            case ast.Unary(op="-", operand=operand):
                return _then(self.value(operand), self._negative)
            case ast.Binary(op=op, left=left, right=right):
                return _both(self.value(left), self.value(right), partial(elementwise, self.operators[op]))
            case ast.Call(head=ast.Name(id=name)) if name not in QUANTIFIERS and not self._is_relation(name):
                return self._call(expr, name)
            case ast.Call(head=ast.Name()) | ast.Compare() | ast.Logical() | ast.Unary(op="not"):
                return _known(self.truth(expr))
        raise no_value(expr, "this has no static value", "a static value is made of numbers, lists, sets and functions")

    def symbol(self, symbol: ast.Symbol) -> Value:
        members = self.context.classes.get(str(symbol)) if symbol.version is None else None
        return members if members is not None else self.context.symbol(symbol)

    def _variable(self, expr: ast.Expr, name: str) -> ValueOf:
        if name == "_":
            raise no_value(expr, "`_` is anything and has no value", "give it a name")

        def read(env: Env) -> Value:
            try:
                return env[name]
            except KeyError:
                raise InternalFault(Diagnostic("GR900", f"`{name}` has no value here", span=expr.span)) from None

        return read

    def _negative(self, value: Value) -> Value:
        value = plain(value)
        if isinstance(value, tuple):
            return tuple(None if v is None else self._negative(v) for v in value)
        if is_number(value):
            return -value  # type: ignore[operator]
        if isinstance(value, Dim):
            return settle(value * Dim.of(-1))
        raise Unknown(f"-{show(value)} has no value")

    def _items(self, items: tuple[ast.Expr, ...]) -> list[tuple[ValueOf, bool]]:
        """Item closures, with whether each is spliced."""
        compiled = []
        for item in items:
            if isinstance(item, ast.Rest):
                if item.expr is None:
                    raise no_value(item, "`..` alone has no value here", "name the rest: `..r`")
                compiled.append((self.value(item.expr), True))
            else:
                compiled.append((self.value(item), False))
        return compiled

    def _list(self, items: tuple[ast.Expr, ...]) -> ValueOf:
        compiled = self._items(items)

        def build(env: Env) -> Value:
            entries: list[Value] = []
            for of, spliced in compiled:
                if spliced:
                    entries += _spliced(of(env))
                    continue
                try:
                    entries.append(plain(of(env)))
                except Unknown:
                    entries.append(None)
            return tuple(entries)

        return build

    def _set(self, items: tuple[ast.Expr, ...]) -> ValueOf:
        compiled = [self.value(item) for item in items]

        def build(env: Env) -> Value:
            members: list[Value] = []
            for of in compiled:
                member = plain(of(env))
                if isinstance(member, frozenset):  # an operator is the set of its versions
                    members += member
                else:
                    members.append(member)
            return frozenset(members)

        return build

    def _call(self, expr: ast.Call, name: str) -> ValueOf:
        arguments = self._items(expr.operands)
        if expr.keywords:
            raise no_value(expr, f"`{name}` takes no attributes")
        rows = self.context.lookups.get(name)
        if rows is not None:
            return self._lookup(name, rows, arguments)
        function = self.context.functions.get(name) or shipped_functions().get(name)
        if function is None:
            raise no_value(expr, f"no function `{name}`", "functions are declared in prelude.rules")
        return self._host(function, arguments)

    def _host(self, function: HostFunction, arguments: list[tuple[ValueOf, bool]]) -> ValueOf:
        call = function.bind(self.facts)
        if not any(spliced for _, spliced in arguments):
            plain_arguments = [of for of, _ in arguments]
            return lambda env: call(*[of(env) for of in plain_arguments])
        return lambda env: call(*_arguments(arguments, env))

    def _lookup(
        self, name: str, rows: Mapping[tuple[Value, ...], Value], arguments: list[tuple[ValueOf, bool]]
    ) -> ValueOf:
        def look(env: Env) -> Value:
            key = tuple(a.key if isinstance(a, OperatorDef) else plain(a) for a in _arguments(arguments, env))
            if key not in rows:
                raise Unknown(f"the table `{name}` has no row for {show(key)}")
            return rows[key]

        return look

    # ------------------------------------------------------------------------------------------------------- truth

    def truth(self, expr: ast.Expr) -> TruthOf:
        match expr:
            case ast.Compare(op="in", left=left, right=ast.Between(low=low, high=high)):
                return self.truth(ast.Logical("and", (ast.Compare(">=", left, low), ast.Compare("<=", left, high))))
            case ast.Compare(op=op, left=left, right=right):
                return self._compare(op, self.value(left), self.value(right))
            case ast.Unary(op="not", operand=operand):
                inner = self.truth(operand)
                return lambda env: inverse(inner(env))
            case ast.Logical(op=op, operands=operands):
                join = conjunction if op == "and" else disjunction
                sides = [self.truth(side) for side in operands]
                return lambda env: join(side(env) for side in sides)
            case ast.Call(head=ast.Name(id="all" | "some" as quantifier)):
                return self._quantified(expr, quantifier)
            case ast.Call(head=ast.Name(id=name)) if self._is_relation(name):
                return self._holds(expr, name)
        of = self.value(expr)

        def ask(env: Env) -> Truth:
            try:
                answer = plain(of(env))
            except Unknown:
                return None
            if isinstance(answer, bool):
                return answer
            raise Refused(Diagnostic("GR641", f"a condition is true or false, not {show(answer)}", span=expr.span))

        return ask

    def _compare(self, op: str, left: ValueOf, right: ValueOf) -> TruthOf:
        """Lists are equal entry by entry; an order of lists holds if it holds on every axis."""
        test = self._test(op)
        whole_values = op in {"==", "!=", "in"}

        def compare(env: Env) -> Truth:
            try:
                a, b = left(env), right(env)
                return test(a, b) if whole_values else conjunction(flat(over_axes(test, a, b)))
            except Unknown:
                return None

        return compare

    def _test(self, op: str) -> Callable[[Value, Value], Truth]:
        facts = self.facts
        if op == "==":
            return lambda a, b: equal(a, b, facts)
        if op == "!=":
            return lambda a, b: inverse(equal(a, b, facts))
        if op == "in":
            return lambda a, b: contains(b, a, facts)
        return lambda a, b: ordered(op, a, b, facts)

    def _quantified(self, expr: ast.Call, quantifier: str) -> TruthOf:
        if len(expr.operands) != 1 or expr.keywords or isinstance(expr.operands[0], ast.Rest):
            raise no_value(expr, f"`{quantifier}` takes one condition on axes")
        axes = self.axes(expr.operands[0])
        join = conjunction if quantifier == "all" else disjunction
        return lambda env: join(flat(axes(env)))

    def axes(self, expr: ast.Expr) -> AxesOf:
        """The truth of a condition on every axis."""
        match expr:
            case ast.Compare(op="in", left=left, right=ast.Between(low=low, high=high)):
                return self.axes(ast.Logical("and", (ast.Compare(">=", left, low), ast.Compare("<=", left, high))))
            case ast.Compare(op=op, left=left, right=right):
                return self._compare_axes(op, self.value(left), self.value(right))
            case ast.Logical(op=op, operands=operands):
                join = conjunction if op == "and" else disjunction
                sides = [self.axes(side) for side in operands]

                def joined(env: Env) -> Axes:
                    result = sides[0](env)
                    for side in sides[1:]:
                        result = join_axes(join, result, side(env))
                    return result

                return joined
            case ast.Unary(op="not", operand=operand):
                inner = self.axes(operand)
                return lambda env: invert_axes(inner(env))
        return self.truth(expr)

    def _compare_axes(self, op: str, left: ValueOf, right: ValueOf) -> AxesOf:
        test = self._test(op)

        def compare(env: Env) -> Axes:
            try:
                a, b = left(env), right(env)
                if op != "in":
                    return over_axes(test, a, b)
            except Unknown:
                return None
            a = plain(a)  # what is looked for may be a list, what is looked in is one set for all axes
            return tuple(map(partial(_member, test, b), a)) if isinstance(a, tuple) else _member(test, b, a)

        return compare

    # --------------------------------------------------------------------------------------------------- relations

    def _is_relation(self, name: str) -> bool:
        return name in self.context.relations

    def _holds(self, expr: ast.Call, name: str) -> TruthOf:
        """Whether a relation has a row with these arguments; `_` is any."""
        arguments = [None if _is_any(a) else self.value(a) for a in expr.operands]
        rows = self.context.relations[name]

        def holds(env: Env) -> Truth:
            try:
                given = [None if of is None else of(env) for of in arguments]
            except Unknown:
                return None
            return any(
                len(row) == len(given)
                and all(of is None or row_entry(g, r) for of, g, r in zip(arguments, given, row, strict=True))
                for row in rows
            )

        return holds


def row_entry(given: Value, entry: Value) -> bool:
    """Whether an argument is the entry of a row: numbers as literals are (`0` is +0 alone), operators by class."""
    if isinstance(given, OperatorDef):
        if isinstance(entry, OperatorDef):
            return given.key == entry.key
        return in_class(given, entry if isinstance(entry, frozenset) else frozenset((entry,)))
    given = plain(given)
    return given == entry if isinstance(given, (Dim, frozenset)) else same_literal(given, entry)


def _is_any(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Name) and expr.id == "_"


def _member(test: Callable[[Value, Value], Truth], container: Value, value: Value) -> Truth:
    try:
        return None if value is None else test(value, container)
    except Unknown:
        return None


def _constant(value: Value) -> ValueOf:
    return lambda env: value


def _then(of: ValueOf, f: Callable[[Value], Value]) -> ValueOf:
    return lambda env: f(of(env))


def _both(left: ValueOf, right: ValueOf, f: Callable[[Value, Value], Value]) -> ValueOf:
    return lambda env: f(left(env), right(env))


def _known(truth: TruthOf) -> ValueOf:
    def ask(env: Env) -> Value:
        answer = truth(env)
        if answer is None:
            raise Unknown("the condition is not known to hold or not")
        return answer

    return ask


def _arguments(arguments: list[tuple[ValueOf, bool]], env: Env) -> list[Value]:
    values: list[Value] = []
    for of, spliced in arguments:
        if spliced:
            values += _spliced(of(env))
        else:
            values.append(of(env))
    return values


def _spliced(value: Value) -> tuple[Value, ...]:
    value = plain(value)
    if not isinstance(value, tuple):
        raise Unknown(f"..{show(value)}: only a list has entries")
    return value


# --------------------------------------------------------------------------------------------- fields and entries


def read_field(name: str, base: Value) -> Value:
    """`base.name`: of a tensor, of a list (its length, or the field of each), of a node (merge rules)."""
    if isinstance(base, TensorView):
        return _tensor_field(name, base)
    if isinstance(base, Mapping):
        if name not in base:
            raise Unknown(f"it has no `.{name}`")
        return base[name]
    base = plain(base)
    if isinstance(base, tuple):
        if name == "size" and not any(isinstance(b, (TensorView, tuple)) for b in base):
            return len(base)
        return tuple(_field_or_unknown(name, b) for b in base)
    raise Unknown(f"{show(base)} has no `.{name}`")


def _field_or_unknown(name: str, base: Value) -> Value:
    try:
        return read_field(name, base)
    except Unknown:
        return None


def _tensor_field(name: str, tensor: TensorView) -> Value:
    info = tensor.info
    if name == "dtype":
        if info.dtype == "?":
            raise Unknown("the type is not known")
        return info.dtype
    if name == "shape":
        return tensor.shape
    if name == "rank":
        return len(tensor.shape)
    if name == "size":
        count = info.size()
    elif name == "bytes":
        count = info.bytes()
    else:
        raise Unknown(f"a tensor has no `.{name}`")
    if count is None:
        raise Unknown(f"the {name} is not known")
    return settle(count)


def pick(base: Value, index: Value) -> Value:
    """`base[index]`: an entry, counted from the end if negative; a list or set of indices picks a list; an index of a
    list of lists is taken of each."""
    base, index = plain(base), plain(index)
    if isinstance(base, NodeView):
        base = base.results
    if not isinstance(base, tuple):
        raise Unknown(f"{show(base)} has no entries")
    if any(isinstance(b, tuple) for b in base):
        return tuple(_pick_or_unknown(b, index) for b in base)
    if isinstance(index, frozenset):
        index = tuple(sorted(whole(i, "an axis") for i in index))
    if isinstance(index, tuple):
        return tuple(_at(base, whole(i, "an index")) for i in index)
    entry = _at(base, whole(index, "an index"))
    if entry is None:
        raise Unknown(f"entry {show(index)} of {show(base)} is not known")
    return entry


def _pick_or_unknown(base: Value, index: Value) -> Value:
    try:
        return pick(base, index)
    except Unknown:
        return None


def _at(base: tuple[Value, ...], index: int) -> Value:
    if not -len(base) <= index < len(base):
        raise Unknown(f"{show(base)} has no entry {index}")
    return base[index]
