"""Small models for the tests, from ONNX text."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir

from gerules.graph.io import load_model

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'


def parse(text: str, head: str = HEAD) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"{head} {text}")


def write(proto: onnx.ModelProto, folder: Path, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(proto.SerializeToString())
    return path


def load(text: str, folder: Path, head: str = HEAD) -> ir.Model:
    return load_model(write(parse(text, head), folder))


IF_MODEL = """g (float[N,4] x, bool c) => (float[N,4] y) {
    h = Relu(x)
    y = If(c) <
        then_branch = then_graph () => (float[N,4] t) { t = Add(h, h) },
        else_branch = else_graph () => (float[N,4] e) { e0 = Neg(h) e = Abs(e0) }
    >
}"""
