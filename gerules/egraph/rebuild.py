"""From a choice back to a graph: kept nodes stay as they are, new ones are put before their first use.

The graph is changed in place. Values that are still computed keep their names; a new node that computes a value of the
input graph takes that value's name, so that two runs can be compared name by name.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from gerules.egraph.choices import CONSTANT, LEAF, NODE, Candidate, Candidates
from gerules.egraph.encode import captured_values
from gerules.egraph.signature import RESULTS
from gerules.egraph.texts import node_texts
from gerules.graph import constants
from gerules.graph.attributes import attribute_from_text
from gerules.graph.constants import ConstantTable
from gerules.graph.dtypes import onnx_type
from gerules.graph.info import UNKNOWN, Info
from gerules.registry.definition import OperatorDef

RULE = "gerules.rule"
"""Metadata of a node that a rule made: the rule's full name."""


@dataclass
class Rebuilt:
    """What became of a graph. `values`: class -> value; `made_by`: node name -> rule of new nodes; `option_of`: node ->
    option it realises."""

    values: dict[int, ir.Value] = field(default_factory=dict)
    made_by: dict[str, str] = field(default_factory=dict)
    option_of: dict[ir.Node, int] = field(default_factory=dict)
    delivered: dict[ir.Value, int] = field(default_factory=dict)
    """Graph outputs that a value of another name is passed on to -> their class."""
    changed: bool = False


def rebuild(
    graph: ir.Graph,
    found: Candidates,
    choice: Mapping[int, int],
    table: ConstantTable,
    *,
    identity: str,
    fresh_name: Callable[[str], str],
) -> Rebuilt:
    """Makes `graph` compute what `choice` says. `identity` is the operator that passes a value on under another name
    (from the rules); `fresh_name` gives a name that is free in the model."""
    return _Rebuild(graph, found, choice, table, identity, fresh_name).run()


class _Rebuild:
    def __init__(
        self,
        graph: ir.Graph,
        found: Candidates,
        choice: Mapping[int, int],
        table: ConstantTable,
        identity: str,
        fresh_name: Callable[[str], str],
    ) -> None:
        self.graph, self.found, self.choice, self.table = graph, found, choice, table
        self.identity, self.fresh_name = identity, fresh_name
        self.saturated, self.encoded = found.saturated, found.encoded
        self.result = Rebuilt()
        self.original_order = {node: k for k, node in enumerate(graph)}
        self.loaded = {n.number: n for n in self.encoded.nodes}
        self.outputs = {self.encoded.number[v] for v in graph.outputs}
        self.renamed: list[tuple[ir.Value, ir.Value]] = []
        self.made: dict[int, ir.Node] = {}
        self.places: dict[int, dict[int, int]] = {}
        for cls, node_cls, place in self.saturated.projections:
            self.places.setdefault(node_cls, {}).setdefault(place, cls)

    def run(self) -> Rebuilt:
        order = self._order()
        kept: set[ir.Node] = set()
        before = list(self.graph)
        for cls in order:
            option = self.found.options[self.choice[cls]]
            if option.kind == LEAF:
                self.result.values[cls] = self.encoded.values[option.index]
            elif option.kind == CONSTANT:
                self._constant(cls, kept)
            elif option.kind == NODE:
                self._node(cls, option, kept)
            else:
                self._projection(cls, option)
        self._deliver(kept)
        self._captures(kept)
        self._remove(before, kept)
        self._sort()
        self.result.changed = (
            self.result.changed or [n for n in before if n in kept] != list(self.graph) or len(kept) < len(before)
        )
        return self.result

    def _order(self) -> list[int]:
        """Classes that the roots reach, children first; projections of a node right after it."""
        order: list[int] = []
        done: set[int] = set()
        for root in self.found.roots:
            stack = [(root, False)]
            while stack:
                cls, ready = stack.pop()
                if cls in done:
                    continue
                if ready:
                    done.add(cls)
                    order.append(cls)
                    continue
                stack.append((cls, True))
                option = self.found.options[self.choice[cls]]
                stack += [(c, False) for c in reversed(option.children) if c not in done]
        return order

    # ------------------------------------------------------------------------------------------------- one class

    def _numbers(self, cls: int) -> list[int]:
        """Values of the input graph in this class: graph outputs first, then in order."""
        numbers = self.saturated.leaves.get(cls, [])
        return sorted(numbers, key=lambda n: (n not in self.outputs, n))

    def _constant(self, cls: int, kept: set[ir.Node]) -> None:
        for number in self.saturated.leaves.get(cls, []):
            if number in self.encoded.constant:
                value = self.encoded.values[number]
                producer = value.producer()
                if producer is not None:
                    kept.add(producer)
                self.result.values[cls] = value
                return
        text = self.saturated.constants[cls]
        numbers = self._numbers(cls)
        base = self.encoded.values[numbers[0]].name if numbers else None
        name = self.fresh_name(f"{base}_constant" if base else "constant")
        tensor = constants.tensor_of(text, self.table, name)
        value = ir.Value(
            name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()), const_value=tensor
        )
        self.graph.register_initializer(value)
        self.result.values[cls] = value
        self.result.changed = True

    def _operands(self, option: Candidate) -> list[ir.Value | None]:
        node = self.saturated.nodes[option.index]
        operands = [None if c is None else self.result.values[c] for c in node.children]
        while operands and operands[-1] is None:
            operands.pop()
        return operands

    def _node(self, cls: int, option: Candidate, kept: set[ir.Node]) -> None:
        enode = self.saturated.nodes[option.index]
        if option.original is not None:
            loaded = self.loaded[option.original]
            node = loaded.node
            if loaded.rule:
                self._adopt(node, loaded.rule)
            if enode.signature is not None:
                self._reconnect(node, self._operands(option))
            else:
                self._reconnect_opaque(node)
            kept.add(node)
            self.result.option_of[node] = self.choice[cls]
            self.made[cls] = node
            if enode.signature is not None and not enode.signature.several:
                self.result.values[cls] = node.outputs[0]
            return
        assert enode.signature is not None
        node = self._make(option, cls)
        kept.add(node)
        self.result.option_of[node] = self.choice[cls]
        self.made[cls] = node
        if not enode.signature.several:
            self.result.values[cls] = node.outputs[0]

    def _adopt(self, node: ir.Node, rule: str) -> None:
        """A node of an expansion that holds graphs is taken over as it is."""
        node.metadata_props[RULE] = rule
        assert node.name is not None
        self.result.made_by[node.name] = rule
        self.graph.append(node)
        self.result.changed = True

    def _reconnect(self, node: ir.Node, operands: list[ir.Value | None]) -> None:
        for place, value in enumerate(operands):
            if place < len(node.inputs) and node.inputs[place] is not value:
                node.replace_input_with(place, value)
                self.result.changed = True

    def _reconnect_opaque(self, node: ir.Node) -> None:
        for place, value in enumerate(node.inputs):
            if value is not None:
                new = self.result.values[self.saturated.value_class[self.encoded.number[value]]]
                if new is not value:
                    node.replace_input_with(place, new)
                    self.result.changed = True

    def _make(self, option: Candidate, cls: int) -> ir.Node:
        enode = self.saturated.nodes[option.index]
        signature = enode.signature
        assert signature is not None
        definition = self.found.definitions[option.index]
        kinds = {a.name: a.type for a in definition.attributes}
        attributes = [
            attribute_from_text(name, kinds[name], text, self.table)
            for name, text in node_texts(signature, enode.columns).items()
            if name in kinds and text != "" and text != (_default(definition, name) or "")
        ]
        count = 1
        if signature.several:
            column = next(
                (c for a, c in zip(signature.attributes, enode.columns, strict=True) if a.name == RESULTS), "1"
            )
            count = int(column or "1")
        classes = self._result_classes(cls, count, signature.several)
        outputs = [self._new_value(c) for c in classes]
        base = next((v.name for v in outputs if v.name), definition.name)
        node = ir.Node(
            definition.domain,
            definition.name,
            self._operands(option),
            attributes,
            outputs=outputs,
            name=self.fresh_name(f"{definition.name}_{base}"),
            metadata_props={RULE: enode.made_by},
        )
        assert node.name is not None
        self.result.made_by[node.name] = enode.made_by
        self.graph.append(node)
        self.result.changed = True
        return node

    def _result_classes(self, cls: int, count: int, several: bool) -> list[int | None]:
        if not several:
            return [cls]
        places = self.places.get(cls, {})
        return [places.get(k) for k in range(count)]

    def _new_value(self, cls: int | None) -> ir.Value:
        """A value for a new node's result: under the name of the input graph's value that it is, where there is one."""
        if cls is None:
            return ir.Value(name="")
        value = ir.Value(name=None)
        for number in self._numbers(cls):
            old = self.encoded.values[number]
            if old.producer() is not None and number not in self.encoded.constant:
                value.name = old.name
                value.type, value.shape = old.type, old.shape
                value.doc_string = old.doc_string
                value.metadata_props.update(old.metadata_props)
                self.renamed.append((old, value))
                break
        else:
            value.name = self.fresh_name("value")
        info = self.saturated.infos.get(cls, UNKNOWN)
        if value.type is None and info is not UNKNOWN:
            value.type = onnx_type(info.dtype)
        if value.shape is None:
            value.shape = ir_shape(info)
        return value

    def _projection(self, cls: int, option: Candidate) -> None:
        self.result.values[cls] = self.made[option.children[0]].outputs[option.index]

    # ---------------------------------------------------------------------------------------------------- the rest

    def _deliver(self, kept: set[ir.Node]) -> None:
        """Graph outputs keep their names: a value of another name is passed on."""
        taken: set[ir.Value] = set()
        heirs: set[ir.Node] = set()  # nodes whose name went to what passes one of their results on
        renamed = dict(self.renamed)
        for place, output in enumerate(self.graph.outputs):
            cls = self.saturated.value_class[self.encoded.number[output]]
            value = self.result.values[cls]
            if value is output:
                continue
            if renamed.get(output) is value and value not in taken:
                taken.add(value)
                self.graph.outputs[place] = value
                continue
            if value not in taken and self._takes_name(value, output):
                taken.add(value)
                continue
            old = output.producer()
            name = output.name
            passed = ir.Value(name=name, type=output.type, shape=output.shape, doc_string=output.doc_string)
            passed.metadata_props.update(output.metadata_props)
            self.result.delivered[passed] = cls
            inherits = old is not None and old not in kept and old not in heirs
            if old is not None and inherits:
                heirs.add(old)
            node = ir.Node(
                "",
                self.identity,
                [value],
                outputs=[passed],
                name=old.name if old is not None and inherits else self.fresh_name(f"{self.identity}_{name}"),
            )
            self.graph.append(node)
            kept.add(node)
            self.graph.outputs[place] = passed
            if old is None or old.op_type != self.identity or old in kept:
                self.result.changed = True

    def _takes_name(self, value: ir.Value, output: ir.Value) -> bool:
        """Gives a graph output's name and declared type to the value that now stands for it, where that is free to
        change: no input, no constant, no output itself, nothing of an outer graph."""
        producer = value.producer()
        if producer is None or producer.graph is not self.graph or value.is_graph_output():
            return False
        if value.is_initializer() or self.saturated.constants.get(self._class_of(output)) is not None:
            return False
        name, output.name = output.name, None
        value.name = name
        value.type, value.shape, value.doc_string = output.type, output.shape, output.doc_string
        value.metadata_props.update(output.metadata_props)
        self.graph.outputs[self.graph.outputs.index(output)] = value
        self.result.changed = True
        return True

    def _class_of(self, value: ir.Value) -> int:
        return self.saturated.value_class[self.encoded.number[value]]

    def _captures(self, kept: set[ir.Node]) -> None:
        """Bodies read the values that now stand for what they captured."""
        for node in list(kept):
            if not any(a.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for a in node.attributes.values()):
                continue
            for value in list(captured_values(node)):
                number = self.encoded.number.get(value)
                if number is None:
                    continue
                new = self.result.values[self.saturated.value_class[number]]
                if new is not value:
                    replace_in_bodies(node, value, new)
                    self.result.changed = True

    def _remove(self, before: list[ir.Node], kept: set[ir.Node]) -> None:
        dropped = [n for n in before if n not in kept]
        for node in dropped:
            for place in range(len(node.inputs)):
                node.replace_input_with(place, None)
        for node in dropped:
            self.graph.remove(node)
        used = {v for n in self.graph for v in n.inputs if v is not None} | set(self.graph.outputs)
        for node in self.graph:
            if _has_bodies(node):
                used.update(captured_values(node))
        inputs = set(self.graph.inputs)
        for name, value in list(self.graph.initializers.items()):
            if value not in used and value not in inputs and not value.uses():
                del self.graph.initializers[name]
                self.result.changed = True

    def _sort(self) -> None:
        """Topological order, as near to the input graph's as can be."""
        nodes = list(self.graph)
        place: dict[ir.Node, tuple[int, int]] = {}
        size = len(self.original_order)
        first_use: dict[ir.Node, int] = {}
        for node in reversed(nodes):
            known = self.original_order.get(node)
            if known is None:
                known = first_use.get(node, size)
            for value in [*node.inputs, *(captured_values(node) if _has_bodies(node) else ())]:
                producer = value.producer() if value is not None else None
                if producer is not None:
                    first_use[producer] = min(first_use.get(producer, size), known)
        for k, node in enumerate(nodes):
            known = self.original_order.get(node)
            place[node] = (2 * known + 1, 0) if known is not None else (2 * first_use.get(node, size), k)
        inside = set(nodes)
        waiting: dict[ir.Node, int] = {}
        users: dict[ir.Node, list[ir.Node]] = {}
        for node in nodes:
            makers = {
                p
                for v in [*node.inputs, *(captured_values(node) if _has_bodies(node) else ())]
                if v is not None and (p := v.producer()) is not None and p in inside
            }
            waiting[node] = len(makers)
            for maker in makers:
                users.setdefault(maker, []).append(node)
        number = {n: k for k, n in enumerate(nodes)}
        order: list[ir.Node] = []
        queue = sorted((place[n], k) for k, n in enumerate(nodes) if waiting[n] == 0)
        while queue:
            _, k = heapq.heappop(queue)
            node = nodes[k]
            order.append(node)
            for user in users.get(node, ()):
                waiting[user] -= 1
                if waiting[user] == 0:
                    heapq.heappush(queue, (place[user], number[user]))
        if order != nodes:
            self.graph.remove(nodes)
            self.graph.extend(order)


def _default(definition: OperatorDef, name: str) -> str | None:
    attribute = definition.attribute(name)
    return attribute.default if attribute is not None else None


def _has_bodies(node: ir.Node) -> bool:
    return any(a.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for a in node.attributes.values())


def replace_in_bodies(node: ir.Node, old: ir.Value, new: ir.Value) -> None:
    """Every use of `old` inside the bodies of `node` becomes `new`."""
    stack = [g for a in node.attributes.values() for g in bodies(a)]
    while stack:
        graph = stack.pop()
        for inner in graph:
            for place, value in enumerate(inner.inputs):
                if value is old:
                    inner.replace_input_with(place, new)
            stack += [g for a in inner.attributes.values() for g in bodies(a)]
        for place, value in enumerate(graph.outputs):
            if value is old:
                graph.outputs[place] = new


def bodies(attribute: ir.Attr) -> list[ir.Graph]:
    if attribute.type == ir.AttributeType.GRAPH:
        return [attribute.as_graph()]
    if attribute.type == ir.AttributeType.GRAPHS:
        return list(attribute.as_graphs())
    return []


def ir_shape(info: Info) -> ir.Shape | None:
    """A shape as the model's files write it: numbers and plain symbols; anything else is left open."""
    if info.shape is None:
        return None
    return ir.Shape([None if d is None else d.value if d.value is not None else _symbol(d) for d in info.shape])


def _symbol(dim: object) -> str | None:
    text = str(dim)
    return text if text.isidentifier() else None
