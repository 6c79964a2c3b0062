"""Abbreviations: written out before anything is checked, without catching names, within bounds."""

from __future__ import annotations

import pytest

from gerules.dsl import ast
from gerules.dsl.lets import children, cycle, depth_of, expand, expand_statement, walk
from gerules.dsl.parser import parse_text
from gerules.errors import GerulesError


def lets(*texts: str) -> dict[str, ast.LetDecl]:
    file, faults = parse_text("\n".join(f"let {t}" for t in texts), "a.rules", "user/a")
    assert faults == []
    return {s.name: s for s in file.statements if isinstance(s, ast.LetDecl)}


def expression(text: str) -> ast.Expr:
    return lets(f"it = {text}")["it"].value


EXPANSIONS = {
    "twice(Abs(y))": (["twice(x) = Relu(Relu(x))"], "Relu(Relu(Abs(y)))"),
    "big + 1": (["big = 7"], "7 + 1"),
    "outer(y)": (["outer(a) = inner(a, a)", "inner(x, y) = Add(x, y)"], "Add(y, y)"),
    "swap(y, x)": (["swap(x, y) = Sub(y, x)"], "Sub(x, y)"),
    "apply(Relu, y)": (["apply(f, x) = f(x)"], "Relu(y)"),
    "apply(g, y)": (["apply(f, x) = f(x)"], "g(y)"),
    "act(x)": (["act = Relu"], "Relu(x)"),
    "joined(y, r)": (["joined(x, r) = Concat(x, ..r, axis=0)"], "Concat(y, ..r, axis=0)"),
    "size([1, 2])": (["size(d) = fill(0, d.size)"], "fill(0, [1, 2].size)"),
    "Relu(x)": (["twice(x) = Relu(Relu(x))"], "Relu(x)"),
    "Relu(twice)": (["twice(x) = Relu(Relu(x))"], "Relu(twice)"),
}


@pytest.mark.parametrize("text", EXPANSIONS)
def test_expansion(text: str) -> None:
    declared, expected = EXPANSIONS[text]
    assert expand(expression(text), lets(*declared)) == expression(expected)


def test_names_bound_in_a_let_are_its_own() -> None:
    declared = lets("normed(x) = Div(Relu(x) as y, y)")
    expanded = expand(expression("Add(normed(a), normed(y))"), declared)
    names = [n.name for n in walk(expanded) if isinstance(n, ast.Bind)]
    assert len(set(names)) == 2
    assert all(not name[0].islower() for name in names), "no name that a person can write in this place"
    used = [n.id for n in walk(expanded) if isinstance(n, ast.Name)]
    assert used == ["a", names[0], "y", names[1]]


FAULTS = {
    "twice(x, y)": "GR163",
    "twice()": "GR163",
    "seven(x)": "GR163",
    "twice(x=1)": "GR163",
    "apply(1, x)": "GR163",
    "named(x, 1)": "GR163",
    "loop(x)": "GR162",
    "grown(x)": "GR120",
}


@pytest.mark.parametrize("text", FAULTS)
def test_misuse(text: str) -> None:
    declared = lets(
        "twice(x) = Relu(Relu(x))",
        "seven = 7",
        "apply(f, x) = f(x)",
        "named(x, y) = Relu(x) as y",
        "loop(x) = Relu(loop(x))",
        "ten(x) = [x, x, x, x, x, x, x, x, x, x]",
        "grown(x) = ten(ten(ten(ten(ten(ten(x))))))",
    )
    with pytest.raises(GerulesError) as caught:
        expand(expression(text), declared)
    assert [d.code for d in caught.value.diagnostics] == [FAULTS[text]]


def test_chains_of_lets_are_bounded_too() -> None:
    declared = lets("a0(x) = Relu(x)", *(f"a{i}(x) = a{i - 1}(Relu(x))" for i in range(1, 500)))
    with pytest.raises(GerulesError) as caught:
        expand(expression("a499(x)"), declared)
    assert caught.value.diagnostics[0].code == "GR120"


def test_cycles_are_found_in_long_chains() -> None:
    straight = lets(*(f"a{i}(x) = a{i + 1}(x)" for i in range(4000)), "a4000(x) = x")
    assert cycle(straight) is None
    bent = lets(*(f"a{i}(x) = a{(i + 1) % 2000}(x)" for i in range(2000)))
    found = cycle(bent)
    assert found is not None and found[0] == found[-1] and len(found) == 2001


def test_a_fault_in_a_let_says_where_it_is_used() -> None:
    declared = lets("inner(x) = Relu(x)", "outer(x) = inner(x, x)")
    file, _ = parse_text("rewrite a: outer(x) => x", "b.rules", "user/b")
    with pytest.raises(GerulesError) as caught:
        expand_statement(file.statements[0], declared)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.span is not None and diagnostic.span.file == "a.rules"
    assert [label.span.file for label in diagnostic.labels] == ["b.rules"]


def test_walk_is_in_order_of_writing() -> None:
    node = expression("f(a, k=b) + [c, ..d][e]")
    assert [n.id for n in walk(node) if isinstance(n, ast.Name)] == ["f", "a", "b", "c", "d", "e"]
    assert depth_of(node) == 5
    assert children(expression("x")) == []
