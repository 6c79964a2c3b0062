"""Optionals: a present one is its value, an absent one is None."""

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
