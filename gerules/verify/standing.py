"""What a run asks of the verdicts: how each rule stands, at next to no cost.

Where nothing changed since the shipped rules were verified (one hash over the files says so), what is recorded is
taken as it is; only rules of the user, or changed ones, have their keys computed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from gerules.dsl import ast
from gerules.dsl.program import Entry, Program
from gerules.egraph.program import Knowledge
from gerules.errors import Diagnostic, Span
from gerules.verify.keys import Keys, statements
from gerules.verify.registry import nearest, read_verdicts, shipped_verdicts_path, stamp_of

NONE: Final = "not verified"
STALE: Final = "changed since it was verified"


@dataclass(frozen=True)
class Standing:
    """How a rule stands: one of the verdicts, `not verified`, or `changed since it was verified`; and the detail."""

    status: str
    detail: str = ""

    @property
    def proved(self) -> bool:
        return self.status in ("proved", "proved bounded")

    @property
    def known(self) -> bool:
        """Whether there is a verdict on the rule as it is."""
        return self.status not in (NONE, STALE)


NOT_VERIFIED: Final = Standing(NONE)


def standings(
    program: Program, known: Callable[[], Knowledge], wanted: Collection[str], users: Collection[str]
) -> Mapping[str, Standing]:
    """How the statements `wanted` (full names) stand. `users` are the rulesets that a user gives; `known` is asked only
    where keys have to be computed. Raises GerulesError (GR593) for a registry that cannot be read."""
    found: dict[str, Standing] = {}
    slow: list[str] = []
    shipped = _shipped(shipped_verdicts_path(), _when(shipped_verdicts_path()))
    quick = shipped.stamp != "" and not _speaks_of_operators(program, users)
    quick = quick and shipped.stamp == stamp_of()
    for full in wanted:
        if full.rpartition(".")[0] in users or not quick:
            slow.append(full)
        else:
            found[full] = shipped.standings.get(full, NOT_VERIFIED)
    if slow:
        found |= _computed(program, known(), set(slow), users)
    return found


@dataclass(frozen=True)
class _Shipped:
    stamp: str
    standings: Mapping[str, Standing]


@lru_cache(maxsize=2)
def _shipped(path: Path, when: tuple[int, int]) -> _Shipped:
    """The recorded verdicts of the shipped rules, without their members."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        lines = {n: Standing(str(d["verdict"]), str(d["detail"])) for n, d in data["rules"].items()}
        return _Shipped(str(data.get("stamp", "")), lines)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return _Shipped("", {})  # `_computed` reads it again, and says what is wrong


def _when(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


def _speaks_of_operators(program: Program, users: Collection[str]) -> bool:
    """Whether files of the user conclude relations: what these say of operators may change what shipped rules mean."""
    return any(
        isinstance(conclusion, ast.Call)
        for entry in program.facts.values()
        if entry.ruleset in users
        for conclusion in entry.statement.conclusions
    )


def _computed(
    program: Program, known: Knowledge, wanted: Collection[str], users: Collection[str]
) -> dict[str, Standing]:
    keys = Keys(known)
    found: dict[str, Standing] = {}
    homes: dict[str, Path | None] = {}
    for kind, full, entry in statements(program):
        if full not in wanted:
            continue
        theirs = entry.ruleset in users and entry.ruleset.startswith("user/")
        if entry.file.path not in homes:
            homes[entry.file.path] = nearest(Path(entry.file.path)) if theirs else shipped_verdicts_path()
        found[full] = standing_of(keys, kind, entry, homes[entry.file.path])
    return found


def standing_of(keys: Keys, kind: str, entry: Entry[Any], home: Path | None) -> Standing:
    """How one statement stands in a registry. A verdict that was found with other versions of what computes still
    counts: the rule is the same, and `verify` finds out whether the verdict is. Raises GerulesError (GR593)."""
    if home is None:
        return NOT_VERIFIED
    recorded = _read(home, _when(home))
    full = entry.full
    line = recorded.find(full, keys.key(kind, entry))
    if line is None:
        return NOT_VERIFIED
    if line.verdict.key not in (keys.key(kind, entry), keys.key(kind, entry, recorded.versions)):
        return Standing(STALE, line.verdict.status)
    return Standing(line.verdict.status, line.verdict.detail)


@lru_cache(maxsize=16)
def _read(path: Path, when: tuple[int, int]) -> Any:
    return read_verdicts(path)


def complaints(
    program: Program, known: Callable[[], Knowledge], files: Collection[str], users: Collection[str]
) -> list[Diagnostic]:
    """What `check` says of verdicts: an error for a refuted rule, warnings for those without a current verdict; one
    for a file of which nothing was verified."""
    inside = [(kind, full, entry) for kind, full, entry in statements(program) if entry.file.path in files]
    found = standings(program, known, [full for _, full, _ in inside], users)
    by_file: dict[str, list[tuple[str, Entry[Any]]]] = {}
    for _, full, entry in inside:
        by_file.setdefault(entry.file.path, []).append((full, entry))
    diagnostics: list[Diagnostic] = []
    for path, entries in by_file.items():
        hint = f"`gerules verify {path}` finds out"
        if len(entries) > 1 and all(found[full].status == NONE for full, _ in entries):
            message = f"none of the {len(entries)} rules of this file is verified"
            diagnostics.append(Diagnostic("GR590", message, file=path, hint=hint, severity="warning"))
            continue
        diagnostics += _each(entries, found, hint)
    return diagnostics


def _each(entries: Iterable[tuple[str, Entry[Any]]], found: Mapping[str, Standing], hint: str) -> list[Diagnostic]:
    diagnostics: list[Diagnostic] = []
    for full, entry in entries:
        standing, span = found[full], entry.statement.span
        if standing.status == NONE:
            diagnostics.append(Diagnostic("GR590", f"{full} is not verified", span, hint=hint, severity="warning"))
        elif standing.status == STALE:
            message = f"{full}, or something that it rests on, changed since it was {standing.detail}"
            diagnostics.append(Diagnostic("GR591", message, span, hint=hint, severity="warning"))
        elif standing.status == "refuted":
            diagnostics.append(refuted(full, standing.detail, span))
        elif standing.status == "unknown":
            diagnostics.append(unknown(entry, full, standing.detail))
    return diagnostics


def refuted(rule: str, detail: str, span: Span) -> Diagnostic:
    """The error for a rule that is not true."""
    hint = f"`gerules verify {span.file} --rule {rule}` shows the smallest instance; a condition may be missing"
    return Diagnostic("GR592", f"{rule} is refuted: {detail}", span, hint=hint)


def unknown(entry: Entry[Any], rule: str, detail: str) -> Diagnostic:
    """The warning for a rule of which nothing is known."""
    hint = "it is off; `--enable` turns it on all the same" if isinstance(entry.statement, ast.Rewrite) else None
    message = f"of {rule} nothing is known: {detail}"
    return Diagnostic("GR596", message, entry.statement.span, hint=hint, severity="warning")
