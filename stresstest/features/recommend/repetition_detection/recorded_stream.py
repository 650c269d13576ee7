"""The token stream of one recorded answer. Imports little, since every worker process loads it."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import accumulate

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.registry import is_repetition
from stresstest.detectors.suite import detect_tokens
from stresstest.detectors.text.features import piece_ends
from stresstest.detectors.text.tokens import split_pieces, text_tokens
from stresstest.economics.mitigation import TokenStream
from stresstest.economics.retry import IDS, PIECES, WORDS
from stresstest.model.finish_reason import LOST_REASONS, normalize_finish_reason
from stresstest.model.scanned import ScanVerdict
from stresstest.model.words import REPETITION_REASON
from stresstest.records import Record
from stresstest.scanning.position_scale import token_ids


@dataclass(frozen=True, slots=True)
class RecordedStream:
    """The stream of one answer.

    stream: None where the log has not all of the text, or the answer was given up, and what there is of it is
    healthy. scale: the unit of an id.
    masked: the server's own repetition detection stopped the answer. digest: of its text (`text_digest`).
    """

    stream: TokenStream | None
    scale: str
    masked: bool
    digest: bytes = b""


def recorded_stream(record: Record, verdict: ScanVerdict, tokenizer: str | None) -> RecordedStream | None:
    """The stream of one answer; None without text."""
    end = normalize_finish_reason(record.finish_reason)
    given_up = end in LOST_REASONS or verdict.lost
    if verdict.unseen or (given_up and not verdict.degenerate):
        return RecordedStream(None, IDS, False)
    text = record.reasoning + record.text
    if not text:
        return None
    scale = IDS
    if tokenizer is not None:
        ids, starts = token_ids(tokenizer, text)
    else:
        own = [token.text for token in record.tokens or ()]
        scale = PIECES if own else WORDS
        pieces = own or split_pieces(text)
        ids = number_texts(pieces)
        starts = list(accumulate(map(len, pieces), initial=0))[:-1]
    stream = _stream(record, verdict, end, ids, starts)
    return RecordedStream(stream, scale, end == REPETITION_REASON, text_digest(text))


def text_digest(text: str) -> bytes:
    """What equal texts share, of a file and of a stored run."""
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def number_texts(texts: Sequence[str]) -> list[int]:
    """An id for each text, the same for the same text. Only ids of one stream are ever compared."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(text, len(numbers)) for text in texts]


def _stream(
    record: Record, verdict: ScanVerdict, end: str | None, ids: Sequence[int], starts: Sequence[int]
) -> TokenStream:
    """The stream of an answer and of the reasoning before it, of which a server's `repetition_detection` sees
    both. end: how it ended. starts: index of the first character of each id."""
    onset = alarm = None
    if verdict.degenerate:
        failed, alarmed = _failing_chars(record, verdict)
        onset, alarm = bisect_right(starts, failed), min(bisect_left(starts, alarmed) + 1, len(ids))
    return TokenStream(
        id=f"{record.source}:{record.line} {record.id}",
        ids=array("I", ids),
        onset=onset,
        alarm=alarm,
        loops=is_repetition(verdict.symptom) or verdict.loops_to_end or verdict.recovered,
        endless=verdict.capped is True or end in LOST_REASONS,
        prompt=f"{verdict.cluster:x}" if verdict.cluster else "",
    )


def _failing_chars(record: Record, verdict: ScanVerdict) -> tuple[int, int]:
    """The characters of onset and alarm, in the reasoning and the answer put together."""
    skip = len(record.reasoning)
    if verdict.onset_char is not None:
        return skip + verdict.onset_char, skip + (verdict.alarm_char or 0)
    # `scan` names no characters of the reasoning.
    thought = [replace(token, reasoning=True) for token in text_tokens(record.reasoning)]
    asked = DetectorSpec(prompt_text=record.prompt_text, requested_text=record.requested_text)
    again = detect_tokens(thought, asked)
    ends = [0, *piece_ends(record.reasoning)]
    begin = ends[min((again.onset or verdict.words.onset or 1) - 1, len(ends) - 1)]
    return begin, skip if again.alarm is None else ends[min(again.alarm, len(ends) - 1)]
