"""The registry of verdicts: `VERDICTS.json` beside the rules, one rule a line, sorted.

A verdict counts as long as the rule's key is the same (`gerules.verify.keys`). The file of the shipped rules lies in
`rules/`; that of a user's rules in their folder or in one above it. Everything in a file follows from the rules but
the seconds, and these are kept as they were where nothing else changed: verifying again changes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from gerules.errors import Diagnostic, GerulesError
from gerules.paths import rules_root
from gerules.verify.keys import versions
from gerules.verify.verdict import STATUSES, CaseVerdict, RuleVerdict
from gerules.verify.writing import VERDICTS, write_whole

NAME: Final = "VERDICTS.json"
FORMAT: Final = 1
TRIALS: Final = 200
"""How many trials a verdict rests on where nobody says otherwise."""


@dataclass(frozen=True)
class Recorded:
    """A verdict with what it rests on: trials asked for, the seed, whether the prover took part, and whether a limit of
    time cut it off (such a verdict is never current)."""

    verdict: RuleVerdict
    trials: int = TRIALS
    seed: int = 0
    prover: bool = True
    cut: bool = False

    def serves(self, key: str, trials: int, seed: int, prover: bool) -> bool:
        """Whether there is nothing to gain from verifying again."""
        return (
            not self.cut
            and self.verdict.key == key
            and self.trials >= trials
            and (self.seed == seed or self.verdict.status == "refuted")
            and (self.prover or not prover)
        )


@dataclass(frozen=True)
class Verdicts:
    """What one file says. `stamp` is the hash of all that the keys were computed from (`stamp_of`), "" for none;
    `versions` are those of what computed."""

    rules: Mapping[str, Recorded] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=versions)
    stamp: str = ""
    path: Path | None = None

    def with_rules(self, found: Iterable[Recorded]) -> Verdicts:
        """With new verdicts in the place of old ones; seconds stay where nothing else changed."""
        rules = dict(self.rules)
        for recorded in found:
            old = rules.get(recorded.verdict.rule)
            if old is None or _line(old, seconds=False) != _line(recorded, seconds=False):
                rules[recorded.verdict.rule] = recorded
        return replace(self, rules=rules, versions=versions())

    def without(self, rules: Iterable[str]) -> Verdicts:
        gone = set(rules)
        return replace(self, rules={n: r for n, r in self.rules.items() if n not in gone})

    def find(self, full: str, key: str) -> Recorded | None:
        """The verdict on a rule: by its name; else by its key, for a file that was verified as part of a folder."""
        found = self.rules.get(full)
        if found is None or found.verdict.key != key:
            tail = "." + full.rpartition(".")[2]
            same = (r for n, r in self.rules.items() if r.verdict.key == key and n.endswith(tail))
            found = next(same, found)
        return found

    def text(self) -> str:
        """The file. One rule a line, sorted by name."""
        lines = [f"{_json(name)}: {_line(recorded)}" for name, recorded in sorted(self.rules.items())]
        head = [
            f'"format": {FORMAT}',
            f'"versions": {_json(dict(sorted(self.versions.items())))}',
            f'"stamp": {_json(self.stamp)}',
        ]
        inside = ",\n".join(lines)
        return "{\n" + ",\n".join(head) + ',\n"rules": {\n' + inside + ("\n" if lines else "") + "}\n}\n"

    def differences(self, other: Verdicts) -> list[str]:
        """Where two files say different things, times aside: a line for each rule."""
        found = []
        for name in sorted({*self.rules, *other.rules}):
            mine, theirs = self.rules.get(name), other.rules.get(name)
            if mine is None or theirs is None:
                found.append(f"{name}: only {'here' if theirs is None else 'there'}")
            elif _line(mine, seconds=False) != _line(theirs, seconds=False):
                found.append(f"{name}: {_change(mine.verdict, theirs.verdict)}")
        return found


def _change(mine: RuleVerdict, theirs: RuleVerdict) -> str:
    if mine.key != theirs.key:
        return "the rule, or something that it rests on, changed"
    if (mine.status, mine.detail) != (theirs.status, theirs.detail):
        return f"{mine.status} ({mine.detail}) and {theirs.status} ({theirs.detail})"
    return "the verdicts on its members differ"


# ------------------------------------------------------------------------------------------------------- one line


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=False)


def _line(recorded: Recorded, seconds: bool = True) -> str:
    verdict = recorded.verdict
    data: dict[str, Any] = {
        "kind": verdict.kind,
        "verdict": verdict.status,
        "exactness": verdict.exactness,
        "detail": verdict.detail,
        "key": verdict.key,
    }
    if recorded.trials != TRIALS:
        data["trials"] = recorded.trials
    if recorded.seed:
        data["seed"] = recorded.seed
    if not recorded.prover:
        data["prover"] = False
    if recorded.cut:
        data["cut"] = True
    data["cases"] = _groups(verdict)
    if seconds:
        data["seconds"] = round(verdict.seconds, 3)
    return _json(data)


def _groups(verdict: RuleVerdict) -> list[dict[str, Any]]:
    """The cases, those with one verdict together: most rules over a class have one verdict for all members."""
    groups: dict[tuple[object, ...], dict[str, Any]] = {}
    for case in verdict.cases:
        key = (case.status, case.detail, case.trials, case.all_ranks, case.all_sizes)
        group = groups.setdefault(
            key,
            {
                "verdict": case.status,
                "detail": case.detail,
                "trials": case.trials,
                **({"all_ranks": True} if case.all_ranks else {}),
                **({"all_sizes": True} if case.all_sizes else {}),
                "members": [],
                "drawn": [],
            },
        )
        group["members"].append(case.direction + case.member)
        group["drawn"].append(case.drawn)
    return list(groups.values())


def _parsed(name: str, data: Mapping[str, Any]) -> Recorded:
    """A rule's line. Raises KeyError, TypeError or ValueError where it is none."""
    cases: list[CaseVerdict] = []
    for group in data["cases"]:
        for place, drawn in zip(group["members"], group["drawn"], strict=True):
            direction = place[:1] if place[:1] in ("<", ">") else ""
            member = place[len(direction) :]
            cases.append(
                CaseVerdict(
                    label=name + direction + (f"[{member}]" if member else ""),
                    member=member,
                    direction=direction,
                    status=_status(group["verdict"]),
                    detail=str(group["detail"]),
                    trials=int(group["trials"]),
                    drawn=int(drawn),
                    all_ranks=bool(group.get("all_ranks", False)),
                    all_sizes=bool(group.get("all_sizes", False)),
                )
            )
    if cases:
        # One figure is kept for the rule: it stands with the first case.
        cases[0] = replace(cases[0], seconds=float(data.get("seconds", 0.0)))
    verdict = RuleVerdict(
        name,
        str(data["kind"]),
        str(data["exactness"]),
        _status(data["verdict"]),
        str(data["detail"]),
        str(data["key"]),
        tuple(cases),
    )
    return Recorded(
        verdict,
        int(data.get("trials", TRIALS)),
        int(data.get("seed", 0)),
        bool(data.get("prover", True)),
        bool(data.get("cut", False)),
    )


def _status(text: object) -> Any:
    if text not in STATUSES:
        raise ValueError(f"{text!r} is no verdict")
    return text


# ------------------------------------------------------------------------------------------------------------ files


def read_verdicts(path: Path) -> Verdicts:
    """The verdicts in a file; none where there is no file. Raises GerulesError (GR593) where it cannot be read."""
    hint = f"delete it and verify again: `gerules verify {path.parent}`"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Verdicts(path=path)
    except (OSError, UnicodeDecodeError) as fault:
        reason = getattr(fault, "strerror", None) or "it is no text"
        raise GerulesError(
            Diagnostic("GR593", f"the verdicts cannot be read: {reason}", file=str(path), hint=hint)
        ) from None
    try:
        data = json.loads(text)
        form = data["format"]
        if not isinstance(form, int) or form > FORMAT:
            message = f"these verdicts have format {form}, and this release reads up to {FORMAT}"
            raise GerulesError(Diagnostic("GR593", message, file=str(path), hint="use the release that wrote them"))
        rules = {str(name): _parsed(str(name), line) for name, line in data["rules"].items()}
        stamps = {str(k): str(v) for k, v in data["versions"].items()}
        return Verdicts(rules, stamps, str(data.get("stamp", "")), path)
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        line = f", line {fault.lineno}" if isinstance(fault, json.JSONDecodeError) else ""
        message = f"this is no file of verdicts{line}: {fault if str(fault) else type(fault).__name__}"
        raise GerulesError(Diagnostic("GR593", message, file=str(path), hint=hint)) from None


def write_verdicts(verdicts: Verdicts, path: Path) -> bool:
    """Writes a file whole or not at all; leaves it alone where it says the same. Tells whether it was written.

    Raises UsageFault (GR594) where it cannot be.
    """
    data = verdicts.text().encode()
    try:
        if path.is_file() and path.read_bytes() == data:
            return False
    except OSError:  # what cannot be read cannot be replaced either: writing says why
        pass
    write_whole(path, data, VERDICTS)
    return True


def shipped_verdicts_path() -> Path:
    return rules_root() / NAME


def is_shipped(path: Path) -> bool:
    return path.resolve().is_relative_to(rules_root().resolve())


def home_of(path: Path) -> Path:
    """Where the verdicts on the rules at `path` (a file or a folder) are written: beside the shipped rules for those;
    in the folder; for a file in its folder, unless one above has a file of verdicts already."""
    if is_shipped(path):
        return shipped_verdicts_path()
    if path.is_dir():
        return path / NAME
    return nearest(path) or path.parent / NAME


def nearest(path: Path) -> Path | None:
    """The file of verdicts in the folder of `path`; else, inside of a repository, in the nearest folder above that has
    one. What lies above a repository, or somewhere above a lone file, is no concern of its rules."""
    folder = path.resolve() if path.is_dir() else path.resolve().parent
    if (folder / NAME).is_file():
        return folder / NAME
    found: Path | None = None
    for candidate in (folder, *folder.parents):
        if found is None and (candidate / NAME).is_file():
            found = candidate / NAME
        if (candidate / ".git").exists():
            return found
    return None


def stamp_of(root: Path | None = None) -> str:
    """A hash of the rule files and tables below a folder (the shipped ones), of host functions and of versions.

    Where it is the recorded one, all recorded keys are those of the rules, and none has to be computed."""
    root = rules_root() if root is None else root
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256(_json(dict(sorted(versions().items()))).encode())
    groups = (
        (root, (p for p in root.rglob("*") if p.suffix in (".rules", ".csv"))),
        (package, (package / "static").glob("*.py")),
        (package, (package / "verify").glob("keys.py")),
    )
    for base, paths in groups:
        for name, path in sorted((p.relative_to(base).as_posix(), p) for p in paths):
            digest.update(f"\n{name}\n".encode())
            try:
                digest.update(path.read_bytes())
            except OSError:
                digest.update(b"?")
    return digest.hexdigest()[:32]
