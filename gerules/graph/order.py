"""The order of nodes in a proto: operands first, what bodies capture included; cycles.

Names are never shadowed (a model in which they are is refused), so that what a body uses and the graph around it
defines is captured from there.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import onnx


def bodies_of(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs in a node's attributes."""
    found: list[onnx.GraphProto] = []
    for attribute in node.attribute:
        if attribute.HasField("g"):
            found.append(attribute.g)
        found.extend(attribute.graphs)
    return found


def used_names(body: onnx.GraphProto) -> set[str]:
    """Every name that the nodes of a body, and of bodies in it, take as an operand or give as an output."""
    used: set[str] = set()
    pending = [body]
    while pending:
        graph = pending.pop()
        for node in graph.node:
            used.update(node.input)
            pending.extend(bodies_of(node))
        used.update(entry.name for entry in graph.output)
    return used


def _dependencies(nodes: Sequence[onnx.NodeProto]) -> list[list[int]]:
    """For each node the positions of those that it waits for, ascending."""
    producer = {name: position for position, node in enumerate(nodes) for name in node.output if name}
    waits = []
    for node in nodes:
        names = set(node.input)
        for body in bodies_of(node):
            names |= used_names(body)
        waits.append(sorted({producer[name] for name in names if name in producer}))
    return waits


def cycle_free_order(nodes: Sequence[onnx.NodeProto]) -> list[int]:
    """Positions of the nodes with operands first, otherwise in the order they are in; nodes on or behind a cycle are
    left out."""
    waits = _dependencies(nodes)
    users: list[list[int]] = [[] for _ in nodes]
    left = [len(before) for before in waits]
    for position, before in enumerate(waits):
        for other in before:
            users[other].append(position)
    ready = [position for position, count in enumerate(left) if not count]
    order = []
    while ready:
        position = heapq.heappop(ready)
        order.append(position)
        for user in users[position]:
            left[user] -= 1
            if not left[user]:
                heapq.heappush(ready, user)
    return order


def find_cycle(nodes: Sequence[onnx.NodeProto]) -> list[int]:
    """Positions of nodes that depend on each other in a circle, each on the one before; empty where there is none."""
    done = set(cycle_free_order(nodes))
    rest = [position for position in range(len(nodes)) if position not in done]
    if not rest:
        return []
    waits = _dependencies(nodes)
    path: list[int] = []
    place: dict[int, int] = {}
    position = rest[0]
    while position not in place:
        place[position] = len(path)
        path.append(position)
        position = next(other for other in waits[position] if other not in done)
    return path[place[position] :][::-1]


def sorted_graphs(model: onnx.ModelProto) -> tuple[onnx.ModelProto, bool]:
    """The model with the nodes of every graph in an order in which operands come first, and whether any moved.

    The model itself is not changed: where something moves the result is a copy.
    """
    if not any(_unordered(nodes) for nodes in _node_lists(model)):
        return model, False
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for nodes in _node_lists(copy):
        if _unordered(nodes):
            order = [onnx.NodeProto.FromString(nodes[k].SerializeToString()) for k in cycle_free_order(nodes)]
            del nodes[:]
            nodes.extend(order)
    return copy, True


def _unordered(nodes: Sequence[onnx.NodeProto]) -> bool:
    seen: set[str] = set()
    produced = {name for node in nodes for name in node.output if name}
    for node in nodes:
        if any(name in produced and name not in seen for name in node.input):
            return True
        for body in bodies_of(node):
            if any(name in produced and name not in seen for name in used_names(body)):
                return True
        seen.update(node.output)
    return False


def _node_lists(model: onnx.ModelProto) -> list[Any]:
    """The node lists of the graph, its bodies and the functions, inner ones first."""
    lists = []
    pending = [model.graph.node, *(function.node for function in model.functions)]
    while pending:
        nodes = pending.pop()
        lists.append(nodes)
        pending.extend(body.node for node in nodes for body in bodies_of(node))
    return lists[::-1]
