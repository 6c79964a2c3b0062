"""What is known of a graph before it is loaded: symbols through shape computations, at any opset."""

from __future__ import annotations

import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from gerules.dsl.program import load_program, shipped_sources
from gerules.egraph.encode import Encoded, encode
from gerules.egraph.foresight import foresee
from gerules.egraph.optimize import Engine, RuleSet
from gerules.graph.constants import ConstantTable
from gerules.graph.constants import encode as encode_constant
from gerules.graph.dims import DimFacts
from gerules.graph.facts import infer_facts
from gerules.graph.info import UNKNOWN
from gerules.graph.structure import constant_tensor
from gerules.registry import onnx_registry

KEPT = ("prelude", "ops", "shape/dims", "compat/onnx", "cleanup", "broadcast/implicit", "algebra", "schedules")


@pytest.fixture(scope="module")
def engine() -> Engine:
    sources = [s for s in shipped_sources() if s.ruleset.startswith(KEPT)]
    program = load_program(sources, onnx_registry())
    return Engine(RuleSet(program, tuple(n for n, e in program.rewrites.items() if not e.statement.exactness)))


def known(text: str, opset: int, engine: Engine) -> tuple[dict[str, str], Encoded]:
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}')
    model = ir.from_proto(proto)
    table = ConstantTable()
    registry = onnx_registry()
    infos = infer_facts(model, DimFacts(), table=table)
    constant = {
        v: encode_constant(v.const_value.numpy(), table)
        for v in model.graph.initializers.values()
        if v.const_value is not None
    }
    for node in model.graph:
        tensor = constant_tensor(node)
        if tensor is not None:
            constant[node.outputs[0]] = encode_constant(tensor.numpy(), table)
    encoded = encode(
        model.graph,
        infos={v: i for v, i in infos.items() if i is not UNKNOWN},
        constant=constant,
        define=lambda node: registry.lookup("", node.op_type, opset),
        signature=engine.known.signatures.of,
        table=table,
    )
    definitions = {n.number: registry.lookup("", n.node.op_type, opset) for n in encoded.nodes if n.signature}
    foresee(encoded, engine.facts(DimFacts()), {k: d for k, d in definitions.items() if d is not None}, table)
    return {encoded.values[k].name or "": str(i) for k, i in encoded.infos.items()}, encoded


FLATTEN = """g (float[N, M, 8] x) => (float[A, B] y)
<int64 zero = {0}, int64 one = {1}, int64[1] at = {0}> {
  s = Shape(x)
  n = Gather(s, zero)
  m = Gather(s, one)
  k = Mul(n, m)
  UNSQUEEZE
  eight = Constant<value = int64[1] {8}>()
  t = Concat<axis = 0>(k1, eight)
  y = Reshape(x, t)
}"""


@pytest.mark.parametrize("opset", [11, 13, 17, 21])
def test_symbols_go_through_a_shape_computation_at_any_opset(opset: int, engine: Engine) -> None:
    unsqueeze = "k1 = Unsqueeze(k, at)" if opset >= 13 else "k1 = Unsqueeze<axes = [0]>(k)"
    text = FLATTEN.replace("UNSQUEEZE", unsqueeze)
    infos, _ = known(text, opset, engine)
    assert infos["s"] == "i64[3]=[N,M,8]"
    assert infos["k"] == "i64[]=[M*N]"
    if opset >= 13:
        assert infos["t"] == "i64[2]=[M*N,8]"
        assert infos["y"].startswith("f32[?,"), "a target entry that may be 0 copies an extent"


def test_small_constants_are_computed(engine: Engine) -> None:
    text = """g (float[N, 4] x) => (float[N, 4] y) <int64[2] a = {1, 2}> {
      b = Add(a, a)
      c = Mul(b, a)
      y = Identity(x)
    }"""
    _, encoded = known(text, 17, engine)
    infos = {encoded.values[k].name: i for k, i in encoded.infos.items()}
    assert infos["c"].entries is not None
    assert [d.value for d in infos["c"].entries if d is not None] == [2, 8]


def test_what_is_not_known_stays_unknown(engine: Engine) -> None:
    text = """g (float[N, 4] x, int64[2] s) => (float[A, B] y) { y = Reshape(x, s) }"""
    infos, _ = known(text, 17, engine)
    assert infos["y"] == "f32[?,?]"


def test_random_draws_are_no_constants(engine: Engine) -> None:
    text = """g (float[4] x) => (float[4] y) <float[4] p = {0.5, 0.5, 0.5, 0.5}> { b = Bernoulli(p) y = Add(x, b) }"""
    infos, _ = known(text, 17, engine)
    assert infos["b"] == "f32[4]"
