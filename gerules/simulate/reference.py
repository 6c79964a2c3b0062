"""Kernels from `onnx.reference`: its operator classes, made once and called without its evaluator."""

from __future__ import annotations

import inspect
from typing import Any

from onnx.reference.op_run import OpRun, RuntimeImplementationError
from onnx.reference.ops import load_op
from onnx.reference.ops.aionnx_preview import load_op as load_preview
from onnx.reference.ops.aionnx_preview_training import load_op as load_training
from onnx.reference.ops.aionnxml import load_op as load_ml

from gerules.simulate.faults import fault
from gerules.simulate.kernel import Kernel, NodeSpec, Run
from gerules.simulate.kernels.lifts import lifted
from gerules.simulate.schema import make_node_proto
from gerules.simulate.values import Value, normalise

_LOADERS = {
    "": load_op,
    "ai.onnx.ml": load_ml,
    "ai.onnx.preview": load_preview,
    "ai.onnx.preview.training": load_training,
}

# Attributes that no computation depends on: hints of opset 1, and what says only how a body or a plan is stored.
_IDLE = frozenset({"consumed_inputs"})


def reference_kernel(spec: NodeSpec) -> Kernel | None:
    """The class of `onnx.reference` as a kernel, None where it has none (a schema's body may help then)."""
    loader = _LOADERS.get(spec.domain)
    if loader is None:
        return None
    try:
        made = loader(spec.domain, spec.op, spec.opset)
    except (RuntimeImplementationError, NotImplementedError, RuntimeError):
        return None
    except AssertionError:  # a function body, which only an evaluator could run: ours does
        return None
    if not (inspect.isclass(made) and issubclass(made, OpRun)):
        return None
    parameters = {
        "log": _no_log,
        "opsets": {spec.domain: spec.opset},
        "verbose": 0,
        "new_ops": {},
        "existing_functions": {},
    }
    attributes = lifted({n: v for n, v in spec.attributes.items() if n not in _IDLE}, spec)
    instance: Any = made(make_node_proto(spec, attributes), parameters)
    keywords = _keywords(spec, instance, attributes)
    # Classes that override `run` do so to take operands only; all others are called past `run`, which only checks.
    call = instance._run if type(instance).run is OpRun.run or keywords else instance.run

    def compute(operands: Any, run: Run) -> tuple[Value, ...]:
        return tuple(map(normalise, call(*operands, **keywords)))

    return compute


def _keywords(spec: NodeSpec, instance: Any, attributes: dict[str, Any]) -> dict[str, Any]:
    signature = inspect.signature(instance._run).parameters
    values = {name: getattr(instance, name) for name in sorted(instance.attributes_names_)}
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.values()):
        return values
    kind = type(instance)
    # Some classes read `self.axis` instead of taking `axis`.
    known = {*signature, *kind._run.__code__.co_names, *kind.__init__.__code__.co_names}
    strange = [n for n in attributes if n not in known]
    if strange:
        raise fault(
            "GR411",
            f"{spec.op} at opset {spec.opset} cannot be computed with the attribute {strange[0]}",
            node=spec.name,
            hint="report this operator and its attributes",
        )
    return {name: value for name, value in values.items() if name in signature}


def _no_log(pattern: str, *arguments: Any) -> None:
    """The log that the classes ask for."""
