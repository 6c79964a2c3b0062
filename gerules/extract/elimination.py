"""Min-sum elimination: the exact optimum of a network of small cost tables, or a bound and a good guess.

A network has variables with few states each and tables over few variables each; wanted is one state for every
variable with the least sum. Variables are removed one after the other, those first whose removal makes the smallest
table (R. Dechter, "Bucket elimination", 1999). Where a table would be too large, its parts are minimised apart
("mini-buckets"): the sum is then a lower bound, and the states read back are a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import log2, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Table = NDArray[Any]  # int64, or Python integers as objects

TABLE_ENTRIES = 1 << 16  # of one table
TOTAL_ENTRIES = 1 << 25  # of all tables of one run; beyond, tables stay below SMALL_ENTRIES
SMALL_ENTRIES = 1 << 10
CLAMP_AFTER = 6  # infinities added before they are cut back, so that 64 bits do not overflow


@dataclass
class Network:
    """`sizes[v]` states for variable v; `unary[v]` costs of them; `tables` over two or more variables, keys ascending,
    one axis for each. `infinity` marks what is forbidden: no sum of allowed costs reaches it."""

    infinity: int
    int64: bool
    sizes: list[int] = field(default_factory=list)
    unary: list[Table] = field(default_factory=list)
    tables: dict[tuple[int, ...], Table] = field(default_factory=dict)

    def array(self, values: Any) -> Table:
        return np.array(values, dtype=np.int64 if self.int64 else object)

    def variable(self, costs: Sequence[int]) -> int:
        self.sizes.append(len(costs))
        self.unary.append(self.array(costs))
        return len(self.sizes) - 1

    def add(self, scope: tuple[int, ...], table: Table) -> None:
        """Add a table; `scope` names distinct variables in the order of the axes. Axes of one state are dropped."""
        order = sorted(range(len(scope)), key=lambda i: scope[i])
        if order != list(range(len(scope))):
            table = table.transpose(order)
        kept = tuple(v for v in sorted(scope) if self.sizes[v] > 1)
        table = table.reshape([self.sizes[v] for v in kept])
        if not kept:
            # a constant: it joins any variable of the scope
            self.unary[scope[0]] = self._sum(self.unary[scope[0]], table)
        elif len(kept) == 1:
            self.unary[kept[0]] = self._sum(self.unary[kept[0]], table)
        elif kept in self.tables:
            self.tables[kept] = self._sum(self.tables[kept], table)
        else:
            self.tables[kept] = table

    def _sum(self, left: Table, right: Table) -> Table:
        total: Table = np.minimum(left + right, self.infinity)
        return total

    def values(self, states: Sequence[int], group: Sequence[int]) -> dict[int, int]:
        """For each group (`groups()` as `group`) the sum of all that concerns its variables."""
        totals = dict.fromkeys(sorted(set(group)), 0)
        for v, leader in enumerate(group):
            totals[leader] += int(self.unary[v][states[v]])
        for scope, table in self.tables.items():
            totals[group[scope[0]]] += int(table[tuple(states[v] for v in scope)])
        return totals

    def groups(self) -> list[int]:
        """For each variable the smallest variable that tables connect it to."""
        leader = list(range(len(self.sizes)))
        for scope in self.tables:
            roots = [find(leader, v) for v in scope]
            least = min(roots)
            for root in roots:
                leader[root] = least
        return [find(leader, v) for v in range(len(self.sizes))]


def find(leader: list[int], node: int) -> int:
    """The head of a node's set, with the path to it halved."""
    while leader[node] != node:
        leader[node] = leader[leader[node]]
        node = leader[node]
    return node


@dataclass(frozen=True)
class Answer:
    """`states[v]` for each variable; `bounds` has for each group (by its smallest variable) a lower bound, which is
    the optimum, attained by `states`, for all groups but those in `inexact`."""

    states: dict[int, int]
    bounds: dict[int, int]
    inexact: frozenset[int]


def eliminate(network: Network, variables: Sequence[int] | None = None) -> Answer:
    """The optimum of each group of variables, or a bound and a guess. `variables` (all without) make whole groups."""
    return _Elimination(network, range(len(network.sizes)) if variables is None else variables).run()


class _Elimination:
    def __init__(self, network: Network, variables: Sequence[int]) -> None:
        self.network = network
        self.sizes = network.sizes
        self.unary = list(network.unary)
        self.variables = variables
        wanted = set(variables)
        self.tables = {scope: table for scope, table in network.tables.items() if scope[0] in wanted}
        self.group = network.groups()
        count = len(self.sizes)
        self.weight = [round(1000 * log2(size)) if size > 1 else 0 for size in self.sizes]
        self.near: list[dict[int, None]] = [{} for _ in range(count)]
        self.scopes: list[dict[tuple[int, ...], None]] = [{} for _ in range(count)]
        for scope in self.tables:
            self._link(scope)
        self.spread = [sum(self.weight[n] for n in self.near[v]) for v in range(count)]
        self.bounds = dict.fromkeys(sorted({self.group[v] for v in variables}), 0)
        self.inexact: set[int] = set()
        self.entries = 0
        # (variable, cost table on it alone, tables with it as last axis and the variables of the other axes)
        self.buckets: list[tuple[int, Table, list[tuple[tuple[int, ...], Table]]]] = []

    def _link(self, scope: tuple[int, ...]) -> None:
        for v in scope:
            self.scopes[v][scope] = None
            for other in scope:
                if other != v:
                    self.near[v][other] = None

    def run(self) -> Answer:
        heap = [(self.spread[v], v) for v in self.variables]
        heapify(heap)
        done = [False] * len(self.sizes)
        while heap:
            spread, v = heappop(heap)
            if done[v] or spread != self.spread[v]:
                continue
            done[v] = True
            neighbours = list(self.near[v])
            self._remove(v)
            for other in neighbours:
                heappush(heap, (self.spread[other], other))
        return Answer(self._read_back(), self.bounds, frozenset(self.inexact))

    def _remove(self, v: int) -> None:
        bucket: list[tuple[tuple[int, ...], Table]] = []
        for scope in self.scopes[v]:
            table = self.tables.pop(scope)
            at = scope.index(v)
            others = scope[:at] + scope[at + 1 :]
            if at != len(others):
                table = table.T if len(others) == 1 else np.moveaxis(table, at, -1)
            bucket.append((others, table))
            for other in others:
                del self.scopes[other][scope]
        self.buckets.append((v, self.unary[v], bucket))
        parts = self._parts(v, bucket)
        if len(parts) > 1:
            self.inexact.add(self.group[v])
        near = self.near[v]
        for other in near:
            del self.near[other][v]
            self.spread[other] -= self.weight[v]
        for at, part in enumerate(parts):
            self._minimise(v, self.unary[v] if at == 0 else None, part)

    def _parts(self, v: int, bucket: list[tuple[tuple[int, ...], Table]]) -> list[list[tuple[tuple[int, ...], Table]]]:
        """The bucket whole, or in parts whose joint tables are small enough."""
        limit = TABLE_ENTRIES if self.entries < TOTAL_ENTRIES else SMALL_ENTRIES
        whole = self.sizes[v] * prod(self.sizes[n] for n in self.near[v])
        if whole <= limit or len(bucket) < 2:
            self.entries += whole
            return [bucket]
        parts: list[list[tuple[tuple[int, ...], Table]]] = []
        scopes: list[set[int]] = []
        for others, table in sorted(bucket, key=lambda item: (-len(item[0]), item[0])):
            for part, scope in zip(parts, scopes, strict=True):
                if self.sizes[v] * prod(self.sizes[n] for n in scope.union(others)) <= limit:
                    part.append((others, table))
                    scope.update(others)
                    break
            else:
                parts.append([(others, table)])
                scopes.append(set(others))
        self.entries += sum(self.sizes[v] * prod(self.sizes[n] for n in scope) for scope in scopes)
        return parts

    def _minimise(self, v: int, unary: Table | None, bucket: list[tuple[tuple[int, ...], Table]]) -> None:
        """Replace the tables of a bucket by the least over v."""
        scope = tuple(sorted({n for others, _ in bucket for n in others}))
        total: Table | None = unary
        infinity = self.network.infinity
        for at, (others, table) in enumerate(bucket):
            if len(others) != len(scope):
                shape = [self.sizes[n] if n in others else 1 for n in scope]
                table = table.reshape([*shape, self.sizes[v]])
            total = table if total is None else total + table
            if at % CLAMP_AFTER == CLAMP_AFTER - 1:
                total = np.minimum(total, infinity)
        assert total is not None
        if not scope:
            self.bounds[self.group[v]] += min(int(total.min()), infinity)
            return
        least = np.minimum(total.min(axis=-1), infinity)
        if len(scope) == 1:
            n = scope[0]
            self.unary[n] = np.minimum(self.unary[n] + least, infinity)
            return
        if scope in self.tables:
            self.tables[scope] = np.minimum(self.tables[scope] + least, infinity)
            return
        self.tables[scope] = least
        for n in scope:
            self.scopes[n][scope] = None
            near = self.near[n]
            for other in scope:
                if other != n and other not in near:
                    near[other] = None
                    self.spread[n] += self.weight[other]

    def _read_back(self) -> dict[int, int]:
        """States in the reverse order of elimination: the first of the best given those chosen before."""
        states = dict.fromkeys(self.variables, 0)
        for v, unary, bucket in reversed(self.buckets):
            if self.sizes[v] == 1:
                continue
            total = unary
            for at, (others, table) in enumerate(bucket):
                total = total + table[tuple(states[n] for n in others)]
                if at % CLAMP_AFTER == CLAMP_AFTER - 1:
                    total = np.minimum(total, self.network.infinity)
            states[v] = int(total.argmin())
        return states
