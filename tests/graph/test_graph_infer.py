"""Types of one node's results: symbols come back as they went in, and no odd node makes it raise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gerules.graph.facts import infer_node
from gerules.graph.info import UNKNOWN, Info
from gerules.registry import OperatorDef, onnx_registry
from gerules.registry.definition import Operand

REGISTRY = onnx_registry()
P = Info.parse


def infer(
    name: str, version: int, attributes: dict[str, str], *operands: str | None, results: int | None = None
) -> list[str]:
    definition = REGISTRY.lookup("", name, version)
    assert definition is not None
    infos = [None if operand is None else P(operand) for operand in operands]
    return [info.text for info in infer_node(definition, attributes, infos, results)]


@pytest.mark.parametrize(
    ("name", "version", "attributes", "operands", "expected"),
    [
        ("Conv", 11, {"kernel_shape": "[3, 3]", "strides": "[2, 2]", "group": "1"},
         ["f32[N,3,224,224]", "f32[64,3,3,3]"], ["f32[N,64,111,111]"]),
        ("MatMul", 13, {}, ["f32[2*N+1,4]", "f32[4,M]"], ["f32[2*N+1,M]"]),
        ("Relu", 14, {}, ["f32[broadcast(M,N),'a,b',4]"], ["f32[broadcast(M,N),'a,b',4]"]),
        ("Add", 13, {}, ["f32[N,4]", "f32[4]"], ["f32[N,4]"]),
        ("Add", 13, {}, ["f32[N,4]", "f32[M,1]"], ["f32[?,4]"]),
        ("Add", 13, {}, ["f32[*]", "f32[4]"], ["f32[*]"]),
        ("Add", 13, {}, ["f32[N,4]", "?"], ["f32[*]"]),  # an unknown operand: still of the same type
        ("Cast", 13, {"to": "10"}, ["f32[N,4]"], ["f16[N,4]"]),
        ("Cast", 13, {"to": "f16"}, ["f32[N,4]"], ["f16[N,4]"]),
        ("Reshape", 14, {"allowzero": "0"}, ["f32[2,4]", "i64[1]=[-1]"], ["f32[8]"]),
        ("Reshape", 14, {"allowzero": "0"}, ["f32[N,4]", "i64[2]"], ["f32[?,?]"]),
        ("Expand", 13, {}, ["f32[1,4]", "i64[2]=[3,4]"], ["f32[3,4]"]),
        ("Concat", 13, {"axis": "0"}, ["f32[2,N]", "f32[3,N]"], ["f32[5,N]"]),
        ("Shape", 13, {}, ["f32[N,4]"], ["i64[2]"]),
        ("Slice", 13, {}, ["f32[N,8]", "i64[1]=[2]", "i64[1]=[6]", "i64[1]=[1]"], ["f32[N,4]"]),
        ("Clip", 13, {}, ["f32[N]", None, "f32[]"], ["f32[N]"]),
        ("Transpose", 13, {"perm": "[1, 0]"}, ["f32[N,M]"], ["f32[M,N]"]),
        ("SequenceConstruct", 11, {}, ["f32[N,4]", "f32[N,4]"], ["seq(f32)[*]"]),
        ("SequenceAt", 11, {}, ["seq(f32)[*]", "i64[]"], ["f32[*]"]),
        ("Optional", 15, {}, ["f32[N]"], ["optional(f32)[*]"]),
        ("Equal", 13, {}, ["f32[N]", "f32[N]"], ["bool[N]"]),
        ("ConstantOfShape", 9, {"value": "i64[1]|0100000000000000"}, ["i64[2]=[2,3]"], ["i64[2,3]"]),
        # no inference function, but a function body
        ("GreaterOrEqual", 12, {}, ["f32[N,2*M]", "f32[]"], ["bool[N,2*M]"]),
        ("MeanVarianceNormalization", 13, {"axes": "[0, 2, 3]"}, ["f32[N,4,H,W]"], ["f32[N,4,H,W]"]),
        ("Squeeze", 11, {"axes": "[0]"}, ["f32[1,N]"], ["f32[N]"]),
        ("DequantizeLinear", 13, {}, ["u8[N,4]", "f32[]", "u8[]"], ["f32[N,4]"]),
    ],
)  # fmt: skip
def test_results(
    name: str, version: int, attributes: dict[str, str], operands: list[str | None], expected: list[str]
) -> None:
    assert infer(name, version, attributes, *operands) == expected


def test_several_results() -> None:
    assert infer("Split", 13, {"axis": "0"}, "f32[6,N]", results=3) == ["f32[2,N]"] * 3
    assert infer("Split", 13, {"axis": "0", "results": "2"}, "f32[6,N]") == ["f32[3,N]"] * 2
    assert infer("TopK", 11, {"axis": "-1"}, "f32[N,9]", "i64[1]=[3]") == ["f32[N,3]", "i64[N,3]"]
    assert infer("TopK", 11, {"axis": "-1"}, "f32[N,9]", "i64[1]=[3]", results=1) == ["f32[N,3]"]


@pytest.mark.parametrize(
    ("name", "version", "attributes", "operands"),
    [
        ("Add", 13, {}, ["f32[4]", "f64[4]"]),  # two types for one variable
        ("Add", 13, {}, ["f32[4]", None]),  # a required operand left out
        ("Add", 13, {}, ["f32[4]"]),
        ("Add", 13, {}, ["f32[4]", "f32[4]", "f32[4]"]),
        ("Relu", 14, {}, ["str[4]"]),  # a type that the operator does not take
        ("MatMul", 13, {}, ["f32[2,3]", "f32[4,5]"]),  # shapes that do not fit
        ("Transpose", 13, {"perm": "[0, 0, 7]"}, ["f32[2,3]"]),
        ("Cast", 13, {"to": "99"}, ["f32[2]"]),
        ("Conv", 11, {"kernel_shape": "nonsense"}, ["f32[1,1,4,4]", "f32[1,1,3,3]"]),
        ("GatherND", 12, {"batch_dims": "-1"}, ["f32[4,4]", "i64[2,1]"]),  # would end the process
        ("Split", 18, {"axis": "0", "num_outputs": "2147483648"}, ["f32[4,4]", None]),  # likewise
        ("LayerNormalization", 17, {"axis": "2147483648"}, ["f32[4,4]", "f32[4]", "f32[4]"]),  # likewise
    ],
)
def test_an_odd_node_gives_unknown_results(
    name: str, version: int, attributes: dict[str, str], operands: list[str | None]
) -> None:
    for text in infer(name, version, attributes, *operands):
        info = P(text)
        assert info.shape is None and info.content is None


def test_an_operator_without_a_schema_has_the_type_of_its_variable() -> None:
    operator = OperatorDef(
        "gerules", "Window", "1", (Operand("x", "required", "T"),), (Operand("y", "required", "T"),), ()
    )
    assert infer_node(operator, {}, [P("f32[N]")]) == (P("f32[*]"),)
    assert infer_node(operator, {}, [UNKNOWN]) == (UNKNOWN,)


def test_answers_are_remembered_by_text() -> None:
    definition = REGISTRY.lookup("", "Relu", 14)
    assert definition is not None
    first = infer_node(definition, {}, [Info.of("f32", ["N", 4])])
    assert infer_node(definition, {}, [P("f32[N,4]")]) is first


SAFE = [
    "Add",
    "Concat",
    "MatMul",
    "Reshape",
    "Gather",
    "Slice",
    "Where",
    "ReduceSum",
    "Unsqueeze",
    "Pad",
    "Tile",
    "Clip",
]
DIMENSION = st.sampled_from(["N", "M", "2*N+1", "1", "2", "3", "0", "?"])


@st.composite
def operand(draw: st.DrawFn, dtype: str) -> Info | None:
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return None
    if kind == 1:
        return UNKNOWN
    if kind == 2:
        return P(f"{dtype}[*]")
    if dtype == "i64" and kind < 7:
        entries = draw(st.lists(st.sampled_from(["-1", "0", "1", "2", "N"]), max_size=4))
        return P(f"i64[{len(entries)}]=[{','.join(entries)}]")
    return P(f"{dtype}[{','.join(draw(st.lists(DIMENSION, max_size=4)))}]")


@given(st.data())
def test_never_raises(data: st.DataObject) -> None:
    definition = REGISTRY.lookup("", data.draw(st.sampled_from(SAFE)), 18)
    assert definition is not None
    operands = []
    for formal in definition.inputs:
        dtype = (
            "i64"
            if "i64" in formal.types and "f32" not in formal.types
            else "bool"
            if "f32" not in formal.types
            else "f32"
        )
        operands.append(data.draw(operand(dtype)))
    attributes = {a.name: a.default or "" for a in definition.attributes}
    if definition.attribute("axis") is not None:
        attributes["axis"] = str(data.draw(st.integers(-3, 3)))
    count = data.draw(st.integers(1, 3))
    found = infer_node(definition, attributes, operands, count)
    assert len(found) == count
    for info in found:
        # Nothing is made up: every symbol is one of the operands'.
        symbols = {s for d in info.shape or () if d is not None for s in d.symbols()}
        assert symbols <= {"N", "M"}
