"""What operators do with integers, as tables: which index with them, which compare, which pass them on."""

from __future__ import annotations

from typing import Final

# Operator -> (operand that is indexed, operand that indexes, axis by default).
INDEXES: Final[dict[str, tuple[int, int, int]]] = {
    "Gather": (0, 1, 0),
    "GatherElements": (0, 1, 0),
    "Scatter": (0, 1, 0),
    "ScatterElements": (0, 1, 0),
    "GatherND": (0, 1, 0),
    "ArrayFeatureExtractor": (0, 1, -1),
}

COMPARES: Final = frozenset({"Equal"})

# Operator -> operand positions whose elements come out as they went in.
PASSES: Final[dict[str, frozenset[int]]] = {
    "Cast": frozenset({0}),
    "Compress": frozenset({0}),
    "Concat": frozenset(range(64)),
    "Expand": frozenset({0}),
    "Flatten": frozenset({0}),
    "Gather": frozenset({0}),
    "Identity": frozenset({0}),
    "Pad": frozenset({0}),
    "Reshape": frozenset({0}),
    "Slice": frozenset({0}),
    "Split": frozenset({0}),
    "Squeeze": frozenset({0}),
    "Tile": frozenset({0}),
    "Transpose": frozenset({0}),
    "Unsqueeze": frozenset({0}),
    "Where": frozenset({1, 2}),
}
