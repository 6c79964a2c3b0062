"""The patterns of one rule instance as atoms of an egglog rule, and what they bind.

An operator term is an atom, so is a value of a tensor (`const`, `splat`, `dims`); what is left is a static condition,
kept for the one host call that asks them all (`gerules.egraph.query`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gerules.dsl import ast
from gerules.egraph.signature import RESULTS, Signature
from gerules.egraph.terms import (
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
    Skip,
    Tensor,
    quoted,
)
from gerules.registry.definition import REQUIRED, OperatorDef
from gerules.static.context import DTYPES

ARITIES = (1, 2, 3, 4, 5, 6)
"""Numbers of operands for which rules that name single operands of a variadic operator have an instance."""

WHOLE = frozenset({"i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"})
VALUE_TERMS = frozenset({"const", "splat", "dims", "dim", "iota"})


@dataclass
class Patterns:
    """The left side of one rule instance, as atoms. `resolve` gives the signature of an operator symbol or parameter in
    this file."""

    resolve: Callable[[ast.Symbol], Signature]
    signature: Callable[[OperatorDef], Signature]
    literal: Callable[[ast.Expr, str], str | None]
    chooser: Chooser
    env: dict[str, Binding] = field(default_factory=dict)
    atoms: list[str] = field(default_factory=list)
    conditions: list[ast.Expr] = field(default_factory=list)
    outputs: list[tuple[str, Output]] = field(default_factory=list)
    made: list[tuple[str, Signature]] = field(default_factory=list)
    operators: list[Signature] = field(default_factory=list)
    infos: dict[str, str] = field(default_factory=dict)
    identities: list[str] = field(default_factory=list)
    default_dtype: ast.Expr | str | None = None
    """The element type of a value on the right side that neither says it nor has a sibling that does."""
    counter: int = 0
    root: Binding | None = None

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}_"

    # --------------------------------------------------------------------------------------------------- patterns

    def pattern(self, expr: ast.Expr) -> Binding:
        """The root of a left side or a bare term: a node or a tensor."""
        if isinstance(expr, ast.Bind):
            bound = self.pattern(expr.expr)
            self.name(expr.name, bound, expr)
            return bound
        signature = self.head(expr)
        if signature is not None and signature.several:
            return NodeTerm(self.call(signature, expr), signature)  # type: ignore[arg-type]
        return Tensor(self.tensor(expr))

    def head(self, expr: ast.Expr) -> Signature | None:
        """The signature of an operator call, None where it is no operator."""
        if not isinstance(expr, ast.Call):
            return None
        if isinstance(expr.head, ast.Symbol):
            return self.resolve(expr.head)
        if isinstance(expr.head, ast.Name):
            bound = self.env.get(expr.head.id)
            if isinstance(bound, Known) and isinstance(bound.value, OperatorDef):
                return self.signature(bound.value)
        return None

    def name(self, name: str, bound: Binding, where: ast.Node) -> None:
        if name == "_":
            return
        old = self.env.get(name)
        if old is None:
            self.env[name] = bound
        elif isinstance(old, (Tensor, NodeTerm)) and isinstance(bound, (Tensor, NodeTerm)):
            self.atoms.append(f"(= {old.term} {bound.term})")
        else:
            raise Misfit(f"`{name}` stands for two kinds of things", where)

    def tensor(self, expr: ast.Expr, optional: bool = False) -> str:
        match expr:
            case ast.Name(id="_"):
                return self.fresh("w")
            case ast.Name(id=name):
                bound = self.env.get(name)
                if bound is None:
                    # Fresh at every place: below a rest one name stands for a list.
                    term = self.fresh(f"v_{name}_")
                    self.env[name] = Tensor(term)
                    return term
                if isinstance(bound, Tensor):
                    return bound.term
                raise Misfit(f"`{name}` is no tensor", expr)
            case ast.Word(word="none"):
                if not optional:
                    raise Misfit("this operand is required and cannot be absent", expr)
                return "(Absent)"
            case ast.Bind():
                term = self.tensor(expr.expr, optional)
                self.name(expr.name, Tensor(term), expr)
                return term
            case ast.Index(base=base, index=index):
                node = self.node(base)
                term = self.fresh("t")
                self.atoms.append(f"(= {term} (Out {node.term} {self.place(index)}))")
                return term
            case ast.Call(head=ast.Name(id=kind)) if kind in VALUE_TERMS:
                return self.value(kind, expr)
            case ast.Call():
                signature = self.head(expr)
                if signature is None:
                    raise Misfit("this is no operator", expr)
                if signature.several:
                    name = signature.definition.name
                    raise Misfit(f"{name} has several results: say which, `{name}(...)[0]`", expr)
                return self.call(signature, expr)
        raise Misfit("an operand is a variable, an operator or a value (const, splat, dims)", expr)

    def node(self, expr: ast.Expr) -> NodeTerm:
        if isinstance(expr, ast.Bind):
            bound = self.node(expr.expr)
            self.name(expr.name, bound, expr)
            return bound
        if isinstance(expr, ast.Name):
            known = self.env.get(expr.id)
            if isinstance(known, NodeTerm):
                return known
        signature = self.head(expr)
        if signature is None or not signature.several:
            raise Misfit("only an operator with several results can be indexed", expr)
        return NodeTerm(self.call(signature, expr), signature)  # type: ignore[arg-type]

    def place(self, index: ast.Expr) -> str:
        if isinstance(index, ast.Number) and isinstance(index.value, int):
            return str(index.value)
        if isinstance(index, ast.Name):
            bound = self.env.get(index.id) or self.env.setdefault(index.id, Column(self.fresh("i"), "index"))
            if isinstance(bound, Column) and bound.kind == "index":
                return bound.term
        raise Misfit("the index of a result is a number or a variable", index)

    def value(self, kind: str, call: ast.Call) -> str:
        """`const(v)`, `splat(v, s)`, `dims(s)`, `dim(d)` as patterns."""
        term = self.fresh("t")
        if kind == "iota":
            raise NotYet("`iota` is not yet there in patterns", call)
        if kind == "const":
            column = self.fresh("k")
            self.atoms.append(f"(= {term} (K {column}))")
            self.meet(call.operands[0], Column(column, "const"), call)
            return term
        holder = self.fresh("x")
        self.env[holder] = Tensor(term)
        at = ast.Name(holder)
        # A table tells which values can fit at all, so that the host is asked about those alone.
        self.atoms.append(f"({'uniform' if kind == 'splat' else 'entries'} {term})")
        if kind == "splat":
            first = call.operands[0]
            if isinstance(first, ast.Name) and first.id == "_":
                first = ast.Name(self.fresh("u"))
            self.equate(first, ast.Call(ast.Name("uniform_value"), (at,)))
            if len(call.operands) > 1:
                self.equate(call.operands[1], ast.Field(at, "shape"))
        else:
            first = call.operands[0]
            if isinstance(first, ast.Name) and first.id == "_":
                first = ast.Name(self.fresh("u"))
            self.equate(first, ast.Call(ast.Name("contents" if kind == "dims" else "entry"), (at,)))
        for keyword in call.keywords:
            if keyword.name != "dtype":
                raise Misfit(f"`{kind}` takes dtype and nothing else by name", keyword)
            self.equate(keyword.value, ast.Field(at, "dtype"))
        return term

    def equate(self, pattern: ast.Expr, value: ast.Expr) -> None:
        if isinstance(pattern, ast.Name) and pattern.id == "_":
            return
        self.conditions.append(ast.Compare("==", pattern, value, span=pattern.span))

    def meet(self, pattern: ast.Expr, column: Column, where: ast.Node) -> None:
        """A column meets what the rule says of it: a variable, a literal, or an expression to be compared."""
        if isinstance(pattern, ast.Name) and pattern.id == "_":
            return
        if (
            isinstance(pattern, ast.Name)
            and pattern.id not in self.env
            and not (column.kind == "dtype" and pattern.id in DTYPES)
        ):
            self.env[pattern.id] = column
            return
        holder = self.fresh("c")
        self.env[holder] = column
        self.equate(pattern, ast.Name(holder))

    def call(self, signature: Signature, call: ast.Call) -> str:
        self.operators.append(signature)
        operands, rest = self.operands(signature, call)
        columns = self.attributes(signature, call, rest is not None)
        if rest is not None and isinstance(rest.expr, ast.Name) and rest.expr.id != "_":
            named = {k.name for k in call.keywords}
            carried = {
                a.name: Column(c, signature.kind(a.name))
                for a, c in zip(signature.attributes, columns, strict=True)
                if a.name not in named
            }
            self.carry(signature, rest, operands, carried)
        vector = [operands.vector] if operands.vector else []
        impure = [self.fresh("w")] if signature.impure else []
        self.identities += impure
        term = self.fresh("n" if signature.several else "t")
        arguments = " ".join([*operands.fixed, *vector, *columns, *impure])
        self.atoms.append(f"(= {term} ({signature.constructor} {arguments}))".replace(" )", ")"))
        if operands.items is not None and operands.vector:
            # Tables, not vec-get: primitives are asked after all joins, which would be a product of all classes.
            self.atoms.append(f"(arity {operands.vector} {len(operands.items)})")
            self.atoms += [f"(element {operands.vector} {i} {item})" for i, item in enumerate(operands.items)]
        return term

    def operands(self, signature: Signature, call: ast.Call) -> tuple[_Operands, ast.Rest | None]:
        """The operand columns, and the rest that covers what is left, if the call has one."""
        items = list(call.operands)
        last = items[-1] if items and isinstance(items[-1], ast.Rest) else None
        covering = last if last is not None and (last.expr is None or isinstance(last.expr, ast.Name)) else None
        plain = [i for i in items if not isinstance(i, ast.Rest)]
        rests = [i for i in items if isinstance(i, ast.Rest)]
        total = signature.fixed
        vector = self.fresh("vec") if signature.variadic else None
        if signature.variadic:
            only_rest = not plain and len(rests) <= 1 and (covering is not None or not rests)
            if len(plain) == signature.fixed and covering is not None and len(rests) == 1:
                only_rest = True
            if only_rest:
                fixed = [self.tensor(p, signature.optional(i)) for i, p in enumerate(plain)]
                fixed += [self.fresh("w") for _ in range(signature.fixed - len(plain))]
                return _Operands(tuple(fixed), vector, None, len(plain)), covering
            many = [r for r in rests if r is not covering or len(rests) == 1]
            if many or covering is not None:
                total = ARITIES[self.chooser.pick(len(ARITIES))] + signature.fixed
            else:
                total = max(len(plain), signature.fixed)
        if len(plain) > total:
            if signature.variadic:
                raise Skip
            raise Misfit(f"{signature.definition.name} has at most {total} operands here", plain[total])
        free = total - len(plain)
        spread = [r for r in rests if r is not covering]
        widths = self.widths(spread, free, covering is not None or not spread)
        terms: list[str] = []
        for item in items:
            if not isinstance(item, ast.Rest):
                terms.append(self.tensor(item, signature.optional(len(terms))))
            elif item is not covering:
                width = widths.pop(0)
                terms += self.spread(item, signature, len(terms), width)
        first = len(terms)
        while len(terms) < total:
            if covering is None:
                if signature.operand_kind(len(terms)) == REQUIRED and len(terms) < signature.fixed:
                    raise Misfit(
                        f"{signature.definition.name} needs operand {signature.definition.inputs[len(terms)].name}",
                        call,
                    )
                terms.append("(Absent)")
            else:
                terms.append(self.fresh("w"))
        if vector is None:
            return _Operands(tuple(terms), None, tuple(terms), first), covering
        return _Operands(tuple(terms[: signature.fixed]), vector, tuple(terms[signature.fixed :]), first), covering

    def widths(self, spread: Sequence[ast.Rest], free: int, open_end: bool) -> list[int]:
        """How many operands each rest that is not the covering one takes: every way is an instance."""
        if not spread:
            return []
        patterns = [not (r.expr is None or isinstance(r.expr, ast.Name)) for r in spread]
        if len(spread) == 1 and (patterns[0] or not open_end):
            return [free]
        widths: list[int] = []
        for k in range(len(spread)):
            final = k == len(spread) - 1 and not open_end
            widths.append(free - sum(widths) if final else self.chooser.pick(free - sum(widths) + 1))
        return widths

    def spread(self, rest: ast.Rest, signature: Signature, place: int, width: int) -> list[str]:
        """`..p` or `..pattern` over `width` operands from `place` on; variables of the pattern become lists."""
        inner = rest.expr
        if inner is None or isinstance(inner, ast.Name):
            terms = [self.fresh("v") for _ in range(width)]
            if isinstance(inner, ast.Name) and inner.id != "_":
                self.name(inner.id, Many(tuple(Tensor(t) for t in terms)), rest)
            return terms
        if isinstance(inner, ast.Call) and inner.head in (ast.Name("dims"), ast.Name("dim")):
            return self.spread_contents(inner, width)
        collected: dict[str, list[Binding]] = {}
        terms = []
        outer = dict(self.env)
        for k in range(width):
            self.env = dict(outer)
            if isinstance(inner, ast.Call) and inner.head == ast.Name("const"):
                terms.append(self.known(inner))
            else:
                terms.append(self.tensor(inner, signature.optional(place + k)))
            for name, bound in self.env.items():
                if name not in outer:
                    collected.setdefault(name, []).append(bound)
        self.env = outer
        hidden = {n: b for n, bs in collected.items() if "_" in n and n.endswith("_") for b in bs}
        self.env.update(hidden)
        for name in variables_of(inner):
            self.env[name] = Many(tuple(collected.get(name, ())))
        return terms

    def spread_contents(self, call: ast.Call, width: int) -> list[str]:
        """`..dims(s)`: s is the list of what each operand holds."""
        read = ast.Name("contents" if call.head == ast.Name("dims") else "entry")
        terms: list[str] = []
        held: list[ast.Expr] = []
        for _ in range(width):
            terms.append(self.fresh("t"))
            holder = self.fresh("x")
            self.env[holder] = Tensor(terms[-1])
            held.append(ast.Call(read, (ast.Name(holder),)))
        self.equate(call.operands[0], ast.ListExpr(tuple(held)))
        return terms

    def known(self, call: ast.Call) -> str:
        """`..const(v)`: each operand is a constant or absent."""
        term, column = self.fresh("t"), self.fresh("k")
        self.atoms.append(f"(= {column} (contents_of {term}))")
        self.meet(call.operands[0], Column(column, "const"), call)
        return term

    def attributes(self, signature: Signature, call: ast.Call, open_end: bool) -> list[str]:
        given = {k.name: k.value for k in call.keywords}
        known = {a.name for a in signature.attributes}
        for keyword in call.keywords:
            if keyword.name not in known:
                raise Misfit(f"{signature.definition.key} has no attribute `{keyword.name}`", keyword)
        columns: list[str] = []
        for attribute in signature.attributes:
            value = given.get(attribute.name)
            if value is None:
                columns.append(self.unmentioned(signature, attribute.name, open_end, call))
                continue
            kind = signature.kind(attribute.name)
            text = self.literal(value, kind) if not self.bound(value) else None
            if text is not None:
                columns.append(quoted(text))
                continue
            bound = self.env.get(value.id) if isinstance(value, ast.Name) else None
            if isinstance(bound, Column) and bound.kind == kind:
                columns.append(bound.term)
                continue
            column = Column(self.fresh("a"), kind)
            self.meet(value, column, value)
            columns.append(column.term)
        return columns

    def bound(self, value: ast.Expr) -> bool:
        return isinstance(value, ast.Name) and value.id in self.env

    def unmentioned(self, signature: Signature, name: str, open_end: bool, call: ast.Call) -> str:
        attribute = next(a for a in signature.attributes if a.name == name)
        if open_end:
            return self.fresh("a")
        if name == RESULTS and attribute.default is None:
            raise Misfit(f"{signature.definition.name} has a free number of results: say `results=n`", call)
        if attribute.required:
            raise Misfit(f"{signature.definition.name} needs attribute `{name}`", call)
        return quoted(attribute.default or "")

    def carry(
        self, signature: Signature, rest: ast.Rest, operands: _Operands, attributes: Mapping[str, Column]
    ) -> None:
        terms = operands.items if operands.items is not None else operands.fixed
        if operands.vector is not None and operands.items is None:
            carried = Carried(
                tuple(Tensor(t) for t in operands.fixed[operands.first :]),
                operands.vector,
                operands.first,
                attributes,
                signature,
            )
        else:
            every = (*operands.fixed, *(operands.items or ())) if operands.vector else terms
            carried = Carried(
                tuple(Tensor(t) for t in every[operands.first :]), None, operands.first, attributes, signature
            )
        assert isinstance(rest.expr, ast.Name)
        if rest.expr.id in self.env:
            raise Misfit(f"`..{rest.expr.id}` is bound already", rest)
        self.env[rest.expr.id] = carried

    def info(self, term: str) -> str:
        """The query variable that holds what is known of a tensor."""
        if term not in self.infos:
            self.infos[term] = self.fresh("q")
            self.atoms.append(f"(= {self.infos[term]} (info {term}))")
        return self.infos[term]


@dataclass(frozen=True)
class _Operands:
    fixed: tuple[str, ...]
    vector: str | None
    items: tuple[str, ...] | None
    """The operands one by one where they are known so; of a variadic operator those in the Vec."""
    first: int
    """The first place that the covering rest stands for."""


def variables_of(expr: ast.Expr) -> Iterator[str]:
    """Variables that a pattern binds, in order of writing."""
    stack: list[object] = [expr]
    seen: set[str] = set()
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Bind) and node.name not in seen:
            seen.add(node.name)
            yield node.name
        if isinstance(node, ast.Name) and node.id != "_" and node.id not in seen:
            seen.add(node.id)
            yield node.id
        if isinstance(node, ast.Call):
            stack += [k.value for k in reversed(node.keywords)]
            stack += list(reversed(node.operands))
        elif isinstance(node, (ast.Bind, ast.Rest)):
            stack.append(node.expr)
        elif isinstance(node, ast.Index):
            stack += [node.index, node.base]
        elif isinstance(node, ast.ListExpr):
            stack += list(reversed(node.items))
