"""Names that a misspelt one may have meant."""

from __future__ import annotations

from collections.abc import Iterable


def distance(left: str, right: str, limit: int) -> int:
    """Insertions, deletions, replacements and swaps of neighbours from one to the other; `limit + 1` if more."""
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        before, row, previous = row, [i], before
        for j, b in enumerate(right, 1):
            cost = min(row[j - 1] + 1, before[j] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, previous[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
    return row[-1]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to `name`, small and capital letters counted alike; None where none is close."""
    limit = max(1, min(3, len(name) // 3))
    best: tuple[int, int, str] | None = None
    for candidate in known:
        if candidate == name:
            continue
        steps = distance(name.lower(), candidate.lower(), limit)
        ranked = (steps, distance(name, candidate, limit + 3), candidate)
        if steps <= limit and (best is None or ranked < best):
            best = ranked
    return best[2] if best else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint, or None."""
    found = nearest(name, known)
    return f"did you mean `{found}`?" if found else None


def listed(items: Iterable[str], word: str = "and", most: int = 12) -> str:
    """`a, b and c`; `a, b, c, ... (30 in all)` where there are many."""
    all_items = list(items)
    if len(all_items) > most:
        return f"{', '.join(all_items[:most])}, ... ({len(all_items)} in all)"
    if len(all_items) < 2:
        return "".join(all_items)
    return f"{', '.join(all_items[:-1])} {word} {all_items[-1]}"
