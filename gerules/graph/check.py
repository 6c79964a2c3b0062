"""What is wrong with a model, before anything is done with it: names, order, operators, attributes, element types.

Every fault of a model is found in one run. Nothing here depends on shapes: whether operands fit is seen by running.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import onnx

from gerules.errors import Diagnostic
from gerules.graph.dtypes import BITS, NAME_OF_NUMBER, is_tensor
from gerules.graph.infer import formal_operand, infer_node, info_of_type, out_of_range
from gerules.graph.info import UNKNOWN, Info
from gerules.graph.order import bodies_of, cycle_free_order, find_cycle, used_names
from gerules.registry import OPTIONAL, REQUIRED, VARIADIC, OperatorDef, Registry, onnx_registry
from gerules.registry.text import escape, format_floats, format_ints

_KINDS = {
    onnx.AttributeProto.FLOAT: "float",
    onnx.AttributeProto.INT: "int",
    onnx.AttributeProto.STRING: "str",
    onnx.AttributeProto.TENSOR: "tensor",
    onnx.AttributeProto.GRAPH: "graph",
    onnx.AttributeProto.FLOATS: "floats",
    onnx.AttributeProto.INTS: "ints",
    onnx.AttributeProto.STRINGS: "strs",
    onnx.AttributeProto.TENSORS: "tensors",
    onnx.AttributeProto.GRAPHS: "graphs",
    onnx.AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    onnx.AttributeProto.SPARSE_TENSORS: "sparse_tensors",
    onnx.AttributeProto.TYPE_PROTO: "type",
    onnx.AttributeProto.TYPE_PROTOS: "types",
}


@dataclass
class _Scope:
    """The names that a graph defines: where (the position of the node, -1 for inputs and initializers), and the
    element types as far as known. `outer` is the scope around it and the position of the node that holds the body."""

    outer: tuple[_Scope, int] | None
    opsets: Mapping[str, int]
    position: dict[str, int] = field(default_factory=dict)
    dtype: dict[str, str] = field(default_factory=dict)

    def find(self, name: str) -> tuple[_Scope, int] | None:
        """The scope that defines a name, from this one outward, and the position there; None where none does."""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.position:
                return scope, scope.position[name]
            scope = scope.outer[0] if scope.outer is not None else None
        return None


def check_proto(model: onnx.ModelProto, path: Path | None = None) -> list[Diagnostic]:
    """Every fault (errors) and oddity (warnings) of a model. Never raises for an odd model."""
    return _Checker(model, path).run()


class _Checker:
    """One run over one model."""

    def __init__(self, model: onnx.ModelProto, path: Path | None) -> None:
        self.model = model
        self.file = str(path) if path is not None else None
        self.registry: Registry = onnx_registry()
        self.functions = {(f.domain, f.name) for f in model.functions}
        self.found: list[Diagnostic] = []
        self.missing_domains: dict[str, str] = {}

    def run(self) -> list[Diagnostic]:
        opsets = {entry.domain: entry.version for entry in self.model.opset_import}
        self._check_opsets(self.model.opset_import)
        self._check_graphs([(self.model.graph, _Scope(None, opsets))])
        for function in self.model.functions:
            own = {entry.domain: entry.version for entry in function.opset_import} or opsets
            self._check_opsets(function.opset_import)
            scope = _Scope(None, own)
            for name in function.input:
                scope.position[name] = -1
            what = f"function {function.domain}.{function.name}"
            self._check_nodes(function.node, scope, what)
            for name in function.output:
                if name not in scope.position:
                    message = f"result {name!r} of {what} is computed by none of its nodes"
                    self._error("GR335", message, name, "remove the result or add the node that computes it")
        for domain, node in self.missing_domains.items():
            shown = domain or "ai.onnx"
            self._error(
                "GR326",
                f"the model imports no version of domain {shown!r}, from which node {node!r} takes its operator",
                node,
                "add an opset_import for it to the model",
            )
        return self.found

    # ------------------------------------------------------------------------------------------------- reporting

    def _error(self, code: str, message: str, node: str | None = None, hint: str | None = None) -> None:
        self.found.append(Diagnostic(code, message, node=node, file=self.file, hint=hint))

    def _warn(self, code: str, message: str, node: str | None = None, hint: str | None = None) -> None:
        self.found.append(Diagnostic(code, message, node=node, file=self.file, hint=hint, severity="warning"))

    # ------------------------------------------------------------------------------------------------------ names

    def _check_opsets(self, imports: Iterable[onnx.OperatorSetIdProto]) -> None:
        seen: dict[str, int] = {}
        for entry in imports:
            shown = entry.domain or "ai.onnx"
            if seen.setdefault(entry.domain, entry.version) != entry.version:
                message = f"domain {shown!r} is imported at versions {seen[entry.domain]} and {entry.version}"
                self._error("GR326", message, hint="keep one import of each domain")
            newest = self.registry.newest(entry.domain)
            if entry.domain == "" and newest is not None and entry.version > int(newest):
                self._error(
                    "GR330",
                    f"the model is of opset {entry.version}, and the installed onnx knows opsets up to {newest}",
                    hint="install a newer onnx, or export the model at an older opset",
                )
            elif entry.version < 1:
                message = f"domain {shown!r} is imported at version {entry.version}, and versions begin with 1"
                self._error("GR330", message, hint="correct the import, or export the model again")

    def _check_graphs(self, pending: list[tuple[onnx.GraphProto, _Scope]]) -> None:
        while pending:
            graph, scope = pending.pop()
            what = "the graph" if scope.outer is None else f"body {graph.name!r}"
            self._define_inputs(graph, scope, what)
            owners = self._check_nodes(graph.node, scope, what)
            self._check_outputs(graph, scope, what)
            self._check_extents(graph, scope)
            pending.extend((body, _Scope((scope, position), scope.opsets)) for position, body in reversed(owners))

    def _define(self, scope: _Scope, name: str, position: int, what: str, owner: str | None) -> bool:
        if name in scope.position:
            self._error(
                "GR322", f"value {name!r} is defined twice in {what}", owner or name, "give one of the two another name"
            )
            return False
        if scope.outer is not None and scope.outer[0].find(name) is not None:
            self._error(
                "GR323",
                f"value {name!r} of {what} has the name of a value of the graph around it",
                owner or name,
                "a body may not shadow a name; rename the value in the body",
            )
        scope.position[name] = position
        return True

    def _define_inputs(self, graph: onnx.GraphProto, scope: _Scope, what: str) -> None:
        for entry in graph.input:
            if not entry.name:
                self._error("GR336", f"an input of {what} has no name", hint="name it")
                continue
            self._define(scope, entry.name, -1, what, None)
            self._note_type(scope, entry)
        inputs = {entry.name for entry in graph.input}
        seen: set[str] = set()
        for tensor in (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)):
            if not tensor.name:
                self._error("GR336", f"an initializer of {what} has no name", hint="name it or delete it")
                continue
            if tensor.name in seen or tensor.name not in inputs:
                self._define(scope, tensor.name, -1, what, None)
            seen.add(tensor.name)
            name = NAME_OF_NUMBER.get(tensor.data_type)
            if name is None:
                message = f"initializer {tensor.name!r} has the unknown element type {tensor.data_type}"
                self._error("GR324", message, tensor.name, "the file is damaged, or of a newer ONNX than is installed")
                continue
            declared = scope.dtype.setdefault(tensor.name, name)
            if declared != name:
                self._error(
                    "GR324",
                    f"initializer {tensor.name!r} is {name}, and the input of that name is declared {declared}",
                    tensor.name,
                    "make the two agree",
                )
            self._check_extent_count(tensor, name)

    def _check_extent_count(self, tensor: onnx.TensorProto, dtype: str) -> None:
        if tensor.data_location == onnx.TensorProto.EXTERNAL or not tensor.HasField("raw_data"):
            return
        size = 1
        for extent in tensor.dims:
            size *= extent
        if dtype != "str" and len(tensor.raw_data) != (size * BITS[dtype] + 7) // 8:
            self._error(
                "GR337",
                f"initializer {tensor.name!r} holds {len(tensor.raw_data)} bytes, and {dtype}{list(tensor.dims)} has "
                f"{(size * BITS[dtype] + 7) // 8}",
                tensor.name,
                "the file is damaged; export or download it again",
            )

    def _note_type(self, scope: _Scope, entry: onnx.ValueInfoProto) -> None:
        info = info_of_type(entry.type, {})
        if info.dtype != "?":
            scope.dtype[entry.name] = info.dtype

    def _check_outputs(self, graph: onnx.GraphProto, scope: _Scope, what: str) -> None:
        for entry in graph.output:
            if entry.name in scope.position:
                self._check_declared(scope, entry)
                continue
            outside = scope.outer is not None and scope.outer[0].find(entry.name) is not None
            hint = "put an Identity into the body" if outside else "remove the output or add the node that computes it"
            where = ", but by the graph around it" if outside else ""
            self._error("GR335", f"output {entry.name!r} of {what} is computed by none of its nodes{where}", None, hint)
        for entry in graph.value_info:
            if entry.name in scope.position:
                self._check_declared(scope, entry)

    def _check_declared(self, scope: _Scope, entry: onnx.ValueInfoProto) -> None:
        declared = info_of_type(entry.type, {}).dtype
        computed = scope.dtype.get(entry.name, "?")
        if declared == "?":
            return
        if computed == "?":
            scope.dtype[entry.name] = declared
        elif is_tensor(computed) and is_tensor(declared) and computed != declared:
            self._error(
                "GR324",
                f"value {entry.name!r} is declared {declared}, and its operator gives {computed}",
                entry.name,
                "correct the declared type",
            )

    def _check_extents(self, graph: onnx.GraphProto, scope: _Scope) -> None:
        negative = [
            entry.name
            for entries in (graph.input, graph.output, graph.value_info)
            for entry in entries
            if any(dim.HasField("dim_value") and dim.dim_value < 0 for dim in entry.type.tensor_type.shape.dim)
        ]
        if negative:
            names = ", ".join(map(repr, dict.fromkeys(negative[:5]))) + (" and others" if len(negative) > 5 else "")
            self._warn(
                "GR329",
                f"negative extents in the types of {names}",
                negative[0],
                "they are taken as unknown; a dimension name would say more",
            )

    # ------------------------------------------------------------------------------------------------------ nodes

    def _check_nodes(
        self, nodes: Sequence[onnx.NodeProto], scope: _Scope, what: str
    ) -> list[tuple[int, onnx.GraphProto]]:
        """Checks the nodes of one graph or function; gives the bodies in them with their owners' positions."""
        names = [node.name or f"{node.op_type}_{position}" for position, node in enumerate(nodes)]
        for position, node in enumerate(nodes):
            for output in node.output:
                if output:
                    self._define(scope, output, position, what, names[position])
        cycle = self._check_uses(nodes, scope, names, what)
        if cycle:
            shown = " -> ".join(names[position] for position in cycle[:10]) + (" -> ..." if len(cycle) > 10 else "")
            self._error(
                "GR320",
                f"nodes of {what} depend on each other in a circle: {shown} -> {names[cycle[0]]}",
                names[cycle[0]],
                "a graph has no circles; a loop is a Loop or Scan node",
            )
        owners: list[tuple[int, onnx.GraphProto]] = []
        order = range(len(nodes)) if cycle is None else cycle_free_order(nodes)
        for position in order:
            node = nodes[position]
            owners.extend((position, body) for body in bodies_of(node))
            self._check_node(node, names[position], scope)
        return owners

    def _check_uses(
        self, nodes: Sequence[onnx.NodeProto], scope: _Scope, names: Sequence[str], what: str
    ) -> list[int] | None:
        """Undefined operands; None where the nodes are in order, else a cycle, empty where there is none."""
        ordered = True
        for position, node in enumerate(nodes):
            for name in node.input:
                if not name:
                    continue
                place = scope.find(name)
                if place is None:
                    self._undefined(name, names[position], scope)
                elif place[0] is scope and place[1] >= position:
                    ordered = False
            ordered = ordered and not any(
                position <= scope.position.get(name, -1) for body in bodies_of(node) for name in used_names(body)
            )
        return None if ordered else find_cycle(nodes)

    def _undefined(self, name: str, node: str, scope: _Scope) -> None:
        known: list[str] = []
        at: _Scope | None = scope
        while at is not None:
            known.extend(at.position)
            at = at.outer[0] if at.outer is not None else None
        close = difflib.get_close_matches(name, known, 1) if len(known) <= 5000 else []
        hint = f"did you mean {close[0]!r}?" if close else "the model is damaged; export it again"
        self._error("GR321", f"node {node!r} uses {name!r}, which no node, input or initializer defines", node, hint)

    def _check_node(self, node: onnx.NodeProto, name: str, scope: _Scope) -> None:
        domain = "" if node.domain == "ai.onnx" else node.domain
        if (node.domain, node.op_type) in self.functions:
            return
        version = scope.opsets.get(domain)
        if version is None:
            self.missing_domains.setdefault(domain, name)
            return
        definition = self.registry.lookup(domain, node.op_type, version)
        if definition is None:
            newest = self.registry.newest("")
            if domain == "" and newest is not None and 1 <= version <= int(newest):
                self._unknown_operator(node, name, version)
            return
        if not self._check_arity(node, name, definition):
            return
        texts = self._check_attributes(node, name, definition)
        odd = out_of_range(definition, texts, len(node.output))
        if odd is not None:
            message = f"attribute {odd!r} of node {name!r} is {texts[odd]}, which {definition.key} cannot mean"
            self._error("GR328", message, name, f"see the documentation of {definition.name}")
            return
        self._check_types(node, name, definition, texts, scope)

    def _unknown_operator(self, node: onnx.NodeProto, name: str, version: int) -> None:
        versions = self.registry.versions("", node.op_type)
        if not versions:
            close = difflib.get_close_matches(node.op_type, self.registry.names(""), 1)
            hint = f"did you mean {close[0]}?" if close else "an operator of your own belongs in a domain of its own"
        elif int(versions[0]) > version:
            hint = f"it is there from opset {versions[0]} on: raise the model's opset"
        else:
            hint = f"it was removed (registered at {', '.join(versions)}): convert the model to an older opset"
        message = f"node {name!r} is a {node.op_type}, which ai.onnx does not have at opset {version}"
        self._error("GR325", message, name, hint)

    def _check_arity(self, node: onnx.NodeProto, name: str, definition: OperatorDef) -> bool:
        before = len(self.found)
        for formals, given, what in (
            (definition.inputs, node.input, "operand"),
            (definition.outputs, node.output, "result"),
        ):
            variadic = bool(formals) and formals[-1].kind == VARIADIC
            least = sum(formal.kind == REQUIRED for formal in formals) if what == "operand" else 0
            if variadic and what == "operand":
                least += formals[-1].minimum
            if len(given) < least or (len(given) > len(formals) and not variadic):
                bound = f"at least {least}" if len(given) < least else f"at most {len(formals)}"
                message = f"node {name!r} has {len(given)} {what}s, and {definition.key} has {bound}"
                self._error("GR327", message, name, f"see the documentation of {definition.name}")
                continue
            for position, value in enumerate(given):
                formal = formal_operand(formals, position)
                if not value and what == "operand" and formal is not None and formal.kind != OPTIONAL:
                    message = f"node {name!r} leaves out operand {formal.name!r}, which {definition.key} requires"
                    self._error("GR327", message, name, "connect a value to it")
        return len(self.found) == before

    def _check_attributes(self, node: onnx.NodeProto, name: str, definition: OperatorDef) -> dict[str, str]:
        """Checks names and kinds; gives the texts that element types can depend on."""
        texts: dict[str, str] = {}
        formal = {attribute.name: attribute for attribute in definition.attributes}
        seen: set[str] = set()
        for attribute in node.attribute:
            if attribute.name in seen:
                self._error("GR328", f"node {name!r} has attribute {attribute.name!r} twice", name, "keep one of them")
                continue
            seen.add(attribute.name)
            known = formal.get(attribute.name)
            if known is None:
                close = difflib.get_close_matches(attribute.name, formal, 1)
                hint = f"did you mean {close[0]!r}?" if close else f"its attributes: {', '.join(formal) or 'none'}"
                message = f"node {name!r} has an attribute {attribute.name!r}, which {definition.key} does not"
                self._error("GR328", message, name, hint)
            elif (kind := _KINDS.get(attribute.type)) != known.type and not (
                definition.name == "Constant" and kind == "tensor" and known.type == "sparse_tensor"
            ):
                message = (
                    f"attribute {attribute.name!r} of node {name!r} is {kind or 'without a type'}, not {known.type}"
                )
                self._error("GR328", message, name, f"give it as {known.type}")
            elif not attribute.ref_attr_name:
                text = _dtype_text(attribute)
                if text is not None:
                    texts[attribute.name] = text
        for known in definition.attributes:
            if known.required and known.name not in seen:
                message = f"node {name!r} has no attribute {known.name!r}, which {definition.key} requires"
                self._error("GR328", message, name, f"set it to a value of type {known.type}")
        return texts

    def _check_types(
        self, node: onnx.NodeProto, name: str, definition: OperatorDef, texts: Mapping[str, str], scope: _Scope
    ) -> None:
        operands: list[Info | None] = []
        bound: dict[str, tuple[str, str]] = {}
        wrong = False
        for position, value in enumerate(node.input):
            place = scope.find(value) if value else None
            dtype = place[0].dtype.get(value, "?") if place is not None else "?"
            operands.append(None if not value else _typed(dtype))
            formal = formal_operand(definition.inputs, position)
            if dtype == "?" or formal is None or not (is_tensor(dtype) or dtype.startswith("seq(")):
                continue
            if formal.types and dtype not in formal.types:
                wrong = True
                self._error(
                    "GR324",
                    f"operand {value!r} of node {name!r} is {dtype}, and {definition.key} takes "
                    f"{', '.join(sorted(formal.types))} as {formal.name!r}",
                    name,
                    "cast it to a type that the operator takes",
                )
            elif formal.homogeneous and formal.type in definition.constraints:
                first = bound.setdefault(formal.type, (dtype, value))
                if first[0] != dtype:
                    wrong = True
                    self._error(
                        "GR324",
                        f"operands {first[1]!r} and {value!r} of node {name!r} are {first[0]} and {dtype}, and "
                        f"{definition.key} wants one type",
                        name,
                        "cast one of them",
                    )
        if wrong:
            return
        results = infer_node(definition, texts, operands, len(node.output))
        for output, info in zip(node.output, results, strict=True):
            if output and info.dtype != "?":
                scope.dtype[output] = info.dtype


@cache
def _typed(dtype: str) -> Info:
    return UNKNOWN if dtype == "?" else Info(dtype, None)


def _dtype_text(attribute: onnx.AttributeProto) -> str | None:
    """The text of an attribute, as far as the element type of a result can depend on it: a tensor by its type alone."""
    match attribute.type:
        case onnx.AttributeProto.INT:
            return str(attribute.i)
        case onnx.AttributeProto.INTS if len(attribute.ints) <= 64:
            return format_ints(attribute.ints)
        case onnx.AttributeProto.FLOATS if len(attribute.floats) <= 64:
            return format_floats(attribute.floats)
        case onnx.AttributeProto.STRING if len(attribute.s) <= 256:
            return escape(attribute.s.decode("utf-8", "surrogateescape"))
        case onnx.AttributeProto.TENSOR:
            name = NAME_OF_NUMBER.get(attribute.t.data_type)
            if name == "str":
                return 'str[1]|[""]'
            return f"{name}[1]|{'00' * max(1, BITS[name] // 8)}" if name is not None else None
    return None
