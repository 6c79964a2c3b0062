"""What the language asks of a registry of operators, so that it need not know one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gerules.registry.definition import OperatorDef


class RegistryLike(Protocol):
    """Operator definitions by domain, name and version. A domain `ai.onnx` is the same as ""."""

    def lookup(self, domain: str, name: str, version: int | str) -> OperatorDef | None:
        """The definition in force at that version of the domain; None where there is none."""
        ...

    def definition(self, domain: str, name: str, since: int | str) -> OperatorDef:
        """The definition that exactly version `since` brought. Raises KeyError."""
        ...

    def versions(self, domain: str, name: str) -> Sequence[str]:
        """Versions that brought a definition, ascending; empty for an unknown operator."""
        ...

    def names(self, domain: str) -> Sequence[str]:
        """All operators of a domain; empty for an unknown domain."""
        ...

    def newest(self, domain: str) -> str | None:
        """The newest version of a domain; None for an unknown one."""
        ...
