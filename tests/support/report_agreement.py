"""What a report of a diagnosed run says against itself: verdict, advice, diagnosis and table of arms."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html import unescape

from stresstest.diagnosis.concluded import confirmed_link
from stresstest.diagnosis.intervention.wording import describe_decoding
from stresstest.model import Diagnosis, RunResult

_ADVISED = re.compile(
    r"(?:repeat with|[Uu]se|decoding:)[^.;:]{0,40}?repetition[_-]penalty \(?(\d+(?:\.\d+)?)"
    r"(?: to (\d+(?:\.\d+)?))?"
)
"""A penalty, or a range of penalties, that a sentence recommends."""
_UNDECIDED = ("To test the cause", "(not tested yet)", "uspected cause:")
"""Phrases of a verdict that no intervention has decided, long enough not to occur in a model's text."""
_TAG = re.compile(r"<(script|style)\b.*?</\1>|<[^>]+>", re.S)


def plain_text(report: str) -> str:
    """A report of any kind as words: without tags and frames, on one line."""
    words = unescape(_TAG.sub(" ", report)).replace("│", " ").replace("`", "").replace("\\", "")
    return " ".join(words.split())


def contradictions(kind: str, report: str, result: RunResult, found: Diagnosis | None) -> Iterator[str]:
    """Each contradiction in a report, in words. kind: "json", or any other one, which is read as text."""
    text = plain_text(report)
    link = None if found is None else confirmed_link(found, result.run.id)
    own = [each for each in found.chain if each.run_id == result.run.id] if found is not None else []
    failing = {
        arm.changed.split()[1]
        for each in own
        for arm in each.arms
        if not arm.clears and arm.changed.startswith("repetition_penalty")
    }
    for low, high in _ADVISED.findall(text):
        tested = [p for p in failing if p == low or (high and float(low) <= float(p) <= float(high))]
        for penalty in tested:
            advised = f"{low} to {high}" if high else low
            yield f"recommends repetition_penalty {advised}; its table has {penalty} failing"
    if link is not None:
        yield from (f"says {word!r} of a confirmed plane" for word in _UNDECIDED if word in text)
    if kind == "json":
        yield from _in_json(json.loads(report), result, found)


def missing_remedy(report: str, found: Diagnosis) -> Iterator[str]:
    """What was shown to help and is not in the report: the decoding, and the limit certified under it."""
    text = plain_text(report)
    if found.recommended is not None and describe_decoding(found.recommended) not in text:
        yield f"lacks the decoding that heals: {describe_decoding(found.recommended)}"
    safe = found.safe_max_tokens
    if safe is not None and f"{safe:,}" not in text and str(safe) not in text:
        yield f"lacks the limit under it: {safe:,}"


def _in_json(document: Mapping[str, object], result: RunResult, found: Diagnosis | None) -> Iterator[str]:
    if document["safe_max_tokens"] != result.safe_max_tokens:
        yield f"has safe_max_tokens {document['safe_max_tokens']}, the run {result.safe_max_tokens}"
    verdict = document["verdict"]
    assert isinstance(verdict, dict)
    first = found.chain[0] if found is not None and found.chain else None
    if first is not None and first.conclusive and verdict["plane"] != first.plane:
        yield f"has the plane {verdict['plane']}, its diagnosis {first.plane}"
