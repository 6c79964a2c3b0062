"""What the checker lets pass, and what it says of faults that stand in no golden file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gerules.dsl.assemble import assemble
from gerules.dsl.checker import check
from gerules.dsl.parser import parse_text
from gerules.errors import Diagnostic
from gerules.paths import rules_root
from gerules.registry import onnx_registry
from gerules.report import render, to_github, to_json

PRELUDE = """opset ai.onnx 21
class Unary = Abs | Neg | Relu | LeakyRelu | Cast
class Binary = Add | Sub | Mul
class Variadic = Max | Sum
class Elementwise = Unary | Binary | Variadic | Where
class Half = {f16, bf16}
class Onnx = operators("ai.onnx")
table bump(older: op, newer: op)
function lossless(from: dtype, to: dtype) -> bool
function fill(v: int, n: int) -> ints
function most(a: dim, b: dim) -> dim
function evaluate(f: op, args: any*) -> const
op gerules.Window(x: T, start: shape, stop: shape, step: ints) -> y: T
let slice(x, s, e, p) = gerules.Window(x, start=s, stop=e, step=p)
"""


def found(text: str) -> list[Diagnostic]:
    file, faults = parse_text(PRELUDE + text, "a.rules", "user/a")
    assert faults == []
    program, faults = assemble([file], onnx_registry())
    return faults + check(program, frozenset({"lossless", "fill", "most"}))


ACCEPTED = [
    "rewrite a[f in Elementwise]: f(..p, Expand(x, _), ..q) as y => Expand(f(..p, x, ..q), dims(y.shape))",
    "rewrite a: Transpose(Transpose(x, perm=p), perm=q) => Transpose(x, perm=p[q])",
    "rewrite a: Clip@6(x, min=lo, max=hi) <=> Clip@11(x, const(lo), const(hi))",
    "rewrite a: Dropout(x, _, none, ..)[0] => x",
    "rewrite a: TopK@10(x, k, axis=a) <=> TopK@11(x, k, axis=a, largest=1, sorted=1)",
    "rewrite a: Split(Expand(x, _) as e, s, axis=k, ..r)[i] as y => Expand(Split(x, s, axis=k, ..r)[i], "
    "dims(y.shape))\n    when x.rank == e.rank",
    "rewrite a: Concat((Split(x, _, axis=k, results=2, ..) as n)[0], n[1], axis=k) => x",
    "rewrite a: Concat(..(Expand(x, _) as e), axis=k) as y => Expand(Concat(..x, axis=k), dims(y.shape))",
    "rewrite a: slice(slice(x, s, e, p), t, f, q) => slice(x, s + p * t, s + p * (f - 1) + 1, p * q) when all(f > t)",
    "rewrite a: Cast(Cast(x, to=t, ..), to=u, ..r) => Cast(x, to=u, ..r) when lossless(x.dtype, t)",
    "rewrite a: Softmax(x, axis=k) => Softmax(x, axis=j) when j == k % x.rank",
    "rewrite a: MatMul(x, z) as y => Mul(x, z) when x.shape == [m, 1], z.shape == [1, n]",
    "rewrite a[f in Unary]: f(..const(v), ..r) => evaluate(f, v, ..r)",
    "rewrite a: Where(splat(true, _), x, _) as y => Expand(x, dims(y.shape))",
    "rewrite a[f in Onnx, g in Onnx]: f(..r, axis=k) <=> g(..r, axis=k) when bump(f, g), k >= 0",
    "rewrite a: Cast(x, to=t, ..) => x when x.dtype == t, t in Half | {f32}, not t in {f16}",
    "rewrite a: Resize(x, r, none, const(z), ..q) => Resize(x, r, const(z / x.shape), none, ..q)\n"
    "    when all(z % x.shape == 0)",
    'rewrite a: Pad(x, const(w), none, none, mode="reflect") => x when all(w == 0)',
    "rewrite a: Relu(x) => x when x.rank == 1 or x.rank == 2 and x.size >= 3",
    "rewrite a: Reshape(x, s, allowzero=1, ..) => Reshape(x, s) when s != none",
    'rewrite a: "my"::"Op"(x, k=1) => x',
    "rewrite a: BatchNormalization@9(x, s, b, m, v, epsilon=e, momentum=k, results=1)\n"
    "    <=> BatchNormalization@14(x, s, b, m, v, epsilon=e, momentum=k, training_mode=0, results=1)",
    "rewrite a: Gather(x, Expand(i, _), axis=0) as y => Expand(Gather(x, i, axis=0), dims(y.shape))",
    "fact a: y.shape == [..broadcast(p, q), m, n], k == l\n"
    "    when MatMul(a, b) as y, a.shape == [..p, m, k], b.shape == [..q, l, n]",
    "fact a: y.shape == x.shape[p] when Transpose(x, perm=p) as y",
    "fact a: y == dims(x.shape) when Shape(x) as y",
    "fact a: neutral(Sub, 0), neutral(Mul, 1), neutral(Add, -0.0)",
    "fact a: N >= 1, N <= 64, H % 8 == 0, likely(S, 128)",
    "fact a: flops(y) == 2 * y.size * k when MatMul(a, b) as y, a.shape == [.., k]",
    "fact a: order(f) <= 3 when bump(f, g)\nfact b: last(f) when order(f) == 3",
    "fact a: same(f, g) when bump(f, g), not changes(g)\nfact b: changes(Softmax@13)",
    "fact a: y.shape[k] == sum(..xs.shape[k]) when Concat(..xs, axis=k) as y",
    "table past(f: op, i: int)\nrewrite a[f in Unary]: f(x, ..) => x when v == w + n, past(f, n), w == x.rank, v >= 3",
    'deny a: "{y} has {n} elements" when Relu(x) as y, n == y.size, n >= 10',
    "group a[f in Elementwise]: QuantizeLinear(f(..(DequantizeLinear(..) as d), ..), ..)",
    "engine E:\n    memory = M\n    streams = 2\n    cost = flops / 1e12 + bytes / 4e9\n"
    "    supports[f in Onnx | Opaque] f(x, ..) as y when x.dtype in Half | {f32}, y.bytes <= 64MiB, all(x.shape <= 9)\n"
    "    supports Conv(x, w, _, group=g, ..) when g == 1 or g == x.shape[1]\n    supports Pad(mode=\"constant\", ..)\n"
    "    cost[f in MatMul | Gemm] f(a, b) as y = flops / 1e12 + 16 * y.size / 1.2e12 when a.shape[-1] % 16 != 0\n"
    "engine C:\n    parts = E\n    launch = 5us\ntransfer M <-> E = 1us + bytes / 1e9\n"
    "merge m: a -> b when a.engine == E, b.engine == a.engine, a.size + b.size <= 512, a.label != \"\"",
    "rewrite a: Identity(x) => x\nexample a: Identity(x: f32[]) => x\n"
    "example a: Identity(Relu(x: f32[N, 2 * N])) => Relu(x)",
    "rewrite a: Reshape@13(x, s) => Reshape@14(x, s, allowzero=0)\n"
    "rewrite b: Reshape(x, s) => Reshape(x, s, allowzero=1) when x.size >= 1\n"
    "example b: Reshape(x: f32[0], const([0]), allowzero=1) stays because allowzero == 0",
    "rewrite a: Cast(Cast(x, to=t, ..), to=u, ..) => x when x.dtype == u, lossless(u, t)\n"
    "example a: Cast(Cast(x: f32[N], to=f16), to=f32) stays because lossless(u, t)\n"
    "example a: Cast(Cast(x: f32[N], to=f16), to=f32) => x refuted without lossless(u, t)",
    "fact a: y.shape == x.shape when Relu(x) as y\nexample a: Relu(x: f32[A, B]) as y gives y.shape == [A, B]",
    "schedule s: repeat 3 (saturate user run user (limit = 3)) backoff user (limit = 10, ban = 2) "
    "limit (seconds = 0.5)",
    "schedule s: run user\nstudy t: vary schedule in {s} vary nodes in {10, 20} "
    "vary seed in 1..5 vary without in rulesets(user)",
]  # fmt: skip


@pytest.mark.parametrize("text", ACCEPTED, ids=range(len(ACCEPTED)))
def test_accepted(text: str) -> None:
    assert render(found(text)) == ""


REFUSED = {
    "rewrite a: Relu(x) => x when not wide(y)\nfact b: wide(x) when Relu(x)": ["GR140"],
    "rewrite a[f in Unary, f in Binary]: f(x, ..) => x": ["GR141"],
    "rewrite a: Split(x, s, axis=k) => Relu(x)": ["GR138"],
    "rewrite a: Relu(x) => x when x.shape[0] == mode": ["GR144"],
    "rewrite a: Where(c, x, y) => x when c.dtype == f32": ["GR143"],
    "rewrite a: Add(x, y) => x when x.dtype in {bool, str}": ["GR143"],
    "rewrite a: Add(x, y) => x when x.dtype in {bool, f32}": [],
    "fact a: wide(x) when Relu(x)\nrewrite b: Relu(x) => x when wide(x, x)": ["GR175"],
    "fact a: wide(x) when Relu(x)\nfact b: wide(x, y) when Add(x, y)": ["GR175"],
    'fact a: bump("Relu", Abs)': ["GR147", "GR137"],
    "fact a: even(x) when Relu(x), not even(x)": ["GR148"],
    "fact a: low(x) <= 1 when Relu(x), low(x) == 2": ["GR148"],
    "rewrite a: Relu(x) as y => x when y.shap == x.shape": ["GR169"],
    "rewrite a: Softmax(x, axis=k) => x when k.shape == [1]": ["GR127"],
    "rewrite a: Softmax(x, axis=k, axes=k) => x": ["GR133"],
    "rewrite a: Transpose(x, perm=p) => Softmax(x, axis=p)": ["GR127"],
    "rewrite a: LSTM(x, w, r, ..) => x": ["GR138"],
    "group g: Relu(const(v))": ["GR155"],
    "merge m: a -> b when a.engine == Npu": ["GR131"],
    "merge m: a -> b when c.engine == a.engine": ["GR140"],
    "engine E:\n    cost = flop / 1e12\n    supports Relu(x)": ["GR140"],
    "engine E:\n    cost = 1us\n    supports Rleu(x)": ["GR130"],
    "engine E:\n    cost = 1us\n    supports Relu(x, y, z)": ["GR136"],
    "engine E:\n    parts = F\n    launch = 1us": ["GR131"],
    "schedule s: saturate user (ban = 3)": ["GR165"],
    "rewrite a: Identity(x) => x\nexample a: Identity(x: f33[]) => x": ["GR131"],
    "rewrite a: Identity(x) => x\nexample a: Identity(x: f32[]) => y": ["GR140"],
    "rewrite a: Identity(x) => x\nexample a: Identity(x: f32[]) stays because x.rank == 1": ["GR160"],
    "rewrite a: Add(x, y) => x\nexample a: Add(x: f32[], x: f16[]) => x": ["GR141"],
    "rewrite a: Identity(x) => Cast(x, to=f32, ..)": ["GR140"],
    "rewrite a: Relu(x) as y => Add(x, y)": ["GR145"],
    "rewrite a[f in Unary]: f(x, ..r) => Relu(f(x, ..r))": ["GR145"],
    "rewrite a: Relu(x) as y => Expand(x, dims(y.shape))": [],
    "fact a: wide(x) when Relu(x)\nfact b: slim(x) when Abs(x)\nfact c: odd(y) when wide(y) or slim(y)": ["GR140"],
    "fact a: d >= 0 when x.shape == [..s, d]": ["GR140"],
    "rewrite a: And(Relu(x), y) => y": ["GR143"],
    "rewrite a: Where(c, x, y) => Relu(c)": ["GR127"],
    "rewrite a: Where(c, Relu(c), y) => y": ["GR143"],
    "rewrite a: Equal(x, y) => Sub(x, y)": ["GR127"],
    "rewrite a: Not(Relu(x) as z) => z": ["GR143"],
    "rewrite a: TopK(x, k)[1] => Sqrt(x)": ["GR127"],
    "rewrite a: Relu@13(x) => x when x.dtype == i32": [],
    "let pair(x) = [x, z]": ["GR140"],
    "table t(a: str, a: int)": ["GR141"],
    "opset ai.onnx 20": ["GR173"],
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    assert [d.code for d in found(text)] == REFUSED[text]


def test_all_faults_of_all_rules_are_found_at_once() -> None:
    text = "".join(f"rewrite a{i}: Relu(x) => y{i}\n" for i in range(50))
    assert [d.code for d in found(text) if d.severity == "error"] == ["GR140"] * 50


def test_a_long_chain_of_facts_is_stratified() -> None:
    chain = "".join(f"fact f{i}: p{i}(x) when p{i - 1}(x)\n" for i in range(1, 1000))
    start = "fact f0: p0(x) when Relu(x)\n"
    assert found(start + chain) == []
    broken = found(start + chain + "fact back: p0(x) when Abs(x), not p999(x)\n")
    assert [d.code for d in broken] == ["GR148"]


def test_names_are_suggested() -> None:
    hints = {d.message: d.hint for d in found("rewrite a[f in Elementwize]: f(x) => x\nrewrite b: Softmx(x) => x")}
    assert hints == {
        "unknown operator Elementwize": "did you mean `Elementwise`?",
        "unknown operator Softmx": "did you mean `Softmax`?",
    }


TOKENS = [
    "=>", "<=>", "(", ")", "[", "]", "{", "}", ",", '"', "'", ";", "when", "rewrite a:", "fact", "deny", "..", "_", "x",
    "Relu", "f32", "==", "=", ".", "in", "not", "or", "and", "as y", "1", "-", "@10", "N", "none", "true", "\n",
    "engine E:", "cost =", "supports", "let a(x) =", "class C =", "example a:", "stays because", "gives", "::", "\0",
]  # fmt: skip
CUTS = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 12), st.sampled_from(["", *TOKENS])), max_size=6)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(rules_root().rglob("*.rules"))), st.integers(0, 10_000), CUTS)
def test_no_text_breaks_the_reader(path: Path, start: int, cuts: list[tuple[int, int, str]]) -> None:
    """Whatever a file holds: diagnostics that point into it, and no other exception."""
    text = path.read_text("utf-8")
    start %= len(text)
    text = "opset ai.onnx 21\n" + text[start : start + 900]
    for at, length, new in cuts:
        at %= len(text) + 1
        text = text[:at] + f" {new} " + text[at + length :]
    file, faults = parse_text(text, "a.rules", "user/a")
    program, more = assemble([file], onnx_registry())
    everything = faults + more + check(program, frozenset())
    for diagnostic in everything:
        span = diagnostic.span
        assert span is None or 0 <= span.start <= span.end <= len(file.source)
    assert render(everything, program.sources).count("GR") >= len(everything)
    assert len(to_json(everything)) == len(everything) and to_github(everything).count("\n") == len(everything)
