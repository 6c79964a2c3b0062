"""Writes a model back as it was read: what nobody changed is the original proto, field by field.

onnx_ir leaves out some fields and writes some that were not there. So the model as it is now is compared with what
onnx_ir makes of the model as it was read: a part that is equal in both is taken from the original, one that differs is
new. Parts are found again by name; nodes by their first output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

import onnx
from google.protobuf.message import Message  # type: ignore[import-untyped]  # no stubs

# How the entries of a repeated field are found again, by message and field.
_KEYS: dict[str, Callable[[Any], Hashable]] = {
    "StringStringEntryProto": lambda entry: entry.key,
    "OperatorSetIdProto": lambda entry: "" if entry.domain == "ai.onnx" else entry.domain,
    "FunctionProto": lambda entry: (entry.domain, entry.name, entry.overload),
    "NodeProto": lambda entry: next((name for name in entry.output if name), (entry.op_type, tuple(entry.input))),
    "ValueInfoProto": lambda entry: entry.name,
    "TensorProto": lambda entry: entry.name,
    "TensorAnnotation": lambda entry: entry.tensor_name,
    "AttributeProto": lambda entry: entry.name,
    "DeviceConfigurationProto": lambda entry: entry.name,
    "NodeDeviceConfigurationProto": lambda entry: entry.configuration_id,
}
# Fields whose order means nothing: the original's order is kept, new entries follow.
_UNORDERED = frozenset({"value_info", "quantization_annotation", "metadata_props", "opset_import"})
# Fields of which onnx_ir drops entries that it has no place for.
_DROPPED = frozenset({"value_info", "quantization_annotation"})
# Entries that are looked into where they changed.
_DEEP = frozenset({"NodeProto", "AttributeProto", "FunctionProto", "ValueInfoProto"})
# What the author of the rewritten model may set as it likes.
_FREE = frozenset({"producer_name", "producer_version"})


def restore(result: onnx.ModelProto, baseline: onnx.ModelProto, original: onnx.ModelProto) -> None:
    """Puts the original's parts into `result` where it says the same as `baseline`, which is what onnx_ir makes of
    the original. Changes `result` in place."""
    pending: list[tuple[Any, Any, Any]] = [(result, baseline, original)]
    while pending:
        ours, theirs, source = pending.pop()
        if isinstance(ours, onnx.GraphProto):
            _restore_sparse(ours, theirs, source)
        for name, field in ours.DESCRIPTOR.fields_by_name.items():
            if name in _FREE and isinstance(ours, onnx.ModelProto):
                if not getattr(ours, name):
                    _copy_field(ours, source, name, field)
                continue
            if name == "sparse_initializer":
                continue
            if _repeated(field):
                _restore_list(ours, theirs, source, name, field, pending)
            elif _same(ours, theirs, name, field):
                _copy_field(ours, source, name, field)
            elif (
                field.message_type is not None
                and field.message_type.name in ("GraphProto", "TypeProto")
                and all(message.HasField(name) for message in (ours, theirs, source))
            ):
                pending.append((getattr(ours, name), getattr(theirs, name), getattr(source, name)))


def _repeated(field: Any) -> bool:
    repeated = getattr(field, "is_repeated", None)
    return bool(repeated) if repeated is not None else field.label == field.LABEL_REPEATED


def _same(ours: Any, theirs: Any, name: str, field: Any) -> bool:
    if ours.HasField(name) != theirs.HasField(name):
        return False
    return bool(getattr(ours, name) == getattr(theirs, name))


def _copy_field(ours: Any, source: Any, name: str, field: Any) -> None:
    if not source.HasField(name):
        ours.ClearField(name)
    elif field.message_type is not None:
        if getattr(ours, name) != getattr(source, name) or not ours.HasField(name):
            getattr(ours, name).CopyFrom(getattr(source, name))
    else:
        setattr(ours, name, getattr(source, name))


def _restore_list(
    ours: Any, theirs: Any, source: Any, name: str, field: Any, pending: list[tuple[Any, Any, Any]]
) -> None:
    mine, base, first = getattr(ours, name), getattr(theirs, name), getattr(source, name)
    if mine == base:
        if mine != first:
            del mine[:]
            mine.extend(first)
        return
    key = _KEYS.get(field.message_type.name) if field.message_type is not None else None
    if key is None:
        return
    base_by_key, first_by_key = _by_key(base, key), _by_key(first, key)
    kept: list[tuple[Hashable, Message, tuple[Any, Any] | None]] = []
    for identity, entry in _by_key(mine, key).items():
        before, origin = base_by_key.get(identity), first_by_key.get(identity)
        if before is None:
            kept.append((identity, entry, None))
        elif origin is None:
            if entry != before:  # what only onnx_ir wrote, and nobody changed, goes
                kept.append((identity, entry, None))
        elif entry == before:
            kept.append((identity, origin, None))
        else:
            kept.append((identity, entry, (before, origin)))
    if name in _DROPPED:
        kept.extend((i, entry, None) for i, entry in first_by_key.items() if i not in base_by_key)
    if name in _UNORDERED:
        order = {identity: position for position, identity in enumerate(first_by_key)}
        kept.sort(key=lambda item: order.get(item[0], len(order)))
    copies = []
    for _, entry, _ in kept:
        copy = type(entry)()
        copy.CopyFrom(entry)
        copies.append(copy)
    del mine[:]
    mine.extend(copies)
    for position, (_, _, rest) in enumerate(kept):
        if rest is not None and field.message_type.name in _DEEP:
            pending.append((mine[position], *rest))


def _by_key(entries: Any, key: Callable[[Any], Hashable]) -> dict[Hashable, Any]:
    """Entries by key; a second one of the same key is found by its count."""
    seen: Counter[Hashable] = Counter()
    found: dict[Hashable, Any] = {}
    for entry in entries:
        identity = key(entry)
        seen[identity] += 1
        found[identity, seen[identity]] = entry
    return found


def _restore_sparse(ours: Any, theirs: Any, source: Any) -> None:
    """Initializers that were sparse, and that nobody changed, are sparse again."""
    if not source.sparse_initializer:
        return
    base = {entry.name: entry for entry in theirs.initializer}
    mine = {entry.name: entry for entry in ours.initializer}
    unchanged = {
        sparse.values.name
        for sparse in source.sparse_initializer
        if sparse.values.name in mine and mine[sparse.values.name] == base.get(sparse.values.name)
    }
    for graph in (ours, theirs):
        rest = [entry for entry in graph.initializer if entry.name not in unchanged]
        if len(rest) < len(graph.initializer):
            copies = [onnx.TensorProto.FromString(entry.SerializeToString()) for entry in rest]
            del graph.initializer[:]
            graph.initializer.extend(copies)
    for sparse in source.sparse_initializer:
        if sparse.values.name in unchanged:
            ours.sparse_initializer.add().CopyFrom(sparse)
            theirs.sparse_initializer.add().CopyFrom(sparse)
