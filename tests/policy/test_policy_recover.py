"""Models from one release of a registry to another: every sentence about what is done to a node, or refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from registries import of, operator, release

from gerules.errors import Refused, UsageFault
from gerules.pipeline.recovering import Recovery, recover_model
from gerules.registry.json_format import write_release
from gerules.registry.release import Release, ReleaseOperator


def graph(
    nodes: Sequence[onnx.NodeProto], inputs: str = "a b c", outputs: str = "y", name: str = "g"
) -> onnx.GraphProto:
    def values(names: str) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in names.split()]

    return helper.make_graph(list(nodes), name, values(inputs), values(outputs))


def model(
    nodes: Sequence[onnx.NodeProto], inputs: str = "a b c", outputs: str = "y", domain: str = "t"
) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    return helper.make_model(graph(nodes, inputs, outputs), opset_imports=opsets, ir_version=10)


def node(
    inputs: str, outputs: str = "y", op: str = "Foo", domain: str = "t", name: str = "n", **attributes: object
) -> onnx.NodeProto:
    places = ["" if i == "-" else i for i in inputs.split()]
    return helper.make_node(op, places, outputs.split(), domain=domain, name=name, **attributes)


def run(
    folder: Path,
    proto: onnx.ModelProto,
    built: Release | ReleaseOperator,
    runtime: Release | ReleaseOperator,
    policy: str = "default",
    rules: str = "",
) -> tuple[Recovery, onnx.ModelProto | None]:
    source, out = folder / "m.onnx", folder / "out.onnx"
    onnx.save(proto, source)
    out.unlink(missing_ok=True)
    one = of(built) if isinstance(built, ReleaseOperator) else built
    other = of(runtime, version="2.0.0") if isinstance(runtime, ReleaseOperator) else runtime
    files = []
    if rules:
        (folder / "my.rules").write_text(rules)
        files.append(folder / "my.rules")
    report = recover_model(source, out, one, other, policy, rules=files)
    assert out.exists() == (not report.refusals), "nothing is written where a node is refused"
    return report, onnx.load(out) if out.exists() else None


def only(proto: onnx.ModelProto | None) -> onnx.NodeProto:
    assert proto is not None
    (found,) = proto.graph.node
    return found


def settings(found: onnx.NodeProto) -> Mapping[str, object]:
    return {a.name: helper.get_attribute_value(a) for a in found.attribute}


K = ("k", "Int", 0)


@pytest.mark.parametrize("policy", ["default", "ge"])
def test_forward_removes_what_is_absent_and_unset(tmp_path: Path, policy: str) -> None:
    built, runtime = operator(inputs="x w?", attributes=(K,)), operator(inputs="x")
    report, out = run(tmp_path, model([node("a -")]), built, runtime, policy)
    assert report.strategies == {"forward": 1}
    assert list(only(out).input) == ["a"] and not only(out).attribute


@pytest.mark.parametrize("policy", ["default", "ge"])
@pytest.mark.parametrize(
    ("inputs", "attributes", "said"),
    [
        ("a b", {}, "input w of n is connected"),
        ("a", {"k": 3}, "attribute k of n is set"),
        ("a", {"k": 0}, "attribute k of n is set"),
    ],
)
def test_forward_refuses_what_is_connected_or_set(
    tmp_path: Path, policy: str, inputs: str, attributes: dict[str, object], said: str
) -> None:
    built, runtime = operator(inputs="x w?", attributes=(K,)), operator(inputs="x")
    report, _ = run(tmp_path, model([node(inputs, **attributes)]), built, runtime, policy)
    assert report.strategies == {"refused": 1}
    (refusal,) = report.refusals
    assert refusal.node == "n" and said in refusal.message


def test_forward_refuses_what_is_required(tmp_path: Path) -> None:
    built, runtime = operator(inputs="x", attributes=(("k", "Int", None),)), operator(inputs="x")
    report, _ = run(tmp_path, model([node("a", k=1)]), built, runtime, "ge")
    assert [r.message for r in report.refusals] == [
        "k of n is required by the graph's t.Foo, and this runtime does not have it"
    ]


@pytest.mark.parametrize("policy", ["default", "ge"])
def test_backward_appends(tmp_path: Path, policy: str) -> None:
    built, runtime = operator(inputs="x"), operator(inputs="x w?", attributes=(K,), outputs="y z")
    report, out = run(tmp_path, model([node("a")]), built, runtime, policy)
    assert report.strategies == {"backward": 1}
    assert (list(only(out).input), list(only(out).output)) == (["a", ""], ["y", "n_z"])


def test_backward_with_a_required_input(tmp_path: Path) -> None:
    built, runtime = operator(inputs="x"), operator(inputs="x w")
    silent, _ = run(tmp_path, model([node("a")]), built, runtime, "ge")
    assert silent.strategies == {"backward": 1} and "w is required" in silent.warnings[0].message
    refused, _ = run(tmp_path, model([node("a")]), built, runtime)
    assert "input w of n is required at run time and not given" in refused.refusals[0].message
    rules = 'opset t 2.0.0\nfact w: gives(t.Foo, "w", "0.5")\n'
    given, out = run(tmp_path, model([node("a")]), built, runtime, rules=rules)
    assert given.refusals == () and out is not None
    (constant,) = out.graph.initializer
    assert list(only(out).input) == ["a", constant.name] and onnx.numpy_helper.to_array(constant) == 0.5


def test_outputs_only_grow(tmp_path: Path) -> None:
    built, runtime = operator(outputs="y z"), operator(outputs="y")
    one = model([node("a", "y z")])
    assert run(tmp_path, one, built, runtime, "ge")[0].refusals
    report, out = run(tmp_path, one, built, runtime)
    assert report.refusals == () and list(only(out).output) == ["y"], "nothing reads z"
    both = model([node("a", "y z")], outputs="y z")
    assert "output z of n is read" in run(tmp_path, both, built, runtime)[0].refusals[0].message


def test_directions_must_agree_in_place_and_not_by_name(tmp_path: Path) -> None:
    built, runtime = operator(inputs="x w?"), operator(inputs="x", attributes=(K,))
    assert "more of the other" in run(tmp_path, model([node("a")]), built, runtime, "ge")[0].refusals[0].message
    report, _ = run(tmp_path, model([node("a")]), built, runtime)
    assert report.strategies == {"by_name": 1}


def test_names_match_wherever_they_stand(tmp_path: Path) -> None:
    built = operator(inputs="x w v?", attributes=(K, ("m", "String", "s")))
    runtime = operator(inputs="w u? x", attributes=(("m", "String", "s"), ("j", "Int", 1), K))
    report, out = run(tmp_path, model([node("a b", k=4)]), built, runtime)
    assert report.strategies == {"by_name": 1}
    assert list(only(out).input) == ["b", "", "a"] and settings(only(out)) == {"k": 4}


def test_a_default_stays_the_one_it_was_built_with(tmp_path: Path) -> None:
    built = operator(attributes=(("k", "Int", 3), ("r", "Float", 0.1), ("l", "ListInt", (1, 2)), ("s", "String", "a")))
    runtime = operator(attributes=(("k", "Int", 4), ("r", "Float", 0.1), ("l", "ListInt", ()), ("s", "String", "")))
    report, out = run(tmp_path, model([node("a", s="mine")]), built, runtime)
    assert settings(only(out)) == {"k": 3, "l": [1, 2], "s": b"mine"}
    assert report.written == {"n": ("k", "l")} and len(report.warnings) == 2
    silent, same = run(tmp_path, model([node("a", s="mine")]), built, runtime, "ge")
    assert settings(only(same)) == {"s": b"mine"} and silent.warnings == ()
    assert len(run(tmp_path, model([node("a")]), built, runtime, "strict")[0].refusals) == 3


def test_what_became_required(tmp_path: Path) -> None:
    built = operator(inputs="x w?", attributes=(("k", "Int", 3),))
    runtime = operator(inputs="x w", attributes=(("k", "Int", None),))
    assert "input w of n is required" in run(tmp_path, model([node("a")]), built, runtime)[0].refusals[0].message
    report, out = run(tmp_path, model([node("a b")]), built, runtime)
    assert report.refusals == () and settings(only(out)) == {"k": 3}, "the value that it had is written out"


@pytest.mark.parametrize(
    ("before", "after", "value", "expected"),
    [("Int", "Float", 3, 3.0), ("Float", "Int", 2.0, 2), ("Float", "Int", 2.5, None), ("Int", "Bool", 1, 1),
     ("Int", "Bool", 2, None), ("Int", "ListInt", 2, None), ("String", "Type", "DT_INT8", b"DT_INT8"),
     ("ListInt", "ListFloat", [1, 2], [1.0, 2.0]), ("String", "Int", "x", None)],
)  # fmt: skip
def test_a_type_that_changed_takes_a_value_that_fits(
    tmp_path: Path, before: str, after: str, value: object, expected: object
) -> None:
    built, runtime = operator(attributes=(("k", before, None),)), operator(attributes=(("k", after, None),))
    report, out = run(tmp_path, model([node("a", k=value)]), built, runtime)
    if expected is None:
        assert "which its value is not" in report.refusals[0].message
    else:
        assert settings(only(out)) == {"k": expected}
        (attribute,) = only(out).attribute
        assert helper.get_attribute_value(attribute) == expected


def test_counts_of_a_dynamic_input_never_decide(tmp_path: Path) -> None:
    built, runtime = operator(inputs="x zs*"), operator(inputs="x zs*", attributes=(K,))
    for inputs in ("a", "a b", "a b c"):
        report, out = run(tmp_path, model([node(inputs)]), built, runtime, "ge")
        assert report.strategies == {"backward": 1} and list(only(out).input) == inputs.split()


def test_a_dynamic_input_before_others(tmp_path: Path) -> None:
    built, runtime = operator(inputs="zs* d w?"), operator(inputs="d zs* w?")
    report, out = run(tmp_path, model([node("a b c -")]), built, runtime)
    assert report.refusals == () and list(only(out).input) == ["c", "a", "b", ""]


def test_several_dynamic_inputs_need_their_counts(tmp_path: Path) -> None:
    built, runtime = operator(inputs="xs* zs*"), operator(inputs="zs* xs*")
    silent = node("a b c")
    assert run(tmp_path, model([silent]), built, runtime)[0].refusals[0].code == "GR813"
    said = node("a b c")
    entry = said.metadata_props.add()
    entry.key, entry.value = "gerules.dynamic", "xs=2,zs=1"
    _, out = run(tmp_path, model([said]), built, runtime)
    assert list(only(out).input) == ["c", "a", "b"]
    assert [(p.key, p.value) for p in only(out).metadata_props] == [("gerules.dynamic", "zs=1,xs=2")]


def test_unregistered_operators_and_other_domains_pass(tmp_path: Path) -> None:
    nodes = [
        node("a", "u", op="Other", name="o", k=1),
        node("u", "v", op="Relu", domain="", name="r"),
        node("v", "y", name="n"),
    ]
    report, out = run(tmp_path, model(nodes), operator(inputs="x w?"), operator(inputs="x"))
    assert report.strategies == {"forward": 1, "unregistered": 1} and report.unregistered == ("Other",)
    assert out is not None and list(out.graph.node)[:2] == nodes[:2]
    assert [v.name for v in out.graph.input] == ["a", "b", "c"]


def test_an_operator_that_is_gone_is_refused(tmp_path: Path) -> None:
    for policy in ("default", "ge", "strict"):
        report, _ = run(tmp_path, model([node("a")]), of(operator()), of(operator("Bar"), version="2.0.0"), policy)
        assert "not registered at run time" in report.refusals[0].message


def test_bodies_and_attribute_graphs_are_recovered_too(tmp_path: Path) -> None:
    inner = graph([node("a -", "z", name="inner")], "", "z", "body")
    other = graph([node("b -", "z", name="else")], "", "z", "other")
    choice = helper.make_node("If", ["p"], ["z2"], then_branch=inner, else_branch=other, name="if")
    deep = graph([choice], "", "z2", "deep")
    nodes = [node("c", "y", op="Call", name="call", f=deep)]
    built = of(operator(inputs="x w?"), operator("Call", bodies=("f",)))
    runtime = of(operator(inputs="x"), operator("Call", bodies=("f",), attributes=(K,)), version="2.0.0")
    proto = model(nodes)
    proto.graph.input.append(helper.make_tensor_value_info("p", TensorProto.BOOL, []))
    report, out = run(tmp_path, proto, built, runtime)
    assert report.strategies == {"backward": 1, "forward": 2}
    (branch,) = only(out).attribute[0].g.node
    assert {a.name: list(a.g.node[0].input) for a in branch.attribute} == {"then_branch": ["a"], "else_branch": ["b"]}


def test_functions_are_recovered_too(tmp_path: Path) -> None:
    proto = model([node("a", op="F", domain="local", name="f")])
    proto.opset_import.append(helper.make_opsetid("local", 1))
    opsets = [helper.make_opsetid("t", 1)]
    proto.functions.append(helper.make_function("local", "F", ["p"], ["q"], [node("p -", "q", name="inner")], opsets))
    report, out = run(tmp_path, proto, operator(inputs="x w?"), operator(inputs="x"))
    assert report.strategies == {"forward": 1}
    assert out is not None and list(out.functions[0].node[0].input) == ["p"]


def test_all_refusals_come_in_one_report(tmp_path: Path) -> None:
    nodes = [node("a b", "u", name="one"), node("u b", "v", name="two"), node("v -", "y", name="three", k=1)]
    report, _ = run(tmp_path, model(nodes), operator(inputs="x w?", attributes=(K,)), operator(inputs="x"))
    assert [r.node for r in report.refusals] == ["one", "two", "three"]
    assert report.strategies == {"refused": 3}


def test_recovering_twice_changes_nothing(tmp_path: Path) -> None:
    built = operator(inputs="x", attributes=(("k", "Int", 3),))
    runtime = operator(inputs="w? x", attributes=(("k", "Int", 4),))
    _, first = run(tmp_path, model([node("a")]), built, runtime)
    assert first is not None and {p.key: p.value for p in first.metadata_props}["gerules.release.t"] == "2.0.0"
    report, second = run(tmp_path, first, built, runtime)
    assert second == first and "already" in report.notes[0]
    with pytest.raises(Refused) as caught:
        run(tmp_path, first, of(operator(), version="3.0.0"), of(operator(), version="4.0.0"))
    assert caught.value.diagnostics[0].code == "GR812"


def test_lists_of_lists_and_types_have_a_form_in_onnx(tmp_path: Path) -> None:
    built = operator(attributes=(("rows", "ListListInt", ((1, 2), ())), ("t", "Type", "DT_FLOAT"), ("b", "Bool", True)))
    runtime = operator(attributes=(("rows", "ListListInt", ()), ("t", "Type", "DT_INT8"), ("b", "Bool", False)))
    _, out = run(tmp_path, model([node("a")]), built, runtime)
    assert settings(only(out)) == {"rows": b"[[1, 2], []]", "t": b"DT_FLOAT", "b": 1}
    said, out = run(tmp_path, model([node("a", rows="[[1, 2], []]", t="DT_INT8", b=0)]), built, runtime, "strict")
    assert len(said.refusals) == 3 and out is None


def ge(
    one: onnx.NodeProto, built: str, runtime: str, folder: Path, outputs: str = "y"
) -> tuple[Recovery, onnx.ModelProto | None]:
    return run(folder, model([one], "a b c", outputs, "ge"), release(built), release(runtime))


def test_concat_whose_inputs_changed_places(tmp_path: Path) -> None:
    found, out = ge(node("a b c", op="Concat", domain="ge", N=2), "v0.1.0-alpha", "v2.3.0", tmp_path)
    assert found.rules == {"compat/ge.concat_swapped": 1} and list(only(out).input) == ["c", "a", "b"]
    back, again = ge(only(out), "v2.3.0", "v0.5.0-beta", tmp_path)
    assert back.strategies == {"rule": 1} and list(only(again).input) == ["a", "b", "c"]


def test_an_attribute_that_was_renamed_keeps_value_and_default(tmp_path: Path) -> None:
    one = node("a b", op="HardShrinkGrad", domain="ge", **{"lambda": 0.25})
    _, out = ge(one, "v1.2.0", "v2.1.0", tmp_path)
    assert settings(only(out)) == {"lambd": 0.25}


def test_an_attribute_that_became_an_operand(tmp_path: Path) -> None:
    _, out = ge(node("a b", op="InTopK", domain="ge", k=5), "v0.1.0-alpha", "v0.5.0-beta", tmp_path)
    assert out is not None and not only(out).attribute
    (constant,) = out.graph.initializer
    assert onnx.numpy_helper.to_array(constant) == 5 and list(only(out).input) == ["a", "b", constant.name]


def test_a_rule_for_each_result(tmp_path: Path) -> None:
    one = node("a b c", "y m v", op="GroupNorm", domain="ge", epsilon=0.5)
    found, out = ge(one, "v1.5.1", "v1.8.0", tmp_path, "y m")
    assert found.strategies == {"rule": 1} and list(only(out).output) == ["y", "m", "v"]
    assert settings(only(out)) == pytest.approx({"eps": 0.5, "num_groups": 2})


def test_a_split_by_a_rule_of_the_user(tmp_path: Path) -> None:
    built = of(operator("Both", "x w", attributes=(("k", "Int", 2),)))
    runtime = of(operator("Sum", "x w"), operator("Times", "x", attributes=(("k", "Int", 1),)), version="2.0.0")
    rules = "rewrite split: t.Both@1.0.0(x, w, k=k) => t.Times@2.0.0(t.Sum@2.0.0(x, w), k=k)\n"
    report, out = run(tmp_path, model([node("a b", op="Both", name="n")]), built, runtime, rules=rules)
    assert report.rules == {"user/my.split": 1} and out is not None
    first, second = out.graph.node
    assert (first.op_type, list(first.input)) == ("Sum", ["a", "b"])
    assert (second.op_type, list(second.input), list(second.output)) == ("Times", list(first.output), ["y"])
    assert settings(second) == {"k": 2}, "the default that it was built with"


def test_a_rule_that_does_not_fit_is_named(tmp_path: Path) -> None:
    built, runtime = of(operator("Old", "x w?")), of(operator("New"), version="2.0.0")
    rules = "rewrite renamed: t.Old@1.0.0(x, none) => t.New@2.0.0(x)\n"
    report, _ = run(tmp_path, model([node("a b", op="Old")]), built, runtime, rules=rules)
    assert "the rules between these releases do not fit it" in (report.refusals[0].hint or "")


def test_registries_of_two_domains(tmp_path: Path) -> None:
    with pytest.raises(UsageFault) as caught:
        run(tmp_path, model([node("a")]), of(operator()), of(operator(), domain="u"))
    assert caught.value.diagnostics[0].code == "GR821"


def test_onnx_is_converted_and_not_recovered(tmp_path: Path) -> None:
    with pytest.raises(UsageFault) as caught:
        recover_model(tmp_path / "m.onnx", tmp_path / "o.onnx", "onnx:12", "onnx:13")
    assert caught.value.diagnostics[0].code == "GR822"


def test_a_rule_gives_an_attribute(tmp_path: Path) -> None:
    built, runtime = operator(), operator(attributes=(("k", "ListInt", None),))
    assert run(tmp_path, model([node("a")]), built, runtime)[0].refusals
    rules = 'opset t 2.0.0\nfact k: gives(t.Foo, "k", "[1, 2]")\n'
    _, out = run(tmp_path, model([node("a")]), built, runtime, rules=rules)
    assert settings(only(out)) == {"k": [1, 2]}
    wrong = rules.replace("[1, 2]", "many")
    assert "many is no ListInt" in run(tmp_path, model([node("a")]), built, runtime, rules=wrong)[0].refusals[0].message


def test_what_asks_for_nothing_may_go(tmp_path: Path) -> None:
    """Conv2D's offset of zero, which `safe_defaults.csv` names, is dropped though it is set; another one is refused."""
    built = of(operator("Conv2D", attributes=(("offset_x", "Int", 0),)), domain="ge")
    runtime = of(operator("Conv2D"), domain="ge", version="2.0.0")
    for value, refused in ((0, False), (1, True)):
        one = model([node("a", op="Conv2D", domain="ge", offset_x=value)], domain="ge")
        report, out = run(tmp_path, one, built, runtime)
        assert bool(report.refusals) == refused
        assert refused or not only(out).attribute


def test_a_deny_of_the_user(tmp_path: Path) -> None:
    rules = 'deny mine: "{n} has too much" when node(n, f), written(n, "k")\n'
    report, _ = run(
        tmp_path, model([node("a", k=1)]), operator(attributes=(K,)), operator("Foo", "x w?", (K,)), rules=rules
    )
    assert [r.message for r in report.refusals] == ["n has too much"]


def test_one_definition_is_derived_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gerules.policy import judging

    asked: list[int] = []
    whole = judging.tables
    monkeypatch.setattr(judging, "tables", lambda pairs: asked.append(len(pairs := list(pairs))) or whole(pairs))
    nodes = [node("a", f"v{i}", name=f"n{i}") for i in range(50)] + [node("v0", "y", name="last")]
    report, _ = run(tmp_path, model(nodes), operator(inputs="x w?"), operator(inputs="x"))
    assert report.strategies == {"forward": 51} and asked == [1]


def test_the_release_can_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "A.json").write_text(write_release(of(operator(inputs="x w?"))))
    (tmp_path / "v2.0-x.json").write_text(write_release(of(operator(inputs="x"))))
    onnx.save(model([node("a -")]), tmp_path / "m.onnx")
    report = recover_model(
        tmp_path / "m.onnx", tmp_path / "o.onnx", f"t@1.0={tmp_path}/A.json", f"t={tmp_path}/v2.0-x.json"
    )
    assert (report.built, report.runtime, report.strategies) == ("t@1.0", "t@2.0", {"forward": 1})
