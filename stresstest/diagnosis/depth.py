"""One generation in depth: what the text did, token by token, and what the server did meanwhile. Pure.

Everything is cut into the same bins of tokens, so that text and server stand on one axis.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from stresstest.detectors.function_words import LISTED, count
from stresstest.detectors.langid import normalised
from stresstest.diagnosis.gpu_series import HOLD, GpuSeries
from stresstest.model import Generation, ServerSample, Token

BINS = 240
_GRAM = 4
_SPAN = 64
"""Tokens of the window in which repetition is counted."""
_SMOOTH = 24
_PASSAGE = 480
"""Characters behind each bin that its language is told by."""
_FEWEST_WORDS = 3
_STALE = 5.0
"""Seconds after which a reading of /metrics says nothing any more."""

Series = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Depth:
    """Series over the same bins. A series is empty where nothing of it was measured.

    ends: last token of each bin, 1-based. entropy: nats, mean over the last tokens. repetition: 0-1, share
    of the last 64 tokens that close four tokens seen before. language: 0-1, share of the telling function
    words that are the wanted language's. latency: milliseconds a token. kv, gpu: 0-1 when the bin's last
    token arrived.
    """

    ends: tuple[int, ...]
    entropy: Series = ()
    repetition: Series = ()
    language: Series = ()
    latency: Series = ()
    kv: Series = ()
    gpu: Series = ()


def depth(
    generation: Generation, samples: Sequence[ServerSample], gpus: GpuSeries, language: str, bins: int = BINS
) -> Depth:
    """The series of a generation. samples: the run's, in the order of time. O(tokens + readings)."""
    tokens = generation.tokens
    width = max(1, -(-len(tokens) // bins))
    ends = [*range(width, len(tokens), width), *([len(tokens)] if tokens else [])]
    return Depth(
        ends=tuple(ends),
        entropy=_known(_entropy(tokens, ends, max(width, _SMOOTH))),
        repetition=_known(_at(repetition(tokens), ends)),
        language=_known(_language(tokens, ends, normalised(language))),
        latency=_known(_latency(generation, ends)),
        kv=_known(_kv(tokens, ends, samples)),
        gpu=_known(_gpu(tokens, ends, gpus)),
    )


def repetition(tokens: Sequence[Token]) -> list[float]:
    """At each token: the share of the last 64 that close a run of four tokens seen before in the output."""
    seen: set[tuple[int | str, ...]] = set()
    window: deque[bool] = deque()
    gram: deque[int | str] = deque(maxlen=_GRAM)
    again, found = 0, []
    for token in tokens:
        gram.append(token.text if token.id is None else token.id)
        key = tuple(gram)
        repeated = len(key) == _GRAM and key in seen
        seen.add(key)
        window.append(repeated)
        again += repeated
        if len(window) > _SPAN:
            again -= window.popleft()
        found.append(again / len(window))
    return found


def _known(series: Series) -> Series:
    return series if any(value is not None for value in series) else ()


def _at(values: Sequence[float], ends: Sequence[int]) -> Series:
    return tuple(values[end - 1] for end in ends)


def _entropy(tokens: Sequence[Token], ends: Sequence[int], span: int) -> Series:
    def mean(end: int) -> float | None:
        known = [t.entropy for t in tokens[max(0, end - span) : end] if t.entropy is not None]
        return sum(known) / len(known) if known else None

    return tuple(mean(end) for end in ends)


def _language(tokens: Sequence[Token], ends: Sequence[int], wanted: str) -> Series:
    if wanted not in LISTED:
        return ()
    found: list[float | None] = []
    passage, begin = "", 0
    for end in ends:
        passage = (passage + "".join(t.text for t in tokens[begin:end] if not t.reasoning))[-_PASSAGE:]
        begin = end
        counted = count(passage)
        own = counted.uses.get(wanted, 0)
        foreign = sum(counted.only.values()) - counted.only.get(wanted, 0)
        found.append(own / (own + foreign) if own + foreign >= _FEWEST_WORDS else None)
    return tuple(found)


def _latency(generation: Generation, ends: Sequence[int]) -> Series:
    tokens = generation.tokens
    found: list[float | None] = []
    begin = 1  # the first token waits for the prompt to be read; it is no latency of a token
    for end in ends:
        if end - begin < 1 or tokens[begin - 1].arrived <= 0.0:
            found.append(None)
        else:
            seconds = tokens[end - 1].arrived - tokens[begin - 1].arrived
            found.append(1000.0 * max(0.0, seconds) / (end - begin))
        begin = max(begin, end)
    return tuple(found)


def _kv(tokens: Sequence[Token], ends: Sequence[int], samples: Sequence[ServerSample]) -> Series:
    known = [(s.at, s.kv_usage) for s in samples if s.kv_usage is not None]
    return _latest(tokens, ends, known, _STALE)


def _gpu(tokens: Sequence[Token], ends: Sequence[int], gpus: GpuSeries) -> Series:
    each = [
        _latest(tokens, ends, [(r.at, r.utilisation) for r in readings if r.utilisation is not None], HOLD)
        for readings in gpus.gpus.values()
    ]
    return tuple(_mean([series[i] for series in each]) for i in range(len(ends)))


def _latest(
    tokens: Sequence[Token], ends: Sequence[int], known: Sequence[tuple[float, float]], hold: float
) -> Series:
    """The newest reading when each bin's last token arrived; None where it is older than `hold` seconds."""
    times = [at for at, _ in known]

    def value(arrived: float) -> float | None:
        place = bisect_right(times, arrived) - 1
        return known[place][1] if place >= 0 and arrived - times[place] <= hold else None

    return tuple(value(tokens[end - 1].arrived) for end in ends)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
