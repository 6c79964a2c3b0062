"""The registry of the installed onnx package: its schemas, all domains, all versions, as plain definitions."""

from __future__ import annotations

import re
from functools import cache, partial
from typing import Any

import onnx.defs

from gerules.registry.definition import OPTIONAL, REQUIRED, VARIADIC, Attribute, Operand, OperatorDef
from gerules.registry.registry import Registry
from gerules.registry.text import escape, format_float, format_floats, format_ints, format_strs

# Schema spelling -> ours.
ELEMENT_TYPES = {
    "float": "f32",
    "double": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint64": "u64",
    "uint32": "u32",
    "uint16": "u16",
    "uint8": "u8",
    "int4": "i4",
    "uint4": "u4",
    "int2": "i2",
    "uint2": "u2",
    "bool": "bool",
    "string": "str",
    "complex64": "c64",
    "complex128": "c128",
    "float8e4m3fn": "f8e4m3fn",
    "float8e4m3fnuz": "f8e4m3fnuz",
    "float8e5m2": "f8e5m2",
    "float8e5m2fnuz": "f8e5m2fnuz",
    "float8e8m0": "f8e8m0",
    "float4e2m1": "f4e2m1",
    "float6e2m3": "f6e2m3",
    "float6e3m2": "f6e3m2",
}

_KINDS = {
    onnx.defs.OpSchema.FormalParameterOption.Single: REQUIRED,
    onnx.defs.OpSchema.FormalParameterOption.Optional: OPTIONAL,
    onnx.defs.OpSchema.FormalParameterOption.Variadic: VARIADIC,
}

_ATTRIBUTE_TYPES = {
    "INT": "int",
    "FLOAT": "float",
    "STRING": "str",
    "TENSOR": "tensor",
    "GRAPH": "graph",
    "SPARSE_TENSOR": "sparse_tensor",
    "TYPE_PROTO": "type",
    "INTS": "ints",
    "FLOATS": "floats",
    "STRINGS": "strs",
    "TENSORS": "tensors",
    "GRAPHS": "graphs",
    "SPARSE_TENSORS": "sparse_tensors",
    "TYPE_PROTOS": "types",
}

_WORD = re.compile(r"[a-z0-9]+")


@cache
def type_text(text: str) -> str:
    """A schema's type in our names: `tensor(float16)` -> `f16`, `map(int64,tensor(float))` -> `map(i64,f32)`."""
    bare = re.sub(r"\b(?:sparse_)?tensor\(([a-z0-9]+)\)", r"\1", text.replace(" ", ""))
    return _WORD.sub(lambda match: ELEMENT_TYPES.get(match[0], match[0]), bare)


def default_text(value: onnx.AttributeProto) -> str | None:
    """The canonical text of a schema's default; None where the attribute has none."""
    kinds = onnx.AttributeProto
    match value.type:
        case kinds.UNDEFINED:
            return None
        case kinds.INT:
            return str(value.i)
        case kinds.FLOAT:
            return format_float(value.f)
        case kinds.STRING:
            return escape(value.s.decode())
        case kinds.INTS:
            return format_ints(value.ints)
        case kinds.FLOATS:
            return format_floats(value.floats)
        case kinds.STRINGS:
            return format_strs(item.decode() for item in value.strings)
    raise ValueError(
        f"attribute {value.name}: a default of kind {kinds.AttributeType.Name(value.type)} has no text form"
    )


def definition_of(schema: Any) -> OperatorDef:
    """An `onnx.defs.OpSchema` (whose stubs lack half its fields) as plain data. Attributes are sorted by name."""
    return OperatorDef(
        domain=schema.domain,
        name=schema.name,
        since=str(schema.since_version),
        inputs=tuple(_operand(parameter) for parameter in schema.inputs),
        outputs=tuple(_operand(parameter) for parameter in schema.outputs),
        attributes=tuple(
            Attribute(name, _ATTRIBUTE_TYPES[a.type.name], a.required, default_text(a.default_value))
            for name, a in sorted(schema.attributes.items())
        ),
        constraints={
            constraint.type_param_str: frozenset(map(type_text, constraint.allowed_type_strs))
            for constraint in schema.type_constraints
        },
        has_body=schema.has_function or schema.has_context_dependent_function,
        deprecated=schema.deprecated,
        deterministic=schema.node_determinism != onnx.defs.OpSchema.NodeDeterminism.NonDeterministic,
        doc=schema.doc or "",
    )


def _operand(parameter: Any) -> Operand:
    kind = _KINDS[parameter.option]
    return Operand(
        parameter.name,
        kind,
        parameter.type_str,
        frozenset(map(type_text, parameter.types)),
        parameter.is_homogeneous,
        parameter.min_arity if kind == VARIADIC else 0,
    )


@cache
def onnx_registry() -> Registry:
    """The registry of the installed onnx package; made once."""
    schemas = onnx.defs.get_all_schemas_with_history()
    return Registry(
        ((s.domain, s.name, str(s.since_version), partial(definition_of, s)) for s in schemas),
        {"": str(onnx.defs.onnx_opset_version())},
    )
