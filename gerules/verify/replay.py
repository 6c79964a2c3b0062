"""Running witnesses again: as they were found, or from the files that hold them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gerules.errors import Diagnostic, GerulesError
from gerules.simulate.faults import SimulationFault
from gerules.verify.judge import differ
from gerules.verify.outcome import Refutation, Refuted
from gerules.verify.plan import CasePlan
from gerules.verify.sides import Array, Side, run_side
from gerules.verify.source import SmallSource
from gerules.verify.stored import Stored, parse_line, shown, text_of
from gerules.verify.witness import Witness, from_json, unreadable


@dataclass(frozen=True)
class Ran:
    """What a side gave when it was run: its results, or why there are none."""

    values: tuple[object, ...] = ()
    failure: str = ""

    def __str__(self) -> str:
        return f"fails: {self.failure}" if self.failure else ", ".join(map(_value, self.values))


@dataclass(frozen=True)
class Judged:
    """Both sides run by one judge: `simulator` or `onnxruntime`. `difference` is empty where they agree; `unable` says
    why this judge has nothing to say."""

    judge: str
    left: Ran = Ran()
    right: Ran = Ran()
    difference: str = ""
    unable: str = ""


@dataclass(frozen=True)
class Replay:
    """What became of a replay. The simulator decides; other judges are there to be compared with."""

    name: str
    finding: str
    inputs: tuple[Stored, ...]
    judged: tuple[Judged, ...]

    @property
    def differs(self) -> bool:
        """Whether the sides differ still."""
        return bool(self.judged[0].difference)

    @property
    def text(self) -> str:
        """The replay for a terminal."""
        lines = [self.name, *(f"  {i}" for i in self.inputs)]
        for judged in self.judged:
            if judged.unable:
                lines.append(f"{judged.judge}: cannot run this: {judged.unable}")
                continue
            lines.append(f"{judged.judge}: {judged.difference or 'the sides agree'}")
            lines += [f"  left   {judged.left}", f"  right  {judged.right}"]
        return "\n".join(lines)

    def data(self) -> dict[str, Any]:
        """The replay as plain data."""
        judged = [
            {
                "judge": j.judge,
                "left": str(j.left),
                "right": str(j.right),
                "difference": j.difference,
                "unable": j.unable,
            }
            for j in self.judged
        ]
        return {"witness": self.name, "finding": self.finding, "differs": self.differs, "judges": judged}


def confirm(witness: Witness | None) -> bool:
    """Whether a witness shows what it says when its sides are run once more, by themselves."""
    if witness is None:
        return False
    left, right = (_run_side(side, witness.arrays) for side in (witness.left, witness.right))
    if left.failure or (bool(right.failure) != (witness.right_value is None)):
        return False
    if differ(left.values[0], witness.left_value.array(), True) is not None:
        return False
    return bool(_difference(left, right, witness.bitwise))


def replay_witness(witness: Witness, name: str = "") -> Replay:
    """Both sides of a witness on its inputs, by the simulator and, where it is installed, by onnxruntime."""
    from gerules.verify.pair import side_model

    left, right = (_run_side(side, witness.arrays) for side in (witness.left, witness.right))
    judged = [Judged("simulator", left, right, _difference(left, right, witness.bitwise))]
    if find_spec("onnxruntime") is not None:
        models = [
            side_model(side, witness.inputs, value, witness.left_value, word)
            for side, value, word in (
                (witness.left, witness.left_value, "left"),
                (witness.right, witness.right_value, "right"),
            )
        ]
        judged.append(_by_onnxruntime(models, witness.arrays, witness.bitwise))
    return Replay(name or witness.case, witness.reason, witness.inputs, tuple(judged))


def replay(path: str | Path) -> Replay:
    """Runs a witness from its JSON, or a pair from either of its files as it is now.

    Raises GerulesError: GR585 for a file that is no witness, GR587 where the other file of the pair is missing.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as fault:
        reason = fault.strerror or type(fault).__name__
        raise GerulesError(
            Diagnostic("GR585", f"cannot read the witness: {reason}", file=str(path), hint="check the path")
        ) from None
    if path.suffix == ".json":
        try:
            return replay_witness(from_json(json.loads(data), str(path)), str(path))
        except (json.JSONDecodeError, UnicodeDecodeError) as fault:
            raise unreadable(str(path), f"this is no witness: {fault}") from None
    return _replay_pair(path)


def from_model(plan: CasePlan, model: object, draws: int = 600) -> Refutation | None:
    """A refutation in the neighbourhood of what the prover found: sizes of its model for dimensions and numbers of the
    rule's names, the rest small. None where none of the draws refutes; then the model does not replay."""
    from gerules.verify.pinned import PinnedPlan, Pins, pinned_plans

    values = {n: v for n, v in model.items() if isinstance(v, int)} if isinstance(model, Mapping) else {}
    near = PinnedPlan(plan.case, plan.known, plan.context, plan.words, plan.samples, pins=Pins({}, values))
    for place, candidate in enumerate((near, *pinned_plans(plan), plan)):
        for number in range(draws if place == 0 else draws // 2):
            outcome = candidate.trial(SmallSource(number))
            if isinstance(outcome, Refuted):
                return outcome.refutation
    return None


# ------------------------------------------------------------------------------------------------------------ a pair


_WORD = re.compile(r"\.(left|right)\.onnx(txt)?$")


def _replay_pair(path: Path) -> Replay:
    from gerules.graph.reading import TEXT_SUFFIXES

    match = _WORD.search(path.name)
    if match is None:
        hint = "give NAME.left.onnxtxt, NAME.right.onnxtxt or NAME.json"
        raise GerulesError(Diagnostic("GR585", "the name is not that of a witness", file=str(path), hint=hint))
    stem = path.name[: match.start()]
    files = [_partner(path, stem, word) for word in ("left", "right")]
    inputs: dict[str, Stored] = {}
    bitwise, found = True, ""
    for file in files:
        for line in _comments(file) if file.suffix in TEXT_SUFFIXES else ():
            if line.startswith("input "):
                try:
                    stored = parse_line(line.removeprefix("input "))
                except ValueError as fault:
                    raise unreadable(str(file), str(fault)) from None
                inputs.setdefault(stored.name, stored)
            bitwise = bitwise and line != "compare: tolerance"
            found = line.removeprefix("found: ") if line.startswith("found: ") else found
    models = [_model(file) for file in files]
    arrays = {name: stored.array() for name, stored in inputs.items()}
    left, right = (_simulated(model, arrays) for model in models)
    judged = [Judged("simulator", left, right, _difference(left, right, bitwise))]
    if find_spec("onnxruntime") is not None:
        judged.append(_by_onnxruntime(models, arrays, bitwise))
    return Replay(str(path), found, tuple(inputs.values()), tuple(judged))


def _partner(path: Path, stem: str, word: str) -> Path:
    """The file of the pair for a side, in whichever format it was written."""
    for suffix in ("onnxtxt", "onnx"):
        candidate = path.parent / f"{stem}.{word}.{suffix}"
        if candidate.is_file():
            return candidate
    missing = path.parent / f"{stem}.{word}.onnxtxt"
    hint = "a witness is a pair: keep its two files in one folder"
    raise GerulesError(Diagnostic("GR587", f"the {word} side of the pair is missing", file=str(missing), hint=hint))


def _comments(file: Path) -> list[str]:
    """The lines of comments at the top of a text file."""
    lines: list[str] = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return lines


def _model(file: Path) -> Any:
    from gerules.graph.reading import read_proto

    return read_proto(file)


def _simulated(model: Any, arrays: Mapping[str, Array]) -> Ran:
    from gerules.simulate import Simulator

    try:
        _check_signs(model, arrays)
        simulator = Simulator(model, kernels="reference")
        made = simulator.run({n: a for n, a in arrays.items() if n in simulator.inputs})
    except SimulationFault as fault:
        return Ran(failure=fault.diagnostics[0].message)
    return Ran(tuple(made.values()))


def _check_signs(model: Any, arrays: Mapping[str, Array]) -> None:
    """Raises NodeFault where a node counts from the end at a version that does not admit it."""
    from onnx import numpy_helper

    from gerules.simulate.schema import find_schema, python_attribute
    from gerules.verify.admitted import check_signs

    opsets = {o.domain: o.version for o in model.opset_import}
    known = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer} | dict(arrays)
    for node in model.graph.node:
        schema = find_schema(node.domain, node.op_type, opsets.get(node.domain, 1))
        if schema is not None and schema.raw is not None:
            attributes = {a.name: python_attribute(a) for a in node.attribute if not a.HasField("g")}
            check_signs(node.domain, node.op_type, schema.since, attributes, [known.get(i) for i in node.input])


# -------------------------------------------------------------------------------------------------------- both judges


def _run_side(side: Side, arrays: Mapping[str, Array]) -> Ran:
    try:
        return Ran(tuple(run_side(side, arrays)))
    except SimulationFault as fault:
        return Ran(failure=fault.diagnostics[0].message)


def _by_onnxruntime(models: Sequence[Any], arrays: Mapping[str, Array], bitwise: bool) -> Judged:
    """The same by onnxruntime. A side that it cannot load leaves it without a say."""
    from gerules.simulate.ort import run_onnxruntime

    ran: list[Ran] = []
    for model in models:
        names = {i.name for i in model.graph.input}
        feeds = {n: a for n, a in arrays.items() if n in names}
        try:
            ran.append(Ran(tuple(run_onnxruntime(model, feeds).values())))
        except Exception as fault:  # whatever it raises is its verdict on the model
            ran.append(Ran(failure=" ".join(str(fault).split())[:160] or type(fault).__name__))
    left, right = ran
    if left.failure:
        return Judged("onnxruntime", unable=left.failure)
    if right.failure and _NOT_BUILT.search(right.failure):
        return Judged("onnxruntime", unable=right.failure)
    return Judged("onnxruntime", left, right, _difference(left, right, bitwise))


_NOT_BUILT = re.compile(r"NOT_IMPLEMENTED|INVALID_GRAPH|INVALID_ARGUMENT|Unexpected input data type|FAIL : ")


def _difference(left: Ran, right: Ran, bitwise: bool) -> str:
    """How the sides differ, empty where they agree. Two that fail agree."""
    if left.failure or right.failure:
        if left.failure and right.failure:
            return ""
        word, other = ("left", "right") if left.failure else ("right", "left")
        return f"the {word} side fails where the {other} does not"
    if len(left.values) != len(right.values):
        return f"{len(left.values)} results on the left, {len(right.values)} on the right"
    for a, b in zip(left.values, right.values, strict=True):
        fault = differ(a, b, bitwise)
        if fault is not None:
            return _told(a, b, fault.index, fault.reason)
    return ""


def _told(left: object, right: object, index: tuple[int, ...] | None, reason: str) -> str:
    if index is None or not isinstance(left, np.ndarray) or not isinstance(right, np.ndarray):
        return f"the sides differ: {reason}"
    a, b = (Stored.of("v", np.asarray(v[index])).values[0] for v in (left, right))
    where = f"element {list(index)}" if left.shape else "the one element"
    return f"{where} is {text_of(a)} on the left, {text_of(b)} on the right"


def _value(value: object) -> str:
    if not isinstance(value, np.ndarray):
        return "absent" if value is None else str(value)[:120]
    stored = Stored.of("v", value)
    return f"{stored.type_text} = {shown(stored.values, stored.shape)}"
