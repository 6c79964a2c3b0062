"""Rewrites between releases of an operator, applied to one node at a time.

`ge.Concat@0.5.0(..x, d, N=n) <=> ge.Concat@1.8.0(d, ..x, N=n)`: `@` is the release that brought a form of the
operator, and the form is in force until the next release that rules name. A node built at one release and read at
another is led along such rules, whole ones or one for each result, until its operators are in force at run time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from gerules.dsl import ast
from gerules.dsl.lets import walk
from gerules.dsl.program import Entry, Program
from gerules.policy.forms import Constant, Made, NodeForm, Setting, Token
from gerules.registry.registry import version_key
from gerules.registry.release import Literal, Release, ReleaseAttribute, ReleaseOperator, same_default

MAX_STEPS = 64
"""Operators that one node may become, and rules that may lead there."""

Form = tuple[str, str]
"""An operator and the release that brought this form of it."""


class Misfit(Exception):
    """A rule does not apply to a node; the text says why."""


@dataclass(frozen=True, slots=True)
class VersionRule:
    """One reading of a rewrite: from `left` to `right`. `places`: the result that each side speaks of; None: all."""

    name: str
    left: ast.Call
    right: ast.Call
    places: tuple[int, int] | None
    when: tuple[ast.Expr, ...] = ()

    @property
    def source(self) -> Form:
        return _form(self.left)

    @property
    def target(self) -> Form:
        return _form(self.right)


def _form(call: ast.Call) -> Form:
    assert isinstance(call.head, ast.Symbol) and call.head.version is not None
    return call.head.name, call.head.version


def version_rules(program: Program, domain: str) -> tuple[VersionRule, ...]:
    """The rewrites of a program between releases of a domain, in order, those that go both ways twice."""
    found: list[VersionRule] = []
    for entry in program.rewrites.values():
        if _speaks_of(entry, domain):
            found += version_rules_of(entry)
    return tuple(found)


def _speaks_of(entry: Entry[ast.Rewrite], domain: str) -> bool:
    return any(
        isinstance(node, ast.Symbol) and node.domain == domain and node.version
        for side in (entry.statement.left, entry.statement.right)
        for node in walk(side)
    )


def version_rules_of(entry: Entry[ast.Rewrite]) -> tuple[VersionRule, ...]:
    """The readings of a rewrite: one, two where it goes both ways, none where it is not between single operators."""
    return tuple(_readings(entry))


def _readings(entry: Entry[ast.Rewrite]) -> Iterator[VersionRule]:
    statement = entry.statement
    left, i = term_of(statement.left)
    right, j = term_of(statement.right)
    if left is None:
        return
    places = None if i is None and j is None else (i or 0, j or 0)
    if right is not None:
        yield VersionRule(entry.full, left, right, places, statement.when)
        if statement.both:
            back = (places[1], places[0]) if places is not None else None
            yield VersionRule(entry.full, right, left, back, statement.when)


def term_of(side: ast.Expr) -> tuple[ast.Call | None, int | None]:
    """The operator term of a side and the result that it speaks of."""
    place = None
    while not isinstance(side, ast.Call):
        if isinstance(side, ast.Bind):
            side = side.expr
        elif isinstance(side, ast.Index) and isinstance(side.index, ast.Number) and isinstance(side.index.value, int):
            place, side = side.index.value, side.base
        else:
            return None, None
    if not isinstance(side.head, ast.Symbol) or side.head.version is None:
        return None, None
    return side, place


# --------------------------------------------------------------------------------------------------------- one node


@dataclass(frozen=True, slots=True)
class Versioned:
    """A node on its way: which form it has, and each attribute with what it was left to where it is not written."""

    node: NodeForm
    form: Form
    settings: Mapping[str, Setting] = field(default_factory=dict, hash=False)
    rules: tuple[str, ...] = ()


def start(node: NodeForm, form: Form, built: ReleaseOperator) -> Versioned:
    """A node as it was built: what it leaves unset is left to the default of the release it was built with."""
    settings: dict[str, Setting] = {}
    for attribute in built.attributes:
        if attribute.name in node.attributes:
            settings[attribute.name] = Setting(node.attributes[attribute.name], attribute.type, True, attribute.default)
        elif attribute.default is not None:
            settings[attribute.name] = Setting(attribute.default, attribute.type, False, attribute.default)
    for name, value in node.attributes.items():
        settings.setdefault(name, Setting(value, "", True))
    return Versioned(node, form, settings)


def adapted(item: Versioned, runtime: ReleaseOperator) -> ReleaseOperator:
    """The definition that a rewritten node was, as it were, built with: the runtime's lists, since a rule speaks of
    those, and the defaults and types that its attributes came with."""
    attributes = [
        ReleaseAttribute(name, setting.type or _type(runtime, name), setting.default is None, setting.default)
        for name, setting in item.settings.items()
    ]
    # What the rule leaves out has the runtime's default; what has none is for the policy to see.
    attributes += [a for a in runtime.attributes if a.name not in item.settings and not a.required]
    places = {a.name: n for n, a in enumerate(runtime.attributes)}
    attributes.sort(key=lambda a: places.get(a.name, len(places)))
    return ReleaseOperator(runtime.name, runtime.inputs, runtime.outputs, tuple(attributes))


def _type(runtime: ReleaseOperator, name: str) -> str:
    found = runtime.attribute(name)
    return found.type if found is not None else "String"


@dataclass(frozen=True)
class Lift:
    """Leads nodes of one release to another by the rules between them."""

    rules: tuple[VersionRule, ...]
    built: Release
    runtime: Release

    @cached_property
    def _mentioned(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, dict[str, None]] = {}
        for rule in self.rules:
            for head in (n for side in (rule.left, rule.right) for n in walk(side) if isinstance(n, ast.Symbol)):
                if head.version is not None:
                    found.setdefault(head.name, {}).setdefault(head.version)
        return {name: tuple(sorted(versions, key=version_key)) for name, versions in found.items()}

    def form_at(self, name: str, release: Release) -> Form | None:
        """The form of an operator that is in force at a release, as far as rules tell forms apart."""
        if not release.version:
            return None
        wanted = version_key(release.version)
        known = [v for v in self._mentioned.get(name, ()) if version_key(v) <= wanted]
        return (name, known[-1]) if known else None

    @cached_property
    def _steps(self) -> dict[Form, dict[Form, list[VersionRule]]]:
        found: dict[Form, dict[Form, list[VersionRule]]] = {}
        for rule in self.rules:
            found.setdefault(rule.source, {}).setdefault(rule.target, []).append(rule)
        return found

    def _at_runtime(self, form: Form) -> bool:
        return form == self.form_at(form[0], self.runtime) and form[0] in self.runtime.operators

    def path(self, form: Form) -> list[list[VersionRule]] | None:
        """The shortest way from a form to one in force at run time; [] where it is that already, None where none."""
        came: dict[Form, tuple[Form, list[VersionRule]] | None] = {form: None}
        queue = deque([form])
        while queue:
            at = queue.popleft()
            if self._at_runtime(at):
                way: list[list[VersionRule]] = []
                step = came[at]
                while step is not None:
                    way.append(step[1])
                    step = came[step[0]]
                return way[::-1]
            for following, rules in self._steps.get(at, {}).items():
                if following not in came:
                    came[following] = (at, rules)
                    queue.append(following)
        return None

    def lift(self, node: NodeForm, definition: ReleaseOperator) -> list[Versioned] | None:
        """The nodes that a node becomes, the one with its results last; None where no rule is needed or known.

        Raises Misfit where rules lead on and do not fit the node.
        """
        form = self.form_at(node.operator, self.built)
        if form is None:
            return None
        way = self.path(form)
        if not way:
            return None
        done: list[Versioned] = []
        waiting = [start(node, form, definition)]
        for _ in range(MAX_STEPS):
            if not waiting:
                return done[::-1]
            item = waiting.pop()
            steps = self.path(item.form)
            if steps is None:
                raise Misfit(f"no rule leads {item.form[0]}@{item.form[1]} to this runtime")
            if not steps:
                done.append(item)
                continue
            waiting += apply(steps[0], item, len(done) + len(waiting))
        raise Misfit("the rules do not come to an end")


# -------------------------------------------------------------------------------------------------------- one step


@dataclass
class _Match:
    operands: dict[str, tuple[Token | None, ...]] = field(default_factory=dict)
    settings: dict[str, Setting | None] = field(default_factory=dict)
    rest: dict[str, Setting] = field(default_factory=dict)


def apply(rules: Sequence[VersionRule], item: Versioned, number: int = 0) -> list[Versioned]:
    """One step along rules with the same sides: the new nodes, operands first; the first rule that fits is taken.
    Raises Misfit where none does, with what the last one wants."""
    whole = [rule for rule in rules if rule.places is None]
    for number_of, rule in enumerate(whole, start=1):
        try:
            return _built(rule, _matched(rule, item), item, None, number)
        except Misfit:
            if number_of == len(whole):
                raise
    results: dict[int, int] = {}
    made: list[Versioned] | None = None
    for rule in rules:
        assert rule.places is not None
        place, other = rule.places
        if place in results:
            continue
        try:
            found = _built(rule, _matched(rule, item), item, {}, number)
        except Misfit:
            continue
        if made is None:
            made = found
        elif [f.node for f in found] != [f.node for f in made]:
            raise Misfit(f"the rules for results of {item.form[0]} make different nodes")
        results[place] = other
    lacking = sorted(item.node.used - results.keys())
    if made is None or lacking:
        what = f"result {lacking[0]}" if lacking else "it"
        raise Misfit(f"no rule between {rules[0].source[1]} and {rules[0].target[1]} fits {what}")
    root = made[-1]
    size = max([*results.values(), -1]) + 1
    outputs: list[Token] = [Made(item.node.name, f"result{i}") for i in range(size)]
    for place, other in results.items():
        if place < len(item.node.outputs):
            outputs[other] = item.node.outputs[place]
    used = frozenset(results[p] for p in item.node.used)
    return [*made[:-1], replace(root, node=replace(root.node, outputs=tuple(outputs), used=used))]


def _matched(rule: VersionRule, item: Versioned) -> _Match:
    match = _Match()
    _operands(rule.left, item.node.inputs, match)
    named = {k.name for k in rule.left.keywords}
    carries = _carries(rule.left)
    for keyword in rule.left.keywords:
        _attribute(keyword, item.settings.get(keyword.name), match)
    for name, setting in item.settings.items():
        if name in named:
            continue
        if carries:
            match.rest[name] = setting
        elif setting.written:
            raise Misfit(f"attribute {name} is set, and the rule does not mention it")
    if not _carries(rule.right):
        for name, setting in match.rest.items():
            if setting.written:
                raise Misfit(f"attribute {name} is set, and the rule does not carry it")
    _conditions(rule, match)
    return match


def _operands(call: ast.Call, values: Sequence[Token | None], match: _Match) -> None:
    patterns = call.operands
    rests = [n for n, p in enumerate(patterns) if isinstance(p, ast.Rest)]
    # The last rest takes attributes; where an earlier one is there too, it takes attributes alone.
    if len(rests) == 2 and rests[1] == len(patterns) - 1:
        patterns, rests = patterns[:-1], rests[:1]
    if len(rests) > 1:
        raise Misfit("a rule between releases has one rest of operands at most")
    if rests:
        before, after = patterns[: rests[0]], patterns[rests[0] + 1 :]
        padded = [*values, *[None] * max(0, len(before) + len(after) - len(values))]
        middle = padded[len(before) : len(padded) - len(after)]
        rest = patterns[rests[0]]
        assert isinstance(rest, ast.Rest)
        if isinstance(rest.expr, ast.Name):
            _bind(match, rest.expr.id, tuple(middle))
        elif rest.expr is not None:
            raise Misfit("a rest of a rule between releases is a plain variable")
        pairs = [
            *zip(before, padded[: len(before)], strict=True),
            *zip(after, padded[len(padded) - len(after) :], strict=True),
        ]
    else:
        padded = [*values, *[None] * max(0, len(patterns) - len(values))]
        if any(v is not None for v in padded[len(patterns) :]):
            raise Misfit(f"it has {len(values)} operands, and the rule has {len(patterns)}")
        pairs = list(zip(patterns, padded[: len(patterns)], strict=True))
    for pattern, value in pairs:
        if isinstance(pattern, ast.Name):
            if pattern.id != "_":
                _bind(match, pattern.id, (value,))
        elif pattern == ast.Word("none"):
            if value is not None:
                raise Misfit("an operand is connected that the rule wants absent")
        else:
            raise Misfit("operands of a rule between releases are variables")


def _bind(match: _Match, name: str, values: tuple[Token | None, ...]) -> None:
    if match.operands.setdefault(name, values) != values:
        raise Misfit(f"{name} stands for two different operands")


def _attribute(keyword: ast.Keyword, setting: Setting | None, match: _Match) -> None:
    pattern = keyword.value
    if isinstance(pattern, ast.Name):
        if pattern.id != "_" and match.settings.setdefault(pattern.id, setting) != setting:
            raise Misfit(f"{pattern.id} stands for two different values")
        return
    if pattern == ast.Word("none"):
        if setting is not None and setting.written:
            raise Misfit(f"attribute {keyword.name} is set")
        return
    wanted = literal_value(pattern)
    value = setting.value if setting is not None else None
    if not (isinstance(value, (bool, int, float, str, tuple)) and same_default(value, wanted)):
        raise Misfit(f"attribute {keyword.name} is not {wanted!r}")


def _conditions(rule: VersionRule, match: _Match) -> None:
    if not rule.when:
        return
    from gerules.errors import GerulesError
    from gerules.static import Unknown, compile_condition
    from gerules.static.context import Context

    env: dict[str, object] = {n: s.value if s is not None else None for n, s in match.settings.items()}
    for condition in rule.when:
        try:
            holds = compile_condition(condition, Context())(env)
        except (Unknown, KeyError, GerulesError):
            holds = False
        if not holds:
            raise Misfit(f"a condition of {rule.name} does not hold")


def _carries(call: ast.Call) -> bool:
    """Whether a call's last operand is a rest: then what it does not name is carried."""
    return bool(call.operands) and isinstance(call.operands[-1], ast.Rest)


def _built(
    rule: VersionRule, match: _Match, item: Versioned, outputs: Mapping[int, int] | None, number: int
) -> list[Versioned]:
    """The nodes of a rule's right side, operands first. The root has the results, and the name, of what it replaces."""
    made: list[Versioned] = []
    node = item.node

    def build(call: ast.Call, root: bool) -> Token:
        # As deep as the right side is written.
        assert isinstance(call.head, ast.Symbol)
        if call.head.version is None:
            raise Misfit(f"{call.head} needs its release")
        operands: list[Token | None] = []
        for position, operand in enumerate(call.operands):
            operands += _made_operand(operand, match, build, last=position == len(call.operands) - 1)
        settings: dict[str, Setting] = dict(match.rest) if _carries(call) else {}
        for keyword in call.keywords:
            setting = _made_setting(keyword.value, match)
            if setting is not None:
                settings[keyword.name] = setting
        name = node.name if root else f"{node.name}/{call.head.name}_{number + len(made)}"
        results: tuple[Token, ...] = node.outputs if root else (Made(name, "0"),)
        attributes = {n: s.value for n, s in settings.items() if s.written}
        used = node.used if root else frozenset({0})
        form = NodeForm(name, call.head.name, tuple(operands), results, attributes, used)
        made.append(Versioned(form, _form(call), settings, (*item.rules, rule.name)))
        return results[0] if results else Made(name, "0")

    build(rule.right, True)
    return made


def _made_operand(operand: ast.Expr, match: _Match, build: object, last: bool) -> list[Token | None]:
    match operand:
        case ast.Rest(expr=ast.Name(id=name)):
            if name in match.operands:
                return list(match.operands[name])
            raise Misfit(f"nothing binds {name}")
        case ast.Rest(expr=None) if last:
            return []
        case ast.Name(id=name) if name in match.operands:
            return list(match.operands[name])
        case ast.Name(id=name) if match.settings.get(name) is not None:
            setting = match.settings[name]
            assert setting is not None
            return [Constant(_plain(setting.value))]
        case ast.Word(word="none"):
            return [None]
        case ast.Call(head=ast.Name(id="const"), operands=(ast.Name(id=name),)) if match.settings.get(name) is not None:
            setting = match.settings[name]
            assert setting is not None
            return [Constant(_plain(setting.value))]
        case ast.Call(head=ast.Name(id="const"), operands=(value,)):
            return [Constant(literal_value(value))]
        case ast.Call(head=ast.Symbol()):
            return [build(operand, False)]  # type: ignore[operator]  # a closure over the match
        case ast.Number() | ast.Unary():
            return [Constant(literal_value(operand))]
    raise Misfit("the right side has an operand that cannot be made")


def _made_setting(value: ast.Expr, match: _Match) -> Setting | None:
    if isinstance(value, ast.Name):
        if value.id in match.settings:
            return match.settings[value.id]
        raise Misfit(f"nothing binds {value.id}")
    if isinstance(value, ast.Field) and value.name == "size" and isinstance(value.base, ast.Name):
        return Setting(len(match.operands.get(value.base.id, ())), "Int", True, by_rule=True)
    if value == ast.Word("none"):
        return None
    return Setting(literal_value(value), "", True, by_rule=True)


def _plain(value: object) -> Literal:
    if isinstance(value, (bool, int, float, str, tuple)):
        return value
    raise Misfit("the value of an attribute cannot become an operand")


def literal_value(expr: ast.Expr) -> Literal:
    """A literal of a rule. Raises Misfit for what is none."""
    match expr:
        case ast.Text(value=text):
            return text
        case ast.Number(value=number):
            return number
        case ast.Unary(op="-", operand=ast.Number(value=number)):
            return -number
        case ast.Word(word="true" | "false" as word):
            return word == "true"
        case ast.ListExpr(items=items):
            return tuple(literal_value(item) for item in items)
    raise Misfit("a value of a rule between releases is a literal")
