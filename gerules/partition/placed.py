"""Placement in a model's own words: node metadata, and from IR version 11 on ONNX's device configuration."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnx_ir as ir

from gerules.errors import Diagnostic, InternalFault
from gerules.partition.cluster import Clustering
from gerules.partition.net import LABEL_KEY

PIN_KEY = "gerules.engine"
ENGINE_KEY = "gerules.placed_engine"
CLUSTER_KEY = "gerules.cluster"
STREAM_KEY = "gerules.stream"
DEVICE_CONFIGURATION_SINCE = 11
"""The IR version that brought ModelProto.configuration and NodeProto.device_configurations."""


def read_pins(graph: ir.Graph) -> dict[str, str]:
    """Node name to the engine that the user pinned it to (metadata `gerules.engine`)."""
    return {n.name: n.metadata_props[PIN_KEY] for n in graph if n.name and n.metadata_props.get(PIN_KEY)}


def read_labels(graph: ir.Graph) -> dict[str, str]:
    """Node name to the user's stream label (metadata `gerules.stream_label`)."""
    return {n.name: n.metadata_props[LABEL_KEY] for n in graph if n.name and n.metadata_props.get(LABEL_KEY)}


def write_placement(
    model: onnx.ModelProto, clustering: Clustering, *, target: str, engines: Sequence[str]
) -> onnx.ModelProto:
    """A copy of `model` whose nodes say where they run.

    Metadata `gerules.placed_engine` is the node's engine (a part, where the cluster runs on a composite),
    `gerules.cluster` and `gerules.stream` the numbers of its cluster and stream. A copied node has lists, one entry
    for each cluster that holds it (`Npu,Cpu`, `0,3`, `0,1`). From IR version 11 on the model also declares the
    configuration `target` with `engines` as its devices, and each node puts its results on its device, with the
    number of its cluster as the pipeline stage. Earlier entries of the same names are replaced; the IR version stays.
    """
    placed = onnx.ModelProto()
    placed.CopyFrom(model)
    names = [node.name for node in clustering.net.nodes]
    if names != [node.name for node in placed.graph.node]:
        raise InternalFault(Diagnostic("GR903", "the clusters were made from another model"))
    for node in placed.graph.node:
        holders = clustering.holders(node.name)
        _set(node, ENGINE_KEY, ",".join(_engines_of(clustering, node.name)))
        _set(node, CLUSTER_KEY, ",".join(str(at) for at in holders))
        _set(node, STREAM_KEY, ",".join(str(clustering.clusters[at].stream) for at in holders))
    if placed.ir_version >= DEVICE_CONFIGURATION_SINCE:
        _write_devices(placed, clustering, target, engines)
    return placed


def _engines_of(clustering: Clustering, node: str) -> list[str]:
    if node in clustering.copies:
        return [clustering.clusters[at].engine for at in clustering.copies[node]]
    return [clustering.facts[node].engine]


def _set(node: onnx.NodeProto, key: str, value: str) -> None:
    for entry in node.metadata_props:
        if entry.key == key:
            entry.value = value
            return
    node.metadata_props.append(onnx.StringStringEntryProto(key=key, value=value))


def _write_devices(model: onnx.ModelProto, clustering: Clustering, target: str, engines: Sequence[str]) -> None:
    device = {engine: at for at, engine in enumerate(engines)}
    kept = [c for c in model.configuration if c.name != target]
    del model.configuration[:]
    model.configuration.extend(kept)
    model.configuration.append(onnx.DeviceConfigurationProto(name=target, num_devices=len(engines), device=engines))
    for node in model.graph.node:
        others = [c for c in node.device_configurations if c.configuration_id != target]
        del node.device_configurations[:]
        node.device_configurations.extend(others)
        used = list(dict.fromkeys(_engines_of(clustering, node.name)))
        lost = [engine for engine in used if engine not in device]
        if lost:
            raise InternalFault(Diagnostic("GR904", f"engine {lost[0]!r} is not among those of {target}"))
        entry = node.device_configurations.add(configuration_id=target, pipeline_stage=clustering.holders(node.name)[0])
        for value in dict.fromkeys(v for v in node.output if v):
            entry.sharding_spec.add(tensor_name=value, device=[device[engine] for engine in used])
