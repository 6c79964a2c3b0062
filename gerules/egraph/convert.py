"""One graph from operator versions to others: encode, saturate, choose what exists at the target, rebuild."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from gerules.egraph.bodies import NodeView, body_rules, nothing
from gerules.egraph.choices import Candidate, Candidates, admitted, candidates
from gerules.egraph.encode import Encoded, Expansion, encode
from gerules.egraph.foresight import foresee
from gerules.egraph.nearly import ClassView, Near, nearly
from gerules.egraph.optimize import Engine, GraphTask, Names, Outcome, fixed_contents, saturate
from gerules.egraph.reach import Reached, reach
from gerules.egraph.rebuild import rebuild
from gerules.egraph.session import ENode, Saturated
from gerules.egraph.signature import Signature
from gerules.graph.constants import encode as encode_constant
from gerules.graph.functions import function_body, inner_nodes
from gerules.graph.info import UNKNOWN, Info
from gerules.graph.structure import constant_tensor
from gerules.registry.definition import REQUIRED, VARIADIC, Operand, OperatorDef

Define = Callable[[ir.Node], OperatorDef | None]
Usable = Callable[[Candidates], Callable[[Candidate], bool]]
"""Says of candidates which may be chosen."""


def every(found: Candidates) -> Callable[[Candidate], bool]:
    """All that exist at the target may be."""
    return lambda candidate: True


@dataclass(frozen=True)
class Versions:
    """The operator versions of a graph and those of the result, by domain."""

    source: Mapping[str, int]
    target: Mapping[str, int]

    def moved(self) -> tuple[str, ...]:
        """Domains whose version changes."""
        return tuple(d for d, v in self.target.items() if self.source.get(d) != v)


@dataclass(frozen=True)
class Stuck:
    """A node for which nothing was found at the target although all that it reads can be made.

    `operands` and `results` are what is known of its values (None: absent), `constant` says which operands have
    contents that are known. `inner` are the nodes of its body (and of bodies in it) that are stuck in turn, `near` the
    rules that would have made it but for a condition.
    """

    node: ir.Node
    definition: OperatorDef | None
    operands: tuple[Info | None, ...] = ()
    results: tuple[Info | None, ...] = ()
    constant: tuple[bool, ...] = ()
    inner: tuple[Stuck, ...] = ()
    near: tuple[Near, ...] = ()


def in_force(engine: Engine, signature: Signature, versions: Mapping[str, int]) -> OperatorDef | None:
    """The definition of a semantic version at some operator versions, None where another one, or none, holds there."""
    known = engine.known
    oldest = signature.definition
    if known.registry.newest(oldest.domain) is None:
        return oldest
    version = versions.get(oldest.domain)
    definition = None if version is None else known.registry.lookup(oldest.domain, oldest.name, version)
    # What is deprecated is read, and never written: checkers refuse it.
    if definition is None or definition.deprecated or known.signatures.of(definition) is not signature:
        return None
    return definition


def types_admitted(
    definition: OperatorDef, operands: Sequence[Info | None], results: Sequence[Info | None]
) -> str | None:
    """The first element type that a definition does not admit, as words; None where it admits all."""
    least = sum(max(o.minimum, o.kind == REQUIRED) for o in definition.inputs)
    if len(operands) < least:
        return f"{definition.key} wants {least} operands"
    for formals, infos, what in ((definition.inputs, operands, "operand"), (definition.outputs, results, "result")):
        for place, info in enumerate(infos):
            if info is None or info is UNKNOWN or info == UNKNOWN or info.dtype == "?":
                continue
            formal = _formal(formals, place)
            if formal is None:
                return f"{definition.key} has no {what} number {place + 1}"
            if formal.types and info.dtype not in formal.types:
                return f"{definition.key} does not admit {info.dtype} as {formal.name}"
    return None


def _formal(formals: Sequence[Operand], place: int) -> Operand | None:
    if place < len(formals):
        return formals[place]
    return formals[-1] if formals and formals[-1].kind == VARIADIC else None


ROUNDS = 8
"""How deep bodies are expanded: a body in a body, and so on."""


@dataclass
class Conversion:
    """Converts one graph in place (its bodies apart), or leaves it as it is and says which nodes are stuck.

    `define` gives a node's definition at its own operator versions, None for foreign operators and calls of functions;
    `passes` says whether a node may stay as it is; `fixed` are the initializers that the caller cannot override, None
    for all. `imports` takes the operator versions of every node of a body that was written out. `usable` says of
    candidates which may be chosen, where not all that exist at the target may.
    """

    task: GraphTask
    engine: Engine
    versions: Versions
    define: Define
    passes: Callable[[ir.Node], bool]
    fixed: frozenset[str] | None
    names: Names
    outcome: Outcome
    imports: dict[ir.Node, Mapping[str, int]]
    expansions: list[Expansion] = field(default_factory=list)
    tried: set[ir.Node] = field(default_factory=set)
    usable: Usable = every

    def run(self) -> list[Stuck]:
        """What could not be converted; nothing where the graph was."""
        for _ in range(ROUNDS):
            encoded, saturated = self._saturated()
            started = time.monotonic()
            found = self._candidates(encoded, saturated)
            reached = reach(found, self._defines, self.usable(found))
            self.outcome.spend("extract", time.monotonic() - started)
            if reached.reaches(found.roots):
                self._rebuild(found, reached, saturated)
                return []
            if not self._expand(encoded, saturated, reached):
                break
        stuck = self._stuck(encoded, saturated, reached)
        self._release()
        return stuck

    def _defines(self, rule: str) -> bool:
        entry = self.engine.rules.program.rewrites.get(rule)
        return entry is not None and entry.statement.exactness == "defines"

    def _saturated(self) -> tuple[Encoded, Saturated]:
        task = self.task
        started = time.monotonic()
        constant = fixed_contents(task, self.fixed)
        for expansion in self.expansions:
            for node in expansion.nodes:
                tensor = constant_tensor(node)
                if tensor is not None:
                    constant[node.outputs[0]] = encode_constant(tensor.numpy(), task.table)
        encoded = encode(
            task.graph,
            infos={v: i for v, i in task.infos.items() if i is not UNKNOWN},
            constant=constant,
            define=self.define,
            signature=self.engine.known.signatures.of,
            table=task.table,
            expansions=self.expansions,
        )
        definitions = {
            n.number: d for n in encoded.nodes if n.signature is not None and (d := self.define(n.node)) is not None
        }
        foresee(encoded, self.engine.facts(task.facts), definitions, task.table)
        self.outcome.spend("encode", time.monotonic() - started)
        started = time.monotonic()
        used = dict.fromkeys(f.constructor for f in encoded.relations.values() if f is not None)
        opsets = {task.opset, *(v[""] for v in self.imports.values() if "" in v)}
        compiled = self.engine.compiled(used, *sorted({*opsets, self.versions.target.get("", task.opset)}))
        self.outcome.spend("compile", time.monotonic() - started)
        return encoded, saturate(task, self.engine, compiled, encoded, self.outcome)

    def _expand(self, encoded: Encoded, saturated: Saturated, reached: Reached) -> bool:
        """Writes out the bodies of nodes that cannot be made otherwise; whether there was one."""
        rules = body_rules(self.engine, self.task.facts)
        view = NodeView(
            self._known_values(encoded, saturated), self.define, self.engine.known.registry, self.task.table
        )
        fresh: list[Expansion] = []
        for loaded in encoded.nodes:
            node, definition = loaded.node, self.define(loaded.node)
            if definition is None or definition.key not in rules or node in self.tried or self.passes(node):
                continue
            if all(saturated.value_class[r] in reached.choice for r in loaded.results if r >= 0):
                continue
            self.tried.add(node)
            rule = next((r.name for r in rules[definition.key] if r.holds(view, node)), None)
            operands = [None if v is None else view.known(v) for v in node.inputs]
            if rule is None or any(nothing(o) for o in operands if o is not None):
                continue  # a body speaks of operands that have elements
            newest = self.versions.target.get(definition.domain, int(definition.since))
            body = function_body(node, definition, operands, newest, self.names.fresh)
            if body is None:
                continue
            for inner in inner_nodes(body.nodes):
                self.imports[inner] = body.imports
            assert isinstance(self.task.infos, dict)
            self.task.infos.update(body.infos)
            same = tuple((a, b) for a, b in zip(node.outputs, body.results, strict=False) if b is not None)
            fresh.append(Expansion(node, body.nodes, same, rule))
        self.expansions += fresh
        return bool(fresh)

    @staticmethod
    def _known_values(encoded: Encoded, saturated: Saturated) -> Mapping[ir.Value, Info]:
        infos, classes = saturated.infos, saturated.value_class
        return {value: infos.get(classes[number], UNKNOWN) for value, number in encoded.number.items()}

    def _rebuild(self, found: Candidates, reached: Reached, saturated: Saturated) -> None:
        started = time.monotonic()
        task = self.task
        rebuilt = rebuild(
            task.graph, found, reached.choice, task.table, identity="Identity", fresh_name=self.names.fresh
        )
        assert isinstance(task.infos, dict)
        for cls, value in [*rebuilt.values.items(), *((cls, value) for value, cls in rebuilt.delivered.items())]:
            info = saturated.infos.get(cls)
            if info is not None:
                task.infos[value] = info
        self.outcome.made_by.update(rebuilt.made_by)
        self.outcome.changed |= rebuilt.changed
        self._release()
        self.outcome.spend("rebuild", time.monotonic() - started)

    def _stuck(self, encoded: Encoded, saturated: Saturated, reached: Reached) -> list[Stuck]:
        """The nodes of the graph that cannot be made although all that they read can."""
        owner = {node: e.owner for e in self.expansions for node in e.nodes}
        inner: dict[ir.Node, list[Stuck]] = {}
        found: list[Stuck] = []
        view = ClassView.of(saturated, self.task.table)

        def usable(definition: OperatorDef) -> bool:
            signatures = self.engine.known.signatures
            return in_force(self.engine, signatures.of(definition), self.versions.target) is not None

        def known(value: ir.Value | None) -> Info | None:
            if value is None or value not in encoded.number:
                return None
            return saturated.infos.get(saturated.value_class[encoded.number[value]], UNKNOWN)

        # Bodies come after what they are bodies of: from the innermost outwards.
        for loaded in reversed(encoded.nodes):
            node = loaded.node
            reads = [saturated.value_class[o] for o in loaded.operands if o >= 0]
            made = [saturated.value_class[r] for r in loaded.results if r >= 0]
            if all(cls in reached.choice for cls in made) or not all(cls in reached.choice for cls in reads):
                continue
            constant = tuple(
                v is not None and saturated.value_class[encoded.number[v]] in saturated.constants for v in node.inputs
            )
            stuck = Stuck(
                node,
                self.define(node),
                tuple(map(known, node.inputs)),
                tuple(map(known, node.outputs)),
                constant,
                tuple(reversed(inner.get(node, ()))),
                tuple(
                    near
                    for cls in made
                    if cls not in reached.choice
                    for near in nearly(self.engine.known, view, cls, node.op_type, usable, self.engine.rules.rewrites)
                ),
            )
            if node in owner:
                inner.setdefault(owner[node], []).append(stuck)
            else:
                found.append(stuck)
        return found[::-1]

    def _release(self) -> None:
        """Nodes of expansions that were not taken no longer read the graph's values."""
        for expansion in self.expansions:
            for node in expansion.nodes:
                if node.graph is None:
                    for inner in inner_nodes((node,)):
                        for place in range(len(inner.inputs)):
                            inner.replace_input_with(place, None)

    def _candidates(self, encoded: Encoded, saturated: Saturated) -> Candidates:
        places: dict[int, dict[int, int]] = {}
        for cls, node_cls, place in saturated.projections:
            places.setdefault(node_cls, {})[place] = cls
        nodes = {n.number: n.node for n in encoded.nodes}

        def keeps(node: ENode, definition: OperatorDef | None) -> bool:
            if node.signature is None:
                assert node.node is not None
                return self.passes(nodes[node.node])
            assert definition is not None
            return admitted(definition, node, saturated) and results_admitted(node, definition)

        def results_admitted(node: ENode, definition: OperatorDef) -> bool:
            known = places.get(node.cls, {}) if node.signature is not None and node.signature.several else {0: node.cls}
            for place, cls in known.items():
                info, formal = saturated.infos.get(cls, UNKNOWN), _formal(definition.outputs, place)
                if formal is None:
                    return False
                if info is not UNKNOWN and info.dtype != "?" and formal.types and info.dtype not in formal.types:
                    return False
            return True

        return candidates(
            saturated,
            encoded,
            in_force=lambda s: in_force(self.engine, s, self.versions.target),
            roots=[encoded.number[v] for v in self.task.graph.outputs],
            keeps=keeps,
        )


__all__ = ["Conversion", "Define", "Stuck", "Usable", "Versions", "body_rules", "every", "in_force", "types_admitted"]
