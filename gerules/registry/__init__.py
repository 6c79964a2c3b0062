"""Operator definitions by domain and version, and how versions follow each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gerules.registry.definition import OPTIONAL, REQUIRED, VARIADIC, Attribute, Operand, OperatorDef
from gerules.registry.registry import Registry, canonical_domain, grows, types_only, unchanged, version_key

if TYPE_CHECKING:
    from gerules.registry.onnx_schemas import onnx_registry

__all__ = [
    "OPTIONAL",
    "REQUIRED",
    "VARIADIC",
    "Attribute",
    "Operand",
    "OperatorDef",
    "Registry",
    "canonical_domain",
    "grows",
    "onnx_registry",
    "types_only",
    "unchanged",
    "version_key",
]


def __getattr__(name: str) -> object:
    # The onnx package takes 0.1 s to import: only who asks for its registry pays.
    if name == "onnx_registry":
        from gerules.registry.onnx_schemas import onnx_registry

        return onnx_registry
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
