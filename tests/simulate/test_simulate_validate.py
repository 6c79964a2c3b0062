"""The verdict on a candidate: equal or not, and where, whole and in partitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from gerules.simulate.validate import PartitionModel, validate

TEXT = """
g (float[N, 4] x) => (float[N, 4] y, float[N, 4] z) {
    [one] a = Abs(x)
    [two] b = Exp(a)
    [three] c = Mul(b, x)
    [four] y = Neg(c)
    [five] z = Add(b, c)
}"""


def model(text: str) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21, "own" : 1]>\n{text}'))


def check(candidate: str, original: str = TEXT, **options: Any) -> Any:
    options.setdefault("bindings", [{"N": 2}, {"N": 3}])
    return validate(model(original), model(candidate), **options)


def test_a_model_equals_itself() -> None:
    verdict = check(TEXT)
    assert verdict.ran and verdict.ok and not verdict.partial
    assert (verdict.max_abs_err, verdict.max_rel_err, verdict.differences, verdict.notes) == (0.0, 0.0, (), ())
    assert verdict.seeds == (0, 1) and verdict.bindings == ({"N": 2}, {"N": 3})


def test_rounding_is_measured_but_no_difference() -> None:
    verdict = check(
        TEXT.replace("c = Mul(b, x)", "t = Mul(b, x) k = Constant <value: tensor = float {1.000001}> () c = Mul(t, k)")
    )
    assert verdict.ok and 0 < verdict.max_abs_err < 1e-3 and 0 < verdict.max_rel_err < 1e-4


def test_the_first_difference_is_named_with_its_node_and_rules() -> None:
    candidate = TEXT.replace("b = Exp(a)", "t = Exp(a) [new] b = Add(t, a)")
    verdict = check(candidate, provenance={"new": "bad.rule", "four": "fine.rule", "one": "early.rule"})
    assert verdict.ran and not verdict.ok
    [found] = verdict.differences
    assert (found.value, found.node, found.rules, found.where) == ("b", "new", ("bad.rule",), "output")
    assert found.index == (0, 0) and found.binding == {"N": 2} and found.seed == 0
    assert str(found).startswith("output: b of node new, made by bad.rule: ")


def test_rules_of_all_nodes_since_the_last_agreement_are_named() -> None:
    candidate = TEXT.replace("[two] b = Exp(a)", "[p] t = Exp(a) [q] u = Sin(t) [r] b = Add(t, u)")
    verdict = check(candidate, provenance={"p": "first", "q": ("second", "third"), "r": "fourth", "one": "early"})
    [found] = verdict.differences
    assert found.node == "r" and set(found.rules) == {"first", "second", "third", "fourth"}


def test_another_type_or_shape_is_a_difference() -> None:
    verdict = check(TEXT.replace("[five] z = Add(b, c)", "k = Add(b, c) z = Cast <to = 11> (k)"))
    assert "f64[2,4] instead of f32[2,4]" in verdict.differences[0].reason


def test_a_missing_output_is_a_difference() -> None:
    verdict = check(TEXT.replace("float[N, 4] z) {", "float[N, 4] zz) {").replace("z = Add", "zz = Add"))
    assert verdict.differences[0].value == "z" and "no such output" in verdict.differences[0].reason


def test_a_candidate_that_fails_is_a_difference_that_names_the_node() -> None:
    candidate = TEXT.replace("c = Mul(b, x)", "s = Constant <value: tensor = int64[1] {3}> () [bad] c = Reshape(b, s)")
    verdict = check(candidate, provenance={"bad": "some.rule"})
    [found] = verdict.differences
    assert (found.where, found.node, found.rules) == ("failure", "bad", ("some.rule",))


FAILS = """
g (float[N] x) => (float[3] y) {
    s = Constant <value: tensor = int64[1] {3}> ()
    [r] y = Reshape(x, s)
}"""


def test_an_input_that_the_original_cannot_run_must_fail_in_both() -> None:
    both = validate(model(FAILS), model(FAILS), bindings=[{"N": 3}, {"N": 4}])
    assert both.ok and both.ran and "the original cannot run at {'N': 4}" in both.notes[0]
    other = FAILS.replace("[r] y = Reshape(x, s)", "o = Constant <value: tensor = int64[1] {1}> () t = Expand(x, o)"
                          " z = Constant <value: tensor = int64[1] {0}> () y = Slice(t, z, s)")  # fmt: skip
    lone = validate(model(FAILS), model(other), bindings=[{"N": 4}])
    assert not lone.ok and "the candidate does not" in lone.differences[0].reason


def test_where_nothing_runs_nothing_is_ok() -> None:
    verdict = validate(model(FAILS), model(FAILS), bindings=[{"N": 4}])
    assert not verdict.ran and not verdict.ok and not verdict.differences


def test_random_nodes_draw_alike_in_both_by_name() -> None:
    text = "g (float[4] x) => (float[4] y) { [noise] r = RandomNormalLike(x) y = Add(x, r) }"
    assert check(text.replace("Add(x, r)", "Add(r, x)"), text, bindings=[{}]).ok
    assert not check(text.replace("[noise]", "[other]"), text, bindings=[{}]).ok


def part(name: str, text: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> PartitionModel:
    return PartitionModel(name, model(text), inputs, outputs)


FIRST = "g (float[N, 4] x) => (float[N, 4] b) { [one] a = Abs(x) [two] b = Exp(a) }"
SECOND = """
g (float[N, 4] x, float[N, 4] b) => (float[N, 4] y, float[N, 4] z) {
    [three] c = Mul(b, x)
    [four] y = Neg(c)
    [five] z = Add(b, c)
}"""


def parts(first: str = FIRST, second: str = SECOND) -> list[PartitionModel]:
    return [part("001", first, ("x",), ("b",)), part("002", second, ("x", "b"), ("y", "z"))]


def test_partitions_see_what_was_handed_over_and_nothing_else() -> None:
    assert check(TEXT, partitions=parts()).ok
    backwards = check(TEXT, partitions=parts()[::-1])
    [found] = backwards.differences
    assert (found.where, found.value, found.reason) == ("partition 002", "b", "no earlier partition hands it over")


def test_a_partition_that_differs_is_named_with_its_value() -> None:
    verdict = check(TEXT, partitions=parts(first=FIRST.replace("Exp", "Sin")), provenance={"two": "some.rule"})
    [found] = verdict.differences
    assert (found.where, found.value, found.node, found.rules) == ("partition 001", "b", "two", ("some.rule",))


def test_an_output_that_no_partition_makes_is_a_difference() -> None:
    second = SECOND.replace(", float[N, 4] z) {", ") {").replace("[five] z = Add(b, c)", "")
    short = [parts()[0], part("002", second, ("x", "b"), ("y",))]
    [found] = check(TEXT, partitions=short).differences
    assert (found.value, found.where) == ("z", "partitions")


def opaque(shape: Any, *, before: str = "Abs", extra: bool = False, name: str = "m") -> ir.Model:
    nodes = [
        helper.make_node(before, ["x"], ["t"], name="a"),
        helper.make_node("Magic", ["t"], ["u"], name=name, domain="elsewhere"),
        helper.make_node("Neg", ["u"], ["y"], name="n"),
    ]
    if extra:
        nodes.append(helper.make_node("Magic", ["t"], ["w"], name="m2", domain="elsewhere"))
    known = [helper.make_tensor_value_info("u", 1, shape)] if shape is not None else []
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, ["N"])],
        [helper.make_tensor_value_info("y", 1, ["N"])], value_info=known,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("elsewhere", 1)]
    return ir.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def test_opaque_operators_are_cut_and_their_operands_compared() -> None:
    binding = [{"N": 3}]
    same = validate(opaque(["N"]), opaque(None), bindings=binding)
    assert same.ok and not same.partial
    other = validate(opaque(["N"]), opaque(["N"], before="Neg"), bindings=binding, provenance={"a": "some.rule"})
    [found] = other.differences
    assert (found.value, found.node, found.rules) == ("t", "a", ("some.rule",))
    renamed = validate(opaque(["N"]), opaque(["N"], name="k"), bindings=binding)
    assert not renamed.ok
    more = validate(opaque(["N"]), opaque(["N"], extra=True), bindings=binding)
    assert more.differences[0].reason == "the original does not run this node"


def test_an_opaque_operator_of_unknown_type_makes_the_verdict_partial() -> None:
    verdict = validate(opaque(None), opaque(None), bindings=[{"N": 3}])
    assert verdict.ok and verdict.partial
    assert verdict.notes[0].startswith("validation is partial: m has an operator without a schema")


def test_unknown_values_pass_between_partitions() -> None:
    whole = opaque(None)
    nodes = {n.name: ir.serde.serialize_node(n) for n in whole.graph}
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("elsewhere", 1)]

    def piece(name: str, names: list[str], inputs: list[str], outputs: list[str]) -> PartitionModel:
        graph = helper.make_graph(
            [nodes[n] for n in names], name,
            [helper.make_tensor_value_info(v, 1, ["N"]) for v in inputs],
            [helper.make_tensor_value_info(v, 1, ["N"]) for v in outputs],
        )  # fmt: skip
        made = ir.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=10))
        made.graph.outputs[0].shape = None
        made.graph.outputs[0].type = None
        return PartitionModel(name, made, tuple(inputs), tuple(outputs))

    pieces = [piece("1", ["a"], ["x"], ["t"]), piece("2", ["m"], ["t"], ["u"]), piece("3", ["n"], ["u"], ["y"])]
    verdict = validate(whole, whole, bindings=[{"N": 3}], partitions=pieces)
    assert verdict.ok and verdict.partial


def test_reference_kernels_can_be_the_judge() -> None:
    text = "g (float[N, 60] x, float[60, 5] w) => (float[N, 5] y) { y = MatMul(x, w) }"
    verdict = check(text, text, kernels="reference")
    assert verdict.ok and verdict.max_abs_err == 0.0


def test_verdicts_are_the_same_each_time() -> None:
    bad = TEXT.replace("Neg(c)", "Abs(c)")
    assert check(bad) == check(bad)


def test_inputs_in_given_ranges() -> None:
    text = "g (int64[8] n) => (int64[8] y) { y = Neg(n) }"
    seen = check(text.replace("Neg(n)", "Abs(n)"), text, bindings=[{}], ranges={"n": (5, 5)}).differences[0]
    assert seen.reason == "5 instead of -5"
    assert np.asarray(seen.index).tolist() == [0]
