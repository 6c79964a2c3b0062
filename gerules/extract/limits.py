"""How much work a search may do: counted, so that it ends at the same place every time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """`attempts`: states tried by one descent of the local search, and by all
    forced swaps of one part. `nodes`, `iterations`: branch-and-bound nodes and
    simplex iterations of all HiGHS runs for one part. `entries`: nonzeros beyond which a part is not given to HiGHS.
    `rounds`: HiGHS runs, each with the cycles of the one before cut off."""

    attempts: int = 100_000
    nodes: int = 20_000
    iterations: int = 2_000_000
    entries: int = 400_000
    rounds: int = 60
