"""The token stream of one recorded answer. Imports little, since every worker process loads it."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from stresstest.detectors.registry import is_repetition
from stresstest.detectors.text.tokens import text_tokens
from stresstest.economics.mitigation import TokenStream
from stresstest.economics.retry import IDS, PIECES, WORDS
from stresstest.model.scanned import ScanVerdict
from stresstest.model.words import REPETITION_REASON
from stresstest.records import Record
from stresstest.records.record import LOST_REASONS, normalize_finish_reason
from stresstest.scanning.position_scale import token_ids


@dataclass(frozen=True, slots=True)
class RecordedStream:
    """The stream of one answer.

    stream: None where the log has not all of the text, or the answer was given up, and what there is of it is
    healthy. scale: the unit of an id.
    masked: the server's own repetition detection stopped the answer.
    """

    stream: TokenStream | None
    scale: str
    masked: bool


def recorded_stream(record: Record, verdict: ScanVerdict, tokenizer: str | None) -> RecordedStream | None:
    """The stream of one answer; None without text."""
    end = normalize_finish_reason(record.finish_reason)
    given_up = end in LOST_REASONS or verdict.lost
    if verdict.unseen or (given_up and not verdict.degenerate):
        return RecordedStream(None, IDS, False)
    if not record.text:
        return None
    scale = IDS
    if tokenizer is not None:
        ids, starts = token_ids(tokenizer, record.text)
    else:
        own = [token.text for token in record.tokens or () if not token.reasoning]
        scale = PIECES if own else WORDS
        pieces = own or [token.text for token in text_tokens(record.text)]
        ids = number_texts(pieces)
        starts = list(accumulate(map(len, pieces), initial=0))[:-1]
    return RecordedStream(_stream(record, verdict, end, ids, starts), scale, end == REPETITION_REASON)


def number_texts(texts: Sequence[str]) -> list[int]:
    """An id for each text, the same for the same text. Only ids of one stream are ever compared."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(text, len(numbers)) for text in texts]


def _stream(
    record: Record, verdict: ScanVerdict, end: str | None, ids: Sequence[int], starts: Sequence[int]
) -> TokenStream:
    """end: how the answer ended. starts: index of the first character of each id."""
    alarm = None
    if verdict.degenerate:
        # An alarm inside the reasoning precedes the answer's first token.
        alarm = min(bisect_left(starts, verdict.alarm_char or 0) + 1, len(ids))
    return TokenStream(
        id=f"{record.source}:{record.line} {record.id}",
        ids=array("I", ids),
        onset=None if not verdict.degenerate else bisect_right(starts, verdict.onset_char or 0),
        alarm=alarm,
        loops=is_repetition(verdict.symptom) or verdict.loops_to_end or verdict.recovered,
        endless=verdict.capped is True or end in LOST_REASONS,
    )
