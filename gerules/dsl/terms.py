"""Names and terms of one rule: what each variable is, whether it is bound, whether calls fit their definitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gerules.dsl import ast
from gerules.dsl.fits import RESULTS, Misfit, misfit, several_results
from gerules.dsl.lets import children, mentions
from gerules.dsl.program import Program
from gerules.dsl.resolve import DTYPES, OPAQUE
from gerules.dsl.suggest import did_you_mean, listed
from gerules.dsl.vocabulary import (
    BUILTIN_FUNCTIONS,
    BUILTIN_RELATIONS,
    LIST_FIELDS,
    TENSOR_FIELDS,
    VALUE_TERMS,
    Vocabulary,
)
from gerules.errors import Diagnostic, GerulesError, Label
from gerules.registry.definition import VARIADIC, OperatorDef

TENSOR, NODE, OPERATOR, REST = "tensor", "node", "operator", "rest"
_SORT_WORDS = {TENSOR: "a tensor", NODE: "a node with several results", OPERATOR: "an operator", REST: "a rest"}


# Attributes that hold tensors are static values, and an int may be an element type (`to` of Cast).
_SORT_OF_KIND = {"": "static", "tensor": "static", "int": "int", "dtype": "dtype"}


@dataclass
class Report:
    """Diagnostics of one run of the checker."""

    found: list[Diagnostic] = field(default_factory=list)

    def add(
        self,
        code: str,
        message: str,
        where: ast.Node,
        hint: str | None = None,
        labels: Iterable[Label] = (),
        severity: str = "error",
    ) -> None:
        self.found.append(Diagnostic(code, message, where.span, hint=hint, labels=tuple(labels), severity=severity))

    def misfit(self, fault: Misfit) -> None:
        self.add(fault.code, fault.message, fault.where, fault.hint)


@dataclass
class Terms:
    """Checks the terms of one rule. `wide`: unversioned operators mean every version (engines, groups).

    `loose`: symbols in static places may be dimension symbols (examples and assumptions).
    """

    program: Program
    vocabulary: Vocabulary
    file: ast.RuleFile
    report: Report
    wide: bool = False
    loose: bool = False
    params: dict[str, tuple[OperatorDef, ...]] = field(default_factory=dict)
    sorts: dict[str, tuple[str, ast.Node]] = field(default_factory=dict)
    engine_names: frozenset[str] = frozenset()
    free_names: frozenset[str] = frozenset()  # names that stand for something here without being bound
    types: dict[str, frozenset[str]] = field(default_factory=dict)  # element types that a tensor's places admit
    _complained: set[str] = field(default_factory=set)

    # ------------------------------------------------------------------------------------------- parameters

    def take_over(self, over: tuple[ast.Member, ...]) -> bool:
        """Resolve `[f in A, g in B]`; False where one of them is at fault."""
        sound = True
        for member in over:
            if member.name in self.params:
                self.report.add("GR141", f"{member.name} stands for two sets of operators", member, "name them apart")
            try:
                found = self.program.members(member.domain, self.file, self.wide)
                opaque = self.program.takes_opaque(member.domain, self.file)
            except GerulesError as fault:
                self.report.found += fault.diagnostics
                self.params[member.name] = ()
                sound = False
                continue
            if not found and not opaque and not self._foreign(member.domain):
                message = f"no operator is in this set, so {member.name} stands for none"
                self.report.add("GR143", message, member, "the rule can never match")
                sound = False
            self.params[member.name] = found
            self.sorts[member.name] = (OPERATOR, member)
        return sound

    def _foreign(self, expr: ast.Node) -> bool:
        return isinstance(expr, ast.Symbol) and self.program.scope.is_foreign(expr, self.file)

    # --------------------------------------------------------------------------------------------- patterns

    def binders(self, pattern: ast.Node) -> dict[str, ast.Node]:
        """The names that a pattern binds, with the place of each."""
        found: dict[str, ast.Node] = {}
        self._binders(pattern, found)
        return found

    def _binders(self, node: ast.Node, found: dict[str, ast.Node]) -> None:
        if isinstance(node, ast.Name):
            if node.id != "_" and node.id not in DTYPES and node.id not in self.params:
                found.setdefault(node.id, node)
        elif isinstance(node, ast.Bind):
            self._binders(node.expr, found)
            found.setdefault(node.name, node)
        elif isinstance(node, ast.Call):
            if self.is_pattern_head(node.head):
                for item in (*node.operands, *node.keywords):
                    self._binders(item, found)
        elif isinstance(node, ast.Keyword):
            self._binders(node.value, found)
        elif isinstance(node, ast.Typed):
            found.setdefault(node.name, node)
        elif isinstance(node, ast.Rest | ast.ListExpr | ast.Index):
            for part in children(node):
                self._binders(part, found)

    def is_pattern_head(self, head: ast.Node) -> bool:
        """Whether a call of it is a term of the graph (or a dimension term that rules rewrite), not a computation."""
        if isinstance(head, ast.Name):
            return head.id in VALUE_TERMS or head.id in self.params or self._is_term(head.id)
        return True

    def _is_term(self, name: str) -> bool:
        """Functions with dimensions as results are terms that rules may rewrite."""
        if name in ("broadcast", "product"):
            return True
        entry = self.program.functions.get(name)
        return entry is not None and entry.statement.result.name in ("dim", "shape")

    def resolve(self, symbol: ast.Symbol) -> tuple[OperatorDef, ...] | None:
        """The definitions of an operator; None where there are none to check against, reported if at fault."""
        try:
            return self.program.resolve(symbol, self.file, self.wide) or None
        except GerulesError as fault:
            self.report.found += fault.diagnostics
            return None

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
            return self._leaf(node)
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

    def _leaf(self, node: ast.Typed) -> str:
        if node.dtype not in DTYPES:
            self.report.add("GR131", f"unknown element type {node.dtype}", node, did_you_mean(node.dtype, DTYPES))
        if not self.loose:
            self.report.add("GR119", "leaves have types in examples only", node, "rules take what they are given")
        first = self.sorts.get(node.name)
        if first is not None and isinstance(first[1], ast.Typed) and first[1] != node:
            label = Label(first[1].span, "typed here")
            self.report.add(
                "GR141", f"{node.name} is typed twice", node, "write the type once, where it first occurs", [label]
            )
        self.note(node.name, TENSOR, node)
        for dim in node.dims:
            self.static(dim)
        return TENSOR

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
            inner = operand.expr if isinstance(operand, ast.Bind) else operand
            name = operand.name if isinstance(operand, ast.Bind) else inner.id if isinstance(inner, ast.Name) else ""
            if before_rest and name and not makes:
                self._admit(name, place, definitions)
        for keyword in call.keywords:
            kinds = {a.type for d in definitions for a in d.attributes if a.name == keyword.name}
            kind = "int" if keyword.name == RESULTS else kinds.pop() if len(kinds) == 1 else ""
            if isinstance(keyword.value, ast.Name):
                name = keyword.value.id
                if name == "_" and makes:
                    self.term(keyword.value, makes)
                elif name != "_" and name not in DTYPES:
                    self.note(name, _SORT_OF_KIND.get(kind, kind), keyword.value)
            elif not makes and isinstance(keyword.value, ast.ListExpr):
                self.list_pattern(keyword.value)
            else:
                self.static(keyword.value)

    def _admit(self, name: str, place: int, definitions: tuple[OperatorDef, ...]) -> None:
        """Narrow the element types of a tensor to those that its place admits in some definition."""
        admitted: set[str] = set()
        for definition in definitions:
            inputs = definition.inputs
            operand = inputs[min(place, len(inputs) - 1)] if inputs else None
            if operand is None or not operand.types:
                return
            admitted |= operand.types
        if definitions:
            self.types[name] = self.types.get(name, frozenset(admitted)) & admitted

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

    def unknown_head(self, call: ast.Call, name: str) -> None:
        if name in self._complained:
            return
        self._complained.add(name)
        if len(name) == 1 and not self.params:
            message = f"{name} is no operator parameter and no function"
            self.report.add("GR177", message, call, f"add `[{name} in ...]` after the rule's name")
            return
        self.report.add("GR132", f"no function or relation {name}", call.head, self.vocabulary.hint(name))

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

    # ------------------------------------------------------------------------------------------ static parts

    def static(self, node: ast.Node) -> None:
        """Check an expression that is computed: heads, fields, arithmetic, symbols."""
        if isinstance(node, ast.Symbol):
            self.symbol(node)
        elif isinstance(node, ast.Field):
            self._field(node)
        elif isinstance(node, ast.Call):
            self._static_call(node)
        elif isinstance(node, ast.Bind):
            self.report.add(
                "GR140", f"`as {node.name}` names a term, not a computed value", node, f"write `{node.name} == ...`"
            )
            self.static(node.expr)
        elif isinstance(node, ast.Typed):
            self._leaf(node)
        elif isinstance(node, ast.Binary | ast.Unary):
            if not (isinstance(node, ast.Unary) and node.op == "not"):
                self._arithmetic(node)
            for part in children(node):
                self.static(part)
        elif isinstance(node, ast.Name):
            if node.id == "_" and not self.loose:
                self.report.add("GR140", "`_` is anything and has no value", node, "name it where it is matched")
        else:
            for part in children(node):
                self.static(part)

    def _arithmetic(self, node: ast.Binary | ast.Unary) -> None:
        for part in children(node):
            known = self.sorts.get(part.id) if isinstance(part, ast.Name) else None
            if known and known[0] in (TENSOR, NODE, OPERATOR) and not self._in_sets(node, part):
                assert isinstance(part, ast.Name)
                message = f"{part.id} is {_SORT_WORDS[known[0]]}, and `{node.op}` computes with numbers and lists"
                hint = (
                    f"`{part.id}.shape`, or `const(v)` in the pattern for its contents" if known[0] == TENSOR else None
                )
                self.report.add("GR127", message, part, hint)

    @staticmethod
    def _in_sets(node: ast.Binary | ast.Unary, part: ast.Node) -> bool:
        return isinstance(node, ast.Binary) and node.op in ("|", "&") and not isinstance(part, ast.Name)

    def _field(self, node: ast.Field) -> None:
        if node.name not in TENSOR_FIELDS:
            hint = did_you_mean(node.name, TENSOR_FIELDS) or f"a tensor has {listed(f'.{f}' for f in TENSOR_FIELDS)}"
            self.report.add("GR169", f"there is no field .{node.name}", node, hint)
        base = node.base
        if isinstance(base, ast.Rest):
            base = base.expr or base
        if isinstance(base, ast.Name) and base.id != "_":
            known = self.sorts.get(base.id)
            if known is None and node.name not in LIST_FIELDS:
                self.note(base.id, TENSOR, node)
            elif known and known[0] in ("int", "float", "str", "bool", "dtype", OPERATOR):
                word = _SORT_WORDS.get(known[0], f"an attribute of type {known[0]}")
                self.report.add("GR127", f"{base.id} is {word} and has no .{node.name}", node)
            elif known and known[0] == NODE:
                self.report.add(
                    "GR138", f"{base.id} has several results: say which", node, f"write `{base.id}[0].{node.name}`"
                )
        else:
            self.static(base)

    def _static_call(self, call: ast.Call) -> None:
        head = call.head
        if not isinstance(head, ast.Name) or head.id in self.params or head.id in VALUE_TERMS:
            self.term(call, makes=False)
            return
        name = head.id
        if not self.vocabulary.knows(name):
            self.unknown_head(call, name)
        for keyword in call.keywords:
            self.report.add(
                "GR174", f"{name} takes its operands by place", keyword, "attributes by name are for operators"
            )
        self._arity(call, name)
        for operand in call.operands:
            if isinstance(operand, ast.Name) and operand.id == "_" and self.vocabulary.is_relation(name):
                continue
            if isinstance(operand, ast.Symbol) and self.loose:
                continue
            self.static(operand)

    def _arity(self, call: ast.Call, name: str) -> None:
        """Number and literal types of what a function, table or relation is applied to."""
        rests = any(isinstance(o, ast.Rest) for o in call.operands)
        given = len(call.operands)
        declared = self.program.functions.get(name) or self.program.tables.get(name)
        if declared is not None:
            params = declared.statement.params
            least = sum(p.type.suffix == "" for p in params)
            most = None if any(p.type.suffix == "*" for p in params) else len(params)
        elif name in BUILTIN_FUNCTIONS:
            params = ()
            least, most = BUILTIN_FUNCTIONS[name]
        elif self.vocabulary.is_relation(name):
            params = ()
            least = most = self.vocabulary.relations.get(name, BUILTIN_RELATIONS.get(name, given))
        else:
            return
        if not rests and (given < least or (most is not None and given > most)):
            code = "GR174" if self.vocabulary.is_function(name) else "GR175"
            wants = f"{least}" if most == least else f"at least {least}" if most is None else f"{least} to {most}"
            labels = [Label(declared.statement.span, "declared here")] if declared is not None else []
            self.report.add(
                code, f"{name} takes {wants}, and here {'is' if given == 1 else 'are'} {given}", call, None, labels
            )
        for operand, param in zip(call.operands, params, strict=False):
            if not isinstance(operand, ast.Rest):
                self._column(name, operand, param)

    def _column(self, name: str, operand: ast.Expr, param: ast.Param) -> None:
        kind = param.type.name
        wrong = None
        if isinstance(operand, ast.Text) and kind not in ("str", "any", "value", "const", "node"):
            wrong = "a text"
        elif isinstance(operand, ast.Number) and kind in ("str", "op", "dtype", "engine", "bool"):
            wrong = "a number"
        elif isinstance(operand, ast.Name) and operand.id in self.sorts:
            sort = self.sorts[operand.id][0]
            if sort == TENSOR and kind in (
                "int",
                "ints",
                "float",
                "floats",
                "str",
                "strs",
                "bool",
                "dtype",
                "op",
                "mask",
            ):
                wrong = "a tensor"
        if wrong:
            message = f"{param.name} of {name} is {kind}, not {wrong}"
            self.report.add("GR137", message, operand, None)

    def symbol(self, symbol: ast.Symbol) -> None:
        """A capital name in a computed place: a class, an engine, an operator; a dimension where that may be."""
        if symbol.domain or symbol.version:
            self.resolve(symbol)
            return
        name = symbol.name
        if self.loose or name in self.program.scope.classes or name in self.engine_names or name == OPAQUE:
            return
        if self.program.registry.versions("", name):
            return
        known = [*self.program.scope.classes, *self.engine_names, *self.program.registry.names("")]
        self.report.add("GR130", f"unknown operator or class {name}", symbol, did_you_mean(name, known))

    # ------------------------------------------------------------------------------------------------- sorts

    def note(self, name: str, sort: str, where: ast.Node) -> None:
        """A variable stands where only something of a sort can; a second sort that excludes the first is a fault."""
        if name == "_" or not sort or name in self.params:
            return
        known = self.sorts.get(name)
        if known is None or (known[0] == "static" and sort not in (TENSOR, NODE)):
            self.sorts[name] = (sort, where)
            return
        before, place = known
        if before == sort or (sort == "static" and before not in (TENSOR, NODE)):
            return
        if {before, sort} == {"int", "dtype"}:
            return
        if REST in (before, sort) or name in self._complained:
            return
        self._complained.add(name)
        label = Label(place.span, f"here it is {self._word(before)}")
        hint = "`const(v)` in a pattern takes the contents of a constant tensor" if TENSOR in (before, sort) else None
        self.report.add("GR127", f"{name} is {self._word(sort)} here", where, hint, [label])

    @staticmethod
    def _word(sort: str) -> str:
        if sort == "static":
            return "a static value"
        return _SORT_WORDS.get(sort, f"an attribute ({sort})")

    def used(self, node: ast.Node) -> set[str]:
        """The variables of an expression: small-letter names that are no element types, heads or parameters."""
        return {n for n in variables(node) if n not in DTYPES and n not in self.params and n not in self.free_names}


def variables(node: ast.Node) -> set[str]:
    """Names used as values in an expression: without heads of calls and `_`; those after `as` included."""
    found: set[str] = set()
    pending = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, ast.Name):
            if current.id != "_":
                found.add(current.id)
            continue
        if isinstance(current, ast.Bind):
            found.add(current.name)
        if isinstance(current, ast.Call):
            pending.extend((*current.operands, *current.keywords))
        else:
            pending.extend(children(current))
    return found


def names_in(nodes: Iterable[ast.Node]) -> Mapping[str, int]:
    """How often each name occurs in some expressions, heads included."""
    counts: dict[str, int] = {}
    for node in nodes:
        for name in mentions(node):
            counts[name] = counts.get(name, 0) + 1
    return counts
