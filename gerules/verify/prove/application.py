"""One operator applied to operands, as its meaning sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import permutations, product

import z3

from gerules.egraph.signature import Signature
from gerules.verify.prove import arith
from gerules.verify.prove.arith import Int
from gerules.verify.prove.functions import subsets
from gerules.verify.prove.world import (
    ABSENT,
    Absent,
    Beyond,
    Element,
    Hole,
    Invalid,
    Kind,
    Leaf,
    Operand,
    Skip,
    Tensor,
    World,
)

FREELY = 2
"""Up to this rank axes are tried in every order and with every sign; at the next one in order, backwards and turned;
beyond it in order, all from one end."""


def axis_lists(rank: int, negative: bool) -> tuple[tuple[int, ...], ...]:
    """Lists of distinct axes, as rules may have them."""
    if rank == FREELY + 1:
        whole = tuple(range(rank))
        every = [*subsets(rank), *(axes[::-1] for axes in subsets(rank)), (*whole[1:], 0)]
        if negative:
            every.append(tuple(range(-rank, 0)))
        return tuple(dict.fromkeys(every))
    if rank > FREELY:
        found = list(subsets(rank))
        if negative:
            found.append(tuple(range(-rank, 0)))
        found += [tuple(reversed(s)) for s in subsets(rank) if len(s) == rank]
        return tuple(dict.fromkeys(found))
    lists: list[tuple[int, ...]] = []
    for count in range(rank + 1):
        for order in permutations(range(rank), count):
            signs = product((0, rank), repeat=count) if negative else [(0,) * count]
            lists += [tuple(a - s for a, s in zip(order, sign, strict=True)) for sign in signs]
    return tuple(dict.fromkeys(lists))


ALL_ORDERS = 5
"""Up to this rank every permutation may be tried."""


@lru_cache(maxsize=256)
def orders(rank: int, before: tuple[tuple[int, ...], ...] | None) -> tuple[tuple[int, ...], ...]:
    """The permutations to try. Where axes have no names of their own (`before`: the permutations chosen so far, of
    the same rank), those that differ in the names of axes only are one: of the first one for each lengths of cycles,
    of the second one for each way to rename that keeps the first. Empty where there are too many."""
    if before is None or len(before) > 1:
        return tuple(permutations(range(rank))) if rank <= ALL_ORDERS - len(before or ()) // 2 else ()
    if not before:
        return tuple(map(_cycles, _partitions(rank)))
    kept = [c for c in permutations(range(rank)) if all(c[before[0][i]] == before[0][c[i]] for i in range(rank))]
    seen: set[tuple[int, ...]] = set()
    found = []
    for q in permutations(range(rank)):
        if q not in seen:
            found.append(q)
            seen.update(_renamed(q, c) for c in kept)
    return tuple(found)


def _renamed(order: tuple[int, ...], names: tuple[int, ...]) -> tuple[int, ...]:
    result = [0] * len(order)
    for i, axis in enumerate(order):
        result[names[i]] = names[axis]
    return tuple(result)


def _partitions(total: int) -> list[tuple[int, ...]]:
    """The lengths of cycles, largest first."""
    found: list[tuple[int, ...]] = []
    waiting: list[tuple[tuple[int, ...], int]] = [((), total)]
    while waiting:
        parts, left = waiting.pop()
        if not left:
            found.append(parts)
        waiting += [((*parts, n), left - n) for n in range(1, min(left, parts[-1] if parts else left) + 1)]
    return sorted(found)


def _cycles(lengths: tuple[int, ...]) -> tuple[int, ...]:
    order: list[int] = []
    for n in lengths:
        start = len(order)
        order += [*range(start + 1, start + n), start]
    return tuple(order)


class Application:
    """Operands and attributes of one call. An attribute that the rule leaves open is a `Hole`."""

    def __init__(
        self,
        world: World,
        signature: Signature,
        operands: Sequence[Operand],
        attributes: Mapping[str, object],
        kinds: Mapping[str, Kind],
    ) -> None:
        self.world, self.signature, self.attributes, self.kinds = world, signature, attributes, kinds
        self._operands = list(operands)

    @property
    def name(self) -> str:
        return self.signature.definition.name

    @property
    def since(self) -> tuple[int, ...]:
        """The version that brought the semantic version."""
        return tuple(int(p) for p in self.signature.definition.since.split(".") if p.isdigit())

    # ---------------------------------------------------------------------------------------------------- operands

    @property
    def operands(self) -> tuple[Operand, ...]:
        """All of them; whether optional ones are there is decided."""
        return tuple(self.optional(i) or ABSENT for i in range(len(self._operands)))

    def optional(self, place: int) -> Tensor | None:
        if place >= len(self._operands):
            return None
        operand = self._operands[place]
        if isinstance(operand, Leaf) and operand.optional:
            there = self.world.pick((True, False), operand.name + " is there")
            operand.optional = False
            if not there:
                self.world.gone[operand.name] = ABSENT
        if isinstance(operand, Leaf) and operand.name in self.world.gone:
            return None
        return None if isinstance(operand, Absent) else operand

    def tensor(self, place: int) -> Tensor:
        found = self.optional(place)
        if found is None:
            raise Skip
        return found

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(o for o in self.operands if isinstance(o, Tensor))

    def like(self, tensors: Iterable[Tensor]) -> None:
        """Leaves among these whose rank is open take that of the first."""
        known = next((t for t in tensors if not isinstance(t, Leaf) or t.decided), None)
        for t in tensors:
            if known is None:
                known = t
            if isinstance(t, Leaf) and not t.decided:
                t.decide(known.rank)

    def entries(self, place: int, lengths: Iterable[int], what: str = "entry") -> tuple[Int, ...]:
        """The whole numbers that a vector holds; of a leaf of the rule new ones."""
        return self.entries_of(self.tensor(place), lengths, what)

    def entries_of(self, tensor: Tensor, lengths: Iterable[int], what: str = "entry") -> tuple[Int, ...]:
        if tensor.contents is not None:
            return tensor.contents if tensor.rank else (tensor.contents[0],)
        if not isinstance(tensor, Leaf):
            raise Beyond(f"a computed {what} of {self.name}")
        if tensor.decided:
            lengths = [n for n in lengths if tensor.rank == 1 and arith.same(tensor.shape[0], n)]
        count = self.world.pick(tuple(lengths), f"number of entries of {tensor.name}")
        assert isinstance(count, int)
        tensor.decide(1, (count,))
        tensor.contents = tuple(self.world.integer(f"{tensor.name}.{i}") for i in range(count))
        return tensor.contents

    def axes(self, place: int, rank: int, negative: bool = True) -> tuple[int, ...]:
        """A vector of distinct axes, concrete, as it is written."""
        tensor = self.tensor(place)
        if tensor.contents is None:
            if not isinstance(tensor, Leaf):
                raise Beyond(f"computed axes of {self.name}")
            if tensor.decided:
                raise Beyond(f"axes of {self.name} of a form that is fixed elsewhere")
            chosen = self.world.pick(axis_lists(rank, negative), f"axes {tensor.name}")
            assert isinstance(chosen, tuple)
            self.world.lists = True
            tensor.decide(1, (len(chosen),))
            tensor.contents = chosen
            return chosen
        found = self.settle(tensor.contents, rank, negative)
        self.world.name(found)
        return found

    def settle(self, entries: tuple[Int, ...], rank: int, negative: bool) -> tuple[int, ...]:
        """Axes of which some are variables of the rule: every one that there is, in turn."""
        world = self.world
        found = []
        for entry in entries:
            if isinstance(entry, z3.ArithRef) and z3.is_const(entry) and not z3.is_int_value(entry):
                key = ("axis", entry.get_id())
                if key not in world.memo and not world.right:
                    chosen = world.pick(range(-rank if negative else 0, rank), f"axis {entry}")
                    assert isinstance(chosen, int)
                    world.assume(entry == chosen)
                    world.memo[key] = (entry, chosen)
                    world.named.add(("axis", str(entry)))
                    world.lists = True
                if key in world.memo:
                    entry = world.memo[key][1]
            found.append(entry)
        return self.concrete(tuple(found))

    def concrete(self, numbers: object) -> tuple[int, ...]:
        found = []
        assert isinstance(numbers, tuple)
        for n in numbers:
            if isinstance(n, z3.ArithRef):
                n = z3.simplify(n)
                if not z3.is_int_value(n):
                    raise Beyond(f"axes of {self.name} that are not concrete")
                n = int(n.as_long())
            found.append(n)
        return tuple(found)

    def placed(self, axes: Iterable[int], rank: int) -> tuple[int, ...]:
        """Axes from the front; Skip where one does not exist or occurs twice. On the right that is a duty not met."""
        found = []
        for a in axes:
            if not -rank <= a < rank:
                self.fail()
            found.append(a % rank)
        if len(set(found)) != len(found):
            self.fail()
        return tuple(found)

    def fail(self) -> None:
        """The operator is not valid here."""
        self.world.demand(False)
        raise Invalid

    # -------------------------------------------------------------------------------------------------- attributes

    def attribute(self, name: str, options: Iterable[object] = ()) -> object:
        """An attribute's value; one that the rule leaves open is decided among `options`, or unset where it may be."""
        value = self.attributes.get(name)
        if isinstance(value, Hole):
            every = tuple(options)
            if not value.decided and not value.required and value.default is None:
                every = (None, *every)
            return value.decide(every)
        if isinstance(value, Element):
            raise Beyond(f"a computed attribute {name} of {self.name}")
        return value

    def flag(self, name: str, default: int = 0) -> int:
        value = self.attribute(name, (0, 1))
        return default if value is None else int(value)  # type: ignore[call-overload]

    def axis(self, rank: int, name: str = "axis", negative: bool = True, end: bool = False) -> int:
        """One axis, from the front. It is named: no axis of a class, so it counts for the rank bound."""
        top = rank + (1 if end else 0)
        value = self.attribute(name, range(-rank if negative else 0, top))
        if value is None:
            raise Beyond(f"{self.name} without its axis")
        if isinstance(value, z3.ArithRef):
            value = self.concrete((value,))[0]
        assert isinstance(value, int)
        if not (-rank if negative else 0) <= value < top:
            self.fail()
        hole = self.attributes.get(name)
        self.world.lists = True
        if end:
            self.world.cuts.add(hole if isinstance(hole, Hole) else value)
        elif not isinstance(hole, Hole):
            self.world.name((value,))
        elif not self.world.right:
            self.world.named.add(hole)
        return value + rank if value < 0 else value

    def axes_attribute(self, name: str, rank: int, negative: bool = True) -> tuple[int, ...] | None:
        self.world.lists = True
        value = self.attribute(name, axis_lists(rank, negative))
        if value is None:
            return None
        found = self.concrete(value)
        if not isinstance(self.attributes.get(name), Hole):
            self.world.name(found)
        return found

    def order(self, rank: int) -> object:
        """The permutation `perm`, or None; one that the rule leaves open is one of those to try."""
        world = self.world
        held = self.attributes.get("perm")
        if not (isinstance(held, Hole) and not held.decided):
            return self.attribute("perm")
        options = orders(rank, None)
        if rank > 3 and not world.whole and all(len(p) == rank for p in world.perms):
            options = orders(rank, tuple(world.perms))
            world.reduced = True
        world.orders += 1
        if not options:
            world.partial = True
            raise Skip
        found = self.attribute("perm", options)
        if isinstance(found, tuple):
            world.perms.append(found)
        return found

    def vector(self, name: str, count: int) -> tuple[Int, ...]:
        """A list attribute with one entry an axis."""
        value = self.attributes.get(name)
        if isinstance(value, Hole) and not value.decided:
            value.value = tuple(self.world.integer(f"{name}.{i}") for i in range(count))
            value.decided = True
        found = self.attribute(name)
        if not isinstance(found, tuple):
            raise Beyond(f"{name} of {self.name}")
        if len(found) != count:
            self.fail()
        return found

    def text(self, name: str) -> str:
        """How an attribute takes part in the name of a function."""
        value = self.attributes.get(name)
        if isinstance(value, Hole):
            return str(value)
        if isinstance(value, frozenset):
            return str(sorted(value, key=str))
        return str(value)

    # ------------------------------------------------------------------------------------------------------- kinds

    def result_kind(self, result: int = 0) -> Kind:
        """The element type of a result, where the schema says it."""
        outputs = self.signature.newest.outputs
        formal = outputs[min(result, len(outputs) - 1)]
        found = self.kinds.get(formal.type)
        if found is not None:
            return found
        if len(formal.types) == 1:
            return self.world.named_kind(next(iter(formal.types)))
        label = f"{self.label()}:{result}:{[str(k) for k in self.kinds.values()]}"
        return self.world.derived_kind(label)

    def label(self) -> str:
        """The operator and its attributes."""
        given = ",".join(f"{a.name}={self.text(a.name)}" for a in self.signature.attributes if a.name != "results")
        return f"{self.signature.definition.key}({given})"
