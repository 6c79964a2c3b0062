"""Losses over classes: their sums follow the kernel mode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gerules.simulate.kernel import Kernel, NodeSpec, Run, kernel
from gerules.simulate.kernels.ordered import Summation, summation, wide
from gerules.simulate.values import Array, Value


@kernel("NegativeLogLikelihoodLoss")
def negative_log_likelihood(spec: NodeSpec) -> Kernel:
    """(N, C, ...) log probabilities, (N, ...) classes, (C) weights or absent -> the loss, reduced."""
    total = summation(spec.mode)

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        weight = operands[2] if len(operands) > 2 else None
        loss = _loss(wide(operands[0]), operands[1], weight, spec, total)
        return (loss.astype(operands[0].dtype, copy=False),)

    return compute


@kernel("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(spec: NodeSpec) -> Kernel:
    """(N, C, ...) scores, (N, ...) classes, (C) weights or absent -> the loss, reduced, and log probabilities."""
    total = summation(spec.mode)

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = wide(operands[0])
        shifted = x - x.max(axis=1, keepdims=True, initial=-np.inf)
        log_probability = shifted - np.log(total(np.exp(shifted), (1,), True))
        weight = operands[2] if len(operands) > 2 else None
        loss = _loss(log_probability, operands[1], weight, spec, total)
        dtype = operands[0].dtype
        return loss.astype(dtype, copy=False), log_probability.astype(dtype, copy=False)

    return compute


def _loss(x: Array, target: Array, weight: Array | None, spec: NodeSpec, total: Summation) -> Array:
    """Minus the log probability of each target class, times its weight; an ignored class has weight 0."""
    ignored = target == spec.attributes["ignore_index"] if "ignore_index" in spec.attributes else None
    classes = target if ignored is None else np.where(ignored, 0, target)
    if ((classes < -x.shape[1]) | (classes >= x.shape[1])).any():
        raise ValueError(f"a class is out of range, there are {x.shape[1]}")
    picked = np.take_along_axis(x, np.expand_dims(classes, 1), axis=1)[:, 0]
    factors = np.ones(target.shape, dtype=x.dtype) if weight is None else wide(weight)[classes]
    if ignored is not None:
        factors = np.where(ignored, x.dtype.type(0), factors)
    loss = -picked * factors
    reduction = spec.get("reduction", "mean")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"there is no reduction {reduction}")
    if reduction == "none":
        return np.asarray(loss)
    axes = tuple(range(loss.ndim))
    whole = total(loss, axes, False)
    return whole if reduction == "sum" else np.asarray(whole / total(factors, axes, False))
