"""E-graphs in egraph-serialize JSON as problems with one engine and the cost as the only component."""

from __future__ import annotations

import json
from pathlib import Path

from gerules.extract import Option, Problem


def load_egraph(path: Path) -> Problem:
    """The problem of a file; its incumbent is the first choice without a cycle that a walk from the leaves meets."""
    document = json.loads(path.read_text())
    nodes = document["nodes"]
    numbers: dict[str, int] = {}
    for node in nodes.values():
        numbers.setdefault(node["eclass"], len(numbers))
    options = tuple(
        Option(
            numbers[node["eclass"]],
            tuple(numbers[nodes[child]["eclass"]] for child in node["children"]),
            ((float(node["cost"]),),),
        )
        for node in nodes.values()
    )
    roots = tuple(numbers[cls] for cls in document["root_eclasses"])
    made: dict[int, int] = {}
    grown = True
    while grown:
        grown = False
        for index, option in enumerate(options):
            if option.cls not in made and all(child in made for child in option.children):
                made[option.cls] = index
                grown = True
    return Problem(options, len(numbers), roots, ("any",), lambda cls, source, target: 0.0, made, {}, {})
