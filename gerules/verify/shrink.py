"""Makes a refutation small: fewer decisions, and smaller ones, until nothing can be left out.

First whole segments of the draw are tried with every decision the simplest, then decisions one by one; what is left
goes to hypothesis, which knows more ways to make a list of numbers smaller. Everything is counted, nothing timed, so
that the same refutation always shrinks to the same one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from gerules.verify.outcome import Refutation, Refuted
from gerules.verify.plan import CasePlan
from gerules.verify.source import EditedSource, Recorded, ReplaySource, Segment, Source, segments_of
from gerules.verify.trials import run_trials

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

TRIALS = 400
"""Trials of our own at most; hypothesis may take `EXAMPLES` more."""
EXAMPLES = 60
ENOUGH = 3
"""Elements of all tensors together of which nobody wants fewer."""
LARGEST, ROUNDS = 3, 2
FRESH, SHAKEN, MANY = 450, 60, 12
"""Where a tensor has more elements than LARGEST, so many draws are made elsewhere, and of the one at hand with some of
it changed at random, in so many rounds at most; fewer where so many refute and are no smaller."""
SIMPLE = ({"small": 0, "sample": 0, "rank": 1}, {"small": 0, "sample": 0, "rank": 2}, {"small": 0})
"""What is asked of these draws: small extents, nothing of what examples show, few axes."""
OTHERS = 5
"""Values of a decision that are tried though they are no simpler."""

Key = tuple[int, int, int, int]


def shrink(plan: CasePlan, refutation: Refutation) -> Refutation:
    """The smallest refutation that was found from this one; the same, as it is, where it does not replay or where
    hypothesis, an extra, is missing (then `shrunk` stays false)."""
    if find_spec("hypothesis") is None:
        return refutation
    source = ReplaySource(refutation.choices)
    outcome = plan.trial(source)
    if not isinstance(outcome, Refuted):
        return refutation
    found = _Shrinker(plan, source, outcome.refutation).go()
    return replace(_by_hypothesis(plan, found), shrunk=True)


def _key(refutation: Refutation, choices: Sequence[int]) -> Key:
    """How large a refutation is: elements to look at, decisions that are not the simplest, their sum, and how late they
    come."""
    late = sum(place for place, choice in enumerate(choices) if choice)
    return elements(refutation), sum(c > 0 for c in choices), sum(choices), late


def elements(refutation: Refutation) -> int:
    """Elements of all operands, constants among them, and of both results."""
    return sum(v.size for v in _tensors(refutation))


def largest(refutation: Refutation) -> int:
    """Elements of the largest of these."""
    return max((v.size for v in _tensors(refutation)), default=0)


def _tensors(refutation: Refutation) -> Iterator[np.ndarray]:
    values = (*refutation.operands.values(), *refutation.statics.values(), refutation.left, refutation.right)
    return (v for v in values if isinstance(v, np.ndarray))


class _Shrinker:
    """Keeps the best refutation so far, and tries smaller ones."""

    def __init__(self, plan: CasePlan, source: Source, refutation: Refutation) -> None:
        self.plan = plan
        self.segments = segments_of(source)
        self.best = refutation
        self.key = _key(refutation, source.choices)
        self.trials = 0
        self.seen: set[tuple[Segment, ...]] = set()
        self.rounds = 0

    def go(self) -> Refutation:
        while self.trials < TRIALS:
            before = self.key
            for place in range(len(self.segments)):
                if place < len(self.segments):
                    self.segment(place)
            if self.key == before and not self.otherwise() and not self.anew():
                break
        return self.best

    def otherwise(self) -> bool:
        """A decision that is not simpler may make a smaller instance: another of the extents at hand, another rank.
        Whether one did; only where there is something to gain."""
        if self.key[0] <= ENOUGH:
            return False
        for place, (plain, contents) in enumerate(self.segments):
            for at, value in enumerate(plain):
                for other in range(OTHERS):
                    if other != value and self.attempt(place, (*plain[:at], other, *plain[at + 1 :]), contents):
                        return True
        return False

    def anew(self) -> bool:
        """What was found may lie far from anything small: a few draws of small instances. Whether one helped."""
        if self.rounds >= ROUNDS or largest(self.best) <= LARGEST:
            return False
        self.rounds += 1
        before = self.key
        left, refuted = FRESH, 0
        for wanted in cycle(SIMPLE):
            most = min(left, FRESH // len(SIMPLE))  # one that nothing fits must not take all
            ran = run_trials(self.plan, accepted=most, seed=left + self.rounds, most=most, wanted=wanted)
            left -= ran.drawn
            if ran.refutation is not None:
                refuted += 1
                self.keep(ran.refutation, ran.refutation.choices)
            if left <= 0 or refuted >= MANY or largest(self.best) <= LARGEST:
                break
        return self.shaken() or self.key < before or self.rounds < ROUNDS

    def keep(self, refutation: Refutation, choices: Sequence[int]) -> None:
        """Takes another refutation where it is smaller."""
        key = _key(refutation, choices)
        if key < self.key:
            source = ReplaySource(choices)
            self.plan.trial(source)
            self.best, self.key, self.segments = refutation, key, segments_of(source)

    def shaken(self) -> bool:
        """Some decisions at once, at random: an extent that becomes 0 has to be there before anything takes it."""
        draw = random.Random(self.rounds)
        before = self.key
        refuted = 0
        for _ in range(SHAKEN):
            places = [(p, at) for p, (plain, _) in enumerate(self.segments) for at in range(len(plain))]
            if len(places) < 2 or refuted >= MANY or largest(self.best) <= LARGEST:
                break
            edited = [list(plain) for plain, _ in self.segments]
            for place, at in draw.sample(places, min(len(places), draw.randrange(2, 5))):
                edited[place][at] = draw.randrange(OTHERS)
            source = EditedSource([(tuple(p), c) for p, (_, c) in zip(edited, self.segments, strict=True)])
            outcome = self.plan.trial(source)
            if isinstance(outcome, Refuted):
                refuted += 1
                self.keep(outcome.refutation, source.choices)
        return self.key < before

    def attempt(self, place: int, plain: Sequence[int], contents: Sequence[int]) -> bool:
        """Whether a segment with these decisions refutes too, and is smaller: then it is kept."""
        segments = (*self.segments[:place], (tuple(plain), tuple(contents)), *self.segments[place + 1 :])
        if self.trials >= TRIALS or segments in self.seen:
            return False
        self.seen.add(segments)
        self.trials += 1
        source = EditedSource(segments)
        outcome = self.plan.trial(source)
        if not isinstance(outcome, Refuted):
            return False
        key = _key(outcome.refutation, source.choices)
        if key >= self.key:
            return False
        self.best, self.key, self.segments = outcome.refutation, key, segments_of(source)
        return True

    def segment(self, place: int) -> None:
        plain, contents = self.segments[place]
        if any(contents):
            if self.attempt(place, plain, ()):
                return self.numbers(place, 0)
            # What matters to the front: then the rest can go.
            self.attempt(place, plain, sorted(contents, key=lambda c: c == 0))
            for at in range(1, len(contents)):
                if place < len(self.segments) and contents[at] and contents != self.segments[place][1]:
                    break
                self.attempt(place, plain, (contents[at], *contents[:at], *contents[at + 1 :]))
        if place < len(self.segments) and any(self.segments[place][0]):
            self.attempt(place, (), self.segments[place][1])
        self.numbers(place, 0)
        self.numbers(place, 1)

    def numbers(self, place: int, part: int) -> None:
        """Each decision of a segment on its own."""
        at = 0
        while place < len(self.segments) and at < len(self.segments[place][part]):
            pair = self.segments[place]
            value = pair[part][at]
            for smaller in dict.fromkeys((0, 1, value // 2, value - 1)):
                if 0 <= smaller < value:
                    changed = (*pair[part][:at], smaller, *pair[part][at + 1 :])
                    if self.attempt(place, *((changed, pair[1]) if part == 0 else (pair[0], changed))):
                        break
            at += 1


def _by_hypothesis(plan: CasePlan, refutation: Refutation) -> Refutation:
    """What hypothesis makes of it: it starts from our decisions, in a database of its own, and shrinks."""
    from hypothesis import HealthCheck, Phase, find, settings
    from hypothesis import strategies as st
    from hypothesis.database import InMemoryExampleDatabase, choices_to_bytes
    from hypothesis.errors import NoSuchExample

    best: list[tuple[Key, Refutation]] = [(_key(refutation, refutation.choices), refutation)]

    @st.composite
    def refutations(draw: DrawFn) -> bool:
        source = _Drawing(draw, st.integers)
        outcome = plan.trial(source)
        if not isinstance(outcome, Refuted):
            return False
        key = _key(outcome.refutation, source.choices)
        if key < best[0][0]:
            best[0] = key, outcome.refutation
        return True

    database = InMemoryExampleDatabase()
    database.save(b"refutation", choices_to_bytes(refutation.choices))
    quick = settings(
        database=database,
        phases=(Phase.reuse, Phase.shrink),
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    try:
        find(
            refutations(),
            lambda refuted: refuted,
            settings=quick,
            database_key=b"refutation",
        )
    except NoSuchExample:
        return refutation
    return best[0][1]


class _Drawing(Recorded):
    """Decisions that hypothesis makes."""

    def __init__(self, draw: DrawFn, integers: Callable[[int, int], SearchStrategy[int]]) -> None:
        super().__init__()
        self._draw, self._integers = draw, integers

    def below(self, bound: int, label: str | None = None) -> int:
        if bound <= 1:
            return 0
        choice = self._draw(self._integers(0, bound - 1))
        self.choices.append(choice)
        return choice
