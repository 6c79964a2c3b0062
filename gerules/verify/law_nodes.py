"""Drawn nodes as patterns and costs see them, at the sizes that were drawn or at larger ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gerules.dsl import ast
from gerules.egraph.program import Knowledge
from gerules.errors import GerulesError
from gerules.graph.dims import Dim
from gerules.graph.dtypes import name_of_numpy
from gerules.graph.info import UNKNOWN, Info
from gerules.registry.definition import OperatorDef
from gerules.registry.registry import version_key
from gerules.static import TensorView
from gerules.verify.compute import texts_of
from gerules.verify.draw import State
from gerules.verify.law_instances import instances_of
from gerules.verify.layout import RunNode

GROWN = (1, 2, 4, 64, 1024)
"""By what all extents are multiplied to see whether costs fall."""
_EACH = 6
_TRIED = 150
"""Nodes of one operator, and draws for them."""
_SMALL = 16
"""Integers of a list that says how to compute (axes, extents), and does not grow."""


class DrawnView:
    """The nodes of one draw, by number, with every extent times `factor`. Lists of integers keep their contents."""

    def __init__(self, state: State, factor: int = 1, extent: int | None = None) -> None:
        self._state = state
        self._factor = factor
        self._extent = extent
        self._steps = [s for s in state.layout.steps if isinstance(s, RunNode)]
        self._makers = {r: i for i, step in enumerate(self._steps) for r in step.results}

    def grown(self, factor: int, extent: int | None = None) -> DrawnView:
        """The same nodes with all extents times `factor`, or with those alone that are `extent`."""
        return DrawnView(self._state, factor, extent)

    @property
    def extents(self) -> tuple[int, ...]:
        """The different extents of all tensors."""
        return tuple(sorted({n for t in self._state.tensors if isinstance(t, np.ndarray) for n in t.shape}))

    @property
    def plain(self) -> bool:
        """Whether every value is a tensor."""
        step = self._steps[-1]
        values = [self._state.tensors[v] for v in (*step.operands, *step.results) if v is not None]
        return all(v is None or isinstance(v, np.ndarray) for v in values)

    @property
    def count(self) -> int:
        return len(self._steps)

    def operator(self, node: int) -> OperatorDef:
        return self._steps[node].signature.newest

    def attributes(self, node: int) -> Mapping[str, str]:
        step = self._steps[node]
        return texts_of(step.signature, [self._state.columns[c] for c in step.columns])[0]

    def operands(self, node: int) -> Sequence[int | None]:
        return tuple(None if o is None or self._state.tensors[o] is None else o for o in self._steps[node].operands)

    def results(self, node: int) -> Sequence[int | None]:
        return tuple(r if self._state.tensors[r] is not None else None for r in self._steps[node].results)

    def producers(self, value: int) -> Sequence[int]:
        return (self._makers[value],) if value in self._makers else ()

    def tensor(self, value: int) -> TensorView:
        array = self._state.tensors[value]
        if not isinstance(array, np.ndarray):
            return TensorView(UNKNOWN)
        dtype = name_of_numpy(array.dtype)
        if value not in self._makers and array.ndim <= 1 and array.dtype.kind in "iu" and array.size <= _SMALL:
            return TensorView(Info(dtype, tuple(map(Dim.of, array.shape))), array)
        grows = (n * (self._factor if self._extent in (None, n) else 1) for n in array.shape)
        return TensorView(Info(dtype, tuple(map(Dim.of, grows))))

    def text(self, node: int) -> str:
        """A node with the types of its operands: `MatMul@13(f32[2, 3], f32[3, 4])`."""
        types = [
            "none" if value is None else f"{self.tensor(value).info.dtype}{_extents(self.tensor(value).info)}"
            for value in self.operands(node)
        ]
        return f"{self.operator(node).key}({', '.join(types)})"


def _extents(info: Info) -> str:
    return "" if info.shape is None else "[" + ", ".join(map(str, info.shape)) + "]"


def root_node(view: DrawnView) -> int:
    """The node that was drawn last: the root of its pattern."""
    return view.count - 1


def drawn_nodes(known: Knowledge, keys: frozenset[str], seed: int) -> Iterator[DrawnView]:
    """A few nodes of each operator whose key is among `keys`, at the newest version of each name."""
    newest: dict[tuple[str, str], OperatorDef] = {}
    for key in sorted(keys):
        definition = known.program.definition(key)
        place = (definition.domain, definition.name)
        if place not in newest or version_key(newest[place].since) < version_key(definition.since):
            newest[place] = definition
    for place in sorted(newest):
        yield from _nodes_of(known, newest[place], seed)


def _nodes_of(known: Knowledge, operator: OperatorDef, seed: int) -> Sequence[DrawnView]:
    kept = known.kept.setdefault("law nodes", {})
    assert isinstance(kept, dict)
    place = (operator.key, seed)
    if place not in kept:
        term = ast.Call(ast.Name("f"), (ast.Rest(ast.Name("r")),))
        try:
            drawn = instances_of(known, operator.key, known.program.files[0], {"f": operator}, (term,))
            kept[place] = [view for i in drawn.take(_EACH, seed, most=_TRIED) if (view := DrawnView(i.state)).plain]
        except GerulesError:
            kept[place] = []  # operators that nothing computes
    found: Sequence[DrawnView] = kept[place]
    return found
