"""Trials: random instances of a rule, both sides in numbers.

`plan_case` compiles a case once; `CasePlan.trial` is a function of a source's decisions alone. An instance is drawn
from the rule's own left side, its conditions are asked of what was drawn, and then both sides are compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gerules.dsl import ast
from gerules.dsl.show import show
from gerules.egraph.host import Host, Run
from gerules.egraph.program import Knowledge
from gerules.egraph.program import context as context_of
from gerules.egraph.signature import Signature
from gerules.egraph.terms import Misfit
from gerules.graph.constants import ConstantTable
from gerules.graph.dims import DimFacts
from gerules.registry.definition import OperatorDef
from gerules.simulate import NodeFault, SimulationFault
from gerules.static import Bind, Context, Step, Test, Unknown, solve_steps, split_conditions
from gerules.verify.case import Case
from gerules.verify.draw import Drawer, Names, Reject, State, refused
from gerules.verify.judge import differ
from gerules.verify.layout import Builder, Impossible, Layout, NodeAt, TensorAt, unfit
from gerules.verify.outcome import Accepted, Outcome, Refutation, Refuted, Rejected, Trials
from gerules.verify.right import Make, Right
from gerules.verify.source import RandomSource, ReplaySource, Source, stable_seed
from gerules.verify.words import Words

__all__ = [
    "Accepted",
    "CasePlan",
    "Outcome",
    "Refutation",
    "Refuted",
    "Rejected",
    "Trials",
    "plan_case",
    "run_trials",
]

ILL_TYPED = "ill-typed"


@dataclass(frozen=True, slots=True)
class _Ready:
    """A layout with its conditions in order and its right side."""

    layout: Layout
    steps: tuple[Step, ...]
    right: Make


@dataclass
class CasePlan:
    """One case, compiled. Layouts are made when a source first asks for them and kept."""

    case: Case
    known: Knowledge
    context: Context
    drawer: Drawer
    _layouts: dict[tuple[int, ...], int | _Ready | None] = field(default_factory=dict)

    @property
    def bitwise(self) -> bool:
        return self.case.exactness in ("", "bitwise")

    def trial(self, source: Source) -> Outcome:
        """One draw. Raises GerulesError (GR582) where an operator of the rule cannot be computed at all."""
        try:
            ready = self._layout(source)
            state = self.drawer.draw(ready.layout, source)
            env = self._hold(ready, state)
        except Reject as reject:
            return Rejected(reject.reason, reject.depth)
        except NodeFault:
            return Rejected(ILL_TYPED)
        except SimulationFault as fault:
            return Rejected(fault.diagnostics[0].message)
        left = self._left(ready, state)
        try:
            right = ready.right(state, env)
        except (Reject, Unknown) as nothing:
            return Rejected(f"no right side: {nothing}", len(ready.layout.steps) + len(ready.steps))
        except NodeFault as fault:
            return self._refuted(
                ready, state, left, None, 0, None, f"the right side fails: {fault.diagnostics[0].message}"
            )
        except SimulationFault as fault:
            return Rejected(fault.diagnostics[0].message)
        sides = zip(left, right, strict=False) if isinstance(ready.layout.root, NodeAt) else [(left[0], right)]  # type: ignore[call-overload]
        for place, (a, b) in enumerate(sides):
            found = differ(a, b, self.bitwise)
            if found is not None:
                return self._refuted(ready, state, a, b, place, found.index, found.reason)
        return Accepted(tuple(state.dtypes))

    def instance(self, source: Source) -> tuple[State, Mapping[str, object]]:
        """One draw of the left side on which the conditions hold, and what the rule's names stand for. Raises Reject
        where they do not, NodeFault and SimulationFault where the left side cannot be computed."""
        ready = self._layout(source)
        state = self.drawer.draw(ready.layout, source)
        return state, self._hold(ready, state)

    def _left(self, ready: _Ready, state: State) -> Sequence[object]:
        root = ready.layout.root
        if isinstance(root, NodeAt):
            return state.nodes[root.number]
        assert isinstance(root, TensorAt)
        return [state.tensors[root.number]]

    def _hold(self, ready: _Ready, state: State) -> Mapping[str, object]:
        """The names of the draw, extended by what conditions bind. Raises Reject with the condition that fails."""
        env = Names(state)
        depth = len(state.layout.steps)
        for number, step in enumerate(ready.steps):
            if isinstance(step, Test):
                holds = step.test(env)
            elif isinstance(step, Bind):
                try:
                    holds = step.match(step.value(env), env)
                except Unknown:
                    holds = False
            else:
                found = next(solve_steps((step,), env), None)
                holds = found is not None
                if found is not None:
                    for name in step.names:
                        env[name] = found[name]
            if not holds:
                raise Reject(show(step.expr), depth + number)
        return env

    def _refuted(
        self,
        ready: _Ready,
        state: State,
        left: object,
        right: object,
        place: int,
        index: tuple[int, ...] | None,
        reason: str,
    ) -> Outcome:
        if refused(ready.layout, state) is not None:
            return Rejected(ILL_TYPED)
        operands: dict[str, np.ndarray | None] = {}
        statics: dict[str, object] = {}
        for name, bound in state.layout.names.items():
            if name.startswith("held"):
                continue
            value = state.value(bound) if not isinstance(bound, TensorAt) else state.tensors[bound.number]
            if isinstance(bound, TensorAt):
                operands[name] = value  # type: ignore[assignment]
            elif not isinstance(bound, NodeAt):
                statics[name] = value
        return Refuted(
            Refutation(self.case, operands, statics, left, right, place, index, reason, tuple(state.source.choices))
        )

    # ----------------------------------------------------------------------------------------------------- layouts

    def _layout(self, source: Source) -> _Ready:
        """Follows the source's picks to a layout. Raises Reject where the picks close the pattern in no way."""
        path: tuple[int, ...] = ()
        while True:
            found = self._layouts.get(path, 0)
            if found == 0:
                found = self._layouts[path] = self._build(path)
            if isinstance(found, int):
                path = (*path, source.below(found))
                continue
            if found is None:
                raise Reject(ILL_TYPED)
            return found

    def _build(self, path: tuple[int, ...]) -> int | _Ready | None:
        """The layout of these picks; a number where one more pick among so many is wanted; None where there is none."""
        taken = iter(path)

        def pick(options: int) -> int:
            if options <= 1:
                return 0
            choice = next(taken, None)
            if choice is None:
                raise _Wanted(options)
            return choice

        try:
            return self._ready(pick)
        except _Wanted as wanted:
            return wanted.options
        except Impossible:
            return None

    def _ready(self, pick: Callable[[int], int]) -> _Ready:
        case, known = self.case, self.known

        def resolve(symbol: ast.Symbol) -> Signature:
            return known.signatures.of(known.ground.scope.operator(symbol, case.file))

        taken, room = _carried(case, resolve, known.signatures.of)
        builder = Builder(resolve, known.signatures.of, case.params, pick, taken, room)
        root = builder.root(case.left)
        right = case.right
        if isinstance(right, ast.Bind):
            builder.name(right.name, root, right)
        builder.names.setdefault("root_", root)
        conditions: list[ast.Expr] = []
        for condition in case.when:
            if isinstance(condition, ast.Bind) or builder.head(condition) is not None:
                builder.root(condition)
            else:
                conditions.append(condition)
        layout = builder.finish(root)
        steps = split_conditions([*layout.conditions, *conditions], set(layout.names), self.context)
        make, _ = Right(layout, layout.names, builder.head, self.context, root).compile(right)
        return _Ready(layout, steps, make)


class _Wanted(Exception):
    def __init__(self, options: int) -> None:
        self.options = options


def plan_case(case: Case, known: Knowledge) -> CasePlan:
    """Compiles a case. Raises GerulesError where there is nothing to try: GR580 where a member lacks what the rule
    names (the e-graph has no instance of it either), GR581 where the rule cannot be drawn, with the reason."""
    context = static_context(known)
    finite = case.exactness in ("finite", "reassociates")
    plan = CasePlan(case, known, context, Drawer(context, Words.of(known), finite))
    try:
        plan._layout(ReplaySource(()))
    except Reject:
        pass
    except Misfit as fault:
        raise unfit(case, fault) from None
    return plan


def static_context(known: Knowledge) -> Context:
    """What static expressions of the program may ask, without a graph."""
    around = known.kept.get("static context")
    if around is None:
        host = Host()
        host.run = Run(ConstantTable(), DimFacts())
        around = known.kept["static context"] = context_of(known.program, known.ground, host)
    assert isinstance(around, Context)
    return around


def _carried(
    case: Case, resolve: Callable[[ast.Symbol], Signature], signature: Callable[[OperatorDef], Signature]
) -> tuple[dict[str, frozenset[str]], dict[str, int]]:
    """For each rest that the right side hands to an operator: the attributes that this has, its room for operands."""
    taken: dict[str, frozenset[str]] = {}
    room: dict[str, int] = {}
    pending: list[object] = [case.right]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call):
            pending += [*node.operands, *(k.value for k in node.keywords)]
            last = node.operands[-1] if node.operands else None
            if isinstance(last, ast.Rest) and isinstance(last.expr, ast.Name):
                target: Signature | None = None
                if isinstance(node.head, ast.Symbol):
                    target = resolve(node.head)
                elif isinstance(node.head, ast.Name) and isinstance(case.params.get(node.head.id), OperatorDef):
                    target = signature(case.params[node.head.id])  # type: ignore[arg-type]
                if target is not None:
                    name = last.expr.id
                    has = frozenset(a.name for a in target.attributes)
                    taken[name] = has & taken[name] if name in taken else has
                    if not target.variadic and not any(isinstance(o, ast.Rest) for o in node.operands[:-1]):
                        room[name] = max(0, target.fixed - (len(node.operands) - 1))
        elif isinstance(node, (ast.Bind, ast.Rest)):
            pending.append(node.expr)
        elif isinstance(node, ast.Index):
            pending.append(node.base)
    return taken, room


def run_trials(
    plan: CasePlan, accepted: int = 200, seed: int = 0, seconds: float | None = None, most: int | None = None
) -> Trials:
    """Draws until `accepted` instances satisfied the rule, one refuted it, or `most` were drawn (default: 50 for each
    that is wanted). The draws depend on the case's label and the seed alone, unless `seconds` end them."""
    started = time.monotonic()
    base = stable_seed(f"{plan.case.label} {seed}")
    most = 50 * accepted if most is None else most
    rejected: dict[str, int] = {}
    count = drawn = 0
    refutation: Refutation | None = None
    while count < accepted and drawn < most:
        if seconds is not None and drawn % 16 == 0 and time.monotonic() - started > seconds:
            break
        outcome = plan.trial(RandomSource(base + drawn))
        drawn += 1
        if isinstance(outcome, Accepted):
            count += 1
        elif isinstance(outcome, Rejected):
            rejected[outcome.reason] = rejected.get(outcome.reason, 0) + 1
        else:
            refutation = outcome.refutation
            break
    never = () if count else tuple(rejected)
    return Trials(count, drawn, rejected, refutation, never, time.monotonic() - started)
