"""A long answer that fails early need not be read to its end to be judged.

A failure that a detector is certain of stays: what comes later can only prove an earlier one, and only
repetitions are proven much later. So the verdict on the beginning is that on the whole text, where the whole
repeats nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.registry import symptom_info
from stresstest.detectors.screening.screen import ScreenedText, run_batch_detectors, screens_cover
from stresstest.detectors.text.tokens import MAX_PIECE_CHARS, split_pieces
from stresstest.detectors.verdict import derive_zones
from stresstest.model import GenerationVerdict

LOOK_BACK = 2048
"""Tokens after an alarm within which an earlier onset would have been proven."""
_STAGES = (LOOK_BACK + 1024, LOOK_BACK + 16_384)
"""Tokens of the beginnings that are read first."""
_WORTH, _WORTH_IF_SUSPECTED = 2, 8
"""Times so long must a text be, and one that may repeat something, which is found only in the whole of it."""


def failed_early(
    text: str, screened: ScreenedText, spec: DetectorSpec, judge: Callable[[str], GenerationVerdict]
) -> GenerationVerdict | None:
    """The verdict on a long text that fails near its beginning and repeats nothing anywhere; else None.

    judge: the verdict on a text. The ends of symptoms are those in the beginning that was read.
    """
    if not screened.suspected or spec.counts_units or not screens_cover(spec):
        return None
    suspected = any(entry.symptom.loop for entry, _ in screened.suspected)
    worth = _WORTH_IF_SUSPECTED if suspected else _WORTH
    for beginning, length in _beginnings(text, screened.count // worth):
        verdict = judge(beginning)
        if verdict.symptom is None or verdict.alarm is None or verdict.alarm > length - LOOK_BACK:
            continue
        if suspected and (symptom_info(verdict.symptom).loop or _repeats(text, screened, spec)):
            return None
        zones = derive_zones(screened.count, verdict.onset, verdict.symptoms)
        return replace(verdict, tokens=screened.count, zones=zones)
    return None


def _beginnings(text: str, most: int) -> Iterator[tuple[str, int]]:
    """(the beginning, its tokens) for each stage of at most so many tokens."""
    for length in _STAGES:
        if length > most:
            return
        pieces = split_pieces(text[: length * MAX_PIECE_CHARS])[:length]
        yield "".join(pieces), len(pieces)


def _repeats(text: str, screened: ScreenedText, spec: DetectorSpec) -> bool:
    """Whether a detector of repetitions is certain of one anywhere in the text."""
    forms = [entry.batch for entry, _ in screened.suspected if entry.symptom.loop and entry.batch is not None]
    detectors = [make(spec) for make in forms]
    run_batch_detectors(detectors, split_pieces(text), None)
    return any(symptom.confirmed for detector in detectors for symptom in detector.symptoms())
