"""A total order of integers in which an element can be moved next to another: labels with wide gaps, spread anew when
a gap is used up (Dietz and Sleator 1987; Python's integers allow gaps so wide that this is rare)."""

from __future__ import annotations

from collections.abc import Sequence

_GAP = 1 << 192


class Ordering:
    """The elements 0 .. n-1 in some order. `label[x] < label[y]` says that x stands before y."""

    def __init__(self, order: Sequence[int]) -> None:
        """`order` lists every element once."""
        count = len(order)
        self.label = [0] * (count + 2)
        self._head, self._tail = count, count + 1
        self._next = [0] * (count + 2)
        self._previous = [0] * (count + 2)
        line = [self._head, *order, self._tail]
        for at, element in enumerate(line):
            self.label[element] = at * _GAP
            if at:
                self._previous[element] = line[at - 1]
                self._next[line[at - 1]] = element

    def remove(self, element: int) -> None:
        """Take `element` out for good, or until it is put in again."""
        before, after = self._previous[element], self._next[element]
        self._next[before] = after
        self._previous[after] = before

    def move_after(self, elements: Sequence[int], anchor: int) -> None:
        """Move `elements`, in this order, directly behind `anchor`, which is none of them."""
        for element in elements:
            self.remove(element)
        self._insert(elements, anchor, self._next[anchor])

    def move_before(self, elements: Sequence[int], anchor: int) -> None:
        """Move `elements`, in this order, directly before `anchor`, which is none of them."""
        for element in elements:
            self.remove(element)
        self._insert(elements, self._previous[anchor], anchor)

    def _insert(self, elements: Sequence[int], left: int, right: int) -> None:
        if not elements:
            return
        step = (self.label[right] - self.label[left]) // (len(elements) + 1)
        if step == 0:
            self._spread()
            step = (self.label[right] - self.label[left]) // (len(elements) + 1)
        at = left
        for element in elements:
            self.label[element] = self.label[at] + step
            self._next[at] = element
            self._previous[element] = at
            at = element
        self._next[at] = right
        self._previous[right] = at

    def _spread(self) -> None:
        at, label = self._head, 0
        while True:
            self.label[at] = label
            if at == self._tail:
                return
            at, label = self._next[at], label + _GAP
