"""The graphs of one model, its bodies and functions, converted one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from gerules.egraph.convert import Conversion, Stuck, Versions, every, in_force, types_admitted
from gerules.egraph.optimize import GraphTask, Names, Outcome
from gerules.errors import Diagnostic, Refused
from gerules.graph.constants import ConstantTable
from gerules.graph.dtypes import onnx_type
from gerules.graph.facts import infer_facts
from gerules.graph.functions import inner_nodes
from gerules.graph.info import UNKNOWN, Info
from gerules.graph.io import name_nodes, reload
from gerules.graph.spelling import FUNCTIONS, INITIALIZERS_ALONE, respell_constants
from gerules.graph.structure import all_graphs, bodies, constant_tensor, constant_values
from gerules.pipeline.denials import Denials
from gerules.pipeline.refusals import refusal
from gerules.pipeline.rules import Loaded
from gerules.pipeline.scans import scans, step_scan
from gerules.pipeline.subject import Subject
from gerules.registry import canonical_domain, onnx_registry
from gerules.registry.definition import OperatorDef

if TYPE_CHECKING:
    from gerules.pipeline.defining import Taken


@dataclass
class Converter:
    """Converts one model in place to the operator versions `wanted` (by domain; those of other domains stay) and, where
    it is given, to an IR version."""

    subject: Subject
    loaded: Loaded
    wanted: Mapping[str, int]
    ir_version: int | None = None
    moved: bool = False
    """Whether a version that the model imports has changed."""
    inlined: tuple[str, ...] = ()
    """Functions of the model that were written out at their calls, as `domain::name`."""
    infos: dict[ir.Value, Info] = field(default_factory=dict)
    imports: dict[ir.Node, Mapping[str, int]] = field(default_factory=dict)
    """The operator versions of nodes in functions, and of those that came with a body that was written out."""
    taken: Taken | None = None
    """Where the engines of a target have a say: what they take."""
    _denials: Denials | None = None

    def define(self, outcome: Outcome) -> list[Stuck]:
        """Writes out what `taken` does not let stay, at the versions that the model has. Gives the nodes that cannot
        be; then the graph is as it was."""
        self._prepare()
        return self._graphs(self.subject.model.graph, outcome)

    def run(self) -> Outcome:
        """Raises Refused with every node that cannot be converted."""
        model, outcome = self.subject.model, Outcome()
        name_nodes(model)
        if model.functions and self.ir_version is not None and self.ir_version < FUNCTIONS:
            self._inline(outcome)
        self._prepare()
        stuck = self._functions(outcome)
        if stuck:
            # A function is written for all its calls: at each of them more is known.
            self.subject.model = reload(self.subject.model)
            name_nodes(self.subject.model)
            self._inline(outcome)
            self._prepare()
        faults = [self._refusal(s) for s in self._graphs(self.subject.model.graph, outcome)]
        if faults:
            raise Refused(faults)
        self._stamp(outcome)
        return outcome

    # -------------------------------------------------------------------------------------------------- before, after

    def _prepare(self) -> None:
        model = self.subject.model
        source = {canonical_domain(d): v for d, v in model.opset_imports.items()}
        target = {**source, **{d: v for d, v in self.wanted.items() if d in source or not d}}
        self.versions = Versions(source, target)
        self.moved = bool(self.versions.moved())
        self.table: ConstantTable = self.subject.table
        self.infos = dict(infer_facts(model, self.subject.dimensions.facts, table=self.table))
        self.names = Names(model)
        self._defined = self.subject.define(self.subject.view({}))
        self._called = {(d, n) for d, n, _ in model.functions}
        for function in model.functions.values():
            own = {canonical_domain(d): v for d, v in function.opset_imports.items()}
            for node in inner_nodes(tuple(function)):
                self.imports[node] = own

    def _inline(self, outcome: Outcome) -> None:
        model = self.subject.model
        self.inlined = tuple(f"{d}::{n}" for d, n, _ in model.functions)
        imports: dict[str, set[int]] = {d: {v} for d, v in model.opset_imports.items()}
        for function in model.functions.values():
            for domain, version in function.opset_imports.items():
                imports.setdefault(domain, set()).add(version)
        mixed = sorted(domain or "ai.onnx" for domain, versions in imports.items() if len(versions) > 1)
        if mixed:
            raise Refused(
                Diagnostic(
                    "GR812",
                    f"functions of the model import other versions of {', '.join(mixed)} than the model, and cannot be "
                    "written out at their calls",
                    hint="export the model with one version for each domain",
                )
            )
        InlinePass()(model)
        name_nodes(model)
        self.imports.clear()
        outcome.changed = True

    def _stamp(self, outcome: Outcome) -> None:
        model, opset = self.subject.model, self.versions.target.get("", 0)
        for domain, version in self.versions.target.items():
            model.opset_imports[domain] = version
        for function in model.functions.values():
            for domain in function.opset_imports:
                if canonical_domain(domain) in self.wanted:
                    function.opset_imports[domain] = self.wanted[canonical_domain(domain)]
        if self.ir_version is not None and self.ir_version != model.ir_version:
            model.ir_version = self.ir_version
            self.moved = True
        if not opset:
            return
        alone = model.ir_version >= INITIALIZERS_ALONE
        for graph in all_graphs(model.graph):
            outcome.changed |= respell_constants(graph, opset, initializers=alone, fresh=self.names.fresh)
        for function in model.functions.values():
            for graph in all_graphs(function.graph):
                inside = graph is not function.graph
                outcome.changed |= respell_constants(graph, opset, initializers=inside, fresh=self.names.fresh)

    # ------------------------------------------------------------------------------------------------------- functions

    def _functions(self, outcome: Outcome) -> list[Stuck]:
        stuck: list[Stuck] = []
        for function in self.subject.model.functions.values():
            source = {canonical_domain(d): v for d, v in function.opset_imports.items()}
            target = {**source, **{d: v for d, v in self.wanted.items() if d in source}}
            self._describe(function)
            outer, self.versions = self.versions, Versions(source, target)
            stuck += self._graphs(function.graph, outcome, f"{function.domain}::{function.name}")
            self.versions = outer
        return stuck

    def _describe(self, function: ir.Function) -> None:
        """What is known of the values of a function: what all its calls have in common."""
        operands = [self._operands(node) for node in self._calls(function)]
        for place, value in enumerate(function.inputs):
            given = [infos[place] if place < len(infos) else None for infos in operands]
            if given and all(info is not None and info == given[0] and info != UNKNOWN for info in given):
                assert given[0] is not None
                value.type = onnx_type(given[0].dtype)
                if given[0].shape is not None:
                    value.shape = ir.Shape([d.value if d is not None else None for d in given[0].shape])
        self.infos.update(infer_facts(function.graph, self.subject.dimensions.facts, table=self.table))
        for value in function.inputs:
            value.type = value.shape = None

    def _calls(self, function: ir.Function) -> Iterator[ir.Node]:
        model = self.subject.model
        for graph in (model.graph, *(f.graph for f in model.functions.values())):
            for node in inner_nodes(tuple(graph)):
                if (node.domain, node.op_type, node.overload) == function.identifier():
                    yield node

    def _operands(self, node: ir.Node) -> list[Info | None]:
        return [None if v is None else self.infos.get(v, UNKNOWN) for v in node.inputs]

    # ---------------------------------------------------------------------------------------------------------- graphs

    def _graphs(self, first: ir.Graph, outcome: Outcome, path: str = "") -> list[Stuck]:
        """Converts a graph, then what is left of its bodies, outermost first."""
        stuck: list[Stuck] = []
        pending: list[tuple[ir.Graph, str]] = [(first, path)]
        while pending:
            graph, path = pending.pop()
            stuck += self._graph(graph, path, outcome)
            for node in reversed(list(graph)):
                for name, body in reversed(bodies(node)):
                    pending.append((body, f"{path}/{node.name}:{name}" if path else f"{node.name}:{name}"))
        return stuck

    def _graph(self, graph: ir.Graph, path: str, outcome: Outcome) -> list[Stuck]:
        for node in scans(graph):
            source = self.imports.get(node, self.versions.source).get("", 0)
            step_scan(
                graph, node, source, self.versions.target.get("", source), self.infos, self.imports, self.names.fresh
            )
        if all(self._passes(node) for node in graph):
            return []
        source = self.versions.source.get("", self.versions.target.get("", 1))
        task = GraphTask(graph, path, self.infos, self.table, self.subject.dimensions.facts, source)
        return Conversion(
            task,
            self.loaded.engine,
            self.versions,
            define=self._define,
            passes=self._passes,
            fixed=constant_values(self.subject.model) if not path else None,
            names=self.names,
            outcome=outcome,
            imports=self.imports,
            usable=self.taken.usable if self.taken is not None and not path else every,
        ).run()

    def _define(self, node: ir.Node) -> OperatorDef | None:
        imports = self.imports.get(node)
        if imports is None:
            return self._defined(node)
        version = imports.get(canonical_domain(node.domain))
        if version is None or (node.domain, node.op_type) in self._called:
            return None
        return onnx_registry().lookup(node.domain, node.op_type, version)

    def _passes(self, node: ir.Node) -> bool:
        """Whether a node means the same at the target as it is, with its types admitted there."""
        definition = self._define(node)
        if definition is None or constant_tensor(node) is not None:
            return True
        engine = self.loaded.engine
        held = in_force(engine, engine.known.signatures.of(definition), self.versions.target)
        if held is None or (self.taken is not None and not self.taken.node(self.subject.view(self.infos), node)):
            return False
        results = [self.infos.get(v, UNKNOWN) if v.name else None for v in node.outputs]
        return types_admitted(held, self._operands(node), results) is None

    def _refusal(self, stuck: Stuck) -> Diagnostic:
        if self._denials is None:
            rulesets = self.loaded.engine.scheduled
            self._denials = Denials.of(self.loaded.program, rulesets, self.versions.target)
        denied = self._denials.reason(self.subject.view(self.infos), stuck.node)
        return refusal(stuck, self.versions.target, onnx_registry(), denied)


__all__ = ["Converter"]
