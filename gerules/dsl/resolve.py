"""What capital names mean: operators at their versions, classes, and what `op` statements declare.

An unversioned operator is the one in force at the file's `opset` line. In engine files (`supports`, `cost`, `group`)
it is every version that the registry has: that reading is called *wide* here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gerules.dsl import ast
from gerules.dsl.protocols import RegistryLike
from gerules.dsl.suggest import did_you_mean, listed, nearest
from gerules.errors import Diagnostic, GerulesError, Label
from gerules.registry.definition import OPTIONAL, REQUIRED, VARIADIC, Attribute, Operand, OperatorDef

OPAQUE = "Opaque"
"""The built-in class of operators that no registry has; as a member it is its own key."""

DTYPES = (
    "f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "i4", "u4", "i2", "u2", "bool",
    "str", "c64", "c128", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "f4e2m1", "f6e2m3", "f6e3m2",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Members:
    """The members of a class, in order of first mention: definition keys (`Clip@11`, `Opaque`), or element types."""

    kind: str  # "operators" or "dtypes"
    keys: tuple[str, ...]


def canonical(domain: str) -> str:
    """`ai.onnx` is the default domain."""
    return "" if domain == "ai.onnx" else domain


def shown(domain: str) -> str:
    """How a domain is written in rule files."""
    return domain or "ai.onnx"


def fault(
    code: str, message: str, where: ast.Node, hint: str | None = None, labels: Iterable[Label] = ()
) -> GerulesError:
    return GerulesError(Diagnostic(code, message, where.span, hint=hint, labels=tuple(labels)))


@dataclass
class Scope:
    """All declared operators and classes of a set of files. Methods raise GerulesError with one diagnostic."""

    registry: RegistryLike
    declared: dict[tuple[str, str], dict[str, OperatorDef]] = field(default_factory=dict)
    classes: dict[str, tuple[ast.ClassDecl, ast.RuleFile]] = field(default_factory=dict)
    place_types: dict[tuple[str, str, int, bool], frozenset[str]] = field(default_factory=dict)
    _evaluated: dict[tuple[str, bool], Members] = field(default_factory=dict)
    _definitions: dict[str, OperatorDef] = field(default_factory=dict)
    _every: dict[tuple[str, str], tuple[OperatorDef, ...]] = field(default_factory=dict)
    _active: list[str] = field(default_factory=list)

    # ------------------------------------------------------------------------------------------- operators

    def definition(self, key: str) -> OperatorDef:
        """The definition that a key names (`Clip@11`, `gerules.Window@1`). Raises KeyError."""
        found = self._definitions.get(key)
        if found is None:
            name, since = key.rsplit("@", 1)
            domain, _, plain = name.rpartition(".")
            domain = canonical(domain)
            declared = self.declared.get((domain, plain), {})
            found = declared[since] if since in declared else self.registry.definition(domain, plain, since)
            self._definitions[key] = found
        return found

    def is_foreign(self, symbol: ast.Symbol, file: ast.RuleFile) -> bool:
        """An operator of a registry that is not loaded: a version or an `opset` line says that there is one."""
        domain = canonical(symbol.domain)
        if not domain or self.registry.newest(domain) is not None:
            return False
        if any(d == domain for d, _ in self.declared):
            # Files declare operators of the domain too: a release tells that one of its registry is meant.
            versions = self.declared.get((domain, symbol.name), {})
            release = symbol.version or ("" if versions else file.opset(symbol.domain)) or ""
            return "." in release and release not in versions
        return symbol.version is not None or file.opset(symbol.domain) is not None

    def every_version(self, domain: str, name: str) -> tuple[OperatorDef, ...]:
        """All definitions of an operator, ascending; removals left out."""
        key = (domain, name)
        if key not in self._every:
            declared = self.declared.get(key)
            if declared:
                self._every[key] = tuple(declared.values())
            else:
                found = [self.registry.definition(domain, name, v) for v in self.registry.versions(domain, name)]
                self._every[key] = tuple(d for d in found if not d.deprecated)
        return self._every[key]

    def candidates(self, symbol: ast.Symbol, file: ast.RuleFile, wide: bool = False) -> tuple[OperatorDef, ...]:
        """The definitions that an operator symbol may mean: one, in wide reading all; none for a foreign one."""
        if self.is_foreign(symbol, file):
            return ()
        domain = canonical(symbol.domain)
        versions = self.every_version(domain, symbol.name)
        if not versions:
            raise self._unknown(symbol)
        if symbol.version is not None:
            return (self._versioned(symbol, versions),)
        if wide or (domain, symbol.name) in self.declared:
            return versions if wide else versions[-1:]
        return (self._in_force(symbol, file, versions),)

    def _versioned(self, symbol: ast.Symbol, versions: tuple[OperatorDef, ...]) -> OperatorDef:
        for definition in versions:
            if definition.since == symbol.version:
                return definition
        domain = canonical(symbol.domain)
        since = [d.since for d in versions]
        message = f"{_plain(symbol)} was registered at {listed(since, most=20)}, not at {symbol.version}"
        if symbol.version is not None and symbol.version in self.registry.versions(domain, symbol.name):
            # Deprecated there, but registered: graphs of that version hold it, and rules lead away from it.
            return self.registry.definition(domain, symbol.name, symbol.version)
        hint = None
        try:
            now = self.registry.lookup(domain, symbol.name, symbol.version or "")
            hint = f"at opset {symbol.version} it is {now.key}" if now else None
        except ValueError:
            pass
        raise fault("GR134", message, symbol, hint)

    def _in_force(self, symbol: ast.Symbol, file: ast.RuleFile, versions: tuple[OperatorDef, ...]) -> OperatorDef:
        domain = canonical(symbol.domain)
        opset = file.opset(shown(domain))
        if opset is None:
            message = f"which {_plain(symbol)}? this file does not say at which opset it is written"
            newest = self.registry.newest(domain)
            raise fault(
                "GR135",
                message,
                symbol,
                f"begin the file with `opset {shown(domain)} {newest}`, or write {versions[-1].key}",
            )
        found = self.registry.lookup(domain, symbol.name, opset)
        if found is not None:
            return found
        newest = self.registry.newest(domain)
        if newest is not None and "." not in opset + newest and int(opset) > int(newest):
            return versions[-1]  # the `opset` line itself is at fault, and said to be
        since = [d.since for d in versions]
        message = f"there is no {_plain(symbol)} at opset {opset}; it was registered at {listed(since, most=20)}"
        raise fault("GR135", message, symbol, f"write the version, e.g. {versions[-1].key}, or another `opset` line")

    def _unknown(self, symbol: ast.Symbol) -> GerulesError:
        if not symbol.domain and symbol.name in self.classes:
            message = f"{symbol.name} is a class of operators, not an operator"
            return fault(
                "GR130", message, symbol, f"add `[f in {symbol.name}]` after the rule's name, and write `f(...)`"
            )
        domain = canonical(symbol.domain)
        known = [*self.registry.names(domain), *(n for d, n in self.declared if d == domain)]
        hint = did_you_mean(symbol.name, [*known, *([] if symbol.domain else self.classes)])
        if not known:
            domains = sorted({d for d, _ in self.declared})
            close = nearest(domain, domains)
            hint = (
                f"did you mean `{close}.{symbol.name}`?"
                if close
                else f"declare it with `op`, or say `opset {symbol.domain} VERSION`"
            )
        elif hint is None and not symbol.domain:
            elsewhere = [f"{d}.{n}" for d, n in self.declared if n == symbol.name]
            hint = (
                f"did you mean `{elsewhere[0]}`?"
                if elsewhere
                else "an operator that no registry has is declared with `op`"
            )
        return fault("GR130", f"unknown operator {_plain(symbol)}", symbol, hint)

    # --------------------------------------------------------------------------------------------- classes

    def class_members(self, name: str, wide: bool = False) -> Members:
        """The members of a declared class. Raises GerulesError for cycles and faulty members, KeyError if unknown."""
        key = (name, wide)
        if key not in self._evaluated:
            statement, file = self.classes[name]
            if name in self._active:
                names = [*self._active[self._active.index(name) :], name]
                raise fault(
                    "GR157",
                    f"class {name} contains itself: {' contains '.join(names)}",
                    statement,
                    "leave one of them out",
                )
            if len(self._active) > 100:
                raise fault("GR120", f"class {name} is made of classes more than 100 deep", statement, "name operators")
            self._active.append(name)
            try:
                self._evaluated[key] = self.members(statement.value, file, wide)
            finally:
                self._active.pop()
        return self._evaluated[key]

    def members(self, expr: ast.Expr, file: ast.RuleFile, wide: bool = False) -> Members:
        """The value of a set of operators or of element types."""
        if isinstance(expr, ast.Symbol):
            if not expr.domain and not expr.version and expr.name in self.classes:
                return self.class_members(expr.name, wide)
            if not expr.domain and expr.name == OPAQUE:
                return Members("operators", (OPAQUE,))
            return Members("operators", tuple(d.key for d in self.candidates(expr, file, wide)))
        if isinstance(expr, ast.Binary) and expr.op in ("|", "&", "-"):
            return self._combined(expr, self.members(expr.left, file, wide), self.members(expr.right, file, wide))
        if isinstance(expr, ast.SetExpr):
            return self._dtypes(expr)
        if isinstance(expr, ast.Call) and isinstance(expr.head, ast.Name) and expr.head.id == "operators":
            return self._domain(expr)
        if isinstance(expr, ast.Name) and expr.id in DTYPES:
            raise fault(
                "GR171", f"{expr.id} alone is an element type, not a set of them", expr, f"write `{{{expr.id}}}`"
            )
        message = "this is no set of operators and no set of element types"
        raise fault(
            "GR171",
            message,
            expr,
            'operators and classes joined with `|`, `&`, `-`; or `{f16, bf16}`; or `operators("ai.onnx")`',
        )

    def _combined(self, expr: ast.Binary, left: Members, right: Members) -> Members:
        if left.kind != right.kind:
            message = "operators and element types do not mix in one set"
            raise fault("GR171", message, expr, "keep them in two classes")
        inside = frozenset(right.keys)
        if expr.op == "|":
            return Members(left.kind, tuple(dict.fromkeys((*left.keys, *right.keys))))
        wanted = expr.op == "&"
        return Members(left.kind, tuple(k for k in left.keys if (k in inside) == wanted))

    def _dtypes(self, expr: ast.SetExpr) -> Members:
        keys: dict[str, None] = {}
        for item in expr.items:
            if not isinstance(item, ast.Name):
                message = "a set in braces holds element types"
                raise fault("GR171", message, item, "operators are joined with `|`: `Add | Mul`")
            if item.id not in DTYPES:
                hint = did_you_mean(item.id, DTYPES) or f"element types are {listed(DTYPES[:16])} and others"
                raise fault("GR131", f"unknown element type {item.id}", item, hint)
            keys[item.id] = None
        return Members("dtypes", tuple(keys))

    def _domain(self, expr: ast.Call) -> Members:
        if len(expr.operands) != 1 or not isinstance(expr.operands[0], ast.Text) or expr.keywords:
            raise fault("GR171", "operators() takes one domain in quotes", expr, 'write `operators("ai.onnx")`')
        domain = canonical(expr.operands[0].value)
        names = [*self.registry.names(domain), *(n for d, n in self.declared if d == domain)]
        if not names:
            message = f"no registry has the domain {expr.operands[0].value}"
            raise fault("GR130", message, expr.operands[0], "`ai.onnx` is the standard one")
        return Members("operators", tuple(d.key for name in names for d in self.every_version(domain, name)))


def _plain(symbol: ast.Symbol) -> str:
    return f"{symbol.domain}.{symbol.name}" if symbol.domain else symbol.name


# ----------------------------------------------------------------------------------------------- declared operators

ATTRIBUTE_KINDS = ("int", "ints", "float", "floats", "str", "strs", "bool", "dtype", "shape", "dim", "mask")


def declare(statement: ast.OpDecl) -> OperatorDef:
    """The definition that an `op` statement makes. Raises GerulesError (GR124, GR159, GR172)."""
    symbol = statement.symbol
    if not symbol.domain or canonical(symbol.domain) == "":
        message = "an operator of your own has a domain"
        raise fault("GR124", message, symbol, f"write `op my.{symbol.name}(...)`")
    inputs: list[Operand] = []
    attributes: list[Attribute] = []
    for param in statement.params:
        if param.type.name[:1].isupper():
            inputs.append(_operand(param))
        else:
            attributes.append(_attribute(param))
    outputs = [_operand(param) for param in statement.results]
    names = [p.name for p in statement.params]
    for name in names:
        if names.count(name) > 1:
            raise fault("GR141", f"{symbol} has two parameters {name}", statement, "name them apart")
    version = symbol.version or "1"
    return OperatorDef(
        symbol.domain, symbol.name, version, tuple(inputs), tuple(outputs), tuple(attributes), doc=statement.doc
    )  # fmt: skip


def _operand(param: ast.Param) -> Operand:
    if not param.type.name[:1].isupper():
        message = f"result {param.name} is a tensor, so its type is a capital type variable"
        raise fault("GR172", message, param, f"write `{param.name}: T`")
    if param.default is not None:
        raise fault("GR159", f"operand {param.name} cannot have a default", param, "`T?` may be absent")
    kind = {"": REQUIRED, "?": OPTIONAL, "*": VARIADIC}[param.type.suffix]
    return Operand(param.name, kind, param.type.name)


def _attribute(param: ast.Param) -> Attribute:
    kind = param.type.name
    if kind not in ATTRIBUTE_KINDS:
        hint = (
            did_you_mean(kind, ATTRIBUTE_KINDS)
            or f"attributes are {listed(ATTRIBUTE_KINDS, 'or')}; tensors have capital types"
        )
        raise fault("GR172", f"unknown type {kind}", param.type, hint)
    if param.type.suffix == "*":
        raise fault("GR172", f"attribute {param.name} cannot be variadic", param.type, f"write `{kind}s`")
    default = None if param.default is None else default_text(param.default, kind)
    if param.default is not None and default is None:
        raise fault(
            "GR159", f"the default of {param.name} is no {kind}", param.default, f"{param.name} is declared as {kind}"
        )
    return Attribute(param.name, kind, required=param.type.suffix == "" and default is None, default=default)


def default_text(expr: ast.Expr, kind: str) -> str | None:
    """The canonical text of a literal as an attribute of that kind; None where it is none."""
    value = literal(expr)
    if kind in ("int", "dim", "mask") and type(value) is int:
        return str(value)
    if kind == "bool" and isinstance(value, bool):
        return str(int(value))
    if kind == "float" and isinstance(value, (int, float)) and not isinstance(value, bool):
        from gerules.registry.text import format_float

        return format_float(value)
    if kind == "str" and isinstance(value, str):
        from gerules.registry.text import escape

        return escape(value)
    if kind == "dtype" and isinstance(expr, ast.Name) and expr.id in DTYPES:
        return expr.id
    if isinstance(value, tuple):
        return _list_text(value, kind)
    return None


def _list_text(values: tuple[object, ...], kind: str) -> str | None:
    from gerules.registry.text import format_floats, format_ints, format_strs

    if kind in ("ints", "shape") and all(type(v) is int for v in values):
        return format_ints(v for v in values if isinstance(v, int))
    if kind == "floats" and all(type(v) in (int, float) for v in values):
        return format_floats(v for v in values if isinstance(v, (int, float)))
    if kind == "strs" and all(isinstance(v, str) for v in values):
        return format_strs(v for v in values if isinstance(v, str))
    return None


def literal(expr: ast.Node) -> object:
    """The Python value of a literal: number, text, truth, list of these; None where it is none of them."""
    if isinstance(expr, ast.Number):
        return expr.value
    if isinstance(expr, ast.Text):
        return expr.value
    if isinstance(expr, ast.Word):
        return {"true": True, "false": False, "inf": float("inf")}.get(expr.word)
    if isinstance(expr, ast.Unary) and expr.op == "-":
        value = literal(expr.operand)
        return -value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    if isinstance(expr, ast.ListExpr):
        values = tuple(literal(item) for item in expr.items)
        return None if None in values else values
    return None


def declared_table(scope: Scope) -> Mapping[str, OperatorDef]:
    """All operators that rule files declare, by key."""
    return {d.key: d for versions in scope.declared.values() for d in versions.values()}
