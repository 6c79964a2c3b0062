"""Keys of rules: a hash of all that a verdict depends on, and of nothing else.

A key covers the statement with its lets written out and every operator and class resolved, what ground facts say of
these operators, the facts, tables and host functions that it calls, and the versions of what computes. It does not
cover layout, comments, doc strings, names of rules and files, or other rules; it is the same in every process.
"""

from __future__ import annotations

import hashlib
import inspect
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from gerules.dsl import ast
from gerules.dsl.program import Entry, Program
from gerules.dsl.resolve import canonical
from gerules.egraph.program import Knowledge
from gerules.errors import GerulesError
from gerules.registry.definition import OperatorDef
from gerules.static.functions import shipped_functions

SEMANTICS: Final = "1"
"""What rules mean here: raised when kernels, conditions, trials or proofs change so that old verdicts say nothing."""

KINDS: Final = ("rewrite", "fact", "deny", "merge", "group", "engine", "transfer")
"""What has a verdict, in the order of reports. A warn is a deny."""

_LEFT_OUT = frozenset({"span", "doc", "text", "name"})
"""Fields of a statement that say nothing of its meaning. Names count below statements."""


@cache
def versions() -> Mapping[str, str]:
    """What computes, by name: the e-graph, the schemas, the meaning of rules."""
    return {"egglog": _installed("egglog"), "onnx": _installed("onnx"), "semantics": SEMANTICS}


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # a copy on the path, without its metadata
        return str(getattr(__import__(package), "__version__", "unknown"))


def statements(program: Program) -> Iterator[tuple[str, str, Entry[Any]]]:
    """Kind, full name and entry of everything in a program that has a verdict."""
    named: tuple[tuple[str, Mapping[str, Any]], ...] = (
        ("rewrite", program.rewrites),
        ("fact", program.facts),
        ("deny", program.refuses),
        ("merge", program.merges),
        ("group", program.groups),
        ("engine", program.engines),
        ("transfer", {entry.full: entry for entry in program.transfers}),
    )
    for kind, entries in named:
        for full, entry in entries.items():
            yield kind, full, entry


def rule_key(program: Program, known: Knowledge, kind: str, full: str, stamp: Mapping[str, str] | None = None) -> str:
    """The key of one statement, 32 hexadecimal digits. `stamp` stands for the installed `versions()`.

    Raises KeyError where the program has no such statement. For many keys make one `Keys`.
    """
    for found, name, entry in statements(program):
        if (found, name) == (kind, full):
            return Keys(known).key(kind, entry, stamp)
    raise KeyError(f"{kind} {full}")


@dataclass
class Keys:
    """Keys of the statements of one program; keeps what they share."""

    known: Knowledge
    _facts: dict[str, list[Entry[ast.Fact]]] | None = None
    _texts: dict[tuple[str, str], _Reading] = field(default_factory=dict)
    _rows: dict[str, list[tuple[frozenset[str], str]]] = field(default_factory=dict)
    _operators: dict[str, str] = field(default_factory=dict)
    _members: dict[tuple[str, bool], tuple[str, frozenset[str]]] = field(default_factory=dict)

    def key(self, kind: str, entry: Entry[Any], stamp: Mapping[str, str] | None = None) -> str:
        """The key of one statement, under the installed versions or those of `stamp`."""
        digest = hashlib.sha256()
        stamp = versions() if stamp is None else stamp
        for line in (*(f"{n}={v}" for n, v in sorted(stamp.items())), kind, *self._lines(kind, entry)):
            digest.update(line.encode())
            digest.update(b"\n")
        return digest.hexdigest()[:32]

    def _lines(self, kind: str, entry: Entry[Any]) -> Iterator[str]:
        """Everything that the verdict on a statement depends on, in a fixed order."""
        program = self.known.program
        own = self._read(kind, entry)
        yield own.text
        operators, names = set(own.operators), set(own.names)
        supporting: dict[str, str] = {}
        waiting = sorted(names)
        ground = self.known.ground.relations()
        while waiting:
            name = waiting.pop()
            for fact in self._concluding(name) if name not in ground else ():
                if fact.full in supporting or fact.statement is entry.statement:
                    continue
                reading = self._read("fact", fact)
                supporting[fact.full] = reading.text
                operators |= reading.operators
                waiting += sorted(reading.names - names)
                names |= reading.names
        yield from sorted(supporting.values())
        for key in sorted(operators):
            yield self._operator(key)
        for name in sorted(names):
            if name in ground:
                yield from self._relation(name, operators)
            if name in program.tables:
                yield from self._table(program.tables[name])
            if name in shipped_functions():
                yield f"function {name} {_source(name)}"

    def _read(self, kind: str, entry: Entry[Any]) -> _Reading:
        place = (kind, entry.full)
        if place not in self._texts:
            wide = kind in ("engine", "group", "transfer")
            self._texts[place] = _Reader(self, entry.file, wide).read(entry.statement)
        return self._texts[place]

    def _concluding(self, name: str) -> list[Entry[ast.Fact]]:
        """The facts that conclude something of a relation or function."""
        if self._facts is None:
            self._facts = {}
            for entry in self.known.program.facts.values():
                for conclusion in entry.statement.conclusions:
                    call = conclusion.left if isinstance(conclusion, ast.Compare) else conclusion
                    if isinstance(call, ast.Call) and isinstance(call.head, ast.Name):
                        self._facts.setdefault(call.head.id, []).append(entry)
        return self._facts.get(name, [])

    def _operator(self, key: str) -> str:
        """What counts as one operator with this one; for an operator that a rule file declares, its form too."""
        if key not in self._operators:
            try:
                definition = self.known.program.definition(key)
            except KeyError:  # `Opaque`
                self._operators[key] = f"operator {key}"
                return self._operators[key]
            signature = self.known.signatures.of(definition)
            form = _form(definition) if definition.domain else ""
            impure = " impure" if signature.impure else ""
            kinds = ",".join(sorted(signature.dtype_attributes))
            self._operators[key] = (
                f"operator {key} {signature.definition.key}..{signature.newest.key}{impure} {kinds} {form}"
            )
        return self._operators[key]

    def _relation(self, name: str, operators: set[str]) -> Iterator[str]:
        """The rows of a ground relation that speak of these operators, or of none."""
        if name not in self._rows:
            found = []
            for row in self.known.ground.rows(name):
                keys = frozenset(v.key for v in row if isinstance(v, OperatorDef))
                text = " ".join(v.key if isinstance(v, OperatorDef) else repr(v) for v in row)
                found.append((keys, f"fact {name} {text}"))
            self._rows[name] = sorted(found, key=lambda item: item[1])
        for keys, text in self._rows[name]:
            if not keys or keys & operators:
                yield text

    def _table(self, entry: Entry[ast.TableDecl]) -> Iterator[str]:
        statement = entry.statement
        yield f"table {statement.name} {statement.params} {statement.result}".replace("\n", " ")
        if statement.source is not None:
            path = Path(entry.file.path).parent / statement.source
            try:
                yield hashlib.sha256(path.read_bytes()).hexdigest()
            except OSError:
                yield "no file"

    def members(self, name: str, wide: bool) -> tuple[str, frozenset[str]]:
        """A class as text, and the operators in it."""
        place = (name, wide)
        if place not in self._members:
            program = self.known.program
            found = (program.wide_classes if wide else program.classes)[name]
            text = "{" + ",".join(sorted(found.keys)) + "}"
            self._members[place] = (text, frozenset(found.keys if found.kind == "operators" else ()))
        return self._members[place]


def _form(definition: OperatorDef) -> str:
    operands = [f"{o.name}:{o.kind}:{o.type}" for o in (*definition.inputs, *definition.outputs)]
    attributes = [f"{a.name}:{a.type}:{a.required}:{a.default}" for a in definition.attributes]
    return ";".join([*operands, str(len(definition.inputs)), *attributes])


@dataclass(frozen=True)
class _Reading:
    """A statement in canonical text, the operators and the small-letter names that it mentions."""

    text: str
    operators: frozenset[str]
    names: frozenset[str]


@dataclass
class _Reader:
    keys: Keys
    file: ast.RuleFile
    wide: bool

    def read(self, statement: ast.Node) -> _Reading:
        parts: list[str] = []
        operators: set[str] = set()
        names: set[str] = set()
        # Iterative: what is left to write is on a stack, texts as they are.
        stack: list[object] = [statement]
        while stack:
            item = stack.pop()
            if isinstance(item, str):
                parts.append(item)
            elif isinstance(item, ast.Symbol):
                parts.append(self._symbol(item, operators))
            elif isinstance(item, ast.Node):
                if isinstance(item, ast.Name):
                    names.add(item.id)
                hidden = _LEFT_OUT if item is statement else _HIDDEN_BELOW
                inside = [getattr(item, f) for f in _fields(type(item)) if f not in hidden]
                parts.append(f"({type(item).__name__}")
                stack.append(")")
                stack.extend(reversed(inside))
            elif isinstance(item, tuple):
                parts.append("[")
                stack.append("]")
                stack.extend(_text(v) if not isinstance(v, ast.Node | tuple) else v for v in reversed(item))
            else:
                parts.append(repr(item))
        return _Reading(" ".join(parts), frozenset(operators), frozenset(names))

    def _symbol(self, symbol: ast.Symbol, operators: set[str]) -> str:
        program = self.keys.known.program
        if not symbol.domain and not symbol.version and symbol.name in program.classes:
            text, members = self.keys.members(symbol.name, self.wide)
            operators |= members
            return text
        domain = canonical(symbol.domain)
        if not program.scope.is_foreign(symbol, self.file) and not program.scope.every_version(domain, symbol.name):
            return f"<{symbol}>"  # a dimension, an engine
        try:
            found = program.resolve(symbol, self.file, self.wide)
        except GerulesError:
            return f"<{symbol}>"  # a version that there is not
        operators |= {d.key for d in found}
        return "<" + ",".join(d.key for d in found) + f"|{'' if found else symbol}>"


_HIDDEN_BELOW = frozenset({"span", "doc", "text"})


def _text(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


_FIELDS: dict[type, tuple[str, ...]] = {}


def _fields(kind: type[ast.Node]) -> tuple[str, ...]:
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(f.name for f in fields(kind))
    return _FIELDS[kind]


# ------------------------------------------------------------------------------------------------- host functions


@cache
def _source(name: str) -> str:
    """A hash of the source of a host function and of all functions and constants of gerules that it reaches."""
    call = inspect.unwrap(shipped_functions()[name].call)
    digest = hashlib.sha256(shipped_functions()[name].signature.encode())
    for text in sorted(_reached(call)):
        digest.update(text.encode())
    return digest.hexdigest()


def _reached(call: object) -> set[str]:
    texts: set[str] = set()
    seen: set[int] = set()
    waiting: list[object] = [call]
    while waiting:
        item = waiting.pop()
        if id(item) in seen or not isinstance(item, types.FunctionType):
            continue
        seen.add(id(item))
        texts.add(_own_source(item))
        codes = [item.__code__]
        while codes:
            code = codes.pop()
            codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
            for used in code.co_names:
                value = item.__globals__.get(used)
                if isinstance(value, types.ModuleType) and value.__name__.startswith("gerules.static"):
                    waiting += [getattr(value, n, None) for n in code.co_names]
                elif isinstance(value, types.FunctionType) and value.__module__.startswith("gerules.static"):
                    waiting.append(value)
                elif isinstance(value, int | float | str | tuple | frozenset) and used.isupper():
                    texts.add(f"{used} {sorted(map(repr, value)) if isinstance(value, frozenset) else value!r}")
    return texts


@cache
def _own_source(function: types.FunctionType) -> str:
    """The lines of a function, without blank ones and comments of their own line."""
    lines = inspect.getsource(function).splitlines()
    return "\n".join(line.rstrip() for line in lines if line.strip() and not line.strip().startswith("#"))
