"""Laws of versions: two versions that are one operator give the same on the same operands; a version that changes
something exists, and where numbers show the change it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gerules.dsl import ast
from gerules.egraph.ground import Row
from gerules.egraph.program import Knowledge
from gerules.egraph.signature import RESULTS, Signature, Signatures
from gerules.registry.definition import OperatorDef
from gerules.simulate import NodeFault
from gerules.verify.compute import compute, inadmissible
from gerules.verify.draw import State
from gerules.verify.judge import differ
from gerules.verify.law_instances import Instance, Instances, instances_of
from gerules.verify.layout import NodeAt, RunNode, TensorAt, default_value
from gerules.verify.verdict import CaseVerdict

MOST = 25
"""Instances for each pair of versions: there are hundreds of pairs."""


def check_same(known: Knowledge, full: str, member: str, row: Row, trials: int, seed: int) -> CaseVerdict:
    """Both versions run on what was drawn for the older one."""
    older, newer = row
    assert isinstance(older, OperatorDef) and isinstance(newer, OperatorDef)
    reason = _form(older, newer)
    if reason is not None:
        return CaseVerdict(full, member, "", "refuted", reason)
    drawn = _instances(known, older)
    for instance in drawn.take(min(trials, MOST), seed):
        fault = _compared(known, instance, newer)
        if fault is not None:
            detail = f"{older.key} and {newer.key} differ: {fault}, for {instance.text()}"
            return CaseVerdict(full, member, "", "refuted", detail, trials=drawn.found, drawn=drawn.drawn)
    if not drawn.found:
        why = f"no instance was found that meets its conditions in {drawn.drawn} draws ({drawn.commonest})"
        return CaseVerdict(full, member, "", "unknown", why, drawn=drawn.drawn)
    detail = f"{drawn.found} instances run at both versions"
    return CaseVerdict(full, member, "", "tested", detail, trials=drawn.found, drawn=drawn.drawn)


def check_changes(known: Knowledge, full: str, member: str, row: Row, trials: int, seed: int) -> CaseVerdict:
    """The version is registered and has one before it; an instance on which they differ is looked for."""
    (newer,) = row
    assert isinstance(newer, OperatorDef)
    older = _before(known, newer)
    if older is None:
        return CaseVerdict(full, member, "", "refuted", f"{newer.key} is the first version: there is nothing to change")
    drawn = 0
    for first, second in ((older, newer), (newer, older)):
        instances = _instances(known, first)
        for instance in instances.take(min(trials, MOST), seed):
            fault = _compared(known, instance, second)
            if fault is not None:
                detail = f"{first.key} and {second.key} differ: {fault}, for {instance.text()}"
                drawn += instances.drawn
                return CaseVerdict(full, member, "", "tested", detail, trials=instances.found, drawn=drawn)
        drawn += instances.drawn
    detail = f"the version is registered; no draw shows what it changes since {older.since}"
    return CaseVerdict(full, member, "", "tested", detail, trials=1, drawn=drawn)


def check_reworded(known: Knowledge, full: str, member: str, row: Row, trials: int, seed: int) -> CaseVerdict:
    """A version of which only the text is new: it gives what the one before gives."""
    (newer,) = row
    assert isinstance(newer, OperatorDef)
    older = _before(known, newer)
    if older is None:
        return CaseVerdict(full, member, "", "refuted", f"{newer.key} is the first version: there was no text before")
    return check_same(known, full, member, (older, newer), trials, seed)


def check_unconnected(known: Knowledge, full: str, member: str, row: Row, trials: int, seed: int) -> CaseVerdict:
    """A version without a way to the one before: there is one before, and no fact says that they are one."""
    (newer,) = row
    assert isinstance(newer, OperatorDef)
    older = _before(known, newer)
    if older is None:
        return CaseVerdict(full, member, "", "refuted", f"{newer.key} is the first version")
    if known.semantic(older) == known.semantic(newer):
        return CaseVerdict(full, member, "", "refuted", f"{older.key} and {newer.key} are one operator")
    return CaseVerdict(full, member, "", "tested", f"nothing is claimed of {older.key} and {newer.key}", 1, 1)


def _before(known: Knowledge, newer: OperatorDef) -> OperatorDef | None:
    """The version before this one."""
    versions = known.registry.versions(newer.domain, newer.name)
    place = versions.index(newer.since)
    return known.registry.definition(newer.domain, newer.name, versions[place - 1]) if place else None


def _form(older: OperatorDef, newer: OperatorDef) -> str | None:
    """What two versions of one operator cannot differ in."""
    if (older.domain, older.name) != (newer.domain, newer.name):
        return f"{older.key} and {newer.key} are two operators"
    for kind in ("inputs", "outputs"):
        a, b = ([(o.name, o.kind) for o in getattr(d, kind)] for d in (older, newer))
        if len(a) != len(b) or any(x[1] != y[1] for x, y in zip(a, b, strict=True)):
            return f"{older.key} and {newer.key} have other {kind}"
    before, after = ({n.name: (n.type, n.default) for n in d.attributes} for d in (older, newer))
    required = {n.name for n in newer.attributes if n.required}
    moved = sorted([n for n in before if before[n] != after.get(n)] + [n for n in required if n not in before])
    if moved:
        return f"{older.key} and {newer.key} have other attributes or defaults: {', '.join(moved)}"
    return None


def _instances(known: Knowledge, operator: OperatorDef) -> Instances:
    """Instances of one operator at exactly this version."""
    exact = known.kept.get("exact versions")
    if exact is None:
        of = known.signatures
        signatures = Signatures(of.lookup, {}, {}, of.impure, of.dtype_attributes)
        exact = known.kept["exact versions"] = replace(known, signatures=signatures, kept={})
    assert isinstance(exact, Knowledge)
    term = ast.Call(ast.Name("f"), (ast.Rest(ast.Name("r")),))
    return instances_of(exact, operator.key, known.program.files[0], {"f": operator}, (term,))


def _compared(known: Knowledge, instance: Instance, other: OperatorDef) -> str | None:
    """How the results of another version differ on the operands and attributes of an instance."""
    state = instance.state
    step = next(s for s in reversed(state.layout.steps) if isinstance(s, RunNode))
    operands = [None if o is None else state.tensors[o] for o in step.operands]
    signature = replace(known.signatures.of(other), definition=other, newest=other)
    columns = _columns(step, state, signature)
    if columns is None or (len(operands) > len(other.inputs) and not signature.variadic):
        return "the newer one has no such operand or attribute"
    if inadmissible(step.signature, operands, [state.columns[c] for c in step.columns]) is not None:
        return None  # kernels take more than the specification admits
    try:
        results = compute(signature, operands, columns)
    except NodeFault as fault:
        return fault.diagnostics[0].message
    before = list(_results(state, step))
    for a, b in zip(before, results, strict=True):
        found = differ(a, b, True)
        if found is not None:
            return found.reason
    return None


def _columns(step: RunNode, state: State, signature: Signature) -> list[object] | None:
    """The attributes of a drawn node for another version, by name; None where one has no place there."""
    given = {a.name: state.columns[c] for a, c in zip(step.signature.attributes, step.columns, strict=True)}
    if RESULTS not in {a.name for a in signature.attributes}:
        given.pop(RESULTS, None)
    columns: list[object] = []
    for attribute in signature.attributes:
        kind = signature.kind(attribute.name)
        columns.append(given.pop(attribute.name) if attribute.name in given else default_value(kind, attribute))
    defaults = {a.name: default_value(step.signature.kind(a.name), a) for a in step.signature.attributes}
    return None if any(value is not None and value != defaults[name] for name, value in given.items()) else columns


def _results(state: State, step: RunNode) -> Iterator[object]:
    root = state.layout.root
    if isinstance(root, NodeAt):
        yield from state.nodes[root.number]
    else:
        assert isinstance(root, TensorAt)
        yield state.tensors[root.number]
