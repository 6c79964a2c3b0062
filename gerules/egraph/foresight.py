"""What is known of a graph's values before any rewriting, in one walk over its nodes.

The facts about shapes and contents would find the same in the e-graph, but one node deeper an iteration; an iteration
looks at the whole graph, and graphs are hundreds of nodes deep. So they are drawn here first, node by node, and the
e-graph draws them for what rules make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gerules.dsl import ast
from gerules.dsl.program import Entry, Program
from gerules.egraph.answers import known_entries, read
from gerules.egraph.encode import NO_VALUE, Encoded, Loaded
from gerules.egraph.fold import fold
from gerules.egraph.ground import Ground, Scope
from gerules.egraph.host import Run
from gerules.egraph.lower import tells_info
from gerules.egraph.signature import Signature, Signatures
from gerules.egraph.texts import as_array, node_texts
from gerules.errors import GerulesError
from gerules.graph import constants
from gerules.graph.constants import ConstantTable
from gerules.graph.dims import Dim, DimFacts
from gerules.graph.infer import infer_node
from gerules.graph.info import UNKNOWN, Contradiction, Entries, Info, InfoError, join
from gerules.registry.definition import OperatorDef
from gerules.static import TensorView, Unknown, compile_expr
from gerules.static.values import Value
from gerules.target.clauses import Clause, Surroundings, compile_clause

ROUNDS = 3
"""How often the facts of one node are drawn: one may wait for what another says of the same node."""

_NO_TABLE = ConstantTable()  # stays empty: only for constants that are spelled out
Draw = Callable[[Info, Mapping[str, Value]], Info]


@dataclass(frozen=True)
class Fact:
    """One conclusion about the result `target` of a pattern of one operator."""

    clause: Clause
    definition: OperatorDef
    """The version that the fact speaks of; an older node that this one only added to is seen as one of it."""
    target: str
    draw: Draw


def compile_facts(
    program: Program,
    ground: Ground,
    signatures: Signatures,
    entries: Sequence[Entry[ast.Fact] | Entry[ast.Rewrite]],
    facts: DimFacts,
) -> dict[str, list[Fact]]:
    """Constructor -> the facts about its nodes, and what rewrites with a value on the right say of their contents.

    What looks at more than one operator is left to the e-graph.
    """
    scope = ground.scope
    lifted = _lifted(program, scope, signatures)
    found: dict[str, list[Fact]] = {}
    for entry in entries:
        statement = entry.statement
        if isinstance(statement, ast.Rewrite):
            terms, conclusions = _of_rewrite(statement)
        else:
            terms = [c for c in statement.when if _is_term(c)]
            conclusions = [c for c in statement.conclusions if tells_info(c)]
        if len(terms) != 1 or not conclusions:
            continue
        rest = tuple(c for c in statement.when if c is not terms[0])
        around = Surroundings.of(program, entry.file, facts)
        try:
            clause = compile_clause(terms[0], statement.over, rest, around)
            drawn = [(_target(c), _draw(c, around)) for c in conclusions]
        except GerulesError:
            continue  # a form that only the e-graph has: it is drawn there
        named = _operators(terms[0], statement.over, entry.file, scope, signatures)
        for version in dict.fromkeys(named):
            for signature in _older(version, ground, signatures, lifted):
                made = [Fact(clause, version.newest, t, d) for t, d in drawn]
                found.setdefault(signature.constructor, []).extend(made)
    return found


ROOT = "root_"


def _of_rewrite(rule: ast.Rewrite) -> tuple[list[ast.Expr], list[ast.Expr]]:
    """`f(...) => const(v)` as a fact: the contents of f's result."""
    value = rule.right
    if rule.both or rule.exactness or not (isinstance(value, ast.Call) and isinstance(value.head, ast.Name)):
        return [], []
    first = value.operands[0] if value.operands else None
    computed = isinstance(first, ast.Call) and first.head == ast.Name("evaluate")
    if value.head.id not in ("const", "dims", "dim") or computed:
        return [], []
    named = rule.left if isinstance(rule.left, ast.Bind) else ast.Bind(rule.left, ROOT, span=rule.left.span)
    return [named], [ast.Compare("==", ast.Name(named.name), value, span=rule.span)]


def _is_term(condition: ast.Expr) -> bool:
    inner = condition.expr if isinstance(condition, ast.Bind) else condition
    return isinstance(inner, ast.Call) and (
        isinstance(inner.head, ast.Symbol) or (isinstance(condition, ast.Bind) and isinstance(inner.head, ast.Name))
    )


def _operators(
    term: ast.Expr, over: Sequence[ast.Member], file: ast.RuleFile, scope: Scope, signatures: Signatures
) -> Iterator[Signature]:
    """The semantic versions that the pattern's root stands for in its file."""
    call = term.expr if isinstance(term, ast.Bind) else term
    assert isinstance(call, ast.Call)
    if isinstance(call.head, ast.Symbol):
        members: Sequence[OperatorDef] = (scope.operator(call.head, file),)
    else:
        domain = next((m.domain for m in over if isinstance(call.head, ast.Name) and m.name == call.head.id), None)
        members = scope.members(domain, file) if domain is not None else ()
    yield from dict.fromkeys(signatures.of(m) for m in members)


def _older(
    signature: Signature, ground: Ground, signatures: Signatures, lifted: Mapping[str, Sequence[Signature]]
) -> Iterator[Signature]:
    """A semantic version and the older ones that become it as they are: it only added to them (what it says of its
    defaults holds of them), or a rule lifts them operand by operand and attribute by attribute."""
    waiting, seen = [signature], {signature.constructor}
    while waiting:
        current = waiting.pop()
        yield current
        older = list(lifted.get(current.constructor, ()))
        newest = current.definition
        if not ("changes" in ground.relations() and ground.matching("changes", 0, newest)):
            rows = ground.matching("grows", 1, newest)
            older += [signatures.of(row[0]) for row in rows if isinstance(row[0], OperatorDef)]
        for one in older:
            if one.constructor not in seen:
                seen.add(one.constructor)
                waiting.append(one)


def _lifted(program: Program, scope: Scope, signatures: Signatures) -> dict[str, list[Signature]]:
    """Newer constructor -> older versions that an unconditional rule lifts as they are."""
    found: dict[str, list[Signature]] = {}
    for entry in program.rewrites.values():
        rule = entry.statement
        if rule.when or rule.over or rule.exactness:
            continue
        for left, right in [(rule.left, rule.right), *([(rule.right, rule.left)] if rule.both else [])]:
            if not (isinstance(left, ast.Call) and isinstance(right, ast.Call)):
                continue
            if not (isinstance(left.head, ast.Symbol) and isinstance(right.head, ast.Symbol)):
                continue
            if left.head.name != right.head.name or left.operands != right.operands:
                continue
            older, newer = (signatures.of(scope.operator(h, entry.file)) for h in (left.head, right.head))
            given = {k.name: k.value for k in left.keywords}
            plain = all(isinstance(v, ast.Name) for v in (*left.operands, *given.values()))
            whole = set(given) == {a.name for a in older.definition.attributes}
            same = given == {k.name: k.value for k in right.keywords if k.name in given}
            if plain and whole and same and len(right.keywords) == len(given) and older is not newer:
                found.setdefault(newer.constructor, []).append(older)
    return found


def _target(conclusion: ast.Expr) -> str:
    assert isinstance(conclusion, ast.Compare)
    left = conclusion.left.base if isinstance(conclusion.left, ast.Field) else conclusion.left
    assert isinstance(left, ast.Name)
    return left.id


def _draw(conclusion: ast.Expr, around: Surroundings) -> Draw:
    assert isinstance(conclusion, ast.Compare)
    if isinstance(conclusion.left, ast.Field):
        shape_of = compile_expr(conclusion.right, around.context)
        return lambda info, env: Info(info.dtype, _dims(shape_of(env)))
    call = conclusion.right
    assert isinstance(call, ast.Call)
    value_of = compile_expr(call.operands[0], around.context)
    if call.head == ast.Name("const"):

        def constant(info: Info, env: Mapping[str, Value]) -> Info:
            array = as_array(value_of(env), info.dtype)
            if array.nbytes > constants.MAX_INLINE_BYTES:
                raise Unknown("a constant of this size is the e-graph's")
            return Info.of_constant(constants.encode(array, _NO_TABLE))

        return constant
    if call.head == ast.Name("dims"):

        def listed(info: Info, env: Mapping[str, Value]) -> Info:
            dims = _dims(value_of(env))
            return Info(info.dtype, (Dim.of(len(dims)),), Entries(dims))

        return listed
    return lambda info, env: Info(info.dtype, (), Entries(known_entries((value_of(env),))))


def _dims(value: Value) -> tuple[Dim | None, ...]:
    if not isinstance(value, tuple):
        raise Unknown("this is no shape")
    return tuple(None if v is None else known_entries((v,))[0] for v in value)


class _View:
    """A loaded graph as patterns see it: nodes as loaded, values by number."""

    def __init__(
        self, encoded: Encoded, infos: list[Info], definitions: Mapping[int, OperatorDef], table: ConstantTable
    ):
        self.encoded, self.infos, self.definitions, self.table = encoded, infos, definitions, table
        self.makers = {r: n for n in encoded.nodes for r in n.results if r != NO_VALUE}
        self.views: dict[int, TensorView] = {}
        self.seen_as: tuple[Loaded, OperatorDef] | None = None

    def operator(self, node: Loaded) -> OperatorDef:
        if self.seen_as is not None and self.seen_as[0] is node:
            return self.seen_as[1]
        return self.definitions.get(node.number) or OperatorDef(node.node.domain, node.node.op_type, "", (), (), ())

    def attributes(self, node: Loaded) -> Mapping[str, str]:
        texts = {} if node.signature is None else node_texts(node.signature, node.columns)
        return {a.name: texts.get(a.name, a.default or "") for a in self.operator(node).attributes}

    def operands(self, node: Loaded) -> Sequence[int | None]:
        operands = [None if o == NO_VALUE else o for o in node.operands]
        while operands and operands[-1] is None:
            operands.pop()
        return operands

    def results(self, node: Loaded) -> Sequence[int | None]:
        return [None if r == NO_VALUE else r for r in node.results]

    def producers(self, value: int) -> Sequence[Loaded]:
        return (self.makers[value],) if value in self.makers else ()

    def tensor(self, value: int) -> TensorView:
        info = self.infos[value]
        known = self.views.get(value)
        if known is None or known.info is not info:
            text = info.constant_text
            known = TensorView(info, None if text is None else constants.decode(text, self.table))
            self.views[value] = known
        return known


def foresee(
    encoded: Encoded,
    facts: Mapping[str, Sequence[Fact]],
    definitions: Mapping[int, OperatorDef],
    table: ConstantTable,
) -> None:
    """Completes what is known of the values of `encoded`, operands before results. `definitions` are those of its
    nodes by number. A contradiction with what was declared is left for the e-graph to report."""
    infos = [encoded.infos.get(k, UNKNOWN) for k in range(len(encoded.values))]
    for number, text in encoded.constant.items():
        infos[number] = Info.of_constant(text)
    view = _View(encoded, infos, definitions, table)
    for node in encoded.nodes:
        definition = definitions.get(node.number)
        if node.signature is None or definition is None:
            continue
        operands = [None if o == NO_VALUE else infos[o] for o in node.operands]
        while operands and operands[-1] is None:
            operands.pop()
        folded = _folded(node, operands, table)
        if folded is not None:
            for result, text in zip(node.results, folded, strict=False):
                if result != NO_VALUE:
                    infos[result] = Info.of_constant(text)
            continue
        inferred = infer_node(definition, node_texts(node.signature, node.columns), operands, len(node.results))
        for result, info in zip(node.results, inferred, strict=False):
            if result != NO_VALUE:
                infos[result] = _joined(infos[result], info)
        for _ in range(ROUNDS):
            if not _drawn(node, facts.get(node.signature.constructor, ()), view, infos):
                break
    for number, info in enumerate(infos):
        if number not in encoded.constant and info is not UNKNOWN:
            encoded.infos[number] = info


def _folded(node: Loaded, operands: Sequence[Info | None], table: ConstantTable) -> tuple[str, ...] | None:
    """The results of a node on small constants; None where it is none of that kind."""
    assert node.signature is not None
    if node.signature.impure or not operands:
        return None
    texts = [None if o is None else o.constant_text for o in operands]
    if any(o is not None and (t is None or not constants.is_inline(t)) for o, t in zip(operands, texts, strict=True)):
        return None
    run = Run(table, DimFacts(), fold_bytes=constants.MAX_INLINE_BYTES)
    arrays = [None if t is None else constants.decode(t, table) for t in texts]
    kinds = [(a.name, node.signature.kind(a.name)) for a in node.signature.attributes]
    values = {name: read(kind, text, run) for (name, kind), text in zip(kinds, node.columns, strict=True)}
    return fold(run, node.signature, arrays, values)


def _drawn(node: Loaded, facts: Sequence[Fact], view: _View, infos: list[Info]) -> bool:
    changed = False
    for fact in facts:
        view.seen_as = (node, fact.definition)
        for found in fact.clause.solutions(view, node):
            behind = found.behind.get(fact.target)
            result = behind if isinstance(behind, int) else next((r for r in node.results if r != NO_VALUE), None)
            if result not in node.results or infos[result] is UNKNOWN:
                break
            try:
                info = _joined(infos[result], fact.draw(infos[result], found.env))
            except (Unknown, InfoError):
                break
            if info.text != infos[result].text:
                infos[result] = info
                changed = True
            break
    return changed


def _joined(old: Info, new: Info) -> Info:
    if new is UNKNOWN:
        return old
    if old is UNKNOWN:
        return new
    try:
        return join(old, new)
    except Contradiction:
        return old
