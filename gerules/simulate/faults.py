"""Errors of the simulator: GR401 to GR449."""

from __future__ import annotations

from gerules.errors import Diagnostic, Refused


class SimulationFault(Refused):
    """A model that cannot be simulated, or that fails at the values that it was given."""


class NodeFault(SimulationFault):
    """A node that failed at its operands; the original's own failure is not a difference."""


def fault(code: str, message: str, *, node: str | None = None, hint: str | None = None) -> SimulationFault:
    return SimulationFault(Diagnostic(code, message, node=node, hint=hint))


def node_fault(op: str, name: str, operands: str, reason: str) -> NodeFault:
    return NodeFault(
        Diagnostic(
            "GR410",
            f"{op} ({name}) cannot be computed: {reason}",
            node=name,
            hint=f"its operands were {operands}" if operands else None,
        )
    )
