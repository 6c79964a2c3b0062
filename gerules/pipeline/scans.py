"""Scan between versions 8 and 9: the batch axis that 8 has in front of everything, and 9 has not (Scan-8, Scan-9).

No rule can say it, for a graph has no text in a rule. Up, a Scan over the batch holds the Scan over the sequence; down,
every operand gets a batch of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping

import onnx_ir as ir

from gerules.graph.info import UNKNOWN, Info
from gerules.registry import canonical_domain

WITHOUT_BATCH = 9
"""The opset at which Scan lost its batch axis."""
Fresh = Callable[[str], str]


def scans(graph: ir.Graph) -> list[ir.Node]:
    return [n for n in graph if n.op_type == "Scan" and canonical_domain(n.domain) == ""]


def step_scan(
    graph: ir.Graph,
    node: ir.Node,
    source: int,
    target: int,
    infos: MutableMapping[ir.Value, Info],
    imports: MutableMapping[ir.Node, Mapping[str, int]],
    fresh: Fresh,
) -> None:
    """Brings a Scan of opset `source` to the other side of opset 9 where `target` lies there, in place. One that has no
    counterpart is left as it is. `imports` takes the operator versions of what is made."""
    if (source < WITHOUT_BATCH) == (target < WITHOUT_BATCH):
        return
    made = _up(node, fresh) if target >= WITHOUT_BATCH else _down(node, infos, fresh)
    if made is None:
        return
    version = WITHOUT_BATCH if target >= WITHOUT_BATCH else WITHOUT_BATCH - 1
    for new in made:
        imports[new] = {"": version}
    if target >= WITHOUT_BATCH:
        [inner] = made[0].attributes["body"].as_graph()
        imports[inner] = {"": version}
    results = [v for new in made for v in new.outputs if v.name in {o.name for o in node.outputs if o.name}]
    by_name = {v.name: v for v in results}
    graph.insert_before(node, made)
    for old in list(node.outputs):
        if not old.name:
            continue
        new_value = by_name[old.name]
        infos[new_value] = infos.get(old, UNKNOWN)
        ir.convenience.replace_all_uses_with(old, new_value, replace_graph_outputs=True)
        old.name = None
    for place in range(len(node.inputs)):
        node.replace_input_with(place, None)
    graph.remove(node)


def _up(node: ir.Node, fresh: Fresh) -> list[ir.Node] | None:
    if node.inputs and node.inputs[0] is not None:
        return None  # sequences of different lengths: their padding has no counterpart
    operands = list(node.inputs[1:])
    body = node.attributes["body"].as_graph()
    base = node.name or "Scan"
    count = node.attributes["num_scan_inputs"].as_int()
    inside = [ir.Value(name=fresh(f"{base}_{k}")) for k in range(len(operands))]
    for value, operand in zip(inside, operands, strict=True):
        if operand is not None:
            value.type = operand.type
            value.shape = None if operand.shape is None else ir.Shape(list(operand.shape)[1:])
    results = [ir.Value(name=fresh(f"{base}_result_{k}")) for k in range(len(node.outputs))]
    for value, outer in zip(results, node.outputs, strict=True):
        value.type = outer.type
        value.shape = None if outer.shape is None else ir.Shape(list(outer.shape)[1:])
    attributes = [ir.AttrGraph("body", body), ir.AttrInt64("num_scan_inputs", count)]
    directions = node.attributes.get("directions")
    if directions is not None:
        attributes.append(ir.AttrInt64s("scan_input_directions", list(directions.as_ints())))
    inner = ir.Node("", "Scan", inside, attributes, outputs=results, name=fresh(f"{base}_sequence"))
    batch = ir.Graph(inside, results, nodes=[inner], name=fresh(f"{base}_batch"), opset_imports={"": WITHOUT_BATCH})
    outputs = [ir.Value(name=o.name, type=o.type, shape=o.shape) for o in node.outputs]
    whole = [ir.AttrGraph("body", batch), ir.AttrInt64("num_scan_inputs", len(operands))]
    return [ir.Node("", "Scan", operands, whole, outputs=outputs, name=node.name)]


def _down(node: ir.Node, infos: MutableMapping[ir.Value, Info], fresh: Fresh) -> list[ir.Node] | None:
    for name in ("scan_input_axes", "scan_output_axes", "scan_output_directions"):
        given = node.attributes.get(name)
        if given is not None and any(given.as_ints()):
            return None
    base = node.name or "Scan"
    made: list[ir.Node] = []
    operands: list[ir.Value | None] = [None]
    for operand in node.inputs:
        if operand is None:
            return None
        value = ir.Value(name=fresh(f"{operand.name}_batch"), type=operand.type)
        value.shape = None if operand.shape is None else ir.Shape([1, *operand.shape])
        axes = [ir.AttrInt64s("axes", [0])]
        made.append(ir.Node("", "Unsqueeze", [operand], axes, outputs=[value], name=fresh(f"Unsqueeze_{value.name}")))
        operands.append(value)
    attributes = [ir.AttrGraph("body", node.attributes["body"].as_graph()), node.attributes["num_scan_inputs"]]
    directions = node.attributes.get("scan_input_directions")
    if directions is not None:
        attributes.append(ir.AttrInt64s("directions", list(directions.as_ints())))
    batched: list[ir.Value] = []
    for output in node.outputs:
        value = ir.Value(name=fresh(f"{output.name or base}_batch"), type=output.type)
        value.shape = None if output.shape is None else ir.Shape([1, *output.shape])
        batched.append(value)
    made.append(ir.Node("", "Scan", operands, attributes, outputs=batched, name=node.name))
    for value, output in zip(batched, node.outputs, strict=True):
        if output.name:
            result = ir.Value(name=output.name, type=output.type, shape=output.shape)
            axes = [ir.AttrInt64s("axes", [0])]
            made.append(ir.Node("", "Squeeze", [value], axes, outputs=[result], name=fresh(f"Squeeze_{output.name}")))
    return made


__all__ = ["WITHOUT_BATCH", "scans", "step_scan"]
