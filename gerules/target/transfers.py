"""Seconds to move a value between engines: rules between two engines, or between their memories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from gerules.dsl import ast
from gerules.dsl.program import Entry
from gerules.dsl.suggest import did_you_mean
from gerules.errors import Diagnostic, Label, Refused
from gerules.static import Context, Unknown, compile_expr
from gerules.static.evaluate import ValueOf
from gerules.static.values import is_number


@dataclass(frozen=True)
class Transfers:
    """`rules`: (from, to) -> seconds for a number of bytes, by names of engines or memories; `memory`: engine -> its
    memory."""

    rules: Mapping[tuple[str, str], ValueOf]
    memory: Mapping[str, str]

    def seconds(self, size: float, source: str, target: str) -> float:
        """Seconds to move `size` bytes from one engine to another: by the rule for the two engines, else for their
        memories; 0 within one memory and on one engine. Raises Refused (GR614) where no rule says."""
        if source == target:
            return 0.0
        rule = self.rules.get((source, target))
        if rule is not None:
            return _seconds(rule, size, source, target)
        return self.between_memories(size, self.memory[source], self.memory[target])

    def between_memories(self, size: float, source: str, target: str) -> float:
        """Seconds to move `size` bytes from one memory to another; 0 within one. Raises Refused (GR614)."""
        if source == target:
            return 0.0
        rule = self.rules.get((source, target))
        if rule is None:
            raise Refused(_missing([(source, target)]))
        return _seconds(rule, size, source, target)


def _seconds(rule: ValueOf, size: float, source: str, target: str) -> float:
    try:
        value = rule({"bytes": size})
    except Unknown as unknown:
        raise Refused(Diagnostic("GR621", f"the transfer {source} -> {target} has no value: {unknown}")) from None
    if not is_number(value) or not float(value) >= 0:  # type: ignore[arg-type]
        message = f"the transfer {source} -> {target} of {size:g} bytes costs {value}, which is no time"
        raise Refused(Diagnostic("GR621", message, hint="seconds are 0 or more"))
    return float(value)  # type: ignore[arg-type]


def _missing(pairs: Iterable[tuple[str, str]]) -> list[Diagnostic]:
    return [
        Diagnostic(
            "GR614",
            f"nothing says how long a value takes from {source} to {target}",
            hint=f"write `transfer {source} <-> {target} = 20us + bytes / 10e9`, or give both engines one memory",
        )
        for source, target in pairs
    ]


def read_transfers(
    entries: Sequence[Entry[ast.Transfer]],
    memory: Mapping[str, str],
    extra: Iterable[str],
    context: Context,
    faults: list[Diagnostic],
) -> Transfers:
    """The transfers of a target. Faults: an unknown place (GR610), a pair twice (GR611), pairs without a rule (GR614).

    `extra` are memories that no engine has but inputs lie in.
    """
    places = [*memory, *dict.fromkeys((*memory.values(), *extra))]
    rules: dict[tuple[str, str], ValueOf] = {}
    first: dict[tuple[str, str], ast.Transfer] = {}
    for entry in entries:
        statement = entry.statement
        for place in (statement.source, statement.target):
            if place not in places:
                hint = did_you_mean(place, places) or f"there are {', '.join(dict.fromkeys(places))}"
                message = f"{place} is neither an engine nor a memory of this target"
                faults.append(Diagnostic("GR610", message, span=statement.span, hint=hint))
        value = compile_expr(statement.value, context)
        pairs = [(statement.source, statement.target)]
        if statement.both:
            pairs.append((statement.target, statement.source))
        for pair in pairs:
            if pair in first:
                message = f"the transfer {pair[0]} -> {pair[1]} is there twice"
                label = Label(first[pair].span, "the other one is here")
                faults.append(Diagnostic("GR611", message, span=statement.span, hint="drop one", labels=(label,)))
            else:
                first[pair] = statement
                rules[pair] = value
    transfers = Transfers(rules, memory)
    faults.extend(_missing(_pairs_without_rule(transfers, extra)))
    return transfers


def _pairs_without_rule(transfers: Transfers, extra: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of memories between which a value may have to move and no rule says how long that takes."""
    lacking: dict[tuple[str, str], None] = {}
    for source, target in permutations(transfers.memory, 2):
        memories = transfers.memory[source], transfers.memory[target]
        if memories[0] != memories[1] and (source, target) not in transfers.rules and memories not in transfers.rules:
            lacking[memories] = None
    for place in extra:
        for memory in dict.fromkeys(transfers.memory.values()):
            if place != memory and (place, memory) not in transfers.rules:
                lacking[(place, memory)] = None
    return list(lacking)
