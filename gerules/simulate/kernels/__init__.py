"""Kernels by kind of operator; importing this package fills the table of `gerules.simulate.kernel`."""

from gerules.simulate.kernels import control

__all__ = ["control"]
