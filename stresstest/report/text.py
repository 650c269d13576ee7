"""Small pieces of text that every report shares; model output is made harmless here."""

from __future__ import annotations

import re
import unicodedata

from stresstest.model import Generation, SymptomKind

NOT_MEASURED = "–"
SIMULATED_WARNING = "SIMULATED: these numbers are no measurement of a model"
"""Above whatever the simulator told, on a terminal."""

SYMPTOM_WORDS = {
    SymptomKind.LOOP: "loop",
    SymptomKind.NEAR_LOOP: "near-loop",
    SymptomKind.FLOODING: "token flooding",
    SymptomKind.LANGUAGE_DRIFT: "language drift",
    SymptomKind.GIBBERISH: "gibberish",
    SymptomKind.ENTROPY_SHIFT: "entropy shift",
    SymptomKind.STRUCTURE_BREAK: "structure break",
    SymptomKind.TRUNCATION: "truncation",
}

# CSI, OSC and the other escape families, 7-bit and 8-bit.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x9b[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
_KEEP = {"\n", "\t"}
_LONGEST = 4_000
"""Characters of an excerpt: a hostile server may call a book one token."""


def clean(text: str) -> str:
    """Text without control sequences, bidi overrides and other invisible steering characters."""
    text = _ESCAPES.sub("", text)
    return "".join(
        c for c in text if c in _KEEP or unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}
    )


def flat(text: str) -> str:
    """Cleaned text on one line, its white space single blanks."""
    return " ".join(clean(text).split())


def count(n: float | None) -> str:
    """``12345`` → ``12,345``; None → ``–``."""
    return NOT_MEASURED if n is None else f"{n:,.0f}"


def percent(share: float | None, digits: int = 0) -> str:
    """``0.05`` → ``5 %``; None → ``–``."""
    return NOT_MEASURED if share is None else f"{100 * share:.{digits}f} %"


def duration(seconds: float | None) -> str:
    """``75`` → ``1 min 15 s``; None → ``–``."""
    if seconds is None:
        return NOT_MEASURED
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def generation_line(generation: Generation) -> str:
    """One generation in one line: how long, how it ended, what was seen."""
    verdict = generation.verdict
    tokens = f"{generation.key}: {count(generation.output_tokens)} tokens"
    if generation.failure is not None:
        return f"{tokens}, lost: {generation.failure.message}"
    if verdict.onset is not None and verdict.symptom is not None:
        ending = "stopped by us" if generation.aborted else f"finish {generation.finish_reason}"
        return f"{tokens}, {SYMPTOM_WORDS[verdict.symptom]} from token {count(verdict.onset)} ({ending})"
    asked = generation.job.units
    units = ""
    if verdict.units is not None:
        units = f", {verdict.units} of {asked} units" if asked else f", {verdict.units} units"
    return f"{tokens}, healthy{units} (finish {generation.finish_reason})"


def excerpt(generation: Generation, *, before: int = 60, after: int = 90) -> tuple[str, str]:
    """Text just before the onset and from it on, both cleaned; empty when there is no onset.

    before, after: tokens on either side; of tokens of unlikely length only the nearest characters.
    """
    onset = generation.verdict.onset
    if onset is None:
        return "", ""
    tokens = generation.tokens
    cut = onset - 1
    head = "".join(t.text for t in tokens[max(0, cut - before) : cut])
    tail = "".join(t.text for t in tokens[cut : cut + after])
    return clean(head[-_LONGEST:]), clean(tail[:_LONGEST])
