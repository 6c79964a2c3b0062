"""Which kernel a node gets: our own, else `onnx.reference`'s, else the body that the specification gives."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir as ir

from gerules.simulate import kernels as _kernels  # fills the table
from gerules.simulate.faults import SimulationFault, fault
from gerules.simulate.kernel import Kernel, Mode, NodeSpec, Run, find_factory
from gerules.simulate.reference import reference_kernel
from gerules.simulate.schema import find_schema, make_node_proto, schema_body
from gerules.simulate.values import Value, ValueType

if TYPE_CHECKING:
    from gerules.simulate.plan import Plan, Scope

assert _kernels is not None
_LARGEST_KEY = 256  # elements of a tensor attribute that may be part of a cache key
_CACHE_SIZE = 4096


class NoBody(ValueError):
    """An operator whose specification gives no body for the operands at hand."""


class Selector:
    """Makes kernels, and remembers those that depend on their attributes alone. One per `Simulator`, or one for all
    single-node evaluations."""

    def __init__(self) -> None:
        self._kernels: OrderedDict[Any, Kernel] = OrderedDict()
        self._functions: dict[Any, Plan] = {}

    def __call__(self, spec: NodeSpec) -> Kernel:
        """The kernel of a node. Raises `SimulationFault` where nothing computes it."""
        key = _spec_key(spec)
        found = self._kernels.get(key) if key is not None else None
        if found is None:
            try:
                found = self._make(spec)
            except SimulationFault:
                raise
            except Exception as error:
                reason = (str(error) or type(error).__name__).splitlines()[0]
                message = f"{spec.op} ({spec.name}) cannot be prepared: {reason}"
                raise fault("GR413", message, node=spec.name, hint="look at its attributes") from error
            if key is not None:
                self._kernels[key] = found
                if len(self._kernels) > _CACHE_SIZE:
                    self._kernels.popitem(last=False)
        return found

    def _make(self, spec: NodeSpec) -> Kernel:
        factory = find_factory(spec.domain, spec.op, spec.version, spec.mode)
        if factory is not None:
            return factory(spec)
        made = reference_kernel(spec)
        if made is not None:
            return made
        schema = find_schema(spec.domain, spec.op, spec.opset)
        if schema is not None and schema.has_body:
            return self._from_schema(spec)
        raise fault(
            "GR411",
            f"{spec.domain or 'ai.onnx'} {spec.op} at opset {spec.opset} cannot be simulated",
            node=spec.name,
            hint="its kernel is missing; report the operator",
        )

    def _from_schema(self, spec: NodeSpec) -> Kernel:
        """A kernel that runs the specification's own body, made anew for each list of operand types."""
        schema = find_schema(spec.domain, spec.op, spec.opset)
        assert schema is not None
        proto = make_node_proto(spec, spec.attributes)
        plans: dict[Any, Plan] = {}

        def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
            key = () if schema.raw.has_function else tuple(_operand_key(v) for v in operands)
            plan = plans.get(key)
            if plan is None:
                plan = plans[key] = self._schema_plan(spec, schema, proto, operands)
            padded = [*operands, *[None] * (len(plan.inputs) - len(operands))]
            return plan.execute(padded, (), run)

        return compute

    def _schema_plan(self, spec: NodeSpec, schema: Any, proto: onnx.NodeProto, operands: Sequence[Value]) -> Plan:
        from gerules.simulate.plan import Scope, function_plan

        data = schema_body(schema, spec.opset, proto, operands)
        if data is None:
            raise NoBody("the specification gives no body for these types")
        function = ir.from_proto(onnx.FunctionProto.FromString(data))
        assert isinstance(function, ir.Function)
        opsets = dict(function.opset_imports)
        opsets.setdefault("", spec.opset if spec.domain == "" else onnx.defs.onnx_opset_version())
        return function_plan(function, Scope(opsets, {}, spec.mode, dict(spec.attributes)), self)

    def function_plan(
        self, function: ir.Function, bound: Mapping[str, Any], scope: Scope, key: tuple[str, str, str]
    ) -> Plan:
        """The plan of a model-local function with bound attributes; shared by all calls that bind the same."""
        from gerules.simulate.plan import Scope, function_plan

        frozen = _freeze(bound)
        cache_key = None if frozen is None else (key, frozen, scope.mode, scope.guarded)
        found = self._functions.get(cache_key) if cache_key is not None else None
        if found is None:
            opsets = dict(function.opset_imports) or dict(scope.opsets)
            inner = Scope(opsets, scope.functions, scope.mode, bound, (*scope.stack, key), scope.guarded)
            found = function_plan(function, inner, self)
            if cache_key is not None:
                self._functions[cache_key] = found
        return found


def _operand_key(value: Value) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype.name, value.shape
    if isinstance(value, list):
        return ("seq", _operand_key(value[0]) if value else None)
    return None


# Kernels of these draw by the node's name, so that two nodes may not share one.
DRAWING = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


def _spec_key(spec: NodeSpec) -> Any:
    if spec.bodies or spec.op in DRAWING:
        return None
    frozen = _freeze(spec.attributes)
    if frozen is None:
        return None
    return (spec.domain, spec.op, spec.version, spec.opset, spec.operands, spec.results, spec.wanted, spec.mode, frozen)


def _freeze(attributes: Mapping[str, Any]) -> Any:
    items = []
    for name in sorted(attributes):
        value = attributes[name]
        if isinstance(value, np.ndarray):
            if value.size > _LARGEST_KEY or value.dtype.kind == "O":
                return None
            value = (value.dtype.name, value.shape, value.tobytes())
        elif not isinstance(value, (int, float, str, tuple, ValueType)) or (
            isinstance(value, tuple) and any(isinstance(v, np.ndarray) for v in value)
        ):
            return None
        items.append((name, _told_apart(value)))
    return tuple(items)


def _told_apart(value: Any) -> Any:
    """Zeros of different sign are equal numbers, and different attributes."""
    if isinstance(value, float) and value == 0:
        return repr(value)
    if isinstance(value, tuple) and any(isinstance(v, float) and v == 0 for v in value):
        return tuple(map(repr, value))
    return value


__all__ = ["Mode", "Selector"]
