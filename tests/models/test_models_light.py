"""The nine light CNNs of the onnx package, compiled for both targets (a long sweep)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from gerules.graph import load_model
from gerules.pipeline import Options, compile_model
from gerules.simulate import Simulator, make_inputs
from tests.models.judge import judge, merges_back
from tests.models.light import NAMES, randomised

SMALL = ("light_squeezenet", "light_shufflenet")


def compiled_is_right(name: str, target: str, folder: Path) -> None:
    path = folder / f"{name}.onnx"
    onnx.save(randomised(name), str(path))
    model = load_model(path)
    first, second = (Simulator(model).run(make_inputs(model, {}, seed)) for seed in (0, 1))
    assert all(not np.allclose(first[k], second[k], rtol=1e-4, atol=1e-6) for k in first), "the input has no effect"
    compile_model(path, target, folder / "out")
    verdict, _ = judge(path, folder / "out", model)
    assert verdict == "equal"
    manifest = json.loads((folder / "out" / "manifest.json").read_text())
    assert manifest["cost"]["after"] <= manifest["cost"]["before"]
    compile_model(path, target, folder / "border", Options(border_nodes=True, validate=False))
    assert merges_back(folder / "border")


@pytest.mark.parametrize("target", ["ascend", "generic"])
@pytest.mark.parametrize("name", SMALL)
def test_small_ones_compile_and_stay_right(name: str, target: str, tmp_path: Path) -> None:
    compiled_is_right(name, target, tmp_path)


@pytest.mark.sweep
@pytest.mark.parametrize("target", ["ascend", "generic"])
@pytest.mark.parametrize("name", [n for n in NAMES if n not in SMALL])
def test_all_compile_and_stay_right(name: str, target: str, tmp_path: Path) -> None:
    compiled_is_right(name, target, tmp_path)
