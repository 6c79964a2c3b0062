"""Rules on small graphs: what each construct of the language does to a graph, judged by counts and by numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from gerules.dsl.program import RuleSource, load_program, shipped_sources
from gerules.egraph.choices import Candidates
from gerules.egraph.optimize import Engine, GraphTask, Outcome, RuleSet, optimize
from gerules.egraph.session import Limits
from gerules.errors import GerulesError
from gerules.extract import Option, Problem, solve
from gerules.graph.dims import DimFacts
from gerules.registry import onnx_registry
from gerules.simulate import Simulator, make_inputs

DECLARATIONS = ("prelude", "ops", "shape/dims", "compat/onnx")
SCHEDULE = "\nschedule mine: repeat 50 ( saturate shape run compat/onnx, user )\n"


def engine(folder: Path, text: str, *, schedule: str = "mine", limits: Limits | None = None) -> Engine:
    """An engine with one rule file of a user's, over the shipped declarations and the rules between versions."""
    path = folder / "mine.rules"
    path.write_text(text + SCHEDULE, encoding="utf-8")
    kept = [s for s in shipped_sources() if s.ruleset in DECLARATIONS]
    program = load_program([*kept, RuleSource(path, "user/mine")], onnx_registry())
    on = tuple(name for name, entry in program.rewrites.items() if entry.statement.exactness == "")
    return Engine(RuleSet(program, on, schedule), limits or Limits())


def fewest_nodes(found: Candidates, task: GraphTask) -> dict[int, int]:
    """Chooses the fewest nodes, whatever they cost."""
    options = [
        Option(
            o.cls,
            o.children,
            ((1.0,),) if o.kind == "node" else (None,),
            projection=o.kind == "projection",
            leaf=o.kind in ("leaf", "constant"),
            rank=0 if o.original is not None else 1,
        )
        for o in found.options
    ]
    problem = Problem(
        tuple(options), found.saturated.classes, found.roots, ("any",), lambda c, a, b: 0.0, found.incumbent, {}, {}
    )
    return dict(solve(problem).choice)


def run(model: ir.Model, using: Engine) -> Outcome:
    opset = model.opset_imports[""]
    registry = onnx_registry()
    functions = set(model.functions)

    def define(node: ir.Node):  # type: ignore[no-untyped-def]
        known = node.domain in ("", "ai.onnx") and node.op_identifier() not in functions
        return registry.lookup("", node.op_type, opset) if known else None

    return optimize(model, using, fewest_nodes, facts=DimFacts(), define=define)


def parse(text: str) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(text))


def kinds(model: ir.Model) -> list[str]:
    return [n.op_type for n in model.graph if n.op_type != "Constant"]


def agree(before: ir.Model, after: ir.Model, binding: dict[str, int] | None = None) -> None:
    onnx.checker.check_model(ir.to_proto(after), full_check=True)
    for seed in range(2):
        inputs = make_inputs(before, binding or {}, seed)
        wanted, got = Simulator(before).run(inputs), Simulator(after).run(inputs)
        assert list(wanted) == list(got)
        for name, value in wanted.items():
            np.testing.assert_array_equal(got[name], value, err_msg=name)


HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'

CASES = {
    "a pattern with two variables and a literal attribute": (
        "rewrite r: Transpose(Transpose(x, perm=[1, 0]), perm=[1, 0]) => x",
        "g (float[3,4] x) => (float[3,4] y) { a = Transpose<perm=[1,0]>(x) b = Transpose<perm=[1,0]>(a) y = Neg(b) }",
        ["Neg"],
    ),
    "a literal attribute that does not fit": (
        "rewrite r: Transpose(Transpose(x, perm=[1, 0]), perm=[1, 0]) => x",
        "g (float[3,3] x) => (float[3,3] y) { a = Transpose<perm=[0,1]>(x) b = Transpose<perm=[1,0]>(a) y = Neg(b) }",
        ["Transpose", "Transpose", "Neg"],
    ),
    "an unmentioned attribute has its default": (
        "rewrite r: LeakyRelu(LeakyRelu(x)) => LeakyRelu(x)",
        "g (float[3] x) => (float[3] y) { a = LeakyRelu<alpha=0.5>(x) y = LeakyRelu(a) }",
        ["LeakyRelu", "LeakyRelu"],
    ),
    "a rest carries operands and attributes": (
        "class Slopes = Elu | LeakyRelu\nrewrite r[f in Slopes]: f(Identity(x), ..r) => f(x, ..r)",
        "g (float[3] x) => (float[3] y) { a = Identity(x) y = LeakyRelu<alpha=0.5>(a) }",
        ["LeakyRelu"],
    ),
    "a vector expression in an attribute": (
        "rewrite r: Transpose(Transpose(x, perm=p), perm=q) => Transpose(x, perm=p[q])",
        "g (float[2,3,4] x) => (float[2,4,3] y) { a = Transpose<perm=[1,2,0]>(x) y = Transpose<perm=[2,1,0]>(a) }",
        ["Transpose"],
    ),
    "a class of operators and a place among operands": (
        "class Some = Add | Mul\nrewrite r[f in Some]: f(..p, Identity(x), ..q) => f(..p, x, ..q)",
        "g (float[3] x, float[3] z) => (float[3] y) { a = Identity(x) b = Add(z, a) c = Identity(b) y = Mul(c, z) }",
        ["Add", "Mul"],
    ),
    "a place among the operands of a variadic operator": (
        "rewrite r: Max(..p, Identity(x), ..q) => Max(..p, x, ..q)",
        "g (float[3] x, float[3] z) => (float[3] y) { a = Identity(x) y = Max(z, a, z) }",
        ["Max"],
    ),
    "lists are joined": (
        "rewrite r: Concat(..p, Concat(..m, axis=j), ..q, axis=k) => Concat(..p, ..m, ..q, axis=k) when j == k",
        "g (float[3] x, float[4] z) => (float[10] y) { a = Concat<axis=0>(x, z) y = Concat<axis=0>(a, x) }",
        ["Concat"],
    ),
    "contents of a constant in an attribute and back": (
        "rewrite r: Clip(Clip(x, const(a), const(b)), const(c), const(d)) => Clip(x, const(c), const(d))\n"
        "    when c >= a, d <= b",
        "g (float[9] x) => (float[9] y) <float l0 = {-1.0}, float h0 = {1.0}, float l1 = {-0.5}, float h1 = {0.5}> "
        "{ a = Clip(x, l0, h0) y = Clip(a, l1, h1) }",
        ["Clip"],
    ),
    "an absent operand": (
        "rewrite r: Clip(x, none, none) => x",
        "g (float[9] x) => (float[9] y, float[9] z) <float lo = {0.0}> "
        "{ a = Clip(x) y = Neg(a) b = Clip(x, lo) z = Neg(b) }",
        ["Neg", "Clip", "Neg"],
    ),
    "shapes of a value and of the result": (
        "rewrite r: Expand(x, _) as y => x when y.shape == x.shape",
        "g (float[3,4] x, float[1,4] z) => (float[3,4] y, float[3,4] w) <int64[2] s = {3, 4}> "
        "{ a = Expand(x, s) y = Neg(a) b = Expand(z, s) w = Neg(b) }",
        ["Neg", "Expand", "Neg"],
    ),
    "an element type": (
        "rewrite r: Cast(x, to=t, ..) => x when x.dtype == t",
        "g (float[3] x) => (float[3] y, double[3] z) { a = Cast<to=1>(x) y = Neg(a) b = Cast<to=11>(x) z = Neg(b) }",
        ["Neg", "Cast", "Neg"],
    ),
    "a result of an operator with several": (
        "rewrite r: Dropout(x, _, none, ..)[0] => x",
        "g (float[3] x) => (float[3] y) { a, m = Dropout(x) y = Neg(a) }",
        ["Neg"],
    ),
    "a splat of the right shape": (
        "rewrite r: Add(x, splat(-0.0, _)) as y => x when y.shape == x.shape",
        "g (float[3] x) => (float[3] y, float[3] z) <float m = {-0.0}, float p = {0.0}> "
        "{ a = Add(x, m) y = Neg(a) b = Add(x, p) z = Neg(b) }",
        ["Neg", "Add", "Neg"],
    ),
    "a new constant": (
        "rewrite r: Mul(Mul(x, const(a)), const(b)) => Mul(x, const(a * b)) when a == 2.0, b == 4.0",
        "g (float[3] x) => (float[3] y) <float two = {2.0}, float four = {4.0}> { a = Mul(x, two) y = Mul(a, four) }",
        ["Mul"],
    ),
    "both directions": (
        "rewrite s: Sub(x, z) <=> Add(x, Neg(z))",
        "g (float[3] x, float[3] z) => (float[3] y) { a = Neg(z) y = Add(x, a) }",
        ["Sub"],
    ),
    "a negative axis": (
        "rewrite r: Softmax(Softmax(x, axis=a), axis=b) as y => Softmax(Softmax(x, axis=a), axis=b % y.rank)\n"
        "    when b < 0\n"
        "rewrite s: Identity(x) => x",
        "g (float[3,4] x) => (float[3,4] y) { a = Identity(x) y = Softmax<axis=-1>(a) }",
        ["Softmax"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rules_do_what_they_say(name: str, tmp_path: Path) -> None:
    rule, graph, expected = CASES[name]
    before, after = parse(HEAD + graph), parse(HEAD + graph)
    run(after, engine(tmp_path, "opset ai.onnx 17\n" + rule))
    assert kinds(after) == expected
    agree(before, after)


def test_equal_pure_work_is_shared_and_impure_work_is_not(tmp_path: Path) -> None:
    text = HEAD + (
        "g (float[3] x) => (float[3] y, float[4] a, float[4] b) "
        "{ p = Exp(x) q = Exp(x) y = Add(p, q) "
        "a = RandomNormal<shape=[4]>() b = RandomNormal<shape=[4]>() }"
    )
    after = parse(text)
    run(after, engine(tmp_path, "opset ai.onnx 17\nrewrite r: Identity(x) => x"))
    assert sorted(kinds(after)) == ["Add", "Exp", "RandomNormal", "RandomNormal"]
    [add] = [n for n in after.graph if n.op_type == "Add"]
    assert add.inputs[0] is add.inputs[1]


def test_rules_of_one_opset_work_on_graphs_of_another(tmp_path: Path) -> None:
    """Squeeze took its axes as an attribute up to 11; the rule is written for 21."""
    text = '<ir_version: 7, opset_import: ["" : 11]>\n' + (
        "g (float[1,3] x) => (float[1,3] y) { a = Squeeze<axes=[0]>(x) b = Unsqueeze<axes=[0]>(a) y = Neg(b) }"
    )
    before, after = parse(text), parse(text)
    run(after, engine(tmp_path, "opset ai.onnx 21\nrewrite r: Unsqueeze(Squeeze(x, a), b) => x when a == b"))
    assert kinds(after) == ["Neg"]
    agree(before, after)


def test_what_a_rule_makes_is_written_at_the_opset_of_the_graph(tmp_path: Path) -> None:
    text = '<ir_version: 7, opset_import: ["" : 11]>\n' + (
        "g (float[1,1,3] x) => (float[3] y) { a = Squeeze<axes=[0]>(x) y = Squeeze<axes=[0]>(a) }"
    )
    before, after = parse(text), parse(text)
    rule = (
        "opset ai.onnx 21\nrewrite r: Squeeze(Squeeze(x, const(a)), const(b)) => Squeeze(x, const([0, 1])) "
        "when a == [0], b == [0]"
    )
    run(after, engine(tmp_path, rule))
    assert kinds(after) == ["Squeeze"]
    [node] = list(after.graph)
    assert list(node.attributes["axes"].as_ints()) == [0, 1]
    agree(before, after)


def test_foreign_operators_are_barriers(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17, "com.acme" : 1]>\n' + (
        "g (float[3] x) => (float[3] y) "
        "{ a = Identity(x) b = com.acme.Twist<k = 3>(a) c = com.acme.Twist<k = 3>(a) y = Add(b, c) }"
    )
    after = parse(text)
    run(after, engine(tmp_path, "opset ai.onnx 17\nrewrite r: Identity(x) => x"))
    assert kinds(after) == ["Twist", "Twist", "Add"]
    assert all(n.inputs[0] is after.graph.inputs[0] for n in after.graph if n.op_type == "Twist")


IF = """g (float[3] x, bool c) => (float[3] y) {
  a = Identity(x)
  y = If<then_branch = t () => (float[3] p) { q = Identity(a) p = Neg(q) },
         else_branch = e () => (float[3] r) { r = Abs(a) }>(c)
}"""


def test_bodies_are_rewritten_and_read_what_stands_for_what_they_captured(tmp_path: Path) -> None:
    before, after = parse(HEAD + IF), parse(HEAD + IF)
    run(after, engine(tmp_path, "opset ai.onnx 17\nrewrite r: Identity(x) => x"))
    assert kinds(after) == ["If"]
    [node] = list(after.graph)
    assert [n.op_type for n in node.attributes["then_branch"].as_graph()] == ["Neg"]
    for condition in (True, False):
        inputs = {"x": np.array([1.0, -2.0, 3.0], np.float32), "c": np.array(condition)}
        np.testing.assert_array_equal(Simulator(after).run(inputs)["y"], Simulator(before).run(inputs)["y"])


def test_a_known_condition_leaves_its_branch(tmp_path: Path) -> None:
    text = HEAD + IF.replace("(float[3] x, bool c)", "(float[3] x)").replace(
        "=> (float[3] y) {", "=> (float[3] y) <bool c = {0}> {", 1
    )
    before, after = parse(text), parse(text)
    run(after, engine(tmp_path, "opset ai.onnx 17\nrewrite r: Identity(x) => x"))
    assert kinds(after) == ["Abs"]
    agree(before, after)


def test_outputs_keep_their_names(tmp_path: Path) -> None:
    text = HEAD + "g (float[3] x) => (float[3] a, float[3] b, float[3] c) { a = Identity(x) b = Neg(x) c = Neg(x) }"
    before, after = parse(text), parse(text)
    run(after, engine(tmp_path, "opset ai.onnx 17\nrewrite r: Identity(x) => x"))
    assert [o.name for o in after.graph.outputs] == ["a", "b", "c"]
    agree(before, after)


def test_every_new_node_says_which_rule_made_it(tmp_path: Path) -> None:
    after = parse(HEAD + "g (float[3] x, float[3] z) => (float[3] y) { a = Neg(z) y = Add(x, a) }")
    outcome = run(after, engine(tmp_path, "opset ai.onnx 17\nrewrite minus: Add(x, Neg(z)) => Sub(x, z)"))
    [node] = list(after.graph)
    assert outcome.made_by == {node.name: "user/mine.minus"}
    assert outcome.fired == {"user/mine.minus": 1}


def test_a_rule_that_grows_without_end_is_stopped_and_says_so(tmp_path: Path) -> None:
    text = HEAD + "g (float[3] x, float[3] z) => (float[3] y) { a = Add(x, z) y = Neg(a) }"
    before, after = parse(text), parse(text)
    rule = "opset ai.onnx 17\nrewrite grow: Neg(x) => Neg(Add(x, x)) when x.rank == 1"
    outcome = run(after, engine(tmp_path, rule, limits=Limits(iterations=60, nodes=5000, seconds=20.0)))
    assert outcome.stopped in ("iterations", "nodes")
    assert kinds(after) == ["Add", "Neg"]
    agree(before, after)


def test_a_wrong_rule_that_contradicts_shapes_is_refused_with_both(tmp_path: Path) -> None:
    after = parse(HEAD + "g (float[3,4] x) => (float[4,3] y) { y = Transpose<perm=[1,0]>(x) }")
    with pytest.raises(GerulesError) as caught:
        run(after, engine(tmp_path, "opset ai.onnx 17\nrewrite wrong: Transpose(x, perm=_) => x when x.rank == 2"))
    [diagnostic] = caught.value.diagnostics
    assert diagnostic.code == "GR530"
    assert "f32[3,4]" in diagnostic.message and "f32[4,3]" in diagnostic.message
    assert diagnostic.hint is not None and "user/mine.wrong" in diagnostic.hint


def test_an_unknown_schedule_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(GerulesError) as caught:
        engine(tmp_path, "opset ai.onnx 17\nrewrite r: Identity(x) => x", schedule="nightly").compiled((), 17)
    assert caught.value.diagnostics[0].code == "GR521"
    assert "nightly" in caught.value.diagnostics[0].message


def test_a_deep_chain_goes_through_without_recursion(tmp_path: Path) -> None:
    nodes = ["v0 = Identity(x)"] + [f"v{k} = {'Neg' if k % 2 else 'Identity'}(v{k - 1})" for k in range(1, 3000)]
    text = HEAD + "g (float[3] x) => (float[3] y) { " + " ".join(nodes) + " y = Abs(v2999) }"
    after = parse(text)
    run(after, engine(tmp_path, "opset ai.onnx 17\nrewrite r: Identity(x) => x"))
    assert kinds(after) == ["Neg"] * 1500 + ["Abs"]


def test_a_rule_that_fits_no_member_of_its_class_is_refused(tmp_path: Path) -> None:
    rule = "opset ai.onnx 17\nclass Some = Relu | Neg\nrewrite r[f in Some]: f(x) => RandomNormalLike(x)"
    with pytest.raises(GerulesError) as caught:
        engine(tmp_path, rule).compiled((), 17)
    [diagnostic] = caught.value.diagnostics
    assert diagnostic.code == "GR501" and "impure" in diagnostic.message
