"""`compile`: rewriting and placement in one choice, then clusters, partitions, verdict. The main job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path

import onnx_ir as ir

from gerules.egraph.choices import Candidates
from gerules.egraph.optimize import GraphTask, Outcome, optimize
from gerules.errors import Diagnostic, Refused
from gerules.extract import Infeasible, Solution, solve
from gerules.graph import infer_facts
from gerules.graph.info import Info
from gerules.graph.io import name_nodes, reload
from gerules.pipeline.costs import TargetCosts
from gerules.pipeline.defining import Defined, define_missing
from gerules.pipeline.delivery import Result, deliver
from gerules.pipeline.options import Options
from gerules.pipeline.placing import Placement, place
from gerules.pipeline.problems import egraph_view, nothing_made, nothing_shared, pins, problem_of_candidates
from gerules.pipeline.report import CostReport, Report
from gerules.pipeline.rewriting import Rewriter, improved, made_counts
from gerules.pipeline.rules import Loaded, rules_of
from gerules.pipeline.subject import Clock, Dimensions, Subject, count_nodes
from gerules.pipeline.validation import check_outputs
from gerules.target import load_target
from gerules.target.graph_view import GraphView

EXTRACT_SHARE = 0.6
"""Of the time limit, for the choice of e-nodes; the rest is for placing input and result."""


def compile_model(path: str | Path, target: str, out: str | Path, options: Options | None = None) -> Report:
    """Rewrites the model at `path` for the engines of `target` and writes the folder `out`.

    `target` is a shipped name or the path of a rule file with engines. The result is never dearer than the input graph
    under the best placement found for it. Raises GerulesError; then nothing was written.
    """
    options = options or Options()
    dimensions = Dimensions.of(options)
    check_outputs(path, out, options)
    clock = Clock()
    options.progress("reading the rules")
    with clock.stage("rules"):
        loaded = rules_of(options, target)
        machine = load_target(loaded.program, target, dimensions.sizes)
    options.progress("reading the model")
    with clock.stage("read"):
        subject = Subject.load(path, loaded.program, dimensions)
        name_nodes(subject.model)
    nodes_before = count_nodes(subject.model)
    costs = TargetCosts(machine, dimensions.sizes)
    with clock.stage("define"):
        defined = define_missing(subject, costs, target, options)
    compiler = _Compiler(subject, Rewriter(subject, loaded, options), costs, options, clock, defined)
    if loaded.on:
        outcome = optimize(
            subject.model,
            loaded.engine,
            compiler.choose,
            facts=dimensions.facts,
            define=subject.define(subject.view({})),
            table=subject.table,
            progress=options.progress,
        )
        for stage, seconds in outcome.seconds.items():
            clock.add(stage, seconds)
    else:
        outcome = Outcome()
    result = compiler.finish(outcome, nodes_before, loaded)
    with clock.stage("read"):
        original = reload(subject.model) if options.validate else subject.model
    return deliver(subject, original, costs, result, out, options, clock)


@dataclass
class _Compiler:
    """Chooses for the main graph by the costs of the target, for bodies by those without one."""

    subject: Subject
    rewriter: Rewriter
    costs: TargetCosts
    options: Options
    clock: Clock
    defined: Defined | None = None
    """What had to be written out since no engine takes it: then the input cannot run as it is."""
    infos: Mapping[ir.Value, Info] | None = None
    input: Placement | None = None
    before: tuple[float, ...] | None = None
    solution: Solution | None = None
    stopped: str = ""

    def choose(self, found: Candidates, task: GraphTask) -> Mapping[int, int] | None:
        if task.path:
            return self.rewriter.choose(found, task)
        infos = improved(found, task.infos)
        first = self.infos is None
        self.infos = infos
        if first and nothing_made(found):
            return None
        pinned = pins(task.graph, self.costs)
        whole = first and not self._placed_as_candidates(found, task.graph, infos)
        if whole:
            self._place_input(task.graph, infos)
        view = egraph_view(found, self.subject.table, self.subject.view({}).operator)
        problem = problem_of_candidates(found, view, self.costs, pinned)
        try:
            solution = solve(problem, time_limit=EXTRACT_SHARE * self.options.time_limit)
        except Infeasible as fault:
            raise Refused(self._refusal(fault, found, task.graph, infos)) from None
        self.stopped = self.stopped or (solution.stopped or "")
        if first and not whole:
            self.before = solution.before
        if self.before is not None and solution.cost >= self.before:
            return None
        self.solution = solution
        self.infos = task.infos  # which is told of what is rebuilt
        return solution.choice

    def _placed_as_candidates(self, found: Candidates, graph: ir.Graph, infos: Mapping[ir.Value, Info]) -> bool:
        """Whether extraction, which shares equal work and knows no groups, places the input graph as it is."""
        if self.costs.target.group_rules and self.costs.target.groups(self.subject.view(infos), list(graph)):
            return False
        return nothing_shared(found)

    def _place_input(self, graph: ir.Graph, infos: Mapping[ir.Value, Info]) -> None:
        """The input graph as it is; that it cannot run by itself is no fault yet."""
        try:
            self.input = place(graph, self.subject, self.costs, infos, self._share)
            self.before = self.input.cost
        except Refused:
            self.before = (inf,) * len(self.costs.components)

    @property
    def _share(self) -> float:
        return (1 - EXTRACT_SHARE) / 2 * self.options.time_limit

    @property
    def _last_share(self) -> float:
        """For the placement of the result: all that is left where nothing was spent before."""
        return self._share if self.solution is not None or self.input is not None else self.options.time_limit

    def _refusal(
        self, fault: Infeasible, found: Candidates, graph: ir.Graph, infos: Mapping[ir.Value, Info]
    ) -> list[Diagnostic]:
        """The nodes of the input graph that make the classes without an engine; all that have none, where rules made
        those classes."""
        lost = set(fault.classes)
        saturated = found.saturated
        nodes = [
            loaded.node
            for loaded in found.encoded.nodes
            if saturated.node_class.get(loaded.number) in lost
            or any(r >= 0 and saturated.value_class[r] in lost for r in loaded.results)
        ]
        view = self.subject.view(infos)
        faults = self.costs.target.unsupported(view, nodes, GraphView.name)
        if not faults:
            faults = self.costs.target.unsupported(view, list(graph), GraphView.name)
        return list(faults) or self._pin_faults(graph, infos)

    def _pin_faults(self, graph: ir.Graph, infos: Mapping[ir.Value, Info]) -> list[Diagnostic]:
        try:
            place(graph, self.subject, self.costs, infos, self._share)
        except Refused as refused:
            return list(refused.diagnostics)
        raise AssertionError("a graph that can be placed is never infeasible")

    def _input_instead(self) -> Placement:
        """The input graph after all: groups that have to stay whole made the result dearer than extraction thought."""
        self.subject.model = reload(self.subject.model)
        name_nodes(self.subject.model)
        self.infos = infer_facts(self.subject.model, self.subject.dimensions.facts, table=self.subject.table)
        placement = place(self.subject.model.graph, self.subject, self.costs, self.infos, self._share)
        self.before, self.solution = placement.cost, None
        return placement

    def finish(self, outcome: Outcome, nodes_before: int, loaded: Loaded) -> Result:
        """The placement of what came out; the input's where that is no dearer."""
        model = self.subject.model
        self.options.progress("placing")
        with self.clock.stage("place"):
            if self.infos is None:
                self.infos = infer_facts(model, self.subject.dimensions.facts, table=self.subject.table)
            placement = None if outcome.changed else self.input
            if placement is None:
                placement = place(model.graph, self.subject, self.costs, self.infos, self._last_share)
            changed = outcome.changed
            if self.before is not None and placement.cost > self.before and self.defined is None:
                placement, changed = self._input_instead(), False
        model = self.subject.model
        solution = placement.solution
        after = placement.cost
        before = self.before if self.before is not None else after
        bound = solution.lower_bound if self.solution is None else min(self.solution.lower_bound, after)
        method = solution.method if self.solution is None else self.solution.method
        if method == "input" and changed:
            method = "sharing"  # the input's own nodes, each only once
        gap = (after[0] - bound[0]) / after[0] if after[0] else 0.0
        unproved = set(loaded.unproved(outcome.fired))
        if self.defined is not None:
            before = (inf,) * len(after)
            method = "definitions" if method in ("input", "sharing") else method
            written = self.defined.outcome
            outcome.changed = changed = True
            outcome.made_by = {**written.made_by, **outcome.made_by}
            for rule in written.made_by.values():
                outcome.fired[rule] = outcome.fired.get(rule, 0) + 1
            unproved |= set(self.defined.loaded.unproved(written.made_by.values()))
        return Result(
            command="compile",
            placement=placement,
            infos=self.infos,
            nodes_before=nodes_before,
            cost=CostReport(before, after, bound, gap, method, self.costs.components),
            changed=changed,
            fired=outcome.fired,
            made=made_counts(model, outcome.made_by),
            made_by=outcome.made_by,
            stopped=outcome.stopped or self.stopped or solution.stopped or "",
            iterations=outcome.iterations,
            notes=loaded.notes,
            unproved=tuple(sorted(unproved)),
        )
