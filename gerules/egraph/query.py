"""One rule instance as an egglog rule: patterns become atoms, static expressions become host calls.

The terms of a rule are compiled in three ways. An operator term is an atom (left) or a constructor term (right). A
value of a tensor (`const`, `splat`, `dims`) is an atom or one of the value constructors. Everything else is static:
all static conditions of the rule are one chain of steps, every static piece of the right side is one text computed
from the same arguments, and both are one pure Python call each (`gerules.egraph.host`).
"""

from __future__ import annotations

from dataclasses import dataclass

from gerules.dsl import ast
from gerules.egraph.patterns import VALUE_TERMS, WHOLE, Patterns
from gerules.egraph.signature import Signature
from gerules.egraph.terms import Carried, Column, Many, Misfit, NodeTerm, NotYet, Output, Tensor, quoted
from gerules.registry.definition import REQUIRED
from gerules.static.context import DTYPES


@dataclass
class Query(Patterns):
    """Builds one rule instance: its left side, then the right side as constructor terms."""

    def build(self, expr: ast.Expr, dtype: ast.Expr | str | None) -> str:
        """The constructor term for `expr`, of sort T; `dtype` is what a value here takes where it does not say."""
        match expr:
            case ast.Name(id=name):
                bound = self.env.get(name)
                if isinstance(bound, Tensor):
                    return bound.term
                raise Misfit(f"`{name}` is not bound to a tensor", expr)
            case ast.Word(word="none"):
                return "(Absent)"
            case ast.Index(base=base, index=index):
                return f"(Out {self.build_node(base).term} {self.place(index)})"
            case ast.Call(head=ast.Name(id=kind)) if kind in VALUE_TERMS:
                return self.build_value(kind, expr, dtype)
            case ast.Call(head=ast.Name(id="body")):
                raise NotYet("`body` is not yet there: bodies of functions come with conversion", expr)
            case ast.Call():
                signature = self.head(expr)
                if signature is None:
                    raise Misfit("this is no operator", expr)
                if signature.several:
                    raise Misfit(f"{signature.definition.name} has several results: say which, `[0]`", expr)
                return self.build_call(signature, expr)
        raise Misfit("a right side is made of operators, variables and values", expr)

    def build_node(self, expr: ast.Expr) -> NodeTerm:
        if isinstance(expr, ast.Call) and expr.head == ast.Name("body"):
            raise NotYet("`body` is not yet there: bodies of functions come with conversion", expr)
        if isinstance(expr, ast.Name):
            bound = self.env.get(expr.id)
            if isinstance(bound, NodeTerm):
                return bound
        signature = self.head(expr)
        if signature is None or not signature.several:
            raise Misfit("only an operator with several results can be indexed", expr)
        return NodeTerm(self.build_call(signature, expr), signature)  # type: ignore[arg-type]

    def build_value(self, kind: str, call: ast.Call, dtype: ast.Expr | str | None) -> str:
        asked = next((k.value for k in call.keywords if k.name == "dtype"), None)
        if asked is not None:
            dtype = (
                asked.id if isinstance(asked, ast.Name) and asked.id in DTYPES and asked.id not in self.env else asked
            )
        first = call.operands[0]
        if kind == "const":
            if isinstance(first, ast.Call) and first.head == ast.Name("evaluate"):
                return f"(K {self.output(Output(first, 'fold'))})"
            bound = self.env.get(first.id) if isinstance(first, ast.Name) else None
            if isinstance(bound, Column) and bound.kind == "const" and asked is None and dtype is None:
                return f"(K {bound.term})"
            return f"(K {self.output(Output(first, 'const', dtype))})"
        if kind == "splat":
            if len(call.operands) != 2:
                raise Misfit("`splat(value, shape)`", call)
            return f"(Known {self.output(Output(first, 'splat', dtype, call.operands[1]))})"
        if kind in ("dims", "dim"):
            return f"(Known {self.output(Output(first, kind, dtype if asked is not None else 'i64'))})"
        raise NotYet("`iota` is not yet there on right sides", call)

    def output(self, output: Output) -> str:
        for term, known in self.outputs:
            if known == output:
                return term
        term = self.fresh("h")
        self.outputs.append((term, output))
        return term

    def build_call(self, signature: Signature, call: ast.Call) -> str:
        if signature.impure and len(self.identities) != 1:
            raise Misfit(
                f"{signature.definition.name} is impure: a rule can only turn one such node into another", call
            )
        self.operators.append(signature)
        operands: list[str] = []
        vectors: list[tuple[int, str]] = []  # a Vec, and before which operand it comes
        carried: Carried | None = None
        for item in call.operands:
            if not isinstance(item, ast.Rest):
                operands.append(self.build(item, self.place_dtype(signature, len(operands), call)))
                continue
            bound = self.env.get(item.expr.id) if isinstance(item.expr, ast.Name) else None
            if isinstance(bound, Many):
                for one in bound.items:
                    if not isinstance(one, Tensor):
                        raise Misfit("this list does not hold tensors", item)
                    operands.append(one.term)
            elif isinstance(bound, Carried):
                if item is call.operands[-1]:
                    carried = bound
                operands += self.carried_operands(bound, signature, len(operands))
                if bound.vector is not None:
                    vectors.append((len(operands), bound.vector))
            else:
                raise Misfit("this rest is not bound on the left", item)
        columns = self.build_attributes(signature, call, carried)
        columns += self.identities if signature.impure else []
        term = self.assemble(signature, operands, vectors, columns, call)
        self.made.append((term, signature))
        return term

    def assemble(
        self,
        signature: Signature,
        operands: list[str],
        vectors: list[tuple[int, str]],
        columns: list[str],
        call: ast.Call,
    ) -> str:
        name = signature.definition.name
        if not signature.variadic:
            if vectors:
                raise Misfit(f"{name} takes no list of operands", call)
            while len(operands) > signature.fixed and operands[-1] == "(Absent)":
                operands.pop()
            if len(operands) > signature.fixed:
                raise Misfit(f"{name} has at most {signature.fixed} operands", call)
            for place in range(len(operands), signature.fixed):
                if signature.operand_kind(place) == REQUIRED:
                    raise Misfit(f"{name} needs operand {signature.definition.inputs[place].name}", call)
                operands.append("(Absent)")
            return f"({' '.join([signature.constructor, *operands, *columns])})"
        if any(before < signature.fixed for before, _ in vectors):
            raise Misfit(f"a list stands where {name} takes single operands", call)
        pieces: list[str] = []
        position = signature.fixed
        for before, vector in [*vectors, (len(operands), "")]:
            if before > position:
                pieces.append(f"(vec-of {' '.join(operands[position:before])})")
                position = before
            pieces += [vector] if vector else []
        joined = pieces[0] if len(pieces) == 1 else f"(vec-append {' '.join(pieces)})" if pieces else "(vec-empty)"
        return f"({' '.join([signature.constructor, *operands[: signature.fixed], joined, *columns])})"

    def carried_operands(self, carried: Carried, signature: Signature, place: int) -> list[str]:
        terms = [t.term for t in carried.operands]
        if signature.variadic or carried.vector is not None:
            return terms
        room = max(0, signature.fixed - place)
        for extra in terms[room:]:
            if extra != "(Absent)":
                self.atoms.append(f"(= {extra} (Absent))")
        return terms[:room]

    def build_attributes(self, signature: Signature, call: ast.Call, carried: Carried | None) -> list[str]:
        given = {k.name: k.value for k in call.keywords}
        known = {a.name for a in signature.attributes}
        for keyword in call.keywords:
            if keyword.name not in known:
                raise Misfit(f"{signature.definition.key} has no attribute `{keyword.name}`", keyword)
        brought = dict(carried.attributes) if carried is not None else {}
        columns: list[str] = []
        for attribute in signature.attributes:
            kind = signature.kind(attribute.name)
            if attribute.name in given:
                brought.pop(attribute.name, None)
                columns.append(self.attribute_text(given[attribute.name], kind))
                continue
            column = brought.pop(attribute.name, None)
            if column is not None:
                if column.kind != kind:
                    raise Misfit(f"attribute `{attribute.name}` has another type in {signature.definition.key}", call)
                columns.append(column.term)
                continue
            columns.append(self.unmentioned(signature, attribute.name, False, call))
        for name, column in sorted(brought.items()):
            source = next(a for a in carried.signature.attributes if a.name == name)  # type: ignore[union-attr]
            self.atoms.append(f"(= {column.term} {quoted(source.default or '')})")
        return columns

    def attribute_text(self, value: ast.Expr, kind: str) -> str:
        if not self.bound(value):
            text = self.literal(value, kind)
            if text is not None:
                return quoted(text)
        bound = self.env.get(value.id) if isinstance(value, ast.Name) else None
        if isinstance(bound, Column) and bound.kind == kind:
            return bound.term
        return self.output(Output(value, kind))

    def place_dtype(self, signature: Signature, place: int, call: ast.Call) -> ast.Expr | str | None:
        """The element type that a value in this operand place has: fixed by the schema, or that of a bound sibling."""
        inputs = signature.newest.inputs
        formal = inputs[min(place, len(inputs) - 1)]
        if len(formal.types) == 1:
            return next(iter(formal.types))
        position = 0
        for item in call.operands:
            if isinstance(item, ast.Rest):
                bound = self.env.get(item.expr.id) if isinstance(item.expr, ast.Name) else None
                if isinstance(bound, Many) and position != place:
                    for k, one in enumerate(bound.items):
                        other = inputs[min(position + k, len(inputs) - 1)]
                        if other.type == formal.type and isinstance(one, Tensor):
                            return self.dtype_of(one)
                    position += len(bound.items)
                elif isinstance(bound, Carried):
                    for k, one in enumerate(bound.operands):
                        other = inputs[min(position + k, len(inputs) - 1)]
                        if other.type == formal.type and one.term != "(Absent)":
                            return self.dtype_of(one)
                continue
            other = inputs[min(position, len(inputs) - 1)]
            if position != place and other.type == formal.type and isinstance(item, ast.Name):
                bound = self.env.get(item.id)
                if isinstance(bound, Tensor):
                    return ast.Field(item, "dtype")
            position += 1
        if "i64" in formal.types and formal.types <= WHOLE:
            return "i64"
        return self.default_dtype

    def dtype_of(self, tensor: Tensor) -> ast.Expr:
        holder = self.fresh("x")
        self.env[holder] = tensor
        return ast.Field(ast.Name(holder), "dtype")
