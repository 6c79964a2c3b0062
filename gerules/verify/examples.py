"""Running the examples beside the rules: each shows a rule firing, or a condition holding it back.

An instance is built in an e-graph of its own that knows one rule, the facts about shapes and what follows from types.
`=> term`: the rule makes the two equal, and the simulator agrees. `stays because c`: the rule does not fire, and does
once c is dropped. `refuted without c`: dropping c makes the two equal, and the simulator shows that they are not.
`gives`: what is known afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gerules.dsl import ast
from gerules.dsl.program import Entry, Program
from gerules.egraph.answers import encode_output
from gerules.egraph.host import Run
from gerules.egraph.lower import literal
from gerules.egraph.program import CappedScope, Compiled, Knowledge, compile_rules, guarded, knowledge
from gerules.egraph.query import Query
from gerules.egraph.session import Limits, Session, _Clock
from gerules.egraph.signature import Signature
from gerules.egraph.terms import Chooser, Misfit, NodeTerm, Output, Tensor, quoted
from gerules.errors import Diagnostic, GerulesError, Span
from gerules.graph.constants import ConstantTable
from gerules.graph.dims import Dim, DimFacts
from gerules.graph.info import Info
from gerules.policy.examples import about_tables, run_example
from gerules.policy.version_examples import is_between_releases, run_version_example
from gerules.simulate import NodeFault, SimulationFault
from gerules.static import Context, TensorView, Unknown, compile_condition, compile_expr, free_names
from gerules.verify.terms import Evaluation, evaluate_term

WINDOW = (1, 10_000)
LATER = ("GR403", "GR502", "GR504", "GR511", "GR640")
"""Rules that need relations over e-classes, or registries that are not loaded: they say "not yet"."""


@dataclass(frozen=True)
class ExampleResult:
    """What became of one example: passed, failed (with a diagnostic), or not yet run (with the reason)."""

    rule: str
    span: Span
    status: str  # "passed", "failed", "not yet"
    diagnostic: Diagnostic | None = None
    simulated: bool = True


@dataclass
class Examples:
    """Runs the examples of one program."""

    program: Program
    everything: Sequence[str] = ()
    """Rewrites that may help a rule to its example's right side (those that are on)."""
    _known: Knowledge | None = None
    _base: Compiled | None = None

    @property
    def known(self) -> Knowledge:
        if self._known is None:
            self._known = knowledge(self.program)
        return self._known

    def run(self, only: frozenset[str] | None = None) -> list[ExampleResult]:
        """Every example of the rules `only` (full names), or of all, in the order of the files."""
        results = []
        for entry in self.program.examples:
            full = f"{entry.ruleset}.{entry.statement.name}"
            if only is None or full in only:
                results.append(self.one(full, entry))
        return results

    def one(self, full: str, entry: Entry[ast.Example]) -> ExampleResult:
        example = entry.statement
        why = "only what a fact says of shapes and contents is shown by an example"
        try:
            rule = self.program.rewrites.get(full)
            if rule is not None and is_between_releases(self.program, rule):
                wrong = run_version_example(rule, entry)
                return ExampleResult(full, example.span, "failed" if wrong else "passed", wrong, simulated=False)
            if rule is not None:
                return _OnRewrite(self, full, entry, rule).judge()
            if about_tables(self.program, entry):
                wrong = run_example(self.program, entry)
                return ExampleResult(full, example.span, "failed" if wrong else "passed", wrong, simulated=False)
            fact = self.program.facts.get(full)
            told = fact is not None and any(map(_about_tensors, fact.statement.conclusions))
            if told and isinstance(example.outcome, ast.Gives):
                return _OnFact(self, full, entry).judge()
        except _Failed as failed:
            diagnostic = Diagnostic(
                "GR570", f"example of {full}: {failed.message}", span=failed.span or example.span, hint=failed.hint
            )
            return ExampleResult(full, example.span, "failed", diagnostic)
        except GerulesError as error:
            if error.diagnostics[0].code not in LATER:
                return ExampleResult(full, example.span, "failed", error.diagnostics[0])
            why = error.diagnostics[0].message
        except Misfit as misfit:
            diagnostic = Diagnostic("GR571", f"example of {full}: {misfit.message}", span=misfit.where.span)
            return ExampleResult(full, example.span, "failed", diagnostic)
        except Unknown as unknown:
            diagnostic = Diagnostic("GR571", f"example of {full}: {unknown}", span=example.span)
            return ExampleResult(full, example.span, "failed", diagnostic)
        note = Diagnostic(
            "GR572",
            f"the example of {full} is not run: {why}",
            span=example.span,
            severity="warning",
        )
        return ExampleResult(full, example.span, "not yet", note)

    @property
    def base(self) -> Compiled:
        """Facts about shapes, and what follows from types: what every example may use."""
        if self._base is None:
            facts = [
                (e.statement, e.file)
                for e in self.program.facts.values()
                if e.ruleset.split("/")[0] in ("shape", "user")
            ]
            self._base = compile_rules(self.known, [], facts, WINDOW)
        return self._base


def _about_tensors(conclusion: ast.Expr) -> bool:
    """Whether a fact concludes what a tensor's shape or contents are; others are not yet run."""
    match conclusion:
        case ast.Compare(op="==", left=ast.Field(name="shape")):
            return True
        case ast.Compare(op="==", right=ast.Call(head=ast.Name(id=("dims" | "dim")))):
            return True
    return False


class _Failed(Exception):
    def __init__(self, message: str, span: Span | None = None, hint: str | None = None) -> None:
        self.message, self.span, self.hint = message, span, hint


@dataclass
class _Build:
    """Ground terms of an example as egglog text, with its leaves."""

    examples: Examples
    file: ast.RuleFile
    compiled: Compiled
    leaves: dict[str, tuple[int, Info]] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    names: dict[str, ast.Expr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = self.examples.known
        self.scope = CappedScope(self.examples.program, WINDOW[1])
        self.context: Context = self.compiled.context
        self.query = _Literal(
            resolve=lambda symbol: known.signatures.of(self.scope.operator(symbol, self.file)),
            signature=known.signatures.of,
            literal=literal,
            chooser=Chooser(),
        )
        self.query.builder = self

    def leaf(self, typed: ast.Typed) -> None:
        dims = tuple(self.dim(d) for d in typed.dims)
        info = Info(typed.dtype, dims)
        known = self.leaves.get(typed.name)
        if known is not None:
            raise _Failed(f"{typed.name} is typed twice", typed.span)
        number = len(self.leaves)
        self.leaves[typed.name] = (number, info)
        self.query.env[typed.name] = Tensor(f"(V {number})")
        self.commands.append(f"(set (info (V {number})) {quoted(str(info))})")

    def dim(self, expr: ast.Expr) -> Dim:
        value = compile_expr(expr, self.context)({})
        return value if isinstance(value, Dim) else Dim.of(int(value))  # type: ignore[call-overload]

    def term(self, expr: ast.Expr) -> str:
        """A term of sort T or N, as text; declares what it needs."""
        for typed in _typed(expr):
            self.leaf(typed)
        first = next(iter(self.leaves.values()), None)
        self.query.default_dtype = first[1].dtype if first is not None else "f32"
        expr = _untyped(expr)
        if isinstance(expr, ast.Bind):
            text = self.term(expr.expr)
            several = self._several(expr.expr)
            self.query.env[expr.name] = NodeTerm(text, several) if several is not None else Tensor(text)
            self.names[expr.name] = expr.expr
            return text
        several = self._several(expr)
        if several is not None:
            text = self.query.build_node(expr).term
        else:
            text = self.query.build(expr, self.query.default_dtype)
        for signature in dict.fromkeys(self.query.operators):
            for command in self.compiled.declare(signature):
                guarded(self.compiled, command)
            self.compiled.declared.add(signature.constructor)
        return text

    def _several(self, expr: ast.Expr) -> Signature | None:
        signature = self.query.head(expr)
        return signature if signature is not None and signature.several else None


class _Literal(Query):
    """A query without variables: what is static is computed at once, and every impure node is one of its own."""

    builder: _Build

    def build_call(self, signature: Signature, call: ast.Call) -> str:
        self.identities = [str(self.counter)]
        self.counter += 1
        return super().build_call(signature, call)

    def output(self, output: Output) -> str:
        build = self.builder
        assert output.expr is not None
        value = compile_expr(output.expr, build.context)({})
        dtype = output.dtype if isinstance(output.dtype, str) or output.dtype is None else self._dtype(output.dtype)
        shape = compile_expr(output.shape, build.context)({}) if output.shape is not None else None
        return quoted(encode_output(output.kind, build.compiled.host, value, dtype, shape))

    def _dtype(self, expr: ast.Expr) -> object:
        env: dict[str, object] = {}
        for name, bound in self.env.items():
            if isinstance(bound, Tensor):
                leaf = next((i for n, i in self.builder.leaves.values() if bound.term == f"(V {n})"), None)
                if leaf is not None:
                    env[name] = TensorView(leaf)
        try:
            return compile_expr(expr, self.builder.context)(env)
        except (Unknown, KeyError, GerulesError):
            return "f32"


@dataclass
class _Judge:
    examples: Examples
    full: str
    entry: Entry[ast.Example]

    def passed(self, simulated: bool = True) -> ExampleResult:
        return ExampleResult(self.full, self.entry.statement.span, "passed", simulated=simulated)


@dataclass
class _OnRewrite(_Judge):
    rule: Entry[ast.Rewrite]

    def judge(self) -> ExampleResult:
        outcome = self.entry.statement.outcome
        statement, file = self.rule.statement, self.rule.file
        alone = [(statement, file)]
        if isinstance(outcome, ast.Becomes) and outcome.refuted_without is None:
            equal, fired = self._run(alone, self.full, outcome.right)
            if not equal:
                helped = [
                    (e.statement, e.file)
                    for name in dict.fromkeys([self.full, *self.examples.everything])
                    if (e := self.examples.program.rewrites[name])
                ]
                if not fired:
                    raise _Failed(
                        "the rule does not fire here", hint="a condition does not hold, or the pattern does not fit"
                    )
                equal, _ = self._run(helped, ("all", self.full), outcome.right, steps=12)
            if not equal:
                raise _Failed("the rule fires, but does not give this right side")
            return self.passed(self._simulate(outcome.right, same=True))
        if isinstance(outcome, ast.Becomes):
            assert outcome.refuted_without is not None
            equal, _ = self._run(alone, self.full, outcome.right)
            if equal:
                raise _Failed("the rule gives this right side although it should be held back")
            weaker = self._without(outcome.refuted_without)
            if weaker is None:
                raise _Failed("the condition cited is none of the rule", outcome.refuted_without.span)
            equal, _ = self._run([(weaker, file)], (self.full, outcome.refuted_without), outcome.right)
            if not equal:
                raise _Failed("without the condition cited the rule does not give this right side either")
            self._simulate(outcome.right, same=False)
            return self.passed()
        assert isinstance(outcome, ast.Stays)
        _, fired = self._run(alone, self.full, None)
        if fired:
            raise _Failed("the rule fires here")
        weaker = self._without(outcome.because)
        if weaker is not None:
            _, fired = self._run([(weaker, file)], (self.full, outcome.because), None)
            if not fired:
                raise _Failed(
                    "something else holds the rule back: without the condition cited it does not fire either",
                    outcome.because.span,
                )
        return self.passed()

    def _without(self, condition: ast.Expr) -> ast.Rewrite | None:
        """The rule without one condition; None where the pattern itself fixes what is cited. A condition that binds
        variables of others cannot be dropped: then too."""
        statement = self.rule.statement
        expanded = self.examples.program.expand_lets(condition)
        left = tuple(c for c in statement.when if c not in (condition, expanded))
        if len(left) == len(statement.when) or any(map(self._binds, (condition, expanded))):
            return None
        return replace(statement, when=left)

    def _binds(self, condition: ast.Expr) -> bool:
        """Whether a condition is what gives a name its value: `v == expr` with v in no term."""
        statement = self.rule.statement
        if not isinstance(condition, ast.Compare) or condition.op != "==":
            return False
        terms = [statement.left, *(c for c in statement.when if isinstance(c, (ast.Call, ast.Bind)))]
        given = {name for term in terms for name in free_names(term)}
        return any(isinstance(s, ast.Name) and s.id not in given for s in (condition.left, condition.right))

    def _run(
        self, rewrites: Sequence[tuple[ast.Rewrite, ast.RuleFile]], key: object, right: ast.Expr | None, steps: int = 3
    ) -> tuple[bool, bool]:
        """Whether both sides are equal afterwards, and whether the rule fired."""
        try:
            return self._saturated(rewrites, right, steps)
        except GerulesError as refused:
            # A rule without its condition may well make unequal things equal.
            if isinstance(key, tuple) and refused.diagnostics[0].code == "GR530":
                return True, True
            if isinstance(key, tuple) and refused.diagnostics[0].code == "GR642":
                # Dropping the condition leaves a variable unbound: it is what makes the rule a rule.
                return right is not None, right is None
            raise

    def _saturated(
        self, rewrites: Sequence[tuple[ast.Rewrite, ast.RuleFile]], right: ast.Expr | None, steps: int
    ) -> tuple[bool, bool]:
        compiled = self.examples.base
        with Session(compiled, Run(ConstantTable(), DimFacts())) as session:
            compiled.extend(rewrites)
            build = _Build(self.examples, self.entry.file, compiled)
            texts = [build.term(g) for g in self.entry.statement.given]
            for command in build.commands:
                guarded(compiled, command)
            guarded(compiled, '(set (info (Absent)) "-")')
            for text in texts[:-1]:
                guarded(compiled, text)  # what is given beside the left side is there, read or not
            guarded(compiled, f"(let $left {texts[-1]})")
            build.commands.clear()
            clock = _Clock(Limits(iterations=400, nodes=20_000, seconds=10.0), time.monotonic())
            session._combined = {}
            names = tuple(dict.fromkeys([*compiled.rulesets, "theory"]))
            ruleset = session._ruleset(names)
            for _ in range(4):
                session.fixpoint(clock)
            for _ in range(steps):
                if not session.iterate(ruleset, clock):
                    break
                session.fixpoint(clock)
            fired = session.fired.get(self.full, 0) > 0
            if right is None:
                return False, fired
            text = build.term(right)
            for command in build.commands:
                guarded(compiled, command)
            guarded(compiled, f"(let $right {text})")
            for _ in range(steps):
                session.fixpoint(clock)
                if _holds(compiled, "(check (= $left $right))"):
                    return True, fired
                if not session.iterate(ruleset, clock):
                    break
            return _holds(compiled, "(check (= $left $right))"), fired

    def _simulate(self, right: ast.Expr, same: bool) -> bool:
        """Both sides in numbers; raises where they differ and should not, or the other way round. False where the
        simulator has no kernel for an operator of the rule language itself."""
        statement = self.entry.statement
        resolve = CappedScope(self.examples.program, WINDOW[1])
        compiled = self.examples.base
        compiled.host.run = Run(ConstantTable(), DimFacts())
        differed = False
        try:
            for seed in range(6):
                evaluation = Evaluation(
                    lambda s: resolve.operator(s, self.entry.file), compiled.context, self.examples.known, seed
                )
                try:
                    left = [evaluate_term(evaluation, g) for g in statement.given][-1]
                except NodeFault:
                    continue  # the left side fails at this draw, and promises nothing
                except SimulationFault:
                    if not same:
                        raise
                    return False  # an operator of our own that only rules have
                try:
                    found = evaluate_term(evaluation, right)
                    agreed = agree(left, found, self.rule.statement.exactness == "")
                    why = "" if agreed else describe(left, found)
                except NodeFault as fault:
                    agreed, why = False, f"the right side fails where the left does not: {fault}"
                if not agreed:
                    differed = True
                    if same:
                        raise _Failed("the simulator finds that the two sides differ", hint=f"seed {seed}: {why}")
        finally:
            compiled.host.run = None
        if not same and not differed:
            raise _Failed("the simulator does not refute this")
        return True


@dataclass
class _OnFact(_Judge):
    def judge(self) -> ExampleResult:
        statement = self.entry.statement
        outcome = statement.outcome
        assert isinstance(outcome, ast.Gives)
        compiled = self.examples.base
        with Session(compiled, Run(ConstantTable(), DimFacts())) as session:
            build = _Build(self.examples, self.entry.file, compiled)
            texts = {name: text for g in statement.given for name, text in self._named(build, g)}
            for command in build.commands:
                guarded(compiled, command)
            guarded(compiled, '(set (info (Absent)) "-")')
            for name, text in texts.items():
                guarded(compiled, f"(let $example_{name} {text})")
            clock = _Clock(Limits(iterations=400, nodes=20_000, seconds=10.0), time.monotonic())
            session._combined = {}
            ruleset = session._ruleset(tuple(dict.fromkeys([*compiled.rulesets, "theory"])))
            while session.iterate(ruleset, clock) and not clock.stopped:
                pass
            env: dict[str, object] = {n: TensorView(i) for n, (_, i) in build.leaves.items()}
            for name, known in _infos(compiled, texts).items():
                env[name] = TensorView(known)
            for fact in outcome.facts:
                self._fact(fact, env, build)
        return self.passed()

    def _named(self, build: _Build, given: ast.Expr) -> list[tuple[str, str]]:
        text = build.term(given)
        return [(given.name, text)] if isinstance(given, ast.Bind) else []

    def _fact(self, fact: ast.Expr, env: Mapping[str, object], build: _Build) -> None:
        if (
            isinstance(fact, ast.Compare)
            and isinstance(fact.right, ast.Call)
            and fact.right.head in (ast.Name("dims"), ast.Name("dim"))
        ):
            assert isinstance(fact.left, ast.Name)
            tensor = env.get(fact.left.id)
            entries = tensor.info.entries if isinstance(tensor, TensorView) else None
            wanted = compile_expr(fact.right.operands[0], build.context)(env)
            wanted = wanted if isinstance(wanted, tuple) else (wanted,)
            found = None if entries is None else tuple(d if d is None or d.value is None else d.value for d in entries)
            if found != wanted:
                raise _Failed(f"the contents of {fact.left.id} are {found}, not {wanted}", fact.span)
            return
        names = [
            n
            for n in ("shape",)
            if isinstance(fact, ast.Compare) and isinstance(fact.left, ast.Field) and fact.left.name == n
        ]
        if not names:
            raise _Failed("conclusions of this kind are not yet drawn", fact.span)
        if not compile_condition(fact, build.context)(env):
            assert isinstance(fact, ast.Compare) and isinstance(fact.left, ast.Field)
            try:
                shape = str(compile_expr(fact.left, build.context)(env))
            except (Unknown, KeyError):
                shape = "not known"
            raise _Failed(f"this does not follow: the shape is {shape}", fact.span)


def _holds(compiled: Compiled, check: str) -> bool:
    from egglog.bindings import EggSmolError

    try:
        compiled.egraph.run_program(*compiled.egraph.parse_program(check))
    except EggSmolError:
        return False
    return True


def _infos(compiled: Compiled, names: Mapping[str, str]) -> dict[str, Info]:
    """What is known of the named terms."""
    functions = compiled.egraph.freeze().functions
    texts = {r.inputs[0]: compiled.egraph.value_to_string(r.output) for r in functions["info"].rows}
    found = {name: texts.get(functions[f"$example_{name}"].rows[0].output) for name in names}
    return {name: Info.parse(text) for name, text in found.items() if text is not None}


def agree(left: object, right: object, bitwise: bool) -> bool:
    """Whether two results agree: bits, or within the tolerance of the element type."""
    from gerules.simulate.compare import compare

    if bitwise and isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and same_bits(left, right)
    return compare(right, left).equal


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    if left.dtype.kind in "fc" or left.dtype.kind == "V":
        return (
            bool(np.all((left == right) & (np.signbit(left) == np.signbit(right)) | (np.isnan(left) & np.isnan(right))))
            if left.dtype.kind == "f"
            else bool(np.array_equal(left, right, equal_nan=True))
        )
    return bool(np.array_equal(left, right))


def describe(left: object, right: object) -> str:
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        if left.shape != right.shape or left.dtype != right.dtype:
            return f"{left.dtype}{list(left.shape)} and {right.dtype}{list(right.shape)}"
        where = np.argwhere(~((left == right) | ((left != left) & (right != right))))
        if len(where):
            index = tuple(int(i) for i in where[0])
            return f"at {list(index)}: {left[index]} and {right[index]}"
        return "they differ in the sign of a zero"
    return f"{left!r} and {right!r}"[:200]


def _typed(expr: ast.Expr) -> list[ast.Typed]:
    found: list[ast.Typed] = []
    stack: list[object] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Typed):
            found.append(node)
        elif isinstance(node, ast.Call):
            stack += [k.value for k in reversed(node.keywords)]
            stack += list(reversed(node.operands))
        elif isinstance(node, (ast.Bind, ast.Rest)):
            stack.append(node.expr)
        elif isinstance(node, ast.Index):
            stack.append(node.base)
    return found


def _untyped(expr: ast.Expr) -> ast.Expr:
    """The term with its typed leaves as plain names. Terms of examples are a few operators deep."""
    match expr:
        case ast.Typed(name=name):
            return ast.Name(name, span=expr.span)
        case ast.Call():
            return replace(
                expr,
                operands=tuple(_untyped(o) for o in expr.operands),
                keywords=tuple(replace(k, value=_untyped(k.value)) for k in expr.keywords),
            )
        case ast.Bind():
            return replace(expr, expr=_untyped(expr.expr))
        case ast.Index():
            return replace(expr, base=_untyped(expr.base))
    return expr
