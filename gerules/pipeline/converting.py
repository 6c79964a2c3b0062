"""`convert`: a model of some operator versions in, the same model of others out."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx_ir as ir

from gerules.egraph.convert import Conversion, Versions, in_force, types_admitted
from gerules.egraph.optimize import GraphTask, Names, Outcome
from gerules.errors import Diagnostic, Difference, Refused, UsageFault
from gerules.graph import save_model
from gerules.graph.constants import ConstantTable
from gerules.graph.dtypes import name_of_onnx
from gerules.graph.facts import infer_facts
from gerules.graph.info import UNKNOWN, Info
from gerules.graph.io import name_nodes, reload
from gerules.graph.structure import all_graphs, bodies, constant_tensor, constant_values
from gerules.pipeline.options import Options
from gerules.pipeline.refusals import refusal
from gerules.pipeline.report import Report
from gerules.pipeline.rewriting import made_counts
from gerules.pipeline.rules import CONVERT, Loaded, load_rules
from gerules.pipeline.subject import Clock, Dimensions, Subject, count_nodes
from gerules.pipeline.validation import check_outputs, judge
from gerules.registry import canonical_domain, onnx_registry
from gerules.registry.definition import OperatorDef

OLDEST = 7
"""The oldest opset of ai.onnx that can be asked for."""
INITIALIZERS_ALONE, FUNCTIONS = 4, 8
"""The IR versions since which an initializer need be no input, and a model may have functions."""
_WANTED = re.compile(r"(?:([A-Za-z_][\w.]*)=)?(\d+)\Z")


def wanted_versions(texts: tuple[str, ...]) -> dict[str, int]:
    """`17`, `ai.onnx.ml=3` -> {"": 17, "ai.onnx.ml": 3}. Raises UsageFault with every fault (GR801, GR802)."""
    registry = onnx_registry()
    found: dict[str, int] = {}
    faults: list[Diagnostic] = []
    for text in texts:
        match = _WANTED.match(text.strip())
        if match is None:
            faults.append(
                Diagnostic(
                    "GR801", f"--opset {text}: this is no version", hint="write `--opset 17` or `--opset ai.onnx.ml=3`"
                )
            )
            continue
        domain, version = canonical_domain(match[1] or ""), int(match[2])
        shown, newest = domain or "ai.onnx", registry.newest(domain)
        if newest is None:
            known = ", ".join(d or "ai.onnx" for d in registry.domains())
            faults.append(
                Diagnostic("GR802", f"--opset {text}: nobody knows the domain {shown}", hint=f"domains are {known}")
            )
        elif not (OLDEST if not domain else 1) <= version <= int(newest):
            least = OLDEST if not domain else 1
            faults.append(
                Diagnostic(
                    "GR801",
                    f"there is no opset {version} of {shown} to convert to",
                    hint=f"opsets of {shown} are {least} to {newest} with the installed onnx",
                )
            )
        elif found.setdefault(domain, version) != version:
            faults.append(Diagnostic("GR801", f"two opsets of {shown} are asked for: {found[domain]} and {version}"))
    if not texts:
        faults.append(Diagnostic("GR801", "no opset is asked for", hint="write `--opset 17`"))
    if faults:
        raise UsageFault(faults)
    return found


def convert_model(
    path: str | Path,
    out: str | Path,
    opset: int | Mapping[str, int],
    options: Options | None = None,
    *,
    ir_version: int | None = None,
) -> Report:
    """Converts the model at `path` to `opset` (of ai.onnx, or versions by domain) and writes the result to `out`.

    Raises UsageFault for versions that do not exist, Refused with every node that cannot be converted and why,
    Difference where validation finds one; then nothing was written (but what `keep_failed` asks for).
    """
    options = options or Options()
    asked = {"": opset} if isinstance(opset, int) else dict(opset)
    wanted = wanted_versions(tuple(f"{d}={v}" if d else str(v) for d, v in asked.items()))
    dimensions = Dimensions.of(options)
    check_outputs(path, out, options)
    clock = Clock()
    options.progress("reading the rules")
    with clock.stage("rules"):
        loaded = conversion_rules(options)
    options.progress("reading the model")
    with clock.stage("read"):
        subject = Subject.load(path, loaded.program, dimensions)
    before = count_nodes(subject.model)
    options.progress("converting")
    converter = Converter(subject, loaded, options, wanted, ir_version)
    outcome = converter.run()
    for stage, seconds in outcome.seconds.items():
        clock.add(stage, seconds)
    subject.promise(subject.model)
    original = reload(subject.model)
    verdict = judge(original, original, replace(options, validate=False), dimensions)
    if options.validate:
        options.progress("validating")
        with clock.stage("validate"):
            try:
                verdict = judge(
                    original, subject.model, options, dimensions, made_by=outcome.made_by, fired=outcome.fired
                )
            except Difference:
                if options.keep_failed is not None:
                    folder = Path(options.keep_failed)
                    folder.mkdir(parents=True, exist_ok=True)
                    save_model(subject.model, folder / "model.onnx", force=True)
                raise
            except Refused as refused:
                # Operands of a node that come at run time are drawn at random, and may fit nowhere: what holds for the
                # conversion holds without numbers too, so it is written, and the report says what was not seen.
                verdict = replace(verdict, notes=tuple(f"not validated: {d.message}" for d in refused.diagnostics))
    options.progress("writing")
    with clock.stage("write"):
        save_model(subject.model, out, force=options.force)
    return Report(
        command="convert",
        output=str(out),
        nodes_before=before,
        nodes_after=count_nodes(subject.model),
        verdict=verdict,
        changed=outcome.changed or bool(converter.moved),
        fired=outcome.fired,
        made=made_counts(subject.model, outcome.made_by),
        unproved=loaded.unproved(outcome.made_by.values()),
        stopped=outcome.stopped or "",
        iterations=outcome.iterations,
        seconds=clock.total(),
        notes=loaded.notes,
    )


def convert_bytes(data: bytes, opset: int) -> bytes:
    """A serialized model converted to an opset of ai.onnx, validated on numbers. Raises GerulesError to refuse."""
    with tempfile.TemporaryDirectory(prefix="gerules-") as folder:
        source, out = Path(folder) / "model.onnx", Path(folder) / "converted.onnx"
        source.write_bytes(data)
        convert_model(source, out, opset)
        return out.read_bytes()


def respell_constants(graph: ir.Graph, opset: int, ir_version: int, names: Names) -> None:
    """Writes constants as the opset and the IR version have them: a Constant node that has another attribute, or an
    element type that it does not admit, becomes a `value` or an initializer; an initializer of an IR version that wants
    it to be an input, and that is none, becomes a Constant node."""
    definition = onnx_registry().lookup("", "Constant", opset)
    assert definition is not None
    known = {a.name for a in definition.attributes}
    admitted = definition.outputs[0].types
    for node in list(graph):
        tensor = constant_tensor(node)
        if tensor is None:
            continue
        fits = name_of_onnx(tensor.dtype) in admitted
        if fits and all(name in known for name in node.attributes):
            continue
        value = node.outputs[0]
        held = ir.Tensor(tensor.numpy(), name=value.name) if not isinstance(tensor, ir.StringTensor) else tensor
        if fits or ir_version < INITIALIZERS_ALONE:
            node.attributes.clear()
            node.attributes.add(ir.AttrTensor("value", held))
            continue
        fresh = ir.Value(name=value.name, type=ir.TensorType(held.dtype), shape=held.shape, const_value=held)
        value.name = None
        ir.convenience.replace_all_uses_with(value, fresh, replace_graph_outputs=True)
        graph.remove(node)
        graph.register_initializer(fresh)
    if ir_version >= INITIALIZERS_ALONE:
        return
    inputs = set(graph.inputs)
    first = next(iter(graph), None)
    for name, value in list(graph.initializers.items()):
        if value in inputs or value.const_value is None:
            continue
        del graph.initializers[name]
        fresh = ir.Value(name=name, type=value.type, shape=value.shape)
        node = ir.Node(
            "", "Constant", [], [ir.AttrTensor("value", value.const_value)], outputs=[fresh], name=names.fresh(name)
        )
        ir.convenience.replace_all_uses_with(value, fresh, replace_graph_outputs=True)
        if first is None:
            graph.append(node)
        else:
            graph.insert_before(first, node)


def conversion_rules(options: Options) -> Loaded:
    """The rules of conversions: those of the schedule `convert`, rules that are definitions included."""
    return load_rules(
        options.rules,
        only_rules=options.only_rules,
        enable=(*options.enable, "defines"),
        disable=options.disable,
        schedule=CONVERT,
    )


@dataclass
class Converter:
    """Converts the graphs of one model in place."""

    subject: Subject
    loaded: Loaded
    options: Options
    wanted: Mapping[str, int]
    ir_version: int | None = None
    moved: tuple[str, ...] = ()
    infos: dict[ir.Value, Info] = field(default_factory=dict)
    faults: list[Diagnostic] = field(default_factory=list)
    imports: dict[ir.Node, Mapping[str, int]] = field(default_factory=dict)
    """The operator versions of nodes that came with a body that was written out."""

    def run(self) -> Outcome:
        model, outcome = self.subject.model, Outcome()
        source = {canonical_domain(d): v for d, v in model.opset_imports.items()}
        self.versions = Versions(source, {**source, **{d: v for d, v in self.wanted.items() if d in source or not d}})
        self.moved = self.versions.moved()
        name_nodes(model)
        self.table: ConstantTable = self.subject.table
        self.infos.update(infer_facts(model, self.subject.dimensions.facts, table=self.table))
        self.define = self.subject.define(self.subject.view({}))
        self.names = Names(model)
        pending: list[tuple[ir.Graph, str]] = [(model.graph, "")]
        while pending:
            graph, path = pending.pop()
            self._graph(graph, path, outcome)
            for node in reversed(list(graph)):
                for name, body in reversed(bodies(node)):
                    pending.append((body, f"{path}/{node.name}:{name}" if path else f"{node.name}:{name}"))
        if self.faults:
            raise Refused(self.faults)
        for domain, version in self.versions.target.items():
            model.opset_imports[domain] = version
        for graph in all_graphs(model.graph):
            respell_constants(graph, self.versions.target.get("", 0), model.ir_version, self.names)
        return outcome

    # ------------------------------------------------------------------------------------------------------ one graph

    def _graph(self, graph: ir.Graph, path: str, outcome: Outcome) -> None:
        if all(self._passes(node) for node in graph):
            return
        task = GraphTask(
            graph, path, self.infos, self.table, self.subject.dimensions.facts, self.versions.source.get("", 1)
        )
        stuck = Conversion(
            task,
            self.loaded.engine,
            self.versions,
            define=self._define,
            passes=self._passes,
            fixed=constant_values(self.subject.model) if not path else None,
            names=self.names,
            outcome=outcome,
            imports=self.imports,
        ).run()
        self.faults += [refusal(s, self.versions.target, onnx_registry()) for s in stuck]

    def _define(self, node: ir.Node) -> OperatorDef | None:
        imports = self.imports.get(node)
        if imports is None:
            return self.define(node)
        version = imports.get(node.domain)
        return None if version is None else onnx_registry().lookup(node.domain, node.op_type, version)

    def _passes(self, node: ir.Node) -> bool:
        """Whether a node means the same at the target as it is, with its types admitted there."""
        definition = self._define(node)
        if constant_tensor(node) is not None:
            return True
        if definition is None:
            return True
        engine = self.loaded.engine
        held = in_force(engine, engine.known.signatures.of(definition), self.versions.target)
        return held is not None and self._misfit(held, node) is None

    def _misfit(self, definition: OperatorDef, node: ir.Node) -> str | None:
        operands = [None if v is None else self.infos.get(v, UNKNOWN) for v in node.inputs]
        results = [self.infos.get(v, UNKNOWN) if v.name else None for v in node.outputs]
        return types_admitted(definition, operands, results)


__all__ = ["Converter", "conversion_rules", "convert_model", "wanted_versions"]
