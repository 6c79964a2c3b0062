"""Where the shipped rules and grammars lie: the top-level folders in a checkout, package data in a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data_root() -> Path:
    """The folder that holds `rules/` and `grammar/`."""
    packaged = _PACKAGE / "_data"
    return packaged if packaged.is_dir() else _PACKAGE.parent


def rules_root() -> Path:
    return data_root() / "rules"


def grammar_path() -> Path:
    return data_root() / "grammar" / "gerules.lark"
