"""What static expressions mean: LANGUAGE section 3, construct by construct."""

from __future__ import annotations

import math

import numpy as np
import pytest
from static_helpers import ADD, CONTEXT, FOREIGN, SUB, conditions, dims, expression, tensor, truth, value

from gerules.errors import Refused
from gerules.graph.dims import Dim
from gerules.static import Context, NodeView, compile_condition, compile_expr

N, H = Dim.symbol("N"), Dim.symbol("H")
X = tensor("f32[1,N,4]")
ENV = {
    "x": X,
    "y": tensor("f16[8,N,4]"),
    "u": tensor("i64[*]"),
    "w": tensor("?"),
    "xs": (tensor("f32[2,N]"), tensor("f32[3,N]")),
    "s": dims(1, "N", 4),
    "p": (2, 0, 1),
    "q": (1, 1, 2),
    "holes": (3, None, 5),
    "k": 2,
    "absent": None,
    "vector": np.array([1, 2, 3], dtype=np.int64),
    "matrix": np.ones((2, 3), dtype=np.float32),
    "long": np.zeros(100_000, dtype=np.int64),
    "scalar": np.array(0.5, dtype=np.float32),
    "m": frozenset({0, 2}),
    "n": frozenset({2, 3}),
    "f": ADD,
    "g": SUB,
    "o": FOREIGN,
    "t": "f16",
    "minus": -0.0,
    "nan": math.nan,
    "node": {"engine": "AiCore", "label": ""},
}

VALUES = [
    # numbers, with units applied by the parser
    ("2 + 3 * 4", 14),
    ("7 // 2", 3),
    ("-7 // 2", -4),
    ("-7 % 4", 1),
    ("7 / 2", 3.5),
    ("1 // 0", "unknown"),
    ("20us + 1 / 4", 0.25002),
    ("-minus", 0.0),
    # lists: element-wise, numbers stretch
    ("p * 2 + 1", (5, 1, 3)),
    ("p + q", (3, 1, 3)),
    ("q - 1", (0, 0, 1)),
    ("2 - p", (0, 2, 1)),
    ("-p", (-2, 0, -1)),
    ("p + [1]", "unknown"),
    ("p // (q - 1)", (None, None, 1)),
    ("holes + 1", (4, None, 6)),
    ("vector * vector", (1, 4, 9)),
    ("scalar * 4", 2.0),
    # entries
    ("p[0]", 2),
    ("s[-1]", 4),
    ("s[1]", N),
    ("s[p]", dims(4, 1, "N")),
    ("s[[0, 2]]", (1, 4)),
    ("s[m]", (1, 4)),
    ("p[3]", "unknown"),
    ("holes[1]", "unknown"),
    ("holes[[0, 1]]", (3, None)),
    ("s[s[1]]", "unknown"),
    # constructors
    ("[..s, 7]", dims(1, "N", 4, 7)),
    ("[..p, ..q]", (2, 0, 1, 1, 1, 2)),
    ("[x.rank, u.rank]", (3, None)),
    ("[]", ()),
    ("{0, 2}", frozenset({0, 2})),
    ("{}", frozenset()),
    # dimensions
    ("s[1] * 4", N * 4),
    ("s[1] - s[1]", 0),
    ("(s[1] + 3) // 1", N + 3),
    ("s[1] / 2", "unknown"),
    ("H % 4", 0),
    ("H % 16", H.mod(16)),
    ("N // 0", "unknown"),
    ("-N", N * -1),
    # fields
    ("x.shape", dims(1, "N", 4)),
    ("x.rank", 3),
    ("x.dtype", "f32"),
    ("x.size", N * 4),
    ("x.bytes", N * 16),
    ("u.shape", "unknown"),
    ("u.rank", "unknown"),
    ("u.dtype", "i64"),
    ("w.dtype", "unknown"),
    ("absent.dtype", "unknown"),
    ("p.size", 3),
    ("vector.size", 3),
    ("xs.shape", (dims(2, "N"), dims(3, "N"))),
    ("xs.rank", (2, 2)),
    ("xs.shape[0]", (2, 3)),
    ("node.engine", "AiCore"),
    ("node.colour", "unknown"),
    # sets
    ("m | n", frozenset({0, 2, 3})),
    ("m & n", frozenset({2})),
    ("m - n", frozenset({0})),
    ("Half | {f32}", frozenset({"f16", "bf16", "f32"})),
    ("m + 1", "unknown"),
    # built-in functions
    ("range(3)", (0, 1, 2)),
    ("range(1, x.rank)", (1, 2)),
    ("range(N)", "unknown"),
    ("product(s)", N * 4),
    ("product([])", 1),
    ("product(holes)", "unknown"),
    ("product([0, u.rank])", 0),
    ("sum(p)", 3),
    ("sum(..xs.shape[0])", 5),
    ("sum(1, 2)", 3),
    ("broadcast(x.shape, [8, 1, 1])", dims(8, "N", 4)),
    ("broadcast([4], x.shape)", dims(1, "N", 4)),
    ("broadcast(..xs.shape)", "unknown"),
    ("broadcast([M], [N])", dims("N")),
    ("broadcast([2], [3])", "unknown"),
    ("broadcast(1, N)", N),
    ("broadcast()", ()),
    ("lower(N) + upper(N)", 66),
    ("upper(H)", "unknown"),
    # words, types, tables
    ("none", None),
    ("true", True),
    ("inf", math.inf),
    ("f32", "f32"),
    ("class_name(2)", "prefix"),
    ("class_name(3)", "unknown"),
    ("x.rank == 3", True),
    ("N == 5", "unknown"),
]


@pytest.mark.parametrize(("text", "expected"), VALUES, ids=[t for t, _ in VALUES])
def test_value(text: str, expected: object) -> None:
    found = value(text, CONTEXT, **ENV)
    if isinstance(expected, float):
        assert found == pytest.approx(expected)
    else:
        assert found == expected
        assert isinstance(found, bool) == isinstance(expected, bool)


TRUTHS = [
    # equality of the whole
    ("p == [2, 0, 1]", True),
    ("p != [2, 0, 1]", False),
    ("p == [2, 0]", False),
    ("x.shape == s", True),
    ("s == [1, N, 5]", False),
    ("s == [1, M, 4]", None),
    ("s != [1, M, 4]", None),
    ("holes == [3, 4, 5]", None),
    ("holes == [4, 4, 5]", False),
    ("vector == [1, 2, 3]", True),
    ("scalar == 0.5", True),
    ("absent == none", True),
    ("absent != none", False),
    ("k != none", True),
    ("k == true", False),
    ("t == f16", True),
    ("m & n == {2}", True),
    ("m & n != {}", True),
    ("f == f", True),
    ("f == g", False),
    # zeros of different sign are neither equal nor different
    ("minus == 0", None),
    ("minus != 0", None),
    ("minus == -0.0", True),
    ("nan == nan", False),
    ("nan >= 0", False),
    # what is promised of dimensions
    ("A == B", True),
    ("N == 1", False),
    ("N >= 2", True),
    ("N > 64", False),
    ("N <= 64", True),
    ("N < 65", True),
    ("N >= 5", None),
    ("M >= 0", True),
    ("M >= 1", None),
    ("N + M > N", None),
    ("N + M >= N", True),
    ("H % 8 == 0", True),
    ("H % 16 == 0", None),
    ("H % 3 == 0", None),
    ("u.rank >= 2", None),
    ("absent.rank == 1", None),
    # order of lists holds on every axis
    ("q >= 1", True),
    ("p >= 1", False),
    # all and some
    ("all(p >= 0)", True),
    ("all(p >= 1)", False),
    ("all([] >= 1)", True),
    ("some([] >= 1)", False),
    ("all(s >= 1)", True),
    ("all(s >= 2)", False),
    ("all(s <= 30)", None),
    ("some(s <= 0)", False),
    ("some(s >= 4)", True),
    ("some(s == 30)", None),
    ("all(holes >= 1)", None),
    ("some(holes >= 5)", True),
    ("all(holes >= 4)", False),
    ("all(p == [1, 2])", None),
    ("all(u.shape >= 0)", None),
    ("all(x.rank == 3)", True),
    ("all(xs.rank == 2)", True),
    ("all(xs.shape[1] == N)", True),
    ("some(xs.shape == 3)", True),
    ("all(p >= 1 or q >= 1)", True),
    ("all(p >= 1 or q >= 2)", False),
    ("all(p >= 1 or u.shape == 0 or q == 1)", True),
    ("all(p >= 2 or u.shape == 0 or q == 1)", None),
    ("some(p == 2 and q == 1)", True),
    ("some(p == 2 and q == 2)", False),
    ("all(not p == 3)", True),
    ("all(p in {0, 1, 2})", True),
    ("some(p in {2})", True),
    ("all(s in {1, 4})", None),
    ("all(p in 0..2)", True),
    # constants of any size
    ("all(matrix == 1)", True),
    ("some(matrix != 1)", False),
    ("all(long == 0)", None),
    ("some(long != 0)", None),
    ("long == [0, 0]", None),
    ("long == long", True),
    ("matrix == 1", False),
    ("matrix + 1 == 2", None),
    # and, or, not have three values
    ("p == [2, 0, 1] or N >= 5", True),
    ("N >= 5 or k == 3", None),
    ("not N >= 5", None),
    ("not N >= 2", False),
    ("not x.dtype in Half", True),
    ("k == 2 or u.rank == 1", True),
    # in
    ("x.dtype in {f16, f32}", True),
    ("x.dtype in Half | {i8}", False),
    ("x.rank in {4, 5}", False),
    ("w.dtype in Half", None),
    ("N in {1, 128}", False),
    ("N in {8, 16}", None),
    ("k in Small", True),
    ("k in [1, 2]", True),
    ("k in 1..5", True),
    ("absent in {1}", False),
    ("true in {1}", False),
    ("f in Binary", True),
    ("o in Binary", False),
    # relations
    ("neutral(g, 0)", True),
    ("neutral(g, minus)", False),
    ("neutral(f, minus)", True),
    ("neutral(f, 0)", False),
    ("neutral(f, _)", True),
    ("not neutral(o, _)", True),
    ("neutral(g, u.rank)", None),
    ('part("AiCore", "Other")', True),
    ('node.label != ""', False),
    # a truth from a function
    ("lossless(f16, f32)", True),
    ("lossless(x.dtype, t)", False),
    ("lossless(w.dtype, t)", None),
]


@pytest.mark.parametrize(("text", "expected"), TRUTHS, ids=[t for t, _ in TRUTHS])
def test_truth(text: str, expected: bool | None) -> None:
    assert truth(text, CONTEXT, **ENV) is expected
    (condition,) = conditions(text)
    assert compile_condition(condition, CONTEXT)(ENV) is (expected is True)


def test_results_of_a_node_are_its_entries_and_the_first_is_the_node() -> None:
    node = NodeView(X.info, None, (X, None, tensor("i64[N]")))
    assert value("n.dtype", n=node) == "f32"
    assert value("n[2].dtype", n=node) == "i64"
    assert value("n[1]", n=node) == "unknown"
    assert value("n[3]", n=node) == "unknown"


@pytest.mark.parametrize(
    ("text", "code"),
    [("nowhere(1)", "GR640"), ("Relu(x)", "GR640"), ("_ + 1", "GR640"), ("[.., 1]", "GR640"), ("all(p, q)", "GR640")],
)
def test_what_has_no_static_value_is_refused_when_compiled(text: str, code: str) -> None:
    with pytest.raises(Refused) as caught:
        compile_expr(expression(text), CONTEXT)
    assert caught.value.diagnostics[0].code == code
    assert caught.value.diagnostics[0].span is not None


def test_a_condition_that_is_no_truth_is_refused() -> None:
    with pytest.raises(Refused, match="GR641"):
        compile_condition(expression("k + 1"), CONTEXT)(ENV)


def test_functions_of_the_context_come_first() -> None:
    from gerules.static.host import HostFunction

    double = HostFunction("double", (("a", "int"),), "int", lambda a: 2 * a)
    assert value("double(k)", Context(functions={"double": double}), k=21) == 42


def test_a_closure_has_no_state() -> None:
    closure = compile_expr(expression("p[q] + k"), CONTEXT)
    assert closure({"p": (5, 6), "q": (1, 0), "k": 1}) == (7, 6)
    assert closure({"p": (5, 6), "q": (0,), "k": 2}) == (7,)
