"""From a model and its clusters to one model for each cluster.

The plain form has borders as inputs and outputs, so that each file loads wherever its operators do. The form with
border nodes has PlaceHolder and End nodes instead, and carries what `merge` needs to give the whole back.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import onnx
import onnx_ir as ir
from onnx import helper

from gerules.errors import Diagnostic, InternalFault, Refused
from gerules.partition import protos
from gerules.partition.borders import Border, Channel, find_borders, find_channels
from gerules.partition.cluster import Cluster, Clustering

MERGE_PREFIX = "gerules.merge."
MODEL_KEY = MERGE_PREFIX + "model"
PART_KEY = MERGE_PREFIX + "part"
NODES_KEY = MERGE_PREFIX + "nodes"
SKELETON_KEY = MERGE_PREFIX + "skeleton"


@dataclass(frozen=True, slots=True)
class Partition:
    """One cluster as a model. `file` is its name, `inputs` and `outputs` the values that must be handed to it and that
    it hands on, by name, in both forms."""

    id: int
    engine: str
    file: str
    model: onnx.ModelProto
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Partitions:
    """All partitions in an execution order, and the channels between them by peer index."""

    items: tuple[Partition, ...]
    channels: tuple[Channel, ...]
    border_nodes: bool

    def files(self) -> dict[str, bytes]:
        """File name to contents. Raises Refused GR656 for one above 2 GiB."""
        return {item.file: protos.to_bytes(item.model) for item in self.items}


def split(
    model: onnx.ModelProto | ir.Model,
    clustering: Clustering,
    *,
    border_nodes: bool = False,
    types: Mapping[str, onnx.TypeProto] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Partitions:
    """One model per cluster of `clustering`, which was made from this very model.

    `types` adds to what the model declares of its values, `sizes` gives bytes of values with symbolic extents (for
    the table of channels only). With `border_nodes`, `merge_files` of the result gives the bytes of `model` again.
    Raises Refused: GR655 (element type of a border unknown), GR656 (already split, weights elsewhere, too large).
    """
    whole = protos.self_contained(model) if isinstance(model, ir.Model) else model
    protos.check_can_be_split(whole)
    names = [node.name for node in clustering.net.nodes]
    if names != [node.name for node in whole.graph.node]:
        raise InternalFault(Diagnostic("GR903", "the clusters were made from another model"))
    channels = find_channels(clustering)
    borders = find_borders(clustering, channels, {t.values.name for t in whole.graph.sparse_initializer})
    infos = _border_types(whole, borders, types or {})
    channels = tuple(replace(c, bytes=_size_of(c.value, infos, sizes or {})) for c in channels)
    source = _Source(whole, infos)
    items = [
        _partition(source, clustering, cluster, border, pairs)
        for cluster, border, pairs in zip(
            clustering.clusters, borders, _pairs_of(clustering, channels if border_nodes else None), strict=True
        )
    ]
    if border_nodes:
        if not items:
            items = [_carrier(source)]
        _add_merge_data(source, clustering, items)
    return Partitions(tuple(items), channels, border_nodes)


def file_name(cluster: Cluster, count: int) -> str:
    """`003_AiCore.onnx` for one of `count` clusters, so that names sort as they run; whatever is no ASCII letter,
    digit, `-`, `_` or `.` in an engine's name becomes `_`."""
    engine = re.sub(r"[^A-Za-z0-9_.-]", "_", cluster.engine) or "_"
    return f"{cluster.id:0{max(3, len(str(count - 1)))}d}_{engine}.onnx"


def node_ranges(positions: Sequence[int]) -> str:
    """`0-4,7,9-12`: positions in a short text, their order kept."""
    pieces: list[list[int]] = []
    for position in positions:
        if pieces and pieces[-1][1] + 1 == position:
            pieces[-1][1] = position
        else:
            pieces.append([position, position])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in pieces)


# ------------------------------------------------------------------ types of borders


def _border_types(
    model: onnx.ModelProto, borders: Sequence[Border], types: Mapping[str, onnx.TypeProto]
) -> dict[str, onnx.ValueInfoProto]:
    infos = protos.declared(model.graph)
    for name, kind in types.items():
        known = infos.get(name)
        if known is None or not (protos.is_typed(known.type) and protos.has_rank(known.type)):
            infos[name] = onnx.ValueInfoProto(name=name, type=kind)
        else:
            infos[name] = _sharpened(known, kind)
    crossing = list(dict.fromkeys(v for b in borders for v in (*b.inputs, *b.optional_inputs, *b.outputs)))
    if any(v not in infos or not (protos.is_typed(infos[v].type) and protos.has_rank(infos[v].type)) for v in crossing):
        for name, info in protos.inferred(model).items():
            known = infos.get(name)
            lacking = known is None or not protos.is_typed(known.type) or not protos.has_rank(known.type)
            if lacking and protos.is_typed(info.type):
                better = onnx.ValueInfoProto()
                better.CopyFrom(known if known is not None else info)
                better.type.CopyFrom(info.type)
                infos[name] = better
    lost = [v for v in crossing if v not in infos or not protos.is_typed(infos[v].type)]
    if lost:
        hint = "declare it in value_info, or place the nodes on both sides of it on one engine"
        raise Refused(
            [Diagnostic("GR655", f"the element type of border value {v!r} is unknown", node=v, hint=hint) for v in lost]
        )
    return infos


def _sharpened(known: onnx.ValueInfoProto, kind: onnx.TypeProto) -> onnx.ValueInfoProto:
    """The declared type with the extents that `kind` knows as numbers: a declared name for an extent that is a number
    makes some loaders refuse the part."""
    dims, more = known.type.tensor_type.shape.dim, kind.tensor_type.shape.dim
    if len(dims) != len(more) or not any(m.HasField("dim_value") for m in more):
        return known
    made = onnx.ValueInfoProto()
    made.CopyFrom(known)
    for dim, better in zip(made.type.tensor_type.shape.dim, more, strict=True):
        if better.HasField("dim_value") and not dim.HasField("dim_value"):
            dim.CopyFrom(better)
    return made


def _size_of(value: str, infos: Mapping[str, onnx.ValueInfoProto], sizes: Mapping[str, int]) -> int | None:
    known = protos.static_bytes(infos[value].type)
    return known if known is not None else sizes.get(value)


# ------------------------------------------------------------------ one file


class _Source:
    """The whole model, looked up by name."""

    def __init__(self, model: onnx.ModelProto, infos: Mapping[str, onnx.ValueInfoProto]) -> None:
        self.model = model
        self.infos = infos
        self.functions = {protos.function_key(f): f for f in model.functions}
        self.value_info = {v.name: at for at, v in enumerate(model.graph.value_info)}
        self.annotations: dict[str, list[int]] = {}
        for at, annotation in enumerate(model.graph.quantization_annotation):
            self.annotations.setdefault(annotation.tensor_name, []).append(at)
        self.initializer = {t.name: at for at, t in enumerate(model.graph.initializer)}
        self.outputs = {v.name for v in model.graph.output}
        self.sparse = {t.values.name: at for at, t in enumerate(model.graph.sparse_initializer)}

    def frame(self, suffix: str) -> onnx.ModelProto:
        """A model without contents that keeps what is said of the whole."""
        part = onnx.ModelProto(ir_version=self.model.ir_version)
        for name in ("producer_name", "producer_version", "domain", "model_version", "doc_string"):
            if self.model.HasField(name):
                setattr(part, name, getattr(self.model, name))
        part.opset_import.extend(self.model.opset_import)
        part.metadata_props.extend(p for p in self.model.metadata_props if not p.key.startswith(MERGE_PREFIX))
        part.configuration.extend(self.model.configuration)
        part.graph.name = f"{self.model.graph.name or 'graph'}_{suffix}"
        part.graph.metadata_props.extend(self.model.graph.metadata_props)
        return part

    def info(self, value: str) -> onnx.ValueInfoProto:
        return self.infos[value]


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The channels that end in one cluster, and those that begin there, by peer index."""

    arriving: list[Channel]
    leaving: list[Channel]


def _pairs_of(clustering: Clustering, channels: Sequence[Channel] | None) -> list[_Pairs | None]:
    """The pairs of every cluster, by id; None for each in the plain form."""
    if channels is None:
        return [None] * len(clustering.clusters)
    pairs = [_Pairs([], []) for _ in clustering.clusters]
    for channel in channels:
        pairs[channel.target].arriving.append(channel)
        pairs[channel.source].leaving.append(channel)
    return list(pairs)


def _partition(
    source: _Source, clustering: Clustering, cluster: Cluster, border: Border, pairs: _Pairs | None
) -> Partition:
    """The file of one cluster: the plain form where `pairs` is None, else that with border nodes."""
    whole = source.model
    part = source.frame(f"{cluster.id:03d}")
    graph = part.graph
    nodes = [whole.graph.node[clustering.net.position[name]] for name in cluster.nodes]
    handed = dict.fromkeys(c.value for c in pairs.arriving) if pairs is not None else {}

    graph.input.extend(source.info(v) for v in border.inputs if v not in handed)
    graph.input.extend(source.info(v) for v in border.optional_inputs)
    graph.output.extend(source.info(v) for v in border.outputs if pairs is None or v in source.outputs)
    if pairs is not None:
        _import_borders(part)
        graph.node.extend(_border_node(clustering, protos.PLACEHOLDER, c) for c in pairs.arriving)
    graph.node.extend(nodes)
    if pairs is not None:
        graph.node.extend(_border_node(clustering, protos.END, c) for c in pairs.leaving)

    values = dict.fromkeys(v for node in nodes for v in node.output if v)
    _copy_initializers(source, graph, border, values)
    faces = {v.name for v in (*graph.input, *graph.output)}
    for value in dict.fromkeys((*handed, *values, *sorted(border.initializers))):
        if value in faces:
            continue
        if value in source.value_info:
            graph.value_info.append(whole.graph.value_info[source.value_info[value]])
        elif value in handed or (value in border.outputs and value not in border.initializers):
            graph.value_info.append(source.info(value))
    part.functions.extend(source.functions[key] for key in protos.functions_in_use(nodes, source.functions))
    return Partition(
        cluster.id, cluster.engine, file_name(cluster, len(clustering.clusters)), part, border.inputs, border.outputs
    )


def _copy_initializers(source: _Source, graph: onnx.GraphProto, border: Border, values: Mapping[str, None]) -> None:
    """Initializers in the order of the whole, with quantization annotations and what these name."""
    wanted = set(border.initializers)
    annotations: list[int] = []
    for value in (*border.inputs, *values, *sorted(border.initializers)):
        for at in source.annotations.get(value, ()):
            annotations.append(at)
            named = (p.value for p in source.model.graph.quantization_annotation[at].quant_parameter_tensor_names)
            wanted.update(n for n in named if n in source.initializer)
    graph.initializer.extend(
        source.model.graph.initializer[at]
        for at in sorted(source.initializer[n] for n in wanted if n in source.initializer)
    )
    graph.sparse_initializer.extend(
        source.model.graph.sparse_initializer[at]
        for at in sorted(source.sparse[n] for n in wanted if n in source.sparse)
    )
    graph.quantization_annotation.extend(source.model.graph.quantization_annotation[at] for at in sorted(annotations))


# ------------------------------------------------------------------ border nodes


def _import_borders(part: onnx.ModelProto) -> None:
    if all(o.domain != protos.DOMAIN for o in part.opset_import):
        part.opset_import.append(helper.make_opsetid(protos.DOMAIN, 1))


def _border_node(clustering: Clustering, kind: str, channel: Channel) -> onnx.NodeProto:
    name = f"{kind}_{channel.peer_index}"
    while name in clustering.net.position:
        name = f"_{name}"
    placeholder = kind == protos.PLACEHOLDER
    return helper.make_node(
        kind,
        [] if placeholder else [channel.value],
        [channel.value] if placeholder else [],
        name=name,
        domain=protos.DOMAIN,
        peerIndex=channel.peer_index,
        parentOpType=channel.parent_op_type,
        parentNodeName=channel.parent_node_name,
        anchorIndex=channel.placeholder_anchor if placeholder else channel.end_anchor,
    )


def _carrier(source: _Source) -> Partition:
    """A file without nodes, so that a graph without nodes comes back too."""
    part = source.frame("000")
    _import_borders(part)
    return Partition(0, "", "000_none.onnx", part, (), ())


def _add_merge_data(source: _Source, clustering: Clustering, items: Sequence[Partition]) -> None:
    """Write into the files what they cannot carry by themselves: in each, of which model it is which part and where
    its nodes stand; in the first, all of the model but what the files hold anyway."""
    digest = hashlib.sha256(protos.to_bytes(source.model)).hexdigest()
    for at, item in enumerate(items):
        cluster = clustering.clusters[at] if clustering.clusters else None
        positions = [clustering.net.position[name] for name in cluster.nodes] if cluster else []
        _set(item.model, MODEL_KEY, digest)
        _set(item.model, PART_KEY, f"{at}/{len(items)}")
        _set(item.model, NODES_KEY, node_ranges(positions))
    skeleton = base64.b64encode(zlib.compress(_skeleton(source, items), 9)).decode("ascii")
    _set(items[0].model, SKELETON_KEY, skeleton)


def _set(model: onnx.ModelProto, key: str, value: str) -> None:
    model.metadata_props.append(onnx.StringStringEntryProto(key=key, value=value))


def _skeleton(source: _Source, items: Sequence[Partition]) -> bytes:
    carried = {t.name for item in items for t in item.model.graph.initializer}
    sparse = {t.values.name for item in items for t in item.model.graph.sparse_initializer}
    functions = {protos.function_key(f) for item in items for f in item.model.functions}
    bare = onnx.ModelProto()
    bare.CopyFrom(source.model)
    bare.graph.ClearField("node")
    for tensor in bare.graph.initializer:
        name = tensor.name
        if name in carried:
            tensor.Clear()
            tensor.name = name
    for tensor in bare.graph.sparse_initializer:
        name = tensor.values.name
        if name in sparse:
            tensor.Clear()
            tensor.values.name = name
    for function in bare.functions:
        key = protos.function_key(function)
        if key in functions:
            function.Clear()
            function.domain, function.name, function.overload = key
    return protos.to_bytes(bare)
