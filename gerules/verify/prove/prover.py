"""The proof of one case: every structure up to the rank bound, one question each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import z3

from gerules.dsl import ast
from gerules.registry.definition import OperatorDef
from gerules.verify.prove import access_parts, access_sums, access_values, access_views, arith
from gerules.verify.prove.access import MEANINGS, _ById, elementwise_keys
from gerules.verify.prove.application import Invalid
from gerules.verify.prove.arith import Bool
from gerules.verify.prove.compare import same_elements, same_shapes
from gerules.verify.prove.solve import Memory
from gerules.verify.prove.terms import Reader
from gerules.verify.prove.world import FAR, Beyond, Chooser, Node, Skip, Tensor, World
from gerules.verify.verdict import Proof

if TYPE_CHECKING:
    from gerules.egraph.program import Knowledge
    from gerules.verify.case import Case

LOADED = (access_parts, access_sums, access_values, access_views)
"""Modules that register meanings."""

WORLDS = 1600
VIEWS = 250
QUESTIONS = 400
FEW = 60
"""Structures, and questions to z3, of one case and one largest rank at most: beyond, the proof ends one rank below.
A structure that changes shapes costs more, so of these there are less (VIEWS). Where there were few, a variadic
operator is tried with three operands too."""


class Explodes(Exception):
    """More structures than there is room for."""


@dataclass
class Outcome:
    """What the structures up to some rank gave."""

    operands: int = 2
    """How many operands of a variadic operator are tried at most; `arities` tells whether any was met."""
    arities: bool = False
    worlds: int = 0
    queries: int = 0
    held: int = 0
    generous: bool = False
    laws: int = 0
    guards: int = 0
    orders: int = 0
    lists: bool = False
    views: bool = False
    named: int = 0
    assumed: dict[str, None] = field(default_factory=dict)
    beyond: str | None = None
    undecided: str | None = None
    model: dict[str, object] | None = None
    fault: str = ""


def prove(case: Case, known: Knowledge, rlimit: int) -> Proof:
    """What can be proved of a case. Members of one form share a proof that speaks of none of them."""
    cases = memory_of(_ById(known)).cases
    key = (form(case, known), rlimit)
    found = cases.get(key)
    if isinstance(found, Proof):
        return replace(found, queries=0)
    total = Outcome()
    proof = attempt(case, known, rlimit, total)
    if proof.all_ranks and total.arities and total.worlds < FEW:
        more = Outcome(operands=3)
        second = attempt(case, known, rlimit, more)
        if second.all_ranks:
            proof, total = second, more
    if proof.status in ("proved", "proved bounded") and not total.laws:
        cases[key] = proof
    return proof


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
    return case.rule, case.direction, case.statement, tuple(params)


def work_of(definition: OperatorDef, known: Knowledge) -> str | None:
    """The kind of work that operators share a proof for: any function of elements (""), or a reduction of some kind."""
    meaning = MEANINGS.get((definition.domain, definition.name))
    if meaning is access_sums.reduction:
        name = definition.name
        work = (name in access_sums.OF_ONE, name == access_sums.SUM)
        return f"reduces {work} {len(definition.inputs)} {int(definition.since) >= 11}"
    free = meaning in (None, access_values.binary, access_values.variadic)
    return "" if free and definition.key in elementwise_keys(_ById(known)) else None


def attempt(case: Case, known: Knowledge, rlimit: int, total: Outcome) -> Proof:
    """The proof itself: rank after rank, up to one more than what is enough."""
    reached = -1
    bound = 1
    ranks = 0
    outcome = total
    while ranks <= bound + 1:
        outcome = Outcome(operands=total.operands)
        try:
            explore(case, known, ranks, rlimit, memory_of(_ById(known)), outcome)
        except Explodes:
            total.arities = total.arities or outcome.arities
            break
        total.queries += outcome.queries
        total.worlds += outcome.worlds
        total.held += outcome.held
        total.generous = total.generous or outcome.generous
        total.assumed.update(outcome.assumed)
        total.laws += outcome.laws
        total.arities = total.arities or outcome.arities
        if outcome.model is not None:
            return Proof("refuted", reason=outcome.fault, queries=total.queries, model=outcome.model)
        if outcome.beyond or outcome.undecided:
            total.beyond, total.undecided = outcome.beyond, outcome.undecided
            break
        reached = ranks
        by_rank, others = existential(case)
        least = 2 if outcome.lists else 1
        named = max(outcome.named, by_rank)
        bound = max(bound, least, 1 + outcome.guards + named + 2 * outcome.orders + others)
        ranks += 1
    if total.beyond:
        return Proof("unknown", reason=f"no meaning here: {total.beyond}", queries=total.queries)
    if not total.held:
        none = "vacuous: no structure of the left side satisfies the conditions"
        if reached < bound + 1:
            none = f"no structure up to rank {reached} satisfies the conditions, and beyond there are too many"
        reason = total.undecided or none
        return Proof("unknown", reason=reason, queries=total.queries)
    if reached < 1 and total.undecided:
        return Proof("unknown", reason=total.undecided, queries=total.queries)
    every = reached >= bound + 1
    scope = f"all ranks (checked to {reached})" if every else f"ranks 0 to {reached}"
    if total.arities:
        scope += f", up to {total.operands} operands"
    status = "proved" if every else "proved bounded"
    return Proof(status, f"{scope}, all sizes", all_ranks=every, all_sizes=True, queries=total.queries)  # type: ignore[arg-type]


def existential(case: Case) -> tuple[int, int]:
    """How many axes conditions need to be there at all: by rank (`x.rank >= 3`), and each for itself (`some(...)`,
    `a.size >= 1`, `s != t`)."""
    ranks, others = 0, 0
    for condition in case.when:
        match condition:
            case ast.Call(head=ast.Name(id="some")):
                others += 1
            case ast.Compare(op=(">" | ">="), left=ast.Field(name="rank"), right=ast.Number(value=value)):
                ranks = max(ranks, int(value) + (condition.op == ">"))
            case ast.Compare(op=(">" | ">="), left=ast.Field(name="size"), right=ast.Number(value=value)):
                others += int(value) + (condition.op == ">")
            case ast.Compare(right=ast.Word()):
                continue
            case ast.Compare(op=("<" | ">" | "!=")):
                others += 1
    return ranks, others


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


def explore(case: Case, known: Knowledge, ranks: int, rlimit: int, memory: Memory, outcome: Outcome) -> None:
    """Every structure whose largest rank is `ranks`."""
    chooser = Chooser()
    large = speaks_of_the_end(case)
    while True:
        world = World(chooser, ranks, rlimit, memory, case.exactness == "reassociates")
        world.large = large
        chooser.position = 0
        with suppress(Skip):
            one(case, known, world, outcome)
        outcome.queries += world.queries
        outcome.worlds += 1
        outcome.laws += world.lawfully
        outcome.arities = outcome.arities or world.variadic
        outcome.guards = max(outcome.guards, world.guards)
        outcome.orders = max(outcome.orders, world.orders)
        outcome.lists = outcome.lists or world.lists
        outcome.named = max(outcome.named, len(world.named))
        outcome.assumed.update(world.assumed)
        if outcome.beyond or outcome.undecided or outcome.model is not None:
            return
        outcome.views = outcome.views or world.views
        if outcome.worlds > (VIEWS if outcome.views else WORLDS) or outcome.queries > QUESTIONS:
            raise Explodes
        if not chooser.next():
            return


def one(case: Case, known: Knowledge, world: World, outcome: Outcome) -> None:
    """One structure: read the left side and the conditions, then show that the right side is the same."""
    reader = Reader(world, known, case.file, dict(case.params), arities=outcome.operands)
    try:
        left = reader.side(case.left)
        conditions(reader, case.when)
        if not isinstance(left, Node):
            _ = left.rank
        if max((leaf.rank for leaf in world.leaves), default=0) < world.ranks:
            return
        world.turn()
        try:
            right = reader.side(case.right)
        except Invalid:
            if world.opaque:
                outcome.beyond = f"what {world.opaque[0].label.partition('@')[0]} asks of its operands"
            elif world.possible():
                outcome.model, outcome.fault = model(world), "the right side is not valid"
            return
        pairs = results(left, right)
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


def conditions(reader: Reader, when: Sequence[ast.Expr]) -> None:
    waiting = list(when)
    while waiting:
        ready = next((c for c in waiting if reader.ready(c)), None)
        if ready is None:
            raise Beyond("a condition whose variables nothing binds")
        waiting.remove(ready)
        reader.world.assume(reader.condition(ready))


def results(left: Tensor | Node, right: Tensor | Node) -> Iterator[tuple[Tensor, Tensor]]:
    if isinstance(left, Node) and isinstance(right, Node):
        if left.count != right.count or left.count is None:
            raise Beyond("nodes with a free number of results")
        for i in range(left.count):
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
        outcome.beyond = f"what {world.opaque[0].label.partition('@')[0]} asks of its operands ({fault})"
    elif world.check(question) == z3.sat:
        outcome.model, outcome.fault = model(world), fault
    else:
        outcome.undecided = f"z3 gave up ({fault}?)"
    return False


@lru_cache(maxsize=4)
def memory_of(key: _ById) -> Memory:
    """What was asked so far, for one program."""
    return Memory()


def held(world: World, outcome: Outcome) -> None:
    """Counts structures whose premises can hold at all, until one is found where no size is below 2."""
    if outcome.generous:
        outcome.held += 1
        return
    if world.check([e >= 2 for e in world.extents]) == z3.sat:
        outcome.generous = True
        outcome.held += 1
    elif world.possible():
        outcome.held += 1


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
