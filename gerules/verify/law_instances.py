"""Instances of the terms that a statement speaks of: drawn as the left side of a rewrite is, and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from gerules.dsl import ast
from gerules.egraph.program import Knowledge
from gerules.graph.dtypes import name_of_numpy
from gerules.static import TensorView
from gerules.target.patterns import is_term
from gerules.verify.case import Case
from gerules.verify.draw import Drawer, Reject, State
from gerules.verify.layout import DrawHeld, DrawLeaf, TensorAt
from gerules.verify.outcome import Accepted, Outcome, Rejected
from gerules.verify.plan import CasePlan, plan_case
from gerules.verify.source import Source
from gerules.verify.stored import shown
from gerules.verify.trials import run_trials
from gerules.verify.verdict import CaseVerdict, Status

ROOT = "root__"
"""What the first term is called where its author gives it no name."""
DRAWS = 60
"""How many instances are drawn at most for each that is wanted."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One draw: every tensor, attribute and result, and what the statement's names stand for."""

    state: State
    env: Mapping[str, object]
    drawer: Drawer

    @property
    def admissible(self) -> bool:
        """Whether the specification admits it: kernels take more."""
        return self.drawer.inadmissible(self.state) is None

    def array(self, name: str) -> object:
        """What the tensor of a name holds; None where it is absent."""
        bound = self.state.layout.names[name]
        assert isinstance(bound, TensorAt)
        return self.state.tensors[bound.number]

    def values(self) -> dict[str, object]:
        """All names of the draw, read at once."""
        names = self.state.layout.names
        return {**{n: self.state.value(b) for n, b in names.items()}, **self.env}

    @property
    def size(self) -> int:
        """The number of elements of what was drawn."""
        return sum(v.size for v in self.leaves().values())

    def leaves(self) -> dict[str, np.ndarray]:
        """What was drawn, by name or by place."""
        called = {b.number: n for n, b in self.state.layout.names.items() if isinstance(b, TensorAt)}
        found: dict[str, np.ndarray] = {}
        for step in self.state.layout.steps:
            if isinstance(step, (DrawLeaf, DrawHeld)):
                value = self.state.tensors[step.tensor]
                name = called.get(step.tensor, f"operand {step.tensor}")
                if isinstance(value, np.ndarray):
                    found[f"operand {step.tensor}" if name.endswith("_") else name] = value
        return found

    def text(self) -> str:
        """What was drawn, on one line: `x: f32[2, 3], s: i64[2] = [4, 6], perm = [1, 0]`."""
        parts: list[str] = []
        for name, value in self.leaves().items():
            dtype = name_of_numpy(value.dtype)
            text = f"{name}: {dtype}{list(value.shape)}"
            small = value.size <= 6 and value.dtype.kind in "iub" and value.ndim <= 1
            plain = tuple(v.item() for v in value.reshape(-1)) if small else ()
            parts.append(f"{text} = {shown(plain, value.shape)}" if small else text)
        for name, told in self.values().items():
            if name not in self.leaves() and not name.endswith("_") and isinstance(told, int | float | str | tuple):
                listed = isinstance(told, tuple) and any(isinstance(v, TensorView) or v is None for v in told)
                if not listed:
                    parts.append(f"{name} = {list(told) if isinstance(told, tuple) else told}")
        return ", ".join(parts)


@dataclass
class Collector(CasePlan):
    """A plan whose trials keep what they drew; there is nothing to compare."""

    kept: list[Instance] = field(default_factory=list)

    def trial(self, source: Source) -> Outcome:
        try:
            ready = self._layout(source)
            state = ready.drawer.draw(source)
        except Reject as reject:
            return Rejected(reject.reason, reject.progress, reject.causes)
        except ValueError:  # a type attribute that names no element type: sequences are not drawn
            return Rejected("an element type is wanted")
        self.kept.append(Instance(state, state.names, ready.drawer))
        return Accepted(tuple(state.dtypes))


@dataclass
class Instances:
    """Draws of one set of terms, with a count of what was drawn and why it was none."""

    label: str
    plan: Collector
    drawn: int = 0
    found: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)

    def take(self, wanted: int, seed: int, most: int | None = None) -> list[Instance]:
        """Up to `wanted` instances; the draws depend on the label and the seed alone."""
        ran = run_trials(self.plan, wanted, seed, most=DRAWS * wanted if most is None else most)
        self.drawn, self.found, self.rejected = ran.drawn, ran.accepted, ran.rejected_by
        return self.plan.kept

    @property
    def commonest(self) -> str:
        """Why most draws were no instance."""
        return min(self.rejected, key=lambda r: (-self.rejected[r], r), default="")

    def verdict(self, member: str, status: Status, detail: str) -> CaseVerdict:
        return CaseVerdict(self.label, member, "", status, detail, trials=self.found, drawn=self.drawn)


def split_terms(
    when: Sequence[ast.Expr], params: Mapping[str, object]
) -> tuple[tuple[ast.Expr, ...], tuple[ast.Expr, ...]]:
    """The terms among conditions, and the others."""
    terms = tuple(c for c in when if is_term(c) or _is_member(c, params))
    return terms, tuple(c for c in when if c not in terms)


def _is_member(expr: ast.Expr, params: Mapping[str, object]) -> bool:
    """Whether an expression is a call of an operator parameter, for which nobody asks by name."""
    return isinstance(expr, ast.Call) and isinstance(expr.head, ast.Name) and expr.head.id in params


def instances_of(
    known: Knowledge,
    label: str,
    file: ast.RuleFile,
    params: Mapping[str, object],
    terms: Sequence[ast.Expr],
    conditions: Sequence[ast.Expr] = (),
) -> Instances:
    """Instances of `terms` (the first one is what the others speak of) on which the conditions hold.

    Raises GerulesError where none can be drawn, with the reason.
    """
    first = terms[0] if isinstance(terms[0], ast.Bind) else ast.Bind(terms[0], ROOT, span=terms[0].span)
    root = ast.Name(first.name, span=first.span)
    rule = ast.Rewrite("law", (), "", first, False, root, (), span=first.span)
    case = Case(label, "", "", rule, file, params, first, root, (*terms[1:], *conditions))
    plan = plan_case(case, known)
    return Instances(label, Collector(**{f.name: getattr(plan, f.name) for f in fields(plan)}))


def operands_text(operands: Mapping[str, np.ndarray | None]) -> str:
    """Operands of a refutation on one line, those that are there."""
    return ", ".join(f"{n}: {name_of_numpy(v.dtype)}{list(v.shape)}" for n, v in operands.items() if v is not None)
