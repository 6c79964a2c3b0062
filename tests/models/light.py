"""The `light` CNNs of the onnx package with weights of their own.

As shipped their weights are constant and their outputs do not depend on the input: every constant that is filled
with one value, and every floating initializer that is, gets seeded random numbers (He scale over the fan-in;
variances 0.5 to 1.5), and the altered model is the original from then on.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

NAMES = (
    "light_bvlc_alexnet",
    "light_densenet121",
    "light_inception_v1",
    "light_inception_v2",
    "light_resnet50",
    "light_shufflenet",
    "light_squeezenet",
    "light_vgg19",
    "light_zfnet512",
)


def folder() -> Path:
    return Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def randomised(name: str, seed: int = 0) -> onnx.ModelProto:
    """The model with random weights as initializers."""
    model = onnx.load(str(folder() / f"{name}.onnx"))
    random = np.random.default_rng(seed)
    graph = model.graph
    arrays = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    kept = []
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in arrays:
            arrays[node.output[0]] = np.zeros(arrays[node.input[0]].astype(int).tolist(), np.float32)
        elif node.op_type == "Constant" and node.attribute[0].name == "value":
            arrays[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        else:
            kept.append(node)
    roles = {}
    for node in kept:
        for place, operand in enumerate(node.input):
            roles.setdefault(operand, (node.op_type, place))
    used = {operand for node in kept for operand in node.input} | {o.name for o in graph.output}
    inputs = {i.name: i for i in graph.input}
    del graph.node[:], graph.initializer[:]
    graph.node.extend(kept)
    for key, array in arrays.items():
        if key not in used:
            continue
        if array.dtype == np.float32 and array.size > 1 and len(np.unique(array)) == 1:
            array = weights(array.shape, roles.get(key, ("", 0)), random)
        graph.initializer.append(numpy_helper.from_array(array, key))
        if key not in inputs and model.ir_version < 4:
            graph.input.append(
                onnx.helper.make_tensor_value_info(key, numpy_helper.from_array(array).data_type, array.shape)
            )
    for value in [i for i in graph.input if i.name in arrays and i.name not in used]:
        graph.input.remove(value)
    return temper(model, random)


def temper(model: onnx.ModelProto, random: np.random.Generator) -> onnx.ModelProto:
    """Makes the outputs depend on the input: normalisations get the means and scales that a random image has there, and
    the last weights are scaled so that the logits are of order one (a softmax of huge ones is the same for any input).

    One walk in the order of the graph, each node on the values before it.
    """
    from gerules.simulate import evaluate_node

    tensors = {i.name: i for i in model.graph.initializer}
    values: dict[str, np.ndarray] = {name: numpy_helper.to_array(t) for name, t in tensors.items()}
    fed = next(i for i in model.graph.input if i.name not in tensors)
    values[fed.name] = random.standard_normal([d.dim_value for d in fed.type.tensor_type.shape.dim]).astype(np.float32)
    opset = model.opset_import[0].version
    maker = {o: n for n in model.graph.node for o in n.output}
    final = maker[model.graph.output[0].name]
    logits = final.input[0] if final.op_type == "Softmax" else final.output[0]

    def put(name: str, array: np.ndarray) -> None:
        values[name] = array.astype(np.float32)
        tensors[name].CopyFrom(numpy_helper.from_array(values[name], name))

    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            x, scale, _, mean, variance = node.input[:5]
            axes = (0, *range(2, values[x].ndim))
            put(mean, values[x].mean(axis=axes))
            put(scale, np.sqrt(values[variance]) / (values[x].std(axis=axes) + 1e-3))
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        attributes = {k: v.decode() if isinstance(v, bytes) else v for k, v in attributes.items()}
        operands = [values[i] if i else None for i in node.input]
        found = evaluate_node(node.domain, node.op_type, opset, attributes, operands, len(node.output))
        values.update(zip(node.output, found, strict=True))
    layer = maker[logits]
    while not any(i in tensors and values[i].dtype == np.float32 for i in layer.input[1:]):
        layer = maker[layer.input[0]]
    spread = float(values[logits].std())
    for name in layer.input[1:]:
        if name in tensors and values[name].dtype == np.float32:
            put(name, values[name] / spread)
    return model


def weights(shape: tuple[int, ...], role: tuple[str, int], random: np.random.Generator) -> np.ndarray:
    operator, place = role
    if operator == "BatchNormalization":
        if place in (1, 4):
            return random.uniform(0.5, 1.5, shape).astype(np.float32)
        return (0.1 * random.standard_normal(shape)).astype(np.float32)
    if len(shape) < 2:
        return (0.1 * random.standard_normal(shape)).astype(np.float32)
    fan_in = int(np.prod(shape[1:]))
    return (random.standard_normal(shape) * np.sqrt(2.0 / fan_in)).astype(np.float32)
