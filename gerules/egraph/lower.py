"""From checked rules to egglog rules: one text line for each instance, grouped by ruleset.

A rule has an instance for each binding of its operator parameters that the ground conditions allow, for each place
that a rest leaves open, and for each direction. What an instance computes is in `Host`; what it matches is text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from gerules.dsl import ast
from gerules.egraph import host as hosting
from gerules.egraph.answers import Arguments, Prepare, RestValue, encoder, preparation
from gerules.egraph.fold import fold
from gerules.egraph.ground import Ground, Params, Scope
from gerules.egraph.host import NO, Host
from gerules.egraph.query import Query
from gerules.egraph.signature import Signature, Signatures
from gerules.egraph.terms import Chooser, Column, Known, Misfit, NodeTerm, NotYet, Output, Skip, Tensor, quoted, refuse
from gerules.egraph.texts import format_value
from gerules.errors import Diagnostic
from gerules.registry.definition import OperatorDef
from gerules.registry.text import format_float, format_floats
from gerules.static import Context, Unknown, compile_expr, free_names, split_conditions
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
        if is_body_rule(rule):
            return
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
            except Skip:
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
        arguments = Arguments(query, names)
        steps = split_conditions(query.conditions, set(names), self.context)
        prepare = preparation(arguments, steps, self.host)
        if not query.outputs:
            held = query.fresh("h")
            symbol = self.host.add(lambda *texts: NO if prepare(texts) is None else "1", name)
            return [*arguments.atoms, f"(= {held} {arguments.call(symbol)})", f"(!= {held} {quoted(NO)})"]
        atoms = list(arguments.atoms)
        for term, output in query.outputs:
            symbol = self.host.add(self._answer(prepare, output, query), name)
            atoms += [f"(= {term} {arguments.call(symbol)})", f"(!= {term} {quoted(NO)})"]
        return atoms

    def _answer(self, prepare: Prepare, output: Output, query: Query) -> hosting.Call:
        if output.kind == "fold":
            return self._folding(prepare, output, query)
        assert output.expr is not None
        value_of = compile_expr(output.expr, self.context)
        shape_of = compile_expr(output.shape, self.context) if output.shape is not None else None
        dtype_of: Callable[[Mapping[str, object]], object] | None = None
        if isinstance(output.dtype, ast.Node):
            dtype_of = compile_expr(output.dtype, self.context)
        fixed = output.dtype if isinstance(output.dtype, str) else None
        encode = encoder(output.kind, self.host)

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

    def _folding(self, prepare: Prepare, output: Output, query: Query) -> hosting.Call:
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
            attributes = carried.attributes if isinstance(carried, RestValue) else {}
            index = env.get("fold_result_", 0)
            assert isinstance(index, int)
            found = fold(self.host.current, signature, operands, attributes)
            return NO if found is None or index >= len(found) else found[index]

        return answer


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


def is_body_rule(rule: ast.Rewrite) -> bool:
    """Whether a rewrite is `f(..r) => body(f, ..r)`: it has no instance here, since a body is written out for one node,
    when nothing else makes it (`gerules.egraph.convert`)."""
    return isinstance(rule.right, ast.Call) and rule.right.head == ast.Name("body")


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
