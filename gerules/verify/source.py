"""Where the random decisions of a draw come from: a sequence of whole numbers, each below a bound.

A draw is a function of that sequence alone. So a draw can be replayed, changed in places, and made smaller: every
decision is made such that 0 is the simplest.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol


class Source(Protocol):
    """Decisions, one after the other. `choices` are those made so far."""

    choices: list[int]

    def below(self, bound: int, label: str | None = None) -> int:
        """A whole number from 0 to `bound` - 1. A bound of 1 leaves no choice and is not recorded.

        `label` names decisions that somebody may want to make for the source (`dtype 0`).
        """

    def many(self, bound: int, count: int) -> list[int]:
        """`count` decisions below one bound."""


class RandomSource:
    """Decisions of a generator, the same for the same seed. `wanted` decides what is labelled so."""

    def __init__(self, seed: int | str, wanted: Mapping[str, int] | None = None) -> None:
        self.choices: list[int] = []
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


class ReplaySource:
    """Decisions that were made before; 0 once they are used up. One that is too large is taken modulo its bound."""

    def __init__(self, choices: Iterable[int]) -> None:
        self.given: Sequence[int] = tuple(choices)
        self.choices: list[int] = []

    def below(self, bound: int, label: str | None = None) -> int:
        if bound <= 1:
            return 0
        place = len(self.choices)
        choice = self.given[place] % bound if place < len(self.given) else 0
        self.choices.append(choice)
        return choice

    def many(self, bound: int, count: int) -> list[int]:
        return [self.below(bound) for _ in range(count)]


class ChangedSource:
    """Decisions that were made before, some of them made anew: those at `places`, and all beyond the end."""

    def __init__(self, choices: Sequence[int], places: frozenset[int], seed: int) -> None:
        self.given = choices
        self.places = places
        self.choices: list[int] = []
        self._random = random.Random(seed).random

    def below(self, bound: int, label: str | None = None) -> int:
        if bound <= 1:
            return 0
        place = len(self.choices)
        if place < len(self.given) and place not in self.places:
            choice = self.given[place] % bound
        else:
            choice = int(self._random() * bound)
        self.choices.append(choice)
        return choice

    def many(self, bound: int, count: int) -> list[int]:
        return [self.below(bound) for _ in range(count)]


def stable_seed(text: str) -> int:
    """A seed from a text, the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
