"""Nodes of one release brought to another: what the rules decide about each, and what becomes of it.

The rules conclude refusals, and what is dropped, appended, written and fed; this module fills their tables from nodes
and carries out what they conclude.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gerules.policy.decide import Policy, Refusal
from gerules.policy.forms import COUNT, Constant, Made, NodeForm, Token, Undecided, counts_of, in_order, placed
from gerules.policy.model import Row
from gerules.policy.settings import as_type, number_of, value_of, value_text
from gerules.registry.comparison import Pair, tables
from gerules.registry.release import DYNAMIC, ReleaseOperator

SIGNATURE, REASONS, REPAIRS = "compat/signature", "compat/signature/reasons", "compat/ge"
ACTIONS = ("verdict", "drop", "append", "write", "feed")
POLICIES = ("default", "ge", "strict")
FAILURES = ("failed_direction", "failed_prefix", "failed_forward_required", "backward_adds_required", "outputs_shrunk")
BY_NAME = "by_name"


@dataclass(frozen=True, slots=True)
class Subject:
    """A node to be judged, and the definitions to judge it by. `rule` is the one that brought it into this form,
    `given` are attributes that rules wrote on the way."""

    node: NodeForm
    pair: Pair
    rule: str = ""
    given: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of one node: how, by which rule, and the node as the runtime wants it (as it was where refused)."""

    node: NodeForm
    strategy: str
    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[Refusal, ...] = ()
    written: tuple[str, ...] = ()
    fault: str = ""
    rule: str = ""

    @property
    def refused(self) -> bool:
        return bool(self.refusals) or bool(self.fault)


def same_signature(one: ReleaseOperator, other: ReleaseOperator) -> bool:
    """Whether two definitions are one but for data types and bodies: then there is nothing to decide."""
    return (
        [(p.name, p.kind) for p in one.inputs] == [(p.name, p.kind) for p in other.inputs]
        and [(p.name, p.kind) for p in one.outputs] == [(p.name, p.kind) for p in other.outputs]
        and one.attributes == other.attributes
    )


def judge(policy: Policy, name: str, subjects: Sequence[Subject]) -> list[Judged]:
    """What the policy of a name makes of each node, in order. Node names must differ.

    Operators with one definition are decided once, however many nodes they have; different definitions under one key
    (a rule may adapt what was built) are decided apart.
    """
    found: list[Judged | None] = [None] * len(subjects)
    rounds: list[dict[str, Pair]] = []
    batches: list[list[int]] = []
    for number, subject in enumerate(subjects):
        pair = subject.pair
        same = pair.built is not None and pair.runtime is not None and same_signature(pair.built, pair.runtime)
        if same and not subject.rule:
            found[number] = Judged(subject.node, "none")
            continue
        for known, batch in zip(rounds, batches, strict=True):
            if known.setdefault(pair.key, pair) == pair:
                batch.append(number)
                break
        else:
            rounds.append({pair.key: pair})
            batches.append([number])
    for known, batch in zip(rounds, batches, strict=True):
        for number, judged in zip(
            batch, _round(policy, name, [subjects[n] for n in batch], known.values()), strict=True
        ):
            found[number] = judged
    return [j for j in found if j is not None]


@dataclass
class _Facts:
    """The rows about nodes."""

    rows: dict[str, list[Row]] = field(
        default_factory=lambda: {n: [] for n in ("node", "connected", "used", "count", "written", "value", "fits")}
    )

    def add(self, table: str, *row: str | int) -> None:
        self.rows[table].append(row)


def _round(policy: Policy, name: str, subjects: Sequence[Subject], pairs: Iterable[Pair]) -> list[Judged]:
    facts = _Facts()
    faults: dict[str, str] = {}
    for subject in subjects:
        try:
            _node_rows(facts, subject)
        except Undecided as undecided:
            faults[subject.node.name] = str(undecided)
    given: dict[str, list[Row]] = {**tables(pairs), **facts.rows, "policy": [(name,)]}
    answers = policy.decide(given, ACTIONS, _refuses(policy))
    actions: dict[str, dict[str, list[Row]]] = {action: {} for action in ACTIONS}
    for action in ACTIONS[1:]:
        for row in answers.rows[action]:
            actions[action].setdefault(str(row[0]), []).append(row[1:])
    classes = {str(f): str(c) for f, c in answers.rows["verdict"]}
    said: dict[str, list[Refusal]] = {}
    for refusal in answers.refusals:
        for about in dict.fromkeys(refusal.nodes):
            said.setdefault(about, []).append(refusal)
    judged = []
    for subject in subjects:
        node = subject.node
        mine = said.get(node.name, [])
        refusals = tuple(r for r in mine if r.severity == "deny")
        warnings = tuple(r for r in mine if r.severity != "deny")
        strategy = classes.get(subject.pair.key, "none")
        if node.name in faults:
            judged.append(Judged(node, strategy, fault=faults[node.name], rule=subject.rule))
        elif refusals:
            judged.append(Judged(node, strategy, refusals, warnings, rule=subject.rule))
        else:
            theirs = {action: actions[action].get(node.name, []) for action in ACTIONS[1:]}
            judged.append(_carried_out(subject, _strategy(subject, strategy, name), strategy, warnings, theirs))
    return judged


def _refuses(policy: Policy) -> tuple[str, ...]:
    return tuple(e.full for e in policy.refuses if e.ruleset != REASONS)


def _node_rows(facts: _Facts, subject: Subject) -> None:
    node, built, runtime = subject.node, subject.pair.built, subject.pair.runtime
    facts.add("node", node.name, subject.pair.key)
    for attribute, value in node.attributes.items():
        facts.add("written", node.name, attribute)
        facts.add("value", node.name, attribute, value_text(value))
    if built is None or runtime is None:
        return
    for port, values in placed(built.inputs, node.inputs, counts_of(node, built), "operands").items():
        if any(v is not None for v in values):
            facts.add("connected", node.name, port)
        kind = next(p.kind for p in built.inputs if p.name == port)
        if kind == DYNAMIC:
            facts.add("count", node.name, port, len(values))
    places = tuple(range(len(node.outputs)))
    for port, results in placed(built.outputs, places, node.counts, "results").items():
        if any(place in node.used for place in results):
            facts.add("used", node.name, port)
    types = {a.name: a.type for a in runtime.attributes}
    for attribute_ in built.attributes:
        wanted = types.get(attribute_.name)
        value = node.attributes.get(attribute_.name, attribute_.default)
        if wanted == attribute_.type or (wanted is not None and as_type(value, wanted) is not None):
            facts.add("fits", node.name, attribute_.name)


def _strategy(subject: Subject, class_: str, policy: str) -> str:
    """How a node that is not refused is carried over: by its class where that is enough."""
    if subject.rule:
        return "rule"
    if class_ == "backward_adds_required" and policy == "ge":
        return "backward"
    return BY_NAME if class_ in FAILURES else class_


def _carried_out(
    subject: Subject, strategy: str, class_: str, warnings: tuple[Refusal, ...], actions: Mapping[str, Sequence[Row]]
) -> Judged:
    """The node as the rules want it."""
    node, built, runtime = subject.node, subject.pair.built, subject.pair.runtime
    assert built is not None and runtime is not None
    dropped = {(str(which), str(name)) for which, name in actions["drop"]}
    inputs = placed(built.inputs, node.inputs, counts_of(node, built), "operands")
    inputs = {n: v for n, v in inputs.items() if ("inputs", n) not in dropped}
    for name, text in actions["feed"]:
        port = next(p for p in runtime.inputs if p.name == name)
        inputs[port.name] = (Constant(number_of(str(text)), port.types),)
    flat, counts = in_order(runtime.inputs, inputs)
    outputs = dict(placed(built.outputs, node.outputs, node.counts, "results"))
    for port_ in runtime.outputs:
        if not outputs.get(port_.name) and port_.kind != DYNAMIC:
            outputs[port_.name] = (Made(node.name, port_.name),)
    results, more = in_order(runtime.outputs, outputs)
    attributes = {n: v for n, v in node.attributes.items() if ("attributes", n) not in dropped}
    types = {a.name: a.type for a in runtime.attributes}
    before = {a.name: a.type for a in built.attributes}
    for name, value in attributes.items():
        wanted = types.get(name)
        if wanted is not None and before.get(name) != wanted:
            changed = as_type(value, wanted)
            attributes[name] = value if changed is None else changed
    fault = ""
    written = [name for name in subject.given if name in attributes]
    for name, text in actions["write"]:
        kept = value_of(str(text), types.get(str(name), "String"))
        if kept is None:
            fault = f"{text} is no {types.get(str(name))}, so attribute {name} cannot be written out"
        else:
            attributes[str(name)] = kept
            written.append(str(name))
    made = NodeForm(
        node.name,
        runtime.name,
        node.inputs if class_ == "none" and _trimmed(flat) == _trimmed(node.inputs) else flat,
        tuple(r for r in results if r is not None),
        attributes,
        frozenset(i for i, r in enumerate(results) if r in _read(node)),
        {**counts, **more},
    )
    return Judged(made, strategy, (), warnings, tuple(sorted(written)), fault, subject.rule)


def _trimmed(values: Sequence[Token | None]) -> tuple[Token | None, ...]:
    """Without absent operands at the end."""
    end = len(values)
    while end and values[end - 1] is None:
        end -= 1
    return tuple(values[:end])


def _read(node: NodeForm) -> frozenset[Token]:
    return frozenset(node.outputs[place] for place in node.used if place < len(node.outputs))


def minimal_node(operator: ReleaseOperator) -> NodeForm:
    """The definition itself as a node: what is required is there, what may be left out is. Its results are read; a
    dynamic input has two operands."""
    given = {"required": 1, DYNAMIC: 2}
    operands = {p.name: tuple(f"{p.name}{i}" for i in range(given.get(p.kind, 0))) for p in operator.inputs}
    inputs = in_order(operator.inputs, operands)[0]
    outputs = tuple(f"{p.name}:" for p in operator.outputs)
    attributes: dict[str, object] = {a.name: _Any() for a in operator.attributes if a.required}
    counts = {p.name: 2 for p in operator.inputs if p.kind == DYNAMIC}
    counts |= {p.name: 1 for p in operator.outputs if p.kind == DYNAMIC}
    if COUNT in attributes:
        attributes[COUNT] = 2
    return NodeForm(
        operator.name, operator.name, inputs, outputs, attributes, frozenset(range(len(outputs))), counts
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Any:
    """The value of an attribute of which nothing is known but that it is there."""
