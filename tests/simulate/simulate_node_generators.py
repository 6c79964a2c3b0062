"""Random single nodes, per operator and version, as onnxruntime admits them: operands, attributes, results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper


@dataclass
class Node:
    operands: list[Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    results: int = 1


class Draw:
    """Draws with short names, from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def floats(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype(np.float32)

    def whole(self, low: int, high: int, *shape: int, dtype: Any = np.int64) -> np.ndarray:
        return np.asarray(self.rng.integers(low, high, shape)).astype(dtype)

    def size(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def sizes(self, rank: int, low: int = 2, high: int = 5) -> list[int]:
        return [self.size(low, high) for _ in range(rank)]

    def one(self, *choices: Any) -> Any:
        return choices[self.size(0, len(choices))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)


def whole(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


Generator = Callable[[Draw, int], Node]
GENERATORS: dict[str, tuple[Generator, tuple[int, ...]]] = {}


def generates(versions: dict[str, Sequence[int]]) -> Callable[[Callable[..., Node]], Callable[..., Node]]:
    """Registers a generator for operators, which it is given by name."""

    def register(function: Callable[..., Node]) -> Callable[..., Node]:
        for op, known in versions.items():
            GENERATORS[op] = (lambda d, v, op=op: function(d, v, op)), tuple(known)
        return function

    return register


def model_of(op: str, version: int, node: Node) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of the one node, and its feeds; operands that are None are absent."""
    names = [f"i{k}" if x is not None else "" for k, x in enumerate(node.operands)]
    arrays = {n: np.asarray(x) for n, x in zip(names, node.operands, strict=True) if n}
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in arrays.items()
    ]
    outputs = [f"o{k}" for k in range(node.results)]
    proto = helper.make_node(op, names, outputs, name="n", **node.attributes)
    graph = helper.make_graph([proto], "g", inputs, [onnx.ValueInfoProto(name=n) for n in outputs])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8), arrays


def _windows(d: Draw, rank: int) -> dict[str, Any]:
    kernel = d.sizes(rank, 1, 4)
    attributes: dict[str, Any] = {"kernel_shape": kernel}
    if d.chance(0.6):
        attributes["strides"] = d.sizes(rank, 1, 4)
    if d.chance(0.4):
        attributes["pads"] = [d.size(0, kernel[i % rank]) for i in range(2 * rank)]
    elif d.chance(0.5):
        attributes["auto_pad"] = d.one("SAME_UPPER", "SAME_LOWER", "VALID")
    return attributes


@generates({"MaxPool": (1, 7, 8, 10, 11, 12), "AveragePool": (7, 10, 11, 19, 22), "LpPool": (2, 11, 18)})
def pool(d: Draw, version: int, op: str) -> Node:
    rank = d.one(1, 2, 2, 3)
    attributes = _windows(d, rank)
    explicit = "auto_pad" not in attributes
    results = 1
    if op == "AveragePool" and d.chance(0.5):
        attributes["count_include_pad"] = 1
    if op == "LpPool":
        attributes["p"] = d.one(1, 2, 3)
    if explicit and version >= (18 if op == "LpPool" else 10) and d.chance(0.4):
        attributes["ceil_mode"] = 1
    if explicit and version >= {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[op] and d.chance(0.3):
        attributes["dilations"] = d.sizes(rank, 1, 3)
    if op == "MaxPool" and version >= 8 and d.chance(0.5):
        results = 2
        attributes["storage_order"] = d.one(0, 1)
    return Node([d.floats(2, 3, *d.sizes(rank, 4, 9))], attributes, results)


@generates({"Conv": (1, 11, 22)})
def conv(d: Draw, version: int, op: str) -> Node:
    rank, group = d.one(1, 2, 2, 3), d.one(1, 1, 2, 3)
    channels, made = group * d.one(1, 2), group * d.one(1, 2)
    attributes = {**_windows(d, rank), "group": group}
    kernel = attributes.pop("kernel_shape")
    if "auto_pad" not in attributes and d.chance(0.3):
        attributes["dilations"] = d.sizes(rank, 1, 3)
    operands = [d.floats(2, channels, *d.sizes(rank, 5, 9)), d.floats(made, channels // group, *kernel)]
    return Node(operands + ([d.floats(made)] if d.chance(0.5) else []), attributes)


@generates({"ConvTranspose": (1, 11, 22)})
def conv_transpose(d: Draw, version: int, op: str) -> Node:
    rank, group = d.one(1, 2, 2), d.one(1, 1, 2)
    channels, made = group * d.one(1, 2), d.one(1, 2)
    kernel, strides, sizes = d.sizes(rank, 2, 4), d.sizes(rank, 1, 3), d.sizes(rank, 3, 6)
    attributes: dict[str, Any] = {"group": group, "strides": strides}
    if d.chance(0.4):
        attributes["pads"] = [d.size(0, kernel[i % rank]) for i in range(2 * rank)]
    elif d.chance(0.4):
        attributes["auto_pad"] = d.one("SAME_UPPER", "SAME_LOWER")
    elif d.chance(0.5):
        attributes["output_shape"] = [(sizes[i] - 1) * strides[i] + kernel[i] - d.size(0, 2) for i in range(rank)]
    if "output_shape" not in attributes and d.chance(0.3):
        attributes["output_padding"] = [d.size(0, s) for s in strides]
    operands = [d.floats(2, channels, *sizes), d.floats(channels, made, *kernel)]
    return Node(operands + ([d.floats(made * group)] if d.chance(0.5) else []), attributes)


@generates({"Softmax": (1, 7, 11, 13), "LogSoftmax": (1, 11, 13), "Hardmax": (1, 11, 13)})
def softmax(d: Draw, version: int, op: str) -> Node:
    rank = d.one(2, 3, 4)
    axis = d.size(-rank if version >= 11 else 0, rank)
    return Node([d.floats(*d.sizes(rank, 2, 4))], {} if d.chance(0.3) else {"axis": axis})


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")


@generates({f"Reduce{name}": (1, 11, 13, 18) for name in _REDUCTIONS})
def reduce(d: Draw, version: int, op: str) -> Node:
    rank = d.one(1, 2, 3)
    x = d.floats(*d.sizes(rank, 1, 4))
    x = np.abs(x) + 0.5 if op == "ReduceLogSum" else x
    attributes: dict[str, Any] = {"keepdims": d.one(0, 1)}
    axes = sorted(d.rng.choice(rank, d.size(1, rank + 1), replace=False).tolist())
    if version >= 11 and d.chance(0.5):
        axes = [a - rank for a in axes]
    if d.chance(0.2):
        axes = []
    if version >= 18 or (op == "ReduceSum" and version >= 13):
        if d.chance(0.3):
            attributes["noop_with_empty_axes"] = 1
        return Node([x, whole(*axes)] if axes else [x], attributes)
    return Node([x], {**attributes, "axes": axes} if axes else attributes)


@generates({"ArgMax": (1, 11, 12, 13), "ArgMin": (1, 11, 12, 13)})
def arg_extreme(d: Draw, version: int, op: str) -> Node:
    rank = d.one(1, 2, 3)
    attributes = {"axis": d.size(-rank if version >= 11 else 0, rank), "keepdims": d.one(0, 1)}
    if version >= 12:
        attributes["select_last_index"] = d.one(0, 1)
    return Node([np.round(d.floats(*d.sizes(rank)))], attributes)


@generates({"BatchNormalization": (7, 9, 14, 15)})
def batch_norm(d: Draw, version: int, op: str) -> Node:
    x = d.floats(2, 3, *d.sizes(d.one(0, 1, 2)))
    return Node([x, d.floats(3), d.floats(3), d.floats(3), np.abs(d.floats(3)) + 0.3], {"epsilon": d.one(1e-5, 1e-2)})


@generates({"Pad": (2, 11, 13, 18, 19, 21)})
def pad(d: Draw, version: int, op: str) -> Node:
    rank = d.one(1, 2, 3)
    mode = d.one("constant", "reflect", "edge", *(["wrap"] if version >= 19 else []))
    amounts = [d.size(-1 if mode == "constant" else 0, 3) for _ in range(2 * rank)]
    x = d.floats(*d.sizes(rank, 3, 6))
    if version < 11:
        return Node([x], {"pads": amounts, "mode": mode, "value": d.one(0.0, 1.5)})
    operands: list[Any] = [x, whole(*amounts), np.float32(2.5) if d.chance(0.5) else None]
    if version >= 18 and d.chance(0.5):
        axes = d.rng.permutation(rank)[: max(1, rank - 1)].tolist()
        operands[1] = whole(*amounts[: len(axes)], *amounts[rank : rank + len(axes)])
        operands.append(whole(*axes))
    return Node(operands, {"mode": mode})


@generates({"Slice": (1, 10, 11, 13)})
def slices(d: Draw, version: int, op: str) -> Node:
    rank = d.one(1, 2, 3)
    x = d.floats(*d.sizes(rank, 3, 6))
    axes = d.rng.permutation(rank)[: d.size(1, rank + 1)].tolist()
    starts, ends = [d.size(-7, 7) for _ in axes], [d.size(-7, 7) for _ in axes]
    if version < 10:
        return Node([x], {"starts": starts, "ends": ends, "axes": axes})
    return Node([x, whole(*starts), whole(*ends), whole(*axes), whole(*[d.one(-2, -1, 1, 2) for _ in axes])])


@generates({"Split": (2, 11, 13, 18)})
def split(d: Draw, version: int, op: str) -> Node:
    rank, count = d.one(1, 2, 3), d.one(2, 3)
    shape, axis = d.sizes(rank), d.size(0, rank)
    attributes: dict[str, Any] = {"axis": axis}
    if d.chance(0.5):
        shape[axis] = count * 2
        if version >= 18:
            attributes["num_outputs"] = count
            shape[axis] += d.one(0, 1)
        return Node([d.floats(*shape)], attributes, count)
    parts = d.sizes(count, 0, 4)
    shape[axis] = sum(parts)
    if version >= 13:
        return Node([d.floats(*shape), whole(*parts)], attributes, count)
    return Node([d.floats(*shape)], {**attributes, "split": parts}, count)


@generates({"TopK": (1, 10, 11)})
def top_k(d: Draw, version: int, op: str) -> Node:
    x = np.round(d.floats(*d.sizes(d.one(1, 2, 3), 3, 6)) * 2)
    axis = d.size(0, x.ndim)
    count = d.size(1, x.shape[axis] + 1)
    if version < 10:
        return Node([x], {"axis": axis, "k": count}, 2)
    attributes = {"axis": axis, **({"largest": d.one(0, 1)} if version >= 11 else {})}
    return Node([x, whole(count)], attributes, 2)


_WITH_ALPHA = ("Affine", "Elu", "HardSigmoid", "LeakyRelu", "ScaledTanh", "ThresholdedRelu")
_WITH_BETA = ("Affine", "HardSigmoid", "ScaledTanh")
_WITHOUT = ("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")


@generates({"RNN": (7, 14), "GRU": (7, 14), "LSTM": (7, 14)})
def recurrent(d: Draw, version: int, op: str) -> Node:
    direction = d.one("forward", "reverse", "bidirectional")
    count, gates = (2 if direction == "bidirectional" else 1), {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    steps, batch, inputs, size = d.one(1, 4), 2, 3, 2
    operands: list[Any] = [
        d.floats(steps, batch, inputs),
        d.floats(count, gates * size, inputs),
        d.floats(count, gates * size, size),
        d.floats(count, 2 * gates * size) if d.chance(0.6) else None,
        d.whole(1, steps + 1, batch, dtype=np.int32) if d.chance(0.4) else None,
        d.floats(count, batch, size) if d.chance(0.5) else None,
    ]
    attributes: dict[str, Any] = {"direction": direction, "hidden_size": size}
    if op == "LSTM":
        operands.append(d.floats(count, batch, size) if d.chance(0.5) else None)
        operands.append(d.floats(count, 3 * size) if d.chance(0.5) else None)
        attributes["input_forget"] = int(d.chance(0.2))
    elif d.chance(0.3):  # onnxruntime leaves the LSTM's cell unclipped, which the specification does not
        attributes["clip"] = 0.7
    if d.chance(0.4):
        names = [d.one(*_WITHOUT, *_WITH_ALPHA) for _ in range({"RNN": 1, "GRU": 2, "LSTM": 3}[op] * count)]
        attributes["activations"] = names
        attributes["activation_alpha"] = [round(d.rng.uniform(0.2, 1), 2) for n in names if n in _WITH_ALPHA] or None
        attributes["activation_beta"] = [round(d.rng.uniform(0.2, 1), 2) for n in names if n in _WITH_BETA] or None
        attributes = {k: v for k, v in attributes.items() if v is not None}
    if op == "GRU":
        attributes["linear_before_reset"] = d.one(0, 1)
    return Node(operands, attributes, 3 if op == "LSTM" else 2)


@generates({"Resize": (10, 11, 13, 18, 19), "Upsample": (7, 9)})
def resize(d: Draw, version: int, op: str) -> Node:
    x = d.floats(1, 2, *d.sizes(2, 2, 6))
    if op == "Upsample":
        scales = [1.0, 1.0, d.one(1.0, 1.5, 2.0, 3.0), d.one(1.0, 2.0, 2.5)]
        mode = d.one("nearest", "linear")
        if version < 9:
            return Node([x], {"mode": mode, "scales": scales})
        return Node([x, np.array(scales, np.float32)], {"mode": mode})
    scales = [1.0, 1.0, d.one(0.5, 0.6, 1.5, 2.0, 3.0), d.one(0.5, 0.8, 1.0, 2.5)]
    if version == 10:
        return Node([x, np.array(scales, np.float32)], {"mode": d.one("nearest", "linear")})
    mode = d.one("nearest", "linear", "cubic")
    coordinates = d.one("half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners")
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = d.one("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "cubic":
        attributes.update(exclude_outside=d.one(0, 1), cubic_coeff_a=d.one(-0.5, -0.75))
    if version >= 18 and mode != "nearest" and d.chance(0.4):
        attributes["antialias"] = 1
    absent = np.array([], np.float32) if version < 13 else None
    # With a fractional output length the corners of onnxruntime are those of the rounded one.
    if coordinates == "align_corners" or d.chance(0.5):
        return Node([x, absent, absent, whole(1, 2, *d.sizes(2, 2, 8))], attributes)
    return Node([x, absent, np.array(scales, np.float32)], attributes)


@generates({"MatMul": (1, 9, 13)})
def matmul(d: Draw, version: int, op: str) -> Node:
    a, b = d.one(((2, 3), (3, 4)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 2, 3), (3, 4)), ((1, 5, 2, 3), (2, 1, 3, 4)))
    return Node([d.floats(*a), d.floats(*b)])


@generates({"Gemm": (7, 9, 11, 13)})
def gemm(d: Draw, version: int, op: str) -> Node:
    turn_a, turn_b = d.one(0, 1), d.one(0, 1)
    a, b = d.floats(*((3, 2) if turn_a else (2, 3))), d.floats(*((4, 3) if turn_b else (3, 4)))
    c = d.floats(*d.one((2, 4), (4,), (1, 4), (2, 1), (1,)))
    attributes = {"transA": turn_a, "transB": turn_b, "alpha": d.one(1.0, 0.5), "beta": d.one(1.0, 0.25)}
    return Node([a, b, c], attributes)


@generates({"Einsum": (12,)})
def einsum(d: Draw, version: int, op: str) -> Node:
    equation, *shapes = d.one(
        ("ij,jk->ik", (2, 3), (3, 4)),
        ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
        ("ii->i", (3, 3)),
        ("...j->...", (2, 3, 4)),
        ("ij,ij", (2, 3), (2, 3)),
    )
    return Node([d.floats(*s) for s in shapes], {"equation": equation})


@generates({"QuantizeLinear": (10, 13, 19), "DequantizeLinear": (10, 13, 19)})
def quantize(d: Draw, version: int, op: str) -> Node:
    dtype = d.one(np.uint8, np.int8)
    low = -3 if dtype is np.int8 else 0
    x = d.floats(2, 3, 4) * 3 if op == "QuantizeLinear" else d.whole(low * 30, 100, 2, 3, 4, dtype=dtype)
    if version >= 13 and d.chance(0.5):
        axis = d.size(0, 3)
        scale, zero = np.abs(d.floats(x.shape[axis])) + 0.05, d.whole(low, 5, x.shape[axis], dtype=dtype)
        return Node([x, scale, zero], {"axis": axis})
    return Node([x, np.float32(0.07), np.array(3, dtype)])


@generates({"QLinearConv": (10,)})
def qlinear_conv(d: Draw, version: int, op: str) -> Node:
    per_channel = d.chance(0.5)
    w_scale = np.abs(d.floats(3)) * 0.01 + 0.01 if per_channel else np.float32(0.02)
    w_zero = np.zeros(3, np.int8) if per_channel else np.array(2, np.int8)
    x, w = d.whole(0, 255, 1, 2, 5, 5, dtype=np.uint8), d.whole(-100, 100, 3, 2, 3, 3, dtype=np.int8)
    operands = [x, np.float32(0.02), np.uint8(100), w, w_scale, w_zero, np.float32(0.3), np.uint8(120)]
    bias = [d.whole(-500, 500, 3, dtype=np.int32)] if d.chance(0.5) else []
    return Node(operands + bias, {"pads": [1, 1, 1, 1]} if d.chance(0.5) else {})


@generates({"ConvInteger": (10,), "MatMulInteger": (10,), "QLinearMatMul": (10,)})
def integer_products(d: Draw, version: int, op: str) -> Node:
    seven, three = np.uint8(7), np.uint8(3)
    if op == "ConvInteger":
        x, w = d.whole(0, 255, 1, 2, 5, 5, dtype=np.uint8), d.whole(0, 255, 3, 2, 3, 3, dtype=np.uint8)
        return Node([x, w, seven, three], {"pads": [1, 1, 1, 1], "strides": [2, 1]})
    a, b = d.whole(0, 255, 2, 3, dtype=np.uint8), d.whole(0, 255, 3, 4, dtype=np.uint8)
    if op == "MatMulInteger":
        return Node([a, b, seven, three])
    return Node([a, np.float32(0.01), seven, b, np.float32(0.02), three, np.float32(0.05), np.uint8(100)])


_BINARY = {"Add": (7, 13, 14), "Sub": (7, 13, 14), "Mul": (7, 13, 14), "Div": (7, 13, 14), "Pow": (7, 12, 13, 15)}
_COMPARE = {"Greater": (9, 13), "Less": (9, 13), "GreaterOrEqual": (12, 16), "LessOrEqual": (12, 16)}


@generates({**_BINARY, **_COMPARE, "And": (7,), "Or": (7,), "Xor": (7,), "Equal": (7, 11, 13), "Mod": (10, 13)})
def binary(d: Draw, version: int, op: str) -> Node:
    shape = d.sizes(3, 1, 4)
    other = [n if d.chance(0.6) else 1 for n in shape][d.one(0, 1) :]
    if op in ("And", "Or", "Xor"):
        return Node([d.rng.random(shape) < 0.5, d.rng.random(other) < 0.5])
    if op == "Pow":
        return Node([np.abs(d.floats(*shape)) + 0.1, d.floats(*other)])
    if op in ("Equal", "Mod") or d.chance(0.5):
        a = d.whole(-9, 9, *shape, dtype=np.int32)
        b = d.whole(1, 5, *other, dtype=np.int32) * d.one(1, -1)
        return Node([a, b.astype(np.int32)], {"fmod": d.one(0, 1)} if op == "Mod" else {})
    return Node([d.floats(*shape), d.floats(*other)])


@generates({"Sum": (6, 8, 13), "Max": (6, 8, 12, 13), "Min": (6, 8, 12, 13), "Mean": (6, 8, 13)})
def variadic(d: Draw, version: int, op: str) -> Node:
    count = d.one(1, 2, 3)
    if version < 8:
        return Node([d.floats(2, 3) for _ in range(count)])
    return Node([d.floats(2, 3), d.floats(3), d.floats(2, 1)][:count])


_UNARY = {"Abs": (6, 13), "Ceil": (6, 13), "Erf": (9, 13), "Exp": (6, 13), "Floor": (6, 13), "Neg": (6, 13)}
_MORE = {"Relu": (6, 13, 14), "Round": (11,), "Sigmoid": (6, 13), "Sign": (9, 13), "Tanh": (6, 13), "Mish": (18,)}
_REST = {"Celu": (12,), "Elu": (6,), "HardSigmoid": (6,), "LeakyRelu": (6, 16), "Selu": (6,), "Softplus": (1,)}


@generates({**_UNARY, **_MORE, **_REST, "Gelu": (20,), "HardSwish": (14,), "Softsign": (1,)})
def unary(d: Draw, version: int, op: str) -> Node:
    alpha = op in ("Celu", "Elu", "HardSigmoid", "LeakyRelu", "Selu") and d.chance(0.6)
    return Node([d.floats(2, 5) * 2], {"alpha": round(d.rng.uniform(0.2, 1.5), 2)} if alpha else {})


@generates({"Clip": (6, 11, 12, 13), "PRelu": (7, 9, 16)})
def bounded(d: Draw, version: int, op: str) -> Node:
    if op == "PRelu":
        return Node([d.floats(2, 3, 4, 4), d.floats(*d.one((3, 1, 1), (1,), (2, 3, 4, 4)))])
    x = d.floats(3, 4) * 3
    if version < 11:
        return Node([x], {"min": -1.0, "max": 1.5} if d.chance(0.6) else {})
    bounds = d.one((np.float32(-1), np.float32(1.5)), (None, np.float32(0.5)), (np.float32(1), np.float32(-1)))
    return Node([x, *bounds])


@generates({"Gather": (1, 11, 13), "GatherElements": (11, 13), "GatherND": (11, 12, 13)})
def gather(d: Draw, version: int, op: str) -> Node:
    x, axis = d.floats(3, 4, 5), d.size(0, 3)
    if op == "GatherND":
        if version >= 12 and d.chance(0.4):
            return Node([x, d.whole(0, 4, 3, 2, 1)], {"batch_dims": 1})
        return Node([x, d.whole(0, 3, 2, d.one(1, 2))])
    low = -x.shape[axis] if version >= 11 else 0
    shape = d.sizes(d.one(0, 1, 2), 1, 3) if op == "Gather" else [2, 3, 4]
    return Node([x, d.whole(low, x.shape[axis], *shape)], {"axis": axis})


@generates({"Scatter": (9,), "ScatterElements": (11, 13, 16, 18), "ScatterND": (11, 13, 16, 18)})
def scatter(d: Draw, version: int, op: str) -> Node:
    x, axis = d.floats(4, 5), d.one(0, 1)
    attributes: dict[str, Any] = {}
    if version >= 16 and d.chance(0.6):
        attributes["reduction"] = d.one("add", "mul", *(["max", "min"] if version >= 18 else []))
    if op == "ScatterND":
        return Node([x, d.rng.permutation(4)[:3].reshape(3, 1), d.floats(3, 5)], attributes)
    index = np.stack([d.rng.permutation(x.shape[axis])[:3] for _ in range(3)], axis=axis)
    return Node([x, index, d.floats(3, 3)], {**attributes, "axis": axis})


@generates({"LRN": (1, 13), "LpNormalization": (1,), "InstanceNormalization": (6,), "LayerNormalization": (17,)})
def normalisation(d: Draw, version: int, op: str) -> Node:
    if op == "LRN":
        sizes = {"size": d.one(1, 3, 5), "alpha": d.one(1e-4, 0.5), "beta": d.one(0.75, 0.5), "bias": d.one(1.0, 2.0)}
        return Node([d.floats(1, d.one(3, 7), 3, 3)], sizes)
    if op == "LpNormalization":
        return Node([d.floats(2, 3, 4)], {"axis": d.size(0, 3), "p": d.one(1, 2)})
    if op == "InstanceNormalization":
        return Node([d.floats(2, 3, 4, 4), d.floats(3), d.floats(3)])
    x, axis = d.floats(2, 3, 4), d.size(0, 3)
    return Node([x, d.floats(*x.shape[axis:]), d.floats(*x.shape[axis:])], {"axis": axis - d.one(0, 3)})


@generates(
    {"GroupNormalization": (21,), "MeanVarianceNormalization": (9, 13), "GlobalLpPool": (2,), "MaxRoiPool": (1,)}
)
def regional(d: Draw, version: int, op: str) -> Node:
    if op == "GroupNormalization":
        return Node([d.floats(2, 4, 3, 3), d.floats(4), d.floats(4)], {"num_groups": 2})
    if op == "GlobalLpPool":
        return Node([d.floats(2, 3, 4, 4)], {"p": d.one(1, 2, 3)})
    if op == "MeanVarianceNormalization":
        return Node([d.floats(2, 3, 4, 4)], d.one({}, {"axes": [0, 2, 3]}))
    regions = np.array([[0, 0, 0, 4, 5], [1, 1, 2, 6, 7], [1, 3, 3, 12, 12], [0, 2.4, 1.5, 3.6, 4.5]], np.float32)
    return Node([d.floats(2, 2, 8, 9), regions], {"pooled_shape": [2, 3], "spatial_scale": d.one(1.0, 0.5)})


@generates({"RoiAlign": (10, 16), "GridSample": (16, 20)})
def sampled(d: Draw, version: int, op: str) -> Node:
    if op == "GridSample":
        mode = d.one("bilinear", "nearest") if version < 20 else d.one("linear", "nearest")
        padding = d.one("zeros", "border", "reflection")
        grid = np.clip(d.floats(1, 3, 4, 2), -1.4, 1.4)
        attributes = {"mode": mode, "padding_mode": padding, "align_corners": d.one(0, 1)}
        return Node([d.floats(1, 2, 4, 5), grid], attributes)
    attributes = {"output_height": 2, "output_width": 3, "sampling_ratio": 2, "spatial_scale": d.one(1.0, 0.5)}
    if version >= 16:
        attributes["coordinate_transformation_mode"] = d.one("half_pixel", "output_half_pixel")
    regions = np.array([[0.0, 0.0, 4.0, 5.0], [1.0, 2.0, 6.0, 7.0]], np.float32)
    return Node([d.floats(1, 2, 8, 8), regions, whole(0, 0)], attributes)


@generates({"Squeeze": (1, 11, 13, 21), "Unsqueeze": (1, 11, 13, 21), "Reshape": (5, 13, 14, 19), "Expand": (8, 13)})
def reshaped(d: Draw, version: int, op: str) -> Node:
    if op == "Reshape":
        return Node([d.floats(2, 3, 4), d.one(whole(0, -1), whole(4, 6), whole(-1, 2), whole(2, 0, 4))])
    if op == "Expand":
        return Node([d.floats(3, 1), d.one(whole(2, 3, 4), whole(1, 5), whole(3, 1))])
    x, axes = (d.floats(1, 3, 1, 2), [0, 2]) if op == "Squeeze" else (d.floats(3, 2), [0, 3])
    return Node([x], {"axes": axes}) if version < 13 else Node([x, whole(*axes)])


@generates(
    {"Cast": (6, 9, 13, 19), "CumSum": (11, 14), "OneHot": (9, 11), "DepthToSpace": (1, 11, 13), "Dropout": (7, 10, 12)}
)
def others(d: Draw, version: int, op: str) -> Node:
    if op == "Cast":
        x = d.one(d.floats(2, 3) * 3, d.whole(-3, 9, 2, 3), d.rng.random((2, 3)) < 0.5)
        names = ("FLOAT", "INT32", "INT64", "DOUBLE", "BOOL", "FLOAT16", "INT8")
        return Node([x], {"to": onnx.TensorProto.DataType.Value(d.one(*names))})
    if op == "CumSum":
        return Node([d.floats(3, 4), np.int64(d.one(0, 1, -1))], {"exclusive": d.one(0, 1), "reverse": d.one(0, 1)})
    if op == "OneHot":
        return Node([d.whole(-3, 3, 2, 3), np.int64(4), np.array([0.0, 2.0], np.float32)], {"axis": d.one(-1, 0, 1)})
    if op == "DepthToSpace":
        mode = {"mode": d.one("DCR", "CRD")} if version >= 11 else {}
        return Node([d.floats(1, 8, 2, 3)], {"blocksize": 2, **mode})
    return Node([d.floats(2, 3)])
