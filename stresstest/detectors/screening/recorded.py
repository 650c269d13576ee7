"""The suite's verdict on recorded texts, through the fast path where that is certain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stresstest.detectors.entry import (
    BatchDetector,
    Cadence,
    Detector,
    DetectorEntry,
    DetectorSpec,
    SuiteContext,
)
from stresstest.detectors.screening.collapse_loop import CollapsedText, collapse_loop, expand_verdict
from stresstest.detectors.screening.early_failure import failed_early
from stresstest.detectors.screening.screen import ScreenedText, screen_texts, screened_verdict, screens_cover
from stresstest.detectors.suite import DetectorSuite, detect_text
from stresstest.detectors.text.features import piece_count
from stresstest.detectors.text.thinking import thinking_end
from stresstest.detectors.text.tokens import text_tokens
from stresstest.model import GenerationVerdict

BATCH_CHARS = 65_000
"""Characters that are screened together: so much that Python's calls cost little, so little that all arrays
stay in a core's cache."""


class RecordedText(NamedTuple):
    """A recorded answer. finish_reason: None where it is not known."""

    text: str
    spec: DetectorSpec
    finish_reason: str | None = None


def detect_recorded(text: str, spec: DetectorSpec, finish_reason: str | None = None) -> GenerationVerdict:
    """:func:`detect_text` for whole corpora: the same symptoms, many times faster.

    A text without a symptom that did not choose its end counts as observed up to `OPEN_TAIL` before it, where
    the suite waits for the end of its last passage; its warnings are left out, those beside a loop, and what
    follows long after an early failure (see :mod:`stresstest.detectors.screening.early_failure`).
    """
    return detect_many([RecordedText(text, spec, finish_reason)])[0]


def detect_many(answers: Sequence[RecordedText]) -> list[GenerationVerdict]:
    """:func:`detect_recorded` for many answers, in order: an answer among others costs a third."""
    collapsed = [_collapsed(answer) for answer in answers]
    texts = [short.text if short else answer.text for answer, short in zip(answers, collapsed, strict=True)]
    screened: dict[int, ScreenedText] = {}
    for language, places in _language_batches(texts, answers):
        found = screen_texts(
            [texts[i] for i in places],
            language,
            [answers[i].finish_reason for i in places],
            [answers[i].spec.prompt_text for i in places],
        )
        screened.update(zip(places, found, strict=True))
    return [
        _detect(answer, short, screened[i])
        for i, (answer, short) in enumerate(zip(answers, collapsed, strict=True))
    ]


def _collapsed(answer: RecordedText) -> CollapsedText | None:
    # What a prompt asked to be repeated has bounds of its own; a detector without a screen reads every token.
    if answer.spec.prompt_text or not screens_cover(answer.spec):
        return None
    return collapse_loop(answer.text)


def _language_batches(
    texts: Sequence[str], answers: Sequence[RecordedText]
) -> Iterator[tuple[str | None, list[int]]]:
    """(language, places of some texts of answers wanted in it), all places once."""
    waiting: dict[str | None, tuple[int, list[int]]] = {}
    for i, (text, answer) in enumerate(zip(texts, answers, strict=True)):
        language = answer.spec.language
        size, places = waiting.get(language, (0, []))
        waiting[language] = size + len(text), [*places, i]
        if waiting[language][0] >= BATCH_CHARS:
            yield language, waiting.pop(language)[1]
    for language, (_, places) in waiting.items():
        yield language, places


def _detect(
    answer: RecordedText, collapsed: CollapsedText | None, screened: ScreenedText
) -> GenerationVerdict:
    text, spec, finish_reason = answer
    if thinking_end(text):
        return detect_text(text, spec, finish_reason)
    if collapsed is None:
        return _verdict(text, screened, spec, finish_reason)
    short = _verdict(collapsed.text, screened, spec, finish_reason)
    whole = expand_verdict(short, piece_count(text[: collapsed.cut]), piece_count(text))
    if whole is not None:
        return whole
    # The loop must be read to its end.
    screened = screen_texts([text], spec.language, [finish_reason], [spec.prompt_text])[0]
    return _verdict(text, screened, spec, finish_reason)


def _verdict(
    text: str, screened: ScreenedText, spec: DetectorSpec, finish_reason: str | None
) -> GenerationVerdict:
    early = failed_early(text, screened, spec, lambda part: detect_recorded(part, spec))
    if early is not None:
        return early
    passed = screened_verdict(text, screened, spec, finish_reason)
    return RecordedSuite(spec, screened).detect(text, finish_reason) if passed is None else passed


class RecordedSuite(DetectorSuite):
    """The whole suite but for the batch detectors that are not suspected; those that are read all at once."""

    def __init__(self, spec: DetectorSpec, screened: ScreenedText) -> None:
        self._suspected = frozenset(entry.kind for entry, _ in screened.suspected)
        self._batch: list[BatchDetector] = []
        super().__init__(spec)

    def _form(self, entry: DetectorEntry, context: SuiteContext) -> tuple[Detector, Cadence] | None:
        if entry.batch is None:
            return super()._form(entry, context)
        if entry.screen is not None and entry.kind not in self._suspected:
            return None
        detector = entry.batch(context.spec)
        self._batch.append(detector)
        return detector, Cadence.END

    def detect(self, text: str, finish_reason: str | None) -> GenerationVerdict:
        """The suite's verdict on a text without logprobs and reasoning."""
        self._held = text_tokens(text)
        self._tokens = len(self._held)
        texts = [token.text for token in self._held]
        for detector in self._batch:
            detector.update_all(texts)
        return self.finish(finish_reason)
