"""Speed of the whole: `rewrite` beside onnxscript's optimiser, a chain through `compile`, the start of the command.

    python tests/bench/bench_rewrite.py [--runs 5] [--chain 10000]

Calls in one process after import and rule loading, path in, file out, default limits, median of the runs; validation
aside. The command's wall time stands beside them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import click
import onnx
import onnx.helper as oh

MODEL = Path(__file__).parents[1] / "data" / "models" / "bert12_ts_op14.onnx"


def seconds(job: Callable[[], object], runs: int) -> float:
    """The median of some runs after one that warms up."""
    job()
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        job()
        found.append(time.perf_counter() - start)
    return median(found)


def peer(source: Path, out: Path) -> Callable[[], object]:
    import onnxscript.optimizer

    def run() -> None:
        onnx.save(onnxscript.optimizer.optimize(onnx.load(source)), out)

    return run


def ours(source: Path, out: Path) -> Callable[[], object]:
    from gerules.pipeline import Options, rewrite_model

    return lambda: rewrite_model(source, out, Options(validate=False, force=True))


def command(*arguments: str | Path) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "gerules.cli.main", *map(str, arguments)], check=True, capture_output=True)
    return time.perf_counter() - start


def chain(path: Path, length: int) -> None:
    """Element-wise operators, one after the other."""
    operators = ("Relu", "Neg", "Abs", "Sigmoid", "Tanh")
    nodes = [oh.make_node(operators[i % len(operators)], [f"v{i}"], [f"v{i + 1}"], name=f"n{i}") for i in range(length)]
    graph = oh.make_graph(
        nodes,
        "chain",
        [oh.make_tensor_value_info("v0", 1, ["N", 64])],
        [oh.make_tensor_value_info(f"v{length}", 1, ["N", 64])],
    )
    onnx.save(oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=10), path)


CHAIN = """
import resource, sys, time
from gerules.pipeline import Options, compile_model
start = time.perf_counter()
report = compile_model(sys.argv[1], sys.argv[2], sys.argv[3], Options(force=True))
took = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"chain of {report.nodes_before}, {sys.argv[2]}: {took:.2f} s, peak {peak:.0f} MiB, {report.verdict.text}")
print({stage: round(value, 2) for stage, value in report.seconds.items()})
"""


@click.command()
@click.option("--runs", default=5)
@click.option("--chain", "length", default=10_000)
def main(runs: int, length: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        theirs = seconds(peer(MODEL, folder / "peer.onnx"), runs)
        mine = seconds(ours(MODEL, folder / "ours.onnx"), runs)
        print(f"rewrite {MODEL.name}: {mine:.3f} s; onnxscript.optimizer: {theirs:.3f} s; ratio {mine / theirs:.2f}")
        print(f"the command: {command('rewrite', MODEL, '-o', folder / 'c.onnx', '--no-validate'):.2f} s")
        print(f"gerules --help: {median(command('--help') for _ in range(runs)):.3f} s")
        chain(folder / "chain.onnx", length)
        for target in ("ascend", "generic"):
            done = subprocess.run(
                [sys.executable, "-c", CHAIN, str(folder / "chain.onnx"), target, str(folder / target)],
                capture_output=True,
                text=True,
            )
            print((done.stdout + done.stderr).strip())


if __name__ == "__main__":
    main()
