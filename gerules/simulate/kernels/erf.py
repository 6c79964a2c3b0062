"""The error function on arrays, in double precision to the last digit but one."""

from __future__ import annotations

from typing import Final

import numpy as np

from gerules.simulate.values import Array

# Coefficients of W. J. Cody, "Rational Chebyshev approximation for the error function", Math. Comp. 23 (1969), as in
# his CALERF: for |x| <= 0.46875, up to 4, and beyond; lowest power last.
_A: Final = (
    1.85777706184603153e-1,
    3.16112374387056560,
    1.13864154151050156e2,
    3.77485237685302021e2,
    3.20937758913846947e3,
)
_B: Final = (2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3)
_C: Final = (
    2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1, 2.98635138197400131e2,
    8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3,
)  # fmt: skip
_D: Final = (
    1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3, 3.29079923573345963e3,
    4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3,
)  # fmt: skip
_P: Final = (
    1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
    1.60837851487422766e-2, 6.58749161529837803e-4,
)  # fmt: skip
_Q: Final = (
    2.56852019228982242,
    1.87295284992346047,
    5.27905102951428412e-1,
    6.05183413124413191e-2,
    2.33520497626869185e-3,
)
_SMALL, _MIDDLE = 0.46875, 4.0
_INVERSE_ROOT_PI: Final = 5.6418958354775628695e-1


def _polynomial(y: Array, coefficients: tuple[float, ...], first: float | None = None) -> Array:
    """Horner's scheme; `first` is the leading coefficient where it is 1 and not in the table."""
    total = np.full_like(y, coefficients[0]) if first is None else y * first + coefficients[0]
    for c in coefficients[1:]:
        total = total * y + c
    return total


def erf(x: Array) -> Array:
    """erf(x) element by element, in x's type (computed in double precision)."""
    values = np.atleast_1d(x.astype(np.float64))
    size = np.abs(values)
    result = np.sign(values)
    small = size <= _SMALL
    if small.any():
        square = np.square(values[small])
        result[small] = values[small] * _polynomial(square, _A) / _polynomial(square, _B, 1.0)
    middle = (size > _SMALL) & (size <= _MIDDLE)
    if middle.any():
        y = size[middle]
        complement = np.exp(-np.square(y)) * _polynomial(y, _C) / _polynomial(y, _D, 1.0)
        result[middle] *= 1.0 - complement
    large = (size > _MIDDLE) & (size < 6.0)  # beyond, erf is 1 in double precision
    if large.any():
        y = size[large]
        inverse = 1.0 / np.square(y)
        tail = inverse * _polynomial(inverse, _P) / _polynomial(inverse, _Q, 1.0)
        result[large] *= 1.0 - np.exp(-np.square(y)) / y * (_INVERSE_ROOT_PI - tail)
    result[np.isnan(values)] = np.nan
    return result.reshape(x.shape).astype(x.dtype)
