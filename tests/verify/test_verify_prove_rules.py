"""The prover says proved of right rules, and not of those that lack a condition, mean another axis, or say nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from gerules.dsl.program import RuleSource, load_program, shipped_sources
from gerules.egraph.program import Knowledge, knowledge
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify.case import Case, cases_of
from gerules.verify.prove import available, prove
from gerules.verify.verdict import Proof


@cache
def shipped() -> Knowledge:
    return knowledge(load_program(shipped_sources(), onnx_registry(), known_functions()))


def first(rule: str, member: str = "", known: Knowledge | None = None) -> Case:
    known = known or shipped()
    cases = cases_of(known, known.program.rewrites[rule])
    return next(c for c in cases if member in c.member)


def proof(rule: str, member: str = "") -> Proof:
    return prove(first(rule, member), shipped())


def written(tmp_path: Path, text: str) -> tuple[Knowledge, str]:
    """A rule of one's own beside the shipped files: all that is known, and its full name."""
    path = tmp_path / "own.rules"
    path.write_text("opset ai.onnx 21\n" + text)
    sources = (*shipped_sources(), RuleSource(path, "user/own"))
    return knowledge(load_program(sources, onnx_registry(), known_functions())), "user/own.r"


def test_z3_is_there() -> None:
    assert available()


EVERY_RANK = (
    ("broadcast/implicit.sink", "Add"),  # 1
    ("broadcast/implicit.sink", "Where"),
    ("broadcast/implicit.expand_expand", ""),  # 2
    ("algebra/views.transpose_splat", ""),  # 3
    ("algebra/views.reverse_splat", ""),
    ("algebra/slice.slice_splat", ""),  # 4
    ("algebra/slice.slice_all", ""),  # 6
    ("algebra/slice.slice_expand", ""),  # 7
    ("algebra/slice.slice_slice", ""),  # 8, any strides
    ("algebra/slice.slice_slice_empty", ""),
    ("algebra/slice.slice_in_padding", ""),  # 10, some axis
    ("algebra/slice.slice_past_padding", ""),  # 11
    ("algebra/concat.slice_of_first", ""),  # 12
    ("algebra/concat.slice_of_second", ""),  # 13
    ("algebra/slice.slice_reverse", ""),  # 14
    ("algebra/concat.concat_slices", ""),  # 16
    ("algebra/concat.concat_splat", ""),  # 17
    ("algebra/pad.pad_nothing", ""),  # 18
    ("algebra/pad.interior_of_one", ""),  # 19
    ("broadcast/implicit.sink_transpose", ""),
    ("algebra/reduce.sum_units", ""),  # 23
    ("algebra/reduce.sum_sum", ""),  # 24
    ("algebra/reduce.sum_transpose", ""),  # 25
    ("algebra/reduce.sum_scaled", ""),  # 26
    ("algebra/reduce.sum_concat", ""),  # 27
    ("algebra/reduce.outer_product", ""),  # 29
    ("broadcast/implicit.pointwise_past_reshape", "Exp"),
    ("broadcast/explicit.chain", ""),
    ("cleanup.squeeze_unsqueeze", ""),
    ("cleanup.reflect_both", ""),
    ("cleanup.where_same", ""),
    ("cleanup.neutral_int_right", "Add"),
    ("cleanup.neutral_float_right", "Add"),
    ("compat/onnx.clip_11", ""),
    ("compat/onnx.slice_10", ""),
)


@pytest.mark.parametrize(("rule", "member"), EVERY_RANK, ids=lambda part: str(part).rpartition(".")[2])
def test_a_right_rule_is_proved_for_every_rank_and_size(rule: str, member: str) -> None:
    found = proof(rule, member)
    assert (found.status, found.all_ranks, found.all_sizes) == ("proved", True, True), found.reason


# Each condition here is one without which the rule is false.
DROPPED = (
    ("algebra/slice.slice_all", "", 0),
    ("algebra/slice.slice_all", "", 1),
    ("algebra/slice.slice_all", "", 2),
    ("algebra/slice.slice_slice", "", 0),
    ("algebra/slice.slice_slice_empty", "", 0),
    ("algebra/slice.slice_in_padding", "", 0),
    ("algebra/slice.slice_past_padding", "", 1),
    ("algebra/slice.slice_past_padding", "", 3),
    ("algebra/concat.slice_of_first", "", 0),
    ("algebra/concat.slice_of_second", "", 0),
    ("algebra/concat.concat_slices", "", 0),
    ("algebra/concat.concat_slices", "", 2),
    ("algebra/pad.interior_of_one", "", 0),
    ("algebra/pad.pad_nothing", "", 1),
    ("algebra/reduce.sum_units", "", 0),
    ("algebra/reduce.sum_scaled", "", 1),
    ("algebra/reduce.dot_empty", "", 0),
    ("broadcast/implicit.sink_transpose", "", 0),
    ("broadcast/implicit.sink_reduce", "ReduceSum", 2),
    ("broadcast/implicit.sink_matmul_left", "", 1),
    ("cleanup.drop_transpose", "", 0),
    ("cleanup.drop_expand", "", 0),
    ("cleanup.neutral_right", "Mul", 0),
    ("cleanup.neutral_int_right", "Add", 0),
)


@pytest.mark.parametrize(("rule", "member", "place"), DROPPED, ids=lambda part: str(part).rpartition(".")[2])
def test_a_rule_that_lacks_a_condition_is_not_proved(rule: str, member: str, place: int) -> None:
    case = first(rule, member)
    assert place < len(case.when)
    weaker = replace(case, rule=f"{case.rule} without {place}", when=(*case.when[:place], *case.when[place + 1 :]))
    assert prove(weaker, shipped()).status not in ("proved", "proved bounded")


WRONG = {
    "another permutation": """
        rewrite r: Transpose(Transpose(x, perm=p), perm=q)
            => Transpose(x, perm=q[p])
            when p != none, q != none""",
    "operands swapped": "rewrite r: Concat(x, z, axis=0) => Concat(z, x, axis=0)",
    "another axis": "rewrite r: Concat(x, z, axis=0) => Concat(x, z, axis=1)",
    "stretched too far": "rewrite r: Expand(x, _) => x",
    "a sum over nothing": """
        rewrite r: ReduceSum(x, const(a), keepdims=0)
            => Squeeze(x, const(a))
            when all(x.shape[a] == 1)""",
    "a difference is no sum": "rewrite r: Sub(x, z) => Sub(z, x)",
    "sums are not bitwise": """
        rewrite r: ReduceSum(Transpose(x, perm=[1, 0]), const([0, 1]))
            => Transpose(ReduceSum(x, const([0, 1])), perm=[1, 0])""",
    "steps of two": """
        rewrite r: Slice(x, const(s), const(e), const(a), const(p))
            => Slice(x, const(s), const(e), const(a), const(p + 1))""",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_not_proved(name: str, tmp_path: Path) -> None:
    known, full = written(tmp_path, WRONG[name])
    assert prove(first(full, known=known), known).status not in ("proved", "proved bounded")


def test_rank_0_counts(tmp_path: Path) -> None:
    """True of every rank but 0, where the left side gives one element and the right side does not exist."""
    known, full = written(tmp_path, "rewrite r: Expand(x, dims([])) => Expand(x, dims([0]))")
    assert prove(first(full, known=known), known).status not in ("proved", "proved bounded")


def test_a_condition_that_never_holds_is_no_proof(tmp_path: Path) -> None:
    known, full = written(tmp_path, "rewrite r: Transpose(x, perm=p) => x when all(x.shape < 0), x.rank >= 1")
    found = prove(first(full, known=known), known)
    assert found.status == "unknown"
    assert "vacuous" in found.reason


def test_what_has_no_meaning_is_unknown_with_the_reason() -> None:
    found = proof("cleanup.fold", "Abs")
    assert found.status == "unknown"
    assert found.reason


def test_a_proof_without_means_is_unknown_and_does_not_hang() -> None:
    case = first("algebra/slice.slice_slice")
    found = prove(case, shipped(), rlimit=1)
    assert found.status in ("unknown", "proved bounded")
    assert not found.all_ranks


def test_a_suspicion_comes_with_sizes() -> None:
    case = first("algebra/slice.slice_all")
    found = prove(replace(case, rule="without the steps", when=case.when[:1] + case.when[2:]), shipped())
    assert found.status == "refuted"
    assert isinstance(found.model, dict)
    assert any(isinstance(value, int) for value in found.model.values())


def test_the_same_twice() -> None:
    """Verdicts depend on no earlier question."""
    case = first("algebra/concat.concat_slices")
    one, other = prove(case, shipped()), prove(case, knowledge(shipped().program))
    assert (one.status, one.scope) == (other.status, other.scope)
