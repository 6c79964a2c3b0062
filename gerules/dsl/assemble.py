"""From parsed files to a program: names, classes, declared operators, abbreviations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gerules.dsl import ast, lets
from gerules.dsl.program import Entry, Program
from gerules.dsl.protocols import RegistryLike
from gerules.dsl.resolve import Members, Scope, declare, declared_table
from gerules.errors import Diagnostic, GerulesError, Label

_RULES: Mapping[type[ast.Statement], str] = {
    ast.Rewrite: "rewrites",
    ast.Fact: "facts",
    ast.Refuse: "refuses",
    ast.Merge: "merges",
    ast.Group: "groups",
    ast.Engine: "engines",
    ast.Schedule: "schedules",
    ast.Study: "studies",
}
_KIND_NAMES: Mapping[type[ast.Statement], str] = {
    ast.Rewrite: "rewrite",
    ast.Fact: "fact",
    ast.Refuse: "deny",
    ast.Merge: "merge",
    ast.Group: "group",
    ast.Engine: "engine",
    ast.Schedule: "schedule",
    ast.Study: "study",
    ast.ClassDecl: "class",
    ast.OpDecl: "op",
    ast.TableDecl: "table",
    ast.FunctionDecl: "function",
    ast.LetDecl: "let",
}


@dataclass
class _Assembly:
    scope: Scope
    faults: list[Diagnostic] = field(default_factory=list)
    rules: dict[str, dict[str, Entry[ast.Statement]]] = field(default_factory=dict)
    declarations: dict[str, tuple[ast.Statement, ast.RuleFile]] = field(default_factory=dict)
    lets: dict[str, ast.LetDecl] = field(default_factory=dict)
    names: dict[str, ast.Statement] = field(default_factory=dict)

    def twice(self, name: str, statement: ast.Statement, first: ast.Statement) -> None:
        kind = _KIND_NAMES[type(statement)]
        label = Label(first.span, "the other one is here")
        message = f"{kind} {name} is there twice"
        self.faults.append(Diagnostic("GR141", message, statement.span, hint="rename one of the two", labels=(label,)))

    def declare(self, kind: str, name: str, statement: ast.Statement, file: ast.RuleFile) -> bool:
        """Keep a declaration that all files share; the same one said again is no fault."""
        key = f"{kind} {name}"
        if key in self.declarations:
            first, other = self.declarations[key]
            moved = kind == "class" and _opsets(other) != _opsets(file)
            if first != statement or moved or other.path == file.path:
                self.twice(name, statement, first)
            return False
        self.declarations[key] = (statement, file)
        return True


def _opsets(file: ast.RuleFile) -> list[tuple[str, str]]:
    return [(s.domain, s.version) for s in file.statements if isinstance(s, ast.Opset)]


def assemble(files: Sequence[ast.RuleFile], registry: RegistryLike) -> tuple[Program, list[Diagnostic]]:
    """Put parsed files together: names, classes, declared operators, lets. What is at fault is left out."""
    work = _Assembly(Scope(registry))
    for file in files:
        for statement in file.statements:
            _declare(work, statement, file)
    circle = lets.cycle(work.lets)
    while circle is not None:
        names = " uses ".join(circle)
        message = f"the abbreviation {circle[0]} leads back to itself: {names}"
        work.faults.append(Diagnostic("GR162", message, work.lets[circle[0]].span, hint="a let names something else"))
        del work.lets[circle[0]]
        circle = lets.cycle(work.lets)
    transfers: list[Entry[ast.Transfer]] = []
    examples: list[Entry[ast.Example]] = []
    for file in files:
        for statement in file.statements:
            _enter(work, statement, file, transfers, examples)
    classes: dict[str, Members] = {}
    wide: dict[str, Members] = {}
    said: set[str] = set()
    for name in work.scope.classes:
        try:
            classes[name] = work.scope.class_members(name)
            wide[name] = work.scope.class_members(name, True)
        except GerulesError as fault:
            circles = [d for d in fault.diagnostics if d.code == "GR157"]
            if circles and name in said:
                continue  # the same circle, entered elsewhere
            said |= {word for d in circles for word in d.message.split()}
            work.faults += fault.diagnostics
    declared = {
        kind: {
            name.split(" ", 1)[1]: Entry(f"{file.ruleset}.{name.split(' ', 1)[1]}", statement, statement, file)
            for name, (statement, file) in work.declarations.items()
            if name.startswith(kind + " ")
        }
        for kind in ("table", "function")
    }
    program = Program(
        files=tuple(files),
        scope=work.scope,
        transfers=tuple(transfers),
        examples=tuple(examples),
        tables=declared["table"],  # type: ignore[arg-type]
        functions=declared["function"],  # type: ignore[arg-type]
        lets=work.lets,
        classes=classes,
        wide_classes=wide,
        operators=declared_table(work.scope),
        **{kind: work.rules.get(kind, {}) for kind in _RULES.values()},  # type: ignore[arg-type]
    )
    return program, work.faults


def _declare(work: _Assembly, statement: ast.AnyStatement, file: ast.RuleFile) -> None:
    if isinstance(statement, ast.ClassDecl):
        if work.declare("class", statement.name, statement, file):
            work.scope.classes[statement.name] = (statement, file)
    elif isinstance(statement, ast.OpDecl):
        if work.declare("op", str(statement.symbol), statement, file):
            try:
                definition = declare(statement)
            except GerulesError as fault:
                work.faults += fault.diagnostics
                return
            versions = work.scope.declared.setdefault((definition.domain, definition.name), {})
            versions[definition.since] = definition
    elif isinstance(statement, ast.TableDecl):
        work.declare("table", statement.name, statement, file)
    elif isinstance(statement, ast.FunctionDecl):
        work.declare("function", statement.name, statement, file)
    elif isinstance(statement, ast.LetDecl) and work.declare("let", statement.name, statement, file):
        work.lets[statement.name] = statement


def _enter(
    work: _Assembly,
    statement: ast.AnyStatement,
    file: ast.RuleFile,
    transfers: list[Entry[ast.Transfer]],
    examples: list[Entry[ast.Example]],
) -> None:
    if isinstance(statement, ast.Opset | ast.OpDecl) or not isinstance(statement, (*_RULES, ast.Transfer, ast.Example)):
        return
    name = f"{statement.source}-{statement.target}" if isinstance(statement, ast.Transfer) else statement.name
    full = f"{file.ruleset}.{name}"
    unique = not isinstance(statement, ast.Transfer | ast.Example)
    if unique:
        if full in work.names:
            work.twice(name, statement, work.names[full])
            return
        work.names[full] = statement
    try:
        expanded = lets.expand_statement(statement, work.lets)
    except GerulesError as fault:
        work.faults += fault.diagnostics
        return
    if isinstance(expanded, ast.Transfer) and isinstance(statement, ast.Transfer):
        transfers.append(Entry(full, expanded, statement, file))
    elif isinstance(expanded, ast.Example) and isinstance(statement, ast.Example):
        examples.append(Entry(full, expanded, statement, file))
    else:
        work.rules.setdefault(_RULES[type(statement)], {})[full] = Entry(full, expanded, statement, file)
