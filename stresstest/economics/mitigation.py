"""What a mitigation would have done: stored token streams replayed through vLLM's `repetition_detection`.

Stopping a stream changes nothing before the stop, so a replay tells exactly where a setting would have cut.
The setting is chosen on one half of the streams and reported on the other, so that its numbers are honest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from stresstest.threshold.proportion import clopper_pearson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST = 2_048
"""Longest pattern that is tried."""
LEAST = (1, 2, 4, 8, 16, 32, 64)
LARGEST = (4, 8, 16, 20, 32, 64, 128, 256, 512, 1_024, MOST)
COUNTS = (2, 3, 4, 6, 8, 16)
_NEARLY = 0.95
"""A setting with so much of the best one's savings is as good: of those, the most cautious one is chosen."""


@dataclass(frozen=True, slots=True)
class Setting:
    """vLLM's `repetition_detection`: stop at so many adjacent copies of a pattern of min..max tokens."""

    min_pattern_size: int
    max_pattern_size: int
    min_count: int

    @property
    def evidence(self) -> int:
        """Repeated tokens that it takes at least: the more, the less likely in healthy text."""
        return self.min_pattern_size * (self.min_count - 1)

    def body(self) -> dict[str, int]:
        """As the request body has it."""
        return {
            "max_pattern_size": self.max_pattern_size,
            "min_pattern_size": self.min_pattern_size,
            "min_count": self.min_count,
        }


@dataclass(frozen=True, slots=True)
class Stream:
    """One stored output. ids: its tokens. onset, alarm: 1-based, None where it is healthy. endless: only a
    cap or an abort of ours ended it, so that it might have gone on."""

    id: str
    ids: tuple[int, ...]
    onset: int | None = None
    alarm: int | None = None
    loops: bool = False
    endless: bool = False

    @property
    def length(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Share:
    """k of n with an exact 95 % interval."""

    k: int
    n: int
    lo: float
    hi: float


@dataclass(frozen=True, slots=True)
class Audit:
    """What a stopper did to some streams.

    caught: loops that it stopped; other: other degenerate streams that it stopped; stopped: healthy ones,
    that must be asked again. tokens: written without it; saved: not written any more after a stop in a
    degenerate stream; lost: written in vain in the healthy streams that it stopped; written: with it, in all.
    delivered: answers that are healthy and whole with it.
    """

    caught: Share
    other: Share
    stopped: Share
    tokens: int
    saved: int
    lost: int
    written: int
    delivered: int

    @property
    def tax(self) -> float:
        """Tokens for an answer that is delivered, when what is not is asked again; infinite for none."""
        return self.written / self.delivered if self.delivered else math.inf


@dataclass(frozen=True, slots=True)
class Chosen:
    """The best setting of one half of the streams, on the other half; None where no setting saves anything.

    detector: the online detector on that other half. It stops no healthy stream by definition here, as it is
    what says which are healthy. tried: settings. chosen_on, told_on: streams of either half.
    """

    setting: Setting | None
    audit: Audit | None
    detector: Audit
    usual: tuple[tuple[Setting, Audit], ...]
    tried: int
    chosen_on: int
    told_on: int


USUAL = (Setting(1, 20, 3), Setting(4, 128, 4), Setting(16, 2_048, 3))
"""Settings that are seen in the field, shown for contrast."""


def settings() -> list[Setting]:
    """Every candidate."""
    return [Setting(low, high, n) for low in LEAST for high in LARGEST if high >= low for n in COUNTS]


class Stops:
    """Where every candidate would stop one stream."""

    def __init__(self, ids: Sequence[int]) -> None:
        self._first = _first_stops(tuple(ids))

    def at(self, setting: Setting) -> int | None:
        """Tokens written when the setting stops it; None when it never does."""
        low, high = setting.min_pattern_size, setting.max_pattern_size
        found = self._first.get(setting.min_count, {})
        stops = [at for size, at in found.items() if low <= size <= high]
        return min(stops, default=None)


def audit(streams: Sequence[Stream], stops: Sequence[int | None]) -> Audit:
    """What stopping these streams there comes to. stops: tokens written by then, one a stream."""
    loops = [(s, at) for s, at in zip(streams, stops, strict=True) if s.loops]
    other = [(s, at) for s, at in zip(streams, stops, strict=True) if s.onset is not None and not s.loops]
    healthy = [(s, at) for s, at in zip(streams, stops, strict=True) if s.onset is None]
    saved = sum(s.length - at for s, at in (*loops, *other) if at is not None)
    return Audit(
        caught=_share([at for _, at in loops]),
        other=_share([at for _, at in other]),
        stopped=_share([at for _, at in healthy]),
        tokens=sum(s.length for s in streams),
        saved=saved,
        lost=sum(at for _, at in healthy if at is not None),
        written=sum(s.length if at is None else at for s, at in zip(streams, stops, strict=True)),
        delivered=sum(at is None and not s.endless for s, at in healthy),
    )


def choose(streams: Sequence[Stream]) -> Chosen:
    """Choose on the one half what makes a delivered answer cheapest, tell on the other how it does.

    ValueError with fewer than two streams.
    """
    if len(streams) < 2:
        raise ValueError("an audit needs two streams at least")
    one, other = halves(streams)
    known = {stream.id: Stops(stream.ids) for stream in streams}

    @cache
    def on(setting: Setting, first: bool) -> Audit:
        half = one if first else other
        return audit(half, [known[stream.id].at(setting) for stream in half])

    tried = settings()
    idle = audit(one, [None] * len(one)).tax
    least = min(on(setting, True).tax for setting in tried)
    worth = least < idle
    enough = idle - _NEARLY * (idle - least) if worth else least
    good = [setting for setting in tried if on(setting, True).tax <= enough]
    best = min(good, key=lambda s: (on(s, True).stopped.k, -s.evidence, s.max_pattern_size))
    return Chosen(
        setting=best if worth else None,
        audit=on(best, False) if worth else None,
        detector=audit(other, [stream.alarm for stream in other]),
        usual=tuple((setting, on(setting, False)) for setting in USUAL),
        tried=len(tried),
        chosen_on=len(one),
        told_on=len(other),
    )


def halves(streams: Sequence[Stream]) -> tuple[list[Stream], list[Stream]]:
    """Two halves with the same share of loops and of other failures: every second of each kind."""
    one: list[Stream] = []
    other: list[Stream] = []
    for kind in (0, 1, 2):
        for n, stream in enumerate(s for s in streams if _kind(s) == kind):
            (other if (n + kind) % 2 else one).append(stream)
    return one, other


def _kind(stream: Stream) -> int:
    return 2 if stream.loops else 1 if stream.onset is not None else 0


def _share(stops: Sequence[int | None]) -> Share:
    k, n = sum(at is not None for at in stops), len(stops)
    return Share(k, n, *clopper_pearson(k, n))


def _first_stops(ids: tuple[int, ...]) -> dict[int, dict[int, int]]:
    """min_count → pattern size → tokens written when so many adjacent copies first stand at the tail.

    The last c windows of p tokens are equal exactly when the p · (c - 1) latest tokens equal those p before
    them (see `simulation.engine.repetition`).
    """
    import numpy as np

    stream = np.asarray(ids)
    found: dict[int, dict[int, int]] = {count: {} for count in COUNTS}
    for size in range(1, min(MOST, len(ids) // 2) + 1):
        same = stream[size:] == stream[:-size]
        if int(np.count_nonzero(same)) < size:
            continue
        runs = _runs(same)
        for count in COUNTS:
            hits = runs >= size * (count - 1)
            if hits.any():
                found[count][size] = size + int(np.argmax(hits)) + 1
    return found


def _runs(same: NDArray[np.bool_]) -> NDArray[np.int_]:
    """How many true values in a row end at each place."""
    import numpy as np

    places = np.arange(1, len(same) + 1)
    return places - np.maximum.accumulate(np.where(same, 0, places))
