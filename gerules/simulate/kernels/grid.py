"""AffineGrid, at every element type: onnx.reference gives single precision whatever it is given, and no empty grid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gerules.simulate.kernel import Kernel, NodeSpec, Run, kernel
from gerules.simulate.values import Array, Value


@kernel("AffineGrid")
def affine_grid(spec: NodeSpec) -> Kernel:
    """Matrices (N, 2, 3) and sizes (N, C, H, W), or (N, 3, 4) and (N, C, D, H, W) -> where each cell of the grid comes
    from, (N, H, W, 2) or (N, D, H, W, 3)."""
    aligned = bool(spec.get("align_corners", 0))

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        matrices, sizes = operands
        if sizes.shape not in ((4,), (5,)):
            raise ValueError(f"sizes are 4 or 5 numbers, not {list(sizes.shape)}")
        count, _, *extents = (int(n) for n in sizes)
        axes = len(extents)
        if matrices.shape != (count, axes, axes + 1):
            raise ValueError(f"matrices of {axes} axes for a batch of {count} are no {list(matrices.shape)}")
        if min(extents) < 0:
            raise ValueError(f"an extent of {min(extents)}")
        lines = [_places(n, aligned) for n in reversed(extents)]
        wide = matrices.astype(np.float64)
        found = np.zeros((count, *extents, axes))
        for place, line in enumerate(lines):
            # The last axis comes first: x, y, z.
            along = line.reshape(-1, *[1] * place, 1)
            found = found + along * wide[:, :, place].reshape(count, *[1] * axes, axes)
        found = found + wide[:, :, axes].reshape(count, *[1] * axes, axes)
        return (found.astype(matrices.dtype),)

    return compute


def _places(extent: int, aligned: bool) -> Array:
    """The cells of -1 .. 1. Raises ValueError where the first and the last are one."""
    if aligned and extent == 1:
        raise ValueError("one cell cannot lie on both ends")
    numbers = np.arange(extent, dtype=np.float64)
    return 2 * numbers / (extent - 1) - 1 if aligned else (2 * numbers + 1) / max(extent, 1) - 1
