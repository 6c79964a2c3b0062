"""Two runs give identical bytes, whatever the hash seed; only the times differ."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MODEL = Path(__file__).parents[1] / "data" / "models" / "seresnet50_ts_op8.onnx"
RUN = """
import sys
from gerules.pipeline import Options, compile_model
model, folder = sys.argv[1:]
compile_model(model, "ascend", f"{folder}/out", Options(at=("batch=1",), seeds=(0,), border_nodes=True))
"""


def run(folder: Path, seed: str) -> dict[str, bytes]:
    folder.mkdir()
    command = [sys.executable, "-c", RUN, str(MODEL), str(folder)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": seed})
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.name != "timing.json"
    }


def test_two_runs_give_identical_bytes(tmp_path: Path) -> None:
    first, second = run(tmp_path / "a", "1"), run(tmp_path / "b", "4242")
    assert first.keys() == second.keys()
    assert len(first) > 20
    assert [name for name in first if first[name] != second[name]] == []
