"""Optionals (a present one is its value, an absent one is None) and splitting into sequences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gerules.simulate.kernel import Kernel, NodeSpec, Run, kernel
from gerules.simulate.values import Value


@kernel("Optional")
def optional(spec: NodeSpec) -> Kernel:
    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        return (operands[0] if operands else None,)

    return compute


@kernel("OptionalHasElement")
def has_element(spec: NodeSpec) -> Kernel:
    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        return (np.asarray(bool(operands) and operands[0] is not None),)

    return compute


@kernel("OptionalGetElement")
def get_element(spec: NodeSpec) -> Kernel:
    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        if operands[0] is None:
            raise ValueError("the optional is absent")
        return (operands[0],)

    return compute


@kernel("SplitToSequence")
def split_to_sequence(spec: NodeSpec) -> Kernel:
    """Into parts of one length (a number; the last may be shorter), of given lengths, or of length 1, which
    `keepdims` 0 squeezes."""
    axis, keep = int(spec.get("axis", 0)), bool(spec.get("keepdims", 1))

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        lengths = operands[1] if len(operands) > 1 else None
        size = x.shape[axis]
        if lengths is None:
            parts = np.split(x, size, axis=axis) if size else []
            return ([p if keep else np.squeeze(p, axis=axis) for p in parts],)
        if lengths.ndim == 0:
            if int(lengths) <= 0:
                raise ValueError(f"parts of length {int(lengths)}")
            ends = list(range(int(lengths), size, int(lengths)))
        else:
            if int(lengths.sum()) != size or (lengths < 0).any():
                raise ValueError(f"{size} does not split into {lengths.tolist()}")
            ends = np.cumsum(lengths)[:-1].tolist()
        return (list(np.split(x, ends, axis=axis)),)

    return compute
