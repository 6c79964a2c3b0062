"""What older versions of an operator do not admit yet, though kernels may take it: counting from the end, new words.

Up to opset 10 most axes and indices are not negative; the specification says so by saying nothing, and from a later
version on says that they may be. A rule that hands a negative axis to the older version is wrong, whoever runs it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import onnx

from gerules.registry import onnx_registry
from gerules.simulate.faults import node_fault

_SAID = re.compile(r"(?<!non-)(?<!non )negative|\[-|backward", re.IGNORECASE)


@lru_cache(maxsize=4096)
def unsigned(domain: str, op: str, since: int) -> tuple[dict[str, int], tuple[int, ...]]:
    """The attributes and the places of operands that must not be negative at this version, though a later one says
    that they may be; of attributes the least value: one that is negative by default may be that."""
    if domain:
        return {}, ()
    now = onnx.defs.get_schema(op, since, domain)
    later = [
        onnx.defs.get_schema(op, int(v), domain)
        for v in onnx_registry().versions(domain, op)
        if int(v) > since and not onnx_registry().definition(domain, op, v).deprecated
    ]
    attributes = {
        name: min(0, attribute.default_value.i)
        for name, attribute in now.attributes.items()
        if not _SAID.search(attribute.description)
        and any(name in s.attributes and _SAID.search(s.attributes[name].description) for s in later)
    }
    places = tuple(
        place
        for place, operand in enumerate(now.inputs)
        if operand.name in ("axes", "indices")
        and not _SAID.search(operand.description)
        and any(
            place < len(s.inputs) and s.inputs[place].name == operand.name and _SAID.search(s.inputs[place].description)
            for s in later
        )
    )
    return attributes, places


@lru_cache(maxsize=4096)
def later_words(domain: str, op: str, since: int) -> dict[str, frozenset[str]]:
    """For text attributes the words that a later version quotes as values, and this one does not know."""
    if domain:
        return {}
    found: dict[str, frozenset[str]] = {}
    now = onnx.defs.get_schema(op, since, domain)
    for name, attribute in now.attributes.items():
        if attribute.type != onnx.defs.OpSchema.AttrType.STRING:
            continue
        known = attribute.description + (now.doc or "")
        later: set[str] = set()
        for version in onnx_registry().versions(domain, op):
            if int(version) > since and not onnx_registry().definition(domain, op, version).deprecated:
                schema = onnx.defs.get_schema(op, int(version), domain)
                if name in schema.attributes:
                    later |= set(_QUOTED.findall(schema.attributes[name].description))
        found[name] = frozenset(word for word in later if word not in known)
    return {name: words for name, words in found.items() if words}


_QUOTED = re.compile(r"[`\"'](\w+)[`\"']")


def check_signs(domain: str, op: str, since: int, attributes: Mapping[str, object], operands: Sequence[object]) -> None:
    """Raises NodeFault where an attribute or operand is negative that must not be at this version, or an attribute a
    word that only later versions have."""
    for name, words in later_words(domain, op, since).items():
        if attributes.get(name) in words:
            raise node_fault(op, op, "", f"{name} may not be {attributes[name]} at version {since}")
    names, places = unsigned(domain, op, since)
    for name, least in names.items():
        value = attributes.get(name)
        entries = value if isinstance(value, tuple | list) else (value,)
        if any(isinstance(v, int | float) and v < least for v in entries):
            told = "negative" if not least else f"below {least}"
            raise node_fault(op, op, "", f"{name} may not be {told} at version {since}")
    for place in places:
        operand = operands[place] if place < len(operands) else None
        if isinstance(operand, np.ndarray) and operand.dtype.kind in "if" and bool((operand < 0).any()):
            raise node_fault(op, op, "", f"operand {place} may not be negative at version {since}")
