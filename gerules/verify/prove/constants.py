"""Constants of rules in symbols: `const`, `splat`, `iota`, `dims` and `dim`; and what patterns of lists meet."""

from __future__ import annotations

from collections.abc import Sequence

import z3

from gerules.dsl import ast
from gerules.static import free_names
from gerules.verify.prove import arith
from gerules.verify.prove.arith import Bool
from gerules.verify.prove.statics import Contents, Evaluator, Value, is_int, literal
from gerules.verify.prove.world import ELEMENT, NUMBER, Beyond, Element, Hole, Kind, Leaf, Skip, Tensor

VALUES = frozenset({"const", "splat", "dims", "dim", "iota"})


class Constants(Evaluator):
    """Makes the tensors that constants are; on the left what they hold is bound."""

    def bind(self, name: str, value: object) -> None:
        if name != "_":
            self.env[name] = value

    def match(self, pattern: ast.Expr, value: Value) -> Bool:
        """A list pattern or variable meets a value."""
        if isinstance(pattern, ast.Name):
            if pattern.id == "_":
                return True
            if pattern.id not in self.env:
                self.env[pattern.id] = value
                return True
        if isinstance(pattern, ast.ListExpr) and any(n not in self.env for n in free_names(pattern)):
            if not isinstance(value, tuple):
                raise Beyond("a list pattern of what is no list")
            items = pattern.items
            rest = next((i for i, item in enumerate(items) if isinstance(item, ast.Rest)), None)
            count = len(items) - (0 if rest is None else 1)
            if len(value) < count or (rest is None and len(value) != count):
                raise Skip
            if rest is None:
                return arith.conjunction(self.match(p, v) for p, v in zip(items, value, strict=True))
            stop = len(value) - (len(items) - rest - 1)
            inner = items[rest]
            assert isinstance(inner, ast.Rest)
            pairs = [
                *zip(items[:rest], value[:rest], strict=True),
                (inner.expr or ast.Name("_"), value[rest:stop]),
                *zip(items[rest + 1 :], value[stop:], strict=True),
            ]
            return arith.conjunction([self.match(p, v) for p, v in pairs])
        return self.equal(self.value(pattern), value)

    def constant(self, form: str, call: ast.Call, kind: Kind | None) -> Tensor:
        asked = next((k.value for k in call.keywords if k.name == "dtype"), None)
        if asked is not None:
            given = self.value(asked)
            kind = given if isinstance(given, Kind) else self.world.named_kind(str(given))
        first = call.operands[0]
        unbound = [n for n in free_names(first) if n not in self.env] or first == ast.Name("_")
        if form == "splat":
            return self._splat(first, call.operands[1], bool(unbound), kind or self.world.kind())
        if form == "iota":
            return self._iota(call, kind or self.world.kind())
        if form in ("dims", "dim"):
            kind = kind or self.world.named_kind("i64")
        kind = kind or self.world.kind()
        if unbound:
            return self._open(form, first, kind)
        value = self.value(first) if not isinstance(self.env.get(getattr(first, "id", "")), Hole) else self._held(first)
        if value is None:
            raise Skip  # nothing that could be held
        if isinstance(value, tuple):
            if not all(is_int(v) for v in value):
                terms = [v.term if isinstance(v, Element) else literal(v) for v in value]
                return self._listed(kind, terms)
            numbers = value
            return Tensor(kind, (len(numbers),), lambda i: self._chosen(numbers, i), contents=numbers)
        if is_int(value):
            return Tensor(kind, (), lambda i: NUMBER(value), contents=(value,), uniform=NUMBER(value))
        if isinstance(value, Hole):
            if value.kind in ("ints", "floats") or value.decided:
                raise Beyond(f"what {value.name} holds as a constant")
            value = Element(value.element())
        term = value.term if isinstance(value, Element) else literal(value)
        return Tensor(kind, (), lambda i: term, uniform=term)

    def _held(self, name: ast.Expr) -> Value:
        hole = self.env[name.id]  # type: ignore[union-attr]
        assert isinstance(hole, Hole)
        return hole.value if hole.decided else hole

    @staticmethod
    def _chosen(entries: tuple[object, ...], index: tuple[arith.Int, ...]) -> z3.ExprRef:
        found: arith.Int = 0
        for place, entry in reversed(list(enumerate(entries))):
            found = arith.ite(arith.eq(index[0], place), entry, found)
        return NUMBER(found)

    @staticmethod
    def _listed(kind: Kind, terms: Sequence[z3.ExprRef]) -> Tensor:
        def at(index: tuple[arith.Int, ...]) -> z3.ExprRef:
            found = terms[-1]
            for place, entry in reversed(list(enumerate(terms[:-1]))):
                found = arith.choose(arith.eq(index[0], place), entry, found)
            return found

        return Tensor(kind, (len(terms),), at)

    def _open(self, form: str, first: ast.Expr, kind: Kind) -> Leaf:
        """A constant of the left side: what it holds is decided by the operator that takes it."""
        name = first.id if isinstance(first, ast.Name) else form
        leaf = self.world.leaf(name, kind)
        if isinstance(first, ast.ListExpr):
            values = []
            for item in first.items:
                if isinstance(item, ast.Rest):
                    raise Beyond("a list pattern with a rest")
                if isinstance(item, ast.Name) and item.id == "_":
                    values.append(self.world.integer("entry"))
                    continue
                if isinstance(item, ast.Name) and item.id not in self.env:
                    self.env[item.id] = self.world.integer(item.id)
                values.append(self.value(item))
            if not all(map(is_int, values)):
                raise Beyond("a list pattern of what are no whole numbers")
            leaf.decide(1, (len(values),))
            leaf.contents = tuple(values)
        elif not isinstance(first, ast.Name):
            raise Beyond("a constant of this form on the left")
        else:
            self.bind(name, Contents(leaf))
            if form == "dim":
                leaf.decide(0)
                leaf.contents = (self.world.integer(name),)
        return leaf

    def _splat(self, value: ast.Expr, shape: ast.Expr, unbound: bool, kind: Kind) -> Tensor:
        if unbound:
            name = value.id if isinstance(value, ast.Name) else "v"
            term = z3.Const(self.world.fresh(name), ELEMENT)
            self.bind(name, Element(term))
        else:
            held = self.value(value)
            term = held.term if isinstance(held, Element) else NUMBER(held) if is_int(held) else literal(held)
        if [n for n in free_names(shape) if n not in self.env] or shape == ast.Name("_"):
            leaf = self.world.leaf("splat", kind)
            extents: tuple[arith.Int, ...] = leaf.shape
            if isinstance(shape, (ast.Name, ast.ListExpr)):
                self.world.assume(self.match(shape, extents))
        else:
            given = self.value(shape)
            if not isinstance(given, tuple):
                raise Beyond("a shape that is no list")
            extents = given
            if self.world.right:
                self.world.demand(*(arith.le(0, d) for d in extents))
        return Tensor(kind, extents, lambda i: term, flat=lambda i: term, uniform=term)

    def _iota(self, call: ast.Call, kind: Kind) -> Tensor:
        shape, axis = call.operands[0], call.operands[1]
        if [n for n in free_names(shape) if n not in self.env] or shape == ast.Name("_"):
            leaf = self.world.leaf("iota", kind)
            extents: tuple[arith.Int, ...] = leaf.shape
            self.world.assume(self.match(shape, extents))
        else:
            extents = self.value(shape)  # type: ignore[assignment]
        if isinstance(axis, ast.Name) and axis.id not in self.env:
            self.env[axis.id] = self.world.pick(range(len(extents)), "axis of iota")
            self.world.named.add(axis.id)
        along = self.value(axis)
        if not isinstance(along, int) or not 0 <= along < len(extents):
            raise Skip
        return Tensor(kind, extents, lambda i: NUMBER(i[along]))
