"""The rooms joined: rewriting, placing, compiling and checking, from path to files."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gerules.pipeline.compiling import compile_model as compile_model
    from gerules.pipeline.converting import convert_model as convert_model
    from gerules.pipeline.diffing import diff_registries as diff_registries
    from gerules.pipeline.options import Options as Options
    from gerules.pipeline.partitioning import partition_model as partition_model
    from gerules.pipeline.recovering import recover_model as recover_model
    from gerules.pipeline.report import Report as Report
    from gerules.pipeline.rewriting import rewrite_model as rewrite_model
    from gerules.pipeline.rules import Loaded as Loaded
    from gerules.pipeline.rules import load_rules as load_rules

_HOMES = {
    "Loaded": "rules",
    "Options": "options",
    "Report": "report",
    "compile_model": "compiling",
    "convert_model": "converting",
    "diff_registries": "diffing",
    "load_rules": "rules",
    "partition_model": "partitioning",
    "recover_model": "recovering",
    "rewrite_model": "rewriting",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    # What joins all rooms imports all of them: only who asks for it pays.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
