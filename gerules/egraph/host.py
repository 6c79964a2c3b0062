"""What an egglog rule calls back: pure functions from texts to a text.

A call that has no answer (a condition does not hold, or something is not known) gives `NO`, and the rule does not
fire. Calls are named by number in a `Host`, which lives as long as its program; what belongs to one graph (its
constants, what was found contradictory) is the host's `run`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from gerules.graph.constants import ConstantTable
from gerules.graph.dims import DimFacts
from gerules.graph.info import Contradiction, Info, join

NO = "!"
ABSENT = "-"
SEPARATOR = "\x1f"
"""Between the operands of a list."""
ARGUMENT = "\x1e"
"""Between the arguments of a call: they go as one text, since each Python object that egglog makes is serialised."""

Call = Callable[..., str]


@dataclass
class Run:
    """What host calls need to know of the graph at hand."""

    constants: ConstantTable
    facts: DimFacts
    fold_bytes: int = 1 << 20
    """Largest result that constant folding makes, in bytes."""
    contradictions: list[Contradiction] = field(default_factory=list)
    failure: tuple[str, BaseException] | None = None
    """The rule whose host function failed, and how: our fault."""


class Host:
    """The calls of one program."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.names: list[str] = []
        self.run: Run | None = None
        self.number = next(_NUMBERS)
        _HOSTS[self.number] = self

    def add(self, call: Call, name: str) -> str:
        """Registers a call; gives its egglog name."""
        self.calls.append(call)
        self.names.append(name)
        return f"$h{len(self.calls) - 1}"

    def declarations(self, numbers: Iterable[int]) -> list[str]:
        """The globals that hold these calls."""
        return [f"(let $h{k} {self.expression(f'$h{k}')})" for k in numbers]

    def expression(self, name: str) -> str:
        """The egglog expression whose value is a call."""
        reference = f"__import__('gerules.egraph.host', fromlist=['x']).bind({self.number}, {name.removeprefix('$h')})"
        return f'(py-eval "{reference}" (py-dict) (py-dict))'

    @property
    def current(self) -> Run:
        assert self.run is not None, "a host call outside a run"
        return self.run

    def close(self) -> None:
        _HOSTS.pop(self.number, None)


_NUMBERS = itertools.count()
_HOSTS: dict[int, Host] = {}


class _Bound:
    """A call by its number: what egglog keeps, small and serialisable."""

    __slots__ = ("call", "host", "index")

    def __init__(self, host: int, index: int) -> None:
        self.host, self.index = host, index
        self.call = _HOSTS[host].calls[index]

    def __reduce__(self) -> tuple[Callable[[int, int], _Bound], tuple[int, int]]:
        return bind, (self.host, self.index)

    def __call__(self, *joined: str) -> str:
        host = _HOSTS[self.host]
        try:
            return self.call(*joined[0].split(ARGUMENT)) if joined else self.call()
        except Exception as error:
            if host.run is not None and host.run.failure is None:
                host.run.failure = (host.names[self.index], error)
            raise


def bind(host: int, index: int) -> _Bound:
    return _Bound(host, index)


def joined(host: Host) -> Call:
    """The merge of two infos of one class."""

    def merge(old: str, new: str) -> str:
        if old == new:
            return old
        try:
            return str(join(Info.parse(old), Info.parse(new)))
        except Contradiction as contradiction:
            host.current.contradictions.append(contradiction)
            return min(old, new)

    return merge


def call(name: str, arguments: Sequence[str]) -> str:
    """The egglog expression that calls `name` (a global or an expression) on text terms."""
    if not arguments:
        return f"(py-to-string (py-call {name}))"
    joined = arguments[0] if len(arguments) == 1 else "(+ " + f' "{ARGUMENT}" '.join(arguments) + ")"
    return f"(py-to-string (py-call {name} (py-from-string {joined})))"
