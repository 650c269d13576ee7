"""The fast path over recorded text: what is surely healthy is passed, the rest goes to the panel.

Each detector has its own screen, in two steps. First a question at C speed that a symptom cannot avoid
answering with yes (see :mod:`stresstest.detectors.features`); then, only on a yes, the detector itself
without its colleagues, for language on the suspicious sentences only. What passes has no confirmed
symptom; what does not is judged by the whole panel. Where a screen's numbers do not follow from the
detector's bounds, they are looser, and a property test holds every screen against the panel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from stresstest.detectors.asking import listened
from stresstest.detectors.base import Detector, PanelSpec
from stresstest.detectors.features import Features, features
from stresstest.detectors.panel import text_tokens
from stresstest.detectors.screen_language import language
from stresstest.detectors.screen_repetition import loops
from stresstest.detectors.segment import TextFeed
from stresstest.detectors.truncation import TruncationDetector
from stresstest.model import Verdict, Zone, ZoneKind

_CHOSEN_ENDS = ".!?…؟।۔。！？｡"
_CLOSERS = "\"'»”’)]}*_`」』 \t\n"
_END = re.compile(r"\n|[.!?…؟।۔][\"'»”’)\]}*_`」』]*(?=\s|$)|[。！？｡][」』]*")
_TAIL = 1200
"""Characters of the end in which a sentence is looked for."""


def healthy(text: str, spec: PanelSpec, finish_reason: str | None) -> Verdict | None:
    """The verdict on a plain answer that no detector can find anything in; None: ask the panel.

    Positions count the pieces of `text_tokens`. Only for text without logprobs and units.
    """
    if spec.unit_pattern is not None:
        return None
    if not text:
        return Verdict(tokens=0, observed=0)
    seen = features(text)
    opened = [
        loops(text, seen, spec, finish_reason),
        language(text, seen, spec),
        ending(text, seen, spec, finish_reason),
    ]
    if any(start == 0 for start in opened):
        return None
    observed = min((start - 1 for start in opened if start is not None), default=seen.count)
    zones = (Zone(ZoneKind.STABLE, 1, seen.count),) if seen.count else ()
    return Verdict(tokens=seen.count, observed=observed, zones=zones)


def ending(text: str, seen: Features, spec: PanelSpec, finish_reason: str | None) -> int | None:
    """Truncation, and what is left open by the last sentence: 0 for a symptom, else its first token."""
    chosen = finish_reason is not None and finish_reason not in ("length", "abort", "error")
    if chosen:
        bare = text.rstrip(_CLOSERS)
        plain = bare[-1:] in _CHOSEN_ENDS and bare != "" and "```" not in text and "~~~" not in text
        if plain and text.lstrip()[:1] not in ("{", "["):
            return None
        return listened(text, spec, _truncation, finish_reason)
    return _open_sentence(text, seen)


def _open_sentence(text: str, seen: Features) -> int | None:
    """First token of the sentence in which the text breaks off; None when it ends with one."""
    tail = text[-_TAIL:]
    ends = [match.end() for match in _END.finditer(tail)]
    rest = tail[ends[-1] :] if ends else tail
    if not rest.strip():
        return None
    return max(seen.count - len(text_tokens(rest)), 0) + 1


def _truncation(spec: PanelSpec, feed: TextFeed) -> Iterable[Detector]:
    return (TruncationDetector(spec, feed),)
