"""What the reference kernels say of versions: two versions of an operator are one where one kernel computes both and
asks neither for its version nor for an attribute that they differ in.

An operator without a meaning of its own is known by its work: the kernel, on which side of the versions that the kernel
tells apart it lies, and the attributes that the kernel reads, those left out that are what an absent one is taken for.
This is read from the source of the kernel and of all that it calls; where that cannot be read, a version is its own.
"""

from __future__ import annotations

import ast as python
import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import z3

from gerules.dsl.fits import RESULTS
from gerules.registry.definition import OperatorDef
from gerules.simulate.kernel import REFERENCE, NodeSpec, find_factory
from gerules.verify.admitted import later_words, unsigned
from gerules.verify.prove import arith
from gerules.verify.prove.application import Application
from gerules.verify.prove.world import Beyond, Element, Hole

if TYPE_CHECKING:
    from gerules.egraph.program import Knowledge

OURS: Final = "gerules."
COUNTS: Final = frozenset(("results", "wanted", "wants", "operands"))
"""What a kernel may ask of its node beyond attributes: how many operands and results there are."""


@dataclass(frozen=True)
class Work:
    """`name` tells the kernel and the side of versions; `reads` are the attributes that are read (None: any of them),
    `absent` what some of them are taken for where they are not there; `counts` whether numbers of operands and results
    matter, `named` whether the name of the operator does."""

    name: str
    reads: frozenset[str] | None
    absent: Mapping[str, object]
    counts: bool
    named: bool

    def told(self, attribute: str) -> bool:
        return self.reads is None or attribute in self.reads


@lru_cache(maxsize=4096)
def work_of(domain: str, op: str, since: int) -> Work | None:
    """The work of a version of an operator; None where it has no kernel of ours, or one that cannot be read."""
    import gerules.simulate.kernels  # noqa: F401  # fills the table

    factory = find_factory(domain, op, since, REFERENCE)
    if not isinstance(factory, FunctionType):
        return None
    read = _read(factory)
    if read is None:
        return None
    sides = ",".join(str(int(since >= edge)) for edge in sorted(read.edges))
    version = str(since) if read.versioned else sides
    return Work(f"{domain}:{read.kernel}:{version}", read.reads, read.absent, read.counts, read.named)


def label(app: Application) -> str:
    """The work of an application with the attributes that are read: equal ones do the same to equal operands."""
    definition = app.signature.newest
    work = _of(definition)
    if work is None or app.world.known is None:
        return app.label()
    given = []
    for name in sorted(a.name for a in app.signature.attributes):
        value = app.attributes.get(name)
        if isinstance(value, Hole) and value.decided:
            value = value.value
        if name == RESULTS:
            continue
        if work.told(name):
            absent = value is None or value == ""
            if name in work.absent and (absent or _text(value) == _text(work.absent[name])):
                continue
            given.append(f"{name} is not there" if absent else f"{name}={_text(value)}")
    head = f"{definition.name}@" if work.named else "@"
    if work.counts:
        given.append(f"{RESULTS}={_text(app.attributes.get(RESULTS, 1))}")
    found = ",".join(given)
    return f"{head}{work.name}:{_moved(definition, app.world.known)}" + (f"({found})" if found else "")


def _of(definition: OperatorDef) -> Work | None:
    since = definition.since
    return work_of(definition.domain, definition.name, int(since)) if since.isdigit() else None


def told(app: Application, attribute: str) -> bool:
    """Whether an attribute has a say in what an operator computes, as far as its kernel tells."""
    work = _of(app.signature.newest)
    return work is None or work.told(attribute)


def shares(app: Application, keys: frozenset[str]) -> bool:
    """Whether another version of the operator, one of these, has the same work."""
    work, known = _of(app.signature.newest), app.world.known
    if work is None or known is None:
        return False
    name = app.signature.definition.name
    others = (known.program.definition(k) for k in sorted(keys) if k.partition("@")[0] == name)
    return any((other := _of(d)) is not None and other.name == work.name for d in others)


def _text(value: object) -> str:
    """Numbers are one whatever their type; a hole is its own."""
    if isinstance(value, tuple | list):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, frozenset):
        return str(sorted(value, key=str))
    if isinstance(value, Element):
        return str(value.term)
    return repr(float(value)) if isinstance(value, int | float) else str(value)


def _moved(definition: OperatorDef, known: Knowledge) -> str:
    """The last version up to this one whose meaning moved, by the facts, in a way that no kernel tells."""
    kept = known.kept.setdefault("moved meanings", {})
    assert isinstance(kept, dict)
    if definition.key not in kept:
        kept[definition.key] = _last_moved(definition, known)
    return str(kept[definition.key])


def _last_moved(definition: OperatorDef, known: Knowledge) -> str:
    ground = known.ground
    moved = ""
    for older, newer in ground.rows("bump"):
        assert isinstance(older, OperatorDef) and isinstance(newer, OperatorDef)
        if (newer.domain, newer.name) != (definition.domain, definition.name) or not newer.since.isdigit():
            continue
        if int(newer.since) > int(definition.since) or not ground.matching("changes", 0, newer):
            continue
        if _said(older) == _said(newer):
            moved = max(moved, newer.since, key=lambda s: int(s or 0))
    return moved


def _said(definition: OperatorDef) -> object:
    """What a version does not admit, and the work of its kernel."""
    at = definition.domain, definition.name, int(definition.since)
    work = work_of(*at)
    return unsigned(*at), later_words(*at), work.name if work is not None else definition.key


def admit_signs(app: Application) -> None:
    """Negative axes and indices that a version does not admit yet. Of the left side it is premised that there are none,
    of the right side it has to be shown."""
    definition = app.signature.newest
    if not definition.since.isdigit():
        return
    names, places = unsigned(definition.domain, definition.name, int(definition.since))
    for name, least in names.items():
        _at_least(app, app.attributes.get(name), least, name)
    for place in places:
        operand = app.optional(place)
        if operand is not None:
            _at_least(app, operand if operand.contents is None else operand.contents, 0, f"operand {place}")


def admit_words(app: Application) -> None:
    """Words that came later: as with signs."""
    definition = app.signature.newest
    if not definition.since.isdigit():
        return
    for name, words in later_words(definition.domain, definition.name, int(definition.since)).items():
        value = app.attributes.get(name)
        if isinstance(value, Hole) and not value.decided:
            if app.world.right and not any(v is value and words <= w for v, w in app.world.words):
                raise Beyond(f"which {name} {app.name} is given")
            app.world.words.append((value, words))
        elif (value.value if isinstance(value, Hole) else value) in words:
            app.fail()


def _at_least(app: Application, value: object, least: int, name: str) -> None:
    world = app.world
    if isinstance(value, Hole) and not value.decided and value.kind == "int":
        number = world.integer(value.name)
        value.decide((number,) if value.required or value.default is not None else (number, None))
    if isinstance(value, Hole) and value.decided:
        value = value.value
    if value is None:
        return
    entries = value if isinstance(value, tuple) else (value,)
    if all(isinstance(e, int | z3.ArithRef) for e in entries):
        world.demand(*(arith.le(least, e) for e in entries))
    elif not world.right:
        world.unsigned.append(value)
    elif not any(v is value for v in world.unsigned):
        raise Beyond(f"whether {name} of {app.name} is negative")


@dataclass(frozen=True)
class _Read:
    kernel: str
    edges: frozenset[int]
    versioned: bool
    named: bool
    counts: bool
    reads: frozenset[str] | None
    absent: Mapping[str, object]


@lru_cache(maxsize=512)
def _read(factory: FunctionType) -> _Read | None:
    edges: set[int] = set()
    versioned = named = counts = False
    reads: set[str] = set()
    anything = False
    absent: dict[str, object] = {}
    unsure: set[str] = set()
    for function in _reached(factory):
        written = _written(function)
        if written is None:
            return None
        tree, above = written
        for node in _told(tree):
            if isinstance(node, python.Constant) and isinstance(node.value, str):
                reads.add(node.value)
            elif isinstance(node, python.Call):
                found = _asked(node)
                if found is not None:
                    name, sure, default = found
                    if not sure or absent.setdefault(name, default) != default:
                        unsure.add(name)
            elif isinstance(node, python.Attribute):
                counts = counts or node.attr in COUNTS
                named = named or node.attr == "op"
                if node.attr in ("version", "opset"):
                    edge = _edges(above[id(node)], node)
                    versioned = versioned or edge is None
                    edges |= edge or set()
                elif node.attr == "attributes":
                    anything = anything or not _by_name(above[id(node)], above)
    kernel = "+".join(sorted(f"{f.__module__.removeprefix(OURS)}.{f.__qualname__}" for f in _own(factory)))
    kept = {n: v for n, v in absent.items() if n not in unsure}
    return _Read(kernel, frozenset(edges), versioned, named, counts, None if anything else frozenset(reads), kept)


@lru_cache(maxsize=128)
def _module(file: str) -> tuple[Mapping[int, python.AST], Mapping[int, python.AST]]:
    """The functions of a file by the line where they begin, and what stands around each node."""
    tree = python.parse(Path(file).read_text(encoding="utf-8"))
    above = {id(child): node for node in python.walk(tree) for child in python.iter_child_nodes(node)}
    lines: dict[int, python.AST] = {}
    for node in python.walk(tree):
        if isinstance(node, python.FunctionDef | python.Lambda):
            decorators = node.decorator_list if isinstance(node, python.FunctionDef) else []
            first = min([node.lineno, *(d.lineno for d in decorators)])
            # Of several on one line the statement that holds them all.
            lines[first] = node if first not in lines else _statement(node, above)
    return lines, above


def _statement(node: python.AST, above: Mapping[int, python.AST]) -> python.AST:
    while not isinstance(node, python.stmt):
        node = above[id(node)]
    return node


def _written(function: FunctionType) -> tuple[python.AST, Mapping[int, python.AST]] | None:
    """A function as it is written, with what stands around its nodes; None where that is not to be found."""
    try:
        lines, above = _module(function.__code__.co_filename)
    except (OSError, SyntaxError):
        return None
    found = lines.get(function.__code__.co_firstlineno)
    return None if found is None else (found, above)


def _told(tree: python.AST) -> Iterator[python.AST]:
    """The nodes of a tree, but for what only errors say."""
    waiting: list[python.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, python.Raise):
            continue
        yield node
        waiting += python.iter_child_nodes(node)


def _asked(call: python.Call) -> tuple[str, bool, object] | None:
    """`spec.get("name", default)`: the name, whether the default is a literal, and which."""
    if not (isinstance(call.func, python.Attribute) and call.func.attr == "get" and call.args):
        return None
    first = call.args[0]
    if not isinstance(first, python.Constant) or not isinstance(first.value, str):
        return None
    if len(call.args) < 2:
        return first.value, True, None
    try:
        return first.value, True, python.literal_eval(call.args[1])
    except ValueError:
        return first.value, False, None


def _edges(parent: python.AST, node: python.Attribute) -> set[int] | None:
    """The versions where a comparison of the version changes its answer; None where it is another use."""
    if not isinstance(parent, python.Compare) or parent.left is not node or len(parent.ops) != 1:
        return None
    bound = parent.comparators[0]
    if not isinstance(bound, python.Constant) or not isinstance(bound.value, int):
        return None
    match parent.ops[0]:
        case python.Lt() | python.GtE():
            return {bound.value}
        case python.LtE() | python.Gt():
            return {bound.value + 1}
        case python.Eq() | python.NotEq():
            return {bound.value, bound.value + 1}
    return None


def _by_name(parent: python.AST, above: Mapping[int, python.AST]) -> bool:
    """Whether of all attributes one is taken by name: `spec.attributes["x"]`, `spec.attributes.get("x")`."""
    if isinstance(parent, python.Subscript):
        return isinstance(parent.slice, python.Constant)
    call = above.get(id(parent))
    return isinstance(parent, python.Attribute) and isinstance(call, python.Call) and _asked(call) is not None


def _own(factory: FunctionType) -> Iterator[FunctionType]:
    """A factory and the functions that it closes over: what tells it from others made by the same maker."""
    yield factory
    for cell in factory.__closure__ or ():
        if isinstance(cell.cell_contents, FunctionType):
            yield cell.cell_contents


def _reached(factory: FunctionType) -> Iterator[FunctionType]:
    """The functions of ours that a factory may come to, each once; but for those that are made, not written."""
    seen: set[int] = set()
    waiting: list[object] = [factory]
    while waiting:
        found = waiting.pop()
        if id(found) in seen or isinstance(found, str | int | float | complex | bytes | None):
            continue
        seen.add(id(found))
        if isinstance(found, FunctionType):
            if found.__module__.startswith(OURS) and not found.__code__.co_filename.startswith("<"):
                yield found
                waiting += _named(found)
        elif isinstance(found, type):
            if found.__module__.startswith(OURS) and found is not NodeSpec:
                waiting += vars(found).values()
        else:
            waiting += _within(found)


def _within(value: Any) -> Iterable[object]:
    """What a value holds that may be a function of ours."""
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, tuple | list | set | frozenset):
        return list(value)
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, staticmethod | classmethod):
        return [value.__func__]
    if isinstance(value, property):
        return [value.fget]
    wrapped = getattr(value, "__wrapped__", None)
    if wrapped is not None:
        return [wrapped]
    return [type(value), *getattr(value, "__dict__", {}).values()] if type(value).__module__.startswith(OURS) else []


def _named(function: FunctionType) -> Iterator[object]:
    """What a function names or closes over."""
    for cell in function.__closure__ or ():
        yield cell.cell_contents
    yield from function.__defaults__ or ()
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [c for c in code.co_consts if isinstance(c, type(code))]
        for name in code.co_names:
            value = function.__globals__.get(name)
            if isinstance(value, ModuleType):
                yield from (
                    getattr(value, n) for n in code.co_names if value.__name__.startswith(OURS) and hasattr(value, n)
                )
            elif value is not None:
                yield value
