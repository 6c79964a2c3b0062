"""Words that string attributes take: those that rule files write, and those that an operator's documentation quotes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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


def _quoted(definition: OperatorDef, name: str) -> list[str]:
    """Words that the description of an attribute sets off as values: in quotes, in capitals, or with underscores."""
    schema = find_schema(definition.domain, definition.name, int(definition.since)) if not definition.domain else None
    attribute = schema.raw.attributes.get(name) if schema is not None else None
    if attribute is None:
        return []
    return [a or b or c for a, b, c in _SET_OFF.findall(attribute.description)]
