"""The verdict on one case: trials, then a witness or a proof, then both put together.

What tries, shrinks, proves and knows the laws comes from the modules beside this one; `Tools` is where they meet, so
that each can be left out or stood in for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Final, Protocol

from gerules.egraph.program import Knowledge
from gerules.errors import GerulesError
from gerules.verify.case import Case
from gerules.verify.outcome import CANNOT
from gerules.verify.verdict import CaseVerdict, Proof, Status, worst


@dataclass(frozen=True)
class Settings:
    """How hard to look. `trials` are those accepted for each case; `seed` that of all draws; `prover` whether proofs
    are tried."""

    trials: int = 200
    seed: int = 0
    prover: bool = True


class Ran(Protocol):
    """What trials found (`gerules.verify.trials.Trials`)."""

    @property
    def accepted(self) -> int: ...
    @property
    def drawn(self) -> int: ...
    @property
    def rejected_by(self) -> Mapping[str, int]: ...
    @property
    def refutation(self) -> Any: ...
    @property
    def never(self) -> tuple[str, ...]: ...


def prover_available() -> bool:
    """Whether proofs can be tried: z3 is an extra."""
    return find_spec("z3") is not None


def shrinker_available() -> bool:
    """Whether witnesses are made small: hypothesis is an extra."""
    return find_spec("hypothesis") is not None


def assess_case(case: Case, known: Knowledge, settings: Settings, tools: Tools) -> CaseVerdict:
    """What is known of one case. Never raises: what went wrong is in the verdict."""
    started = time.monotonic()
    verdict = CaseVerdict(case.label, case.member, case.direction, "unknown")
    try:
        verdict = _assessed(case, known, settings, tools, verdict)
    except GerulesError as fault:
        never = fault.diagnostics[0].code == NO_INSTANCE
        verdict = replace(verdict, detail=f"{NEVER}: {reason_of(fault)}" if never else reason_of(fault))
    except Exception as fault:  # one rule that trips us up must not take the others with it; its verdict says so
        verdict = replace(verdict, detail=_our_fault(fault))
    return replace(verdict, seconds=time.monotonic() - started)


def _assessed(case: Case, known: Knowledge, settings: Settings, tools: Tools, verdict: CaseVerdict) -> CaseVerdict:
    plan = tools.plan(case, known)
    ran = tools.trials(plan, settings.trials, settings.seed)
    verdict = replace(verdict, trials=ran.accepted, drawn=ran.drawn)
    if ran.refutation is not None:
        return _refuted(tools, plan, ran.refutation, verdict, "a difference was seen")
    if ran.accepted < settings.trials:
        # Instances are rare: the rule's own examples show where they are.
        for near in tools.near(plan):
            more = tools.trials(near, settings.trials - verdict.trials, settings.seed)
            verdict = replace(verdict, trials=verdict.trials + more.accepted, drawn=verdict.drawn + more.drawn)
            if more.refutation is not None:
                return _refuted(tools, near, more.refutation, verdict, "a difference was seen")
            if verdict.trials >= settings.trials:
                break
    if verdict.trials == 0:
        return replace(verdict, detail=_never(ran))
    verdict = replace(verdict, status="tested", detail=f"{verdict.trials} trials")
    if not settings.prover:
        return verdict
    proof = tools.prove(case, known)
    if proof.status in ("proved", "proved bounded"):
        return replace(
            verdict,
            status=proof.status,
            detail=proof.scope,
            all_ranks=proof.all_ranks,
            all_sizes=proof.all_sizes,
        )
    if proof.status == "refuted" and proof.model is not None:
        found = tools.replay_model(plan, proof.model)
        if found is not None:
            return _refuted(tools, plan, found, verdict, "the prover found a difference")
    said = "the prover's counterexample does not replay" if proof.status == "refuted" else proof.reason
    return replace(verdict, detail=f"{verdict.detail}{NO_PROOF}{_short(said)}" if said else verdict.detail)


def _refuted(tools: Tools, plan: Any, found: Any, verdict: CaseVerdict, seen: str) -> CaseVerdict:
    """Refuted with a witness that replays; without one nothing is known."""
    witness = tools.witness(plan, found)
    if witness is None:
        return replace(verdict, status="unknown", detail=f"{seen} that does not replay")
    return replace(verdict, status="refuted", detail=_short(str(getattr(witness, "short", witness))), witness=witness)


NEVER: Final = "no instance was found that meets its conditions"
NO_INSTANCE: Final = "GR580"
RANDOM: Final = "GR583"
NO_PROOF: Final = "; no proof: "
NO_CONDITIONS: Final = frozenset({"ill-typed", "too large"})
"""Reasons for a draw to be none that the rule does not say."""
NO_RIGHT: Final = "no right side"
OUR_FAULT: Final = "this is a fault of gerules"


def _never(ran: Ran) -> str:
    cannot = sorted(r for r in ran.rejected_by if r.startswith(CANNOT))
    if cannot:  # the rule may well apply there
        return cannot[0]
    if ran.never:
        said = [c for c in ran.never if c not in NO_CONDITIONS and not c.startswith(NO_RIGHT)]
        conditions = ", ".join(f"`{c}`" for c in said) or "its pattern"
        return f"{NEVER}: {conditions} never held in {ran.drawn} draws"
    commonest = sorted(ran.rejected_by.items(), key=lambda item: (-item[1], item[0]))[:3]
    why = ", ".join(f"{reason} {count}" for reason, count in commonest)
    return f"{NEVER} in {ran.drawn} draws ({why})" if why else f"{NEVER} in {ran.drawn} draws"


def assess_law(known: Knowledge, kind: str, full: str, settings: Settings, tools: Tools) -> tuple[CaseVerdict, ...]:
    """What is known of a statement that is no rewrite. Never raises: what went wrong is in the verdict."""
    started = time.monotonic()
    try:
        found = tuple(tools.law(known, kind, full, settings))
        if found:
            spent = (time.monotonic() - started) / len(found)
            return tuple(v if v.seconds else replace(v, seconds=spent) for v in found)
        detail = "nothing is known of statements of this kind"
    except GerulesError as fault:
        detail = reason_of(fault)
    except Exception as fault:
        detail = _our_fault(fault)
    return (CaseVerdict(full, "", "", "unknown", detail, seconds=time.monotonic() - started),)


def reason_of(fault: GerulesError) -> str:
    """The first thing that is wrong, in a line."""
    first = fault.diagnostics[0]
    return _short(f"{first.message} ({first.code})")


def _our_fault(fault: Exception) -> str:
    return f"{OUR_FAULT}: {type(fault).__name__}: {_short(str(fault))}"


def _short(text: str, most: int = 240) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 3] + "..."


# ------------------------------------------------------------------------------------------------- rules of cases


def rule_status(cases: Sequence[CaseVerdict]) -> Status:
    """The worst of the cases. A member of a class for which no instance exists, or whose sides draw random numbers of
    their own, says nothing of the others, as long as there are others."""
    met = [c.status for c in cases if not c.detail.startswith(NEVER) and not c.detail.endswith(f"({RANDOM})")]
    return worst(met if met else [c.status for c in cases])


def rule_detail(cases: Sequence[CaseVerdict], status: Status) -> str:
    """What to say of a rule in one line: the detail of the cases that decide, and of how many."""
    deciding = [c for c in cases if c.status == status]
    if not deciding:
        return "nothing to verify: no operator fits"
    if status in ("tested", "proved bounded", "proved"):
        details = list(dict.fromkeys(c.detail for c in deciding))
        said = details[0] if len(details) == 1 else _common(deciding, status)
    else:
        said = deciding[0].detail
        place = deciding[0].direction + deciding[0].member
        if len(cases) > 1 and place:
            said = f"{place}: {said}"
    share = f" ({len(deciding)} of {len(cases)} cases)" if len(deciding) < len(cases) else ""
    return said + share


def _common(cases: Sequence[CaseVerdict], status: Status) -> str:
    """One line for cases that differ in detail: what is said most often."""
    counts: dict[str, int] = {}
    for case in cases:
        said = case.detail.partition(NO_PROOF)[2] if status == "tested" else case.detail
        counts[said] = counts.get(said, 0) + 1
    most = sorted(counts, key=lambda d: (-counts[d], d))
    others = f", and {len(most) - 1} other" + ("s" if len(most) > 2 else "") if len(most) > 1 else ""
    if status == "tested":
        fewest = f"at least {min(c.trials for c in cases)} trials"
        return f"{fewest}{NO_PROOF}{most[0]}{others}" if most[0] else fewest
    return most[0] + others


# --------------------------------------------------------------------------------------------- what the tools are


def _plan(case: Case, known: Knowledge) -> Any:
    from gerules.verify.trials import plan_case

    return plan_case(case, known)


def _trials(plan: Any, accepted: int, seed: int) -> Ran:
    from gerules.verify.trials import run_trials

    return run_trials(plan, accepted=accepted, seed=seed)


def _near(plan: Any) -> Sequence[Any]:
    from gerules.verify.pinned import pinned_plans

    return pinned_plans(plan)


def _witness(plan: Any, found: Any) -> Any:
    from gerules.verify.replay import confirm
    from gerules.verify.shrink import shrink
    from gerules.verify.witness import witness_of

    witness = witness_of(plan, shrink(plan, found))
    return witness if confirm(witness) else None


def _prove(case: Case, known: Knowledge) -> Proof:
    from gerules.verify.prove import prove

    return prove(case, known)


def _replay_model(plan: Any, model: object) -> Any:
    from gerules.verify.replay import from_model

    return from_model(plan, model)


def _law(known: Knowledge, kind: str, full: str, settings: Settings) -> Sequence[CaseVerdict]:
    from gerules.verify.laws import check_law

    return check_law(known.program, known, kind, full, trials=settings.trials, seed=settings.seed)


@dataclass(frozen=True)
class Tools:
    """What verification is made of; each has a module beside this one, imported when it is first needed.

    `plan` compiles a case, `trials` draws instances of it, `near` gives plans that draw near the rule's examples.
    `witness` makes a difference small and runs it once more (None where it does not show again), `prove` proves,
    `replay_model` makes an instance of the prover's suspicion, `law` judges a statement that is no rewrite.
    """

    plan: Callable[[Case, Knowledge], Any] = _plan
    trials: Callable[[Any, int, int], Ran] = _trials
    near: Callable[[Any], Sequence[Any]] = _near
    witness: Callable[[Any, Any], Any] = _witness
    prove: Callable[[Case, Knowledge], Proof] = _prove
    replay_model: Callable[[Any, object], Any] = _replay_model
    law: Callable[[Knowledge, str, str, Settings], Sequence[CaseVerdict]] = _law
