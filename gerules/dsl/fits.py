"""Does a call fit an operator's definition: number of operands, names and types of attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from gerules.dsl import ast
from gerules.dsl.resolve import DTYPES, literal
from gerules.dsl.suggest import did_you_mean, listed
from gerules.registry.definition import REQUIRED, VARIADIC, Attribute, OperatorDef

RESULTS = "results"
"""The pseudo-attribute that says how many results a node has."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a call does not fit a definition, and at which part of it."""

    code: str
    message: str
    where: ast.Node
    explain: Callable[[], str | None] | str | None = None  # worked out only for what is reported

    @property
    def hint(self) -> str | None:
        return self.explain() if callable(self.explain) else self.explain


def misfit(definition: OperatorDef, call: ast.Call, makes: bool) -> Misfit | None:
    """The first reason why `call` cannot be this operator; `makes` if it is to be made, not only matched."""
    return _operands(definition, call, makes) or _attributes(definition, call, makes)


def several_results(definition: OperatorDef) -> bool:
    """Whether the operator denotes a node whose results are picked by index."""
    return len(definition.outputs) > 1 or any(o.kind == VARIADIC for o in definition.outputs)


def form(definition: OperatorDef) -> str:
    """The signature as a rule writes it: `Clip@11(input, min?, max?)`."""
    marks = {REQUIRED: "", VARIADIC: "*"}
    operands = [o.name + marks.get(o.kind, "?") for o in definition.inputs]
    attributes = [f"{a.name}={a.default if a.default not in (None, '') else '...'}" for a in definition.attributes]
    return f"{definition.key}({', '.join(operands + attributes)})"


def _operands(definition: OperatorDef, call: ast.Call, makes: bool) -> Misfit | None:
    given = [o for o in call.operands if not isinstance(o, ast.Rest)]
    rests = len(call.operands) - len(given)
    inputs = definition.inputs
    variadic = any(o.kind == VARIADIC for o in inputs)
    required = sum(o.kind == REQUIRED for o in inputs)
    if any(o.kind == VARIADIC and o.minimum for o in inputs):
        required += max(o.minimum for o in inputs if o.kind == VARIADIC)
    if len(given) > len(inputs) and not variadic:
        many = _count(len(inputs), "operand")
        extra = given[len(inputs)]
        return Misfit(
            "GR136", f"{definition.key} has {many}, and here are {len(given)}", extra, partial(form, definition)
        )
    if len(given) < required and not rests:
        least = _count(required, "operand")
        more = "" if makes else "; `..` stands for whatever else"
        message = f"{definition.key} has at least {least}, and here are {len(given)}"
        return Misfit("GR136", message, call, lambda: form(definition) + more)
    for place, operand in enumerate(call.operands[: len(inputs)]):
        if isinstance(operand, ast.Rest):
            break
        if isinstance(operand, ast.Word) and operand.word == "none" and inputs[place].kind == REQUIRED:
            return Misfit(
                "GR143",
                f"operand {inputs[place].name} of {definition.key} is never absent",
                operand,
                partial(form, definition),
            )
    return None


def _attributes(definition: OperatorDef, call: ast.Call, makes: bool) -> Misfit | None:
    for keyword in call.keywords:
        if keyword.name == RESULTS:
            if not several_results(definition):
                return Misfit("GR133", f"{definition.key} has one result", keyword, "leave `results` out")
            continue
        attribute = definition.attribute(keyword.name)
        if attribute is None:
            return _unknown(definition, keyword)
        wrong = wrong_value(attribute, keyword.value)
        if wrong:
            message = f"attribute {attribute.name} of {definition.key} is {_article(attribute.type)}, not {wrong}"
            return Misfit("GR137", message, keyword.value, _example_of(attribute))
        if attribute.required and isinstance(keyword.value, ast.Word) and keyword.value.word == "none":
            return Misfit(
                "GR143",
                f"attribute {attribute.name} of {definition.key} is always set",
                keyword,
                partial(form, definition),
            )
    if call.operands and isinstance(call.operands[-1], ast.Rest):
        return None
    named = {k.name for k in call.keywords}
    missing = [a.name for a in definition.attributes if a.required and a.name not in named]
    if missing and makes:
        message = f"{definition.key} requires the {_plural(missing)} {listed(missing)}"
        return Misfit("GR178", message, call, f"add `{missing[0]}=...`")
    if missing:
        message = f"this never matches: {definition.key} always has the {_plural(missing)} {listed(missing)}"
        return Misfit("GR143", message, call, f"add `{missing[0]}=...`, or `..` for whatever else")
    return None


def _unknown(definition: OperatorDef, keyword: ast.Keyword) -> Misfit:
    message = f"{definition.key} has no attribute {keyword.name}"
    return Misfit("GR133", message, keyword, partial(_meant, definition, keyword.name))


def _meant(definition: OperatorDef, name: str) -> str:
    names = [a.name for a in definition.attributes]
    operands = [o.name for o in definition.inputs]
    if name in operands:
        return f"{name} is operand {operands.index(name)}: operands go by place"
    return did_you_mean(name, names) or (f"it has {listed(names)}" if names else "it has none")


def _plural(names: list[str]) -> str:
    return "attribute" if len(names) == 1 else "attributes"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


_ARTICLES = {
    "int": "an int", "ints": "a list of ints", "float": "a float", "floats": "a list of floats", "str": "a string",
    "strs": "a list of strings", "bool": "true or false", "dtype": "an element type", "shape": "a list of dimensions",
    "dim": "a dimension", "mask": "a set of axes", "tensor": "a tensor", "graph": "a graph",
}  # fmt: skip
_SAMPLES = {
    "int": "1", "ints": "[0, 1]", "float": "0.5", "floats": "[0.5, 1.0]", "str": '"..."', "strs": '["...", "..."]',
    "bool": "true", "dtype": "f32", "shape": "[N, 4]", "dim": "N", "mask": "{0, 1}",
}  # fmt: skip


def _article(kind: str) -> str:
    return _ARTICLES.get(kind, f"a {kind}")


def _example_of(attribute: Attribute) -> str | None:
    sample = _SAMPLES.get(attribute.type)
    return f"write `{attribute.name}={sample}`" if sample else None


def wrong_value(attribute: Attribute, expr: ast.Expr) -> str | None:
    """What a written value is, where it cannot be a value of the attribute; None where it can, or is no literal."""
    kind = attribute.type
    if isinstance(expr, ast.Word) and expr.word == "none":
        return None
    written = _kind_of(expr)
    if written is None:
        return None
    if written in _ACCEPTED.get(kind, ()):
        return None
    if kind.startswith("tensor"):
        return None
    return _DESCRIBED[written]


_ACCEPTED: dict[str, Sequence[str]] = {
    "int": ("int", "dtype"),
    "float": ("int", "float"),
    "str": ("str",),
    "bool": ("bool", "int"),
    "dtype": ("dtype",),
    "dim": ("int",),
    "ints": ("ints", "empty"),
    "floats": ("ints", "floats", "empty"),
    "strs": ("strs", "empty"),
    "shape": ("ints", "empty"),
    "mask": ("set", "int"),
}
_DESCRIBED = {
    "int": "an int", "float": "a float", "str": "a string", "bool": "true or false", "dtype": "an element type",
    "ints": "a list of ints", "floats": "a list of floats", "strs": "a list of strings", "empty": "an empty list",
    "list": "such a list", "set": "a set",
}  # fmt: skip


def _kind_of(expr: ast.Expr) -> str | None:
    """The kind of a literal; None for anything that is computed or bound."""
    if isinstance(expr, ast.Name):
        return "dtype" if expr.id in DTYPES else None
    if isinstance(expr, ast.SetExpr):
        return "set"
    if isinstance(expr, ast.ListExpr) and not expr.items:
        return "empty"
    value = literal(expr)
    if value is None:
        return None
    if isinstance(value, tuple):
        kinds = {type(v) for v in value}
        if kinds == {int}:
            return "ints"
        if kinds <= {int, float}:
            return "floats"
        return "strs" if kinds == {str} else "list"
    return {bool: "bool", int: "int", float: "float", str: "str"}[type(value)]
