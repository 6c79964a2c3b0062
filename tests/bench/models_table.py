"""Compiles models for targets and prints one line each: what changed, what it cost, and what onnxruntime says.

    python -m tests.bench.models_table MODEL.onnx ... [--target ascend --target generic]

The original, `model.onnx`, and the partitions run in order are compared in onnxruntime on seeded inputs; merging the
border-node form has to give `model.onnx` back byte for byte.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import click
import numpy as np

from gerules.graph import load_model
from gerules.pipeline import Options, compile_model
from tests.models.judge import judge, merges_back


@click.command()
@click.argument("models", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--target", "targets", multiple=True, default=("ascend", "generic"))
def main(models: tuple[Path, ...], targets: tuple[str, ...]) -> None:
    for path in models:
        for target in targets:
            with tempfile.TemporaryDirectory() as folder:
                out, border = Path(folder) / "out", Path(folder) / "border"
                started = time.perf_counter()
                try:
                    compile_model(path, target, out, Options())
                    seconds = time.perf_counter() - started
                    compile_model(path, target, border, Options(border_nodes=True, validate=False))
                    merged = merges_back(border)
                    verdict, error = judge(path, out, load_model(path))
                except Exception as fault:
                    print(f"{path.name:32} {target:8} {type(fault).__name__}: {str(fault)[:300]}", flush=True)
                    continue
                manifest = json.loads((out / "manifest.json").read_text())
                timing = json.loads((out / "timing.json").read_text())
                engines: dict[str, int] = {}
                for cluster in manifest["clusters"]:
                    engines[cluster["engine"]] = engines.get(cluster["engine"], 0) + 1
                cost, nodes = manifest["cost"], manifest["nodes"]
                flops = {e: round(c["flops"], 2) for e, c in manifest["coverage"].items() if c["flops"] >= 0.005}
                stages = {k: round(v, 2) for k, v in timing.items() if v >= 0.05}
                spent = f"{cost['before'] * 1e3:.3f}->{cost['after'] * 1e3:.3f} ms"
                print(
                    f"{path.name:32} {target:8} nodes {nodes['before']}->{nodes['after']} cost {spent} "
                    f"gap {cost['gap']:.4f} ({cost['method']}) partitions {engines} flops {flops} error {error:.2g} "
                    f"{verdict} merge {'same' if merged else 'DIFFERS'} {seconds:.1f} s {stages}",
                    flush=True,
                )


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
