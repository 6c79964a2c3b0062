"""A witness as two models in ONNX's text format that run by themselves, inputs and all.

Inputs are graph inputs whose values stand beside them as defaults, and once more in the comments at the top, in which
nothing gets lost. Both files say in comments what was found and how to run them. A side that the text format cannot
hold (a body with numbers that it would round) is written as `.onnx`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from gerules.graph.dtypes import NUMBERS
from gerules.registry import onnx_registry
from gerules.simulate.kernel import NodeSpec
from gerules.simulate.schema import attribute_proto, find_schema, make_node_proto, schema_body
from gerules.verify.sides import Array, Node, Side
from gerules.verify.stored import Stored
from gerules.verify.witness import Witness, dumps, finding, term
from gerules.verify.writing import write_whole

LEFT, RIGHT = "left", "right"
_BODIES: Final = "gerules.bodies"
_OLDER: Final = "gerules.since"
_BY_BITS: Final = frozenset({"f16", "bf16", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz"})
_NO_TEXT: Final = frozenset({"i4", "u4", "i2", "u2", "c64", "c128", "f8e8m0", "f4e2m1", "f6e2m3", "f6e3m2"})


def write_pair(witness: Witness, folder: str | Path, name: str | None = None) -> tuple[Path, Path, Path]:
    """Writes the pair `NAME.left.onnxtxt` and `NAME.right.onnxtxt` and the witness as `NAME.json` into a folder, which
    is made where it is not there; each file is there whole or not at all. What is there under these names is replaced.

    The name is that of the case unless one is given. Raises UsageFault (GR586) where the folder cannot be written to.
    """
    folder = Path(folder)
    name = file_name(witness.case) if name is None else name
    paths: list[Path] = []
    for word, side, value in ((LEFT, witness.left, witness.left_value), (RIGHT, witness.right, witness.right_value)):
        model = side_model(side, witness.inputs, value, witness.left_value, f"{word}_side")
        header = comments(witness, word, f"{name}.{word}.onnxtxt")
        text = header + model_text(model, (*witness.inputs, *side.constants))
        exact = _parsed(text) == model.SerializeToString(deterministic=True)
        path = folder / f"{name}.{word}.{'onnxtxt' if exact else 'onnx'}"
        write_whole(path, text.encode() if exact else model.SerializeToString(deterministic=True))
        paths.append(path)
    write_whole(folder / f"{name}.json", dumps(witness).encode())
    return paths[0], paths[1], folder / f"{name}.json"


def file_name(case: str) -> str:
    """A file name for a case: `broadcast-implicit.sink_Add-7`."""
    shown = case.replace(">", "_up").replace("<", "_down").replace("[", "_").replace("]", "")
    return re.sub(r"[^\w.]+", "-", shown)[:120]


def comments(witness: Witness, word: str, file: str) -> str:
    """What stands at the top of a file of the pair."""
    other = LEFT if word == RIGHT else RIGHT
    lines = [
        f"gerules witness: the {word} side of {witness.case}; the {other} side lies beside it",
        f"rule: {witness.text}",
        f"found: {finding(witness)}",
        f"side: {term(witness.left if word == LEFT else witness.right)}",
        f"compare: {'bitwise' if witness.bitwise else 'tolerance'}",
        f"replay: gerules verify --replay {file}",
        *(f"input {i.line()}" for i in witness.inputs),
    ]
    return "".join(f"# {_one_line(line)}\n" for line in lines)


def _one_line(text: str) -> str:
    return text.replace("\\n", "\\u000a").replace("\n", " ").replace("\r", " ")


def _parsed(text: str) -> bytes:
    try:
        return bytes(onnx.parser.parse_model(text).SerializeToString(deterministic=True))
    except onnx.parser.ParseError:
        return b""


# ------------------------------------------------------------------------------------------------------------- models


def side_model(side: Side, inputs: Sequence[Stored], value: Stored | None, other: Stored, name: str) -> onnx.ModelProto:
    """A side as a model. `value` is what it gave, None where it fails; then the output is typed as `other` is.

    Operators that no one opset has together become functions of the model, with an opset of their own; so do those
    that are computed by the body of their schema.
    """
    opset = common_opset(side.nodes)
    builder = _Builder(side, inputs, opset)
    used = {o for n in side.nodes for o in n.operands} | {*side.results}
    given = [i for i in inputs if i.name in used]
    nodes = [builder.node(n) for n in side.nodes]
    output = side.results[0]
    if output in {i.name for i in (*given, *side.constants)}:
        nodes.append(helper.make_node("Identity", [output], ["result"], domain=""))
        output = "result"
    shape = value.shape if value is not None else None
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(i.name, NUMBERS[i.dtype], i.shape) for i in (*given, *builder.untold)],
        [helper.make_tensor_value_info(output, NUMBERS[(value or other).dtype], shape)],
        initializer=[tensor(s) for s in (*given, *side.constants) if _has_text(s)],
    )
    domains = {n.domain: opset if not n.domain else 1 for n in side.nodes if not n.body} or {"": opset}
    imports = {"": opset, **domains, **{f.domain: 1 for f in builder.functions}}
    made = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid(d, v) for d, v in imports.items()],
        functions=builder.functions,
        ir_version=_ir_version(opset, bool(builder.functions), (*given, *side.constants)),
    )
    made.ClearField("producer_name")
    made.ClearField("producer_version")
    return made


def _ir_version(opset: int, functions: bool, values: Iterable[Stored]) -> int:
    """The oldest file format that knows everything that is in the model."""
    least = int(helper.OP_SET_ID_VERSION_MAP.get(("ai.onnx", opset), 3))
    narrow = {"i4": 10, "u4": 10, "f4e2m1": 11, "f8e8m0": 12, "i2": 13, "u2": 13}
    floats = [9 for v in values if v.dtype.startswith("f8")]
    return max([least, 8 if functions else 4, *floats, *(narrow.get(v.dtype, 0) for v in values)])


def common_opset(nodes: Sequence[Node]) -> int:
    """The opset at which most of the operators are as they are meant; of several the oldest."""
    plain = [n for n in nodes if not n.domain and not n.body]
    registry = onnx_registry()
    newest = int(registry.newest("") or 1)
    if not plain:
        return min(newest, 21)
    best = (-1, 0)
    for opset in range(max(1, min(n.since for n in plain)), newest + 1):
        best = max(best, (sum(_in_force(n, opset) for n in plain), -opset))
    return -best[1]


def _in_force(node: Node, opset: int) -> bool:
    found = onnx_registry().lookup("", node.op, opset)
    return found is not None and int(found.since) == node.since


@dataclass
class _Builder:
    side: Side
    inputs: Sequence[Stored]
    opset: int

    def __post_init__(self) -> None:
        self.functions: list[onnx.FunctionProto] = []
        self.untold = [s for s in self.side.constants if not _has_text(s)]
        """Constants that the text format has no form for: they become inputs."""

    def node(self, node: Node) -> onnx.NodeProto:
        operands = list(node.operands)
        while operands and not operands[-1]:
            operands.pop()
        results = list(node.results)
        while len(results) > 1 and not results[-1]:
            results.pop()
        if node.body or (not node.domain and not _in_force(node, self.opset)):
            function = self.function(node, len(operands), len(results))
            return helper.make_node(function.name, operands, results, domain=function.domain)
        made = helper.make_node(node.op, operands, results, domain=node.domain)
        made.attribute.extend(attributes_of(node))
        return made

    def function(self, node: Node, operands: int, results: int) -> onnx.FunctionProto:
        """A function of the model for one operator: by its schema's body, or as it was at its version."""
        number = len(self.functions) + 1
        given = [f"i{k}" for k in range(operands)]
        made = [f"o{k}" for k in range(results)]
        opset = [helper.make_opsetid("", node.since)]
        if not node.body:
            inner = helper.make_node(node.op, given, made, domain="")
            inner.attribute.extend(attributes_of(node))
            function = helper.make_function(f"{_OLDER}{node.since}", f"{node.op}_{number}", given, made, [inner], opset)
        else:
            function = self.body(node, operands, results)
            function.domain, function.name = _BODIES, f"{node.op}_{number}"
        self.functions.append(function)
        return function

    def body(self, node: Node, operands: int, results: int) -> onnx.FunctionProto:
        schema = find_schema(node.domain, node.op, node.since)
        assert schema is not None
        attributes = {**schema.defaults, **{n: v for n, v in node.attributes.items() if v is not None}}
        spec = NodeSpec(node.domain, node.op, node.since, node.since, node.op, attributes, operands, results)
        proto = make_node_proto(spec, attributes)
        data = schema_body(schema, node.since, proto, [self._typed(o) for o in node.operands[:operands]])
        assert data is not None
        function: onnx.FunctionProto = onnx.FunctionProto.FromString(data)
        _bind(function, proto)
        if not function.opset_import:
            function.opset_import.append(helper.make_opsetid("", node.since))
        del function.attribute[:]
        del function.attribute_proto[:]
        return function

    def _typed(self, name: str) -> Array | None:
        """A value of the type that an operand has, as far as that is known."""
        known = {s.name: s for s in (*self.inputs, *self.side.constants)}
        return known[name].array() if name in known else None


def _bind(function: onnx.FunctionProto, node: onnx.NodeProto) -> None:
    """Writes a call's attributes into the body, so that the function needs none."""
    given = {a.name: a for a in node.attribute}
    for inner in function.node:
        kept = []
        for attribute in inner.attribute:
            if not attribute.ref_attr_name:
                kept.append(attribute)
            elif attribute.ref_attr_name in given:
                value = onnx.AttributeProto()
                value.CopyFrom(given[attribute.ref_attr_name])
                value.name = attribute.name
                kept.append(value)
        del inner.attribute[:]
        inner.attribute.extend(kept)


def attributes_of(node: Node) -> list[onnx.AttributeProto]:
    """The attributes of a node, in order of name."""
    schema = find_schema(node.domain, node.op, node.since)
    kinds = {n: int(a.type.value) for n, a in schema.raw.attributes.items()} if schema and schema.raw else {}
    found = []
    for name, value in sorted(node.attributes.items()):
        if value is None or (isinstance(value, tuple) and not value and name not in kinds and node.domain == ""):
            continue
        kind = kinds.get(name)
        if kind is None and isinstance(value, frozenset):
            value = tuple(sorted(value))
        if kind is None and isinstance(value, tuple):
            kind = onnx.AttributeProto.INTS
        found.append(attribute_proto(name, value, kind))
    return found


def tensor(stored: Stored) -> onnx.TensorProto:
    """A tensor with its elements in the fields that the text format fills."""
    array = stored.array()
    if stored.dtype == "str":
        return numpy_helper.from_array(array.astype(object), stored.name)
    number = NUMBERS[stored.dtype]
    values: Any = array.reshape(-1)
    if stored.dtype in _BY_BITS:
        values = values.view(np.uint16 if array.dtype.itemsize == 2 else np.uint8)
    made = TensorProto(name=stored.name, data_type=number, dims=stored.shape)
    field = {"f32": made.float_data, "f64": made.double_data, "i64": made.int64_data}.get(stored.dtype)
    if field is None:
        field = made.uint64_data if stored.dtype in ("u64", "u32") else made.int32_data
    field.extend(values.tolist() if stored.dtype != "bool" else [int(v) for v in values])
    return made


def _has_text(stored: Stored) -> bool:
    return stored.dtype not in _NO_TEXT


# --------------------------------------------------------------------------------------------------------------- text


def model_text(model: onnx.ModelProto, values: Sequence[Stored]) -> str:
    """A model of `side_model` in ONNX's text format, with every number written so that it reads back as it is."""
    told = {v.name: v for v in values if _has_text(v)}
    graph = model.graph
    imports = ", ".join(f'"{o.domain}" : {o.version}' for o in model.opset_import)
    given = {i.name for i in graph.input}
    inputs = ", ".join(
        f"{_type(i.type)} {i.name}" + (f" = {_elements(told[i.name])}" if i.name in told else "") for i in graph.input
    )
    outputs = ", ".join(f"{_type(o.type)} {o.name}" for o in graph.output)
    constants = ", ".join(
        f"{_stored_type(told[t.name])} {t.name} = {_elements(told[t.name])}"
        for t in graph.initializer
        if t.name not in given
    )
    lines = [f"<ir_version: {model.ir_version}, opset_import: [{imports}]>", f"{graph.name} ({inputs}) => ({outputs})"]
    if constants:
        lines.append(f"<{constants}>")
    lines += ["{", *(f"  {_node(n)}" for n in graph.node), "}"]
    lines += [onnx.printer.to_text(f).strip() for f in model.functions]
    return "\n".join(lines) + "\n"


def _type(proto: onnx.TypeProto) -> str:
    name = _type_word(proto.tensor_type.elem_type)
    if not proto.tensor_type.HasField("shape"):
        return f"{name}[]"
    dims = ",".join(str(d.dim_value) for d in proto.tensor_type.shape.dim)
    return f"{name}[{dims}]" if dims else name


def _type_word(number: int) -> str:
    return str(TensorProto.DataType.Name(number)).lower()


def _stored_type(stored: Stored) -> str:
    dims = ",".join(map(str, stored.shape))
    return _type_word(NUMBERS[stored.dtype]) + (f"[{dims}]" if dims else "")


def _elements(stored: Stored) -> str:
    if stored.dtype == "str":
        return "{" + ", ".join(_text(str(v)) for v in stored.values) + "}"
    if stored.dtype == "bool":
        return "{" + ", ".join("1" if v else "0" for v in stored.values) + "}"
    if stored.dtype in _BY_BITS:
        array = stored.array().reshape(-1)
        whole = array.view(np.uint16 if array.dtype.itemsize == 2 else np.uint8)
        return "{" + ", ".join(map(str, whole.tolist())) + "}"
    return "{" + ", ".join(map(repr, stored.values)) + "}"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _node(node: onnx.NodeProto) -> str:
    head = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    attributes = f" <{', '.join(map(_attribute, node.attribute))}>" if node.attribute else ""
    operands = ", ".join(name or '""' for name in node.input)
    return f"{', '.join(n or _QUOTES for n in node.output)} = {head}{attributes} ({operands})"


_QUOTES: Final = '""'


def _attribute(attribute: onnx.AttributeProto) -> str:
    kind = attribute.type
    kinds = onnx.AttributeProto
    if kind == kinds.INT:
        return f"{attribute.name}: int = {attribute.i}"
    if kind == kinds.FLOAT:
        return f"{attribute.name}: float = {_float(attribute.f)}"
    if kind == kinds.STRING:
        return f"{attribute.name}: string = {_text(attribute.s.decode())}"
    if kind == kinds.INTS:
        return f"{attribute.name}: ints = [{', '.join(map(str, attribute.ints))}]"
    if kind == kinds.FLOATS:
        return f"{attribute.name}: floats = [{', '.join(map(_float, attribute.floats))}]"
    if kind == kinds.STRINGS:
        return f"{attribute.name}: strings = [{', '.join(_text(s.decode()) for s in attribute.strings)}]"
    if kind == kinds.TENSOR:
        stored = Stored.of("value", numpy_helper.to_array(attribute.t))
        return f"{attribute.name}: tensor = {_stored_type(stored)} {_elements(stored)}"
    return f"{attribute.name} = none"


def _float(value: float) -> str:
    """A float32 with as many digits as tell it from its neighbours."""
    return repr(float(value))
