"""The plain shape of a graph: who reads what of whom, by name. Clusters and files are made from this alone.

What the bodies of a node read from outside of it (captured values) counts like its operands. Order is the graph's own
where that is executable, else the nearest executable one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import onnx_ir as ir

from gerules.errors import Diagnostic, Refused
from gerules.graph.dtypes import name_of_onnx, type_name
from gerules.graph.structure import bodies

LABEL_KEY = "gerules.stream_label"

_END = object()


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the main graph. `operands` and `results` hold value names, "" where one is absent; `captured` the
    outer values that its bodies read, in order of first reading and without those that are operands already; `reads`
    every value, once, that has to be there before this node runs."""

    name: str
    op_type: str
    domain: str
    operands: tuple[str, ...]
    captured: tuple[str, ...]
    results: tuple[str, ...]
    reads: tuple[str, ...]
    label: str = ""


@dataclass(frozen=True, slots=True)
class ValueType:
    """Element type (`f32`, `seq(f32)`; "" if unknown) and shape (None: unknown rank or no tensor; entries are ints,
    symbols, or None) of a value, as declared."""

    dtype: str
    shape: tuple[int | str | None, ...] | None

    @property
    def dynamic(self) -> bool:
        """Whether an extent is not a number."""
        return self.shape is None or any(not isinstance(d, int) for d in self.shape)

    @property
    def size(self) -> int | None:
        """Number of elements, None where not known."""
        if self.shape is None:
            return None
        size = 1
        for extent in self.shape:
            if not isinstance(extent, int) or extent < 0:
                return None
            size *= extent
        return size


@dataclass(frozen=True)
class Net:
    """A graph by names. `nodes` are in the graph's order and `order` lists their positions in an executable one;
    `producer` maps a value to (position of its node, output index); `readers` to the positions that read it; `before`
    lists, for each node, the positions of those whose results it reads, each once, in order of reading."""

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    initializers: frozenset[str]
    types: Mapping[str, ValueType]
    producer: Mapping[str, tuple[int, int]]
    readers: Mapping[str, tuple[int, ...]]
    before: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    position: Mapping[str, int]


def net_of(graph: ir.Graph, more: Mapping[str, ValueType] = MappingProxyType({})) -> Net:
    """The plain shape of `graph`; `more` says more of values than it declares. Raises Refused: GR650 where nodes wait
    for each other in a cycle, GR651 where a node of the main graph has no name or shares it."""
    nodes = tuple(_node_of(node) for node in graph)
    _check_names(nodes)
    producer: dict[str, tuple[int, int]] = {}
    types: dict[str, ValueType] = {}
    known = _Types()
    for index, node in enumerate(graph):
        for output, value in enumerate(node.outputs):
            if value.name:
                producer[value.name] = (index, output)
                types[value.name] = known.of(value)
    for value in (*graph.inputs, *graph.initializers.values(), *graph.outputs):
        if value.name:
            types[value.name] = known.of(value)
    readers: dict[str, list[int]] = {}
    for index, plain in enumerate(nodes):
        for name in plain.reads:
            readers.setdefault(name, []).append(index)
    before = tuple(_before(plain, producer) for plain in nodes)
    return Net(
        nodes=nodes,
        inputs=tuple(v.name or "" for v in graph.inputs),
        outputs=tuple(v.name or "" for v in graph.outputs),
        initializers=frozenset(graph.initializers),
        types={**types, **{name: said for name, said in more.items() if name in types}},
        producer=producer,
        readers={name: tuple(found) for name, found in readers.items()},
        before=before,
        order=_executable_order(nodes, before),
        position={node.name: index for index, node in enumerate(nodes)},
    )


def captured_values(node: ir.Node) -> list[ir.Value]:
    """The values that the bodies of `node`, however deep, read from outside of it, in order of first reading."""
    inside: set[int] = set()
    read: dict[int, ir.Value] = {}
    waiting: list[Iterator[ir.Node | ir.Value | None]] = [_contents(node, inside)]
    while waiting:
        met = next(waiting[-1], _END)
        if met is _END:
            waiting.pop()
        elif isinstance(met, ir.Node):
            inside.update(id(v) for v in met.outputs)
            read.update((id(v), v) for v in met.inputs if v is not None and v.name)
            waiting.append(_contents(met, inside))
        elif isinstance(met, ir.Value) and met.name:
            read.setdefault(id(met), met)
    return [value for key, value in read.items() if key not in inside]


def _contents(node: ir.Node, inside: set[int]) -> Iterator[ir.Node | ir.Value | None]:
    """The nodes of the bodies of `node`, each body's followed by its outputs; what a body brings is put in `inside`."""
    for _, body in bodies(node):
        inside.update(id(v) for v in body.inputs)
        inside.update(id(v) for v in body.initializers.values())
        yield from body
        yield from body.outputs


def _node_of(node: ir.Node) -> Node:
    operands = tuple((v.name or "") if v is not None else "" for v in node.inputs)
    reads = dict.fromkeys(operands)
    reads.pop("", None)
    captured = tuple(
        name for name in dict.fromkeys(v.name for v in captured_values(node) if v.name) if name not in reads
    )
    return Node(
        name=node.name or "",
        op_type=node.op_type,
        domain=node.domain,
        operands=operands,
        captured=captured,
        results=tuple(v.name or "" for v in node.outputs),
        reads=(*reads, *captured),
        label=node.metadata_props.get(LABEL_KEY, ""),
    )


class _Types:
    """Types of values, equal ones made once."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, tuple[int | str | None, ...] | None], ValueType] = {}

    def of(self, value: ir.Value) -> ValueType:
        kind, constant = value.type, value.const_value
        shape: ir.ShapeProtocol | None = value.shape
        name = name_of_onnx(kind.dtype) if type(kind) is ir.TensorType else type_name(kind)
        if constant is not None:
            name = name or name_of_onnx(constant.dtype)
            shape = constant.shape if shape is None else shape
        extents = None if shape is None else tuple(d if isinstance(d, int) else d.value for d in shape)
        key = (name or "", extents)
        return self._made.get(key) or self._made.setdefault(key, ValueType(*key))


def _check_names(nodes: Sequence[Node]) -> None:
    seen: set[str] = set()
    faults = []
    for index, node in enumerate(nodes):
        if not node.name:
            what = f"node {index} ({node.op_type}) has no name, so that nothing can be said of its place"
            faults.append(Diagnostic("GR651", what, hint="name the nodes before they are placed"))
        elif node.name in seen:
            what = f"two nodes of the graph are called {node.name!r}"
            faults.append(Diagnostic("GR651", what, node=node.name, hint="rename one of them"))
        seen.add(node.name)
    if faults:
        raise Refused(faults)


def _before(node: Node, producer: Mapping[str, tuple[int, int]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(producer[v][0] for v in node.reads if v in producer))


def _executable_order(nodes: Sequence[Node], before: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Positions in an executable order: always the earliest node of the graph that is ready."""
    waiting = [0] * len(nodes)
    followers: list[list[int]] = [[] for _ in nodes]
    for index, read in enumerate(before):
        waiting[index] = len(read)
        for source in read:
            followers[source].append(index)
    ready = [index for index, count in enumerate(waiting) if count == 0]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for after in followers[index]:
            waiting[after] -= 1
            if waiting[after] == 0:
                heapq.heappush(ready, after)
    if len(order) < len(nodes):
        cycle = _some_cycle(before, [i for i, count in enumerate(waiting) if count > 0])
        path = " -> ".join(nodes[i].name for i in cycle)
        what = f"the graph has a cycle: {path}"
        raise Refused(Diagnostic("GR650", what, node=nodes[cycle[0]].name, hint="a graph to be placed must be acyclic"))
    return tuple(order)


def _some_cycle(before: Sequence[Sequence[int]], stuck: Sequence[int]) -> list[int]:
    """One cycle among `stuck` nodes, each of which waits for another stuck one; closed: first and last are equal."""
    among = set(stuck)
    trail: dict[int, int] = {}
    path: list[int] = []
    at = stuck[0]
    while at not in trail:
        trail[at] = len(path)
        path.append(at)
        at = next(source for source in before[at] if source in among)
    cycle = [*path[trail[at] :], at]
    cycle.reverse()
    return cycle
