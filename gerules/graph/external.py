"""Constants that lie in files of their own: checked on the way in, written anew on the way out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path

import onnx
import onnx_ir as ir

from gerules.errors import Diagnostic
from gerules.graph.reading import fault, graph_protos, node_protos
from gerules.graph.structure import all_graphs

_ALIGNMENT = 64


def tensor_protos(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor of a model: initializers and attributes, those of bodies and functions included."""
    for graph in graph_protos(model):
        yield from graph.initializer
    for node in node_protos(model):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def is_external(tensor: onnx.TensorProto) -> bool:
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL)


def uses_external_data(model: onnx.ModelProto) -> bool:
    return any(is_external(tensor) for tensor in tensor_protos(model))


def _entries(tensor: onnx.TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def locations(model: onnx.ModelProto) -> set[str]:
    """The files that hold external data, as the model names them."""
    return {_entries(tensor).get("location", "") for tensor in tensor_protos(model) if is_external(tensor)} - {""}


def check_external(path: Path, model: onnx.ModelProto) -> list[Diagnostic]:
    """What is wrong with the external data of a model read from `path`: GR317 (leaves the folder), GR318 (missing,
    or too short)."""
    folder = path.resolve().parent
    found: list[Diagnostic] = []
    sizes: dict[str, int | None] = {}
    for tensor in tensor_protos(model):
        if not is_external(tensor):
            continue
        entries = _entries(tensor)
        location = entries.get("location", "")
        if location not in sizes:
            sizes[location] = None
            diagnostic = _check_location(path, folder, tensor.name, location)
            if diagnostic is not None:
                found.append(diagnostic)
            else:
                sizes[location] = (folder / location).stat().st_size
        size = sizes[location]
        if size is None:
            continue
        try:
            offset = int(entries.get("offset", "0"))
            length = int(entries["length"]) if "length" in entries else _bytes_needed(tensor)
        except ValueError:
            offset = length = -1
        if offset < 0 or length < 0 or offset + length > size:
            message = (
                f"the external data of {tensor.name!r} (offset {entries.get('offset', '0')}, "
                f"length {entries.get('length', 'to the end')}) lies outside {location}, which has {size} bytes"
            )
            found.append(fault("GR318", path, message, "the data file is another one or damaged", node=tensor.name))
    return found


def _bytes_needed(tensor: onnx.TensorProto) -> int:
    """How many bytes a tensor without a stated length reads; 0 where its type says nothing."""
    try:
        dtype = ir.DataType(tensor.data_type)
        bits = dtype.bitwidth
    except (TypeError, ValueError):
        return 0
    return -(-int(prod(tensor.dims)) * int(bits) // 8)


def _check_location(path: Path, folder: Path, name: str, location: str) -> Diagnostic | None:
    # A model is often somebody else's: it may name nothing outside its own folder, not through a link either.
    if not location or Path(location).is_absolute() or "\\" in location or ":" in location.split("/")[0]:
        message = f"the external data of {name!r} lies at {location!r}, which is no relative path"
        return fault("GR317", path, message, "external data has to lie in the model's folder", node=name)
    target = (folder / location).resolve()
    if not target.is_relative_to(folder):
        message = f"the external data of {name!r} lies at {location!r}, outside the model's folder"
        return fault("GR317", path, message, "move the file into the model's folder and correct the path", node=name)
    if not target.is_file():
        message = f"the external data of {name!r} is missing: there is no file {location!r} beside the model"
        return fault("GR318", path, message, "copy the data file beside the model", node=name)
    return None


def external_tensors(model: ir.Model) -> list[ir.ExternalTensor]:
    """The tensors of a model that lie in files, bodies and functions included."""
    graphs = list(all_graphs(model.graph))
    for function in model.functions.values():
        graphs.extend(all_graphs(function.graph))
    found: list[ir.ExternalTensor] = []
    for graph in graphs:
        tensors: list[object] = [value.const_value for value in graph.initializers.values()]
        for node in graph:
            for attribute in node.attributes.values():
                if attribute.is_ref():
                    continue
                if attribute.type == ir.AttributeType.TENSOR:
                    tensors.append(attribute.value)
                elif attribute.type == ir.AttributeType.TENSORS:
                    tensors.extend(attribute.value)
        found.extend(tensor for tensor in tensors if isinstance(tensor, ir.ExternalTensor))
    return found


class Spill:
    """The data file of a model that is being written.

    `least` None moves the tensors that are external already; a number moves all of at least so many bytes.
    """

    def __init__(self, model: Path, tensors: Iterable[ir.ExternalTensor], least: int | None) -> None:
        self.path = model.with_name(f"{model.name}.data")
        self._least = least
        self._tensors = {
            (str(tensor.location), str(tensor.offset or 0), str(tensor.length or "")): tensor for tensor in tensors
        }

    def write(self, proto: onnx.ModelProto, destination: Path) -> None:
        """Writes the bytes to `destination` and points the proto's tensors to `path`."""
        with destination.open("wb") as file:
            for tensor in tensor_protos(proto):
                data = self._data(tensor)
                if data is None:
                    continue
                file.write(b"\0" * (-file.tell() % _ALIGNMENT))
                offset = file.tell()
                file.write(data)
                self._point(tensor, offset, len(data))

    def _data(self, tensor: onnx.TensorProto) -> bytes | None:
        if is_external(tensor):
            entries = _entries(tensor)
            key = (entries.get("location", ""), entries.get("offset", "0"), entries.get("length", ""))
            return self._tensors[key].tobytes()
        if self._least is None or tensor.data_type == onnx.TensorProto.STRING or tensor.ByteSize() < self._least:
            return None
        data = tensor.raw_data if tensor.HasField("raw_data") else ir.serde.deserialize_tensor(tensor).tobytes()
        return data if len(data) >= self._least else None

    def _point(self, tensor: onnx.TensorProto, offset: int, length: int) -> None:
        for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
            tensor.ClearField(field)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        values = {"location": self.path.name, "offset": str(offset), "length": str(length)}
        # A checksum stays right, since the bytes do.
        kept = [(entry.key, entry.value) for entry in tensor.external_data if entry.key not in values]
        del tensor.external_data[:]
        for key, value in (*values.items(), *kept):
            tensor.external_data.add(key=key, value=value)
