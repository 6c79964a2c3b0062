"""Every bump of ai.onnx is accounted for: one operator, a rule upward, a rule downward, or said to be unconnected."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from gerules.dsl import ast
from gerules.dsl.program import load_program, shipped_sources
from gerules.egraph.host import Host
from gerules.egraph.lower import Instance
from gerules.egraph.program import Knowledge, context, knowledge, lower
from gerules.registry import onnx_registry
from gerules.registry.definition import OperatorDef
from gerules.registry.registry import types_only, unchanged
from gerules.static import known_functions

OLDEST_TARGET = 7
"""Nothing is written below this opset, so that a bump into it or below needs no way down."""


@cache
def known() -> Knowledge:
    return knowledge(load_program(shipped_sources(), onnx_registry(), known_functions()))


@cache
def instances() -> dict[str, tuple[Instance, ...]]:
    """The instances of the version rules by the constructor of the operator that they start from."""
    program, host = known().program, Host()
    rules = [(e.statement, e.file) for e in program.rewrites.values() if e.ruleset.startswith("compat/onnx")]
    found: dict[str, list[Instance]] = {}
    lowered, _ = lower(known(), host, context(program, known().ground, host), rules, [], (1, 28))
    for instance in lowered:
        for constructor in starts(instance.text):
            found.setdefault(constructor, []).append(instance)
    return {name: tuple(every) for name, every in found.items()}


def starts(text: str) -> Iterator[str]:
    """The constructors of what a rule's text unites with something new; of a result, that of its node."""
    root = re.search(r"\(union (\S+) ", text)
    assert root is not None
    for head in re.findall(rf"\(= {re.escape(root[1])} \((\w+)", text):
        if head != "Out":
            yield head
            continue
        node = re.search(rf"\(= {re.escape(root[1])} \(Out (\S+) ", text)
        assert node is not None
        yield from re.findall(rf"\(= {re.escape(node[1])} \((\w+)", text)


def exists(constructor: str, opset: int) -> bool:
    """Whether the operator of a constructor is in force at an opset."""
    registry = onnx_registry()
    for signature in known().signatures.all():
        if signature.constructor == constructor:
            later = [
                int(v) for v in registry.versions("", signature.newest.name) if int(v) > int(signature.newest.since)
            ]
            return int(signature.definition.since) <= opset and (not later or later[0] > opset)
    return False


def ways(source: OperatorDef, opset: int, other: OperatorDef) -> set[str]:
    """The rules that give `source` as what exists at an opset, or as its neighbouring version."""
    of = known().signatures.of
    return {
        i.rule
        for i in instances().get(of(source).constructor, ())
        if of(other).constructor in i.makes or all(exists(c, opset) for c in i.makes)
    }


def named(relation: str) -> set[str]:
    rows = known().ground.rows(relation)
    return {row[0].key for row in rows if isinstance(row[0], OperatorDef)}


def bumps() -> list[tuple[OperatorDef, OperatorDef]]:
    return [(a, b) for a, b in onnx_registry().bumps() if not a.domain and not a.deprecated]


def test_every_bump_is_accounted_for() -> None:
    of, lost = known().signatures.of, []
    unconnected = named("unconnected")
    for older, newer in bumps():
        name = f"{older.name} {older.since} -> {newer.since}"
        below = int(newer.since) - 1
        if newer.deprecated:
            if not ways(older, int(newer.since), older):
                lost.append(f"{name}: removed, and nothing takes its place")
            continue
        if of(older) is of(newer):
            continue
        connected = ways(older, int(newer.since), newer), ways(newer, below, older)
        if newer.key in unconnected:
            assert connected == (set(), set()), f"{name}: said to be unconnected, and is not"
            continue
        if not connected[0]:
            lost.append(f"{name}: no way up")
        if not connected[1] and int(newer.since) > OLDEST_TARGET:
            lost.append(f"{name}: no way down")
    assert lost == []


def test_what_is_one_operator_is_so_by_types_or_by_name() -> None:
    """An operator stays one only where the signature stays; the few exceptions are facts of their own."""
    of = known().signatures.of
    said = {
        f"{a.name} {a.since} -> {b.since}"
        for a, b in bumps()
        if not b.deprecated and of(a) is of(b) and not types_only(a, b)
    }
    assert said == {"Loop 1 -> 11", "Constant 9 -> 11", "Constant 11 -> 12"}


def suspects() -> list[tuple[OperatorDef, OperatorDef]]:
    """Bumps of which nothing that a registry sees has changed: the meaning may have."""
    return [(older, newer) for older, newer in bumps() if not newer.deprecated and unchanged(older, newer)]


def test_every_suspect_is_named() -> None:
    """Each is named as one or the other."""
    assert len(suspects()) >= 47
    assert [b.key for _, b in suspects() if b.key not in named("changes") | named("reworded")] == []


def test_every_suspect_is_explained() -> None:
    """The fact that names a version says of it what changed, by operator and version."""
    texts: dict[str, str] = {}
    for entry in known().program.facts.values():
        for conclusion in entry.statement.conclusions:
            if isinstance(conclusion, ast.Call) and conclusion.head in (ast.Name("changes"), ast.Name("reworded")):
                key = str(conclusion.operands[0])
                texts[key] = texts.get(key, "") + str(entry.statement.doc)
    silent = [b.key for _, b in suspects() if f"{b.name}-{b.since}" not in texts.get(b.key, "")]
    assert silent == []


def test_a_version_that_nothing_names_is_not_carried_over(tmp_path: Path) -> None:
    sources = []
    for source in shipped_sources():
        if source.ruleset == "compat/onnx":
            text = source.path.read_text(encoding="utf-8")
            assert "reworded(Gather@11), " in text
            source = replace(source, path=tmp_path / "onnx.rules")
            source.path.write_text(text.replace("reworded(Gather@11), ", ""), encoding="utf-8")
        sources.append(source)
    registry = onnx_registry()
    older, newer = (registry.definition("", "Gather", since) for since in ("1", "11"))
    of = knowledge(load_program(sources, registry, known_functions())).signatures.of
    assert known().signatures.of(older) is known().signatures.of(newer)
    assert of(older) is not of(newer)


def test_nothing_is_both_changed_and_reworded() -> None:
    assert named("changes") & named("reworded") == set()


def test_whatever_changed_is_no_one_operator() -> None:
    of, changed = known().signatures.of, named("changes")
    assert [b.key for a, b in bumps() if b.key in changed and not b.deprecated and of(a) is of(b)] == []


@pytest.mark.parametrize(
    ("operator", "older", "newer"),
    [
        ("Softmax", "11", "13"),
        ("Resize", "10", "11"),
        ("Hardmax", "11", "13"),
        ("Cast", "23", "24"),
        ("MaxPool", "12", "22"),
    ],
)
def test_changed_meanings_are_two_operators(operator: str, older: str, newer: str) -> None:
    registry, of = onnx_registry(), known().signatures.of
    assert of(registry.definition("", operator, older)) is not of(registry.definition("", operator, newer))
