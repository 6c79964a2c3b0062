"""What `convert` reaches on the onnx package's one-operator models, and how long it takes.

    python tests/bench/bench_convert.py [--cases 300] [--seed 0] [--runs 5]

A line for each pair that is not converted, with the reason; counts by direction; the median time of one conversion in
the process, rules loaded; `bert12_ts_op14.onnx` to 13 and to 21, the median of some runs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median

import click

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS / "pipeline"))
MODEL = TESTS / "data" / "models" / "bert12_ts_op14.onnx"


@click.command()
@click.option("--cases", default=300, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--runs", default=5, show_default=True)
def main(cases: int, seed: int, runs: int) -> None:
    from convert_cases import sample, verdict

    from gerules.errors import GerulesError
    from gerules.pipeline import Options, convert_model
    from gerules.pipeline.converting import convert_bytes

    counts: Counter[tuple[str, str]] = Counter()
    times: list[float] = []
    for case, target in sample(cases, seed):
        found, reason = verdict(case, target)
        counts["up" if target > case.opset else "down", found] += 1
        if found != "ok":
            click.echo(f"{found} {case.name} {case.opset} -> {target}: {reason}")
        data = case.model.SerializeToString()
        start = time.perf_counter()
        try:
            convert_bytes(data, target)
        except GerulesError:
            continue
        times.append(time.perf_counter() - start)
    for (direction, found), count in sorted(counts.items()):
        click.echo(f"{direction} {found}: {count}")
    click.echo(f"one conversion, median of {len(times)}: {median(times) * 1e3:.1f} ms")
    with tempfile.TemporaryDirectory() as folder:
        for opset in (13, 21):
            took = []
            for _ in range(runs + 1):
                start = time.perf_counter()
                convert_model(MODEL, Path(folder) / "out.onnx", opset, Options(force=True))
                took.append(time.perf_counter() - start)
            click.echo(f"{MODEL.name} to {opset}, median of {runs}: {median(took[1:]):.2f} s")


if __name__ == "__main__":
    main()
