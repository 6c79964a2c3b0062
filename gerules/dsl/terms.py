"""Terms of one rule: do calls fit their definitions, and does each stand where a thing of its sort can."""

from __future__ import annotations

from gerules.dsl import ast
from gerules.dsl.element_types import ElementTypes
from gerules.dsl.fits import RESULTS, Misfit, misfit, several_results
from gerules.dsl.resolve import DTYPES
from gerules.dsl.sorts import NODE, OPERATOR, REST, SORT_OF_KIND, TENSOR, Report
from gerules.dsl.suggest import listed
from gerules.dsl.vocabulary import VALUE_TERMS
from gerules.registry.definition import VARIADIC, OperatorDef

__all__ = ["NODE", "REST", "TENSOR", "Report", "Terms"]


class Terms(ElementTypes):
    """Checks patterns, and terms that are to be made."""

    def term(self, node: ast.Node, makes: bool, wanted: str = "") -> str:
        """Check a pattern (`makes` false) or a term to be made; its sort ("" where nothing is known).

        `wanted` is the sort that the place has: "tensor" for operands.
        """
        if isinstance(node, ast.Bind):
            sort = self.term(node.expr, makes, wanted)
            if makes:
                self.report.add(
                    "GR140", f"`as {node.name}` names what a pattern finds", node, "only patterns bind names"
                )
            self.note(node.name, sort or TENSOR, node)
            return sort
        if isinstance(node, ast.Call):
            return self._call(node, makes, wanted)
        if isinstance(node, ast.Index):
            return self._result(node, makes)
        if isinstance(node, ast.Name):
            return self._variable(node, makes, wanted)
        if isinstance(node, ast.Rest):
            return self._rest(node, makes, wanted)
        if isinstance(node, ast.Typed):
            return self.leaf(node)
        if isinstance(node, ast.Word):
            return "absent" if node.word == "none" else self._no_tensor(node, wanted)
        return self._no_tensor(node, wanted)

    def _no_tensor(self, node: ast.Node, wanted: str) -> str:
        if wanted == TENSOR:
            text = (
                "a number or a text is no tensor"
                if isinstance(node, ast.Number | ast.Text | ast.Word)
                else "this is no tensor"
            )
            self.report.add(
                "GR127", text, node, "`const(v)` is a tensor with the contents v, `dims(s)` one with the extents s"
            )
        else:
            self.static(node)
        return "static"

    def _variable(self, node: ast.Name, makes: bool, wanted: str) -> str:
        if node.id == "_":
            if makes:
                self.report.add(
                    "GR140", "`_` is anything, and here something is to be made", node, "name it on the left"
                )
            return ""
        if node.id in DTYPES and wanted == TENSOR:
            return self._no_tensor(node, wanted)
        if node.id in self.params:
            if wanted == TENSOR:
                self.report.add("GR127", f"{node.id} is an operator, not a tensor", node, f"apply it: `{node.id}(...)`")
            return OPERATOR
        if wanted:
            self.note(node.id, wanted, node)
        known = self.sorts.get(node.id)
        return known[0] if known else wanted

    def _rest(self, node: ast.Rest, makes: bool, wanted: str) -> str:
        if node.expr is None:
            if makes:
                message = "`..` says whatever else, and here something is to be made"
                self.report.add("GR140", message, node, "name it on the left: `..r`")
            return REST
        if isinstance(node.expr, ast.Name):
            self.note(node.expr.id, REST, node)
        else:
            self.term(node.expr, makes, wanted)
        return REST

    def _result(self, node: ast.Index, makes: bool) -> str:
        """`node[i]` is a tensor; `p[q]` a static list."""
        inner = node.base
        while isinstance(inner, ast.Bind):
            inner = inner.expr
        is_node = isinstance(inner, ast.Call) and (not isinstance(inner.head, ast.Name) or inner.head.id in self.params)
        known = self.sorts.get(inner.id) if isinstance(inner, ast.Name) else None
        if not is_node and not (known and known[0] == NODE):
            self.static(node)
            return "static"
        self.term(node.base, makes, NODE)
        self.static(node.index)
        definitions = self.definitions_of(inner)
        if definitions and isinstance(node.index, ast.Number):
            self._index_fits(node, definitions)
        return TENSOR

    def _index_fits(self, node: ast.Index, definitions: tuple[OperatorDef, ...]) -> None:
        assert isinstance(node.index, ast.Number)
        if any(o.kind == VARIADIC for d in definitions for o in d.outputs):
            return
        most = max(len(d.outputs) for d in definitions)
        if most == 1:
            message = f"{definitions[-1].key} has one result, which needs no index"
            self.report.add("GR139", message, node.index, "leave the `[0]` out")
        elif node.index.value >= most:
            message = f"{definitions[-1].key} has {most} results, so there is no [{node.index.text}]"
            self.report.add(
                "GR139", message, node.index, f"they are {listed(o.name for o in definitions[-1].outputs)}, from [0] on"
            )

    # ------------------------------------------------------------------------------------------------ calls

    def _call(self, call: ast.Call, makes: bool, wanted: str) -> str:
        if isinstance(call.head, ast.Name) and call.head.id not in self.params:
            return self._applied_name(call, call.head.id, makes, wanted)
        definitions: tuple[OperatorDef, ...] = ()
        if isinstance(call.head, ast.Symbol):
            found = self.resolve(call.head)
            definitions = found or ()
        elif isinstance(call.head, ast.Name):
            definitions = self.params[call.head.id]
        fitting = self._fitting(call, definitions, makes)
        self._parts(call, fitting or definitions, makes)
        several = [several_results(d) for d in fitting]
        if several and all(several):
            if wanted == TENSOR:
                self._say_which(call, fitting)
            return NODE
        return TENSOR if several and not any(several) else wanted

    def _say_which(self, call: ast.Call, definitions: tuple[OperatorDef, ...]) -> None:
        results = [o.name for o in definitions[-1].outputs]
        name = call.head.id if isinstance(call.head, ast.Name) else definitions[-1].name
        many = "two results" if len(results) == 2 else "several results"
        message = f"{name} has {many} ({listed(results)}): say which"
        self.report.add("GR138", message, call, f"write `{name}(...)[0]`")

    def _fitting(self, call: ast.Call, definitions: tuple[OperatorDef, ...], makes: bool) -> tuple[OperatorDef, ...]:
        """Those definitions that the call fits; where it fits none, the reason is reported."""
        faults: list[Misfit] = []
        fitting: list[OperatorDef] = []
        for definition in definitions:
            fault = misfit(definition, call, makes)
            if fault is None:
                fitting.append(definition)
            else:
                faults.append(fault)
        if definitions and not fitting:
            if isinstance(call.head, ast.Name) and len(definitions) > 1:
                message = f"no operator that {call.head.id} stands for fits: {faults[-1].message}"
                code = "GR143" if faults[-1].code in ("GR136", "GR133") else faults[-1].code
                self.report.add(code, message, faults[-1].where, faults[-1].hint)
            else:
                self.report.misfit(faults[-1])
        return tuple(fitting)

    def _parts(self, call: ast.Call, definitions: tuple[OperatorDef, ...], makes: bool) -> None:
        before_rest = True
        for place, operand in enumerate(call.operands):
            self.term(operand, makes, TENSOR)
            before_rest = before_rest and not isinstance(operand, ast.Rest)
            if before_rest:
                self.admit(operand, place, definitions, makes)
        for keyword in call.keywords:
            kinds = {a.type for d in definitions for a in d.attributes if a.name == keyword.name}
            kind = "int" if keyword.name == RESULTS else kinds.pop() if len(kinds) == 1 else ""
            if isinstance(keyword.value, ast.Name):
                name = keyword.value.id
                if name == "_" and makes:
                    self.term(keyword.value, makes)
                elif name != "_" and name not in DTYPES:
                    self.note(name, SORT_OF_KIND.get(kind, kind), keyword.value)
            elif not makes and isinstance(keyword.value, ast.ListExpr):
                self.list_pattern(keyword.value)
            else:
                self.static(keyword.value)

    def _applied_name(self, call: ast.Call, name: str, makes: bool, wanted: str) -> str:
        if name in VALUE_TERMS:
            return self._value_term(call, name, makes)
        if wanted == TENSOR or not self.vocabulary.knows(name):
            if self._host_tensor(name):
                self.static(call)
                return TENSOR
            if not self.vocabulary.knows(name):
                self.unknown_head(call, name)
            else:
                message = f"{name}(...) is a value, not a tensor"
                self.report.add(
                    "GR127", message, call, f"`const({name}(...))` or `dims({name}(...))` is a tensor with it"
                )
            return ""
        self.static(call)
        return "static"

    def _host_tensor(self, name: str) -> bool:
        entry = self.program.functions.get(name)
        return entry is not None and entry.statement.result.name in ("term", "const", "tensor")

    def _value_term(self, call: ast.Call, name: str, makes: bool) -> str:
        wanted = VALUE_TERMS[name]
        if len(call.operands) != len(wanted) or any(isinstance(o, ast.Rest) for o in call.operands):
            form = f"{name}({', '.join(n for n, _ in wanted)})"
            self.report.add(
                "GR136", f"{name} takes {len(wanted)}, and here are {len(call.operands)}", call, f"write `{form}`"
            )
        for keyword in call.keywords:
            if keyword.name != "dtype":
                self.report.add("GR133", f"{name} has no attribute {keyword.name}", keyword, "it has `dtype` alone")
            self._contents(keyword.value, "dtype", makes)
        for operand, (_, sort) in zip(call.operands, wanted, strict=False):
            self._contents(operand, sort, makes)
        return TENSOR

    def _contents(self, node: ast.Expr, sort: str, makes: bool) -> None:
        """What stands in const(), dims() and the like: a static value, a pattern of one on the left."""
        if isinstance(node, ast.Name):
            if node.id == "_":
                if makes:
                    self._variable(node, makes, "")
            elif node.id not in DTYPES and node.id not in self.params:
                self.note(node.id, "static" if sort != "dtype" else sort, node)
        elif isinstance(node, ast.ListExpr) and not makes:
            self.list_pattern(node)
        else:
            self.static(node)

    def list_pattern(self, node: ast.ListExpr) -> None:
        """A list that is taken apart: at most one rest, in front or at the end."""
        rests = [i for i, item in enumerate(node.items) if isinstance(item, ast.Rest)]
        if len(rests) > 1:
            self.report.add(
                "GR170", "a list pattern has at most one rest", node.items[rests[1]], "take it apart in two conditions"
            )
        elif rests and rests[0] not in (0, len(node.items) - 1):
            hint = "`[..s, m, n]` counts from the last entry, `[n, c, ..sp]` from the first"
            self.report.add("GR170", "a rest stands at either end of a list pattern", node.items[rests[0]], hint)
        for item in node.items:
            if isinstance(item, ast.Rest):
                if isinstance(item.expr, ast.Name):
                    self.note(item.expr.id, "static", item)
            elif isinstance(item, ast.Name):
                if item.id != "_":
                    self.note(item.id, "static", item)
            elif isinstance(item, ast.ListExpr):
                self.list_pattern(item)
            else:
                self.static(item)
