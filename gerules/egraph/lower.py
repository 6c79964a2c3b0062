"""From checked rules to egglog rules: one text line for each instance, grouped by ruleset.

A rule has an instance for each binding of its operator parameters that the ground conditions allow, for each place
that a rest leaves open, and for each direction. What an instance computes is in `Host`; what it matches is text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from gerules.dsl import ast
from gerules.egraph import host as hosting
from gerules.egraph.fold import fold
from gerules.egraph.ground import Ground, Params, Scope
from gerules.egraph.host import NO, Host
from gerules.egraph.query import (
    Binding,
    Carried,
    Chooser,
    Column,
    Known,
    Many,
    Misfit,
    NodeTerm,
    NotYet,
    Output,
    Query,
    Tensor,
    _Skip,
    quoted,
    refuse,
)
from gerules.egraph.signature import Signature, Signatures
from gerules.egraph.texts import as_array, format_value, parse_value
from gerules.errors import Diagnostic
from gerules.graph import constants
from gerules.graph.dims import Dim
from gerules.graph.info import Entries, Info, Uniform
from gerules.registry.definition import OperatorDef
from gerules.registry.text import format_float, format_floats
from gerules.static import Context, Step, TensorView, Unknown, compile_expr, free_names, run_steps, split_conditions
from gerules.static.context import DTYPES


@dataclass(frozen=True)
class Instance:
    """One egglog rule. `name` is unique (`broadcast/implicit.sink[Add@7,0]`), `rule` the author's."""

    name: str
    rule: str
    ruleset: str
    text: str
    reads: frozenset[str]
    makes: frozenset[str]
    calls: tuple[int, ...]
    """The host calls that it asks, by number."""


@dataclass
class Lowering:
    """Compiles the rules of one program against one window of operator versions."""

    scope: Scope
    ground: Ground
    signatures: Signatures
    host: Host
    context: Context
    window: Callable[[Signature], bool]
    """Whether a semantic version can occur at all (in the graph, or on the way of a rule)."""
    instances: list[Instance] = field(default_factory=list)
    not_yet: list[Diagnostic] = field(default_factory=list)
    _built: set[str] = field(default_factory=set)
    _misfits: dict[str, Misfit] = field(default_factory=dict)

    def rewrite(self, rule: ast.Rewrite, file: ast.RuleFile) -> None:
        """Adds the instances of one rewrite, both directions where it has two."""
        full = f"{file.ruleset}.{rule.name}"
        for params, rest in self.ground.instances(rule.over, rule.when, file):
            sides = [(rule.left, rule.right, ">" if rule.both else "")]
            if rule.both:
                sides.append((rule.right, rule.left, "<"))
            for left, right, mark in sides:
                self._alternatives(
                    full, params, mark, file, partial(self._rewrite, left=left, right=right, when=rest), rule
                )
        self._some_instance(full)

    def _some_instance(self, full: str) -> None:
        """Refuses a rule that fits no member of its classes."""
        if full in self._misfits and full not in self._built:
            raise refuse(full, self._misfits[full])

    def fact(self, rule: ast.Fact, file: ast.RuleFile) -> None:
        """Adds the instances of a fact about shapes or contents; ground facts are none."""
        full = f"{file.ruleset}.{rule.name}"
        wanted = [c for c in rule.conclusions if tells_info(c)]
        if len(wanted) < len(rule.conclusions):
            self.not_yet.append(
                Diagnostic(
                    "GR510",
                    f"fact {full}: conclusions about dimensions of their own are not yet drawn; the rest of it is",
                    span=rule.span,
                    severity="warning",
                )
            )
        for params, rest in self.ground.instances(rule.over, rule.when, file):
            for number, conclusion in enumerate(wanted):
                mark = f"#{number}" if len(wanted) > 1 else ""
                self._alternatives(
                    full, params, mark, file, partial(self._fact, conclusion=conclusion, when=rest), rule
                )

    def _alternatives(
        self,
        full: str,
        params: Params,
        mark: str,
        file: ast.RuleFile,
        build: Callable[[Query], tuple[str, str]],
        rule: ast.Rewrite | ast.Fact,
    ) -> None:
        chooser = Chooser()
        label = ",".join(v.key if isinstance(v, OperatorDef) else str(v) for v in params.values())
        while True:
            query = self._query(params, file, chooser)
            try:
                made, action = build(query)
                self._built.add(full)
                choice = ";".join(map(str, chooser.taken))
                name = full + mark + (f"[{label}{':' if choice and label else ''}{choice}]" if label or choice else "")
                self._finish(name, full, file.ruleset, query, made, action)
            except Misfit as fault:
                # A member of a class may lack what the rule names: then it has no instance.
                if not rule.over or isinstance(fault, NotYet):
                    raise refuse(full, fault) from None
                self._misfits.setdefault(full, fault)
            except _Skip:
                pass
            if not chooser.next():
                return

    def _query(self, params: Params, file: ast.RuleFile, chooser: Chooser) -> Query:
        return Query(
            resolve=lambda symbol: self.signatures.of(self.scope.operator(symbol, file)),
            signature=self.signatures.of,
            literal=literal,
            chooser=chooser,
            env={name: Known(value) for name, value in params.items()},
        )

    # ------------------------------------------------------------------------------------------------- one instance

    def _rewrite(self, query: Query, left: ast.Expr, right: ast.Expr, when: Sequence[ast.Expr]) -> tuple[str, str]:
        """Fills the query; gives the built term and the action."""
        root = query.pattern(left)
        folds = isinstance(right, ast.Call) and right.head == ast.Name("const") and isinstance(root, NodeTerm)
        if folds:
            assert isinstance(root, NodeTerm)
            query.env["fold_result_"] = Column("i_fold", "index")
            query.atoms.append(f"(= t_fold (Out {root.term} i_fold))")
            root = Tensor("t_fold")
        query.root = root
        query.env["root_"] = root
        if isinstance(right, ast.Bind):
            query.name(right.name, root, right)
            right = right.expr
        self._conditions(query, when)
        if isinstance(root, NodeTerm):
            query.default_dtype = self._node_dtype(query, root)
            term = query.build_node(right).term
        elif isinstance(root, Tensor):
            query.default_dtype = ast.Field(ast.Name("root_"), "dtype")
            term = query.build(right, query.default_dtype)
        else:
            raise Misfit("a rewrite begins with an operator or a value", left)
        return term, f"(union {root.term} {term})"

    @staticmethod
    def _node_dtype(query: Query, root: NodeTerm) -> ast.Expr | None:
        """What a value on the right side of a rule between nodes has for element type: that of a first operand."""
        first = next((b for b in query.env.values() if isinstance(b, Tensor)), None)
        return None if first is None else query.dtype_of(first)

    def _fact(self, query: Query, conclusion: ast.Expr, when: Sequence[ast.Expr]) -> tuple[str, str]:
        self._conditions(query, when)
        assert isinstance(conclusion, ast.Compare)
        target = conclusion.left
        if isinstance(target, ast.Field):
            target, kind = target.base, "info-shape"
            expr: ast.Expr = conclusion.right
        else:
            call = conclusion.right
            assert isinstance(call, ast.Call) and isinstance(call.head, ast.Name)
            kind, expr = ("info-dims" if call.head.id == "dims" else "info-dim"), call.operands[0]
        bound = query.env.get(target.id) if isinstance(target, ast.Name) else None
        if not isinstance(bound, Tensor):
            raise Misfit("a fact is about a tensor that its conditions name", conclusion)
        query.env["root_"] = bound
        known = query.info(bound.term)
        term = query.output(Output(expr, kind))
        return known, f"(set (info {bound.term}) {term})"

    def _conditions(self, query: Query, when: Sequence[ast.Expr]) -> None:
        """Terms among the conditions become atoms, absence is an equation, the rest is static."""
        for condition in when:
            if isinstance(condition, ast.Bind) or (
                isinstance(condition, ast.Call) and query.head(condition) is not None
            ):
                query.pattern(condition)
                continue
            if isinstance(condition, ast.Compare) and condition.op in ("==", "!="):
                sides = (condition.left, condition.right)
                absent = next((s for s in sides if s == ast.Word("none")), None)
                other = sides[0] if sides[1] == ast.Word("none") else sides[1]
                bound = query.env.get(other.id) if isinstance(other, ast.Name) else None
                if absent is not None and isinstance(bound, Tensor):
                    sign = "=" if condition.op == "==" else "!="
                    query.atoms.append(f"({sign} {bound.term} (Absent))")
                    continue
            query.conditions.append(condition)

    def _finish(self, name: str, rule: str, ruleset: str, query: Query, made: str, action: str) -> None:
        if not all(self.window(s) for s in query.operators):
            return
        if action.startswith("(union") and len(query.operators) == 2 and not query.conditions:
            first, second = query.operators
            if first is second and not query.outputs and _same_call(query, made):
                return
        before = len(self.host.calls)
        atoms = [*query.atoms, *self._calls(name, query)]
        sets = [
            f"(set (by_{s.constructor} {term[1:-1].partition(' ')[2]}) {quoted(rule)})".replace(" )", ")")
            for term, s in query.made
        ]
        text = (
            f"(rule ({' '.join(dict.fromkeys(atoms))}) ({' '.join([*sets, action])}) "
            f":ruleset {ruleset_name(ruleset)} :name {quoted(name)})"
        )
        produced = frozenset(s.constructor for _, s in query.made)
        read = frozenset(s.constructor for s in query.operators[: len(query.operators) - len(query.made)])
        calls = tuple(range(before, len(self.host.calls)))
        self.instances.append(Instance(name, rule, ruleset, text, read, produced, calls))

    def _calls(self, name: str, query: Query) -> list[str]:
        """The atoms that ask the host: one for each output, or one for the conditions alone."""
        if not query.conditions and not query.outputs:
            return []
        # dtype expressions of outputs may need further variables.
        exprs: list[ast.Expr] = list(query.conditions)
        for _, output in query.outputs:
            exprs += [e for e in (output.expr, output.dtype, output.shape) if isinstance(e, ast.Node)]
            if output.kind.startswith("info"):
                exprs.append(ast.Name("root_"))
        names = [n for e in exprs for n in free_names(e)]
        if "fold_result_" in query.env:
            names.append("fold_result_")
        names = [n for n in dict.fromkeys(names) if n in query.env]
        arguments = _Arguments(query, names)
        steps = split_conditions(query.conditions, set(names), self.context)
        prepare = _preparation(arguments, steps, self.host)
        if not query.outputs:
            held = query.fresh("h")
            symbol = self.host.add(lambda *texts: NO if prepare(texts) is None else "1", name)
            return [*arguments.atoms, f"(= {held} {arguments.call(symbol)})", f"(!= {held} {quoted(NO)})"]
        atoms = list(arguments.atoms)
        for term, output in query.outputs:
            symbol = self.host.add(self._answer(prepare, output, query), name)
            atoms += [f"(= {term} {arguments.call(symbol)})", f"(!= {term} {quoted(NO)})"]
        return atoms

    def _answer(self, prepare: _Prepare, output: Output, query: Query) -> hosting.Call:
        if output.kind == "fold":
            return self._folding(prepare, output, query)
        assert output.expr is not None
        value_of = compile_expr(output.expr, self.context)
        shape_of = compile_expr(output.shape, self.context) if output.shape is not None else None
        dtype_of: Callable[[Mapping[str, object]], object] | None = None
        if isinstance(output.dtype, ast.Node):
            dtype_of = compile_expr(output.dtype, self.context)
        fixed = output.dtype if isinstance(output.dtype, str) else None
        encode = _encoder(output.kind, self.host)

        def answer(*texts: str) -> str:
            env = prepare(texts)
            if env is None:
                return NO
            try:
                dtype = dtype_of(env) if dtype_of is not None else fixed
                shape = shape_of(env) if shape_of is not None else None
                return encode(value_of(env), dtype, env, shape)
            except Unknown:
                return NO

        return answer

    def _folding(self, prepare: _Prepare, output: Output, query: Query) -> hosting.Call:
        """`evaluate(f, v, ..r)`: the simulator's value of an operator on constants."""
        call = output.expr
        assert isinstance(call, ast.Call)
        items = [
            i.expr.id if isinstance(i, ast.Rest) and isinstance(i.expr, ast.Name) else getattr(i, "id", "")
            for i in call.operands
        ]
        operator = query.env[items[0]]
        assert isinstance(operator, Known) and isinstance(operator.value, OperatorDef)
        signature = self.signatures.of(operator.value)

        def answer(*texts: str) -> str:
            env = prepare(texts)
            if env is None:
                return NO
            carried = env.get(items[2]) if len(items) > 2 else None
            operands = env[items[1]]
            assert isinstance(operands, tuple)
            attributes = carried.attributes if isinstance(carried, _Rest) else {}
            index = env.get("fold_result_", 0)
            assert isinstance(index, int)
            found = fold(self.host.current, signature, operands, attributes)
            return NO if found is None or index >= len(found) else found[index]

        return answer


# -------------------------------------------------------------------------------------------------------- arguments


class _Arguments:
    """The variables of a rule as texts of one host call, and how to read them back."""

    def __init__(self, query: Query, names: Sequence[str]) -> None:
        self.atoms: list[str] = []
        self.terms: list[str] = []
        self.kinds: list[str] = []
        self.fixed: dict[str, object] = {}
        self.readers: list[tuple[str, Callable[[Sequence[object]], object]]] = []
        before = len(query.atoms)
        for name in names:
            self._add(query, name, query.env[name])
        self.atoms = query.atoms[before:]

    def _add(self, query: Query, name: str, bound: Binding) -> None:
        if isinstance(bound, Known):
            self.fixed[name] = bound.value
            return
        place = self._place(query, bound, name)
        self.readers.append((name, place))

    def _place(self, query: Query, bound: Binding, name: str) -> Callable[[Sequence[object]], object]:
        if isinstance(bound, Many):
            inner = [self._place(query, b, name) for b in bound.items]
            return lambda values: tuple(read(values) for read in inner)
        if isinstance(bound, Carried):
            if bound.vector is not None:
                operands = [self._vector(query, bound)]
                rest = operands[0]
            else:
                inner = [self._place(query, t, name) for t in bound.operands]

                def rest(values: Sequence[object]) -> object:
                    return tuple(v for read in inner if (v := read(values)) is not None)

            columns = {a: self._place(query, c, name) for a, c in bound.attributes.items()}
            return lambda values: _Rest(rest(values), {a: of(values) for a, of in columns.items()})
        if isinstance(bound, Tensor):
            if bound.term == "(Absent)":
                return lambda values: None
            return self._text(query.info(bound.term), "info")
        if isinstance(bound, Column):
            return self._text(bound.term, bound.kind)
        raise Misfit(f"`{name}` is a node; its results are tensors", ast.Name(name))

    def _vector(self, query: Query, bound: Carried) -> Callable[[Sequence[object]], object]:
        column = query.fresh("q")
        length = query.fresh("l")
        query.atoms += [f"(arity {bound.vector} {length})", f"(= {column} (infos {bound.vector} {length}))"]
        fixed = [self._place(query, t, "") for t in bound.operands]
        read = self._text(column, "infos")

        def values_of(values: Sequence[object]) -> object:
            listed = read(values)
            assert isinstance(listed, tuple)
            return (*(f(values) for f in fixed), *listed)

        return values_of

    def _text(self, term: str, kind: str) -> Callable[[Sequence[object]], object]:
        known = list(zip(self.terms, self.kinds, strict=True))
        if (term, kind) not in known:
            known.append((term, kind))
            self.terms.append(term)
            self.kinds.append(kind)
        place = known.index((term, kind))
        return lambda values: values[place]

    def call(self, symbol: str) -> str:
        terms = [f"(to-string {t})" if k == "index" else t for t, k in zip(self.terms, self.kinds, strict=True)]
        return hosting.call(symbol, terms)


class _Rest(tuple):  # type: ignore[type-arg]
    """A carried rest as a value: its operands, with the attributes beside them."""

    attributes: Mapping[str, object]

    def __new__(cls, operands: object, attributes: Mapping[str, object]) -> _Rest:
        made = super().__new__(cls, operands)  # type: ignore[arg-type]
        made.attributes = attributes
        return made


_Prepare = Callable[[Sequence[str]], "dict[str, object] | None"]


def _preparation(arguments: _Arguments, steps: Sequence[Step], host: Host) -> _Prepare:
    """Texts -> the environment in which all conditions hold, or None. The last few answers are kept: the outputs of
    one match ask one after the other."""
    readers, kinds, fixed = arguments.readers, tuple(arguments.kinds), arguments.fixed
    kept: dict[Sequence[str], dict[str, object] | None] = {}
    kept_for: list[hosting.Run] = []

    def prepare(texts: Sequence[str]) -> dict[str, object] | None:
        run = host.current
        if not kept_for or kept_for[0] is not run:
            kept.clear()
            kept_for[:] = [run]
        if texts in kept:
            return kept[texts]
        try:
            values = [read(kind, text, run) for kind, text in zip(kinds, texts, strict=True)]
            env: dict[str, object] | None = dict(fixed)
            assert env is not None
            for name, of in readers:
                env[name] = of(values)
            if not run_steps(steps, env):
                env = None
        except Unknown:
            env = None
        if len(kept) > 64:
            kept.clear()
        kept[texts] = env
        return env

    return prepare


def read(kind: str, text: str, run: hosting.Run) -> object:
    """A column's text as a value of static expressions."""
    if kind == "info":
        return view(text, run)
    if kind == "infos":
        return tuple(view(part, run) for part in text.split(hosting.SEPARATOR)[1:])
    if kind == "const":
        return None if text == hosting.ABSENT else constants.decode(text, run.constants)
    if kind == "index":
        return int(text)
    if kind == "dtype":
        return text or None
    return parse_value(kind, text) if text else None


_VIEWS: dict[str, TensorView] = {}


def view(text: str, run: hosting.Run) -> TensorView | None:
    """What is known of a tensor, as rules see it; None for the absent one."""
    if text == hosting.ABSENT:
        return None
    made = _VIEWS.get(text)
    if made is None:
        info = Info.parse(text)
        content = info.constant_text
        if content is None:
            made = TensorView(info)
        else:
            made = TensorView(info, constants.decode(content, run.constants))
            if "#" in content:
                return made
        if len(_VIEWS) > 100_000:
            _VIEWS.clear()
        _VIEWS[text] = made
    return made


_Encoder = Callable[[object, object, Mapping[str, object], object], str]


def _encoder(kind: str, host: Host) -> _Encoder:
    """How a computed value (with its element type, the environment, a shape) becomes the text of its column."""
    if kind == "const":
        return lambda value, dtype, env, shape: constants.encode(_array(value, dtype), host.current.constants)
    if kind == "splat":

        def splat(value: object, dtype: object, env: Mapping[str, object], shape: object) -> str:
            array = _array(value, dtype)
            if array.size != 1:
                raise Unknown("a splat has one element")
            text = constants.encode(array.reshape(()), host.current.constants)
            entries = known_entries(shape)
            if any(d.value is not None and d.value < 0 for d in entries):
                raise Unknown("an extent is negative")
            return str(Info(constants.dtype_and_shape(text)[0], entries, Uniform(text)))

        return splat
    if kind == "dims":
        return lambda value, dtype, env, shape: str(
            Info(str(dtype), (Dim.of(len(known_entries(value))),), Entries(known_entries(value)))
        )
    if kind == "dim":
        return lambda value, dtype, env, shape: str(Info(str(dtype), (), Entries((_extent(value),))))
    if kind == "info-shape":
        return _info_encoder(lambda info, value: Info(info.dtype, _entries(value)), host)
    if kind == "info-dims":
        return _info_encoder(_with_entries, host)
    if kind == "info-dim":
        return _info_encoder(lambda info, value: Info(info.dtype, (), Entries((_extent(value),))), host)
    if kind == "dtype":
        return lambda value, dtype, env, shape: str(value)
    return lambda value, dtype, env, shape: format_value(kind, value)


def encode_output(kind: str, host: Host, value: object, dtype: object, shape: object) -> str:
    """The text of one computed piece of a right side. Raises Unknown where the value does not fit its place."""
    return _encoder(kind, host)(value, dtype, {}, shape)


def _array(value: object, dtype: object) -> np.ndarray:
    if dtype is None and not isinstance(value, np.ndarray):
        raise Unknown("the element type of this constant is not known")
    return as_array(value, dtype)


def _with_entries(info: Info, value: object) -> Info:
    entries = _entries(value)
    return Info(info.dtype, (Dim.of(len(entries)),), Entries(entries))


def _info_encoder(change: Callable[[Info, object], Info], host: Host) -> _Encoder:
    """What a fact adds to what is known; `NO` where it adds nothing."""
    merge = hosting.joined(host)

    def encode(value: object, dtype: object, env: Mapping[str, object], shape: object) -> str:
        known = env["root_"]
        assert isinstance(known, TensorView)
        old = str(known.info)
        new = merge(old, str(change(known.info, value)))
        return NO if new == old else new

    return encode


def _extent(value: object) -> Dim:
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if isinstance(value, Dim):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Dim.of(value)
    raise Unknown("this is no dimension")


def _entries(value: object) -> tuple[Dim | None, ...]:
    if isinstance(value, np.ndarray):
        value = tuple(value.tolist())
    if not isinstance(value, tuple):
        raise Unknown("this is no shape")
    return tuple(None if v is None else _extent(v) for v in value)


def known_entries(value: object) -> tuple[Dim, ...]:
    entries = tuple(e for e in _entries(value) if e is not None)
    if len(entries) < len(_entries(value)):
        raise Unknown("a dimension is not known")
    return entries


# ------------------------------------------------------------------------------------------------------------ pieces


def literal(expr: ast.Expr, kind: str) -> str | None:
    """The canonical text of a literal in an attribute of this type; None where it is no literal."""
    match expr:
        case ast.Word(word="none"):
            return ""
        case ast.Name(id=name) if kind == "dtype" and name in DTYPES:
            return name
    value = _plain(expr)
    if value is None:
        return None
    if kind in ("int", "float") and isinstance(value, (bool, str)):
        return None
    if kind in ("ints", "floats", "strs") and not isinstance(value, list):
        return None
    if kind in ("int", "float", "str") and isinstance(value, list):
        return None
    if (kind in ("str", "strs")) != isinstance(
        value[0] if isinstance(value, list) and value else value, str
    ) and value != []:
        return None
    if kind == "int" and isinstance(value, float):
        return None
    if kind == "float":
        return format_float(float(value))  # type: ignore[arg-type]
    if kind == "floats":
        return format_floats(float(v) for v in value)  # type: ignore[attr-defined]
    return format_value(kind, value) if kind in ("int", "float", "str", "ints", "floats", "strs") else None


def _plain(expr: ast.Expr) -> object | None:
    match expr:
        case ast.Number(value=value):
            return value
        case ast.Text(value=text):
            return text
        case ast.Word(word="inf"):
            return float("inf")
        case ast.Unary(op="-", operand=ast.Number(value=value)):
            return -value
        case ast.Unary(op="-", operand=ast.Word(word="inf")):
            return float("-inf")
        case ast.ListExpr(items=items):
            values = [_plain(i) for i in items]
            return None if any(v is None for v in values) else values
    return None


def ruleset_name(ruleset: str) -> str:
    return "rs_" + "".join(c if c.isalnum() else "_" for c in ruleset)


def tells_info(conclusion: ast.Expr) -> bool:
    """Whether a conclusion is about the shape or the contents of a tensor."""
    match conclusion:
        case ast.Compare(op="==", left=ast.Field(base=ast.Name(), name="shape")):
            return True
        case ast.Compare(op="==", left=ast.Name(), right=ast.Call(head=ast.Name(id=("dims" | "dim")))):
            return True
    return False


def _same_call(query: Query, made: str) -> bool:
    return any(atom.endswith(f" {made})") for atom in query.atoms)
