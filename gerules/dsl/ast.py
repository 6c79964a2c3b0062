"""The abstract syntax of rule files: frozen nodes with spans.

Two nodes are equal when they say the same, wherever they stand: spans take no part in comparison. Nothing here knows
graphs or egglog; what a name refers to is found out by the checker.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gerules.errors import Span

_NOWHERE = Span("", 0, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What every node has: the place it was written."""

    span: Span = field(default=_NOWHERE, compare=False, repr=False)


# --------------------------------------------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A small-letter name: variable, function, relation, attribute. `_` is anything."""

    id: str


@dataclass(frozen=True, slots=True)
class Symbol(Node):
    """A declared thing: operator, class, engine, dimension symbol. `ge.Concat@1.8.0`: domain, name, version."""

    domain: str  # "" where none is written
    name: str
    version: str | None = None

    def __str__(self) -> str:
        prefix = f"{self.domain}." if self.domain else ""
        return f"{prefix}{self.name}" + (f"@{self.version}" if self.version else "")


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A number with its unit applied: `20us` is 2e-05 (seconds), `64MiB` is 67108864 (bytes). `text` as written.

    `-0.0` is Unary("-", Number(0.0)).
    """

    value: int | float
    text: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Text(Node):
    """A string in double quotes, escapes resolved."""

    value: str


@dataclass(frozen=True, slots=True)
class Word(Node):
    """One of `none`, `true`, `false`, `inf`."""

    word: str


@dataclass(frozen=True, slots=True)
class OpaqueOp(Node):
    """The head of `"domain"::"op"(...)`: an operator that no registry has."""

    domain: str
    op: str


@dataclass(frozen=True, slots=True)
class Rest(Node):
    """`..` (expr None), `..r` (expr a Name), `..pattern`."""

    expr: Expr | None = None


@dataclass(frozen=True, slots=True)
class Keyword(Node):
    """`axis=k` inside a call."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Call(Node):
    """`head(operand, ..rest, attribute=value)`. `operands` and `keywords` keep their order of writing.

    A last rest after which nothing but keywords, or nothing, follows stands in `operands` like any other; whether it
    carries attributes too is its place: the last operand item.
    """

    head: Name | Symbol | OpaqueOp
    operands: tuple[Expr, ...] = ()
    keywords: tuple[Keyword, ...] = ()


@dataclass(frozen=True, slots=True)
class ListExpr(Node):
    """`[..s, m, n]`."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class SetExpr(Node):
    """`{f16, bf16}`, `{0, 1}`."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Typed(Node):
    """`x: f32[1, N]`, a leaf of an example."""

    name: str
    dtype: str
    dims: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Field(Node):
    """`x.shape`."""

    base: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Index(Node):
    """`p[q]`, `node[0]`."""

    base: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`op` is "-" or "not"."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """`op` is one of + - * / // % | & (arithmetic, element-wise on lists; set algebra)."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Compare(Node):
    """`op` is one of == != <= >= < > in."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Logical(Node):
    """`op` is "and" or "or"; at least two operands, flattened."""

    op: str
    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Between(Node):
    """`1..5`, in studies."""

    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True)
class Bind(Node):
    """`expr as y`."""

    expr: Expr
    name: str


Expr = (
    Name
    | Symbol
    | Number
    | Text
    | Word
    | Rest
    | Call
    | ListExpr
    | SetExpr
    | Typed
    | Field
    | Index
    | Unary
    | Binary
    | Compare
    | Logical
    | Between
    | Bind
)


# ---------------------------------------------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement(Node):
    """What every statement has: its doc string (several joined by a space), or ""."""

    doc: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Opset(Statement):
    """`opset ai.onnx 21`. Domain `ai.onnx` is written so in files and is "" in ONNX; here it is as written."""

    domain: str
    version: str


@dataclass(frozen=True, slots=True)
class Member(Node):
    """`f in Elementwise | Clip` of `[f in ...]`."""

    name: str
    domain: Expr


@dataclass(frozen=True, slots=True)
class ClassDecl(Statement):
    name: str
    value: Expr  # Symbol, Binary | & -, SetExpr, Call operators("domain")


@dataclass(frozen=True, slots=True)
class TypeExpr(Node):
    """`str`, `T?`, `op*`: a name, capital for a tensor type variable; `suffix` is "", "?" or "*"."""

    name: str
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Param(Node):
    name: str
    type: TypeExpr
    default: Expr | None = None


@dataclass(frozen=True, slots=True)
class OpDecl(Statement):
    symbol: Symbol
    params: tuple[Param, ...]
    results: tuple[Param, ...]


@dataclass(frozen=True, slots=True)
class TableDecl(Statement):
    name: str
    params: tuple[Param, ...]
    result: TypeExpr | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class FunctionDecl(Statement):
    name: str
    params: tuple[Param, ...]
    result: TypeExpr


@dataclass(frozen=True, slots=True)
class LetDecl(Statement):
    name: str
    params: tuple[str, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Rewrite(Statement):
    """`exactness` is "" (bitwise), "defines", "reassociates" or "finite"; `both` is true for `<=>`."""

    name: str
    over: tuple[Member, ...]
    exactness: str
    left: Expr
    both: bool
    right: Expr
    when: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Fact(Statement):
    name: str
    over: tuple[Member, ...]
    conclusions: tuple[Expr, ...]
    when: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Refuse(Statement):
    """`deny` or `warn` (`severity`)."""

    severity: str
    name: str
    over: tuple[Member, ...]
    message: str
    when: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Merge(Statement):
    name: str
    over: tuple[Member, ...]
    source: str
    target: str
    when: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Group(Statement):
    name: str
    over: tuple[Member, ...]
    pattern: Expr
    when: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Property(Node):
    """`memory = Hbm`, `parts = AiCore | AiVector`, `launch = 4us`."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Supports(Node):
    over: tuple[Member, ...]
    pattern: Expr
    when: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Cost(Node):
    """`cost = ...` (pattern None: the default) or `cost[f in C] pattern = ... when ...`."""

    over: tuple[Member, ...]
    pattern: Expr | None
    value: Expr
    when: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Engine(Statement):
    name: str
    clauses: tuple[Property | Supports | Cost, ...]


@dataclass(frozen=True, slots=True)
class Transfer(Statement):
    source: str
    target: str
    both: bool
    value: Expr


@dataclass(frozen=True, slots=True)
class RunStep(Node):
    """`saturate shape`, `run cleanup, user (limit = 3)`: mode is saturate, run, backoff or shuffle."""

    mode: str
    rulesets: tuple[str, ...]
    options: tuple[Keyword, ...] = ()


@dataclass(frozen=True, slots=True)
class RepeatStep(Node):
    count: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class LimitStep(Node):
    options: tuple[Keyword, ...]


Step = RunStep | RepeatStep | LimitStep


@dataclass(frozen=True, slots=True)
class Schedule(Statement):
    name: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Vary(Node):
    name: str
    range: Expr


@dataclass(frozen=True, slots=True)
class Study(Statement):
    name: str
    axes: tuple[Vary, ...]


@dataclass(frozen=True, slots=True)
class Becomes(Node):
    """`=> term`, or `=> term refuted without condition`."""

    right: Expr
    refuted_without: Expr | None = None


@dataclass(frozen=True, slots=True)
class Stays(Node):
    """`stays because condition`."""

    because: Expr


@dataclass(frozen=True, slots=True)
class Gives(Node):
    """`gives facts`."""

    facts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Example(Statement):
    name: str
    given: tuple[Expr, ...]
    outcome: Becomes | Stays | Gives


AnyStatement = (
    Opset
    | ClassDecl
    | OpDecl
    | TableDecl
    | FunctionDecl
    | LetDecl
    | Rewrite
    | Fact
    | Refuse
    | Merge
    | Group
    | Engine
    | Transfer
    | Schedule
    | Study
    | Example
)


@dataclass(frozen=True, slots=True)
class RuleFile:
    """One parsed file.

    `ruleset` is its path below the rules root without suffix (`broadcast/implicit`), `user/NAME` for a file that a user
    gives; `broken` are the names that its unreadable statements would have declared.
    """

    path: str
    ruleset: str
    source: str = field(repr=False)
    statements: tuple[AnyStatement, ...]
    broken: tuple[str, ...] = ()

    def opset(self, domain: str) -> str | None:
        """The version that unversioned operators of `domain` (as written) stand for in this file."""
        return next((s.version for s in self.statements if isinstance(s, Opset) and s.domain == domain), None)
