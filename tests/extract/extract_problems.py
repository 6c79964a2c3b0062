"""Random small problems, and the optimum by trying everything."""

from __future__ import annotations

from itertools import product

from hypothesis import strategies as st

from gerules.extract import Option, Problem, evaluate


@st.composite
def problems(
    draw: st.DrawFn, max_classes: int = 5, max_engines: int = 2, width: int = 2, cycles: bool = False
) -> Problem:
    """A problem with cycles, sharing, leaves, projections, pins and engines that are missing; it always has the
    incumbent, made first, whose children are lower classes. Costs are small integers or halves, so sums are exact.
    With `cycles` each class can also be had for nothing from the next one."""
    classes = draw(st.integers(2, max_classes))
    engines = draw(st.integers(1, max_engines))
    number = st.integers(0, 8).map(lambda n: n / 2)
    vector = st.tuples(*[number] * width)
    options: list[Option] = []
    incumbent: dict[int, int] = {}
    pinned: dict[int, int] = {}
    nodes = {0: False}  # class -> is it the class of a node with several results
    for cls in range(classes):
        kind = draw(st.sampled_from(["plain", "plain", "plain", "leaf", "projection", "node"]))
        lower = [c for c in range(cls) if not nodes[c]]
        node_classes = [c for c in range(cls) if nodes[c]]
        incumbent[cls] = len(options)
        nodes[cls] = kind == "node"
        if kind == "leaf":
            options.append(Option(cls, (), (), leaf=True))
        elif kind == "projection" and node_classes:
            options.append(Option(cls, (draw(st.sampled_from(node_classes)),), (), projection=True))
        else:
            children = tuple(draw(st.lists(st.sampled_from(lower), max_size=3))) if lower else ()
            costs = [draw(vector) for _ in range(engines)]
            costs[1:] = [c if draw(st.booleans()) else None for c in costs[1:]]
            options.append(Option(cls, children, tuple(draw(st.permutations(costs)))))
            if draw(st.integers(0, 9)) == 0:
                pinned[incumbent[cls]] = next(e for e, c in enumerate(options[-1].costs) if c is not None)
    plain = [c for c in range(classes) if not nodes[c]]
    leaves = {o.cls for o in options if o.leaf}
    for _ in range(draw(st.integers(0, 6))):
        cls = draw(st.integers(0, classes - 1))
        if nodes[cls] and any(nodes[c] and c != cls for c in range(classes)) and draw(st.booleans()):
            continue
        if not nodes[cls] and cls not in leaves and any(nodes.values()) and draw(st.integers(0, 3)) == 0:
            node = draw(st.sampled_from([c for c in range(classes) if nodes[c]]))
            options.append(Option(cls, (node,), (), projection=True, rank=1))
            continue
        if cls in leaves:
            continue
        children = tuple(draw(st.lists(st.sampled_from(plain), max_size=3))) if plain else ()
        costs = tuple(draw(st.one_of(st.none(), vector)) for _ in range(engines))
        options.append(Option(cls, children, costs, rank=draw(st.integers(1, 2))))
    moves = {(c, a, b): draw(number) for c in range(classes) for a in range(engines) for b in range(engines) if a != b}
    roots = tuple(draw(st.lists(st.sampled_from(plain or [0]), min_size=1, max_size=2)))
    names = tuple(f"E{i}" for i in range(engines))

    def transfer(cls: int, source: int, target: int) -> float:
        return moves[cls, source, target]

    return Problem(tuple(options), classes, roots, names, transfer, incumbent, {}, pinned)


def brute_force(problem: Problem, only: dict[int, int] | None = None) -> tuple[float, ...] | None:
    """The least cost of all choices and engines; None where there is none."""
    by_class: list[list[tuple[int, int]]] = [[] for _ in range(problem.classes)]
    for index, option in enumerate(problem.options):
        if only is not None and only.get(option.cls) != index:
            continue
        engines = range(len(problem.engines))
        if option.leaf:
            by_class[option.cls].append((index, -1))
        else:
            able = (e for e in engines if option.projection or problem.cost(index, e) is not None)
            by_class[option.cls].extend((index, e) for e in able)
    best: tuple[float, ...] | None = None
    for states in product(*[states or [(-1, -1)] for states in by_class]):
        choice = {cls: index for cls, (index, _) in enumerate(states) if index >= 0}
        engine = {cls: e for cls, (index, e) in enumerate(states) if index >= 0 and e >= 0}
        try:
            cost = evaluate(problem, choice, engine)
        except ValueError:
            continue
        if best is None or cost < best:
            best = cost
    return best
