"""Random nodes of every version that onnxruntime has: both kernel modes give what it gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulate_node_generators import GENERATORS, Draw, model_of

from gerules.simulate.compare import compare
from gerules.simulate.engine import evaluate_node
from gerules.simulate.ort import run_onnxruntime

_CASES = [(op, version) for op, (_, versions) in sorted(GENERATORS.items()) for version in versions]


@pytest.mark.parametrize(("op", "version"), _CASES, ids=lambda v: str(v))
def test_every_version_agrees_with_onnxruntime(op: str, version: int) -> None:
    generate = GENERATORS[op][0]
    for seed in range(3):
        _agrees(op, version, generate, seed)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(case=st.sampled_from(_CASES), seed=st.integers(10, 2**32))
def test_random_nodes_agree_with_onnxruntime(case: tuple[str, int], seed: int) -> None:
    op, version = case
    _agrees(op, version, GENERATORS[op][0], seed)


def _agrees(op: str, version: int, generate: object, seed: int) -> None:
    node = generate(Draw(seed), version)  # type: ignore[operator]
    model, feeds = model_of(op, version, node)
    try:
        wanted = run_onnxruntime(model, feeds)
    except Exception as error:
        # onnxruntime lacks some types at some versions; any other refusal is a fault of the generator.
        assert "NOT_IMPLEMENTED" in str(error), (op, version, seed, str(error))
        return
    operands = [None if x is None else np.asarray(x) for x in node.operands]
    for mode in ("fast", "reference"):
        got = evaluate_node("", op, version, node.attributes, operands, node.results, kernels=mode)
        for k, value in enumerate(got):
            verdict = compare(value, wanted[f"o{k}"])
            assert verdict.equal, (op, version, mode, seed, k, verdict, node.attributes)
