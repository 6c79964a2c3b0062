"""Words that string attributes take: those that rule files write, and those that an operator's documentation quotes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from gerules.dsl import ast
from gerules.egraph.program import Knowledge
from gerules.registry.definition import OperatorDef
from gerules.simulate.schema import find_schema


@dataclass
class Words:
    """`written` are the words of all rule files by attribute name, in order of first mention."""

    written: Mapping[str, Sequence[str]]
    _known: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

    @staticmethod
    def of(known: Knowledge) -> Words:
        words = known.kept.get("attribute words")
        if words is None:
            statements = [s for file in known.program.files for s in file.statements]
            words = known.kept["attribute words"] = Words(_words_of(statements))
        assert isinstance(words, Words)
        return words

    def known(self, definition: OperatorDef, name: str) -> tuple[str, ...]:
        """What an attribute may say, the default first; the empty text where nothing is known."""
        key = (definition.key, name)
        found = self._known.get(key)
        if found is None:
            attribute = definition.attribute(name)
            words = [attribute.default] if attribute is not None and attribute.default else []
            words += [*self.written.get(name, ()), *_quoted(definition, name)]
            found = self._known[key] = tuple(dict.fromkeys(words)) or ("",)
        return found


def _words_of(statements: Sequence[ast.Node]) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    pending: list[object] = list(reversed(statements))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Keyword) and isinstance(node.value, ast.Text):
            found.setdefault(node.name, {})[node.value.value] = None
        if isinstance(node, ast.Node):
            for name in node.__dataclass_fields__:
                value = getattr(node, name)
                if isinstance(value, tuple):
                    pending.extend(reversed(value))
                elif isinstance(value, ast.Node):
                    pending.append(value)
    return {name: tuple(words) for name, words in found.items()}


_SET_OFF = re.compile(r"[\"'`]([A-Za-z_][A-Za-z_0-9]*)[\"'`]|\b([A-Z][A-Z_]{2,})\b|\b([a-z]+_[a-z_]+)\b")


_FLAG = re.compile(
    r"\b(0 or 1|boolean|bool|flag|whether|if (this is )?(set|1|0|true|nonzero|non-zero)|set to [01])\b", re.I
)


_LIST = re.compile(r"\b1-?D\b|\bone-dimensional\b|\b1 dimension\b", re.I)
_SCALAR = re.compile(r"^\W*(an? )?scalar\b|must be a scalar", re.I)
_EITHER = re.compile(r"\bor\b|\b[02N]-?D\b|optional scalar", re.I)


@cache
def stated_rank(domain: str, op: str, version: int, place: int) -> int | None:
    """The rank that the description of an operand states: 1 of a list, 0 of a scalar, None where it leaves it open."""
    schema = find_schema(domain, op, version) if not domain else None
    if schema is None or place >= len(schema.raw.inputs):
        return None
    text = str(schema.raw.inputs[place].description)
    if _SCALAR.search(text) and not _LIST.search(text):
        return 0
    return 1 if _LIST.search(text) and not _EITHER.search(text) and "scalar" not in text.lower() else None


@cache
def is_flag(domain: str, op: str, version: int, name: str) -> bool:
    """Whether an int attribute is a flag: its default is 0 or 1, and its description speaks of yes and no."""
    schema = find_schema(domain, op, version) if not domain else None
    attribute = schema.raw.attributes.get(name) if schema is not None else None
    if attribute is None or schema is None or schema.defaults.get(name) not in (0, 1):
        return False
    return bool(_FLAG.search(attribute.description))


def _quoted(definition: OperatorDef, name: str) -> list[str]:
    """Words that the description of an attribute sets off as values: in quotes, in capitals, or with underscores."""
    schema = find_schema(definition.domain, definition.name, int(definition.since)) if not definition.domain else None
    attribute = schema.raw.attributes.get(name) if schema is not None else None
    if attribute is None:
        return []
    return [a or b or c for a, b, c in _SET_OFF.findall(attribute.description)]
