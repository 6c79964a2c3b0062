"""A seeded sample of the onnx package's one-operator models, to opsets up and down: none wrong, none invalid."""

from __future__ import annotations

from convert_cases import sample, verdict

SIZE, SEED = 150, 0
LEAST_OK = 100
"""How many of the sample are converted at least; the rest are refused (operators that the target cannot express)."""


def test_a_sample_of_one_operator_models() -> None:
    found = [(case.name, case.opset, target, *verdict(case, target)) for case, target in sample(SIZE, SEED)]
    bad = [f for f in found if f[3] in ("wrong", "invalid")]
    assert not bad, bad
    refused_up = [f for f in found if f[3] == "refused" and f[2] > f[1]]
    assert not refused_up, refused_up
    assert sum(f[3] == "ok" for f in found) >= LEAST_OK, [f for f in found if f[3] != "ok"]
