"""A set of rules compiled for one window of operator versions: an egglog program that is built once and reused.

The program holds sorts, one constructor for each semantic version that a rule speaks of, what follows from types alone
(`theory`: contents of constants, inferred types), and every instance of every rule. A graph is loaded on top of it and
popped again (`gerules.egraph.session`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from egglog import bindings

from gerules.dsl import ast
from gerules.dsl.program import Program
from gerules.egraph import host as hosting
from gerules.egraph.ground import Ground, Row
from gerules.egraph.host import NO, Host
from gerules.egraph.lower import Instance, Lowering, ruleset_name
from gerules.egraph.signature import Signature, Signatures
from gerules.egraph.terms import quoted
from gerules.egraph.texts import node_texts
from gerules.errors import Diagnostic, GerulesError, InternalFault
from gerules.graph import constants
from gerules.graph.dims import Dim, DimFacts
from gerules.graph.infer import infer_node
from gerules.graph.info import UNKNOWN, Entries, Info, Uniform
from gerules.registry import onnx_registry
from gerules.registry.definition import OperatorDef
from gerules.registry.registry import Registry, grows, types_only, unchanged, version_key
from gerules.static import Context, TensorView, Unknown
from gerules.static.host import HostFunction

PRELUDE = """\
(sort T)
(sort N)
(sort Ts (Vec T))
(constructor V (i64) T)
(constructor NV (i64) N)
(constructor Absent () T)
(constructor K (String) T)
(constructor Known (String) T)
(constructor Out (N i64) T)
(constructor Opaque (i64 Ts) N)
(ruleset load)
(ruleset theory)
(function contents_of (T) String :merge old)
(function infos (Ts i64) String :merge new)
(relation uniform (T))
(relation entries (T))
(relation arity (Ts i64))
(relation element (Ts i64 T))"""


class _RunFacts(DimFacts):
    """The promises of the graph at hand, for closures that outlive it."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host = host
        self._none = DimFacts()

    @property
    def _now(self) -> DimFacts:
        return self._host.run.facts if self._host.run is not None else self._none

    def equal(self, a: Dim, b: Dim) -> bool | None:
        return self._now.equal(a, b)

    def at_least(self, a: Dim, b: Dim) -> bool | None:
        return self._now.at_least(a, b)

    def divides(self, divisor: int, dim: Dim) -> bool | None:
        return self._now.divides(divisor, dim)

    def lower(self, dim: Dim) -> int | None:
        return self._now.lower(dim)

    def upper(self, dim: Dim) -> int | None:
        return self._now.upper(dim)

    def normal(self, dim: Dim) -> Dim:
        return self._now.normal(dim)

    def known(self, dim: Dim) -> Dim:
        return self._now.known(dim)


LATER = frozenset({"GR502", "GR511"})
"""Rules that need what comes later (registries that are not loaded, `iota`): they have no instance, and say so."""


@dataclass(frozen=True)
class Scope:
    """Names of a file as the e-graph resolves them: one definition for an operator symbol."""

    program: Program

    def operator(self, symbol: ast.Symbol, file: ast.RuleFile) -> OperatorDef:
        found = self.program.resolve(symbol, file)
        if not found:
            raise GerulesError(
                Diagnostic(
                    "GR502", f"the registry of {symbol} is not loaded", span=symbol.span, hint="the rule is left out"
                )
            )
        return found[-1]

    def members(self, expr: ast.Expr, file: ast.RuleFile) -> Sequence[OperatorDef]:
        return self.program.members(expr, file)

    def is_operator(self, symbol: ast.Symbol, file: ast.RuleFile) -> bool:
        return bool(self.program.resolve(symbol, file))


@dataclass(frozen=True)
class CappedScope(Scope):
    """A class may be written at a newer opset than the rules of a window reach: of an operator that moved on since, the
    version in force at the window's upper end takes its place."""

    ceiling: int

    def members(self, expr: ast.Expr, file: ast.RuleFile) -> Sequence[OperatorDef]:
        found: dict[str, OperatorDef] = {}
        for member in super().members(expr, file):
            if not member.domain and version_key(member.since) > (self.ceiling,):
                older = self.program.registry.lookup("", member.name, self.ceiling)
                if older is None:
                    continue
                member = older
            found.setdefault(member.key, member)
        return tuple(found.values())


@dataclass
class Knowledge:
    """What a program says of operators before any graph: ground facts, semantic versions, signatures."""

    program: Program
    registry: Registry
    ground: Ground
    signatures: Signatures
    kept: dict[str, object] = field(default_factory=dict, repr=False, compare=False)
    """What later rooms derive from a program once, by their own names for it."""

    def semantic(self, definition: OperatorDef) -> str:
        return self.signatures.of(definition).definition.key


def knowledge(program: Program) -> Knowledge:
    """Evaluates the ground facts of a program. Raises GerulesError for facts that go round in a circle."""
    registry = onnx_registry()
    bumps = [(a, b) for a, b in registry.bumps() if not b.deprecated and not a.deprecated]
    tables: dict[str, Sequence[Row]] = {
        "bump": bumps,
        "types_only": [(a, b) for a, b in bumps if types_only(a, b)],
        "unchanged": [(a, b) for a, b in bumps if unchanged(a, b)],
        "grows": [(a, b) for a, b in bumps if grows(a, b)],
        "has_body": [
            (d,)
            for n in registry.names("")
            for s in registry.versions("", n)
            if (d := registry.definition("", n, s)).has_body
        ],
    }
    facts = [(e.statement, e.file) for e in program.facts.values()]
    ground = Ground(Scope(program), facts, tables)
    members = ground.close()
    dtype_attributes: dict[str, set[str]] = {}
    if "dtype_attribute" in ground.relations():
        for row in ground.rows("dtype_attribute"):
            operator, name = row
            assert isinstance(operator, OperatorDef)
            for since in registry.versions(operator.domain, operator.name):
                definition = registry.definition(operator.domain, operator.name, since)
                if any(a.name == name and a.type == "int" for a in definition.attributes):  # Cast-1 has a word
                    dtype_attributes.setdefault(definition.key, set()).add(str(name))
    impure = (
        frozenset(
            f"{d.domain}.{d.name}" if d.domain else d.name
            for d in (program.definition(k) for k in program.classes["Impure"].keys)
        )
        if "Impure" in program.classes
        else frozenset()
    )
    signatures = Signatures(
        program.definition,
        dict(ground.representative),
        members,
        impure,
        {k: frozenset(v) for k, v in dtype_attributes.items()},
    )
    return Knowledge(program, registry, ground, signatures)


@dataclass
class Compiled:
    """An egglog program ready to take graphs. `instances` maps a rule instance's name to its author's rule."""

    knowledge: Knowledge
    host: Host
    egraph: bindings.EGraph
    window: tuple[int, int]
    rules: dict[str, str] = field(default_factory=dict)
    rulesets: tuple[str, ...] = ()
    declared: set[str] = field(default_factory=set)
    calls: dict[str, str] = field(default_factory=dict)
    _context: Context | None = None

    def run(self, commands: Iterable[str]) -> list[object]:
        """Runs commands one by one (a parsed command keeps the whole text that it came from)."""
        outputs: list[object] = []
        for command in commands:
            outputs += guarded(self, command)
        return outputs

    @property
    def context(self) -> Context:
        """What static expressions of the program may ask."""
        if self._context is None:
            self._context = context(self.knowledge.program, self.knowledge.ground, self.host)
        return self._context

    def extend(
        self,
        rewrites: Sequence[tuple[ast.Rewrite, ast.RuleFile]],
        facts: Sequence[tuple[ast.Fact, ast.RuleFile]] = (),
    ) -> None:
        """Adds the instances of more rules. Raises GerulesError with every rule that cannot be compiled."""
        self.add(lower(self.knowledge, self.host, self.context, rewrites, facts, self.window)[0])

    def add(self, instances: Sequence[Instance]) -> None:
        """Adds rule instances, with the operators that they speak of."""
        self.run(self.host.declarations([k for i in instances for k in i.calls]))
        named = {n for i in instances for n in (*i.reads, *i.makes)}
        for signature in list(self.knowledge.signatures.all()):
            if signature.constructor in named:
                self.run(self.declare(signature))
                self.declared.add(signature.constructor)
        fresh = [r for r in dict.fromkeys(i.ruleset for i in instances) if r not in self.rulesets]
        self.run(f"(ruleset {ruleset_name(r)})" for r in fresh)
        self.rulesets = (*self.rulesets, *fresh)
        self.rules.update({i.name: i.rule for i in instances})
        self.run(i.text for i in instances)

    def declare(self, signature: Signature) -> Iterator[str]:
        """The constructor of an operator that the program does not know yet, with its provenance and type inference."""
        if signature.constructor in self.declared:
            return
        yield from declaration(signature, self.call_of(signature))

    def call_of(self, signature: Signature) -> str:
        """The host call that infers this operator's result types."""
        name = self.calls.get(signature.constructor)
        if name is None:
            name = self.calls[signature.constructor] = self.host.add(
                inference(self.host, signature), f"types of {signature.definition.key}"
            )
            self.run(self.host.declarations([len(self.host.calls) - 1]))
        return name


def guarded(compiled: Compiled, command: str) -> list[object]:
    """Runs one command; a failure inside becomes our fault, with the rule it happened in."""
    try:
        return list(compiled.egraph.run_program(*compiled.egraph.parse_program(command)))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a Rust panic is no Exception
        run = compiled.host.run
        where = f" in {run.failure[0]}" if run is not None and run.failure is not None else ""
        cause = run.failure[1] if run is not None and run.failure is not None else error
        raise InternalFault(
            Diagnostic(
                "GR901",
                f"the e-graph engine failed{where}: {type(cause).__name__}: {str(cause)[:300]}",
                hint="this is a fault of gerules: please report it with the model and the rule files",
            )
        ) from cause


def declaration(signature: Signature, infer: str) -> Iterator[str]:
    """Constructor, provenance and type inference of one operator."""
    name, columns = signature.constructor, " ".join(signature.columns)
    yield f"(constructor {name} ({columns}) {signature.sort})"
    yield f"(function by_{name} ({columns}) String :merge old)"
    operands = [f"x{k}" for k in range(signature.fixed)]
    texts = [f"a{k}" for k in range(len(signature.attributes))]
    impure = ["p"] if signature.impure else []
    vector = ["v"] if signature.variadic else []
    term = f"({' '.join([name, *operands, *vector, *texts, *impure])})"
    atoms = [f"(= i{k} (info x{k}))" for k in range(signature.fixed)]
    arguments = [f"i{k}" for k in range(signature.fixed)]
    if signature.variadic:
        made = f"(= {'n' if signature.several else 'y'} {term})"
        yield (
            f'(rule ({made} (= l (vec-length v))) ((arity v l) (set (infos v 0) "")) '
            f':ruleset theory :name "operands of {name}")'
        )
        atoms += ["(arity v l)", "(= is (infos v l))"]
        arguments.append("is")
    if not signature.representable:
        return
    root = [f"(= n {term})", "(= y (Out n i))"] if signature.several else [f"(= y {term})"]
    ask = f"(= r {hosting.call(infer, ['(to-string i)' if signature.several else quoted('0'), *arguments, *texts])})"
    yield (
        f"(rule ({' '.join([*root, *atoms, ask])} (!= r {quoted(NO)})) ((set (info y) r)) "
        f":ruleset theory :name {quoted(f'types of {signature.definition.key}')})"
    )


def inference(host: Host, signature: Signature) -> hosting.Call:
    """What the schema says of a node's results, from what is known of its operands."""
    count = signature.fixed

    def infer(index: str, *texts: str) -> str:
        place = int(index)
        known = list(texts[:count])
        if signature.variadic:
            known += texts[count].split(hosting.SEPARATOR)[1:]
        columns = texts[len(texts) - len(signature.attributes) :] if signature.attributes else ()
        results: int | None = None
        if signature.several:
            results = int(columns[-1]) if columns[-1] else None
        operands = [None if t == hosting.ABSENT else Info.parse(t) for t in known]
        while operands and operands[-1] is None:
            operands.pop()
        if signature.newest.domain:
            infos = _by_type_variable(signature.newest, operands)
        else:
            infos = infer_node(signature.newest, node_texts(signature, columns), operands, results)
        if place >= len(infos):
            return NO
        info = infos[place]
        return NO if info is UNKNOWN else str(info)

    return infer


def _by_type_variable(definition: OperatorDef, operands: Sequence[Info | None]) -> tuple[Info, ...]:
    """Results of an operator that a rule file declares: the element type of an operand of the same type variable; what
    shape it has is for facts to say."""
    types = {f.type: o.dtype for f, o in zip(definition.inputs, operands, strict=False) if o is not None and o.dtype}
    return tuple(Info(types[f.type], None) if f.type in types else UNKNOWN for f in definition.outputs)


def theory(host: Host) -> Iterator[str]:
    """Rules about values, whatever the operators: what constants hold, and that what is known is what it is."""
    infos = host.add(lambda k: str(Info.of_constant(k)), "contents of a constant")
    constant = host.add(_constant, "a known value is a constant")
    known = host.add(_wholly, "a value known by its dimensions")
    same = host.add(
        lambda k: NO if constants.scalar_text(k, host.current.constants) is None else "1", "a constant of one value"
    )
    listed = host.add(lambda k: NO if Info.of_constant(k).entries is None else "1", "a constant of dimensions")
    yield (
        f"(rule ((= x (K k)) (= i {hosting.call(infos, ['k'])})) ((set (info x) i) (set (contents_of x) k)) "
        ':ruleset theory :name "constants")'
    )
    yield f'(rule ((= x (Absent))) ((set (contents_of x) {quoted(hosting.ABSENT)})) :ruleset theory :name "absent")'
    yield '(rule ((= x (Known i))) ((set (info x) i)) :ruleset theory :name "known values")'
    # Most values have no known contents: the text is searched before anybody is asked.
    yield (
        f'(rule ((= i (info x)) (!= 0 (count-matches i "=")) (= k {hosting.call(constant, ["i"])}) '
        f'(!= k {quoted(NO)})) ((union x (K k))) :ruleset theory :name "known constants")'
    )
    yield (
        f'(rule ((= i (info x)) (!= 0 (+ (count-matches i "=") (count-matches i "~"))) '
        f"(= k {hosting.call(known, ['i'])}) (!= k {quoted(NO)})) ((union x (Known k))) "
        ':ruleset theory :name "known dimensions")'
    )
    yield '(rule ((= i (info x)) (!= 0 (count-matches i "~"))) ((uniform x)) :ruleset theory :name "one value")'
    yield '(rule ((= i (info x)) (!= 0 (count-matches i "=["))) ((entries x)) :ruleset theory :name "entries")'
    yield (
        f"(rule ((= x (K k)) (!= {quoted(NO)} {hosting.call(same, ['k'])})) ((uniform x)) "
        ':ruleset theory :name "constants of one value")'
    )
    yield (
        f"(rule ((= x (K k)) (!= {quoted(NO)} {hosting.call(listed, ['k'])})) ((entries x)) "
        ':ruleset theory :name "constants of dimensions")'
    )
    yield (
        "(rule ((= s (infos v k)) (< k (vec-length v)) (= x (vec-get v k))) ((element v k x)) "
        ':ruleset theory :name "operands of lists")'
    )
    yield (
        "(rule ((= s (infos v k)) (element v k x) (= i (info x))) "
        f'((set (infos v (+ k 1)) (+ s "{hosting.SEPARATOR}" i))) :ruleset theory :name "known of operands")'
    )


def _constant(text: str) -> str:
    """The constant that a value is known to be, else `NO`."""
    return Info.parse(text).constant_text or NO


def _wholly(text: str) -> str:
    """The text itself where it tells every element (by symbols), else `NO`."""
    info = Info.parse(text)
    if isinstance(info.content, Entries):
        return NO if any(d is None for d in info.content.dims) else text
    if isinstance(info.content, Uniform) and info.shape is not None:
        return NO if any(d is None for d in info.shape) else text
    return NO


def context(program: Program, ground: Ground, host: Host) -> Context:
    """What static expressions of a program may ask."""
    classes = {name: frozenset(members.keys) for name, members in program.classes.items()}
    relations = {name: tuple(ground.rows(name)) for name in sorted(ground.relations())}
    return Context(
        facts=_RunFacts(host),
        classes=classes,
        relations=relations,
        functions={f.name: f for f in _value_functions(host)},
    )


def _value_functions(host: Host) -> Iterator[HostFunction]:
    """How patterns of values (`splat`, `dims`, `dim`) read a tensor."""

    def uniform_value(tensor: TensorView) -> object:
        text = tensor.info.uniform
        if text is None and tensor.constant is not None and tensor.info.constant_text is not None:
            text = constants.scalar_text(tensor.info.constant_text, host.current.constants)
        if text is None:
            raise Unknown("the elements are not known to be one value")
        return constants.decode(text, host.current.constants)

    def contents(tensor: TensorView) -> object:
        entries = tensor.info.entries
        if entries is None or tensor.info.rank != 1:
            raise Unknown("the entries are not known as dimensions")
        return tuple(None if d is None else (d.value if d.value is not None else d) for d in entries)

    def entry(tensor: TensorView) -> object:
        entries = tensor.info.entries
        if entries is None or tensor.info.rank != 0 or entries[0] is None:
            raise Unknown("the entry is not known as a dimension")
        return entries[0].value if entries[0].value is not None else entries[0]

    for name, call in (("uniform_value", uniform_value), ("contents", contents), ("entry", entry)):
        yield HostFunction(name, (("x", "value"),), "any", call, builtin=True)


def lower(
    known: Knowledge,
    host: Host,
    around: Context,
    rewrites: Sequence[tuple[ast.Rewrite, ast.RuleFile]],
    facts: Sequence[tuple[ast.Fact, ast.RuleFile]],
    window: tuple[int, int],
) -> tuple[list[Instance], list[Diagnostic]]:
    """The instances of these rules for operators of ai.onnx that exist somewhere in `window` (lowest, highest opset),
    and warnings. Raises GerulesError with every rule that cannot be compiled."""
    scope = CappedScope(known.program, window[1])
    inside: dict[str, bool] = {}

    def exists(signature: Signature) -> bool:
        if signature.constructor not in inside:
            inside[signature.constructor] = in_window(known, signature, window)
        return inside[signature.constructor]

    lowering = Lowering(scope, replace(known.ground, scope=scope), known.signatures, host, around, exists)
    faults: list[Diagnostic] = []
    for rewrite, file in rewrites:
        try:
            lowering.rewrite(rewrite, file)
        except GerulesError as error:
            faults += error.diagnostics
    for fact, file in facts:
        if _is_ground(known.ground, fact):
            continue
        try:
            lowering.fact(fact, file)
        except GerulesError as error:
            faults += error.diagnostics
    errors = [f for f in faults if f.code not in LATER]
    if errors:
        raise GerulesError(errors)
    later = [replace(f, severity="warning") for f in faults]
    return lowering.instances, [*lowering.not_yet, *later]


def producible(instances: Sequence[Instance], constructors: Iterable[str]) -> list[Instance]:
    """The instances that can fire on a graph of these operators, or on what such instances make of it."""
    reached = set(constructors)
    waiting: dict[str, list[int]] = {}
    missing: list[int] = []
    ready: list[int] = []
    for index, instance in enumerate(instances):
        lacking = instance.reads - reached
        missing.append(len(lacking))
        if not lacking:
            ready.append(index)
        for name in lacking:
            waiting.setdefault(name, []).append(index)
    fires = [False] * len(instances)
    while ready:
        index = ready.pop()
        fires[index] = True
        for name in instances[index].makes - reached:
            reached.add(name)
            for other in waiting.get(name, ()):
                missing[other] -= 1
                if missing[other] == 0:
                    ready.append(other)
    return [i for i, fire in zip(instances, fires, strict=True) if fire]


def empty_program(known: Knowledge, host: Host, around: Context, window: tuple[int, int]) -> Compiled:
    """A program of sorts and of what follows from types, without a rule."""
    compiled = Compiled(known, host, bindings.EGraph(), window, _context=around)
    first = len(host.calls)
    merge = host.add(hosting.joined(host), "what is known of a value")
    lines = list(theory(host))
    compiled.run(PRELUDE.splitlines())
    compiled.run(host.declarations(range(first, len(host.calls))))
    # Not through the global: a merge that reads one gets a wrong object in this release once the program is large.
    joined = host.expression(merge)
    compiled.run([f"(function info (T) String :merge {hosting.call(joined, ['old', 'new'])})"])
    compiled.run(lines)
    return compiled


def compile_rules(
    known: Knowledge,
    rewrites: Sequence[tuple[ast.Rewrite, ast.RuleFile]],
    facts: Sequence[tuple[ast.Fact, ast.RuleFile]],
    window: tuple[int, int],
) -> Compiled:
    """The program of all instances of these rules. Raises GerulesError with every rule that cannot be compiled."""
    host = Host()
    compiled = empty_program(known, host, context(known.program, known.ground, host), window)
    compiled.extend(rewrites, facts)
    return compiled


def in_window(known: Knowledge, signature: Signature, window: tuple[int, int]) -> bool:
    """Whether some version of the semantic version is in force at an opset of the window."""
    oldest, newest = signature.definition, signature.newest
    if oldest.domain:
        return True
    if version_key(oldest.since) > (window[1],):
        return False
    later = [v for v in known.registry.versions("", newest.name) if version_key(v) > version_key(newest.since)]
    return not later or version_key(later[0]) > (window[0],)


def _is_ground(ground: Ground, fact: ast.Fact) -> bool:
    return all(
        isinstance(c, ast.Call) and isinstance(c.head, ast.Name) and c.head.id in ground.relations()
        for c in fact.conclusions
    )
