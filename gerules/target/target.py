"""A target: the engines, transfers, merge and group rules of one rule file, and what they say of nodes.

A target is a rule file with engines: a shipped one (`rules/engines/NAME.rules`) or one of the user's. Merge and group
rules of files without engines hold for every target.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from gerules.dsl import ast
from gerules.dsl.program import Program
from gerules.errors import Diagnostic
from gerules.static import Step, Value, solve_steps
from gerules.target.clauses import Clause
from gerules.target.engines import Composite, CostTable, Engine
from gerules.target.figures import Figures, NodeFigures, sized_views
from gerules.target.matching import View
from gerules.target.transfers import Transfers

MERGE_FIELDS = ("engine", "stream", "label", "dynamic", "size", "dtype", "op")


class MergeFacts(Protocol):
    """What a merge rule may ask of a node: its engine, the user's stream and label ("" where none), whether a shape
    of its results is not static, the number of nodes it stands for, the element type of its first result, its operator
    (a definition, or the key of one)."""

    @property
    def engine(self) -> str: ...
    @property
    def stream(self) -> Any: ...
    @property
    def label(self) -> str: ...
    @property
    def dynamic(self) -> bool: ...
    @property
    def size(self) -> Any: ...
    @property
    def dtype(self) -> str | None: ...
    @property
    def op(self) -> Any: ...


@dataclass(frozen=True)
class MergeRule:
    """Two neighbours may share a cluster where the steps hold; `source` and `target` name them."""

    name: str
    source: str
    target: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class GroupRule:
    name: str
    clause: Clause


class Target:
    """Engines in order of writing, composites, transfers, merge and group rules. What it calculated it keeps."""

    def __init__(
        self,
        name: str,
        engines: Sequence[Engine],
        composites: Sequence[Composite],
        transfers: Transfers,
        merges: Sequence[MergeRule],
        groups: Sequence[GroupRule],
        figures: Figures,
        program: Program,
    ) -> None:
        self.name = name
        self.table = CostTable(engines, figures)
        self.composites = {c.name: c for c in composites}
        self.transfers = transfers
        self.merges = tuple(merges)
        self.group_rules = tuple(groups)
        self.figures = figures
        self._program = program
        self._sources = program.sources
        self._merged: dict[Hashable, bool] = {}

    @cached_property
    def engines(self) -> tuple[str, ...]:
        """Engines that nodes are placed on, in order of writing; costs are in this order."""
        return tuple(e.name for e in self.table.engines)

    @cached_property
    def by_name(self) -> Mapping[str, Engine]:
        return {e.name: e for e in self.table.engines}

    @property
    def memory(self) -> Mapping[str, str]:
        """Engine -> its memory; one of its own where none is written."""
        return self.transfers.memory

    @cached_property
    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """Composite -> engines that are parts of it."""
        return {name: c.parts for name, c in self.composites.items()}

    @cached_property
    def composite_of(self) -> Mapping[str, str]:
        """Engine -> the composite that it is a part of; the first where there are several."""
        found: dict[str, str] = {}
        for name, parts in self.parts.items():
            for part in parts:
                found.setdefault(part, name)
        return found

    @cached_property
    def launch(self) -> Mapping[str, float]:
        """Engine or composite -> seconds a launch."""
        single = {e.name: e.launch for e in self.table.engines}
        return single | {c.name: c.launch for c in self.composites.values()}

    @cached_property
    def streams(self) -> Mapping[str, int]:
        """Engine or composite -> number of streams."""
        single = {e.name: e.streams for e in self.table.engines}
        return single | {c.name: c.streams for c in self.composites.values()}

    @cached_property
    def priority(self) -> Mapping[str, int]:
        """Engine -> the lower is preferred where costs are equal."""
        return {e.name: e.priority for e in self.table.engines}

    @cached_property
    def attached(self) -> frozenset[str]:
        """Engines that are the host of the others."""
        return frozenset(e.name for e in self.table.engines if e.attached)

    @cached_property
    def inputs(self) -> str | None:
        """The memory that graph inputs and initializers lie in; None: in every one, at no cost."""
        return next((e.inputs for e in self.table.engines if e.inputs is not None), None)

    # ------------------------------------------------------------------------------------------------------- costs

    def costs(self, view: View, node: Any) -> tuple[float | None, ...]:
        """Seconds of a node on each engine, launch included; None where the engine does not take it."""
        return self.table.costs(view, node)

    def supported(self, view: View, node: Any) -> tuple[bool, ...]:
        """Whether each engine takes the node."""
        return self.table.supported(view, node)

    def transfer(self, size: float, source: str, target: str) -> float:
        """Seconds to move `size` bytes from one engine to another. Raises Refused (GR614)."""
        return self.transfers.seconds(size, source, target)

    def input_transfer(self, size: float, target: str) -> float:
        """Seconds to move `size` bytes of a graph input to an engine: 0 unless the target says `inputs = MEMORY`."""
        if self.inputs is None:
            return 0.0
        return self.transfers.between_memories(size, self.inputs, self.memory[target])

    def figures_of(self, view: View, node: Any) -> tuple[NodeFigures, ...]:
        """Flops, bytes and elements of a node in each scenario, marked where a size was assumed."""
        return tuple(self.figures.of(sized, node) for sized in sized_views(view, self.figures.likely))

    # ------------------------------------------------------------------------------------------ merging and groups

    def part(self, engine: str, composite: str) -> bool:
        """Whether an engine is a part of a composite."""
        return engine in self.parts.get(composite, ())

    def may_merge(self, a: MergeFacts, b: MergeFacts) -> bool:
        """Whether a merge rule lets a and its consumer b share a cluster. That it makes no cycle is asked elsewhere."""
        key = (_looks(a), _looks(b))
        if key not in self._merged:
            left, right = self._fields(a), self._fields(b)
            self._merged[key] = any(
                next(solve_steps(rule.steps, {rule.source: left, rule.target: right}), None) is not None
                for rule in self.merges
            )
        return self._merged[key]

    def _fields(self, facts: MergeFacts) -> dict[str, Value]:
        fields: dict[str, Value] = {name: getattr(facts, name) for name in MERGE_FIELDS if hasattr(facts, name)}
        if fields.get("dtype") in ("", "?"):
            del fields["dtype"]  # not known, and so nothing about it holds
        operator = fields.get("op")
        if isinstance(operator, str):
            with suppress(KeyError, ValueError):
                fields["op"] = self._program.definition(operator)
        return fields

    def groups(self, view: View, nodes: Iterable[Any]) -> list[tuple[Any, ...]]:
        """Nodes that stay in one cluster: those of every match of a group rule, matches that share a node together.
        Each group is in the order of `nodes`, and groups are by their first node."""
        ordered = list(nodes)
        place = {node: i for i, node in enumerate(ordered)}
        leader = list(range(len(ordered)))
        grouped: set[int] = set()
        for rule in self.group_rules:
            for node in ordered:
                for found in rule.clause.solutions(view, node):
                    members = [place[n] for n in found.nodes if n in place]
                    grouped.update(members)
                    for member in members[1:]:
                        _union(leader, members[0], member)
        groups: dict[int, list[Any]] = {}
        for i in sorted(grouped):
            groups.setdefault(_root(leader, i), []).append(ordered[i])
        return [tuple(group) for group in groups.values() if len(group) > 1]

    # ----------------------------------------------------------------------------------------------------- refusal

    def unsupported(self, view: View, nodes: Iterable[Any], name: Callable[[Any], str] = str) -> tuple[Diagnostic, ...]:
        """One diagnostic (GR630) for each node that no engine takes: node, operator, operand
        types, and the condition that kept an engine from it. `name` says how a node is called."""
        found: list[Diagnostic] = []
        for node in nodes:
            if any(self.supported(view, node)):
                continue
            operator = view.operator(node)
            called = operator.key if operator.since else f'"{operator.domain}"::"{operator.name}"'
            types = ", ".join(
                "none" if v is None else view.tensor(v).info.without_content().text for v in view.operands(node)
            )
            message = f"no engine of {self.name} supports {called} of {name(node)} with operands ({types})"
            found.append(Diagnostic("GR630", message, node=name(node), hint=self._way_out(view, node)))
        return tuple(found)

    def _way_out(self, view: View, node: Any) -> str:
        reasons: dict[str, None] = {}
        for engine, _, condition in self.table.refusals(view, node):
            text = "" if condition is None else self._text(condition)
            if text:
                reasons[f"{engine.name} takes it only when {text}"] = None
            else:
                reasons[f"{engine.name} takes it with other attributes or operands"] = None
        return "; ".join(reasons) if reasons else "add a `supports` clause for it to an engine of the target"

    def _text(self, expr: ast.Expr) -> str:
        source = self._sources.get(expr.span.file, "")
        return " ".join(source[expr.span.start : expr.span.end].split())


def _looks(facts: MergeFacts) -> tuple[Hashable, ...]:
    """All that a merge rule may ask, as it came: neighbours that look alike are asked once."""
    return tuple(getattr(facts, name, None) for name in MERGE_FIELDS)


def _root(leader: list[int], i: int) -> int:
    while leader[i] != i:
        leader[i] = leader[leader[i]]
        i = leader[i]
    return i


def _union(leader: list[int], a: int, b: int) -> None:
    a, b = _root(leader, a), _root(leader, b)
    leader[max(a, b)] = min(a, b)
