"""Answers out of a cache in front of the server: no new draw of the model, and no time of the server."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from stresstest.model import GenerationRecord

MOST_DELAY_S = 600.0
"""Seconds that a request may wait before the server dates its answer. What is older was there before."""


def replays(
    answers: Iterable[GenerationRecord], earlier: Iterable[GenerationRecord]
) -> list[GenerationRecord]:
    """Those of the answers that are an earlier one again, to its id, time and text; of a stream that was
    aborted only a part of the text is known.

    None where every answer has the same id: such a server has none.
    """
    known: dict[tuple[str, int | None], list[GenerationRecord]] = {}
    for each in earlier:
        if each.answer_id is not None and not each.token_summary.textless:
            known.setdefault((each.answer_id, each.created), []).append(each)
    if len({name for name, _ in known}) < 2:
        return []
    return [
        each
        for each in answers
        if each.answer_id is not None
        and any(_has_same_text(each, first) for first in known.get((each.answer_id, each.created), ()))
    ]


def _has_same_text(answer: GenerationRecord, first: GenerationRecord) -> bool:
    if answer.aborted or first.aborted:
        return True
    return answer.token_summary.digest == first.token_summary.digest


def dated_before(answers: Collection[GenerationRecord]) -> int:
    """How many of the answers the server made long before they were asked, by its own clock.

    Its clock may be wrong by any amount, but is so for all alike. A time that many requests far apart share
    is no time of the answers, and nothing is known then.
    """
    asked: dict[int, list[float]] = {}
    for each in answers:
        if each.created is not None:
            asked.setdefault(each.created, []).append(each.started)
    if not asked or any(max(times) - min(times) > MOST_DELAY_S for times in asked.values()):
        return 0
    offsets = [created - started for created, times in asked.items() for started in times]
    return sum(offset < max(offsets) - MOST_DELAY_S for offset in offsets)


def old_answers_reason(old: int, n: int) -> str:
    """Why a sample with such answers certifies nothing."""
    return (
        f"{old} of {n} answers were made over ten minutes before they were asked, by the server's own clock: "
        "a cache in front of the server gave them, perhaps of another model. Ask the server itself"
    )
