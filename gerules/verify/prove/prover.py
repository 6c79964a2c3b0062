"""The proof of one case: every structure up to the rank bound, one question each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import comb
from typing import TYPE_CHECKING

import z3

from gerules.dsl import ast
from gerules.registry.definition import OperatorDef
from gerules.verify.prove import access_parts, access_sums, access_values, access_views, arith
from gerules.verify.prove.access import MEANINGS, ById, elementwise_keys
from gerules.verify.prove.arith import Bool
from gerules.verify.prove.bound import Needs, needs, signed_numbers
from gerules.verify.prove.compare import same_elements, same_shapes
from gerules.verify.prove.solve import Memory, Premises
from gerules.verify.prove.terms import Reader
from gerules.verify.prove.world import FAR, Beyond, Chooser, Hole, Invalid, Node, Skip, Tensor, World
from gerules.verify.verdict import Proof

if TYPE_CHECKING:
    from gerules.egraph.program import Knowledge
    from gerules.verify.case import Case

LOADED = (access_parts, access_sums, access_values, access_views)
"""Modules that register meanings."""

WORLDS = 1600
VIEWS = 800
VIEWED = 3
QUESTIONS = 400
FEW = 60
"""Structures, and questions to z3, of one case and one largest rank at most: beyond, the proof ends one rank below.
A structure that changes shapes costs more, so of these there are less (VIEWS). Where there were few, a variadic
operator is tried with three operands too."""


ARITHMETIC = frozenset((z3.Z3_OP_ADD, z3.Z3_OP_SUB, z3.Z3_OP_MUL, z3.Z3_OP_IDIV, z3.Z3_OP_MOD))


class Explodes(Exception):
    """More structures than there is room for."""


@dataclass
class Outcome:
    """What the structures up to some rank gave."""

    operands: int = 2
    """How many operands of a variadic operator are tried at most; `arities` tells whether any was met."""
    arities: bool = False
    whole: bool = False
    """Whether every permutation is tried."""
    worlds: int = 0
    queries: int = 0
    held: int = 0
    generous: bool = False
    sized: bool = False
    """Whether there are sizes of which nothing says that they are small."""
    laws: int = 0
    guards: int = 0
    orders: int = 0
    lists: bool = False
    views: bool = False
    named: set[object] = field(default_factory=set)
    cuts: int = 0
    pairs: int = 0
    partial: bool = False
    assumed: dict[str, None] = field(default_factory=dict)
    beyond: str | None = None
    undecided: str | None = None
    model: dict[str, object] | None = None
    fault: str = ""


def prove(case: Case, known: Knowledge, rlimit: int) -> Proof:
    """What can be proved of a case. Members of one form share a proof that speaks of none of them."""
    cases = memory_of(ById(known)).cases
    key = (form(case, known), rlimit)
    found = cases.get(key)
    if isinstance(found, Proof):
        return replace(found, queries=0)
    if case.left == case.right:
        return Proof("unknown", reason="vacuous: both sides are the same term")
    total = Outcome()
    proof = attempt(case, known, rlimit, total)
    if total.partial:
        # Axes turned out to have names, or there were too many permutations: all of those that may be tried.
        total = Outcome(whole=True)
        proof = attempt(case, known, rlimit, total)
    if proof.all_ranks and total.arities and total.worlds < FEW:
        more = Outcome(operands=3, whole=total.whole)
        second = attempt(case, known, rlimit, more)
        if second.all_ranks:
            proof, total = second, more
    if proof.status in ("proved", "proved bounded") and not total.laws:
        cases[key] = proof
    return proof


def prove_alike(case: Case, right: ast.Expr, known: Knowledge, rlimit: int) -> Proof:
    """Whether `right` is the same as the case's own right side wherever the case holds, which is taken for granted."""
    return attempt(case, known, rlimit, Outcome(), right)


def form(case: Case, known: Knowledge) -> object:
    """All that a proof of the case reads, but the names of element-wise operators."""
    params: list[object] = []
    for name, value in sorted(case.params.items()):
        if not isinstance(value, OperatorDef):
            params.append((name, str(value)))
            continue
        signature = known.signatures.of(value)
        definition = signature.definition
        work = work_of(definition, known)
        if work is not None and len(case.params) == 1 and not (work and case.exactness):
            inputs = [(o.kind, o.type, sorted(o.types) if len(o.types) == 1 else ()) for o in signature.newest.inputs]
            outputs = [(o.type, sorted(o.types) if len(o.types) == 1 else ()) for o in signature.newest.outputs]
            columns = [(a.name, signature.kind(a.name), a.required, a.default) for a in signature.attributes]
            params.append((name, str((work, inputs, outputs, columns))))
        else:
            params.append((name, definition.key))
    return case.rule, case.direction, case.left, case.right, case.when, case.exactness, tuple(params)


def work_of(definition: OperatorDef, known: Knowledge) -> str | None:
    """The kind of work that operators share a proof for: any function of elements (""), or a reduction of some kind."""
    meaning = MEANINGS.get((definition.domain, definition.name))
    if meaning is access_sums.reduction:
        name = definition.name
        work = (name in access_sums.OF_ONE, name == access_sums.SUM)
        return f"reduces {work} {len(definition.inputs)} {int(definition.since) >= 11}"
    free = meaning in (None, access_values.binary, access_values.variadic)
    return "" if free and definition.key in elementwise_keys(ById(known)) else None


def attempt(case: Case, known: Knowledge, rlimit: int, total: Outcome, other: ast.Expr | None = None) -> Proof:
    """The proof itself: rank after rank, up to one more than what is enough. With `other` the sides are the right one
    and that."""
    reached = -1
    bound = 1
    ranks = before = 0
    outcome = total
    asked = needs(case)
    whole = total.whole or asked.ordered
    while ranks <= bound + 1:
        outcome = Outcome(operands=total.operands, whole=whole)
        try:
            explore(case, known, ranks, rlimit, memory_of(ById(known)), outcome, other)
        except Explodes:
            total.arities = total.arities or outcome.arities
            break
        total.queries += outcome.queries
        total.worlds += outcome.worlds
        total.held += outcome.held
        total.generous = total.generous or outcome.generous
        total.sized = total.sized or outcome.sized
        total.assumed.update(outcome.assumed)
        total.laws += outcome.laws
        total.arities = total.arities or outcome.arities
        if outcome.model is not None:
            return Proof("refuted", reason=outcome.fault, queries=total.queries, model=outcome.model)
        if outcome.partial:
            total.partial = not whole
            break
        if outcome.beyond or outcome.undecided:
            total.beyond, total.undecided = outcome.beyond, outcome.undecided
            break
        reached = ranks
        bound = max(bound, enough(asked, outcome))
        if grows_too_far(ranks, bound + 1, before, outcome.worlds, VIEWS if outcome.views else WORLDS):
            break
        before = outcome.worlds
        ranks += 1
    if total.beyond:
        return Proof("unknown", reason=f"no meaning here: {total.beyond}", queries=total.queries)
    if not total.held:
        none = "vacuous: no structure of the left side satisfies the conditions"
        if reached < bound + 1:
            none = f"no structure up to rank {reached} satisfies the conditions, and beyond there are too many"
        reason = total.undecided or none
        return Proof("unknown", reason=reason, queries=total.queries)
    if total.sized and not total.generous:
        reason = "vacuous: the conditions hold only where some size is 0 or 1, and none of them says so"
        return Proof("unknown", reason=reason, queries=total.queries)
    if reached < 1 and total.undecided:
        return Proof("unknown", reason=total.undecided, queries=total.queries)
    every = reached >= bound + 1
    scope = f"all ranks (checked to {reached})" if every else f"ranks 0 to {reached}"
    if total.arities:
        scope += f", up to {total.operands} operands"
    status = "proved" if every else "proved bounded"
    return Proof(status, f"{scope}, all sizes", all_ranks=every, all_sizes=True, queries=total.queries)  # type: ignore[arg-type]


def grows_too_far(rank: int, last: int, before: int, now: int, most: int) -> bool:
    """Whether structures, growing as from the rank before, are by far too many at the last rank: then it is not tried
    how far one comes. From rank 2 on growth tells."""
    return rank >= 2 and now * (now / max(before, 1)) ** (last - rank) > 16 * most


def enough(asked: Needs, outcome: Outcome) -> int:
    """The number of axes that a counterexample needs at most, by what was met so far."""
    numbers = {n for n in outcome.named if isinstance(n, int)} | asked.named
    if "row" in outcome.named:
        numbers |= {-1, -2}
    # An axis known by its number needs those in front of it, or behind.
    kept = max((n + 1 for n in numbers if n >= 0), default=0) + max((-n for n in numbers if n < 0), default=0)
    free = len([n for n in outcome.named if isinstance(n, (Hole, tuple))])
    one = VIEWED + kept + 2 * free + outcome.cuts if outcome.views else 1 + kept + free
    orders = max(asked.letters, 2 * outcome.orders)
    least = 2 if outcome.lists else 1
    return max(least, asked.ranks, one + outcome.guards + orders + asked.axes + outcome.pairs)


def speaks_of_the_end(case: Case) -> bool:
    """Whether the rule holds a number beyond every extent."""
    waiting: list[object] = [case.left, case.right, *case.when]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Number) and abs(node.value) >= FAR:
            return True
        if isinstance(node, ast.Node):
            waiting += [getattr(node, name) for name in node.__dataclass_fields__ if name != "span"]
        elif isinstance(node, tuple):
            waiting += node
    return False


def explore(
    case: Case,
    known: Knowledge,
    ranks: int,
    rlimit: int,
    memory: Memory,
    outcome: Outcome,
    other: ast.Expr | None = None,
) -> None:
    """Every structure whose largest rank is `ranks`."""
    chooser = Chooser()
    large = speaks_of_the_end(case)
    literals = frozenset(signed_numbers(case))
    while True:
        world = World(chooser, ranks, rlimit, memory, case.exactness == "reassociates")
        world.known, world.tolerant = known, case.exactness in ("defines", "finite", "reassociates")
        world.large, world.whole, world.literals = large, outcome.whole, literals
        chooser.position = 0
        with suppress(Skip):
            one(case, known, world, outcome, other)
        outcome.queries += world.queries
        outcome.worlds += 1
        outcome.laws += world.lawfully
        outcome.arities = outcome.arities or world.variadic
        outcome.guards = max(outcome.guards, world.guards)
        outcome.orders = max(outcome.orders, world.orders)
        outcome.lists = outcome.lists or world.lists
        outcome.named = max(outcome.named, world.named, key=len)
        outcome.cuts = max(outcome.cuts, len(world.cuts))
        outcome.pairs = max(outcome.pairs, sum(comb(len(places), 2) for places in world.values.values()))
        outcome.partial = outcome.partial or world.partial or (world.told and world.reduced and world.uneven)
        outcome.assumed.update(world.assumed)
        if outcome.beyond or outcome.undecided or outcome.partial or outcome.model is not None:
            return
        outcome.views = outcome.views or world.views
        if outcome.worlds > (VIEWS if outcome.views else WORLDS) or outcome.queries > QUESTIONS:
            raise Explodes
        if not chooser.next():
            return


def one(case: Case, known: Knowledge, world: World, outcome: Outcome, other: ast.Expr | None = None) -> None:
    """One structure: read the left side and the conditions, then show that the right side is the same."""
    reader = Reader(world, known, case.file, dict(case.params), arities=outcome.operands)
    try:
        left = reader.side(case.left)
        conditions(reader, case.when)
        if not isinstance(left, Node):
            _ = left.rank
        if world.below():
            return
        world.turn()
        world.told = True
        if other is not None:
            left = granted(reader, case.right)
        try:
            right = reader.side(case.right if other is None else other)
        except Invalid:
            if world.unread:
                outcome.beyond = world.unread
            elif world.opaque:
                outcome.beyond = f"what {world.opaque[0].name} asks of its operands"
            elif world.possible():
                outcome.model, outcome.fault = model(world), "the right side is not valid"
            return
        pairs = list(results(left, right))
        if max((leaf.rank for leaf in world.leaves), default=0) < world.ranks:
            return
    except Beyond as why:
        outcome.beyond = str(why)
        return
    except Invalid:
        return
    try:
        for a, b in pairs:
            if not judge(world, a, b, outcome):
                return
    except Beyond as why:
        outcome.beyond = str(why)


def granted(reader: Reader, right: ast.Expr) -> Tensor | Node:
    """A right side that is known to be valid wherever the rule fires: what its operators demand is premised."""
    world = reader.world
    world.granted = True
    try:
        found = reader.side(right)
        if not isinstance(found, Node):
            _ = found.shape
    except (Invalid, Skip):
        raise Beyond("a rule that does not fire everywhere") from None
    finally:
        world.granted = False
    duties, world.duties = world.duties, []
    for duty in duties:
        if duty is False:
            raise Beyond("a right side that is not valid everywhere")
        world.assume(duty)
    world.strangers.clear()
    return found


def conditions(reader: Reader, when: Sequence[ast.Expr]) -> None:
    waiting = list(when)
    while waiting:
        ready = next((c for c in waiting if reader.ready(c)), None)
        if ready is None:
            raise Beyond("a condition whose variables nothing binds")
        waiting.remove(ready)
        open_ = reader.unbound(ready)
        try:
            reader.world.assume(reader.condition(ready))
        except Beyond as why:
            if open_:
                raise
            reader.world.unread = reader.world.unread or str(why)


def results(left: Tensor | Node, right: Tensor | Node) -> Iterator[tuple[Tensor, Tensor]]:
    if isinstance(left, Node) and isinstance(right, Node):
        count = left.count
        if count is None and left.open is not None and left.open is right.open:
            count = min(left.most, right.most)
        if not count or left.count != right.count:
            raise Beyond("nodes with a free number of results")
        for i in range(count):
            yield left[i], right[i]
    elif isinstance(left, Tensor) and isinstance(right, Tensor):
        yield left, right
    else:
        raise Beyond("a node on one side and a tensor on the other")


def judge(world: World, left: Tensor, right: Tensor, outcome: Outcome) -> bool:
    """Whether the right side is valid and the same; else what was found is in `outcome`."""
    try:
        world.unify(left.kind, right.kind)
        for duty in world.owed():
            if not world.proves(duty):
                return suspect(world, [arith.negation(duty)], "the right side is not valid", outcome)
            world.assume(duty)  # shown: of use for what follows
        alike = same_shapes(left, right)
        if not world.proves(alike):
            return suspect(world, [arith.negation(alike)], "shapes differ", outcome)
        if not same_elements(world, left, right):
            return suspect(world, world.question, "elements differ", outcome)
    except Beyond as why:
        outcome.beyond = str(why)
        return False
    if world.strangers:
        outcome.beyond = f"{world.strangers[0]}, which the left side does not have"
        return False
    held(world, outcome)
    return True


def suspect(world: World, question: Sequence[Bool], fault: str, outcome: Outcome) -> bool:
    """What was not proved: a model where there is one, else z3 gave up."""
    if world.strangers:
        outcome.beyond = f"{world.strangers[0]} of what is not shown to be the same on both sides"
    elif fault == "elements differ" and world.in_values:
        outcome.beyond = "a law of what operators do to elements"
    elif world.opaque:
        outcome.beyond = f"what {world.opaque[0].name} asks of its operands ({fault})"
    elif world.unread:
        outcome.beyond = world.unread
    elif world.check(question) == z3.sat:
        outcome.model, outcome.fault = model(world), fault
    else:
        outcome.undecided = f"z3 gave up ({fault}?)"
    return False


@lru_cache(maxsize=4)
def memory_of(key: ById) -> Memory:
    """What was asked so far, for one program."""
    return Memory()


def held(world: World, outcome: Outcome) -> None:
    """Counts structures whose premises can hold at all, and looks for one where all sizes are 2 and more at once, but
    for those that are said to be 0 or 1."""
    if outcome.generous:
        outcome.held += 1
        return
    known = said(world)
    free = [e for e in world.extents if not told_small(known, e)]
    if free and world.check([e >= 2 for e in free]) == z3.sat:
        outcome.generous = True
        outcome.held += 1
    elif world.possible():
        outcome.held += 1
        outcome.sized = outcome.sized or bool(free)


def told_small(known: Premises, extent: z3.ArithRef) -> bool:
    """Whether what is known says of a size that it is 0 or 1, be it as one of several ways out (`n <= 1 or i == 0`)."""
    value = known.normal(extent)
    if z3.is_int_value(value):
        return bool(value.as_long() <= 1)
    waiting: list[z3.ExprRef] = list(known.rest)
    while waiting:
        node = waiting.pop()
        if (z3.is_le(node) or z3.is_eq(node)) and any(c.eq(value) for c in node.children()):
            if any(z3.is_int_value(c) and c.as_long() <= 1 for c in node.children()):
                return True
        elif node.sort() == z3.BoolSort():
            waiting += node.children()
    return False


def said(world: World) -> Premises:
    """The premises but for those that calculate: what follows by arithmetic alone nobody has said."""
    return Premises(world.memory, [p for p in world.pre if not calculates(p)], world.rlimit)


def calculates(term: z3.ExprRef) -> bool:
    waiting = [term]
    while waiting:
        node = waiting.pop()
        if node.sort() == z3.IntSort() and z3.is_app(node) and node.decl().kind() in ARITHMETIC:
            return True
        waiting += node.children()
    return False


def model(world: World) -> dict[str, object]:
    """Sizes and structure of the last satisfiable question, by name."""
    found: dict[str, object] = dict(world.choices)
    if world.last is None or world.answer != z3.sat:
        return found
    values = world.last.model()
    for d in values.decls():
        if d.arity() == 0 and d.range() == z3.IntSort():
            found[d.name()] = values[d].as_long()
    return found
