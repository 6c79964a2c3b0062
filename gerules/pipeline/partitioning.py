"""`partition`: placement and clusters of a model as it is. Nothing is rewritten and nothing shared."""

from __future__ import annotations

from pathlib import Path

from gerules.graph import infer_facts
from gerules.graph.io import name_nodes, reload
from gerules.pipeline.costs import TargetCosts
from gerules.pipeline.delivery import Result, deliver
from gerules.pipeline.options import Options
from gerules.pipeline.placing import place
from gerules.pipeline.report import CostReport, Report
from gerules.pipeline.rules import load_rules
from gerules.pipeline.subject import Clock, Dimensions, Subject, count_nodes
from gerules.pipeline.validation import check_outputs
from gerules.target import load_target


def partition_model(path: str | Path, target: str, out: str | Path, options: Options | None = None) -> Report:
    """Places every node of the model at `path` on an engine of `target` and writes clusters to the folder `out`.

    `target` is a shipped name or the path of a rule file with engines. Raises GerulesError; then nothing was written.
    """
    options = options or Options()
    dimensions = Dimensions.of(options)
    check_outputs(path, out, options)
    clock = Clock()
    options.progress("reading the rules")
    with clock.stage("rules"):
        loaded = load_rules(options.rules, target=target)
        machine = load_target(loaded.program, target, dimensions.sizes)
    options.progress("reading the model")
    with clock.stage("read"):
        subject = Subject.load(path, loaded.program, dimensions)
        name_nodes(subject.model)
    with clock.stage("facts"):
        infos = infer_facts(subject.model, dimensions.facts, table=subject.table)
    costs = TargetCosts(machine, dimensions.sizes)
    options.progress("placing")
    with clock.stage("extract"):
        placement = place(subject.model.graph, subject, costs, infos, options.time_limit)
    solution = placement.solution
    cost = CostReport(
        solution.cost, solution.cost, solution.lower_bound, solution.gap, solution.method, costs.components
    )
    result = Result(
        command="partition",
        placement=placement,
        infos=infos,
        nodes_before=count_nodes(subject.model),
        cost=cost,
        changed=False,
        stopped=solution.stopped or "",
    )
    original = reload(subject.model) if options.validate else subject.model
    return deliver(subject, original, costs, result, out, options, clock)
