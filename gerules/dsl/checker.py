"""Checks of a whole program (first stage)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from gerules.errors import Diagnostic

if TYPE_CHECKING:
    from gerules.dsl.program import Program


def check(
    program: Program, known_functions: Collection[str] | None = None, known_tables: Collection[str] | None = None
) -> list[Diagnostic]:
    return []
