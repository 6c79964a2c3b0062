"""How many axes a counterexample needs: the rank up to which structures are tried, and the one number that a proof for
all ranks rests on. `docs/verify.md` has the argument.

What a rule says of axes is read here from its text; what its operators do with them is counted while it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb

from gerules.dsl import ast
from gerules.verify.case import Case

AXES = frozenset(("axes", "axis", "perm"))
OF_ALL = frozenset(("all", "lossless", "same_but", "only_ones_move", "literal_target", "constant"))
"""Truths that hold of some axes where they hold of all: what is left of a counterexample keeps them."""
BY_PLACE = frozenset(("tail", "cut"))
"""Functions whose answer depends on which axis comes before which."""


@dataclass(frozen=True)
class Needs:
    """What the text of a rule asks of ranks: `ranks` are needed at least, `axes` each for itself, `named` are axes that
    it names by number, `letters` how often it uses a permutation, `ordered` whether it tells axes by their place."""

    ranks: int
    axes: int
    named: frozenset[int]
    letters: int
    ordered: bool


def needs(case: Case) -> Needs:
    """Reads both sides and the conditions."""
    ranks, axes = 0, 0
    for condition in case.when:
        by_rank, others = _condition(condition)
        ranks, axes = max(ranks, by_rank), axes + others
    every = (case.left, case.right, *case.when)
    named = {n for node in walk(*every) for n in _numbered(node)}
    lengths = [_length(node) for node in walk(*every)]
    ordered = any(_by_place(node) for node in walk(*every))
    return Needs(max(ranks, *lengths), axes, frozenset(named), _letters(case), ordered or bool(named))


def walk(*roots: object) -> Iterator[ast.Node]:
    """All nodes of terms and expressions."""
    waiting: list[object] = list(reversed(roots))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Node):
            yield node
            waiting += [getattr(node, name) for name in node.__dataclass_fields__ if name != "span"]
        elif isinstance(node, tuple):
            waiting += reversed(node)


def numbers(*roots: object) -> list[int]:
    return [int(abs(n.value)) for n in walk(*roots) if isinstance(n, ast.Number)]


def signed_numbers(case: Case) -> list[int]:
    """The whole numbers that a rule writes where axes may stand, with their sign: in lists, and as `axis`."""
    found: list[int] = []
    for node in walk(case.left, case.right, *case.when):
        if isinstance(node, ast.ListExpr):
            found += _literals(node)
        elif isinstance(node, ast.Keyword) and node.name in AXES:
            found += _literals(node.value)
    return found


def _condition(condition: ast.Expr) -> tuple[int, int]:
    """The rank that a condition needs, and the axes that it needs each for itself."""
    match condition:
        case ast.Logical(operands=parts):
            each = [_condition(p) for p in parts]
            return max(r for r, _ in each), sum(a for _, a in each)
        case ast.Call(head=ast.Name(id="some")):
            return 0, 1
        case ast.Unary(op="not", operand=inner):
            told = any(isinstance(n, ast.Field) and n.name == "dtype" for n in walk(inner))
            return 0, 0 if told else 1 + sum(numbers(inner))
        case ast.Call(head=ast.Name(id=name)):
            return 0, 0 if name in OF_ALL else 1
        case ast.Compare(left=left, right=right) if isinstance(left, ast.Word) or isinstance(right, ast.Word):
            return 0, 0
        case ast.Compare(op=op, left=left, right=right):
            return _comparison(op, left, right)
    return 0, 0


def _comparison(op: str, left: ast.Expr, right: ast.Expr) -> tuple[int, int]:
    if isinstance(left, ast.Number):
        left, right = right, left
        op = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(op, op)
    more = int(op in (">", "<=", "!="))
    if isinstance(left, ast.Field) and left.name == "rank" and isinstance(right, ast.Number):
        return int(right.value) + more, 0
    counted = any(
        (isinstance(n, ast.Field) and n.name in ("rank", "size"))
        or (isinstance(n, ast.Call) and n.head in (ast.Name("product"), ast.Name("sum")))
        for n in walk(left, right)
    )
    if isinstance(left, ast.Field) and left.name == "size" and isinstance(right, ast.Number):
        return 0, min(int(abs(right.value)), _MOST) + int(op in (">", "!="))
    if op in ("==", "in"):
        return 0, min(sum(numbers(left, right)), _MOST) if counted else 0
    return 0, 1 + (min(sum(numbers(left, right)), _MOST) if counted else 0)


_MOST = 12
"""Enough that no structure of so many axes is ever tried."""


def _numbered(node: ast.Node) -> list[int]:
    """Axes that a node names by number: `x.shape[-1]`, `axis=0`, `perm=[1, 0]`."""
    match node:
        case ast.Index(base=base, index=index) if not isinstance(base, (ast.Call, ast.Bind)):
            return _literals(index)
        case ast.Keyword(name=name, value=value) if name in AXES:
            return _literals(value)
    return []


def _literals(value: ast.Expr) -> list[int]:
    items = value.items if isinstance(value, ast.ListExpr) else (value,)
    found = [_literal(i) for i in items]
    return [n for n in found if n is not None]


def _literal(value: ast.Expr) -> int | None:
    if isinstance(value, ast.Unary) and value.op == "-" and isinstance(value.operand, ast.Number):
        return -int(value.operand.value)
    return int(value.value) if isinstance(value, ast.Number) else None


def _length(node: ast.Node) -> int:
    """The rank that lists written out ask for: `perm=[0, 2, 1]`, `x.shape == [n, c, h, w]`."""
    match node:
        case ast.Keyword(name="perm", value=ast.ListExpr(items=items)):
            return len(items)
        case ast.Compare(left=left, right=right):
            return max((len(s.items) for s in (left, right) if isinstance(s, ast.ListExpr)), default=0)
    return 0


def _by_place(node: ast.Node) -> bool:
    """Whether a node tells axes by their place, so that axes with other names are not the same rule."""
    match node:
        case ast.Call(head=ast.Name(id=name)):
            return name in BY_PLACE
        case ast.Binary(left=left, right=right):
            return any(isinstance(s, ast.Call) and s.head == ast.Name("range") for s in (left, right))
        case ast.Rest(expr=expr):
            return isinstance(expr, (ast.Field, ast.Index))
    return False


def _letters(case: Case) -> int:
    """How many permutations that the left side leaves open an axis goes through at most, on both sides."""
    bound = frozenset(
        node.value.id
        for node in walk(case.left)
        if isinstance(node, ast.Keyword) and node.name == "perm" and isinstance(node.value, ast.Name)
    )
    return sum(max(_path(side, bound)) for side in (case.left, case.right)) if bound else 0


def _path(term: ast.Expr, bound: frozenset[str]) -> tuple[int, int]:
    """The permutations from the result of a term to an operand, and those that its constants are computed with. Depth
    is that of the rule's terms."""
    match term:
        case ast.Bind(expr=inner):
            return _path(inner, bound)
        case ast.Call(head=ast.Symbol() | ast.Name(), operands=operands, keywords=keywords):
            own = [_composed(k.value, bound) for k in keywords]
            orders = max((n for k, n in zip(keywords, own, strict=True) if k.name == "perm"), default=0)
            aside = max((n for k, n in zip(keywords, own, strict=True) if k.name != "perm"), default=0)
            below = [_path(o, bound) for o in operands]
            return orders + max((p for p, _ in below), default=0), max([aside, *(a for _, a in below)])
    return 0, _composed(term, bound)


def _composed(value: ast.Expr, bound: frozenset[str]) -> int:
    """How many permutations stand within one another in an expression: two in `p[q]`."""
    match value:
        case ast.Name(id=name):
            return int(name in bound)
        case ast.Index(base=base, index=index):
            return _composed(base, bound) + _composed(index, bound)
        case ast.Call(operands=parts):
            return max((_composed(p, bound) for p in parts), default=0)
        case ast.ListExpr(items=parts):
            return max((_composed(p, bound) for p in parts), default=0)
        case ast.Rest(expr=expr) if expr is not None:
            return _composed(expr, bound)
        case ast.Binary(left=left, right=right):
            return max(_composed(left, bound), _composed(right, bound))
    return 0


CONSTANTS = frozenset(("const", "splat", "dims", "dim", "iota"))


def published(case: Case) -> int:
    """The bound of the literature, for comparison: pairs of accesses of one tensor, and the conditions."""
    uses: dict[str, int] = {}
    tensors: set[str] = set()
    for node in walk(case.left, case.right):
        if isinstance(node, ast.Name):
            uses[node.id] = uses.get(node.id, 0) + 1
        if isinstance(node, ast.Call) and not (isinstance(node.head, ast.Name) and node.head.id in CONSTANTS):
            tensors.update(item.id for item in node.operands if isinstance(item, ast.Name))
    pairs = sum(comb(uses[name], 2) for name in tensors)
    return max(1, pairs + len(case.when))
