"""Function operators by the body that their schema ships, whatever kernel they have of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gerules.egraph.signature import RESULTS, Signature
from gerules.egraph.texts import dtype_number
from gerules.registry.definition import OperatorDef
from gerules.simulate.faults import SimulationFault, node_fault
from gerules.simulate.kernel import REFERENCE, Kernel, NodeSpec, Run
from gerules.simulate.schema import find_schema
from gerules.simulate.selection import Selector
from gerules.simulate.values import describe, normalise

_SELECTOR = Selector()
_KERNELS: dict[object, Kernel] = {}


def run_body(
    definition: OperatorDef, signature: Signature, operands: Sequence[object], columns: Sequence[object]
) -> list[object]:
    """The results of an operator by its schema's body. Raises NodeFault where the body fails."""
    values: dict[str, object] = {}
    results = 1
    for attribute, value in zip(signature.attributes, columns, strict=True):
        if attribute.name == RESULTS and signature.several:
            results = int(value)  # type: ignore[call-overload]
        elif value is not None:
            values[attribute.name] = dtype_number(str(value)) if signature.kind(attribute.name) == "dtype" else value
    version = int(definition.since)
    schema = find_schema(definition.domain, definition.name, version)
    assert schema is not None
    spec = NodeSpec(
        definition.domain, definition.name, schema.since, version, definition.name, {**schema.defaults, **values},
        len(operands), results, (True,) * results, {}, REFERENCE,
    )  # fmt: skip
    key = (definition.key, tuple(sorted(spec.attributes.items())), len(operands), results)
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
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise node_fault(definition.name, definition.name, ", ".join(map(describe, given)), reason) from error
    return [*found, *[None] * (results - len(found))][:results]
