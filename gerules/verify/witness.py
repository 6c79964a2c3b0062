"""A counterexample that can be held: the instance, both sides as they were computed, and the element that differs.

A witness stands on its own: it runs without the rule that it refutes, and reads back from JSON as it was written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from gerules.dsl.show import show_rewrite
from gerules.errors import Diagnostic, GerulesError
from gerules.verify.outcome import Refutation, Refuted
from gerules.verify.sides import Array, Node, Recorder, Side, recording
from gerules.verify.source import ReplaySource
from gerules.verify.stored import Stored, bits_of, parse_line, plain, shown, text_of
from gerules.verify.trials import CasePlan

FORMAT = "gerules witness 1"


@dataclass(frozen=True)
class Witness:
    """One instance on which the sides of a rule differ.

    `inputs` are the operands that the rule leaves open, `statics` what it reads of attributes and contents, as text.
    `left_value` and `right_value` are what the sides gave; `right_value` is None where the right side fails. `index` is
    the first element that differs, None where types or extents do. `choices` are the decisions of the draw.
    """

    rule: str
    case: str
    text: str
    exactness: str
    inputs: tuple[Stored, ...]
    statics: tuple[tuple[str, str], ...]
    left: Side
    right: Side
    left_value: Stored
    right_value: Stored | None
    index: tuple[int, ...] | None
    reason: str
    choices: tuple[int, ...] = ()
    shrunk: bool = False

    @property
    def bitwise(self) -> bool:
        """Whether the sides have to agree to the bit."""
        return self.exactness in ("", "bitwise")

    @property
    def arrays(self) -> dict[str, Array]:
        """The inputs by name."""
        return {i.name: i.array() for i in self.inputs}

    @property
    def short(self) -> str:
        """The finding in one line."""
        given = ", ".join([*map(str, self.inputs), *(f"{n} = {v}" for n, v in self.statics)])
        return f"{finding(self)} for {given}" if given else finding(self)

    @property
    def elements(self) -> int:
        """The most elements that one of the tensors of the instance has."""
        sides = [s for s in (self.left_value, self.right_value) if s is not None]
        constants = [*self.left.constants, *self.right.constants]
        return max((len(t.values) for t in (*self.inputs, *constants, *sides)), default=0)


def witness_of(plan: CasePlan, refutation: Refutation) -> Witness | None:
    """The witness of a refutation, by running it once more; None where it does not come out again."""
    with recording(Recorder()) as recorder:
        outcome = plan.trial(ReplaySource(refutation.choices))
    if not isinstance(outcome, Refuted):
        return None
    found = outcome.refutation
    names = {id(v): n for n, v in found.statics.items() if isinstance(v, np.ndarray)}
    recorder.name({**found.operands}, names)
    if not isinstance(found.left, np.ndarray):
        return None
    fails = found.right is None and recorder.failed
    if not fails and not isinstance(found.right, np.ndarray):
        return None
    left, right = recorder.side(found.left), recorder.side(None if fails else found.right)
    used = {o for side in (left, right) for node in side.nodes for o in node.operands} | {*left.results, *right.results}
    inputs = tuple(Stored.of(n, a) for n, a in recorder.leaves.items() if n in used)
    case = found.case
    return Witness(
        case.rule,
        case.label,
        show_rewrite(case.statement),
        case.exactness,
        inputs,
        tuple((n, _static(v)) for n, v in found.statics.items() if n.isidentifier() and not n.endswith("_")),
        left,
        right,
        Stored.of("left", found.left),
        None if fails else Stored.of("right", found.right),  # type: ignore[arg-type]
        found.index,
        found.reason,
        found.choices,
        refutation.shrunk,
    )


def _static(value: object) -> str:
    """A value as the language writes it."""
    if isinstance(value, np.ndarray):
        stored = Stored.of("v", value)
        return shown(stored.values, stored.shape)
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_static, value))}]"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_static, value)))}}}"
    if value is None:
        return "none"
    info = getattr(value, "info", None)
    if info is not None:
        return str(info)
    return text_of(value) if isinstance(value, bool | int | float | str) else str(getattr(value, "key", value))


# ------------------------------------------------------------------------------------------------------- for people


def describe(witness: Witness, most: int = 100) -> str:
    """The witness for a terminal: the instance, what each side is on it, where they differ.

    Lines but the first end at `most`.
    """
    lines = [f"{witness.case}: {finding(witness)}"]
    lines += [f"  {stored}" for stored in witness.inputs]
    lines += [f"  {name} = {value}" for name, value in witness.statics]
    for word, side, value in (
        ("left ", witness.left, witness.left_value),
        ("right", witness.right, witness.right_value),
    ):
        gives = f"{value.type_text} = {shown(value.values, value.shape)}" if value is not None else side.failure
        lines.append(f"  {word}  {term(side)}")
        lines.append(f"         {'gives' if value is not None else 'fails:'} {gives}")
    if not witness.shrunk:
        lines.append("  (as it was found: hypothesis, which makes it smaller, is not installed)")
    return "\n".join(lines[:1] + [line if len(line) <= most else line[: most - 3] + "..." for line in lines[1:]])


def finding(witness: Witness) -> str:
    """What is wrong, in one clause."""
    left, right = witness.left_value, witness.right_value
    if right is None:
        return f"the right side fails ({witness.right.failure})"
    if left.dtype != right.dtype or left.shape != right.shape:
        return f"the left side is {left.type_text}, the right side {right.type_text}"
    if witness.index is None:
        return f"the sides differ: {witness.reason}"
    place = int(np.ravel_multi_index(witness.index, left.shape)) if left.shape else 0
    a, b = left.values[place], right.values[place]
    where = f"element {list(witness.index)}" if left.shape else "the one element"
    same = text_of(a) == text_of(b) or {text_of(a), text_of(b)} == {"0.0", "-0.0"}
    bits = f" (bits {bits_of(a, left.dtype)} and {bits_of(b, left.dtype)})" if same and left.dtype != "str" else ""
    return f"{where} is {text_of(a)} on the left, {text_of(b)} on the right{bits}"


def term(side: Side) -> str:
    """A side as a term of the language: `Slice@13(x, s, e)`."""
    texts: dict[str, str] = {}
    for constant in side.constants:
        texts[constant.name] = f"const({shown(constant.values, constant.shape)})"
    for node in side.nodes:
        operands = [texts.get(o, o) or "none" for o in node.operands]
        keywords = [f"{n}={_attribute(v)}" for n, v in node.attributes.items() if v is not None]
        domain = f"{node.domain}." if node.domain else ""
        call = f"{domain}{node.op}@{node.since}({', '.join([*operands, *keywords])})"
        for place, result in enumerate(node.results):
            texts[result] = f"{call}[{place}]" if len(node.results) > 1 else call
    return ", ".join(texts.get(r, r) or "none" for r in side.results)


def _attribute(value: object) -> str:
    if isinstance(value, np.ndarray):
        return _static(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_attribute, value))}]"
    return text_of(value)


# ---------------------------------------------------------------------------------------------------------- as JSON


def to_json(witness: Witness) -> dict[str, Any]:
    """The witness as plain data. Numbers that JSON has no word for are `NaN`, `Infinity` and `-Infinity`."""
    return {
        "format": FORMAT,
        "rule": witness.rule,
        "case": witness.case,
        "text": witness.text,
        "exactness": witness.exactness,
        "finding": finding(witness),
        "inputs": [s.line() for s in witness.inputs],
        "statics": dict(witness.statics),
        "left": _side_data(witness.left),
        "right": _side_data(witness.right),
        "left_value": witness.left_value.line(),
        "right_value": None if witness.right_value is None else witness.right_value.line(),
        "index": None if witness.index is None else list(witness.index),
        "reason": witness.reason,
        "choices": list(witness.choices),
        "shrunk": witness.shrunk,
    }


def _side_data(side: Side) -> dict[str, Any]:
    nodes = [
        {
            "op": f"{n.domain}.{n.op}@{n.since}" if n.domain else f"{n.op}@{n.since}",
            "attributes": {k: _attribute_data(v) for k, v in n.attributes.items()},
            "operands": list(n.operands),
            "results": list(n.results),
            **({"body": True} if n.body else {}),
        }
        for n in side.nodes
    ]
    constants = [c.line() for c in side.constants]
    return {"nodes": nodes, "constants": constants, "results": list(side.results), "failure": side.failure}


def _attribute_data(value: object) -> Any:
    if isinstance(value, np.ndarray):
        return {"tensor": Stored.of("value", value).line()}
    if isinstance(value, tuple | list):
        return [_attribute_data(v) for v in value]
    if isinstance(value, float) and not isfinite(value):
        return {"float": repr(float(value))}  # JSON has no word for it
    return plain(value, "i64") if isinstance(value, np.integer) else value


def from_json(data: object, file: str = "") -> Witness:
    """The witness that `to_json` gave. Raises GerulesError (GR585) for anything else."""
    try:
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise ValueError(f"it does not say `{FORMAT}`")
        index = data["index"]
        right = data["right_value"]
        return Witness(
            str(data["rule"]),
            str(data["case"]),
            str(data["text"]),
            str(data["exactness"]),
            tuple(map(parse_line, data["inputs"])),
            tuple((str(n), str(v)) for n, v in data["statics"].items()),
            _side_of(data["left"]),
            _side_of(data["right"]),
            parse_line(data["left_value"]),
            None if right is None else parse_line(right),
            None if index is None else tuple(int(i) for i in index),
            str(data["reason"]),
            tuple(int(c) for c in data["choices"]),
            bool(data["shrunk"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        what = f"{type(fault).__name__} {fault}" if isinstance(fault, KeyError) else str(fault)
        raise unreadable(file, f"this is no witness: {what}") from fault


def unreadable(file: str, message: str) -> GerulesError:
    return GerulesError(
        Diagnostic("GR585", message, file=file or None, hint="`gerules verify` writes witnesses; write it anew")
    )


def _side_of(data: Mapping[str, Any]) -> Side:
    return Side(
        tuple(map(_node_of, data["nodes"])),
        tuple(map(parse_line, data["constants"])),
        tuple(str(r) for r in data["results"]),
        str(data["failure"]),
    )


def _node_of(data: Mapping[str, Any]) -> Node:
    name, _, since = str(data["op"]).rpartition("@")
    domain, _, op = name.rpartition(".")
    attributes = {str(k): _attribute_of(v) for k, v in data["attributes"].items()}
    operands, results = (tuple(str(v) for v in data[key]) for key in ("operands", "results"))
    return Node(domain, op, int(since), attributes, operands, results, bool(data.get("body", False)))


def _attribute_of(value: Any) -> object:
    if isinstance(value, Mapping):
        return float(value["float"]) if "float" in value else parse_line(value["tensor"]).array()
    return tuple(map(_attribute_of, value)) if isinstance(value, list) else value


def dumps(witness: Witness) -> str:
    """The JSON text of a witness, one field a line."""
    return json.dumps(to_json(witness), indent=1, ensure_ascii=False) + "\n"


def save(witness: Witness, folder: str | Path, name: str | None = None) -> tuple[Path, Path, Path]:
    """Writes the witness as a runnable pair and as JSON into a folder: `gerules.verify.pair.write_pair`."""
    from gerules.verify.pair import write_pair

    return write_pair(witness, folder, name)
