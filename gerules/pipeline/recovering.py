"""`recover`: a model built with one release of a registry, made for a runtime of another.

The operators of the registry are the nodes of its domain in an ONNX file. Rules decide (see `gerules.policy`); this
module reads nodes from the model and its bodies, and writes back what was decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from gerules.errors import Diagnostic, Refused, UsageFault
from gerules.graph import load_model, save_model
from gerules.graph.io import name_nodes
from gerules.graph.structure import all_graphs
from gerules.pipeline.diffing import check_policy, policy_rules
from gerules.pipeline.engine_attributes import attribute_of, constant_type, value_of
from gerules.pipeline.options import Options, Progress, silent
from gerules.pipeline.validation import check_outputs
from gerules.policy.carry import UNREGISTERED, Carried, Carrier, carrier
from gerules.policy.forms import Constant, Made, NodeForm, Token, Undecided, placed
from gerules.registry.release import Release, ReleaseOperator
from gerules.registry.sources import load_release

RELEASE = "gerules.release."
"""Metadata of a model: the release of a domain that its nodes are written for."""
COUNTS = "gerules.dynamic"
"""Metadata of a node: how many operands its dynamic inputs have, as `x=3,y=2`."""
_BODIES = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


@dataclass(frozen=True)
class Recovery:
    """What became of a model. With refusals nothing was written. `strategies` counts nodes; `written` names, by node,
    attributes that were left to a default and are written out now; `rules` counts nodes by the rule that led them."""

    output: str
    built: str
    runtime: str
    policy: str
    strategies: Mapping[str, int]
    refusals: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    written: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rules: Mapping[str, int] = field(default_factory=dict)
    unregistered: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def nodes(self) -> int:
        return sum(self.strategies.values())

    @property
    def validation(self) -> str:
        return (
            f"not validated numerically: operators of {self.built} have no kernels; "
            f"every node that changed fits its definition in {self.runtime}"
        )

    def data(self) -> dict[str, Any]:
        from gerules.report import to_json

        return {
            "command": "recover",
            "output": self.output,
            "built": self.built,
            "runtime": self.runtime,
            "policy": self.policy,
            "nodes": self.nodes,
            "strategies": dict(self.strategies),
            "refusals": to_json(self.refusals),
            "warnings": to_json(self.warnings),
            "written": {name: list(attributes) for name, attributes in self.written.items()},
            "rules": dict(self.rules),
            "unregistered": list(self.unregistered),
            "validation": self.validation,
            "notes": list(self.notes),
        }


def recover_model(
    path: str | Path,
    out: str | Path,
    built: str | Release,
    runtime: str | Release,
    policy: str = "default",
    *,
    rules: Sequence[str | Path] = (),
    force: bool = False,
    progress: Progress = silent,
) -> Recovery:
    """Recovers the model at `path` and writes it to `out`, unless a node is refused: then the report lists all of them,
    and nothing is written.

    Raises UsageFault for registries and policies that do not exist, of two domains (GR821), or ONNX's own (GR822);
    Refused for a model that says that it was built with another release (GR812).
    """
    check_policy(policy)
    one = load_release(built, "--built") if isinstance(built, str) else built
    other = load_release(runtime, "--runtime") if isinstance(runtime, str) else runtime
    if one.domain != other.domain:
        message = f"{one} and {other} are releases of different registries"
        raise UsageFault(Diagnostic("GR821", message, hint="give two releases of one domain: `ge@1.8.0=A.json`"))
    if not one.domain or one.domain.startswith("ai.onnx"):
        message = f"operators of {one} are ONNX's own"
        hint = "`gerules convert MODEL --opset N` leads them to another opset"
        raise UsageFault(Diagnostic("GR822", message, hint=hint))
    check_outputs(path, out, Options(force=force))
    progress("reading the rules")
    loaded = policy_rules(rules)
    progress("reading the model")
    model = load_model(path)
    progress("recovering")
    report = recover(model, carrier(loaded.program, loaded.rulesets, policy, one, other), str(out))
    if not report.refusals:
        save_model(model, out, force=force)
    return report


def recover(model: ir.Model, carrier_: Carrier, output: str = "") -> Recovery:
    """Recovers a model in place; where a node is refused, it is left as it was."""
    built, runtime = carrier_.built, carrier_.runtime
    key = f"{RELEASE}{built.domain or 'ai.onnx'}"
    before = model.metadata_props.get(key)
    named = (output, str(built), str(runtime), carrier_.name)
    if before is not None and before == runtime.version:
        note = f"the model says that it is written for {runtime} already: nothing was done"
        return Recovery(*named, strategies={}, notes=(note,))
    if before is not None and built.version and before != built.version:
        message = f"the model says that its {built.domain} nodes are those of release {before}, not {built.version}"
        hint = f"give that release with --built, or remove the metadata {key}"
        raise Refused(Diagnostic("GR812", message, hint=hint))
    name_nodes(model)
    graphs = _Graphs.of(model, built.domain)
    forms = [graphs.form(node, carrier_) for node in graphs.nodes]
    carried = carrier_.carry(forms)
    refusals, warnings = _said(carried, carrier_)
    if not refusals:
        for node, item in zip(graphs.nodes, carried, strict=True):
            if item.strategy != UNREGISTERED and item.nodes != (item.source,):
                graphs.replace(node, item, carrier_)
        if runtime.version and forms:
            model.metadata_props[key] = runtime.version
    strategies = Counter("refused" if item.refused else item.strategy for item in carried)
    used = Counter(part.rule for item in carried for part in item.parts[-1:] if part.rule and not item.refused)
    return Recovery(
        *named,
        strategies=dict(sorted(strategies.items())),
        refusals=refusals,
        warnings=warnings,
        written={p.node.name: p.written for item in carried for p in item.parts if p.written and not item.refused},
        rules=dict(sorted(used.items())),
        unregistered=tuple(sorted({c.source.operator for c in carried if c.strategy == UNREGISTERED})),
        notes=() if forms else (f"the model has no nodes of the domain {built.domain or 'ai.onnx'}",),
    )


def _said(carried: Sequence[Carried], carrier_: Carrier) -> tuple[tuple[Diagnostic, ...], tuple[Diagnostic, ...]]:
    """Refusals and warnings of all nodes, in their order."""
    refusals: list[Diagnostic] = []
    warnings: list[Diagnostic] = []
    for item in carried:
        for part in item.parts:
            for refusal in part.refusals:
                rule = f"{refusal.rule}, policy {carrier_.name}"
                hint = f"{rule}; {item.hint}" if item.hint else rule
                refusals.append(Diagnostic("GR810", refusal.message, node=item.source.name, hint=hint))
            if part.fault:
                hint = f"a node says the counts of its dynamic inputs in its metadata: {COUNTS} = `x=3,y=2`"
                refusals.append(Diagnostic("GR813", part.fault, node=item.source.name, hint=hint))
            warnings += [
                Diagnostic("GR811", w.message, node=item.source.name, hint=w.rule, severity="warning")
                for w in part.warnings
            ]
    return tuple(refusals), tuple(warnings)


# ------------------------------------------------------------------------------------------------------------- graphs


@dataclass
class _Graphs:
    """The nodes of a domain in a model: those of the graph, of bodies, and of functions."""

    model: ir.Model
    domain: str
    nodes: list[ir.Node]
    names: dict[int, str]
    taken: set[str]
    made: dict[Token, ir.Value] = field(default_factory=dict)

    @classmethod
    def of(cls, model: ir.Model, domain: str) -> _Graphs:
        graphs = list(all_graphs(model.graph))
        for function in model.functions.values():
            graphs += all_graphs(function.graph)
        nodes: list[ir.Node] = []
        names: dict[int, str] = {}
        seen: set[str] = set()
        taken: set[str] = set()
        for graph in graphs:
            taken.update(v.name for v in graph.inputs if v.name)
            taken.update(graph.initializers)
            for index, node in enumerate(graph):
                taken.update(v.name for v in node.outputs if v.name)
                if node.domain != domain or _is_function(model, node):
                    continue
                stem = node.name or f"{node.op_type}_{index}"
                name, number = stem, 0
                while name in seen:
                    number += 1
                    name = f"{stem}_{number}"
                seen.add(name)
                names[id(node)] = name
                nodes.append(node)
        return cls(model, domain, nodes, names, taken)

    def form(self, node: ir.Node, carrier_: Carrier) -> NodeForm:
        pair = carrier_.pair(node.op_type)
        types: dict[str, str] = {}
        for definition in (pair.runtime, pair.built):
            types |= {a.name: a.type for a in definition.attributes} if definition is not None else {}
        attributes = {
            name: value_of(attribute, types.get(name, ""))
            for name, attribute in node.attributes.items()
            if attribute.type not in _BODIES
        }
        used = frozenset(i for i, value in enumerate(node.outputs) if value.uses() or value.is_graph_output())
        return NodeForm(
            self.names[id(node)], node.op_type, tuple(node.inputs), tuple(node.outputs), attributes, used, _counts(node)
        )  # fmt: skip

    def replace(self, node: ir.Node, item: Carried, carrier_: Carrier) -> None:
        """Puts the nodes that one became in its place. The last one has its results."""
        *operands, last = item.nodes
        for form in operands:
            node.prepend(self._node(form, node, carrier_.runtime.operators[form.operator], {}))
        definition = carrier_.runtime.operators[last.operator]
        _check(last, definition)
        same = last.operator == node.op_type and tuple(last.outputs[: len(node.outputs)]) == tuple(node.outputs)
        if same:
            self._update(node, last, item.source, definition)
            return
        kept = {n: a for n, a in node.attributes.items() if a.type in _BODIES}
        made = self._node(last, node, definition, kept)
        node.append(made)
        graph = node.graph
        assert graph is not None
        names = {new: old.name for new, token in zip(made.outputs, last.outputs, strict=True)
                 if isinstance(old := token, ir.Value)}  # fmt: skip
        for value, token in zip(made.outputs, last.outputs, strict=True):
            if isinstance(token, ir.Value):
                value.shape, value.type = token.shape, token.type
                value.doc_string = token.doc_string
                value.metadata_props.update(token.metadata_props)
                token.name = None
                ir.convenience.replace_all_uses_with(token, value, replace_graph_outputs=True)
        graph.remove(node)
        for value, name in names.items():
            value.name = name

    def _update(self, node: ir.Node, form: NodeForm, source: NodeForm, definition: ReleaseOperator) -> None:
        """Changes a node in place: results are kept, and more may follow."""
        inputs = [self._value(token, node) for token in form.inputs]
        if list(node.inputs) != inputs:
            node.resize_inputs(len(inputs))
            for place, value in enumerate(inputs):
                node.replace_input_with(place, value)
        size = len(node.outputs)
        if len(form.outputs) > size:
            node.resize_outputs(len(form.outputs))
            for value, token in zip(node.outputs[size:], form.outputs[size:], strict=True):
                assert isinstance(token, Made)
                value.name = self._fresh(f"{node.name}_{token.name}")
        types = {a.name: a.type for a in definition.attributes}
        for name in source.attributes:
            if name not in form.attributes:
                del node.attributes[name]
        for name, value_ in form.attributes.items():
            if name not in source.attributes or source.attributes[name] is not value_:
                node.attributes[name] = attribute_of(name, value_, types.get(name, ""))
        _say_counts(node, form)

    def _node(
        self, form: NodeForm, near: ir.Node, definition: ReleaseOperator, bodies: Mapping[str, ir.Attr]
    ) -> ir.Node:
        types = {a.name: a.type for a in definition.attributes}
        attributes = [attribute_of(n, v, types.get(n, "")) for n, v in form.attributes.items()]
        made = ir.Node(
            self.domain,
            form.operator,
            [self._value(token, near) for token in form.inputs],
            [*attributes, *bodies.values()],
            num_outputs=len(form.outputs),
            name=form.name,
            doc_string=near.doc_string,
        )
        made.metadata_props.update({k: v for k, v in near.metadata_props.items() if k != COUNTS})
        for value, token in zip(made.outputs, form.outputs, strict=True):
            if isinstance(token, Made):
                value.name = self._fresh(f"{form.name}_{token.name}")
                self.made[token] = value
        _say_counts(made, form)
        return made

    def _value(self, token: Token | None, near: ir.Node) -> ir.Value | None:
        if token is None or isinstance(token, ir.Value):
            return token
        if isinstance(token, Constant):
            return self._constant(token, near)
        return self.made[token]

    def _constant(self, constant: Constant, near: ir.Node) -> ir.Value:
        graph = near.graph
        type_ = constant_type(constant.value, constant.types)
        if isinstance(constant.value, str) or not isinstance(graph, ir.Graph) or type_ is None:
            message = f"{constant.value!r} cannot become an operand here"
            raise Refused(Diagnostic("GR814", message, node=near.name, hint="give a number, outside of functions"))
        name = self._fresh(f"{near.name}_constant")
        tensor = ir.Tensor(np.array(constant.value, dtype=type_.numpy()), name=name, dtype=type_)
        value = ir.Value(name=name, shape=tensor.shape, type=ir.TensorType(type_), const_value=tensor)
        graph.register_initializer(value)
        return value

    def _fresh(self, stem: str) -> str:
        name, number = stem, 0
        while name in self.taken:
            number += 1
            name = f"{stem}_{number}"
        self.taken.add(name)
        return name


def _is_function(model: ir.Model, node: ir.Node) -> bool:
    return node.op_identifier() in model.functions


def _check(form: NodeForm, definition: ReleaseOperator) -> None:
    """That a node which changed fits the definition it was made for; a fault here is one of rules or of ours."""
    try:
        placed(definition.inputs, form.inputs, form.counts, "operands")
    except Undecided as undecided:
        message = f"what was made of this node does not fit {definition.name}: {undecided}"
        raise Refused(
            Diagnostic("GR815", message, node=form.name, hint="look at the rule that led here")
        ) from undecided


def _counts(node: ir.Node) -> dict[str, int]:
    """`x=3,y=2` in a node's metadata. Raises Refused (GR816) for what cannot be read."""
    text = node.metadata_props.get(COUNTS, "")
    counts: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, _, number = part.partition("=")
        if not name.strip() or not number.strip().isdigit():
            message = f"metadata {COUNTS} = {text!r} says no counts"
            raise Refused(Diagnostic("GR816", message, node=node.name, hint="write `x=3,y=2`"))
        counts[name.strip()] = int(number)
    return counts


def _say_counts(node: ir.Node, form: NodeForm) -> None:
    if form.counts:
        node.metadata_props[COUNTS] = ",".join(f"{name}={count}" for name, count in form.counts.items())
