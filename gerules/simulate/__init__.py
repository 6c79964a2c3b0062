"""The judge: runs models in NumPy, makes inputs, compares, validates. The names below load on first use.

`compare` and `validate` are imported from the modules of their names.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gerules.simulate.bindings import choose_bindings as choose_bindings
    from gerules.simulate.engine import Simulator as Simulator
    from gerules.simulate.engine import evaluate_node as evaluate_node
    from gerules.simulate.faults import NodeFault as NodeFault
    from gerules.simulate.faults import SimulationFault as SimulationFault
    from gerules.simulate.inputs import input_specs as input_specs
    from gerules.simulate.inputs import make_inputs as make_inputs
    from gerules.simulate.opaque import OpaqueValues as OpaqueValues
    from gerules.simulate.validate import PartitionModel as PartitionModel
    from gerules.simulate.validate import Validation as Validation

_HOMES = {
    "NodeFault": "faults",
    "OpaqueValues": "opaque",
    "PartitionModel": "validate",
    "SimulationFault": "faults",
    "Simulator": "engine",
    "Validation": "validate",
    "choose_bindings": "bindings",
    "evaluate_node": "engine",
    "input_specs": "inputs",
    "make_inputs": "inputs",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Loads the module of a public name: NumPy kernels and ONNX's reference are slow to import."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
