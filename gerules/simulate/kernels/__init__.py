"""Kernels by kind of operator; importing this package fills the table of `gerules.simulate.kernel`."""

from gerules.simulate.kernels import (
    attention,
    cast,
    control,
    conv,
    draws,
    elementwise,
    matmul,
    ml,
    normalize,
    pool,
    quantize,
    recurrent,
    reduce,
    resize,
    sequence,
    shape,
)

__all__ = [
    "attention",
    "cast",
    "control",
    "conv",
    "draws",
    "elementwise",
    "matmul",
    "ml",
    "normalize",
    "pool",
    "quantize",
    "recurrent",
    "reduce",
    "resize",
    "sequence",
    "shape",
]
