"""Facts, denies and warnings over tables: strata, bounds, absence, files, and what cannot be said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from registries import rules

from gerules.dsl.program import RuleSource, check_program
from gerules.errors import GerulesError
from gerules.policy import Answers, Policy, Row
from gerules.policy.examples import about_tables, run_example
from gerules.policy.texts import decode, encode
from gerules.registry import onnx_registry


def decide(
    folder: Path,
    text: str,
    tables: Mapping[str, Sequence[Row]],
    wanted: Sequence[str] = (),
    refuses: Sequence[str] | None = None,
) -> Answers:
    path = folder / "f.rules"
    path.write_text(text)
    program, _ = check_program([RuleSource(path, "user/f", str(path))], onnx_registry())
    return Policy(program, ("user",)).decide(tables, wanted, refuses)


EDGES = """
table edge(a: str, b: str)
table size(a: str) -> int
"""


def test_facts_lead_to_facts(tmp_path: Path) -> None:
    text = EDGES + "fact one: path(a, b) when edge(a, b)\nfact more: path(a, c) when path(a, b), edge(b, c)"
    rows = decide(tmp_path, text, {"edge": [("a", "b"), ("b", "c"), ("c", "a")]}, ("path",)).rows["path"]
    assert len(rows) == 9


def test_absence_is_asked_when_all_is_known(tmp_path: Path) -> None:
    text = EDGES + (
        "fact one: path(a, b) when edge(a, b)\nfact more: path(a, c) when path(a, b), edge(b, c)\n"
        "fact apart: apart(a, b) when edge(a, _), edge(_, b), not path(a, b)\n"
        "fact end: end(b) when edge(_, b), not edge(b, _)\n"
        "fact lacks: none_at_all(a) when edge(a, _), not size(a)"
    )
    answers = decide(
        tmp_path, text, {"edge": [("a", "b"), ("b", "c")], "size": [("a", 1)]}, ("apart", "end", "none_at_all")
    )
    assert answers.rows["apart"] == (("b", "b"),)
    assert answers.rows["end"] == (("c",),)
    assert answers.rows["none_at_all"] == (("b",),)


def test_bounds_keep_the_least_and_the_greatest(tmp_path: Path) -> None:
    text = EDGES + (
        "fact low: least(a) <= size(b) when edge(a, b)\nfact high: most(a) >= size(b) + 1 when edge(a, b)\n"
        "fact both: spread(a, most(a) - least(a)) when edge(a, _)"
    )
    tables = {"edge": [("a", "b"), ("a", "c")], "size": [("b", 3), ("c", -2)]}
    answers = decide(tmp_path, text, tables, ("least", "most", "spread"))
    assert answers.values("least") == {("a",): -2} and answers.values("most") == {("a",): 4}
    assert answers.rows["spread"] == (("a", 6),)


def test_or_sets_and_comparisons(tmp_path: Path) -> None:
    text = EDGES + (
        "fact some: some_of(a) when size(a) == k, k > 2 or k == 0\n"
        'fact in_set: named(a) when edge(a, b), b in {"x", "y"}\n'
        'fact not_in: others(a) when edge(a, b), not b in {"x", "y"}\n'
        "fact least: small(a) when not size(a) >= 3, edge(a, _)"
    )
    tables = {"edge": [("a", "x"), ("b", "z")], "size": [("a", 3), ("b", 0), ("c", 1)]}
    answers = decide(tmp_path, text, tables, ("some_of", "named", "others", "small"))
    assert {n: [r[0] for r in rows] for n, rows in answers.rows.items()} == {
        "some_of": ["a", "b"], "named": ["a"], "others": ["b"], "small": ["b"],
    }  # fmt: skip


def test_messages_have_their_holes_filled(tmp_path: Path) -> None:
    text = (
        "table node(n: node, f: op)\ntable size(n: node) -> int\n"
        'deny large: "{n} has {k}" when node(n, f), size(n) == k, k > 1\nwarn small: "{n} is small" when size(n) == 1'
    )
    answers = decide(tmp_path, text, {"node": [("a b", "Foo"), ("c", "Foo")], "size": [("a b", 2), ("c", 1)]})
    found = [(r.severity, r.message, r.nodes, r.operators) for r in answers.refusals]
    assert found == [("deny", "a b has 2", ("a b",), ("Foo",)), ("warn", "c is small", ("c",), ())]


@pytest.mark.parametrize(
    "text", ["", " a ", "tab\there", "line\nbreak", 'q"', "back\\slash", "\\e", "\\|x\\|", "\u00fc", "a\0b"]
)
def test_any_text_goes_through_a_table(tmp_path: Path, text: str) -> None:
    assert decode(encode(text)) == text
    answers = decide(tmp_path, EDGES + "fact back: back(b, a) when edge(a, b)", {"edge": [(text, "x")]}, ("back",))
    assert answers.rows["back"] == (("x", text),)


def test_tables_from_files(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text('a,size\nx,1\n"y, z",2\n')
    text = 'table size(a: str) -> int from "s.csv"\nfact two: two(a) when size(a) == 2'
    assert decide(tmp_path, text, {}, ("two",)).rows["two"] == (("y, z",),)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (None, "cannot be read"),
        ("b,size\n", "its columns are a"),
        ("a,size\nx\n", "has 1 cells"),
        ("a,size\nx,one\n", "is no int"),
        ("a,size\nx,1\nx,2\n", "has two values"),
    ],
)
def test_tables_from_files_that_are_wrong(tmp_path: Path, file: str | None, said: str) -> None:
    if file is not None:
        (tmp_path / "s.csv").write_text(file)
    text = 'table size(a: str) -> int from "s.csv"\nfact two: two(a) when size(a) == 2'
    with pytest.raises(GerulesError) as caught:
        decide(tmp_path, text, {}, ("two",))
    assert said in caught.value.diagnostics[0].message
    assert caught.value.diagnostics[0].code in ("GR664", "GR665")


@pytest.mark.parametrize(
    ("fact", "code"),
    [
        ("fact f: p(a) when edge(a, b), a < b", "GR661"),
        ("fact f: p(a) when edge(a, b), q(b)", "GR660"),
        ("fact f: p(a) when size(a) % 2 == 1", "GR661"),
        ("fact f: p(a) when edge(a, b, b)", "GR660"),
        ("fact f: p(a, k + 1) when p(a, k)\nfact g: p(a, 0) when edge(a, _)", "GR667"),
        ("fact f: p(a) == k when size(a) == k\nfact g: p(a) == k + 1 when size(a) == k", "GR665"),
        ("fact f: p(a) when edge(a, _), not p(a)", "GR148"),
        ("fact f: p(a) when Relu(a) as y", "GR661"),
    ],
)
def test_what_cannot_be_decided_is_said(tmp_path: Path, fact: str, code: str) -> None:
    with pytest.raises(GerulesError) as caught:
        decide(tmp_path, EDGES + fact, {"edge": [("a", "b")], "size": [("a", 1)]}, ("p",))
    assert caught.value.diagnostics[0].code == code


def test_a_row_that_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(GerulesError) as caught:
        decide(tmp_path, EDGES + "fact f: p(a) when size(a) == 1", {"size": [("a", "1")]}, ("p",))
    assert caught.value.diagnostics[0].code == "GR664"


def test_examples_of_the_shipped_policy_hold() -> None:
    program = rules().program
    run = [e for e in program.examples if about_tables(program, e)]
    assert len(run) >= 38
    assert [d for e in run if (d := run_example(program, e)) is not None] == []


@pytest.mark.parametrize(
    ("example", "said"),
    [
        ('example f: edge("a", "b") gives p("a")', None),
        ('example f: edge("a", "b"), size("a") == 1 gives p("a")', "this does not follow"),
        ('example f: edge("a", "b"), size("a") == 1 stays because not size(a)', None),
        ('example f: size("b") == 1 stays because not size(a)', "something else holds the rule back"),
        ('example f: edge("a", "b") stays because not size(a)', "the rule fires here"),
        ('example g: edge("a", "b") gives "a and b"', None),
        ('example g: edge("a", "b") gives "b and a"', "the rule does not say this"),
    ],
)
def test_examples_that_hold_and_that_do_not(tmp_path: Path, example: str, said: str | None) -> None:
    text = EDGES + 'fact f: p(a) when edge(a, _), not size(a)\ndeny g: "{a} and {b}" when edge(a, b)\n' + example
    path = tmp_path / "f.rules"
    path.write_text(text)
    program, _ = check_program([RuleSource(path, "user/f", "f.rules")], onnx_registry())
    (entry,) = program.examples
    assert about_tables(program, entry)
    found = run_example(program, entry)
    assert (found is None) if said is None else (found is not None and said in found.message)
