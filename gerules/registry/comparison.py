"""Two releases side by side: the tables that rules about built and runtime definitions read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gerules.registry.release import Port, ReleaseAttribute, ReleaseOperator, default_text

BUILT, RUNTIME = "built", "runtime"
INPUTS, OUTPUTS, ATTRIBUTES = "inputs", "outputs", "attributes"
LISTS = (INPUTS, OUTPUTS, ATTRIBUTES)

Cell = str | int | float
Row = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """An operator's definition when the graph was built, and at run time; None where it is not registered. `key` is
    how rules name it (`ge.Concat`)."""

    key: str
    built: ReleaseOperator | None
    runtime: ReleaseOperator | None


def operator_key(domain: str, name: str) -> str:
    """How rules name an operator: `ge.Concat`, `Clip` for ai.onnx."""
    return f"{domain}.{name}" if domain else name


def entries(operator: ReleaseOperator, which: str) -> Sequence[Port | ReleaseAttribute]:
    """One of the three lists that have places."""
    if which == INPUTS:
        return operator.inputs
    return operator.outputs if which == OUTPUTS else operator.attributes


def tables(pairs: Iterable[Pair]) -> Mapping[str, list[Row]]:
    """`parameter`, `beyond`, `past`, `default`, `kind_of`, `registered` for some operators, in their order.

    `beyond` counts what the built definition has more; `past` are the places past the end of the other list. Bodies and
    data types take no part.
    """
    found: dict[str, list[Row]] = {
        name: [] for name in ("parameter", "beyond", "past", "default", "kind_of", "registered")
    }
    for pair in pairs:
        sides = ((BUILT, pair.built, pair.runtime), (RUNTIME, pair.runtime, pair.built))
        for side, operator, other in sides:
            if operator is not None:
                _side(found, pair.key, side, operator, other)
        if pair.built is not None and pair.runtime is not None:
            for which in LISTS:
                count = len(entries(pair.built, which)) - len(entries(pair.runtime, which))
                found["beyond"].append((pair.key, which, count))
    return found


def _side(
    found: Mapping[str, list[Row]], key: str, side: str, operator: ReleaseOperator, other: ReleaseOperator | None
) -> None:
    found["registered"].append((side, key))
    for which in LISTS:
        limit = len(entries(other, which)) if other is not None else 0
        for place, entry in enumerate(entries(operator, which)):
            kind = entry.kind if isinstance(entry, Port) else "required" if entry.required else "optional"
            found["parameter"].append((side, key, which, place, entry.name, kind))
            if other is not None and place >= limit:
                found["past"].append((side, key, which, place))
    for attribute in operator.attributes:
        found["kind_of"].append((side, key, attribute.name, attribute.type))
        if attribute.default is not None:
            found["default"].append((side, key, attribute.name, default_text(attribute.default)))
