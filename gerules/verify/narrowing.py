"""Whether a lost condition follows from the others, asked of a part of the left side alone.

A condition mostly speaks of one operator of the pattern (`x.rank == e.rank` of `Expand(x, _) as e`). Where no instance
of that part satisfies the other conditions on it and not this one, no instance of the whole does; and a part has far
fewer structures than the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gerules.dsl import ast
from gerules.static import free_names
from gerules.verify.case import Case
from gerules.verify.trees import spots
from gerules.verify.verdict import Proof

WHOLE = "part_"
"""The name of a part that has none."""


def narrowed(case: Case, lost: ast.Expr) -> Case | None:
    """The smallest part of the left side that binds all names of a condition, with the conditions that speak of it
    alone, as a rule that says that the part is itself. None where that is the whole."""
    names = frozenset(free_names(lost))
    root = case.left.expr if isinstance(case.left, ast.Bind) else case.left
    parts = [node for path, node in spots(root) if path and isinstance(node, ast.Call | ast.Bind)]
    # Within a rest a name stands for many: what one of them shows, all of them need not.
    repeated = [n for _, rest in spots(root) if isinstance(rest, ast.Rest) for _, n in spots(rest)]
    parts = [p for p in parts if not any(p is n for n in repeated)]
    fitting = [(len(list(spots(p))), place, p) for place, p in enumerate(parts) if names and names <= _bound(p)]
    if not fitting:
        return None
    _, _, part = min(fitting, key=lambda item: item[:2])
    assert isinstance(part, ast.Call | ast.Bind)
    bound = part if isinstance(part, ast.Bind) else ast.Bind(part, WHOLE)
    inside = _bound(part)
    about = tuple(c for c in case.when if frozenset(free_names(c)) <= inside)
    return replace(case, left=bound, right=ast.Name(bound.name), when=about)


def follows(case: Case, lost: ast.Expr, opposite: ast.Expr, prove: Callable[[Case], Proof]) -> bool:
    """Whether a part of the left side shows that the conditions of a case imply the one that is lost. That a part has
    no instance is believed only where one is found without the opposite."""
    part = narrowed(case, lost)
    if part is None or not prove(part).status.startswith("proved"):
        return False
    proof = prove(replace(part, when=(*part.when, opposite)))
    return proof.status == "unknown" and proof.reason.startswith("vacuous")


def _bound(part: ast.Node) -> frozenset[str]:
    """The names that a part of a pattern binds."""
    found: set[str] = set()
    for _, node in spots(part):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Bind):
            found.add(node.name)
    return frozenset(found)
