"""The examples beside rewrites between releases: a node in, what a rule makes of it out.

No registry is asked, so an example writes every attribute that it is about. A rule that goes both ways has to lead back
to the node that the example starts with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gerules.dsl import ast
from gerules.dsl.lets import walk
from gerules.dsl.program import Entry, Program
from gerules.errors import Diagnostic, Span
from gerules.policy.forms import Constant, Made, NodeForm, Setting, Token
from gerules.policy.versions import Misfit, Versioned, VersionRule, apply, literal_value, term_of, version_rules_of


@dataclass(frozen=True, slots=True)
class Term:
    """A node as an example writes it: operands are leaves (by name), constants, further nodes, or None (absent);
    `place` is the result that is meant."""

    operator: str
    release: str
    operands: tuple[object, ...]
    attributes: tuple[tuple[str, object], ...]
    place: int

    def __str__(self) -> str:
        parts = ["none" if o is None else str(o) for o in self.operands]
        parts += [f"{name}={value}" for name, value in self.attributes]
        shown = f"{self.operator}@{self.release}({', '.join(parts)})"
        return f"{shown}[{self.place}]" if self.place else shown


class _Failed(Exception):
    def __init__(self, message: str, span: Span, hint: str | None = None) -> None:
        self.message, self.span, self.hint = message, span, hint


def is_between_releases(program: Program, entry: Entry[ast.Rewrite]) -> bool:
    """Whether a rewrite leads from one release of a registry that is not loaded to another."""
    heads = [n for n in walk(entry.statement) if isinstance(n, ast.Symbol)]
    domains = {s.domain for s in heads if program.scope.is_foreign(s, entry.file)}
    return len(domains) == 1 and bool(version_rules_of(entry))


def run_version_example(rule: Entry[ast.Rewrite], entry: Entry[ast.Example]) -> Diagnostic | None:
    """What is wrong with an example of a rewrite between releases; None where it holds."""
    try:
        _check(rule, entry.statement)
    except _Failed as failed:
        return Diagnostic("GR570", f"example of {entry.full}: {failed.message}", span=failed.span, hint=failed.hint)
    except Misfit as misfit:
        return Diagnostic("GR571", f"example of {entry.full}: {misfit}", span=entry.statement.span)
    return None


def _check(rule: Entry[ast.Rewrite], example: ast.Example) -> None:
    if len(example.given) != 1:
        raise _Failed("an example of a rule between releases starts with one node", example.span)
    given = _term(example.given[0])
    readings = [r for r in version_rules_of(rule) if r.source == (given.operator, given.release)]
    if not readings:
        sources = " or ".join(f"{n}@{v}" for n, v in dict.fromkeys(r.source for r in version_rules_of(rule)))
        raise _Failed(f"the rule starts with {sources}", example.given[0].span)
    outcome = example.outcome
    if isinstance(outcome, ast.Stays):
        _stays(readings, given, outcome)
        return
    if not isinstance(outcome, ast.Becomes):
        raise _Failed("a rewrite gives no facts", outcome.span, "write `=> term` or `stays because condition`")
    if outcome.refuted_without is not None:
        message = f"nothing computes {given.operator}, so that no numbers show what a condition is for"
        raise _Failed(message, outcome.span, "write `stays because condition`")
    wanted = _term(outcome.right)
    made, why = _made(readings, given)
    if made is None:
        raise _Failed(f"the rule does not fire: {why}", example.span)
    if made != wanted:
        raise _Failed("the rule makes something else", outcome.right.span, f"it makes {made}")
    simple = not any(isinstance(o, Term) for o in made.operands)
    if rule.statement.both and simple:
        backwards = [r for r in version_rules_of(rule) if r.source == (made.operator, made.release)]
        back, why = _made(backwards, made)
        if back != given:
            said = f"it makes {back}" if back is not None else why
            raise _Failed("the rule goes both ways, and does not lead back to this node", example.span, said)


def _stays(readings: Sequence[VersionRule], given: Term, outcome: ast.Stays) -> None:
    made, _ = _made(readings, given)
    if made is not None:
        raise _Failed("the rule fires here", outcome.span, f"it makes {made}")
    free, _ = _made([_without(reading, outcome.because) for reading in readings], given)
    if free is None:
        message = "something else holds the rule back: without the condition cited it does not fire either"
        raise _Failed(message, outcome.because.span)


def _without(rule: VersionRule, cited: ast.Expr) -> VersionRule:
    """A rule without one of its conditions, or without an attribute that its left side fixes."""
    left = rule.left
    if isinstance(cited, ast.Compare) and cited.op == "==" and isinstance(cited.left, ast.Name):
        keywords = [
            replace(k, value=ast.Name("_")) if k.name == cited.left.id and k.value == cited.right else k
            for k in left.keywords
        ]
        left = replace(left, keywords=tuple(keywords))
    return replace(rule, left=left, when=tuple(c for c in rule.when if c != cited))


# -------------------------------------------------------------------------------------------------------------- terms


def _term(expr: ast.Expr) -> Term:
    """A node of an example. Raises Misfit for what is none."""
    call, place = term_of(expr)
    if call is None:
        raise Misfit("a side of this example is no operator with its release")
    assert isinstance(call.head, ast.Symbol) and call.head.version is not None
    operands = [_operand(operand) for operand in call.operands]
    attributes = sorted((k.name, literal_value(k.value)) for k in call.keywords if k.value != ast.Word("none"))
    return Term(call.head.name, call.head.version, _plain(operands), tuple(attributes), place or 0)


def _operand(expr: ast.Expr) -> object:
    # As deep as the example is written.
    match expr:
        case ast.Typed(name=name) | ast.Name(id=name):
            return name
        case ast.Word(word="none"):
            return None
        case ast.Call(head=ast.Name(id="const"), operands=(value,)):
            return Constant(literal_value(value))
        case ast.Number() | ast.Unary():
            return Constant(literal_value(expr))
    return _term(expr)


def _plain(operands: Sequence[object]) -> tuple[object, ...]:
    """Operands without absent ones at the end: they are as good as not written."""
    size = max((n + 1 for n, o in enumerate(operands) if o is not None), default=0)
    return tuple(operands[:size])


def _made(readings: Sequence[VersionRule], given: Term) -> tuple[Term | None, str]:
    """What the first reading that fits makes of a node, or why none does."""
    outputs: tuple[Token, ...] = tuple(("result", n) for n in range(given.place + 1))
    settings = {name: Setting(value, "", True) for name, value in given.attributes}
    used = frozenset({given.place})
    form = NodeForm("n", given.operator, given.operands, outputs, dict(given.attributes), used)
    why = "no reading of it starts here"
    for reading in readings:
        try:
            made = apply([reading], Versioned(form, (given.operator, given.release), settings))
        except Misfit as misfit:
            why = str(misfit)
            continue
        return _read(made, outputs[given.place]), ""
    return None, why


def _read(made: Sequence[Versioned], result: Token) -> Term:
    """What a rule made, as a term: its last node, the nodes before it in the places of their results."""
    terms: dict[str, Term] = {}
    for item in made:
        node = item.node
        operands = [terms[o.node] if isinstance(o, Made) else o for o in node.inputs]
        attributes = tuple(sorted((n, s.value) for n, s in item.settings.items() if s.written))
        place = node.outputs.index(result) if item is made[-1] and result in node.outputs else 0
        terms[node.name] = Term(*item.form, _plain(operands), attributes, place)
    return terms[made[-1].node.name]
