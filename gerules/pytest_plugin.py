"""Rule files as tests: `pytest --gerules rules/` runs every example, with `--gerules-verify` every rule is one more.

A file is collected as a file, a rule as a group, an example as a test: `my.rules::user/my.relu::example 1 (line 5)`.
Without the option nothing is collected, and nothing of gerules but this module is imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from gerules.dsl import ast
    from gerules.dsl.program import Entry, Program, RuleSource
    from gerules.errors import Diagnostic
    from gerules.verify.examples import Examples
    from gerules.verify.run import Outcome, Verifier

VERDICT: Final = "gerules_verdict"
"""The property of a test report (and of JUnit XML) that holds the verdict on a rule."""


class GerulesWarning(pytest.PytestWarning):
    """What `gerules check` warns of."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gerules", "rules of compute graphs")
    group.addoption("--gerules", action="store_true", help="Collect the examples in .rules files as tests.")
    group.addoption(
        "--gerules-verify", action="store_true", help="Prove or refute every rule too, as `gerules verify`."
    )
    group.addoption(
        "--gerules-trials", type=int, default=None, metavar="N", help="Trials for each member of a rule (200)."
    )
    group.addoption(
        "--gerules-seconds", type=float, default=None, metavar="S", help="How long a rule may take; else unknown."
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gerules: examples in rule files, and verdicts on rules (--gerules)")
    options = config.option
    if options.gerules_trials is not None and options.gerules_trials < 1:
        raise pytest.UsageError(f"--gerules-trials {options.gerules_trials}: at least one is needed")
    if options.gerules_seconds is not None and not (isfinite(options.gerules_seconds) and options.gerules_seconds > 0):
        raise pytest.UsageError(f"--gerules-seconds {options.gerules_seconds}: this is no time; as 20")
    if options.gerules or options.gerules_verify:
        config.pluginmanager.register(_RuleTests(config), "gerules-rules")


class _RuleTests:
    """The hooks that are there only when rule files are asked for."""

    def __init__(self, config: pytest.Config) -> None:
        self._rules = _Rules(config)

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        if file_path.suffix != ".rules":
            return None
        made: RulesFile = RulesFile.from_parent(parent, path=file_path)
        made.rules = self._rules
        return made

    def pytest_report_header(self) -> str | None:
        if not self._rules.verifies:
            return None
        from gerules.verify.assess import prover_available

        return None if prover_available() else "gerules: z3 is not installed, so nothing is proved"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        counts: dict[str, int] = {}
        for status in ("passed", "failed", "skipped"):
            for report in terminalreporter.getreports(status):
                for name, value in getattr(report, "user_properties", ()):
                    if name == VERDICT:
                        counts[value] = counts.get(value, 0) + 1
        if counts:
            said = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
            terminalreporter.write_line(f"gerules: {said}")

    def pytest_unconfigure(self) -> None:
        self._rules.close()


# ------------------------------------------------------------------------------------------------------------ the rules


@dataclass
class _Rules:
    """The rule files below the arguments of the run, read together once, as `gerules check` reads them."""

    config: pytest.Config
    _verifier: Verifier | None = None

    @property
    def verifies(self) -> bool:
        return bool(self.config.option.gerules_verify)

    def of(self, path: Path) -> _FileRules:
        """What is in one file."""
        if path.resolve() not in self._given:
            self._add(path)
        source = self._given[path.resolve()]
        return _FileRules(source.display, self._settled)

    @cached_property
    def _given(self) -> dict[Path, RuleSource]:
        """Rule files by where they lie."""
        from gerules.dsl.program import user_sources
        from gerules.errors import GerulesError

        found: dict[Path, RuleSource] = {}
        for argument in self.config.args:
            root = self._base / argument.partition("::")[0]
            try:
                sources = user_sources(root) if root.is_dir() or root.suffix == ".rules" else ()
            except GerulesError:
                continue  # a folder without rule files
            for source in sources:
                if not self._is_ignored(source.path, root):
                    found.setdefault(source.path.resolve(), self._shown(source))
        return found

    def _add(self, path: Path) -> None:
        """A file that is collected though no argument leads to it."""
        from gerules.dsl.program import user_sources

        self._given[path.resolve()] = self._shown(user_sources(path)[0])
        self.__dict__.pop("_settled", None)

    @property
    def _base(self) -> Path:
        return self.config.invocation_params.dir

    def _shown(self, source: RuleSource) -> RuleSource:
        near = source.path.resolve().is_relative_to(self._base.resolve())
        shown = relpath(source.path.resolve(), self._base.resolve()) if near else str(source.path)
        return replace(source, shown=Path(shown).as_posix())

    def _is_ignored(self, path: Path, root: Path) -> bool:
        """Whether pytest leaves the file out: by `--ignore`, `collect_ignore`, `norecursedirs`."""
        between = [path, *(p for p in path.parents if p != root and p.is_relative_to(root))]
        ignored = self.config.hook.pytest_ignore_collect
        return any(ignored(collection_path=p, path=None, config=self.config) for p in between)

    @cached_property
    def _settled(self) -> _Settled:
        """The program of all files that can be read, and what is wrong. A file with errors is left out of it, and
        what rests on that file then has errors of its own."""
        from gerules.pipeline.checking import read_checked

        left = list(self._given.values())
        faults: list[Diagnostic] = []
        while True:
            program, found = read_checked(left)
            errors = [d for d in found if d.severity == "error"]
            broken = {_file_of(d) for d in errors}
            if not errors:
                return _Settled(program, tuple(left), tuple(faults), tuple(found))
            if faults:  # these files were well as long as the others were read with them
                gone = ", ".join(dict.fromkeys(name for d in faults if (name := _file_of(d)) is not None))
                errors = [replace(d, hint=f"what {gone} declares is not known, since it has errors") for d in errors]
            faults += errors
            kept = [s for s in left if s.display not in broken]
            if len(kept) == len(left):  # errors of no file are errors of all
                faults += [replace(e, file=s.display) for e in errors for s in left]
                kept = []
            left = kept

    def verifier(self) -> Verifier:
        """Made when the first rule is verified."""
        if self._verifier is None:
            from gerules.verify.assess import Settings, prover_available
            from gerules.verify.registry import TRIALS, home_of, is_shipped, nearest, shipped_verdicts_path
            from gerules.verify.run import Request, Verifier

            options = self.config.option
            given = [
                (s, shipped_verdicts_path() if is_shipped(s.path) else nearest(s.path) or home_of(s.path))
                for s in self._settled.sources
            ]
            settings = Settings(options.gerules_trials or TRIALS, 0, prover_available())
            self._verifier = Verifier(given, Request((), seconds=options.gerules_seconds, settings=settings))
        return self._verifier

    def close(self) -> None:
        if self._verifier is not None:
            self._verifier.close()


@dataclass(frozen=True)
class _Settled:
    """All files read: the program of `sources`, errors of the files that are not among them, warnings."""

    program: Program
    sources: tuple[RuleSource, ...]
    faults: tuple[Diagnostic, ...]
    warnings: tuple[Diagnostic, ...]

    @cached_property
    def examples(self) -> Examples:
        from gerules.verify.examples import Examples

        return Examples(self.program)

    @cached_property
    def texts(self) -> Mapping[str, str]:
        return self.program.sources


@dataclass(frozen=True)
class _FileRules:
    """What is in one file, by the name that messages use for it."""

    name: str
    settled: _Settled

    def faults(self) -> list[Diagnostic]:
        return [d for d in self.settled.faults if _file_of(d) == self.name]

    def warnings(self) -> list[Diagnostic]:
        return [d for d in self.settled.warnings if _file_of(d) == self.name]

    def examples(self) -> Iterator[tuple[str, Entry[ast.Example]]]:
        for entry in self.settled.program.examples:
            if entry.file.path == self.name:
                yield f"{entry.ruleset}.{entry.statement.name}", entry

    def rules(self) -> Iterator[tuple[str, str, int]]:
        """Kind, full name and line of every statement that has a verdict."""
        from gerules.verify.keys import statements

        for kind, full, entry in statements(self.settled.program):
            if entry.file.path == self.name:
                yield kind, full, entry.statement.span.line


def _file_of(diagnostic: Diagnostic) -> str | None:
    return diagnostic.span.file if diagnostic.span is not None else diagnostic.file


# ------------------------------------------------------------------------------------------------------------ the nodes


class RulesFile(pytest.File):
    """A rule file. One that cannot be read is an error of collection, with the diagnostics of `gerules check`."""

    rules: _Rules

    def collect(self) -> Iterator[pytest.Collector]:
        from gerules.report import render

        found = self.rules.of(self.path)
        faults = found.faults()
        if faults:
            raise self.CollectError(render(faults, found.settled.texts).rstrip())
        for warning in found.warnings():
            self.warn(GerulesWarning(render([warning], found.settled.texts).rstrip()))
        groups: dict[str, list[tuple[str, Any]]] = {}
        for full, example in found.examples():
            groups.setdefault(full, []).append(("example", example))
        if self.rules.verifies:
            for kind, full, line in found.rules():
                groups.setdefault(full, []).append((kind, line))
        for full in sorted(groups, key=lambda name: min(_line(what) for _, what in groups[name])):
            yield Rule.made(self, full, groups[full], found.settled)


def _line(what: Any) -> int:
    return what if isinstance(what, int) else int(what.statement.span.line)


class Rule(pytest.Collector):
    """The tests of one rule: its examples, then its verdict."""

    @classmethod
    def made(cls, file: RulesFile, full: str, tests: Sequence[tuple[str, Any]], settled: _Settled) -> Rule:
        made: Rule = cls.from_parent(file, name=full)
        made.tests, made.settled, made.rules = tests, settled, file.rules
        return made

    tests: Sequence[tuple[str, Any]]
    settled: _Settled
    rules: _Rules

    def collect(self) -> Iterator[pytest.Item]:
        examples = [what for kind, what in self.tests if kind == "example"]
        for number, entry in enumerate(examples, 1):
            line = entry.statement.span.line
            item: Example = Example.from_parent(self, name=f"example {number} (line {line})")
            item.line, item.entry, item.settled = line, entry, self.settled
            yield item
        verified = [(kind, line) for kind, line in self.tests if kind != "example"]
        for kind, line in verified:
            name = "verify" if len(verified) == 1 else f"verify ({kind})"
            rule: Verdict = Verdict.from_parent(self, name=name)
            rule.line, rule.kind, rule.rules, rule.settled = line, kind, self.rules, self.settled
            yield rule


@dataclass
class _Fault(Exception):
    """What is wrong, with the instances that show it."""

    diagnostics: Sequence[Diagnostic]
    witnesses: Sequence[str] = field(default_factory=tuple)


class _RuleTest(pytest.Item):
    line: int
    settled: _Settled

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_marker("gerules")

    @property
    def full(self) -> str:
        assert self.parent is not None
        return self.parent.name

    def text(self, diagnostics: Sequence[Diagnostic], witnesses: Sequence[str] = ()) -> str:
        """As `gerules check` prints it."""
        from gerules.report import render

        return "\n".join([render(diagnostics, self.settled.texts).rstrip(), *witnesses])

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, _Fault):
            return self.text(excinfo.value.diagnostics, excinfo.value.witnesses)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.line - 1, f"{self.full} {self.name}"


class Example(_RuleTest):
    """An example: it is run in an e-graph and in numbers."""

    entry: Entry[ast.Example]

    def runtest(self) -> None:
        result = self.settled.examples.one(self.full, self.entry)
        if result.status == "failed":
            raise _Fault([result.diagnostic] if result.diagnostic is not None else [])
        if result.status == "not yet":
            pytest.skip(result.diagnostic.message if result.diagnostic is not None else "it is not yet run")


class Verdict(_RuleTest):
    """A rule: refuted is a failure, unknown is skipped, everything else passes."""

    kind: str
    rules: _Rules

    def runtest(self) -> None:
        outcome = self._outcome()
        self.user_properties.append((VERDICT, outcome.verdict.status))
        self.user_properties.append(("gerules_detail", outcome.verdict.detail))
        found = outcome.diagnostics()
        if any(d.severity == "error" for d in found):
            from gerules.verify.witness import describe

            witnesses = [describe(c.witness) for c in outcome.verdict.cases if c.witness is not None]
            raise _Fault(found, witnesses)
        if outcome.verdict.status == "unknown":
            pytest.skip(found[0].message)

    def _outcome(self) -> Outcome:
        from gerules.errors import GerulesError

        try:
            return self.rules.verifier().outcome(self.kind, self.full)
        except GerulesError as error:  # a registry of verdicts that cannot be read
            raise _Fault(error.diagnostics) from None
