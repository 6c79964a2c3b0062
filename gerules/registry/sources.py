"""Registries as the command line names them: `onnx:13`, `A.json`, `ge=A.json`, `ge@1.8.0=A.json`."""

from __future__ import annotations

import re
from pathlib import Path

from gerules.errors import Diagnostic, GerulesError, Refused, UsageFault
from gerules.registry.json_format import read_release
from gerules.registry.release import Release

_RELEASE = re.compile(r"\d+(?:\.\d+)*")
_NAMED = re.compile(r"(?P<domain>[A-Za-z_][\w.]*?)(?:@(?P<version>[^=]*))?=(?P<path>.+)")
_ONNX = re.compile(r"(?P<domain>onnx|[A-Za-z_][\w.]*)[:@](?P<version>[^/\\=]*)")
DEFAULT_DOMAIN = "ge"
"""The domain of a registry in a file that is given without one."""


def load_release(text: str, flag: str = "") -> Release:
    """The release that a word of the command line means. `flag` is how messages call its place.

    Raises UsageFault (GR221, GR223) for a word that means nothing, Refused for a file that is not there (GR222) or no
    registry.
    """
    shown = f"{flag} {text}".strip()
    named = _NAMED.fullmatch(text)
    if named is not None and not Path(text).is_file():
        version = named["version"]
        if version is not None and not _RELEASE.fullmatch(version):
            hint = "a release is written in digits and dots: `ge@1.8.0=A.json`"
            raise UsageFault(Diagnostic("GR221", f"{shown}: {version!r} is no release", hint=hint))
        return _file(Path(named["path"]), named["domain"], version, shown)
    schema = _ONNX.fullmatch(text)
    if schema is not None and not Path(text).is_file():
        return _onnx(schema["domain"], schema["version"], shown)
    return _file(Path(text), DEFAULT_DOMAIN, None, shown)


def _file(path: Path, domain: str, version: str | None, shown: str) -> Release:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        hint = "a registry is a JSON file, `ge@1.8.0=A.json`, or ONNX's at an opset, `onnx:13`"
        raise Refused(Diagnostic("GR222", f"{shown}: {path} {what}", file=str(path), hint=hint))
    if version is None:
        found = _RELEASE.search(path.stem)
        version = found[0] if found else ""
    return read_release(path, domain, version)


def _onnx(domain: str, version: str, shown: str) -> Release:
    from gerules.registry.schema_release import known_domains, schema_release

    domain = "" if domain in ("onnx", "ai.onnx") else domain
    known = known_domains()
    if domain not in known:
        names = ", ".join(d or "onnx" for d in known)
        message = f"{shown}: no registry of the domain {domain} is known"
        hint = f"known are {names}; others are given as files, `{domain}@1.8.0=A.json`"
        raise UsageFault(Diagnostic("GR223", message, hint=hint))
    try:
        return schema_release(domain, version)
    except GerulesError:
        raise
    except (KeyError, ValueError):
        newest = known[domain]
        message = f"{shown}: there is no opset {version or '(none given)'}"
        hint = f"opsets of {domain or 'ai.onnx'} go from 1 to {newest}"
        raise UsageFault(Diagnostic("GR223", message, hint=hint)) from None
