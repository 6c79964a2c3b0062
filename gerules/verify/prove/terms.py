"""Reading the terms of a rule: patterns make leaves of what they leave open, right sides use what is bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from gerules.dsl import ast
from gerules.egraph.signature import RESULTS, Signature
from gerules.egraph.texts import parse_value
from gerules.registry.definition import REQUIRED, OperatorDef
from gerules.static import free_names
from gerules.static.context import DTYPES
from gerules.static.steps import binds
from gerules.verify.prove.access import ById, apply
from gerules.verify.prove.application import Application, axis_lists
from gerules.verify.prove.arith import Bool
from gerules.verify.prove.constants import VALUES, Constants
from gerules.verify.prove.statics import Contents, Untold, Value
from gerules.verify.prove.world import (
    ABSENT,
    Absent,
    Beyond,
    Hole,
    Kind,
    Leaf,
    Node,
    Operand,
    Skip,
    Tensor,
    World,
)

if TYPE_CHECKING:
    from gerules.egraph.program import Knowledge


@lru_cache(maxsize=4)
def relations(key: ById) -> frozenset[str]:
    """The relations of a program."""
    program = key.known.program
    concluded = (c for entry in program.facts.values() for c in entry.statement.conclusions)
    heads = (c.head.id for c in concluded if isinstance(c, ast.Call) and isinstance(c.head, ast.Name))
    return frozenset((*program.tables, *heads))


@dataclass(eq=False)
class Carried:
    """What a last `..r` stands for: operands by place, attributes by name."""

    operands: tuple[Operand, ...]
    attributes: dict[str, object]
    signature: Signature


class Reader(Constants):
    """Terms of one rule in one world. `arities` are the numbers of operands tried for a variadic operator."""

    def __init__(
        self, world: World, known: Knowledge, file: ast.RuleFile, params: dict[str, Value], arities: int
    ) -> None:
        super().__init__(world, known, file, dict(params))
        self.arities = arities

    # ------------------------------------------------------------------------------------------------- whole sides

    def side(self, expr: ast.Expr) -> Tensor | Node:
        """The value of a left side, a bare term of a condition, or a right side."""
        if isinstance(expr, ast.Bind):
            found = self.side(expr.expr)
            self.bind(expr.name, found)
            return found
        signature = self.head(expr)
        if signature is not None and signature.several:
            return self.node(expr)
        operand = self.operand(expr)
        if isinstance(operand, Absent):
            raise Skip
        return operand

    def condition(self, expr: ast.Expr) -> Bool:
        """A condition of the rule, as a premise. One on element types alone may be dropped."""
        if isinstance(expr, ast.Bind) or (isinstance(expr, ast.Call) and self.head(expr) is not None):
            self.side(expr)
            return True
        if isinstance(expr, ast.Compare) and expr.op in ("==", "!="):
            absent = self._absence(expr)
            if absent is not None:
                return absent
            unbound = [n for n in free_names(expr) if n not in self.env]
            if unbound:
                for pattern, value in ((expr.left, expr.right), (expr.right, expr.left)):
                    if all(n in self.env for n in free_names(value)) and binds(pattern, set(self.env)):
                        return self.match(pattern, self.value(value))
                raise Beyond(f"a condition with `{unbound[0]}` unbound")
        if isinstance(expr, ast.Call) and isinstance(expr.head, ast.Name) and self._relation(expr.head.id):
            self.world.assumed.setdefault(f"{expr.head.id} is not needed")
            return True
        try:
            self.top = expr
            return self.truth(expr)
        except Untold as why:
            self._types(expr)
            self.world.assumed.setdefault(str(why))
            return True
        finally:
            self.top = None

    def _types(self, expr: ast.Expr, holds: bool = True) -> None:
        """What a condition says of one element type: `x.dtype in C`, `not x.dtype in C`, `x.dtype != t`."""
        if isinstance(expr, ast.Unary) and expr.op == "not":
            self._types(expr.operand, not holds)
        elif isinstance(expr, ast.Compare) and expr.op in ("in", "==", "!="):
            kind, other = self.value(expr.left), self.value(expr.right)
            holds = holds == (expr.op != "!=")
            names = frozenset(map(str, other if isinstance(other, frozenset) else (other,)))
            if isinstance(kind, Kind) and names <= DTYPES:
                self.world.admit(kind, names if holds else DTYPES - names)

    def unbound(self, expr: ast.Expr) -> bool:
        """Whether a condition may bind something: variables that are open yet, or a term of operators."""
        if isinstance(expr, ast.Bind) or (isinstance(expr, ast.Call) and self.head(expr) is not None):
            return True
        return any(n not in self.env for n in free_names(expr))

    def _relation(self, name: str) -> bool:
        """Whether this is a relation that other facts or tables fill: a premise that no proof here needs."""
        return name in relations(ById(self.known))

    def _absence(self, expr: ast.Compare) -> Bool | None:
        """`v == none` of an operand or attribute."""
        sides = (expr.left, expr.right)
        if ast.Word("none") not in sides:
            return None
        other = sides[0] if sides[1] == ast.Word("none") else sides[1]
        found = self.env.get(other.id) if isinstance(other, ast.Name) else None
        if isinstance(found, Leaf) and found.optional:
            there = self.world.pick((True, False), found.name + " is there")
            found.optional = False
            if not there:
                self.world.gone[found.name] = ABSENT
        if isinstance(found, Hole) and not found.decided and found.default is None and not found.required:
            if self.world.pick((True, False), found.name + " is unset"):
                found.decided = True
            else:
                found.required = True
        if isinstance(found, Hole):
            gone = found.decided and found.value is None
        else:
            gone = (
                found is None
                or isinstance(found, Absent)
                or (isinstance(found, Leaf) and found.name in self.world.gone)
            )
        return gone if expr.op == "==" else not gone

    def ready(self, expr: ast.Expr) -> bool:
        """Whether all that a condition reads is bound, or it binds what is not."""
        unbound = [n for n in free_names(expr) if n not in self.env]
        if not unbound or isinstance(expr, ast.Bind) or (isinstance(expr, ast.Call) and self.head(expr) is not None):
            return True
        if isinstance(expr, ast.Compare) and expr.op == "==":
            return any(
                all(n in self.env for n in free_names(value)) and binds(pattern, set(self.env))
                for pattern, value in ((expr.left, expr.right), (expr.right, expr.left))
            )
        return False

    # ---------------------------------------------------------------------------------------------------- operands

    def head(self, expr: ast.Expr) -> Signature | None:
        if not isinstance(expr, ast.Call):
            return None
        if isinstance(expr.head, ast.Symbol):
            found = self.known.program.resolve(expr.head, self.file)
            if not found:
                raise Beyond(f"the operator {expr.head}, whose registry is not loaded")
            return self.known.signatures.of(found[-1])
        if isinstance(expr.head, ast.Name):
            bound = self.env.get(expr.head.id)
            if isinstance(bound, OperatorDef):
                return self.known.signatures.of(bound)
        return None

    def operand(self, expr: ast.Expr, kind: Kind | None = None, optional: bool = False) -> Operand:
        match expr:
            case ast.Name(id="_"):
                return self.world.leaf("_", kind, optional)
            case ast.Name(id=name):
                if name not in self.env:
                    if self.world.right:
                        raise Beyond(f"`{name}` unbound on the right")
                    self.env[name] = self.world.leaf(name, kind, optional)
                found = self.env[name]
                if isinstance(found, Leaf) and found.name in self.world.gone:
                    return ABSENT
                if isinstance(found, (Tensor, Absent)):
                    return found
                raise Beyond(f"`{name}` as an operand")
            case ast.Word(word="none"):
                return ABSENT
            case ast.Bind(expr=inner, name=name):
                operand = self.operand(inner, kind, optional)
                self.bind(name, operand)
                return operand
            case ast.Index(base=base, index=index):
                return self.node(base)[self._place(index)]
            case ast.Call(head=ast.Name(id=value)) if value in VALUES:
                return self.constant(value, expr, kind)
            case ast.Call():
                signature = self.head(expr)
                if signature is None:
                    raise Beyond("a term whose head is no operator")
                found = self.call(signature, expr)
                if isinstance(found, Node):
                    raise Beyond("a node where a tensor is meant")
                return found
            case ast.Number() | ast.Unary() | ast.ListExpr():
                return self.constant("const", ast.Call(ast.Name("const"), (expr,)), kind)
        raise Beyond("an operand of this form")

    def _place(self, index: ast.Expr) -> int:
        if isinstance(index, ast.Number) and isinstance(index.value, int):
            return index.value
        assert isinstance(index, ast.Name)
        if index.id not in self.env:
            self.env[index.id] = self.world.pick((0, 1, 2), "result " + index.id)
        found = self.env[index.id]
        assert isinstance(found, int)
        return found

    def node(self, expr: ast.Expr) -> Node:
        if isinstance(expr, ast.Bind):
            found = self.node(expr.expr)
            self.bind(expr.name, found)
            return found
        if isinstance(expr, ast.Name):
            bound = self.env.get(expr.id)
            if isinstance(bound, Node):
                return bound
            raise Beyond(f"`{expr.id}` as a node")
        signature = self.head(expr)
        if signature is None or not isinstance(expr, ast.Call):
            raise Beyond("a node of this form")
        called = self.call(signature, expr)
        if not isinstance(called, Node):
            raise Beyond("a tensor where a node is meant")
        return called

    # ------------------------------------------------------------------------------------------------------- calls

    def call(self, signature: Signature, call: ast.Call) -> Tensor | Node:
        operands, covering, first = self._operands(signature, call)
        attributes = self._attributes(signature, call, covering)
        if covering is not None and not self.world.right and isinstance(covering.expr, ast.Name):
            named = {k.name for k in call.keywords}
            carried = {n: v for n, v in attributes.items() if n not in named}
            self.bind(covering.expr.id, Carried(tuple(operands[first:]), carried, signature))
        kinds = self._kinds(signature, operands)
        return apply(Application(self.world, signature, operands, attributes, kinds), self.known)

    def _kinds(self, signature: Signature, operands: Sequence[Operand]) -> dict[str, Kind]:
        """The element types of type variables, from the operands; those of one variable are joined."""
        kinds: dict[str, Kind] = {}
        inputs = signature.newest.inputs
        for place, operand in enumerate(operands):
            formal = inputs[min(place, len(inputs) - 1)]
            if isinstance(operand, Absent) or not formal.homogeneous:
                continue
            if not self.world.right:
                self.world.admit(operand.kind, frozenset(formal.types))
            if len(formal.types) == 1:
                self.world.unify(operand.kind, self.world.named_kind(next(iter(formal.types))))
            if formal.type in kinds:
                self.world.unify(kinds[formal.type], operand.kind)
            else:
                kinds[formal.type] = operand.kind
        return kinds

    def _operands(self, signature: Signature, call: ast.Call) -> tuple[list[Operand], ast.Rest | None, int]:
        """Operands by place, the rest that covers what is left, and the first place that it covers."""
        items = list(call.operands)
        last = items[-1] if items and isinstance(items[-1], ast.Rest) else None
        covering = last if last is not None and (last.expr is None or isinstance(last.expr, ast.Name)) else None
        if covering is not None and self.world.right:
            bound = self.env.get(covering.expr.id) if isinstance(covering.expr, ast.Name) else None
            covering = covering if isinstance(bound, Carried) else None
        if self.world.right:
            return self._built(items, signature), covering, len(items)
        plain = sum(not isinstance(i, ast.Rest) for i in items)
        spread = [i for i in items if isinstance(i, ast.Rest) and i is not covering]
        total = self._total(signature, plain, bool(spread), covering is not None)
        widths = self._widths(spread, total - plain, covering is not None or not spread)
        operands: list[Operand] = []
        later: list[tuple[int, ast.Expr]] = []
        for item in items:
            if self._waits(item):
                later.append((len(operands), item))
                operands.append(ABSENT)
            elif not isinstance(item, ast.Rest):
                operands.append(self.operand(item, None, self._optional(signature, len(operands))))
            elif item is not covering:
                operands += self._spread(item, signature, len(operands), widths.pop(0))
        for place, item in later:
            self._axes_first(item, operands)
            operands[place] = self.operand(item)
        first = len(operands)
        while len(operands) < total:
            optional = self._optional(signature, len(operands))
            if covering is None:
                if not optional:
                    raise Skip
                operands.append(ABSENT)
            else:
                operands.append(self.world.leaf("operand", None, optional))
        return operands, covering, first

    def _waits(self, item: ast.Expr) -> bool:
        """Whether a constant is computed from what stands behind it (`const(fill(-1, d.size))`)."""
        return (
            isinstance(item, ast.Call)
            and item.head in (ast.Name("const"), ast.Name("dims"))
            and not isinstance(item.operands[0], (ast.Name, ast.ListExpr))
            and any(n not in self.env or self._undecided(n) for n in free_names(item.operands[0]))
        )

    def _undecided(self, name: str) -> bool:
        held = self.env.get(name)
        return isinstance(held, Contents) and not held.leaf.decided

    def _axes_first(self, item: ast.Expr, operands: Sequence[Operand]) -> None:
        """Decides the lists of axes that a constant is computed from."""
        first = operands[0]
        for name in free_names(item):
            held = self.env.get(name)
            if isinstance(held, Contents) and held.leaf.contents is None and isinstance(first, Tensor):
                chosen = self.world.pick(axis_lists(first.rank, True), f"axes {held.leaf.name}")
                assert isinstance(chosen, tuple)
                held.leaf.decide(1, (len(chosen),))
                held.leaf.contents = chosen

    @staticmethod
    def _optional(signature: Signature, place: int) -> bool:
        return signature.optional(place)

    def _total(self, signature: Signature, plain: int, spread: bool, covering: bool) -> int:
        if not signature.variadic:
            if plain > signature.fixed:
                raise Skip
            return signature.fixed
        least = max(plain, signature.fixed)
        if not spread and not covering:
            return least
        top = max(self.arities, plain)
        self.world.variadic = True
        total = self.world.pick(range(max(1, least), top + 1), self.world.fresh("number of operands"))
        assert isinstance(total, int)
        return total

    def _widths(self, spread: Sequence[ast.Rest], free: int, open_end: bool) -> list[int]:
        if not spread:
            return []
        if len(spread) == 1 and (not open_end or not (spread[0].expr is None or isinstance(spread[0].expr, ast.Name))):
            return [free]
        widths: list[int] = []
        for k in range(len(spread)):
            left = free - sum(widths)
            if k == len(spread) - 1 and not open_end:
                widths.append(left)
            else:
                width = self.world.pick(range(left + 1), self.world.fresh("operands before"))
                assert isinstance(width, int)
                widths.append(width)
        return widths

    def _spread(self, rest: ast.Rest, signature: Signature, place: int, width: int) -> list[Operand]:
        """`..p` or `..pattern` over several operands; variables of the pattern become lists."""
        inner = rest.expr
        if inner is None or isinstance(inner, ast.Name):
            found: list[Operand] = [
                self.world.leaf(
                    inner.id if isinstance(inner, ast.Name) else "_", None, self._optional(signature, place + k)
                )
                for k in range(width)
            ]
            if isinstance(inner, ast.Name):
                self.bind(inner.id, tuple(found))
            return found
        outer = dict(self.env)
        lists: dict[str, list[object]] = {}
        found = []
        for k in range(width):
            self.env = dict(outer)
            found.append(self.operand(inner, None, self._optional(signature, place + k)))
            for name, value in self.env.items():
                if name not in outer:
                    lists.setdefault(name, []).append(value)
        self.env = outer
        for name in free_names(inner):
            if name not in self.env:
                self.env[name] = tuple(lists.get(name, ()))
        return found

    def _built(self, items: Sequence[ast.Expr], signature: Signature) -> list[Operand]:
        operands: list[Operand] = []
        for item in items:
            if not isinstance(item, ast.Rest):
                operands.append(self.operand(item))
                continue
            bound = self.env.get(item.expr.id) if isinstance(item.expr, ast.Name) else None
            if isinstance(bound, Carried):
                operands += [ABSENT if isinstance(o, Leaf) and o.name in self.world.gone else o for o in bound.operands]
            elif isinstance(bound, tuple) and all(isinstance(b, (Tensor, Absent)) for b in bound):
                operands += [ABSENT if isinstance(o, Leaf) and o.name in self.world.gone else o for o in bound]
            else:
                raise Beyond("a rest of this form on the right")
        if not signature.variadic:
            while len(operands) > signature.fixed:
                extra = operands.pop()
                if isinstance(extra, Leaf) and extra.optional:
                    self.world.decides()
                    self.world.gone[extra.name] = ABSENT  # the rule fires only where it is absent
                    extra.optional = False
                elif not isinstance(extra, Absent):
                    raise Skip
            operands += [ABSENT] * (signature.fixed - len(operands))
            for place, operand in enumerate(operands):
                if isinstance(operand, Absent) and signature.operand_kind(place) == REQUIRED:
                    raise Skip
        return operands

    # -------------------------------------------------------------------------------------------------- attributes

    def _attributes(self, signature: Signature, call: ast.Call, covering: ast.Rest | None) -> dict[str, object]:
        given = {k.name: k.value for k in call.keywords}
        known = {a.name for a in signature.attributes}
        if not set(given) <= known:
            raise Skip  # a member that lacks the attribute has no instance
        brought: dict[str, object] = {}
        if covering is not None and self.world.right:
            bound = self.env.get(covering.expr.id) if isinstance(covering.expr, ast.Name) else None
            assert isinstance(bound, Carried)
            brought = dict(bound.attributes)
            for name in list(brought):
                if name not in known or name in given:
                    value = brought.pop(name)
                    if name not in known:
                        self._at_default(bound.signature, name, value)
        found: dict[str, object] = {}
        for attribute in signature.attributes:
            name, kind = attribute.name, signature.kind(attribute.name)
            if name in given:
                found[name] = self._given(signature, name, kind, given[name])
            elif name in brought:
                found[name] = brought[name]
            elif covering is not None and not self.world.right:
                found[name] = self._hole(signature, name, kind)
            elif name == RESULTS and attribute.default is None:
                raise Beyond(f"a free number of results of {signature.definition.name}")
            elif attribute.required:
                raise Skip
            else:
                found[name] = parse_value(kind, attribute.default or "")
        return found

    def _at_default(self, signature: Signature, name: str, value: object) -> None:
        """A carried attribute that the other side lacks holds its default: a premise."""
        attribute = next(a for a in signature.attributes if a.name == name)
        default = parse_value(signature.kind(name), attribute.default or "")
        if isinstance(value, Hole):
            if not value.decided:
                self.world.decides()
                value.decided, value.value = True, default
            elif value.value != default:
                raise Skip
        elif value != default:
            raise Skip

    def _hole(self, signature: Signature, name: str, kind: str) -> Hole:
        attribute = next(a for a in signature.attributes if a.name == name)
        if kind == "dtype":
            return Hole(self.world, self.world.fresh(name), kind, attribute.default, True)
        return Hole(self.world, self.world.fresh(name), kind, attribute.default, attribute.required)

    def _given(self, signature: Signature, name: str, kind: str, value: ast.Expr) -> object:
        if isinstance(value, ast.Name) and value.id not in self.env and not (kind == "dtype" and value.id in DTYPES):
            if self.world.right:
                raise Beyond(f"`{value.id}` unbound on the right")
            if kind == "dtype":
                fresh = self.world.kind()
                self.bind(value.id, fresh)
                return fresh
            hole = self._hole(signature, name, kind)
            self.bind(value.id, hole)
            return hole
        if isinstance(value, ast.Name) and value.id in self.env:
            found = self.env[value.id]
            return self.value(value) if isinstance(found, Contents) else found
        if isinstance(value, ast.ListExpr) and any(n not in self.env for n in free_names(value)):
            for item in value.items:
                if isinstance(item, ast.Name) and item.id not in self.env:
                    self.env[item.id] = self.world.integer(item.id)
        return self.value(value)
