"""Mistakes in the terms of a rewrite: operands in another order, numbers and axes off by one, attributes exchanged or
left out, another version, a relative of the operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gerules.dsl import ast
from gerules.dsl.fits import RESULTS
from gerules.dsl.lets import walk
from gerules.dsl.program import Entry, Program
from gerules.dsl.resolve import OPAQUE
from gerules.dsl.show import show
from gerules.egraph.program import Knowledge
from gerules.errors import GerulesError
from gerules.registry.definition import OPTIONAL, VARIADIC, Attribute, Operand, OperatorDef
from gerules.registry.registry import grows
from gerules.verify.trees import Change, Path, at, changed, spots

LARGEST: Final = 1 << 15
"""Numbers beyond this stand for an end of a range: one more or less is the same end."""

SIBLINGS: Final = 2

INDEX_TYPES: Final = 2
"""Operands that have no more element types in common are not of one kind."""


def side_changes(side: ast.Expr, entry: Entry[ast.Rewrite], known: Knowledge, *, made: bool) -> Iterator[Change]:
    """One side of a rewrite with each mistake; `made` where the side is built, else it is only matched."""
    builder = _Side(side, entry, known, made)
    for path, node in spots(side):
        if isinstance(node, ast.Call) and builder.operator(node):
            yield from builder.operands(path, node)
            yield from builder.attributes(path, node)
            yield from builder.versions(path, node)
            yield from builder.relatives(path, node)
        elif isinstance(node, ast.Number):
            yield from builder.numbers(path, node)
        elif isinstance(node, ast.Index) and made:
            yield from builder.indices(path, node)


def _members(entry: Entry[ast.Rewrite], known: Knowledge) -> dict[str, tuple[OperatorDef, ...]]:
    """What each operator parameter stands for once the conditions on operators are decided."""
    found: dict[str, dict[str, OperatorDef]] = {m.name: {} for m in entry.statement.over}
    if found:
        for params, _ in known.ground.instances(entry.statement.over, entry.statement.when, entry.file):
            for name, value in params.items():
                if name in found and isinstance(value, OperatorDef):
                    found[name][value.key] = value
    return {name: tuple(members.values()) for name, members in found.items()}


def class_changes(entry: Entry[ast.Rewrite], known: Knowledge) -> Iterator[Change]:
    """The operator parameters of a rewrite (`over`) with one operator more: of the form of one that is in the class,
    from the smallest class around it. One that the other conditions on operators keep out is none."""
    rule, program = entry.statement, known.program
    for place, member in enumerate(rule.over):
        inside = [d for d in program.members(member.domain, entry.file) if not d.domain]
        names = {d.name for d in inside}
        forms = {_form(d) for d in inside}
        homes = [
            m.keys for m in program.classes.values() if m.kind == "operators" and {d.key for d in inside} & {*m.keys}
        ]
        found = 0
        for key in dict.fromkeys(key for home in sorted(homes, key=len) for key in home if key != OPAQUE):
            other = program.definition(key)
            if other.name in names or other.deprecated or _form(other) not in forms or found >= SIBLINGS:
                continue
            more = ast.Binary("|", member.domain, ast.Symbol(other.domain, other.name, other.since))
            over = (*rule.over[:place], replace(member, domain=more), *rule.over[place + 1 :])
            if not _members_fit(over, member.name, other, rule, entry, known):
                continue
            found += 1
            yield Change(
                "operator", over, f"`{member.name} in {show(more)}` for `{member.name} in {show(member.domain)}`"
            )


def _members_fit(
    over: tuple[ast.Member, ...],
    name: str,
    wanted: OperatorDef,
    rule: ast.Rewrite,
    entry: Entry[ast.Rewrite],
    known: Knowledge,
) -> bool:
    """Whether the conditions on operators alone leave the new one in."""
    instances = known.ground.instances(over, rule.when, entry.file)
    return any(isinstance(p[name], OperatorDef) and p[name] == wanted for p, _ in instances)


class _Side:
    def __init__(self, side: ast.Expr, entry: Entry[ast.Rewrite], known: Knowledge, made: bool) -> None:
        program = known.program
        self.side, self.known, self.program, self.made, self.file = side, known, program, made, entry.file
        self.statement = entry.statement
        self.params = {m.name: m.domain for m in entry.statement.over}
        self.members = _members(entry, known)
        self.element_type_attributes = _element_type_attributes(program)
        right = entry.statement.right
        self.lone = not made and not any(self.operator(n) for n in walk(right) if isinstance(n, ast.Call))
        """Whether the other side is no operator, so that this one takes the mistakes meant for it."""

    def operator(self, call: ast.Call) -> bool:
        if isinstance(call.head, ast.Name):
            return call.head.id in self.params
        return isinstance(call.head, ast.Symbol)

    def definitions(self, call: ast.Call) -> tuple[OperatorDef, ...]:
        """What the head of a call may be; empty where its registry is not loaded."""
        try:
            if isinstance(call.head, ast.Name):
                return self.members[call.head.id]
            assert isinstance(call.head, ast.Symbol)
            return self.program.resolve(call.head, self.file)
        except GerulesError:
            return ()

    def change(self, kind: str, path: Path, new: ast.Expr) -> Change:
        old = at(self.side, path)
        assert not isinstance(old, ast.Keyword)
        return Change(kind, changed(self.side, path, new), f"`{show(new)}` for `{show(old)}`")  # type: ignore[arg-type]

    # --------------------------------------------------------------------------------------------------------- operands

    def operands(self, path: Path, call: ast.Call) -> Iterator[Change]:
        """Neighbours of one kind exchanged; one that may be absent left out; a rest left behind."""
        definitions = self.definitions(call)
        commutative = {self.known.semantic(self.program.definition(key)) for key in self._members("Commutative")}
        swaps = not (definitions and all(self.known.semantic(d) in commutative for d in definitions))
        for place in range(len(call.operands) - 1):
            first, second = call.operands[place : place + 2]
            if isinstance(first, ast.Rest) or isinstance(second, ast.Rest) or first == second or not swaps:
                continue
            if any(_absent(o) for o in (first, second)):
                continue
            # A pattern that names its node has to name it before it speaks of it.
            named = any(isinstance(n, ast.Index | ast.Bind) for o in (first, second) for n in walk(o))
            alike = _exchangeable if self.made else _alike
            if (self.made or not named) and any(alike(d, place) for d in definitions):
                order = (*call.operands[:place], second, first, *call.operands[place + 2 :])
                yield self.change("swap", path, replace(call, operands=order))
        if not self.made:
            return
        for place, operand in enumerate(call.operands):
            rest = isinstance(operand, ast.Rest)
            optional = any(place < len(d.inputs) and d.inputs[place].kind == OPTIONAL for d in definitions)
            if rest and isinstance(call.operands[place].expr, ast.Name) and place == len(call.operands) - 1:  # type: ignore[union-attr]
                if self._counted(call, definitions):
                    continue
                yield self.change("attribute", path, replace(call, operands=call.operands[:place]))
            elif not rest and optional and not _absent(operand):
                order = (*call.operands[:place], ast.Word("none"), *call.operands[place + 1 :])
                yield self.change("swap", path, replace(call, operands=order))

    def _counted(self, call: ast.Call, definitions: tuple[OperatorDef, ...]) -> bool:
        """Whether only the rest says how many results there are: without it there is no node to build."""
        if any(k.name == RESULTS for k in call.keywords):
            return False
        signatures = (self.known.signatures.of(d) for d in definitions)
        return any(a.name == RESULTS and a.default is None for s in signatures for a in s.attributes)

    def _members(self, name: str) -> frozenset[str]:
        found = self.program.classes.get(name)
        return frozenset(found.keys) if found is not None else frozenset()

    # ------------------------------------------------------------------------------------------------------- attributes

    def attributes(self, path: Path, call: ast.Call) -> Iterator[Change]:
        """Each left out; where the side is made, also off by one, and two of one type exchanged."""
        definitions = self.definitions(call)
        for place, keyword in enumerate(call.keywords):
            found = [a for d in definitions for a in d.attributes if a.name == keyword.name]
            if keyword.name == RESULTS or not found:
                continue
            told = any(a.required for a in found) or _absent(keyword.value) or _default(keyword.value, found)
            # Any value in place of the default: without it the rule only fires less often.
            if not told and keyword.value != ast.Name("_"):
                fewer = (*call.keywords[:place], *call.keywords[place + 1 :])
                yield self.change("attribute", path, replace(call, keywords=fewer))
            if self.made and found[0].type in ("int", "ints", "shape") and not self._literal(keyword):
                more = replace(keyword, value=ast.Binary("+", keyword.value, ast.Number(1)))
                yield self.change("shift", path, _with(call, place, more))
            for other in range(place + 1, len(call.keywords) if self.made else 0):
                later = call.keywords[other]
                names = (keyword.name, later.name)
                kinds = {
                    (a.type, a.name in self.element_type_attributes)
                    for d in definitions
                    for a in d.attributes
                    if a.name in names
                }
                if later.name != RESULTS and len(kinds) == 1 and later.value != keyword.value:
                    swapped = _with(call, place, replace(keyword, value=later.value))
                    yield self.change("attribute", path, _with(swapped, other, replace(later, value=keyword.value)))

    def _literal(self, keyword: ast.Keyword) -> bool:
        """Numbers are shifted where they stand; an element type and an absent value have no neighbours."""
        value = keyword.value
        if isinstance(value, ast.Unary) and value.op == "-":
            value = value.operand
        return (
            isinstance(value, ast.Number | ast.Text | ast.Word)
            or keyword.name in self.element_type_attributes
            or (isinstance(value, ast.ListExpr) and all(isinstance(i, ast.Number) for i in value.items))
        )

    def numbers(self, path: Path, node: ast.Number) -> Iterator[Change]:
        """One more and one less; of a switch (0 or 1 as an attribute) the other position."""
        if abs(node.value) > LARGEST:
            return
        negative = bool(path) and self._negated(path)
        value = -node.value if negative else node.value
        place = path[:-1] if negative else path
        parent = at(self.side, place[:-1]) if place else None
        if isinstance(parent, ast.Keyword) and parent.name == RESULTS:
            return
        if isinstance(parent, ast.Index) and place[-1][0] == "index" and self._is_node(parent.base):
            others = [v for v in (value + 1, value - 1) if 0 <= v < self.results]
        elif isinstance(parent, ast.Keyword) and value in (0, 1) and isinstance(node.value, int):
            others = [1 - value, value + 1] if "axis" in parent.name else [1 - value]
        else:
            others = [value + 1, value - 1]
        for other in others:
            new = ast.Unary("-", ast.Number(-other)) if other < 0 else ast.Number(other)
            yield self._around(place, new)

    def _is_node(self, base: ast.Expr) -> bool:
        if isinstance(base, ast.Name):
            sides = (self.statement.left, self.statement.right)
            return any(isinstance(n, ast.Bind) and n.name == base.id for side in sides for n in walk(side))
        return isinstance(base, ast.Call | ast.Bind)

    @property
    def results(self) -> int:
        """How many results nodes of this rule have: as many as it says, else as it takes."""
        sides = (self.statement.left, self.statement.right)
        found = [n for side in sides for n in walk(side)]
        said = [
            n.value.value
            for n in found
            if isinstance(n, ast.Keyword) and n.name == RESULTS and isinstance(n.value, ast.Number)
        ]
        return int(max(said)) if said else 2

    def _negated(self, path: Path) -> bool:
        above = at(self.side, path[:-1])
        return isinstance(above, ast.Unary) and above.op == "-"

    def _around(self, place: Path, new: ast.Expr) -> Change:
        """A change of a number, told with what stands around it."""
        outer = next((place[:cut] for cut in range(len(place) - 1, -1, -1) if _tells(at(self.side, place[:cut]))), ())
        whole = changed(self.side, place, new)
        what = f"`{show(at(whole, outer))}` for `{show(at(self.side, outer))}`"  # type: ignore[arg-type]
        return Change("shift", whole, what)

    def indices(self, path: Path, node: ast.Index) -> Iterator[Change]:
        """`q[p]` for `p[q]`, where both are attributes of the left side: lists of one kind."""
        if not isinstance(node.base, ast.Name) or not isinstance(node.index, ast.Name):
            return
        lists = {
            k.value.id
            for call in walk(self.statement.left)
            if isinstance(call, ast.Call) and self.operator(call)
            for k in call.keywords
            for d in self.definitions(call)
            if isinstance(k.value, ast.Name) and (a := d.attribute(k.name)) is not None and a.type in ("ints", "shape")
        }
        if {node.base.id, node.index.id} <= lists:
            yield self.change("swap", path, ast.Index(node.index, node.base))

    # -------------------------------------------------------------------------------------------------------- operators

    def versions(self, path: Path, call: ast.Call) -> Iterator[Change]:
        """The meanings next to the one meant. Where versions are one operator, or the newer only grew, there is no
        mistake to make: rules between them say that they are the same."""
        if not isinstance(call.head, ast.Symbol) or call.head.domain not in ("", "ai.onnx"):
            return
        for definition in self.definitions(call)[-1:]:
            signature = self.known.signatures.of(definition)
            for older, newer in self.known.ground.rows("bump"):
                assert isinstance(older, OperatorDef) and isinstance(newer, OperatorDef)
                if older.name != definition.name or older.domain or (grows(older, newer) and not self._meant(newer)):
                    continue
                if frozenset((older.key, newer.key)) in joined(self.known):
                    continue
                for this, other in ((older, newer), (newer, older)):
                    if self.known.signatures.of(this) is signature:
                        head = replace(call.head, version=self.known.signatures.of(other).definition.since)
                        yield self.change("version", path, replace(call, head=head))

    def _meant(self, newer: OperatorDef) -> bool:
        """Whether a fact says that the version changed the operator's meaning."""
        ground = self.known.ground
        return "changes" in ground.relations() and bool(ground.matching("changes", 0, newer))

    def relatives(self, path: Path, call: ast.Call) -> Iterator[Change]:
        """Other members of the smallest class that the operator is in, of the same form."""
        if not (self.made or self.lone) or not isinstance(call.head, ast.Symbol):
            return
        definitions = self.definitions(call)
        if not definitions:
            return
        form = _form(definitions[-1])
        homes = [
            m.keys for m in self.program.classes.values() if m.kind == "operators" and definitions[-1].key in m.keys
        ]
        found = 0
        for home in sorted(homes, key=len):
            for key in home:
                other = self.program.definition(key) if key != OPAQUE else None
                if other is None or other.name == call.head.name or other.deprecated or _form(other) != form:
                    continue
                head = ast.Symbol(call.head.domain, other.name, other.since)
                yield self.change("operator", path, replace(call, head=head))
                found += 1
                if found >= SIBLINGS:
                    return


def joined(known: Knowledge) -> frozenset[frozenset[str]]:
    """Pairs of versions that a rewrite without conditions says to be the same on the same operands and attributes,
    whatever further attributes one of them may have."""
    kept = known.kept.get("joined versions")
    if kept is None:
        kept = known.kept["joined versions"] = frozenset(_joined(known))
    assert isinstance(kept, frozenset)
    return kept


def _joined(known: Knowledge) -> Iterator[frozenset[str]]:
    for entry in known.program.rewrites.values():
        left, right = entry.statement.left, entry.statement.right
        if not isinstance(left, ast.Call) or not isinstance(right, ast.Call) or left == right:
            continue
        said = [tuple(k for k in side.keywords if k.value != ast.Name("_")) for side in (left, right)]
        if left.operands != right.operands or said[0] != said[1]:
            continue
        try:
            for params, rest in known.ground.instances(entry.statement.over, entry.statement.when, entry.file):
                heads = [
                    params.get(h.id) if isinstance(h, ast.Name) else known.ground.scope.operator(h, entry.file)
                    for h in (left.head, right.head)
                    if isinstance(h, ast.Name | ast.Symbol)
                ]
                keys = [h.key for h in heads if isinstance(h, OperatorDef)]
                if not rest and len(keys) == 2:
                    yield frozenset(keys)
        except GerulesError:
            continue


def _with(call: ast.Call, place: int, keyword: ast.Keyword) -> ast.Call:
    return replace(call, keywords=(*call.keywords[:place], keyword, *call.keywords[place + 1 :]))


def _default(value: ast.Expr, found: list[Attribute]) -> bool:
    """Whether an attribute is written with the value that it has anyhow."""
    text = show(value.operand) if isinstance(value, ast.Unary) else show(value)
    text = f"-{text}" if isinstance(value, ast.Unary) else text
    return all(a.default == (value.value if isinstance(value, ast.Text) else text) for a in found)


def _absent(operand: ast.Expr) -> bool:
    return isinstance(operand, ast.Word) and operand.word == "none"


def _formal(definition: OperatorDef, place: int) -> Operand | None:
    inputs = definition.inputs
    if place < len(inputs):
        return inputs[place]
    return inputs[-1] if inputs and inputs[-1].kind == VARIADIC else None


def _alike(definition: OperatorDef, place: int) -> bool:
    """Whether the operands at `place` and after it are tensors of one type."""
    first, second = _formal(definition, place), _formal(definition, place + 1)
    return first is not None and second is not None and first.type == second.type and first.kind == second.kind


def _exchangeable(definition: OperatorDef, place: int) -> bool:
    """Whether the operands at `place` and after it can change places in a well-typed call: indices and axes, which
    have types of their own, cannot. What element types rule out is no mistake that trials are needed for."""
    first, second = _formal(definition, place), _formal(definition, place + 1)
    if first is None or second is None:
        return False
    return first.type == second.type or len(frozenset(first.types) & frozenset(second.types)) > INDEX_TYPES


def _form(definition: OperatorDef) -> object:
    """Operators of one form can stand for each other in a call."""
    return (
        tuple((o.kind, frozenset(o.types)) for o in definition.outputs),
        tuple((o.kind, o.types) for o in definition.inputs),
        tuple((a.name, a.type, a.required) for a in definition.attributes),
    )


def _tells(node: ast.Node) -> bool:
    """Whether a number is understood from this node around it."""
    return isinstance(node, ast.Call | ast.Index) and not isinstance(node, ast.Keyword)


def _element_type_attributes(program: Program) -> frozenset[str]:
    """Names of attributes that facts say to be element types."""
    return frozenset(
        operand.value
        for entry in program.facts.values()
        for conclusion in entry.statement.conclusions
        if isinstance(conclusion, ast.Call) and conclusion.head == ast.Name("dtype_attribute")
        for operand in conclusion.operands
        if isinstance(operand, ast.Text)
    )
