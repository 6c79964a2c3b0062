"""How much faster the fast kernels are than onnx.reference, in one run of light_resnet50, warm.

    OPENBLAS_NUM_THREADS=1 python tests/bench/bench_simulate.py [MODEL.onnx]

Prints seconds and ratios for the whole, for Conv, for MaxPool and for the rest; asserts nothing. Times are those of
the process (user and system), which other work on the machine disturbs less than a clock on the wall; with several
BLAS threads they add up over threads. One thread is the fair setting where cores are shared.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from gerules.simulate.engine import Simulator
from gerules.simulate.plan import Plan

RUNS = 5
PARTS = ("Conv", "MaxPool")
Clock = Callable[[], float]


def light_model(name: str) -> Path:
    return Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"{name}.onnx"


def feeds_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Random inputs for all that has no default; unknown sizes are 1."""
    generator = np.random.default_rng(0)
    defaults = {t.name for t in model.graph.initializer}
    return {
        v.name: generator.standard_normal([d.dim_value or 1 for d in v.type.tensor_type.shape.dim]).astype(np.float32)
        for v in model.graph.input
        if v.name not in defaults
    }


def median(run: Callable[[], Any], clock: Clock) -> float:
    run()
    times = []
    for _ in range(RUNS):
        start = clock()
        run()
        times.append(clock() - start)
    return statistics.median(times)


def ours_by_operator(simulator: Simulator, run: Callable[[], Any], clock: Clock) -> dict[str, float]:
    """Seconds per kind of operator in one run, from kernels wrapped in a clock."""
    spent: dict[str, float] = {}
    [(key, plan)] = simulator._plans.items()

    def timed(op: str, kernel: Any) -> Any:
        def compute(operands: Sequence[Any], context: Any) -> Any:
            start = clock()
            results = kernel(operands, context)
            spent[op] = spent.get(op, 0.0) + clock() - start
            return results

        return compute

    wrapped: Plan = replace(plan, steps=tuple(replace(s, kernel=timed(s.op, s.kernel)) for s in plan.steps))
    simulator._plans[key] = wrapped
    run()
    simulator._plans[key] = plan
    return spent


def reference_by_operator(evaluator: Any, run: Callable[[], Any], clock: Clock) -> dict[str, float]:
    spent: dict[str, float] = {}

    def timed(node: Any) -> None:
        plain = node.run

        def compute(*operands: Any, **keywords: Any) -> Any:
            start = clock()
            results = plain(*operands, **keywords)
            spent[node.op_type] = spent.get(node.op_type, 0.0) + clock() - start
            return results

        node.run = compute

    for node in evaluator.rt_nodes_:
        timed(node)
    run()
    return spent


def main(path: Path) -> None:
    model = onnx.load(path)
    feeds = feeds_of(model)
    clock = time.process_time
    simulator, evaluator = Simulator(model), ReferenceEvaluator(model)
    ours = median(lambda: simulator.run(feeds), clock)
    reference = median(lambda: evaluator.run(None, feeds), clock)
    print(f"{path.name}: ours {ours:.3f} s, onnx.reference {reference:.3f} s, {reference / ours:.1f} times faster")
    mine = ours_by_operator(simulator, lambda: simulator.run(feeds), clock)
    theirs = reference_by_operator(evaluator, lambda: evaluator.run(None, feeds), clock)
    rows = [(op, mine.get(op, 0.0), theirs.get(op, 0.0)) for op in PARTS]
    rest = [sum(v for op, v in spent.items() if op not in PARTS) for spent in (mine, theirs)]
    for op, a, b in [*rows, ("the rest", *rest)]:
        if a and b:
            print(f"  {op:10} ours {a:.4f} s, onnx.reference {b:.4f} s, {b / a:.1f} times faster")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else light_model("light_resnet50"))
