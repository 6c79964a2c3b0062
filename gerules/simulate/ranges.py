"""Which integers a model can take: what its inputs are used for, followed through nodes that pass them on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from gerules.simulate.kernels.flow import COMPARES, INDEXES, PASSES

_MANY: Final = 1 << 31


def integer_ranges(model: ir.Model, binding: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """For inputs that index something of known size: (low, high), inclusive; for those that are only compared with
    constants: these constants and another number, several times over. Others are left out. Bodies are followed as far
    as they capture values."""
    found: dict[str, tuple[int, ...]] = {}
    for value in model.graph.inputs:
        if value.name is None or value.name in model.graph.initializers:
            continue
        bound, constants = _follow(value, binding)
        if bound < _MANY:
            found[value.name] = (0, max(bound - 1, 0))
        elif constants:
            # What equals none of them takes the other branch.
            choices = [*constants, constants[0] // 2 if constants[0] > 1 else constants[0] + 1]
            found[value.name] = tuple(choices * 2)  # a pair would read as a range
    return found


def _follow(start: ir.Value, binding: Mapping[str, int]) -> tuple[int, list[int]]:
    bound = _MANY
    constants: list[int] = []
    seen = {id(start)}
    pending = [start]
    while pending:
        value = pending.pop()
        for use in value.uses():
            node, position = use.node, use.idx
            if node.op_type in INDEXES and position == INDEXES[node.op_type][1]:
                bound = min(bound, _table_size(node, binding))
            elif node.op_type in COMPARES:
                other = node.inputs[1 - position]
                constants.extend(c for c in _contents(other) if c not in constants)
            elif node.op_type in PASSES and position in PASSES[node.op_type]:
                for result in node.outputs:
                    if id(result) not in seen:
                        seen.add(id(result))
                        pending.append(result)
    return bound, constants


def _table_size(node: ir.Node, binding: Mapping[str, int]) -> int:
    operand, _, default_axis = INDEXES[node.op_type]
    table = node.inputs[operand]
    shape: Any = table.shape if table is not None else None
    if table is not None and shape is None and table.const_value is not None:
        shape = table.const_value.shape
    attribute = node.attributes.get("axis")
    axis = attribute.as_int() if attribute is not None and not attribute.is_ref() else default_axis
    if shape is None or not -len(shape) <= axis < max(len(shape), 1) or len(shape) == 0:
        return _MANY
    size = shape[axis]
    if isinstance(size, int):
        return size if size > 0 else _MANY
    return binding.get(str(size.value), _MANY)


def _contents(value: ir.Value | None) -> list[int]:
    if value is None:
        return []
    tensor = value.const_value
    producer = value.producer()
    if tensor is None and producer is not None and producer.op_type == "Constant":
        attribute = producer.attributes.get("value")
        if attribute is not None and attribute.type == ir.AttributeType.TENSOR:
            tensor = attribute.as_tensor()
        elif (number := producer.attributes.get("value_int")) is not None:
            return [number.as_int()]
    if tensor is None or tensor.size > 8:
        return []
    array = np.asarray(tensor.numpy())
    return [int(v) for v in array.reshape(-1)] if array.dtype.kind in "iuf" else []
