"""Rule files put together: every statement by kind and full name, classes and operators resolved, lets written out.

`load_program` is the way in for who wants to run rules, `check_program` for who wants to know what is wrong with them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Generic, TypeVar

from gerules.dsl import ast, lets
from gerules.dsl.parser import decode, parse_text
from gerules.dsl.protocols import RegistryLike
from gerules.dsl.resolve import OPAQUE, Members, Scope
from gerules.errors import Diagnostic, GerulesError
from gerules.paths import rules_root
from gerules.registry.definition import OperatorDef

S = TypeVar("S", bound=ast.Statement)


@dataclass(frozen=True, slots=True)
class RuleSource:
    """A rule file to load: where it lies, what its ruleset is called, and how messages call the file."""

    path: Path
    ruleset: str
    shown: str = ""

    @property
    def display(self) -> str:
        return self.shown or str(self.path)


def _display(path: Path) -> str:
    """The path from where the user stands, if it lies below; else the whole path."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except (ValueError, OSError):
        return str(path)


def shipped_sources() -> tuple[RuleSource, ...]:
    """All rule files that gerules brings, sorted by ruleset (`broadcast/implicit`)."""
    return folder_sources(rules_root())


def folder_sources(root: Path, prefix: str = "") -> tuple[RuleSource, ...]:
    """All `.rules` files below a folder, sorted by ruleset: `prefix` and the path below the folder without suffix."""
    found = [
        RuleSource(path, prefix + path.relative_to(root).with_suffix("").as_posix(), _display(path))
        for path in root.rglob("*.rules")
        if path.is_file()
    ]
    return tuple(sorted(found, key=lambda source: source.ruleset))


def user_sources(path: str | Path) -> tuple[RuleSource, ...]:
    """The rule files that a user names: a file, or all of a folder; rulesets `user/FILE` (`user/SUB/FILE`).

    Files among the shipped ones keep their shipped rulesets. Raises GerulesError (GR115) where there is nothing.
    """
    path = Path(path)
    shown = str(path)
    root = rules_root().resolve()
    if path.resolve().is_relative_to(root):
        whole = path.resolve()
        kept = [s for s in shipped_sources() if s.path.resolve() == whole or s.path.resolve().is_relative_to(whole)]
        if kept:
            return tuple(kept)
    if path.is_dir():
        found = folder_sources(path, "user/")
        if not found:
            raise GerulesError(
                Diagnostic("GR115", "the folder holds no rule files", file=shown, hint="they end in .rules")
            )
        return found
    if not path.exists():
        raise GerulesError(Diagnostic("GR115", "there is no such file or folder", file=shown, hint="check the path"))
    return (RuleSource(path, f"user/{path.stem}", shown),)


@dataclass(frozen=True, slots=True)
class Entry(Generic[S]):
    """One statement of a program. `statement` has its lets written out, `written` is as its author wrote it."""

    full: str  # `cleanup.drop_identity`
    statement: S
    written: S
    file: ast.RuleFile

    @property
    def ruleset(self) -> str:
        return self.file.ruleset


@dataclass(frozen=True)
class Program:
    """A set of rule files that fit together.

    Rules, engines, schedules, ... are by full name (`ruleset.name`); declarations (`classes`, `operators`, `tables`,
    `functions`, `lets`) by their own, since all files share them. Order is that of the files and of writing.
    """

    files: tuple[ast.RuleFile, ...]
    scope: Scope = field(repr=False)
    rewrites: Mapping[str, Entry[ast.Rewrite]] = field(default_factory=dict)
    facts: Mapping[str, Entry[ast.Fact]] = field(default_factory=dict)
    refuses: Mapping[str, Entry[ast.Refuse]] = field(default_factory=dict)
    merges: Mapping[str, Entry[ast.Merge]] = field(default_factory=dict)
    groups: Mapping[str, Entry[ast.Group]] = field(default_factory=dict)
    engines: Mapping[str, Entry[ast.Engine]] = field(default_factory=dict)
    transfers: tuple[Entry[ast.Transfer], ...] = ()
    schedules: Mapping[str, Entry[ast.Schedule]] = field(default_factory=dict)
    studies: Mapping[str, Entry[ast.Study]] = field(default_factory=dict)
    examples: tuple[Entry[ast.Example], ...] = ()
    tables: Mapping[str, Entry[ast.TableDecl]] = field(default_factory=dict)
    functions: Mapping[str, Entry[ast.FunctionDecl]] = field(default_factory=dict)
    lets: Mapping[str, ast.LetDecl] = field(default_factory=dict)
    classes: Mapping[str, Members] = field(default_factory=dict)
    wide_classes: Mapping[str, Members] = field(default_factory=dict)
    operators: Mapping[str, OperatorDef] = field(default_factory=dict)

    @property
    def registry(self) -> RegistryLike:
        return self.scope.registry

    @property
    def sources(self) -> Mapping[str, str]:
        """The text of each file, for printing diagnostics."""
        return {f.path: f.source for f in self.files}

    def definition(self, key: str) -> OperatorDef:
        """The operator definition that a key names (`Clip@11`). Raises KeyError."""
        return self.scope.definition(key)

    def resolve(self, symbol: ast.Symbol, file: ast.RuleFile, wide: bool = False) -> tuple[OperatorDef, ...]:
        """The definitions that an operator symbol of `file` means; `wide` in engines and groups: every version.

        Empty for an operator of a registry that is not loaded. Raises GerulesError for an unknown one.
        """
        return self.scope.candidates(symbol, file, wide)

    def members(self, expr: ast.Expr, file: ast.RuleFile, wide: bool = False) -> tuple[OperatorDef, ...]:
        """The operators of a set (`Elementwise | Clip`, of `[f in ...]`) in order; `Opaque` is left out.

        Raises GerulesError where it is no set of operators.
        """
        members = self.scope.members(expr, file, wide)
        if members.kind != "operators":
            message = "this is a set of element types, and operators are wanted"
            raise GerulesError(Diagnostic("GR171", message, expr.span, hint="name operators or a class of them"))
        return tuple(self.definition(key) for key in members.keys if key != OPAQUE)

    def takes_opaque(self, expr: ast.Expr, file: ast.RuleFile) -> bool:
        """Whether a set of operators contains those that no registry has."""
        return OPAQUE in self.scope.members(expr, file, True).keys

    def element_types(self, name: str) -> frozenset[str] | None:
        """The members of a class of element types; None where the class is another."""
        members = self.classes.get(name)
        return frozenset(members.keys) if members is not None and members.kind == "dtypes" else None

    def expand_lets(self, expr: ast.Expr) -> ast.Expr:
        """`expr` with every abbreviation written out. Raises GerulesError."""
        return lets.expand(expr, self.lets)

    def rulesets(self) -> tuple[str, ...]:
        """Every name that a schedule may give: files and folders of files, `user` always."""
        names: dict[str, None] = {}
        for file in self.files:
            parts = file.ruleset.split("/")
            for count in range(1, len(parts) + 1):
                names["/".join(parts[:count])] = None
        names["user"] = None
        return tuple(names)

    def in_ruleset(self, name: str) -> Iterator[Entry[ast.Rewrite] | Entry[ast.Fact]]:
        """The rewrites and facts of a file or of all files of a folder, in order."""
        for entries in (self.rewrites, self.facts):
            for entry in entries.values():
                if entry.ruleset == name or entry.ruleset.startswith(name + "/"):
                    yield entry

    def outside(self, schedule: str) -> tuple[str, ...]:
        """Rewrites that a schedule (by full name) does not run, by full name; `user` is always run. Raises KeyError."""
        named: list[str] = ["user"]
        waiting: list[ast.Step] = list(self.schedules[schedule].statement.steps)
        while waiting:
            step = waiting.pop()
            if isinstance(step, ast.RepeatStep):
                waiting += step.steps
            elif isinstance(step, ast.RunStep):
                named += step.rulesets
        run = {entry.full for name in named for entry in self.in_ruleset(name)}
        return tuple(name for name in self.rewrites if name not in run)

    def without_example(self) -> tuple[str, ...]:
        """Rewrites that no example tests, by full name."""
        tested = {f"{e.ruleset}.{e.statement.name}" for e in self.examples}
        return tuple(name for name in self.rewrites if name not in tested)


@lru_cache(maxsize=512)
def _parsed(text: str, path: str, ruleset: str) -> tuple[ast.RuleFile, tuple[Diagnostic, ...]]:
    file, faults = parse_text(text, path, ruleset)
    return file, tuple(faults)


def read(source: RuleSource) -> tuple[ast.RuleFile, tuple[Diagnostic, ...]]:
    """Parse a source; the tree of an unchanged file is kept within the process."""
    shown = source.display
    empty = ast.RuleFile(shown, source.ruleset, "", ())
    try:
        data = source.path.read_bytes()
    except OSError as fault:
        reason = fault.strerror or type(fault).__name__
        return empty, (
            Diagnostic("GR115", f"cannot read the file: {reason}", file=shown, hint="check the path and its rights"),
        )
    text, faults = decode(data, shown)
    return (empty, tuple(faults)) if faults else _parsed(text, shown, source.ruleset)


def load_program(
    sources: Sequence[RuleSource],
    registry: RegistryLike,
    known_functions: Collection[str] | Mapping[str, str] | None = None,
    known_tables: Collection[str] | None = None,
) -> Program:
    """Parse, put together and check rule files. Raises GerulesError with all errors of all files.

    `known_functions` and `known_tables` are what the engine gives (host functions, input tables); None: not checked.
    """
    program, diagnostics = check_program(sources, registry, known_functions, known_tables)
    errors = [d for d in diagnostics if d.severity == "error"]
    if errors or program is None:
        raise GerulesError(errors)
    return program


def check_program(
    sources: Sequence[RuleSource],
    registry: RegistryLike,
    known_functions: Collection[str] | Mapping[str, str] | None = None,
    known_tables: Collection[str] | None = None,
) -> tuple[Program, list[Diagnostic]]:
    """The program as far as it can be put together, and all errors and warnings by file and place."""
    from gerules.dsl.assemble import assemble
    from gerules.dsl.checker import check

    files: list[ast.RuleFile] = []
    found: list[Diagnostic] = []
    seen: set[str] = set()
    for source in sources:
        real = os.path.realpath(source.path)
        if real in seen:
            continue
        seen.add(real)
        file, faults = read(source)
        found += faults
        if file.source or not faults:  # else it could not be read
            files.append(file)
    program, faults_of_assembly = assemble(files, registry)
    found += _own_faults(faults_of_assembly, files)
    found += _own_faults(check(program, known_functions, known_tables), files)
    order = {file.path: index for index, file in enumerate(files)}
    return program, sorted(dict.fromkeys(found), key=lambda d: _place(d, order))


_UNKNOWN_NAMES = frozenset({"GR130", "GR131", "GR132", "GR153", "GR158", "GR163", "GR164", "GR177"})


def _own_faults(found: list[Diagnostic], files: Sequence[ast.RuleFile]) -> list[Diagnostic]:
    """Without complaints of unknown names that a statement declares which could not be read: one report is enough."""
    broken = {name for file in files for name in file.broken}
    if not broken:
        return found
    sources = {file.path: file.source for file in files}
    words = re.compile(r"[\w.]*\w")
    return [
        d
        for d in found
        if d.code not in _UNKNOWN_NAMES
        or d.span is None
        or broken.isdisjoint(words.findall(sources.get(d.span.file, "")[d.span.start : d.span.end]))
    ]


def _place(diagnostic: Diagnostic, order: Mapping[str, int]) -> tuple[int, int, str]:
    if diagnostic.span is None:
        return order.get(diagnostic.file or "", -1), -1, diagnostic.code
    return order.get(diagnostic.span.file, -1), diagnostic.span.start, diagnostic.code
