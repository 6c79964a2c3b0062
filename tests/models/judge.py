"""The independent verdict on a compiled folder: onnxruntime on the whole and on the parts, and merging back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import onnx_ir as ir

from gerules.graph.dims import DimFacts
from gerules.partition.merge import merge_folder
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


def merges_back(border: Path) -> bool:
    """Whether the border-node form alone gives model.onnx byte for byte."""
    return merge_folder(_alone(border)) == (border / "model.onnx").read_bytes()


def _alone(folder: Path) -> Path:
    """The border-node partitions without what merging must do without."""
    copy = folder.parent / "alone"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    for name in ("manifest.json", "model.onnx"):
        (copy / name).unlink()
    return copy
