"""From a file to a ModelProto that onnx_ir can hold, the original kept beside.

Formats by suffix: `.onnxtxt` (ONNX text), `.json` (protobuf JSON), `.textproto` and `.pbtxt` (protobuf text), anything
else binary protobuf. What onnx_ir cannot hold (sparse tensors, map types, attributes without a type field, the default
domain's other spelling) is put into a form that it can, and `restore` puts the original back when the model is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import onnx
import onnx.numpy_helper
from google.protobuf import json_format, text_format  # type: ignore[import-untyped]  # no stubs
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from gerules.errors import Diagnostic, Refused

TEXT_SUFFIXES = (".onnxtxt", ".onnxtext")
JSON_SUFFIXES = (".json", ".onnxjson")
TEXTPROTO_SUFFIXES = (".textproto", ".pbtxt", ".prototxt")
MAX_DENSE_BYTES = 1 << 30

_KIND_OF_FIELD = (
    ("f", onnx.AttributeProto.FLOAT),
    ("i", onnx.AttributeProto.INT),
    ("s", onnx.AttributeProto.STRING),
    ("t", onnx.AttributeProto.TENSOR),
    ("g", onnx.AttributeProto.GRAPH),
    ("floats", onnx.AttributeProto.FLOATS),
    ("ints", onnx.AttributeProto.INTS),
    ("strings", onnx.AttributeProto.STRINGS),
    ("tensors", onnx.AttributeProto.TENSORS),
    ("graphs", onnx.AttributeProto.GRAPHS),
)


@dataclass(frozen=True)
class Source:
    """Where a model came from: the proto as it was read, and the one that onnx_ir was given (the same object where
    nothing had to be changed). Neither is to be modified."""

    path: Path
    original: onnx.ModelProto
    prepared: onnx.ModelProto
    warnings: tuple[Diagnostic, ...] = ()


def fault(code: str, path: Path, message: str, hint: str | None = None, node: str | None = None) -> Diagnostic:
    return Diagnostic(code, message, node=node, file=str(path), hint=hint)


def _refuse(code: str, path: Path, message: str, hint: str | None = None) -> NoReturn:
    raise Refused(fault(code, path, message, hint))


# ------------------------------------------------------------------------------------------------------------ files


def read_proto(path: Path) -> onnx.ModelProto:
    """The ModelProto in a file, external data left where it is. Raises Refused (GR310 to GR314)."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        _refuse("GR310", path, f"there is no file {path}", "check the path")
    except IsADirectoryError:
        _refuse("GR310", path, f"{path} is a folder, not a model", "name the model file in it")
    except OSError as error:
        _refuse("GR310", path, f"{path} cannot be read: {error.strerror}")
    if not data.strip():
        _refuse("GR311", path, f"{path} is empty", "export or download the model again")
    suffix = path.suffix.lower()
    if suffix in TEXT_SUFFIXES or suffix in JSON_SUFFIXES or suffix in TEXTPROTO_SUFFIXES:
        proto = _read_text(path, data, suffix)
    else:
        proto = _read_binary(path, data)
    if not proto.HasField("graph"):
        _refuse(
            "GR314",
            path,
            f"{path} holds no graph",
            "it is a truncated file, or another kind of ONNX file than a model; export or download it again",
        )
    return proto


def _read_binary(path: Path, data: bytes) -> onnx.ModelProto:
    try:
        proto: onnx.ModelProto = onnx.ModelProto.FromString(data)
        return proto
    except DecodeError:
        pass
    if re.match(rb"\s*<\s*\n?\s*ir_version", data):
        _refuse("GR312", path, f"{path} is ONNX text under another name", f"rename it to {path.stem}.onnxtxt")
    if re.match(rb"\s*\{", data):
        _refuse("GR312", path, f"{path} looks like JSON", f"rename it to {path.stem}.json if it is ONNX in JSON")
    # Every ModelProto in the wild begins with the field ir_version (tag 8) and a small number.
    if data[0] == 8 and len(data) > 1 and data[1] < 64:
        _refuse(
            "GR313",
            path,
            f"{path} is damaged: it begins as an ONNX model and breaks off",
            "export or download it again",
        )
    _refuse("GR312", path, f"{path} is not an ONNX model", "give a .onnx file, or ONNX text (.onnxtxt) or JSON (.json)")


def _read_text(path: Path, data: bytes, suffix: str) -> onnx.ModelProto:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        _refuse("GR312", path, f"{path} is not text", "if it is a binary model, give it the suffix .onnx")
    proto = onnx.ModelProto()
    try:
        if suffix in TEXT_SUFFIXES:
            return onnx.parser.parse_model(text)
        if suffix in JSON_SUFFIXES:
            json_format.Parse(text, proto)
        else:
            text_format.Parse(text, proto)
        return proto
    except onnx.parser.ParseError as error:
        raw = error.args[0] if error.args else ""
        reason = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
    except (json_format.ParseError, text_format.ParseError) as error:
        reason = str(error)
    except RecursionError:
        reason = "it nests too deep"
    _refuse(
        "GR313", path, f"{path} cannot be parsed: {' '.join(reason.split())[:300]}", "correct the text at that place"
    )


# ------------------------------------------------------------------------------------------------------ preparation


def graph_protos(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The graph and all bodies, those of functions included, outer before inner."""
    pending = [model.graph]
    for function in model.functions:
        pending.extend(_inner(function.node))
    while pending:
        graph = pending.pop()
        yield graph
        pending.extend(_inner(graph.node))


def _inner(nodes: object) -> list[onnx.GraphProto]:
    found = []
    for node in nodes:  # type: ignore[attr-defined]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found.append(attribute.g)
            found.extend(attribute.graphs)
    return found


def node_protos(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """All nodes: of the graph, of bodies, of functions."""
    for graph in graph_protos(model):
        yield from graph.node
    for function in model.functions:
        yield from function.node


def prepare(path: Path, proto: onnx.ModelProto) -> Source:
    """Brings a proto into a form that onnx_ir can hold. Raises Refused (GR315, GR316) for what none can."""
    if proto.training_info:
        _refuse(
            "GR315",
            path,
            "the model carries training information, whose graphs a rewrite would leave behind",
            "remove it (`del model.training_info[:]` in Python) or export the model for inference",
        )
    if not _edits(path, proto):
        return Source(path, proto, proto)
    prepared = onnx.ModelProto()
    prepared.CopyFrom(proto)
    for edit in _edits(path, prepared):
        edit()
    return Source(path, proto, prepared)


def _edits(path: Path, proto: onnx.ModelProto) -> list[Callable[[], None]]:
    edits: list[Callable[[], None]] = []
    if not proto.opset_import and proto.ir_version < 3:
        # Before IR version 3 there were no imports: operators are those of opset 1.
        edits.append(lambda: _add_opset(proto))
    for opsets in (proto.opset_import, *(function.opset_import for function in proto.functions)):
        edits.extend(_to_clear(entry) for entry in opsets if entry.domain == "ai.onnx")
    for graph in graph_protos(proto):
        if graph.sparse_initializer:
            edits.append(_densify(path, graph))
        for entries in (graph.input, graph.output, graph.value_info):
            for entry in entries:
                if entry.HasField("type") and not _holdable(entry.type):
                    edits.append(_drop_type(entry))
    for node in node_protos(proto):
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.UNDEFINED and not attribute.ref_attr_name:
                edits.append(_set_kind(attribute))
            elif attribute.HasField("sparse_tensor"):
                if node.op_type != "Constant" or node.domain not in ("", "ai.onnx"):
                    _refuse(
                        "GR316",
                        path,
                        f"attribute {attribute.name} of node {node.name or node.op_type!r} is a sparse tensor",
                        "sparse tensors are read as initializers and in Constant nodes only; make it dense",
                    )
                edits.append(_densify_constant(path, attribute))
            elif attribute.sparse_tensors:
                _refuse(
                    "GR316",
                    path,
                    f"attribute {attribute.name} of node {node.name or node.op_type!r} is a list of sparse tensors",
                    "make them dense",
                )
    return edits


def _add_opset(proto: onnx.ModelProto) -> None:
    proto.opset_import.add(domain="", version=1)


def _to_clear(entry: onnx.OperatorSetIdProto) -> Callable[[], None]:
    def edit() -> None:
        entry.domain = ""

    return edit


def _holdable(type_: onnx.TypeProto) -> bool:
    """Whether onnx_ir has this type: no maps, no opaque ones, no sequence of an unknown type."""
    while (kind := type_.WhichOneof("value")) in ("sequence_type", "optional_type"):
        type_ = type_.sequence_type.elem_type if kind == "sequence_type" else type_.optional_type.elem_type
    if kind == "tensor_type":
        return bool(0 <= type_.tensor_type.elem_type <= 28)
    return bool(kind == "sparse_tensor_type")


def _drop_type(entry: onnx.ValueInfoProto) -> Callable[[], None]:
    return lambda: entry.ClearField("type")


def _set_kind(attribute: onnx.AttributeProto) -> Callable[[], None]:
    def edit() -> None:
        for name, kind in _KIND_OF_FIELD:
            value = getattr(attribute, name)
            if attribute.HasField(name) if name in "fistg" else len(value):
                attribute.type = kind
                return

    return edit


def _densify(path: Path, graph: onnx.GraphProto) -> Callable[[], None]:
    def edit() -> None:
        for sparse in graph.sparse_initializer:
            graph.initializer.add().CopyFrom(dense_tensor(path, sparse))
        del graph.sparse_initializer[:]

    return edit


def _densify_constant(path: Path, attribute: onnx.AttributeProto) -> Callable[[], None]:
    def edit() -> None:
        tensor = dense_tensor(path, attribute.sparse_tensor)
        name = "value"
        attribute.Clear()
        attribute.name = name
        attribute.type = onnx.AttributeProto.TENSOR
        attribute.t.CopyFrom(tensor)

    return edit


def dense_tensor(path: Path, sparse: onnx.SparseTensorProto) -> onnx.TensorProto:
    """The dense tensor of a sparse one, named as its values. Raises Refused (GR316) where it is none or too large."""
    name = sparse.values.name
    dims = tuple(sparse.dims)
    try:
        values = onnx.numpy_helper.to_array(sparse.values)
        indices = onnx.numpy_helper.to_array(sparse.indices)
        if values.dtype.itemsize * int(np.prod(dims, dtype=object)) > MAX_DENSE_BYTES:
            raise ValueError("made dense, it is larger than 1 GiB")
        dense = np.zeros(dims, dtype=values.dtype)
        positions = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), dims)
        dense.reshape(-1)[positions] = values
    except (ValueError, IndexError, TypeError) as error:
        _refuse("GR316", path, f"the sparse tensor {name!r} cannot be read: {error}", "make it dense")
    return onnx.numpy_helper.from_array(dense, name)
