"""Where the random decisions of a draw come from: a sequence of whole numbers, each below a bound.

A draw is a function of that sequence alone. So a draw can be replayed, changed in places, and made smaller: every
decision is made such that 0 is the simplest.
"""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol


class Source(Protocol):
    """Decisions, one after the other. `choices` are those made so far; `bounds` the number of them when each segment of
    the draw began; `spans` where the decisions of contents are."""

    choices: list[int]
    bounds: list[int]
    spans: list[tuple[int, int]]

    def step(self) -> None:
        """A segment begins."""

    def below(self, bound: int, label: str | None = None) -> int:
        """A whole number from 0 to `bound` - 1. A bound of 1 leaves no choice and is not recorded.

        `label` names decisions that somebody may want to make for the source (`dtype 0`).
        """

    def many(self, bound: int, count: int) -> list[int]:
        """`count` decisions below one bound."""

    def contents(self, bound: int, count: int) -> list[int]:
        """The same, for the elements of an array."""


class Recorded(ABC):
    """Keeps what was decided."""

    def __init__(self) -> None:
        self.choices: list[int] = []
        self.bounds: list[int] = [0]
        self.spans: list[tuple[int, int]] = []

    def step(self) -> None:
        self.bounds.append(len(self.choices))

    @abstractmethod
    def below(self, bound: int, label: str | None = None) -> int:
        """The next decision, kept."""

    def many(self, bound: int, count: int) -> list[int]:
        return [self.below(bound) for _ in range(count)]

    def contents(self, bound: int, count: int) -> list[int]:
        start = len(self.choices)
        made = self.many(bound, count)
        self.spans.append((start, len(self.choices)))
        return made


class RandomSource(Recorded):
    """Decisions of a generator, the same for the same seed. `wanted` decides what is labelled so."""

    def __init__(self, seed: int | str, wanted: Mapping[str, int] | None = None) -> None:
        super().__init__()
        self._random = random.Random(seed if isinstance(seed, int) else stable_seed(seed)).random
        self._wanted = wanted

    def below(self, bound: int, label: str | None = None) -> int:
        if bound <= 1:
            return 0
        if label is not None and self._wanted is not None and label in self._wanted:
            choice = self._wanted[label] % bound
        else:
            choice = int(self._random() * bound)
        self.choices.append(choice)
        return choice

    def many(self, bound: int, count: int) -> list[int]:
        if bound <= 1:
            return [0] * count
        draw = self._random
        made = [int(draw() * bound) for _ in range(count)]
        self.choices += made
        return made


class SmallSource(Recorded):
    """Decisions of a generator that takes the simplest more often than not."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed).random

    def below(self, bound: int, label: str | None = None) -> int:
        if bound <= 1:
            return 0
        choice = int(self._random() * 2 * bound)
        self.choices.append(choice if choice < bound else 0)
        return self.choices[-1]


class ReplaySource(Recorded):
    """Decisions that were made before; 0 once they are used up. One that is too large is taken modulo its bound."""

    def __init__(self, choices: Iterable[int]) -> None:
        super().__init__()
        self.given: Sequence[int] = tuple(choices)

    def below(self, bound: int, label: str | None = None) -> int:
        if bound <= 1:
            return 0
        place = len(self.choices)
        choice = self.given[place] % bound if place < len(self.given) else 0
        self.choices.append(choice)
        return choice


class ChangedSource(Recorded):
    """Decisions of an earlier draw, but for the segments `anew`: those are random. What a segment decides beyond what
    it decided then is random too. `wanted` decides what is labelled so in the segments that are made anew."""

    def __init__(
        self,
        choices: Sequence[int],
        bounds: Sequence[int],
        anew: Iterable[int],
        draw: Callable[[], float],
        wanted: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__()
        self._given, self._given_bounds = choices, bounds
        self._anew = frozenset(anew)
        self._random = draw
        self._wanted = wanted
        self._segment = -1
        self._next()

    def _next(self) -> None:
        self._segment += 1
        bounds = self._given_bounds
        if self._segment >= len(bounds) or self._segment in self._anew:
            self._cursor = self._end = 0
        else:
            last = self._segment + 1 >= len(bounds)
            self._cursor, self._end = bounds[self._segment], len(self._given) if last else bounds[self._segment + 1]

    def step(self) -> None:
        super().step()
        self._next()

    def below(self, bound: int, label: str | None = None) -> int:
        if bound <= 1:
            return 0
        if self._cursor < self._end:
            choice = self._given[self._cursor] % bound
            self._cursor += 1
        elif label is not None and self._wanted is not None and label in self._wanted:
            choice = self._wanted[label] % bound
        else:
            choice = int(self._random() * bound)
        self.choices.append(choice)
        return choice


Segment = tuple[tuple[int, ...], tuple[int, ...]]
"""What a segment decides, and what the elements are that it draws."""


class EditedSource(Recorded):
    """Decisions by segment, and elements apart from the others: 0 where a segment has no more of them."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        super().__init__()
        self._segments = segments
        self._place = self._cursor = self._element = 0

    def step(self) -> None:
        super().step()
        self._place, self._cursor, self._element = self._place + 1, 0, 0

    def below(self, bound: int, label: str | None = None) -> int:
        if bound <= 1:
            return 0
        given = self._segments[self._place][0] if self._place < len(self._segments) else ()
        choice = given[self._cursor] % bound if self._cursor < len(given) else 0
        self._cursor += 1
        self.choices.append(choice)
        return choice

    def contents(self, bound: int, count: int) -> list[int]:
        if bound <= 1:
            return [0] * count
        given = self._segments[self._place][1] if self._place < len(self._segments) else ()
        at = self._element
        made = [given[k] % bound if k < len(given) else 0 for k in range(at, at + count)]
        self._element += count
        self.spans.append((len(self.choices), len(self.choices) + count))
        self.choices += made
        return made


def segments_of(source: Source) -> list[Segment]:
    """What a source decided in each segment."""
    elements = {k for start, end in source.spans for k in range(start, end)}
    ends = [*source.bounds[1:], len(source.choices)]
    found: list[Segment] = []
    for start, end in zip(source.bounds, ends, strict=True):
        places = range(start, end)
        plain = tuple(source.choices[k] for k in places if k not in elements)
        found.append((plain, tuple(source.choices[k] for k in places if k in elements)))
    return found


def stable_seed(text: str) -> int:
    """A seed from a text, the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
