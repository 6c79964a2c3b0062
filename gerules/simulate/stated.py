"""Types that a model states of its values, as `ValueType`."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from gerules.simulate.values import ValueType, element_name_of_number


def value_type(value: Any) -> ValueType | None:
    """The type that an `ir.Value` or an `ir.TypeAndShape` states; None where it states none."""
    stated = value.type
    if stated is None:
        return None
    wrap: list[str] = []
    while isinstance(stated, (ir.SequenceType, ir.OptionalType)):
        wrap.append("seq" if isinstance(stated, ir.SequenceType) else "optional")
        stated = stated.elem_type
    if not hasattr(stated, "dtype"):
        return None
    try:
        element = element_name_of_number(int(stated.dtype.value))
    except KeyError:
        return None
    shape = value.shape
    sizes = None if shape is None else tuple(_size(d) for d in shape)
    return ValueType(element, sizes, "(".join(wrap))


def _size(dimension: Any) -> int | str | None:
    if isinstance(dimension, int):
        return dimension
    return dimension.value if dimension.value is None or isinstance(dimension.value, (int, str)) else str(dimension)
