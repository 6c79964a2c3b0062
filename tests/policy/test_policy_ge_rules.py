"""The shipped rules between releases of the engine: each has an example, and carries nodes between real releases."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from registries import release, rules

from gerules.dsl import ast
from gerules.dsl.program import Entry
from gerules.policy.carry import Carrier, carrier
from gerules.policy.forms import NodeForm
from gerules.policy.judging import minimal_node
from gerules.policy.version_examples import run_version_example
from gerules.policy.versions import VersionRule, version_rules, version_rules_of
from gerules.registry.release import ReleaseOperator

TAGS = {"0.1.0": "v0.1.0-alpha", "0.5.0": "v0.5.0-beta"}
SHIPPED = [full for full in rules().program.rewrites if full.startswith("compat/ge.")]


def at(version: str) -> str:
    return TAGS.get(version, f"v{version}")


@cache
def carries(built: str, runtime: str) -> Carrier:
    return carrier(rules().program, (), "default", release(at(built)), release(at(runtime)))


def example_of(full: str) -> Entry[ast.Example]:
    (found,) = (e for e in rules().program.examples if e.full == full)
    return found


@pytest.mark.parametrize("full", SHIPPED)
def test_every_rule_has_an_example_that_holds(full: str) -> None:
    assert run_version_example(rules().program.rewrites[full], example_of(full)) is None


def subject(definition: ReleaseOperator, rule: VersionRule) -> NodeForm:
    """A node that the rule's left side wants: what is required, what the rule fixes, one result read."""
    node = minimal_node(definition)
    fixed = {k.name: k.value for k in rule.left.keywords}
    wanted = {n: v.value for n, v in fixed.items() if isinstance(v, ast.Number | ast.Text)}
    place = rule.places[0] if rule.places is not None else 0
    return replace(node, attributes=dict(node.attributes) | wanted, used=frozenset({place}))


@pytest.mark.parametrize("full", SHIPPED)
def test_recovering_applies_it_both_ways(full: str) -> None:
    for rule in version_rules_of(rules().program.rewrites[full]):
        name, version = rule.source
        runtime = rule.target[1]
        definition = release(at(version)).operators[name]
        (found,) = carries(version, runtime).carry([subject(definition, rule)])
        faults = [r.message for part in found.parts for r in part.refusals] + [p.fault for p in found.parts if p.fault]
        assert not faults and found.parts[-1].rule.startswith("compat/ge."), (rule.source, rule.target, faults)
        assert found.nodes[-1].operator == rule.target[0]


@pytest.mark.parametrize(
    ("built", "runtime", "operation", "carried"),
    [
        ("0.1.0", "2.3.0", "SUM", 1),
        ("0.1.0", "2.3.0", "MEAN", None),
        ("2.3.0", "0.1.0", 1, "SUM"),
        ("1.8.0", "0.1.0", 2, None),
    ],
)
def test_a_value_that_got_another_name(built: str, runtime: str, operation: object, carried: object) -> None:
    node = NodeForm("n", "Reduction", ("x",), ("y",), {"operation": operation}, frozenset({0}))
    (found,) = carries(built, runtime).carry([node])
    assert found.refused == (carried is None)
    if carried is not None:
        assert found.nodes[-1].attributes["operation"] == carried


def test_names_that_changed_hands() -> None:
    for operator, inputs, outputs, attributes, became in (
        ("InTopKExt2", ("x", "t", "k"), ("y",), {}, "InTopK"),
        ("TopKV2", ("x", "k"), ("y", "i"), {}, "TopK"),
        ("TopK", ("x", "a"), ("y", "i"), {"k": 3}, "TopKD"),
    ):
        node = NodeForm("n", operator, inputs, outputs, attributes, frozenset({0}))
        (found,) = carries("0.1.0", "2.3.0").carry([node])
        assert (found.refused, found.nodes[-1].operator) == (False, became)
        (back,) = carries("2.3.0", "0.1.0").carry([found.nodes[-1]])
        assert not back.refused, [r.message for p in back.parts for r in p.refusals]
        assert (back.nodes[-1].operator, tuple(back.nodes[-1].inputs[: len(inputs)])) == (operator, inputs)
    (found,) = carries("2.3.0", "1.0.0").carry([NodeForm("n", "TopKV2", ("x", "k"), ("y", "i"), {}, frozenset({0}))])
    assert (found.refused, found.nodes[-1].operator) == (False, "TopK"), "the name came back in 1.2.0"


def test_no_two_rules_lead_from_one_form_to_another_and_say_different_things() -> None:
    seen: dict[tuple[object, ...], str] = {}
    for rule in version_rules(rules().program, "ge"):
        key = (rule.source, rule.target, rule.places)
        assert seen.setdefault(key, rule.name) == rule.name
