"""The fast path over recorded text: what is surely healthy is passed, the rest goes to the panel.

Each detector has its own screen, in two steps. First a question at C speed that a symptom cannot avoid
answering with yes (see :mod:`stresstest.detectors.features`), put to many texts at once; then, only on a
yes, the detector itself without its colleagues, for language on the suspicious sentences only. What passes
has no confirmed symptom. Where a screen's numbers do not follow from the detector's bounds, they are
looser, and a property test holds every screen against the panel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from stresstest.detectors.asking import asked, listened
from stresstest.detectors.base import Detector, PanelSpec
from stresstest.detectors.features import features
from stresstest.detectors.flooding import OPEN_WORDS
from stresstest.detectors.gibberish import GibberishDetector
from stresstest.detectors.language import LanguageDetector
from stresstest.detectors.panel import pieces
from stresstest.detectors.read_near_loop import NearLoopReader
from stresstest.detectors.screen_language import Foreign, suspect_language
from stresstest.detectors.screen_repetition import suspect_repetition
from stresstest.detectors.segment import TextFeed
from stresstest.detectors.suspected import RepetitionPanel, Suspicion
from stresstest.detectors.truncation import CHOSEN, TruncationDetector, may_be_cut
from stresstest.model import Verdict, Zone, ZoneKind

_END = re.compile(r"\n|[.!?…؟।۔][\"'»”’)\]}*_`」』]*(?=\s|$)|[。！？｡][」』]*")
_SHORT_TAIL, _TAIL = 200, 1200
"""Characters of the end in which a sentence is looked for."""
OPEN_TAIL = 256
"""Pieces at the end that a passed text does not count as observed, where it did not choose its end.

The panel's open candidates (language, gibberish) in healthy text reach back a median of 83 pieces, 22 % of
them more than 64, at most 1,124; measured on 1,833 outputs. The screen does not follow them, so it stays
on the safe side of nearly all."""
_UNCHOSEN = frozenset({None, "length", "abort", "error", "content_filter", "repetition"})


def suspicions(texts: Sequence[str], language: str | None) -> list[Suspicion]:
    """The first step, for at least one text; all answers are wanted in one language."""
    seen = features(texts)
    again = suspect_repetition(seen)
    foreign = suspect_language(seen, language)
    # The features see no emoji as words; the flooding detector does.
    flood = again.flood | (seen.symbols >= OPEN_WORDS)
    columns = (each.tolist() for each in (seen.counts, again.loop, again.near_loop, flood))
    return [Suspicion(*row) for row in zip(*columns, foreign, strict=True)]


def screened(text: str, seen: Suspicion, spec: PanelSpec, finish_reason: str | None) -> Verdict | None:
    """The verdict on a plain answer in which only loops and near-loops come first, if anything; None: ask
    the panel.

    Positions count the pieces of `text_tokens`. Only for text without logprobs and units.
    """
    if spec.unit_pattern is not None:
        return None
    if not text:
        return Verdict(tokens=0, observed=0)
    opened, verdict = _again(text, seen, spec, finish_reason) if seen.repetition else (None, None)
    end = _ending(text, seen.count, spec, finish_reason)
    if opened == 0 or end == 0 or _may_be_foreign(text, seen.foreign, spec):
        return None
    if verdict is not None:
        return verdict
    known = seen.count if finish_reason not in _UNCHOSEN else max(seen.count - OPEN_TAIL, 0)
    observed = min([known, *(start - 1 for start in (opened, end) if start is not None)])
    zones = (Zone(ZoneKind.STABLE, 1, seen.count),) if seen.count else ()
    return Verdict(tokens=seen.count, observed=observed, zones=zones)


def healthy(text: str, spec: PanelSpec, finish_reason: str | None) -> Verdict | None:
    """The verdict on an answer that no detector finds anything in; None for any other."""
    verdict = screened(text, suspicions([text], spec.language)[0], spec, finish_reason)
    return None if verdict is None or verdict.degenerate else verdict


def _again(
    text: str, seen: Suspicion, spec: PanelSpec, finish_reason: str | None
) -> tuple[int | None, Verdict | None]:
    """What `RepetitionPanel.judge` says; a lone near-loop detector is asked first."""
    if not seen.loop and not seen.flood:
        # Its words are the same however the text is cut, and lines are fewer than tokens.
        lines = text.splitlines(keepends=True)
        at = asked((NearLoopReader(spec),), lines, finish_reason)
        if at is None:
            return None, None
        if at:
            return max(seen.count - len(pieces("".join(lines[at - 1 :]))), 0) + 1, None
    return RepetitionPanel(spec, seen).judge(text, finish_reason)


def _may_be_foreign(text: str, seen: Foreign, spec: PanelSpec) -> bool:
    """Whether language drift or gibberish, asked where they are suspected, say anything."""
    if seen.plain:
        return True
    if seen.gibberish and seen.passages == text:
        return listened(text, spec, _both)
    if seen.gibberish and listened(text, spec, _gibberish):
        return True
    return bool(seen.passages) and listened(seen.passages, spec, _language)


def _ending(text: str, count: int, spec: PanelSpec, finish_reason: str | None) -> int | None:
    """Truncation, and what is left open by the last sentence: 0 for a symptom, else its first token."""
    if finish_reason in _UNCHOSEN:
        return _open_sentence(text, count)
    if finish_reason not in CHOSEN or not may_be_cut(text):
        return None
    return 0 if listened(text, spec, _truncation, finish_reason, in_lines=True) else None


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
    return max(count - len(pieces(rest)), 0) + 1


def _both(spec: PanelSpec, feed: TextFeed) -> Iterable[Detector]:
    return LanguageDetector(spec, feed), GibberishDetector(spec, feed)


def _language(spec: PanelSpec, feed: TextFeed) -> Iterable[Detector]:
    return (LanguageDetector(spec, feed),)


def _gibberish(spec: PanelSpec, feed: TextFeed) -> Iterable[Detector]:
    return (GibberishDetector(spec, feed),)


def _truncation(spec: PanelSpec, feed: TextFeed) -> Iterable[Detector]:
    return (TruncationDetector(spec, feed),)
