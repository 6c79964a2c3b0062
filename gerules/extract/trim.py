"""Classes with more options than any search looks through: only the most promising ones are kept."""

from __future__ import annotations

from dataclasses import replace

from gerules.extract.problem import Option, Problem

MOST = 1_000
"""Options of one class. Rules that grow without end make tens of thousands, and pairs of them are compared."""


def trimmed(problem: Problem, most: int = MOST) -> tuple[Problem, bool]:
    """The problem with at most `most` options a class (those of the input graph and the cheapest on their own; ties by
    rank and index), and whether any was left out. Option ids stay: what is left out is supported by no engine."""
    by_class: dict[int, list[int]] = {}
    for index, option in enumerate(problem.options):
        if not option.leaf and not option.projection:
            by_class.setdefault(option.cls, []).append(index)
    crowded = {cls: indices for cls, indices in by_class.items() if len(indices) > most}
    if not crowded:
        return problem, False
    given = set(problem.incumbent.values())
    options = list(problem.options)
    for indices in crowded.values():
        ranked = sorted(indices, key=lambda i: (i not in given, _least(options[i]), options[i].rank, i))
        for index in ranked[most:]:
            options[index] = replace(options[index], costs=(None,) * len(options[index].costs))
    return replace(problem, options=tuple(options)), True


def _least(option: Option) -> tuple[float, ...]:
    """The cheapest that the option is by itself; last where no engine supports it."""
    vectors = [v for v in option.costs if v is not None]
    return min(vectors) if vectors else (float("inf"),)
