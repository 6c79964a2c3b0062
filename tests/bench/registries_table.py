"""What three policies make of all ordered pairs of eight releases: the table of docs/registries.md, pair by pair.

`python tests/bench/registries_table.py` prints one line a pair and the totals. An operator is taken as a node that sets
what is required and nothing else; operators that the runtime lacks are left out.
"""

from __future__ import annotations

import sys
from collections import Counter
from itertools import permutations
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "policy"))

from registries import of_pair, texts

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
    print({name: count for name, count in sorted(total.items()) if name not in COLUMNS})


if __name__ == "__main__":
    main()
