"""Files put together: full names, classes, versions, declared operators, what is shared and what is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gerules.dsl import ast
from gerules.dsl.assemble import assemble
from gerules.dsl.parser import parse_text
from gerules.dsl.program import (
    Program,
    RuleSource,
    check_program,
    folder_sources,
    load_program,
    shipped_sources,
    user_sources,
)
from gerules.dsl.resolve import OPAQUE
from gerules.errors import Diagnostic, GerulesError
from gerules.paths import rules_root
from gerules.registry import onnx_registry


def program(*texts: str) -> tuple[Program, list[Diagnostic]]:
    """One file a text: `a.rules`, `b.rules`, ... in rulesets `a`, `b`, ..."""
    files = []
    for name, text in zip("abcdefgh", texts, strict=False):
        file, faults = parse_text(text, f"{name}.rules", name)
        assert faults == []
        files.append(file)
    return assemble(files, onnx_registry())


def sound(*texts: str) -> Program:
    made, faults = program(*texts)
    assert faults == []
    return made


def codes(diagnostics: Sequence[Diagnostic]) -> list[str]:
    return [d.code for d in diagnostics]


def expression(text: str) -> ast.Expr:
    statement = parse_text(f"let a = {text}", "x.rules", "x")[0].statements[0]
    assert isinstance(statement, ast.LetDecl)
    return statement.value


# ------------------------------------------------------------------------------------------------------------ classes


def test_classes_are_sets_in_order_of_first_mention() -> None:
    made = sound(
        "opset ai.onnx 21\nclass A = Add | Sub\nclass B = Mul | A | Add | Clip@6\nclass C = B - A\nclass D = B & A\n"
        "class Half = {f16, bf16}\nclass Real = Half | {f32}"
    )
    assert {name: members.keys for name, members in made.classes.items()} == {
        "A": ("Add@14", "Sub@14"),
        "B": ("Mul@14", "Add@14", "Sub@14", "Clip@6"),
        "C": ("Mul@14", "Clip@6"),
        "D": ("Add@14", "Sub@14"),
        "Half": ("f16", "bf16"),
        "Real": ("f16", "bf16", "f32"),
    }
    assert made.element_types("Real") == {"f16", "bf16", "f32"}
    assert made.element_types("A") is None and made.element_types("Nothing") is None


def test_in_engines_a_class_means_every_version() -> None:
    made = sound("opset ai.onnx 21\nclass Matrix = MatMul | Gemm@9", "opset ge 1.2.0")
    file = made.files[1]
    assert made.wide_classes["Matrix"].keys == ("MatMul@1", "MatMul@9", "MatMul@13", "Gemm@9")
    wide = made.members(expression("Matrix - Gemm@9 | Opaque"), file, wide=True)
    assert [d.key for d in wide] == ["MatMul@1", "MatMul@9", "MatMul@13"]
    assert made.takes_opaque(expression("Matrix | Opaque"), file) and not made.takes_opaque(expression("Matrix"), file)
    assert made.scope.members(expression("Opaque"), file).keys == (OPAQUE,)


def test_all_operators_of_a_domain() -> None:
    made = sound('op my.A(x: T) -> y: T\nclass Mine = operators("my")\nclass Onnx = operators("ai.onnx")')
    assert made.classes["Mine"].keys == ("my.A@1",)
    everything = made.classes["Onnx"].keys
    assert {"Relu@6", "Relu@14", "Clip@11"} <= set(everything) and len(set(everything)) == len(everything)


def test_a_class_may_be_declared_after_its_use_and_in_another_file() -> None:
    made = sound("opset ai.onnx 21\nclass A = B | Relu", "opset ai.onnx 21\nclass B = C\nclass C = Abs")
    assert made.classes["A"].keys == ("Abs@13", "Relu@14")


def test_long_chains_of_classes_end_in_a_message() -> None:
    made, faults = program(
        "opset ai.onnx 21\n" + "\n".join(f"class A{i} = A{i + 1}" for i in range(3000)) + "\nclass A3000 = Relu"
    )
    assert set(codes(faults)) == {"GR120"}
    assert made.classes["A3000"].keys == ("Relu@14",)


# ----------------------------------------------------------------------------------------------------------- versions

RESOLVED = {
    "Relu": ["Relu@14"],
    "Clip@11": ["Clip@11"],
    "ai.onnx.Clip@6": ["Clip@6"],
    "my.A": ["my.A@2"],
    "my.A@1": ["my.A@1"],
    "ge.Concat@1.8.0": [],
}


@pytest.mark.parametrize("text", RESOLVED)
def test_resolve(text: str) -> None:
    made = sound("opset ai.onnx 21", "op my.A@1(x: T) -> y: T\nop my.A@2(x: T, k: int = 3) -> y: T")
    symbol = expression(text)
    assert isinstance(symbol, ast.Symbol)
    assert [d.key for d in made.resolve(symbol, made.files[0])] == RESOLVED[text]


UNRESOLVED = {"Rleu": "GR130", "Clip@10": "GR134", "my.B": "GR130", "your.A": "GR130", "GroupNormalization@3": "GR134"}


@pytest.mark.parametrize("text", UNRESOLVED)
def test_not_resolved(text: str) -> None:
    made = sound("opset ai.onnx 21", "op my.A(x: T) -> y: T")
    symbol = expression(text)
    assert isinstance(symbol, ast.Symbol)
    with pytest.raises(GerulesError) as caught:
        made.resolve(symbol, made.files[0])
    assert codes(caught.value.diagnostics) == [UNRESOLVED[text]]


def test_the_same_name_means_another_version_at_another_opset() -> None:
    made = sound("opset ai.onnx 12", "opset ai.onnx 21", "class A = Relu@6")
    symbol = ast.Symbol("", "Clip")
    assert [d.key for file in made.files[:2] for d in made.resolve(symbol, file)] == ["Clip@12", "Clip@13"]
    with pytest.raises(GerulesError) as caught:
        made.resolve(symbol, made.files[2])
    assert codes(caught.value.diagnostics) == ["GR135"]
    assert [d.key for d in made.resolve(symbol, made.files[2], wide=True)] == [
        "Clip@1", "Clip@6", "Clip@11", "Clip@12", "Clip@13",
    ]  # fmt: skip


def test_a_declared_operator_is_a_definition_like_any_other() -> None:
    made = sound(
        'op my.A(x: T, y: T?, zs: T*, axes: ints, k: int = -2, a: float = 0.1, m: str = "edge", d: dtype = f16, '
        "n: int?) -> (y: T, ws: T*)"
    )
    definition = made.definition("my.A@1")
    assert made.operators == {"my.A@1": definition}
    assert [(o.name, o.kind) for o in definition.inputs] == [("x", "required"), ("y", "optional"), ("zs", "variadic")]
    assert [(a.name, a.type, a.required, a.default) for a in definition.attributes] == [
        ("axes", "ints", True, None),
        ("k", "int", False, "-2"),
        ("a", "float", False, "0.1"),
        ("m", "str", False, "edge"),
        ("d", "dtype", False, "f16"),
        ("n", "int", False, None),
    ]
    assert [o.kind for o in definition.outputs] == ["required", "variadic"]


# -------------------------------------------------------------------------------------------------------------- names


def test_full_names_and_order() -> None:
    made = sound(
        "opset ai.onnx 21\nrewrite r: Relu(x) => x\nfact f: p(x) when Relu(x)\nexample r: Relu(x: f32[]) => x\n"
        'rewrite q: Abs(x) => x\ndeny d: "no" when Relu(x)\nschedule s: run a\nstudy t: vary seed in 1..2',
        "engine E:\n    cost = 1\nmerge m: a -> b when a.engine == b.engine\ngroup g: Relu(Abs(x))\n"
        "transfer E -> F = 1",
    )
    assert list(made.rewrites) == ["a.r", "a.q"] and list(made.facts) == ["a.f"] and list(made.refuses) == ["a.d"]
    assert list(made.engines) == ["b.E"] and list(made.merges) == ["b.m"] and list(made.groups) == ["b.g"]
    assert list(made.schedules) == ["a.s"] and list(made.studies) == ["a.t"]
    assert [e.full for e in made.transfers] == ["b.E-F"] and [e.full for e in made.examples] == ["a.r"]
    assert made.without_example() == ("a.q",)
    assert made.rulesets() == ("a", "b", "user")
    assert [e.full for e in made.in_ruleset("a")] == ["a.r", "a.q", "a.f"]
    assert made.sources["b.rules"].startswith("engine E")


def test_rulesets_are_files_and_folders(tmp_path: Path) -> None:
    for name in ("a.rules", "sub/b.rules", "sub/deep/c.rules", "sub/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("opset ai.onnx 21\nrewrite r: Relu(x) => x\n", "utf-8")
    made = load_program(folder_sources(tmp_path), onnx_registry())
    assert made.rulesets() == ("a", "sub", "sub/b", "sub/deep", "sub/deep/c", "user")
    assert [e.full for e in made.in_ruleset("sub")] == ["sub/b.r", "sub/deep/c.r"]
    assert [s.ruleset for s in user_sources(tmp_path)] == ["user/a", "user/sub/b", "user/sub/deep/c"]
    assert [s.ruleset for s in user_sources(tmp_path / "sub" / "b.rules")] == ["user/b"]
    for missing in (tmp_path / "no.rules", tmp_path / "sub" / "empty"):
        if not missing.suffix:
            missing.mkdir()
        with pytest.raises(GerulesError) as caught:
            user_sources(missing)
        assert codes(caught.value.diagnostics) == ["GR115"]


def test_shipped_files_keep_their_names_when_a_user_names_them() -> None:
    assert [s.ruleset for s in user_sources(rules_root() / "broadcast" / "implicit.rules")] == ["broadcast/implicit"]
    assert user_sources(rules_root()) == shipped_sources()
    twice = [*shipped_sources(), *user_sources(rules_root() / "cleanup.rules")]
    made = load_program(twice, onnx_registry())
    assert len({f.path for f in made.files}) == len(made.files) == len(shipped_sources())


def test_declarations_are_shared_and_may_be_repeated_word_for_word() -> None:
    same = "class Half = {f16, bf16}\ntable t(a: str)\nfunction f(a: int) -> int\nlet g(x) = x\nop my.A(x: T) -> y: T\n"
    assert program(same, same)[1] == []
    assert codes(program(same, same.replace("bf16", "f32"))[1]) == ["GR141"]
    assert codes(program(same + "table t(a: str)\n")[1]) == ["GR141"]
    at = "opset ai.onnx {}\nclass A = Clip\n"
    assert codes(program(at.format(12), at.format(21))[1]) == ["GR141"]


def test_engines_of_two_targets_may_have_one_name() -> None:
    engine = "engine Npu:\n    cost = 1us\n"
    assert list(sound(engine, engine).engines) == ["a.Npu", "b.Npu"]
    assert codes(program(engine + engine)[1]) == ["GR141"]


def test_statements_have_their_lets_written_out() -> None:
    made = sound("opset ai.onnx 21\nrewrite r: twice(x) => x", "let twice(x) = Relu(Relu(x))")
    entry = made.rewrites["a.r"]
    assert entry.statement.left == expression("Relu(Relu(x))")
    assert entry.written.left == expression("twice(x)")
    assert made.expand_lets(expression("twice(y)")) == expression("Relu(Relu(y))")


# ------------------------------------------------------------------------------------------------------------ loading


def test_loading_raises_every_error_of_every_file(tmp_path: Path) -> None:
    (tmp_path / "a.rules").write_text("opset ai.onnx 21\nrewrite a Relu(x) => x\nrewrite b: Rleu(x) => x\n", "utf-8")
    (tmp_path / "b.rules").write_bytes(b"\0")
    (tmp_path / "c.rules").write_text("opset ai.onnx 21\nrewrite a: Relu(x) => y\n", "utf-8")
    (tmp_path / "d.rules").write_text("", "utf-8")
    with pytest.raises(GerulesError) as caught:
        load_program(folder_sources(tmp_path), onnx_registry())
    assert sorted(codes(caught.value.diagnostics)) == ["GR107", "GR114", "GR130", "GR140"]
    _, found = check_program(folder_sources(tmp_path), onnx_registry())
    assert [d.code for d in found if d.severity == "warning"] == ["GR126"]
    places = [(d.span.file, d.span.line) for d in found if d.span and d.severity == "error"]
    assert places == sorted(places)


def test_what_an_unreadable_statement_declares_is_not_called_unknown(tmp_path: Path) -> None:
    path = tmp_path / "a.rules"
    path.write_text(
        "opset ai.onnx 21\nclass Few = Relu | Abs;\nfunction good(a: int -> bool\nrewrite a Relu(x) => x\n"
        "engine E:\n    cost = 1us us\n    supports Relu(x)\n"
        "rewrite b[f in Few]: f(x) => x when good(x.rank)\nexample a: Relu(x: f32[]) => x\n"
        "merge m: a -> b when a.engine == E\nrewrite c[f in Many]: f(x) => x\n",
        "utf-8",
    )
    _, found = check_program([RuleSource(path, "user/a")], onnx_registry())
    assert [(d.code, d.span.line) for d in found if d.span] == [
        ("GR109", 2), ("GR113", 3), ("GR107", 4), ("GR116", 6), ("GR130", 11),
    ]  # fmt: skip


def test_shipped_rules_are_sound() -> None:
    _, found = check_program(shipped_sources(), onnx_registry())
    assert found == []


def test_a_file_read_twice_is_one_tree(tmp_path: Path) -> None:
    path = tmp_path / "a.rules"
    path.write_text("class A = {f32}\n", "utf-8")
    source = RuleSource(path, "user/a")
    first = load_program([source], onnx_registry()).files[0]
    assert load_program([source], onnx_registry()).files[0] is first
    path.write_text("class A = {f16}\n", "utf-8")
    assert load_program([source], onnx_registry()).classes["A"].keys == ("f16",)
