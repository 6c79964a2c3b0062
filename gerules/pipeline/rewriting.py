"""`rewrite`: a model in, a better one out, no engines."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import fsum
from pathlib import Path

import onnx_ir as ir

from gerules.egraph.choices import Candidates
from gerules.egraph.optimize import GraphTask, Outcome, optimize
from gerules.errors import Difference
from gerules.extract import Problem, Solution, solve
from gerules.graph import save_model
from gerules.graph.info import Info
from gerules.graph.io import name_nodes, reload
from gerules.graph.structure import all_graphs
from gerules.pipeline.costs import PlainCosts
from gerules.pipeline.options import Options
from gerules.pipeline.problems import egraph_view, is_constant, nothing_made, problem_of_candidates
from gerules.pipeline.report import CostReport, Report
from gerules.pipeline.rules import Loaded, rules_of
from gerules.pipeline.subject import Clock, Dimensions, Subject, count_nodes
from gerules.pipeline.validation import check_outputs, judge

LEAST_SECONDS = 0.5
"""What every graph may take for extraction, however much those before it took."""


def rewrite_model(path: str | Path, out: str | Path, options: Options | None = None) -> Report:
    """Rewrites the model at `path` by the rules that are on and writes the result to `out`.

    The result costs no more than the input (lexicographically: `gerules.target.plain`), and is the input as it was read
    where nothing gained. Raises GerulesError; then nothing was written (but what `keep_failed` asks for).
    """
    options = options or Options()
    dimensions = Dimensions.of(options)
    check_outputs(path, out, options)
    clock = Clock()
    options.progress("reading the rules")
    with clock.stage("rules"):
        loaded = rules_of(options)
    options.progress("reading the model")
    with clock.stage("read"):
        subject = Subject.load(path, loaded.program, dimensions)
    before = count_nodes(subject.model)
    rewriter = Rewriter(subject, loaded, options)
    outcome = rewriter.run()
    for stage, seconds in outcome.seconds.items():
        clock.add(stage, seconds)
    changed = outcome.changed and not rewriter.in_vain
    if not changed:
        with clock.stage("read"):
            subject.model = reload(subject.model)
    subject.promise(subject.model)
    if options.validate:
        options.progress("validating")
        with clock.stage("validate"):
            original = reload(subject.model)
            try:
                verdict = judge(
                    original, subject.model, options, dimensions, made_by=outcome.made_by, fired=outcome.fired
                )
            except Difference:
                _keep_failed(subject.model, options)
                raise
    else:
        verdict = judge(subject.model, subject.model, options, dimensions)
    options.progress("writing")
    with clock.stage("write"):
        save_model(subject.model, out, force=options.force)
    return Report(
        command="rewrite",
        output=str(out),
        nodes_before=before,
        nodes_after=count_nodes(subject.model),
        verdict=verdict,
        changed=changed,
        cost=rewriter.cost_report(changed),
        fired=outcome.fired,
        made=made_counts(subject.model, outcome.made_by),
        unproved=loaded.unproved(outcome.fired),
        stopped=outcome.stopped or rewriter.stopped,
        iterations=outcome.iterations,
        seconds=clock.total(),
        notes=loaded.notes,
    )


def made_counts(model: ir.Model, made_by: Mapping[str, str]) -> dict[str, int]:
    """Rule -> number of nodes of the model that it made."""
    counts: dict[str, int] = {}
    for graph in all_graphs(model.graph):
        for node in graph:
            rule = made_by.get(node.name or "")
            if rule is not None:
                counts[rule] = counts.get(rule, 0) + 1
    return counts


def _keep_failed(model: ir.Model, options: Options) -> None:
    if options.keep_failed is None:
        return
    folder = Path(options.keep_failed)
    folder.mkdir(parents=True, exist_ok=True)
    save_model(model, folder / "model.onnx", force=True)


@dataclass
class Rewriter:
    """Rewrites the graphs of a model, bodies too, with the cost without a target.

    `costs`, once `run` is through, has the vector of all graphs before and after; both are taken with what the e-graph
    found out about types.
    """

    subject: Subject
    loaded: Loaded
    options: Options
    stopped: str = ""
    methods: dict[str, None] = field(default_factory=dict)
    before: tuple[float, ...] | None = None
    after: tuple[float, ...] | None = None
    slack: float = 0.0
    infos: Mapping[ir.Value, Info] = field(default_factory=dict)
    _spent: float = 0.0

    def __post_init__(self) -> None:
        self.costs = PlainCosts(self.loaded.program, self.subject.dimensions.sizes)
        self._define = self.subject.define(self.subject.view({}))

    def run(self) -> Outcome:
        """Rewrites the model in place; with no rule on it stays exactly as it was read."""
        if not self.loaded.on:
            return Outcome()
        name_nodes(self.subject.model)
        outcome = optimize(
            self.subject.model,
            self.loaded.engine,
            self.choose,
            facts=self.subject.dimensions.facts,
            define=self._define,
            table=self.subject.table,
            progress=self.options.progress,
        )
        self.after = self._total()
        return outcome

    @property
    def in_vain(self) -> bool:
        """Whether the result is no better than the input."""
        return self.before is not None and self.after is not None and self.after >= self.before

    def choose(self, found: Candidates, task: GraphTask) -> Mapping[int, int] | None:
        """The cheapest choice for one graph; None where it is no cheaper than the graph as it is."""
        infos = improved(found, task.infos)
        if self.before is None:
            self.infos = task.infos
            self.before = self._vector(all_graphs(task.graph), infos)
        if nothing_made(found):
            return None
        stays = self._vector([task.graph], infos)
        view = egraph_view(found, self.subject.table, self.subject.view({}).operator)
        solution = self.solve(problem_of_candidates(found, view, self.costs))
        if solution.cost >= stays:
            return None
        self.slack += max(0.0, solution.cost[0] - solution.lower_bound[0])
        return solution.choice

    def solve(self, problem: Problem) -> Solution:
        started = time.monotonic()
        limit = max(LEAST_SECONDS, self.options.time_limit - self._spent)
        solution = solve(problem, time_limit=limit)
        self._spent += time.monotonic() - started
        self.methods[solution.method] = None
        self.stopped = self.stopped or (solution.stopped or "")
        return solution

    def _total(self) -> tuple[float, ...]:
        return self._vector(all_graphs(self.subject.model.graph), self.infos)

    def _vector(self, graphs: Iterable[ir.Graph], infos: Mapping[ir.Value, Info]) -> tuple[float, ...]:
        view = self.subject.view(infos)
        rows = [
            vector
            for graph in graphs
            for node in graph
            if not is_constant(node)
            for vector in self.costs.vectors(view, node)
            if vector is not None
        ]
        return (
            tuple(fsum(column) for column in zip(*rows, strict=True)) if rows else (0.0,) * len(self.costs.components)
        )

    def cost_report(self, changed: bool) -> CostReport | None:
        if self.before is None or self.after is None:
            return None
        after = self.after if changed else self.before
        bound = (max(0.0, after[0] - self.slack), *after[1:])
        gap = (after[0] - bound[0]) / after[0] if after[0] else 0.0
        method = ", ".join(self.methods) or "input"
        return CostReport(self.before, after, bound, gap, method, self.costs.components)


def improved(found: Candidates, infos: Mapping[ir.Value, Info]) -> dict[ir.Value, Info]:
    """What is known of values, with what the e-graph found out."""
    saturated = found.saturated
    better = dict(infos)
    for value, number in found.encoded.number.items():
        info = saturated.infos.get(saturated.value_class[number])
        if info is not None:
            better[value] = info
    return better


__all__ = ["LEAST_SECONDS", "Rewriter", "improved", "made_counts", "rewrite_model"]
