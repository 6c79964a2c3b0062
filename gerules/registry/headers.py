"""Operator registration headers (REG_OP macros) as a release.

Real headers have blemishes: macros in comments, over several lines, type lists that are not closed or misspelt. Each
gets a warning with file and line, and reading goes on; only a source without any operator is an error. The form of the
macros is that of the public repository mindspore-ai/graphengine (inc/external/graph/operator_reg.h).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path

from gerules.errors import Diagnostic, Refused, Span
from gerules.registry.c_literals import Unreadable, literal_of, macros, masked, split_arguments, without_comments
from gerules.registry.release import (
    ATTRIBUTE_TYPES,
    DYNAMIC,
    OPTIONAL,
    REQUIRED,
    Body,
    Literal,
    Port,
    Release,
    ReleaseAttribute,
    ReleaseOperator,
)

INPUTS = {"INPUT": REQUIRED, "OPTIONAL_INPUT": OPTIONAL, "DYNAMIC_INPUT": DYNAMIC}
OUTPUTS = {"OUTPUT": REQUIRED, "DYNAMIC_OUTPUT": DYNAMIC}
BODIES = {"GRAPH": REQUIRED, "DYNAMIC_GRAPH": DYNAMIC}
END, CUSTOM_END = "OP_END_FACTORY_REG", "CUST_OP_END_FACTORY_REG"
_CLAUSES = (*INPUTS, *OUTPUTS, *BODIES, "ATTR", "REQUIRED_ATTR", "DATATYPE", "INFER_SHAPE_AND_TYPE", END, CUSTOM_END)

_START = re.compile(r"\bREG_(?:CUST_)?OP\s*\(\s*([A-Za-z_]\w*)\s*\)")
_NAMELESS = re.compile(r"\bREG_(?:CUST_)?OP\b(?!\s*\(\s*[A-Za-z_]\w*\s*\))")
_CLAUSE = re.compile(rf"(?:(\.)\s*([A-Z][A-Z0-9_]{{2,}})|(?<![\w.])({'|'.join(_CLAUSES)}))\s*\(")
_TOKEN = re.compile(r"\x01\d+\x02|[A-Za-z_]\w*")
_CONSTANT = re.compile(r"\bconst(?:expr)?\b[^;={}()]*?\b([A-Za-z_]\w*)\s*(?:=\s*|(?=\{))([^;]+);")
_SUFFIXES = (".h", ".hpp", ".hh", ".inc")

WRAPPERS = ("TensorType", "ListTensorType")
DATA_TYPES = (
    "DT_FLOAT", "DT_FLOAT16", "DT_INT8", "DT_INT32", "DT_UINT8", "DT_INT16", "DT_UINT16", "DT_UINT32", "DT_INT64",
    "DT_UINT64", "DT_DOUBLE", "DT_BOOL", "DT_STRING", "DT_DUAL_SUB_INT8", "DT_DUAL_SUB_UINT8", "DT_COMPLEX64",
    "DT_COMPLEX128", "DT_QINT8", "DT_QINT16", "DT_QINT32", "DT_QUINT8", "DT_QUINT16", "DT_RESOURCE",
    "DT_STRING_REF", "DT_DUAL", "DT_VARIANT", "DT_BF16", "DT_UNDEFINED", "DT_INT4", "DT_UINT1", "DT_INT2",
    "DT_UINT2", "DT_COMPLEX32", "DT_MAX",
)  # fmt: skip
_NO_MARKS = {1: " ", 2: " "}
"""The marks of strings that are put aside."""
_UNKNOWN_SHAPES: Mapping[str, Literal] = {"UNKNOWN_SHAPE": (-1,), "UNKNOWN_RANK": (-2,)}
"""What the engine's own constants are where no header says so."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A release read from headers, and what was odd about them (warnings with file and line)."""

    release: Release
    warnings: tuple[Diagnostic, ...]
    files: int


def read_headers(paths: Sequence[str | Path], domain: str = "ge", version: str = "") -> Imported:
    """Reads headers, and all headers of folders, in order of their paths.

    Raises Refused where a file cannot be read (GR201) or nothing registers an operator (GR210).
    """
    files = _files(paths)
    texts = [(str(path), _text(path)) for path in files]
    return parse_headers(texts, domain, version)


def parse_headers(texts: Sequence[tuple[str, str]], domain: str = "ge", version: str = "") -> Imported:
    """Reads headers given as (how messages call it, text). Raises Refused (GR210)."""
    sources = [_Source.of(name, text) for name, text in texts]
    constants: dict[str, Literal] = dict(_UNKNOWN_SHAPES)
    for source in sources:
        constants |= source.constants()
    operators: dict[str, ReleaseOperator] = {}
    warnings: list[Diagnostic] = []
    for source in sources:
        reader = _Reader(source, constants)
        for operator, offset in reader.operators():
            if operator.name in operators:
                same = " in the same way" if operators[operator.name] == operator else ", differently"
                reader.warn("GR214", offset, f"{operator.name} is registered again{same}; the first is kept")
                continue
            operators[operator.name] = operator
        warnings += reader.found
    if not operators:
        shown = texts[0][0] if len(texts) == 1 else f"{len(texts)} headers"
        message = "no operator is registered here"
        raise Refused(
            [*warnings, Diagnostic("GR210", message, file=shown, hint="headers register with REG_OP(Name)...")]
        )
    return Imported(Release(domain, version, operators), tuple(warnings), len(texts))


def _files(paths: Sequence[str | Path]) -> list[Path]:
    found: list[Path] = []
    for given in map(Path, paths):
        if given.is_dir():
            inside = sorted(p for p in given.rglob("*") if p.suffix in _SUFFIXES and p.is_file())
            if not inside:
                message = "the folder holds no headers"
                raise Refused(Diagnostic("GR210", message, file=str(given), hint=f"they end in {', '.join(_SUFFIXES)}"))
            found += inside
        else:
            found.append(given)
    return list(dict.fromkeys(found))


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig", "replace")
    except OSError as error:
        message = f"cannot read the header: {error.strerror or error}"
        raise Refused(Diagnostic("GR201", message, file=str(path), hint="check the path and its rights")) from error


@dataclass(frozen=True, slots=True)
class _Source:
    """A header without comments and directives, its strings put aside. Offsets are those of the file."""

    shown: str
    code: str
    strings: tuple[str, ...]
    macros: Mapping[str, tuple[bool, str, int]]

    @classmethod
    def of(cls, shown: str, text: str) -> _Source:
        text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_NO_MARKS)
        code, strings = masked(without_comments(text))
        return cls(shown, code, strings, macros(text))

    def constants(self) -> dict[str, Literal]:
        """`const std::vector<int64_t> UNKNOWN_SHAPE = {-1};`, `#define AXIS (-1)` and their like, as far as they can be
        read."""
        found: dict[str, Literal] = {}
        for name, (called, written, _) in self.macros.items():
            try:
                if not called:
                    found[name] = literal_of(*masked(written), found)
            except Unreadable:
                continue
        for match in _CONSTANT.finditer(self.code):
            try:
                found[match[1]] = literal_of(match[2], self.strings, found)
            except Unreadable:
                continue
        return found

    def span(self, offset: int) -> Span:
        line = self.code.count("\n", 0, offset) + 1
        column = offset - self.code.rfind("\n", 0, offset)
        return Span(self.shown, line, column, line, column + 1, offset, offset + 1)


@dataclass
class _Reader:
    """One header: its operators, and what is odd about them."""

    source: _Source
    constants: Mapping[str, Literal]
    found: list[Diagnostic] = field(default_factory=list)
    operator: str = ""

    def warn(self, code: str, offset: int, message: str, hint: str | None = None) -> None:
        where = self.operator or None
        self.found.append(
            Diagnostic(code, message, span=self.source.span(offset), node=where, hint=hint, severity="warning")
        )

    def operators(self) -> Iterator[tuple[ReleaseOperator, int]]:
        code = self.source.code
        starts = list(_START.finditer(code))
        for number, start in enumerate(starts):
            limit = starts[number + 1].start() if number + 1 < len(starts) else len(code)
            self.operator = start[1]
            yield self.one(start[1], start.start(), start.end(), limit), start.start()
        self.operator = ""
        for nameless in _NAMELESS.finditer(code):
            self.warn("GR212", nameless.start(), "a registration has no name that can be read: it is left out")
        for name, (called, written, _) in self.source.macros.items():
            used = re.search(rf"\b{name}\b", code) if _START.search(written) or _NAMELESS.search(written) else None
            if used is not None:
                what = f"the macro {name}{'(...)' if called else ''} registers operators, and macros are not expanded"
                self.warn(
                    "GR212", used.start(), f"{what}: they are left out", "write them out, or preprocess the header"
                )

    def one(self, name: str, at: int, start: int, limit: int) -> ReleaseOperator:
        parts = _Parts(self)
        closed = False
        for clause, offset, text in self.clauses(start, limit):
            if clause in (END, CUSTOM_END):
                closed = True
                ended = text.strip()
                if ended and ended != name:
                    self.warn("GR212", offset, f"{name} ends as {ended}", "the name at its start is taken")
                break
            parts.take(clause, offset, text)
        if not closed:
            self.warn("GR212", at, f"{name} has no {END}", "what stands before the next operator is taken")
        return parts.operator(name)

    def clauses(self, start: int, limit: int) -> Iterator[tuple[str, int, str]]:
        """Each clause with its place and what its brackets hold; brackets that do not match are reported."""
        code = self.source.code
        marks = list(_CLAUSE.finditer(code, start, limit))
        for number, mark in enumerate(marks):
            clause = mark[2] or mark[3]
            if mark[1] is None:
                self.warn("GR212", mark.start(), f"the dot before {clause} is missing", "it is read all the same")
            end = marks[number + 1].start() if number + 1 < len(marks) else limit
            text = code[mark.end() : end]
            depth, stop = 1, -1
            for position, character in enumerate(text):
                depth += {"(": 1, ")": -1}.get(character, 0)
                if depth == 0:
                    stop = position
                    break
            odd = stop < 0 or text[:stop].count("{") != text[:stop].count("}")
            if odd and clause in _CLAUSES:
                self.warn("GR211", mark.start(), f"brackets of {clause} do not match", "what can be read is taken")
            yield clause, mark.start(), text[:stop] if stop >= 0 else text.rstrip().removesuffix(")")


@dataclass
class _Parts:
    """What the clauses of one operator give."""

    reader: _Reader
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    attributes: list[ReleaseAttribute] = field(default_factory=list)
    bodies: list[Body] = field(default_factory=list)
    datatypes: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def operator(self, name: str) -> ReleaseOperator:
        return ReleaseOperator(
            name, tuple(self.inputs), tuple(self.outputs), tuple(self.attributes), tuple(self.bodies), self.datatypes
        )

    def take(self, clause: str, offset: int, text: str) -> None:
        warn = self.reader.warn
        if clause not in _CLAUSES:
            close = get_close_matches(clause, _CLAUSES, 1)
            warn("GR212", offset, f"{clause} is no clause of a registration: it is left out",
                 f"did the header mean {close[0]}?" if close else None)  # fmt: skip
            return
        if clause == "INFER_SHAPE_AND_TYPE":
            return
        arguments = [a.strip() for a in split_arguments(text)]
        name = self.name(clause, offset, arguments)
        if name is None:
            return
        rest = ", ".join(arguments[1:])
        if clause in INPUTS:
            self.add(self.inputs, Port(name, INPUTS[clause], self.types(name, offset, rest)), offset)
        elif clause in OUTPUTS:
            self.add(self.outputs, Port(name, OUTPUTS[clause], self.types(name, offset, rest)), offset)
        elif clause in BODIES:
            self.add(self.bodies, Body(name, BODIES[clause]), offset)
        elif clause == "DATATYPE":
            self.datatypes.setdefault(name, self.types(name, offset, rest))
        else:
            self.attribute(name, clause == "REQUIRED_ATTR", offset, arguments[1:])

    def name(self, clause: str, offset: int, arguments: Sequence[str]) -> str | None:
        found = _TOKEN.findall(arguments[0]) if arguments else []
        if len(found) != 1:
            self.reader.warn("GR212", offset, f"{clause} has no name: it is left out")
            return None
        return self.text(found[0])

    def text(self, token: str) -> str:
        return self.reader.source.strings[int(token[1:-1])] if token.startswith("\x01") else token

    def add(self, entries: list[Port] | list[Body] | list[ReleaseAttribute], entry: object, offset: int) -> None:
        name = getattr(entry, "name", "")
        if any(e.name == name for e in entries):
            self.reader.warn("GR214", offset, f"{name} stands twice in one list; the first is kept")
        else:
            entries.append(entry)  # type: ignore[arg-type]  # the caller gives a list of its kind

    def types(self, name: str, offset: int, text: str) -> tuple[str, ...]:
        """The types in `TensorType({DT_FLOAT, ...})`, `TensorType::ALL()`, `"T"`, `Promote({"T1", "T2"})`."""
        found: list[str] = []
        for match in _TOKEN.finditer(text):
            token, after = match[0], text[match.end() :].lstrip()
            if after.startswith("::") or (after.startswith(("(", "{")) and self.wrapper(token, offset)):
                continue
            found.append(self.text(token))
        if not found:
            self.reader.warn("GR211", offset, f"no data types can be read for {name}")
        for kind in found:
            if kind.startswith("DT_") and kind not in DATA_TYPES:
                close = get_close_matches(kind, DATA_TYPES, 1)
                hint = f"did the header mean {close[0]}?" if close else None
                self.reader.warn("GR211", offset, f"{kind} is no data type; it is kept as it stands", hint)
        return tuple(found)

    def wrapper(self, token: str, offset: int) -> bool:
        if token in WRAPPERS:
            return True
        if any(SequenceMatcher(None, token.lower(), w.lower()).ratio() > 0.8 for w in WRAPPERS):
            self.reader.warn("GR211", offset, f"{token} is read as TensorType")
            return True
        return False

    def attribute(self, name: str, required: bool, offset: int, arguments: Sequence[str]) -> None:
        warn = self.reader.warn
        type_ = arguments[0] if arguments else ""
        if type_ not in ATTRIBUTE_TYPES:
            close = get_close_matches(type_, ATTRIBUTE_TYPES, 1, 0.5)
            taken = close[0] if close else "String"
            warn("GR213", offset, f"{type_ or 'nothing'} is no type of an attribute; {name} is read as {taken}")
            type_ = taken
        written = ", ".join(arguments[1:])
        if required:
            if written:
                warn("GR213", offset, f"required attribute {name} has a default; it is left out")
            self.add(self.attributes, ReleaseAttribute(name, type_, True), offset)
            return
        value = self.default(name, type_, written, offset)
        self.add(self.attributes, ReleaseAttribute(name, type_, False, value), offset)

    def default(self, name: str, type_: str, written: str, offset: int) -> Literal:
        if type_ == "Tensor":
            return "Tensor()"
        try:
            value = literal_of(written, self.reader.source.strings, self.reader.constants)
            return converted(value, type_)
        except Unreadable as fault:
            empty = _EMPTY.get(type_, ())
            message = f"the default of {name} cannot be read ({fault}); it is taken as {empty!r}"
            self.reader.warn("GR213", offset, message)
            return empty


_EMPTY: Mapping[str, Literal] = {"Int": 0, "Float": 0.0, "Bool": False, "String": "", "Type": "DT_UNDEFINED"}


def converted(value: Literal, type_: str) -> Literal:
    """A literal as C++ makes it an attribute of that type. Raises Unreadable."""
    if type_ == "ListListInt":
        return tuple(converted(row, "ListInt") for row in _items(value))
    if type_.startswith("List"):
        inner = type_.removeprefix("List")
        return tuple(converted(item, inner) for item in _items(value))
    if isinstance(value, tuple):
        if len(value) == 1:  # `{1}` initialises a scalar too
            return converted(value[0], type_)
        if not value and type_ in _EMPTY:
            return _EMPTY[type_]
        raise Unreadable("a list, where one value is wanted")
    if type_ in ("String", "Type"):
        if isinstance(value, str):
            return value
    elif type_ == "Float":
        if not isinstance(value, str):
            return float(value)
    elif type_ == "Bool":
        if not isinstance(value, str):
            return bool(value)
    elif not isinstance(value, str):
        return _int64(int(value))
    elif value.startswith("DT_"):
        return value
    raise Unreadable(f"{value!r} is no {type_}")


def _int64(value: int) -> int:
    """An integer as C++ puts it into 64 bits. Raises Unreadable where it has no literal of that size."""
    if not -(2**63) <= value < 2**64:
        raise Unreadable(f"{value} does not fit in 64 bits")
    return value - 2**64 if value >= 2**63 else value


def _items(value: Literal) -> Iterable[Literal]:
    if not isinstance(value, tuple):
        raise Unreadable("one value, where a list is wanted")
    return value
