"""A graph as facts: rows of tab-separated text that a few `load` rules turn into terms.

Values are numbered in order of appearance; `(V i)` is value i. What has no operator definition or no text form for its
attributes (foreign operators, function calls, control flow with its bodies) is an `Opaque` node: its number, and the
values that it and its bodies read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from gerules.egraph.host import ABSENT, ARGUMENT, SEPARATOR
from gerules.egraph.signature import Signature
from gerules.egraph.texts import column_texts
from gerules.graph import constants
from gerules.graph.attributes import node_attributes
from gerules.graph.info import Info
from gerules.registry.definition import OperatorDef

NO_VALUE = -1


@dataclass(frozen=True)
class Loaded:
    """One node as it was loaded. `signature` is None for an opaque one; `operands` are value numbers, -1 absent; for
    an opaque node they include what its bodies capture, without repeats."""

    node: ir.Node
    number: int
    signature: Signature | None
    operands: tuple[int, ...]
    columns: tuple[str, ...]
    results: tuple[int, ...]
    rule: str = ""
    """The rule that says so, for a node of an expansion; "" for one of the graph."""


@dataclass(frozen=True)
class Expansion:
    """Nodes beside a graph that compute what a node of it does, or one of another expansion. `same` has pairs of a
    value of `owner` and the value that it is; `rule` is the rule that says so."""

    owner: ir.Node
    nodes: tuple[ir.Node, ...]
    same: tuple[tuple[ir.Value, ir.Value], ...]
    rule: str


@dataclass
class Encoded:
    """A graph's rows by input relation, and what the numbers stand for."""

    values: list[ir.Value] = field(default_factory=list)
    number: dict[ir.Value, int] = field(default_factory=dict)
    nodes: list[Loaded] = field(default_factory=list)
    rows: dict[str, list[str]] = field(default_factory=dict)
    arities: dict[str, int] = field(default_factory=dict)
    """Input relations of variadic operators: how many operands lie in the Vec."""
    relations: dict[str, Signature | None] = field(default_factory=dict)
    constant: dict[int, str] = field(default_factory=dict)
    infos: dict[int, Info] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)
    """Input relations of expansions -> their rule."""
    inner: set[int] = field(default_factory=set)
    """Values of expansions."""

    def of(self, value: ir.Value) -> int:
        known = self.number.get(value)
        if known is None:
            known = self.number[value] = len(self.values)
            self.values.append(value)
        return known


def captured_values(node: ir.Node) -> Iterator[ir.Value]:
    """Values that the bodies of a node read from outside, in order of reading, each once."""
    seen: set[ir.Value] = set()
    stack = [g for a in reversed(list(node.attributes.values())) for g in reversed(_graphs(a))]
    inside: set[ir.Graph] = set()
    order: list[ir.Graph] = []
    while stack:
        graph = stack.pop()
        inside.add(graph)
        order.append(graph)
        for inner in graph:
            stack += [g for a in reversed(list(inner.attributes.values())) for g in reversed(_graphs(a))]
    for graph in order:
        for value in [*(v for inner in graph for v in inner.inputs), *graph.outputs]:
            if value is None or value in seen:
                continue
            home = owner(value)
            if home is None or home not in inside:
                seen.add(value)
                yield value


def owner(value: ir.Value) -> ir.Graph | None:
    """The graph that a value belongs to."""
    producer = value.producer()
    graph = producer.graph if producer is not None else value.graph
    return graph if isinstance(graph, ir.Graph) else None


def _graphs(attribute: ir.Attr) -> list[ir.Graph]:
    if attribute.type == ir.AttributeType.GRAPH:
        return [attribute.as_graph()]
    if attribute.type == ir.AttributeType.GRAPHS:
        return list(attribute.as_graphs())
    return []


def encode(
    graph: ir.Graph | ir.Function,
    *,
    infos: Mapping[ir.Value, Info],
    constant: Mapping[ir.Value, str],
    define: Callable[[ir.Node], OperatorDef | None],
    signature: Callable[[OperatorDef], Signature],
    table: constants.ConstantTable,
    expansions: Sequence[Expansion] = (),
) -> Encoded:
    """The rows of one graph (bodies apart). `infos` is what is known of values, `constant` the text of those whose
    contents are fixed; `define` gives a node's definition, None where it is foreign. `expansions` are nodes beside the
    graph."""
    encoded = Encoded()
    for value in graph.inputs:
        encoded.of(value)
    made_constant: set[ir.Value] = set(constant)
    for node in graph:
        if node.outputs and all(o in made_constant for o in node.outputs):
            for output in node.outputs:
                encoded.of(output)
            continue
        _node(encoded, node, define(node), signature, table)
    for value in graph.outputs:
        encoded.of(value)
    outside, inside = len(encoded.values), {node for expansion in expansions for node in expansion.nodes}
    for expansion in expansions:
        _expand(encoded, expansion, made_constant, define, signature, table)
    for number, value in enumerate(encoded.values):
        if number >= outside and value.producer() in inside:
            encoded.inner.add(number)
        text = constant.get(value)
        if text is not None:
            if number not in encoded.inner:
                encoded.constant[number] = text
            encoded.rows.setdefault("in_constant", []).append(f"{number}\t{text}")
            continue
        info = infos.get(value)
        if info is not None:
            encoded.infos[number] = info
    return encoded


def _expand(
    encoded: Encoded,
    expansion: Expansion,
    constant: set[ir.Value],
    define: Callable[[ir.Node], OperatorDef | None],
    signature: Callable[[OperatorDef], Signature],
    table: constants.ConstantTable,
) -> None:
    for node in expansion.nodes:
        if all(o in constant for o in node.outputs):
            continue
        _node(encoded, node, define(node), signature, table, expansion.rule)
    rows = [f"{encoded.of(value)}\t{encoded.of(other)}" for value, other in expansion.same]
    if rows:
        encoded.rows.setdefault("in_same", []).extend(rows)


def _node(
    encoded: Encoded,
    node: ir.Node,
    definition: OperatorDef | None,
    signature: Callable[[OperatorDef], Signature],
    table: constants.ConstantTable,
    rule: str = "",
) -> None:
    number = len(encoded.nodes)
    form = signature(definition) if definition is not None else None
    attributes = None
    if form is not None and definition is not None and form.representable:
        attributes = node_attributes(node, definition, table)
        if attributes is not None and any(ARGUMENT in t or SEPARATOR in t for t in attributes.values()):
            attributes = None  # text that would be taken apart in host calls
    operands = [NO_VALUE if v is None else encoded.of(v) for v in node.inputs]
    results = tuple(NO_VALUE if not v.name else encoded.of(v) for v in node.outputs)
    if form is None or attributes is None or (len(operands) > form.fixed and not form.variadic):
        for value in captured_values(node):
            operands.append(encoded.of(value))
        reads = tuple(dict.fromkeys(o for o in operands if o != NO_VALUE))
        encoded.nodes.append(Loaded(node, number, None, reads, (), results, rule))
        relation = f"in_opaque_{len(reads)}"
        encoded.arities[relation] = len(reads)
        encoded.relations[relation] = None
        encoded.rows.setdefault(relation, []).append("\t".join(map(str, (number, *reads))))
        _results(encoded, number, results)
        return
    asked = max((i + 1 for i, r in enumerate(results) if r != NO_VALUE), default=1)
    columns = tuple(column_texts(form, attributes, asked))
    operands += [NO_VALUE] * (form.fixed - len(operands))
    encoded.nodes.append(Loaded(node, number, form, tuple(operands), columns, results, rule))
    relation = f"in_{form.constructor}"
    if rule:
        relation = f"made_{list(dict.fromkeys([*encoded.made.values(), rule])).index(rule)}_{form.constructor}"
    if form.variadic:
        relation += f"_{len(operands) - form.fixed}"
        encoded.arities[relation] = len(operands) - form.fixed
    encoded.relations[relation] = form
    if rule:
        encoded.made[relation] = rule
    row = [str(number if form.several else results[0]), *map(str, operands), *columns]
    if form.impure:
        row.append(str(number))
    encoded.rows.setdefault(relation, []).append("\t".join(row))
    if form.several:
        _results(encoded, number, results)


def _results(encoded: Encoded, number: int, results: Iterable[int]) -> None:
    rows = encoded.rows.setdefault("in_result", [])
    rows += [f"{result}\t{number}\t{place}" for place, result in enumerate(results) if result != NO_VALUE]


def info_rows(encoded: Encoded) -> list[str]:
    """What is known of the values of a graph that are no constants."""
    return [f"{number}\t{info}" for number, info in sorted(encoded.infos.items())]


def load_rules(encoded: Encoded) -> Iterator[str]:
    """Declarations of the input relations and the rules that build terms from their rows."""
    yield "(relation in_constant (i64 String))"
    yield '(rule ((in_constant v k)) ((union (V v) (K k))) :ruleset load :name "load constants")'
    yield "(relation in_info (i64 String))"
    yield '(rule ((in_info v i)) ((set (info (V v)) i)) :ruleset load :name "load infos")'
    yield "(relation in_result (i64 i64 i64))"
    yield '(rule ((in_result v n i)) ((union (V v) (Out (NV n) i))) :ruleset load :name "load results")'
    yield "(relation in_same (i64 i64))"
    yield '(rule ((in_same v w)) ((union (V v) (V w))) :ruleset load :name "load what is the same")'
    yield f"(union (V {NO_VALUE}) (Absent))"
    yield f'(set (info (Absent)) "{ABSENT}")'
    for relation, form in encoded.relations.items():
        yield from _load_rule(relation, form, encoded.arities.get(relation), encoded.made.get(relation, "input"))


def _load_rule(relation: str, form: Signature | None, arity: int | None, made_by: str) -> Iterator[str]:
    if form is None:
        names = [f"o{k}" for k in range(arity or 0)]
        yield f"(relation {relation} (i64{' i64' * len(names)}))"
        vector = _vector(names)
        yield (
            f"(rule (({relation} n{''.join(' ' + n for n in names)})) ((union (NV n) (Opaque n {vector}))) "
            f':ruleset load :name "load {relation}")'
        )
        return
    operands = [f"o{k}" for k in range(form.fixed + (arity or 0))]
    columns = [f"a{k}" for k in range(len(form.attributes))]
    impure = ["p"] if form.impure else []
    sorts = " ".join(["i64", *["i64"] * len(operands), *["String"] * len(columns), *["i64"] * len(impure)])
    yield f"(relation {relation} ({sorts}))"
    terms = [f"(V {o})" for o in operands[: form.fixed]]
    if form.variadic:
        terms.append(_vector(operands[form.fixed :]))
    arguments = " ".join([*terms, *columns, *impure])
    leaf = "NV" if form.several else "V"
    variables = " ".join(["r", *operands, *columns, *impure])
    yield (
        f"(rule (({relation} {variables})) ((union ({leaf} r) ({form.constructor} {arguments})) "
        f'(set (by_{form.constructor} {arguments}) "{made_by}")) :ruleset load :name "load {relation}")'
    )


def _vector(names: list[str]) -> str:
    return f"(vec-of {' '.join(f'(V {n})' for n in names)})" if names else "(vec-empty)"
