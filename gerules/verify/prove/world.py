"""One structure of a rule in symbols: which ranks, axes, flags and operands, with every size open.

A rule is read once for each structure (`Chooser` replays the decisions); what is left open then are sizes, bounds and
elements, and these are z3's. A tensor is its shape and the element at an index; a leaf is an uninterpreted function of
its index, an element-wise operator one of elements, so a proof holds for every operator and element type of that form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import z3

from gerules.egraph import terms
from gerules.verify.prove import arith
from gerules.verify.prove.arith import Bool, Int
from gerules.verify.prove.solve import Memory, Premises

if TYPE_CHECKING:
    from gerules.egraph.program import Knowledge

ELEMENT: Final = z3.DeclareSort("Element")
NUMBER: Final = z3.Function("number", z3.IntSort(), ELEMENT)
"""The element that is this whole number, whatever its type."""
WHOLE: Final = z3.Function("whole", ELEMENT, z3.IntSort())
"""The whole number that an element is, where it is one (indices)."""
BELOW: Final = z3.Function("below", ELEMENT, ELEMENT, z3.BoolSort())
NOT_ABOVE: Final = z3.Function("not above", ELEMENT, ELEMENT, z3.BoolSort())
"""The orders of elements, as IEEE 754 and the integers have them."""

FLAT: Final = ".flat"
"""What the name of a leaf ends with where it is a function of the place in row-major order."""
OF: Final = " of "
"""Between what a function of elements does and the types that it does it on, in its name."""


def work_name(element: z3.ExprRef) -> str:
    """What the outermost function of an element does, by its name without types."""
    label, separator, _ = element.decl().name().rpartition(OF)
    return str(label if separator else element.decl().name())


def type_name(element: z3.ExprRef) -> str:
    """The types that the outermost function of an element works on; empty for what is no such function."""
    return str(element.decl().name()).rpartition(OF)[2] if OF in element.decl().name() else ""


Index = tuple[Int, ...]
At = Callable[[Index], z3.ExprRef]

FAR: Final = 2**31 - 1
"""No extent is that large: bounds beyond stand for the end."""


class Skip(Exception):
    """This structure is no instance of the rule."""


class Beyond(Exception):
    """The prover has no meaning for this; the message says for what."""


class Invalid(Exception):
    """The right side does not exist in this structure: an axis that is not there, lists of different lengths."""


class Kind:
    """An element type: a name where it is known, else a variable. Equal ones are joined."""

    __slots__ = ("name", "number", "parent")

    def __init__(self, number: int, name: str | None = None) -> None:
        self.number, self.name = number, name
        self.parent: Kind | None = None

    def find(self) -> Kind:
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def __str__(self) -> str:
        root = self.find()
        return root.name or f"t{root.number}"


def whole(element: z3.ExprRef) -> Int:
    """The whole number that an element is."""
    if z3.is_app(element) and element.decl().eq(NUMBER):
        argument = element.arg(0)
        return int(argument.as_long()) if z3.is_int_value(argument) else argument
    return WHOLE(element)


class Tensor:
    """A tensor in symbols. `flat` gives the element at a place of the row-major sequence, where there is a way to say
    it without unravelling; `contents` the entries of a vector (or scalar) of whole numbers; `size` the element count
    as one term, for views."""

    def __init__(
        self,
        kind: Kind,
        shape: Sequence[Int],
        at: At,
        flat: Callable[[Int], z3.ExprRef] | None = None,
        contents: tuple[Int, ...] | None = None,
        uniform: z3.ExprRef | None = None,
        size: Int | None = None,
    ) -> None:
        self.kind = kind
        self._shape: tuple[Int, ...] | None = tuple(shape)
        self._at, self._flat, self._size = at, flat, size
        self.contents, self.uniform = contents, uniform
        self._seen: dict[tuple[int | tuple[int], ...], tuple[Index, z3.ExprRef]] = {}

    @property
    def shape(self) -> tuple[Int, ...]:
        assert self._shape is not None
        return self._shape

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Int:
        if self._size is None:
            self._size = arith.product(self.shape)
        return self._size

    def at(self, index: Index) -> z3.ExprRef:
        """The element at an index of as many entries as the rank."""
        assert len(index) == self.rank
        key = tuple(i if isinstance(i, int) else (i.get_id(),) for i in index)
        if key not in self._seen:
            self._seen[key] = (index, self._at(index))
        return self._seen[key][1]

    def flat(self, place: Int) -> z3.ExprRef | None:
        if self.uniform is not None:
            return self.uniform
        if self._flat is not None:
            return self._flat(place)
        return self.at((place,)) if self.rank == 1 else None


class Leaf(Tensor):
    """A variable of the rule: rank, extents and contents are decided when something asks for them."""

    def __init__(self, world: World, name: str, kind: Kind, optional: bool = False) -> None:
        super().__init__(kind, (), lambda index: self._element(index))
        self.world, self.name, self.optional = world, name, optional
        self.of_left = not world.right
        self._shape = None
        self._function: z3.FuncDeclRef | None = None

    @property
    def decided(self) -> bool:
        return self._shape is not None

    @property
    def shape(self) -> tuple[Int, ...]:
        if self._shape is None:
            rank = self.world.pick(range(self.world.ranks + 1), "rank of " + self.name)
            assert isinstance(rank, int)
            self._shape = tuple(self.world.extent(f"{self.name}.{i}") for i in range(rank))
            self.world.leaves.append(self)
        assert self._shape is not None
        return self._shape

    def decide(self, rank: int, extents: Sequence[Int] | None = None) -> None:
        """Fixes the rank, and the extents where they are known. A variable that the left side leaves open may have any
        rank on the right: one of another is no operand there."""
        if self._shape is None and self.world.right and self.of_left:
            _ = self.shape
        if self._shape is not None:
            if len(self._shape) != rank:
                raise Invalid if self.world.right else Skip
            if extents is not None and self.world.right:
                self.world.demand(*(arith.eq(a, b) for a, b in zip(self._shape, extents, strict=True)))
            return
        if extents is None:
            extents = [self.world.extent(f"{self.name}.{i}") for i in range(rank)]
        self._shape = tuple(extents)
        self.world.leaves.append(self)

    def _element(self, index: Index) -> z3.ExprRef:
        if self.contents is not None:
            if not index:
                return NUMBER(self.contents[0])
            found: Int = 0
            for place, entry in reversed(list(enumerate(self.contents))):
                found = arith.ite(arith.eq(index[0], place), entry, found)
            return NUMBER(found)
        if not index:
            return z3.Const(self.name, ELEMENT)
        if self._function is None:
            self._function = z3.Function(self.name, *[z3.IntSort()] * len(index), ELEMENT)
        return self._function(*index)

    def flat(self, place: Int) -> z3.ExprRef | None:
        if self.rank == 1 or self.contents is not None:
            return self.at((place,) if self.rank else ())
        return z3.Function(self.name + FLAT, z3.IntSort(), ELEMENT)(place)


class Absent:
    """An optional operand that is not there."""


ABSENT: Final = Absent()
Operand = Tensor | Absent


class Hole:
    """An attribute of the left side that a rule leaves open; decided when an operator's meaning asks for it."""

    def __init__(self, world: World, name: str, kind: str, default: str | None, required: bool) -> None:
        self.world, self.name, self.kind, self.default, self.required = world, name, kind, default, required
        self.decided = False
        self.value: object = None

    def decide(self, options: Iterable[object]) -> object:
        if not self.decided:
            if self.world.right:
                raise Beyond(f"{self.name.partition('!')[0]}, which no operator of the left side gives a meaning")
            self.value = self.world.pick(tuple(options), self.name)
            self.decided = True
        return self.value

    def element(self) -> z3.ExprRef:
        """A float attribute as an element."""
        return z3.Const(self.name, ELEMENT)

    def __str__(self) -> str:
        return str(self.value) if self.decided else f"?{self.name}"


@dataclass(eq=False)
class Element:
    """A static value that is one element: what a scalar constant holds, a float attribute."""

    term: z3.ExprRef


@dataclass(eq=False)
class Node:
    """An operator with several results, each made when it is asked for."""

    label: str
    make: Callable[[int], Tensor]
    count: int | None
    open: Hole | None = None
    """The attribute that says how many results there are, where the rule leaves that open."""
    most: int = 0
    """How many results there are at most; 0 where that is not known."""
    made: dict[int, Tensor] = field(default_factory=dict)

    def __getitem__(self, index: int) -> Tensor:
        if index < 0 or (self.count is not None and index >= self.count):
            raise Skip
        if index not in self.made:
            self.made[index] = self.make(index)
        return self.made[index]


class Chooser(terms.Chooser):
    """Decisions of which there may be none to take: then the structure does not exist."""

    def pick(self, options: int) -> int:
        if options < 1:
            raise Skip
        return super().pick(options)


class World:
    """The state of one structure. `ranks` is the largest rank of a leaf.

    While the left side is read what operators demand are premises (`pre`); afterwards it is what has to be shown
    (`duties`).
    """

    def __init__(self, chooser: Chooser, ranks: int, rlimit: int, memory: Memory, reassociates: bool = False) -> None:
        self.chooser, self.ranks, self.rlimit, self.reassociates = chooser, ranks, rlimit, reassociates
        self.pre: list[z3.BoolRef] = []
        self.duties: list[Bool] = []
        self.right = False
        self.leaves: list[Leaf] = []
        self.open: list[Leaf] = []
        """All leaves that were made, whether their rank is decided or not."""
        self.extents: list[z3.ArithRef] = []
        self.choices: dict[str, object] = {}
        self.named: set[object] = set()
        self.cuts: set[object] = set()
        """Places between axes that are named (Flatten)."""
        self.guards = 0
        self.lists = False
        """Whether axes are counted: then rank 2 is the least bound."""
        self.orders = 0
        """Permutations that the rule leaves open. Each is a map that the path of an axis goes through on either side,
        so each needs two axes more."""
        self.perms: list[tuple[int, ...]] = []
        self.whole = False
        """Whether every permutation is tried, also those that differ in the names of axes only."""
        self.told = False
        """Whether the left side and the conditions hold in this structure, so that it counts."""
        self.reduced = self.uneven = self.partial = False
        """Whether permutations were left out because axes have no names; whether some operator tells axes by their
        place, so that they do; whether structures were left out."""
        self.literals: frozenset[int] = frozenset()
        """The numbers that the rule writes."""
        self.values: dict[str, set[int]] = {}
        """Places at which each leaf was read for its value: what laws compare, what a choice is decided by."""
        self.variadic = False
        """Whether a number of operands was chosen."""
        self.views = False
        self.assumed: dict[str, None] = {}
        self.memo: dict[object, tuple[object, object]] = {}
        """Decisions on a term, with the term (which keeps its number from being used again)."""
        self.binders: dict[int, Binder] = {}
        self.opaque: list[Opaque] = []
        self.tolerant = False
        """Whether the sides are compared within a tolerance, over finite numbers."""
        self.known: Knowledge | None = None
        """What is known of operators beside their registry: facts and classes."""
        self.unread = ""
        """Why a condition was not understood: it is no premise, and what is not shown without it is not known."""
        self.unsigned: list[object] = []
        """Attributes and operands that an operator of the left side does not admit to be negative."""
        self.words: list[tuple[object, frozenset[str]]] = []
        """Attributes with words that an operator of the left side does not know."""
        self.laws = 0
        self.lawfully = 0
        """How often a law of elements was of use."""
        self.labelled: dict[str, Kind] = {}
        """Element types by their names in functions of elements."""
        self.admitted: dict[int, frozenset[str]] = {}
        self.strangers: list[str] = []
        """Opaque operators of the right side that are none of the left."""
        self.lossless: list[tuple[Kind, Kind]] = []
        self.within: list[tuple[str, Int, Int]] = []
        """Variables whose entries are at least the one and less than the other: indices of the left side."""
        self.gone: dict[str, Absent] = {}
        """Optional leaves that are not there."""
        self._derived: dict[str, Kind] = {}
        self._counter = 0
        self._quotients: dict[tuple[int, int], z3.ArithRef] = {}
        self._kept: list[object] = []
        self.memory = memory
        self._premises: Premises | None = None
        self._told = self._owed = self._checks = self._asked = 0

    # ----------------------------------------------------------------------------------------------- what is open

    def pick(self, options: Iterable[object], what: str) -> object:
        """One of the options; every one is tried in turn."""
        every = tuple(options)
        if not every:
            raise Skip
        chosen = every[self.chooser.pick(len(every))]
        if len(every) > 1:
            self.choices[what] = chosen
        return chosen

    def name(self, axes: Iterable[int]) -> None:
        """Axes that the rule writes by number."""
        self.named.update(a for a in axes if a in self.literals)

    def keep(self, term: object) -> None:
        """A term whose number is remembered has to live on."""
        self._kept.append(term)

    def fresh(self, prefix: str) -> str:
        self._counter += 1
        return f"{prefix}!{self._counter}"

    def integer(self, prefix: str) -> z3.ArithRef:
        return z3.Int(self.fresh(prefix))

    def extent(self, prefix: str) -> z3.ArithRef:
        """A new extent, at least 0."""
        size = self.integer(prefix)
        self.extents.append(size)
        self.pre.append(size >= 0)
        if self.large:
            self.pre.append(size < FAR)
        return size

    def kind(self, name: str | None = None) -> Kind:
        self._counter += 1
        return Kind(self._counter, name)

    def named_kind(self, name: str) -> Kind:
        return self.derived_kind(name, name)

    def derived_kind(self, label: str, name: str | None = None) -> Kind:
        """The element type that this label stands for, the same one each time."""
        if label not in self._derived:
            self._derived[label] = Kind(-1 - len(self._derived), name)  # never one that is open on the right
        return self._derived[label]

    def label_of(self, kinds: Iterable[Kind]) -> str:
        """Element types as they stand in the names of functions of elements."""
        texts: dict[str, None] = {}
        for kind in kinds:
            root = kind.find()
            self.labelled[str(root)] = root
            texts[str(root)] = None
        return ",".join(texts)

    def admit(self, kind: Kind, names: frozenset[str]) -> None:
        """A premise: an element type is one of these."""
        root = kind.find()
        if not names:
            return
        if root.name is not None:
            if root.name not in names:
                raise Skip
            return
        self.admitted[id(root)] = self.admitted.get(id(root), names) & names
        self._kept.append(root)
        if not self.types(root):
            raise Skip

    def types(self, kind: Kind) -> frozenset[str]:
        """What an element type may be; empty where nothing is known of it."""
        root = kind.find()
        if root.name is not None:
            return frozenset((root.name,))
        known = [names for held, names in self._admissions() if held is root]
        return frozenset.intersection(*known) if known else frozenset()

    def _admissions(self) -> Iterable[tuple[Kind, frozenset[str]]]:
        held = {id(k): k for k in self._kept if isinstance(k, Kind)}
        return [(held[number].find(), names) for number, names in self.admitted.items()]

    def leaf(self, name: str, kind: Kind | None = None, optional: bool = False) -> Leaf:
        made = Leaf(self, self.fresh(name), kind or self.kind(), optional)
        if not self.right:
            self.open.append(made)
        return made

    def quotient(self, a: Int, b: Int) -> Int:
        """floor(a / b) for b >= 1 (which the caller demands). One symbol for one pair of terms."""
        if isinstance(b, int):
            if b == 1:
                return a
            return a // b if isinstance(a, int) else a / b
        key = (arith.term(a).get_id(), b.get_id())
        if key not in self._quotients:
            q = self.integer("quotient")
            self._kept += [a, b]
            self._quotients[key] = q
            self.pre.append(z3.Implies(b >= 1, z3.And(b * q <= a, a < b * q + b)))
        return self._quotients[key]

    # --------------------------------------------------------------------------------------------- what is demanded

    def demand(self, *conditions: Bool) -> None:
        """What an operator needs of its operands: a premise on the left, a duty on the right."""
        for condition in conditions:
            if self.right:
                if condition is not True:
                    self.duties.append(condition)
            else:
                self.assume(condition)

    def assume(self, condition: Bool) -> None:
        """A premise. Raises Skip where it is false in this structure."""
        if condition is True:
            return
        if condition is False:
            raise Skip
        self.pre.append(condition)

    def unify(self, a: Kind, b: Kind) -> None:
        """Two element types are one: known on the left, to be so already on the right."""
        a, b = a.find(), b.find()
        if a is b:
            return
        if a.name is not None and b.name is not None:
            if a.name != b.name:
                if self.right:
                    self.duties.append(False)
                    return
                raise Skip
            b.parent = a
            return
        if self.right and not (self._open(a) or self._open(b)):
            self.duties.append(False)
            return
        if a.name is None:
            a.parent = b
        else:
            b.parent = a

    def _open(self, kind: Kind) -> bool:
        """Whether a type stands for whatever its place takes (a constant of the right side)."""
        return kind.name is None and kind.number > self.border

    large = False
    """Whether the rule speaks of bounds that stand for the end: then no extent is as large."""

    border = 0
    """Numbers of types up to this one are of the left side."""

    granted = False
    """Whether a right side is read that is known to be right: nothing may be decided by it."""

    def decides(self) -> None:
        """Raises Beyond where a right side that is granted would narrow down where the rule fires."""
        if self.granted:
            raise Beyond("a rule that does not fire everywhere")

    def below(self) -> bool:
        """Whether nothing can have the largest rank: then a smaller one has shown this structure."""
        largest = max((leaf.rank for leaf in self.leaves), default=0)
        return largest < self.ranks and all(leaf.decided for leaf in self.open)

    def turn(self) -> None:
        """From the left side to the right one."""
        self.right = True
        self.border = self._counter

    # ------------------------------------------------------------------------------------------------------- asking

    def proves(self, goal: Bool, given: Sequence[Bool] = ()) -> bool:
        """Whether the goal follows from premises, duties (which are shown apart) and `given`."""
        if goal is True:
            return True
        return self.premises().proves(goal, given)

    def premises(self) -> Premises:
        """What is known by now, made ready to be asked."""
        if self._premises is None:
            self._premises = Premises(self.memory, (), self.rlimit)
        known = [*self.pre[self._told :], *[d for d in self.duties[self._owed :] if d is not True]]
        self._told, self._owed = len(self.pre), len(self.duties)
        for item in known:
            self._premises.add(z3.BoolVal(item) if isinstance(item, bool) else item)
        return self._premises

    def owed(self) -> list[Bool]:
        """What is to be shown, once. What is known by then is only what was premised: a duty does not show itself."""
        duties, self.duties = list(dict.fromkeys(self.duties)), []
        if self._owed:
            self._asked += self._premises.asked if self._premises is not None else 0
            self._premises, self._told, self._owed = None, 0, 0
        return duties

    @property
    def queries(self) -> int:
        """Questions that z3 was asked."""
        asked: int = self._premises.asked if self._premises is not None else 0
        return self.laws + self._checks + self._asked + asked

    def possible(self, given: Sequence[Bool] = ()) -> bool:
        return bool(self.check(list(given)) != z3.unsat)

    def check(self, given: Sequence[Bool]) -> z3.CheckSatResult:
        """z3's answer on premises and `given`, as they stand: for models."""
        self._checks += 1
        solver = z3.SimpleSolver()
        solver.set("rlimit", self.rlimit)
        solver.add(self.pre)
        solver.add([g for g in given if g is not True])
        self.answer = solver.check()
        self.last = solver
        return self.answer

    in_values = False
    """Whether what was not shown lies in what operators do to elements."""

    question: Sequence[Bool] = ()
    """What was not shown to be impossible."""
    last: z3.Solver | None = None
    answer: z3.CheckSatResult | None = None


@dataclass(eq=False)
class Binder:
    """An element that is a reduction of many: `body` is the element for each setting of the bound indices.

    `operation` tells which; two binders are one where operation and extents are equal and bodies are, for each index.
    """

    operation: str
    extents: tuple[Int, ...]
    body: Callable[[Index], tuple[z3.ExprRef, ...]]
    element: z3.ExprRef
    kind: str = ""
    """The element type of what is reduced, as it stands in the names of functions."""


@dataclass(eq=False)
class Opaque:
    """An application of an operator that has no meaning here but its name: equal operands give equal results."""

    name: str
    label: Callable[[], str]
    """The work and its attributes, as far as they are decided by now."""
    operands: tuple[object, ...]
    results: dict[int, Tensor] = field(default_factory=dict)
