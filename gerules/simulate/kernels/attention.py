"""FlexAttention, whose scores and probabilities pass through bodies of the node."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gerules.simulate.kernel import REFERENCE, Kernel, NodeSpec, Run, kernel
from gerules.simulate.kernels.ordered import contraction, summation
from gerules.simulate.values import HALF_FLOATS, Value, numpy_type_of_number


@kernel("Attention", until=24)
def attention(spec: NodeSpec) -> Kernel:
    """As in onnx.reference, but that below 24 a mask of one column stretches: only since then a short one is padded. By
    the letter, numbers of heads are for operands of three axes alone, as 25 has it too."""
    from gerules.simulate.reference import reference_kernel

    plain = reference_kernel(spec)
    assert plain is not None

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        given = list(operands)
        numbers = spec.get("q_num_heads") is not None or spec.get("kv_num_heads") is not None
        if spec.mode == REFERENCE and given[0].ndim == 4 and numbers:
            raise ValueError("numbers of heads, but operands of four axes")
        lengths = given[6] if len(given) > 6 else None
        if lengths is not None and lengths.ndim != 1:
            raise ValueError(f"lengths without padding of rank {lengths.ndim}: one for each of the batch")
        mask = given[3] if len(given) > 3 else None
        if spec.version < 24 and mask is not None and mask.ndim:
            keys = given[1].shape[-2] + (given[4].shape[-2] if len(given) > 4 and given[4] is not None else 0)
            if mask.shape[-1] == 1:
                given[3] = np.repeat(mask, keys, axis=-1)
            elif mask.shape[-1] != keys:
                raise ValueError(f"a mask of {mask.shape[-1]} columns for {keys} keys")
        return plain(given, run)

    return compute


@kernel("FlexAttention", domain="ai.onnx.preview")
def flex_attention(spec: NodeSpec) -> Kernel:
    """Q (batch, heads, length, size), K, V (batch, key heads, length, size) -> softmax(Q K') V."""
    score_mod, prob_mod = spec.bodies.get("score_mod"), spec.bodies.get("prob_mod")
    multiply, total = contraction(spec.mode), summation(spec.mode)
    stated, number = spec.get("scale"), spec.get("softmax_precision")

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        q, k, v = operands[:3]
        if k.shape[1] != q.shape[1]:
            if q.shape[1] % k.shape[1]:
                raise ValueError(f"{q.shape[1]} query heads over {k.shape[1]} key heads")
            k, v = (np.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))
        scale = 1 / math.sqrt(q.shape[-1]) if stated is None else stated
        work = np.dtype(np.float32) if q.dtype in HALF_FLOATS else q.dtype
        if number is not None:
            work = numpy_type_of_number(int(number))
        root = np.sqrt(np.float32(scale)).astype(q.dtype)
        left, right = q * root, np.swapaxes(k * root, -1, -2)
        if q.dtype in HALF_FLOATS:
            left, right = left.astype(np.float32), right.astype(np.float32)
        scores = multiply(left, right).astype(q.dtype).astype(work)
        if score_mod is not None:
            scores = score_mod([scores], operands, run)[0]
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = scores / total(scores, (scores.ndim - 1,), True)
        if prob_mod is not None:
            weights = prob_mod([weights], operands, run)[0]
        return (np.asarray(multiply(weights, v.astype(work))).astype(v.dtype),)

    return compute
