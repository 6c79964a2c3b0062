"""Normalisations: batch, instance, layer, group, local response, Lp; their sums follow the kernel mode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gerules.simulate.kernel import REFERENCE, Kernel, NodeSpec, Run, kernel
from gerules.simulate.kernels.ordered import Summation, per_channel, summation, wide
from gerules.simulate.values import Array, Value, numpy_type_of_number


def moments(x: Array, axes: tuple[int, ...], total: Summation) -> tuple[Array, Array]:
    """Mean and population variance along axes, kept as axes of size 1."""
    count = x.dtype.type(math.prod(x.shape[a] for a in axes))
    mean = total(x, axes, True) / count
    return mean, np.asarray(total(np.square(x - mean), axes, True) / count)


def _is_training(spec: NodeSpec) -> bool:
    """Version 14 says so; 7 and 9 mean it by more than one result; 1 and 6 by that and `is_test` 0."""
    if spec.version >= 14:
        return bool(spec.get("training_mode", 0))
    several = spec.results > 1 and any(spec.wanted[1:])
    return several and not (spec.version < 7 and spec.get("is_test", 0))


@kernel("BatchNormalization")
def batch_normalization(spec: NodeSpec) -> Kernel:
    """(N, C, ...), scale, bias, mean, variance -> y and, in training, running statistics (and, below version 14, the
    batch's own). `spatial` 0 (below version 9) has statistics per position, over the batch alone."""
    epsilon, momentum = spec.get("epsilon", 1e-5), spec.get("momentum", 0.9)
    spatial, training = bool(spec.get("spatial", 1)), _is_training(spec)
    total, exact = summation(spec.mode), spec.mode == REFERENCE

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = wide(operands[0])
        scale, bias, mean, variance = (v.astype(x.dtype, copy=False) for v in operands[1:5])
        if x.ndim < 2:
            raise ValueError(f"rank {x.ndim}: there have to be a batch and channels")
        shape = (1, -1, *[1] * (x.ndim - 2)) if spatial else (1, *x.shape[1:])
        if spatial and any(v.shape != x.shape[1:2] for v in operands[1:5]):
            raise ValueError(f"scale, bias, mean and variance have one entry for each of {x.shape[1]} channels")
        extra: list[Value] = []
        if training:
            axes = (0, *range(2, x.ndim)) if spatial else (0,)
            own_mean, own_variance = (m.reshape(mean.shape) for m in moments(x, axes, total))
            factor, rest = x.dtype.type(momentum), x.dtype.type(1 - momentum)
            extra = [mean * factor + own_mean * rest, variance * factor + own_variance * rest]
            extra = [v.astype(operands[3 + i].dtype) for i, v in enumerate(extra)]
            if spec.version < 14:
                extra += [own_mean, own_variance]
            mean, variance = own_mean, own_variance
        deviation = np.sqrt(variance + x.dtype.type(epsilon))
        if exact:
            y = (x - mean.reshape(shape)) / deviation.reshape(shape) * scale.reshape(shape) + bias.reshape(shape)
        else:
            factors = scale / deviation
            y = x * factors.reshape(shape)
            y += (bias - mean * factors).reshape(shape)
        return (y.astype(operands[0].dtype, copy=False), *extra)

    return compute


@kernel("InstanceNormalization")
def instance_normalization(spec: NodeSpec) -> Kernel:
    epsilon, total = spec.get("epsilon", 1e-5), summation(spec.mode)

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = wide(operands[0])
        y = _normalised(x, tuple(range(2, x.ndim)), epsilon, total)
        scale, bias = (per_channel(wide(v), x.shape[1], x.ndim) for v in operands[1:3])
        return ((y * scale + bias).astype(operands[0].dtype, copy=False),)

    return compute


def _stashed(x: Array, work: np.dtype[Any]) -> Array:
    """The operand in the type that its moments are computed in, never less precise than it is itself."""
    return x if x.dtype == np.float64 else wide(x.astype(work, copy=False))


def _normalised(x: Array, axes: tuple[int, ...], epsilon: float, total: Summation) -> Array:
    mean, variance = moments(x, axes, total)
    return np.asarray((x - mean) / np.sqrt(variance + x.dtype.type(epsilon)))


@kernel("LayerNormalization")
def layer_normalization(spec: NodeSpec) -> Kernel:
    """x, scale, bias or absent -> y, mean, 1 / deviation, over the axes from `axis` on, in the `stash_type`."""
    axis, epsilon = int(spec.get("axis", -1)), spec.get("epsilon", 1e-5)
    work, total = numpy_type_of_number(int(spec.get("stash_type", 1))), summation(spec.mode)

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        values = _stashed(x, work)
        if not -x.ndim <= axis < x.ndim:
            raise ValueError(f"axis {axis} of rank {x.ndim}")
        axes = tuple(range(axis % x.ndim, x.ndim))
        if any(v is not None and v.ndim > len(axes) for v in operands[1:3]):
            raise ValueError(f"scale and bias lie along the last {len(axes)} axes")
        mean, variance = moments(values, axes, total)
        inverse = np.reciprocal(np.sqrt(variance + values.dtype.type(epsilon)))
        y = ((values - mean) * inverse).astype(x.dtype)
        # The second stage is in the operand's own type, one operator after the other.
        y = (wide(y) * wide(operands[1])).astype(x.dtype, copy=False)
        if len(operands) > 2 and operands[2] is not None:
            y = wide(y) + wide(operands[2])
        if y.shape != x.shape:
            raise ValueError(f"scale and bias do not fit {list(x.shape)}")
        return (y.astype(x.dtype, copy=False), mean.astype(work), inverse.astype(work))

    return compute


@kernel("GroupNormalization")
def group_normalization(spec: NodeSpec) -> Kernel:
    """(N, C, ...), scale and bias per group (version 18) or per channel (since 21, normalised in `stash_type`)."""
    groups, epsilon, total = int(spec.attributes["num_groups"]), spec.get("epsilon", 1e-5), summation(spec.mode)
    per_group = spec.version < 21
    stash = None if per_group else numpy_type_of_number(int(spec.get("stash_type", 1)))

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = wide(operands[0]) if stash is None else _stashed(operands[0], stash)
        parts = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
        y = _normalised(parts, tuple(range(2, parts.ndim)), epsilon, total)
        scale, bias = wide(operands[1]), wide(operands[2])
        if per_group:
            y = y * per_channel(scale, groups, parts.ndim) + per_channel(bias, groups, parts.ndim)
        else:
            channels = x.shape[1]
            y = wide(y.reshape(x.shape).astype(operands[0].dtype, copy=False))
            y = y * per_channel(scale, channels, x.ndim) + per_channel(bias, channels, x.ndim)
        return (y.reshape(x.shape).astype(operands[0].dtype, copy=False),)

    return compute


@kernel("MeanVarianceNormalization")
def mean_variance_normalization(spec: NodeSpec) -> Kernel:
    axes, total = tuple(spec.get("axes", (0, 2, 3))), summation(spec.mode)
    if not axes:
        raise ValueError("there has to be an axis")

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = wide(operands[0])
        if any(not -x.ndim <= a < x.ndim for a in axes):
            raise ValueError(f"axes {list(axes)} of rank {x.ndim}")
        found = tuple(a % x.ndim for a in axes)
        mean, variance = moments(x, found, total)
        y = (x - mean) / (np.sqrt(variance) + x.dtype.type(1e-9))
        return (y.astype(operands[0].dtype, copy=False),)

    return compute


@kernel("LRN")
def local_response(spec: NodeSpec) -> Kernel:
    """x / (bias + alpha / size * sum of squares over `size` neighbouring channels) ^ beta."""
    size = int(spec.attributes["size"])
    if size < 1:
        raise ValueError(f"a window of {size} channels")
    alpha, beta, bias = spec.get("alpha", 1e-4), spec.get("beta", 0.75), spec.get("bias", 1.0)
    before = (size - 1) // 2

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = wide(operands[0])
        squares = np.square(x)
        total = np.zeros_like(x)
        channels = x.shape[1]
        for offset in range(-before, size - before):  # channels in order, so both modes sum alike
            low, high = max(0, -offset), min(channels, channels - offset)
            if low < high:
                total[:, low:high] += squares[:, low + offset : high + offset]
        base = total * x.dtype.type(alpha / size)
        base += x.dtype.type(bias)
        power = np.sqrt(base) * np.sqrt(np.sqrt(base)) if beta == 0.75 else np.power(base, x.dtype.type(beta))
        return ((x / power).astype(operands[0].dtype, copy=False),)

    return compute


@kernel("LpNormalization")
def lp_normalization(spec: NodeSpec) -> Kernel:
    """x divided by its L1 or L2 norm along `axis`; 0 where the norm is 0."""
    axis, p, total = int(spec.get("axis", -1)), int(spec.get("p", 2)), summation(spec.mode)

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = wide(operands[0])
        axes = (axis % x.ndim,)
        norm: Any = total(np.abs(x), axes, True) if p == 1 else np.sqrt(total(np.square(x), axes, True))
        y = np.divide(x, norm, out=np.zeros_like(x), where=norm != 0)
        return (y.astype(operands[0].dtype, copy=False),)

    return compute


@kernel("RMSNormalization")
def rms_normalization(spec: NodeSpec) -> Kernel:
    axis, epsilon = int(spec.get("axis", -1)), spec.get("epsilon", 1e-5)
    work, total = numpy_type_of_number(int(spec.get("stash_type", 1))), summation(spec.mode)

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        values = _stashed(x, work)
        if not -x.ndim <= axis < x.ndim:
            raise ValueError(f"axis {axis} of rank {x.ndim}")
        axes = tuple(range(axis % x.ndim, x.ndim))
        count = values.dtype.type(math.prod(x.shape[a] for a in axes))
        mean = total(np.square(values), axes, True) / count
        y = (values / np.sqrt(mean + values.dtype.type(epsilon))).astype(x.dtype)
        return ((wide(y) * wide(operands[1])).astype(operands[1].dtype, copy=False),)

    return compute
