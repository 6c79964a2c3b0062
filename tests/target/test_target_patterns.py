"""Patterns over views: every construct of LANGUAGE section 3, on graphs and on e-classes."""

from __future__ import annotations

import numpy as np
import pytest
from target_helpers import ClassView, clause, graph

from gerules.dsl import ast
from gerules.errors import Refused
from gerules.graph.dims import Dim
from gerules.registry.definition import OperatorDef
from gerules.static import NodeView, TensorView

G = graph(
    """
    g (float[2,3] x, float[N,3] n, float[2,3] z, bool[2,3] c, float16[2,3] h, int64[2] t) => (float[2,3] out)
    <float zero = {0}, float minus = {-0.0}, float[2,3] ones = {1, 1, 1, 1, 1, 1}, int64[2] axes = {0, 1},
     int64[3] count = {0, 1, 2}, float six = {6}, float[3] w = {1, 2, 3}, int64[1] k = {1}>
    {
        [relu] r = Relu(x)
        [relu2] r2 = Relu(r)
        [add] a = Add(x, z)
        [same] a2 = Add(x, x)
        [zeroed] a3 = Add(x, zero)
        [minused] a4 = Add(x, minus)
        [scaled] m = Mul(x, ones)
        [where] s = Where(c, r, a)
        [clip] cl = Clip(x, zero)
        [clip_none] cn = Clip(x, , six)
        [cast] f = Cast <to = 10> (x)
        [cast_sat] f2 = Cast <to = 10, saturate = 0> (x)
        [leaky] l = LeakyRelu <alpha = 0.5> (x)
        [leaky_plain] lp = LeakyRelu (x)
        [cat] cc = Concat <axis = -1> (x, z, x)
        [cat1] c1 = Concat <axis = 0> (x)
        [perm] p = Transpose <perm = [1, 0]> (x)
        [perm_plain] pp = Transpose (x)
        [top] tv, ti = TopK (x, k)
        [split] sa, sb = Split <axis = 1, num_outputs = 2> (x)
        [drop] d = Dropout (x)
        [shape] sh = Shape (n)
        [expand] e = Expand (x, sh)
        [reshape] rs = Reshape (x, t)
        [gather] ga = Gather (x, count)
        [opaque] o = com.example.Thing (x, z)
        [opaque2] o2 = com.example.Other (x)
        [out] out = Identity (r2)
    }
    """
)
X = "x"


def matches(node: str, pattern: str, over: str = "", when: str = "", classes: str = "") -> list[dict[str, object]]:
    found = clause(pattern, over, when, classes).solutions(G.view, G.nodes[node])
    return [dict(f.env) for f in found]


CASES = [
    # operators and classes
    ("relu", "Relu(x)", "", True),
    ("relu", "Sigmoid(x)", "", False),
    ("relu", "f(x)", "[f in Relu | Sigmoid]", True),
    ("relu", "f(x)", "[f in Unary]", True),
    ("add", "f(x)", "[f in Unary]", False),
    ("relu", "f(..)", "[f in Elementwise]", True),
    ("relu", "f(..)", "[f in Onnx]", True),
    ("opaque", "f(..)", "[f in Onnx]", False),
    ("opaque", "f(..)", "[f in Opaque]", True),
    ("opaque", "f(..)", "[f in Onnx | Opaque]", True),
    ("relu", "f(..)", "[f in Opaque]", False),
    ("opaque", '"com.example"::"Thing"(x, _)', "", True),
    ("opaque", '"com.example"::"Thing"(..)', "", True),
    ("opaque", '"com.example"::"Thing"(x)', "", False),
    ("opaque2", '"com.example"::"Thing"(..)', "", False),
    # versions: unversioned is every one, a version its whole meaning
    ("clip", "Clip@13(..)", "", True),
    ("clip", "Clip@11(..)", "", True),
    ("clip", "Clip@6(..)", "", False),
    ("relu", "Relu@6(x)", "", True),
    # operands by place; absent ones
    ("add", "Add(x, z)", "", True),
    ("add", "Add(x)", "", False),
    ("add", "Add(x, _, _)", "", False),
    ("clip", "Clip(x, lo, hi)", "", True),
    ("clip", "Clip(x, lo, none)", "", True),
    ("clip", "Clip(x, none, _)", "", False),
    ("clip", "Clip(x, lo)", "", True),
    ("clip_none", "Clip(x, none, hi)", "", True),
    ("clip_none", "Clip(x, _, hi)", "", True),
    ("clip_none", "Clip(x, const(_), hi)", "", False),
    ("clip_none", "Clip(x)", "", False),
    ("same", "Add(x, x)", "", True),
    ("add", "Add(x, x)", "", False),
    # rests
    ("where", "Where(c, ..)", "", True),
    ("where", "Where(..)", "", True),
    ("where", "f(..p, Relu(x), ..q)", "[f in Elementwise]", True),
    ("add", "f(..p, Relu(x), ..q)", "[f in Elementwise]", False),
    ("cat", "Concat(a, ..r)", "", True),
    ("cat", "Concat(a, ..r, b, axis=_)", "", True),
    ("cat", "Concat(a, b, axis=_)", "", False),
    ("cat1", "Concat(x, axis=_)", "", True),
    ("cat", "Concat(x, axis=_)", "", False),
    ("scaled", "f(..const(v))", "[f in Binary]", False),
    ("cat", "Concat(..x, axis=k)", "", True),
    # attributes: default unless mentioned, `..` for any
    ("cast", "Cast(x, to=t)", "", True),
    ("cast_sat", "Cast(x, to=t)", "", False),
    ("cast_sat", "Cast(x, ..)", "", True),
    ("cast_sat", "Cast(x, .., to=t)", "", True),
    ("cast_sat", "Cast(x, .., to=t, saturate=0)", "", True),
    ("cast_sat", "Cast(x, to=t, saturate=0)", "", True),
    ("cast", "Cast(x, to=f16)", "", True),
    ("cast", "Cast(x, to=f32)", "", False),
    ("cast", "Cast(x)", "", False),
    ("leaky", "LeakyRelu(x, alpha=0.5)", "", True),
    ("leaky", "LeakyRelu(x)", "", False),
    ("leaky", "LeakyRelu(x, ..)", "", True),
    ("leaky_plain", "LeakyRelu(x)", "", True),
    ("leaky_plain", "LeakyRelu(x, alpha=0.01)", "", False),
    ("perm", "Transpose(x, perm=[1, 0])", "", True),
    ("perm_plain", "Transpose(x, perm=none)", "", True),
    ("perm", "Transpose(x, perm=none)", "", False),
    ("relu", "Relu(x, colour=_)", "", False),
    # several results
    ("top", "TopK(x, _) as n", "", True),
    ("top", "TopK(x, _)[0] as v", "", True),
    ("top", "TopK(x, _, results=2)", "", True),
    ("top", "TopK(x, _, results=1)", "", False),
    ("drop", "Dropout(x)[0] as y", "", True),
    ("drop", "Dropout(x)[1] as y", "", False),
    ("split", "Split(x, none, axis=1, num_outputs=2)", "", True),
    # nested operators
    ("relu2", "Relu(Relu(x))", "", True),
    ("relu", "Relu(Relu(x))", "", False),
    ("out", "Identity(Relu(Relu(x)))", "", True),
    ("relu2", "f(f(x))", "[f in Unary]", True),
    ("out", "g(f(f(x)))", "[f in Unary, g in View]", True),
    # contents
    ("zeroed", "Add(x, const(0))", "", True),
    ("minused", "Add(x, const(0))", "", False),
    ("minused", "Add(x, const(-0.0))", "", True),
    ("zeroed", "Add(x, const(-0.0))", "", False),
    ("zeroed", "Add(x, const(v))", "", True),
    ("zeroed", "Add(x, const(v, dtype=f32))", "", True),
    ("zeroed", "Add(x, const(v, dtype=f16))", "", False),
    ("add", "Add(x, const(v))", "", False),
    ("scaled", "Mul(x, splat(1, _))", "", True),
    ("scaled", "Mul(x, splat(1, [2, n]))", "", True),
    ("scaled", "Mul(x, splat(2, _))", "", False),
    ("scaled", "Mul(x, const(1))", "", False),
    ("reshape", "Reshape(x, dims(_))", "", False),
    ("gather", "Gather(x, iota(s, 0), axis=0)", "", True),
    ("gather", "Gather(x, iota([n], a), axis=_)", "", True),
    ("top", "TopK(x, const([1]))", "", True),
]


@pytest.mark.parametrize(("node", "pattern", "over", "expected"), CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES])
def test_match(node: str, pattern: str, over: str, expected: bool) -> None:
    assert bool(matches(node, pattern, over)) is expected


CONDITIONS = [
    ("relu", "Relu(x)", "", "x.dtype == f32", True),
    ("relu", "Relu(x)", "", "x.dtype in {f16, i8}", False),
    ("relu", "Relu(x)", "", "x.rank >= 2, all(x.shape >= 2)", True),
    ("relu", "Relu(x) as y", "", "y.bytes <= 24", True),
    ("relu", "Relu(x) as y", "", "y.bytes <= 23", False),
    ("relu", "f(x)", "[f in Unary]", "not f in View", True),
    ("relu", "f(x)", "[f in Unary]", "f in Relu | View", True),
    ("clip_none", "Clip(x, lo, hi)", "", "lo == none, hi != none", True),
    ("clip", "Clip(x, lo, hi)", "", "lo != none, hi != none", False),
    ("clip_none", "Clip(x, lo, hi)", "", "lo.rank == 0", False),
    ("cat", "Concat(..xs, axis=k)", "", "all(xs.rank == 2), k % 2 == 1", True),
    ("cat", "Concat(..xs, axis=k)", "", "xs.size == 3", False),
    ("shape", "Shape(x, ..)", "", "x.shape[0] >= 1", False),
    ("shape", "Shape(x, ..)", "", "x.shape[0] >= 0", True),
    ("perm", "Transpose(x, perm=p)", "", "x.shape == [a, b], p == [1, 0], a < b", True),
    ("zeroed", "Add(x, z)", "", "const(v) as z, v == 0", True),
    ("add", "Add(x, z)", "", "const(_) as z", False),
    ("relu2", "Relu(x)", "", "Relu(_) as x", True),
    ("relu", "Relu(x)", "", "Relu(_) as x", False),
    ("cast", "Cast(x, to=t)", "", "not lossless(x.dtype, t)", True),
    ("add", "f(x, z)", "[f in Binary]", "not neutral_float(f, 1)", True),
    ("add", "f(x, z)", "[f in Binary]", "neutral_float(f, -0.0)", True),
    ("add", "f(x, z)", "[f in Binary]", "neutral_float(f, 0)", False),
    ("top", "TopK(x, _) as n", "", "n[1].dtype == i64, n.dtype == f32", True),
    ("top", "TopK(x, _)[1] as i", "", "i.dtype == i64", True),
]


@pytest.mark.parametrize(
    ("node", "pattern", "over", "when", "expected"), CONDITIONS, ids=[f"{c[0]}-{c[1]}-{c[3]}" for c in CONDITIONS]
)
def test_conditions(node: str, pattern: str, over: str, when: str, expected: bool) -> None:
    assert bool(matches(node, pattern, over, when)) is expected


def test_what_a_match_binds() -> None:
    (env,) = matches("leaky", "LeakyRelu(x, alpha=a) as y")
    assert env["a"] == 0.5
    assert isinstance(env["x"], TensorView) and env["x"].info.text == "f32[2,3]"
    assert isinstance(env["y"], NodeView) and env["y"].info.text == "f32[2,3]"
    (env,) = matches("clip_none", "Clip(x, lo, const(hi))")
    assert env["lo"] is None
    assert isinstance(env["hi"], np.ndarray) and env["hi"] == np.float32(6)
    (env,) = matches("cast", "f(x, to=t)", "[f in Cast]")
    assert env["t"] == "f16"
    assert isinstance(env["f"], OperatorDef) and env["f"].name == "Cast"
    (env,) = matches("cat", "Concat(a, ..r, axis=k)")
    assert isinstance(env["r"], tuple) and len(env["r"]) == 2
    assert env["k"] == -1
    (env,) = matches("split", "Split(x, none, axis=k, results=n, ..)")
    assert env["n"] == 2
    (env,) = matches("perm", "Transpose(x, perm=p)")
    assert env["p"] == (1, 0)


def test_a_pattern_finds_every_place_of_an_operand() -> None:
    two = graph("g (float[2] x) => (float[2] y) { [a] a = Relu(x) [b] b = Relu(a) [y] y = Add(a, b) }")
    found = list(clause("f(..p, Relu(x), ..q)", "[f in Binary]").matcher.match(two.view, two.nodes["y"]))
    assert [(len(e["p"]), len(e["q"])) for e in found] == [(0, 1), (1, 0)]  # type: ignore[arg-type]


def test_a_rest_with_a_pattern_takes_every_operand() -> None:
    text = """g (float[4] x, uint8[4] q, float s, uint8 z) => (uint8[4] y, uint8[4] v)
    {
        [d1] a = DequantizeLinear(q, s, z)
        [d2] b = DequantizeLinear(q, s, z)
        [add] c = Add(a, b)
        [q1] y = QuantizeLinear(c, s, z)
        [half] e = Add(a, x)
        [q2] v = QuantizeLinear(e, s, z)
    }"""
    g = graph(text)
    quantised = clause("QuantizeLinear(f(..(DequantizeLinear(..) as d), ..), ..)", "[f in Cube | Elementwise]")
    assert not quantised.holds(g.view, g.nodes["q2"])
    (found,) = quantised.solutions(g.view, g.nodes["q1"])
    assert [n.name for n in found.nodes] == ["q1", "add", "d1", "d2"]
    assert isinstance(found.env["d"], tuple) and len(found.env["d"]) == 2


def test_a_class_of_equal_values_has_several_producers() -> None:
    view = ClassView()
    view.add("relu", "Relu", ["x"], "y")
    view.add("neg", "Neg", ["x"], "y")
    view.add("abs", "Abs", ["w"], "y")
    view.add("top", "Exp", ["y"], "z")
    pattern = clause("f(g(x))", "[f in Unary, g in Unary]").matcher
    found = list(pattern.found(view, "top"))
    assert [n for f in found for n in f.nodes] == ["top", "relu", "top", "neg", "top", "abs"]
    assert not clause("Exp(Sin(x))").holds(view, "top")
    assert clause("Exp(Abs(x))").holds(view, "top")


@pytest.mark.parametrize(
    ("pattern", "info", "expected"),
    [
        ("Expand(x, dims(s))", "i64[2]=[N,3]", {"s": (Dim.symbol("N"), 3)}),
        ("Expand(x, dims([n, 3]))", "i64[2]=[N,3]", {"n": Dim.symbol("N")}),
        ("Expand(x, dims([n, 4]))", "i64[2]=[N,3]", None),
        ("Expand(x, dims([n, ..r]))", "i64[3]=[N,3,?]", {"n": Dim.symbol("N"), "r": (3, None)}),
        ("Expand(x, dims([..r, n]))", "i64[3]=[N,3,?]", None),
        ("Expand(x, dims(_, dtype=i32))", "i64[1]=[N]", None),
        ("Expand(x, dim(d))", "i64[]=[N]", {"d": Dim.symbol("N")}),
        ("Expand(x, dim(d))", "i64[1]=[N]", None),
        ("Expand(x, dims(s))", "i64[]=[N]", None),
        ("Expand(x, splat(v, s))", "f32[N,4]~f32[]|00004040", {"v": 3.0, "s": (Dim.symbol("N"), 4)}),
        ("Expand(x, const(v))", "f32[N,4]~f32[]|00004040", None),
        ("Expand(x, const([1, 2]))", "i64[2]=i64[2]|01000000000000000200000000000000", {}),
    ],
)
def test_contents_as_far_as_they_are_known(pattern: str, info: str, expected: dict[str, object] | None) -> None:
    view = ClassView(infos={"s": info})
    view.add("expand", "Expand", ["x", "s"], "y")
    found = [dict(f.env) for f in clause(pattern).solutions(view, "expand")]
    if expected is None:
        assert found == []
    else:
        assert [{name: env[name] for name in expected} for env in found] == [expected]


def test_a_cyclic_class_ends() -> None:
    view = ClassView()
    view.add("expand", "Expand", ["y", "s"], "y")
    view.add("relu", "Relu", ["x"], "y")
    pattern = clause("Expand(Expand(x, _), _)").matcher
    assert [f.nodes for f in pattern.found(view, "expand")] == [("expand", "expand")]


def test_a_pattern_says_what_it_asks_for() -> None:
    flat, deep = clause("f(x)", "[f in Relu | Sigmoid]"), clause("Relu(Relu(x))")
    assert flat.flat and not deep.flat
    assert not clause("Relu(x)", when="Relu(_) as x").flat
    assert clause("Relu(x)", when="const(_) as x").flat
    assert {key.split("@")[0] for key in flat.matcher.heads.keys} == {"Relu", "Sigmoid"}


def test_a_long_chain_is_no_recursion() -> None:
    body = "\n".join(f"[n{i}] v{i + 1} = Relu(v{i})" for i in range(3000))
    chain = graph(f"g (float[2] v0) => (float[2] v3000) {{ {body} }}")
    found = clause("Relu(Relu(x))")
    assert sum(found.holds(chain.view, node) for node in chain.nodes.values()) == 2999


@pytest.mark.parametrize(
    ("pattern", "when", "code"),
    [
        ("Relu(x + 1)", "", "GR600"),
        ("g(x)", "", "GR600"),
        ("Relu(const(a, b))", "", "GR601"),
        ("Relu(const(v, colour=1))", "", "GR601"),
        ("Relu(splat(v, s + 1))", "", "GR601"),
        ("TopK(x, _)[k] as y", "", "GR600"),
        ("Relu(x)", "Relu(_) as z", "GR602"),
        ("Relu(x)", "z >= 1", "GR642"),
    ],
)
def test_faulty_patterns_are_refused(pattern: str, when: str, code: str) -> None:
    with pytest.raises(Refused) as caught:
        clause(pattern, "", when)
    assert [d.code for d in caught.value.diagnostics] == [code]
    assert caught.value.diagnostics[0].span is not None


def test_terms_and_values_are_told_apart() -> None:
    from gerules.target.patterns import is_term

    assert is_term(ast.Bind(ast.Call(ast.Symbol("", "Relu"), (ast.Name("x"),)), "y"))
    assert not is_term(ast.Call(ast.Name("neutral"), (ast.Name("f"),)))
