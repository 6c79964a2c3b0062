"""Constant folding: the simulator's value of an operator on constants, within a size bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gerules.egraph.host import Run
from gerules.egraph.signature import RESULTS, Signature
from gerules.egraph.texts import dtype_number, format_value, node_texts
from gerules.graph import constants
from gerules.graph.infer import infer_node
from gerules.graph.info import Info


def fold(
    run: Run, signature: Signature, operands: Sequence[object], attributes: Mapping[str, object]
) -> tuple[str, ...] | None:
    """Constant texts of the results; None where the operator fails on these operands or the results are too large.

    Results may be as large as the bound of the run, or as all operands together: folding never makes a model much
    larger. `attributes` are values as rules see them (element types by name).
    """
    arrays = [o if isinstance(o, np.ndarray) else None for o in operands]
    while arrays and arrays[-1] is None:
        arrays.pop()
    bound = max(run.fold_bytes, sum(a.nbytes for a in arrays if a is not None))
    if not _small(signature, arrays, attributes, bound, run):
        return None
    values: dict[str, object] = {}
    for name, value in attributes.items():
        if value is None or name == RESULTS:
            continue
        kind = signature.kind(name)
        if kind == "dtype":
            value = dtype_number(str(value))
        values[name] = constants.decode(str(value), run.constants) if kind == "tensor" else value
    results = attributes.get(RESULTS, 1)
    assert isinstance(results, int)
    from gerules.simulate import evaluate_node

    definition = signature.newest
    try:
        with np.errstate(all="ignore"):
            found = evaluate_node(definition.domain, definition.name, int(definition.since), values, arrays, results)
    except Exception:  # the operator rejects these operands: then the graph fails there, and folding is not for us
        return None
    if any(not isinstance(r, np.ndarray) for r in found) or sum(r.nbytes for r in found) > bound:
        return None
    return tuple(constants.encode(r, run.constants) for r in found)


def _small(
    signature: Signature,
    arrays: Sequence[np.ndarray | None],
    attributes: Mapping[str, object],
    bound: int,
    run: Run,
) -> bool:
    """Whether the results, as far as their types are known beforehand, stay within the bound."""
    infos = [None if a is None else Info.of_constant(constants.encode(a, run.constants)) for a in arrays]
    texts = node_texts(signature, [_column(signature, a.name, attributes) for a in signature.attributes])
    for info in infer_node(signature.newest, texts, infos):
        size = info.size() if info is not None else None
        if size is not None and size.value is not None and size.value > bound:
            return False
    return True


def _column(signature: Signature, name: str, attributes: Mapping[str, object]) -> str:
    value = attributes.get(name)
    if value is None:
        return ""
    kind = signature.kind(name)
    return str(value) if kind in ("dtype", "tensor") else format_value(kind, value)
