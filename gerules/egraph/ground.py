"""Facts about operators alone: decided before any graph is seen.

The registry gives the tables (`bump`, `types_only`, `unchanged`, `grows`, `has_body`), rule files give facts over them
(`neutral_right(Mul, 1)`, `same_operator(f, g) when bump(f, g), ...`). A rule's conditions on its operator parameters
are answered here, and what is left of the rule is its instance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gerules.dsl import ast
from gerules.errors import Diagnostic, Refused
from gerules.registry.definition import OperatorDef

Row = tuple[object, ...]
Params = dict[str, object]


class Scope(Protocol):
    """How names of a file are resolved (the checked program offers it)."""

    def operator(self, symbol: ast.Symbol, file: ast.RuleFile) -> OperatorDef:
        """The definition that an operator symbol means in this file."""

    def members(self, expr: ast.Expr, file: ast.RuleFile) -> Sequence[OperatorDef]:
        """The operators of a class expression in this file, in a stable order."""

    def is_operator(self, symbol: ast.Symbol, file: ast.RuleFile) -> bool:
        """Whether the symbol names an operator (and not a class, an engine or a dimension)."""


@dataclass
class Ground:
    """All ground relations of a program, computed when first asked for."""

    scope: Scope
    facts: Sequence[tuple[ast.Fact, ast.RuleFile]]
    tables: Mapping[str, Sequence[Row]]
    representative: dict[str, str] = field(default_factory=dict)
    _rows: dict[str, list[Row]] = field(default_factory=dict)
    _index: dict[tuple[str, int], dict[object, list[Row]]] = field(default_factory=dict)
    _open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._by_relation: dict[str, list[tuple[ast.Fact, ast.Call, ast.RuleFile]]] = {}
        for fact, file in self.facts:
            for conclusion in fact.conclusions:
                if isinstance(conclusion, ast.Call) and isinstance(conclusion.head, ast.Name):
                    self._by_relation.setdefault(conclusion.head.id, []).append((fact, conclusion, file))
        self._ground = {name: self._is_ground(name, ()) for name in self._by_relation}

    def _is_ground(self, name: str, seen: tuple[str, ...]) -> bool:
        if name in self.tables or name in seen:
            return True
        rules = self._by_relation.get(name)
        if rules is None:
            return False
        return all(
            self._is_condition(condition, {m.name for m in fact.over}, (*seen, name))
            for fact, _, _ in rules
            for condition in fact.when
        )

    def _is_condition(self, condition: ast.Expr, params: set[str], seen: tuple[str, ...] = ()) -> bool:
        match condition:
            case ast.Unary(op="not", operand=inner):
                return self._is_condition(inner, params, seen)
            case ast.Compare(op="in", left=ast.Name(id=name)):
                return name in params
            case ast.Call(head=ast.Name(id=name)):
                return self._is_ground(name, seen)
        return False

    def relations(self) -> frozenset[str]:
        return frozenset(self.tables) | {n for n, ground in self._ground.items() if ground}

    def key(self, value: object) -> object:
        """Operators are compared by their semantic version."""
        if isinstance(value, OperatorDef):
            return self.representative.get(value.key, value.key)
        return (type(value).__name__ == "bool", _signed(value), value)

    def rows(self, relation: str) -> list[Row]:
        if relation not in self._rows:
            if relation in self._open:
                raise Refused(
                    Diagnostic("GR503", f"facts go round in a circle: {' -> '.join([*self._open, relation])}")
                )
            self._open.append(relation)
            found = list(self.tables.get(relation, ()))
            seen = {tuple(map(self.key, row)) for row in found}
            for fact, conclusion, file in self._by_relation.get(relation, ()):
                for params, rest in self.instances(fact.over, fact.when, file):
                    if rest:
                        raise Refused(
                            Diagnostic(
                                "GR504", f"fact {fact.name} is about operators and graphs at once", span=fact.span
                            )
                        )
                    row = tuple(self.value(operand, params, file) for operand in conclusion.operands)
                    mark = tuple(map(self.key, row))
                    if mark not in seen:
                        seen.add(mark)
                        found.append(row)
            self._open.pop()
            self._rows[relation] = found
        return self._rows[relation]

    def value(self, expr: ast.Expr, params: Mapping[str, object], file: ast.RuleFile) -> object:
        """An argument of a ground relation as a value. Raises Refused where it is none."""
        match expr:
            case ast.Name(id=name) if name in params:
                return params[name]
            case ast.Symbol():
                return self.scope.operator(expr, file)
            case ast.Number(value=number):
                return number
            case ast.Unary(op="-", operand=ast.Number(value=number)):
                return -number
            case ast.Text(value=text):
                return text
            case ast.Word(word=word):
                return {"true": True, "false": False, "none": None, "inf": float("inf")}[word]
        raise Refused(Diagnostic("GR505", "a ground fact has operators, numbers and strings", span=expr.span))

    def matching(self, relation: str, place: int, value: object) -> list[Row]:
        index = self._index.get((relation, place))
        if index is None:
            index = {}
            for row in self.rows(relation):
                index.setdefault(self.key(row[place]), []).append(row)
            if relation in self._rows:
                self._index[relation, place] = index
        return index.get(self.key(value), [])

    def holds(self, condition: ast.Expr, params: Mapping[str, object], file: ast.RuleFile) -> bool:
        if isinstance(condition, ast.Unary):
            return not self.holds(condition.operand, params, file)
        if isinstance(condition, ast.Compare):
            assert isinstance(condition.left, ast.Name)
            wanted = self.key(params[condition.left.id])
            return wanted in {self.key(m) for m in self.scope.members(condition.right, file)}
        assert isinstance(condition, ast.Call)
        return next(self.extend(condition, dict(params), file), None) is not None

    def extend(self, call: ast.Call, params: Params, file: ast.RuleFile) -> Iterator[Params]:
        """The ways to bind what is unbound in a positive relation."""
        assert isinstance(call.head, ast.Name)
        known: list[object | None] = []
        free: list[str | None] = []
        for operand in call.operands:
            name = operand.id if isinstance(operand, ast.Name) else None
            unbound = name is not None and name not in params
            free.append(name if unbound else None)
            known.append(None if unbound else self.value(operand, params, file))
        first = next((i for i, name in enumerate(free) if name is None), None)
        rows = self.rows(call.head.id) if first is None else self.matching(call.head.id, first, known[first])
        for row in rows:
            if len(row) != len(free):
                continue
            bound = dict(params)
            for entry, name, value in zip(row, free, known, strict=True):
                if name is None:
                    if self.key(entry) != self.key(value):
                        break
                elif name == "_":
                    continue
                elif name in bound and self.key(bound[name]) != self.key(entry):
                    break
                else:
                    bound.setdefault(name, entry)
            else:
                yield bound

    def instances(
        self, over: Sequence[ast.Member], when: Sequence[ast.Expr], file: ast.RuleFile
    ) -> Iterator[tuple[Params, tuple[ast.Expr, ...]]]:
        """Every binding of the operator parameters that the ground conditions allow, and the conditions left."""
        names = {m.name for m in over}
        domains: dict[str, dict[object, OperatorDef]] = {}
        for member in over:
            domains[member.name] = {self.key(d): d for d in self.scope.members(member.domain, file)}
        ground = [c for c in when if self._is_condition(c, names) and self._about(c, names)]
        rest = tuple(c for c in when if c not in ground)
        positive = [c for c in ground if isinstance(c, ast.Call)]
        tests = [c for c in ground if not isinstance(c, ast.Call)]
        found: list[Params] = [{}]
        waiting = list(over)
        # Relations first: they bind most parameters at once; what they leave is taken from its class.
        for call in sorted(positive, key=lambda c: -sum(isinstance(o, ast.Name) and o.id in names for o in c.operands)):
            seeds: list[Params] = []
            for params in found:
                unbound = [
                    o.id for o in call.operands if isinstance(o, ast.Name) and o.id in names and o.id not in params
                ]
                if len(unbound) > 1:
                    smallest = min(unbound, key=lambda n: len(domains[n]))
                    seeds += [params | {smallest: d} for d in domains[smallest].values()]
                else:
                    seeds.append(params)
            grown: list[Params] = []
            for params in seeds:
                for bound in self.extend(call, params, file):
                    if all(n not in bound or self.key(bound[n]) in domains[n] for n in names):
                        grown.append(bound)
            found = grown
        for member in waiting:
            found = [
                params if member.name in params else params | {member.name: d}
                for params in found
                for d in (domains[member.name].values() if member.name not in params else (None,))
            ]
        for params in found:
            if all(self.holds(test, params, file) for test in tests):
                yield params, rest

    def _about(self, condition: ast.Expr, names: set[str]) -> bool:
        """Whether a condition speaks of parameters or of ground relations only (and so is decided now)."""
        match condition:
            case ast.Unary(operand=inner):
                return self._about(inner, names)
            case ast.Compare(left=ast.Name(id=name)):
                return name in names
            case ast.Call(head=ast.Name(id=name)):
                return name in self.relations()
        return False

    def close(self, relation: str = "same_operator") -> dict[str, tuple[str, ...]]:
        """Joins definitions that `relation` says are one operator: oldest key -> all keys, oldest first."""
        parent: dict[str, str] = {}
        defined: dict[str, OperatorDef] = {}

        def find(key: str) -> str:
            while parent.setdefault(key, key) != key:
                parent[key] = parent[parent[key]]
                key = parent[key]
            return key

        for row in self.rows(relation) if relation in self.relations() else ():
            older, newer = row[0], row[1]
            assert isinstance(older, OperatorDef) and isinstance(newer, OperatorDef)
            defined[older.key], defined[newer.key] = older, newer
            parent[find(newer.key)] = find(older.key)
        groups: dict[str, list[str]] = {}
        for key in defined:
            groups.setdefault(find(key), []).append(key)
        closed: dict[str, tuple[str, ...]] = {}
        for keys in groups.values():
            ordered = sorted(keys, key=lambda k: _version(defined[k].since))
            closed[ordered[0]] = tuple(ordered)
            self.representative.update(dict.fromkeys(ordered, ordered[0]))
        self._index.clear()
        # A bump within one semantic version is none: rules between versions would go from an operator to itself.
        for table in list(self._rows):
            self._rows[table] = [
                row
                for row in self._rows[table]
                if table == relation
                or len(row) != 2
                or not isinstance(row[1], OperatorDef)
                or self.key(row[0]) != self.key(row[1])
            ]
        return closed


def _version(since: str) -> tuple[int, ...]:
    return tuple(int(p) for p in since.split("."))


def _signed(value: object) -> bool:
    """Tells minus zero from zero."""
    return isinstance(value, float) and str(value).startswith("-")
