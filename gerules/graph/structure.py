"""Reading the structure of an onnx_ir model: bodies, constants, operators without a schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np
import onnx_ir as ir

from gerules.registry import Registry, canonical_domain

# From this IR version on an initializer that is also an input may be overridden by the caller.
OVERRIDABLE_SINCE = 4

_CONSTANT_ATTRIBUTES: Mapping[str, type[np.generic]] = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


_BODY_TYPES = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def bodies(node: ir.Node) -> list[tuple[str, ir.Graph]]:
    """The subgraphs that a node holds in its attributes, with a path each (`then_branch`, `bodies[1]`)."""
    found: list[tuple[str, ir.Graph]] = []
    for name, attribute in node.attributes.items():
        if attribute.type not in _BODY_TYPES or attribute.is_ref():
            continue
        # `as_graph` checks a protocol each time, which is what takes the time in large models.
        if attribute.type == ir.AttributeType.GRAPH:
            found.append((name, attribute.value))
        elif attribute.type == ir.AttributeType.GRAPHS:
            found.extend((f"{name}[{k}]", graph) for k, graph in enumerate(attribute.value))
    return found


def all_graphs(graph: ir.Graph) -> Iterator[ir.Graph]:
    """The graph and every body in it, outer before inner, in node order."""
    pending = [graph]
    while pending:
        current = pending.pop()
        yield current
        inner = [body for node in current for _, body in bodies(node)]
        pending.extend(reversed(inner))


def constant_tensor(node: ir.Node) -> ir.TensorProtocol | None:
    """What a `Constant` node of the default domain holds; None for any other node (and a sparse constant)."""
    if node.op_type != "Constant" or canonical_domain(node.domain) != "":
        return None
    for name, attribute in node.attributes.items():
        if attribute.is_ref():
            return None
        if name == "value":
            tensor: ir.TensorProtocol = attribute.value
            return tensor
        if name in _CONSTANT_ATTRIBUTES:
            return ir.Tensor(np.array(attribute.value, dtype=_CONSTANT_ATTRIBUTES[name]))
        if name in ("value_string", "value_strings"):
            values = [attribute.value] if name == "value_string" else list(attribute.value)
            encoded = [v if isinstance(v, bytes) else v.encode("utf-8", "surrogateescape") for v in values]
            shape = ir.Shape([] if name == "value_string" else [len(encoded)])
            return ir.StringTensor(encoded, shape=shape)
    return None


def constant_values(graph: ir.Model | ir.Graph, ir_version: int | None = None) -> frozenset[str]:
    """The names of the initializers of a graph (not of its bodies) whose contents are fixed.

    From IR version 4 on an initializer that is also an input can be overridden by the caller, hence is none of them;
    below, it is a constant, as onnxruntime takes it. The version is the model's where a model is given, else the
    newest.
    """
    if isinstance(graph, ir.Model):
        ir_version, graph = graph.ir_version, graph.graph
    names = frozenset(graph.initializers)
    if ir_version is not None and ir_version < OVERRIDABLE_SINCE:
        return names
    return names - frozenset(value.name or "" for value in graph.inputs)


@lru_cache(maxsize=1)
def _registry() -> Registry:
    from gerules.registry import onnx_registry

    return onnx_registry()


def is_foreign(node: ir.Node, opsets: Mapping[str, int], functions: Mapping[object, object] | None = None) -> bool:
    """Whether no registry and no function of the model says what the node's operator does."""
    if functions and node.op_identifier() in functions:
        return False
    version = opsets.get(node.domain)
    return version is None or _registry().lookup(node.domain, node.op_type, version) is None
