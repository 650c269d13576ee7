"""What a mitigation would have done: stored token streams replayed through vLLM's `repetition_detection`.

Stopping a stream changes nothing before the stop, so a replay tells exactly where a setting would have cut.
A stop before the onset of a failure cuts healthy text: it is a false stop, as one in a healthy stream is.
The setting is chosen on one half of the streams and reported on the other, so that its numbers are honest.
"""

from __future__ import annotations

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
TOLERATED = 0.10
"""Share of false stops that the sample must rule out (at 97.5 %) before a setting is called the best."""


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

    caught: loops that it stopped at their onset or after it; other: other degenerate streams, likewise.
    stopped: healthy streams that it stopped, that must be asked again; early: degenerate streams that it
    stopped before their onset, in healthy text. tokens: written without it; saved: not written any more after
    a stop at or after the onset; lost: written in vain in the healthy streams that it stopped.
    """

    caught: Share
    other: Share
    stopped: Share
    early: Share
    tokens: int
    saved: int
    lost: int

    @property
    def false_stops(self) -> int:
        """Streams in which it cut healthy text."""
        return self.stopped.k + self.early.k

    @property
    def most_false(self) -> float:
        """Upper end of the interval of false stops in healthy text. What was healthy only until its onset
        counts where it was cut, so that a short healthy beginning is no evidence of safety."""
        return clopper_pearson(self.false_stops, self.stopped.n + self.early.k)[1]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The best setting of one half of the streams, on the other half; None where no setting catches a loop
    there without cutting healthy text.

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

    @property
    def bounded(self) -> bool:
        """Whether the other half rules out more false stops than `TOLERATED`."""
        return self.audit is not None and self.audit.most_false <= TOLERATED


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
    caught: list[bool] = []
    other: list[bool] = []
    stopped: list[bool] = []
    early: list[bool] = []
    saved = lost = 0
    for stream, at in zip(streams, stops, strict=True):
        if stream.onset is None:
            stopped.append(at is not None)
            lost += at or 0
            continue
        hit = at is not None and at >= stream.onset
        (caught if stream.loops else other).append(hit)
        early.append(at is not None and not hit)
        saved += stream.length - at if at is not None and hit else 0
    return Audit(
        caught=_share(caught),
        other=_share(other),
        stopped=_share(stopped),
        early=_share(early),
        tokens=sum(stream.length for stream in streams),
        saved=saved,
        lost=lost,
    )


def choose(streams: Sequence[Stream]) -> Chosen:
    """Choose on the one half, tell on the other how it does: of the settings that catch a loop and never cut
    healthy text, those that save (nearly) the most tokens, and of them the most cautious.

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
    safe = [s for s in tried if not on(s, True).false_stops and on(s, True).caught.k and on(s, True).saved]
    enough = _NEARLY * max((on(setting, True).saved for setting in safe), default=0)
    good = [setting for setting in safe if on(setting, True).saved >= enough]
    best = min(good, key=lambda s: (-s.evidence, s.max_pattern_size), default=None)
    return Chosen(
        setting=best,
        audit=None if best is None else on(best, False),
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


def _share(hits: Sequence[bool]) -> Share:
    k, n = sum(hits), len(hits)
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
