"""Operators that nobody can compute: their results are seeded random values of the stated type, shared by all runs.

The simulation cuts at an operator without schema or body. What goes in is recorded, so that two runs can be compared
there; what comes out depends only on the seed, the node's name and how often it ran before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from gerules.graph.dims import Dim, DimError
from gerules.simulate.kernel import stable_seed
from gerules.simulate.values import UNKNOWN, Value, ValueType, is_integer, numpy_type


@dataclass(slots=True)
class OpaqueValues:
    """The policy of one run. `binding` gives the sizes of named dimensions in stated types.

    Afterwards `operands` has what each call (node name, how often it ran before) was given, `drawn` what it gave, and
    `untyped` the nodes without a usable type, with the reason.
    """

    seed: int = 0
    binding: Mapping[str, int] = field(default_factory=dict)
    operands: dict[tuple[str, int], list[Value]] = field(default_factory=dict)
    drawn: dict[tuple[str, int], list[Value]] = field(default_factory=dict)
    untyped: dict[str, str] = field(default_factory=dict)

    def results(
        self, name: str, call: int, operands: Sequence[Value], types: Sequence[ValueType | None]
    ) -> list[Value]:
        """The results of one call; `UNKNOWN` where a type, a rank or a size is not stated."""
        self.operands[name, call] = list(operands)
        if (name, call) in self.drawn:
            return self.drawn[name, call]
        found: list[Value] = []
        for index, stated in enumerate(types):
            shape = self._shape(stated)
            if stated is None or shape is None:
                self.untyped.setdefault(name, f"the type of its result {index} is not stated")
                found.append(UNKNOWN)
                continue
            generator = np.random.default_rng(stable_seed(f"opaque {self.seed} {name} {call} {index}"))
            found.append(random_array(generator, numpy_type(stated.element), shape))
        self.drawn[name, call] = found
        return found

    def clear(self) -> None:
        """Forgets earlier calls, for another run at other values."""
        self.operands.clear()
        self.drawn.clear()
        self.untyped.clear()

    def sharing(self) -> OpaqueValues:
        """For a second run beside this one: it gets the same results, whatever types its model states."""
        return OpaqueValues(self.seed, self.binding, {}, self.drawn, self.untyped)

    def _shape(self, stated: ValueType | None) -> tuple[int, ...] | None:
        if stated is None or stated.shape is None or not stated.is_tensor:
            return None
        sizes = [self._size(d) for d in stated.shape]
        return None if any(s is None for s in sizes) else tuple(int(s) for s in sizes if s is not None)

    def _size(self, stated: int | str | None) -> int | None:
        if stated is None or isinstance(stated, int):
            return stated
        if stated in self.binding:
            return self.binding[stated]
        try:
            return Dim.parse(stated).evaluate(self.binding)
        except (DimError, KeyError):
            return None


def random_array(
    generator: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...], low: int = 0, high: int = 3
) -> np.ndarray[Any, np.dtype[Any]]:
    """Random contents of a type: floats normal with deviation 1, integers from `low` to `high` (inclusive), fair bool
    coins, short words."""
    if dtype.kind == "b":
        return np.asarray(generator.integers(0, 2, shape)).astype(np.bool_)
    if dtype.kind == "O":
        words = np.array(["a", "b", "word", "Word", ""], dtype=object)
        return np.asarray(words[generator.integers(0, len(words), shape)], dtype=object).reshape(shape)
    if is_integer(dtype):
        return np.asarray(generator.integers(low, min(high, largest(dtype)) + 1, shape)).astype(dtype)
    if dtype.kind == "c":
        return (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)).astype(dtype)
    return np.asarray(generator.standard_normal(shape), dtype=np.float64).astype(dtype)


def largest(dtype: np.dtype[Any]) -> int:
    """The largest integer of a type."""
    return int(ml_dtypes.iinfo(dtype).max)  # type: ignore[no-untyped-call]  # no stubs
