"""Evaluates vLLM's `repetition_detection` on stored token streams.

Stopping a stream changes nothing before the stop, so a replay shows exactly where a setting would have
stopped. A stop before the onset of a failure cuts healthy text; like a stop in a healthy stream, it counts as
a false stop. The setting is chosen on one half of the prompts and evaluated on the other, so that its numbers
are unbiased. Outputs of one prompt are a cluster in the intervals (`statistics.certify.effective_size`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from stresstest.statistics.certify import clustered_interval, effective_size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_PATTERN_SIZE = 2_048
"""Longest pattern considered, in tokens."""
MIN_PATTERN_SIZES = (1, 2, 4, 8, 16, 32, 64)
MAX_PATTERN_SIZES = (4, 8, 16, 20, 32, 64, 128, 256, 512, 1_024, MAX_PATTERN_SIZE)
MIN_COUNTS = (2, 3, 4, 6, 8, 16)
_NEAR_BEST_SHARE = 0.95
"""Settings with at least this share of the best savings count as equal; the most cautious one is chosen."""
MAX_FALSE_STOP_RATE = 0.10
"""Share of false stops that the sample must rule out (at 97.5 %) for a setting to be recommended."""


@dataclass(frozen=True, slots=True)
class RepetitionSetting:
    """vLLM's `repetition_detection`: stop at `min_count` adjacent copies of a pattern of
    `min_pattern_size` to `max_pattern_size` tokens."""

    min_pattern_size: int
    max_pattern_size: int
    min_count: int

    @property
    def evidence(self) -> int:
        """Minimum number of repeated tokens: the more, the less likely in healthy text."""
        return self.min_pattern_size * (self.min_count - 1)

    def to_body(self) -> dict[str, int]:
        """The setting as JSON for the request body."""
        return {
            "max_pattern_size": self.max_pattern_size,
            "min_pattern_size": self.min_pattern_size,
            "min_count": self.min_count,
        }


@dataclass(frozen=True, slots=True)
class TokenStream:
    """One stored output. ids: its tokens. onset, alarm: 1-based tokens, None if healthy. endless: only a cap
    or an abort by the client ended it. prompt: what outputs of one prompt share; empty where it is not known:
    then the output is the only one of its prompt."""

    id: str
    ids: Sequence[int]
    onset: int | None = None
    alarm: int | None = None
    loops: bool = False
    endless: bool = False
    prompt: str = ""

    @property
    def length(self) -> int:
        return len(self.ids)

    @property
    def cluster(self) -> tuple[str, str]:
        """The name of its prompt, or its own."""
        return ("prompt", self.prompt) if self.prompt else ("output", self.id)


@dataclass(frozen=True, slots=True)
class BinomialShare:
    """k of n with a Clopper-Pearson 95 % interval at the effective size of its clusters: exact where every
    output has a prompt of its own."""

    k: int
    n: int
    lo: float
    hi: float


@dataclass(frozen=True, slots=True)
class MitigationAudit:
    """The effect of a stopping rule on a set of streams.

    caught: loops stopped at or after their onset; other: the same for other degenerate streams. stopped:
    healthy streams that were stopped; early: degenerate streams stopped before their onset, in healthy text.
    tokens: generated without the rule; saved: not generated because of a stop at or after the onset; lost:
    generated in vain, in healthy streams that were stopped. false: streams stopped in healthy text, of all in
    which that is known: a degenerate stream counts only if it was stopped before its onset, so that short
    healthy beginnings are no evidence of safety.
    """

    caught: BinomialShare
    other: BinomialShare
    stopped: BinomialShare
    early: BinomialShare
    false: BinomialShare
    tokens: int
    saved: int
    lost: int

    @property
    def false_stops(self) -> int:
        """Number of streams stopped in healthy text."""
        return self.false.k

    @property
    def most_false(self) -> float:
        """Upper end of the 95 % interval of the false stop rate."""
        return self.false.hi


@dataclass(frozen=True, slots=True)
class ChosenSetting:
    """The best setting on one half of the streams, evaluated on the other half.

    setting, audit: None if no setting catches a loop without stopping healthy text. detector: the online
    detector on the other half; it cannot stop a healthy stream, because it defines which streams are healthy.
    usual: `COMMON_SETTINGS` on the other half. tried: number of settings. chosen_on, told_on: streams in the
    first and in the other half.
    """

    setting: RepetitionSetting | None
    audit: MitigationAudit | None
    detector: MitigationAudit
    usual: tuple[tuple[RepetitionSetting, MitigationAudit], ...]
    tried: int
    chosen_on: int
    told_on: int

    @property
    def bounded(self) -> bool:
        """Whether the other half rules out a false stop rate above `MAX_FALSE_STOP_RATE`."""
        return self.audit is not None and self.audit.most_false <= MAX_FALSE_STOP_RATE


COMMON_SETTINGS = (RepetitionSetting(1, 20, 3), RepetitionSetting(4, 128, 4), RepetitionSetting(16, 2_048, 3))
"""Settings used in practice, shown for comparison."""


def candidate_settings() -> list[RepetitionSetting]:
    """All settings that are tried."""
    return [
        RepetitionSetting(low, high, n)
        for low in MIN_PATTERN_SIZES
        for high in MAX_PATTERN_SIZES
        if high >= low
        for n in MIN_COUNTS
    ]


class StopPositions:
    """The positions at which the candidate settings would stop one stream."""

    def __init__(self, ids: Sequence[int]) -> None:
        self._first = _first_stops(ids)

    def stop_at(self, setting: RepetitionSetting) -> int | None:
        """Number of tokens generated when the setting stops the stream; None if it does not."""
        sizes, stops = self._first[setting.min_count]
        low, high = sizes.searchsorted((setting.min_pattern_size, setting.max_pattern_size + 1))
        return int(stops[low:high].min()) if low < high else None


def audit_stops(streams: Sequence[TokenStream], stops: Sequence[int | None]) -> MitigationAudit:
    """The effect of stopping these streams. stops: tokens generated until the stop, one per stream."""
    caught: list[_Hit] = []
    other: list[_Hit] = []
    stopped: list[_Hit] = []
    early: list[_Hit] = []
    saved = lost = 0
    for stream, at in zip(streams, stops, strict=True):
        if stream.onset is None:
            stopped.append((stream.cluster, at is not None))
            lost += at or 0
            continue
        hit = at is not None and at >= stream.onset
        (caught if stream.loops else other).append((stream.cluster, hit))
        early.append((stream.cluster, at is not None and not hit))
        saved += stream.length - at if at is not None and hit else 0
    return MitigationAudit(
        caught=_share(caught),
        other=_share(other),
        stopped=_share(stopped),
        early=_share(early),
        false=_share(stopped + [each for each in early if each[1]]),
        tokens=sum(stream.length for stream in streams),
        saved=saved,
        lost=lost,
    )


def choose_setting(streams: Sequence[TokenStream]) -> ChosenSetting:
    """Choose a setting on one half of the prompts and evaluate it on the other.

    Among the settings that catch a loop and never stop healthy text, those that save (nearly) the most tokens
    are kept, and the most cautious of these is chosen. Raises ValueError with fewer than two streams.
    """
    if len(streams) < 2:
        raise ValueError("an audit needs two streams at least")
    one, other = split_halves(streams)
    known = {stream.id: StopPositions(stream.ids) for stream in streams}

    @cache
    def on(setting: RepetitionSetting, first: bool) -> MitigationAudit:
        half = one if first else other
        return audit_stops(half, [known[stream.id].stop_at(setting) for stream in half])

    tried = candidate_settings()
    safe = [s for s in tried if not on(s, True).false_stops and on(s, True).caught.k and on(s, True).saved]
    enough = _NEAR_BEST_SHARE * max((on(setting, True).saved for setting in safe), default=0)
    good = [setting for setting in safe if on(setting, True).saved >= enough]
    best = min(good, key=lambda s: (-s.evidence, s.max_pattern_size), default=None)
    return ChosenSetting(
        setting=best,
        audit=None if best is None else on(best, False),
        detector=audit_stops(other, [stream.alarm for stream in other]),
        usual=tuple((setting, on(setting, False)) for setting in COMMON_SETTINGS),
        tried=len(tried),
        chosen_on=len(one),
        told_on=len(other),
    )


def split_halves(streams: Sequence[TokenStream]) -> tuple[list[TokenStream], list[TokenStream]]:
    """Two halves without a common prompt, with about equal shares of loops and of other failures.

    Outputs of one prompt are alike: with some of them in each half, the half that reports would be the half
    that chose. A prompt goes, with all of its outputs, where there are fewer of its worst kind.
    """
    prompts: dict[tuple[str, str], list[TokenStream]] = {}
    for stream in streams:
        prompts.setdefault(stream.cluster, []).append(stream)
    halves: tuple[list[TokenStream], list[TokenStream]] = [], []
    for kind in (2, 1, 0):
        sizes = [sum(_kind(stream) == kind for stream in half) for half in halves]
        for outputs in prompts.values():
            if max(map(_kind, outputs)) == kind:
                to = kind % 2 if sizes[0] == sizes[1] else sizes.index(min(sizes))
                halves[to].extend(outputs)
                sizes[to] += sum(_kind(stream) == kind for stream in outputs)
    return halves


def _kind(stream: TokenStream) -> int:
    return 2 if stream.loops else 1 if stream.onset is not None else 0


_Hit = tuple[tuple[str, str], bool]
"""The prompt of a stream, and whether the stream counts."""


def _share(hits: Iterable[_Hit]) -> BinomialShare:
    prompts: dict[tuple[str, str], tuple[int, int]] = {}
    for name, hit in hits:
        k, n = prompts.get(name, (0, 0))
        prompts[name] = k + hit, n + 1
    size, n = effective_size(prompts.values())
    k = sum(k for k, _ in prompts.values())
    return BinomialShare(k, n, *clustered_interval(k, n, size / n if n else 1.0))


def _first_stops(ids: Sequence[int]) -> dict[int, tuple[NDArray[np.int32], NDArray[np.int32]]]:
    """min_count → pattern sizes, in order, and the tokens generated when the tail first consists of that many
    adjacent copies of such a pattern.

    The last c windows of p tokens are equal exactly if each of the last p · (c - 1) tokens equals the token p
    positions before it (see `simulation.engine.stopping`).
    """
    import numpy as np

    stream = np.asarray(ids)
    found: dict[int, list[tuple[int, int]]] = {count: [] for count in MIN_COUNTS}
    for size in range(1, min(MAX_PATTERN_SIZE, len(ids) // 2) + 1):
        same = stream[size:] == stream[:-size]
        if int(np.count_nonzero(same)) < size:
            continue
        runs = _runs(same)
        for count in MIN_COUNTS:
            hits = runs >= size * (count - 1)
            if hits.any():
                found[count].append((size, size + int(np.argmax(hits)) + 1))
    pairs = {count: np.array(each, np.int32).reshape(-1, 2) for count, each in found.items()}
    return {count: (each[:, 0], each[:, 1]) for count, each in pairs.items()}


def _runs(same: NDArray[np.bool_]) -> NDArray[np.int_]:
    """Length of the run of true values that ends at each position."""
    import numpy as np

    places = np.arange(1, len(same) + 1)
    return places - np.maximum.accumulate(np.where(same, 0, places))
