"""The 1,884 one-operator models of the onnx package: both kernel modes give the outputs that come with them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from gerules.simulate.compare import compare
from gerules.simulate.engine import Simulator
from gerules.simulate.faults import SimulationFault
from gerules.simulate.kernel import NodeSpec
from gerules.simulate.schema import find_schema
from gerules.simulate.selection import Selector
from gerules.simulate.values import describe, normalise

# Draws of these depend on the generator: only types and shapes are compared.
RANDOM = {f"test_bernoulli{kind}{form}" for kind in ("", "_double", "_seed") for form in ("", "_expanded")} | {
    f"test_training_dropout{kind}" for kind in ("", "_default", "_mask", "_default_mask")
}


def _value(proto: Any) -> Any:
    if isinstance(proto, onnx.TensorProto):
        return numpy_helper.to_array(proto)
    if isinstance(proto, onnx.SequenceProto):
        return numpy_helper.to_list(proto)
    if isinstance(proto, onnx.OptionalProto):
        return numpy_helper.to_optional(proto)
    return proto


@pytest.fixture(scope="module")
def cases() -> list[Any]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return list(collect_testcases(None))


@pytest.mark.parametrize("mode", ["fast", "reference"])
def test_every_node_case(cases: list[Any], mode: Any) -> None:
    assert len(cases) >= 1884
    wrong: dict[str, str] = {}
    for case in cases:
        for feeds, outputs in case.data_sets:
            given = {v.name: _value(x) for v, x in zip(case.model.graph.input, feeds, strict=False)}
            got = list(Simulator(case.model, kernels=mode).run(given).values())
            for value, proto in zip(got, outputs, strict=True):
                expected = normalise(_value(proto))
                if case.name in RANDOM:
                    equal, reason = describe(value) == describe(expected), "another type"
                else:
                    verdict = compare(value, expected)
                    # Some cases have outputs that were rounded by hand, and say how far.
                    rounded = verdict.index is not None and verdict.max_rel <= case.rtol
                    equal, reason = verdict.equal or rounded, str(verdict)
                if not equal:
                    wrong[case.name] = reason
    assert wrong == {}


def test_every_operator_of_every_version_has_a_kernel() -> None:
    """Kernels are made with the defaults of their version and whatever else is required; Gradient is a transformation
    of the whole graph."""
    required: dict[str, dict[str, Any]] = {
        "BitShift": {"direction": "LEFT"},
        "Cast": {"to": 1},
        "Constant": {"value": np.zeros(1, np.float32)},
        "MaxRoiPool": {"pooled_shape": (1, 1)},
    }
    made = {1: 1.0, 2: 1, 3: "x", 4: np.ones(1, np.float32), 6: (1.0,), 7: (1,), 8: ("x",)}
    missing = []
    count = 0
    for raw in onnx.defs.get_all_schemas_with_history():
        schema = find_schema(raw.domain, raw.name, raw.since_version)
        if raw.deprecated or schema is None or raw.name in ("If", "Loop", "Scan", "SequenceMap"):
            continue
        attributes = dict(schema.defaults)
        for name, attribute in raw.attributes.items():
            if attribute.required and int(attribute.type.value) in made:
                attributes[name] = made[int(attribute.type.value)]
        attributes.update(required.get(raw.name, {}))
        if raw.name == "Cast" and raw.since_version < 6:
            attributes["to"] = "FLOAT"
        operands, results = max(raw.min_input, 1), max(raw.min_output, 1)
        spec = NodeSpec(
            raw.domain, raw.name, raw.since_version, raw.since_version, "n", attributes, operands, results,
            (True,) * results,
        )  # fmt: skip
        count += 1
        try:
            Selector()(spec)
        except SimulationFault as fault:
            if fault.diagnostics[0].code == "GR411":  # others find fault with the attributes
                missing.append(f"{raw.name}@{raw.since_version}: {fault}")
    assert count > 600
    assert [m.split("@")[0] for m in missing] == ["Gradient"], missing


def _stored_cases() -> list[Any]:
    from pathlib import Path

    data = Path(onnx.__file__).parent / "backend" / "test" / "data"
    return sorted(p.parent for p in data.glob("*/*/model.onnx") if "gradient" not in p.parent.name)


def _stored(path: Any, kind: Any) -> Any:
    content = path.read_bytes()
    if kind.WhichOneof("value") == "sequence_type":
        return _value(onnx.SequenceProto.FromString(content))
    return _value(onnx.TensorProto.FromString(content))


def test_models_that_the_onnx_package_stores() -> None:
    """Small exports of old PyTorch, opsets 6 to 12, with inputs and outputs: what onnxruntime no longer runs."""
    folders = _stored_cases()
    assert len(folders) >= 130
    wrong = {}
    for folder in folders:
        model = onnx.load(folder / "model.onnx")
        simulator = Simulator(model)
        for data in sorted(folder.glob("test_data_set_*")):
            feeds = {
                v.name: _stored(data / f"input_{k}.pb", v.type)
                for k, v in enumerate(model.graph.input)
                if (data / f"input_{k}.pb").exists()
            }
            got = simulator.run(feeds)
            for k, output in enumerate(model.graph.output):
                verdict = compare(got[output.name], normalise(_stored(data / f"output_{k}.pb", output.type)))
                if not verdict.equal:
                    wrong[folder.name] = str(verdict)
    assert wrong == {}
