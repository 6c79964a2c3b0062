"""All nodes of a graph from one release to another under a policy: along rules where they lead, then judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from gerules.dsl.program import Program
from gerules.policy.decide import Policy
from gerules.policy.forms import Constant, NodeForm, Token, Undecided, placed
from gerules.policy.judging import REPAIRS, SIGNATURE, Judged, Subject, judge, minimal_node
from gerules.policy.versions import Lift, Misfit, adapted, version_rules
from gerules.registry.comparison import Pair, operator_key
from gerules.registry.release import Release, ReleaseOperator

UNREGISTERED = "unregistered"


@dataclass(frozen=True, slots=True)
class Carried:
    """What became of one node of a graph: the nodes in its stead (operands first, itself last), how, and why not."""

    source: NodeForm
    strategy: str
    parts: tuple[Judged, ...] = ()
    hint: str = ""

    @property
    def nodes(self) -> tuple[NodeForm, ...]:
        return tuple(part.node for part in self.parts) or (self.source,)

    @property
    def refused(self) -> bool:
        return any(part.refused for part in self.parts)


@dataclass(frozen=True)
class Carrier:
    """Two releases, a policy, and the rules between releases. Definitions are compared once for each operator."""

    policy: Policy
    name: str
    built: Release
    runtime: Release
    program: Program
    _pairs: dict[str, Pair] = field(default_factory=dict, repr=False)

    @cached_property
    def lift(self) -> Lift:
        # Places and defaults are the ge policy's business, equality the strict one's: only the default one repairs.
        rules = version_rules(self.program, self.built.domain) if self.name == "default" else ()
        return Lift(rules, self.built, self.runtime)

    def pair(self, name: str) -> Pair:
        if name not in self._pairs:
            key = operator_key(self.built.domain, name)
            self._pairs[name] = Pair(key, self.built.operators.get(name), self.runtime.operators.get(name))
        return self._pairs[name]

    def carry(self, nodes: Sequence[NodeForm]) -> list[Carried]:
        """What becomes of each node, in order. Names of nodes must differ."""
        subjects: list[Subject] = []
        shares: list[tuple[int, int]] = []
        hints: list[str] = []
        for node in nodes:
            first = len(subjects)
            hint = ""
            definition = self.built.operators.get(node.operator)
            if definition is not None:
                found, hint = self._subjects(node, definition)
                subjects += found
            shares.append((first, len(subjects)))
            hints.append(hint)
        judged = judge(self.policy, self.name, subjects)
        carried = []
        for node, (first, end), hint in zip(nodes, shares, hints, strict=True):
            parts = tuple(judged[first:end])
            strategy = parts[-1].strategy if parts else UNREGISTERED
            carried.append(Carried(node, strategy, parts, hint))
        return carried

    def _subjects(self, node: NodeForm, definition: ReleaseOperator) -> tuple[list[Subject], str]:
        hint = ""
        try:
            steps = self.lift.lift(node, definition)
        except Misfit as misfit:
            steps, hint = None, f"the rules between these releases do not fit it: {misfit}"
        if steps is None:
            return [Subject(node, self.pair(node.operator))], hint
        subjects = []
        for item in steps:
            runtime = self.runtime.operators[item.node.operator]
            key = operator_key(self.built.domain, item.node.operator)
            made = replace(item.node, inputs=typed(runtime, item.node.inputs))
            given = tuple(n for n, s in item.settings.items() if s.by_rule and s.written and n not in node.attributes)
            subjects.append(Subject(made, Pair(key, adapted(item, runtime), runtime), item.rules[-1], given))
        return subjects, ""

    def minimal(self, names: Sequence[str]) -> list[Carried]:
        """What becomes of each built definition, taken as a node."""
        return self.carry([minimal_node(self.built.operators[name]) for name in names])


def typed(definition: ReleaseOperator, values: Sequence[Token | None]) -> tuple[Token | None, ...]:
    """Operands of which constants know the data types that their places admit."""
    if not any(isinstance(value, Constant) for value in values):
        return tuple(values)
    try:
        found = placed(definition.inputs, values, {}, "operands")
    except Undecided:
        return tuple(values)
    types = {value: port.types for port in definition.inputs for value in found.get(port.name, ())}
    return tuple(replace(v, types=types.get(v, ())) if isinstance(v, Constant) else v for v in values)


def carrier(program: Program, rulesets: Sequence[str], name: str, built: Release, runtime: Release) -> Carrier:
    """`rulesets` are those of the user; the shipped ones about signatures and repairs are always asked."""
    policy = Policy(program, (SIGNATURE, REPAIRS, *rulesets))
    return Carrier(policy, name, built, replace(runtime, domain=built.domain), program)
