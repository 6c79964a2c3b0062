"""Writing results so that they are there whole or not at all: beside the destination first, then renamed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from gerules.errors import Diagnostic, InternalFault, UsageFault


def check_destination(destination: str | Path, *, force: bool, keep: Sequence[str | Path] = ()) -> None:
    """Raises UsageFault GR659 where `write_folder` or `write_file` would: call it before the work starts. `keep` lists
    files that must not be replaced (the inputs)."""
    path = Path(destination)
    resolved = path.resolve()
    for other in keep:
        inside = Path(other).resolve()
        # A folder that is replaced takes everything in it along.
        if inside == resolved or (resolved.is_dir() and _is_filled(resolved) and resolved in inside.parents):
            raise _refuse(f"writing {path} would replace the input {other}", "give another destination with -o")
    if resolved == Path.cwd() or resolved in Path.cwd().parents:
        raise _refuse("the working folder cannot be replaced by a result", "give a folder of its own with -o")
    if not force and (resolved.is_file() or (resolved.is_dir() and _is_filled(resolved))):
        what = f"{path} exists already" + (" and is not empty" if resolved.is_dir() else "")
        raise _refuse(what, "give another destination, or --force to replace it")
    if not resolved.parent.is_dir():
        raise _refuse(f"the folder {resolved.parent} does not exist", "create it first")
    if not os.access(resolved.parent, os.W_OK):
        raise _refuse(f"the folder {resolved.parent} cannot be written to", "choose another one")


def write_folder(
    destination: str | Path, files: Mapping[str, bytes], *, force: bool = False, keep: Sequence[str | Path] = ()
) -> None:
    """Write `files` (relative path with `/` to contents) as the whole contents of the folder `destination`.

    They are written to a folder beside it, which takes its name when all is there; what was there before is removed
    only then. Raises UsageFault GR659 where something is there already and `force` is not given, or an input in
    `keep` would be lost; on any failure nothing changes at the destination.
    """
    check_destination(destination, force=force, keep=keep)
    resolved = Path(destination).resolve()
    with _Beside(resolved) as workspace:
        made = workspace / "new"
        made.mkdir()
        for name, data in files.items():
            relative = PurePosixPath(name)
            if relative.is_absolute() or ".." in relative.parts:
                raise InternalFault(Diagnostic("GR906", f"output file {name!r} would lie outside of the folder"))
            path = made / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        _exchange(made, resolved, workspace / "old")


def write_file(destination: str | Path, data: bytes, *, force: bool = False, keep: Sequence[str | Path] = ()) -> None:
    """Write one file in the same way. A folder is never replaced by a file. Raises UsageFault GR659."""
    check_destination(destination, force=force, keep=keep)
    resolved = Path(destination).resolve()
    if resolved.is_dir():
        raise _refuse(f"{destination} is a folder", "name a file")
    with _Beside(resolved) as workspace:
        made = workspace / "new"
        made.write_bytes(data)
        made.replace(resolved)


def _exchange(made: Path, resolved: Path, old: Path) -> None:
    """Put `made` where `resolved` is; what was there goes to `old`, and comes back when that fails."""
    if not resolved.exists():
        made.rename(resolved)
        return
    resolved.rename(old)
    try:
        made.rename(resolved)
    except OSError:
        old.rename(resolved)
        raise


class _Beside:
    """A folder in the same file system as the destination, gone afterwards whatever happens."""

    def __init__(self, resolved: Path) -> None:
        self._resolved = resolved

    def __enter__(self) -> Path:
        try:
            self._path = Path(tempfile.mkdtemp(prefix=f".{self._resolved.name}.", dir=self._resolved.parent))
        except OSError as error:
            raise _refuse(
                f"cannot write in {self._resolved.parent}: {error.strerror}", "choose another folder"
            ) from error
        return self._path

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if (self._path / "old").exists() and not self._resolved.exists():
            # Neither the new nor the old could be put in its place: what was there must not be lost with the rest.
            what = f"{self._resolved} could not be replaced, and what was there lies in {self._path / 'old'} now"
            raise _refuse(what, "move it back") from error
        shutil.rmtree(self._path, ignore_errors=True)
        if isinstance(error, OSError):
            what = f"{self._resolved} cannot be written: {error.strerror or error}"
            raise _refuse(what, "free some space, or choose another destination") from error


def _is_filled(folder: Path) -> bool:
    return any(True for _ in folder.iterdir())


def _refuse(what: str, hint: str) -> UsageFault:
    return UsageFault(Diagnostic("GR659", what, hint=hint))
