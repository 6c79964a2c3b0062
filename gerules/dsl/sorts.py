"""What each name of a rule stands for (a tensor, a node, an operator, a static value), and what a pattern binds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field

from gerules.dsl import ast
from gerules.dsl.fits import Misfit
from gerules.dsl.lets import children
from gerules.dsl.program import Program
from gerules.dsl.resolve import DTYPES
from gerules.dsl.vocabulary import VALUE_TERMS, Vocabulary
from gerules.errors import Diagnostic, GerulesError, Label
from gerules.registry.definition import OperatorDef

TENSOR, NODE, OPERATOR, REST = "tensor", "node", "operator", "rest"
SORT_WORDS = {TENSOR: "a tensor", NODE: "a node with several results", OPERATOR: "an operator", REST: "a rest"}


# Attributes that hold tensors are static values, and an int may be an element type (`to` of Cast).
SORT_OF_KIND = {"": "static", "tensor": "static", "int": "int", "dtype": "dtype"}


@dataclass
class Report:
    """Diagnostics of one run of the checker."""

    found: list[Diagnostic] = field(default_factory=list)

    def add(
        self,
        code: str,
        message: str,
        where: ast.Node,
        hint: str | None = None,
        labels: Iterable[Label] = (),
        severity: str = "error",
    ) -> None:
        self.found.append(Diagnostic(code, message, where.span, hint=hint, labels=tuple(labels), severity=severity))

    def misfit(self, fault: Misfit) -> None:
        self.add(fault.code, fault.message, fault.where, fault.hint)


@dataclass
class Sorts(ABC):
    """What is known of the names of one rule. `wide`: unversioned operators mean every version (engines, groups).

    `loose`: symbols in static places may be dimension symbols (examples and assumptions).
    """

    program: Program
    vocabulary: Vocabulary
    file: ast.RuleFile
    report: Report
    wide: bool = False
    loose: bool = False
    params: dict[str, tuple[OperatorDef, ...]] = field(default_factory=dict)
    sorts: dict[str, tuple[str, ast.Node]] = field(default_factory=dict)
    engine_names: frozenset[str] = frozenset()
    free_names: frozenset[str] = frozenset()  # names that stand for something here without being bound
    types: dict[str, frozenset[str]] = field(default_factory=dict)  # element types that a tensor's places admit
    _complained: set[str] = field(default_factory=set)

    # ------------------------------------------------------------------------------------------- parameters

    def take_over(self, over: tuple[ast.Member, ...]) -> bool:
        """Resolve `[f in A, g in B]`; False where one of them is at fault."""
        sound = True
        for member in over:
            if member.name in self.params:
                self.report.add("GR141", f"{member.name} stands for two sets of operators", member, "name them apart")
            try:
                found = self.program.members(member.domain, self.file, self.wide)
                opaque = self.program.takes_opaque(member.domain, self.file)
            except GerulesError as fault:
                self.report.found += fault.diagnostics
                self.params[member.name] = ()
                sound = False
                continue
            if not found and not opaque and not self._foreign(member.domain):
                message = f"no operator is in this set, so {member.name} stands for none"
                self.report.add("GR143", message, member, "the rule can never match")
                sound = False
            self.params[member.name] = found
            self.sorts[member.name] = (OPERATOR, member)
        return sound

    def _foreign(self, expr: ast.Node) -> bool:
        return isinstance(expr, ast.Symbol) and self.program.scope.is_foreign(expr, self.file)

    # --------------------------------------------------------------------------------------------- patterns

    def binders(self, pattern: ast.Node) -> dict[str, ast.Node]:
        """The names that a pattern binds, with the place of each."""
        found: dict[str, ast.Node] = {}
        self._binders(pattern, found)
        return found

    def _binders(self, node: ast.Node, found: dict[str, ast.Node]) -> None:
        if isinstance(node, ast.Name):
            if node.id != "_" and node.id not in DTYPES and node.id not in self.params:
                found.setdefault(node.id, node)
        elif isinstance(node, ast.Bind):
            self._binders(node.expr, found)
            found.setdefault(node.name, node)
        elif isinstance(node, ast.Call):
            if self.is_pattern_head(node.head):
                for item in (*node.operands, *node.keywords):
                    self._binders(item, found)
        elif isinstance(node, ast.Keyword):
            self._binders(node.value, found)
        elif isinstance(node, ast.Typed):
            found.setdefault(node.name, node)
        elif isinstance(node, ast.Rest | ast.ListExpr | ast.Index):
            for part in children(node):
                self._binders(part, found)

    def is_pattern_head(self, head: ast.Node) -> bool:
        """Whether a call of it is a term of the graph, not a computation."""
        if isinstance(head, ast.Name):
            return head.id in VALUE_TERMS or head.id in self.params
        return True

    def resolve(self, symbol: ast.Symbol) -> tuple[OperatorDef, ...] | None:
        """The definitions of an operator; None where there are none to check against, reported if at fault."""
        try:
            return self.program.resolve(symbol, self.file, self.wide) or None
        except GerulesError as fault:
            self.report.found += fault.diagnostics
            return None

    @abstractmethod
    def term(self, node: ast.Node, makes: bool, wanted: str = "") -> str:
        """Check a pattern or a term to be made."""

    # ------------------------------------------------------------------------------------------------- sorts

    def note(self, name: str, sort: str, where: ast.Node) -> None:
        """A variable stands where only something of a sort can; a second sort that excludes the first is a fault."""
        if name == "_" or not sort or name in self.params:
            return
        known = self.sorts.get(name)
        if known is None or (known[0] == "static" and sort not in (TENSOR, NODE)):
            self.sorts[name] = (sort, where)
            return
        before, place = known
        if before == sort or (sort == "static" and before not in (TENSOR, NODE)):
            return
        if {before, sort} == {"int", "dtype"}:
            return
        if REST in (before, sort) or name in self._complained:
            return
        self._complained.add(name)
        label = Label(place.span, f"here it is {self._word(before)}")
        hint = "`const(v)` in a pattern takes the contents of a constant tensor" if TENSOR in (before, sort) else None
        self.report.add("GR127", f"{name} is {self._word(sort)} here", where, hint, [label])

    @staticmethod
    def _word(sort: str) -> str:
        if sort == "static":
            return "a static value"
        return SORT_WORDS.get(sort, f"an attribute ({sort})")

    def used(self, node: ast.Node) -> set[str]:
        """The variables of an expression: small-letter names that are no element types, heads or parameters."""
        return {n for n in variables(node) if n not in DTYPES and n not in self.params and n not in self.free_names}


def variables(node: ast.Node) -> set[str]:
    """Names used as values in an expression: without heads of calls and `_`; those after `as` included."""
    found: set[str] = set()
    pending = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, ast.Name):
            if current.id != "_":
                found.add(current.id)
            continue
        if isinstance(current, ast.Bind):
            found.add(current.name)
        if isinstance(current, ast.Call):
            pending.extend((*current.operands, *current.keywords))
        else:
            pending.extend(children(current))
    return found
