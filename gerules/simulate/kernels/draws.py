"""Operators that draw: from a generator given by the node's seed, else by its name, so that runs can be compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gerules.simulate.kernel import Kernel, NodeSpec, Run, kernel
from gerules.simulate.values import Array, Value, numpy_type_of_number


@kernel("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike")
def random_array(spec: NodeSpec) -> Kernel:
    like, normal = spec.op.endswith("Like"), "Normal" in spec.op
    number, seed = spec.get("dtype"), spec.get("seed")

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        shape = operands[0].shape if like else tuple(spec.attributes["shape"])
        dtype = numpy_type_of_number(int(number)) if number is not None else operands[0].dtype
        generator = run.generator(spec.name, seed)
        if normal:
            drawn = generator.normal(spec.get("mean", 0.0), spec.get("scale", 1.0), shape)
        else:
            drawn = generator.uniform(spec.get("low", 0.0), spec.get("high", 1.0), shape)
        return (np.asarray(drawn).astype(dtype),)

    return compute


@kernel("Bernoulli")
def bernoulli(spec: NodeSpec) -> Kernel:
    number, seed = spec.get("dtype"), spec.get("seed")

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        p = operands[0]
        drawn = run.generator(spec.name, seed).uniform(size=p.shape) < p.astype(np.float64)
        return (np.asarray(drawn).astype(numpy_type_of_number(int(number)) if number is not None else p.dtype),)

    return compute


@kernel("Multinomial")
def multinomial(spec: NodeSpec) -> Kernel:
    """(batch, classes) unnormalised log probabilities -> (batch, sample_size) classes."""
    dtype, count, seed = numpy_type_of_number(int(spec.get("dtype", 6))), spec.get("sample_size", 1), spec.get("seed")

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        logits = operands[0].astype(np.float64)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        edges = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
        drawn = run.generator(spec.name, seed).uniform(size=(logits.shape[0], count))
        chosen = (drawn[:, :, None] >= edges[:, None, :]).sum(axis=2)
        return (np.minimum(chosen, logits.shape[1] - 1).astype(dtype),)

    return compute


@kernel("Dropout")
def dropout(spec: NodeSpec) -> Kernel:
    """Versions 1 and 6 drop unless `is_test`, 7 and 10 never do, from 12 on an operand says. The mask has the data's
    type below version 10; where nothing is dropped it is all ones."""
    seed = spec.get("seed")
    mask_like_data = spec.version < 10

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        ratio, training = _dropout_mode(spec, operands)
        if not training or ratio == 0.0:
            mask = np.ones(x.shape, dtype=np.bool_)
            return x, mask.astype(x.dtype) if mask_like_data else mask
        mask = run.generator(spec.name, seed).uniform(size=x.shape) >= ratio
        scale = x.dtype.type(1.0 / (1.0 - ratio) if ratio < 1.0 else 0.0)
        y = np.where(mask, x * scale, x.dtype.type(0)).astype(x.dtype)
        return y, mask.astype(x.dtype) if mask_like_data else mask

    return compute


def _dropout_mode(spec: NodeSpec, operands: Sequence[Array | None]) -> tuple[float, bool]:
    if spec.version < 12:
        return spec.get("ratio", 0.5), spec.version < 7 and not spec.get("is_test", 0)
    ratio = operands[1] if len(operands) > 1 else None
    training = operands[2] if len(operands) > 2 else None
    return (
        0.5 if ratio is None else float(ratio.reshape(-1)[0]),
        False if training is None else bool(training.reshape(-1)[0]),
    )
