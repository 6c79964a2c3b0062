"""At which sizes a model is validated: two bindings of its symbolic dimensions at which it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final

import numpy as np
import onnx_ir as ir

from gerules.graph.dims import Dim, DimFacts
from gerules.simulate.engine import Simulator
from gerules.simulate.faults import NodeFault, SimulationFault, fault
from gerules.simulate.inputs import PROFILES, binding_names, input_specs, make_inputs
from gerules.simulate.opaque import OpaqueValues
from gerules.simulate.values import Value

WANTED: Final = 2  # bindings by default
MAX_TRIES: Final = 240
_SEEDS: Final = (0, 1)  # two, as inputs may take one branch or another
_STEPS: Final = (8, 16, 32, 64)
_LONG: Final = (8, 16, 32, 64, 128, 256, 512, 1024, 4096)
_POOL: Final = (1, 2, 3, 4, 8, 16, 32, 64)


def choose_bindings(
    model: ir.Model,
    promises: DimFacts | None = None,
    likely: Mapping[str, Sequence[int]] | None = None,
    at: Mapping[str, int] | None = None,
    *,
    simulator: Simulator | None = None,
) -> list[dict[str, int]]:
    """Sizes for validation: `at` where it gives them, else two bindings that keep the promises and at which the model
    runs: small and distinct sizes first, then sums, equal sizes, 1, multiples of 8 to 64, declared constants.

    A model without free dimensions gets `[{}]`, one whose dimensions are all given by `at` just these, both unrun.
    Raises `SimulationFault`: GR422 where `at` breaks a promise, GR423 where it names no dimension, GR424 where the
    model runs at no size that was tried.
    """
    facts = promises or DimFacts()
    fixed = dict(at or {})
    names = binding_names(input_specs(model))
    for name in fixed:
        if name not in names:
            known = ", ".join(names) or "none"
            raise fault("GR423", f"no input has a dimension {name}", node=name, hint=f"dimensions are: {known}")
    broken = facts.violated(fixed)
    if broken:
        raise fault("GR422", f"the sizes given by --at break the promise `{broken[0]}`")
    if all(name in fixed for name in names):
        return [{name: fixed[name] for name in names}]
    runner = simulator or Simulator(model, opaque=OpaqueValues())
    found: list[dict[str, int]] = []
    weaker: list[dict[str, int]] = []
    failure: SimulationFault | None = None
    tried: set[tuple[int, ...]] = set()
    for binding in _candidates(names, facts, likely or {}, fixed, _declared_sizes(model)):
        key = tuple(binding[n] for n in names)
        if key in tried:
            continue
        tried.add(key)
        error = _failure(runner, binding, _SEEDS[0])
        if error is None:
            (weaker if _failure(runner, binding, _SEEDS[1]) else found).append(binding)
        elif failure is None:
            failure = error
        if len(found) == WANTED or len(tried) >= MAX_TRIES:
            break
    found = found or weaker[:WANTED]
    if not found:
        free = " ".join(f"--at {n}=SIZE" for n in names if n not in fixed)
        reason = failure.diagnostics[0].message if failure is not None else "the promises admit none that was tried"
        raise fault(
            "GR424",
            f"the model runs at none of the {len(tried)} bindings of {', '.join(names)} that were tried: {reason}",
            hint=f"say at which sizes it runs: {free}",
        )
    return found


def runnable_inputs(
    simulator: Simulator,
    binding: Mapping[str, int],
    seed: int,
    ranges: Mapping[str, tuple[int, int] | Sequence[int]] | None = None,
) -> tuple[dict[str, Value], dict[str, Value], NodeFault | None]:
    """Feeds at which the model runs, its outputs there, and None; where no profile of integers makes it run, the
    first feeds, nothing, and the reason why it fails at them. An opaque policy is left as the last run left it."""
    first: tuple[dict[str, Value], NodeFault] | None = None
    for profile in range(len(PROFILES)):
        feeds = make_inputs(simulator.model, binding, seed, ranges, profile=profile)
        if first is not None and _same(feeds, first[0]):
            continue
        if simulator.opaque is not None:
            simulator.opaque.clear()
        try:
            return feeds, simulator.run(feeds), None
        except NodeFault as error:
            first = first or (feeds, error)
    assert first is not None
    return first[0], {}, first[1]


def _same(a: Mapping[str, Value], b: Mapping[str, Value]) -> bool:
    return all(np.array_equal(a[n], b[n]) if isinstance(a[n], np.ndarray) else False for n in a)


def _failure(runner: Simulator, binding: Mapping[str, int], seed: int) -> SimulationFault | None:
    if runner.opaque is not None:
        runner.opaque.binding = binding
    return runnable_inputs(runner, binding, seed)[2]


def _declared_sizes(model: ir.Model) -> list[int]:
    """Sizes that the model states anywhere at its border, smallest first."""
    sizes: set[int] = set()
    for value in (*model.graph.inputs, *model.graph.outputs):
        sizes.update(d for d in value.shape or () if isinstance(d, int) and 1 < d <= 512)
    return sorted(sizes)


def _candidates(
    names: Sequence[str],
    facts: DimFacts,
    likely: Mapping[str, Sequence[int]],
    fixed: Mapping[str, int],
    declared: Sequence[int],
) -> Iterator[dict[str, int]]:
    """Bindings of all names that keep the promises, most wanted first. Sizes are chosen for the symbols that remain
    when the promised equations are put in."""
    normal = {name: facts.normal(Dim.symbol(name)) for name in names}
    free: list[str] = []
    for name in names:
        if name not in fixed:
            free.extend(s for s in normal[name].symbols() if s not in free and s not in fixed)
    ranges = [facts.symbol_range(symbol) for symbol in free]
    # Where the promises leave nothing free there is one binding.
    for wanted in _wishes(names, free, likely, declared) if free else [[]]:
        sizes = [_clamp(size, *bounds) for size, bounds in zip(wanted, ranges, strict=True)]
        values = {**dict(zip(free, sizes, strict=True)), **fixed}
        binding = {n: fixed[n] if n in fixed else normal[n].evaluate(values) for n in names}
        if min(binding.values()) >= 0 and not facts.violated(binding):
            yield binding


def _clamp(size: int, low: int, high: int | None) -> int:
    if size < low:
        size = low + size % 7
    if high is not None and size > high:
        size = high - (size % (min(high - low, 7) + 1))
    return size


def _wishes(
    names: Sequence[str], free: Sequence[str], likely: Mapping[str, Sequence[int]], declared: Sequence[int]
) -> Iterator[list[int]]:
    count = len(free)
    distinct = [2 + i for i in range(count)]
    yield distinct
    yield [3 + (count - 1 - i) for i in range(count)]
    # One size that is the sum of two others: a mask over past and present.
    for base in (distinct, [3 + i for i in range(count)]):
        for position in range(count):
            for a, b in combinations([i for i in range(count) if i != position], 2):
                wish = list(base)
                wish[position] = wish[a] + wish[b]
                yield wish
    for size in (2, 3):
        yield [size] * count
    # Sizes that go through strided layers: multiples, the first dimension (the batch) small, then 1.
    for first in (2, 1):
        for step in _STEPS:
            yield [first, *[step] * (count - 1)] if count > 1 else [step]
            yield [first, *[step * (1 + i) for i in range(1, count)]] if count > 1 else [step * 2]
    yield [1, *distinct[1:]]
    yield [1, *[3 + i for i in range(1, count)]]
    # One dimension that is long (samples, tokens) or of a size declared elsewhere, the others equal (a batch that
    # states share), then distinct.
    for others in (2, 3, 1):
        for position in range(count):
            for size in (1, *_LONG, *declared):
                yield [size if i == position else others for i in range(count)]
    for position in range(count):
        for size in (1, *_LONG, *declared):
            yield [size if i == position else distinct[i] for i in range(count)]
    for size in (1, *_STEPS, *declared):
        yield [size] * count
    if likely:
        yield [int(next(iter(likely[s]), 2)) if s in likely else 2 for s in free]
    generator = np.random.default_rng(0)
    pool = (*_POOL, *declared)
    for _ in range(MAX_TRIES):
        yield [int(pool[i]) for i in generator.integers(0, len(pool), count)]
