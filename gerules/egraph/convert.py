"""One graph from operator versions to others: encode, saturate, choose what exists at the target, rebuild."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from gerules.egraph.choices import Candidates, admitted, candidates
from gerules.egraph.encode import Encoded, encode
from gerules.egraph.foresight import foresee
from gerules.egraph.optimize import Engine, GraphTask, Names, Outcome, fixed_contents, saturate
from gerules.egraph.reach import Reached, reach
from gerules.egraph.rebuild import rebuild
from gerules.egraph.session import ENode, Saturated
from gerules.egraph.signature import Signature
from gerules.graph.info import UNKNOWN, Info
from gerules.registry.definition import VARIADIC, Operand, OperatorDef

Define = Callable[[ir.Node], OperatorDef | None]


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
    """A node for which nothing was found at the target although all that it reads can be made."""

    node: ir.Node
    definition: OperatorDef | None
    operands: tuple[Info, ...] = ()


@dataclass
class Conversion:
    """What became of one graph."""

    stuck: list[Stuck] = field(default_factory=list)
    found: Candidates | None = None
    reached: Reached | None = None


def in_force(engine: Engine, signature: Signature, versions: Mapping[str, int]) -> OperatorDef | None:
    """The definition of a semantic version at some operator versions, None where another one, or none, holds there."""
    known = engine.known
    oldest = signature.definition
    if known.registry.newest(oldest.domain) is None:
        return oldest
    version = versions.get(oldest.domain)
    definition = None if version is None else known.registry.lookup(oldest.domain, oldest.name, version)
    if definition is None or known.signatures.of(definition) is not signature:
        return None
    return definition


def types_admitted(
    definition: OperatorDef, operands: Sequence[Info | None], results: Sequence[Info | None]
) -> str | None:
    """The first element type that a definition does not admit, as words; None where it admits all."""
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


def convert_graph(
    task: GraphTask,
    engine: Engine,
    versions: Versions,
    *,
    define: Define,
    stays: Callable[[ir.Node], bool],
    fixed: frozenset[str] | None,
    names: Names,
    outcome: Outcome,
) -> Conversion:
    """Converts one graph in place (its bodies apart), or leaves it as it is and says which nodes are stuck.

    `define` gives a node's definition at the source, None for foreign operators and calls of functions; `stays` says
    of a node that the e-graph cannot take apart whether it may stay as it is; `fixed` are the initializers that the
    caller cannot override, None for all.
    """
    started = time.monotonic()
    encoded = encode(
        task.graph,
        infos={v: i for v, i in task.infos.items() if i is not UNKNOWN},
        constant=fixed_contents(task, fixed),
        define=define,
        signature=engine.known.signatures.of,
        table=task.table,
    )
    definitions = {n.number: d for n in encoded.nodes if n.signature is not None and (d := define(n.node)) is not None}
    foresee(encoded, engine.facts(task.facts), definitions, task.table)
    outcome.spend("encode", time.monotonic() - started)
    started = time.monotonic()
    used = dict.fromkeys(f.constructor for f in encoded.relations.values() if f is not None)
    compiled = engine.compiled(task.opset, used, versions.target.get("", task.opset))
    outcome.spend("compile", time.monotonic() - started)
    saturated = saturate(task, engine, compiled, encoded, outcome)
    started = time.monotonic()
    found = _candidates(task, engine, versions, encoded, saturated, stays)
    exactness = {full: entry.statement.exactness for full, entry in engine.rules.program.rewrites.items()}
    reached = reach(found, lambda rule: exactness.get(rule) == "defines")
    outcome.spend("extract", time.monotonic() - started)
    if not reached.reaches(found.roots):
        return Conversion(_stuck(encoded, saturated, reached, define), found, reached)
    started = time.monotonic()
    rebuilt = rebuild(task.graph, found, reached.choice, task.table, identity="Identity", fresh_name=names.fresh)
    assert isinstance(task.infos, dict)
    for cls, value in [*rebuilt.values.items(), *((cls, value) for value, cls in rebuilt.delivered.items())]:
        info = saturated.infos.get(cls)
        if info is not None:
            task.infos[value] = info
    outcome.made_by.update(rebuilt.made_by)
    outcome.changed |= rebuilt.changed
    outcome.spend("rebuild", time.monotonic() - started)
    return Conversion([], found, reached)


def _candidates(
    task: GraphTask,
    engine: Engine,
    versions: Versions,
    encoded: Encoded,
    saturated: Saturated,
    stays: Callable[[ir.Node], bool],
) -> Candidates:
    places: dict[int, dict[int, int]] = {}
    for cls, node_cls, place in saturated.projections:
        places.setdefault(node_cls, {})[place] = cls
    nodes = {n.number: n.node for n in encoded.nodes}

    def keeps(node: ENode, definition: OperatorDef | None) -> bool:
        if node.signature is None:
            assert node.node is not None
            return stays(nodes[node.node])
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
        in_force=lambda s: in_force(engine, s, versions.target),
        roots=[encoded.number[v] for v in task.graph.outputs],
        keeps=keeps,
    )


def _stuck(encoded: Encoded, saturated: Saturated, reached: Reached, define: Define) -> list[Stuck]:
    """The nodes of the input graph that cannot be made although all that they read can."""
    found: list[Stuck] = []
    for loaded in encoded.nodes:
        results = [saturated.value_class[r] for r in loaded.results if r >= 0]
        if all(cls in reached.choice for cls in results):
            continue
        reads = [saturated.value_class[o] for o in loaded.operands if o >= 0]
        if all(cls in reached.choice for cls in reads):
            infos = tuple(saturated.infos.get(cls, UNKNOWN) for cls in reads)
            found.append(Stuck(loaded.node, define(loaded.node), infos))
    return found


__all__ = ["Conversion", "Define", "Stuck", "Versions", "convert_graph", "in_force", "types_admitted"]
