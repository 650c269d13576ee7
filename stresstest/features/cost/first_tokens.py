"""First tokens that a log gives as a latency, or outside of their requests.

The field is meant for a time on the clock of the log. Many loggers keep the time to first token there
instead, which is a small number beside a start since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stresstest.model.cost import RequestSpan, came_at_once

_UNITS = {"seconds": 1.0, "milliseconds": 1e-3}
_SHORTEST = 1e-3
"""Seconds before which no server answers."""
_MOST = 0.9
"""Share of a log's latencies that lie within their requests if they are given in the right unit."""


def place_first_tokens(spans: tuple[RequestSpan, ...]) -> tuple[tuple[RequestSpan, ...], tuple[str, ...]]:
    """The spans with each first token between submission and end, or None, and notes on what was done.

    A first token nearer to 0 than to its submission is a latency: in seconds if nearly all latencies are
    plausible in seconds, otherwise in milliseconds if they are then. The unit is decided for the whole log,
    because milliseconds are plausible seconds in a long request. Other times outside are left out.
    """
    outside = [span for span in spans if not _is_inside(span)]
    if not outside:
        return spans, ()
    latencies = [span for span in outside if _is_latency(span)]
    unit = _unit_of(latencies)
    factor = _UNITS.get(unit or "")
    taken = 0 if factor is None else sum(_is_plausible(span, factor) for span in latencies)
    notes = []
    if taken:
        notes.append(
            f"The first tokens of {taken} requests are not times on the log's clock. They are taken for "
            f"{unit} after the start."
        )
    lost = len(outside) - taken
    if lost:
        notes.append(
            f"The first tokens of {lost} requests come before the start or after the end by the log. These "
            "times are left out."
        )
    return tuple(_placed(span, factor) for span in spans), tuple(notes)


def _is_inside(span: RequestSpan) -> bool:
    return span.first_token is None or span.submitted <= span.first_token <= span.end


def _is_latency(span: RequestSpan) -> bool:
    """Whether a first token before the start is a latency, rather than the time of a clock that is off."""
    return span.first_token is not None and 0.0 < span.first_token < span.submitted / 2


def _unit_of(latencies: Sequence[RequestSpan]) -> str | None:
    timed = [span for span in latencies if span.duration > 0]  # whole seconds hide short ones
    for unit, factor in _UNITS.items():
        if timed and sum(_is_plausible(span, factor) for span in timed) >= _MOST * len(timed):
            return unit
    return None


def _is_plausible(span: RequestSpan, factor: float) -> bool:
    return _SHORTEST <= factor * (span.first_token or 0.0) <= span.duration


def _placed(span: RequestSpan, factor: float | None) -> RequestSpan:
    """The span with its first token in time, and the onset of its loop between that and the end."""
    if _is_inside(span):
        return span
    if factor is None or not _is_latency(span) or not _is_plausible(span, factor):
        return replace(span, first_token=None)
    first = span.submitted + factor * (span.first_token or 0.0)
    if came_at_once(first, span.end, span.output_tokens):
        return replace(span, first_token=None)
    onset_at = span.onset_at
    if onset_at is not None:  # it was placed at a constant rate from the submission
        onset_at = first + (span.end - first) * (onset_at - span.submitted) / span.duration
    return replace(span, first_token=first, onset_at=onset_at)
