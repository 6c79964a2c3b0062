"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from gerules.errors import Diagnostic, UsageFault


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file beside its place and renames it; its folder is made where it is not there.

    Raises UsageFault (GR586) where it cannot be written; then what was there before is untouched.
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
        message = f"the witness cannot be written: {reason}"
        raise UsageFault(Diagnostic("GR586", message, file=str(path), hint="name another folder")) from None
