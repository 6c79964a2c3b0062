"""What merging starts from: nodes that are copied wherever they are read, and nodes or whole groups that are not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gerules.errors import Diagnostic, InternalFault, Refused
from gerules.partition.components import strong_components
from gerules.partition.facts import Duplicable, NodeFacts, is_constant
from gerules.partition.net import Net, Node


def copied_nodes(
    net: Net, facts: Mapping[str, NodeFacts], placement: Mapping[str, str], duplicable: Duplicable
) -> frozenset[int]:
    """Positions of the nodes that are copied into each cluster that reads them."""
    constant = set()
    for index in net.order:
        reads = net.nodes[index].reads
        if all((v in net.initializers or net.producer.get(v, (-1, 0))[0] in constant) for v in reads):
            constant.add(index)
    needed: dict[int, dict[str, None]] = {}
    for index in reversed(net.order):
        if index not in constant:
            continue
        engines: dict[str, None] = {}
        for value in net.nodes[index].results:
            for reader in net.readers.get(value, ()):
                engine = placement.get(net.nodes[reader].name)
                if engine is not None:
                    engines[engine] = None
                engines.update(needed.get(reader, {}))
        needed[index] = engines
    copied: set[int] = set()
    for index in net.order:
        if index not in constant:
            continue
        node = net.nodes[index]
        before = net.before[index]
        if is_constant(node) or (
            all(p in copied for p in before)
            and all(duplicable(facts[node.name], engine) for engine in sorted({*needed[index], placement[node.name]}))
        ):
            copied.add(index)
    if len(copied) == len(net.nodes):
        # With nothing to be copied into, they are ordinary nodes, if they have a place.
        _check_has_place(net, placement)
        return frozenset()
    return frozenset(copied)


def _check_has_place(net: Net, placement: Mapping[str, str]) -> None:
    lost = [node for node in net.nodes if node.name not in placement]
    if lost:
        hint = "the graph consists of constants alone: place them too"
        raise Refused([Diagnostic("GR652", f"node {n.name!r} has no engine", node=n.name, hint=hint) for n in lost])


@dataclass(frozen=True)
class Units:
    """What merging starts from. `members[u]` are positions of nodes, `engine[u]` where they run together."""

    members: tuple[tuple[int, ...], ...]
    engine: tuple[str, ...]
    of: Mapping[int, int]


def find_units(
    net: Net,
    placement: Mapping[str, str],
    groups: Iterable[Iterable[str]],
    copied: frozenset[int],
    join: Callable[[str, str], str | None],
) -> Units:
    parent = list(range(len(net.nodes)))

    def find(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    def unite(indices: Sequence[int]) -> None:
        for index in indices[1:]:
            first, second = sorted((find(indices[0]), find(index)))
            parent[second] = first

    grouped = False
    for group in groups:
        indices = []
        for name in group:
            if name not in net.position:
                raise InternalFault(Diagnostic("GR900", f"a group names node {name!r}, which the graph does not have"))
            if net.position[name] not in copied:
                indices.append(net.position[name])
        unite(indices)
        grouped = grouped or len(indices) > 1
    if grouped:
        _check_groups(net, placement, copied, find, join)
        _close_groups(net, placement, copied, find, unite, join)
    return _gather(net, placement, copied, find, join)


def _gather(
    net: Net,
    placement: Mapping[str, str],
    copied: frozenset[int],
    find: Callable[[int], int],
    join: Callable[[str, str], str | None],
) -> Units:
    number: dict[int, int] = {}
    members: list[list[int]] = []
    of: dict[int, int] = {}
    for index in net.order:
        if index in copied:
            continue
        root = find(index)
        if root not in number:
            number[root] = len(members)
            members.append([])
        of[index] = number[root]
        members[number[root]].append(index)
    engines = []
    for indices in members:
        engine = placement[net.nodes[indices[0]].name]
        for index in indices[1:]:
            engine = join(engine, placement[net.nodes[index].name]) or engine
        engines.append(engine)
    return Units(tuple(tuple(m) for m in members), tuple(engines), of)


def _check_groups(
    net: Net,
    placement: Mapping[str, str],
    copied: frozenset[int],
    find: Callable[[int], int],
    join: Callable[[str, str], str | None],
) -> None:
    """Every group on one engine, or on parts of one composite. Raises Refused GR653 with all that are not."""
    gathered: dict[int, list[Node]] = {}
    for index in net.order:
        if index not in copied:
            gathered.setdefault(find(index), []).append(net.nodes[index])
    faults = []
    for nodes in gathered.values():
        engine: str | None = placement[nodes[0].name]
        for node in nodes[1:]:
            engine = join(engine, placement[node.name]) if engine is not None else None
        if engine is None:
            places = ", ".join(f"{n.name} on {placement[n.name]}" for n in nodes)
            hint = "place the whole group on one engine, or drop the group"
            faults.append(
                Diagnostic(
                    "GR653", f"a group must stay in one cluster, but lies on several engines: {places}", hint=hint
                )
            )
    if faults:
        raise Refused(faults)


def _close_groups(
    net: Net,
    placement: Mapping[str, str],
    copied: frozenset[int],
    find: Callable[[int], int],
    unite: Callable[[Sequence[int]], None],
    join: Callable[[str, str], str | None],
) -> None:
    """Take into a group what lies on a path from it back to it. Raises Refused GR654 where that runs elsewhere."""
    following: dict[int, dict[int, None]] = {}
    for index in net.order:
        if index in copied:
            continue
        following.setdefault(find(index), {})
        for before in net.before[index]:
            if before not in copied and find(before) != find(index):
                following.setdefault(find(before), {})[find(index)] = None
    faults = []
    for component in strong_components({root: list(after) for root, after in following.items()}):
        if len(component) == 1:
            continue
        inside = set(component)
        members = [net.nodes[i] for i in net.order if i not in copied and find(i) in inside]
        engine: str | None = placement[members[0].name]
        for node in members[1:]:
            engine = join(engine, placement[node.name]) if engine is not None else None
        if engine is not None:
            unite(sorted(component))
            continue
        places = ", ".join(f"{n.name} on {placement[n.name]}" for n in members)
        what = f"a group cannot stay in one cluster: a path leaves it and comes back through another engine ({places})"
        hint = "place the path on the group's engine, or drop the group"
        faults.append(Diagnostic("GR654", what, node=members[0].name, hint=hint))
    if faults:
        raise Refused(faults)
