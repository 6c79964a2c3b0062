"""From the files with border nodes back to the whole model, byte for byte.

Each file says of which model it is which part and where its nodes stand; the first carries the rest. Copies of one
node must agree, every End must have its PlaceHolder, and the result must be the very model that was split.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # ships no types

from gerules.errors import Diagnostic, Refused
from gerules.partition import protos
from gerules.partition.split import MODEL_KEY, NODES_KEY, PART_KEY, SKELETON_KEY

FOLDER = "partitions"


def merge_folder(folder: str | Path) -> bytes:
    """The bytes of the model that was split into `folder`: the folder that `compile` or `partition` wrote with
    `--border-nodes`, or its `partitions` folder. Other files in it are not looked at.

    Raises Refused: GR657 (not such a folder, an unreadable, foreign or altered file), GR658 (a file or a peer missing).
    """
    root = Path(folder)
    if not root.is_dir():
        what = f"{root} is no folder" if root.exists() else f"there is no folder {root}"
        raise Refused(_foreign(what, root, "name the folder that `gerules partition --border-nodes` wrote"))
    inner = root / FOLDER
    paths = sorted((inner if inner.is_dir() else root).glob("*.onnx"))
    if inner.is_dir() is False:
        paths = [path for path in paths if path.name != "model.onnx"]
    if not paths:
        what = f"{root} holds no partitions"
        raise Refused(_foreign(what, root, "name the folder that `gerules partition --border-nodes` wrote"))
    return merge_files({path.name: path.read_bytes() for path in paths})


def merge_model(folder: str | Path) -> ir.Model:
    """The same as a model. Raises as `merge_folder`."""
    return ir.serde.deserialize_model(onnx.load_model_from_string(merge_folder(folder)))


def merge_files(files: Mapping[str, bytes]) -> bytes:
    """The bytes of the model that was split into `files` (name to contents). Raises as `merge_folder`."""
    parts = _in_order([_read(name, files[name]) for name in sorted(files)])
    _check_peers(parts)
    merged = _assemble(parts)
    data = protos.to_bytes(merged)
    if hashlib.sha256(data).hexdigest() != parts[0].digest:
        what = "the files were changed since they were written: together they are not the model that was split"
        raise Refused(_foreign(what, None, "write them again with `gerules partition --border-nodes`"))
    return data


@dataclass(frozen=True)
class _Part:
    """One file, read: the part `index` of `count` of the model with `digest`; `positions` of its nodes in the whole."""

    file: str
    model: onnx.ModelProto
    digest: str
    index: int
    count: int
    positions: tuple[int, ...]
    skeleton: str

    @property
    def own_nodes(self) -> list[onnx.NodeProto]:
        return [node for node in self.model.graph.node if not _is_border(node)]


def _is_border(node: onnx.NodeProto) -> bool:
    return node.domain == protos.DOMAIN and node.op_type in (protos.PLACEHOLDER, protos.END)


def _foreign(what: str, file: str | Path | None, hint: str) -> Diagnostic:
    return Diagnostic("GR657", what, file=str(file) if file is not None else None, hint=hint)


# ------------------------------------------------------------------ reading


def _read(name: str, data: bytes) -> _Part:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        hint = "it may be cut off; write the partitions again"
        raise Refused(_foreign(f"{name} cannot be read as an ONNX model", name, hint)) from error
    said = {p.key: p.value for p in model.metadata_props}
    if not {MODEL_KEY, PART_KEY, NODES_KEY} <= said.keys():
        what = f"{name} is no partition with border nodes"
        raise Refused(_foreign(what, name, "only what was written with `--border-nodes` can be merged"))
    try:
        index, count = (int(text) for text in said[PART_KEY].split("/"))
        positions = _positions(said[NODES_KEY])
    except ValueError as error:
        raise Refused(
            _foreign(f"{name} says nonsense of its place among the partitions", name, "write it again")
        ) from error
    part = _Part(name, model, said[MODEL_KEY], index, count, positions, said.get(SKELETON_KEY, ""))
    if len(part.own_nodes) != len(positions):
        what = f"{name} has {len(part.own_nodes)} nodes besides its borders and says that it has {len(positions)}"
        raise Refused(_foreign(what, name, "it was changed since it was written; write the partitions again"))
    return part


def _positions(text: str) -> tuple[int, ...]:
    found: list[int] = []
    for piece in text.split(",") if text else ():
        first, _, last = piece.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return tuple(found)


def _in_order(parts: Sequence[_Part]) -> list[_Part]:
    """The parts by number: all there, each once, all of one model."""
    first = parts[0]
    for part in parts[1:]:
        if part.digest != first.digest or part.count != first.count:
            what = f"{part.file} belongs to another model than {first.file}"
            raise Refused(_foreign(what, part.file, "keep the partitions of different models in different folders"))
    by_number: dict[int, _Part] = {}
    for part in parts:
        if part.index in by_number:
            what = f"{part.file} and {by_number[part.index].file} are the same partition"
            raise Refused(_foreign(what, part.file, "remove one of them"))
        by_number[part.index] = part
    missing = [number for number in range(first.count) if number not in by_number]
    if missing:
        listed = ", ".join(f"{number:03d}" for number in missing)
        what = f"of {first.count} partitions these are missing: {listed}"
        raise Refused(Diagnostic("GR658", what, hint="all files of the folder are needed to merge"))
    return [by_number[number] for number in range(first.count)]


def _check_peers(parts: Sequence[_Part]) -> None:
    """One End and one PlaceHolder for each pair, and both of the same value and producer."""
    ends: dict[int, tuple[str, tuple[str, str, str]]] = {}
    holders: dict[int, tuple[str, tuple[str, str, str]]] = {}
    faults: list[Diagnostic] = []
    for part in parts:
        for node in part.model.graph.node:
            if not _is_border(node):
                continue
            said = {a.name: a for a in node.attribute}
            end = node.op_type == protos.END
            values = node.input if end else node.output
            if not {"peerIndex", "parentOpType", "parentNodeName", "anchorIndex"} <= said.keys() or len(values) != 1:
                what = f"border node {node.name!r} in {part.file} lacks an attribute or its value"
                faults.append(Diagnostic("GR658", what, node=node.name, file=part.file, hint="write it again"))
                continue
            producer = (values[0], said["parentOpType"].s.decode(), said["parentNodeName"].s.decode())
            side = ends if end else holders
            peer = said["peerIndex"].i
            if peer in side:
                what = f"two {node.op_type} nodes have peerIndex {peer}: in {side[peer][0]} and {part.file}"
                faults.append(Diagnostic("GR658", what, node=node.name, file=part.file, hint="write them again"))
            side[peer] = (part.file, producer)
    for peer in sorted(ends.keys() | holders.keys()):
        here = ends.get(peer) or holders[peer]
        if peer not in ends or peer not in holders:
            lacking = protos.PLACEHOLDER if peer in ends else protos.END
            what = f"value {here[1][0]!r} (peerIndex {peer}) in {here[0]} has no {lacking}"
            faults.append(Diagnostic("GR658", what, node=here[1][0], file=here[0], hint="write the partitions again"))
        elif ends[peer][1] != holders[peer][1]:
            what = f"the peers {peer} in {ends[peer][0]} and {holders[peer][0]} are of different values"
            faults.append(Diagnostic("GR658", what, node=here[1][0], file=here[0], hint="write the partitions again"))
    if faults:
        raise Refused(faults)


# ------------------------------------------------------------------ putting together


def _assemble(parts: Sequence[_Part]) -> onnx.ModelProto:
    whole = _skeleton(parts[0])
    nodes: dict[int, tuple[onnx.NodeProto, str]] = {}
    for part in parts:
        for position, node in zip(part.positions, part.own_nodes, strict=True):
            if position in nodes and nodes[position][0] != node:
                what = f"node {node.name!r} is one thing in {nodes[position][1]} and another in {part.file}"
                raise Refused(_foreign(what, part.file, "one of them was changed; write the partitions again"))
            nodes[position] = (node, part.file)
    if nodes and len(nodes) != max(nodes) + 1:
        lost = next(position for position in range(len(nodes)) if position not in nodes)
        what = f"node {lost} of the model is in none of the partitions"
        raise Refused(_foreign(what, parts[0].file, "they were changed; write them again"))
    whole.graph.node.extend(nodes[position][0] for position in range(len(nodes)))

    initializers = {t.name: t for part in parts for t in part.model.graph.initializer}
    for tensor in whole.graph.initializer:
        if tensor.name in initializers and _is_stub(tensor):
            tensor.CopyFrom(initializers[tensor.name])
    sparse = {t.values.name: t for part in parts for t in part.model.graph.sparse_initializer}
    for stub in whole.graph.sparse_initializer:
        if stub.values.name in sparse and not stub.HasField("indices"):
            stub.CopyFrom(sparse[stub.values.name])
    functions = {protos.function_key(f): f for part in parts for f in part.model.functions}
    for function in whole.functions:
        if protos.function_key(function) in functions and not function.node:
            function.CopyFrom(functions[protos.function_key(function)])
    return whole


def _is_stub(tensor: onnx.TensorProto) -> bool:
    return not tensor.HasField("data_type")


def _skeleton(part: _Part) -> onnx.ModelProto:
    bare = onnx.ModelProto()
    try:
        bare.ParseFromString(zlib.decompress(base64.b64decode(part.skeleton, validate=True)))
    except (binascii.Error, zlib.error, DecodeError, ValueError) as error:
        what = f"{part.file} has lost what it carries for merging ({SKELETON_KEY})"
        raise Refused(_foreign(what, part.file, "write the partitions again")) from error
    return bare
