"""Models of other people (`python -m tests.fetch`): they compile for both targets and agree with onnxruntime."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from report_judge import session

from gerules.pipeline import Options, compile_model
from gerules.simulate.compare import compare
from tests.fetch import model

pytestmark = pytest.mark.fetched


def silero_inputs(rate: int) -> dict[str, np.ndarray]:
    """One window of speech-like noise: 512 samples at 16 kHz, 256 at 8 kHz, with the context that comes before."""
    generator = np.random.default_rng(rate)
    samples = {16000: 512 + 64, 8000: 256 + 32}[rate]
    return {
        "input": generator.standard_normal((1, samples)).astype(np.float32) * np.float32(0.1),
        "state": generator.standard_normal((2, 1, 128)).astype(np.float32) * np.float32(0.1),
        "sr": np.array(rate, np.int64),
    }


@pytest.mark.parametrize("target", ["ascend", "generic"])
def test_silero_at_both_sample_rates(target: str, tmp_path: Path) -> None:
    source, out = model("pipecat-ai", "silero_vad.onnx"), tmp_path / "out"
    report = compile_model(source, target, out, Options(at=("input[0]=1", "input[1]=576", "state[1]=1")))
    assert report.verdict.ok
    assert report.nodes_after < report.nodes_before / 2
    original, whole = session(onnx.load(source)), session(onnx.load(out / "model.onnx"))
    manifest = json.loads((out / "manifest.json").read_text())
    names = [o.name for o in original.get_outputs()]
    for rate in (16000, 8000):
        feeds = silero_inputs(rate)
        want = dict(zip(names, original.run(names, feeds), strict=True))
        got = dict(zip(names, whole.run(names, feeds), strict=True))
        values = dict(feeds)
        for cluster in manifest["clusters"]:
            part = session(onnx.load(out / cluster["file"]))
            results = part.run(cluster["outputs"], {k: values[k] for k in cluster["inputs"]})
            values.update(zip(cluster["outputs"], results, strict=True))
        for name in names:
            assert compare(got[name], want[name]).equal
            assert compare(values[name], want[name]).equal
