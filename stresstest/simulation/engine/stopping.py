"""Early stops of an answer: stop strings, and vLLM's `repetition_detection`."""

from __future__ import annotations

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.request import RepetitionDetection


class StopStringMatcher:
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
        window = self._tail + vocabulary.token_bytes(token_id)
        start = self._length - len(self._tail)
        self._length = start + len(window)
        hits = [(at, stop) for stop, data in self._stops if (at := window.find(data)) >= 0]
        if hits:
            at, self.found = min(hits, key=lambda hit: hit[0])
            self.found_at = start + at
            return True
        self._tail = window[len(window) - min(self._keep, len(window)) :]
        return False


class RepetitionStop:
    """Feed output ids one by one; `update` says whether the tail now holds the requested repetition.

    The counter of distance p says how many of the latest tokens equal the token p before them. The last
    c windows of p tokens are equal exactly when the counter has reached p · (c - 1). Only distances to
    earlier places of the newest token can count, so a token costs the number of its recent occurrences.
    """

    __slots__ = ("_at", "_count", "_counters", "_disabled", "_least", "_most", "_places")

    def __init__(self, settings: RepetitionDetection) -> None:
        self._least = max(1, settings.min_pattern_size)
        self._most = settings.max_pattern_size
        self._count = settings.min_count
        self._disabled = self._most <= 0 or self._count < 2 or self._least > self._most
        self._at = 0
        self._places: dict[int, list[int]] = {}
        self._counters: dict[int, int] = {}

    def update(self, token_id: int) -> bool:
        if self._disabled:
            return False
        at, most, before = self._at, self._most, self._counters
        self._at = at + 1
        places = self._places.setdefault(token_id, [])
        counters: dict[int, int] = {}
        found = False
        for place in reversed(places):
            distance = at - place
            if distance > most:
                break
            run = counters[distance] = before.get(distance, 0) + 1
            if distance >= self._least and run >= distance * (self._count - 1):
                found = True
        self._counters = counters
        places.append(at)
        if len(places) > 2 * most:  # places farther back than `most` tokens can never count again
            del places[:-most]
        return found
