"""Models of other people (`python -m tests.fetch`) to older and newer opsets and back."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from gerules.pipeline import Options, convert_model
from tests.fetch import model

pytestmark = pytest.mark.fetched

MODELS = {
    ("rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx"): (),
    ("rapidocr-onnxruntime", "ch_PP-OCRv4_rec_infer.onnx"): (),
    ("rapidocr-onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx"): (),
    ("onnx-asr", "nemo80.onnx"): (),
    ("onnx-asr", "kaldi.onnx"): (),
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
