"""What goes over the borders of clusters: inputs, outputs, and one channel for each value and consuming cluster."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from gerules.errors import Diagnostic, InternalFault
from gerules.partition.cluster import Clustering
from gerules.partition.net import Node


@dataclass(frozen=True, slots=True)
class Channel:
    """An End/PlaceHolder pair: `value` goes from the cluster that makes it to one that reads it.

    `peer_index` numbers the pairs in order of (the value's position in the graph, consuming cluster). `parent_op_type`
    and `parent_node_name` are the producing node, `placeholder_anchor` its output index, `end_anchor` the operand
    index of the value's first consumer in the consuming cluster; a value that only bodies of it read counts behind
    the operands, in order of reading. `bytes` is None where the size is not known.
    """

    value: str
    source: int
    target: int
    bytes: int | None
    peer_index: int
    parent_op_type: str
    parent_node_name: str
    placeholder_anchor: int
    end_anchor: int


@dataclass(frozen=True, slots=True)
class Border:
    """What one cluster needs and gives, by name. `inputs`: graph inputs in their order, then channels in theirs;
    `optional_inputs`: graph inputs that an initializer gives a value (not in `inputs`); `outputs`: values in order of
    their position; `initializers`: those that it reads or gives."""

    inputs: tuple[str, ...]
    optional_inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    initializers: frozenset[str]


def find_channels(clustering: Clustering) -> tuple[Channel, ...]:
    """All channels of a clustering, by peer index; sizes are not filled in."""
    net = clustering.net
    rank = {index: at for at, index in enumerate(net.order)}
    channels: list[Channel] = []
    for index, producer in enumerate(net.nodes):
        if producer.name in clustering.copies:
            continue
        source = clustering.cluster_of[producer.name]
        for output, value in enumerate(producer.results):
            if not value:
                continue
            first: dict[int, int] = {}
            for reader in sorted(net.readers.get(value, ()), key=rank.__getitem__):
                for target in clustering.holders(net.nodes[reader].name):
                    if target != source:
                        first.setdefault(target, reader)
            for target in sorted(first):
                channels.append(
                    Channel(
                        value=value,
                        source=source,
                        target=target,
                        bytes=None,
                        peer_index=len(channels),
                        parent_op_type=producer.op_type,
                        parent_node_name=net.nodes[index].name,
                        placeholder_anchor=output,
                        end_anchor=_operand_index(net.nodes[first[target]], value),
                    )
                )
    return tuple(channels)


def find_borders(
    clustering: Clustering, channels: tuple[Channel, ...], stored: Set[str] = frozenset()
) -> tuple[Border, ...]:
    """The border of every cluster, by id. `stored` names further initializers (sparse ones, which the clusters were
    made without)."""
    net = clustering.net
    all_initializers = net.initializers | stored
    count = len(clustering.clusters)
    reads: list[set[str]] = [set() for _ in range(count)]
    for node in net.nodes:
        for at in clustering.holders(node.name):
            reads[at].update(node.reads)
    arriving: list[list[str]] = [[] for _ in range(count)]
    leaving: list[set[str]] = [set() for _ in range(count)]
    for channel in channels:
        arriving[channel.target].append(channel.value)
        leaving[channel.source].add(channel.value)
    given: list[set[str]] = [set() for _ in range(count)]
    for value in dict.fromkeys(net.outputs):
        made = net.producer.get(value)
        if made is not None:
            leaving[clustering.holders(net.nodes[made[0]].name)[0]].add(value)
        elif value in all_initializers and count:
            # No cluster makes it; the first that reads it gives it, or the first of all.
            home = next((at for at in range(count) if value in reads[at]), 0)
            leaving[home].add(value)
            given[home].add(value)
    rank = {value: at for at, value in enumerate(dict.fromkeys(net.inputs))}
    borders = []
    for at in range(count):
        initializers = {v for v in reads[at] if v in all_initializers} | given[at]
        unknown = [v for v in reads[at] if v not in rank and v not in initializers and v not in net.producer]
        if unknown:
            what = f"value {min(unknown)!r} is read and nothing makes it"
            raise InternalFault(Diagnostic("GR902", what, node=min(unknown)))
        position = {value: net.producer.get(value, (-1, 0)) for value in leaving[at]}
        own = sorted((v for v in reads[at] | given[at] if v in rank), key=rank.__getitem__)
        borders.append(
            Border(
                inputs=(*(v for v in own if v not in initializers), *arriving[at]),
                optional_inputs=tuple(v for v in own if v in initializers),
                outputs=tuple(sorted(leaving[at], key=lambda v: (position[v], v))),
                initializers=frozenset(initializers),
            )
        )
    return tuple(borders)


def _operand_index(reader: Node, value: str) -> int:
    if value in reader.operands:
        return reader.operands.index(value)
    return len(reader.operands) + reader.captured.index(value)
