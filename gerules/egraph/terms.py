"""What names of a rule stand for while it is compiled, and how its alternatives are enumerated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gerules.dsl import ast
from gerules.egraph.signature import Signature
from gerules.errors import Diagnostic, Refused


class Misfit(Exception):
    """The instance cannot exist: an operand, attribute or version that the operator does not have."""

    code = "GR501"

    def __init__(self, message: str, where: ast.Node) -> None:
        super().__init__(message)
        self.message, self.where = message, where


class NotYet(Misfit):
    """A construct of the language that rules cannot use yet."""

    code = "GR511"


# ------------------------------------------------------------------------------------------------------- bindings


@dataclass(frozen=True)
class Tensor:
    term: str


@dataclass(frozen=True)
class NodeTerm:
    term: str
    signature: Signature


@dataclass(frozen=True)
class Column:
    """A text in the query: an attribute (`kind` its type), contents (`const`), an index (`index`, an i64)."""

    term: str
    kind: str


@dataclass(frozen=True)
class Many:
    items: tuple[Binding, ...]


@dataclass(frozen=True)
class Carried:
    """What a last `..r` stands for: operands by place (or one Vec), and attributes by name."""

    operands: tuple[Tensor, ...]
    vector: str | None
    first: int
    attributes: Mapping[str, Column]
    signature: Signature


@dataclass(frozen=True)
class Known:
    """A value fixed at compile time: an operator parameter, or a value that a ground fact gave."""

    value: object


Binding = Tensor | NodeTerm | Column | Many | Carried | Known


class Chooser:
    """Replays a sequence of choices, so that straight-line code can enumerate alternatives."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.sizes: list[int] = []
        self.position = 0

    def pick(self, options: int) -> int:
        if self.position == len(self.taken):
            self.taken.append(0)
            self.sizes.append(options)
        choice = self.taken[self.position]
        self.position += 1
        return choice

    def next(self) -> bool:
        """Moves on to the next alternative; false after the last one."""
        while self.taken and self.taken[-1] + 1 >= self.sizes[-1]:
            self.taken.pop()
            self.sizes.pop()
        if not self.taken:
            return False
        self.taken[-1] += 1
        self.position = 0
        return True


@dataclass(frozen=True)
class Output:
    """A static piece of the right side. `kind` is the type of the column, or `const` and `fold` (a constant's text),
    `splat`, `dims`, `dim` (the text of what is wholly known of a tensor), `info-...` (of what a fact adds)."""

    expr: ast.Expr | None
    kind: str
    dtype: ast.Expr | str | None = None
    shape: ast.Expr | None = None


class Skip(Exception):
    """This choice of arities and widths is no instance."""


def quoted(text: str) -> str:
    """An egglog string literal."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'


def refuse(rule: str, fault: Misfit) -> Refused:
    return Refused(Diagnostic(fault.code, f"rule {rule}: {fault.message}", span=fault.where.span))
