"""Work in processes of its own: a rule that hangs or crashes loses its process, and the next goes on.

A unit is some cases of one rule, or a statement that is no rewrite; its results depend on nothing but the rule and the
settings, so the number of processes and the order of units change nothing but the time.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from gerules.dsl.program import RuleSource, load_program
from gerules.egraph.program import Knowledge, knowledge
from gerules.errors import Diagnostic, InternalFault
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify.assess import Settings, Tools, assess_case, assess_law
from gerules.verify.case import Case, cases_of
from gerules.verify.verdict import CaseVerdict


@dataclass(frozen=True)
class Unit:
    """The cases `first` to `last` (exclusive) of a rewrite, or all of a statement of another kind (`last` 0)."""

    kind: str
    full: str
    first: int = 0
    last: int = 0


class Work(Protocol):
    """What is done with a unit, as a value that another process can have."""

    def __call__(self, known: Knowledge, unit: Unit) -> Iterator[Any]: ...


Done = Callable[[Unit, Sequence[Any], str], None]
"""Is told of each unit that is through: what was found, and why it ended early ("" for it did not, "time", "crash")."""


@dataclass
class Verifying:
    """The verdicts of one unit, one by one."""

    settings: Settings
    tools: Tools
    _cases: dict[str, list[Case]] = field(default_factory=dict)
    """Those of the rule last seen."""

    def __call__(self, known: Knowledge, unit: Unit) -> Iterator[CaseVerdict]:
        if unit.kind != "rewrite":
            yield from assess_law(known, unit.kind, unit.full, self.settings, self.tools)
            return
        if unit.full not in self._cases:
            self._cases.clear()
            self._cases[unit.full] = list(cases_of(known, known.program.rewrites[unit.full]))
        for case in self._cases[unit.full][unit.first : unit.last]:
            yield assess_case(case, known, self.settings, self.tools)


def run_here(known: Knowledge, units: Sequence[Unit], work: Work, done: Done) -> None:
    """All units one after the other in this process: no limit of time, no protection."""
    for unit in units:
        done(unit, list(work(known, unit)), "")


@dataclass
class _Worker:
    process: Any
    link: Connection
    ready: bool = False
    """Whether it has read the rules: only then it is given something, and only then time counts."""
    unit: Unit | None = None
    started: float = 0.0
    found: list[Any] = field(default_factory=list)


@dataclass
class Pool:
    """Processes that take units. `seconds` is how long one rule may take in all, over its units; `keep` lets them wait
    for more after a run, until `close`."""

    sources: Sequence[RuleSource]
    work: Work
    jobs: int
    seconds: float | None
    done: Done
    keep: bool = False
    _workers: list[_Worker] = field(default_factory=list)
    _spent: dict[str, float] = field(default_factory=dict)

    def run(self, units: Sequence[Unit]) -> None:
        """Works through all units; ends every process it started, whatever happens, unless they are kept."""
        waiting = deque(units)
        whole = False
        try:
            for _ in range(min(self.jobs, len(waiting)) - len(self._workers)):
                self._workers.append(self._start())
            while waiting or any(w.unit is not None for w in self._workers):
                for worker in self._workers:
                    if worker.ready and worker.unit is None and waiting:
                        self._give(worker, waiting)
                self._collect()
            whole = True
        finally:
            if not (whole and self.keep):
                self.close()

    def close(self) -> None:
        """Ends all processes."""
        while self._workers:
            _end(self._workers.pop())

    def _start(self) -> _Worker:
        # Never forked: the e-graph engine has threads from the moment it is imported, and waits for them for ever in a
        # process that was copied without them.
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_work, args=(there, tuple(self.sources), self.work), daemon=True)
        with _deaf():
            process.start()
        there.close()
        return _Worker(process, here)

    def _give(self, worker: _Worker, waiting: deque[Unit]) -> None:
        unit = waiting.popleft()
        while self._left(unit) <= 0:
            self.done(unit, [], "time")
            if not waiting:
                return
            unit = waiting.popleft()
        worker.unit, worker.started, worker.found = unit, time.monotonic(), []
        worker.link.send(unit)

    def _left(self, unit: Unit) -> float:
        if self.seconds is None:
            return float("inf")
        return self.seconds - self._spent.get(unit.full, 0.0)

    def _collect(self) -> None:
        busy = [w for w in self._workers if w.unit is not None or not w.ready]
        if not busy:
            return
        now = time.monotonic()
        ends = [w.started + self._left(w.unit) - now for w in busy if w.unit is not None]
        nearest = min(ends, default=float("inf"))
        ready = wait([w.link for w in busy], None if nearest == float("inf") else max(0.0, nearest))
        for worker in busy:
            if worker.link in ready:
                self._receive(worker)
            elif worker.unit is not None and time.monotonic() - worker.started >= self._left(worker.unit):
                self._lost(worker, "time")

    def _receive(self, worker: _Worker) -> None:
        try:
            message = worker.link.recv()
        except (EOFError, OSError):
            if worker.unit is None:
                raise InternalFault(
                    Diagnostic("GR904", "a process that verifies rules ended before it began")
                ) from None
            self._lost(worker, "crash")
            return
        if not worker.ready:
            worker.ready = True
            return
        if message is not None:
            worker.found.append(message)
            return
        self._finish(worker, "")

    def _finish(self, worker: _Worker, ended: str) -> None:
        assert worker.unit is not None
        unit, found, worker.unit = worker.unit, worker.found, None
        self._spent[unit.full] = self._spent.get(unit.full, 0.0) + time.monotonic() - worker.started
        self.done(unit, found, ended)

    def _lost(self, worker: _Worker, why: str) -> None:
        """The process is gone, or has to go; another takes its place."""
        self._finish(worker, why)
        _end(worker)
        fresh = self._start()
        worker.process, worker.link, worker.ready = fresh.process, fresh.link, False


@contextmanager
def _deaf() -> Iterator[None]:
    """A process that is started inside does not hear Ctrl-C: it ends when this one says so, and has nothing to tell."""
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(worker: _Worker) -> None:
    worker.link.close()
    worker.process.terminate()
    worker.process.join(1.0)
    if worker.process.is_alive():
        worker.process.kill()
        worker.process.join()


def _work(link: Connection, sources: Sequence[RuleSource], work: Work) -> None:
    """What a process does: takes units until there are no more, sends each finding, then None."""
    # What NumPy thinks of extreme operands is no news to whoever reads the verdicts.
    warnings.simplefilter("ignore")
    known = knowledge(load_program(sources, onnx_registry(), known_functions()))
    # What is known stays; what a draw leaves behind has few cycles. Looking for them less often saves a tenth of all.
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)
    try:
        link.send(None)  # ready
        while True:
            unit = link.recv()
            for found in work(known, unit):
                link.send(found)
            link.send(None)
    except (EOFError, OSError, KeyboardInterrupt):
        os._exit(0)
    except BaseException:  # a Rust panic is no Exception; the other end sees that nobody answers, and says so
        os._exit(1)
