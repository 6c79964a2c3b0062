"""Models of other people (`python -m tests.fetch`) to older and newer opsets and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from report_judge import session

from gerules.errors import Refused
from gerules.pipeline import Options, convert_model
from gerules.simulate.compare import compare
from tests.fetch import model

pytestmark = pytest.mark.fetched

MODELS = {
    ("rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx"): (),
    ("rapidocr-onnxruntime", "ch_PP-OCRv4_rec_infer.onnx"): (),
    ("rapidocr-onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx"): (),
    ("onnx-asr", "resample_8_16.onnx"): (),
    ("pipecat-ai", "silero_vad.onnx"): ("input[0]=1", "input[1]=576", "state[1]=1"),
}


@pytest.mark.parametrize("name", MODELS, ids=lambda name: name[1])
@pytest.mark.parametrize("opset", [17, 21, onnx.defs.onnx_opset_version()])
def test_there_and_back(name: tuple[str, str], opset: int, tmp_path: Path) -> None:
    source, there, back = model(*name), tmp_path / "there.onnx", tmp_path / "back.onnx"
    options = Options(at=MODELS[name])
    base = next(i.version for i in onnx.load(source).opset_import if i.domain == "")
    assert convert_model(source, there, opset, options).verdict.ok
    assert convert_model(there, back, base, options).verdict.ok


def speech(name: str) -> tuple[Path, int, dict[str, np.ndarray]]:
    """A model of features of speech, its opset, and noise for it."""
    source = model("onnx-asr", name)
    base = next(i.version for i in onnx.load(source).opset_import if i.domain == "")
    noise = np.random.default_rng(0).standard_normal((1, 16000)).astype(np.float32) * np.float32(0.1)
    return source, base, {"waveforms": noise, "waveforms_lens": np.array([16000])}


@pytest.mark.parametrize("name", ["nemo80.onnx", "nemo128.onnx", "kaldi.onnx", "gigaam_v3.onnx", "whisper80.onnx"])
@pytest.mark.parametrize("opset", [18, 21, onnx.defs.onnx_opset_version()])
def test_features_of_speech(name: str, opset: int, tmp_path: Path) -> None:
    there, back = tmp_path / "there.onnx", tmp_path / "back.onnx"
    source, base, feeds = speech(name)
    assert convert_model(source, there, opset).verdict.ok
    assert convert_model(there, back, base).verdict.ok
    want = session(onnx.load(source)).run(None, feeds)
    for path in (there, back):
        for got, value in zip(session(onnx.load(path)).run(None, feeds), want, strict=True):
            assert compare(got, value).equal


@pytest.mark.parametrize("name", ["nemo80_conv.onnx", "kaldi_conv.onnx", "gigaam_v2_conv.onnx", "whisper80_conv.onnx"])
def test_features_of_speech_by_convolution_go_further_down(name: str, tmp_path: Path) -> None:
    there, back = tmp_path / "there.onnx", tmp_path / "back.onnx"
    source, base, feeds = speech(name)
    assert convert_model(source, there, 13).verdict.ok
    assert convert_model(there, back, base).verdict.ok
    want = session(onnx.load(source)).run(None, feeds)
    for path in (there, back):
        for got, value in zip(session(onnx.load(path)).run(None, feeds), want, strict=True):
            assert compare(got, value).equal


@pytest.mark.parametrize("name", ["nemo80.onnx", "gigaam_v3.onnx", "whisper80.onnx", "wespeaker.onnx"])
def test_the_fourier_transform_is_of_opset_17(name: str, tmp_path: Path) -> None:
    source, _, _ = speech(name)
    with pytest.raises(Refused) as caught:
        convert_model(source, tmp_path / "out.onnx", 13)
    assert {d.message.partition("@")[0] for d in caught.value.diagnostics} <= {"STFT", "DFT"}
    assert "is new at opset 17, and nothing says what it is by other operators" in caught.value.diagnostics[0].message
