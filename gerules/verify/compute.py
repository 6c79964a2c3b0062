"""Operators of a draw in numbers: results by reference kernels, and whether the operator takes such operands at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from gerules.egraph.signature import RESULTS, Signature
from gerules.egraph.texts import dtype_number, format_value, node_texts
from gerules.graph import constants
from gerules.graph.constants import ConstantTable
from gerules.graph.dims import Dim
from gerules.graph.dtypes import is_tensor, name_of_numpy
from gerules.graph.infer import infer_node, refusal
from gerules.graph.info import Info
from gerules.simulate import evaluate_node
from gerules.simulate.faults import node_fault
from gerules.simulate.kernel import REFERENCE
from gerules.simulate.kernels.passing import passing_bodies
from gerules.simulate.plan import Body
from gerules.simulate.schema import OWN_DOMAIN
from gerules.simulate.values import normalise
from gerules.static import TensorView
from gerules.verify.admitted import check_signs
from gerules.verify.sides import RECORDER

LARGEST = 600
"""Elements of a drawn value at most."""
FAR = 64
"""Whole numbers above this may be extents that nobody can compute with: they are looked at first."""
NO_TABLE = ConstantTable()


class TooLarge(Exception):
    """Results are larger than can be computed, or that is not known."""


@lru_cache(maxsize=50_000)
def plain_view(dtype: str, shape: tuple[int, ...]) -> TensorView:
    return TensorView(Info(dtype, tuple(map(Dim.of, shape)) if is_tensor(dtype) else None))


def view(value: object) -> TensorView | None:
    """What a rule may ask of a tensor: its type and shape. Contents are known of constants alone, and those are
    columns of their own."""
    if value is None:
        return None
    if isinstance(value, np.ndarray):
        return plain_view(name_of_numpy(value.dtype), value.shape)
    if isinstance(value, list):
        inner = view(value[0]) if value else None
        return TensorView(Info(f"seq({inner.info.dtype if inner is not None else 'f32'})", None))
    return TensorView(Info("?", None))


def compute(signature: Signature, operands: Sequence[object], columns: Sequence[object]) -> list[object]:
    """The results of an operator on operands and attribute values. Raises NodeFault, SimulationFault."""
    definition = signature.newest
    values, results = attribute_values(signature, columns)
    domain, name, since = definition.domain, definition.name, int(definition.since)

    def evaluate() -> list[object]:
        check_signs(domain, name, since, values, operands)
        bodies = _bodies(name, since, values, operands, results) if wants_body(signature) else None
        found = evaluate_node(domain, name, since, values, operands, results, kernels=REFERENCE, bodies=bodies)
        return [r if isinstance(r, (np.ndarray, list)) or r is None else normalise(r) for r in found]

    recorder = RECORDER.get()
    if recorder is None:
        return evaluate()
    return recorder.run((domain, name, since, False), values, operands, results, evaluate)


def wants_body(signature: Signature) -> bool:
    """Whether every node of the operator has a body of its own."""
    return any(a.required and a.type == "graph" for a in signature.newest.attributes)


def _bodies(
    name: str, since: int, values: Mapping[str, object], operands: Sequence[object], results: int
) -> Mapping[str, Body]:
    """Bodies for a drawn node, which pass on what they are given. Raises NodeFault where none fit it."""
    try:
        return passing_bodies(name, since, values, operands, results)
    except ValueError as error:
        raise node_fault(name, name, "", str(error)) from error


def attribute_values(signature: Signature, columns: Sequence[object]) -> tuple[dict[str, object], int]:
    """Attributes as the simulator takes them, and the number of results."""
    values: dict[str, object] = {}
    results = 1
    for attribute, value in zip(signature.attributes, columns, strict=True):
        if attribute.name == RESULTS and signature.several:
            results = int(value)  # type: ignore[call-overload]
        elif value is not None:
            kind = signature.kind(attribute.name)
            if kind == "dtype":
                value = dtype_number(str(value))
            elif kind == "tensor":
                value = constants.decode(str(value), NO_TABLE)
            values[attribute.name] = value
    return values, results


def far(value: object) -> bool:
    """Whether an operand or an attribute holds numbers that could be extents nobody can compute with."""
    if isinstance(value, np.ndarray):
        if value.size == 1 and value.dtype.kind in "uif":
            # One number of any type may be an extent: the depth of OneHot, a limit of Range.
            return bool((np.abs(value.astype(np.float64)) > FAR).any())
        if value.dtype.name not in ("int64", "int32") or not 0 < value.size <= 16:
            return False
        if bool((value > FAR).any() or (value < -FAR).any()):
            return True
        # Extents that are small one by one.
        return value.size > 2 and float(np.maximum(value, 1).astype(np.float64).prod()) > 20 * LARGEST
    if isinstance(value, tuple):
        return any(isinstance(v, int) and not -FAR <= v <= FAR for v in value)
    return isinstance(value, int) and not -FAR <= value <= FAR


def measure(signature: Signature, operands: Sequence[object], columns: Sequence[object], known: bool = True) -> None:
    """Raises TooLarge where results are larger than can be computed, and (`known`) where that is not known."""
    if signature.newest.domain == OWN_DOMAIN:
        raise TooLarge
    texts, results = texts_of(signature, columns)
    for info in infer_node(signature.newest, texts, infos_of(operands), results):
        size = info.size()
        count = size.value if size is not None else None
        if known if count is None else count > 20 * LARGEST:
            raise TooLarge


def infos_of(values: Sequence[object]) -> list[Info | None]:
    """What is known of values, with their contents where they are few numbers."""
    found: list[Info | None] = []
    for value in values:
        seen = view(value)
        if isinstance(value, np.ndarray) and value.dtype.kind in "iuf" and value.ndim <= 1 and value.size <= 16:
            found.append(Info.of_array(value, NO_TABLE))
        else:
            found.append(None if seen is None else seen.info)
    return found


def texts_of(signature: Signature, columns: Sequence[object]) -> tuple[dict[str, str], int]:
    """Attribute texts of a node, and the number of its results."""
    texts: list[str] = []
    results = 1
    for attribute, value in zip(signature.attributes, columns, strict=True):
        if attribute.name == RESULTS and signature.several:
            results = int(value)  # type: ignore[call-overload]
        kind = signature.kind(attribute.name)
        texts.append("" if value is None else str(value) if kind in ("dtype", "tensor") else format_value(kind, value))
    return node_texts(signature, texts), results


def inadmissible(signature: Signature, operands: Sequence[object], columns: Sequence[object]) -> str | None:
    """Why ONNX's inference rejects an operator on these operands; None where it does not."""
    if signature.newest.domain == OWN_DOMAIN or wants_body(signature):
        return None  # inference asks the body of a node, which is drawn beside it
    texts, results = texts_of(signature, columns)
    return refusal(signature.newest, texts, infos_of(operands), results)
