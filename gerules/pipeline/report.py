"""What a run did, as data for the terminal, for programs and for the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gerules.simulate import Validation


@dataclass(frozen=True)
class CostReport:
    """Costs of the input graph and of the result. With a target both are seconds; without, the lexicographic vector of
    `components`. `gap` is (after - lower bound) / after of the first component that is not 0."""

    before: tuple[float, ...]
    after: tuple[float, ...]
    lower_bound: tuple[float, ...]
    gap: float
    method: str
    components: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """What validation said. `ran` is False with `--no-validate`."""

    ran: bool
    ok: bool
    partial: bool = False
    max_abs_err: float | None = None
    max_rel_err: float | None = None
    seeds: tuple[int, ...] = ()
    bindings: tuple[Mapping[str, int], ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, validation: Validation) -> Verdict:
        return cls(
            validation.ran,
            validation.ok,
            validation.partial,
            validation.max_abs_err if validation.ran else None,
            validation.max_rel_err if validation.ran else None,
            validation.seeds,
            validation.bindings,
            validation.notes,
        )

    @property
    def text(self) -> str:
        """One line for people."""
        if not self.ran:
            return "not validated" if self.ok or not self.seeds else "not validated: the original runs at no input"
        said = "validated" if self.ok else "DIFFERENT"
        if self.partial:
            said += " in part"
        return f"{said}: largest error {self.max_abs_err or 0.0:.3g} (relative {self.max_rel_err or 0.0:.3g})"


NOT_VALIDATED = Verdict(ran=False, ok=False)


@dataclass(frozen=True)
class Report:
    """One run. `nodes_*` count nodes with those of bodies; `fired` is how often each rule matched, `made` how many
    nodes of the result it made; `unproved` are those that fired and are not proved; `partitions` are
    numbers of clusters by engine; `seconds` by stage; `stopped` names the limit that was reached ("" for none)."""

    command: str
    output: str
    nodes_before: int
    nodes_after: int
    verdict: Verdict
    changed: bool
    cost: CostReport | None = None
    fired: Mapping[str, int] = field(default_factory=dict)
    made: Mapping[str, int] = field(default_factory=dict)
    unproved: tuple[str, ...] = ()
    partitions: Mapping[str, int] = field(default_factory=dict)
    stopped: str = ""
    iterations: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def data(self) -> dict[str, Any]:
        """The report as plain JSON data."""
        cost = self.cost
        return {
            "command": self.command,
            "output": self.output,
            "changed": self.changed,
            "nodes": {"before": self.nodes_before, "after": self.nodes_after},
            "cost": None
            if cost is None
            else {
                "components": list(cost.components),
                "before": list(cost.before),
                "after": list(cost.after),
                "lower_bound": list(cost.lower_bound),
                "gap": cost.gap,
                "method": cost.method,
            },
            "partitions": dict(self.partitions),
            "rules_fired": dict(sorted(self.fired.items())),
            "rules_made": dict(sorted(self.made.items())),
            "unproved": list(self.unproved),
            "stopped": self.stopped,
            "iterations": self.iterations,
            "validation": {
                "ran": self.verdict.ran,
                "ok": self.verdict.ok,
                "partial": self.verdict.partial,
                "max_abs_err": self.verdict.max_abs_err,
                "max_rel_err": self.verdict.max_rel_err,
                "seeds": list(self.verdict.seeds),
                "bindings": [dict(b) for b in self.verdict.bindings],
            },
            "notes": [*self.notes, *self.verdict.notes],
            "seconds": {stage: round(value, 6) for stage, value in self.seconds.items()},
        }
