"""A key covers what a verdict depends on, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gerules.dsl.program import RuleSource, load_program, shipped_sources
from gerules.egraph.program import knowledge
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify.keys import Keys, rule_key, statements, versions

RULE = """opset ai.onnx 17
class Mine = Add | Mul
let twice(x) = Neg(Neg(x))
fact left: left_one(Add), left_one(Sub)
rewrite r[f in Mine]: f(x, twice(y)) => f(x, y) when left_one(f), lossless(x.dtype, f64), x.rank == 2
"""


def key(folder: Path, text: str, name: str = "user/a.r", kind: str = "rewrite") -> str:
    path = folder / "a.rules"
    path.write_text(text)
    sources = [s for s in shipped_sources() if s.ruleset == "prelude"]
    program = load_program([*sources, RuleSource(path, "user/a")], onnx_registry(), known_functions())
    return rule_key(program, knowledge(program), kind, name)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> str:
    return key(tmp_path_factory.mktemp("keys"), RULE)


SAME = {
    "layout": RULE.replace("=> f(x, y) when", "\n    =>\n  f(x,   y)\n when  "),
    "comments": RULE.replace("rewrite", "# a remark\nrewrite"),
    "doc strings": RULE.replace("rewrite", '"It is so."\nrewrite'),
    "another rule": RULE + "rewrite other: Relu(Relu(x)) => Relu(x)\n",
    "an example": RULE + "example r: Add(x: f32[2, 2], Neg(Neg(y: f32[2, 2]))) => Add(x, y)\n",
    "the let written out": RULE.replace("f(x, twice(y))", "f(x, Neg(Neg(y)))"),
    "a fact on other operators": RULE.replace("left_one(Sub)", "left_one(Sub), left_one(Div)"),
    "the opset of the file, where versions stay": RULE.replace("opset ai.onnx 17", "opset ai.onnx 18"),
    "an unused class": RULE + "class Other = Sub\n",
}


@pytest.mark.parametrize("text", SAME.values(), ids=SAME)
def test_what_changes_nothing_keeps_the_key(text: str, first: str, tmp_path: Path) -> None:
    assert key(tmp_path, text) == first


OTHER = {
    "a condition": RULE.replace("x.rank == 2", "x.rank == 3"),
    "the right side": RULE.replace("=> f(x, y)", "=> f(y, x)"),
    "exactness": RULE.replace("]:", "] reassociates:"),
    "a member": RULE.replace("Add | Mul", "Add | Mul | Div"),
    "the let": RULE.replace("Neg(Neg(x))", "Abs(Abs(x))"),
    "a fact on its operators": RULE.replace("left_one(Sub)", "left_one(Mul)"),
    "versions of its operators": RULE.replace("opset ai.onnx 17", "opset ai.onnx 12"),
    "the host function": RULE.replace("lossless(x.dtype, f64)", "highest(x.dtype) == 1.0"),
}


@pytest.mark.parametrize("text", OTHER.values(), ids=OTHER)
def test_what_changes_the_meaning_changes_the_key(text: str, first: str, tmp_path: Path) -> None:
    assert key(tmp_path, text) != first


def test_versions_of_what_computes_are_part_of_the_key(tmp_path: Path) -> None:
    path = tmp_path / "a.rules"
    path.write_text(RULE)
    program = load_program(
        [*(s for s in shipped_sources() if s.ruleset == "prelude"), RuleSource(path, "user/a")],
        onnx_registry(),
        known_functions(),
    )
    known = knowledge(program)
    here = rule_key(program, known, "rewrite", "user/a.r")
    assert rule_key(program, known, "rewrite", "user/a.r", versions()) == here
    for name in versions():
        assert rule_key(program, known, "rewrite", "user/a.r", {**versions(), name: "0"}) != here
    with pytest.raises(KeyError):
        rule_key(program, known, "rewrite", "user/a.none")


SCRIPT = """
from gerules.dsl.program import load_program, shipped_sources
from gerules.egraph.program import knowledge
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify.keys import Keys, statements
import hashlib
program = load_program(shipped_sources(), onnx_registry(), known_functions())
keys = Keys(knowledge(program))
found = [(kind, full, keys.key(kind, entry)) for kind, full, entry in statements(program)]
print(len(found), hashlib.sha256(repr(found).encode()).hexdigest())
"""


def test_every_process_finds_the_same_keys() -> None:
    said = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        said.add(done.stdout)
    assert len(said) == 1


def test_every_shipped_statement_has_a_key_of_its_own() -> None:
    program = load_program(shipped_sources(), onnx_registry(), known_functions())
    keys = Keys(knowledge(program))
    by_key: dict[str, list[str]] = {}
    for kind, full, entry in statements(program):
        by_key.setdefault(keys.key(kind, entry), []).append(full)
    same = [names for names in by_key.values() if len(names) > 1]
    assert all({n.rpartition(".")[2] for n in names} == {names[0].rpartition(".")[2]} for names in same), same
