"""The two sides of a case as they were computed on one instance: operators in order, values by name.

A recording follows values by identity, so it does not matter how a side is written: what an operator is given is a
leaf, an earlier result, or a constant that the rule made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gerules.simulate.faults import SimulationFault
from gerules.verify.stored import Stored

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Node:
    """One operator: definition, attribute values (element types as their numbers), names of operands ("" where one is
    absent) and of results. `body` where it is computed by the body that its schema gives, not by its kernel."""

    domain: str
    op: str
    since: int
    attributes: Mapping[str, object]
    operands: tuple[str, ...]
    results: tuple[str, ...]
    body: bool = False


@dataclass(frozen=True)
class Side:
    """Nodes in order, the constants that they read beside the leaves, and the names of the results. `failure` is what
    the last node says, where it cannot be computed."""

    nodes: tuple[Node, ...]
    constants: tuple[Stored, ...]
    results: tuple[str, ...]
    failure: str = ""


@dataclass
class Recorder:
    """Takes down every operator that is computed. `leaves` are the operands of the instance by name, `known` the names
    of arrays by identity."""

    leaves: dict[str, Array] = field(default_factory=dict)
    calls: list[_Call] = field(default_factory=list)
    known: dict[int, str] = field(default_factory=dict)
    _seen: set[int] = field(default_factory=set)

    @property
    def failed(self) -> bool:
        """Whether the last operator could not be computed."""
        return bool(self.calls) and bool(self.calls[-1].failure)

    def run(
        self,
        node: tuple[str, str, int, bool],
        attributes: Mapping[str, object],
        operands: Sequence[object],
        results: int,
        compute: Callable[[], list[object]],
    ) -> list[object]:
        """The results of `compute`, taken down; what it raises is taken down too."""
        call = _Call(node, dict(attributes), list(operands), results)
        self.calls.append(call)
        self._seen.update(map(id, operands))
        try:
            made = compute()
        except SimulationFault as fault:
            call.failure = fault.diagnostics[0].message
            raise
        # An operator that passes its operand on makes a value of its own all the same.
        call.made = [m.view() if isinstance(m, np.ndarray) and id(m) in self._seen else m for m in made]
        self._seen.update(map(id, call.made))
        return call.made

    def name(self, operands: Mapping[str, object], constants: Mapping[int, str]) -> None:
        """Says what the tensors of the instance are called: those that no operator made are its leaves."""
        made = {id(r) for call in self.calls for r in call.made if r is not None}
        for name, value in operands.items():
            if isinstance(value, np.ndarray) and id(value) not in made and id(value) not in self.known:
                self.leaves[name] = value
                self.known[id(value)] = name
        self.constant_names = {i: n for i, n in constants.items() if n not in self.leaves}

    constant_names: Mapping[int, str] = field(default_factory=dict)

    def side(self, value: object) -> Side:
        """What `value` was made from; where it is None, what the last operator that failed was to be made from."""
        made = {id(r): call for call in self.calls for r in call.made if r is not None}
        wanted = [self.calls[-1]] if value is None else [made[id(value)]] if id(value) in made else []
        needed: set[int] = set()
        while wanted:
            call = wanted.pop()
            if id(call) not in needed:
                needed.add(id(call))
                wanted += [made[id(o)] for o in call.operands if id(o) in made]
        names = _Names(dict(self.known), self.constant_names)
        nodes = tuple(names.node(call) for call in self.calls if id(call) in needed)
        if value is None:
            return Side(nodes, tuple(names.constants), nodes[-1].results[:1], self.calls[-1].failure)
        result = names.of(value)
        return Side(nodes, tuple(names.constants), (result,))


@dataclass(eq=False)
class _Call:
    node: tuple[str, str, int, bool]
    attributes: dict[str, object]
    operands: list[object]
    count: int
    made: list[object] = field(default_factory=list)
    failure: str = ""


@dataclass
class _Names:
    """Names of values while one side is written down."""

    known: dict[int, str]
    constant_names: Mapping[int, str]
    constants: list[Stored] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        self.taken = {*self.known.values(), *self.constant_names.values()}

    def of(self, value: object) -> str:
        """The name of a value; one that nothing made is a constant of the rule."""
        if value is None:
            return ""
        name = self.known.get(id(value))
        if name is None:
            name = self.known[id(value)] = self.constant_names.get(id(value)) or self.fresh("constant")
            assert isinstance(value, np.ndarray)
            self.constants.append(Stored.of(name, value))
        return name

    def fresh(self, kind: str) -> str:
        self.count += 1
        while f"{kind}_{self.count}" in self.taken:
            self.count += 1
        return f"{kind}_{self.count}"

    def node(self, call: _Call) -> Node:
        operands = tuple(self.of(o) for o in call.operands)
        results: list[str] = []
        for place in range(call.count):
            value = call.made[place] if place < len(call.made) else None
            name = "" if call.made and value is None else self.fresh("value")
            if value is not None:
                self.known[id(value)] = name
            results.append(name)
        domain, op, since, body = call.node
        return Node(domain, op, since, call.attributes, operands, tuple(results), body)


RECORDER: ContextVar[Recorder | None] = ContextVar("gerules_recorder", default=None)
"""Who takes down what is computed; None, as nearly always, where nobody does."""


@contextmanager
def recording(recorder: Recorder) -> Iterator[Recorder]:
    """Everything that trials compute inside is taken down."""
    token = RECORDER.set(recorder)
    try:
        yield recorder
    finally:
        RECORDER.reset(token)


def run_side(side: Side, inputs: Mapping[str, Array]) -> list[object]:
    """The results of a side on its inputs, by reference kernels. Raises NodeFault where a node fails."""
    from gerules.simulate import evaluate_node
    from gerules.simulate.kernel import REFERENCE
    from gerules.simulate.values import normalise
    from gerules.verify.admitted import check_signs
    from gerules.verify.bodies import evaluate_body

    values: dict[str, object] = {**inputs, **{c.name: c.array() for c in side.constants}}
    for node in side.nodes:
        operands = [values[o] if o else None for o in node.operands]
        check_signs(node.domain, node.op, node.since, node.attributes, operands)
        what = (node.domain, node.op, node.since, node.attributes, operands, len(node.results))
        made = evaluate_body(*what) if node.body else evaluate_node(*what, kernels=REFERENCE)
        # Kernels may give a scalar of NumPy's where the rank is 0.
        results = [normalise(v) if np.isscalar(v) else v for v in made]
        values.update({n: v for n, v in zip(node.results, results, strict=True) if n})
    return [values[r] if r else None for r in side.results]
