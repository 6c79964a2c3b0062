"""The checker: everything that can be said of a program without a graph. One call, all diagnostics."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from gerules.dsl import ast
from gerules.dsl.duplicates import check_duplicates
from gerules.dsl.examples_check import check_example
from gerules.dsl.lets import bound_in, walk
from gerules.dsl.program import Program
from gerules.dsl.resolve import DTYPES, canonical
from gerules.dsl.rules_check import check_fact, check_refuse, check_rewrite
from gerules.dsl.sorts import variables
from gerules.dsl.strata import check_strata
from gerules.dsl.suggest import did_you_mean, listed, nearest
from gerules.dsl.targets_check import (
    check_engine,
    check_group,
    check_merge,
    check_schedule,
    check_study,
    check_transfers,
)
from gerules.dsl.terms import Report
from gerules.dsl.vocabulary import (
    COLUMN_TYPES,
    ENGINE_TABLES,
    SIGNATURE_TABLES,
    Vocabulary,
    conclusion_heads,
    vocabulary,
)
from gerules.errors import Diagnostic, Span


def check(
    program: Program,
    known_functions: Collection[str] | Mapping[str, str] | None = None,
    known_tables: Collection[str] | None = None,
) -> list[Diagnostic]:
    """All errors and warnings of a program that is put together.

    `known_functions`: the host functions that there are, by name, or with their signatures, which then have to agree;
    None: declared functions are taken on trust.
    `known_tables`: names of the tables that are filled from outside; None: those of the language.
    """
    report = Report()
    words = vocabulary(program)
    for file in program.files:
        _file(program, file, report)
    _declarations(program, words, known_functions, known_tables, report)
    for rewrite in program.rewrites.values():
        check_rewrite(program, words, rewrite, report)
    for fact in program.facts.values():
        check_fact(program, words, fact, report)
    for refuse in program.refuses.values():
        check_refuse(program, words, refuse, report)
    for engine in program.engines.values():
        check_engine(program, words, engine, report)
    check_transfers(program, words, report)
    for merge in program.merges.values():
        check_merge(program, words, merge, report)
    for group in program.groups.values():
        check_group(program, words, group, report)
    for schedule in program.schedules.values():
        check_schedule(program, schedule, report)
    for study in program.studies.values():
        check_study(program, study, report)
    for example in program.examples:
        check_example(program, words, example, report)
    check_duplicates(program, report)
    check_strata(program, words, report)
    return report.found


# ------------------------------------------------------------------------------------------------------------- files


def _file(program: Program, file: ast.RuleFile, report: Report) -> None:
    """`opset` lines: once a domain, before all else, a version that there is. And a file holds something."""
    if not file.statements and not file.source.strip():
        where = ast.Node(span=_start(file))
        report.add("GR126", "this file is empty", where, "a rule is `rewrite a: Identity(x) => x`", severity="warning")
    seen: dict[str, ast.Opset] = {}
    started = False
    for statement in file.statements:
        if not isinstance(statement, ast.Opset):
            started = True
            continue
        if statement.domain in seen:
            report.add("GR173", f"the opset of {statement.domain} is given twice", statement, "keep one line")
        elif started:
            report.add("GR173", "an `opset` line stands before all other statements", statement, "move it up")
        seen[statement.domain] = statement
        _opset(program, statement, report)


def _start(file: ast.RuleFile) -> Span:
    return Span(file.path, 1, 1, 1, 1, 0, 0)


def _opset(program: Program, statement: ast.Opset, report: Report) -> None:
    registry = program.registry
    domain = canonical(statement.domain)
    newest = registry.newest(domain)
    if newest is None:
        close = nearest(statement.domain, ["ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training"])
        if close:
            report.add("GR173", f"unknown domain {statement.domain}", statement, f"did you mean `{close}`?")
        return
    try:
        wanted = [int(part) for part in statement.version.split(".")]
        there = wanted[0] >= 1 and wanted <= [int(part) for part in newest.split(".")]
    except ValueError:
        there = False
    if not there or "." in statement.version != "." in newest:
        report.add(
            "GR173", f"{statement.domain} has no opset {statement.version}", statement, f"the newest is {newest}"
        )


# ------------------------------------------------------------------------------------------------------ declarations


def _declarations(
    program: Program,
    words: Vocabulary,
    known_functions: Collection[str] | Mapping[str, str] | None,
    known_tables: Collection[str] | None,
    report: Report,
) -> None:
    for name, (statement, _) in program.scope.classes.items():
        members = program.classes.get(name)
        if members is not None and not members.keys:
            report.add("GR156", f"class {name} is empty", statement, "is `&` or `-` meant otherwise?")
        if program.registry.versions("", name):
            report.add("GR129", f"{name} is an operator of ai.onnx", statement, "name the class otherwise")
    declared: list[ast.TableDecl | ast.FunctionDecl] = [e.statement for e in program.tables.values()]
    declared += [e.statement for e in program.functions.values()]
    for declaration in declared:
        _types(declaration, report)
    if known_functions is not None:
        _functions(program, known_functions, report)
    _tables(program, words, known_tables, report)
    for let in program.lets.values():
        if len(set(let.params)) < len(let.params):
            report.add("GR141", f"{let.name} has two parameters of one name", let, "name them apart")
        _let_names(program, words, let, report)


def _types(statement: ast.TableDecl | ast.FunctionDecl, report: Report) -> None:
    seen: set[str] = set()
    for param in statement.params:
        if param.name in seen:
            report.add("GR141", f"{statement.name} has two parameters {param.name}", param, "name them apart")
        seen.add(param.name)
    for typed in (*(p.type for p in statement.params), statement.result):
        if typed is not None and typed.name not in COLUMN_TYPES:
            hint = did_you_mean(typed.name, COLUMN_TYPES) or f"types are {listed(COLUMN_TYPES, 'and', 20)}"
            report.add("GR172", f"unknown type {typed.name}", typed, hint)
        elif typed is not None and isinstance(statement, ast.TableDecl):
            what = f"rows cannot hold a {typed.name}" if typed.name in _NO_COLUMN else "a column has one value a row"
            if typed.name in _NO_COLUMN or typed.suffix:
                report.add(
                    "GR172", what, typed, "columns are op, str, int, float, bool, dtype, ... without `?` and `*`"
                )


_NO_COLUMN = ("term", "const", "tensor", "any", "value")


def _functions(program: Program, known: Collection[str] | Mapping[str, str], report: Report) -> None:
    for name, entry in program.functions.items():
        if name not in known and entry.statement.result.name in ("term", "const"):
            continue
        if name not in known:
            hint = did_you_mean(name, known) or "functions are written in Python; rules declare those that there are"
            report.add("GR161", f"there is no host function {name}", entry.statement, hint)
        elif isinstance(known, Mapping) and _shape(known[name]) != _shape(signature(entry.statement)):
            message = f"host function {name} has another signature"
            report.add("GR161", message, entry.statement, f"declare it as `function {known[name]}`")


def signature(function: ast.FunctionDecl) -> str:
    """`fill(v: int, n: int) -> ints`."""
    params = ", ".join(f"{p.name}: {p.type.name}{p.type.suffix}" for p in function.params)
    return f"{function.name}({params}) -> {function.result.name}{function.result.suffix}"


def _shape(text: str) -> list[str]:
    """The types of a signature; names of parameters are free."""
    return re.findall(r"(?::|->) *([\w?*]+)", text)


def _tables(program: Program, words: Vocabulary, known: Collection[str] | None, report: Report) -> None:
    given = frozenset(known) if known is not None else ENGINE_TABLES | SIGNATURE_TABLES
    rules = (program.rewrites, program.facts, program.refuses, program.merges, program.groups)
    whens = [e.statement.when for kind in rules for e in kind.values()]
    read = {
        n.head.id
        for when in whens
        for condition in when
        for n in walk(condition)
        if isinstance(n, ast.Call) and isinstance(n.head, ast.Name)
    }
    for name, entry in program.tables.items():
        if name in read and name not in given and not entry.statement.source and name not in words.relations:
            if any(_concludes(e.statement, name) for e in program.facts.values()):
                continue
            message = f"table {name} is read and never given: what reads it never holds"
            report.add("GR176", message, entry.statement, 'add `from "rows.csv"`, or a fact that concludes it')


def _concludes(fact: ast.Fact, name: str) -> bool:
    return any(
        isinstance(c.head, ast.Name) and c.head.id == name for k in fact.conclusions for c in conclusion_heads(k)
    )


def _let_names(program: Program, words: Vocabulary, let: ast.LetDecl, report: Report) -> None:
    """The body of a let speaks of its parameters only: nothing is caught from where it is used."""
    free = variables(let.value) - {*let.params} - bound_in(let.value) - set(DTYPES) - program.lets.keys()
    for name in sorted(free):
        place = next(n for n in walk(let.value) if isinstance(n, ast.Name) and n.id == name)
        hint = (
            did_you_mean(name, let.params) if len(name) > 2 else None
        ) or f"add it to the parameters: `let {let.name}({', '.join([*let.params, name])})`"
        report.add("GR140", f"nothing binds {name} in this abbreviation", place, hint)
