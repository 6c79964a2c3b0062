"""`diff`: every operator of one release classified against another, with the reason, what changed under the class, and
what a policy refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from gerules.dsl.program import Program, load_program, shipped_sources, user_sources
from gerules.errors import Diagnostic, UsageFault
from gerules.policy.carry import Carried, carrier
from gerules.policy.decide import Policy
from gerules.policy.judging import POLICIES, REASONS, SIGNATURE, minimal_node
from gerules.registry import onnx_registry
from gerules.registry.comparison import Pair, operator_key, tables
from gerules.registry.release import Release
from gerules.registry.sources import load_release
from gerules.static import known_functions

CLASSES = (
    "missing", "failed_direction", "failed_prefix", "outputs_shrunk", "failed_forward_required",
    "backward_adds_required", "forward", "backward", "none",
)  # fmt: skip
FAMILIES = ("prelude", "compat/signature", "compat/signature/reasons", "compat/ge")


@dataclass(frozen=True, slots=True)
class Change:
    """Something that a class does not tell: `what` is default, type or required."""

    what: str
    name: str
    built: str
    runtime: str

    @property
    def text(self) -> str:
        return f"{self.what} of {self.name}: {self.built or '(empty)'} -> {self.runtime or '(empty)'}"


@dataclass(frozen=True, slots=True)
class OperatorDiff:
    """One operator. `refusals` is what the policy has against a node that is the built definition itself; `written` are
    attributes that it would write out; `rule` a rule that repairs it."""

    name: str
    class_: str
    reason: str
    changes: tuple[Change, ...] = ()
    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    rule: str = ""

    def data(self) -> dict[str, Any]:
        kinds = {change.what for change in self.changes}
        return {
            "class": self.class_,
            "reason": self.reason,
            "default_changed": "default" in kinds,
            "type_changed": "type" in kinds,
            "required_changed": "required" in kinds,
            "changes": [{"what": c.what, "name": c.name, "built": c.built, "runtime": c.runtime} for c in self.changes],
            "refused": bool(self.refusals),
            "refusals": list(self.refusals),
            "warnings": list(self.warnings),
            "written": list(self.written),
            "rule": self.rule or None,
        }


@dataclass(frozen=True)
class Diff:
    """Two releases side by side. `added` are operators that only the runtime registers."""

    built: str
    runtime: str
    policy: str
    operators: Mapping[str, OperatorDiff]
    added: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        counts = dict.fromkeys(CLASSES, 0)
        for operator in self.operators.values():
            counts[operator.class_] += 1
        return counts

    @property
    def refused(self) -> tuple[str, ...]:
        return tuple(n for n, o in self.operators.items() if o.refusals)

    def data(self) -> dict[str, Any]:
        return {
            "built": self.built,
            "runtime": self.runtime,
            "policy": self.policy,
            "counts": self.counts,
            "refused": len(self.refused),
            "added": list(self.added),
            "ops": {name: operator.data() for name, operator in self.operators.items()},
        }


@dataclass(frozen=True)
class Rules:
    """The rule files that decide between releases: the shipped ones, and those of the user."""

    program: Program
    rulesets: tuple[str, ...] = field(default=())


def policy_rules(rules: Sequence[str | Path] = ()) -> Rules:
    """Loads the rules between releases. Raises GerulesError with all faults of the files."""
    given = tuple(source for path in rules for source in user_sources(path))
    if not given:
        return _shipped()
    shipped = [s for s in shipped_sources() if s.ruleset in FAMILIES]
    program = load_program([*shipped, *given], onnx_registry(), known_functions())
    return Rules(program, tuple(dict.fromkeys(s.ruleset for s in given)))


@lru_cache(maxsize=1)
def _shipped() -> Rules:
    shipped = [s for s in shipped_sources() if s.ruleset in FAMILIES]
    return Rules(load_program(shipped, onnx_registry(), known_functions()))


def check_policy(name: str) -> str:
    """The name of a shipped policy. Raises UsageFault (GR820)."""
    if name not in POLICIES:
        message = f"--policy {name}: there is no such policy"
        raise UsageFault(Diagnostic("GR820", message, hint=f"policies are {', '.join(POLICIES)}"))
    return name


def diff_registries(
    built: str | Release, runtime: str | Release, policy: str = "default", rules: Sequence[str | Path] = ()
) -> Diff:
    """Compares two releases, given as such or as the command line has them (`A.json`, `onnx:13`).

    The class of an operator is the first that holds of CLASSES, whatever the policy; the policy says what it refuses.
    Raises UsageFault for what names no registry, Refused for a file that is none.
    """
    check_policy(policy)
    one = load_release(built, "BUILT") if isinstance(built, str) else built
    other = load_release(runtime, "RUNTIME") if isinstance(runtime, str) else runtime
    return compare(one, other, policy, policy_rules(rules))


def compare(built: Release, runtime: Release, policy: str, rules: Rules, *, judged: bool = True) -> Diff:
    """The comparison itself; without the policy's judgement of each definition where `judged` is false."""
    names = sorted(built.operators)
    pairs = [
        Pair(operator_key(built.domain, name), built.operators[name], runtime.operators.get(name)) for name in names
    ]
    decided = Policy(rules.program, (SIGNATURE, *rules.rulesets))
    reasons = tuple(e.full for e in decided.refuses if e.ruleset == REASONS)
    answers = decided.decide(tables(pairs), ("verdict", "moved"), reasons)
    class_of = {str(f): str(c) for f, c in answers.rows["verdict"]}
    why: dict[str, list[str]] = {}
    for reason in answers.refusals:
        why.setdefault(reason.operators[0], []).append(reason.message)
    changes: dict[str, list[Change]] = {}
    for f, what, name, before, after in answers.rows["moved"]:
        changes.setdefault(str(f), []).append(Change(str(what), str(name), str(before), str(after)))
    judge = carrier(rules.program, rules.rulesets, policy, built, runtime)
    carried = judge.minimal(names) if judged else [Carried(minimal_node(built.operators[name]), "") for name in names]
    found: dict[str, OperatorDiff] = {}
    for name, pair, item in zip(names, pairs, carried, strict=True):
        faults = [part.fault for part in item.parts if part.fault]
        refusals = [r.message for part in item.parts for r in part.refusals]
        warnings = [r.message for part in item.parts for r in part.warnings]
        found[name] = OperatorDiff(
            name,
            class_of[pair.key],
            "; ".join(why.get(pair.key, ())),
            tuple(changes.get(pair.key, ())),
            (*refusals, *faults),
            tuple(warnings),
            tuple(w for part in item.parts for w in part.written),
            item.parts[-1].rule if item.parts and not item.refused else "",
        )
    added = tuple(sorted(runtime.operators.keys() - built.operators.keys()))
    return Diff(str(built), str(runtime), policy, found, added)
