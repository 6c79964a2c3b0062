"""How a host function is declared, coerced and called.

A function is pure and total up to `Unknown`. Coercion follows the declared type, so that a function sees ints, extents
and tuples, never arrays. One of extents alone that gives an extent is taken element by element where it gets lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gerules.graph.dims import Dim, DimFacts
from gerules.static import elements
from gerules.static.values import (
    TensorView,
    Unknown,
    Value,
    elementwise,
    extent,
    is_number,
    listed,
    plain,
    show,
    whole,
)

Extents = tuple[int | Dim | None, ...]
_SIGNATURE = re.compile(r"(\w+)\((.*)\) -> (\w+)")


@dataclass(frozen=True)
class HostFunction:
    """A function with its declared signature. `call` takes the coerced arguments, after the facts if `asks`."""

    name: str
    params: tuple[tuple[str, str], ...]  # name, type; a last type may end with `*`
    result: str
    call: Callable[..., Value]
    asks: bool = False
    symbolic: bool = False  # ints and int may hold dimensions too
    builtin: bool = False  # part of the language, not declared in a file

    @property
    def signature(self) -> str:
        return f"{self.name}({', '.join(f'{n}: {t}' for n, t in self.params)}) -> {self.result}"

    def bind(self, facts: DimFacts) -> Callable[..., Value]:
        """The function of raw values, against these facts. Raises Unknown on operands of another kind."""
        coercions, star = self._coercions()
        least = len(self.params) - (1 if star else 0)
        call, name, asks, lifted = (
            self.call,
            self.name,
            self.asks,
            self.result == "dim" and all(t == "dim" for _, t in self.params),
        )

        def invoke(*arguments: Value) -> Value:
            if len(arguments) < least or (star is None and len(arguments) > least):
                raise Unknown(f"`{name}` takes {least} operands, not {len(arguments)}")
            given = [coerce(a) for coerce, a in zip(coercions, arguments, strict=False)]
            if star is not None:
                given += [star(a) for a in arguments[least:]]
            answer = call(facts, *given) if asks else call(*given)
            if answer is None and self.result == "bool":
                raise Unknown(f"`{name}` has no answer yet")
            return answer

        if not lifted:
            return invoke
        if len(self.params) == 1:
            return lambda a: elementwise(lambda x, _: invoke(x), a, 0)
        return lambda a, b: elementwise(invoke, a, b)

    def _coercions(self) -> tuple[list[Callable[[Value], Value]], Callable[[Value], Value] | None]:
        table = {**_COERCE, "int": _COERCE["dim"], "ints": _COERCE["shape"]} if self.symbolic else _COERCE
        *fixed, last = [t for _, t in self.params] or ["any*"]
        if last.endswith("*"):
            return [table[t] for t in fixed], table[last[:-1]]
        return [table[t] for t in (*fixed, last)], None


def _dtype(value: Value) -> Value:
    if not isinstance(value, str) or value not in elements.ELEMENTS:
        raise Unknown(f"{show(value)} is not an element type")
    return value


def _shape(value: Value) -> Value:
    return tuple(None if v is None else extent(v) for v in listed(value))


def _mask(value: Value) -> Value:
    if not isinstance(value, frozenset):
        raise Unknown(f"{show(value)} is not a set of axes")
    return frozenset(whole(v, "an axis") for v in value)


def _tensor(value: Value) -> Value:
    if not isinstance(value, TensorView):
        raise Unknown(f"{show(value)} is not a tensor")
    return value


def _floats(value: Value) -> Value:
    if not all(is_number(v) for v in listed(value)):
        raise Unknown(f"{show(value)} is not a list of numbers")
    return listed(value)


def _text(value: Value) -> Value:
    if not isinstance(value, str):
        raise Unknown(f"{show(value)} is not a text")
    return value


_COERCE: Mapping[str, Callable[[Value], Value]] = {
    "dtype": _dtype,
    "int": whole,
    "ints": lambda value: tuple(whole(v, "an entry") for v in listed(value)),
    "dim": extent,
    "shape": _shape,
    "mask": _mask,
    "value": _tensor,
    "str": _text,
    "floats": _floats,
    "any": plain,
}

FUNCTIONS: dict[str, HostFunction] = {}
"""Filled when the modules with the functions are imported."""


def host(
    signature: str, *, asks: bool = False, symbolic: bool = False, builtin: bool = False
) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Registers a function under its signature, as rule files declare it."""
    match = _SIGNATURE.fullmatch(signature)
    assert match, signature
    name, inside, result = match.groups()
    params = [part.split(": ") for part in inside.split(", ")]

    def register(call: Callable[..., Value]) -> Callable[..., Value]:
        assert name not in FUNCTIONS, name
        FUNCTIONS[name] = HostFunction(name, tuple((n, t) for n, t in params), result, call, asks, symbolic, builtin)
        return call

    return register
