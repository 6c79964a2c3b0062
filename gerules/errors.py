"""The one error type, its diagnostics, and where in a file they point.

Every fault that a user can cause is a `Diagnostic` with a stable code (``GR101``); a `GerulesError` carries all that
one run found. Printing them is `gerules.report`'s business, not the raiser's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class Exit(IntEnum):
    """Exit statuses of the command line, stable between releases."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    DIFFERENCE = 3
    INTERNAL = 4


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a source file. Lines and columns count from 1; the end is exclusive; offsets count characters."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    start: int = 0
    end: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Label:
    """A secondary place that a diagnostic points to, and what is said of it."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault: a stable code, what is wrong, where, and the way out.

    `span` points into a rule file, `node` names a graph node or value, `file` a model or registry file; any may be
    absent. `severity` is ``"error"`` or ``"warning"``.
    """

    code: str
    message: str
    span: Span | None = None
    node: str | None = None
    file: str | None = None
    hint: str | None = None
    labels: tuple[Label, ...] = ()
    severity: str = "error"


class GerulesError(Exception):
    """Base of every error that gerules raises for its user; `status` is the exit status that it leads to."""

    status = Exit.REFUSED

    def __init__(self, diagnostics: Diagnostic | Sequence[Diagnostic]) -> None:
        self.diagnostics = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        super().__init__("; ".join(f"{d.code}: {d.message}" for d in self.diagnostics))


class Refused(GerulesError):
    """This model or these rules cannot do it (exit status 1)."""


class UsageFault(GerulesError):
    """The command line cannot be understood (exit status 2)."""

    status = Exit.USAGE


class Difference(GerulesError):
    """Validation found that outputs differ (exit status 3)."""

    status = Exit.DIFFERENCE


class InternalFault(GerulesError):
    """A fault of gerules itself (exit status 4); the message says how to report it."""

    status = Exit.INTERNAL
