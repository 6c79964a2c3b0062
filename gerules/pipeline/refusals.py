"""Why a node cannot be converted, in words: the operator, both versions, and what stands in the way."""

from __future__ import annotations

from collections.abc import Mapping

from gerules.egraph.convert import Stuck
from gerules.errors import Diagnostic
from gerules.graph.attributes import attribute_text
from gerules.graph.constants import ConstantTable
from gerules.graph.info import UNKNOWN, Info
from gerules.registry import Registry, canonical_domain
from gerules.registry.definition import VARIADIC, Operand, OperatorDef
from gerules.registry.registry import version_key

SHOWN = 3
"""How many reasons of the nodes of a body are told."""


def refusal(stuck: Stuck, target: Mapping[str, int], registry: Registry, denied: str | None = None) -> Diagnostic:
    """The refusal of one node. `denied` is what a rule says of it, which comes first."""
    node = stuck.node
    domain = canonical_domain(node.domain)
    operator = stuck.definition.key if stuck.definition is not None else node.op_type
    version = target.get(domain)
    shown = f"opset {version}" + (f" of {domain}" if domain else "")
    reason = denied or why(stuck, target, registry)
    return Diagnostic("GR810", f"{operator} cannot be converted to {shown}: {reason}", node=node.name)


def why(stuck: Stuck, target: Mapping[str, int], registry: Registry) -> str:
    """What stands in the way, in words."""
    definition = stuck.definition
    if definition is None or definition.domain not in target:
        return "nothing is known of this operator"
    version = target[definition.domain]
    held = registry.lookup(definition.domain, definition.name, version)
    if held is None:
        return _missing(stuck, definition, target, registry)
    reasons = [
        _type_reason(stuck, held, registry),
        _run_time(stuck, definition, held, version),
        _unknown_operand(stuck, definition, held),
        _unknown_attribute(stuck, definition, held),
    ]
    said = [r for r in reasons if r is not None]
    near = _near(stuck)
    if said or near:
        return "; ".join([*said[:2], *near])
    inner = _inner(stuck, target, registry)
    if inner:
        return f"no rule says when it is {held.key}, and its body needs what cannot be converted: {inner}"
    return f"no rule says that it is {held.key} with these operands and attributes"


def _near(stuck: Stuck) -> list[str]:
    """What rules that match wanted, one text for each condition."""
    conditions: dict[str, list[str]] = {}
    for near in stuck.near:
        rules = conditions.setdefault(near.condition, [])
        rules += [r for r in (near.rule.rpartition(".")[2],) if r not in rules]
    return [
        f"rule{'s' * (len(rules) > 1)} {' and '.join(rules)} would do, if `{condition}` were known to hold"
        for condition, rules in list(conditions.items())[:SHOWN]
    ]


def _missing(stuck: Stuck, definition: OperatorDef, target: Mapping[str, int], registry: Registry) -> str:
    name, version = definition.name, target[definition.domain]
    versions = registry.versions(definition.domain, name)
    if version_key(versions[0]) > (version,):
        text = f"{name} is new at opset {versions[0]}"
    else:
        gone = next(
            (v for v in versions[1:] if registry.definition(definition.domain, name, v).deprecated), versions[-1]
        )
        text = f"{name} was removed at opset {gone}"
    inner = _inner(stuck, target, registry)
    if inner:
        return f"{text}, and its body needs what cannot be converted: {inner}"
    near = _near(stuck)
    if near:
        return f"{text}; {'; '.join(near)}"
    if definition.has_body:
        return f"{text}, and its body cannot be written out for these operands"
    return f"{text}, and nothing says what it is by other operators"


def _inner(stuck: Stuck, target: Mapping[str, int], registry: Registry) -> str:
    """The reasons of the innermost nodes."""
    found: dict[str, None] = {}
    pending = list(stuck.inner)
    while pending:
        part = pending.pop(0)
        if part.inner:
            pending = [*part.inner, *pending]
            continue
        operator = part.definition.key if part.definition is not None else part.node.op_type
        found[f"{operator}: {why(part, target, registry)}"] = None
    shown = list(found)[:SHOWN]
    more = len(found) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")


def _type_reason(stuck: Stuck, held: OperatorDef, registry: Registry) -> str | None:
    for formals, infos in ((held.inputs, stuck.operands), (held.outputs, stuck.results)):
        for place, info in enumerate(infos):
            formal = _formal(formals, place)
            if formal is None or not _known(info) or not formal.types:
                continue
            assert info is not None
            if info.dtype not in formal.types:
                since = _admits(held, registry, formals is held.inputs, place, info.dtype)
                when = f" before opset {since}" if since else ""
                return f"{info.dtype} is not admitted by {held.name}{when} (as {formal.name})"
    return None


def _admits(held: OperatorDef, registry: Registry, operand: bool, place: int, dtype: str) -> str | None:
    """The version after `held` that admits an element type at a place."""
    for version in registry.versions(held.domain, held.name):
        if version_key(version) <= version_key(held.since):
            continue
        later = registry.definition(held.domain, held.name, version)
        formal = _formal(later.inputs if operand else later.outputs, place)
        if formal is not None and dtype in formal.types:
            return version
    return None


def _run_time(stuck: Stuck, definition: OperatorDef, held: OperatorDef, version: int) -> str | None:
    """An operand that is an attribute at the target and whose contents are not known."""
    attributes = {a.name.lower() for a in held.attributes} | {a.name.lower().rstrip("s") for a in held.attributes}
    operands = {o.name.lower() for o in held.inputs}
    late: list[str] = []
    for place, value in enumerate(stuck.node.inputs):
        formal = _formal(definition.inputs, place)
        if formal is None or value is None or stuck.constant[place] or formal.name.lower() in operands:
            continue
        if formal.name.lower() in attributes or formal.name.lower().split("_")[-1] in attributes:
            late.append(formal.name)
    if not late:
        return None
    several = len(late) > 1
    return (
        f"{', '.join(late)} {'are' if several else 'is'} computed at run time; "
        f"opset {version} needs {'them' if several else 'it'} constant"
    )


def _unknown_operand(stuck: Stuck, definition: OperatorDef, held: OperatorDef) -> str | None:
    names = {o.name for o in held.inputs} | {a.name for a in held.attributes}
    for place, value in enumerate(stuck.node.inputs):
        formal = _formal(definition.inputs, place)
        if (
            value is not None
            and formal is not None
            and formal.name not in names
            and _formal(held.inputs, place) is None
        ):
            return f"{held.key} has no operand {formal.name}"
    return None


def _unknown_attribute(stuck: Stuck, definition: OperatorDef, held: OperatorDef) -> str | None:
    table = ConstantTable()
    for name, attribute in stuck.node.attributes.items():
        formal = definition.attribute(name)
        if formal is None or held.attribute(name) is not None:
            continue
        text = attribute_text(attribute, table)
        if text is not None and text != (formal.default or ""):
            return f"{held.key} has no attribute {name} (here {text})"
    return None


def _formal(formals: tuple[Operand, ...], place: int) -> Operand | None:
    if place < len(formals):
        return formals[place]
    return formals[-1] if formals and formals[-1].kind == VARIADIC else None


def _known(info: Info | None) -> bool:
    return info is not None and info is not UNKNOWN and info != UNKNOWN and info.dtype != "?"


__all__ = ["refusal", "why"]
