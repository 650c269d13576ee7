"""Series over the tokens of one generation: measures of its text, and the server's state meanwhile. Pure.

All series use the same bins of tokens, so that they share one axis.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from stresstest.detectors.languages.catalog import normalize_language
from stresstest.detectors.languages.function_words import count_function_words, covered_languages
from stresstest.diagnosis.evidence.gpu_series import MAX_READING_AGE_S, GpuSeries
from stresstest.model import Generation, ServerSample, Token

DEPTH_BINS = 240
_GRAM = 4
_SPAN = 64
"""Window for the share of repetition, in tokens."""
_SMOOTH = 24
_PASSAGE_CHARS = 480
"""Characters up to the end of each bin that its language is identified from."""
_FEWEST_WORDS = 3
_STALE = 5.0
"""Maximum age of a reading of /metrics, in seconds."""

Series = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class DepthSeries:
    """Series over the same bins. A series is empty if none of its values was measured.

    ends: last token of each bin, 1-based. entropy: nats, mean over the last tokens. repetition: 0-1, share of
    the last 64 tokens that complete a 4-gram seen before. language: 0-1, share of the distinctive function
    words that belong to the expected language. latency: milliseconds per token. kv, gpu: 0-1, when the bin's
    last token arrived.
    """

    ends: tuple[int, ...]
    entropy: Series = ()
    repetition: Series = ()
    language: Series = ()
    latency: Series = ()
    kv: Series = ()
    gpu: Series = ()


def depth_series(
    generation: Generation,
    samples: Sequence[ServerSample],
    gpus: GpuSeries,
    language: str,
    bins: int = DEPTH_BINS,
) -> DepthSeries:
    """The series of a generation. samples: of the whole run, in order of time. O(tokens + readings)."""
    tokens = generation.tokens
    width = max(1, -(-len(tokens) // bins))
    ends = [*range(width, len(tokens), width), *([len(tokens)] if tokens else [])]
    repeated = repetition_share(tokens)
    kv = [(s.at, s.kv_usage) for s in samples if s.kv_usage is not None]
    return DepthSeries(
        ends=tuple(ends),
        entropy=_has_values(_entropy(tokens, ends, max(width, _SMOOTH))),
        repetition=tuple(repeated[end - 1] for end in ends),
        language=_has_values(_language(tokens, ends, normalize_language(language))),
        latency=_has_values(_latency(generation, ends)),
        kv=_has_values(_latest(tokens, ends, kv, _STALE)),
        gpu=_has_values(_gpu(tokens, ends, gpus)),
    )


def repetition_share(tokens: Sequence[Token]) -> list[float]:
    """At each token, the share (0-1) of the last 64 tokens that complete a 4-gram seen before."""
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


def _has_values(series: Series) -> Series:
    return series if any(value is not None for value in series) else ()


def _entropy(tokens: Sequence[Token], ends: Sequence[int], span: int) -> Series:
    def mean(end: int) -> float | None:
        known = [t.entropy for t in tokens[max(0, end - span) : end] if t.entropy is not None]
        return sum(known) / len(known) if known else None

    return tuple(mean(end) for end in ends)


def _language(tokens: Sequence[Token], ends: Sequence[int], wanted: str) -> Series:
    if wanted not in covered_languages():
        return ()
    found: list[float | None] = []
    passage, begin = "", 0
    for end in ends:
        passage = (passage + "".join(t.text for t in tokens[begin:end] if not t.reasoning))[-_PASSAGE_CHARS:]
        begin = end
        counted = count_function_words(passage)
        own = counted.uses.get(wanted, 0)
        foreign = sum(counted.exclusive.values()) - counted.exclusive.get(wanted, 0)
        found.append(own / (own + foreign) if own + foreign >= _FEWEST_WORDS else None)
    return tuple(found)


def _latency(generation: Generation, ends: Sequence[int]) -> Series:
    tokens = generation.tokens
    found: list[float | None] = []
    begin = 1  # the first token also waits for prefill, which is no latency per token
    for end in ends:
        if end - begin < 1 or tokens[begin - 1].arrived <= 0.0:
            found.append(None)
        else:
            seconds = tokens[end - 1].arrived - tokens[begin - 1].arrived
            found.append(1000.0 * max(0.0, seconds) / (end - begin))
        begin = max(begin, end)
    return tuple(found)


def _gpu(tokens: Sequence[Token], ends: Sequence[int], gpus: GpuSeries) -> Series:
    each = [
        _latest(
            tokens,
            ends,
            [(r.at, r.utilisation) for r in readings if r.utilisation is not None],
            MAX_READING_AGE_S,
        )
        for readings in gpus.gpus.values()
    ]
    return tuple(_mean([series[i] for series in each]) for i in range(len(ends)))


def _latest(
    tokens: Sequence[Token], ends: Sequence[int], known: Sequence[tuple[float, float]], hold: float
) -> Series:
    """The latest reading when each bin's last token arrived; None if it is older than `hold` seconds."""
    times = [at for at, _ in known]

    def value(arrived: float) -> float | None:
        place = bisect_right(times, arrived) - 1
        return known[place][1] if place >= 0 and arrived - times[place] <= hold else None

    return tuple(value(tokens[end - 1].arrived) for end in ends)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
