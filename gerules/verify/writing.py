"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gerules.errors import Diagnostic, UsageFault


@dataclass(frozen=True)
class Refusal:
    """How it is said that a file cannot be written."""

    code: str
    what: str
    hint: str


WITNESS = Refusal("GR586", "the witness", "name another folder")
JUNIT = Refusal("GR594", "the JUnit XML", "name another file with --junit FILE")
VERDICTS = Refusal("GR594", "the verdicts", "name another file with --verdicts FILE")


def write_whole(path: Path, data: bytes, refused: Refusal = WITNESS) -> None:
    """Writes a file beside its place and renames it; its folder is made where it is not there.

    Raises UsageFault (with the code of `refused`) where it cannot be written; then what was there before is untouched.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, made = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(made).chmod(0o644)
            Path(made).replace(path)
        except BaseException:
            Path(made).unlink(missing_ok=True)
            raise
    except OSError as fault:
        reason = fault.strerror or type(fault).__name__
        message = f"{refused.what} cannot be written: {reason}"
        raise UsageFault(Diagnostic(refused.code, message, file=str(path), hint=refused.hint)) from None
