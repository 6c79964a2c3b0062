"""Made-up problems in the shapes of real models: chains, residual towers, transformers, with rewrites beside them."""

from __future__ import annotations

from random import Random

from gerules.extract import Option, Problem

ENGINES = ("AiCore", "AiVector", "AiCpu", "HostCpu")


class Builder:
    """Options with costs as targets have them: (seconds, nodes), engine e being 1, 1, 8 and 20 times slower, matrix
    work only on some. `rewrites` is the chance that a node has a second form, in per cent."""

    def __init__(self, seed: int, engines: int = 4, rewrites: int = 0) -> None:
        self.random = Random(seed)
        self.engines = engines
        self.rewrites = rewrites
        self.options: list[Option] = []
        self.incumbent: dict[int, int] = {}
        self.sizes: list[float] = []

    def input(self) -> int:
        return self._class(Option(len(self.sizes), (), (), leaf=True), 1e6)

    def node(self, *children: int, kind: str = "vector") -> int:
        cls = len(self.sizes)
        size = float(self.random.randint(1, 64)) * 16384
        made = self._class(Option(cls, children, self._costs(kind, size)), size)
        if self.random.randrange(100) < self.rewrites:
            self._second(cls, children, size)
        return made

    def problem(self, *roots: int) -> Problem:
        sizes = self.sizes

        def transfer(cls: int, source: int, target: int) -> float:
            if self.engines == 1:
                return 0.0
            near = {source, target} == {0, 1}
            return 2e-6 + sizes[cls] / 1e12 if near else 2e-5 + sizes[cls] / 1.2e10

        return Problem(
            tuple(self.options),
            len(self.sizes),
            roots,
            ENGINES[: self.engines],
            transfer,
            dict(self.incumbent),
            {},
            {},
        )

    def _class(self, option: Option, size: float) -> int:
        self.incumbent[option.cls] = len(self.options)
        self.options.append(option)
        self.sizes.append(size)
        return option.cls

    def _second(self, cls: int, children: tuple[int, ...], size: float) -> None:
        """Another form: over a new class, or without one of the operands; or the first form again of a new class that
        is made from this one (a cycle)."""
        form = self.random.randrange(3)
        if form == 0 or not children:
            inner = self._class(Option(len(self.sizes), children, self._costs("vector", size / 4)), size / 4)
            self.options.append(Option(cls, (inner,), self._costs("vector", size / 2), rank=1))
        elif form == 1 and len(children) > 1:
            self.options.append(Option(cls, children[1:], self._costs("slow", size), rank=1))
        else:
            inner = self._class(Option(len(self.sizes), (cls,), self._costs("vector", size)), size)
            self.options.append(Option(inner, children, self._costs("vector", size / 2), rank=1))
            self.options.append(Option(cls, (inner,), self._costs("vector", size / 4), rank=1))

    def _costs(self, kind: str, size: float) -> tuple[tuple[float, ...] | None, ...]:
        launch = 1e-6
        if kind == "matrix":
            seconds: list[float | None] = [size / 1e10, None, size / 1e9, size / 2e9]
        elif kind == "slow":
            seconds = [None, size / 5e8, size / 2e8, size / 2e8]
        elif kind == "host":
            seconds = [None, None, size / 1e10, size / 5e9]
        else:
            seconds = [size / 1e11 if self.random.random() < 0.2 else None, size / 2e11, size / 1e10, size / 2e10]
        if self.engines == 1:
            seconds = [min(s for s in seconds if s is not None)]
        return tuple(None if s is None else (launch + s, 1.0) for s in seconds[: self.engines])


def chain(length: int, engines: int = 4, rewrites: int = 0, seed: int = 1) -> Problem:
    build = Builder(seed, engines, rewrites)
    value = build.input()
    for _ in range(length):
        value = build.node(value, kind=build.random.choice(["vector", "vector", "matrix", "host"]))
    return build.problem(value)


def transformer(layers: int, engines: int = 4, rewrites: int = 0, seed: int = 1) -> Problem:
    """About 50 nodes a layer: layer norms of nine nodes, attention with a mask that all layers share, a feed-forward
    with an exploded GELU."""
    build = Builder(seed, engines, rewrites)
    node = build.node
    mask = node(node(build.input(), kind="host"))
    value = node(build.input(), build.input(), kind="host")

    def norm(x: int) -> int:
        centred = node(x, node(x))
        scale = node(node(node(node(centred))))
        return node(node(node(centred, scale), build.input()), build.input())

    for _ in range(layers):
        x = norm(value)
        heads = []
        for _ in range(3):
            head = node(node(x, build.input(), kind="matrix"), build.input())
            heads.append(node(node(head, kind="host" if build.random.random() < 0.1 else "vector")))
        scores = node(node(node(heads[0], heads[1], kind="matrix")), mask)
        mixed = node(node(node(scores), heads[2], kind="matrix"))
        value = node(value, node(node(node(mixed), build.input(), kind="matrix"), build.input()))
        x = norm(value)
        hidden = node(node(x, build.input(), kind="matrix"), build.input())
        gate = node(node(node(node(node(hidden)), hidden)))
        hidden = node(node(hidden, gate))
        value = node(value, node(node(hidden, build.input(), kind="matrix"), build.input()))
    return build.problem(value)


def tower(blocks: int, engines: int = 4, rewrites: int = 0, seed: int = 1) -> Problem:
    """Residual blocks of seven nodes, each block with a join, and long skips every eight blocks as in a U-Net."""
    build = Builder(seed, engines, rewrites)
    value = build.input()
    skips: list[int] = []
    for block in range(blocks):
        inner = value
        for kind in ("matrix", "vector", "vector", "matrix", "vector"):
            inner = build.node(inner, kind=kind)
        value = build.node(build.node(inner, value))
        if block % 8 == 0:
            skips.append(value)
        if block % 8 == 7 and block > blocks // 2 and skips:
            value = build.node(value, skips.pop(), kind="host")
    return build.problem(value)


def tangle(length: int, window: int, engines: int = 4, rewrites: int = 0, seed: int = 1) -> Problem:
    """Nodes of two operands drawn from the last `window` values: far from any tree."""
    build = Builder(seed, engines, rewrites)
    recent = [build.input()]
    for _ in range(length):
        first, second = build.random.choice(recent), recent[-1]
        kind = build.random.choice(["vector", "vector", "matrix", "host"])
        recent.append(build.node(*dict.fromkeys((first, second)), kind=kind))
        del recent[:-window]
    return build.problem(*recent[-3:])
