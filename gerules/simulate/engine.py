"""Running a model on given inputs in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from gerules.simulate.faults import fault, node_fault
from gerules.simulate.kernel import FAST, Mode, NodeSpec, Run
from gerules.simulate.opaque import OpaqueValues
from gerules.simulate.plan import Body, Plan, Scope, draft_graph, undefined
from gerules.simulate.schema import find_schema, is_computable
from gerules.simulate.selection import Selector
from gerules.simulate.values import Value, describe, normalise


class Simulator:
    """A model prepared to run. Preparing costs once; warm runs only compute.

    `model` is an `onnx_ir.Model`, a ModelProto or a path. `kernels="reference"` computes every reduction and
    contraction element by element in index order; `"fast"` uses BLAS and strides. `opaque` supplies the results of
    operators without a schema. `seed` moves the draws of random operators, which depend on nodes' names otherwise.
    `unknown_inputs` admits `UNKNOWN` among the feeds (what an opaque operator of another partition made).
    Raises `SimulationFault` (GR401 to GR412) where the model has what cannot be run.
    """

    def __init__(
        self,
        model: ir.Model | onnx.ModelProto | str | Path,
        *,
        kernels: Mode = FAST,
        opaque: OpaqueValues | None = None,
        seed: int = 0,
        unknown_inputs: bool = False,
    ) -> None:
        self.model = as_model(model)
        self.opaque = opaque
        self.seed = seed
        self._selector = Selector()
        functions = {("" if d == "ai.onnx" else d, n, o or ""): f for (d, n, o), f in self.model.functions.items()}
        opsets = {("" if d == "ai.onnx" else d): v for d, v in self.model.opset_imports.items()}
        scope = Scope(opsets, functions, kernels, guarded=unknown_inputs or has_opaque(self.model))
        self._draft = draft_graph(self.model.graph, scope, self._selector)
        if self._draft.captured:
            raise undefined(self._draft.captured[0], "the graph")
        self._plans: dict[tuple[tuple[str, ...], frozenset[str]], Plan] = {}
        graph = self.model.graph
        self.inputs: tuple[str, ...] = tuple(str(v.name) for v in graph.inputs)
        self.outputs = tuple(str(v.name) for v in graph.outputs)
        self._input_names = frozenset(self.inputs)
        self._optional = {str(v.name) for v in graph.inputs if isinstance(v.type, ir.OptionalType)}
        self._defaults = frozenset(str(v.name) for v in graph.inputs if v.name in graph.initializers)

    @property
    def value_names(self) -> tuple[str, ...]:
        """Every named value of the graph (not of bodies): inputs, initializers, results in topological order."""
        return tuple(self._draft.names)

    def run(self, feeds: Mapping[str, Value], outputs: Sequence[str] | None = None) -> dict[str, Value]:
        """The values called `outputs` (any value of the graph; default its outputs) for `feeds`.

        An array is a tensor, a list a sequence, None an absent optional. Values are freed after their last use.
        Raises `SimulationFault` where a feed is missing or unknown, `NodeFault` where a node fails.
        """
        names = self.outputs if outputs is None else tuple(outputs)
        values = self._inputs(feeds)
        given = self._defaults.intersection(feeds)
        plan = self._plans.get((names, given))
        if plan is None:
            plan = self._plans[names, given] = self._plan(names, given)
        run = Run(self.seed, self.opaque)
        with np.errstate(all="ignore"):
            results = plan.execute(values, (), run)
        return dict(zip(names, results, strict=True))

    def _plan(self, names: Sequence[str], given: frozenset[str]) -> Plan:
        slots = []
        for name in names:
            if name not in self._draft.names:
                raise fault("GR406", f"the graph has no value {name}", node=name)
            slots.append(self._draft.names[name])
        fed = frozenset(self._draft.names[name] for name in given)
        return self._draft.plan(slots, prune=True, given=fed)

    def _inputs(self, feeds: Mapping[str, Value]) -> list[Value]:
        for name in feeds:
            if name not in self._input_names and name not in self.model.graph.initializers:
                raise fault("GR407", f"the graph has no input {name}", node=name)
        values: list[Value] = []
        for name, slot in zip(self.inputs, self._draft.inputs, strict=True):
            if name in feeds:
                values.append(normalise(feeds[name]))
            elif name in self._defaults:
                values.append(self._draft.template[slot])
            elif name in self._optional:
                values.append(None)
            else:
                raise fault("GR407", f"input {name} is not given", node=name, hint="feeds need every input by name")
        return values


def as_model(model: ir.Model | onnx.ModelProto | str | Path) -> ir.Model:
    """The model itself, or the one that a ModelProto or a path holds."""
    if isinstance(model, ir.Model):
        return model
    if isinstance(model, onnx.ModelProto):
        return ir.serde.deserialize_model(model)
    return ir.load(str(model))


def has_opaque(model: ir.Model) -> bool:
    """Whether any node of the graph, its bodies or functions has an operator that nobody can compute."""
    graphs = [model.graph, *(f.graph for f in model.functions.values())]
    return any(is_opaque(node, model) for graph in graphs for node in graph.all_nodes())


def is_opaque(node: ir.Node, model: ir.Model) -> bool:
    """Whether the node's operator has neither a schema's domain nor a body in the model."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    return not is_computable(domain, node.op_type) and node.op_identifier() not in model.functions


_SINGLE = Selector()


def _as_stored(value: Any) -> Any:
    """An attribute's value as a model would give it back: lists as tuples, floats in single precision."""
    if isinstance(value, (list, tuple)):
        return tuple(_as_stored(v) for v in value)
    return float(np.float32(value)) if isinstance(value, float) else value


def evaluate_node(
    domain: str,
    op: str,
    version: int,
    attributes: Mapping[str, Any],
    operands: Sequence[Value],
    results: int,
    *,
    kernels: Mode = FAST,
    bodies: Mapping[str, Body] | None = None,
) -> list[Value]:
    """The results of one operator at an opset, for constant folding. The kernel is made once per operator, version
    and attributes. Lists among `attributes` may be lists or tuples, tensors are arrays. `bodies` are its prepared graph
    attributes.

    Raises `SimulationFault` (GR403, GR411) where the operator is unknown or cannot be computed, `NodeFault` where it
    fails at these operands.
    """
    domain = "" if domain == "ai.onnx" else domain
    schema = find_schema(domain, op, version)
    if schema is None:
        raise fault("GR403", f"{domain or 'ai.onnx'} has no operator {op} at opset {version}", node=op)
    given = {n: _as_stored(v) for n, v in attributes.items()}
    spec = NodeSpec(
        domain, op, schema.since, version, op, {**schema.defaults, **given}, len(operands), results,
        (True,) * results, bodies or {}, kernels,
    )  # fmt: skip
    kernel = _SINGLE(spec)
    values = [normalise(v) for v in operands]
    try:
        with np.errstate(all="ignore"):
            found = list(kernel(values, Run()))
    except Exception as error:
        if isinstance(error, type(fault("", ""))):
            raise
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise node_fault(op, op, ", ".join(map(describe, values)), reason) from error
    return [*found, *[None] * (results - len(found))][:results]
