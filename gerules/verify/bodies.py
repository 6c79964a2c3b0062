"""Function operators by the body that their schema ships, whatever kernel they have of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gerules.egraph.signature import Signature
from gerules.registry.definition import OperatorDef
from gerules.simulate.faults import SimulationFault, fault, node_fault
from gerules.simulate.kernel import REFERENCE, Kernel, NodeSpec, Run
from gerules.simulate.schema import find_schema
from gerules.simulate.selection import NoBody, Selector
from gerules.simulate.values import describe, normalise
from gerules.verify.compute import attribute_values
from gerules.verify.sides import RECORDER

_SELECTOR = Selector()
_KERNELS: dict[object, Kernel] = {}


def run_body(
    definition: OperatorDef, signature: Signature, operands: Sequence[object], columns: Sequence[object]
) -> list[object]:
    """The results of an operator by its schema's body. Raises NodeFault where the body fails."""
    values, results = attribute_values(signature, columns)
    node = (definition.domain, definition.name, int(definition.since))
    recorder = RECORDER.get()
    if recorder is None:
        return evaluate_body(*node, values, operands, results)
    return recorder.run(
        (*node, True), values, operands, results, lambda: evaluate_body(*node, values, operands, results)
    )


def evaluate_body(
    domain: str, op: str, version: int, values: Mapping[str, object], operands: Sequence[object], results: int
) -> list[object]:
    """The same for an operator by name, with its attributes as Python values."""
    schema = find_schema(domain, op, version)
    assert schema is not None
    spec = NodeSpec(
        domain, op, schema.since, version, op, {**schema.defaults, **values},
        len(operands), results, (True,) * results, {}, REFERENCE,
    )  # fmt: skip
    key = (domain, op, version, tuple(sorted(spec.attributes.items())), len(operands), results)
    kernel = _KERNELS.get(key)
    given = [normalise(o) for o in operands]
    try:
        if kernel is None:
            if len(_KERNELS) > 2048:
                _KERNELS.clear()
            kernel = _KERNELS[key] = _SELECTOR._from_schema(spec)
        with np.errstate(all="ignore"):
            found = list(kernel(given, Run()))
    except SimulationFault:
        raise
    except NoBody as error:
        raise fault("GR411", f"{op} at opset {version}: {error}", node=op) from error
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise node_fault(op, op, ", ".join(map(describe, given)), reason) from error
    made = [v if isinstance(v, (np.ndarray, list)) or v is None else normalise(v) for v in found]
    return [*made, *[None] * (results - len(made))][:results]
