"""The short-time Fourier transform against onnxruntime, real and complex, with and without its optional operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

from gerules.errors import GerulesError
from gerules.simulate import evaluate_node

STEP = np.array(3, np.int64)
WINDOW = np.hanning(8)


def by_runtime(operands: list[Any], onesided: int) -> Any:
    names = ["" if value is None else f"i{place}" for place, value in enumerate(operands)]
    node = helper.make_node("STFT", names, ["y"], onesided=onesided)
    element = helper.np_dtype_to_tensor_dtype(operands[0].dtype)
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in zip(names, operands, strict=True)
        if v is not None
    ]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", element, [None] * 4)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {n: v for n, v in zip(names, operands, strict=True) if v is not None})[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("shape", "onesided"),
    [((2, 20), 1), ((9, 20), 0), ((2, 20, 1), 0), ((2, 20, 1), 1), ((1, 8, 1), 1), ((2, 20, 2), 0)],
)
@pytest.mark.parametrize("optional", [("window",), ("length",), ("window", "length")])
def test_as_the_runtime(dtype: type, shape: tuple[int, ...], onesided: int, optional: tuple[str, ...]) -> None:
    signal = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    window = WINDOW.astype(dtype) if "window" in optional else None
    length = np.array(8, np.int64) if "length" in optional else None
    operands = [signal, STEP, window, length]
    [ours] = evaluate_node("", "STFT", 17, {"onesided": onesided}, operands, 1)
    want = by_runtime(operands, onesided)
    assert ours.dtype == want.dtype and ours.shape == want.shape
    assert np.allclose(ours, want, rtol=1e-4, atol=1e-5)


def test_a_frame_that_is_too_long_is_said() -> None:
    for window, length, words in ((None, 21, "frames of 21"), (WINDOW, 7, "a window of 8")):
        operands = [np.zeros((1, 20, 1), np.float32), STEP, window, np.array(length)]
        with pytest.raises(GerulesError) as caught:
            evaluate_node("", "STFT", 17, {}, operands, 1)
        assert words in caught.value.diagnostics[0].message
