"""Attributes of old versions in the terms of the newest, where onnx.reference then computes the right thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gerules.simulate.kernel import NodeSpec

Attributes = dict[str, Any]


def _grid_sample(attributes: Attributes) -> Attributes:
    """Version 20 renamed the modes when it took in grids of any rank."""
    names = {"bilinear": "linear", "bicubic": "cubic"}
    mode = attributes.get("mode", "linear")
    return {**attributes, "mode": names.get(mode, mode)}


def _roi_align(attributes: Attributes) -> Attributes:
    """Version 16 brought the half-pixel shift, and made it the default."""
    return {**attributes, "coordinate_transformation_mode": "output_half_pixel"}


# Operator -> (last version that needs it, what it does).
_LIFTS: Final[dict[str, tuple[int, Callable[[Attributes], Attributes]]]] = {
    "GridSample": (19, _grid_sample),
    "RoiAlign": (15, _roi_align),
}


def lifted(attributes: Attributes, spec: NodeSpec) -> Attributes:
    """The attributes as the newest version would have them."""
    entry = _LIFTS.get(spec.op) if spec.domain == "" else None
    return attributes if entry is None or spec.version > entry[0] else entry[1](attributes)
