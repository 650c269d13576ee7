"""Answers out of a cache in front of the server: no new draw of the model, and no time of the server."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from stresstest.model import GenerationRecord
from stresstest.model.answer_ids import is_unique_id
from stresstest.model.server import ServerClock

MOST_DELAY_S = 600.0
"""Seconds that a request may wait before the server dates its answer. What is older was there before."""
_MOST_SKEW_S = 10.0
"""Seconds by which the clocks of a service's servers may differ."""


def replays(
    answers: Iterable[GenerationRecord], earlier: Iterable[GenerationRecord]
) -> list[GenerationRecord]:
    """Those of the answers that are an earlier one again, to its id and text. Where ids are few, or a stream
    was aborted, of whose text only a part is known, to its time as well: some caches write a new one.

    None where every answer has the same id: such a server has none.
    """
    known: dict[str, list[GenerationRecord]] = {}
    for each in earlier:
        if each.answer_id is not None and not each.token_summary.textless:
            known.setdefault(each.answer_id, []).append(each)
    if len(known) < 2:
        return []
    return [
        each
        for each in answers
        if each.answer_id is not None
        and any(_is_same(each, first) for first in known.get(each.answer_id, ()))
    ]


def _is_same(answer: GenerationRecord, first: GenerationRecord) -> bool:
    at_once = answer.created == first.created
    if answer.aborted or first.aborted:
        return at_once
    same = answer.token_summary.digest == first.token_summary.digest
    return same and (at_once or is_unique_id(first.answer_id or ""))


def dated_before(answers: Collection[GenerationRecord], clock: ServerClock | None = None) -> int:
    """How many of the answers the server made before they were asked, by its own clock.

    clock: the server's; without it, answers are compared with the latest of them: some may be old, not all.
    What was made before the fresh answer is old. A time that most requests share over a long time is no time
    of the answers (some servers give that of their own start), and nothing else is known then.
    """
    asked: dict[int, list[float]] = {}
    for each in answers:
        if each.created is not None:
            asked.setdefault(each.created, []).append(each.started)
    allowed = MOST_DELAY_S if clock is None else _MOST_SKEW_S
    shared = sum(len(times) for times in asked.values() if max(times) - min(times) > allowed)
    offsets = [created - started for created, times in asked.items() for started in times]
    is_clock = len(asked) > 1 and 2 * shared <= len(offsets)
    if clock is None:
        return sum(offset < max(offsets) - allowed for offset in offsets) if is_clock else 0
    return sum(
        created < clock.created - allowed or (is_clock and created - started < clock.ahead - allowed)
        for created, times in asked.items()
        for started in times
    )


def old_answers_reason(answers: Collection[GenerationRecord], clock: ServerClock | None) -> str | None:
    """Why a sample with answers that are older than their requests certifies nothing; None without any."""
    old = dated_before(answers, clock)
    if not old:
        return None
    return (
        f"{old} of {len(answers)} answers were made before they were asked, by the server's own clock: a "
        "cache in front of the server gave them, perhaps of another model (or a clock was set between two "
        "sessions). Ask the server itself"
    )
