"""Which operands of a pattern have one element type, and which types that may be."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class TypeClasses:
    """Classes of element types: keys that have one type, with what each may be."""

    parent: dict[object, object] = field(default_factory=dict)
    domain: dict[object, frozenset[str] | None] = field(default_factory=dict)

    def find(self, key: object) -> object:
        self.parent.setdefault(key, key)
        while self.parent[key] != key:
            self.parent[key] = self.parent[self.parent[key]]
            key = self.parent[key]
        return key

    def join(self, a: object, b: object) -> None:
        a, b = self.find(a), self.find(b)
        if a == b:
            return
        left, right = self.domain.pop(a, None), self.domain.pop(b, None)
        self.parent[b] = a
        self.domain[a] = left if right is None else right if left is None else left & right

    def limit(self, key: object, types: frozenset[str]) -> None:
        key = self.find(key)
        known = self.domain.get(key)
        self.domain[key] = types if known is None else known & types
