"""The registry of the installed onnx: lookup by opset, types, defaults, and what each bump changed."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import onnx.defs
import pytest

from gerules.registry import Attribute, Operand, OperatorDef, Registry, grows, onnx_registry, types_only, version_key
from gerules.registry.onnx_schemas import type_text

DATA = Path(__file__).parent.parent / "data" / "registry" / "onnx_bumps.csv"
ONNX = onnx_registry()


def test_every_schema_is_there() -> None:
    schemas = onnx.defs.get_all_schemas_with_history()
    made = [ONNX.definition(d, n, v) for d in ONNX.domains() for n in ONNX.names(d) for v in ONNX.versions(d, n)]
    assert len(made) == len(schemas)
    assert {(d.domain, d.name, int(d.since)) for d in made} == {(s.domain, s.name, s.since_version) for s in schemas}


@pytest.mark.parametrize(
    ("domain", "name", "version", "key"),
    [
        ("", "Clip", 5, "Clip@1"),
        ("", "Clip", 6, "Clip@6"),
        ("", "Clip", "10", "Clip@6"),
        ("ai.onnx", "Clip", 11, "Clip@11"),
        ("", "Clip", onnx.defs.onnx_opset_version(), "Clip@13"),
        ("ai.onnx.ml", "LabelEncoder", 3, "ai.onnx.ml.LabelEncoder@2"),
    ],
)
def test_lookup_gives_the_definition_in_force(domain: str, name: str, version: int | str, key: str) -> None:
    found = ONNX.lookup(domain, name, version)
    assert found is not None
    assert found.key == key


@pytest.mark.parametrize(
    ("domain", "name", "version"),
    [
        ("", "Gelu", 19),  # not yet there
        ("", "Upsample", 10),  # removed there
        ("", "Scatter", 13),
        ("", "Clip", onnx.defs.onnx_opset_version() + 1),  # an opset of the future
        ("", "NoSuchOperator", 13),
        ("no.such.domain", "Clip", 1),
    ],
)
def test_lookup_gives_none_where_there_is_no_definition(domain: str, name: str, version: int) -> None:
    assert ONNX.lookup(domain, name, version) is None


def test_versions_names_and_newest() -> None:
    assert ONNX.versions("", "Clip") == ("1", "6", "11", "12", "13")
    assert ONNX.versions("", "NoSuchOperator") == ()
    assert ONNX.newest("") == ONNX.newest("ai.onnx") == str(onnx.defs.onnx_opset_version())
    assert ONNX.newest("no.such.domain") is None
    assert "" in ONNX.domains() and "ai.onnx.ml" in ONNX.domains()
    assert list(ONNX.names("")) == sorted(ONNX.names(""))


def test_definition_of_conv() -> None:
    conv = ONNX.definition("", "Conv", 11)
    assert [(o.name, o.kind, o.type) for o in conv.inputs] == [
        ("X", "required", "T"),
        ("W", "required", "T"),
        ("B", "optional", "T"),
    ]
    assert conv.inputs[0].types == {"f16", "f32", "f64"}
    assert conv.constraints == {"T": {"f16", "f32", "f64"}}
    assert [a.name for a in conv.attributes] == ["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"]
    assert conv.attribute("group") == Attribute("group", "int", False, "1")
    assert conv.attribute("auto_pad") == Attribute("auto_pad", "str", False, "NOTSET")
    assert conv.attribute("strides") == Attribute("strides", "ints", False, None)


@pytest.mark.parametrize(
    ("name", "attribute", "default"),
    [
        ("LeakyRelu", "alpha", "0.01"),
        ("BatchNormalization", "epsilon", "1e-05"),
        ("Celu", "alpha", "1.0"),
        ("Gather", "axis", "0"),
        ("LSTM", "direction", "forward"),
        ("OneHot", "axis", "-1"),
    ],
)
def test_defaults_are_canonical_text(name: str, attribute: str, default: str) -> None:
    definition = ONNX.lookup("", name, 20)
    assert definition is not None
    found = definition.attribute(attribute)
    assert found is not None
    assert found.default == default


@pytest.mark.parametrize(
    ("written", "ours"),
    [
        ("tensor(float16)", "f16"),
        ("tensor(float8e4m3fnuz)", "f8e4m3fnuz"),
        ("seq(tensor(int64))", "seq(i64)"),
        ("optional(seq(tensor(string)))", "optional(seq(str))"),
        ("seq(map(int64,tensor(float)))", "seq(map(i64,f32))"),
        ("map(string, tensor(double))", "map(str,f64)"),
    ],
)
def test_types_have_our_names(written: str, ours: str) -> None:
    assert type_text(written) == ours


def test_variadic_operands_say_how_many() -> None:
    concat = ONNX.definition("", "Concat", 13)
    assert (concat.inputs[0].kind, concat.inputs[0].minimum, concat.inputs[0].homogeneous) == ("variadic", 1, True)
    loop = ONNX.definition("", "Loop", 13)
    assert not loop.inputs[-1].homogeneous


def test_random_operators_are_not_deterministic() -> None:
    assert not ONNX.definition("", "RandomNormal", 1).deterministic
    assert ONNX.definition("", "Add", 14).deterministic


def _bumps() -> dict[tuple[str, str, str], tuple[OperatorDef, OperatorDef]]:
    return {(a.name, a.since, b.since): (a, b) for a, b in ONNX.bumps() if a.domain == ""}


def test_bumps_agree_with_the_reference_table() -> None:
    """An independent comparison of the same schemas: `types-only` and `semantic-suspect` (nothing but admitted types
    and the documentation differ) are what `types_only` has to find, and nothing else. There is no disagreement."""
    rows = list(csv.DictReader(DATA.open()))
    bumps = _bumps()
    assert set(bumps) == {(row["op"], row["from"], row["to"]) for row in rows}
    for row in rows:
        older, newer = bumps[row["op"], row["from"], row["to"]]
        assert types_only(older, newer) == (row["kind"] in ("types-only", "semantic-suspect")), row
        if grows(older, newer):
            assert not types_only(older, newer)
            # What grows has more operands, attributes or results, and the table says so.
            assert any(part in ("inputs", "outputs", "attrs") for part in row["kind"].split("+")), row


@pytest.mark.parametrize(
    ("bump", "grown"),
    [
        (("AveragePool", "11", "19"), True),  # dilations, with a default
        (("AveragePool", "7", "10"), True),  # ceil_mode
        (("Cast", "13", "19"), True),  # saturate
        (("MaxPool", "1", "8"), True),  # a second result and storage_order
        (("Gemm", "9", "11"), False),  # C became optional: an absent one has no way back
        (("Clip", "6", "11"), False),  # attributes became operands
        (("Softmax", "11", "13"), False),  # another default
        (("GridSample", "16", "20"), False),  # another default
        (("Dropout", "10", "12"), False),  # ratio moved
        (("Abs", "6", "13"), False),  # types only
    ],
)
def test_grows(bump: tuple[str, str, str], grown: bool) -> None:
    assert grows(*_bumps()[bump]) is grown


def test_a_removal_is_neither() -> None:
    older, newer = _bumps()["Upsample", "9", "10"]
    assert newer.deprecated
    assert not types_only(older, newer) and not grows(older, newer)


def test_semantic_names_the_oldest_of_a_chain() -> None:
    assert ONNX.semantic(ONNX.definition("", "Relu", 14)) == "Relu@6"
    assert ONNX.semantic(ONNX.definition("", "Relu", 6)) == "Relu@6"
    assert ONNX.semantic(ONNX.definition("", "Clip", 13)) == "Clip@11"


def _operator(since: str, *inputs: str, attributes: tuple[Attribute, ...] = ()) -> OperatorDef:
    operands = tuple(Operand(n.strip("?"), "optional" if n.endswith("?") else "required", "T") for n in inputs)
    return OperatorDef("ge", "Op", since, operands, (Operand("y", "required", "T"),), attributes)


def test_a_registry_of_releases() -> None:
    made: list[str] = []

    def maker(since: str) -> OperatorDef:
        made.append(since)
        return _operator(since, "x")

    registry = Registry([("ge", "Op", since, lambda since=since: maker(since)) for since in ("1.10", "1.2", "1.9.1")])
    assert registry.versions("ge", "Op") == ("1.2", "1.9.1", "1.10")
    assert registry.newest("ge") == "1.10"
    assert made == []  # definitions are made when asked for
    found = registry.lookup("ge", "Op", "1.9.5")
    assert found is not None and found.key == "ge.Op@1.9.1"
    assert registry.lookup("ge", "Op", "1.1") is None
    assert version_key("1.10") > version_key("1.9.1")


def test_growth_by_hand() -> None:
    old = _operator("1", "x", attributes=(Attribute("k", "int", False, "0"),))
    assert grows(old, _operator("2", "x", "y?", attributes=old.attributes))
    assert not grows(old, _operator("2", "x", "y", attributes=old.attributes))  # a required operand
    assert not grows(old, _operator("2", "y?", "x", attributes=old.attributes))  # another order
    assert grows(old, _operator("2", "x", attributes=(*old.attributes, Attribute("m", "ints"))))
    assert not grows(old, _operator("2", "x", attributes=(*old.attributes, Attribute("m", "ints", True))))
    assert not grows(old, _operator("2", "x", attributes=()))
    assert not grows(old, old)
    assert types_only(old, replace(old, since="2", inputs=(replace(old.inputs[0], types=frozenset({"f32"})),)))
