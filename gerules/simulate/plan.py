"""From graphs to plans: each graph becomes a list of steps over numbered slots, prepared once and run often.

Values are followed by identity, as onnx_ir links them, never by name, so a body that shadows a name is no trouble.
What a body captures becomes an explicit operand of the node that holds it, and is kept and freed like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from gerules.simulate.faults import NodeFault, SimulationFault, fault, node_fault
from gerules.simulate.kernel import Kernel, Mode, NodeSpec, Run
from gerules.simulate.schema import find_schema, known_domain
from gerules.simulate.selection import DRAWING, Selector
from gerules.simulate.stated import value_type
from gerules.simulate.values import UNKNOWN, Value, describe, normalise

FOLD_BYTES: Final = 256 << 20  # of results that a plan computes once and keeps
ABSENT, TRASH = 0, 1  # slots: what an absent operand reads, where an unnamed result goes


@dataclass(frozen=True, slots=True)
class Step:
    """One node: slots that it reads (captured values of its bodies last), slots that it writes, slots to free."""

    kernel: Kernel
    operands: tuple[int, ...]
    results: tuple[int, ...]
    op: str
    name: str
    rooted: bool  # runs even where nobody needs its results: what an opaque operator was given is compared
    pure: bool  # depends on its operands alone
    frees: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A graph ready to run. `template` has the constants in their slots."""

    template: tuple[Value, ...]
    inputs: tuple[int, ...]
    captured: tuple[int, ...]
    outputs: tuple[int, ...]
    steps: tuple[Step, ...]

    def execute(self, inputs: Sequence[Value], captured: Sequence[Value], run: Run) -> list[Value]:
        """The values of `outputs`. Raises `NodeFault` naming the node that failed."""
        values = list(self.template)
        for slot, value in zip(self.inputs, inputs, strict=True):
            values[slot] = value
        for slot, value in zip(self.captured, captured, strict=True):
            values[slot] = value
        step = None
        try:
            for step in self.steps:
                results = step.kernel([values[slot] for slot in step.operands], run)
                for slot, value in zip(step.results, results, strict=False):
                    values[slot] = value
                for slot in step.frees:
                    values[slot] = None
        except SimulationFault:
            raise
        except Exception as error:
            assert step is not None
            shown = ", ".join(describe(values[slot]) for slot in step.operands)
            reason = str(error) or type(error).__name__
            raise node_fault(step.op, step.name, shown, reason.splitlines()[0]) from error
        return [values[slot] for slot in self.outputs]


@dataclass(frozen=True, slots=True)
class Body:
    """A graph attribute ready to run: `captures` are positions among the operands that its node's kernel is given."""

    plan: Plan
    captures: tuple[int, ...]
    output_types: tuple[Any, ...]

    @property
    def arity(self) -> int:
        return len(self.plan.inputs)

    def __call__(self, inputs: Sequence[Value], operands: Sequence[Value], run: Run) -> list[Value]:
        """Runs the body with its own inputs; captured values come from the node's `operands`."""
        return self.plan.execute(inputs, [operands[i] for i in self.captures], run)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a graph is read in: imported opsets, the model's functions, attribute values of a function call."""

    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str, str], ir.Function]
    mode: Mode
    bound: Mapping[str, Any] = field(default_factory=dict)
    stack: tuple[tuple[str, str, str], ...] = ()
    guarded: bool = False


@dataclass(slots=True)
class Draft:
    """A graph on its way to a plan: slots by value identity, constants, steps in order."""

    scope: Scope
    selector: Selector
    slots: dict[int, int] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    template: list[Value] = field(default_factory=lambda: [None, None])
    captured: list[ir.Value] = field(default_factory=list)
    captured_slots: list[int] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    constants: list[int] = field(default_factory=list)
    keep: list[ir.Value] = field(default_factory=list)  # identities must outlive the draft

    def define(self, value: ir.Value, content: Value = None) -> int:
        slot = len(self.template)
        self.template.append(content)
        self.slots[id(value)] = slot
        self.keep.append(value)
        if value.name:
            self.names[value.name] = slot
        return slot

    def slot(self, value: ir.Value) -> int:
        """The slot of a value; one that is not defined here is captured from around."""
        found = self.slots.get(id(value))
        if found is None:
            found = self.define(value)
            self.captured.append(value)
            self.captured_slots.append(found)
        return found

    def plan(self, outputs: Sequence[int], *, prune: bool, given: frozenset[int] = frozenset()) -> Plan:
        """The plan that yields the slots `outputs`; with `prune` without the steps that they do not need.

        What depends on constants alone is computed now, as far as `FOLD_BYTES` go. `given` are slots of inputs with
        defaults that will be fed.
        """
        steps = _needed(self.steps, outputs) if prune else list(self.steps)
        template = list(self.template)
        steps = self._folded(steps, template, {ABSENT, *self.constants} - given)
        used = {ABSENT, *outputs, *self.inputs, *(slot for step in steps for slot in step.operands)}
        template = [value if slot in used else None for slot, value in enumerate(template)]
        return Plan(
            tuple(template),
            tuple(self.inputs),
            tuple(self.captured_slots),
            tuple(outputs),
            tuple(_with_frees(steps, outputs)),
        )

    def _folded(self, steps: Sequence[Step], template: list[Value], known: set[int]) -> list[Step]:
        kept: list[Step] = []
        budget = FOLD_BYTES
        with np.errstate(all="ignore"):
            for step in steps:
                if not step.pure or not known.issuperset(step.operands):
                    kept.append(step)
                    continue
                try:
                    results = step.kernel([template[slot] for slot in step.operands], Run())
                except Exception:  # the node fails when, and only if, it is run
                    kept.append(step)
                    continue
                size = sum(v.nbytes for v in results if isinstance(v, np.ndarray))
                if size > budget:
                    kept.append(step)
                    continue
                budget -= size
                for slot, value in zip(step.results, results, strict=False):
                    if slot != TRASH:
                        template[slot] = value
                        known.add(slot)
        return kept


def _needed(steps: Sequence[Step], outputs: Iterable[int]) -> list[Step]:
    wanted = set(outputs)
    kept: list[Step] = []
    for step in reversed(steps):
        if step.rooted or not wanted.isdisjoint(step.results):
            wanted.update(step.operands)
            kept.append(step)
    kept.reverse()
    return kept


def _with_frees(steps: Sequence[Step], outputs: Iterable[int]) -> Iterable[Step]:
    last: dict[int, int] = {}
    for index, step in enumerate(steps):
        for slot in (*step.results, *step.operands):
            last[slot] = index
    frees: dict[int, list[int]] = {}
    for slot, index in last.items():
        frees.setdefault(index, []).append(slot)
    kept = {ABSENT, *outputs}
    for index, step in enumerate(steps):
        slots = tuple(s for s in frees.get(index, ()) if s not in kept)
        yield Step(step.kernel, step.operands, step.results, step.op, step.name, step.rooted, step.pure, slots)


def draft_graph(graph: ir.Graph, scope: Scope, selector: Selector) -> Draft:
    """Reads a graph (of a model, a body or a function) into a draft. Raises `SimulationFault` where an operator is
    unknown at its version, or a body cannot be read."""
    draft = Draft(scope, selector)
    for value in graph.inputs:
        draft.inputs.append(draft.define(value))
    for value in graph.initializers.values():
        content = constant_value(value)
        slot = draft.slots.get(id(value))
        if slot is None:
            slot = draft.define(value, content)
        else:  # an input with a default
            draft.template[slot] = content
        draft.constants.append(slot)
    for index, node in enumerate(graph):
        draft.steps.append(_step(draft, node, index))
    return draft


def constant_value(value: ir.Value) -> Value:
    """The contents of an initializer. Raises `SimulationFault` where they are missing."""
    if value.const_value is None:
        raise fault("GR402", f"initializer {value.name} has no contents", node=value.name)
    return normalise(value.const_value.numpy())


def node_name(node: ir.Node, index: int) -> str:
    """The node's name; one without a name is called after its operator and its position."""
    return node.name or f"{node.op_type}_{index}"


def _step(draft: Draft, node: ir.Node, index: int) -> Step:
    scope = draft.scope
    name = node_name(node, index)
    operands = [ABSENT if v is None else draft.slot(v) for v in node.inputs]
    attributes, graphs = _attributes(node, scope)
    bodies: dict[str, Body] = {}
    first_capture = len(operands)
    for key, graph in graphs.items():
        bodies[key] = _body(draft, graph, operands, first_capture)
    domain = "" if node.domain == "ai.onnx" else node.domain
    function = scope.functions.get((domain, node.op_type, node.overload or ""))
    wanted = tuple(bool(v.name) for v in node.outputs)
    rooted = pure = False
    if function is not None:
        kernel = _call(draft, function, attributes, bodies, name)
    else:
        opset = node.version if node.version is not None else scope.opsets.get(domain)
        schema = find_schema(domain, node.op_type, opset) if opset is not None else None
        if schema is None:
            if known_domain(domain):
                raise fault(
                    "GR403",
                    f"{domain or 'ai.onnx'} has no operator {node.op_type} at opset {opset}",
                    node=name,
                    hint="import an opset that has it" if opset is not None else f"import the domain {domain!r}",
                )
            kernel = _opaque(name, [value_type(v) for v in node.outputs])
            rooted = True
        else:
            filled = {**schema.defaults, **attributes}
            spec = NodeSpec(
                domain, node.op_type, schema.since, int(opset or 0), name, filled, first_capture, len(node.outputs),
                wanted, bodies, scope.mode,
            )  # fmt: skip
            kernel = draft.selector(spec)
            pure = not bodies and node.op_type not in DRAWING
    results = tuple(draft.define(v) if v.name else TRASH for v in node.outputs)
    if scope.guarded and not rooted:
        kernel = _guard(kernel, len(results))
    return Step(kernel, tuple(operands), results, node.op_type, name, rooted, pure)


def _body(draft: Draft, graph: ir.Graph, operands: list[int], first_capture: int) -> Body:
    inner = draft_graph(graph, draft.scope, draft.selector)
    outputs = [inner.slot(v) for v in graph.outputs]
    positions: list[int] = []
    for value in inner.captured:
        slot = draft.slot(value)
        try:
            position = operands.index(slot, first_capture)
        except ValueError:
            position = len(operands)
            operands.append(slot)
        positions.append(position)
    types = tuple(value_type(v) for v in graph.outputs)
    return Body(inner.plan(outputs, prune=False), tuple(positions), types)


def _attributes(node: ir.Node, scope: Scope) -> tuple[dict[str, Any], dict[str, ir.Graph]]:
    values: dict[str, Any] = {}
    graphs: dict[str, ir.Graph] = {}
    for name, attribute in node.attributes.items():
        if attribute.is_ref():
            reference = str(attribute.ref_attr_name)
            if reference in scope.bound:
                bound = scope.bound[reference]
                if isinstance(bound, ir.Graph):
                    graphs[name] = bound
                else:
                    values[name] = bound
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            graphs[name] = attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            raise fault("GR404", f"{node.op_type} has a list of graphs, {name}", node=node.name)
        else:
            values[name] = plain_attribute(attribute)
    return values, graphs


def plain_attribute(attribute: ir.Attr) -> Any:
    """The Python value of an attribute that is neither a reference nor a graph, as `NodeSpec` has it."""
    value: Any = attribute.value
    kind = attribute.type
    if kind == ir.AttributeType.TENSOR:
        return normalise(value.numpy())
    if kind == ir.AttributeType.TENSORS:
        return tuple(normalise(t.numpy()) for t in value)
    if kind == ir.AttributeType.TYPE_PROTO:
        return value_type(value)
    if kind == ir.AttributeType.STRING and isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (list, tuple)):
        return tuple(value)
    return value


def _call(
    draft: Draft, function: ir.Function, attributes: Mapping[str, Any], bodies: Mapping[str, Body], name: str
) -> Kernel:
    """The kernel of a call of a model-local function: its body with the call's attributes."""
    scope = draft.scope
    key = (function.domain, function.name, function.overload or "")
    if key in scope.stack:
        raise fault("GR405", f"function {function.name} calls itself", node=name, hint="functions cannot be recursive")
    if bodies:
        raise fault("GR404", f"the call of {function.name} passes a graph as an attribute", node=name)
    bound = {n: plain_attribute(a) for n, a in function.attributes.items() if a.value is not None}
    bound.update({n: v for n, v in attributes.items() if n in function.attributes})
    plan = draft.selector.function_plan(function, bound, scope, key)
    arity = len(plan.inputs)

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        if len(operands) > arity:
            raise ValueError(f"{function.name} takes {arity} operands")
        before = run.path
        run.path = f"{before}{name}/"
        try:
            return plan.execute([*operands, *[None] * (arity - len(operands))], (), run)
        finally:
            run.path = before

    return compute


def function_plan(function: ir.Function, scope: Scope, selector: Selector) -> Plan:
    """The plan of a function's body in a scope that already has its opsets and bound attributes."""
    draft = draft_graph(function.graph, scope, selector)
    outputs = [draft.slot(v) for v in function.outputs]
    if draft.captured:
        raise undefined(draft.captured[0], f"function {function.name}")
    return draft.plan(outputs, prune=False)


def undefined(value: ir.Value, place: str) -> SimulationFault:
    """The error for a value that is used but never made."""
    return fault(
        "GR401",
        f"value {value.name} is used in {place} before anything makes it",
        node=value.name,
        hint="the nodes must be in an order in which operands come before their users",
    )


def _opaque(name: str, types: Sequence[Any]) -> Kernel:
    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        if run.opaque is None:
            raise fault(
                "GR412",
                f"{name} has an operator without a schema, which nobody can compute",
                node=name,
                hint="run with OpaqueValues, which cuts the simulation there",
            )
        full = run.path + name
        return run.opaque.results(full, run.next_call(full), operands, types)

    return compute


def _guard(kernel: Kernel, results: int) -> Kernel:
    """A kernel that passes on that a value is unknown."""

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        if any(v is UNKNOWN for v in operands):
            return [UNKNOWN] * results
        return kernel(operands, run)

    return compute


__all__ = ["Body", "Draft", "NodeFault", "Plan", "Scope", "Step", "draft_graph", "function_plan", "node_name"]
