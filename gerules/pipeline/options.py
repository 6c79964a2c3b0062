"""What a run may be told, as plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

Progress = Callable[[str], None]
"""Is told what is being done, in a few words."""


def silent(stage: str) -> None:
    """The progress of a run that nobody watches."""


@dataclass(frozen=True)
class Options:
    """Everything but the model, the target and the destination.

    `rules` are files or folders of the user; `only_rules` drops the shipped rewrites and keeps declarations; `enable`
    and `disable` name rules, rulesets or words of exactness. `dims` (`N=1..64`), `assume` (`H % 8 == 0`), `likely`
    (`N=64,128`) and `at` (`N=3`) speak of dimensions as on the command line. `time_limit` is in seconds, for
    extraction. `validate=False` writes a result that nothing was compared for, and says so in it. `keep_failed` is a
    folder for what was made where validation differs; `seeds` are those of the random inputs.
    """

    rules: tuple[str | Path, ...] = ()
    only_rules: bool = False
    enable: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    schedule: str = "standard"
    dims: tuple[str, ...] = ()
    assume: tuple[str, ...] = ()
    likely: tuple[str, ...] = ()
    at: tuple[str, ...] = ()
    time_limit: float = 10.0
    validate: bool = True
    force: bool = False
    keep_failed: str | Path | None = None
    border_nodes: bool = False
    seeds: tuple[int, ...] = (0, 1)
    progress: Progress = field(default=silent, repr=False, compare=False)
