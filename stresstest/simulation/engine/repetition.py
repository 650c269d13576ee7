"""vLLM's `repetition_detection`, online.

Semantics of `check_sequence_repetition` in vLLM 0.32 (v1/core/sched/utils.py): after each output token,
stop when for some pattern size the last `min_count` windows of that size are equal, token by token. That
function compares the whole tail again after every token; here one counter a distance is kept instead.
"""

from __future__ import annotations

from stresstest.simulation.engine.request import RepetitionDetection


class RepetitionWatch:
    """Feed output ids one by one; `update` says whether the tail now holds the repetition asked for.

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
