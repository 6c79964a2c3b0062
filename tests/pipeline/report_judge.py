"""The judge of reported cases: what a case asks of a result, token by token (`tests/data/reports/index.csv`).

Outputs are compared with the stored right ones in onnxruntime without its optimiser, else in onnx.reference.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper
from onnx.reference import ReferenceEvaluator

REPORTS = Path(__file__).parent.parent / "data" / "reports"


def load_value(data: Mapping[str, Any]) -> Any:
    if "sequence" in data:
        return [load_value(entry) for entry in data["sequence"]]
    if data["dtype"] == "string":
        return np.array(data["data"], dtype=object).reshape(data["shape"])
    items = [float(e) if isinstance(e, str) else e for e in data["data"]]
    return np.array(items, dtype=data["dtype"]).reshape(data["shape"])


def samples(name: str) -> list[dict[str, Any]]:
    path = REPORTS / f"{name}.samples.json"
    return json.loads(path.read_text())["samples"] if path.exists() else []


def session(model: onnx.ModelProto) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(model: onnx.ModelProto, inputs: Mapping[str, Any], reference: bool) -> dict[str, Any]:
    names = [o.name for o in model.graph.output]
    if not reference:
        try:
            return dict(zip(names, session(model).run(None, dict(inputs)), strict=True))
        except Exception:  # the runtime lacks a kernel
            pass
    return dict(zip(names, ReferenceEvaluator(model).run(None, dict(inputs)), strict=True))


def same(got: Any, want: Any) -> bool:
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(same, got, want))
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape or (want.dtype != object and got.dtype != want.dtype):
        return False
    if want.dtype == object:
        return [str(x) for x in got.ravel()] == [str(x) for x in want.ravel()]
    if want.dtype.kind == "f":
        return bool(np.allclose(got, want, rtol=1e-4, atol=1e-5, equal_nan=True))
    return bool(np.array_equal(got, want))


def all_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    stack: list[Any] = [model.graph, *model.functions]
    while stack:
        for node in stack.pop().node:
            yield node
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    stack.append(attribute.g)
                stack.extend(attribute.graphs)


def signature(model: onnx.ModelProto) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    given = {t.name for t in model.graph.initializer}
    return (
        [(i.name, i.type.tensor_type.elem_type) for i in model.graph.input if i.name not in given],
        [(o.name, o.type.tensor_type.elem_type) for o in model.graph.output],
    )


def holds(sign: str, have: int, want: int) -> bool:
    return {"<=": have <= want, ">=": have >= want, "=": have == want}[sign]


def shape_of(model: onnx.ModelProto, name: str) -> list[str]:
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    for value in (*inferred.output, *inferred.value_info, *inferred.input):
        if value.name == name:
            return [
                d.dim_param or (str(d.dim_value) if d.HasField("dim_value") else "?")
                for d in value.type.tensor_type.shape.dim
            ]
    raise AssertionError(f"{name} has no shape")


def judge_model(name: str, tokens: Sequence[str], before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    """Asserts what every token asks of a resulting model."""
    onnx.checker.check_model(after, full_check=True)
    reference = "runner=reference" in tokens
    for token in tokens:
        if token == "outputs":
            assert signature(before) == signature(after)
            for sample in samples(name):
                got = run(after, {k: load_value(v) for k, v in sample["inputs"].items()}, reference)
                for output, want in sample["outputs"].items():
                    assert same(got[output], load_value(want)), f"output {output} is wrong"
        elif found := re.fullmatch(r"nodes<=(\d+)", token):
            assert sum(n.op_type != "Constant" for n in all_nodes(after)) <= int(found[1])
        elif found := re.fullmatch(r"count:(\w+)(<=|>=|=)(\d+)", token):
            assert holds(found[2], sum(n.op_type == found[1] for n in all_nodes(after)), int(found[3]))
        elif found := re.fullmatch(r"shape:(\w+)=(.*)", token):
            have, want = shape_of(after, found[1]), found[2].split(",")
            assert len(have) == len(want) and all(w in ("?", h) for h, w in zip(have, want, strict=True)), have
        elif found := re.fullmatch(r"varies:(\w+)", token):
            inputs = {k: load_value(v) for k, v in samples(name)[0]["inputs"].items()}
            runner = session(after)
            first, second = (runner.run([found[1]], inputs)[0] for _ in range(2))
            assert not np.array_equal(first, second)
        elif found := re.fullmatch(r"differ:(\w+),(\w+)", token):
            for sample in samples(name):
                got = run(after, {k: load_value(v) for k, v in sample["inputs"].items()}, reference)
                assert not np.array_equal(got[found[1]], got[found[2]])
        else:
            assert token.startswith("runner="), f"unknown token {token}"


# --------------------------------------------------------------------------------------------------------- partitions


def captured(graph: onnx.GraphProto) -> set[str]:
    made, read = {i.name for i in graph.input} | {t.name for t in graph.initializer}, set()
    for node in graph.node:
        read |= {i for i in node.input if i}
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                read |= captured(attribute.g)
        made |= set(node.output)
    return read - made


def edges(model: onnx.ModelProto) -> set[tuple[str, str]]:
    maker = {o: n.name for n in model.graph.node for o in n.output if o}
    found = set()
    for node in model.graph.node:
        reads = set(node.input)
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                reads |= captured(attribute.g)
        found |= {(maker[r], node.name) for r in reads if r in maker}
    return found


def is_acyclic(pairs: set[tuple[int, int]]) -> bool:
    pairs = {(a, b) for a, b in pairs if a != b}
    while True:
        targets = {b for _, b in pairs}
        rest = {(a, b) for a, b in pairs if a in targets}
        if len(rest) == len(pairs):
            return not pairs
        pairs = rest


def supports(target: Mapping[str, Any], engine: str, node: onnx.NodeProto) -> bool:
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    for entry in target["engines"].get(engine, {}).get("supports", []):
        if entry["op"] not in (node.op_type, "*"):
            continue
        found = {k: attributes.get(k, entry.get("defaults", {}).get(k)) for k in entry.get("attributes", {})}
        plain = {k: v.decode() if isinstance(v, bytes) else v for k, v in found.items()}
        if plain == entry.get("attributes", {}):
            return True
    return False


def judge_partition(name: str, tokens: Sequence[str], model: onnx.ModelProto, manifest: Mapping[str, Any]) -> None:
    """Asserts what every token asks of clusters."""
    target = json.loads((REPORTS / f"{name}.target.json").read_text())
    clusters = [(c["engine"].lower(), c["nodes"]) for c in manifest["clusters"]]
    nodes = {n.name: n for n in model.graph.node}
    where: dict[str, list[int]] = {}
    for number, (_, members) in enumerate(clusters):
        for member in members:
            where.setdefault(member, []).append(number)
    border = "border" in tokens
    for token in tokens:
        if token == "complete" and not border:
            assert {n for n in nodes if nodes[n].op_type != "Constant"} <= where.keys()
            assert all(len(v) == 1 for n, v in where.items() if nodes[n].op_type != "Constant")
        elif token == "supported" and not border:
            for member, numbers in where.items():
                for number in numbers:
                    assert nodes[member].op_type == "Constant" or supports(target, clusters[number][0], nodes[member])
        elif token == "acyclic" and not border:
            assert is_acyclic({(where[a][0], k) for a, b in edges(model) for k in where[b] if k not in where[a]})
        elif found := re.fullmatch(r"clusters(?::(\w+))?(<=|>=|=)(\d+)", token):
            count = sum(
                found[1] in (None, engine) for engine, members in clusters if border or any(m in nodes for m in members)
            )
            assert holds(found[2], count, int(found[3])), token
        elif found := re.fullmatch(r"engine:(\w+)=(\w+)", token):
            assert {clusters[k][0] for k in where[found[1]]} == {found[2]}
        elif found := re.fullmatch(r"(together|apart):([\w+]+)", token):
            shared = set.intersection(*(set(where[n]) for n in found[2].split("+")))
            assert bool(shared) == (found[1] == "together"), token
        else:
            # what a judge of clusters does not look at: times are for benchmarks, results are compared apart
            assert token in ("complete", "supported", "acyclic", "border") or token.startswith(("seconds", "copies"))


def is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
