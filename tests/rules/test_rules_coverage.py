"""What the shipped rule files say of every operator of the installed registry."""

from __future__ import annotations

from functools import cache

import onnx.defs
import pytest

from gerules.dsl.program import Program, load_program, shipped_sources
from gerules.registry import onnx_registry

NOT_A_KIND = frozenset({"Onnx", "Pure", "Foldable", "Opaque"})
"""Classes that hold what is left, and so say nothing of an operator."""


@cache
def program() -> Program:
    return load_program(shipped_sources(), onnx_registry())


def operators() -> frozenset[str]:
    return frozenset(s.name for s in onnx.defs.get_all_schemas() if s.domain == "")


def of(*names: str, wide: bool = False) -> frozenset[str]:
    classes = program().wide_classes if wide else program().classes
    return frozenset(key.partition("@")[0] for name in names for key in classes[name].keys)


def kinds() -> dict[str, frozenset[str]]:
    files = [f for f in program().files if f.ruleset == "ops"]
    assert len(files) == 1
    names = [n for n, m in program().classes.items() if m.kind == "operators" and n not in NOT_A_KIND]
    return {name: of(name) for name in names}


def test_every_operator_has_a_kind() -> None:
    covered = frozenset[str]().union(*kinds().values())
    assert sorted(operators() - covered) == []
    assert len(operators()) >= 203


def test_every_version_from_opset_8_on_has_a_kind() -> None:
    """A class that names an operator at one version leaves out the others: graphs of any opset must find theirs."""
    registry = onnx_registry()
    keys = {
        k for n, m in program().wide_classes.items() if m.kind == "operators" and n not in NOT_A_KIND for k in m.keys
    }
    missing = [
        definition.key
        for name in sorted(operators())
        for since in registry.versions("", name)
        if not (definition := registry.definition("", name, since)).deprecated and definition.key not in keys
    ]
    assert missing == []


def test_every_operator_is_in_the_class_onnx() -> None:
    removed = {s.name for s in onnx.defs.get_all_schemas() if s.domain == "" and s.deprecated}
    assert of("Onnx") >= operators() - removed


def test_pure_and_impure_do_not_meet() -> None:
    """By name, so that no version of an impure operator is left over."""
    assert not of("Pure") & of("Impure", "Control", "Sequence")
    assert not of("Pure", wide=True) & of("Impure", "Control", "Sequence", wide=True)
    assert of("Foldable") == of("Pure") - of("Dequantisation") - {"ImageDecoder"}


def test_operators_with_bodies_are_control() -> None:
    registry = onnx_registry()
    found = frozenset(
        n for n in operators() if (d := registry.lookup("", n, 28)) and any(a.type == "graph" for a in d.attributes)
    )
    assert found == of("Control")


def test_random_operators_are_impure() -> None:
    random = {n for n in operators() if n.startswith("Random") or n in ("Bernoulli", "Multinomial")}
    assert random <= of("Impure")


def test_element_types_are_declared_for_attributes_that_hold_them() -> None:
    declared = set()
    for entry in program().facts.values():
        if entry.statement.name == "dtype_attributes":
            for conclusion in entry.statement.conclusions:
                operator, attribute = conclusion.operands  # type: ignore[union-attr]
                declared.add((operator.name, attribute.value))  # type: ignore[union-attr]
    wanted = {
        (s.name, a.name)
        for s in onnx.defs.get_all_schemas()
        if s.domain == "" and not s.deprecated
        for a in s.attributes.values()
        if a.type == onnx.defs.OpSchema.AttrType.INT
        and (a.name in ("to", "dtype", "output_dtype", "output_datatype", "precision"))
    }
    assert wanted - declared == set()


@pytest.mark.parametrize("name", ["Elementwise", "Reduce", "View", "Cube", "Pool", "Broadcasting", "Commutative"])
def test_classes_that_other_rooms_read(name: str) -> None:
    assert program().classes[name].keys


def test_element_wise_operators_broadcast_all_their_operands() -> None:
    """What is in Elementwise has no operand that must not be stretched: a scalar limit, a slope, a type to copy."""
    assert not of("Elementwise") & {"Clip", "PRelu", "CastLike", "SwiGLU", "Dropout"}
    for name in of("Binary"):
        definition = onnx_registry().lookup("", name, 28)
        assert definition is not None and len(definition.inputs) == 2
    for name in of("Unary"):
        definition = onnx_registry().lookup("", name, 28)
        assert definition is not None and len(definition.inputs) == 1
