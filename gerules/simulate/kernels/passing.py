"""Bodies for nodes of control flow that stand in no graph: they pass on what they are given.

An operator that is tried by itself (does another version give the same, can a condition on its attributes hold) needs
some body of the right form. One that hands its own inputs out shows what the operator does with them: the order of the
elements, the axes, how often it goes round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gerules.simulate.plan import Body, Plan
from gerules.simulate.values import Value, ValueType, element_name

MOST_ROUNDS = 4
"""Rounds that a loop may be asked for; one asked for more, or for any number, goes once."""


def passing_bodies(
    op: str, version: int, attributes: Mapping[str, Any], operands: Sequence[Value], results: int
) -> dict[str, Body]:
    """The bodies of one node with these operands and so many results; none for an operator without.

    If gives ones or twos by its branch; Loop its state and, of each round, its number or its state; Scan its state and
    each element; SequenceMap what it is given. Raises ValueError where the node can have no such results.
    """
    match op:
        case "If":
            return {"then_branch": _constants(1.0, results), "else_branch": _constants(2.0, results)}
        case "Loop":
            carried = len(operands[2:])
            given = [np.asarray(0, dtype=np.int64), np.asarray(True), *operands[2:]]
            scanned = [k % (1 + carried) for k in range(max(0, results - carried))]
            goes_on = _few_rounds(operands[0] if operands else None)
            places = [*range(2, 2 + carried), *(0 if k == 0 else 1 + k for k in scanned)]
            return {"body": _passing(given, [1 if goes_on else None, *places])}
        case "Scan":
            given = list(operands[1 if version < 9 else 0 :])
            count = attributes.get("num_scan_inputs", 0)
            states = len(given) - count
            if not 0 < count <= len(given) or results <= states:
                raise ValueError(f"{len(given)} operands, {count} of them scanned, do not give {results} results")
            items = [states + k % count for k in range(results - states)]
            return {"body": _passing(given, [*range(states), *items])}
        case "SequenceMap":
            return {"body": _passing(operands, [k % len(operands) for k in range(results)])}
    return {}


def _few_rounds(limit: Value) -> bool:
    """Whether the largest trip count is known and small, so that a loop may go on to it."""
    return isinstance(limit, np.ndarray) and limit.size == 1 and int(limit.reshape(())) <= MOST_ROUNDS


def _passing(given: Sequence[Value], places: Sequence[int | None]) -> Body:
    """A body that gives its inputs at some places; None is the condition that ends a loop."""
    template = (*[None] * len(given), np.asarray(False))
    outputs = tuple(len(given) if place is None else place for place in places)
    types = tuple(_type(template[-1] if place is None else given[place]) for place in places)
    return Body(Plan(template, tuple(range(len(given))), (), outputs, ()), (), types)


def _constants(value: float, results: int) -> Body:
    """A body without inputs that gives one number."""
    if results < 1:
        raise ValueError("an If has a result")
    number = np.asarray(value, dtype=np.float32)
    return Body(Plan((number,), (), (), (0,) * results, ()), (), (_type(number),) * results)


def _type(value: Value) -> ValueType | None:
    """The element type of a value; how many axes its elements have the body does not say."""
    return ValueType(element_name(value.dtype)) if isinstance(value, np.ndarray) else None
