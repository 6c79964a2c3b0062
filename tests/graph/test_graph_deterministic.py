"""The same texts, diagnostics and bytes whatever the hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from graph_models import IF_MODEL, parse, write

PROGRAM = """
import sys
from gerules.errors import Refused
from gerules.graph.check import check_proto
from gerules.graph.facts import infer_facts, infer_node
from gerules.graph.dims import Dim, DimFacts, likely_values
from gerules.graph.io import load_model, name_nodes, to_proto
from gerules.registry import onnx_registry
import onnx

model = load_model(sys.argv[1])
name_nodes(model)
facts = DimFacts.from_flags(["N=1..8"], ["M == 2*N", "K == M", "H % 4 == 0"])
print([(value.name, info.text) for value, info in infer_facts(model, facts).items()])
print(to_proto(model).SerializeToString(deterministic=True).hex())
print([facts.known(Dim.parse(text)).text for text in ("K+M", "max(A,B,C)*N", "broadcast(K,X)")])
print(likely_values(facts.symbols(), facts))
print([str(d) for d in check_proto(onnx.parser.parse_model(sys.argv[2]))])
print(sorted(onnx_registry().lookup("", "Clip", 13).inputs[0].types), onnx_registry().names("")[:5])
"""
FAULTY = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N] x, double[N] z) => (float[N] y) { y = Rellu(x) b = Add(x, z) }"""


def test_two_hash_seeds(tmp_path: Path) -> None:
    path = write(parse(IF_MODEL), tmp_path)
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(path), FAULTY],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    (output,) = outputs
    assert "then_graph" not in output.splitlines()[0] and "f32[N,4]" in output
