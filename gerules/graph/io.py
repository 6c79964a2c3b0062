"""Models from files and to files.

A model that is loaded and saved without a change is the same model field by field; what changed is written as onnx_ir
has it, everything else as it was read.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import onnx
import onnx_ir as ir
from google.protobuf import json_format, text_format  # type: ignore[import-untyped]  # no stubs

from gerules.errors import Diagnostic, Refused, UsageFault
from gerules.graph.check import check_proto
from gerules.graph.external import Spill, check_external, external_tensors, uses_external_data
from gerules.graph.order import sorted_graphs
from gerules.graph.reading import (
    JSON_SUFFIXES,
    TEXT_SUFFIXES,
    TEXTPROTO_SUFFIXES,
    Source,
    fault,
    prepare,
    read_proto,
)
from gerules.graph.restore import restore
from gerules.graph.structure import all_graphs

__all__ = [
    "check_model",
    "from_proto",
    "load_model",
    "name_nodes",
    "reload",
    "save_model",
    "source_of",
    "to_proto",
    "with_source",
]

SOURCE = "gerules.source"
MAX_MODEL_BYTES = 2**31 - 2**20
"""Above this a protobuf message cannot be written, so that constants go to a file of their own."""
SPILL_BYTES = 1024
"""The least size of a constant that goes to that file when the source had none."""


# ------------------------------------------------------------------------------------------------------------- load


def load_model(path: str | Path) -> ir.Model:
    """Reads a model: `.onnx` (external data stays in its file until it is asked for), `.onnxtxt`, `.json`.

    Nodes come in an order in which operands come first. Raises Refused with everything that is wrong with the model;
    what is merely odd is in `check_model`.
    """
    path = Path(path)
    source = prepare(path, read_proto(path))
    found = check_external(path, source.prepared)
    found += check_proto(source.prepared, path)
    errors = [diagnostic for diagnostic in found if diagnostic.severity == "error"]
    if errors:
        raise Refused(errors)
    warnings = tuple(diagnostic for diagnostic in found if diagnostic.severity != "error")
    prepared, moved = sorted_graphs(source.prepared)
    source = Source(path, source.original, prepared, warnings)
    if moved:
        source = Source(path, source.original, prepared, (*warnings, *_unsorted_warning(path)))
    model = _deserialize(source)
    model.meta[SOURCE] = source
    return model


def _unsorted_warning(path: Path) -> tuple[Diagnostic, ...]:
    message = "the nodes are not in an order in which operands come first, as ONNX requires"
    hint = "they are sorted; the model that is written is in order"
    return (Diagnostic("GR334", message, file=str(path), hint=hint, severity="warning"),)


def _deserialize(source: Source) -> ir.Model:
    try:
        with _quiet():
            model = _model(source.prepared)
    except Exception as error:  # onnx_ir raises whatever its parts raise
        raise Refused(
            fault(
                "GR319",
                source.path,
                f"the model has something that this program cannot hold: {_reason(error)}",
                "remove it from the model, or report it with the model",
            )
        ) from error
    folder = source.path.resolve().parent
    for tensor in external_tensors(model):
        tensor.base_dir = folder
    return model


def _model(proto: onnx.ModelProto) -> ir.Model:
    """onnx_ir's model of a proto. An input that is an output too keeps the type it has as an input: onnx_ir has one
    type for a value, and the one of the output is often the vaguer."""
    model = ir.serde.deserialize_model(proto)
    for value, entry in zip(model.graph.inputs, proto.graph.input, strict=True):
        if value.is_graph_output():
            value.shape = ir.serde.deserialize_type_proto_for_shape(entry.type)
            value.type = ir.serde.deserialize_type_proto_for_type(entry.type)
    return model


def _reason(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split())[:200]


@contextmanager
def _quiet() -> Iterator[None]:
    """onnx_ir logs what we report ourselves."""
    logger = logging.getLogger("onnx_ir")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def source_of(model: ir.Model) -> Source | None:
    """Where a model was loaded from; None for one that was made here."""
    found = model.meta.get(SOURCE)
    return found if isinstance(found, Source) else None


def reload(model: ir.Model) -> ir.Model:
    """The model that this one was read as, made anew; nothing is read or checked again. Raises ValueError for a model
    that was not loaded."""
    source = source_of(model)
    if source is None:
        raise ValueError("the model was not loaded from a file")
    made = _deserialize(source)
    made.meta[SOURCE] = source
    return made


def from_proto(proto: onnx.ModelProto) -> ir.Model:
    """The model of a proto that was made here, unchecked."""
    with _quiet():
        return _model(prepare(Path("the model"), proto).prepared)


def with_source(model: ir.Model, other: ir.Model) -> ir.Model:
    """Says that a model was made from another, whose untouched parts it is to be written with. Gives `model`."""
    source = source_of(other)
    if source is not None:
        model.meta[SOURCE] = source
    return model


def check_model(model: ir.Model) -> list[Diagnostic]:
    """Everything wrong (errors) or odd (warnings) with a model, those found when it was loaded included."""
    source = source_of(model)
    with _quiet():
        proto = ir.serde.serialize_model(model)
    found = check_proto(proto, source.path if source is not None else None)
    loaded = source.warnings if source is not None else ()
    return [*loaded, *(diagnostic for diagnostic in found if diagnostic not in loaded)]


def name_nodes(model: ir.Model) -> int:
    """Gives every node of the graph and its bodies a name of its own; how many were given one.

    A node without a name becomes OP_INDEX, its place among all nodes (those of bodies after those of the graph); of
    several nodes with one name all but the first get a number behind it.
    """
    nodes = [node for graph in all_graphs(model.graph) for node in graph]
    taken = {node.name for node in nodes if node.name}
    seen: set[str] = set()
    given = 0
    for index, node in enumerate(nodes):
        if node.name and node.name not in seen:
            seen.add(node.name)
            continue
        stem = node.name or f"{node.op_type}_{index}"
        name, number = stem, 0
        while name in taken or name in seen:
            number += 1
            name = f"{stem}_{number}"
        node.name = name
        seen.add(name)
        given += 1
    return given


# ------------------------------------------------------------------------------------------------------------- save


def to_proto(model: ir.Model) -> onnx.ModelProto:
    """The model as a ModelProto; what is as it was read is the original, field by field. External data is still
    where it was."""
    with _quiet():
        proto = ir.serde.serialize_model(model)
        source = source_of(model)
        if source is not None:
            baseline = ir.serde.serialize_model(_model(source.prepared))
            # What is written is in order, whatever else stays as it was.
            restore(proto, baseline, sorted_graphs(source.original)[0])
    return proto


def save_model(model: ir.Model, path: str | Path, *, force: bool = False) -> None:
    """Writes a model, in the format that the suffix says, through a temporary file that is then renamed.

    Constants go to `NAME.data` beside it where the source had external data or the file would be larger than 2 GiB.
    Raises UsageFault (GR340, GR341: the file exists, or is the input) and Refused (GR342, GR343: it cannot be
    written, or not in this format).
    """
    path = Path(path)
    source = source_of(model)
    proto = to_proto(model)
    spill = None
    if uses_external_data(proto):
        spill = Spill(path, external_tensors(model), least=None)
    elif proto.ByteSize() > MAX_MODEL_BYTES:
        spill = Spill(path, [], least=SPILL_BYTES)
    _check_destination(path, source, spill.path if spill is not None else None, force)
    temporary: list[tuple[Path, Path]] = []
    try:
        if spill is not None:
            temporary.append((_temporary(spill.path), spill.path))
            spill.write(proto, temporary[-1][0])
        data = _serialized(proto, path)
        temporary.append((_temporary(path), path))
        temporary[-1][0].write_bytes(data)
        for made, final in temporary:
            made.replace(final)
    except OSError as error:
        _cannot(path, f"{path} cannot be written: {error.strerror or error}", "check the folder and the free space")
    finally:
        for made, _ in temporary:
            made.unlink(missing_ok=True)


def _cannot(path: Path, message: str, hint: str) -> NoReturn:
    raise Refused(fault("GR342", path, message, hint))


def _check_destination(path: Path, source: Source | None, data: Path | None, force: bool) -> None:
    outputs = [path] if data is None else [path, data]
    inputs = []
    if source is not None:
        inputs = [source.path, *(source.path.parent / name for name in sorted(_locations(source.original)))]
    taken = {other.resolve() for other in inputs}
    for output in outputs:
        if output.resolve() in taken:
            raise UsageFault(
                fault("GR341", output, f"the output {output} is the input", "write to another file; the input is kept")
            )
        if output.is_dir():
            raise UsageFault(fault("GR340", output, f"{output} is a folder", "name a file"))
        if output.exists() and not force:
            raise UsageFault(fault("GR340", output, f"{output} exists", "use --force to replace it"))


def _locations(proto: onnx.ModelProto) -> set[str]:
    from gerules.graph.external import locations

    return locations(proto)


def _temporary(path: Path) -> Path:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    made = Path(name)
    mask = os.umask(0)
    os.umask(mask)
    made.chmod(0o666 & ~mask)
    return made


def _serialized(proto: onnx.ModelProto, path: Path) -> bytes:
    suffix = path.suffix.lower()
    if suffix in JSON_SUFFIXES:
        return str(json_format.MessageToJson(proto, preserving_proto_field_name=True)).encode()
    if suffix in TEXTPROTO_SUFFIXES:
        return str(text_format.MessageToString(proto)).encode()
    if suffix not in TEXT_SUFFIXES:
        return bytes(proto.SerializeToString(deterministic=True))
    text = onnx.printer.to_text(proto)
    try:
        same = onnx.parser.parse_model(text).SerializeToString(deterministic=True)
    except onnx.parser.ParseError:
        same = b""
    if same != proto.SerializeToString(deterministic=True):
        raise Refused(
            fault(
                "GR343",
                path,
                "ONNX's text format cannot hold this model without loss",
                "write it as .onnx, .json or .textproto",
            )
        )
    return text.encode()
