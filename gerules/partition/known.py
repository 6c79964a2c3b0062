"""What is known of values, in the forms that clusters and files want it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import onnx
import onnx_ir as ir

from gerules.graph.dims import Dim, DimError
from gerules.graph.dtypes import onnx_type
from gerules.graph.info import Info
from gerules.partition.net import ValueType


def value_types(infos: Mapping[str, Info]) -> dict[str, ValueType]:
    """For `cluster(types=...)`: element types and shapes by value name; values of unknown type are left out."""
    found = {}
    for name, info in infos.items():
        if info.dtype != "?":
            shape = None if info.shape is None else tuple(_extent(d) for d in info.shape)
            found[name] = ValueType(info.dtype, shape)
    return found


def type_protos(infos: Mapping[str, Info]) -> dict[str, onnx.TypeProto]:
    """For `split(types=...)`: the same as ONNX types. An extent is a number or a plain symbol; any other is left open,
    as ONNX has no words for it. Types that ONNX's graph has no form for (maps) are left out."""
    found = {}
    for name, info in infos.items():
        try:
            kind = onnx_type(info.dtype)
        except KeyError:
            continue
        proto = onnx.TypeProto()
        ir.serde.serialize_type_into(proto, kind)
        if info.shape is not None and isinstance(kind, ir.TensorType):
            proto.tensor_type.shape.SetInParent()
            for extent in info.shape:
                dim = proto.tensor_type.shape.dim.add()
                said = _extent(extent)
                if isinstance(said, int):
                    dim.dim_value = said
                elif said is not None and said.isidentifier():
                    dim.dim_param = said
        found[name] = proto
    return found


def value_sizes(infos: Mapping[str, Info], likely: Mapping[str, int]) -> dict[str, int]:
    """For `split(sizes=...)`: bytes of values at the `likely` sizes of symbols; values that these do not decide are
    left out."""
    found = {}
    for name, info in infos.items():
        size = info.bytes()
        if size is not None and all(symbol in likely for symbol in size.symbols()):
            with suppress(DimError):
                found[name] = size.evaluate(likely)
    return found


def _extent(dim: Dim | None) -> int | str | None:
    if dim is None:
        return None
    return dim.value if dim.value is not None else str(dim)
