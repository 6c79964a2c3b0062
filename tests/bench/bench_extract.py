"""Extraction at the sizes of real models: seconds, gap, and what found it.

    python tests/bench/bench_extract.py [NAME ...]

The problems are made up in the shapes of models (tests/extract/extract_shapes.py), costs as targets have them. With
`--egraphs FOLDER` it runs the e-graphs of a folder with an index.csv (columns file, best or best_known) instead.
"""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "extract"))

from extract_files import load_egraph
from extract_shapes import chain, tangle, tower, transformer

from gerules.extract import Problem, solve

CASES = {
    "transformer-1311-plain": lambda: transformer(26, engines=1, rewrites=3),
    "transformer-2600": lambda: transformer(50),
    "transformer-2600-rewrites": lambda: transformer(50, rewrites=10),
    "tower-2500": lambda: tower(350),
    "tower-2500-rewrites": lambda: tower(350, rewrites=10),
    "chain-10000": lambda: chain(10_000),
    "chain-10000-rewrites": lambda: chain(10_000, rewrites=10),
    "tangle-2500-narrow": lambda: tangle(2500, 6),
    "tangle-2500-wide": lambda: tangle(2500, 40, rewrites=10),
}


def measure(name: str, problem: Problem, note: str = "") -> None:
    wall, busy = time.perf_counter(), time.process_time()
    solution = solve(problem)
    wall, busy = time.perf_counter() - wall, time.process_time() - busy
    print(
        f"{name:40} {problem.classes:6} {len(problem.options):6} {solution.before[0]:12.6g} {solution.cost[0]:12.6g} "
        f"{solution.gap:9.2e} {solution.method:11} {solution.stopped or '':10} {wall:7.2f} {busy:7.2f} {note}",
        flush=True,
    )


def main(arguments: list[str]) -> None:
    print(f"{'':40} classes options      before        after       gap method      stopped       wall     cpu")
    if arguments[:1] == ["--egraphs"]:
        folder = Path(arguments[1])
        for row in csv.DictReader((folder / "index.csv").read_text().splitlines()):
            best = row.get("best") or row["best_known"]
            measure(row["file"][:40], load_egraph(folder / row["file"]), f"best known {best}")
        return
    for name in arguments or CASES:
        measure(name, CASES[name]())


if __name__ == "__main__":
    main(sys.argv[1:])
