"""Asking z3 little: a goal is split, equations are put in, premises that share nothing with it are left out, and what
was asked before in other names is not asked again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import z3

from gerules.verify.prove.arith import Bool


class Memory:
    """Answers to questions up to the names in them. One for all cases of a program."""

    def __init__(self) -> None:
        self.proved: dict[str, bool] = {}
        self.cases: dict[object, object] = {}
        """Proofs by the form of a case, which members of a class may share."""
        self._variables: dict[int, tuple[z3.ExprRef, frozenset[int], tuple[int, ...]]] = {}
        self._constants: dict[int, z3.ExprRef] = {}
        self._simplified: dict[int, tuple[z3.ExprRef, z3.ExprRef]] = {}

    def variables(self, term: z3.ExprRef) -> frozenset[int]:
        """The numbers of the constants in a term; functions of elements count as what they are applied to."""
        return self._read(term)[1]

    def ordered(self, term: z3.ExprRef) -> tuple[int, ...]:
        """The same in the order in which they occur."""
        return self._read(term)[2]

    def _read(self, term: z3.ExprRef) -> tuple[z3.ExprRef, frozenset[int], tuple[int, ...]]:
        known = self._variables.get(term.get_id())
        if known is not None:
            return known
        found: dict[int, None] = {}
        seen: set[int] = set()
        waiting = [term]
        while waiting:
            node = waiting.pop()
            if node.get_id() in seen:
                continue
            seen.add(node.get_id())
            if z3.is_const(node):
                if node.decl().kind() == z3.Z3_OP_UNINTERPRETED:
                    found.setdefault(node.get_id())
                    self._constants[node.get_id()] = node
            else:
                waiting += reversed(node.children())
        result = (term, frozenset(found), tuple(found))
        self._variables[term.get_id()] = result
        return result

    def simplified(self, term: z3.ExprRef) -> z3.ExprRef:
        known = self._simplified.get(term.get_id())
        if known is None:
            known = self._simplified[term.get_id()] = (term, z3.simplify(term))
        return known[1]

    def named(self, number: int) -> z3.ExprRef:
        return self._constants[number]


def atoms(goal: z3.BoolRef) -> list[z3.BoolRef]:
    """The parts of a conjunction."""
    found: list[z3.BoolRef] = []
    waiting = [goal]
    while waiting:
        item = waiting.pop()
        if z3.is_and(item):
            waiting += reversed(item.children())
        else:
            found.append(item)
    return found


class Premises:
    """What is known, with its equations put in. Grows; asked with further assumptions."""

    def __init__(self, memory: Memory, known: Iterable[z3.BoolRef], rlimit: int) -> None:
        self.memory, self.rlimit = memory, rlimit
        self.pairs: list[tuple[z3.ExprRef, z3.ExprRef]] = []
        self.rest: list[z3.BoolRef] = []
        self.asked = 0
        self.contradiction = False
        for item in known:
            self.add(item)

    def add(self, item: z3.BoolRef) -> None:
        """One more premise. An equation with a constant alone on one side is put in everywhere."""
        for part in atoms(self.normal(item)):
            if z3.is_true(part):
                continue
            if z3.is_false(part):
                self.contradiction = True
            pair = self._equation(part)
            if pair is None:
                self.rest.append(part)
                continue
            self.pairs = [(a, z3.substitute(b, pair)) for a, b in self.pairs]
            self.pairs.append(pair)
            old, self.rest = self.rest, []
            for other in old:
                if pair[0].get_id() in self.memory.variables(other):
                    self.add(other)
                else:
                    self.rest.append(other)

    def _equation(self, part: z3.BoolRef) -> tuple[z3.ExprRef, z3.ExprRef] | None:
        if not z3.is_eq(part):
            return None
        for a, b in (part.children(), reversed(part.children())):
            if (
                z3.is_const(a)
                and a.decl().kind() == z3.Z3_OP_UNINTERPRETED
                and a.get_id() not in self.memory.variables(b)
                and a.sort() != z3.BoolSort()
            ):
                return a, b
        return None

    def normal(self, term: z3.ExprRef) -> z3.ExprRef:
        """A term with the equations put in, simplified."""
        if not self.pairs:
            return self.memory.simplified(term)
        met = self.memory.variables(term)
        pairs = [pair for pair in self.pairs if pair[0].get_id() in met]
        return self.memory.simplified(z3.substitute(term, *pairs) if pairs else term)

    def proves(self, goal: Bool, given: Sequence[Bool] = ()) -> bool:
        """Whether the goal follows. False where it does not, or z3 gives up."""
        if isinstance(goal, bool):
            goal = z3.BoolVal(goal)
        goal = self.normal(goal)
        extra: list[z3.BoolRef] = []
        for g in given:
            if isinstance(g, bool):
                if not g:
                    return True
                continue
            part = self.normal(g)
            if z3.is_false(part):
                return True
            extra += [a for a in atoms(part) if not z3.is_true(a)]
        if self.contradiction:
            return True
        return all(z3.is_true(part) or self._proves(part, extra) for part in atoms(goal))

    def _proves(self, goal: z3.BoolRef, extra: Sequence[z3.BoolRef]) -> bool:
        near = self._near(goal, [*extra, *self.rest])
        if self._ask(near, goal):
            return True
        # What is left out may contradict itself: then all follows.
        return len(near) < len(extra) + len(self.rest) and self._ask([*extra, *self.rest], goal)

    def _near(self, goal: z3.BoolRef, known: Sequence[z3.BoolRef]) -> list[z3.BoolRef]:
        """The premises that share a constant with the goal, directly or through others."""
        reached = set(self.memory.variables(goal))
        waiting = [(p, self.memory.variables(p)) for p in known]
        near: list[tuple[int, z3.BoolRef]] = []
        order = {p.get_id(): n for n, p in enumerate(known)}
        growing = True
        while growing:
            growing = False
            left = []
            for p, variables in waiting:
                if not variables or variables & reached:
                    near.append((order[p.get_id()], p))
                    reached |= variables
                    growing = True
                else:
                    left.append((p, variables))
            waiting = left
        return [p for _, p in sorted(near, key=lambda pair: pair[0])]

    def _ask(self, known: Sequence[z3.BoolRef], goal: z3.BoolRef) -> bool:
        key = f"{self.rlimit} {self._key([*known, goal])}"
        if key not in self.memory.proved:
            self.asked += 1
            solver = z3.SimpleSolver()
            solver.set("rlimit", self.rlimit)
            solver.add(*known, z3.Not(goal))
            self.memory.proved[key] = solver.check() == z3.unsat
        return self.memory.proved[key]

    def _key(self, terms: Sequence[z3.BoolRef]) -> str:
        """The question in names of its own."""
        numbers: dict[int, None] = {}
        for term in reversed(terms):  # the goal first, then what was said last
            numbers.update(dict.fromkeys(self.memory.ordered(term)))
        whole = z3.And(*terms, z3.BoolVal(True))
        olds = [self.memory.named(number) for number in numbers]
        pairs = [(old, z3.Const(f"_{k}", old.sort())) for k, old in enumerate(olds)]
        return str(z3.substitute(whole, *pairs).sexpr()) if pairs else str(whole.sexpr())
