"""The model that a run is about, with what is promised and likely of its dimensions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import onnx_ir as ir

from gerules.dsl.program import Program
from gerules.errors import Diagnostic, GerulesError, UsageFault
from gerules.graph import load_model
from gerules.graph.constants import ConstantTable
from gerules.graph.dims import DimFacts, parse_at_flag, parse_likely_flag
from gerules.graph.info import Info
from gerules.graph.structure import all_graphs
from gerules.pipeline.options import Options
from gerules.registry import onnx_registry
from gerules.registry.definition import OperatorDef
from gerules.target import Likely
from gerules.target.graph_view import GraphView

DIMS_KEY = "gerules.dims"
"""Model metadata: what was promised of dimensions when the model was rewritten."""


@dataclass(frozen=True)
class Dimensions:
    """What the command line says of dimensions."""

    facts: DimFacts
    likely: Mapping[str, tuple[int, ...]]
    at: Mapping[str, int]

    @classmethod
    def of(cls, options: Options) -> Dimensions:
        """Raises one UsageFault with every fault of all flags."""
        faults: list[Diagnostic] = []
        facts = _collect(faults, DimFacts(), lambda: DimFacts.from_flags(options.dims, options.assume))
        likely: dict[str, tuple[int, ...]] = {}
        at: dict[str, int] = {}
        for text in options.likely:
            name, sizes = _collect(faults, ("", ()), partial(parse_likely_flag, text))
            likely[name] = sizes
        for text in options.at:
            name, size = _collect(faults, ("", 0), partial(parse_at_flag, text))
            at[name] = size
        if faults:
            raise UsageFault(faults)
        return cls(facts, likely, at)

    @property
    def sizes(self) -> Likely:
        return Likely(self.likely, self.facts)


def _collect(faults: list[Diagnostic], default: Any, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except GerulesError as error:
        faults.extend(error.diagnostics)
        return default


@dataclass
class Clock:
    """Seconds of the stages of a run, in the order of running."""

    seconds: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            self.add(name, time.monotonic() - start)

    def add(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def total(self) -> dict[str, float]:
        return {**self.seconds, "total": time.monotonic() - self.started}


@dataclass
class Subject:
    """A loaded model. `program` declares operators beyond the registry's."""

    path: Path
    model: ir.Model
    program: Program
    dimensions: Dimensions
    table: ConstantTable = field(default_factory=ConstantTable)

    @classmethod
    def load(cls, path: str | Path, program: Program, dimensions: Dimensions) -> Subject:
        """Raises Refused with all that is wrong with the model."""
        return cls(Path(path), load_model(path), program, dimensions)

    def view(self, infos: Mapping[ir.Value, Info]) -> GraphView:
        """The model's nodes as engines and costs see them."""
        imports = {("" if d == "ai.onnx" else d): v for d, v in self.model.opset_imports.items()}
        return GraphView(infos, imports, onnx_registry(), self.table, self.program.operators)

    def define(self, view: GraphView) -> Callable[[ir.Node], OperatorDef | None]:
        """The definition of a node's operator; None for what rules must leave alone: operators that nobody defines,
        and calls of the model's functions."""
        functions = {(d, n) for d, n, _ in self.model.functions}

        def find(node: ir.Node) -> OperatorDef | None:
            if (node.domain, node.op_type) in functions:
                return None
            found = view.operator(node)
            return found if found.since else None

        return find

    def promise(self, model: ir.Model) -> None:
        """Writes what is promised of dimensions into a model's metadata."""
        texts = self.dimensions.facts.texts
        if texts:
            model.metadata_props[DIMS_KEY] = "; ".join(texts)


def count_nodes(model: ir.Model) -> int:
    """Nodes of the graph and of its bodies."""
    return sum(len(graph) for graph in all_graphs(model.graph))
