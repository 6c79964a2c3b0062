"""Trials: random instances of a rule, both sides in numbers.

`plan_case` compiles a case once; `CasePlan.trial` is a function of a source's decisions alone. An instance is drawn
from the rule's own left side, its conditions are asked on the way, and both sides are compared. A draw that fails is
mended: what the failure comes from is drawn anew, and the rest is kept.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass

from gerules.verify.outcome import Accepted, Outcome, Refutation, Refuted, Rejected, Trials
from gerules.verify.plan import CasePlan, never_held, plan_case
from gerules.verify.source import ChangedSource, RandomSource, Source, stable_seed

__all__ = [
    "Accepted",
    "CasePlan",
    "Outcome",
    "Refutation",
    "Refuted",
    "Rejected",
    "Trials",
    "never_held",
    "plan_case",
    "run_trials",
]

MENDINGS = 12
"""How often one draw is mended, at most, before a new one begins."""
KEPT = 24
"""Instances that new ones are made from where instances are rare."""
SMALL = 60
"""Draws that are small, before larger ones come."""


def run_trials(
    plan: CasePlan,
    accepted: int = 200,
    seed: int = 0,
    seconds: float | None = None,
    most: int | None = None,
    wanted: Mapping[str, int] | None = None,
) -> Trials:
    """Draws until `accepted` instances satisfied the rule, one refuted it, or `most` were drawn (default: 60 for each
    that is wanted). The draws depend on the case's label and the seed alone, unless `seconds` end them. `wanted`
    directs all of them; else the first are small."""
    return _Run(plan, accepted, seed, seconds, 60 * accepted if most is None else most, wanted).go()


@dataclass(frozen=True)
class Success:
    """How many draws of a kind there were, and how many of them were instances; one of each to begin with."""

    found: int = 1
    tried: int = 1

    def after(self, outcome: Outcome) -> Success:
        return Success(self.found + isinstance(outcome, Accepted), self.tried + 1)

    @property
    def share(self) -> float:
        return self.found / self.tried


class _Run:
    def __init__(
        self,
        plan: CasePlan,
        accepted: int,
        seed: int,
        seconds: float | None,
        most: int,
        directed: Mapping[str, int] | None,
    ) -> None:
        self.plan, self.accepted, self.most, self.directed = plan, accepted, most, directed
        self.draw = random.Random(stable_seed(f"{plan.case.label} {seed}")).random
        self.started = time.monotonic()
        self.seconds = seconds
        self.count = self.drawn = self.fresh = self.lucky = 0
        self.begun = self.mends = Success()
        self.rejected: dict[str, int] = {}
        self.kept: list[Source] = []
        self.met: dict[str, None] = {}
        self.refutation: Refutation | None = None

    def go(self) -> Trials:
        while self.count < self.accepted and self.drawn < self.most and self.refutation is None:
            if self.seconds is not None and time.monotonic() - self.started > self.seconds:
                break
            self.one()
        never = () if self.count else tuple(sorted(self.rejected, key=lambda r: -self.rejected[r]))
        dtypes = tuple(sorted(self.met))
        return Trials(
            self.count, self.drawn, self.rejected, self.refutation, never, dtypes, time.monotonic() - self.started
        )

    def one(self) -> None:
        """One draw, mended until it is an instance or given up."""
        wanted = self.wanted()
        # Where instances come up by themselves they are drawn anew each time, else made from those that were found.
        if self.kept and self.draw() > self.luck():
            source = self.changed(self.kept[int(self.draw() * len(self.kept))], wanted)
            self.fresh -= 1
        else:
            source = RandomSource(int(self.draw() * (1 << 53)), wanted)
        self.fresh += 1
        outcome = self.try_out(source)
        self.begun = self.begun.after(outcome)
        for _ in range(self.patience()):
            if not isinstance(outcome, Rejected) or self.drawn >= self.most:
                return
            other = self.mended(source, outcome, wanted)
            found = self.try_out(other)
            self.mends = self.mends.after(found)
            if not isinstance(found, Rejected) or found.progress >= outcome.progress:
                source, outcome = other, found

    def patience(self) -> int:
        """How often a draw is mended: less where a new one succeeds more often than one that is mended."""
        return max(1, min(MENDINGS, round(MENDINGS * self.mends.share / self.begun.share)))

    def luck(self) -> float:
        return 0.1 + 0.9 * self.count / max(self.drawn, 1)

    def wanted(self) -> Mapping[str, int]:
        """What is directed: small instances first, and each element type in turn."""
        turn = self.count
        wanted = {f"dtype {c}": (turn + c) // (c + 1) for c in range(4)} if turn % 2 == 0 else {}
        if self.directed is not None:
            wanted.update(self.directed)
        elif self.drawn < SMALL:
            wanted["small"] = 0
        return wanted

    def try_out(self, source: Source) -> Outcome:
        outcome = self.plan.trial(source)
        self.drawn += 1
        if isinstance(outcome, Accepted):
            self.count += 1
            self.met.update(dict.fromkeys(outcome.dtypes))
            if len(self.kept) < KEPT:
                self.kept.append(source)
            else:
                self.kept[int(self.draw() * KEPT)] = source
        elif isinstance(outcome, Rejected):
            self.rejected[outcome.reason] = self.rejected.get(outcome.reason, 0) + 1
        elif self.refutation is None:
            self.refutation = outcome.refutation
        return outcome

    def mended(self, source: Source, outcome: Rejected, wanted: Mapping[str, int]) -> Source:
        """The same draw with one or two of the causes of its failure drawn anew."""
        causes = outcome.causes or tuple(range(len(source.bounds)))
        chance = self.draw()
        # The nearest cause first: the others fit to each other already.
        anew = {causes[int(self.draw() ** 1.5 * len(causes))]}
        if chance < 0.3:
            anew.add(causes[int(self.draw() * len(causes))])
        if 0.25 < chance < 0.4:
            anew.add(1)
        if chance > 0.97:
            anew.add(0)
        return ChangedSource(source.choices, source.bounds, anew, self.draw, wanted)

    def changed(self, source: Source, wanted: Mapping[str, int]) -> Source:
        """An instance that was found, with some of it drawn anew."""
        segments = len(source.bounds)
        anew = {int(self.draw() * segments)}
        if self.draw() < 0.5:
            anew.add(1)
        if self.draw() < 0.5:
            anew.add(int(self.draw() * segments))
        return ChangedSource(source.choices, source.bounds, anew, self.draw, wanted)
