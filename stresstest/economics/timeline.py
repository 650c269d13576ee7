"""Divides a batch into intervals with constant running requests, and interpolates tokens in time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from stresstest.detectors.registry import is_repetition
from stresstest.model import Generation
from stresstest.model.cost import CostArm, RequestSpan, came_at_once

MIN_CUTS = 200
"""Minimum number of intervals; a batch is also divided wherever a request starts or ends."""


@dataclass(frozen=True, slots=True)
class BatchInterval:
    """An interval of a batch (seconds) during which no request starts or ends.

    running: spans in the engine, as far as known; looping: those of them past the onset of a loop. arriving:
    some request still waits for its first token, so the engine may be prefilling.
    """

    start: float
    end: float
    running: tuple[RequestSpan, ...]
    looping: tuple[RequestSpan, ...]
    arriving: bool = False

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def middle(self) -> float:
        return (self.start + self.end) / 2


def group_spans_by_batch(spans: Iterable[RequestSpan]) -> dict[str, list[RequestSpan]]:
    """Spans by batch label, in order of first appearance."""
    found: dict[str, list[RequestSpan]] = {}
    for span in spans:
        found.setdefault(span.batch, []).append(span)
    return found


def wall_clock(spans: Sequence[RequestSpan]) -> float:
    """Seconds from the first submission to the last end. Raises ValueError without spans."""
    if not spans:
        raise ValueError("a batch without requests has no wall clock")
    return max(s.end for s in spans) - min(s.submitted for s in spans)


def start_time(span: RequestSpan) -> float:
    """When the engine scheduled a request: its start if known, else its first token, else its submission."""
    if span.start is not None:
        return span.start
    return span.submitted if span.first_token is None else span.first_token


def loop_interval(span: RequestSpan) -> tuple[float, float] | None:
    """(onset, end) of a loop in seconds; None without a loop or without a known time of its onset."""
    if not (span.loops or span.planted) or span.onset_at is None or span.onset_at >= span.end:
        return None
    return span.onset_at, span.end


def batch_intervals(spans: Sequence[RequestSpan]) -> list[BatchInterval]:
    """The intervals of one batch in order, without those in which no request is running."""
    if not spans:
        return []
    first, last = min(s.submitted for s in spans), max(s.end for s in spans)
    cuts = {first, last}
    loops = {id(s): loop_interval(s) for s in spans}
    waits = [(s.submitted, s.first_token) for s in spans if s.first_token is not None]
    waits = [(sent, first) for sent, first in waits if first > sent]
    sent, answered = sorted(at for at, _ in waits), sorted(at for _, at in waits)
    for span in spans:
        cuts |= {start_time(span), span.end, span.submitted}
        interval = loops[id(span)]
        if interval is not None:
            cuts.add(interval[0])
    step = (last - first) / MIN_CUTS
    cuts |= {first + i * step for i in range(1, MIN_CUTS)}
    edges = sorted(cuts)
    waiting = sorted(spans, key=start_time, reverse=True)
    running: list[RequestSpan] = []
    found: list[BatchInterval] = []
    for start, end in pairwise(edges):
        while waiting and start_time(waiting[-1]) <= start:
            running.append(waiting.pop())
        running = [s for s in running if s.end > start]
        if running and end > start:
            looping = tuple(s for s in running if (loop := loops[id(s)]) is not None and loop[0] <= start)
            arriving = bisect_right(sent, start) > bisect_right(answered, start)
            found.append(BatchInterval(start, end, tuple(running), looping, arriving))
    return found


def output_tokens_at(span: RequestSpan, at: float) -> float:
    """Output tokens generated until a time, interpolated between marks, or between start and end."""
    marks = span.marks
    if not marks:
        begin = start_time(span)
        if at <= begin:
            return 0.0
        whole = span.end - begin
        return float(span.output_tokens) if at >= span.end else span.output_tokens * (at - begin) / whole
    index = bisect_right(marks, at, key=lambda mark: mark[1])
    if index == 0:
        return 0.0
    tokens, when = marks[index - 1]
    if index == len(marks):
        return float(tokens)
    further, later = marks[index]
    return tokens + (further - tokens) * (at - when) / (later - when)


def kv_tokens_at(span: RequestSpan, at: float) -> float:
    """Tokens that a request holds in the KV cache: its prompt and its output so far."""
    return (span.prompt_tokens or 0) + output_tokens_at(span, at)


MARK_INTERVAL = 8
"""One mark is kept per this many tokens."""
TAIL, COPIES = 15, 4
_HELD_BACK = 0.9
"""Share of an answer's time after which nothing but all of it came."""


def generation_span(
    generation: Generation, *, batch: str, arm: CostArm, pair: int, planted_at: int | None = None
) -> RequestSpan:
    """The span of one generation of a measured batch.

    planted_at: the healthy length beyond which a stand-in for a loop continues; None for a natural request.
    The onset of a stand-in is the first token after that length, or an earlier detected onset.
    """
    verdict = generation.verdict
    tokens = generation.tokens
    onset = verdict.onset
    if planted_at is not None and generation.output_tokens > planted_at:
        onset = min(planted_at + 1, onset or planted_at + 1)
    first = generation.first_token
    if first is not None and _was_held_back(generation, first):
        first = None  # nobody saw when its tokens came
    capped = generation.finish_reason == "length"
    failure = generation.failure
    whole = failure is None and not generation.unseen_tokens
    return RequestSpan(
        id=f"{generation.job.index}",
        submitted=generation.started,
        first_token=first,
        end=generation.ended,
        output_tokens=generation.output_tokens,
        prompt_tokens=generation.prompt_tokens,
        max_tokens=generation.job.max_tokens,
        degenerate=verdict.degenerate if whole or onset is not None else None,
        loops=is_repetition(verdict.symptom) or verdict.loops_to_end,
        onset=onset,
        onset_at=_at(generation, onset, streamed=first is not None),
        dharma=capped and has_repeated_tail(generation.text) if whole else None,
        capped=capped,
        planted=planted_at is not None,
        failure=None if failure is None else failure.message,
        batch=batch,
        arm=arm,
        pair=pair,
        cluster=generation.prompt_id,
        marks=tuple(
            (i, token.arrived)
            for i, token in enumerate(tokens, 1)
            if first is not None and (i == 1 or i == len(tokens) or i % MARK_INTERVAL == 0)
        ),
    )


def has_repeated_tail(text: str) -> bool:
    """The source's rule on text: its last fifteen characters occur four times or more."""
    return len(text) >= TAIL and text.count(text[-TAIL:]) >= COPIES


def _was_held_back(generation: Generation, first: float) -> bool:
    """Whether a proxy gave the whole answer at its end. A simulator may stream as quickly, not so late."""
    waited, whole = first - generation.started, generation.ended - generation.started
    at_once = came_at_once(first, generation.ended, len(generation.tokens))
    return at_once and waited >= _HELD_BACK * whole


def _at(generation: Generation, token: int | None, *, streamed: bool) -> float | None:
    """When a token was written: as it arrived, or at a constant rate where all arrived at once."""
    if token is None or not 1 <= token <= len(generation.tokens):
        return None
    if not streamed:
        return generation.started + (generation.ended - generation.started) * token / len(generation.tokens)
    return generation.tokens[token - 1].arrived
