"""Proposals of a draw: extents, shapes, lists of whole numbers, numbers, with or without a hint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gerules.static import Unknown
from gerules.verify.hints import Hint
from gerules.verify.palette import SPECIAL
from gerules.verify.source import Source

END = (1 << 63) - 1
_SMALL = (0, 1, 2, -1, 3, -2)
_REAL = (0.0, 1.0, 0.5, 2.0, -1.0, -0.0, float(np.float32(1e-5)), 3.0)


@dataclass
class Proposals:
    """`pool` are the extents of the draw, `base` its usual rank, `mood` that of its elements; `shapes` are those that
    were drawn."""

    source: Source
    pool: tuple[int, ...]
    base: int
    mood: int
    small: bool
    shapes: list[tuple[int, ...]] = field(default_factory=list)

    def extent(self) -> int:
        return self.pool[self.source.below(len(self.pool))]

    def rank(self) -> int:
        return self.base if self.source.below(4) < 3 else self.source.below(3 if self.small else 5)

    def shape(self, listed: bool) -> tuple[int, ...]:
        """A shape; of a list of axes, extents or indices (`listed`) more often than not one of rank 1."""
        source = self.source
        if listed:
            rank = (1, 1, 0, 2)[source.below(4)]
            return (self.length(),) if rank == 1 else tuple(self.extent() for _ in range(rank))
        manner = source.below(7)
        if manner >= 4 and self.shapes:
            earlier = self.shapes[source.below(len(self.shapes))]
            if manner == 4:
                return earlier
            if manner == 6:  # the same but for one axis, as what is put together
                place = source.below(max(1, len(earlier)))
                return tuple(self.extent() if at == place else n for at, n in enumerate(earlier))
            # Such as stretches to it, or is stretched by it.
            cut = source.below(len(earlier) + 1)
            return tuple(n if source.below(2) else 1 for n in earlier[cut:])
        rank = self.base if manner else self.rank()
        return tuple(self.pool[c] for c in source.many(len(self.pool), rank))

    def length(self) -> int:
        base = self.base
        lengths = (base, 1, 2, 0, 2 * base, max(0, base - 2), 2 * max(0, base - 2), base + 1)
        return lengths[self.source.below(len(lengths))]

    def whole(self) -> int:
        values = (*_SMALL, *self.pool)
        return values[self.source.below(len(values))]

    def real(self) -> float:
        return _REAL[self.source.below(len(_REAL))]

    def numbers(self, count: int) -> tuple[int, ...]:
        """Whole numbers: axes, extents, amounts, a permutation, the extents of something drawn, its parts, mostly
        zeros."""
        source = self.source
        manner = source.below(8)
        if manner == 7 and count:
            return self.parts(count)
        if manner == 0:
            return tuple(_SMALL[c] for c in source.many(len(_SMALL), count))
        if manner == 1:
            order = list(range(count))
            return tuple(order.pop(source.below(len(order))) for _ in range(count))
        if manner == 2:
            return (self.whole(),) * count
        if manner == 3:
            return tuple(self.pool[c] for c in source.many(len(self.pool), count))
        if manner == 4 and count:
            sparse = [0] * count
            sparse[source.below(count)] = self.whole()
            return tuple(sparse)
        if manner == 5 and self.shapes:
            earlier = self.shapes[source.below(len(self.shapes))]
            if len(earlier) >= count:
                return earlier[len(earlier) - count :] if source.below(2) else earlier[:count]
            return (1,) * (count - len(earlier)) + earlier
        if self.mood >= SPECIAL:
            values = (0, 1, -1, 2, END, -END - 1, 1 << 31, -END)
            return tuple(values[c] for c in source.many(len(values), count))
        return tuple(range(-1, -1 - count, -1)) if source.below(2) else tuple(range(count))

    def parts(self, count: int) -> tuple[int, ...]:
        """Whole numbers that an extent is the sum of."""
        left = self.extent()
        made: list[int] = []
        for _ in range(count - 1):
            made.append(self.source.below(left + 1))
            left -= made[-1]
        return (*made, left)

    # ------------------------------------------------------------------------------------------------------- hints

    def near(self, op: str, value: object) -> object:
        """A value that stands in this order to another."""
        source = self.source
        if op == "in":
            if isinstance(value, frozenset):
                members = sorted(value, key=lambda v: (str(type(v)), str(v)))
            elif isinstance(value, tuple):
                members = list(value)
            else:
                raise Unknown("no set")
            if not members:
                raise Unknown("an empty set")
            return members[source.below(len(members))]
        value = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
        if op == "==" or isinstance(value, (str, bool)) or not isinstance(value, (int, float)):
            return value
        by = source.below(3)
        return {">=": value + by, ">": value + 1 + by, "<=": value - by, "<": value - 1 - by}[op]

    def hinted(self, hint: Hint, value: object, kind: str) -> object:
        """A value of an attribute or the contents of a constant, by a hint."""
        if isinstance(value, np.ndarray) and value.ndim == 1:
            value = tuple(value.tolist())
        if hint.what == "length":
            found = self.near(hint.op, value)
            return self.numbers(min(max(found, 0), 6)) if isinstance(found, int) else found
        if hint.index is not None:
            return self.numbers(self.length())
        if hint.op == "in":
            if kind in ("ints", "shape") and hint.each:
                return tuple(self.near("in", value) for _ in range(self.length()))
            return self.near("in", value)
        if isinstance(value, tuple):
            return tuple(self.near(hint.op, v) for v in value)
        if kind in ("ints", "shape", "floats") and not isinstance(value, str) and value is not None:
            return tuple(self.near(hint.op, value) for _ in range(self.length()))
        return self.near(hint.op, value)

    def hinted_shape(self, hint: Hint, value: object, index: object, listed: bool) -> tuple[int, ...]:
        """The shape of a leaf, by a hint."""
        if isinstance(value, np.ndarray):
            value = value.item() if value.ndim == 0 else tuple(value.reshape(-1).tolist())
        if hint.what == "rank":
            rank = self.near(hint.op, value)
            if isinstance(rank, int) and 0 <= rank <= 6:
                return tuple(self.pool[c] for c in self.source.many(len(self.pool), rank))
        elif hint.what == "size" and isinstance(value, int):
            rank = self.base if self.source.below(2) else self.source.below(2)
            size = self.near(hint.op, value)
            place = self.source.below(rank) if rank else 0
            return tuple(size if a == place and isinstance(size, int) else 1 for a in range(rank))
        elif hint.what == "shape" and isinstance(value, tuple):
            made = tuple(self.near(hint.op, v) for v in value)
            if all(isinstance(v, int) and v >= 0 for v in made):
                return made  # type: ignore[return-value]
        elif hint.what == "shape" and isinstance(value, int) and hint.each:
            found = tuple(self.near(hint.op, value) for _ in range(self.rank()))
            if all(isinstance(v, int) and v >= 0 for v in found):
                return found  # type: ignore[return-value]
        elif hint.what == "extent":
            return self.with_extents(hint, value, index)
        return self.shape(listed)

    def with_extents(self, hint: Hint, value: object, index: object) -> tuple[int, ...]:
        shape = list(self.shape(False))
        if isinstance(index, np.ndarray):
            index = index.item() if index.ndim == 0 else tuple(index.reshape(-1).tolist())
        if isinstance(index, frozenset):
            index = tuple(sorted(index))
        places = index if isinstance(index, tuple) else (index,)
        values: Sequence[object] = value if isinstance(value, tuple) else (value,) * len(places)
        for place, wanted in zip(places, values, strict=False):
            found = self.near(hint.op, wanted)
            if isinstance(place, int) and isinstance(found, int) and found >= 0:
                while not -len(shape) <= place < len(shape) and len(shape) < 6:
                    shape.append(self.extent())
                if -len(shape) <= place < len(shape):
                    shape[place] = found
        return tuple(shape)

    def items(
        self,
        items: Sequence[Callable[[Mapping[str, object]], object] | tuple[object] | None],
        names: Mapping[str, object],
        contents: bool = False,
    ) -> tuple[object, ...]:
        """A list whose items are partly known: those that are free are extents, a free rest is of any length. In the
        contents of a constant they are other whole numbers too."""
        made: list[object] = []
        for item in items:
            if item is None:
                made.append(self.whole() if contents and self.source.below(3) == 2 else self.extent())
            elif isinstance(item, tuple):
                rest = item[0]
                value = rest(names) if callable(rest) else self.shape(False)
                made += value if isinstance(value, tuple) else ()
            else:
                made.append(item(names))
        return tuple(made)
