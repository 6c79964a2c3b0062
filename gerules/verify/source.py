"""Where the random decisions of a draw come from: a sequence of whole numbers, each below a bound.

A draw is a function of that sequence alone. So a draw can be replayed, changed in places, and made smaller: every
decision is made such that 0 is the simplest.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol


class Source(Protocol):
    """Decisions, one after the other. `choices` are those made so far; `bounds` the number of them when each segment of
    the draw began."""

    choices: list[int]
    bounds: list[int]

    def step(self) -> None:
        """A segment begins."""

    def below(self, bound: int, label: str | None = None) -> int:
        """A whole number from 0 to `bound` - 1. A bound of 1 leaves no choice and is not recorded.

        `label` names decisions that somebody may want to make for the source (`dtype 0`).
        """

    def many(self, bound: int, count: int) -> list[int]:
        """`count` decisions below one bound."""


class _Recorded:
    def __init__(self) -> None:
        self.choices: list[int] = []
        self.bounds: list[int] = [0]

    def step(self) -> None:
        self.bounds.append(len(self.choices))


class RandomSource(_Recorded):
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


class ReplaySource(_Recorded):
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

    def many(self, bound: int, count: int) -> list[int]:
        return [self.below(bound) for _ in range(count)]


class ChangedSource(_Recorded):
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

    def many(self, bound: int, count: int) -> list[int]:
        return [self.below(bound) for _ in range(count)]


def stable_seed(text: str) -> int:
    """A seed from a text, the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
