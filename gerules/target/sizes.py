"""Sizes at which costs are taken: likely values for dimension symbols, and a view in which every shape is a number.

Sizes are for costs only, never facts. What nothing says is assumed and marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gerules.graph.dims import Dim, DimError, DimFacts, likely_values
from gerules.graph.dtypes import is_tensor
from gerules.graph.info import Info
from gerules.registry.definition import OperatorDef
from gerules.static import TensorView
from gerules.target.matching import View

USUAL = 8
"""The extent of a dimension of which nothing is known, not even a symbol (CONTRACTS, `--likely`)."""


@dataclass(frozen=True)
class Likely:
    """Likely sizes. `flags`: symbol -> sizes as `--likely` gives them; what is not given follows from the promises
    `facts` as CONTRACTS says. Several sizes are several scenarios: the i-th takes the i-th size of each symbol (a
    shorter list begins again), and a cost is the mean over all."""

    flags: Mapping[str, Sequence[int]] = field(default_factory=dict)
    facts: DimFacts = field(default_factory=DimFacts)
    _found: dict[str, tuple[int, ...]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def scenarios(self) -> int:
        return max((len(sizes) for sizes in self.flags.values()), default=1) or 1

    def binding(self, symbols: Iterable[str], scenario: int) -> dict[str, int]:
        """Sizes of these symbols in one scenario."""
        binding: dict[str, int] = {}
        for name in symbols:
            sizes = self._sizes(name)
            binding[name] = sizes[scenario % len(sizes)]
        return binding

    def _sizes(self, name: str) -> tuple[int, ...]:
        if name not in self._found:
            flags = {n: tuple(sizes) for n, sizes in self.flags.items() if sizes}
            self._found.update(likely_values((name,), self.facts, flags))
        return self._found[name]

    def size(self, dim: Dim | None, scenario: int) -> tuple[int, bool]:
        """The size of an extent, and whether it had to be assumed."""
        if dim is None:
            return USUAL, True
        if dim.value is not None:
            return dim.value, False
        try:
            return max(0, dim.evaluate(self.binding(dim.symbols(), scenario))), False
        except DimError:
            return USUAL, True


class SizedView:
    """A view with every tensor at its size in one scenario. `assumed` tells whether sizes of a node had to be."""

    def __init__(self, view: View, likely: Likely, scenario: int) -> None:
        self._view = view
        self._likely = likely
        self._scenario = scenario
        self._tensors: dict[Any, TensorView] = {}

    def operator(self, node: Any) -> OperatorDef:
        return self._view.operator(node)

    def attributes(self, node: Any) -> Mapping[str, str]:
        return self._view.attributes(node)

    def operands(self, node: Any) -> Sequence[Any]:
        return self._view.operands(node)

    def results(self, node: Any) -> Sequence[Any]:
        return self._view.results(node)

    def producers(self, value: Any) -> Sequence[Any]:
        return self._view.producers(value)

    def tensor(self, value: Any) -> TensorView:
        tensor = self._view.tensor(value)
        return TensorView(self.sized(tensor.info)[0], tensor.constant)

    def sized(self, info: Info) -> tuple[Info, bool]:
        """The fact with every extent a number, and whether one was assumed. An unknown rank counts as one axis; what
        is no tensor stays as it is and is assumed."""
        if info.shape is None:
            if not is_tensor(info.dtype):
                return info, True
            return Info(info.dtype, (Dim.of(USUAL),)), True
        if all(d is not None and d.value is not None for d in info.shape):
            return info, False
        sizes = [self._likely.size(d, self._scenario) for d in info.shape]
        return Info(info.dtype, tuple(Dim.of(n) for n, _ in sizes)), any(assumed for _, assumed in sizes)

    def assumed(self, node: Any) -> bool:
        values = [v for v in (*self._view.operands(node), *self._view.results(node)) if v is not None]
        return any(self.sized(self._view.tensor(v).info)[1] for v in values)


def likeness(view: View, node: Any) -> object:
    """What the figures and costs of a node depend on where no pattern looks beyond it: operator, attributes, what is
    known of operands and results, and which operands are one value."""
    operands = view.operands(node)
    first: dict[Any, int] = {}
    for i, value in enumerate(operands):
        first.setdefault(value, i)
    return (
        view.operator(node).key,
        tuple(sorted(view.attributes(node).items())),
        tuple(None if v is None else (view.tensor(v).info.text, first[v]) for v in operands),
        tuple(None if v is None else view.tensor(v).info.text for v in view.results(node)),
    )
