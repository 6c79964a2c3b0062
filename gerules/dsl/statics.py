"""The computed parts of a rule: fields, arithmetic, functions, relations, capital names."""

from __future__ import annotations

from gerules.dsl import ast
from gerules.dsl.lets import children
from gerules.dsl.resolve import DTYPES, OPAQUE
from gerules.dsl.sorts import NODE, OPERATOR, SORT_WORDS, TENSOR, Sorts
from gerules.dsl.suggest import did_you_mean, listed
from gerules.dsl.vocabulary import BUILTIN_FUNCTIONS, BUILTIN_RELATIONS, LIST_FIELDS, TENSOR_FIELDS, VALUE_TERMS
from gerules.errors import Label


class Statics(Sorts):
    """Checks expressions that have a value without a graph."""

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
            self.leaf(node)
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

    def leaf(self, node: ast.Typed) -> str:
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
        for dim in node.dims if self.loose else ():
            self.static(dim)
        return TENSOR

    def _arithmetic(self, node: ast.Binary | ast.Unary) -> None:
        for part in children(node):
            known = self.sorts.get(part.id) if isinstance(part, ast.Name) else None
            if known and known[0] in (TENSOR, NODE, OPERATOR) and not self._in_sets(node, part):
                assert isinstance(part, ast.Name)
                message = f"{part.id} is {SORT_WORDS[known[0]]}, and `{node.op}` computes with numbers and lists"
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
                word = SORT_WORDS.get(known[0], f"an attribute of type {known[0]}")
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
        if not call.keywords:
            self.arity(call, name)
        for operand in call.operands:
            if isinstance(operand, ast.Name) and operand.id == "_" and self.vocabulary.is_relation(name):
                continue
            if isinstance(operand, ast.Symbol) and self.loose:
                continue
            self.static(operand)

    def unknown_head(self, call: ast.Call, name: str) -> None:
        if name in self._complained:
            return
        self._complained.add(name)
        if len(name) == 1 and not self.params:
            message = f"{name} is no operator parameter and no function"
            self.report.add("GR177", message, call, f"add `[{name} in ...]` after the rule's name")
            return
        self.report.add("GR132", f"no function or relation {name}", call.head, self.vocabulary.hint(name))

    def arity(self, call: ast.Call, name: str) -> None:
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
