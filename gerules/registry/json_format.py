"""Releases of registries as JSON: one operator a line, sorted by name, as `docs/registries.md` has it.

What is written here and read again is the same release, and reading what was written and writing it gives the same
bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from gerules.errors import Diagnostic, Refused
from gerules.registry.release import (
    ATTRIBUTE_TYPES,
    BODY_KINDS,
    INPUT_KINDS,
    OUTPUT_KINDS,
    Body,
    Literal,
    Port,
    Release,
    ReleaseAttribute,
    ReleaseOperator,
)

KEYS = ("inputs", "outputs", "attrs", "subgraphs", "datatypes")
_FORM = '{"inputs": [[name, kind, [types]], ...], "outputs": [...], "attrs": [[name, type, need, default], ...]}'
_ITEM: Mapping[str, type | tuple[type, ...]] = {"Float": (int, float), "Bool": bool, "String": str, "Type": str}


# ------------------------------------------------------------------------------------------------------------- write


def write_release(release: Release) -> str:
    """The canonical text of a release: operators sorted by name, one a line, no spaces, keys in the order of KEYS."""
    lines = [f"{_dump(name)}:{_dump(_data(release.operators[name]))}" for name in sorted(release.operators)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _data(operator: ReleaseOperator) -> dict[str, Any]:
    data: dict[str, Any] = {
        "inputs": [[p.name, p.kind, p.types] for p in operator.inputs],
        "outputs": [[p.name, p.kind, p.types] for p in operator.outputs],
        "attrs": [[a.name, a.type, "required" if a.required else "optional", a.default] for a in operator.attributes],
    }
    if operator.bodies:
        data["subgraphs"] = [[b.name, b.kind] for b in operator.bodies]
    if operator.datatypes:
        data["datatypes"] = dict(operator.datatypes)
    return data


# -------------------------------------------------------------------------------------------------------------- read


class _Repeated(list[tuple[str, Any]]):
    """A JSON object as its pairs, so that nothing that is given twice is lost."""


def read_release(path: str | Path, domain: str, version: str = "") -> Release:
    """Reads a release from a file. Raises Refused with everything that is wrong with it (GR201 to GR207)."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        message = f"cannot read the registry: {error.strerror or error}"
        raise Refused(Diagnostic("GR201", message, file=str(path), hint="check the path and its rights")) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"this is no text (byte {error.start} is no UTF-8)"
        hint = "a registry is JSON; from headers it is made by `gerules registry import`"
        raise Refused(Diagnostic("GR202", message, file=str(path), hint=hint)) from error
    return parse_release(text, domain, version, str(path))


def parse_release(text: str, domain: str, version: str = "", shown: str = "the registry") -> Release:
    """A release from its JSON text. Raises Refused with everything that is wrong with it."""
    try:
        data = json.loads(text, object_pairs_hook=_Repeated, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        message = f"this is no JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        hint = "a registry is JSON; from headers it is made by `gerules registry import`"
        raise Refused(Diagnostic("GR202", message, file=shown, hint=hint)) from error
    except (RecursionError, ValueError) as error:
        raise Refused(Diagnostic("GR202", f"this is no JSON of ours: {error}", file=shown)) from error
    return _Reader(shown).release(data, domain, version)


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no number of JSON")


class _Reader:
    """Collects what is wrong with one file."""

    def __init__(self, shown: str) -> None:
        self.shown = shown
        self.found: list[Diagnostic] = []

    def say(self, code: str, operator: str, message: str, hint: str | None = None) -> None:
        self.found.append(Diagnostic(code, message, node=operator or None, file=self.shown, hint=hint))

    def release(self, data: Any, domain: str, version: str) -> Release:
        operators: dict[str, ReleaseOperator] = {}
        if not isinstance(data, _Repeated):
            self.say("GR203", "", "a registry is an object from operator names to definitions", f"each is {_FORM}")
        else:
            for name, entry in data:
                if name in operators:
                    self.say("GR204", name, "this operator is registered twice", "keep one of the two definitions")
                    continue
                if not name:
                    self.say("GR203", "", "an operator has no name")
                operators[name] = self.operator(name, entry)
            if not data:
                self.say("GR203", "", "the registry holds no operator", f"an operator is {_FORM}")
        if self.found:
            raise Refused(self.found)
        return Release(domain, version, operators)

    def operator(self, name: str, entry: Any) -> ReleaseOperator:
        if not isinstance(entry, _Repeated):
            self.say("GR203", name, "a definition is an object", f"it is {_FORM}")
            return ReleaseOperator(name)
        fields: dict[str, Any] = {}
        for key, value in entry:
            if key in fields:
                self.say("GR203", name, f"`{key}` is given twice", "keep one list")
            elif key not in KEYS:
                self.say("GR203", name, f"unknown key `{key}`", f"keys are {', '.join(KEYS)}")
            fields.setdefault(key, value)
        for key in KEYS[:3]:
            if key not in fields:
                self.say("GR203", name, f"`{key}` is missing", "write an empty list where there are none")
        return ReleaseOperator(
            name,
            tuple(self.listed(name, fields, "inputs", 3, lambda item: self.port(name, item, "input", INPUT_KINDS))),
            tuple(self.listed(name, fields, "outputs", 3, lambda item: self.port(name, item, "output", OUTPUT_KINDS))),
            tuple(self.listed(name, fields, "attrs", 4, lambda item: self.attribute(name, item))),
            tuple(self.listed(name, fields, "subgraphs", 2, lambda item: self.body(name, item))),
            self.datatypes(name, fields.get("datatypes")),
        )

    def listed(
        self, operator: str, fields: Mapping[str, Any], key: str, length: int, make: Callable[[list[Any]], Any]
    ) -> Iterable[Any]:
        entries = fields.get(key, [])
        if isinstance(entries, _Repeated) or not isinstance(entries, list):
            self.say("GR203", operator, f"`{key}` is no list")
            return
        seen: set[str] = set()
        for number, item in enumerate(entries):
            plain = isinstance(item, list) and not isinstance(item, _Repeated)
            if not plain or len(item) != length or not isinstance(item[0], str) or not item[0]:
                form = {2: "[name, kind]", 3: "[name, kind, [types]]", 4: "[name, type, need, default]"}[length]
                self.say("GR203", operator, f"entry {number} of `{key}` is not in form", f"an entry is {form}")
                continue
            if item[0] in seen:
                self.say("GR205", operator, f"`{key}` has {item[0]} twice", "names do not repeat inside a list")
                continue
            seen.add(item[0])
            yield make(item)

    def port(self, operator: str, item: list[Any], what: str, kinds: tuple[str, ...]) -> Port:
        name, kind, types = item
        self.kind(operator, f"{what} {name}", kind, kinds)
        return Port(name, str(kind), self.types(operator, f"{what} {name}", types))

    def kind(self, operator: str, what: str, kind: Any, kinds: tuple[str, ...]) -> None:
        if kind not in kinds:
            message = f"{what} is of the kind {json.dumps(kind)[:60]}, which there is not"
            self.say("GR206", operator, message, f"kinds are {', '.join(kinds)}")

    def types(self, operator: str, what: str, types: Any) -> tuple[str, ...]:
        good = isinstance(types, list) and not isinstance(types, _Repeated) and all(isinstance(t, str) for t in types)
        if not good:
            self.say("GR203", operator, f"the data types of {what} are no list of names", 'write `["DT_FLOAT"]`')
            return ()
        return tuple(types)

    def attribute(self, operator: str, item: list[Any]) -> ReleaseAttribute:
        name, type_, need, default = item
        if type_ not in ATTRIBUTE_TYPES:
            message = f"attribute {name} has the type {json.dumps(type_)[:60]}, which there is not"
            self.say("GR207", operator, message, f"types are {', '.join(ATTRIBUTE_TYPES)}")
        self.kind(operator, f"attribute {name}", need, ("required", "optional"))
        value = self.default(operator, str(name), default)
        required = need == "required"
        if required and default is not None:
            message = f"attribute {name} is required, and has the default {json.dumps(default)[:60]}"
            self.say("GR207", operator, message, "a required attribute has null")
        if need == "optional" and default is None:
            self.say("GR207", operator, f"attribute {name} is optional and has no default", "an optional one has one")
        if value is not None and type_ in ATTRIBUTE_TYPES and not fits(value, type_):
            message = f"the default {json.dumps(default)[:60]} of attribute {name} is no {type_}"
            self.say("GR207", operator, message)
        return ReleaseAttribute(name, str(type_), required, value)

    def default(self, operator: str, name: str, value: Any) -> Literal | None:
        if isinstance(value, _Repeated) or (isinstance(value, list) and any(v is None for v in value)):
            self.say("GR207", operator, f"the default of attribute {name} is no value", "an object or null has no type")
            return None
        if isinstance(value, list):
            # Lists of lists of integers are the deepest there are: the recursion ends with the nesting of the JSON.
            items = [self.default(operator, name, v) for v in value]
            return tuple(v for v in items if v is not None)
        made: Literal | None = value
        return made

    def body(self, operator: str, item: list[Any]) -> Body:
        name, kind = item
        self.kind(operator, f"subgraph {name}", kind, BODY_KINDS)
        return Body(name, str(kind))

    def datatypes(self, operator: str, entry: Any) -> dict[str, tuple[str, ...]]:
        if entry is None:
            return {}
        if not isinstance(entry, _Repeated):
            self.say("GR203", operator, "`datatypes` is an object from symbols to lists of types")
            return {}
        found: dict[str, tuple[str, ...]] = {}
        for symbol, types in entry:
            if symbol in found:
                self.say("GR205", operator, f"type symbol {symbol} is given twice", "keep one list")
            found[symbol] = self.types(operator, f"type symbol {symbol}", types)
        return found


def fits(value: Literal, type_: str) -> bool:
    """Whether a default is one of its type. An Int may be a data-type constant; a Float may be written whole."""
    if type_ == "Int":
        return type(value) is int or (isinstance(value, str) and value.startswith("DT_"))
    if type_ == "Tensor":
        return isinstance(value, str)
    if type_ == "ListListInt":
        return isinstance(value, tuple) and all(
            isinstance(row, tuple) and all(type(v) is int for v in row) for row in value
        )
    if type_.startswith("List"):
        return isinstance(value, tuple) and all(fits(item, type_.removeprefix("List")) for item in value)
    wanted = _ITEM[type_]
    return isinstance(value, wanted) and (type_ == "Bool" or not isinstance(value, bool))
