"""The verdict: original and candidate, whole and in partitions, on the same random inputs.

What differs is named: the first value in topological order that both graphs have and that differs, its node in the
candidate, and the rules that made the nodes between it and the values that still agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from gerules.simulate.bindings import runnable_inputs
from gerules.simulate.compare import Comparison, compare
from gerules.simulate.engine import Simulator, has_opaque
from gerules.simulate.faults import SimulationFault
from gerules.simulate.kernel import FAST, Mode
from gerules.simulate.opaque import OpaqueValues
from gerules.simulate.plan import node_name
from gerules.simulate.values import UNKNOWN, Value

_CHUNK = 512  # values that are kept at once when looking for the first difference


@dataclass(frozen=True, slots=True)
class PartitionModel:
    """One partition as a model of its own. `inputs` and `outputs` are values of the whole graph by name."""

    id: str
    model: ir.Model
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Divergence:
    """A place where the candidate is not the original. `where` is `output`, `opaque operand`, `failure` or
    `partition ID`; `node` the candidate's node that makes `value`, `rules` what made it, in order of the graph."""

    value: str
    node: str
    rules: tuple[str, ...]
    where: str
    reason: str
    index: tuple[int, ...] | None
    binding: Mapping[str, int]
    seed: int

    def __str__(self) -> str:
        place = f" at {list(self.index)}" if self.index is not None else ""
        made = f", made by {', '.join(self.rules)}" if self.rules else ""
        sizes = ", ".join(f"{n}={s}" for n, s in self.binding.items())
        given = f" (seed {self.seed}{', ' + sizes if sizes else ''})"
        return f"{self.where}: {self.value} of node {self.node or 'none'}{made}: {self.reason}{place}{given}"


@dataclass(frozen=True, slots=True)
class Validation:
    """`ran` says that at least one input was computed by both; `ok` that nothing differed; `partial` that an opaque
    operator without a known type hid a part of the graph. Errors are over the outputs of all runs."""

    ran: bool
    ok: bool
    partial: bool
    max_abs_err: float
    max_rel_err: float
    seeds: tuple[int, ...]
    bindings: tuple[Mapping[str, int], ...]
    differences: tuple[Divergence, ...] = ()
    notes: tuple[str, ...] = ()


def validate(
    original: ir.Model,
    candidate: ir.Model,
    *,
    bindings: Sequence[Mapping[str, int]],
    seeds: Sequence[int] = (0, 1),
    ranges: Mapping[str, tuple[int, int] | Sequence[int]] | None = None,
    provenance: Mapping[str, str | Sequence[str]] | None = None,
    partitions: Sequence[PartitionModel] | None = None,
    kernels: Mode = FAST,
) -> Validation:
    """Runs both on the same inputs for each binding and seed, and compares the outputs within the one tolerance.

    Partitions run one by one in the order given and see only inputs of the graph and what earlier ones handed over.
    `provenance` says which rules made a node of the candidate. An input at which the original fails must make the
    candidate fail too. Looking stops at the first difference. Raises `SimulationFault` where a model cannot be run at
    all (a broken graph, an unknown operator).
    """
    return _Judge(original, candidate, provenance or {}, tuple(partitions or ()), kernels, ranges).judge(
        bindings, seeds
    )


class _Judge:
    def __init__(
        self,
        original: ir.Model,
        candidate: ir.Model,
        provenance: Mapping[str, str | Sequence[str]],
        partitions: Sequence[PartitionModel],
        kernels: Mode,
        ranges: Mapping[str, tuple[int, int] | Sequence[int]] | None,
    ) -> None:
        opaque = has_opaque(original) or has_opaque(candidate)
        self.original = Simulator(original, kernels=kernels, unknown_inputs=opaque)
        self.candidate = Simulator(candidate, kernels=kernels, unknown_inputs=opaque)
        self.partitions = [(p, Simulator(p.model, kernels=kernels, unknown_inputs=opaque)) for p in partitions]
        self.provenance = provenance
        self.ranges = ranges
        self.max_abs = self.max_rel = 0.0
        self.notes: dict[str, None] = {}
        self.partial = False
        self.ran = False

    def judge(self, bindings: Sequence[Mapping[str, int]], seeds: Sequence[int]) -> Validation:
        found: Divergence | None = None
        for binding in bindings:
            for seed in seeds:
                found = self._case(binding, seed)
                if found is not None:
                    break
            if found is not None:
                break
        return Validation(
            self.ran,
            self.ran and found is None,
            self.partial,
            self.max_abs,
            self.max_rel,
            tuple(seeds),
            tuple(dict(b) for b in bindings),
            (found,) if found is not None else (),
            tuple(self.notes),
        )

    def _case(self, binding: Mapping[str, int], seed: int) -> Divergence | None:
        first = OpaqueValues(seed, binding)
        self.original.opaque, self.original.seed = first, seed
        feeds, expected, failure = runnable_inputs(self.original, binding, seed, self.ranges)
        second = first.sharing()
        self.candidate.opaque, self.candidate.seed = second, seed
        if failure is not None:
            return self._both_fail(feeds, failure, binding, seed)
        for name, reason in first.untyped.items():
            self.partial = True
            self.notes[f"validation is partial: {name} has an operator without a schema, and {reason}"] = None
        try:
            got = self.candidate.run(feeds)
        except SimulationFault as error:
            return self._failed(error, "failure", binding, seed)
        self.ran = True
        found = self._outputs(got, expected, "output", binding, seed) or self._opaque(first, second, binding, seed)
        if found is not None:
            return self._first(feeds, found)
        return self._run_partitions(feeds, expected, got, first, binding, seed)

    def _both_fail(
        self, feeds: Mapping[str, Value], failure: SimulationFault, binding: Mapping[str, int], seed: int
    ) -> Divergence | None:
        reason = failure.diagnostics[0]
        self.notes[f"the original cannot run at {dict(binding)}: {reason.message}"] = None
        try:
            self.candidate.run(feeds)
        except SimulationFault:
            return None
        text = f"the original fails ({reason.message}), the candidate does not"
        return Divergence(reason.node or "", reason.node or "", (), "failure", text, None, dict(binding), seed)

    def _failed(self, error: SimulationFault, where: str, binding: Mapping[str, int], seed: int) -> Divergence:
        diagnostic = error.diagnostics[0]
        node = diagnostic.node or ""
        return Divergence(node, node, self._rules_of((node,)), where, diagnostic.message, None, dict(binding), seed)

    def _outputs(
        self, got: Mapping[str, Value], expected: Mapping[str, Value], where: str, binding: Mapping[str, int], seed: int
    ) -> Divergence | None:
        for name, value in expected.items():
            if name not in got:
                reason = "the candidate has no such output"
                return Divergence(name, "", (), where, reason, None, dict(binding), seed)
            comparison = self._compare(got[name], value)
            if not comparison.equal:
                return self._divergence(name, where, comparison, binding, seed)
        return None

    def _compare(self, value: Value, original: Value) -> Comparison:
        comparison = compare(value, original)
        self.max_abs = max(self.max_abs, comparison.max_abs)
        self.max_rel = max(self.max_rel, comparison.max_rel)
        return comparison

    def _divergence(
        self, name: str, where: str, comparison: Comparison, binding: Mapping[str, int], seed: int
    ) -> Divergence:
        made = _producers(self.candidate.model).get(name)
        node = made[1] if made else ""
        rules = self._rules_of((node,))
        return Divergence(name, node, rules, where, comparison.reason, comparison.index, dict(binding), seed)

    def _opaque(
        self, first: OpaqueValues, second: OpaqueValues, binding: Mapping[str, int], seed: int
    ) -> Divergence | None:
        for (node, call), operands in first.operands.items():
            others = second.operands.get((node, call))
            if others is None:
                reason = "the candidate does not run this node"
                return Divergence(node, node, (), "opaque operand", reason, None, dict(binding), seed)
            if len(others) != len(operands):
                reason = f"{len(others)} operands instead of {len(operands)}"
                return Divergence(node, node, (), "opaque operand", reason, None, dict(binding), seed)
            for position, (a, b) in enumerate(zip(others, operands, strict=True)):
                comparison = self._compare(a, b)
                if not comparison.equal:
                    value = f"operand {position} of {node}"
                    rules = self._rules_of((node,))
                    return Divergence(
                        value, node, rules, "opaque operand", comparison.reason, comparison.index, dict(binding), seed
                    )
        extra = [key for key in second.operands if key not in first.operands]
        if extra:
            node = extra[0][0]
            reason = "the original does not run this node"
            return Divergence(node, node, (), "opaque operand", reason, None, dict(binding), seed)
        return None

    def _first(self, feeds: Mapping[str, Value], found: Divergence) -> Divergence:
        """The first shared value that differs, with the rules between it and what still agrees; `found` where no
        intermediate value differs."""
        inputs = set(self.original.inputs)
        originals = set(self.original.value_names) - inputs
        constants = set(self.candidate.model.graph.initializers)
        shared = [n for n in self.candidate.value_names if n in originals and n not in constants and n not in inputs]
        agreed: set[str] = set()
        for start in range(0, len(shared), _CHUNK):
            names = shared[start : start + _CHUNK]
            expected, got = self.original.run(feeds, names), self.candidate.run(feeds, names)
            for name in names:
                comparison = compare(got[name], expected[name])
                if not comparison.equal:
                    node, rules = self._blame(name, agreed)
                    return Divergence(
                        name, node, rules, found.where, comparison.reason, comparison.index, found.binding, found.seed
                    )
                agreed.add(name)
        node, rules = self._blame(found.value, agreed)
        return found if not node else Divergence(
            found.value, node, rules, found.where, found.reason, found.index, found.binding, found.seed
        )  # fmt: skip

    def _blame(self, name: str, agreed: set[str]) -> tuple[str, tuple[str, ...]]:
        producers = _producers(self.candidate.model)
        if name not in producers:
            return "", ()
        nodes: list[str] = []
        pending, seen = [name], {name}
        while pending:
            made = producers.get(pending.pop())
            if made is None:
                continue
            nodes.append(made[1])
            for operand in _read(made[0]):
                if operand not in seen and operand not in agreed:
                    seen.add(operand)
                    pending.append(operand)
        return producers[name][1], self._rules_of(nodes)

    def _rules_of(self, nodes: Iterable[str]) -> tuple[str, ...]:
        rules: dict[str, None] = {}
        for node in nodes:
            made = self.provenance.get(node, ())
            rules.update(dict.fromkeys((made,) if isinstance(made, str) else made))
        return tuple(rules)

    def _run_partitions(
        self,
        feeds: Mapping[str, Value],
        expected: Mapping[str, Value],
        whole: Mapping[str, Value],
        opaque: OpaqueValues,
        binding: Mapping[str, int],
        seed: int,
    ) -> Divergence | None:
        if not self.partitions:
            return None
        values: dict[str, Value] = dict(feeds)
        shared = opaque.sharing()
        handed = [n for p, _ in self.partitions for n in p.outputs]
        known = set(self.candidate.value_names)
        self.candidate.opaque = opaque.sharing()
        reference = self.candidate.run(feeds, [n for n in dict.fromkeys(handed) if n in known])
        for part, simulator in self.partitions:
            where = f"partition {part.id}"
            simulator.opaque, simulator.seed = shared, seed
            missing = [n for n in part.inputs if n not in values and n not in simulator.model.graph.initializers]
            missing = [n for n in missing if n not in self.candidate.model.graph.initializers]
            if missing:
                reason = "no earlier partition hands it over"
                return Divergence(missing[0], "", (), where, reason, None, dict(binding), seed)
            try:
                got = simulator.run({n: values[n] for n in part.inputs if n in values}, part.outputs)
            except SimulationFault as error:
                return self._failed(error, where, binding, seed)
            for name, value in got.items():
                values[name] = value
                if name in reference:
                    comparison = compare(value, reference[name])
                    if not comparison.equal:
                        return self._divergence(name, where, comparison, binding, seed)
        got = {n: values.get(n, whole.get(n, UNKNOWN)) for n in expected if n in values or n in feeds}
        constant = {n for n in expected if n in self.candidate.model.graph.initializers}
        checked = {n: v for n, v in expected.items() if n not in constant or n in got}
        return self._outputs(got, checked, "partitions", binding, seed)


def _producers(model: ir.Model) -> dict[str, tuple[ir.Node, str]]:
    return {
        str(v.name): (node, node_name(node, index))
        for index, node in enumerate(model.graph)
        for v in node.outputs
        if v.name
    }


def _read(node: ir.Node) -> list[str]:
    """Names of all values that a node reads, captured ones of its bodies included."""
    names = [str(v.name) for v in node.inputs if v is not None]
    graphs: list[Any] = [a.as_graph() for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH]
    while graphs:
        graph = graphs.pop()
        for inner in graph:
            names.extend(str(v.name) for v in inner.inputs if v is not None)
            graphs.extend(a.as_graph() for a in inner.attributes.values() if a.type == ir.AttributeType.GRAPH)
        names.extend(str(v.name) for v in graph.outputs)
    return names
