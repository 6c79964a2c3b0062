"""Verdicts: what is known of a rule, and how it is said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from gerules.verify.witness import Witness

Status = Literal["proved", "proved bounded", "tested", "unknown", "refuted"]
STATUSES: Final[tuple[Status, ...]] = ("proved", "proved bounded", "tested", "unknown", "refuted")
"""From best to worst: a rule is as good as the worst of its members."""


@dataclass(frozen=True)
class Proof:
    """What the prover found of one case.

    `proved` and `proved bounded` say in `scope` for which ranks and sizes (`ranks 0 to 3, all sizes`). `unknown` has
    its `reason`. `refuted` is only a suspicion: `model` are sizes and values that the caller has to replay.
    """

    status: Status
    scope: str = ""
    reason: str = ""
    all_ranks: bool = False
    all_sizes: bool = False
    queries: int = 0
    model: object | None = None


@dataclass(frozen=True)
class CaseVerdict:
    """What is known of one case. `trials` are those accepted, `drawn` those tried; `seconds` is the wall time."""

    label: str
    member: str
    direction: str
    status: Status
    detail: str = ""
    trials: int = 0
    drawn: int = 0
    seconds: float = 0.0
    all_ranks: bool = False
    all_sizes: bool = False
    witness: Witness | None = None


@dataclass(frozen=True)
class RuleVerdict:
    """What is known of one rule: the worst of its cases.

    `kind` is rewrite, fact, merge, group, engine, transfer or deny; `key` a hash of all that the verdict depends on.
    """

    rule: str
    kind: str
    exactness: str
    status: Status
    detail: str
    key: str
    cases: tuple[CaseVerdict, ...] = field(default=())

    @property
    def seconds(self) -> float:
        return sum(c.seconds for c in self.cases)


def worst(statuses: list[Status]) -> Status:
    """The worst status; `unknown` where there is none to speak of."""
    return max(statuses, key=STATUSES.index) if statuses else "unknown"
