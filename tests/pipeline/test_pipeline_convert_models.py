"""Whole models to other opsets and back: the same numbers in onnxruntime; seldom models keep what is seldom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from report_judge import session
from test_pipeline_models import HEAD, MODELS

from gerules.pipeline import Options, convert_model
from gerules.simulate.compare import compare

DATA = Path(__file__).parent.parent / "data" / "models"
NEWEST = onnx.defs.onnx_opset_version()


def feeds_of(model: onnx.ModelProto, at: int) -> dict[str, np.ndarray]:
    """Random inputs; every symbolic extent is `at`."""
    generator = np.random.default_rng(0)
    constant = {t.name for t in model.graph.initializer}
    feeds: dict[str, np.ndarray] = {}
    for value in model.graph.input:
        if value.name in constant:
            continue
        kind = value.type.tensor_type
        shape = [d.dim_value or at for d in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        feeds[value.name] = (
            generator.integers(0, 2, shape).astype(dtype)
            if dtype.kind in "iub"
            else generator.normal(size=shape).astype(dtype)
        )
    return feeds


def outputs(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[Any]:
    return list(session(model).run(None, feeds))


@pytest.mark.parametrize(("name", "opset"), [("bert12_ts_op14", 13), ("bert12_ts_op14", 21), ("seresnet50_ts_op8", 17)])
def test_there_and_back(name: str, opset: int, tmp_path: Path) -> None:
    source, there, back = DATA / f"{name}.onnx", tmp_path / "there.onnx", tmp_path / "back.onnx"
    before = onnx.load(source)
    base = next(i.version for i in before.opset_import if i.domain == "")
    assert convert_model(source, there, opset).verdict.ok
    assert convert_model(there, back, base).verdict.ok
    feeds = feeds_of(before, 4)
    want = outputs(before, feeds)
    for path, version in ((there, opset), (back, base)):
        after = onnx.load(path)
        onnx.checker.check_model(after)
        assert next(i.version for i in after.opset_import if i.domain == "") == version
        for got, value in zip(outputs(after, feeds), want, strict=True):
            assert compare(got, value).equal


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("opset", [13, 18, NEWEST])
def test_seldom_models(name: str, opset: int, tmp_path: Path) -> None:
    source, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(onnx.parser.parse_model(HEAD + MODELS[name][0]), source)
    report = convert_model(source, out, opset, Options())
    assert report.verdict.ok or report.verdict.partial
    after, before = onnx.load(out), onnx.load(source)
    assert next(i.version for i in after.opset_import if i.domain == "") == opset
    assert [v.name for v in after.graph.output] == [v.name for v in before.graph.output]
    assert {n.domain for n in after.graph.node} == {n.domain for n in before.graph.node}
