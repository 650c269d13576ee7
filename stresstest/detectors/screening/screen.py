"""The fast path over recorded text: what is surely healthy is passed, the rest goes to the suite.

Each detector has its own screen, in two steps. The first tests, in array operations over many texts at once,
a condition that every text with the symptom meets (see :mod:`stresstest.detectors.text.features`). Only
where it is met, the second runs the detector without the others, on the part of the text that the first
step names. What passes has no confirmed symptom. Where a screen's numbers do not follow from the detector's
bounds, they are looser, and a property test compares every screen with the suite. A detector without a screen
leaves nothing to pass: the suite runs over every text in which it may confirm something.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stresstest.detectors.entry import (
    BatchDetector,
    DetectorEntry,
    DetectorSpec,
    ScreenBatch,
    SuiteContext,
    Suspicion,
)
from stresstest.detectors.registry import entries, symptom_info
from stresstest.detectors.text.features import extract_features
from stresstest.detectors.text.segments import TextSegmenter
from stresstest.detectors.text.tokens import split_pieces
from stresstest.detectors.verdict import Observed, conclude
from stresstest.model import GenerationVerdict, Token, Zone, ZoneKind

_END = re.compile(r"\n|[.!?…؟।۔][\"'»”’)\]}*_`」』]*(?=\s|$)|[。！？｡][」』]*")
_SHORT_TAIL, _TAIL = 200, 1200
"""Characters of the end in which a sentence is looked for."""
OPEN_TAIL = 256
"""Tokens at the end that a passed text does not count as observed, where it did not choose its end.

The suite's open candidates (language, gibberish) in healthy text reach back a median of 83 tokens, 22 % of
them more than 64, at most 1,124; measured on 1,833 outputs. The screen does not follow them, so it stays
on the safe side of nearly all."""
_UNCHOSEN = frozenset({None, "length", "abort", "error", "content_filter", "repetition"})

_AT_ONCE, _LONGEST_LINE = 4_000, 16_000
"""Characters at least that the detectors are given at a time, and of a line without an end at most."""


@dataclass(frozen=True, slots=True)
class ScreenedText:
    """The result of the first step for one text. count: its tokens, as `text_tokens` cuts them. suspected:
    the detectors that may find something, in the registry's order, each with its suspicion."""

    count: int
    suspected: tuple[tuple[DetectorEntry, Suspicion], ...] = ()


def screens_cover(spec: DetectorSpec) -> bool:
    """Whether every detector that may confirm something in a text without logprobs has a screen."""
    return all(entry.screen is not None or not entry.may_confirm(spec, logprobs=False) for entry in entries())


def screen_texts(
    texts: Sequence[str],
    language: str | None,
    finish_reasons: Sequence[str | None],
    prompts: Sequence[str],
) -> list[ScreenedText]:
    """The first step, for at least one text; all answers are wanted in one language."""
    batch = ScreenBatch(extract_features(texts), language, finish_reasons, prompts)
    columns = [(entry, entry.screen(batch)) for entry in entries() if entry.screen is not None]
    found: list[ScreenedText] = []
    for i, count in enumerate(batch.features.counts.tolist()):
        suspected = ((entry, column[i]) for entry, column in columns)
        found.append(ScreenedText(count, tuple((entry, each) for entry, each in suspected if each)))
    return found


def screened_verdict(
    text: str, screened: ScreenedText, spec: DetectorSpec, finish_reason: str | None
) -> GenerationVerdict | None:
    """The verdict on a text that is healthy, or in which a loop or near-loop comes first; None: run the
    suite.

    Positions count the tokens of `text_tokens`. Only for text without logprobs.
    """
    if not screens_cover(spec):
        return None
    if not text:
        return GenerationVerdict(tokens=0, observed=0)
    opened, verdict = _confirm_repetition(text, screened, spec, finish_reason)
    if opened == 0 or _confirm_others(screened, spec, finish_reason):
        return None
    if verdict is not None:
        return verdict
    known, starts = screened.count, [opened]
    if finish_reason in _UNCHOSEN:
        known = max(known - OPEN_TAIL, 0)
        starts.append(_open_sentence(text, screened.count))
    observed = min([known, *(start - 1 for start in starts if start is not None)])
    zones = (Zone(ZoneKind.STABLE, 1, screened.count),) if screened.count else ()
    return GenerationVerdict(tokens=screened.count, observed=observed, zones=zones)


def _confirm_repetition(
    text: str, screened: ScreenedText, spec: DetectorSpec, finish_reason: str | None
) -> tuple[int | None, GenerationVerdict | None]:
    """The suspected batch detectors: (0 for a symptom that warnings of others may date back, or an open
    candidate's first token; the suite's verdict but for its warnings, where nothing dates back what comes
    first)."""
    forms = [(entry, entry.batch) for entry, _ in screened.suspected if entry.batch is not None]
    if not forms:
        return None, None
    if all(entry.cut_free for entry, _ in forms):
        lines = text.splitlines(keepends=True)  # fewer than tokens
        at = run_batch_detectors([make(spec) for _, make in forms], lines, finish_reason)
        if at is None:
            return None, None
        if at:
            return max(screened.count - len(split_pieces("".join(lines[at - 1 :]))), 0) + 1, None
    texts = split_pieces(text)
    detectors = [make(spec) for _, make in forms]
    opened = run_batch_detectors(detectors, texts, finish_reason)
    if opened != 0:
        return opened, None
    verdict = conclude([s for each in detectors for s in each.symptoms()], Observed(tokens=len(texts)))
    alone = verdict.symptom is not None and symptom_info(verdict.symptom).exact_onset
    return (None, verdict) if alone else (0, None)


def _confirm_others(screened: ScreenedText, spec: DetectorSpec, finish_reason: str | None) -> bool:
    """Whether a suspected detector that has no batch form finds anything where it is suspected."""
    by_passages: dict[str, list[DetectorEntry]] = {}
    for entry, suspicion in screened.suspected:
        if entry.batch is None:
            if suspicion.plain:
                return True
            by_passages.setdefault(suspicion.passages, []).append(entry)
    return any(run_detectors(read, found, spec, finish_reason) for read, found in by_passages.items())


def _open_sentence(text: str, count: int) -> int | None:
    """First token of the sentence in which the text breaks off; None when it ends with one."""
    for size in (_SHORT_TAIL, _TAIL):
        tail = text[-size:]
        ends = [match.end() for match in _END.finditer(tail)]
        if ends or size >= len(text):
            break
    rest = tail[ends[-1] :] if ends else tail
    if not rest.strip():
        return None
    return max(count - len(split_pieces(rest)), 0) + 1


def run_detectors(
    text: str, entries: Iterable[DetectorEntry], spec: DetectorSpec, finish_reason: str | None
) -> bool:
    """Whether one of the detectors reports anything in the text, given some lines at a time.

    Where sentences are cut depends on the text alone, so lines serve as well as tokens and cost less. No
    detector takes a report back, so the first ends the reading.
    """
    entries = tuple(entries)
    feed = TextSegmenter(in_lines=any(entry.reads_lines for entry in entries))
    context = SuiteContext(spec, feed)
    detectors = [entry.online(context) for entry in entries]
    at = 0
    while at < len(text):
        longest = at + _LONGEST_LINE
        end = text.find("\n", at + _AT_ONCE, longest) + 1 or min(longest, len(text))
        token, at = Token(text[at:end]), end
        feed.update(token)
        for detector in detectors:
            detector.update(token)
        if any(detector.symptoms() for detector in detectors):
            return True
    feed.close()
    for detector in detectors:
        detector.finish(finish_reason)
    return any(detector.symptoms() for detector in detectors)


def run_batch_detectors(
    detectors: Sequence[BatchDetector], texts: Sequence[str], finish_reason: str | None
) -> int | None:
    """After the last token: 0 for any symptom, else the oldest open candidate's first token, or None."""
    for detector in detectors:
        detector.update_all(texts)
        detector.finish(finish_reason)
    if any(detector.symptoms() for detector in detectors):
        return 0
    return min((at for detector in detectors if (at := detector.open_from) is not None), default=None)
