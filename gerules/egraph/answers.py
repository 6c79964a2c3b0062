"""Texts in, texts out: how a rule's host calls read their arguments and write their answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from gerules.dsl import ast
from gerules.egraph import host as hosting
from gerules.egraph.host import NO, Host
from gerules.egraph.query import Query
from gerules.egraph.terms import Binding, Carried, Column, Known, Many, Misfit, Tensor
from gerules.egraph.texts import as_array, format_value, parse_value
from gerules.graph import constants
from gerules.graph.dims import Dim
from gerules.graph.info import Entries, Info, Uniform
from gerules.static import Step, TensorView, Unknown, run_steps


class Arguments:
    """The variables of a rule as texts of one host call, and how to read them back."""

    def __init__(self, query: Query, names: Sequence[str]) -> None:
        self.atoms: list[str] = []
        self.terms: list[str] = []
        self.kinds: list[str] = []
        self.fixed: dict[str, object] = {}
        self.readers: list[tuple[str, Callable[[Sequence[object]], object]]] = []
        before = len(query.atoms)
        for name in names:
            self._add(query, name, query.env[name])
        self.atoms = query.atoms[before:]

    def _add(self, query: Query, name: str, bound: Binding) -> None:
        if isinstance(bound, Known):
            self.fixed[name] = bound.value
            return
        place = self._place(query, bound, name)
        self.readers.append((name, place))

    def _place(self, query: Query, bound: Binding, name: str) -> Callable[[Sequence[object]], object]:
        if isinstance(bound, Many):
            inner = [self._place(query, b, name) for b in bound.items]
            return lambda values: tuple(read(values) for read in inner)
        if isinstance(bound, Carried):
            if bound.vector is not None:
                operands = [self._vector(query, bound)]
                rest = operands[0]
            else:
                inner = [self._place(query, t, name) for t in bound.operands]

                def rest(values: Sequence[object]) -> object:
                    return tuple(v for read in inner if (v := read(values)) is not None)

            columns = {a: self._place(query, c, name) for a, c in bound.attributes.items()}
            return lambda values: RestValue(rest(values), {a: of(values) for a, of in columns.items()})
        if isinstance(bound, Tensor):
            if bound.term == "(Absent)":
                return lambda values: None
            return self._text(query.info(bound.term), "info")
        if isinstance(bound, Column):
            return self._text(bound.term, bound.kind)
        raise Misfit(f"`{name}` is a node; its results are tensors", ast.Name(name))

    def _vector(self, query: Query, bound: Carried) -> Callable[[Sequence[object]], object]:
        column = query.fresh("q")
        length = query.fresh("l")
        query.atoms += [f"(arity {bound.vector} {length})", f"(= {column} (infos {bound.vector} {length}))"]
        fixed = [self._place(query, t, "") for t in bound.operands]
        read = self._text(column, "infos")

        def values_of(values: Sequence[object]) -> object:
            listed = read(values)
            assert isinstance(listed, tuple)
            return (*(f(values) for f in fixed), *listed)

        return values_of

    def _text(self, term: str, kind: str) -> Callable[[Sequence[object]], object]:
        known = list(zip(self.terms, self.kinds, strict=True))
        if (term, kind) not in known:
            known.append((term, kind))
            self.terms.append(term)
            self.kinds.append(kind)
        place = known.index((term, kind))
        return lambda values: values[place]

    def call(self, symbol: str) -> str:
        terms = [f"(to-string {t})" if k == "index" else t for t, k in zip(self.terms, self.kinds, strict=True)]
        return hosting.call(symbol, terms)


class RestValue(tuple):  # type: ignore[type-arg]
    """A carried rest as a value: its operands, with the attributes beside them."""

    attributes: Mapping[str, object]

    def __new__(cls, operands: object, attributes: Mapping[str, object]) -> RestValue:
        made = super().__new__(cls, operands)  # type: ignore[arg-type]
        made.attributes = attributes
        return made


Prepare = Callable[[Sequence[str]], "dict[str, object] | None"]


def preparation(arguments: Arguments, steps: Sequence[Step], host: Host) -> Prepare:
    """Texts -> the environment in which all conditions hold, or None. The last few answers are kept: the outputs of
    one match ask one after the other."""
    readers, kinds, fixed = arguments.readers, tuple(arguments.kinds), arguments.fixed
    kept: dict[Sequence[str], dict[str, object] | None] = {}
    kept_for: list[hosting.Run] = []

    def prepare(texts: Sequence[str]) -> dict[str, object] | None:
        run = host.current
        if not kept_for or kept_for[0] is not run:
            kept.clear()
            kept_for[:] = [run]
        if texts in kept:
            return kept[texts]
        try:
            values = [read(kind, text, run) for kind, text in zip(kinds, texts, strict=True)]
            env: dict[str, object] | None = dict(fixed)
            assert env is not None
            for name, of in readers:
                env[name] = of(values)
            if not run_steps(steps, env):
                env = None
        except Unknown:
            env = None
        if len(kept) > 64:
            kept.clear()
        kept[texts] = env
        return env

    return prepare


def read(kind: str, text: str, run: hosting.Run) -> object:
    """A column's text as a value of static expressions."""
    if kind == "info":
        return view(text, run)
    if kind == "infos":
        return tuple(view(part, run) for part in text.split(hosting.SEPARATOR)[1:])
    if kind == "const":
        return None if text == hosting.ABSENT else constants.decode(text, run.constants)
    if kind == "index":
        return int(text)
    if kind == "dtype":
        return text or None
    return parse_value(kind, text) if text else None


_VIEWS: dict[str, TensorView] = {}


def view(text: str, run: hosting.Run) -> TensorView | None:
    """What is known of a tensor, as rules see it; None for the absent one."""
    if text == hosting.ABSENT:
        return None
    made = _VIEWS.get(text)
    if made is None:
        info = Info.parse(text)
        content = info.constant_text
        if content is None:
            made = TensorView(info)
        else:
            made = TensorView(info, constants.decode(content, run.constants))
            if "#" in content:
                return made
        if len(_VIEWS) > 100_000:
            _VIEWS.clear()
        _VIEWS[text] = made
    return made


_Encoder = Callable[[object, object, Mapping[str, object], object], str]


def encoder(kind: str, host: Host) -> _Encoder:
    """How a computed value (with its element type, the environment, a shape) becomes the text of its column."""
    if kind == "const":
        return lambda value, dtype, env, shape: constants.encode(_array(value, dtype), host.current.constants)
    if kind == "splat":

        def splat(value: object, dtype: object, env: Mapping[str, object], shape: object) -> str:
            array = _array(value, dtype)
            if array.size != 1:
                raise Unknown("a splat has one element")
            text = constants.encode(array.reshape(()), host.current.constants)
            entries = known_entries(shape)
            if any(d.value is not None and d.value < 0 for d in entries):
                raise Unknown("an extent is negative")
            return str(Info(constants.dtype_and_shape(text)[0], entries, Uniform(text)))

        return splat
    if kind == "dims":
        return lambda value, dtype, env, shape: str(
            Info(str(dtype), (Dim.of(len(known_entries(value))),), Entries(_held(known_entries(value), str(dtype))))
        )
    if kind == "dim":
        return lambda value, dtype, env, shape: str(
            Info(str(dtype), (), Entries(_held((extent_of(value),), str(dtype))))
        )
    if kind == "info-shape":
        return _info_encoder(lambda info, value: Info(info.dtype, entries_of(value)), host)
    if kind == "info-dims":
        return _info_encoder(_with_entries, host)
    if kind == "info-dim":
        return _info_encoder(
            lambda info, value: Info(info.dtype, (), Entries(fitting((extent_of(value),), info.dtype))), host
        )
    if kind == "dtype":
        return lambda value, dtype, env, shape: str(value)
    return lambda value, dtype, env, shape: format_value(kind, value)


def encode_output(kind: str, host: Host, value: object, dtype: object, shape: object) -> str:
    """The text of one computed piece of a right side. Raises Unknown where the value does not fit its place."""
    return encoder(kind, host)(value, dtype, {}, shape)


def _array(value: object, dtype: object) -> np.ndarray:
    if dtype is None and not isinstance(value, np.ndarray):
        raise Unknown("the element type of this constant is not known")
    return as_array(value, dtype)


def _with_entries(info: Info, value: object) -> Info:
    entries = entries_of(value)
    return Info(info.dtype, (Dim.of(len(entries)),), Entries(fitting(entries, info.dtype)))


def fitting(entries: Sequence[Dim | None], dtype: str) -> tuple[Dim | None, ...]:
    """Entries as an element type holds them: a number beyond its range would have wrapped, and is not known."""
    if not re.fullmatch(r"[iu]\d+", dtype):
        return tuple(entries)
    bits = int(dtype[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype[0] == "i" else (0, (1 << bits) - 1)
    return tuple(None if d is None or (d.value is not None and not low <= d.value <= high) else d for d in entries)


def _held(entries: Sequence[Dim], dtype: str) -> tuple[Dim | None, ...]:
    """Entries of a tensor that is to be made. Raises Unknown where one is beyond the range of its type."""
    held = fitting(entries, dtype)
    if None in held:
        raise Unknown(f"an entry is beyond the range of {dtype}")
    return held


def _info_encoder(change: Callable[[Info, object], Info], host: Host) -> _Encoder:
    """What a fact adds to what is known; `NO` where it adds nothing."""
    merge = hosting.joined(host)

    def encode(value: object, dtype: object, env: Mapping[str, object], shape: object) -> str:
        known = env["root_"]
        assert isinstance(known, TensorView)
        old = str(known.info)
        new = merge(old, str(change(known.info, value)))
        return NO if new == old else new

    return encode


def extent_of(value: object) -> Dim:
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if isinstance(value, Dim):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Dim.of(value)
    raise Unknown("this is no dimension")


def entries_of(value: object) -> tuple[Dim | None, ...]:
    if isinstance(value, np.ndarray):
        value = tuple(value.tolist())
    if not isinstance(value, tuple):
        raise Unknown("this is no shape")
    return tuple(None if v is None else extent_of(v) for v in value)


def known_entries(value: object) -> tuple[Dim, ...]:
    entries = tuple(e for e in entries_of(value) if e is not None)
    if len(entries) < len(entries_of(value)):
        raise Unknown("a dimension is not known")
    return entries
