"""One graph through the e-graph: encode, saturate, hand the candidates to whoever chooses, rebuild."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from gerules.dsl import ast
from gerules.dsl.program import Entry, Program
from gerules.egraph.choices import Candidates, candidates
from gerules.egraph.encode import Encoded, captured_values, encode
from gerules.egraph.foresight import Fact, compile_facts, foresee
from gerules.egraph.host import Host, Run
from gerules.egraph.lower import Instance
from gerules.egraph.program import (
    Compiled,
    Knowledge,
    context,
    empty_program,
    in_window,
    knowledge,
    lower,
    producible,
)
from gerules.egraph.rebuild import Rebuilt, rebuild
from gerules.egraph.session import Limits, Saturated, Session
from gerules.egraph.signature import Signature
from gerules.errors import Diagnostic, Refused
from gerules.graph.constants import ConstantTable
from gerules.graph.constants import encode as encode_constant
from gerules.graph.dims import DimFacts
from gerules.graph.facts import infer_facts
from gerules.graph.info import UNKNOWN, Info
from gerules.graph.structure import bodies, constant_tensor, constant_values
from gerules.registry.definition import OperatorDef
from gerules.simulate.schema import OWN_DOMAIN
from gerules.static import Context

Choose = Callable[[Candidates, "GraphTask"], "Mapping[int, int] | None"]
"""Chooses an option for every class that the roots need; None leaves the graph as it is."""


@dataclass(frozen=True)
class RuleSet:
    """The rules that are on: a program, and which rewrites and facts of it take part under which schedule."""

    program: Program
    rewrites: tuple[str, ...]
    schedule: str = "standard"

    def statement(self) -> ast.Schedule:
        for full, entry in self.program.schedules.items():
            if self.schedule in (full, entry.statement.name):
                return entry.statement
        names = ", ".join(sorted(e.statement.name for e in self.program.schedules.values()))
        raise Refused(Diagnostic("GR521", f"there is no schedule `{self.schedule}`", hint=f"there are {names}"))


KEPT = 16
"""How many programs an engine keeps: one for each set of rules that can fire."""


@dataclass(frozen=True)
class _Lowered:
    window: tuple[int, int]
    host: Host
    context: Context
    instances: list[Instance]


@dataclass
class Engine:
    """Compiles programs on demand and keeps them: one for each window of operator versions."""

    rules: RuleSet
    limits: Limits = field(default_factory=Limits)
    _known: Knowledge | None = None
    _lowered: dict[tuple[int, int], _Lowered] = field(default_factory=dict)
    _compiled: dict[object, Compiled] = field(default_factory=dict)
    _facts: dict[tuple[str, ...], dict[str, list[Fact]]] = field(default_factory=dict)

    @property
    def known(self) -> Knowledge:
        if self._known is None:
            self._known = knowledge(self.rules.program)
        return self._known

    def compiled(self, constructors: Iterable[str], *opsets: int) -> Compiled:
        """The program for graphs of these opsets of ai.onnx (those that are there, and those that are to be reached)
        that hold these operators: rules that cannot fire on them, nor on what other rules make of them, are left
        out."""
        lowered = self._window(*opsets)
        wanted = producible(lowered.instances, constructors)
        key = (lowered.window, tuple(i.name for i in wanted))
        if key not in self._compiled:
            if len(self._compiled) >= KEPT:
                self._compiled.pop(next(iter(self._compiled)))
            made = empty_program(self.known, lowered.host, lowered.context, lowered.window)
            made.add(wanted)
            self._compiled[key] = made
        return self._compiled[key]

    def facts(self, promises: DimFacts) -> Mapping[str, Sequence[Fact]]:
        """The facts about shapes and contents that are drawn of a graph before it is loaded."""
        if promises.texts not in self._facts:
            program, scheduled = self.rules.program, self.scheduled
            on = [program.rewrites[name] for name in self.rules.rewrites]
            every: list[Entry[ast.Fact] | Entry[ast.Rewrite]] = [*program.facts.values(), *on]
            entries = [e for e in every if any(_inside(e.ruleset, s) for s in scheduled)]
            self._facts[promises.texts] = compile_facts(
                self.rules.program, self.known.ground, self.known.signatures, entries, promises
            )
        return self._facts[promises.texts]

    def _window(self, *opsets: int) -> _Lowered:
        """All instances for graphs of some opsets."""
        program = self.rules.program
        files = [
            int(version)
            for entry in program.rewrites.values()
            if entry.full in self.rules.rewrites and (version := entry.file.opset("ai.onnx")) is not None
        ]
        window = (min([*opsets, *files]), max([*opsets, *files]))
        if window not in self._lowered:
            scheduled = self.scheduled
            rewrites = [
                (entry.statement, entry.file)
                for entry in (program.rewrites[name] for name in self.rules.rewrites)
                if any(_inside(entry.ruleset, s) for s in scheduled) or entry.ruleset.startswith("user/")
            ]
            facts = [
                (e.statement, e.file) for e in program.facts.values() if any(_inside(e.ruleset, s) for s in scheduled)
            ]
            host = Host()
            around = context(program, self.known.ground, host)
            instances, _ = lower(self.known, host, around, rewrites, facts, window)
            self._lowered[window] = _Lowered(window, host, around, instances)
        return self._lowered[window]

    @property
    def scheduled(self) -> tuple[str, ...]:
        """The rulesets that the schedule names, and the user's."""
        names: list[str] = []
        stack: list[ast.Step] = list(self.rules.statement().steps)
        while stack:
            step = stack.pop()
            if isinstance(step, ast.RunStep):
                names += step.rulesets
            elif isinstance(step, ast.RepeatStep):
                stack += step.steps
        return tuple(dict.fromkeys([*names, "user"]))

    def rulesets(self, name: str) -> tuple[str, ...]:
        """The files that a name of a schedule stands for."""
        return tuple(f.ruleset for f in self.rules.program.files if _inside(f.ruleset, name))


def _inside(ruleset: str, name: str) -> bool:
    return ruleset == name or ruleset.startswith(name + "/")


@dataclass
class GraphTask:
    """One graph of a model, with all that was known of it before."""

    graph: ir.Graph
    path: str
    """"" for the main graph, `node:then_branch` for bodies."""
    infos: Mapping[ir.Value, Info]
    table: ConstantTable
    facts: DimFacts
    opset: int


@dataclass
class Outcome:
    """What rewriting did to a model."""

    fired: dict[str, int] = field(default_factory=dict)
    made_by: dict[str, str] = field(default_factory=dict)
    iterations: int = 0
    stopped: str | None = None
    changed: bool = False
    nodes: int = 0
    """E-nodes of operators, largest graph."""
    seconds: dict[str, float] = field(default_factory=dict)
    rebuilt: Rebuilt | None = None
    """Of the main graph."""
    candidates: Candidates | None = None

    def spend(self, stage: str, seconds: float) -> None:
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds


def optimize(
    model: ir.Model,
    engine: Engine,
    choose: Choose,
    *,
    facts: DimFacts,
    define: Callable[[ir.Node], OperatorDef | None],
    table: ConstantTable | None = None,
    progress: Callable[[str], None] = lambda stage: None,
) -> Outcome:
    """Rewrites a model in place: the main graph, then what is left of its bodies, outermost first.

    `choose` picks from the candidates of each graph. `define` gives a node's definition, None for what must be left
    alone (foreign operators, calls of the model's functions).
    """
    table = table if table is not None else ConstantTable()
    outcome = Outcome()
    opset = model.opset_imports.get("", model.opset_imports.get("ai.onnx", 1))
    started = time.monotonic()
    infos: dict[ir.Value, Info] = dict(infer_facts(model, facts, table=table))
    outcome.spend("facts", time.monotonic() - started)
    names = Names(model)
    fixed = constant_values(model)
    pending: list[tuple[ir.Graph, str]] = [(model.graph, "")]
    while pending:
        graph, path = pending.pop()
        task = GraphTask(graph, path, infos, table, facts, opset)
        progress(f"rewriting {path or 'the graph'}")
        inlined = True
        while inlined:
            _one(task, engine, choose, define, fixed if not path else None, names, outcome)
            inlined = _inline_known_branches(graph, infos, names, outcome)
        for node in reversed(list(graph)):
            for name, body in reversed(bodies(node)):
                pending.append((body, f"{path}/{node.name}:{name}" if path else f"{node.name}:{name}"))
    return outcome


def _one(
    task: GraphTask,
    engine: Engine,
    choose: Choose,
    define: Callable[[ir.Node], OperatorDef | None],
    fixed: frozenset[str] | None,
    names: Names,
    outcome: Outcome,
) -> None:
    started = time.monotonic()
    constant = fixed_contents(task, fixed)
    signatures = engine.known.signatures
    encoded = encode(
        task.graph,
        infos={v: i for v, i in task.infos.items() if i is not UNKNOWN},
        constant=constant,
        define=define,
        signature=signatures.of,
        table=task.table,
    )
    definitions = {n.number: d for n in encoded.nodes if n.signature is not None and (d := define(n.node)) is not None}
    foresee(encoded, engine.facts(task.facts), definitions, task.table)
    outcome.spend("encode", time.monotonic() - started)
    started = time.monotonic()
    used = dict.fromkeys(f.constructor for f in encoded.relations.values() if f is not None)
    compiled = engine.compiled(used, task.opset)
    outcome.spend("compile", time.monotonic() - started)
    saturated = saturate(task, engine, compiled, encoded, outcome)
    started = time.monotonic()
    held = {n.signature.constructor: n.signature.definition.domain for n in encoded.nodes if n.signature is not None}
    found = candidates(
        saturated,
        encoded,
        in_force=lambda s: _in_force(engine, s, task.opset, held),
        roots=[encoded.number[v] for v in task.graph.outputs],
    )
    outcome.spend("read", time.monotonic() - started)
    started = time.monotonic()
    choice = choose(found, task)
    outcome.spend("extract", time.monotonic() - started)
    if choice is None:
        return
    started = time.monotonic()
    rebuilt = rebuild(task.graph, found, choice, task.table, identity="Identity", fresh_name=names.fresh)
    assert isinstance(task.infos, dict)
    told = [*rebuilt.values.items(), *((cls, value) for value, cls in rebuilt.delivered.items())]
    for cls, value in told:
        info = saturated.infos.get(cls)
        if info is not None:
            task.infos[value] = info
    outcome.made_by.update(rebuilt.made_by)
    outcome.changed |= rebuilt.changed
    if not task.path:
        outcome.rebuilt, outcome.candidates = rebuilt, found
    outcome.spend("rebuild", time.monotonic() - started)


def saturate(task: GraphTask, engine: Engine, compiled: Compiled, encoded: Encoded, outcome: Outcome) -> Saturated:
    started = time.monotonic()
    with Session(compiled, Run(task.table, task.facts)) as session:
        session.load(encoded)
        outcome.spend("load", time.monotonic() - started)
        started = time.monotonic()
        statement = engine.rules.statement()
        users = tuple(r for r in compiled.rulesets if r.startswith("user/"))
        named = {n for s in engine.scheduled[:-1] for n in engine.rulesets(s)}
        clock = session.saturate(statement, engine.rulesets, engine.limits, tuple(u for u in users if u not in named))
        outcome.spend("saturate", time.monotonic() - started)
        started = time.monotonic()
        saturated = session.read(clock, encoded)
        outcome.spend("read", time.monotonic() - started)
    for rule, count in saturated.fired.items():
        outcome.fired[rule] = outcome.fired.get(rule, 0) + count
    outcome.iterations += saturated.iterations
    outcome.stopped = outcome.stopped or saturated.stopped
    outcome.nodes = max(outcome.nodes, len(saturated.nodes))
    return saturated


def _in_force(engine: Engine, signature: Signature, opset: int, held: Mapping[str, str]) -> OperatorDef | None:
    """The definition of a semantic version at an opset, None where another one holds there. `held` are constructors
    of the graph and their domains: of operators that rule files declare, those of domains that it has may be written,
    of our own normal forms only what it has itself."""
    known = engine.known
    oldest = signature.definition
    if oldest.domain:
        declared = known.registry.newest(oldest.domain) is None
        there = signature.constructor in held or (oldest.domain != OWN_DOMAIN and oldest.domain in held.values())
        return oldest if there or not declared else None
    if not in_window(known, signature, (opset, opset)):
        return None
    definition = known.registry.lookup("", oldest.name, opset)
    if definition is None or known.signatures.of(definition) is not signature:
        return None
    return definition


def fixed_contents(task: GraphTask, fixed: frozenset[str] | None) -> dict[ir.Value, str]:
    """The text of every value of fixed contents that the graph reads: initializers, constants, captured ones."""
    found: dict[ir.Value, str] = {}
    for name, value in task.graph.initializers.items():
        if value.const_value is not None and (fixed is None or name in fixed):
            found[value] = encode_constant(value.const_value.numpy(), task.table)
    for node in task.graph:
        tensor = constant_tensor(node)
        if tensor is not None:
            found[node.outputs[0]] = encode_constant(tensor.numpy(), task.table)
    for value in _outer(task.graph):
        info = task.infos.get(value)
        if info is not None and info.constant_text is not None:
            found[value] = info.constant_text
    return found


def _outer(graph: ir.Graph) -> Iterator[ir.Value]:
    """Values of enclosing graphs that a body, or a body in it, reads."""
    own: set[ir.Value] = set(graph.inputs) | set(graph.initializers.values())
    for node in graph:
        own.update(node.outputs)
    seen: set[ir.Value] = set()
    for node in graph:
        for value in [*node.inputs, *captured_values(node)]:
            if value is not None and value not in own and value not in seen:
                seen.add(value)
                yield value


def _inline_known_branches(graph: ir.Graph, infos: Mapping[ir.Value, Info], names: Names, outcome: Outcome) -> bool:
    """Replaces each node that picks a body by a condition of known contents by that body's nodes."""
    changed = False
    for node in list(graph):
        branch = _known_branch(node, infos)
        if branch is None:
            continue
        _inline(graph, node, branch, names)
        outcome.changed = changed = True
    return changed


def _known_branch(node: ir.Node, infos: Mapping[ir.Value, Info]) -> ir.Graph | None:
    if node.op_type != "If" or node.domain not in ("", "ai.onnx") or node.inputs[0] is None:
        return None
    condition = node.inputs[0]
    info = infos.get(condition)
    text = info.constant_text if info is not None else None
    if condition.const_value is not None and condition.is_initializer() and not condition.is_graph_input():
        taken = bool(condition.const_value.numpy().reshape(-1)[0])
    elif text is not None:
        taken = text.endswith("|01")
    else:
        return None
    attribute = node.attributes["then_branch" if taken else "else_branch"]
    return attribute.as_graph()


def _inline(graph: ir.Graph, node: ir.Node, branch: ir.Graph, names: Names) -> None:
    """Moves a branch's nodes to where `node` stands; its results take over the names of the node's."""
    for value in list(branch.initializers.values()):
        del branch.initializers[value.name or ""]
        value.name = names.fresh(value.name or "constant")
        graph.register_initializer(value)
    moved = list(branch)
    outputs = list(branch.outputs)
    branch.outputs.clear()
    branch.remove(moved)
    for inner in moved:
        inner.name = names.fresh(inner.name or inner.op_type)
        for value in inner.outputs:
            if value.name:
                value.name = names.fresh(value.name)
    graph.insert_before(node, moved)
    for old, new in zip(list(node.outputs), outputs, strict=True):
        if new.producer() not in set(moved) or old in graph.outputs:
            passed = ir.Value(name=old.name, type=old.type, shape=old.shape)
            identity = ir.Node("", "Identity", [new], outputs=[passed], name=names.fresh(f"{node.name}_{old.name}"))
            old.name = None
            graph.insert_before(node, identity)
            new = passed
        ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    for place in range(len(node.inputs)):
        node.replace_input_with(place, None)
    graph.remove(node)


class Names:
    """Names that are free anywhere in a model."""

    def __init__(self, model: ir.Model) -> None:
        self.taken: set[str] = set()
        stack: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
        while stack:
            graph = stack.pop()
            self.taken.update(v.name for v in graph.inputs if v.name)
            if isinstance(graph, ir.Graph):
                self.taken.update(graph.initializers)
            for node in graph:
                self.taken.update(v.name for v in node.outputs if v.name)
                if node.name:
                    self.taken.add(node.name)
                stack += [body for _, body in bodies(node)]

    def fresh(self, base: str) -> str:
        name, count = base, 0
        while name in self.taken:
            count += 1
            name = f"{base}_{count}"
        self.taken.add(name)
        return name


__all__ = ["Choose", "Engine", "GraphTask", "Names", "Outcome", "RuleSet", "fixed_contents", "optimize", "saturate"]
