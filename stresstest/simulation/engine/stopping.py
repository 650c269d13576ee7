"""Stop strings, found while the output grows."""

from __future__ import annotations

from stresstest.simulation.engine import vocabulary


class StopWatch:
    """Looks for any of several strings in a growing output; keeps only the tail that could begin one."""

    __slots__ = ("_keep", "_length", "_stops", "_tail", "found", "found_at")

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = [(stop, stop.encode("utf-8", "replace")) for stop in stops if stop]
        self._keep = max((len(data) for _, data in self._stops), default=1) - 1
        self._tail = b""
        self._length = 0
        self.found: str | None = None
        self.found_at: int | None = None
        """Bytes of output before the stop string."""

    def update(self, token_id: int) -> bool:
        """Whether this token completes a stop string. The earliest one wins."""
        window = self._tail + vocabulary.piece(token_id)
        start = self._length - len(self._tail)
        self._length = start + len(window)
        hits = [(at, stop) for stop, data in self._stops if (at := window.find(data)) >= 0]
        if hits:
            at, self.found = min(hits, key=lambda hit: hit[0])
            self.found_at = start + at
            return True
        self._tail = window[len(window) - min(self._keep, len(window)) :]
        return False
