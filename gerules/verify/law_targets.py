"""Laws of engines, transfers, merge and group rules.

What `supports` names is what the schemas have; costs and transfers are finite, 0 or more, and do not fall when sizes
grow; a merge rule holds for some neighbours; a group is a connected pattern that some graph has. That merging makes no
cycle is asked by who merges, whatever the rules say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from gerules.dsl import ast
from gerules.dsl.lets import walk
from gerules.dsl.program import Entry, Program
from gerules.dsl.show import show
from gerules.egraph.program import Knowledge
from gerules.errors import GerulesError
from gerules.graph.dims import DimFacts
from gerules.registry.definition import OperatorDef
from gerules.static import Unknown, compile_expr, solve_steps, split_conditions
from gerules.static.values import Value, is_number
from gerules.target import Target, compile_clause, load_target
from gerules.target.engines import surroundings
from gerules.target.target import MERGE_FIELDS
from gerules.verify.law_instances import instances_of
from gerules.verify.law_nodes import GROWN, DrawnView, drawn_nodes, root_node
from gerules.verify.law_support import check_supports
from gerules.verify.verdict import CaseVerdict

GROWN_ALONE = (1, 2, 4, 16)
"""By what extents of one size are multiplied while the others stay."""
NEVER = "no instance was found that meets its conditions"


# ---------------------------------------------------------------------------------------------------------- engines


def check_engine(known: Knowledge, entry: Entry[ast.Engine], seed: int) -> tuple[CaseVerdict, ...]:
    """A verdict for each `supports` clause, and one for the costs; one for an engine that is made of others."""
    program, statement = known.program, entry.statement
    found = list(check_supports(program, entry))
    try:
        target = _target(known, entry.file)
    except GerulesError as fault:
        return (*found, CaseVerdict(entry.full, "cost", "", "unknown", fault.diagnostics[0].message))
    if statement.name in target.composites:
        parts = target.composites[statement.name].parts
        return (CaseVerdict(entry.full, "", "", "tested", f"its parts are engines: {', '.join(parts)}", len(parts)),)
    return (*found, _costs(known, entry, target, seed))


def _target(known: Knowledge, file: ast.RuleFile) -> Target:
    kept = known.kept.setdefault("law targets", {})
    assert isinstance(kept, dict)
    if file.path not in kept:
        kept[file.path] = load_target(known.program, file.ruleset)
    target = kept[file.path]
    assert isinstance(target, Target)
    return target


def _costs(known: Knowledge, entry: Entry[ast.Engine], target: Target, seed: int) -> CaseVerdict:
    """Nodes of every operator that the engine takes, at sizes that grow."""
    place = target.engines.index(entry.statement.name)
    engine = target.table.engines[place]
    keys = frozenset().union(*(c.matcher.heads.keys for c in engine.supports))
    priced = 0
    views = list(drawn_nodes(known, keys, seed))
    if not any(target.supported(view, root_node(view))[place] for view in views):
        views = list(_own_nodes(known, entry, seed))
    for view in views:
        for extent, factors in ((None, GROWN), *((n, GROWN_ALONE) for n in view.extents)):
            found = _prices(target, place, view, extent, factors)
            if isinstance(found, str):
                return CaseVerdict(entry.full, "cost", "", "refuted", found, trials=priced)
            priced += found
    if not priced:
        return CaseVerdict(entry.full, "cost", "", "unknown", f"{NEVER}: it takes none of the nodes that were drawn")
    return CaseVerdict(entry.full, "cost", "", "tested", f"{priced} prices", trials=priced, drawn=priced)


def _own_nodes(known: Knowledge, entry: Entry[ast.Engine], seed: int) -> Iterator[DrawnView]:
    """Nodes drawn from what an engine itself asks for: for one that takes little."""
    for clause in (c for c in entry.statement.clauses if isinstance(c, ast.Supports)):
        for params, rest in known.ground.instances(clause.over, clause.when, entry.file):
            try:
                drawn = instances_of(known, entry.full, entry.file, params, (clause.pattern,), rest)
            except GerulesError:
                continue  # an operator with bodies
            yield from (DrawnView(i.state) for i in drawn.take(3, seed, most=6000))


def _prices(target: Target, place: int, view: DrawnView, extent: int | None, factors: Sequence[int]) -> int | str:
    """How many sizes of a node an engine takes; or what is wrong with its price there."""
    node = root_node(view)
    before: tuple[int, float] | None = None
    count = 0
    for factor in factors:
        sized = view.grown(factor, extent)
        try:
            seconds = target.costs(sized, node)[place]
        except GerulesError as fault:
            return f"{fault.diagnostics[0].message}, for {sized.text(node)}"
        if seconds is not None and before is not None and seconds < before[1] * (1 - 1e-12):
            smaller = view.grown(before[0], extent).text(node)
            return f"the cost falls from {before[1]:g} seconds for {smaller} to {seconds:g} for {sized.text(node)}"
        before = None if seconds is None else (factor, seconds)
        count += seconds is not None
    return count


# -------------------------------------------------------------------------------------------------------- transfers


def check_transfer(program: Program, entry: Entry[ast.Transfer]) -> tuple[CaseVerdict, ...]:
    """Seconds for 0 bytes to 1 PiB: numbers, 0 or more, that do not fall."""
    statement = entry.statement
    context = surroundings(program, entry.file, DimFacts(), (), {}).context
    value = compile_expr(statement.value, context)
    before, count = 0.0, 0
    for size in (0.0, *(2.0**k for k in range(51))):
        try:
            seconds = value({"bytes": size})
        except Unknown as unknown:
            return (CaseVerdict(entry.full, "", "", "refuted", f"for {size:g} bytes it has no value: {unknown}"),)
        if not is_number(seconds) or not 0 <= float(seconds) < math.inf:  # type: ignore[arg-type]
            detail = f"{size:g} bytes take {seconds} seconds, which is no time"
            return (CaseVerdict(entry.full, "", "", "refuted", detail, trials=count),)
        if float(seconds) < before:  # type: ignore[arg-type]
            detail = f"{size:g} bytes take {seconds:g} seconds, and half as many {before:g}"
            return (CaseVerdict(entry.full, "", "", "refuted", detail, trials=count),)
        before, count = float(seconds), count + 1  # type: ignore[arg-type]
    return (CaseVerdict(entry.full, "", "", "tested", f"{count} sizes", trials=count, drawn=count),)


# ------------------------------------------------------------------------------------------------- merge and group


def check_merge(program: Program, entry: Entry[ast.Merge]) -> tuple[CaseVerdict, ...]:
    """Neighbours of every kind that the conditions tell apart: the rule lets some of them share a cluster."""
    statement = entry.statement
    engines, composites = _engines_of(program, entry.file)
    around = surroundings(program, entry.file, DimFacts(), engines, composites)
    try:
        steps = split_conditions(statement.when, (statement.source, statement.target), around.context)
    except GerulesError as fault:
        return (CaseVerdict(entry.full, "", "", "unknown", fault.diagnostics[0].message),)
    read = {n.name for c in statement.when for n in walk(c) if isinstance(n, ast.Field)}
    asked = [f for f in MERGE_FIELDS if f in read]
    pools: Mapping[str, Sequence[Value]] = {
        "engine": tuple(engines) or ("Npu", "Cpu"),
        "stream": ("", "left"),
        "label": ("", "left"),
        "dynamic": (False, True),
        "size": (1, 5, 100),
        "dtype": ("f32", "f16", "i8"),
        "op": _operators_named(program, statement, entry.file),
    }
    nodes = [dict(zip(asked, values, strict=True)) for values in product(*(pools[f] for f in asked))]
    tried = held = 0
    for a, b in product(nodes, repeat=2):
        tried += 1
        held += next(solve_steps(steps, {statement.source: _node(a), statement.target: _node(b)}), None) is not None
    if not held:
        detail = f"{NEVER}: it lets none of {tried} kinds of neighbours share a cluster"
        return (CaseVerdict(entry.full, "", "", "unknown", detail, drawn=tried),)
    detail = f"holds for {held} of {tried} kinds of neighbours"
    return (CaseVerdict(entry.full, "", "", "tested", detail, trials=held, drawn=tried),)


def _node(fields: Mapping[str, Value]) -> Value:
    return dict(fields)


def _engines_of(program: Program, file: ast.RuleFile) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """The engines that a merge rule may meet, and the composites that they are parts of."""
    own = [e for e in program.engines.values() if e.file.path == file.path] or list(program.engines.values())
    composites: dict[str, tuple[str, ...]] = {}
    for entry in own:
        for clause in entry.statement.clauses:
            if isinstance(clause, ast.Property) and clause.name == "parts":
                parts = (n.name for n in walk(clause.value) if isinstance(n, ast.Symbol))
                composites[entry.statement.name] = tuple(parts)
    return [e.statement.name for e in own], composites


def _operators_named(program: Program, statement: ast.Merge, file: ast.RuleFile) -> tuple[Value, ...]:
    """An operator of each set that the conditions name, and one more."""
    found: dict[str, OperatorDef] = {}
    for symbol in (n for c in statement.when for n in walk(c) if isinstance(n, ast.Symbol)):
        try:
            members = program.members(symbol, file, True)
        except GerulesError:
            continue  # an engine, or a dimension
        if members:
            found[members[0].key] = members[0]
    other = program.registry.lookup("", "Relu", 14)
    if other is not None:
        found.setdefault(other.key, other)
    return tuple(found.values())


def check_group(known: Knowledge, entry: Entry[ast.Group], seed: int) -> tuple[CaseVerdict, ...]:
    """A graph of the pattern's own operators is drawn; the group is found in it, in one piece."""
    statement = entry.statement
    clause = compile_clause(
        statement.pattern, statement.over, statement.when, surroundings(known.program, entry.file, DimFacts(), (), {})
    )
    found: list[CaseVerdict] = []
    for params, rest in known.ground.instances(statement.over, statement.when, entry.file):
        member = ",".join(v.key if isinstance(v, OperatorDef) else str(v) for v in params.values())
        try:
            drawn = instances_of(known, f"{entry.full}[{member}]", entry.file, params, (statement.pattern,), rest)
        except GerulesError as fault:
            found.append(CaseVerdict(entry.full, member, "", "unknown", fault.diagnostics[0].message))
            continue
        drawn.label = entry.full
        for instance in drawn.take(5, seed, most=6000):
            view = DrawnView(instance.state)
            nodes = [n for match in clause.solutions(view, root_node(view)) for n in match.nodes]
            if len(set(nodes)) < 2 or not _connected(view, set(nodes)):
                detail = f"it does not find its own operators in one piece: {show(statement.pattern)}"
                found.append(drawn.verdict(member, "refuted", detail))
                break
        else:
            if drawn.found:
                found.append(drawn.verdict(member, "tested", f"found in {drawn.found} graphs"))
            else:
                found.append(drawn.verdict(member, "unknown", f"{NEVER} in {drawn.drawn} draws ({drawn.commonest})"))
    return tuple(found)


def _connected(view: DrawnView, nodes: set[int]) -> bool:
    """Whether these nodes are one piece of the graph."""
    edges: dict[int, set[int]] = {n: set() for n in nodes}
    for node in nodes:
        for value in view.operands(node):
            for producer in view.producers(value) if value is not None else ():
                if producer in nodes:
                    edges[node].add(producer)
                    edges[producer].add(node)
    reached: set[int] = set()
    waiting = [min(nodes)]
    while waiting:
        node = waiting.pop()
        if node not in reached:
            reached.add(node)
            waiting += edges[node] - reached
    return reached == nodes
