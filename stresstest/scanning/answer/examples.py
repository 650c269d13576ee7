"""The passage of a degenerate answer that is shown."""

from __future__ import annotations

import re

from stresstest.detectors.text.tokens import count_words
from stresstest.model import GenerationVerdict, SymptomKind
from stresstest.model.scanned import ScanExample, ScanVerdict
from stresstest.records import Record

_SHOWN_BEFORE, _SHOWN_AFTER = 240, 480
"""Characters around an onset that are kept of the worst outputs."""
_TOKENS_REPEAT = re.compile(r"(\d+) tokens repeat ")


def build_example(record: Record, judged: ScanVerdict, verdict: GenerationVerdict) -> ScanExample | None:
    if judged.symptom is None:
        return None
    extent = judged.tokens or judged.words
    at = judged.onset_char
    text = record.text if at is not None else record.reasoning
    at = at or 0
    summary = next((s.summary for s in verdict.symptoms if s.confirmed and s.kind is judged.symptom), "")
    if record.tokens is None and judged.symptom is SymptomKind.LOOP:
        summary = _count_in_words(summary, text, at)
    return ScanExample(
        id=judged.id,
        symptom=judged.symptom,
        score=judged.score,
        wasted=extent.length - (extent.onset or extent.length) + 1,
        before=text[max(0, at - _SHOWN_BEFORE) : at],
        after=text[at : at + _SHOWN_AFTER],
        summary=summary[:400],
    )


def _count_in_words(summary: str, text: str, at: int) -> str:
    """The summary of a loop in plain text, whose tokens are words and signs: only its words are counted.

    at: where its second copy begins, in characters.
    """
    found = _TOKENS_REPEAT.match(summary)
    if found is None:
        return summary
    words = count_words(text, at, int(found[1]))
    if not words:
        return summary.replace(" tokens repeat ", " signs repeat ", 1)
    counted = "1 word repeats" if words == 1 else f"{words:,} words repeat"
    return f"{counted} {summary[found.end() :]}"
