"""Whole numbers and truths that are numbers of Python as long as they can, and z3's terms where they cannot.

Folding what is known keeps queries small: most structure (ranks, axes, flags) is concrete, and a term is built only
where a size takes part.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import z3

Int: TypeAlias = int | z3.ArithRef
Bool: TypeAlias = bool | z3.BoolRef


def same(a: object, b: object) -> bool:
    """Whether two terms are the same text: a proof without a solver."""
    if isinstance(a, z3.ExprRef) and isinstance(b, z3.ExprRef):
        return bool(a.eq(b))
    return type(a) is type(b) and a == b


def add(a: Int, b: Int) -> Int:
    if isinstance(a, int) and a == 0:
        return b
    if isinstance(b, int) and b == 0:
        return a
    return a + b


def sub(a: Int, b: Int) -> Int:
    if isinstance(b, int) and b == 0:
        return a
    return 0 if same(a, b) else a - b


def mul(a: Int, b: Int) -> Int:
    for x, y in ((a, b), (b, a)):
        if isinstance(x, int) and x in (0, 1):
            return y if x else 0
    return a * b


def eq(a: Int, b: Int) -> Bool:
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return True if same(a, b) else a == b


def le(a: Int, b: Int) -> Bool:
    if isinstance(a, int) and isinstance(b, int):
        return a <= b
    return True if same(a, b) else a <= b


def lt(a: Int, b: Int) -> Bool:
    if isinstance(a, int) and isinstance(b, int):
        return a < b
    return False if same(a, b) else a < b


def negation(a: Bool) -> Bool:
    return not a if isinstance(a, bool) else z3.Not(a)


def conjunction(items: Iterable[Bool]) -> Bool:
    kept: list[z3.BoolRef] = []
    for item in items:
        if isinstance(item, bool):
            if not item:
                return False
        elif not any(item.eq(k) for k in kept):
            kept.append(item)
    if not kept:
        return True
    return kept[0] if len(kept) == 1 else z3.And(*kept)


def disjunction(items: Iterable[Bool]) -> Bool:
    return negation(conjunction(negation(i) for i in items))


def ite(condition: Bool, a: Int, b: Int) -> Int:
    if isinstance(condition, bool):
        return a if condition else b
    return a if same(a, b) else z3.If(condition, a, b)


def choose(condition: Bool, a: z3.ExprRef, b: z3.ExprRef) -> z3.ExprRef:
    """`ite` of elements."""
    if isinstance(condition, bool):
        return a if condition else b
    return a if a.eq(b) else z3.If(condition, a, b)


def least(a: Int, b: Int) -> Int:
    return ite(le(a, b), a, b)


def most(a: Int, b: Int) -> Int:
    return ite(le(b, a), a, b)


def total(items: Iterable[Int]) -> Int:
    result: Int = 0
    for item in items:
        result = add(result, item)
    return result


def product(items: Iterable[Int]) -> Int:
    result: Int = 1
    for item in items:
        result = mul(result, item)
    return result


def term(a: Int) -> z3.ArithRef:
    return z3.IntVal(a) if isinstance(a, int) else a
