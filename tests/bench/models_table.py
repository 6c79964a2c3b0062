"""Compiles models for targets and prints one line each: what changed, what it cost, and what onnxruntime says.

    python tests/bench/models_table.py MODEL.onnx ... [--target ascend --target generic]

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
import onnx_ir as ir

from gerules.graph import load_model
from gerules.graph.dims import DimFacts
from gerules.partition.merge import merge_folder
from gerules.pipeline import Options, compile_model
from gerules.simulate import choose_bindings, make_inputs
from gerules.simulate.compare import compare


def session(data: bytes | str):  # type: ignore[no-untyped-def]
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def feed(run, values):  # type: ignore[no-untyped-def]
    return {i.name: values[i.name] for i in run.get_inputs() if values.get(i.name) is not None}


def worst(got: dict[str, object], wanted: dict[str, object]) -> tuple[bool, float]:
    results = [compare(got[name], wanted[name]) for name in wanted]
    return all(r.equal for r in results), max((r.max_abs for r in results), default=0.0)


def judge(path: Path, out: Path, model: ir.Model) -> tuple[str, float]:
    """The independent verdict: whole model and partitions against the original, in onnxruntime."""
    original, whole = session(str(path)), session(str(out / "model.onnx"))
    names = [o.name for o in original.get_outputs()]
    manifest = json.loads((out / "manifest.json").read_text())
    largest, verdict = 0.0, "equal"
    for seed, binding in enumerate(choose_bindings(model, DimFacts(), {}, {})):
        inputs = {k: v for k, v in make_inputs(model, binding, seed).items() if v is not None}
        wanted = dict(zip(names, original.run(names, feed(original, inputs)), strict=True))
        ok, error = worst(dict(zip(names, whole.run(names, feed(whole, inputs)), strict=True)), wanted)
        values = dict(inputs)
        for cluster in manifest["clusters"]:
            part = session(str(out / cluster["file"]))
            outputs = [o.name for o in part.get_outputs()]
            values.update(zip(outputs, part.run(outputs, feed(part, values)), strict=True))
        in_parts, part_error = worst({n: values[n] for n in names}, wanted)
        largest = max(largest, error, part_error)
        if not (ok and in_parts):
            verdict = "DIFFERS" if not ok else "PARTS DIFFER"
    return verdict, largest


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
                    merged = merge_folder(_alone(border)) == (border / "model.onnx").read_bytes()
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
                print(
                    f"{path.name:32} {target:8} nodes {nodes['before']}->{nodes['after']} "
                    f"cost {cost['before'] * 1e3:.3f}->{cost['after'] * 1e3:.3f} ms gap {cost['gap']:.4f} ({cost['method']}) "
                    f"partitions {engines} flops {flops} error {error:.2g} {verdict} merge {'same' if merged else 'DIFFERS'} "
                    f"{seconds:.1f} s {stages}",
                    flush=True,
                )


def _alone(folder: Path) -> Path:
    """The border-node partitions without what merging must do without."""
    import shutil

    copy = folder.parent / "alone"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    for name in ("manifest.json", "model.onnx"):
        (copy / name).unlink()
    return copy


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
