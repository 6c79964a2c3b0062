"""From a placed graph to the files of a folder: clusters, partitions, manifest, verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from gerules.errors import Difference
from gerules.graph.dtypes import is_tensor
from gerules.graph.infer import type_proto
from gerules.graph.info import UNKNOWN, Info
from gerules.graph.io import from_proto
from gerules.partition.cluster import Clustering, cluster
from gerules.partition.manifest import Cost, Manifest, ValidationReport, json_bytes, manifest_data, timing_bytes
from gerules.partition.net import ValueType
from gerules.partition.output import write_folder
from gerules.partition.placed import write_placement
from gerules.partition.protos import self_contained, to_bytes
from gerules.partition.split import Partitions, split
from gerules.pipeline.costs import TargetCosts
from gerules.pipeline.options import Options
from gerules.pipeline.placing import Placement
from gerules.pipeline.report import CostReport, Report, Verdict
from gerules.pipeline.subject import Clock, Subject, count_nodes
from gerules.pipeline.validation import judge
from gerules.simulate import PartitionModel
from gerules.target.sizes import likeness

MODEL, MANIFEST, TIMING = "model.onnx", "manifest.json", "timing.json"


@dataclass(frozen=True)
class Result:
    """A model with its placement, ready to be written. `infos` is what is known of its values."""

    command: str
    placement: Placement
    infos: Mapping[ir.Value, Info]
    nodes_before: int
    cost: CostReport
    changed: bool
    fired: Mapping[str, int] = field(default_factory=dict)
    made: Mapping[str, int] = field(default_factory=dict)
    made_by: Mapping[str, str] = field(default_factory=dict)
    stopped: str = ""
    iterations: int = 0
    notes: tuple[str, ...] = ()
    unproved: tuple[str, ...] = ()


def deliver(
    subject: Subject,
    original: ir.Model,
    costs: TargetCosts,
    result: Result,
    out: str | Path,
    options: Options,
    clock: Clock,
) -> Report:
    """Clusters and splits the placed model, validates whole and partitions, writes the folder `out`.

    Raises GerulesError; then nothing is at the destination (where validation differs, what was made goes to
    `keep_failed`).
    """
    model = subject.model
    subject.promise(model)
    options.progress("making clusters")
    with clock.stage("cluster"):
        clustering = _clusters(subject, costs, result)
    options.progress("splitting")
    with clock.stage("split"):
        whole = write_placement(
            self_contained(model),
            clustering,
            target=costs.target.name,
            engines=(*costs.target.engines, *costs.target.composites),
        )
        plain = _split(whole, clustering, costs, result, border_nodes=False)
        parts = _split(whole, clustering, costs, result, border_nodes=True) if options.border_nodes else plain
    options.progress("validating")
    failed: Difference | None = None
    with clock.stage("validate"):
        try:
            verdict = _judge(original, whole, plain, subject, result, options)
        except Difference as difference:
            failed, verdict = difference, Verdict(ran=True, ok=False, seeds=options.seeds)
    manifest = _manifest(subject, costs, result, clustering, parts, verdict)
    files = {MODEL: to_bytes(whole), **{f"partitions/{n}": d for n, d in parts.files().items()}}
    files[MANIFEST] = json_bytes(manifest)
    if failed is not None:
        if options.keep_failed is not None:
            write_folder(options.keep_failed, files, force=True, keep=[subject.path])
        raise failed
    options.progress("writing")
    files[TIMING] = timing_bytes(clock.total())
    write_folder(out, files, force=options.force, keep=[subject.path])
    partitions: dict[str, int] = {}
    for found in clustering.clusters:
        partitions[found.engine] = partitions.get(found.engine, 0) + 1
    return Report(
        command=result.command,
        output=str(out),
        nodes_before=result.nodes_before,
        nodes_after=count_nodes(model),
        verdict=verdict,
        changed=result.changed,
        cost=result.cost,
        fired=result.fired,
        made=result.made,
        unproved=result.unproved,
        partitions=partitions,
        stopped=result.stopped,
        iterations=result.iterations,
        seconds=clock.total(),
        notes=result.notes,
    )


def _clusters(subject: Subject, costs: TargetCosts, result: Result) -> Clustering:
    target = costs.target
    view = subject.view(result.infos)
    graph = subject.model.graph
    return cluster(
        graph,
        result.placement.engines,
        may_merge=target.may_merge,
        groups=result.placement.groups,
        streams=target.streams,
        composites=target.composite_of,
        types={v.name: _value_type(result.infos[v]) for v in _values(graph) if v.name and v in result.infos},
        operators={n.name: view.operator(n).key for n in graph if n.name and view.operator(n).since},
    )


def _values(graph: ir.Graph) -> list[ir.Value]:
    return [*graph.inputs, *(v for node in graph for v in node.outputs)]


def _value_type(info: Info) -> ValueType:
    if info.shape is None:
        return ValueType("" if info is UNKNOWN or info.dtype == "?" else info.dtype, None)
    shape = tuple(None if d is None else d.value if d.value is not None else d.text for d in info.shape)
    return ValueType(info.dtype, shape)


def _split(
    whole: onnx.ModelProto, clustering: Clustering, costs: TargetCosts, result: Result, *, border_nodes: bool
) -> Partitions:
    types: dict[str, onnx.TypeProto] = {}
    sizes: dict[str, int] = {}
    for value, info in result.infos.items():
        if value.name and value.name in clustering.net.producer:
            made = _type_of(info)
            if made is not None:
                types[value.name] = made
            if is_tensor(info.dtype) and info.shape is not None:
                sizes[value.name] = int(costs.size(info))
    return split(whole, clustering, border_nodes=border_nodes, types=types, sizes=sizes)


def _type_of(info: Info) -> onnx.TypeProto | None:
    """The type as models write it: extents that are no plain symbol stay open."""
    symbols: dict[str, Any] = {}
    made = type_proto(info, {}, symbols) if info != UNKNOWN else None
    if made is None:
        return None
    inner = made
    while (kind := inner.WhichOneof("value")) in ("sequence_type", "optional_type"):
        inner = inner.sequence_type.elem_type if kind == "sequence_type" else inner.optional_type.elem_type
    for dim in inner.tensor_type.shape.dim if inner.tensor_type.HasField("shape") else ():
        if dim.HasField("dim_param"):
            text = symbols[dim.dim_param].text
            if text.isidentifier():
                dim.dim_param = text
            else:
                dim.ClearField("dim_param")
    return made


def _judge(
    original: ir.Model, whole: onnx.ModelProto, plain: Partitions, subject: Subject, result: Result, options: Options
) -> Verdict:
    if not options.validate:
        return judge(original, original, options, subject.dimensions)
    candidate = from_proto(whole)
    parts = [PartitionModel(item.file, from_proto(item.model), item.inputs, item.outputs) for item in plain.items]
    return judge(
        original,
        candidate,
        options,
        subject.dimensions,
        made_by=result.made_by,
        fired=result.fired,
        partitions=parts,
    )


def _manifest(
    subject: Subject,
    costs: TargetCosts,
    result: Result,
    clustering: Clustering,
    parts: Partitions,
    verdict: Verdict,
) -> dict[str, Any]:
    cost = result.cost
    about = Manifest(
        nodes_before=result.nodes_before,
        nodes_after=count_nodes(subject.model),
        cost=Cost(
            before=cost.before[0],
            after=cost.after[0],
            lower_bound=cost.lower_bound[0],
            method=cost.method,
            after_by_cluster=_by_cluster(costs, result, clustering),
        ),
        rules_fired=result.fired,
        stopped=result.stopped,
        validation=ValidationReport(
            verdict.ran, verdict.ok, verdict.partial, verdict.max_abs_err, verdict.max_rel_err, verdict.seeds
        ),
        extra={
            "target": costs.target.name,
            "coverage": _coverage(subject, costs, result),
            "rules_made": dict(sorted(result.made.items())),
            "unproved": list(result.unproved),
            "bindings": [dict(b) for b in verdict.bindings],
            "notes": [*result.notes, *verdict.notes],
        },
    )
    return manifest_data(about, clustering, parts)


def _by_cluster(costs: TargetCosts, result: Result, clustering: Clustering) -> float:
    """Seconds with one launch for each cluster instead of each node."""
    launch = costs.target.launch
    by_node = sum(launch[e] for e in result.placement.engines.values())
    return max(0.0, result.cost.after[0] - by_node + sum(launch[c.engine] for c in clustering.clusters))


def _coverage(subject: Subject, costs: TargetCosts, result: Result) -> dict[str, dict[str, float]]:
    """Engine -> its share of the nodes and of the flops, at the likely sizes."""
    view = subject.view(result.infos)
    nodes: dict[str, int] = dict.fromkeys(costs.target.engines, 0)
    flops: dict[str, float] = dict.fromkeys(costs.target.engines, 0.0)
    known: dict[object, float] = {}
    for node in subject.model.graph:
        engine = result.placement.engines.get(node.name or "")
        if engine is None:
            continue
        nodes[engine] += 1
        alike = likeness(view, node) if costs.target.figures.flat(view.operator(node)) else node
        if alike not in known:
            found = costs.target.figures_of(view, node)
            known[alike] = sum(f.flops for f in found) / len(found)
        flops[engine] += known[alike]
    all_nodes, all_flops = sum(nodes.values()) or 1, sum(flops.values()) or 1.0
    return {
        e: {"nodes": round(nodes[e] / all_nodes, 6), "flops": round(flops[e] / all_flops, 6)}
        for e in costs.target.engines
        if nodes[e]
    }
