"""What becomes of a trial: accepted, rejected, or a refutation that can be held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gerules.verify.case import Case

CANNOT = "not computed: "
"""How the reason begins where a draw came to an operator that nothing computes: that says nothing of the rule."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """An instance of the rule, and both sides agree. `dtypes` are the element types that were drawn."""

    dtypes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejected:
    """What was drawn is no instance of the rule: `reason` is the condition that does not hold, as written, or
    `ill-typed`, or why there is no right side. `progress` tells how far the draw came (1 would be an instance),
    `causes` the segments of the draw that the failure comes from."""

    reason: str
    progress: float = 0.0
    causes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Refutation:
    """An instance on which the sides differ.

    `operands` are the leaves by name (`None` where one is absent), `statics` attributes and contents by the rule's
    names. `place` is the result of a node that differs (0 for a tensor), `index` the first element (None where shapes,
    types or failures differ), `reason` how. `choices` replay it: `plan.trial(ReplaySource(choices))`.
    """

    case: Case
    operands: Mapping[str, np.ndarray | None]
    statics: Mapping[str, object]
    left: object
    right: object
    place: int
    index: tuple[int, ...] | None
    reason: str
    choices: tuple[int, ...]
    shrunk: bool = False


@dataclass(frozen=True, slots=True)
class Refuted:
    refutation: Refutation


Outcome = Accepted | Rejected | Refuted


@dataclass(frozen=True, slots=True)
class Trials:
    """What became of many trials. `never` are the conditions that held in none of them, as written, where none was
    accepted; `dtypes` the element types that were accepted somewhere."""

    accepted: int
    drawn: int
    rejected_by: Mapping[str, int] = field(default_factory=dict)
    refutation: Refutation | None = None
    never: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Of the instances drawn the part that satisfied the rule's conditions."""
        return self.accepted / self.drawn if self.drawn else 0.0
