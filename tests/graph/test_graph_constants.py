"""Constants and attributes as text: exact, whatever the element type, and one text for equal bits."""

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn

from gerules.graph.attributes import (
    attribute_from_text,
    attribute_text,
    dtype_name,
    dtype_number,
    format_value,
    node_attributes,
    parse_value,
)
from gerules.graph.constants import (
    ConstantError,
    ConstantTable,
    as_array,
    decode,
    dtype_and_shape,
    encode,
    is_inline,
    scalar_text,
    tensor_of,
)
from gerules.graph.dims import Dim
from gerules.graph.dtypes import BITS, NAMES, name_of_numpy, name_of_onnx, numpy_dtype, onnx_dtype, onnx_type, type_name
from gerules.registry import onnx_registry

NUMERIC = [name for name in NAMES if name != "str"]


@pytest.mark.parametrize("name", NUMERIC)
def test_every_element_type_keeps_its_bits(name: str) -> None:
    dtype = numpy_dtype(name)
    count = 1 << min(8, BITS[name])
    raw = np.arange(count * dtype.itemsize, dtype=np.uint32).astype(np.uint8)
    if name == "bool":
        raw &= 1
    elif BITS[name] < 8:
        raw &= (1 << BITS[name]) - 1
    array = raw.view(dtype).reshape(2, -1)
    table = ConstantTable()
    text = encode(array, table)
    back = decode(text, table)
    assert back.dtype == dtype and back.shape == array.shape
    assert back.tobytes() == array.tobytes()
    assert encode(back, table) == text
    tensor = tensor_of(text, table, "t")
    assert tensor.name == "t" and name_of_onnx(tensor.dtype) == name
    assert encode(tensor.numpy(), table) == text


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.float32(1.5), "f32[]|0000c03f"),
        (np.array([[1, 2]], ">i4"), "i32[1,2]|0100000002000000"),
        (np.array([1, -2, 3], ml_dtypes.int4), "i4[3]|010e03"),
        (np.zeros((0, 3), np.int64), "i64[0,3]|"),
        (np.array([True, False]), "bool[2]|0100"),
        (np.array([-0.0], np.float32), "f32[1]|00000080"),
        (np.array(["a", "b|\n"]), 'str[2]|["a", "b|\\n"]'),
    ],
)
def test_texts(array: np.ndarray, text: str) -> None:
    assert encode(array, ConstantTable()) == text


def test_nan_payloads_stay() -> None:
    array = np.array([0x7FC00001, 0xFFC00000, 0x7F800001], np.uint32).view(np.float32)
    text = encode(array, ConstantTable())
    assert decode(text, ConstantTable()).tobytes() == array.tobytes()
    assert text != encode(np.full(3, np.nan, np.float32), ConstantTable())


def test_the_memory_layout_does_not_show() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    table = ConstantTable()
    assert encode(array.T, table) == encode(np.ascontiguousarray(array.T), table)
    large = np.arange(600, dtype=np.float32).reshape(20, 30)
    assert encode(large.T, table) == encode(np.ascontiguousarray(large.T), table)


def test_large_constants_lie_in_the_table() -> None:
    table = ConstantTable()
    at_bound, beyond = np.zeros(256, np.float32), np.zeros(257, np.float32)
    assert is_inline(encode(at_bound, table)) and len(table) == 0
    text = encode(beyond, table)
    assert not is_inline(text) and len(table) == 1
    assert np.array_equal(decode(text, table), beyond)
    assert encode(beyond.copy(), table) == text and len(table) == 1
    assert encode(np.zeros((257, 1), np.float32), table) != text
    assert dtype_and_shape(text) == ("f32", (257,))
    with pytest.raises(ConstantError):
        decode(text, ConstantTable())


def test_what_is_decoded_cannot_be_changed() -> None:
    array = decode("f32[1]|00000000", ConstantTable())
    with pytest.raises(ValueError):
        array[0] = 1


def test_strings_of_any_bytes() -> None:
    array = np.array([b"\xff\x00", b"plain", "\u00e9".encode()], dtype=object)
    table = ConstantTable()
    text = encode(array, table)
    tensor = tensor_of(text, table)
    assert [bytes(item) for item in tensor.string_data()] == list(array)  # type: ignore[attr-defined]
    many = np.array(["x" * 100] * 50, dtype=object)
    assert decode(encode(many, table), table).tolist() == many.tolist()


@pytest.mark.parametrize("text", ["", "f32", "f32[2]", "q9[1]|00", "f32[1]|00", "f32[1]|zz", "str[2]|[]", "f32[1]#abc"])
def test_other_text_is_no_constant(text: str) -> None:
    with pytest.raises(ConstantError):
        decode(text, ConstantTable())


@given(stn.arrays(st.sampled_from(["<f4", "<f8", "<f2", "<i8", "|u1", "|b1", "<c8"]), stn.array_shapes(max_side=4)))
def test_arrays_round_trip(array: np.ndarray) -> None:
    table = ConstantTable()
    back = decode(encode(array, table), table)
    assert back.dtype == array.dtype and back.shape == array.shape and back.tobytes() == array.tobytes()


def test_scalar_text() -> None:
    table = ConstantTable()
    assert scalar_text(encode(np.full((2, 2), 3, np.int64), table), table) == "i64[]|0300000000000000"
    assert scalar_text(encode(np.array([1, 2]), table), table) is None
    assert scalar_text(encode(np.array([0.0, -0.0]), table), table) is None  # by bits
    assert scalar_text(encode(np.zeros(0, np.float32), table), table) is None
    assert scalar_text(encode(np.ones(1000, np.float32), table), table) == "f32[]|0000803f"
    assert scalar_text('str[2]|["a", "a"]', table) == 'str[]|["a"]'


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (3, "u8", "u8[]|03"),
        ([0.5, 1], "bf16", "bf16[2]|003f803f"),
        (True, "bool", "bool[]|01"),
        ((1, Dim.of(2)), "i64", "i64[2]|01000000000000000200000000000000"),
        (0.1, "f32", "f32[]|cdcccc3d"),
        (float("inf"), "f16", "f16[]|007c"),
        (-0.0, "f32", "f32[]|00000080"),
        ("a", "str", 'str[]|["a"]'),
        ([], "i64", "i64[0]|"),
        (2, "f8e4m3fn", "f8e4m3fn[]|40"),
    ],
)
def test_values_as_arrays(value: object, dtype: str, text: str) -> None:
    assert encode(as_array(value, dtype), ConstantTable()) == text


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (0.5, "i64"),
        (300, "u8"),
        (-1, "u4"),
        (1e10, "f16"),
        ("a", "f32"),
        (2, "bool"),
        (1, "str"),
        (1, "q7"),
        (Dim.parse("N"), "i64"),
    ],
)
def test_what_a_type_cannot_hold(value: object, dtype: str) -> None:
    with pytest.raises(ConstantError):
        as_array(value, dtype)


# ------------------------------------------------------------------------------------------------------ attributes


@pytest.mark.parametrize(
    ("attribute", "kind", "text"),
    [
        (ir.AttrInt64("a", -3), "int", "-3"),
        (ir.AttrFloat32("a", 0.1), "float", "0.1"),
        (ir.AttrFloat32("a", -0.0), "float", "-0.0"),
        (ir.AttrFloat32("a", float("nan")), "float", "nan"),
        (ir.AttrString("a", "SAME_UPPER"), "str", "SAME_UPPER"),
        (ir.AttrString("a", ""), "str", "\\e"),
        (ir.AttrString("a", "a\tb\n\\"), "str", "a\\tb\\n\\\\"),
        (ir.AttrInt64s("a", [1, 2, 0]), "ints", "[1, 2, 0]"),
        (ir.AttrInt64s("a", []), "ints", "[]"),
        (ir.AttrFloat32s("a", [0.5, 1]), "floats", "[0.5, 1.0]"),
        (ir.AttrStrings("a", ["x", 'y"']), "strs", '["x", "y\\""]'),
        (ir.AttrTensor("a", ir.tensor(np.array([1.5], np.float32))), "tensor", "f32[1]|0000c03f"),
    ],
)
def test_attributes_round_trip(attribute: ir.Attr, kind: str, text: str) -> None:
    table = ConstantTable()
    assert attribute_text(attribute, table) == text
    back = attribute_from_text("a", kind, text, table)
    assert back.type == attribute.type and back.name == "a"
    assert attribute_text(back, table) == text
    if kind != "tensor":
        assert format_value(kind, parse_value(kind, text)) == text


def test_a_float_attribute_keeps_its_bits() -> None:
    for value in (0.1, -0.0, 1e-45, 3.4028235e38, float("inf")):
        text = attribute_text(ir.AttrFloat32("a", value), ConstantTable())
        assert text is not None
        back = attribute_from_text("a", "float", text, ConstantTable())
        assert struct.pack("<f", back.as_float()) == struct.pack("<f", value)


def test_what_has_no_text() -> None:
    graph = ir.Graph([], [], nodes=[], name="g")
    assert attribute_text(ir.AttrGraph("body", graph), ConstantTable()) is None
    assert attribute_text(ir.RefAttr("a", "b", ir.AttributeType.INT), ConstantTable()) is None
    with pytest.raises(ValueError):
        attribute_from_text("a", "graph", "x", ConstantTable())
    with pytest.raises(ValueError):
        attribute_from_text("a", "int", "", ConstantTable())


def test_values_of_static_expressions() -> None:
    assert format_value("ints", (1, Dim.of(2))) == "[1, 2]"
    assert format_value("ints", np.array([3, 4])) == "[3, 4]"
    assert format_value("float", 1) == "1.0"
    assert format_value("int", 2.0) == "2"
    assert format_value("int", None) == "" and parse_value("int", "") is None
    assert parse_value("str", "\\e") == ""
    for kind, value in (("int", 1.5), ("int", "a"), ("ints", 3), ("str", 3), ("ints", [Dim.parse("N")]), ("graph", 1)):
        with pytest.raises(ValueError):
            format_value(kind, value)


def test_element_types_by_number() -> None:
    assert (dtype_number("bf16"), dtype_name(1)) == (16, "f32")
    for read, value in ((dtype_number, "q1"), (dtype_name, 99)):
        with pytest.raises(ValueError):
            read(value)  # type: ignore[operator]


def test_a_node_has_all_formal_attributes() -> None:
    conv = onnx_registry().lookup("", "Conv", 11)
    assert conv is not None
    values = [ir.Value(name="x"), ir.Value(name="w")]
    node = ir.Node("", "Conv", values, [ir.AttrInt64s("strides", [2, 2])])
    assert node_attributes(node, conv, ConstantTable()) == {
        "auto_pad": "NOTSET",
        "dilations": "",
        "group": "1",
        "kernel_shape": "",
        "pads": "",
        "strides": "[2, 2]",
    }
    odd = ir.Node("", "Conv", values, [ir.AttrInt64("no_such", 1)])
    assert node_attributes(odd, conv, ConstantTable()) is None
    wrong = ir.Node("", "Conv", values, [ir.AttrInt64("strides", 1)])
    assert node_attributes(wrong, conv, ConstantTable()) is None


# ---------------------------------------------------------------------------------------------------------- dtypes


@pytest.mark.parametrize("name", NAMES)
def test_names_of_element_types(name: str) -> None:
    assert name_of_onnx(onnx_dtype(name)) == name
    assert name_of_numpy(numpy_dtype(name)) == name
    assert type_name(ir.TensorType(onnx_dtype(name))) == name
    assert onnx_dtype(name).numpy() == numpy_dtype(name)


@pytest.mark.parametrize("name", ["f32", "seq(f32)", "optional(f32)", "optional(seq(i64))", "sparse(f32)"])
def test_names_of_types(name: str) -> None:
    assert type_name(onnx_type(name)) == name


def test_names_of_nothing() -> None:
    assert type_name(None) is None
    assert name_of_onnx(0) is None
    with pytest.raises(TypeError):
        name_of_numpy(np.dtype("datetime64[s]"))
