"""Laws of recovering, over random registries and nodes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from registries import between, of

from gerules.policy.forms import NodeForm
from gerules.policy.judging import FAILURES
from gerules.registry.release import Literal, Port, ReleaseAttribute, ReleaseOperator

NAMES = st.sampled_from("abcdefgh")
DEFAULTS: dict[str, st.SearchStrategy[Literal]] = {
    "Int": st.integers(-3, 3),
    "Float": st.sampled_from([0.0, 0.5, -1.0, 1e-5]),
    "Bool": st.booleans(),
    "String": st.sampled_from(["", "NHWC", " a ", "tab\there", 'q"']),
    "ListInt": st.lists(st.integers(0, 3), max_size=2).map(tuple),
    "ListListInt": st.sampled_from([(), ((1, 2), ()), ((),)]),
    "Type": st.sampled_from(["DT_FLOAT", "DT_INT8"]),
}


@st.composite
def ports(draw: st.DrawFn, kinds: tuple[str, ...], least: int = 0) -> tuple[Port, ...]:
    """Parameters, at most one of them dynamic."""
    names = draw(st.lists(NAMES, min_size=least, max_size=4, unique=True))
    found: list[Port] = []
    for name in names:
        taken = any(p.kind == "dynamic" for p in found)
        allowed = [k for k in kinds if not (taken and k == "dynamic")]
        found.append(Port(name, draw(st.sampled_from(allowed)), ("DT_FLOAT",)))
    return tuple(found)


@st.composite
def attributes(draw: st.DrawFn, required: bool = True) -> tuple[ReleaseAttribute, ...]:
    found = []
    for name in draw(st.lists(NAMES, max_size=4, unique=True)):
        type_ = draw(st.sampled_from(sorted(DEFAULTS)))
        need = required and draw(st.booleans())
        found.append(ReleaseAttribute(name, type_, need, None if need else draw(DEFAULTS[type_])))
    return tuple(found)


@st.composite
def operators(draw: st.DrawFn) -> ReleaseOperator:
    return ReleaseOperator(
        "Foo",
        draw(ports(("required", "optional", "dynamic"))),
        draw(ports(("required",), 1)),
        draw(attributes()),
    )


@st.composite
def changed(draw: st.DrawFn, one: ReleaseOperator) -> ReleaseOperator:
    """Another definition, like the first in some of its lists."""
    other = draw(operators())
    kept = draw(st.sets(st.sampled_from(["inputs", "outputs", "attributes"])))
    made = replace(other, **{name: getattr(one, name) for name in kept})
    if "attributes" not in kept and draw(st.booleans()):
        return replace(made, attributes=tuple(draw(st.permutations(one.attributes))))
    return made


@st.composite
def nodes(draw: st.DrawFn, operator: ReleaseOperator) -> NodeForm:
    """A node that its definition admits."""
    flat: list[object | None] = []
    for port in operator.inputs:
        if port.kind == "dynamic":
            flat += [f"{port.name}{i}" for i in range(draw(st.integers(0, 3)))]
        else:
            flat.append(f"{port.name}0" if port.kind == "required" or draw(st.booleans()) else None)
    set_ = {
        a.name: draw(DEFAULTS[a.type]) for a in operator.attributes if a.required or draw(st.booleans())
    }  # fmt: skip
    results = tuple(f"{p.name}:" for p in operator.outputs)
    used = draw(st.sets(st.sampled_from(range(len(results))))) if results else set()
    return NodeForm("n", "Foo", tuple(flat), results, set_, frozenset(used))


def trimmed(node: NodeForm) -> NodeForm:
    """Without absent operands at the end, which say nothing."""
    flat = list(node.inputs)
    while flat and flat[-1] is None:
        flat.pop()
    return replace(node, inputs=tuple(flat))


@settings(max_examples=80, deadline=None)
@given(st.data(), st.sampled_from(["default", "ge", "strict"]))
def test_what_was_recovered_needs_nothing_more(data: st.DataObject, policy: str) -> None:
    one = data.draw(operators())
    other = data.draw(changed(one))
    built, runtime = of(one), of(other, version="2.0.0")
    (first,) = between(built, runtime, policy).carry([data.draw(nodes(one))])
    if first.refused:
        assert first.nodes == (first.source,), "a node that is refused stays as it was"
        return
    (again,) = between(runtime, runtime, policy).carry(list(first.nodes))
    assert (again.strategy, again.nodes) == ("none", first.nodes)
    names = {a.name for a in other.attributes}
    lost = {a.name for a in one.attributes} - names
    assert not lost & first.nodes[0].attributes.keys()
    if policy != "ge":
        needed = {a.name for a in other.attributes if a.required}
        assert needed <= first.nodes[0].attributes.keys()
    assert set(first.source.inputs) - {None} == set(first.nodes[0].inputs) - {None}, "no operand is lost or made"
    read = {first.source.outputs[i] for i in first.source.used}
    assert read == {first.nodes[0].outputs[i] for i in first.nodes[0].used}, "what is read is there"


@settings(max_examples=80, deadline=None)
@given(st.data(), st.sampled_from(["default", "ge"]))
def test_forward_and_then_backward_gives_the_same_node(data: st.DataObject, policy: str) -> None:
    large = data.draw(operators())
    more = tuple(Port(f"more{i}", "optional", ()) for i in range(data.draw(st.integers(0, 2))))
    small = large
    if not any(p.kind == "dynamic" for p in large.inputs):
        large = replace(large, inputs=(*large.inputs, *more))
    settings_ = tuple(replace(a, name=f"more_{a.name}") for a in data.draw(attributes(required=False)))
    large = replace(large, attributes=(*large.attributes, *settings_))
    node = data.draw(nodes(small))
    if not any(p.kind == "dynamic" for p in small.inputs):
        # Behind a dynamic input absent ones are written: what it takes is counted from them.
        node = trimmed(node)
    one, other = of(large), of(small, version="2.0.0")
    (there,) = between(one, other, policy).carry([node])
    assert there.strategy == ("forward" if large != small else "none") and not there.refused
    (back,) = between(other, one, policy).carry(list(there.nodes))
    assert back.strategy == ("backward" if large != small else "none") and not back.refused
    assert trimmed(back.nodes[0]) == trimmed(node)


def test_a_node_whose_dynamic_input_cannot_be_counted_is_refused() -> None:
    """Its last operand, absent, is not written: the required one before it would be taken for another."""
    kinds = {"a": "dynamic", "b": "optional", "c": "required", "d": "optional"}
    small = ReleaseOperator("Foo", tuple(Port(n, k, ()) for n, k in kinds.items()), (Port("y", "required", ()),), ())
    node = NodeForm("n", "Foo", ("a0", None, "c0"), ("y:",))
    large = replace(small, attributes=(ReleaseAttribute("more", "Bool", False, False),))
    (found,) = between(of(large), of(small, version="2.0.0")).carry([node])
    assert found.refused and found.nodes == (node,)
    (whole,) = between(of(large), of(small, version="2.0.0")).carry([replace(node, inputs=("a0", None, "c0", None))])
    assert whole.strategy == "forward" and not whole.refused


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_default_policy_keeps_every_value(data: st.DataObject) -> None:
    """An attribute that both releases have means after recovering what it meant when the graph was built."""
    one = data.draw(operators())
    other = replace(one, attributes=tuple(data.draw(attributes())))
    node = data.draw(nodes(one))
    (found,) = between(of(one), of(other, version="2.0.0")).carry([node])
    if found.refused:
        return
    (after,) = found.nodes
    for attribute in other.attributes:
        before = one.attribute(attribute.name)
        if before is None:
            continue
        meant = node.attributes.get(attribute.name, before.default)
        assert after.attributes.get(attribute.name, attribute.default) == meant


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_classes_are_those_of_the_definition_in_words(data: st.DataObject) -> None:
    """The rule file against the definitions of the classes, written once more."""
    one = data.draw(operators())
    other = data.draw(changed(one))
    (found,) = between(of(one), of(other), "ge").minimal(["Foo"])
    strategy = found.strategy
    inputs, attributes_ = len(one.inputs) - len(other.inputs), len(one.attributes) - len(other.attributes)
    named = [
        any((p.name, p.kind) != (q.name, q.kind) for p, q in zip(one.inputs, other.inputs, strict=False)),
        any((p.name, p.kind) != (q.name, q.kind) for p, q in zip(one.outputs, other.outputs, strict=False)),
        any(p.name != q.name for p, q in zip(one.attributes, other.attributes, strict=False)),
    ]
    left = [*one.inputs[len(other.inputs) :], *(a for a in one.attributes[len(other.attributes) :] if a.required)]
    needs = any(not isinstance(p, Port) or p.kind != "optional" for p in left)
    right = [*other.inputs[len(one.inputs) :], *(a for a in other.attributes[len(one.attributes) :] if a.required)]
    demands = any(not isinstance(p, Port) or p.kind == "required" for p in right)
    forward = inputs >= 0 and attributes_ >= 0 and inputs + attributes_ > 0
    backward = inputs <= 0 and attributes_ <= 0 and inputs + attributes_ < 0
    expected = (
        "failed_direction" if inputs * attributes_ < 0
        else "failed_prefix" if any(named)
        else "outputs_shrunk" if len(one.outputs) > len(other.outputs)
        else "failed_forward_required" if forward and needs
        else "backward_adds_required" if backward and demands
        else "forward" if forward
        else "backward" if backward
        else "none"
    )  # fmt: skip
    by_class = {"backward_adds_required": "backward"}
    assert strategy == by_class.get(expected, expected)
    assert found.refused == (expected in FAILURES and expected != "backward_adds_required")
