"""Random inputs of the shapes and types that a model admits, in ranges that its own nodes can take."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from gerules.graph.dims import Dim, DimError
from gerules.simulate.faults import fault
from gerules.simulate.kernel import stable_seed
from gerules.simulate.opaque import largest, random_array
from gerules.simulate.ranges import integer_ranges
from gerules.simulate.stated import value_type
from gerules.simulate.values import Array, Value, ValueType, is_integer, numpy_type

_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*\Z")
SEQUENCE_LENGTH: Final = 2  # elements of a random sequence

# How integers without a known range are drawn when a model fails at the first choice: (name, low, high).
# `rest` makes vectors that any number of elements fits as a target of Reshape: [1, 1, -1].
REST: Final = "rest"
PROFILES: Final = (("small", 0, 3), ("bits", 0, 1), ("ones", 1, 1), ("zeros", 0, 0), ("twos", 2, 2), (REST, 1, 1))


@dataclass(frozen=True, slots=True)
class InputSpec:
    """An input that a run must be given. `dims` are its sizes as polynomials over the binding's names, None where the
    rank is unknown; `default` says that an initializer gives it a value, so that it need not be fed."""

    name: str
    type: ValueType
    dims: tuple[Dim, ...] | None
    default: bool = False


def input_specs(model: ir.Model) -> list[InputSpec]:
    """The inputs of a model in order. A dimension that is no number is the symbol of its name if that is an
    identifier, the polynomial if it reads as one over identifiers (`past + sequence`), else one of its own, called
    `INPUT[AXIS]`. Raises `SimulationFault` (GR420) for an input without a type."""
    specs = []
    for value in model.graph.inputs:
        stated = value_type(value)
        name = str(value.name)
        if stated is None:
            raise fault("GR420", f"input {name} has no type", node=name, hint="give it one, as `f32[N, 3]`")
        dims = None
        if stated.shape is not None:
            dims = tuple(_dimension(d, name, axis) for axis, d in enumerate(stated.shape))
        specs.append(InputSpec(name, stated, dims, name in model.graph.initializers))
    return specs


def _dimension(stated: int | str | None, name: str, axis: int) -> Dim:
    if isinstance(stated, int) and stated >= 0:
        return Dim.of(stated)
    if isinstance(stated, str):
        if _IDENTIFIER.match(stated):
            return Dim.symbol(stated)
        try:
            found = Dim.parse(stated)
        except DimError:
            found = None
        if found is not None and all(_IDENTIFIER.match(s) for s in found.symbols()):
            return found
    return Dim.symbol(f"{name}[{axis}]")


def binding_names(specs: Sequence[InputSpec]) -> list[str]:
    """The names of all dimensions that a binding must give, in order of their first occurrence."""
    names: dict[str, None] = {}
    for spec in specs:
        if not spec.default:
            for dim in spec.dims or ():
                names.update(dict.fromkeys(dim.symbols()))
    return list(names)


def make_inputs(
    model: ir.Model,
    binding: Mapping[str, int],
    seed: int,
    ranges: Mapping[str, tuple[int, int] | Sequence[int]] | None = None,
    *,
    profile: int = 0,
) -> dict[str, Value]:
    """Random feeds: floats normal with deviation 1; integers in the range that the model's nodes can take (below the
    size of a table that they index, one of the constants that they are compared with or another), masks 0 or 1,
    others as `PROFILES[profile]` says; bool, strings; sequences of `SEQUENCE_LENGTH`; optional inputs present.

    `ranges` overrides: a pair (low, high), inclusive, or a longer list of admitted values. The same model, binding and
    seed give the same feeds. Raises `SimulationFault` (GR421) where the binding lacks a dimension.
    """
    specs = input_specs(model)
    derived = integer_ranges(model, binding)
    given = ranges or {}
    feeds: dict[str, Value] = {}
    for spec in specs:
        if spec.default and spec.name not in given:
            continue
        generator = np.random.default_rng(stable_seed(f"input {seed} {spec.name}"))
        choice = given.get(spec.name, derived.get(spec.name))
        count = SEQUENCE_LENGTH if "seq" in spec.type.wrap else None
        shape = _sizes(spec, binding)
        if count is None:
            if (
                choice is not None and len(choice) > 2 and not shape
            ):  # each in turn, so that two seeds take two branches
                choice = (choice[seed % len(choice)],) * 2
            feeds[spec.name] = _array(generator, spec, shape, choice, profile)
        else:
            feeds[spec.name] = [_array(generator, spec, shape, choice, profile) for _ in range(count)]
    return feeds


def _sizes(spec: InputSpec, binding: Mapping[str, int]) -> tuple[int, ...]:
    sizes = []
    for dim in spec.dims or ():
        try:
            sizes.append(max(dim.evaluate(binding), 0))
        except KeyError as error:
            name = str(error.args[0])
            message = f"dimension {name} of {spec.name} has no size"
            raise fault("GR421", message, node=spec.name, hint=f"--at {name}=2") from None
    return tuple(sizes)


def _array(generator: np.random.Generator, spec: InputSpec, shape: tuple[int, ...], choice: Any, profile: int) -> Array:
    dtype = numpy_type(spec.type.element)
    if choice is not None and (is_integer(dtype) or dtype.kind == "f"):
        low, high = choice[0], choice[-1]
        if len(choice) == 2 and low <= high:
            return np.asarray(generator.integers(low, high + 1, shape)).astype(dtype)
        return np.asarray(np.asarray(choice)[generator.integers(0, len(choice), shape)]).astype(dtype)
    name, low, high = PROFILES[profile]
    if name == REST and dtype == np.int64 and len(shape) == 1 and shape[0]:
        return np.array([1] * (shape[0] - 1) + [-1], dtype)
    if is_integer(dtype):
        if "mask" in spec.name.lower() and profile == 0:
            high = 1
        return random_array(generator, dtype, shape, min(low, largest(dtype)), high)
    return random_array(generator, dtype, shape)
