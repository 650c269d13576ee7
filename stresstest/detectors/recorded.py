"""The panel's verdict on texts that somebody recorded: by the fast path where that is certain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stresstest.detectors.base import PanelSpec
from stresstest.detectors.features import piece_count
from stresstest.detectors.fold import Folded, folded, unfolded
from stresstest.detectors.screen import screened, suspicions
from stresstest.detectors.suspected import SuspectedPanel, Suspicion
from stresstest.model import Verdict

BATCH = 65_000
"""Characters that are screened together: so much that Python's calls cost little, so little that all arrays
stay in a core's cache."""


class Recorded(NamedTuple):
    """An answer to judge. finish_reason: None where nobody knows."""

    text: str
    spec: PanelSpec
    finish_reason: str | None = None


def judge_recorded(text: str, spec: PanelSpec, finish_reason: str | None = None) -> Verdict:
    """:func:`judge_text` for whole corpora: the same symptoms, many times faster.

    A text without a symptom that did not choose its end counts as observed up to `OPEN_TAIL` before it, where
    the panel waits for the end of its last passage; its warnings are left out, and those beside a loop.
    """
    return judge_many([Recorded(text, spec, finish_reason)])[0]


def judge_many(answers: Sequence[Recorded]) -> list[Verdict]:
    """:func:`judge_recorded` for many answers, in order: an answer among others costs a third."""
    short = [_short(answer) for answer in answers]
    texts = [fold.text if fold else answer.text for answer, fold in zip(answers, short, strict=True)]
    seen: dict[int, Suspicion] = {}
    for language, places in _batches(texts, answers):
        seen.update(zip(places, suspicions([texts[i] for i in places], language), strict=True))
    return [
        _judge(answer, fold, seen[i]) for i, (answer, fold) in enumerate(zip(answers, short, strict=True))
    ]


def _short(answer: Recorded) -> Folded | None:
    # What a prompt asked to be repeated has bounds of its own.
    return None if answer.spec.prompt_text else folded(answer.text)


def _batches(texts: Sequence[str], answers: Sequence[Recorded]) -> Iterator[tuple[str | None, list[int]]]:
    """(language, places of some texts of answers wanted in it), all places once."""
    waiting: dict[str | None, tuple[int, list[int]]] = {}
    for i, (text, answer) in enumerate(zip(texts, answers, strict=True)):
        language = answer.spec.language
        size, places = waiting.get(language, (0, []))
        waiting[language] = size + len(text), [*places, i]
        if waiting[language][0] >= BATCH:
            yield language, waiting.pop(language)[1]
    for language, (_, places) in waiting.items():
        yield language, places


def _judge(answer: Recorded, fold: Folded | None, seen: Suspicion) -> Verdict:
    text, spec, finish_reason = answer
    if fold is None:
        return _verdict(text, seen, spec, finish_reason)
    short = _verdict(fold.text, seen, spec, finish_reason)
    whole = unfolded(short, piece_count(text[: fold.cut]), piece_count(text))
    return _judge_whole(answer) if whole is None else whole


def _judge_whole(answer: Recorded) -> Verdict:
    """The verdict on an answer that must not be folded."""
    text, spec, finish_reason = answer
    return _verdict(text, suspicions([text], spec.language)[0], spec, finish_reason)


def _verdict(text: str, seen: Suspicion, spec: PanelSpec, finish_reason: str | None) -> Verdict:
    passed = screened(text, seen, spec, finish_reason)
    return SuspectedPanel(spec, seen).judge(text, finish_reason) if passed is None else passed
