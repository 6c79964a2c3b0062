"""The e-nodes that may be chosen: what exists at the model's own operator versions, leaves, constants, projections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gerules.egraph.encode import NO_VALUE, Encoded, Loaded
from gerules.egraph.session import ENode, Saturated
from gerules.egraph.signature import Signature
from gerules.egraph.texts import node_texts
from gerules.graph import constants
from gerules.graph.constants import ConstantTable
from gerules.graph.info import UNKNOWN, Info
from gerules.registry.definition import VARIADIC, OperatorDef
from gerules.static import TensorView

NODE, LEAF, CONSTANT, PROJECTION = "node", "leaf", "constant", "projection"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to come by a class. `index` is an e-node's, a value's number (leaf) or a place (projection); `original`
    is the loaded node that this e-node was, None for what a rule made."""

    kind: str
    cls: int
    children: tuple[int, ...]
    index: int
    original: int | None = None


@dataclass
class Candidates:
    """All candidates of an e-graph, and the input graph among them."""

    saturated: Saturated
    encoded: Encoded
    definitions: Mapping[int, OperatorDef]
    """E-node index -> its definition at the model's version of the domain."""
    options: list[Candidate] = field(default_factory=list)
    incumbent: dict[int, int] = field(default_factory=dict)
    """Class -> option of the input graph."""
    roots: tuple[int, ...] = ()


def candidates(
    saturated: Saturated,
    encoded: Encoded,
    *,
    in_force: Callable[[Signature], OperatorDef | None],
    roots: Sequence[int],
    keeps: Callable[[ENode, OperatorDef | None], bool] | None = None,
) -> Candidates:
    """`in_force` gives the definition of a semantic version at the opset of the result, None where it has another then.
    `roots` are value numbers. `keeps` says whether an e-node may be there (None: all may that are of the result's
    opset), by its definition there, None for an opaque one."""
    definitions: dict[int, OperatorDef] = {}
    found = Candidates(saturated, encoded, definitions)
    originals = _originals(saturated, encoded)
    wanted: dict[int, int] = {}
    for index, node in enumerate(saturated.nodes):
        original = originals.get(index)
        if node.signature is not None:
            definition = in_force(node.signature)
            if definition is None or (original is None and not admitted(definition, node, saturated)):
                continue
            if keeps is not None and not keeps(node, definition):
                continue
            definitions[index] = definition
        elif keeps is not None and not keeps(node, None):
            continue
        children = tuple(c for c in node.children if c is not None)
        wanted[index] = len(found.options)
        found.options.append(Candidate(NODE, node.cls, children, index, original))
    projections: dict[tuple[int, int, int], int] = {}
    for cls, node_cls, place in saturated.projections:
        projections[cls, node_cls, place] = len(found.options)
        found.options.append(Candidate(PROJECTION, cls, (node_cls,), place))
    leaf: dict[int, int] = {}
    produced = {r for n in encoded.nodes for r in n.results}
    for cls, numbers in sorted(saturated.leaves.items()):
        free = [n for n in numbers if n not in produced and n not in encoded.constant and n not in encoded.inner]
        if free:
            leaf[cls] = len(found.options)
            found.options.append(Candidate(LEAF, cls, (), free[0]))
    constant: dict[int, int] = {}
    for cls in sorted(saturated.constants):
        constant[cls] = len(found.options)
        found.options.append(Candidate(CONSTANT, cls, (), -1))
    _incumbent(found, originals, wanted, projections, leaf, constant)
    found.roots = tuple(dict.fromkeys(saturated.value_class[r] for r in roots))
    return found


def _originals(saturated: Saturated, encoded: Encoded) -> dict[int, int]:
    """E-node index -> the first loaded node that it is."""
    by_key: dict[tuple[object, ...], int] = {}
    for index, node in enumerate(saturated.nodes):
        name = node.signature.constructor if node.signature is not None else ""
        by_key[name, node.children, node.columns, node.node] = index
    found: dict[int, int] = {}
    for loaded in encoded.nodes:
        if loaded.rule and loaded.signature is not None:
            continue  # no node that is there: it would have to be made
        index = by_key[_key(loaded, saturated)]
        found.setdefault(index, loaded.number)
    return found


def _key(loaded: Loaded, saturated: Saturated) -> tuple[object, ...]:
    children = tuple(None if o == NO_VALUE else saturated.value_class[o] for o in loaded.operands)
    if loaded.signature is None:
        return "", children, (), loaded.number
    number = loaded.number if loaded.signature.impure else None
    return loaded.signature.constructor, children, loaded.columns, number


def _incumbent(
    found: Candidates,
    originals: Mapping[int, int],
    wanted: Mapping[int, int],
    projections: Mapping[tuple[int, int, int], int],
    leaf: Mapping[int, int],
    constant: Mapping[int, int],
) -> None:
    """The input graph: for each class what came first in the graph's order, so that there is no cycle."""
    saturated, encoded = found.saturated, found.encoded
    found.incumbent.update(leaf)
    for number in sorted(encoded.constant):
        cls = saturated.value_class[number]
        found.incumbent.setdefault(cls, constant[cls])
    index_of = {number: index for index, number in originals.items()}
    given = [n for n in encoded.nodes if not n.rule]
    by_key = {_key(n, saturated): n.number for n in reversed(given)}
    for loaded in given:
        first = by_key[_key(loaded, saturated)]
        option = wanted.get(index_of[first])
        if option is None:
            continue
        if loaded.signature is not None and not loaded.signature.several:
            found.incumbent.setdefault(saturated.value_class[loaded.results[0]], option)
            continue
        node_cls = saturated.node_class.get(loaded.number)
        if node_cls is None:
            continue
        found.incumbent.setdefault(node_cls, option)
        for place, result in enumerate(loaded.results):
            if result != NO_VALUE:
                cls = saturated.value_class[result]
                found.incumbent.setdefault(cls, projections[cls, node_cls, place])


def admitted(definition: OperatorDef, node: ENode, saturated: Saturated) -> bool:
    """Whether a definition admits the operand types of an e-node that a rule made."""
    inputs = definition.inputs
    if len(node.children) > len(inputs) and not (inputs and inputs[-1].kind == VARIADIC):
        return all(c is None for c in node.children[len(inputs) :])
    for place, child in enumerate(node.children):
        info = saturated.infos.get(child) if child is not None else None
        if info is None or info is UNKNOWN:
            continue
        formal = inputs[min(place, len(inputs) - 1)]
        if formal.types and info.dtype not in formal.types:
            return False
    return True


@dataclass
class EGraphView:
    """E-nodes and classes as patterns of engines and costs see them."""

    found: Candidates
    table: ConstantTable
    opaque: Mapping[int, OperatorDef] = field(default_factory=dict)
    """Loaded node number -> a stand-in definition (no version) of an opaque operator."""
    _producers: dict[int, list[int]] = field(default_factory=dict)
    _tensors: dict[int, TensorView] = field(default_factory=dict)
    _results: dict[int, dict[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        nodes = self.found.saturated.nodes
        of_node: dict[int, list[int]] = {}
        for option in self.found.options:
            if option.kind == NODE:
                of_node.setdefault(option.cls, []).append(option.index)
                if not self._several(nodes[option.index]):
                    self._producers.setdefault(option.cls, []).append(option.index)
        for cls, node_cls, place in self.found.saturated.projections:
            self._producers.setdefault(cls, []).extend(of_node.get(node_cls, ()))
            self._results.setdefault(node_cls, {}).setdefault(place, cls)

    @staticmethod
    def _several(node: ENode) -> bool:
        return node.signature is None or node.signature.several

    def operator(self, node: int) -> OperatorDef:
        enode = self.found.saturated.nodes[node]
        if enode.signature is None:
            assert enode.node is not None
            return self.opaque[enode.node]
        return self.found.definitions[node]

    def attributes(self, node: int) -> Mapping[str, str]:
        enode = self.found.saturated.nodes[node]
        return {} if enode.signature is None else node_texts(enode.signature, enode.columns)

    def operands(self, node: int) -> Sequence[int | None]:
        children = list(self.found.saturated.nodes[node].children)
        while children and children[-1] is None:
            children.pop()
        return children

    def results(self, node: int) -> Sequence[int | None]:
        enode = self.found.saturated.nodes[node]
        if not self._several(enode):
            return (enode.cls,)
        places = self._results.get(enode.cls, {})
        return tuple(places.get(k) for k in range(max(places, default=-1) + 1))

    def producers(self, value: int) -> Sequence[int]:
        return self._producers.get(value, ())

    def tensor(self, value: int) -> TensorView:
        made = self._tensors.get(value)
        if made is None:
            info: Info = self.found.saturated.infos.get(value, UNKNOWN)
            text = info.constant_text
            made = TensorView(info, None if text is None else constants.decode(text, self.table))
            self._tensors[value] = made
        return made
