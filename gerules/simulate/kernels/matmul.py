"""Products of matrices: MatMul, Gemm at every version, Einsum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gerules.simulate.kernel import FAST, REFERENCE, Kernel, NodeSpec, Run, kernel
from gerules.simulate.kernels.ordered import contraction, ordered_sum, wide
from gerules.simulate.values import Array, Value


@kernel("MatMul")
def matmul(spec: NodeSpec) -> Kernel:
    multiply = contraction(spec.mode)

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        a, b = operands
        return (np.asarray(multiply(wide(a), wide(b))).astype(a.dtype, copy=False),)

    return compute


@kernel("Gemm")
def gemm(spec: NodeSpec) -> Kernel:
    """alpha * A' B' + beta * C; C stretches to the product (below version 7 only where `broadcast` says so)."""
    multiply = contraction(spec.mode)
    alpha, beta = spec.get("alpha", 1.0), spec.get("beta", 1.0)
    turn_a, turn_b = spec.get("transA", 0), spec.get("transB", 0)
    strict = spec.version < 7 and not spec.get("broadcast", 0)

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        a, b = wide(operands[0]), wide(operands[1])
        if a.ndim != 2 or b.ndim != 2:
            raise ValueError(f"matrices have two axes, not {a.ndim} and {b.ndim}")
        y = multiply(a.T if turn_a else a, b.T if turn_b else b)
        if alpha != 1.0:
            y = y * y.dtype.type(alpha)
        c = operands[2] if len(operands) > 2 else None
        if c is not None:
            if strict and c.shape != y.shape:
                raise ValueError(f"C has shape {list(c.shape)}, not {list(y.shape)}, and broadcast is off")
            c = wide(c)
            y = y + np.broadcast_to(c if beta == 1.0 else c * c.dtype.type(beta), y.shape)
        return (np.asarray(y).astype(operands[0].dtype, copy=False),)

    return compute


@kernel("Einsum", modes=(FAST,))
def einsum(spec: NodeSpec) -> Kernel:
    equation = spec.attributes["equation"].replace(" ", "")

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        y = np.einsum(equation, *map(wide, operands), optimize=len(operands) > 1)
        return (np.asarray(y).astype(operands[0].dtype, copy=False),)

    return compute


@kernel("Einsum", modes=(REFERENCE,))
def ordered_einsum(spec: NodeSpec) -> Kernel:
    """Every operand is laid out over all indices, multiplied, and the summed indices folded in order of letter."""
    equation = spec.attributes["equation"].replace(" ", "")

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        terms, output, extra = _terms(equation, operands)
        summed = sorted({c for term in terms for c in term} - set(output))
        letters = [*extra, *[c for c in output if c not in extra], *summed]
        factors = [_laid_out(wide(x), term, letters) for x, term in zip(operands, terms, strict=True)]
        total = factors[0]
        for factor in factors[1:]:
            total = total * factor
        sizes = np.broadcast_shapes(*(f.shape for f in factors))
        total = np.broadcast_to(total, sizes)
        first = len(letters) - len(summed)
        y = ordered_sum(total, tuple(range(first, len(letters))), False) if summed else total
        y = np.transpose(y, [letters.index(c) for c in output])
        return (np.asarray(y).astype(operands[0].dtype, copy=False),)

    return compute


def _terms(equation: str, operands: Sequence[Array]) -> tuple[list[str], str, list[str]]:
    """The letters of each operand and of the result, an ellipsis spelled out in capital letters that are not used."""
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    if len(parts) != len(operands):
        raise ValueError(f"the equation {equation} is for {len(parts)} operands, not {len(operands)}")
    depths = [x.ndim - len(p.replace("...", "")) if "..." in p else 0 for p, x in zip(parts, operands, strict=True)]
    unused = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation]
    extra = unused[: max(depths, default=0)]
    terms = [p.replace("...", "".join(extra[len(extra) - d :])) for p, d in zip(parts, depths, strict=True)]
    if arrow:
        output = right.replace("...", "".join(extra))
    else:
        counted = sorted(set(left) - set(".,"))
        output = "".join(extra) + "".join(c for c in counted if left.count(c) == 1)
    return terms, output, [c for c in extra if c in output]


def _laid_out(x: Array, term: str, letters: Sequence[str]) -> Array:
    """The operand with one axis per letter, of size 1 where it lacks it; repeated letters are its diagonal."""
    own = [c for c in letters if c in term]
    names = {c: chr(ord("a") + i) for i, c in enumerate(dict.fromkeys(term))}
    source, target = "".join(names[c] for c in term), "".join(names[c] for c in own)
    y = np.einsum(f"{source}->{target}", x)
    return np.asarray(y).reshape([y.shape[own.index(c)] if c in own else 1 for c in letters])
