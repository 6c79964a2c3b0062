"""Deciding facts, denies and warnings over tables: compile what is asked for, load rows, run the strata, read back.

`not` asks for the absence of what an earlier stratum settled: the rows asked about are set false, then true where the
relation holds, then read (the engine has no negation). A value concluded with `<=` or `>=` is merged by min or max and
read one stratum later. What nothing asks for is neither compiled nor computed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from gerules.dsl import ast
from gerules.dsl.lets import walk
from gerules.dsl.program import Entry, Program
from gerules.errors import Diagnostic, GerulesError, InternalFault, Refused, Span
from gerules.policy.model import INT, TEXT, Cell, Clause, Relation, Row, Translated, Words, refused, sort_of
from gerules.policy.tables import rows_of_file
from gerules.policy.texts import decode, encode, number_text
from gerules.policy.translate import Translator, infer_sorts, variable_types

MAX_ITERATIONS = 1000
"""Of one stratum. Facts over tables alone end long before; one that counts upwards would not."""

Statement = Entry[ast.Fact] | Entry[ast.Refuse]


@dataclass(frozen=True, slots=True)
class Refusal:
    """One match of a deny or warn. `nodes` and `operators` are the nodes and operators that the match is about."""

    rule: str
    severity: str  # "deny" or "warn"
    message: str
    span: Span
    nodes: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()

    def diagnostic(self, code: str, hint: str | None = None) -> Diagnostic:
        severity = "error" if self.severity == "deny" else "warning"
        node = self.nodes[0] if self.nodes else None
        return Diagnostic(code, self.message, node=node, hint=hint, severity=severity)


@dataclass(frozen=True)
class Answers:
    """What was decided: rows of the relations asked for (a function's result is the last cell), sorted; and matches
    of denies and warnings, by rule in the order of the files."""

    rows: Mapping[str, tuple[Row, ...]]
    refusals: tuple[Refusal, ...]

    def values(self, relation: str) -> dict[Row, Cell]:
        """A function as a mapping from its operands to its result."""
        return {row[:-1]: row[-1] for row in self.rows[relation]}


def operator_text(symbol: ast.Symbol) -> str:
    """How tables name an operator: `ge.Concat`, `Clip` for ai.onnx. Raises Refused for one with a version."""
    if symbol.version is not None:
        message = f"tables speak of operators without versions, and this is {symbol}"
        raise refused("GR663", message, symbol, f"write `{symbol.domain}.{symbol.name}`" if symbol.domain else None)
    domain = "" if symbol.domain == "ai.onnx" else symbol.domain
    return f"{domain}.{symbol.name}" if domain else symbol.name


class Policy:
    """The facts, denies and warnings of some rulesets of a program. Decisions are compiled once and kept."""

    def __init__(self, program: Program, rulesets: Sequence[str], more: Sequence[Entry[ast.Refuse]] = ()) -> None:
        """`rulesets` name files or folders of the program (`compat/signature`, `user`); `more` are refusals beside
        those that they hold."""
        self.program = program
        self.rulesets = tuple(rulesets)
        self.more = tuple(more)
        self._decisions: dict[object, Decision] = {}

    def _inside(self, entry: Entry[ast.Fact] | Entry[ast.Refuse]) -> bool:
        return any(entry.ruleset == name or entry.ruleset.startswith(name + "/") for name in self.rulesets)

    @cached_property
    def facts(self) -> tuple[Entry[ast.Fact], ...]:
        return tuple(e for e in self.program.facts.values() if self._inside(e))

    @cached_property
    def refuses(self) -> tuple[Entry[ast.Refuse], ...]:
        return (*(e for e in self.program.refuses.values() if self._inside(e)), *self.more)

    @cached_property
    def relations(self) -> dict[str, Relation]:
        """Every relation: declared tables, and what the facts conclude, with the sorts of their columns."""
        found: dict[str, Relation] = {}
        for name, table in self.program.tables.items():
            types = [p.type.name for p in table.statement.params]
            if table.statement.result is not None:
                types.append(table.statement.result.name)
            function = table.statement.result is not None
            found[name] = Relation(name, tuple(map(sort_of, types)), tuple(types), function, table=True)
        for entry in self.facts:
            for conclusion in entry.statement.conclusions:
                _concluded(found, conclusion)
        infer_sorts(found, [e.statement for e in self.facts])
        return found

    def decision(self, wanted: Sequence[str] = (), refuses: Sequence[str] | None = ()) -> Decision:
        """The compiled program for some relations and denies or warnings (full names; None: all of the rulesets).

        Raises Refused (GR660 to GR663, GR667) for statements that rules over tables cannot say.
        """
        key = (tuple(wanted), None if refuses is None else tuple(refuses))
        if key not in self._decisions:
            chosen = [e for e in self.refuses if refuses is None or e.full in refuses]
            self._decisions[key] = Decision(self, tuple(wanted), tuple(chosen))
        return self._decisions[key]

    def decide(
        self,
        tables: Mapping[str, Iterable[Row]],
        wanted: Sequence[str] = (),
        refuses: Sequence[str] | None = (),
    ) -> Answers:
        """Compile, where that was not done, and run on these rows."""
        return self.decision(wanted, refuses).run(tables)


def _concluded(found: dict[str, Relation], conclusion: ast.Expr) -> None:
    call, extra, bound = conclusion, 0, ""
    if isinstance(conclusion, ast.Compare):
        call, extra = conclusion.left, 1
        bound = {"<=": "min", ">=": "max"}.get(conclusion.op, "")
    if not isinstance(call, ast.Call) or not isinstance(call.head, ast.Name):
        return
    name, arity = call.head.id, len(call.operands) + extra
    known = found.get(name)
    if known is None:
        found[name] = Relation(name, ("",) * arity, ("",) * arity, bool(extra), bound)
    elif not known.table and known.bound != bound:
        message = f"{name} is concluded in more than one way (a row, `==`, `<=`, `>=`)"
        raise refused("GR661", message, conclusion, "a relation is bounded from one side, or not at all")


@dataclass
class Decision:
    """A compiled program. `run` may be called any number of times; runs know nothing of each other."""

    policy: Policy
    wanted: tuple[str, ...]
    refuses: tuple[Entry[ast.Refuse], ...]
    text: str = ""
    strata: int = 0
    needed: tuple[str, ...] = ()
    _refused: list[tuple[Entry[ast.Refuse], Translated]] = field(default_factory=list)
    _words: Words = field(default_factory=lambda: Words({}))

    def __post_init__(self) -> None:
        relations = self.policy.relations
        missing = [w for w in self.wanted if w not in relations]
        if missing:
            message = f"nothing concludes {missing[0]}, and no table is called so"
            raise Refused(Diagnostic("GR660", message, hint="the rule files that were loaded do not say it"))
        self._words = Words(relations)
        facts = self._reachable()
        rank = _ranks(facts, relations)
        made: list[tuple[int, str, Translated]] = []
        for entry in facts:
            for conclusion in entry.statement.conclusions:
                head = _head(conclusion)
                if head not in self.needed:
                    continue
                statement = self._translator(entry).translate(
                    entry.full, entry.statement.when, entry.statement.over, (conclusion,)
                )
                made.append((rank.get(head, 0), f"{entry.full} {head}", statement))
        last = max(rank.values(), default=0) + 1
        made += [(last, refusal.full, self._refusal(refusal)) for refusal in self.refuses]
        self.strata = last + 1
        self.text = _Program(self._words, self.needed, made, self._refused).text()

    def _translator(self, entry: Statement) -> Translator:
        def members(expr: ast.Expr) -> tuple[str, ...]:
            program = self.policy.program
            return tuple(
                dict.fromkeys(f"{d.domain}.{d.name}" if d.domain else d.name for d in program.members(expr, entry.file))
            )

        return Translator(self._words, operator_text, members)

    def _refusal(self, entry: Entry[ast.Refuse]) -> Translated:
        from gerules.dsl.rules_check import HOLE

        statement = entry.statement
        types = variable_types(self._words, statement.when)
        about = [name for name, type_ in types.items() if type_ in ("node", "op")]
        holes = dict.fromkeys([*HOLE.findall(statement.message), *about])
        made = self._translator(entry).translate(entry.full, statement.when, statement.over, holes=tuple(holes))
        self._refused.append((entry, made))
        return made

    def _reachable(self) -> list[Entry[ast.Fact]]:
        """The facts that what is wanted depends on, in order; sets what is needed."""
        by_head: dict[str, list[Entry[ast.Fact]]] = {}
        for entry in self.policy.facts:
            for conclusion in entry.statement.conclusions:
                by_head.setdefault(_head(conclusion), []).append(entry)
        needed: dict[str, None] = dict.fromkeys(self.wanted)
        waiting = [*self.wanted]
        for refusal in self.refuses:
            waiting += _read(refusal.statement.when)
        chosen: dict[int, None] = {}
        while waiting:
            name = waiting.pop()
            needed.setdefault(name)
            for entry in by_head.pop(name, []):
                chosen.setdefault(id(entry))
                waiting += _read((*entry.statement.when, *entry.statement.conclusions))
        self.needed = tuple(n for n in self.policy.relations if n in needed)
        return [e for e in self.policy.facts if id(e) in chosen]

    # ----------------------------------------------------------------------------------------------------- running

    def run(self, tables: Mapping[str, Iterable[Row]]) -> Answers:
        """Runs on rows. A table that is not given comes from its file, or is empty.

        Raises Refused: a row that does not fit (GR664), a function with two values (GR665), facts without end (GR667).
        """
        from egglog.bindings import EGraph

        relations = self.policy.relations
        with tempfile.TemporaryDirectory(prefix="gerules-") as folder:
            egraph = EGraph(fact_directory=folder)
            commands = [self.text]
            for name in self.needed:
                if not relations[name].table:
                    rows = list(tables.get(name, ()))
                elif name in tables:
                    rows = list(tables[name])
                    # A table that is given may also be concluded.
                else:
                    rows = rows_of_file(self.policy.program.tables[name])
                _check_rows(relations[name], rows)
                if rows:
                    commands.append(_load(Path(folder), f"r_{name}", rows, relations[name]))
            for name, members in self._words.classes.items():
                if members:
                    commands.append(_load(Path(folder), name, [(m,) for m in members], None))
            engine = _Engine(egraph)
            engine.run("\n".join(commands))
            for stratum in range(self.strata):
                engine.settle(stratum)
        return self._answers(egraph)

    def _answers(self, egraph: object) -> Answers:
        functions = egraph.freeze().functions  # type: ignore[attr-defined]
        relations = self.policy.relations

        def read(name: str, sorts: Sequence[str], merged: bool) -> tuple[Row, ...]:
            found: list[Row] = []
            for row in functions[name].rows:
                cells = [*row.inputs, row.output] if merged else row.inputs
                found.append(tuple(_cell(egraph, value, sort) for value, sort in zip(cells, sorts, strict=True)))
            return tuple(sorted(found))

        rows = {n: read(f"r_{n}", relations[n].sorts, bool(relations[n].bound)) for n in self.wanted}
        for name in self.needed:
            if relations[name].function and not relations[name].bound and not relations[name].table:
                _check_function(relations[name], read(f"r_{name}", relations[name].sorts, False))
        found: dict[Refusal, None] = {}
        for number, (entry, made) in enumerate(self._refused):
            types = variable_types(self._words, entry.statement.when)
            for row in read(f"refuse_{number}", made.hole_sorts, False):
                bound = dict(zip(made.holes, row, strict=True))
                found.setdefault(_filled(entry, bound, types))
        return Answers(rows, tuple(found))


def _filled(entry: Entry[ast.Refuse], bound: Mapping[str, Cell], types: Mapping[str, str]) -> Refusal:
    from gerules.dsl.rules_check import HOLE

    shown = {n: v if isinstance(v, str) else number_text(v) for n, v in bound.items()}
    message = HOLE.sub(lambda match: shown[match[1]], entry.statement.message)
    nodes = tuple(v for n, v in shown.items() if types.get(n) == "node")
    operators = tuple(v for n, v in shown.items() if types.get(n) == "op")
    return Refusal(entry.full, entry.statement.severity, message, entry.statement.span, nodes, operators)


def _cell(egraph: object, value: object, sort: str) -> Cell:
    if sort == TEXT:
        return decode(egraph.value_to_string(value))  # type: ignore[attr-defined]
    found: Cell = egraph.value_to_i64(value) if sort == INT else egraph.value_to_f64(value)  # type: ignore[attr-defined]
    return found


# --------------------------------------------------------------------------------------------------- dependencies


def _head(conclusion: ast.Expr) -> str:
    call = conclusion.left if isinstance(conclusion, ast.Compare) else conclusion
    return call.head.id if isinstance(call, ast.Call) and isinstance(call.head, ast.Name) else ""


def _read(conditions: Iterable[ast.Expr]) -> list[str]:
    return [
        node.head.id
        for condition in conditions
        for node in walk(condition)
        if isinstance(node, ast.Call) and isinstance(node.head, ast.Name)
    ]


def _ranks(facts: Sequence[Entry[ast.Fact]], relations: Mapping[str, Relation]) -> dict[str, int]:
    """The stratum of each relation that facts conclude. Raises Refused (GR148) where there is none."""
    from gerules.dsl.strata import asked

    bounded = frozenset(n for n, r in relations.items() if r.bound)
    edges: dict[tuple[str, str], bool] = {}
    for entry in facts:
        for conclusion in entry.statement.conclusions:
            head = _head(conclusion)
            for condition in entry.statement.when:
                for name, negative, _ in asked(condition, bounded):
                    edges[head, name] = edges.get((head, name), False) or negative
            for name in _read([conclusion]):
                if name != head:
                    edges[head, name] = edges.get((head, name), False) or name in bounded
    rank = {_head(c): 0 for e in facts for c in e.statement.conclusions}
    for _ in range(len(rank) + 2):
        changed = False
        for (head, name), later in edges.items():
            least = rank.get(name, -1) + int(later) if name in rank else 0
            if rank[head] < least:
                rank[head], changed = least, True
        if not changed:
            return rank
    names = ", ".join(sorted(rank))
    raise Refused(Diagnostic("GR148", f"these facts are not stratified: they lead back through `not`: {names}"))


# -------------------------------------------------------------------------------------------------------- egglog text


@dataclass
class _Program:
    words: Words
    needed: Sequence[str]
    statements: Sequence[tuple[int, str, Translated]]
    refusals: Sequence[tuple[Entry[ast.Refuse], Translated]]
    lines: list[str] = field(default_factory=list)
    asked: dict[tuple[str, str, int], str] = field(default_factory=dict)

    def text(self) -> str:
        rules: list[str] = []
        number = {id(made): k for k, (_, made) in enumerate(self.refusals)}
        for stratum, name, made in self.statements:
            heads = self._heads(made, number.get(id(made)))
            for way, clause in enumerate(made.clauses):
                rules += self._rule(stratum, f"{name} {way}", clause, heads)
        strata = max((s for s, _, _ in self.statements), default=0) + 2
        return "\n".join([*self._declarations(), *_rulesets(strata), *self.lines, *rules])

    def _declarations(self) -> list[str]:
        lines = []
        for name in self.needed:
            relation = self.words.relations[name]
            sorts = " ".join(relation.sorts)
            if relation.bound:
                merge = f"({relation.bound} old new)"
                lines.append(
                    f"(function r_{name} ({' '.join(relation.sorts[:-1])}) {relation.sorts[-1]} :merge {merge})"
                )
            else:
                lines.append(f"(relation r_{name} ({sorts}))")
        lines += [f"(relation {name} (String))" for name in self.words.classes]
        lines += [
            f"(relation refuse_{number} ({' '.join(made.hole_sorts)}))"
            for number, (_, made) in enumerate(self.refusals)
        ]
        return lines

    def _heads(self, made: Translated, refusal: int | None) -> str:
        heads = []
        for conclusion in made.conclusions:
            relation = self.words.relations[conclusion.relation]
            if relation.bound:
                *key, value = conclusion.operands
                heads.append(f"(set (r_{relation.name} {' '.join(key)}) {value})")
            else:
                heads.append(f"(r_{relation.name} {' '.join(conclusion.operands)})")
        if refusal is not None:
            heads.append(f"(refuse_{refusal} {' '.join(made.hole_texts)})")
        return " ".join(heads)

    def _rule(self, stratum: int, name: str, clause: Clause, heads: str) -> list[str]:
        """A rule, and for each absence one that asks."""
        rules = []
        body = " ".join(clause.facts)
        read = []
        for absent in clause.absent:
            keys = [o for o in absent.operands if o is not None]
            ask = self._ask(absent.relation, absent.mask, stratum)
            if not keys:
                keys = ["0"]
            rules.append(f"(rule ({body}) ((set ({ask} {' '.join(keys)}) false)) :ruleset ask_{stratum})")
            read.append(f"(= false ({ask} {' '.join(keys)}))")
        whole = " ".join([body, *read])
        rules.append(f'(rule ({whole}) ({heads}) :ruleset s_{stratum} :name "{name}")')
        return rules

    def _ask(self, relation: str, mask: str, stratum: int) -> str:
        """The function that says whether rows of a relation are there, for those that are asked about."""
        key = (relation, mask, stratum)
        if key not in self.asked:
            name = f"there_{len(self.asked)}"
            self.asked[key] = name
            plain = relation.removeprefix("r_")
            known = self.words.relations.get(plain) if relation.startswith("r_") else None
            sorts = known.sorts if known is not None else (TEXT,)
            keys = [s for s, m in zip(sorts, mask, strict=False) if m == "k"]
            names = [f"x{i}" for i in range(len(mask))]
            asked = [n for n, m in zip(names, mask, strict=True) if m == "k"] or ["0"]
            self.lines.append(f"(function {name} ({' '.join(keys or [INT])}) bool :merge (or old new))")
            row = f"({relation} {' '.join(names)})"
            if known is not None and known.bound:
                row = f"(= z {row})"
            self.lines.append(
                f"(rule ((= b ({name} {' '.join(asked)})) {row}) ((set ({name} {' '.join(asked)}) true))"
                f" :ruleset seen_{stratum})"
            )
        return self.asked[key]


def _rulesets(strata: int) -> list[str]:
    return [f"(ruleset ask_{n}) (ruleset seen_{n}) (ruleset s_{n})" for n in range(strata)]


@dataclass
class _Engine:
    egraph: object

    def run(self, text: str) -> list[object]:
        egraph = self.egraph
        try:
            return list(egraph.run_program(*egraph.parse_program(text)))  # type: ignore[attr-defined]
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a Rust panic is no Exception
            hint = "this is a fault of gerules: please report it with the rule files"
            message = f"the engine failed on rules over tables: {type(error).__name__}: {str(error)[:300]}"
            raise InternalFault(Diagnostic("GR902", message, hint=hint)) from error

    def settle(self, stratum: int) -> None:
        """Runs a stratum until nothing changes. `not` asks before it is read, in every round."""
        step = f"(run-schedule (seq (run ask_{stratum}) (run seen_{stratum}) (run s_{stratum})))"
        for _ in range(MAX_ITERATIONS):
            reports = self.run(step)
            if not any(getattr(getattr(r, "report", r), "updated", False) for r in reports):
                return
        message = f"facts over tables did not come to an end in {MAX_ITERATIONS} rounds"
        raise Refused(Diagnostic("GR667", message, hint="one of them counts upwards: bound it by a condition"))


# ------------------------------------------------------------------------------------------------------------- rows


def _load(folder: Path, name: str, rows: Sequence[Row], relation: Relation | None) -> str:
    texts: dict[Cell, str] = {}  # names of operators and kinds come again and again
    for cell in {cell for row in rows for cell in row if isinstance(cell, str)}:
        texts[cell] = encode(cell)
    lines = ["\t".join([texts[c] if isinstance(c, str) else repr(c) for c in row]) for row in rows]
    (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f'(input {name} "{name}.tsv")'


def _check_rows(relation: Relation, rows: Sequence[Row]) -> None:
    of_sort: Mapping[str, type | tuple[type, ...]] = {TEXT: str, INT: int}
    kinds = tuple(of_sort.get(sort, (int, float)) for sort in relation.sorts)
    for row in rows:
        if len(row) != len(kinds) or not all(map(isinstance, row, kinds)):
            message = f"a row of {relation.name} does not fit its columns: {row!r}"[:300]
            raise Refused(Diagnostic("GR664", message, hint="look at the declaration of the table"))
    if relation.function and relation.table:
        _check_function(relation, rows)


def _check_function(relation: Relation, rows: Sequence[Row]) -> None:
    seen: dict[Row, Cell] = {}
    for row in rows:
        if seen.setdefault(row[:-1], row[-1]) != row[-1]:
            key = ", ".join(map(str, row[:-1]))
            message = f"{relation.name}({key}) has two values: {seen[row[:-1]]} and {row[-1]}"
            raise GerulesError(Diagnostic("GR665", message, hint="a function has one value for its operands"))
