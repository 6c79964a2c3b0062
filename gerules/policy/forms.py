"""A node of a graph as rules between releases see it, and how its operands go with the places of a definition.

Operands are given by place. A definition with one dynamic input leaves it what the fixed ones do not take; inputs
after a dynamic one are therefore always written, absent or not. Where a definition has several dynamic inputs, or its
attribute N says how many there are, the node says the counts.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from gerules.registry.release import DYNAMIC, Literal, Port, ReleaseOperator

COUNT = "N"
"""The attribute that says how many operands the one dynamic input has."""


@dataclass(frozen=True, slots=True)
class Constant:
    """An operand that a rule or policy gives: a value, and the data types that the input admits."""

    value: Literal
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Made:
    """A result that an operator has in addition, read by nothing, or one between two nodes that a rule makes."""

    node: str
    name: str


Token = Hashable
"""Whatever stands for a value of the graph; operands are compared, never looked into."""


@dataclass(frozen=True, slots=True)
class Setting:
    """An attribute of a node: its value, its registered type, whether it is written or left to its default, that
    default (None where it has none), and whether a rule says the value rather than the node."""

    value: object
    type: str
    written: bool
    default: Literal | None = None
    by_rule: bool = False


@dataclass(frozen=True, slots=True)
class NodeForm:
    """One node. `operator` is its name within the domain; None is an absent operand; `used` are the places of results
    that something reads; `counts` the operands (or results) of dynamic parameters, where the node says them."""

    name: str
    operator: str
    inputs: tuple[Token | None, ...] = ()
    outputs: tuple[Token, ...] = ()
    attributes: Mapping[str, object] = field(default_factory=dict, hash=False)
    used: frozenset[int] = frozenset()
    counts: Mapping[str, int] = field(default_factory=dict, hash=False)


class Undecided(Exception):
    """The operands of a node do not go with the places of its definition; the text says why."""


def placed(
    ports: Sequence[Port], values: Sequence[Token | None], counts: Mapping[str, int], what: str
) -> dict[str, tuple[Token | None, ...]]:
    """Which values each parameter has: one or none for a fixed one, any number for a dynamic one. Raises Undecided."""
    dynamic = [p for p in ports if p.kind == DYNAMIC]
    fixed = len(ports) - len(dynamic)
    sizes: dict[str, int] = {}
    if len(dynamic) == 1:
        sizes[dynamic[0].name] = counts.get(dynamic[0].name, max(0, len(values) - fixed))
    elif dynamic:
        missing = [p.name for p in dynamic if p.name not in counts]
        if missing:
            raise Undecided(f"{what} {', '.join(missing)} are dynamic, and the node does not say how many each has")
        sizes = {p.name: counts[p.name] for p in dynamic}
    found: dict[str, tuple[Token | None, ...]] = {}
    at = 0
    for port in ports:
        size = sizes.get(port.name, 1)
        part = tuple(values[at : at + size])
        at += size
        if port.kind == DYNAMIC:
            if len(part) < size:
                raise Undecided(f"{port.name} should have {size} {what}, and {len(part)} are there")
            found[port.name] = part
        else:
            found[port.name] = part if part and part[0] is not None else ()
    if any(v is not None for v in values[at:]):
        raise Undecided(f"it has {len(values)} {what}, and its definition takes {at}")
    return found


def counts_of(node: NodeForm, definition: ReleaseOperator) -> dict[str, int]:
    """What the node says about its dynamic inputs: its counts, else its attribute N where one input is dynamic."""
    counts = dict(node.counts)
    dynamic = [p.name for p in definition.inputs if p.kind == DYNAMIC]
    number = node.attributes.get(COUNT)
    if len(dynamic) == 1 and dynamic[0] not in counts and type(number) is int:
        fixed = len(definition.inputs) - 1
        # An N that the operands contradict says something else.
        if 0 <= number <= len(node.inputs) <= number + fixed:
            counts[dynamic[0]] = number
    return counts


def in_order(
    ports: Sequence[Port], found: Mapping[str, Sequence[Token | None]]
) -> tuple[tuple[Token | None, ...], dict[str, int]]:
    """Values by place, absent ones written out, and the counts that a reader needs (where several are dynamic)."""
    flat: list[Token | None] = []
    for port in ports:
        values = found.get(port.name, ())
        if port.kind == DYNAMIC:
            flat += values
        else:
            flat.append(values[0] if values else None)
    dynamic = [p for p in ports if p.kind == DYNAMIC]
    counts = {p.name: len(found.get(p.name, ())) for p in dynamic} if len(dynamic) > 1 else {}
    return tuple(flat), counts
