"""`manifest.json`: what was made, in one file. Its schema is `docs/manifest.schema.json`.

Everything in it is the same in two runs; seconds of stages go to `timing.json`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gerules.errors import Diagnostic, InternalFault
from gerules.partition.cluster import Clustering
from gerules.partition.split import Partitions


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost in the unit of the target (seconds). `before`: the input graph, not rewritten, under its best placement;
    `lower_bound` of any answer; `method`: which way of the portfolio won. `after` counts a launch for each node, as
    extraction does, `after_by_cluster` one for each cluster (None where there are no launches to count)."""

    before: float | None
    after: float | None
    lower_bound: float | None
    method: str
    after_by_cluster: float | None = None

    @property
    def gap(self) -> float | None:
        """(after - lower_bound) / after, 0 to 1; None where one of them is not known."""
        if self.after is None or self.lower_bound is None:
            return None
        if self.after <= 0:
            return 0.0
        return min(1.0, max(0.0, (self.after - self.lower_bound) / self.after))


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """What the simulator said. `partial`: something could not be compared (an opaque operator of unknown type)."""

    ran: bool
    ok: bool
    partial: bool = False
    max_abs_err: float | None = None
    max_rel_err: float | None = None
    seeds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything that `manifest.json` says beside clusters and channels. `stopped` names the limit that ended a stage
    early ("" for none); `extra` holds further top-level entries, plain JSON."""

    nodes_before: int
    nodes_after: int
    cost: Cost
    rules_fired: Mapping[str, int]
    stopped: str
    validation: ValidationReport
    extra: Mapping[str, Any] = field(default_factory=dict)


def manifest_data(about: Manifest, clustering: Clustering, partitions: Partitions) -> dict[str, Any]:
    """The manifest as plain JSON data, keys in a fixed order, rules by name."""
    file_of = {item.id: item for item in partitions.items}
    data: dict[str, Any] = {
        "nodes": {"before": about.nodes_before, "after": about.nodes_after},
        "cost": {
            "before": about.cost.before,
            "after": about.cost.after,
            "after_by_cluster": about.cost.after_by_cluster,
            "lower_bound": about.cost.lower_bound,
            "gap": about.cost.gap,
            "method": about.cost.method,
        },
        "clusters": [
            {
                "id": cluster.id,
                "engine": cluster.engine,
                "stream": cluster.stream,
                "nodes": list(cluster.nodes),
                "file": f"partitions/{file_of[cluster.id].file}",
                "inputs": list(file_of[cluster.id].inputs),
                "outputs": list(file_of[cluster.id].outputs),
            }
            for cluster in clustering.clusters
        ],
        "channels": [
            {
                "value": channel.value,
                "from": channel.source,
                "to": channel.target,
                "bytes": channel.bytes,
                "peer_index": channel.peer_index,
                "parent_op_type": channel.parent_op_type,
                "parent_node_name": channel.parent_node_name,
                "placeholder_anchor": channel.placeholder_anchor,
                "end_anchor": channel.end_anchor,
            }
            for channel in partitions.channels
        ],
        "border_nodes": partitions.border_nodes,
        "rules_fired": {name: about.rules_fired[name] for name in sorted(about.rules_fired)},
        "stopped": about.stopped,
        "validation": {
            "ran": about.validation.ran,
            "ok": about.validation.ok,
            "partial": about.validation.partial,
            "max_abs_err": about.validation.max_abs_err,
            "max_rel_err": about.validation.max_rel_err,
            "seeds": list(about.validation.seeds),
        },
    }
    taken = sorted(data.keys() & about.extra.keys())
    if taken:
        raise InternalFault(Diagnostic("GR905", f"manifest entry {taken[0]!r} is written twice"))
    return data | dict(about.extra)


def json_bytes(data: Mapping[str, Any] | Sequence[Any]) -> bytes:
    """Deterministic JSON: UTF-8, keys as they come, a line break at the end; numbers that JSON lacks become null."""
    return (json.dumps(_finite(data), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def timing_bytes(seconds: Mapping[str, float]) -> bytes:
    """`timing.json`: seconds of each stage, in the order of running, rounded to microseconds."""
    return json_bytes({stage: round(value, 6) for stage, value in seconds.items()})


def _finite(data: Any) -> Any:
    if isinstance(data, float) and not math.isfinite(data):
        return None
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return data
