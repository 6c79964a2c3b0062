"""The graph: onnx_ir models, dimensions in normal form, what is known of a value, reading and writing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gerules.graph.dims import Dim, DimFacts
    from gerules.graph.facts import infer_facts, infer_node
    from gerules.graph.info import Info
    from gerules.graph.io import load_model, save_model

__all__ = ["Dim", "DimFacts", "Info", "infer_facts", "infer_node", "load_model", "save_model"]

_HOME = {
    "Dim": "dims",
    "DimFacts": "dims",
    "Info": "info",
    "infer_facts": "facts",
    "infer_node": "facts",
    "load_model": "io",
    "save_model": "io",
}


def __getattr__(name: str) -> object:
    # onnx and onnx_ir take long to import: only who asks for what needs them pays.
    if name in _HOME:
        from importlib import import_module

        return getattr(import_module(f"gerules.graph.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
