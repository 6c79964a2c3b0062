"""The time that a search may take, and whether it ran out anywhere: only then may two runs differ."""

from __future__ import annotations

from time import monotonic


class Clock:
    """Ends `seconds` from now. Who asks and finds the time over has cut something, so `timed` is then set, here and in
    the clocks that this one is a part of."""

    def __init__(self, seconds: float, whole: Clock | None = None) -> None:
        self._end = monotonic() + seconds
        self._whole = whole
        self.timed = False

    def left(self) -> float:
        """Seconds, at least 0."""
        return max(0.0, self._end - monotonic())

    def over(self) -> bool:
        if monotonic() > self._end:
            self.mark()
            return True
        return False

    def mark(self) -> None:
        """Somebody else looked at the time and stopped."""
        clock: Clock | None = self
        while clock is not None:
            clock.timed = True
            clock = clock._whole

    def part(self, share: float) -> Clock:
        """A clock that ends after a share of the time left."""
        return Clock(share * self.left(), self)
