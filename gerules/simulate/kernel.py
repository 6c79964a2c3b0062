"""The kernel table: which Python computes which operator at which version, and what a kernel is given.

A kernel is made once per node by a factory, which sees the node's attributes (defaults filled in from the schema of
the node's version), and is then called with the operands of each run. Tables are filled when `kernels` is imported.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from gerules.simulate.values import Value

if TYPE_CHECKING:
    from gerules.simulate.opaque import OpaqueValues
    from gerules.simulate.plan import Body

Mode = Literal["fast", "reference"]
FAST: Final = "fast"
REFERENCE: Final = "reference"
BOTH: Final = (FAST, REFERENCE)


@dataclass(slots=True)
class Run:
    """What one call of `Simulator.run` carries along: random draws by node identity, opaque values, function path."""

    seed: int = 0
    opaque: OpaqueValues | None = None
    path: str = ""
    _calls: dict[str, int] = field(default_factory=dict)

    def generator(self, name: str, seed: float | None) -> np.random.Generator:
        """The generator of the next draw of the node called `name`: the same in every run of the same graph.

        A seed in the node decides alone (two nodes with one seed draw alike, as in ONNX); without one the node's name
        does. A node in a loop draws anew in every iteration.
        """
        key = f"seed {seed!r}" if seed is not None else f"node {self.path}{name}"
        return np.random.default_rng(stable_seed(f"{self.seed} {key} {self.next_call(self.path + name)}"))

    def next_call(self, name: str) -> int:
        """How often the node `name` was run before in this run."""
        count = self._calls.get(name, 0)
        self._calls[name] = count + 1
        return count


def stable_seed(text: str) -> int:
    """A seed from a text, the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


Kernel = Callable[[Sequence[Value], Run], Sequence[Value]]


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node as a kernel factory sees it.

    `version` is the version that brought the node's definition (`since`), `opset` the imported one. `attributes` are
    Python values with defaults filled in: int, float, str, tuples of these, arrays, type texts; an attribute without
    a value is not there. `bodies` are the prepared graph attributes. `operands` and `results` count with absent ones,
    `wanted` says which results have a name.
    """

    domain: str
    op: str
    version: int
    opset: int
    name: str
    attributes: Mapping[str, Any]
    operands: int
    results: int
    wanted: tuple[bool, ...] = ()
    bodies: Mapping[str, Body] = field(default_factory=dict)
    mode: Mode = "fast"

    def get(self, name: str, default: Any = None) -> Any:
        """The attribute's value, else `default`."""
        return self.attributes.get(name, default)

    def wants(self, index: int) -> bool:
        """Whether result `index` is used by anyone."""
        return index < len(self.wanted) and self.wanted[index]


Factory = Callable[[NodeSpec], Kernel]


@dataclass(frozen=True, slots=True)
class _Entry:
    since: int
    until: int
    modes: tuple[str, ...]
    factory: Factory


_TABLE: Final[dict[tuple[str, str], list[_Entry]]] = {}
_FOREVER: Final = 1 << 30


def kernel(
    *ops: str, since: int = 1, until: int = _FOREVER, modes: tuple[str, ...] = BOTH, domain: str = ""
) -> Callable[[Factory], Factory]:
    """Registers a factory for operators at the versions `since` to `until` (inclusive)."""

    def register(factory: Factory) -> Factory:
        for op in ops:
            entries = _TABLE.setdefault((domain, op), [])
            for entry in entries:
                if entry.since <= until and since <= entry.until and set(entry.modes) & set(modes):
                    raise ValueError(f"two kernels for {op} at {max(entry.since, since)}")
            entries.append(_Entry(since, until, modes, factory))
        return factory

    return register


def simple(*ops: str, since: int = 1, until: int = _FOREVER) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Registers a function of the operands alone that gives the one result."""

    def register(function: Callable[..., Value]) -> Callable[..., Value]:
        def factory(spec: NodeSpec) -> Kernel:
            return lambda operands, run: (function(*operands),)

        kernel(*ops, since=since, until=until)(factory)
        return function

    return register


def find_factory(domain: str, op: str, version: int, mode: str) -> Factory | None:
    """Our own kernel of an operator, None where `onnx.reference` computes it."""
    for entry in _TABLE.get((domain, op), ()):
        if entry.since <= version <= entry.until and mode in entry.modes:
            return entry.factory
    return None


def own_kernels() -> list[tuple[str, str, int, int, tuple[str, ...]]]:
    """Every entry of the table as (domain, operator, since, until, modes), in order of name."""
    return sorted(
        (domain, op, e.since, min(e.until, 999), e.modes) for (domain, op), entries in _TABLE.items() for e in entries
    )
