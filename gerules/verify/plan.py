"""A case compiled for trials: its layouts with their conditions and right sides, and what one trial does with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gerules.dsl import ast
from gerules.dsl.show import show
from gerules.egraph.host import Host, Run
from gerules.egraph.program import Knowledge
from gerules.egraph.program import context as context_of
from gerules.egraph.signature import Signature
from gerules.egraph.terms import Misfit
from gerules.errors import Diagnostic, GerulesError
from gerules.graph.constants import ConstantTable
from gerules.graph.dims import DimFacts
from gerules.registry.definition import OperatorDef
from gerules.simulate import NodeFault, SimulationFault
from gerules.static import Context, Unknown, split_conditions
from gerules.verify.case import Case
from gerules.verify.closing import Builder, Impossible, unfit
from gerules.verify.draw import ILL_TYPED, UNKNOWN, UNPREPARED, Drawer, Reject, State
from gerules.verify.hints import guide
from gerules.verify.judge import differ
from gerules.verify.layout import Layout, NodeAt, RestOf, RunNode, TensorAt
from gerules.verify.ordering import in_hint_order
from gerules.verify.outcome import CANNOT, Accepted, Outcome, Refutation, Refuted, Rejected
from gerules.verify.right import Make, Right
from gerules.verify.samples import Samples
from gerules.verify.source import ReplaySource, Source
from gerules.verify.words import Words


@dataclass(frozen=True, slots=True)
class _Ready:
    """A layout that can be drawn, and its right side."""

    layout: Layout
    drawer: Drawer
    right: Make

    def operands(self, state: State) -> list[object]:
        """What the nodes of the left side are given."""
        nodes = [s for s in self.layout.steps if isinstance(s, RunNode)]
        return [state.tensors[o] for node in nodes for o in node.operands if o is not None]


@dataclass
class CasePlan:
    """One case, compiled. Layouts are made when a source first asks for them, and kept."""

    case: Case
    known: Knowledge
    context: Context
    words: Words
    samples: Samples
    _layouts: dict[tuple[int, ...], int | _Ready | None] = field(default_factory=dict)

    @property
    def bitwise(self) -> bool:
        """Whether the sides have to agree in bits; else within the tolerance of the element type."""
        return self.case.exactness in ("", "bitwise")

    @property
    def finite(self) -> bool:
        """Whether elements are finite numbers of moderate size: all that such a rule speaks of. A definition may be
        computed by steps that overflow where the operator's own kernel does not."""
        return self.case.exactness in ("finite", "reassociates", "defines")

    @property
    def by_body(self) -> bool:
        """Whether the right side is the body that a schema ships. Bodies speak of operands that have elements: most
        reshape them with -1 or 0, which says nothing where there are none; `convert` writes none out where it knows an
        operand to be empty."""
        return isinstance(self.case.right, ast.Call) and self.case.right.head == ast.Name("body")

    def trial(self, source: Source) -> Outcome:
        """One draw. It is rejected where the left side has no value on it; a right side that has none is a
        refutation."""
        try:
            ready = self._layout(source)
            state = ready.drawer.draw(source)
        except Reject as reject:
            return Rejected(reject.reason, reject.progress, reject.causes)
        left = self._left(ready, state)
        if self.by_body and any(map(_nothing, ready.operands(state))):
            return Rejected("no elements", 0.9, tuple(range(1, len(source.bounds))))
        try:
            right = ready.right(state, state.names)
        except (Reject, Unknown) as nothing:
            return Rejected(f"no right side: {nothing}", 1.0, tuple(range(1, len(source.bounds))))
        except NodeFault as fault:
            reason = f"the right side fails: {fault.diagnostics[0].message}"
            return self._refuted(ready, state, left[0], None, 0, None, reason)
        except SimulationFault as fault:
            code, message = fault.diagnostics[0].code, fault.diagnostics[0].message
            if code == UNKNOWN:
                raise  # whatever is drawn: nothing says what the right side computes
            if code == UNPREPARED:
                return self._refuted(ready, state, left[0], None, 0, None, f"the right side fails: {message}")
            return Rejected(f"{CANNOT}{message}", 1.0)
        rights = right if isinstance(ready.layout.root, NodeAt) else [right]
        assert isinstance(rights, list)
        for place, (a, b) in enumerate(zip(left, rights, strict=False)):
            found = differ(a, b, self.bitwise)
            if found is not None:
                return self._refuted(ready, state, a, b, place, found.index, found.reason)
        return Accepted(tuple(state.dtypes))

    @staticmethod
    def _left(ready: _Ready, state: State) -> Sequence[object]:
        root = ready.layout.root
        if isinstance(root, NodeAt):
            return state.nodes[root.number]
        assert isinstance(root, TensorAt)
        return [state.tensors[root.number]]

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
        # Kernels take more than the specification admits; what inference rejects is no instance.
        if ready.drawer.inadmissible(state) is not None:
            return Rejected(ILL_TYPED, 0.9, tuple(range(1, len(state.source.bounds))))
        operands: dict[str, np.ndarray | None] = {}
        statics: dict[str, object] = {}
        for name, bound in ready.layout.names.items():
            if isinstance(bound, TensorAt):
                operands[name] = state.tensors[bound.number]  # type: ignore[assignment]
            elif isinstance(bound, RestOf):
                # What a rest carries is told by its attributes; its operands have names of their own.
                statics.update({a: state.columns[c.number] for a, c in bound.attributes.items()})
            elif not isinstance(bound, NodeAt) and not name.startswith("held"):
                statics[name] = state.value(bound)
        choices = tuple(state.source.choices)
        return Refuted(Refutation(self.case, operands, statics, left, right, place, index, reason, choices))

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
                raise Reject(ILL_TYPED, 0.0, (0,))
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
        if self.by_body:
            known_of = known.signatures.of
            limits = {known_of(v).constructor: v for v in case.params.values() if isinstance(v, OperatorDef)}
        else:
            limits = {}
        builder = Builder(resolve, known.signatures.of, case.params, pick, taken, room, _present(case), limits)
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
        layout = in_hint_order(layout, steps, self.context)
        texts = [show(step.expr) for step in steps]
        made = guide(layout, steps, texts, self.context)
        regroups = case.exactness == "reassociates"
        large = case.exactness == "finite"
        drawer = Drawer(
            layout, steps, texts, made, self.context, self.words, self.samples, self.finite, regroups, large
        )
        make, _ = Right(layout, layout.names, builder.head, self.context, root).compile(right)
        return _Ready(layout, drawer, make)


def _nothing(operand: object) -> bool:
    """Whether an operand has no elements; a list of axes may be empty."""
    return (
        isinstance(operand, np.ndarray) and operand.size == 0 and not (operand.dtype == np.int64 and operand.ndim == 1)
    )


class _Wanted(Exception):
    def __init__(self, options: int) -> None:
        self.options = options


def plan_case(case: Case, known: Knowledge) -> CasePlan:
    """Compiles a case. Raises GerulesError where there is nothing to try: GR580 where a member lacks what the rule
    names (the e-graph has no instance of it either), GR581 where the rule cannot be drawn, GR583 where both sides draw
    random numbers of their own; each with the reason."""
    context = static_context(known)
    plan = CasePlan(case, known, context, Words.of(known), Samples.of(known, context))
    drawing = context.classes.get("Random", frozenset())
    random = next((v for v in case.params.values() if isinstance(v, OperatorDef) and v.key in drawing), None)
    if random is not None and plan.by_body:
        message = f"{case.label}: {random.name} draws random numbers, and its body draws others"
        raise GerulesError(Diagnostic("GR583", message, span=case.statement.span))
    source = ReplaySource(())
    try:
        plan._layout(source)
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


def _present(case: Case) -> dict[str, bool]:
    """Variables of which a condition says that they are there (`v != none`), or absent (`v == none`)."""
    found: dict[str, bool] = {}
    for condition in case.when:
        if isinstance(condition, ast.Compare) and condition.op in ("==", "!="):
            for side, other in ((condition.left, condition.right), (condition.right, condition.left)):
                if isinstance(side, ast.Name) and other == ast.Word("none"):
                    found[side.id] = condition.op == "!="
    return found


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


def never_held(case: Case, reasons: Sequence[str]) -> GerulesError:
    """The fault of a rule of which no instance was found, with the conditions that never held."""
    shown = "; ".join(dict.fromkeys(reasons)) or "nothing was drawn"
    return GerulesError(
        Diagnostic(
            "GR582",
            f"{case.label}: no instance of the rule was found: {shown}",
            span=case.statement.span,
            hint="a condition that never holds makes the rule useless; an example of the rule shows how it is meant",
        )
    )
