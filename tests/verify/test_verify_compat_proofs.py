"""Proofs of rules between versions: by the kernel that computes both, by what a version does not admit yet, by laws of
elements within a tolerance; and mistakes of each kind, of which none is proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from gerules.dsl.program import RuleSource, load_program, shipped_sources
from gerules.egraph.program import Knowledge, knowledge
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify import prove
from gerules.verify.case import cases_of

pytest.importorskip("z3")

RIGHT = {
    "one kernel": "rewrite a: Gemm@9(a, b, c, ..r) <=> Gemm@11(a, b, c, ..r) when c != none",
    "an attribute that no kernel reads": "rewrite a: Relu@1(x, consumed_inputs=_) => Relu@6(x)",
    "what an absent attribute is taken for": (
        "rewrite a: TopK@10(x, k, axis=a, results=2) => TopK@11(x, k, axis=a, results=2)"
    ),
    "an axis that is not negative": (
        "rewrite a: TopK@11(x, k, axis=a, results=2) => TopK@10(x, k, axis=a, results=2) when a >= -1"
    ),
    "words that the older version has": (
        "rewrite a: ScatterND@18(..r, reduction=m) => ScatterND@16(..r, reduction=m) when m in {'none', 'add', 'mul'}"
    ),
    "the ends of the type": (
        "rewrite a finite: Clip@11(x, none, const(hi)) => Clip@6(x, min=lowest(x.dtype), max=hi) when x.dtype == f64"
    ),
    "zeros of either sign": (
        "rewrite a defines: Clip@11(x, lo, hi) => Min@8(hi, Max@8(lo, x)) "
        "when lo != none, hi != none, x.dtype in {f16, f32}"
    ),
}
WRONG = {
    "an axis that may be negative": "rewrite a: TopK@11(x, k, axis=a, results=2) => TopK@10(x, k, axis=a, results=2)",
    "one less than the least": (
        "rewrite a: TopK@11(x, k, axis=a, results=2) => TopK@10(x, k, axis=a, results=2) when a >= -2"
    ),
    "words that came later": "rewrite a: ScatterND@18(..r, reduction=m) => ScatterND@16(..r, reduction=m)",
    "indices that may be negative": "rewrite a: OneHot@11(i, d, v, axis=0) => OneHot@9(i, d, v, axis=0)",
    "a kernel that tells versions apart": "rewrite a: QuantizeLinear@21(x, s, z) => QuantizeLinear@23(x, s, z)",
    "a meaning that moved where no kernel tells": "rewrite a: AveragePool@19(..r) => AveragePool@22(..r)",
    "another attribute": (
        "rewrite a: Gemm@9(a, b, c, transA=i, ..r) => Gemm@11(a, b, c, transA=1 - i, ..r) when c != none"
    ),
    "another default": "rewrite a: Gemm@9(a, b, c, alpha=_, ..r) => Gemm@11(a, b, c, ..r) when c != none",
    "an end of single precision": (
        "rewrite a finite: Clip@11(x, none, const(hi)) => Clip@6(x, max=hi) when x.dtype == f64"
    ),
    "infinities, in bits": (
        "rewrite a: Clip@11(x, none, const(hi)) => Clip@6(x, min=lowest(x.dtype), max=hi) when x.dtype == f32"
    ),
    "zeros of either sign, in bits": (
        "rewrite a: Clip@11(x, lo, hi) => Min@8(hi, Max@8(lo, x)) when lo != none, hi != none, x.dtype == f32"
    ),
    "zeros of either sign, divided by": (
        "rewrite a defines: Div@7(y, Max@8(x, z)) => Div@7(y, Max@8(z, x)) when x.dtype == f32"
    ),
}


def _proofs(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "mine.rules"
    path.write_text("opset ai.onnx 21\n" + text.replace("'", '"') + "\n", encoding="utf-8")
    known: Knowledge = knowledge(
        load_program((*shipped_sources(), RuleSource(path, "user/mine")), onnx_registry(), known_functions())
    )
    (entry,) = [e for name, e in known.program.rewrites.items() if name.startswith("user/mine.")]
    return [prove.prove(case, known).status for case in cases_of(known, entry)]


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT.keys())
def test_a_right_rule_between_versions_is_proved(tmp_path: Path, text: str) -> None:
    assert set(_proofs(tmp_path, text)) == {"proved"}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_rule_between_versions_is_not(tmp_path: Path, text: str) -> None:
    assert not {"proved", "proved bounded"} & set(_proofs(tmp_path, text))


def test_another_right_side_is_the_same_where_the_rule_fires(tmp_path: Path) -> None:
    path = tmp_path / "mine.rules"
    path.write_text(
        "opset ai.onnx 21\n"
        "rewrite a: Elu(x, alpha=a) => Mul(const(a), Erf(x))\n"
        "rewrite b: Elu(x, alpha=a) => Mul(Erf(x), const(a))\n"
        "rewrite c: Elu(x, alpha=a) => Mul(Erf(Neg(x)), const(a))\n",
        encoding="utf-8",
    )
    sources = (*shipped_sources(), RuleSource(path, "user/mine"))
    known = knowledge(load_program(sources, onnx_registry(), known_functions()))
    (case,) = cases_of(known, known.program.rewrites["user/mine.a"])
    status = {
        name: prove.prove_alike(case, known.program.rewrites[f"user/mine.{name}"].statement.right, known).status
        for name in "abc"
    }
    assert status == {"a": "proved", "b": "proved", "c": "unknown"}
