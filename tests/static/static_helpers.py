"""Expressions and conditions from text, for tests of static expressions."""

from __future__ import annotations

from gerules.dsl import ast
from gerules.dsl.parser import parse_text
from gerules.graph.dims import Dim, DimFacts
from gerules.graph.info import Info
from gerules.registry.definition import OperatorDef
from gerules.static import Context, TensorView, Unknown, compile_expr, compile_truth

FACTS = DimFacts.from_flags(dims=["N=2..64"], assumes=["H % 8 == 0", "A == B", "C >= 1"])
ADD = OperatorDef("", "Add", "14", (), (), ())
SUB = OperatorDef("", "Sub", "14", (), (), ())
FOREIGN = OperatorDef("com.example", "Thing", "", (), (), ())
CONTEXT = Context(
    facts=FACTS,
    classes={"Half": frozenset({"f16", "bf16"}), "Binary": frozenset({"Add@14", "Sub@14"}), "Small": frozenset({1, 2})},
    relations={
        "neutral": ((frozenset({"Sub@14", "Sub@7"}), 0), (frozenset({"Add@14"}), -0.0), (frozenset({"Mul@14"}), 1)),
        "part": (("AiCore", "AiCube"), ("AiVector", "AiCube"), ("AiCore", "Other")),
    },
    lookups={"class_name": {(1,): "crossed", (2,): "prefix"}},
)


def conditions(text: str) -> tuple[ast.Expr, ...]:
    file, faults = parse_text(f"fact probe: held(x) when {text}", "probe.rules", "probe")
    assert not faults, faults
    statement = file.statements[0]
    assert isinstance(statement, ast.Fact)
    return statement.when


def expression(text: str) -> ast.Expr:
    condition = conditions(f"probe == ({text})")[0]
    assert isinstance(condition, ast.Compare)
    return condition.right


def value(text: str, context: Context = CONTEXT, /, **env: object) -> object:
    """The value of an expression; the text "unknown" where it has none."""
    try:
        return compile_expr(expression(text), context)(env)
    except Unknown:
        return "unknown"


def truth(text: str, context: Context = CONTEXT, /, **env: object) -> bool | None:
    (condition,) = conditions(text)
    return compile_truth(condition, context)(env)


def tensor(text: str) -> TensorView:
    return TensorView(Info.parse(text))


def dims(*entries: int | str | None) -> tuple[int | Dim | None, ...]:
    return tuple(Dim.parse(e) if isinstance(e, str) else e for e in entries)
