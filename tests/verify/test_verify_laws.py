"""Laws of statements that are no rewrites: what is shipped is right, and a wrong one of each kind is refuted."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from gerules.dsl.program import Program, load_program, shipped_sources, user_sources
from gerules.egraph.program import Knowledge, knowledge
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify.keys import statements
from gerules.verify.laws import check_law
from gerules.verify.verdict import CaseVerdict


@cache
def shipped() -> tuple[Program, Knowledge]:
    program = load_program(shipped_sources(), onnx_registry(), known_functions())
    return program, knowledge(program)


def law(tmp_path: Path, text: str, kind: str, name: str, trials: int = 200, seed: int = 0) -> tuple[CaseVerdict, ...]:
    """The verdicts on a statement of a user's file."""
    path = tmp_path / "mine.rules"
    path.write_text(f"opset ai.onnx 21\n{text}\n")
    program = load_program((*shipped_sources(), *user_sources(path)), onnx_registry(), known_functions())
    full = name if kind == "transfer" else f"user/mine.{name}"
    return check_law(program, knowledge(program), kind, full, trials=trials, seed=seed)


# ----------------------------------------------------------------------------------------------------- what is shipped


def test_every_shipped_statement_has_a_verdict_and_none_is_refuted() -> None:
    program, known = shipped()
    refuted: list[str] = []
    unknown: list[str] = []
    counts: dict[str, int] = {}
    for kind, full, _ in statements(program):
        if kind == "rewrite":
            continue
        verdicts = check_law(program, known, kind, full, trials=20)
        assert verdicts, full
        assert all(v.detail for v in verdicts), full
        counts[kind] = counts.get(kind, 0) + 1
        refuted += [f"{full} {v.member}: {v.detail}" for v in verdicts if v.status == "refuted"]
        if all(v.status == "unknown" for v in verdicts):
            unknown.append(f"{full}: {verdicts[0].detail}")
    assert refuted == []
    # What fits together in many ways at once is hardly drawn by chance.
    assert len(unknown) <= 1, unknown
    assert counts["fact"] >= 150 and counts["engine"] == 9 and counts["deny"] >= 18 and counts["transfer"] == 3


def test_the_same_seed_finds_the_same() -> None:
    program, known = shipped()
    for kind, full in (("fact", "shape/dims.matmul"), ("fact", "ops.neutral_int"), ("engine", "engines/generic.Npu")):
        first = check_law(program, known, kind, full, trials=30, seed=3)
        assert first == check_law(program, known, kind, full, trials=30, seed=3)


def test_there_is_no_law_of_what_there_is_not() -> None:
    program, known = shipped()
    for kind in ("fact", "deny", "merge", "group", "engine", "transfer", "schedule"):
        with pytest.raises(KeyError):
            check_law(program, known, kind, "user/none.none")


# --------------------------------------------------------------------------------------------------- what is wrong

WRONG_FACTS = [
    ("transposed", "fact transposed: y.shape == x.shape[p] when Transpose(Relu(x), perm=_) as y, p == range(x.rank)"),
    ("halves", "fact halves: y.shape == x.shape // 2 when MaxPool(x, kernel_shape=[2, 2])[0] as y"),
    ("joined", "fact joined: y.shape == x.shape when Concat(x, z, axis=k) as y"),
    ("contents", "fact contents: y == dims(s + t) when Mul(dims(s), dims(t)) as y, s.size == t.size"),
    ("rounding", "fact rounding: y == dim((a + b - 1) // b) when Div(dim(a), dim(b)) as y, a >= 0, b >= 1"),
    ("negative", "fact negative: flops(y) == y.size - 100 when Erf(x) as y"),
    ("falling", "fact falling: flops(y) == 1000000 // (x.size + 1) when Erf(x) as y"),
    ("crossed", "fact crossed[f in Softmaxes]: crossable(y) when f(..) as y"),
    ("neutral", "fact neutral: neutral_right(Sub, 1)"),
    ("one_side", "fact one_side: neutral_int(Sub, 0)"),
    ("neutral_zero", "fact neutral_zero: neutral_right(Add, 0)"),
    ("absorbs", "fact absorbs: absorbing(Add, 0)"),
    ("inverse", "fact inverse: self_inverse(Mul, 1)"),
    ("same", "fact same: same_operator(Softmax@11, Softmax@13)"),
    ("two", "fact two: same_operator(Relu@14, Abs@13)"),
    ("first", "fact first: changes(Relu@1)"),
    ("no_type", 'fact no_type: dtype_attribute(Cast@6, "axis")'),
    ("no_number", 'fact no_number: dtype_attribute(Elu, "alpha")'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), WRONG_FACTS, ids=[n for n, _ in WRONG_FACTS])
def test_a_wrong_fact_is_refuted(tmp_path: Path, name: str, text: str) -> None:
    verdicts = law(tmp_path, text, "fact", name)
    refuted = [v for v in verdicts if v.status == "refuted"]
    assert refuted, [(v.status, v.detail) for v in verdicts]
    assert len(refuted[0].detail) > 20


RIGHT_FACTS = [
    ("shape_of_relu", "fact shape_of_relu: y.shape == x.shape when Relu(x) as y"),
    ("at_least", "fact at_least: y.rank >= x.rank when Unsqueeze(x, _) as y"),
    ("crossed", "fact crossed[f in Unary]: crossable(y) when f(x, ..) as y, x.dtype != str"),
    ("neutral", "fact neutral: neutral_right(BitwiseOr, 0)"),
    ("steps", "fact steps: flops(y) == 3 * y.size when Erf(x) as y"),
]


@pytest.mark.parametrize(("name", "text"), RIGHT_FACTS, ids=[n for n, _ in RIGHT_FACTS])
def test_a_right_fact_is_tested(tmp_path: Path, name: str, text: str) -> None:
    verdicts = law(tmp_path, text, "fact", name, trials=60)
    assert {v.status for v in verdicts if not v.detail.startswith("no instance")} == {"tested"}


def test_a_witness_names_shapes_and_both_answers(tmp_path: Path) -> None:
    (verdict,) = law(tmp_path, "fact wrong: y.shape == z.shape when Sub(x, z) as y", "fact", "wrong")
    assert verdict.status == "refuted"
    assert "y.shape is [" in verdict.detail and "x: " in verdict.detail and "z: " in verdict.detail


# ----------------------------------------------------------------------------------------- engines, costs, transfers

ENGINE = """
engine Mine:
    cost = {default}
    {clauses}
"""


@pytest.mark.parametrize(
    ("clauses", "said"),
    [
        ("supports[f in Conv] f(x, ..) when x.dtype in {f16, i8}", "i8"),
        ("supports Equal(..) as y when y.dtype == f32", "f32"),
    ],
)
def test_an_engine_that_takes_what_the_schema_lacks(tmp_path: Path, clauses: str, said: str) -> None:
    verdicts = law(tmp_path, ENGINE.format(default="flops / 1e12", clauses=clauses), "engine", "Mine")
    assert verdicts[0].status == "refuted" and said in verdicts[0].detail


@pytest.mark.parametrize("default", ["1e-3 / (bytes + 1)", "1e-6 - bytes / 1e12", "flops / (elements - elements)"])
def test_a_cost_that_falls_or_is_none(tmp_path: Path, default: str) -> None:
    verdicts = law(tmp_path, ENGINE.format(default=default, clauses="supports[f in Unary] f(..)"), "engine", "Mine")
    assert verdicts[-1].member == "cost" and verdicts[-1].status == "refuted", verdicts[-1].detail


def test_a_cost_that_falls_from_one_clause_to_the_next(tmp_path: Path) -> None:
    text = ENGINE.format(
        default="bytes / 1e9",
        clauses="supports[f in Unary] f(..)\n    cost[f in Unary] f(x) = bytes / 1e6 when x.rank >= 1, x.shape[-1] < 9",
    )
    assert law(tmp_path, text, "engine", "Mine")[-1].status == "refuted"


def test_a_right_engine_is_tested(tmp_path: Path) -> None:
    text = ENGINE.format(default="flops / 1e12 + bytes / 1e9", clauses="supports[f in Unary | Conv] f(x, ..)")
    assert {v.status for v in law(tmp_path, text, "engine", "Mine")} == {"tested"}


@pytest.mark.parametrize(
    ("value", "status"),
    [("1us + bytes / 1e9", "tested"), ("1us - bytes / 1e9", "refuted"), ("1 / (bytes + 1)", "refuted")],
)
def test_transfers(tmp_path: Path, value: str, status: str) -> None:
    text = f"""
engine Near:
    cost = bytes / 1e9
    supports[f in Unary] f(..)
engine Far:
    cost = bytes / 1e9
    supports[f in Unary] f(..)
transfer Near <-> Far = {value}
"""
    (verdict,) = law(tmp_path, text, "transfer", "user/mine.Near-Far")
    assert verdict.status == status, verdict.detail


# --------------------------------------------------------------------------------------------- merges, groups, denies


@pytest.mark.parametrize(
    ("when", "status"),
    [
        ("a.engine == b.engine", "tested"),
        ("a.dtype == b.dtype, a.op in Unary", "tested"),
        ('a.label == "x", a.label != "x"', "unknown"),
    ],
)
def test_merges(tmp_path: Path, when: str, status: str) -> None:
    (verdict,) = law(tmp_path, f"merge mine: a -> b when {when}", "merge", "mine")
    assert verdict.status == status, verdict.detail


def test_a_group_is_found_in_a_graph_of_its_own_operators(tmp_path: Path) -> None:
    verdicts = law(tmp_path, "group mine[f in Relu | Tanh]: f(Add(x, y))", "group", "mine")
    assert [v.status for v in verdicts] == ["tested", "tested"]


@pytest.mark.parametrize(
    ("when", "status"),
    [
        ("Conv(x, w, ..) as y, x.rank == 4", "tested"),
        ("Relu(x) as y, x.rank >= 1, all(x.shape < 0)", "unknown"),
        ('registered("built", y), not registered("runtime", y)', "tested"),
        ('registered("built", y), not registered("built", y)', "unknown"),
    ],
)
def test_denies(tmp_path: Path, when: str, status: str) -> None:
    (verdict,) = law(tmp_path, f'deny mine: "{{y}} is not taken" when {when}', "deny", "mine")
    assert verdict.status == status, verdict.detail
