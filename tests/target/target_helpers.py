"""Programs from text and graphs from text, for tests of targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx.parser
import onnx_ir as ir

from gerules.dsl import ast
from gerules.dsl.assemble import assemble
from gerules.dsl.parser import parse_text
from gerules.dsl.program import Program
from gerules.graph.constants import ConstantTable
from gerules.graph.facts import infer_facts
from gerules.graph.info import Info
from gerules.registry import onnx_registry
from gerules.registry.definition import OperatorDef
from gerules.static import TensorView
from gerules.target.clauses import Clause, Surroundings, compile_clause
from gerules.target.graph_view import GraphView

DATA = Path(__file__).parent.parent / "data" / "targets"


def parsed(text: str, path: str, ruleset: str) -> ast.RuleFile:
    file, faults = parse_text(text, path, ruleset)
    assert not faults, faults
    return file


def program(*texts: str, ops: bool = True) -> Program:
    """The program of files `user/t0`, `user/t1`, ..., beside the operator classes of the test data."""
    files = [parsed(text, f"t{i}.rules", f"user/t{i}") for i, text in enumerate(texts)]
    if ops:
        files.append(parsed((DATA / "ops.rules").read_text(), "ops.rules", "ops"))
    made, faults = assemble(files, onnx_registry())
    assert not faults, faults
    return made


def data_program(name: str) -> Program:
    """The program of a rule file of the test data."""
    path = DATA / f"{name}.rules"
    files = [
        parsed(path.read_text(), f"{name}.rules", f"engines/{name}"),
        parsed((DATA / "ops.rules").read_text(), "ops.rules", "ops"),
    ]
    made, faults = assemble(files, onnx_registry())
    assert not faults, faults
    return made


@dataclass(frozen=True)
class Graph:
    """A graph as a view, with its nodes by name."""

    view: GraphView
    nodes: Mapping[str, ir.Node]


def graph(text: str) -> Graph:
    """A graph from ONNX's textual syntax: a whole model, or a graph at opset 21."""
    if not text.lstrip().startswith("<ir_version"):
        text = f'<ir_version: 10, opset_import: ["" : 21, "com.example" : 1]>\n{text}'
    model = ir.from_proto(onnx.parser.parse_model(text))
    table = ConstantTable()
    view = GraphView(infer_facts(model, table=table), model.graph.opset_imports, onnx_registry(), table)
    return Graph(view, {node.name or "": node for node in model.graph})


def data_graph(name: str) -> Graph:
    return graph((DATA / f"{name}.onnxtxt").read_text())


def clause(pattern: str, over: str = "", when: str = "", classes: str = "") -> Clause:
    """The clause `supports[over] pattern when ...` of an engine."""
    text = f"engine Probe:\n    cost = 1\n    supports{over} {pattern}" + (f" when {when}" if when else "")
    made = program(f"{classes}\n{text}")
    entry = made.engines["user/t0.Probe"]
    written = entry.statement.clauses[1]
    assert isinstance(written, ast.Supports)
    return compile_clause(written.pattern, written.over, written.when, Surroundings.of(made, entry.file))


@dataclass
class ClassView:
    """E-classes by hand: values are names, several nodes may give one value."""

    made: dict[str, tuple[OperatorDef, Mapping[str, str], Sequence[str | None], Sequence[str]]] = field(
        default_factory=dict
    )
    infos: dict[str, str] = field(default_factory=dict)

    def add(self, node: str, op: str, operands: Sequence[str | None], result: str, **attributes: str) -> None:
        definition = onnx_registry().lookup("", op, 21)
        assert definition is not None
        texts = {a.name: attributes.get(a.name, a.default or "") for a in definition.attributes}
        self.made[node] = (definition, texts, operands, (result,))

    def operator(self, node: str) -> OperatorDef:
        return self.made[node][0]

    def attributes(self, node: str) -> Mapping[str, str]:
        return self.made[node][1]

    def operands(self, node: str) -> Sequence[str | None]:
        return self.made[node][2]

    def results(self, node: str) -> Sequence[str]:
        return self.made[node][3]

    def producers(self, value: str) -> Sequence[str]:
        return [name for name, node in self.made.items() if value in node[3]]

    def tensor(self, value: str) -> TensorView:
        return TensorView(Info.parse(self.infos.get(value, "f32[2]")))
