"""How constants are written: as Constant nodes or initializers, as operator versions and IR versions have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import onnx_ir as ir

from gerules.graph.dtypes import name_of_onnx
from gerules.graph.structure import constant_tensor
from gerules.registry import onnx_registry

INITIALIZERS_ALONE = 4
"""The IR version since which an initializer need be no input."""
FUNCTIONS = 8
"""The IR version since which a model may have functions."""


def respell_constants(graph: ir.Graph, opset: int, *, initializers: bool, fresh: Callable[[str], str]) -> bool:
    """Writes the constants of one graph (not of its bodies) as the opset of ai.onnx has them; whether any changed.

    A Constant node with an attribute or an element type that is not there at the opset holds a `value`, or becomes an
    initializer. Where `initializers` that are no inputs cannot be (IR versions below 4, functions), each becomes a
    Constant node. `fresh` gives names that are free in the model.
    """
    definition = onnx_registry().lookup("", "Constant", opset)
    assert definition is not None
    known = {a.name for a in definition.attributes}
    changed = False
    for node in list(graph):
        tensor = constant_tensor(node)
        if tensor is None:
            continue
        fits = name_of_onnx(tensor.dtype) in definition.outputs[0].types
        if fits and all(name in known for name in node.attributes):
            continue
        changed = True
        held = tensor if isinstance(tensor, ir.StringTensor) else ir.Tensor(tensor.numpy(), name=node.outputs[0].name)
        if fits or not initializers:
            node.attributes.clear()
            node.attributes.add(ir.AttrTensor("value", held))
        else:
            _to_initializer(graph, node, held)
    if not initializers:
        inputs = set(graph.inputs)
        alone = [v for v in graph.initializers.values() if v not in inputs and v.const_value is not None]
        _to_nodes(graph, alone, fresh)
        changed = changed or bool(alone)
    return changed


def _to_initializer(graph: ir.Graph, node: ir.Node, held: ir.TensorProtocol) -> None:
    value = node.outputs[0]
    fresh = ir.Value(
        name=value.name, type=ir.TensorType(held.dtype), shape=ir.Shape(held.shape.numpy()), const_value=held
    )
    value.name = None
    ir.convenience.replace_all_uses_with(value, fresh, replace_graph_outputs=True)
    graph.remove(node)
    graph.register_initializer(fresh)


def _to_nodes(graph: ir.Graph, values: Iterable[ir.Value], fresh: Callable[[str], str]) -> None:
    first = next(iter(graph), None)
    for value in values:
        name, held = value.name or "constant", value.const_value
        assert held is not None
        del graph.initializers[name]
        made = ir.Value(name=name, type=value.type, shape=value.shape)
        node = ir.Node(
            "", "Constant", [], [ir.AttrTensor("value", held)], outputs=[made], name=fresh(f"Constant_{name}")
        )
        ir.convenience.replace_all_uses_with(value, made, replace_graph_outputs=True)
        if first is None:
            graph.append(node)
        else:
            graph.insert_before(first, node)


__all__ = ["FUNCTIONS", "INITIALIZERS_ALONE", "respell_constants"]
