"""Operators that move elements without computing: where onnx.reference lacks a version, is wrong, or is slow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gerules.simulate.kernel import Kernel, NodeSpec, Run, kernel
from gerules.simulate.kernels.ordered import all_axes
from gerules.simulate.values import Array, Value


def _numbers(value: Array) -> list[int]:
    return [int(v) for v in value.reshape(-1)]


@kernel("Reshape")
def reshape(spec: NodeSpec) -> Kernel:
    """The shape is an attribute at version 1, an operand since; 0 keeps a size unless `allowzero`, -1 is the rest."""
    allow_zero, stated = bool(spec.get("allowzero", 0)), spec.get("shape")

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        wanted = list(stated) if stated is not None else _numbers(operands[1])
        if not allow_zero:
            if any(d == 0 and i >= x.ndim for i, d in enumerate(wanted)):
                raise ValueError(f"shape {wanted} keeps a size that {list(x.shape)} has not")
            rest = _rest(x.shape, wanted) if -1 in wanted else 0
            # In one go: a rest of 0 elements is no "keep this size".
            wanted = [x.shape[i] if d == 0 else rest if d == -1 else d for i, d in enumerate(wanted)]
        return (x.reshape(wanted),)

    return compute


def _rest(shape: Sequence[int], wanted: list[int]) -> int:
    """What -1 stands for, worked out from the sizes that are not kept, so that a kept size of 0 does no harm."""
    own = math.prod(n for i, n in enumerate(shape) if not (i < len(wanted) and wanted[i] == 0))
    others = math.prod(d for d in wanted if d > 0)
    if own % others:
        raise ValueError(f"{list(shape)} does not fit {wanted}")
    return own // others


@kernel("Transpose")
def transpose(spec: NodeSpec) -> Kernel:
    order = spec.get("perm")

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        return (np.transpose(operands[0], order if order else None),)

    return compute


@kernel("Flatten")
def flatten(spec: NodeSpec) -> Kernel:
    """A matrix: the axes before `axis` are its rows, the others its columns, also where one of them has no element."""
    axis = int(spec.get("axis", 1))

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        if not -x.ndim <= axis <= x.ndim or (axis < 0 and spec.version < 11):
            raise ValueError(f"axis {axis} of rank {x.ndim}")
        at = axis + x.ndim if axis < 0 else axis
        return (x.reshape(math.prod(x.shape[:at]), math.prod(x.shape[at:])),)

    return compute


@kernel("Squeeze")
def squeeze(spec: NodeSpec) -> Kernel:
    stated = spec.get("axes")

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        axes = stated
        if len(operands) > 1 and operands[1] is not None:
            axes = _numbers(operands[1])
        return (np.squeeze(x) if axes is None else np.squeeze(x, axis=all_axes(x, axes)),)

    return compute


@kernel("Unsqueeze")
def unsqueeze(spec: NodeSpec) -> Kernel:
    stated = spec.get("axes")

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        axes = list(stated) if stated is not None else _numbers(operands[1])
        rank = x.ndim + len(axes)
        if any(not -rank <= a < rank for a in axes) or len({a % rank for a in axes}) < len(axes):
            raise ValueError(f"axes {axes} do not fit rank {rank}")
        return (np.expand_dims(x, tuple(a % rank for a in axes)),)

    return compute


@kernel("Concat")
def concat(spec: NodeSpec) -> Kernel:
    axis = int(spec.get("axis", 1))

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        return (np.concatenate(operands, axis=axis),)

    return compute


@kernel("Gather")
def gather(spec: NodeSpec) -> Kernel:
    axis = int(spec.get("axis", 0))

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        # A single text would become a string of NumPy's.
        return (np.asarray(np.take(operands[0], operands[1], axis=axis), dtype=operands[0].dtype),)

    return compute


@kernel("GatherElements")
def gather_elements(spec: NodeSpec) -> Kernel:
    """data[..., indices, ...]: the indices may cover less than the data along the other axes."""
    axis = int(spec.get("axis", 0))

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x, indices = operands
        position = axis % x.ndim
        size = x.shape[position]
        if ((indices < -size) | (indices >= size)).any():
            raise ValueError(f"an index is out of range for axis {axis} of size {size}")
        where: list[Any] = list(np.indices(indices.shape, sparse=True))
        where[position] = np.where(indices < 0, indices + size, indices)
        return (x[tuple(where)],)

    return compute


@kernel("Expand")
def expand(spec: NodeSpec) -> Kernel:
    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x, target = operands
        if target.ndim != 1:
            raise ValueError(f"the target is a list, not of rank {target.ndim}")
        shape = np.broadcast_shapes(x.shape, tuple(_numbers(target)))
        return (np.broadcast_to(x, shape).copy(),)

    return compute


@kernel("Split")
def split(spec: NodeSpec) -> Kernel:
    """Into the lengths of the attribute `split` (below 13) or the operand (version 1 and since 13), else into equal
    parts; with `num_outputs` (since 18) the last may be shorter."""
    axis, stated, count = int(spec.get("axis", 0)), spec.get("split"), spec.get("num_outputs")

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        size = x.shape[axis]
        lengths = list(stated) if stated else None
        if lengths is None and len(operands) > 1 and operands[1] is not None:
            lengths = _numbers(operands[1])
        if spec.version >= 18 and (lengths is None) == (count is None):
            raise ValueError("either sizes or their number has to be given, and not both")
        if count is not None and count != spec.results:
            raise ValueError(f"{count} parts are asked for and {spec.results} taken")
        if lengths is None:
            part = -(-size // spec.results)
            if spec.version < 18 and size % spec.results:
                raise ValueError(f"{size} does not split into {spec.results} equal parts")
            lengths = [max(min(part, size - i * part), 0) for i in range(spec.results)]
        if sum(lengths) != size or len(lengths) != spec.results:
            raise ValueError(f"{size} does not split into {lengths}")
        return list(np.split(x, np.cumsum(lengths)[:-1], axis=axis))

    return compute


@kernel("Slice")
def slice_(spec: NodeSpec) -> Kernel:
    """Starts, ends and axes as attributes (version 1) or operands (since 10, with steps), clamped to the sizes."""
    attributes = spec.version < 10

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        if attributes:
            starts, ends = list(spec.attributes["starts"]), list(spec.attributes["ends"])
            axes, steps = spec.get("axes"), None
        else:
            given = [None if v is None else _numbers(v) for v in operands[1:]] + [None] * 4
            starts, ends, axes, steps = given[0] or [], given[1] or [], given[2], given[3]
        axes = list(axes) if axes is not None else list(range(len(starts)))
        steps = steps if steps is not None else [1] * len(starts)
        index: list[Any] = [slice(None)] * x.ndim
        for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
            if not -x.ndim <= axis < x.ndim:
                raise ValueError(f"axis {axis} is out of range for rank {x.ndim}")
            index[axis % x.ndim] = _python_slice(start, end, step, x.shape[axis % x.ndim])
        return (x[(*index, ...)],)  # of a scalar too this is an array

    return compute


def _python_slice(start: int, end: int, step: int, size: int) -> slice:
    if step == 0:
        raise ValueError("a step of 0")
    start = start + size if start < 0 else start
    end = end + size if end < 0 else end
    if step > 0:
        return slice(min(max(start, 0), size), min(max(end, 0), size), step)
    # Unlike Python, a start before the first element is the first element: the specification clamps to [0, size - 1].
    start, end = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
    return slice(start, None if end < 0 else end, step) if size else slice(0, 0)


@kernel("Pad")
def pad(spec: NodeSpec) -> Kernel:
    """Amounts as an attribute (`paddings` at version 1, `pads` at 2) or an operand (since 11), of some axes since 18.
    Negative amounts cut off, before anything is filled in."""
    mode = spec.get("mode", "constant")
    stated = spec.get("paddings", spec.get("pads"))
    attribute_value = spec.get("value", 0.0)

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        amounts = list(stated) if stated is not None else _numbers(operands[1])
        value: Any = attribute_value
        if stated is None:
            constant = operands[2] if len(operands) > 2 else None
            value = constant.reshape(-1)[0] if constant is not None else "" if x.dtype.kind == "O" else 0
        axes = list(range(x.ndim))
        if len(operands) > 3 and operands[3] is not None:
            axes = [a % x.ndim for a in _numbers(operands[3])]
        if len(amounts) != 2 * len(axes):
            raise ValueError(f"{len(amounts)} amounts for {len(axes)} axes")
        widths = [(0, 0)] * x.ndim
        for i, axis in enumerate(axes):
            widths[axis] = (amounts[i], amounts[i + len(axes)])
        return (padded(x, widths, mode, value),)

    return compute


def padded(x: Array, widths: Sequence[tuple[int, int]], mode: str, value: Any) -> Array:
    """`x` with `widths` elements before and after each axis: `constant`, `reflect`, `edge` or `wrap`."""
    cut = tuple(
        slice(max(-before, 0), size - max(-after, 0)) for size, (before, after) in zip(x.shape, widths, strict=True)
    )
    if any(s.start > s.stop for s in cut):
        raise ValueError(f"the paddings {list(widths)} cut off more than {list(x.shape)} has")
    whole: tuple[Any, ...] = (*cut, ...)
    x = x[whole]
    positive = [(max(b, 0), max(a, 0)) for b, a in widths]
    if mode == "constant":
        shape = [n + b + a for n, (b, a) in zip(x.shape, positive, strict=True)]
        result = np.full(shape, value, dtype=x.dtype)
        result[tuple(slice(b, b + n) for n, (b, _) in zip(x.shape, positive, strict=True))] = x
        return result
    if mode not in ("reflect", "edge", "wrap"):
        raise ValueError(f"there is no padding mode {mode}")
    for axis, (before, after) in enumerate(positive):
        if before or after:
            x = np.take(x, _source(x.shape[axis], before, after, mode), axis=axis)
    return x


def _source(size: int, before: int, after: int, mode: str) -> Array:
    at = np.arange(-before, size + after)
    if size == 0:
        raise ValueError(f"an empty axis cannot be padded in mode {mode}")
    if mode == "edge":
        return np.clip(at, 0, size - 1)
    if mode == "wrap":
        return np.asarray(at % size)
    if before >= size or after >= size:  # as onnxruntime has it; the specification does not say
        raise ValueError(f"{max(before, after)} elements cannot be reflected from an axis of size {size}")
    period = 2 * (size - 1)
    at = at % period
    return np.asarray(np.where(at < size, at, period - at))


@kernel("Tile", until=5)
def tile_1(spec: NodeSpec) -> Kernel:
    """Version 1: the number of tiles and the axis are operands."""

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x, tiles, axis = operands
        counts = [1] * x.ndim
        counts[int(axis.reshape(-1)[0])] = int(tiles.reshape(-1)[0])
        return (np.tile(x, counts),)

    return compute


@kernel("Scatter", "ScatterElements")
def scatter_elements(spec: NodeSpec) -> Kernel:
    """data with data[..., indices, ...] set to, or combined with (`reduction`), the updates, in order."""
    axis, mode = int(spec.get("axis", 0)), spec.get("reduction", "none")

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        data, indices, updates = operands
        result = data.copy()
        if not indices.size:
            return (result,)
        position = axis % data.ndim
        size = data.shape[position]
        if (indices < -size).any() or (indices >= size).any():
            raise ValueError(f"an index is out of range for axis {axis} of size {size}")
        where: list[Any] = list(np.indices(indices.shape, sparse=True))
        where[position] = np.where(indices < 0, indices + size, indices)
        _combine(result, tuple(where), updates, mode)
        return (result,)

    return compute


def _combine(result: Array, where: tuple[Any, ...], updates: Array, mode: str) -> None:
    functions: dict[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    if mode == "none":
        result[where] = updates
    elif mode in functions:
        functions[mode].at(result, where, updates)
    else:
        raise ValueError(f"there is no reduction {mode}")


@kernel("ScatterND")
def scatter_nd(spec: NodeSpec) -> Kernel:
    mode = spec.get("reduction", "none")

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        data, indices, updates = operands
        result = data.copy()
        depth = indices.shape[-1]
        flat = indices.reshape(-1, depth)
        sizes = np.array(data.shape[:depth])
        if flat.size and ((flat < -sizes) | (flat >= sizes)).any():
            raise ValueError(f"an index is out of range for {list(data.shape)}")
        where = tuple(np.where(flat[:, i] < 0, flat[:, i] + sizes[i], flat[:, i]) for i in range(depth))
        _combine(result, where, updates.reshape(-1, *data.shape[depth:]), mode)
        return (result,)

    return compute


@kernel("TopK")
def top_k(spec: NodeSpec) -> Kernel:
    """The k largest (or smallest) along an axis, in order; equal ones by index. k is an attribute at version 1."""
    axis, stated = int(spec.get("axis", -1)), spec.get("k")
    largest = bool(spec.get("largest", 1))

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        count = int(stated) if stated is not None else int(operands[1].reshape(-1)[0])
        if not 0 <= count <= x.shape[axis]:
            raise ValueError(f"{count} of {x.shape[axis]} elements")
        if largest:  # a stable sort of the reversed axis, read backwards, keeps the smaller index first
            flipped = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
            order = x.shape[axis] - 1 - np.flip(flipped, axis)
        else:
            order = np.argsort(x, axis=axis, kind="stable")
        order = np.take(order, np.arange(count), axis=axis)
        return np.take_along_axis(x, order, axis=axis), order.astype(np.int64)

    return compute


@kernel("OneHot")
def one_hot(spec: NodeSpec) -> Kernel:
    """Indices (any shape), a depth, (off, on) -> the indices' shape with an axis of `depth` more, on where it is the
    index. Indices are taken as i64; negative ones count from the end, others that lie outside are nowhere."""
    axis = int(spec.get("axis", -1))

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        indices, depth, values = operands
        if depth.size != 1 or depth.ndim > 1 or values.shape != (2,):
            raise ValueError("the depth is one number, the values are two")
        count = int(depth.reshape(-1)[0])
        places = np.asarray(indices).astype(np.int64)
        places = np.where(places < 0, places + count, places)
        at = axis + places.ndim + 1 if axis < 0 else axis
        levels = np.arange(count, dtype=np.int64).reshape([-1 if a == at else 1 for a in range(places.ndim + 1)])
        off, on = values
        return (np.where(np.expand_dims(places, at) == levels, on, off).astype(values.dtype),)

    return compute
