"""ONNX's own registry at one opset, as a release: what `gerules diff onnx:13 onnx:21` compares."""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from gerules.registry.definition import OPTIONAL, VARIADIC, Attribute, Operand, OperatorDef
from gerules.registry.onnx_schemas import onnx_registry
from gerules.registry.registry import Registry
from gerules.registry.release import DYNAMIC, Body, Literal, Port, Release, ReleaseAttribute, ReleaseOperator
from gerules.registry.release import OPTIONAL as MAY_BE_ABSENT
from gerules.registry.text import PLAIN, unescape

_TYPES = {
    "int": "Int",
    "float": "Float",
    "str": "String",
    "tensor": "Tensor",
    "sparse_tensor": "SparseTensor",
    "type": "Type",
    "ints": "ListInt",
    "floats": "ListFloat",
    "strs": "ListString",
    "tensors": "ListTensor",
    "sparse_tensors": "ListSparseTensor",
    "types": "ListType",
}


def known_domains() -> dict[str, str]:
    """The domains of the installed onnx package ("" is ai.onnx) with the newest version of each."""
    registry = onnx_registry()
    return {domain: registry.newest(domain) or "" for domain in registry.domains()}


@lru_cache(maxsize=64)
def schema_release(domain: str, version: str) -> Release:
    """The operators in force at an opset. Raises ValueError for a version that is no number, KeyError for one that
    there is not."""
    registry = onnx_registry()
    newest = registry.newest(domain)
    if newest is None or not 1 <= int(version) <= int(newest):
        raise KeyError(version)
    version = str(int(version))
    operators: dict[str, ReleaseOperator] = {}
    for name in registry.names(domain):
        definition = registry.lookup(domain, name, version)
        if definition is not None:
            operators[name] = _operator(registry, definition)
    return Release(domain, version, operators)


def _operator(registry: Registry, definition: OperatorDef) -> ReleaseOperator:
    arrival = _arrival(registry, definition)
    plain = sorted(
        (a for a in definition.attributes if a.type not in ("graph", "graphs")),
        key=lambda a: (arrival.get(a.name, 0), a.name),
    )
    return ReleaseOperator(
        definition.name,
        tuple(_port(o) for o in definition.inputs),
        tuple(_port(o) for o in definition.outputs),
        tuple(ReleaseAttribute(a.name, _TYPES[a.type], a.required, _default(a)) for a in plain),
        tuple(
            Body(a.name, DYNAMIC if a.type == "graphs" else "required")
            for a in definition.attributes
            if a.type in ("graph", "graphs")
        ),
    )


def _arrival(registry: Registry, definition: OperatorDef) -> dict[str, int]:
    """When each attribute came. Attributes of ONNX have no places; in the order in which they came, an attribute that
    a version adds stands after those that were there."""
    found: dict[str, int] = {}
    for number, since in enumerate(registry.versions(definition.domain, definition.name)):
        for attribute in registry.definition(definition.domain, definition.name, since).attributes:
            found.setdefault(attribute.name, number)
        if since == definition.since:
            break
    return found


def _port(operand: Operand) -> Port:
    kind = {OPTIONAL: MAY_BE_ABSENT, VARIADIC: DYNAMIC}.get(operand.kind, "required")
    return Port(operand.name, kind, tuple(sorted(operand.types)))


def _default(attribute: Attribute) -> Literal | None:
    text = attribute.default
    if text is None:
        return None
    return cast(Literal, PLAIN.get(attribute.type, unescape)(text))
