"""Small models and an in-process run of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
import onnx.parser
from click.testing import CliRunner, Result

from gerules.cli.main import main

GATE = """<ir_version: 10, opset_import: ["" : 17]>
gate (float[N, 64] x, float[N, 64] y) => (float[N, 64] z)
{
   [sig] s = Sigmoid (x)
   [re] r = Relu (s)
   [same] i = Identity (r)
   [mul] z = Mul (i, y)
}"""

BODIES = """<ir_version: 10, opset_import: ["" : 17]>
bodies (float[2, 3] x, bool c) => (float[2, 3] y)
{
   [neg] n = Neg (x)
   [pick] p = If <then_branch = t () => (float[2, 3] a) {
      [t1] ta = Identity (n)
      [t2] a = Abs (ta)
   }, else_branch = e () => (float[2, 3] b) {
      [e1] b = Identity (x)
   }> (c)
   [re] y = Relu (p)
}"""

GATE_RULES = """opset ai.onnx 17

"A sigmoid is never negative."
rewrite relu_sigmoid: Relu(Sigmoid(x)) => Sigmoid(x)
example relu_sigmoid: Relu(Sigmoid(x: f32[M, N])) => Sigmoid(x)
"""

WRONG_RULES = """opset ai.onnx 17
"Not true."
rewrite wrong: Relu(Sigmoid(x)) => Relu(x)
"""


def write_model(folder: Path, text: str = GATE, name: str = "model.onnx") -> Path:
    path = folder / name
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def write_text(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def gerules(*arguments: str | Path) -> Result:
    """Runs a command; nothing but an exit may come out of it."""
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def names(path: Path) -> Sequence[str]:
    return [n.name for n in onnx.load(path).graph.node]


def everything(folder: Path) -> list[str]:
    """All files below a folder, to see that nothing half-written is left."""
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
