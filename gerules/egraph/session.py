"""Running a compiled program on one graph: load, saturate under a schedule with limits, read the e-graph back."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from egglog import bindings

from gerules.dsl import ast
from gerules.egraph.encode import Encoded, info_rows, load_rules
from gerules.egraph.host import Run
from gerules.egraph.lower import ruleset_name
from gerules.egraph.program import Compiled
from gerules.egraph.signature import Signature
from gerules.egraph.terms import quoted
from gerules.errors import Diagnostic, Refused
from gerules.graph.info import Info


@dataclass(frozen=True)
class Limits:
    """Bounds of a saturation. Iterations and e-nodes are deterministic; `seconds` is the last resort."""

    iterations: int = 100_000
    nodes: int = 200_000
    seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class ENode:
    """One e-node of an operator. `children` are classes in order of the columns, None for an absent operand; `made_by`
    is "input" or the rule that first made it. `node` is the loaded node's number of an impure or opaque one."""

    signature: Signature | None
    cls: int
    children: tuple[int | None, ...]
    columns: tuple[str, ...]
    made_by: str
    node: int | None = None


@dataclass
class Saturated:
    """An e-graph read back. Classes are small numbers, in a stable order.

    `leaves`: class -> value numbers of the graph that lie in it. `constants`: class -> constant text. `known`: class ->
    info text of values that are wholly known by dimensions. `projections`: (class, node class, place). `infos`:
    class -> info. `node_class`: loaded node number -> class of sort N.
    """

    nodes: list[ENode]
    classes: int
    leaves: dict[int, list[int]]
    constants: dict[int, str]
    known: dict[int, str]
    projections: list[tuple[int, int, int]]
    infos: dict[int, Info]
    value_class: dict[int, int]
    node_class: dict[int, int]
    fired: dict[str, int]
    iterations: int
    stopped: str | None
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass
class _Clock:
    limits: Limits
    started: float
    iterations: int = 0
    stopped: str | None = None


@dataclass
class Session:
    """One graph on top of a compiled program. Use as a context: the program is clean again afterwards."""

    compiled: Compiled
    run_state: Run

    def __enter__(self) -> Session:
        self.compiled.host.run = self.run_state
        self.compiled.run(["(push)"])
        self._declared = set(self.compiled.declared)
        self._calls = dict(self.compiled.calls)
        self._rules, self._rulesets = dict(self.compiled.rules), self.compiled.rulesets
        self._number = len(self.compiled.host.calls)
        self.fired: dict[str, int] = {}
        return self

    def __exit__(self, *_: object) -> None:
        self.compiled.egraph.run_program(*self.compiled.egraph.parse_program("(pop)"))
        self.compiled.declared = self._declared
        self.compiled.calls = self._calls
        self.compiled.rules, self.compiled.rulesets = self._rules, self._rulesets
        del self.compiled.host.calls[self._number :]
        del self.compiled.host.names[self._number :]
        self.compiled.host.run = None

    def load(self, encoded: Encoded) -> None:
        """Puts a graph's rows in and builds its terms."""
        compiled = self.compiled
        for signature in dict.fromkeys(s for s in encoded.relations.values() if s is not None):
            compiled.run(compiled.declare(signature))
            compiled.declared.add(signature.constructor)
        compiled.run(load_rules(encoded))
        with tempfile.TemporaryDirectory(prefix="gerules-") as folder:
            for relation, rows in [*encoded.rows.items(), ("in_info", info_rows(encoded))]:
                if not rows:
                    continue
                path = Path(folder) / f"{relation}.tsv"
                path.write_text("\n".join(rows) + "\n", encoding="utf-8")
                compiled.run([f"(input {relation} {quoted(str(path))})"])
        compiled.run(["(run-schedule (saturate load))"])

    def saturate(
        self,
        schedule: ast.Schedule,
        rulesets: Callable[[str], Sequence[str]],
        limits: Limits,
        leftover: Sequence[str] = (),
    ) -> _Clock:
        """Runs the steps of a schedule. `rulesets` resolves a name of a step to rulesets of the program; `leftover` are
        rulesets that no step names and that run with the last one."""
        clock = _Clock(limits, time.monotonic())
        steps = list(schedule.steps)
        for step in _flat_limits(steps):
            clock.limits = _tightened(clock.limits, step)
        self._combined: dict[tuple[str, ...], str] = {}
        self.fixpoint(clock)
        last = _last_run(steps)
        self._steps([s for s in steps if not isinstance(s, ast.LimitStep)], rulesets, clock, last, tuple(leftover))
        return clock

    def _steps(
        self,
        steps: Sequence[ast.Step],
        rulesets: Callable[[str], Sequence[str]],
        clock: _Clock,
        last: ast.RunStep | None,
        leftover: tuple[str, ...],
    ) -> bool:
        changed = False
        for step in steps:
            if clock.stopped:
                return changed
            if isinstance(step, ast.RepeatStep):
                for _ in range(step.count):
                    if not self._steps(step.steps, rulesets, clock, last, leftover):
                        break
                    changed = True
                    if clock.stopped:
                        break
                else:
                    if step.count > 1:
                        clock.stopped = clock.stopped or "iterations"
            elif isinstance(step, ast.RunStep):
                names = tuple(n for r in step.rulesets for n in rulesets(r)) + (leftover if step is last else ())
                # What follows from types is drawn in every step: rules ask for the shapes of what others made.
                names = (*names, "theory")
                changed |= self._run(tuple(dict.fromkeys(names)), step, clock)
        return changed

    def _run(self, names: tuple[str, ...], step: ast.RunStep, clock: _Clock) -> bool:
        if step.mode in ("backoff", "shuffle"):
            raise Refused(
                Diagnostic(
                    "GR520",
                    f"schedules do not yet run steps of mode `{step.mode}`",
                    span=step.span,
                    hint="use `run` or `saturate`",
                )
            )
        names = tuple(n for n in names if n == "theory" or n in self.compiled.rulesets)
        if names == ("theory",) and step.mode == "run":
            return False
        name = self._ruleset(names)
        if step.mode == "run":
            return self.iterate(name, clock)
        changed = False
        while not clock.stopped and self.iterate(name, clock):
            changed = True
        return changed

    def _ruleset(self, names: tuple[str, ...]) -> str:
        if names not in self._combined:
            parts = [n if n == "theory" else ruleset_name(n) for n in names]
            made = parts[0]
            if len(parts) > 1:
                made = f"all_{len(self._combined)}"
                self.compiled.run([f"(unstable-combined-ruleset {made} {' '.join(parts)})"])
            self._combined[names] = made
        return self._combined[names]

    def fixpoint(self, clock: _Clock) -> None:
        """What follows from types alone, until nothing changes."""
        while not clock.stopped and self.iterate("theory", clock):
            pass

    def iterate(self, ruleset: str, clock: _Clock) -> bool:
        """One iteration; whether it changed anything. Notes limits that are reached."""
        [output] = self.compiled.run([f"(run-schedule (run {ruleset}))"])
        assert isinstance(output, bindings.RunScheduleOutput)
        report = output.report
        matches = 0
        for name, count in report.num_matches_per_rule.items():
            matches += count
            rule = self.compiled.rules.get(name)
            if rule is not None and count:
                self.fired[rule] = self.fired.get(rule, 0) + count
        clock.iterations += 1
        self._contradictions()
        if clock.iterations >= clock.limits.iterations:
            clock.stopped = "iterations"
        elif time.monotonic() - clock.started > clock.limits.seconds:
            clock.stopped = "time"
        elif report.updated and (matches > 500 or clock.iterations % 8 == 0) and self.size() > clock.limits.nodes:
            clock.stopped = "nodes"
        return bool(report.updated)

    def size(self) -> int:
        """How many rows the tables hold: e-nodes, and what is kept beside them."""
        [output] = self.compiled.run(["(print-size)"])
        assert isinstance(output, bindings.PrintAllFunctionsSize)
        return sum(count for _, count in output.sizes)

    def _contradictions(self) -> None:
        found = self.run_state.contradictions
        if found:
            first = found[0]
            fired = sorted(self.fired, key=lambda rule: (not rule.startswith("user/"), rule))
            named = ", ".join(fired[:8]) + (f" and {len(fired) - 8} more" if len(fired) > 8 else "")
            raise Refused(
                Diagnostic(
                    "GR530",
                    f"two things that are said of one value cannot both hold: {first.first} and {first.second}",
                    hint=(
                        f"a rule that fired is wrong ({named}): try --disable; "
                        if fired
                        else "what the graph declares and what it computes disagree; "
                    )
                    + "or a promise (--dim, --assume) or a declared shape is",
                )
            )

    def read(self, clock: _Clock, encoded: Encoded) -> Saturated:
        """The e-graph as plain data, in a stable order."""
        return _Reader(self, encoded).read(clock)


_Row = tuple[
    str, "Signature | None", bindings.FrozenRow, tuple[bindings.Value, ...], tuple[str, ...], str, "int | None"
]
"""Constructor, signature, row, children, columns, who made it, node number."""


class _Reader:
    def __init__(self, session: Session, encoded: Encoded) -> None:
        self.egraph = session.compiled.egraph
        self.session = session
        self.encoded = encoded
        self.functions = self.egraph.freeze().functions
        self.number: dict[bindings.Value, int] = {}
        self.texts: dict[bindings.Value, str] = {}

    def cls(self, value: bindings.Value) -> int:
        known = self.number.get(value)
        if known is None:
            known = self.number[value] = len(self.number)
        return known

    def text(self, value: bindings.Value) -> str:
        known = self.texts.get(value)
        if known is None:
            known = self.texts[value] = self.egraph.value_to_string(value)
        return known

    def read(self, clock: _Clock) -> Saturated:
        integer = self.egraph.value_to_i64
        # Classes are numbered by the values of the graph first, then by e-nodes in a sorted order of their texts.
        leaves: dict[int, list[int]] = {}
        value_class: dict[int, int] = {}
        for number, value in sorted((integer(r.inputs[0]), r.output) for r in self._rows("V")):
            cls = self.cls(value)
            if number >= 0:
                leaves.setdefault(cls, []).append(number)
                value_class[number] = cls
        node_class = {
            number: self.cls(value)
            for number, value in sorted((integer(r.inputs[0]), r.output) for r in self._rows("NV"))
        }
        absent = {self.cls(r.output) for r in self._rows("Absent")}
        constants: dict[int, str] = {}
        for text, value in sorted((self.text(r.inputs[0]), r.output) for r in self._rows("K")):
            constants.setdefault(self.cls(value), text)
        known: dict[int, str] = {}
        for text, value in sorted((self.text(r.inputs[0]), r.output) for r in self._rows("Known")):
            known.setdefault(self.cls(value), text)
        self.places: dict[bindings.Value, list[tuple[int, bindings.Value]]] = {}
        for row in self._rows("Out"):
            self.places.setdefault(row.inputs[0], []).append((integer(row.inputs[1]), row.output))
        for value in [v for v in self.number if v in self.places]:
            self._results(value)
        nodes = self._operators(absent)
        projections = sorted(
            (self.number[r.output], self.number[r.inputs[0]], integer(r.inputs[1]))
            for r in self._rows("Out")
            if r.inputs[0] in self.number
        )
        infos: dict[int, Info] = {}
        for row in self._rows("info"):
            if row.inputs[0] in self.number:
                text = self.text(row.output)
                if text != "-":
                    infos[self.number[row.inputs[0]]] = Info.parse(text)
        return Saturated(
            nodes,
            len(self.number),
            leaves,
            constants,
            known,
            projections,
            infos,
            value_class,
            node_class,
            dict(sorted(self.session.fired.items())),
            clock.iterations,
            clock.stopped,
        )

    def _results(self, node: bindings.Value) -> list[bindings.Value]:
        """Numbers the results of a node whose class has a number; those that are new."""
        fresh = []
        for _, value in sorted(self.places.get(node, ()), key=lambda entry: entry[0]):
            if value not in self.number:
                self.cls(value)
                fresh.append(value)
        return fresh

    def _rows(self, name: str) -> Sequence[bindings.FrozenRow]:
        function = self.functions.get(name)
        return () if function is None else function.rows

    def _operators(self, absent: set[int]) -> list[ENode]:
        """E-nodes in an order that does not depend on how the engine happened to number its classes.

        Classes reached from the graph's values have stable numbers already; the rest are named level by level, by
        the texts and the (stable) children of their e-nodes.
        """
        waiting: list[_Row] = []
        for signature in sorted(self._signatures(), key=lambda s: s.constructor):
            waiting += self._of(signature)
        waiting += self._opaque()
        waiting_by_child: dict[bindings.Value, list[int]] = {}
        missing: list[int] = []
        ready: list[int] = []
        for index, entry in enumerate(waiting):
            unknown = {c for c in entry[3] if c not in self.number}
            missing.append(len(unknown))
            if not unknown:
                ready.append(index)
            for child in unknown:
                waiting_by_child.setdefault(child, []).append(index)
        keyed: list[int] = []
        settled = [False] * len(waiting)
        while ready:
            level = sorted(ready, key=lambda i: self._key(waiting[i]))
            ready = []
            fresh: list[bindings.Value] = []
            for index in level:
                settled[index] = True
                keyed.append(index)
                output = waiting[index][2].output
                if output not in self.number:
                    self.cls(output)
                    fresh += [output, *self._results(output)]
            for value in fresh:
                for index in waiting_by_child.get(value, ()):
                    missing[index] -= 1
                    if missing[index] == 0 and not settled[index]:
                        ready.append(index)
        # What is left hangs on classes that are made of themselves alone: no choice can use them.
        result: list[ENode] = []
        for index in keyed:
            _, form, row, children, columns, made_by, number = waiting[index]
            classes = tuple(None if (c := self.number[v]) in absent else c for v in children)
            result.append(ENode(form, self.number[row.output], classes, columns, made_by, number))
        return result

    def _key(self, entry: tuple[object, ...]) -> tuple[object, ...]:
        name, _, _, children, columns, _, number = entry
        return (tuple(self.number[c] for c in children), name, columns, -1 if number is None else number)  # type: ignore[attr-defined]

    def _signatures(self) -> Iterator[Signature]:
        declared = self.session.compiled.declared
        for signature in self.session.compiled.knowledge.signatures.all():
            if signature.constructor in declared:
                yield signature

    def _of(self, signature: Signature) -> list[_Row]:
        rows = self._rows(signature.constructor)
        if not rows:
            return []
        made = {tuple(r.inputs): self.text(r.output) for r in self._rows(f"by_{signature.constructor}")}
        width = len(signature.attributes)
        found: list[_Row] = []
        for row in rows:
            operands = list(row.inputs[: signature.fixed])
            position = signature.fixed
            if signature.variadic:
                operands += self.egraph.value_to_vec(row.inputs[position])
                position += 1
            columns = tuple(self.text(v) for v in row.inputs[position : position + width])
            number = self.egraph.value_to_i64(row.inputs[-1]) if signature.impure else None
            made_by = made.get(tuple(row.inputs), "input")
            found.append((signature.constructor, signature, row, tuple(operands), columns, made_by, number))
        return found

    def _opaque(
        self,
    ) -> list[_Row]:
        return [
            (
                "",
                None,
                row,
                tuple(self.egraph.value_to_vec(row.inputs[1])),
                (),
                "input",
                self.egraph.value_to_i64(row.inputs[0]),
            )
            for row in self._rows("Opaque")
        ]


def _last_run(steps: Sequence[ast.Step]) -> ast.RunStep | None:
    last: ast.RunStep | None = None
    stack: list[ast.Step] = list(reversed(steps))
    while stack:
        step = stack.pop()
        if isinstance(step, ast.RunStep):
            last = step
        elif isinstance(step, ast.RepeatStep):
            stack += list(reversed(step.steps))
    return last


def _flat_limits(steps: Sequence[ast.Step]) -> Iterator[ast.LimitStep]:
    stack: list[ast.Step] = list(steps)
    while stack:
        step = stack.pop()
        if isinstance(step, ast.LimitStep):
            yield step
        elif isinstance(step, ast.RepeatStep):
            stack += list(step.steps)


def _tightened(limits: Limits, step: ast.LimitStep) -> Limits:
    values = {o.name: o.value.value for o in step.options if isinstance(o.value, ast.Number)}
    return Limits(
        int(values.get("iterations", limits.iterations)),
        int(values.get("nodes", limits.nodes)),
        float(values.get("seconds", limits.seconds)),
    )
