"""The normal forms that rules are written in: `gerules.Window`, `gerules.Padding` and `gerules.Broadcast`.

Each has one entry an axis and says where its entries have to lie; outside of that it fails, so that a rule which leaves
the range is found. What they mean is said in `rules/ops.rules`, where they are declared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gerules.simulate.kernel import Kernel, NodeSpec, Run, kernel
from gerules.simulate.schema import OWN_DOMAIN
from gerules.simulate.values import Array, Value

LARGEST = 1 << 24
"""Elements that a padding may have: amounts are text in a rule, and any number may stand there."""


def _entries(spec: NodeSpec, name: str, rank: int) -> list[int]:
    entries = [int(v) for v in spec.attributes[name]]
    if len(entries) != rank:
        raise ValueError(f"{name} has {len(entries)} entries for {rank} axes")
    return entries


def _refuse(name: str, entries: Sequence[int], limits: str, holds: Iterable[bool]) -> None:
    for axis, fits in enumerate(holds):
        if not fits:
            raise ValueError(f"{name} {entries[axis]} of axis {axis} is not {limits}")


@kernel("Window", domain=OWN_DOMAIN)
def window(spec: NodeSpec) -> Kernel:
    """Elements start, start + step, ... below stop of each axis; none where stop is not above start."""

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x: Array = operands[0]
        start, stop, step = (_entries(spec, name, x.ndim) for name in ("start", "stop", "step"))
        _refuse("start", start, "within the axis", (0 <= s <= n for s, n in zip(start, x.shape, strict=True)))
        _refuse("stop", stop, "within the axis", (0 <= e <= n for e, n in zip(stop, x.shape, strict=True)))
        _refuse("step", step, "positive", (p >= 1 for p in step))
        cut: tuple[Any, ...] = (*map(slice, start, stop, step), ...)
        return (x[cut],)

    return compute


@kernel("Padding", domain=OWN_DOMAIN)
def padding(spec: NodeSpec) -> Kernel:
    """`interior` values between neighbours, then `low` in front and `high` behind; negative amounts cut off what the
    other two have made, so that an axis of extent n has low + n + max(n - 1, 0) * interior + high elements."""

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x: Array = operands[0]
        value = operands[1].reshape(-1)[0]
        low, high, interior = (_entries(spec, name, x.ndim) for name in ("low", "high", "interior"))
        _refuse("interior", interior, "0 or more", (i >= 0 for i in interior))
        spread = [n + max(n - 1, 0) * i for n, i in zip(x.shape, interior, strict=True)]
        extents = [a + n + b for a, n, b in zip(low, spread, high, strict=True)]
        _refuse("extent", extents, "0 or more", (n >= 0 for n in extents))
        if math.prod(a + n + b for a, n, b in zip(map(abs, low), spread, map(abs, high), strict=True)) > LARGEST:
            raise ValueError(f"{extents} is larger than rules are tried with")
        before, after = [max(a, 0) for a in low], [max(b, 0) for b in high]
        full = np.full([a + n + b for a, n, b in zip(before, spread, after, strict=True)], value, dtype=x.dtype)
        places = zip(before, spread, interior, strict=True)
        full[tuple(slice(a, a + n, i + 1) for a, n, i in places)] = x
        kept = zip(low, extents, strict=True)
        cut: tuple[Any, ...] = (*(slice(max(-a, 0), max(-a, 0) + n) for a, n in kept), ...)
        return (full[cut],)

    return compute


@kernel("Broadcast", domain=OWN_DOMAIN)
def broadcast(spec: NodeSpec) -> Kernel:
    """x, of the full rank and of extent 1 on `axes`, stretched there; elsewhere the extents are those of x."""
    axes = frozenset(int(a) for a in spec.attributes["axes"])

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x: Array = operands[0]
        extents = _entries(spec, "extents", x.ndim)
        if not axes <= set(range(x.ndim)):
            raise ValueError(f"axes {sorted(axes)} of rank {x.ndim}")
        fits = (n == (1 if a in axes else d) for a, (n, d) in enumerate(zip(x.shape, extents, strict=True)))
        _refuse("extent", extents, "that of x, or x is not 1 there", fits)
        if math.prod(extents) > LARGEST:
            raise ValueError(f"{extents} is larger than rules are tried with")
        return (np.broadcast_to(x, extents).copy(),)

    return compute
