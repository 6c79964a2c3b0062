"""onnxruntime as an independent judge, for tests and benchmarks: no optimisation, one thread."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx
import onnx_ir as ir

from gerules.simulate.values import Value


def run_onnxruntime(model: ir.Model | onnx.ModelProto | str | Path, feeds: Mapping[str, Value]) -> dict[str, Value]:
    """The outputs that onnxruntime gives by name, with all its optimisations off and one thread.

    onnxruntime's own optimiser changes quantised models visibly, and threads change the order of sums. Raises what
    onnxruntime raises.
    """
    import onnxruntime  # type: ignore[import-untyped]  # no stubs; a test dependency

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if isinstance(model, ir.Model):
        model = ir.serde.serialize_model(model)
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))
