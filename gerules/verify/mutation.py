"""Do the conditions of a rule matter? Each mutant of it has to be refuted, or proved to be right.

A mutant is first tried where it differs from the rule: on instances that the lost condition keeps out, on operators
that it newly speaks of; then everywhere. One that no trial refutes is given to the prover: it is *equivalent* where it
is proved right, or where the lost condition is proved to follow from the others. What is left are survivors: a
check that is missing, or a condition that does nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gerules.dsl import ast
from gerules.dsl.program import Entry
from gerules.dsl.vocabulary import Vocabulary
from gerules.egraph.program import Knowledge
from gerules.errors import Diagnostic, GerulesError
from gerules.verify.case import Case, cases_of
from gerules.verify.mutate import Mutant, mutants
from gerules.verify.narrowing import follows
from gerules.verify.outcome import Refutation
from gerules.verify.pinned import pinned_plans
from gerules.verify.trials import plan_case, run_trials
from gerules.verify.verdict import Proof

Fate = Literal["killed", "equivalent", "survivor"]


@dataclass(frozen=True)
class MutantVerdict:
    """What became of one mutant. `how` tells by what it was killed (`38 draws of sink[Add@7]`), why it is equivalent,
    or why nothing is known of it; `seconds` is the processor time."""

    mutant: Mutant
    fate: Fate
    how: str
    seconds: float = 0.0


@dataclass(frozen=True)
class MutationResult:
    """What became of all mutants of a rule."""

    rule: str
    verdicts: tuple[MutantVerdict, ...]
    untried: str = ""
    """Why nothing can be said of mutants, where the rule itself cannot be tried: its operators have no meaning here."""

    @property
    def killed(self) -> tuple[MutantVerdict, ...]:
        return tuple(v for v in self.verdicts if v.fate == "killed")

    @property
    def equivalent(self) -> tuple[MutantVerdict, ...]:
        return tuple(v for v in self.verdicts if v.fate == "equivalent")

    @property
    def survivors(self) -> tuple[MutantVerdict, ...]:
        return tuple(v for v in self.verdicts if v.fate == "survivor")

    @property
    def score(self) -> float:
        """Of the mutants that are not proved equivalent, the part that was killed; 1.0 where there are none."""
        return score((self,))

    @property
    def seconds(self) -> float:
        return sum(v.seconds for v in self.verdicts)


def score(results: Iterable[MutationResult]) -> float:
    """The score of several rules together."""
    killed = count = 0
    for result in results:
        killed += len(result.killed)
        count += len(result.verdicts) - len(result.equivalent)
    return killed / count if count else 1.0


@dataclass(frozen=True)
class Effort:
    """How hard to try. `trials` are those accepted for a case, `draws` those drawn at most; `members` how many members
    of a class are tried before the others; `prover` whether proofs are asked for."""

    trials: int = 300
    draws: int = 6000
    members: int = 8
    seed: int = 0
    prover: bool = True


def run_mutation(
    known: Knowledge, entry: Entry[ast.Rewrite], effort: Effort | None = None, words: Vocabulary | None = None
) -> MutationResult:
    """The fate of every mutant of a rewrite. `words` is `vocabulary(known.program)`, where many rules are mutated.

    The result depends on the rules and on `effort` alone. Raises GerulesError (GR589) where the rule itself is refuted:
    what refutes it would refute its mutants too, and say nothing of them.
    """
    effort = Effort() if effort is None else effort
    cases = list(cases_of(known, entry))
    untried = _untried(cases, known)
    if untried:
        return MutationResult(entry.full, (), untried)
    for case, share in _first(_in_order(cases, {}, effort.members), None, effort):
        refuted, how = _tried(case, known, share, effort)
        if refuted is not None:
            message = f"{entry.full} itself is refuted by {how}: {refuted.reason}"
            hint = "`gerules verify` shows the instance; mutants are judged of rules that hold"
            raise GerulesError(Diagnostic("GR589", message, span=entry.statement.span, hint=hint))
    own = {case.label: case for case in cases}
    found: list[MutantVerdict] = []
    for mutant in mutants(entry, known, words):
        started = time.process_time()
        fate, how = _fate(known, entry, mutant, own, effort)
        found.append(MutantVerdict(mutant, fate, how, time.process_time() - started))
    return MutationResult(entry.full, tuple(found))


def _untried(cases: Sequence[Case], known: Knowledge) -> str:
    """Why no case of a rule can be drawn; empty where one can."""
    why = ""
    for case in cases:
        try:
            plan_case(case, known)
            return ""
        except GerulesError as fault:
            why = fault.diagnostics[0].message
    return why


def _fate(
    known: Knowledge, entry: Entry[ast.Rewrite], mutant: Mutant, own: Mapping[str, Case], effort: Effort
) -> tuple[Fate, str]:
    try:
        every = list(cases_of(known, entry, mutant.statement))
    except GerulesError as fault:
        return "survivor", fault.diagnostics[0].message
    cases = _in_order([c for c in every if not _unchanged(c, own.get(c.label))], own, effort.members)
    if not cases:
        return "survivor", "it says the same of the same operators" if every else "it stands for no operator"
    said: dict[str, int] = {}
    for case, share in _first(cases, mutant.lost, effort):
        refuted, why = _tried(case, known, share, effort)
        if refuted is not None:
            return "killed", why
    proved = proof_of(cases, known, mutant.lost, own) if effort.prover else ""
    if proved:
        return "equivalent", proved
    for case, share in _then(cases, mutant.lost, effort):
        refuted, why = _tried(case, known, share, effort)
        if refuted is not None:
            return "killed", why
        said[why] = said.get(why, 0) + 1
    return "survivor", max(said, key=lambda s: (said[s], s)) if said else "no instance can be drawn"


def _unchanged(case: Case, own: Case | None) -> bool:
    """Whether a case of a mutant is one of the rule."""
    return own is not None and (case.left, case.right, {*case.when}) == (own.left, own.right, {*own.when})


def _in_order(cases: Sequence[Case], own: Mapping[str, Case], members: int) -> list[Case]:
    """The cases that the rule itself does not have first; of the others some from all over the class, then the rest."""
    new = [c for c in cases if c.label not in own]
    old = [c for c in cases if c.label in own]
    step = max(1, len(old) // members)
    chosen = old[::step]
    return [*new, *chosen, *(c for c in old if not any(c is d for d in chosen))]


def _first(cases: Sequence[Case], lost: ast.Expr | None, effort: Effort) -> Iterator[tuple[Case, float]]:
    """What is tried before anything is proved, with the share of the effort: nearly every mistake shows at once."""
    for case in cases[: 2 * effort.members]:
        if lost is not None:
            yield _aimed(case, lost), 0.1
        yield case, 0.1


def _then(cases: Sequence[Case], lost: ast.Expr | None, effort: Effort) -> Iterator[tuple[Case, float]]:
    """What is tried of a mutant that nothing proves: more of the first cases, then all others."""
    for place, case in enumerate(cases):
        share = 4.0 if place < 2 else 1.0 if place < 2 * effort.members else 0.3
        if lost is not None:
            yield _aimed(case, lost), share
        yield case, share


def _aimed(case: Case, lost: ast.Expr) -> Case:
    """The case on those instances only that the lost condition keeps out."""
    return replace(case, when=(*case.when, opposite(lost)))


_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def opposite(condition: ast.Expr) -> ast.Expr:
    """The condition that holds where this one does not, with comparisons in place of `not` as far as there are such."""
    match condition:
        case ast.Unary(op="not", operand=inner):
            return inner
        case ast.Compare(op=op) if op in _OPPOSITE:
            return replace(condition, op=_OPPOSITE[op])
        case ast.Logical(op=op, operands=operands):
            return replace(condition, op="or" if op == "and" else "and", operands=tuple(map(opposite, operands)))
        case ast.Call(head=ast.Name(id="all" | "some" as quantifier), operands=(inner,)):
            other = ast.Name("some" if quantifier == "all" else "all")
            return replace(condition, head=other, operands=(opposite(inner),))
    return ast.Unary("not", condition)


def _tried(case: Case, known: Knowledge, share: float, effort: Effort) -> tuple[Refutation | None, str]:
    try:
        plan = plan_case(case, known)
        wanted, most = max(1, int(effort.trials * share)), max(1, int(effort.draws * share))
        plans = pinned_plans(plan)
        for near in plans:
            ran = run_trials(near, accepted=wanted, seed=effort.seed, most=most // (2 * len(plans)))
            if ran.refutation is not None:
                return (
                    ran.refutation,
                    f"{ran.drawn} draw{'' if ran.drawn == 1 else 's'} near an example of {case.label}",
                )
        ran = run_trials(plan, accepted=wanted, seed=effort.seed, most=most)
    except GerulesError as fault:
        return None, fault.diagnostics[0].message
    if ran.refutation is not None:
        return ran.refutation, f"{ran.drawn} draw{'' if ran.drawn == 1 else 's'} of {case.label}"
    return None, f"{ran.accepted} trials agree" if ran.accepted else "no draw is an instance"


# -------------------------------------------------------------------------------------------------------------- proof


def proof_of(
    cases: Sequence[Case], known: Knowledge, lost: ast.Expr | None, own: Mapping[str, Case] | None = None
) -> str:
    """Why the mutant is no mistake, by proof; empty where nothing proves it.

    Each of its cases has to be proved right, or to be the rule's (`own`, by label) said otherwise, or to apply to
    nothing. Where a condition is lost, what it keeps out is enough: where that is nothing, it follows from the others.
    """
    from gerules.verify import prove

    if not prove.available():
        return ""
    scopes: dict[str, None] = {}
    for case in cases:
        rule = (own or {}).get(case.label)
        found = ""
        if lost is not None:
            if follows(case, lost, opposite(lost), lambda part: _prove(part, known)):
                found = NOTHING
            found = found or _vacuous_or_proved(_aimed(case, lost), known, rule)
        found = found or _vacuous_or_proved(case, known, rule)
        if not found and rule is not None:
            found = _alike(case, rule, known)
        if not found:
            return ""
        scopes[found] = None
    if lost is not None and [*scopes] == [NOTHING]:
        return "what is lost follows from the other conditions"
    return "; ".join(scopes)


NOTHING = "it applies to nothing"


def _vacuous_or_proved(case: Case, known: Knowledge, rule: Case | None) -> str:
    """What is proved of a case alone. That there is no instance is believed only where the prover can find instances of
    the rule."""
    proof = _prove(case, known)
    if proof.status in ("proved", "proved bounded"):
        return f"{proof.status}: {proof.scope}"
    if _vacuous(proof) and rule is not None and not _vacuous(_prove(rule, known)):
        return NOTHING
    return ""


def _vacuous(proof: Proof) -> bool:
    return proof.status == "unknown" and proof.reason.startswith("vacuous")


def _alike(case: Case, rule: Case, known: Knowledge) -> str:
    """Whether one side of a case is another way to say what that side of the rule says. The rule is taken for right."""
    if {*case.when} != {*rule.when}:
        return ""
    if case.left == rule.left:
        proof = _prove(rule, known, case.right)
        side = "right"
    elif case.right == rule.right:
        proof = _prove(replace(case, right=rule.left), known)
        side = "left"
    else:
        return ""
    return f"its {side} side is the rule's, {proof.status}: {proof.scope}" if proof.scope else ""


def _prove(case: Case, known: Knowledge, right: ast.Expr | None = None) -> Proof:
    """The proof of a case, or that `right` is its right side. A mutant may say what no rule should (a step of 0): a
    prover that trips over it proves nothing."""
    from gerules.verify import prove

    try:
        return prove.prove(case, known) if right is None else prove.prove_alike(case, right, known)
    except (ArithmeticError, LookupError, TypeError, ValueError, AssertionError, AttributeError) as fault:
        return Proof("unknown", reason=f"{type(fault).__name__}: {fault}")
