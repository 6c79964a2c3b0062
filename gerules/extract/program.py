"""A model as a mixed-integer program: columns and rows, a solution as a point, and a point as a solution.

A column is one way of one class on one engine; further columns say that a value is brought to an engine. Acyclicity is
not in the rows, but for cycles of two: `cut` makes the row that forbids one cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gerules.extract.model import Model
from gerules.extract.states import State

INFINITY = float("inf")
Row = tuple[float, float, dict[int, float]]  # lower, upper, coefficient of each column


@dataclass
class Program:
    """Columns and rows of the model. `column[(class, way, engine)]`; `needed[class]` its columns; rows are
    (lower, upper, {column: coefficient})."""

    model: Model
    columns: list[tuple[int, int, int]] = field(default_factory=list)
    by_class: list[list[int]] = field(default_factory=list)
    moved: list[tuple[int, tuple[int, ...], int, int]] = field(default_factory=list)  # value, from, to, packed cost
    rows: list[Row] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)  # classes with a level: what needs another one is above it

    def build(self) -> None:
        for cls, ways in enumerate(self.model.ways):
            mine: list[int] = []
            for at, way in enumerate(ways):
                for engine in way.engines():
                    mine.append(len(self.columns))
                    self.columns.append((cls, at, engine))
            self.by_class.append(mine)
        for cls, mine in enumerate(self.by_class):
            exactly = cls in self.model.forced
            if exactly or len(mine) > 1:
                self.rows.append((1.0 if exactly else 0.0, 1.0, dict.fromkeys(mine, 1.0)))
        for cls, users in enumerate(self.model.users):
            for user in users:
                self._needs(cls, user)
            if users and self.model.moves[cls] is not None:
                self._moves(cls, users)
        for knot in self.model.knots:
            members = set(knot)
            for cls in knot:
                for user in self.model.users[cls]:
                    if user < cls and user in members and cls in self.model.users[user]:
                        self.rows.append(self.cut([user, cls]))

    def order(self) -> None:
        """Give the classes of knots levels from 0 to 1, so that no cycle is left (C. Miller, A. Tucker, R. Zemlin,
        1960). The relaxation gains little from that, but one integer program does what many rounds of cuts would."""
        first = len(self.columns) + len(self.moved)
        self.levels = [cls for knot in self.model.knots for cls in knot]
        column = {cls: first + at for at, cls in enumerate(self.levels)}
        for knot in self.model.knots:
            step = 1.0 / len(knot)
            members = set(knot)
            for cls in knot:
                for user in self.model.users[cls]:
                    if user in members:
                        # level(user) >= level(cls) + step where the user needs it, else >= level(cls) - 1
                        row = dict.fromkeys(self.wanting(user, cls), 1.0 + step)
                        row[column[user]] = -1.0
                        row[column[cls]] = 1.0
                        self.rows.append((-INFINITY, 1.0, row))

    def wanting(self, user: int, cls: int) -> list[int]:
        """The columns of a user whose way needs a class."""
        return [c for c in self.by_class[user] if self.model.ways[user][self.columns[c][1]].needs(cls)]

    def on(self, cls: int, engine: int) -> list[int]:
        return [c for c in self.by_class[cls] if self.columns[c][2] == engine]

    def _needs(self, cls: int, user: int) -> None:
        ways = self.model.ways[user]
        wanting = self.wanting(user, cls)
        tied = [c for c in wanting if ways[self.columns[c][1]].tied]
        if cls not in self.model.forced:
            row = dict.fromkeys(wanting, 1.0)
            for c in self.by_class[cls]:
                row[c] = row.get(c, 0.0) - 1.0
            self.rows.append((-INFINITY, 0.0, row))
        for engine in sorted({self.columns[c][2] for c in tied}):
            row = {c: 1.0 for c in tied if self.columns[c][2] == engine}
            for c in self.on(cls, engine):
                row[c] = row.get(c, 0.0) - 1.0
            self.rows.append((-INFINITY, 0.0, row))

    def _moves(self, cls: int, users: Sequence[int]) -> None:
        moves = self.model.moves[cls]
        assert moves is not None
        sources = sorted({self.columns[c][2] for c in self.by_class[cls]})
        arriving: dict[int, list[list[int]]] = {}
        for user in users:
            on: dict[int, list[int]] = {}
            for c in self.wanting(user, cls):
                _, at, engine = self.columns[c]
                if not self.model.ways[user][at].tied:
                    on.setdefault(engine, []).append(c)
            for engine, columns in on.items():
                arriving.setdefault(engine, []).append(columns)
        for target, groups in sorted(arriving.items()):
            by_cost: dict[int, list[int]] = {}
            for source in sources:
                if source != target:
                    by_cost.setdefault(moves[source][target], []).append(source)
            enough = dict.fromkeys(self.on(cls, target), -1.0)
            for cost, grouped in sorted(by_cost.items()):
                if not cost:
                    enough.update({c: -1.0 for source in grouped for c in self.on(cls, source)})
                    continue
                column = len(self.columns) + len(self.moved)
                # numbered behind the states, once those are complete
                self.moved.append((cls, tuple(grouped), target, cost))
                enough[column] = -1.0
                row = {c: -1.0 for source in grouped for c in self.on(cls, source)}
                row[column] = 1.0
                self.rows.append((-INFINITY, 0.0, row))
            for columns in groups:
                self.rows.append((-INFINITY, 0.0, {**enough, **dict.fromkeys(columns, 1.0)}))

    def cut(self, cycle: Sequence[int]) -> Row:
        """No cycle: of the needed classes on it, as many edges along it as there are others than the first."""
        row: dict[int, float] = {}
        for cls, following in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            for c in self.wanting(cls, following):
                row[c] = row.get(c, 0.0) + 1.0
        for cls in cycle[1:]:
            for c in self.by_class[cls]:
                row[c] = row.get(c, 0.0) - 1.0
        return (-INFINITY, 0.0, {c: v for c, v in row.items() if v})

    def costs(self) -> list[int]:
        """The packed cost of every column."""
        packed: list[int] = []
        for cls, at, engine in self.columns:
            cost = self.model.ways[cls][at].costs[engine]
            assert cost is not None
            packed.append(0 if self.model.ways[cls][at].tied else cost)
        return packed + [cost for *_, cost in self.moved] + [0] * len(self.levels)

    def point(self, states: Sequence[State | None]) -> list[float]:
        """The columns' values for a solution."""
        values = [1.0 if states[cls] == (at, engine) else 0.0 for cls, at, engine in self.columns]
        for cls, sources, target, _ in self.moved:
            state = states[cls]
            wanted = (
                state is not None
                and state[1] in sources
                and any(
                    (s := states[user]) is not None
                    and s[1] == target
                    and not self.model.ways[user][s[0]].tied
                    and self.model.ways[user][s[0]].needs(cls)
                    for user in self.model.users[cls]
                )
            )
            values.append(1.0 if wanted else 0.0)
        return values + self._levels_of(states) if self.levels else values

    def _levels_of(self, states: Sequence[State | None]) -> list[float]:
        """For each class with a level the steps below it in its knot."""
        home = {cls: at for at, knot in enumerate(self.model.knots) for cls in knot}
        steps: dict[int, int] = {}
        for start in self.levels:
            path = [start]
            while path:
                cls = path[-1]
                state = states[cls]
                children = () if state is None else self.model.ways[cls][state[0]].children
                inner = [child for child in children if home.get(child) == home[cls]]
                open_ones = [child for child in inner if child not in steps]
                if open_ones:
                    path.extend(open_ones)
                    continue
                steps[cls] = max((steps[child] + 1 for child in inner), default=0)
                path.pop()
        return [steps[cls] / len(self.model.knots[home[cls]]) for cls in self.levels]

    def read(self, values: Sequence[float]) -> list[State | None]:
        states: list[State | None] = []
        for cls, mine in enumerate(self.by_class):
            best = max(mine, key=lambda c: (values[c], -c))
            forced = cls in self.model.forced
            states.append(self.columns[best][1:] if forced or values[best] > 0.5 else None)
        return states
