"""Rule files from text to syntax tree: every construct, free layout, and what is kept around mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gerules.dsl import ast
from gerules.dsl.ast import (
    Between,
    Binary,
    Bind,
    Call,
    Compare,
    Field,
    Index,
    Keyword,
    ListExpr,
    Logical,
    Name,
    Number,
    OpaqueOp,
    Rest,
    SetExpr,
    Symbol,
    Text,
    Typed,
    Unary,
    Word,
)
from gerules.dsl.build import MAX_DEPTH
from gerules.dsl.lets import walk
from gerules.dsl.parser import decode, parse_file, parse_text
from gerules.dsl.program import shipped_sources


def parsed(text: str) -> tuple[ast.AnyStatement, ...]:
    file, faults = parse_text(text, "a.rules", "user/a")
    assert faults == []
    return file.statements


def one(text: str) -> ast.AnyStatement:
    (statement,) = parsed(text)
    return statement


def expression(text: str) -> ast.Expr:
    statement = one(f"let a = {text}")
    assert isinstance(statement, ast.LetDecl)
    return statement.value


X, Y, P = Name("x"), Name("y"), Name("p")

EXPRESSIONS = {
    "x": X,
    "Relu": Symbol("", "Relu"),
    "ge.Concat@1.8.0": Symbol("ge", "Concat", "1.8.0"),
    "com.microsoft.Gelu": Symbol("com.microsoft", "Gelu"),
    "Clip@11(x)": Call(Symbol("", "Clip", "11"), (X,)),
    "f(..p, x, ..q)": Call(Name("f"), (Rest(P), X, Rest(Name("q")))),
    "Relu(..)": Call(Symbol("", "Relu"), (Rest(),)),
    "Concat(..const(v), axis=-1)": Call(
        Symbol("", "Concat"),
        (Rest(Call(Name("const"), (Name("v"),))),),
        (Keyword("axis", Unary("-", Number(1))),),
    ),
    "Conv(x, w, group=g, op=1, in=2, table=3)": Call(
        Symbol("", "Conv"),
        (X, Name("w")),
        (Keyword("group", Name("g")), Keyword("op", Number(1)), Keyword("in", Number(2)), Keyword("table", Number(3))),
    ),
    '"my.domain"::"Op"(x)': Call(OpaqueOp("my.domain", "Op"), (X,)),
    "[..s, m, 1]": ListExpr((Rest(Name("s")), Name("m"), Number(1))),
    "[]": ListExpr(()),
    "{f16, bf16}": SetExpr((Name("f16"), Name("bf16"))),
    "{}": SetExpr(()),
    "x.shape[-1]": Index(Field(X, "shape"), Unary("-", Number(1))),
    "..": None,
    "p[q][0]": Index(Index(P, Name("q")), Number(0)),
    "-x * y": Binary("*", Unary("-", X), Y),
    "x + y * p": Binary("+", X, Binary("*", Y, P)),
    "x - y - p": Binary("-", Binary("-", X, Y), P),
    "(x - y) // p % 2": Binary("%", Binary("//", Binary("-", X, Y), P), Number(2)),
    "x & y == {}": Compare("==", Binary("&", X, Y), SetExpr(())),
    "x | y & p": Binary("|", X, Binary("&", Y, P)),
    "not x in y": Unary("not", Compare("in", X, Y)),
    "x or y and p": Logical("or", (X, Logical("and", (Y, P)))),
    "x or y or p": Logical("or", (X, Y, P)),
    "1..5": Between(Number(1), Number(5)),
    "(Split(x) as n)[0]": Index(Bind(Call(Symbol("", "Split"), (X,)), "n"), Number(0)),
    "x as y": Bind(X, "y"),
    "none": Word("none"),
    "true": Word("true"),
    "inf": Word("inf"),
    "nonesuch": Name("nonesuch"),
    "order": Name("order"),
    "innermost + asked": Binary("+", Name("innermost"), Name("asked")),
    '"a \\"b\\" \\\\ \\n \\q"': Text('a "b" \\ \n q'),
    "-0.0": Unary("-", Number(0.0)),
}


@pytest.mark.parametrize("text", [t for t in EXPRESSIONS if t != ".."])
def test_expression(text: str) -> None:
    assert expression(text) == EXPRESSIONS[text]


NUMBERS = {
    "7": 7,
    "9223372036854775807": 9223372036854775807,
    "0.1": 0.1,
    "1e-9": 1e-9,
    "1.2e12": 1.2e12,
    "20us": 20e-6,
    "5ns": 5e-9,
    "1.5ms": 0.0015,
    "2s": 2.0,
    "1KiB": 1024,
    "64MiB": 64 << 20,
    "1.5GiB": 3 << 29,
    "0.3KiB": 307.2,
}


@pytest.mark.parametrize("text", NUMBERS)
def test_number(text: str) -> None:
    number = expression(text)
    assert isinstance(number, Number)
    assert (number.value, type(number.value), number.text) == (NUMBERS[text], type(NUMBERS[text]), text)


STATEMENTS: dict[str, ast.AnyStatement] = {
    "opset ai.onnx 21": ast.Opset("ai.onnx", "21"),
    "opset ge 1.8.0": ast.Opset("ge", "1.8.0"),
    "class C = A | B": ast.ClassDecl("C", Binary("|", Symbol("", "A"), Symbol("", "B"))),
    'class O = operators("ai.onnx")': ast.ClassDecl("O", Call(Name("operators"), (Text("ai.onnx"),))),
    "op my.A(x: T, y: T?, zs: T*, k: int = 0) -> y: T": ast.OpDecl(
        Symbol("my", "A"),
        (
            ast.Param("x", ast.TypeExpr("T")),
            ast.Param("y", ast.TypeExpr("T", "?")),
            ast.Param("zs", ast.TypeExpr("T", "*")),
            ast.Param("k", ast.TypeExpr("int"), Number(0)),
        ),
        (ast.Param("y", ast.TypeExpr("T")),),
    ),
    "op my.A() -> (y: T, z: T)": ast.OpDecl(
        Symbol("my", "A"), (), (ast.Param("y", ast.TypeExpr("T")), ast.Param("z", ast.TypeExpr("T")))
    ),
    'table t(a: str) -> float from "t.csv"': ast.TableDecl(
        "t", (ast.Param("a", ast.TypeExpr("str")),), ast.TypeExpr("float"), "t.csv"
    ),
    "table t(a: str)": ast.TableDecl("t", (ast.Param("a", ast.TypeExpr("str")),)),
    "function f(p: ints, xs: any*) -> ints": ast.FunctionDecl(
        "f",
        (ast.Param("p", ast.TypeExpr("ints")), ast.Param("xs", ast.TypeExpr("any", "*"))),
        ast.TypeExpr("ints"),
    ),
    "let a(x, y) = x": ast.LetDecl("a", ("x", "y"), X),
    "let a = 1": ast.LetDecl("a", (), Number(1)),
    "rewrite a[f in A | B, g in C] finite: f(x) <=> g(x) when x, y": ast.Rewrite(
        "a",
        (
            ast.Member("f", Binary("|", Symbol("", "A"), Symbol("", "B"))),
            ast.Member("g", Symbol("", "C")),
        ),
        "finite",
        Call(Name("f"), (X,)),
        True,
        Call(Name("g"), (X,)),
        (X, Y),
    ),
    "rewrite a: x => y": ast.Rewrite("a", (), "", X, False, Y, ()),
    "fact a: x, y when p": ast.Fact("a", (), (X, Y), (P,)),
    'deny a: "no {x}" when x': ast.Refuse("deny", "a", (), "no {x}", (X,)),
    'warn a: "no" when x': ast.Refuse("warn", "a", (), "no", (X,)),
    "merge m: a -> b when x": ast.Merge("m", (), "a", "b", (X,)),
    "group g[f in A]: x when y": ast.Group("g", (ast.Member("f", Symbol("", "A")),), X, (Y,)),
    "transfer A <-> B = 1us": ast.Transfer("A", "B", True, Number(1e-6)),
    "transfer A -> B = x": ast.Transfer("A", "B", False, X),
    "study s: vary a in {1} vary b in 1..2": ast.Study(
        "s", (ast.Vary("a", SetExpr((Number(1),))), ast.Vary("b", Between(Number(1), Number(2))))
    ),
    "example a: x: f32[N] => y refuted without p": ast.Example(
        "a", (Typed("x", "f32", (Symbol("", "N"),)),), ast.Becomes(Y, P)
    ),
    "example a: x, y stays because p": ast.Example("a", (X, Y), ast.Stays(P)),
    "example a: x gives y, p": ast.Example("a", (X,), ast.Gives((Y, P))),
    "schedule s: repeat 2 (saturate a run b/c, user (limit = 3)) limit (nodes = 9)": ast.Schedule(
        "s",
        (
            ast.RepeatStep(
                2,
                (
                    ast.RunStep("saturate", ("a",)),
                    ast.RunStep("run", ("b/c", "user"), (Keyword("limit", Number(3)),)),
                ),
            ),
            ast.LimitStep((Keyword("nodes", Number(9)),)),
        ),
    ),
    "engine E: memory = M cost = 1 cost[f in A] f(x) = 2 when x supports g(y) supports[f in A] f(..)": ast.Engine(
        "E",
        (
            ast.Property("memory", Symbol("", "M")),
            ast.Cost((), None, Number(1), ()),
            ast.Cost((ast.Member("f", Symbol("", "A")),), Call(Name("f"), (X,)), Number(2), (X,)),
            ast.Supports((), Call(Name("g"), (Y,)), ()),
            ast.Supports((ast.Member("f", Symbol("", "A")),), Call(Name("f"), (Rest(),)), ()),
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", STATEMENTS)
def test_statement(text: str) -> None:
    assert one(text) == STATEMENTS[text]


def test_doc_strings_before_a_statement_are_one() -> None:
    first, second = parsed('"Two"\n# a comment\n"lines."\nclass A = B\nclass C = D')
    assert (first.doc, second.doc) == ("Two lines.", "")


def test_layout_means_nothing() -> None:
    text = "opset ai.onnx 21\nrewrite a:\n    Relu(x) => x\n    when x.rank == 1,\n         x.size == 2\n"
    expected = parsed(text)
    crowded = " ".join(text.split())
    for variant in (crowded, text.replace("    ", "\t"), text.replace("\n", "\r\n"), text.replace("\n", "\r")):
        assert parsed(variant) == expected
    assert parsed("\ufeff" + text) == expected
    assert parsed(text.replace("\n", " # a comment\n")) == expected


def test_spans_point_at_what_was_written() -> None:
    text = '"Doc."\r\nclass A = B\r\nrewrite a:\r\n\tRelu(x, k=3) => x\r\n'
    file, faults = parse_text(text, "a.rules", "user/a")
    rewrite = file.statements[1]
    assert faults == [] and isinstance(rewrite, ast.Rewrite)
    span = rewrite.left.span
    assert (span.line, span.column, span.end_line, span.end_column) == (4, 2, 4, 14)
    assert file.source[span.start : span.end] == "Relu(x, k=3)"


@pytest.mark.parametrize("source", shipped_sources(), ids=lambda s: s.ruleset)
def test_spans_of_shipped_rules(source: object) -> None:
    from gerules.dsl.program import RuleSource

    assert isinstance(source, RuleSource)
    file, faults = parse_file(source.path)
    assert faults == []
    lines = file.source.split("\n")
    for node in (n for s in file.statements for n in walk(s)):
        span = node.span
        before = sum(len(line) + 1 for line in lines[: span.line - 1])
        assert before + span.column - 1 == span.start
        assert 0 <= span.start < span.end <= len(file.source)
        if isinstance(node, Name):
            assert file.source[span.start : span.end] == node.id


def test_five_mistakes_give_five_reports_and_the_rest_is_kept() -> None:
    text = """opset ai.onnx 21
rewrite a Relu(x) => x
"kept"
rewrite b: Identity(x) => x
rewrite c: Relu(x) -> x
rewrit d: Relu(x) => x
engine E:
    cost = 1us;
    supports Relu(x
    memory = M
fact ok: wide(x) when Relu(x)
rewrite e: Relu(x) => x when x.rank = 1
"""
    file, faults = parse_text(text, "a.rules", "user/a")
    assert [(f.code, f.span.line) for f in faults if f.span] == [
        ("GR107", 2), ("GR104", 5), ("GR110", 6), ("GR109", 8), ("GR113", 9), ("GR103", 12),
    ]  # fmt: skip
    assert [getattr(s, "name", "opset") for s in file.statements] == ["opset", "b", "ok"]
    assert file.statements[1].doc == "kept"
    assert file.broken == ("a", "c", "d", "E", "e")


def test_a_statement_that_is_not_finished_does_not_hide_the_next() -> None:
    file, faults = parse_text("rewrite a: Relu(x) =>\nrewrite b: Abs(x) => x\n", "a.rules", "user/a")
    assert [f.code for f in faults] == ["GR116"]
    assert [s.name for s in file.statements if isinstance(s, ast.Rewrite)] == ["b"]


def test_keywords_are_whole_words() -> None:
    rewrite = one("rewrite a: Relu(x) => x when x == 1, order == 2")
    assert isinstance(rewrite, ast.Rewrite) and len(rewrite.when) == 2
    _, faults = parse_text("rewrite a: Relu(x) => x when x == 1\n    order == 2\n", "a.rules", "user/a")
    assert [f.code for f in faults] == ["GR102"]


def test_depth_has_a_bound_and_brackets_do_not_count() -> None:
    deep = 10_000
    assert expression("(" * deep + "x" + ")" * deep) == X
    for text in ("-" * deep + "x", "f(" * deep + "x" + ")" * deep, "x" + " + x" * deep, "x" + ".shape" * deep):
        file, faults = parse_text(f"let a = {text}\nlet b = 1", "a.rules", "user/a")
        assert [f.code for f in faults] == ["GR120"]
        assert len(file.statements) == 1
    assert isinstance(expression("-" * (MAX_DEPTH - 3) + "x"), Unary)


def test_a_class_of_thousands_keeps_its_order() -> None:
    names = [f"A{i}" for i in range(3000)]
    union = expression(" | ".join(names))
    leaves = [n.name for n in walk(union) if isinstance(n, Symbol)]
    assert leaves == names


def test_five_thousand_rules() -> None:
    text = "".join(f"rewrite a{i}: Relu(x, k={i}) => x when x.rank == {i}\n" for i in range(5000))
    file, faults = parse_text(text, "a.rules", "user/a")
    assert (len(file.statements), faults) == (5000, [])


def test_hundreds_of_mistakes_are_hundreds_of_reports() -> None:
    text = "".join(f"rewrite a{i}: Relu(x) => x when x.rank = {i}\nclass C{i} = Relu\n" for i in range(400))
    file, faults = parse_text(text, "a.rules", "user/a")
    assert (len(file.statements), len(faults)) == (400, 400)
    assert [f.span.line for f in faults if f.span] == [2 * i + 1 for i in range(400)]


def test_files_that_are_no_text(tmp_path: Path) -> None:
    for data, words in ((b"\x7fELF\0\0", "binary"), (b"# a\n# caf\xe9", "line 2")):
        path = tmp_path / "a.rules"
        path.write_bytes(data)
        file, faults = parse_file(path)
        assert file.statements == () and [f.code for f in faults] == ["GR114"]
        assert words in faults[0].message
    file, faults = parse_file(tmp_path / "not_there.rules")
    assert [f.code for f in faults] == ["GR115"] and faults[0].file == str(tmp_path / "not_there.rules")


def test_rulesets_are_paths_below_the_root(tmp_path: Path) -> None:
    path = tmp_path / "shape" / "dims.rules"
    path.parent.mkdir()
    path.write_bytes(b"\xef\xbb\xbfclass A = B\r\n")
    file, faults = parse_file(path, tmp_path)
    assert (file.ruleset, faults, len(file.statements)) == ("shape/dims", [], 1)
    assert parse_file(path)[0].ruleset == "user/dims"
    assert decode(b"", "a") == ("", [])
