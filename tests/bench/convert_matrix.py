"""Whole models to other opsets and back: nodes, CPU seconds, the error against onnxruntime, or the refusal.

    python -m tests.bench.convert_matrix [MODEL.onnx ...] [--fetched] [--light] [--opset 13 ...] [-o FILE.csv]

A line for each model and opset, and one for the way back. The original, the result and what comes back of it run in
onnxruntime, its optimiser off, on the same seeded inputs (`FEEDS` says which where random ones do not fit);
`--fetched` takes the models of `python -m tests.fetch`, `--light` the CNNs of the onnx package with random weights.
Where the runtime has no kernel for a result, its words are in the line, and ONNX's reference evaluator is asked.
"""

from __future__ import annotations

import csv
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx

from gerules.errors import GerulesError
from gerules.pipeline import Options, convert_model
from gerules.simulate.compare import compare

sys.path.insert(0, str(Path(__file__).parents[1] / "pipeline"))

NEWEST = onnx.defs.onnx_opset_version()
SPEECH = {"waveforms": (1, 16000), "waveforms_lens": 16000}
FEEDS: Mapping[str, Mapping[str, Any]] = {
    "silero_vad": {"input": (1, 576), "state": (2, 1, 128), "sr": 16000},
    "smart-turn-v3.2-cpu": {"input_features": (1, 80, 800)},
    "ch_PP-OCRv4_det_infer": {"x": (1, 3, 64, 64)},
    "ch_PP-OCRv4_rec_infer": {"x": (1, 3, 48, 96)},
    "ch_ppocr_mobile_v2.0_cls_infer": {"x": (1, 3, 48, 192)},
    "unet_attn_ts_op13": {"x": (1, 3, 32, 32), "t": 3},
    "unet_attn_ts_op13_qdq": {"x": (1, 3, 32, 32), "t": 3},
}
"""What inputs are where random ones of extent 2 do not fit: an extent of each axis, or a number that it holds."""
AT: Mapping[str, tuple[str, ...]] = {"silero_vad": ("input[0]=1", "input[1]=576", "state[1]=1")}


@dataclass(frozen=True)
class Row:
    """`verdict` is what `convert` says of the result, `runtime` what onnxruntime says: the largest error, or its words.
    A refusal has no nodes; `refusals` counts its nodes and `reason` is the first."""

    model: str
    source: int
    target: int
    way: str
    nodes_before: int | None = None
    nodes_after: int | None = None
    seconds: float | None = None
    verdict: str = ""
    runtime: str = ""
    refusals: int = 0
    reason: str = ""


def opset_of(model: onnx.ModelProto) -> int:
    return next(i.version for i in model.opset_import if i.domain in ("", "ai.onnx"))


def feeds_of(name: str, model: onnx.ModelProto) -> dict[str, Any]:
    """Seeded inputs for a model: normal numbers (of 0.1 for speech), whole ones 0 or 1."""
    random = np.random.default_rng(0)
    constant = {t.name for t in model.graph.initializer}
    given = FEEDS.get(name, {})
    feeds: dict[str, Any] = {}
    for value in model.graph.input:
        if value.name in constant:
            continue
        kind = value.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        asked = SPEECH.get(value.name, given.get(value.name))
        extents = [d.dim_value if d.dim_value > 0 else 2 for d in kind.shape.dim]
        if isinstance(asked, int):
            feeds[value.name] = np.full([1] * len(extents), asked, dtype)
            continue
        shape = list(asked) if asked is not None else extents
        if dtype.kind in "iub":
            feeds[value.name] = random.integers(0, 2, shape).astype(dtype)
        else:
            scale = 0.1 if value.name in SPEECH else 1.0
            feeds[value.name] = (random.standard_normal(shape) * scale).astype(dtype)
    return feeds


def by_runtime(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> tuple[Sequence[Any] | None, str]:
    """What onnxruntime makes of the model, or its words."""
    from report_judge import session

    try:
        return list(session(model).run(None, dict(feeds))), ""
    except Exception as fault:  # kinds of the runtime's own
        return None, " ".join(str(fault).split())[:160]


def by_reference(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> Sequence[Any] | None:
    """What ONNX's reference evaluator makes of the model; None where it lacks an operator."""
    from onnx.reference import ReferenceEvaluator

    try:
        return list(ReferenceEvaluator(model).run(None, dict(feeds)))
    except Exception:  # it raises what its kernels raise
        return None


def judged(model: onnx.ModelProto, original: onnx.ModelProto, feeds: Mapping[str, Any], want: Sequence[Any]) -> str:
    """`0`, `1.2e-06` for equal within tolerance, else what differs. Where the runtime has no kernel for the result both
    are given to the reference evaluator: its numbers are compared with its own."""
    got, said = by_runtime(model, feeds)
    where = ""
    if got is None:
        got, reference = by_reference(model, feeds), by_reference(original, feeds)
        if got is None or reference is None:
            return f"not run: {said}"
        want, where = reference, f" (in the reference evaluator; the runtime: {said})"
    found = [compare(g, w) for g, w in zip(got, want, strict=True)]
    for item in found:
        if not item.equal:
            return f"DIFFERS by {item.max_abs:.2g}: {item.reason or item.index}{where}"
    return f"{max((f.max_abs for f in found), default=0.0):.2g}{where}"


@dataclass(frozen=True)
class Subject:
    """A model, inputs for it, and what onnxruntime makes of them."""

    name: str
    original: onnx.ModelProto
    feeds: Mapping[str, Any]
    want: Sequence[Any]

    def way(self, path: Path, out: Path, target: int, label: str) -> Row:
        source = opset_of(onnx.load(path, load_external_data=False))
        started = time.process_time()
        try:
            made = convert_model(path, out, target, Options(at=AT.get(self.name, ()), force=True))
        except GerulesError as refused:
            said = refused.diagnostics
            seconds = round(time.process_time() - started, 2)
            reason = f"{said[0].code} {said[0].node or ''}: {said[0].message}"
            return Row(self.name, source, target, label, seconds=seconds, refusals=len(said), reason=reason)
        seconds = round(time.process_time() - started, 2)
        verdict = "; ".join((made.verdict.text, *made.verdict.notes))[:200]
        runtime = judged(onnx.load(out), self.original, self.feeds, self.want)
        return Row(self.name, source, target, label, made.nodes_before, made.nodes_after, seconds, verdict, runtime)


def rows_of(path: Path, opsets: Sequence[int]) -> list[Row]:
    name = path.stem
    model = onnx.load(path)
    feeds = feeds_of(name, model)
    want, said = by_runtime(model, feeds)
    base = opset_of(model)
    if want is None:
        return [Row(name, base, base, "to", runtime=f"the original is not run: {said}")]
    subject = Subject(name, model, feeds, want)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        there, back = Path(folder) / f"{name}.onnx", Path(folder) / "back.onnx"
        for opset in opsets:
            if opset == base:
                continue
            rows.append(subject.way(path, there, opset, "to"))
            report(rows[-1])
            if rows[-1].nodes_after is not None:
                rows.append(subject.way(there, back, base, "back"))
                report(rows[-1])
    return rows


def report(row: Row) -> None:
    changed = f"{row.nodes_before}->{row.nodes_after}" if row.nodes_after is not None else f"REFUSED {row.refusals}"
    said = row.reason or f"{row.verdict} | runtime {row.runtime}"
    click.echo(f"{row.model:30} {row.source:2} {row.way:4} {row.target:2} {changed:14} {row.seconds:6} s  {said}")


@click.command()
@click.argument("models", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--fetched", is_flag=True, help="The models of `python -m tests.fetch`.")
@click.option("--light", is_flag=True, help="The light CNNs of the onnx package.")
@click.option("--opset", "opsets", multiple=True, type=int, default=(13, 17, 21, NEWEST), show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The rows as CSV.")
def main(models: tuple[Path, ...], fetched: bool, light: bool, opsets: tuple[int, ...], output: Path | None) -> None:
    from tests.fetch import cache
    from tests.models.light import NAMES, randomised

    paths = list(models)
    if fetched:
        paths += sorted(cache().glob("*/*.onnx"))
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES if light else ():
            paths.append(Path(folder) / f"{name}.onnx")
            onnx.save(randomised(name), paths[-1])
        for path in paths:
            rows += rows_of(path, opsets)
    if output is not None:
        with output.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([f.name for f in fields(Row)])
            writer.writerows(astuple(row) for row in rows)
    refused = sum(row.refusals > 0 for row in rows)
    wrong = sum("DIFFERS" in row.runtime for row in rows)
    click.echo(f"{len(rows)} conversions: {refused} refused, {wrong} differ")


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
