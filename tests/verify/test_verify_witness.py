"""Witnesses: what they hold survives files, both sides run by themselves, and what is broken is said to be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

from gerules.dsl.program import load_program, shipped_sources, user_sources
from gerules.egraph.program import Knowledge, knowledge
from gerules.errors import GerulesError
from gerules.registry import onnx_registry
from gerules.simulate import Simulator
from gerules.simulate.ort import run_onnxruntime
from gerules.static import known_functions
from gerules.verify.case import cases_of
from gerules.verify.pair import side_model, write_pair
from gerules.verify.replay import confirm, replay, replay_witness
from gerules.verify.sides import Node, Side
from gerules.verify.stored import Stored, bits_of, parse_line
from gerules.verify.trials import plan_case, run_trials
from gerules.verify.witness import Witness, describe, dumps, finding, from_json, save, term, to_json, witness_of

WRONG = """opset ai.onnx 21
rewrite minus_zero: Add(x, splat(0, [])) => x when x.dtype == f32
rewrite order: Sub(x, z) => Sub(z, x) when x.dtype == f32
rewrite constant: Sub(x, x) as y => splat(0, y.shape) when x.dtype == f32
rewrite fails: Identity(x) => Squeeze(x, const([0])) when x.dtype == f32
rewrite body: Celu(x, alpha=a) => body(Celu, x)
rewrite versions: Softmax@13(Clip@6(x), axis=a) => Softmax@11(x, axis=a) when x.dtype == f32
"""


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Knowledge:
    path = tmp_path_factory.mktemp("rules") / "mine.rules"
    path.write_text(WRONG.replace("rewrite body: Celu(x, alpha=a) => body(Celu, x)\n", ""), encoding="utf-8")
    sources = (*shipped_sources(), *user_sources(path))
    return knowledge(load_program(sources, onnx_registry(), known_functions()))


def _witness(known: Knowledge, rule: str) -> Witness:
    (case,) = cases_of(known, known.program.rewrites[f"user/mine.{rule}"])
    plan = plan_case(case, known)
    found = run_trials(plan).refutation
    assert found is not None
    witness = witness_of(plan, found)
    assert witness is not None
    return witness


def _bits(array: np.ndarray) -> bytes:
    return array.tobytes() if array.dtype != object else repr(array.tolist()).encode()


ARRAYS = [
    np.array([np.nan, -0.0, np.inf, -np.inf, 1e-45, 3.4028234663852886e38, 0.1], dtype=np.float32),
    np.array([[0.1, -0.0], [5e-324, 1.7976931348623157e308]]),
    np.array([65504.0, -0.0, 6e-8], dtype=np.float16),
    np.array([1.5, -0.0, np.inf], dtype=ml_dtypes.bfloat16),
    np.array([1.5, -448.0], dtype=ml_dtypes.float8_e4m3fn),
    np.array([2**63 - 1, -(2**63)]),
    np.array([2**64 - 1], dtype=np.uint64),
    np.array([-8, 7], dtype=ml_dtypes.int4),
    np.array([True, False]),
    np.array(["a", "", 'x"y\\ é'], dtype=object),
    np.array([1 - 2j, complex(0, -0.0)], dtype=np.complex64),
    np.zeros((0, 3), dtype=np.int8),
    np.array(2.5, dtype=np.float32),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{list(a.shape)}")
def test_tensors_survive_their_text(array: np.ndarray) -> None:
    stored = Stored.of("x", array)
    again = parse_line(stored.line())
    assert again.array().dtype == array.dtype
    assert again.array().shape == array.shape
    assert _bits(again.array()) == _bits(array)
    assert parse_line(again.line()) == again or np.isnan(np.asarray(array, dtype=complex)).any()


@pytest.mark.parametrize(
    "line",
    [
        "x f32[1] = [1]",
        "x: f33[1] = [1]",
        "x: f32[2] = [1]",
        "x: i8[1] = [300]",
        "x: bool[1] = [2]",
        "x: i64[1] = [1.5]",
    ],
)
def test_text_that_is_no_tensor_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_line(line)


def test_a_witness_says_what_differs(known: Knowledge) -> None:
    witness = _witness(known, "minus_zero")
    text = describe(witness)
    assert "on the left" in text and "on the right" in text
    assert "(bits 0x00000000 and 0x80000000)" in text
    assert "x: f32[" in text
    assert max(map(len, text.splitlines()[1:])) <= 100
    assert term(witness.right) == "x"
    assert confirm(witness)


def test_a_failure_of_the_right_side_is_a_witness(known: Knowledge) -> None:
    witness = _witness(known, "fails")
    assert witness.right_value is None
    assert finding(witness).startswith("the right side fails (Squeeze")
    assert confirm(witness)
    assert replay_witness(witness).differs


@pytest.mark.parametrize("rule", ["minus_zero", "constant", "order", "fails", "versions"])
def test_a_witness_survives_json_and_files(known: Knowledge, rule: str, tmp_path: Path) -> None:
    witness = _witness(known, rule)
    again = from_json(json.loads(dumps(witness)))
    assert dumps(again) == dumps(witness)
    assert confirm(again)
    left, right, data = save(witness, tmp_path / "deep" / "folder")
    assert [p.suffix for p in (left, right)] == [".onnxtxt", ".onnxtxt"]
    for path in (left, right, data):
        found = replay(path)
        assert found.differs
        assert found.judged[0].judge == "simulator"
        assert found.data()["differs"] is True
        assert "left" in found.text


def test_the_pair_runs_without_gerules(known: Knowledge, tmp_path: Path) -> None:
    """The inputs are defaults of the graphs: nothing has to be fed."""
    witness = _witness(known, "order")
    left, right, _ = save(witness, tmp_path)
    made = [
        next(iter(run_onnxruntime(onnx.parser.parse_model(path.read_text(encoding="utf-8")), {}).values()))
        for path in (left, right)
    ]
    assert not np.array_equal(made[0], made[1], equal_nan=True)
    assert Stored.of("left", made[0]).line() == witness.left_value.line()


def test_a_pair_that_was_mended_agrees(known: Knowledge, tmp_path: Path) -> None:
    left, right, _ = save(_witness(known, "order"), tmp_path)
    text = left.read_text(encoding="utf-8").replace("left_side", "right_side")
    right.write_text(text, encoding="utf-8")
    found = replay(right)
    assert not found.differs
    assert "the sides agree" in found.text


def test_operators_of_several_opsets_are_functions_of_the_model() -> None:
    side = Side(
        (
            Node("", "Softmax", 11, {"axis": 1}, ("x",), ("a",)),
            Node("", "Softmax", 13, {"axis": 1}, ("a",), ("b",)),
        ),
        (),
        ("b",),
    )
    x = Stored.of("x", np.arange(6, dtype=np.float32).reshape(1, 2, 3))
    model = side_model(side, (x,), x, x, "side")
    assert len(model.functions) == 1
    (made,) = Simulator(model, kernels="reference").run({"x": x.array()}).values()
    first = np.exp(x.array() - 5)
    first = first / first.sum()
    second = np.exp(first) / np.exp(first).sum(axis=1, keepdims=True)
    assert np.allclose(made, second, atol=1e-6)


def test_a_body_is_written_out() -> None:
    """What a schema's body computes is a function of the model, its attributes filled in."""
    side = Side((Node("", "Celu", 12, {"alpha": 2.0}, ("x",), ("y",), body=True),), (), ("y",))
    x = Stored.of("x", np.array([-1.0, 2.0], dtype=np.float32))
    model = side_model(side, (x,), x, x, "side")
    (made,) = Simulator(model, kernels="reference").run({"x": x.array()}).values()
    assert np.allclose(made, [2 * np.expm1(-0.5), 2.0], atol=1e-6)


def test_types_without_a_text_form_are_fed(known: Knowledge, tmp_path: Path) -> None:
    x = Stored.of("x", np.array([1, -2], dtype=ml_dtypes.int4))
    copy = Side((Node("", "Identity", 21, {}, ("x",), ("y",)),), (), ("y",))
    witness = replace(
        _witness(known, "order"), inputs=(x,), left=copy, right=copy, left_value=x, right_value=x, index=None
    )
    left, _, _ = write_pair(witness, tmp_path, "narrow")
    found = replay(left)
    assert not found.differs
    assert str(found.judged[0].left) == "i4[2] = [1, -2]"


def test_what_does_not_come_out_again_is_not_confirmed(known: Knowledge) -> None:
    witness = _witness(known, "order")
    assert not confirm(replace(witness, right=witness.left))
    assert not confirm(replace(witness, left=witness.right))
    assert not confirm(None)


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("absent.json", None, "GR585"),
        ("a.json", "{", "GR585"),
        ("a.json", "[]", "GR585"),
        ("a.json", '{"format": "gerules witness 1"}', "GR585"),
        ("a.onnxtxt", "", "GR585"),
        ("a.left.onnxtxt", "# input x: f32[1] = [oops]\n", "GR587"),
    ],
)
def test_broken_files_are_said_to_be_broken(tmp_path: Path, name: str, text: str | None, code: str) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(GerulesError) as raised:
        replay(path)
    assert raised.value.diagnostics[0].code == code


def test_broken_sides_of_a_pair_are_said_to_be_broken(known: Knowledge, tmp_path: Path) -> None:
    left, _, _ = save(_witness(known, "order"), tmp_path)
    text = left.read_text(encoding="utf-8")
    left.write_text(text.replace("Sub", "Sub ("), encoding="utf-8")
    with pytest.raises(GerulesError) as raised:
        replay(left)
    assert raised.value.diagnostics[0].code == "GR313"
    left.write_text(text.replace("# input x: f32", "# input x: f99"), encoding="utf-8")
    with pytest.raises(GerulesError) as raised:
        replay(left)
    assert raised.value.diagnostics[0].code == "GR585"


def test_a_folder_that_cannot_be_written_to_is_an_error(known: Knowledge, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(GerulesError) as raised:
        save(_witness(known, "order"), tmp_path / "file" / "below")
    assert raised.value.diagnostics[0].code == "GR586"


def test_json_holds_what_people_ask_for(known: Knowledge) -> None:
    data = to_json(_witness(known, "minus_zero"))
    assert data["rule"] == "user/mine.minus_zero"
    assert data["finding"].startswith("element") or data["finding"].startswith("the one element")
    assert data["choices"]


def test_bits() -> None:
    assert bits_of(-0.0, "f32") == "0x80000000"
    assert bits_of(1.0, "bf16") == "0x3f80"
    assert bits_of(-1, "i8") == "0xff"
    assert bits_of("a", "str") == ""
