"""The request span of a recorded answer. Imports little, since every worker of `cost FILES` loads it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from stresstest.detectors.registry import is_repetition
from stresstest.features.cost.logged_twice import LoggedSpan
from stresstest.model.cost import LONGEST_CONTEXT, RequestSpan, came_at_once
from stresstest.model.finish_reason import LENGTH, LOST_REASONS, normalize_finish_reason
from stresstest.model.scanned import ScanVerdict
from stresstest.records import Record
from stresstest.records.record import LONG_ANSWER
from stresstest.scanning.wrong_language import drifts_from_given

_LONGEST_S = 86_400.0
"""Seconds that no request lasts: its start is of another kind, or of another day."""
IMPOSSIBLE_TIMES = "impossible times"
PARTS = {"no start time": "start", "no end time": "end", "no token count": "completion_tokens"}
"""What keeps an answer out of the account, and the name by which `--field` maps what is lacking."""


def record_span(record: Record, verdict: ScanVerdict) -> RequestSpan | None:
    """The span of one recorded answer; None without start, end or token count, or if it lasts over a day.

    A first token outside of the request stays as the log has it, for `place_first_tokens`.
    """
    extent = verdict.tokens
    length = _length(record, verdict)
    if lacking_parts(record, verdict) or record.start is None or record.end is None or length is None:
        return None
    end = normalize_finish_reason(record.finish_reason)
    capped = verdict.capped if record.has_text else end == LENGTH
    onset = extent.onset if extent is not None else None
    seen = record.has_text and not verdict.unseen
    return RequestSpan(
        id=record.id,
        submitted=record.start,
        end=record.end,
        output_tokens=length,
        first_token=_streamed_from(record, length),
        prompt_tokens=record.prompt_tokens,
        max_tokens=record.max_tokens,
        degenerate=verdict.degenerate if seen or verdict.degenerate else None,
        loops=is_repetition(verdict.symptom) or verdict.loops_to_end,
        onset=min(onset, length) if onset is not None and length else None,
        onset_at=None if onset is None else _token_time(record, onset, length),
        dharma=verdict.ended_looping,
        capped=bool(capped),
        cluster=record.prompt_key or (f"{record.row_key:x}" if record.row_key else ""),
        failure=f"the service ended it ({end})" if end in LOST_REASONS else None,
    )


def lacking_parts(record: Record, verdict: ScanVerdict) -> tuple[str, ...]:
    """What a recorded answer lacks of the `PARTS` of a request; empty where it has all."""
    found = (record.start, record.end, _length(record, verdict))
    lacking = tuple(name for name, value in zip(PARTS, found, strict=False) if value is None)
    if record.start is None or record.end is None or 0.0 <= record.end - record.start <= _LONGEST_S:
        return lacking
    return (*lacking, IMPOSSIBLE_TIMES)


def _length(record: Record, verdict: ScanVerdict) -> int | None:
    if record.completion_tokens is None and verdict.tokens is not None:
        return verdict.tokens.length
    return record.completion_tokens


def _streamed_from(record: Record, length: int) -> float | None:
    """When its first token came. Where nothing was streamed, LiteLLM writes the end there."""
    first = record.first_token
    if first is None or not _is_inside(record, first):
        return first
    assert record.end is not None
    return None if came_at_once(first, record.end, length) else first


def _is_inside(record: Record, at: float) -> bool:
    assert record.start is not None
    assert record.end is not None
    return record.start <= at <= record.end


def _token_time(record: Record, token: int, length: int) -> float:
    """Arrival time of a token, assuming a constant rate from the first token (or the start) to the end."""
    assert record.start is not None
    assert record.end is not None
    streamed = _streamed_from(record, length)
    first = record.start if streamed is None or not _is_inside(record, streamed) else streamed
    return first + (record.end - first) * min(1.0, token / max(length, 1))


@dataclass(frozen=True, slots=True)
class Lacking:
    """An answer without some of what the account needs. parts: of `PARTS`, or `IMPOSSIBLE_TIMES`."""

    parts: tuple[str, ...]


class LeftOut(Enum):
    """Why an answer has no place in the account."""

    CACHED = auto()
    MISCOUNTED = auto()


def named_span(
    record: Record, verdict: ScanVerdict
) -> tuple[LoggedSpan, object, str | None, bool] | LeftOut | Lacking:
    """The span of one recorded answer, what only the lines of one request share (all of it and the text; its
    id too where the times are in whole seconds, in which two requests may agree), its model, and whether it
    drifts from a language that was given.

    Answers that came out of a cache took nothing of the server. An answer longer than any context is none.
    """
    span = record_span(record, verdict)
    if span is None:
        return Lacking(lacking_parts(record, verdict))
    if span.output_tokens > LONGEST_CONTEXT:
        return LeftOut.MISCOUNTED
    exact = span.submitted % 1 or span.end % 1
    latest = span.end if exact else span.end + 1.0  # the end may have been cut to whole seconds
    if record.cached or came_at_once(span.submitted, latest, span.output_tokens):
        return LeftOut.CACHED
    text = verdict.digest if len(record.text) >= LONG_ANSWER or verdict.request else 0
    logged = LoggedSpan(span, text, record.source, record.trace, record.writer)
    name = (replace(span, id="") if exact else span, verdict.digest)
    return logged, name, record.model, drifts_from_given(verdict)
