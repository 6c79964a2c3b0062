"""If, Loop, Scan and SequenceMap over prepared bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gerules.simulate.kernel import Kernel, NodeSpec, Run, kernel
from gerules.simulate.values import UNKNOWN, Array, Value, ValueType, numpy_type


@kernel("If")
def conditional(spec: NodeSpec) -> Kernel:
    then, otherwise = spec.bodies["then_branch"], spec.bodies["else_branch"]

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        condition = operands[0]
        if condition.size != 1:
            raise ValueError(f"the condition has {condition.size} elements, not one")
        return (then if condition.item() else otherwise)((), operands, run)

    return compute


@kernel("Loop")
def loop(spec: NodeSpec) -> Kernel:
    """Operands: the largest trip count, the condition (both may be absent), carried values. The body takes the
    iteration number, the condition and the carried values; it gives the condition, carried values, then one element
    of each scanned result."""
    body = spec.bodies["body"]
    carried_count = body.arity - 2
    scans = len(body.plan.outputs) - 1 - carried_count

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        limit = None if operands[0] is None else int(operands[0].item())
        condition = np.asarray(True) if spec.operands < 2 or operands[1] is None else operands[1]
        carried = list(operands[2 : spec.operands])
        carried.extend([None] * (carried_count - len(carried)))
        collected: list[list[Value]] = [[] for _ in range(scans)]
        iteration = 0
        while condition.item() and (limit is None or iteration < limit):
            results = body([np.asarray(iteration, dtype=np.int64), condition, *carried], operands, run)
            condition = results[0]
            if condition is UNKNOWN:
                return [UNKNOWN] * spec.results
            carried = results[1 : 1 + carried_count]
            for values, value in zip(collected, results[1 + carried_count :], strict=True):
                values.append(value)
            iteration += 1
        stacked = [_stack(values, body.output_types[1 + carried_count + i], 0) for i, values in enumerate(collected)]
        return [*carried, *stacked]

    return compute


def _stack(values: list[Value], stated: Any, axis: int) -> Value:
    """Elements of all iterations along a new axis. Of no iteration at all the body's stated type tells what it can;
    unknown sizes count as 0, as nothing says more."""
    if any(v is UNKNOWN for v in values):
        return UNKNOWN
    if values:
        return np.stack(values, axis=axis)
    if not isinstance(stated, ValueType) or stated.shape is None:
        element = stated.element if isinstance(stated, ValueType) else "f32"
        return np.empty((0,), dtype=numpy_type(element))
    sizes = [d if isinstance(d, int) else 0 for d in stated.shape]
    position = axis + len(sizes) + 1 if axis < 0 else axis
    sizes.insert(position, 0)
    return np.empty(sizes, dtype=numpy_type(stated.element))


@kernel("Scan", since=9)
def scan(spec: NodeSpec) -> Kernel:
    """Operands: state variables, then the arrays to scan; results alike. Axes and directions per array."""
    return _scan(spec, batched=False)


@kernel("Scan", until=8)
def scan_8(spec: NodeSpec) -> Kernel:
    """Version 8: the first operand is the lengths of the sequences (may be absent), the first axis of all others the
    batch, the second the sequence; only inputs have directions. Shorter results are padded with zeros."""
    inner = _scan(spec, batched=True)

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        lengths, values, extra = operands[0], operands[1 : spec.operands], operands[spec.operands :]
        states = len(values) - spec.attributes["num_scan_inputs"]
        longest = values[states].shape[1]
        results: list[list[Array]] = []
        for batch in range(values[0].shape[0]):
            length = longest if lengths is None else int(lengths[batch])
            taken = [v[batch] if i < states else v[batch][:length] for i, v in enumerate(values)]
            found = list(inner([None, *taken, *extra], run))
            for i in range(states, len(found)):
                pad = [(0, longest - length)] + [(0, 0)] * (found[i].ndim - 1)
                found[i] = np.pad(found[i], pad)
            results.append(found)
        return [np.stack(parts) for parts in zip(*results, strict=True)]

    return compute


def _scan(spec: NodeSpec, *, batched: bool) -> Kernel:
    body = spec.bodies["body"]
    scanned = int(spec.attributes["num_scan_inputs"])
    skip = 1 if batched else 0
    states = spec.operands - skip - scanned
    made = len(body.plan.outputs) - states
    if batched:
        directions = _filled(spec.get("directions"), scanned)
        in_axes, out_axes, out_directions = [0] * scanned, [0] * made, [0] * made
    else:
        directions = _filled(spec.get("scan_input_directions"), scanned)
        in_axes = _filled(spec.get("scan_input_axes"), scanned)
        out_axes = _filled(spec.get("scan_output_axes"), made)
        out_directions = _filled(spec.get("scan_output_directions"), made)

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        state = list(operands[skip : skip + states])
        arrays = [np.moveaxis(v, a, 0) for v, a in zip(operands[skip + states : spec.operands], in_axes, strict=True)]
        length = arrays[0].shape[0]
        if any(a.shape[0] != length for a in arrays):
            raise ValueError("the scanned operands have different lengths")
        collected: list[list[Value]] = [[] for _ in range(made)]
        for i in range(length):
            items = [a[length - 1 - i if d else i] for a, d in zip(arrays, directions, strict=True)]
            results = body([*state, *items], operands, run)
            state = results[:states]
            for values, value in zip(collected, results[states:], strict=True):
                values.append(value)
        stacked = [
            _stack(values[::-1] if d else values, body.output_types[states + k], a)
            for k, (values, a, d) in enumerate(zip(collected, out_axes, out_directions, strict=True))
        ]
        return [*state, *stacked]

    return compute


def _filled(values: Sequence[int] | None, count: int) -> list[int]:
    return list(values) if values else [0] * count


@kernel("SequenceMap")
def sequence_map(spec: NodeSpec) -> Kernel:
    """Operands: a sequence, then sequences (taken element by element) or tensors (given whole)."""
    body = spec.bodies["body"]

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        own = operands[: spec.operands]
        results: list[list[Value]] = [[] for _ in range(len(body.plan.outputs))]
        for i in range(len(own[0])):
            items = [v[i] if isinstance(v, list) else v for v in own]
            for values, value in zip(results, body(items, operands, run), strict=True):
                values.append(value)
        return results

    return compute
