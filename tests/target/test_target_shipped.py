"""The shipped targets and flops facts, on nodes calculated by hand (CONTRACTS, Cost)."""

from __future__ import annotations

from functools import cache

import pytest
from target_helpers import graph

from gerules.dsl.program import Program, check_program, shipped_sources
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.target import PlainCost, load_target, target_names


@cache
def shipped() -> Program:
    made, found = check_program(shipped_sources(), onnx_registry(), {*known_functions(), "body", "evaluate"})
    assert [d for d in found if d.severity == "error"] == []
    return made


def test_the_shipped_targets() -> None:
    assert target_names(shipped()) == ("ascend", "generic")
    ascend = load_target(shipped(), "ascend")
    assert ascend.engines[:2] == ("AiCore", "AiVector")
    assert ascend.composite_of == {"AiCore": "AiCube", "AiVector": "AiCube"}
    assert ascend.attached == {"HostCpu"}
    assert load_target(shipped(), "generic").engines == ("Npu", "Gpu", "Cpu")


@pytest.mark.parametrize("name", ["ascend", "generic"])
def test_every_operator_of_the_registry_is_taken_at_every_version(name: str) -> None:
    """By some clause that asks nothing of operands: a fake node of which nothing is known."""
    from gerules.graph.info import UNKNOWN
    from gerules.registry.definition import OperatorDef
    from gerules.static import TensorView

    class Bare:
        def operator(self, node: OperatorDef) -> OperatorDef:
            return node

        def attributes(self, node: OperatorDef) -> dict[str, str]:
            return {a.name: a.default or "" for a in node.attributes}

        def operands(self, node: OperatorDef) -> tuple[str, ...]:
            return tuple(o.name for o in node.inputs)

        def results(self, node: OperatorDef) -> tuple[str, ...]:
            return tuple(o.name for o in node.outputs)

        def producers(self, value: str) -> tuple[OperatorDef, ...]:
            return ()

        def tensor(self, value: str) -> TensorView:
            return TensorView(UNKNOWN)

    registry, target, view = onnx_registry(), load_target(shipped(), name), Bare()
    definitions = [
        registry.definition("", op, since) for op in registry.names("") for since in registry.versions("", op)
    ]
    live = [d for d in definitions if not d.deprecated]
    assert len(live) > 400
    assert [d.key for d in live if not any(target.supported(view, d))] == []
    assert target.unsupported(view, [OperatorDef("com.example", "Foreign", "", (), (), ())]) == ()


X = "float[1,8,16,16] x"


@pytest.mark.parametrize(
    ("text", "flops"),
    [
        ("g (float[3,4,5] x, float[5,6] w) => (float[3,4,6] y) { [n] y = MatMul(x, w) }", 2 * 3 * 4 * 6 * 5),
        (
            "g (float[5,4] x, float[6,5] w) => (float[4,6] y) { [n] y = Gemm <transA = 1, transB = 1> (x, w) }",
            2 * 24 * 5,
        ),
        ("g (float[4,5] x, float[5,6] w) => (float[4,6] y) { [n] y = Gemm(x, w) }", 2 * 24 * 5),
        (f"g ({X}, float[4,8,3,3] w) => (float[1,4,14,14] y) {{ [n] y = Conv(x, w) }}", 2 * 4 * 196 * 8 * 9),
        (
            f"g ({X}, float[4,2,3,3] w) => (float[1,4,14,14] y) {{ [n] y = Conv <group = 4> (x, w) }}",
            2 * 4 * 196 * 2 * 9,
        ),
        (f"g ({X}, float[8,4,2,2] w) => (float[1,4,17,17] y) {{ [n] y = ConvTranspose(x, w) }}", 2 * 2048 * 4 * 4),
        (f"g ({X}) => (float[1,8,1,1] y) {{ [n] y = ReduceMean(x) }}", 2048),
        (f"g ({X}) => (float[1,8,16,16] y) {{ [n] y = Relu(x) }}", 2048),
        (f"g ({X}) => (float[8,16,16,1] y) {{ [n] y = Transpose <perm = [1, 2, 3, 0]> (x) }}", 0),
        (f"g ({X}) => (float[1,2048] y) {{ [n] y = Flatten(x) }}", 0),
        (f"g ({X}) => (float[1,8,8,8] y) {{ [n] y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) }}", 512 * 4),
        (
            '<ir_version: 3, opset_import: ["" : 8]>\n'
            "g (float[2,3] x, float[3] w) => (float[2,3] y) { [n] y = Add(x, w) }",
            6,
        ),
        (
            "g (float[2,3,4] x, float[2,4,5] w) => (float[2,3,5] y)"
            ' { [n] y = Einsum <equation = "bij,bjk->bik"> (x, w) }',
            2 * 2 * 3 * 4 * 5,
        ),
    ],
)
def test_flops_by_the_shipped_facts(text: str, flops: float) -> None:
    g = graph(text)
    assert PlainCost(shipped()).cost(g.view, g.nodes["n"])[2] == flops
