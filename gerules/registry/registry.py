"""A registry: definitions of operators by domain, name and version, and how each follows the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from itertools import pairwise

from gerules.registry.definition import OPTIONAL, VARIADIC, Attribute, Operand, OperatorDef

Make = Callable[[], OperatorDef]


def version_key(version: int | str) -> tuple[int, ...]:
    """Releases in digits and dots, ordered: "1.8.0" < "1.10". Raises ValueError for anything else."""
    return tuple(int(part) for part in str(version).split("."))


def canonical_domain(domain: str) -> str:
    """`ai.onnx` is another spelling of the default domain ""."""
    return "" if domain == "ai.onnx" else domain


class Registry:
    """Operator definitions, each made from its source when it is first asked for.

    `sources` gives (domain, name, since, function that makes the definition); `newest` the newest version of a domain
    where that is not the newest `since` in it. A domain `ai.onnx` is "".
    """

    def __init__(self, sources: Iterable[tuple[str, str, str, Make]], newest: Mapping[str, str] | None = None) -> None:
        table: dict[str, dict[str, dict[str, Make]]] = {}
        for domain, name, since, make in sources:
            table.setdefault(domain, {}).setdefault(name, {})[since] = make
        self._table = {
            domain: {
                name: dict(sorted(versions.items(), key=lambda item: version_key(item[0])))
                for name, versions in sorted(names.items())
            }
            for domain, names in sorted(table.items())
        }
        self._newest = {
            domain: max((since for versions in names.values() for since in versions), key=version_key)
            for domain, names in self._table.items()
        } | dict(newest or {})
        self._made: dict[tuple[str, str, str], OperatorDef] = {}
        self._found: dict[tuple[str, str, str], OperatorDef | None] = {}

    def domains(self) -> tuple[str, ...]:
        return tuple(self._table)

    def names(self, domain: str) -> tuple[str, ...]:
        """The operators of a domain, sorted; empty where the domain is unknown."""
        return tuple(self._table.get(canonical_domain(domain), ()))

    def newest(self, domain: str) -> str | None:
        """The newest version of a domain; None where it is unknown."""
        return self._newest.get(canonical_domain(domain))

    def versions(self, domain: str, name: str) -> tuple[str, ...]:
        """Every version that brought a definition (or a removal) of the operator, ascending; empty where unknown."""
        return tuple(self._table.get(canonical_domain(domain), {}).get(name, ()))

    def definition(self, domain: str, name: str, since: int | str) -> OperatorDef:
        """The definition that version `since` brought; a removal is one with `deprecated`. Raises KeyError."""
        key = (canonical_domain(domain), name, str(since))
        if key not in self._made:
            self._made[key] = self._table[key[0]][name][key[2]]()
        return self._made[key]

    def lookup(self, domain: str, name: str, version: int | str) -> OperatorDef | None:
        """The definition in force at a version of the domain.

        None where the operator is not yet registered, is removed there, or the registry does not know the version.
        """
        key = (canonical_domain(domain), name, str(version))
        if key not in self._found:
            self._found[key] = self._in_force(*key)
        return self._found[key]

    def _in_force(self, domain: str, name: str, version: str) -> OperatorDef | None:
        newest = self.newest(domain)
        wanted = version_key(version)
        if newest is None or wanted > version_key(newest):
            return None
        known = [since for since in self.versions(domain, name) if version_key(since) <= wanted]
        if not known:
            return None
        found = self.definition(domain, name, known[-1])
        # What was deprecated at once (GroupNormalization-18) was an operator nevertheless: a removal follows another.
        return None if found.deprecated and len(known) > 1 else found

    @cached_property
    def _bumps(self) -> tuple[tuple[OperatorDef, OperatorDef], ...]:
        pairs: list[tuple[OperatorDef, OperatorDef]] = []
        for domain in self.domains():
            for name in self.names(domain):
                chain = [self.definition(domain, name, since) for since in self.versions(domain, name)]
                pairs.extend(pairwise(chain))
        return tuple(pairs)

    def bumps(self) -> tuple[tuple[OperatorDef, OperatorDef], ...]:
        """All pairs (older, newer) of neighbouring versions, removals included, by domain, name and version."""
        return self._bumps

    @cached_property
    def _semantic(self) -> dict[str, str]:
        first: dict[str, str] = {}
        for older, newer in self.bumps():
            if types_only(older, newer):
                first[newer.key] = first.get(older.key, older.key)
        return first

    def semantic(self, definition: OperatorDef) -> str:
        """The key of the oldest definition that differs from this one in admitted types alone.

        This is what the registry can see; rules may know more (a meaning that moved under an unchanged signature).
        """
        return self._semantic.get(definition.key, definition.key)


def types_only(older: OperatorDef, newer: OperatorDef) -> bool:
    """Whether only admitted element types differ.

    Operands and results have the same names, kinds and order, attributes the same names, types, defaults and
    requiredness. Whether the meaning moved under the same signature no registry can see.
    """
    return (
        not older.deprecated
        and not newer.deprecated
        and [_form(o) for o in older.inputs] == [_form(o) for o in newer.inputs]
        and [_form(o) for o in older.outputs] == [_form(o) for o in newer.outputs]
        and older.attributes == newer.attributes
    )


def unchanged(older: OperatorDef, newer: OperatorDef) -> bool:
    """Whether nothing that a registry can see differs, admitted element types included. A version that was registered
    nevertheless means something else, or says the same in other words."""
    return (
        types_only(older, newer)
        and [o.types for o in older.inputs] == [o.types for o in newer.inputs]
        and [o.types for o in older.outputs] == [o.types for o in newer.outputs]
    )


def grows(older: OperatorDef, newer: OperatorDef) -> bool:
    """Whether the newer definition only appends: optional operands, attributes that may be left out, results.

    At least one thing is appended; names, kinds and order of what was there are kept; admitted types may differ. An
    operand or attribute that was required and now is optional is no growth: an absent one has no way back.
    """
    return (
        not older.deprecated
        and not newer.deprecated
        and _prefix(older.inputs, newer.inputs)
        and all(o.kind == OPTIONAL for o in newer.inputs[len(older.inputs) :])
        and _prefix(older.outputs, newer.outputs)
        and _kept(older.attributes, newer.attributes)
        and (
            len(newer.inputs) > len(older.inputs)
            or len(newer.outputs) > len(older.outputs)
            or len(newer.attributes) > len(older.attributes)
        )
    )


def _form(operand: Operand) -> tuple[str, str, bool, int]:
    variadic = operand.kind == VARIADIC
    return operand.name, operand.kind, variadic and operand.homogeneous, operand.minimum if variadic else 0


def _prefix(older: tuple[Operand, ...], newer: tuple[Operand, ...]) -> bool:
    if older and older[-1].kind == VARIADIC and len(newer) > len(older):
        return False
    return [_form(o) for o in older] == [_form(o) for o in newer[: len(older)]]


def _kept(older: tuple[Attribute, ...], newer: tuple[Attribute, ...]) -> bool:
    now = {a.name: a for a in newer}
    before = {a.name for a in older}
    return all(now.get(a.name) == a for a in older) and not any(a.required for a in newer if a.name not in before)
