"""Element types of terms: does any type that an operand can have fit its place.

What a place admits is taken over all versions of the operator, since a rule stands for whole semantic versions, which
differ in admitted types.
"""

from __future__ import annotations

from gerules.dsl import ast
from gerules.dsl.resolve import DTYPES
from gerules.dsl.statics import Statics
from gerules.dsl.suggest import listed
from gerules.errors import GerulesError
from gerules.registry.definition import OperatorDef


class ElementTypes(Statics):
    """Narrows the element types of variables by the places where they stand."""

    def definitions_of(self, node: ast.Node) -> tuple[OperatorDef, ...]:
        """The definitions that a call of an operator may mean; empty where unknown. Reports nothing."""
        if not isinstance(node, ast.Call):
            return ()
        if isinstance(node.head, ast.Name):
            return self.params.get(node.head.id, ())
        if isinstance(node.head, ast.Symbol):
            try:
                return self.program.resolve(node.head, self.file, self.wide)
            except GerulesError:
                return ()
        return ()

    def place_types(self, definition: OperatorDef, place: int, result: bool = False) -> frozenset[str] | None:
        """The element types that an operand (or result) admits at any version; None where they are not known."""
        key = (definition.domain, definition.name, place, result)
        known = self.program.scope.place_types
        if key not in known:
            admitted: set[str] = set()
            for version in self.program.scope.every_version(definition.domain, definition.name) or (definition,):
                formal = version.outputs if result else version.inputs
                if formal and (place < len(formal) or not result):
                    admitted |= formal[min(place, len(formal) - 1)].types
            known[key] = frozenset(admitted)
        return known[key] or None

    def types_of(self, node: ast.Node) -> frozenset[str] | None:
        """The element types that a term may have; None where nothing is known of them."""
        if isinstance(node, ast.Bind):
            return self.types_of(node.expr)
        if isinstance(node, ast.Name):
            return self.types.get(node.id) if node.id != "_" else None
        place = 0
        if isinstance(node, ast.Index):
            if not (isinstance(node.index, ast.Number) and isinstance(node.index.value, int)):
                return None
            place, node = node.index.value, node.base
            while isinstance(node, ast.Bind):
                node = node.expr
        definitions = self.definitions_of(node)
        return self._union(definitions, place, True)

    def _union(self, definitions: tuple[OperatorDef, ...], place: int, result: bool) -> frozenset[str] | None:
        admitted: frozenset[str] = frozenset()
        for definition in definitions:
            types = self.place_types(definition, place, result)
            if types is None:
                return None
            admitted |= types
        return admitted or None

    def admit(self, operand: ast.Node, place: int, definitions: tuple[OperatorDef, ...], makes: bool) -> None:
        """An operand stands in a place: narrow what is known of a variable; no type in common is a fault."""
        admitted = self._union(definitions, place, False)
        if admitted is None:
            return
        has = self.types_of(operand)
        if has is not None and not has & admitted:
            self._never(operand, has, admitted, definitions[-1], makes)
            return
        name = operand.name if isinstance(operand, ast.Bind) else operand.id if isinstance(operand, ast.Name) else ""
        if name and not makes:
            self.types[name] = admitted if has is None else has & admitted

    def _never(
        self, operand: ast.Node, has: frozenset[str], admitted: frozenset[str], definition: OperatorDef, makes: bool
    ) -> None:
        takes = f"{definition.name} takes {types_listed(admitted)} here"
        if makes:
            self.report.add(
                "GR127", f"{takes}, and this is {types_listed(has)}", operand, "a Cast makes the one of the other"
            )
        else:
            self.report.add("GR143", f"this never matches: {takes}, and this is {types_listed(has)}", operand)


def types_listed(types: frozenset[str]) -> str:
    """Element types in their usual order, `f32 or f16`."""
    return listed([t for t in [*DTYPES, *sorted(types)] if t in types][: len(types)], "or", most=6)
