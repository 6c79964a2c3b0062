"""Places in a syntax tree, and the tree with another node in one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gerules.dsl import ast
from gerules.dsl.lets import children

Path = tuple[tuple[str, int | None], ...]
"""The way from a root: field names, with the position where the field is a tuple."""


@dataclass(frozen=True)
class Change:
    """A tree with one change, of which kind it is, and what it is in words."""

    kind: str
    node: Any
    what: str


def spots(root: ast.Node) -> Iterator[tuple[Path, ast.Node]]:
    """Every node of a tree with its path, in order of writing."""
    pending: list[tuple[Path, ast.Node]] = [((), root)]
    while pending:
        path, node = pending.pop()
        yield path, node
        pending += reversed(list(_below(path, node)))


def _below(path: Path, node: ast.Node) -> Iterator[tuple[Path, ast.Node]]:
    direct = children(node)
    if not direct:
        return
    waiting = list(direct)
    for name in type(node).__slots__:
        value = getattr(node, name)
        if isinstance(value, ast.Node) and any(value is w for w in waiting):
            yield (*path, (name, None)), value
        elif isinstance(value, tuple):
            for number, item in enumerate(value):
                if isinstance(item, ast.Node):
                    yield (*path, (name, number)), item


def at(root: ast.Node, path: Path) -> ast.Node:
    """The node at a path."""
    node: Any = root
    for name, number in path:
        node = getattr(node, name)
        node = node if number is None else node[number]
    return node  # type: ignore[no-any-return]


def changed(root: Any, path: Path, new: ast.Node) -> Any:
    """The tree with `new` at a path."""
    trail: list[Any] = [root]
    for name, number in path:
        value = getattr(trail[-1], name)
        trail.append(value if number is None else value[number])
    result: Any = new
    for node, (name, number) in zip(reversed(trail[:-1]), reversed(path), strict=True):
        if number is not None:
            items = getattr(node, name)
            result = (*items[:number], result, *items[number + 1 :])
        result = replace(node, **{name: result})
    return result
