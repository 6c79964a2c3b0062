"""Random typed graphs: static shapes, several element types, shared values, several outputs, bodies that capture."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper as oh
from onnx import numpy_helper

FLOATS, INTS = ("f32", "f64"), ("i64", "i32")
ONNX = {"f32": 1, "f64": 11, "i64": 7, "i32": 6, "bool": 9}
NUMPY = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "i32": np.int32, "bool": np.bool_}
UNARY = {
    "f32": ("Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Identity", "Floor"),
    "f64": ("Neg", "Abs", "Identity", "Tanh"),
    "i64": ("Neg", "Abs", "Identity"),
    "i32": ("Neg", "Abs", "Identity"),
    "bool": ("Not", "Identity"),
}
BINARY = {
    "f32": ("Add", "Sub", "Mul", "Max", "Min"),
    "f64": ("Add", "Sub", "Mul"),
    "i64": ("Add", "Sub", "Mul"),
    "i32": ("Add", "Sub", "Mul"),
    "bool": ("And", "Or", "Xor"),
}
SHAPES = ((2, 3), (1, 3), (2, 1), (3,), (), (2, 2, 3), (1, 2, 1, 3))

Shape = tuple[int, ...]


@dataclass
class Builder:
    """A graph under construction: values by name with element type and shape."""

    values: dict[str, tuple[str, Shape]] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    prefix: str = ""

    def name(self, stem: str) -> str:
        return f"{self.prefix}{stem}{len(self.values)}"

    def constant(self, array: np.ndarray) -> str:
        name = f"{self.prefix}c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op: str, operands: list[str], dtype: str, shape: Shape, **attributes: object) -> str:
        result = self.name("v")
        node = oh.make_node(op, operands, [result], name=f"{self.prefix}n{len(self.nodes)}", **attributes)
        self.nodes.append(node)
        self.values[result] = (dtype, shape)
        return result

    def of(self, *dtypes: str) -> list[str]:
        return [name for name, (dtype, _) in self.values.items() if dtype in dtypes]


def _broadcast(a: Shape, b: Shape) -> Shape | None:
    try:
        found = np.broadcast_shapes(a, b)
    except ValueError:
        return None
    return found if len(found) <= 4 else None


@st.composite
def models(draw: st.DrawFn) -> onnx.ModelProto:
    """A model of up to about fifteen nodes at opset 14 to 20."""
    builder = Builder()
    for k in range(draw(st.integers(2, 3))):
        dtype = "f32" if k == 0 else draw(st.sampled_from(tuple(ONNX)))
        shape = draw(st.sampled_from(SHAPES))
        builder.values[f"x{k}"] = (dtype, shape)
        builder.inputs.append(oh.make_tensor_value_info(f"x{k}", ONNX[dtype], shape))
    inputs = set(builder.values)
    for _ in range(draw(st.integers(2, 12))):
        _step(draw, builder, bodies=True)
    if len(builder.values) == len(inputs):
        builder.add("Relu", ["x0"], *builder.values["x0"])
    made = [n for n in builder.values if n not in inputs]
    count = draw(st.integers(1, min(3, len(made))))
    outputs = draw(st.permutations(made))[: count - 1]
    outputs = list(dict.fromkeys([*outputs, made[-1]]))
    graph = oh.make_graph(
        builder.nodes,
        "random",
        builder.inputs,
        [oh.make_tensor_value_info(o, ONNX[builder.values[o][0]], builder.values[o][1]) for o in outputs],
        initializer=builder.initializers,
    )
    opset = draw(st.integers(14, 20))
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", opset)], ir_version=8)


def _step(draw: st.DrawFn, builder: Builder, *, bodies: bool) -> None:
    kinds = ["unary", "unary", "binary", "binary", "cast", "cast_back", "view", "reduce", "neutral", "expand", "two"]
    kind = draw(st.sampled_from([*kinds, *(["if", "split"] if bodies else [])]))
    x = draw(st.sampled_from(list(builder.values)))
    dtype, shape = builder.values[x]
    if kind == "unary":
        builder.add(draw(st.sampled_from(UNARY[dtype])), [x], dtype, shape)
    elif kind == "binary":
        fits = [n for n in builder.of(dtype) if _broadcast(shape, builder.values[n][1]) is not None]
        y = draw(st.sampled_from(fits))
        result = _broadcast(shape, builder.values[y][1])
        assert result is not None
        builder.add(draw(st.sampled_from(BINARY[dtype])), [x, y], dtype, result)
    elif kind == "two":  # the same work twice, to be shared
        op = draw(st.sampled_from(UNARY[dtype]))
        first, second = builder.add(op, [x], dtype, shape), builder.add(op, [x], dtype, shape)
        builder.add(draw(st.sampled_from(BINARY[dtype])), [first, second], dtype, shape)
    elif kind == "cast":
        to = draw(st.sampled_from(tuple(ONNX)))
        builder.add("Cast", [x], to, shape, to=ONNX[to])
    elif kind == "cast_back" and dtype in ("f32", "i32", "bool"):
        wide = builder.add("Cast", [x], "f64", shape, to=ONNX["f64"])
        builder.add("Cast", [wide], dtype, shape, to=ONNX[dtype])
    elif kind == "view":
        _view(draw, builder, x)
    elif kind == "reduce" and dtype in ("f32", "i64", "i32") and shape:
        op = draw(st.sampled_from(("ReduceMax", "ReduceMin", "ReduceMean"))) if dtype == "f32" else "ReduceMax"
        builder.add(op, [x], dtype, (1,) * len(shape), keepdims=1)
    elif kind == "neutral" and dtype != "bool":
        op, value = draw(st.sampled_from((("Add", 0), ("Mul", 1), ("Sub", 0), ("Mul", 2))))
        extent = draw(st.sampled_from(((), (1,), (1, 1))))
        constant = builder.constant(np.full(extent, value, NUMPY[dtype]))
        result = _broadcast(shape, extent)
        assert result is not None
        builder.add(op, [x, constant], dtype, result)
    elif kind == "expand":
        wanted = draw(st.sampled_from(((2, 3), (2, 2, 3), (1,))))
        result = _broadcast(shape, wanted)
        if result is not None:
            target = builder.constant(np.array(wanted, np.int64))
            builder.add("Expand", [x, target], dtype, result)
    elif kind == "split" and shape and shape[-1] == 2:
        first, second = builder.name("s"), builder.name("t")
        sizes = builder.constant(np.array([1, 1], np.int64))
        name = f"n{len(builder.nodes)}"
        builder.nodes.append(oh.make_node("Split", [x, sizes], [first, second], axis=-1, name=name))
        builder.values[first] = builder.values[second] = (dtype, (*shape[:-1], 1))
    elif kind == "if":
        _if(draw, builder, x)


def _view(draw: st.DrawFn, builder: Builder, x: str) -> None:
    dtype, shape = builder.values[x]
    kind = draw(st.sampled_from(("Transpose", "Reshape", "Unsqueeze", "Flatten")))
    if kind == "Transpose" and shape:
        order = draw(st.permutations(range(len(shape))))
        builder.add("Transpose", [x], dtype, tuple(shape[a] for a in order), perm=list(order))
    elif kind == "Reshape":
        size = int(np.prod(shape, dtype=int))
        wanted = draw(st.sampled_from([(size,), (1, size), (size, 1), shape or (1,)]))
        builder.add("Reshape", [x, builder.constant(np.array(wanted, np.int64))], dtype, wanted)
    elif kind == "Unsqueeze" and len(shape) < 4:
        builder.add("Unsqueeze", [x, builder.constant(np.array([0], np.int64))], dtype, (1, *shape))
    elif kind == "Flatten" and shape:
        builder.add("Flatten", [x], dtype, (shape[0], int(np.prod(shape[1:], dtype=int))), axis=1)


def _if(draw: st.DrawFn, builder: Builder, x: str) -> None:
    """An If whose bodies work on values from outside."""
    flags = [n for n in builder.of("bool") if builder.values[n][1] == ()]
    flag = flags[0] if flags else builder.constant(np.array(draw(st.booleans())))
    dtype, shape = builder.values[x]
    branches = []
    for label in ("then", "else"):
        inner = Builder(dict(builder.values), prefix=f"{label}{len(builder.nodes)}_")
        inner.values = {n: t for n, t in builder.values.items() if t == (dtype, shape)}
        result = inner.add("Identity", [x], dtype, shape)
        for _ in range(draw(st.integers(0, 3))):
            operand = draw(st.sampled_from([n for n, t in inner.values.items() if t == (dtype, shape)]))
            result = inner.add(draw(st.sampled_from(UNARY[dtype])), [operand], dtype, shape)
        output = oh.make_tensor_value_info(result, ONNX[dtype], shape)
        branches.append(oh.make_graph(inner.nodes, label, [], [output], initializer=inner.initializers))
    result = builder.name("v")
    name = f"n{len(builder.nodes)}"
    builder.nodes.append(
        oh.make_node("If", [flag], [result], then_branch=branches[0], else_branch=branches[1], name=name)
    )
    builder.values[result] = (dtype, shape)
