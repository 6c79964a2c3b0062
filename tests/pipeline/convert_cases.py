"""The one-operator models of the installed onnx package, each converted to other opsets and held against its outputs.

The models lie at the version of their operator; those of older versions are not in the package.
"""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from report_judge import session

from gerules.errors import GerulesError
from gerules.pipeline.converting import convert_bytes

TARGETS = (7, 8, 9, 10, 11, 12, 13, 15, 17, 18, 19, 21, 23, 26)
RANDOM = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli"}
)
RTOL, ATOL = 1e-3, 1e-5


@dataclass(frozen=True)
class Case:
    """One model with the values of its inputs and the right ones of its outputs."""

    name: str
    model: onnx.ModelProto
    data: Sequence[tuple[Mapping[str, Any], Sequence[Any]]]

    @property
    def opset(self) -> int:
        return next(i.version for i in self.model.opset_import if i.domain == "")


@cache
def cases() -> tuple[Case, ...]:
    """All cases that run at their own opset in onnxruntime, or else in onnx.reference, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        found = collect_testcases(None)
    made = []
    for case in sorted(found, key=lambda c: c.name):
        model = case.model
        if any(n.domain or n.op_type in RANDOM for n in model.graph.node) or any(i.domain for i in model.opset_import):
            continue
        names = [v.name for v in model.graph.input]
        data = [
            (
                {
                    n: v if isinstance(v, list) or v is None else np.asarray(v)
                    for n, v in zip(names, given, strict=False)
                },
                want,
            )
            for given, want in case.data_sets
        ]
        made.append(Case(case.name, model, data))
    return tuple(made)


def sample(count: int, seed: int) -> list[tuple[Case, int]]:
    """Some pairs of a case and a target, drawn with a seed: each operator before any a second time."""
    draw = random.Random(seed)
    every = list(cases())
    draw.shuffle(every)
    seen: Counter[str] = Counter()
    keyed = []
    for case in every:
        operator = case.model.graph.node[0].op_type
        keyed.append((seen[operator], case))
        seen[operator] += 1
    keyed.sort(key=lambda pair: pair[0])
    return [(case, draw.choice([t for t in TARGETS if t != case.opset])) for _, case in keyed[:count]]


def verdict(case: Case, target: int) -> tuple[str, str]:
    """`ok`, `refused`, `invalid`, `wrong` or `unrun`, with the reason."""
    try:
        model = onnx.load_from_string(convert_bytes(case.model.SerializeToString(), target))
    except GerulesError as error:
        return "refused", str(error)
    if interface(model) != interface(case.model):
        return "invalid", "another interface"
    if valid(case.model) is None and (fault := valid(model)) is not None:
        return "invalid", fault
    found = outcome(model, case)
    if found != "same" and outcome(case.model, case) != "same":
        return "unrun", found
    return ("ok", "") if found == "same" else ("wrong", found)


def interface(model: onnx.ModelProto) -> list[tuple[str, int]]:
    return [(v.name, v.type.tensor_type.elem_type) for v in [*model.graph.input, *model.graph.output]]


def valid(model: onnx.ModelProto) -> str | None:
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # the checker raises several kinds
        return str(error)[:200]
    return None


def outcome(model: onnx.ModelProto, case: Case) -> str:
    """`same` where onnxruntime, or else onnx.reference, gives the right outputs."""
    said = ""
    for make in (_runtime, _reference):
        try:
            run = make(model)
            differ = [i for i, (feeds, want) in enumerate(case.data) if not _same(run(feeds), want)]
        except Exception as error:  # no kernel
            said = said or f"{type(error).__name__}: {str(error)[:120]}"
            continue
        if not differ:
            return "same"
        said = f"{make.__name__}: data set {differ[0]} differs"
    return said


def _runtime(model: onnx.ModelProto) -> Any:
    made = session(model)
    names = {i.name for i in made.get_inputs()}
    return lambda feeds: made.run(None, {k: v for k, v in feeds.items() if k in names})


def _reference(model: onnx.ModelProto) -> Any:
    made = ReferenceEvaluator(model)
    return lambda feeds: made.run(None, dict(feeds))


def _same(got: Any, want: Any) -> bool:
    if isinstance(want, (list, tuple)):
        return isinstance(got, (list, tuple)) and len(got) == len(want) and all(map(_same, got, want))
    if want is None or got is None:
        return want is None and got is None
    one, other = np.asarray(got), np.asarray(want)
    if one.shape != other.shape:
        return False
    if other.dtype.kind in "OUS":
        return [str(x) for x in one.ravel().tolist()] == [str(x) for x in other.ravel().tolist()]
    if other.dtype.kind in "biu":
        return bool(np.array_equal(one, other))
    if other.dtype.kind not in "fc":
        one, other = one.astype(np.float64), other.astype(np.float64)
    return bool(np.allclose(one, other, rtol=RTOL, atol=ATOL, equal_nan=True))
