"""What three policies make of all ordered pairs of eight releases: the table of docs/registries.md, pair by pair.

`python tests/bench/registries_table.py` prints one line a pair, the totals, and what each policy refuses by class. An
operator is taken as a node that sets what is required and nothing else; the lines of pairs leave out operators that the
runtime lacks.
"""

from __future__ import annotations

import sys
from collections import Counter
from itertools import permutations
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "policy"))

from registries import of_pair, texts

from gerules.pipeline.diffing import CLASSES
from gerules.policy.judging import POLICIES
from gerules.registry.registry import version_key

COLUMNS = (
    "common", "failures", "good by a rule", "good by name", "silent", "written out", "refused", "safe", "refused by ge",
    "refused by default", "refused by strict",
)  # fmt: skip


def main() -> None:
    names = sorted(texts(), key=lambda name: version_key(name.removeprefix("v").split("-")[0]))
    total: Counter[str] = Counter()
    print("built,runtime," + ",".join(COLUMNS))
    for built, runtime in permutations(names, 2):
        counts = of_pair(built, runtime)
        total += counts
        print(f"{built},{runtime}," + ",".join(str(counts[column]) for column in COLUMNS))
    print("all,," + ",".join(str(total[column]) for column in COLUMNS))
    print({name: count for name, count in sorted(total.items()) if name.startswith("silent ")})
    print("class,operators," + ",".join(f"refused by {policy}" for policy in POLICIES))
    for name in CLASSES:
        print(f"{name},{total[f'class {name}']}," + ",".join(str(total[f"class {name}: {p}"]) for p in POLICIES))


if __name__ == "__main__":
    main()
