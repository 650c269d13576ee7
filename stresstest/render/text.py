"""Text formatting that all reports share, including the sanitizing of model output."""

from __future__ import annotations

import re
import unicodedata

from stresstest.detectors.languages.catalog import catalog
from stresstest.detectors.registry import symptom_info
from stresstest.diagnosis.planes import NOT_TESTED
from stresstest.model import (
    AnswerPart,
    Basis,
    Generation,
    GenerationRecord,
    GenerationVerdict,
    Job,
    Phase,
    PlaneVerdict,
    Subject,
    Threshold,
)
from stresstest.model.percent import NOT_MEASURED as NOT_MEASURED
from stresstest.model.percent import percent

SIMULATED_WARNING = "SIMULATED: these numbers do not measure a real model"
"""Printed above simulated results on a terminal."""

# CSI, OSC and the other escape families, 7-bit and 8-bit.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x9b[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
_KEEP = {"\n", "\t"}
_LONGEST = 4_000
"""Maximum characters of an excerpt; a hostile server may send a token of any length."""


def sanitize(text: str) -> str:
    """The text without control sequences, bidi overrides and other invisible control characters."""
    text = _ESCAPES.sub("", text)
    return "".join(
        c for c in text if c in _KEEP or unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}
    )


def single_line(text: str) -> str:
    """The sanitized text on one line, with each run of white space replaced by one blank."""
    return " ".join(sanitize(text).split())


def capital(text: str) -> str:
    """The text with its first character in upper case."""
    return text[:1].upper() + text[1:]


def language_name(code: str | None) -> str:
    """``it`` → ``Italian``; a code that is not known as it is; "language not given" without one."""
    if not code:
        return "language not given"
    known = catalog()
    language = known.languages.get(known.aliases.get(code.lower(), ""))
    return code if language is None else language.name


def subject_name(subject: Subject) -> str:
    """Model, task and language as people read them, on one line: a server may name its model as it likes.
    Documents and test names keep ``str(subject)``."""
    names = (subject.model or "model not named", subject.task, language_name(subject.language))
    return " · ".join(map(single_line, names))


def load_words(concurrency: int) -> str:
    """``8 requests in flight``."""
    return f"{concurrency:,} request{'' if concurrency == 1 else 's'} in flight"


def format_count(n: float | None) -> str:
    """``12345`` → ``12,345``; None → ``–``."""
    return NOT_MEASURED if n is None else f"{n:,.0f}"


def format_threshold(threshold: Threshold) -> str:
    """T, with ``≥`` if no onset was seen up to there; – if nothing is certified."""
    return ("≥ " if threshold.censored_at else "") + format_count(threshold.tokens)


def certified_reach(threshold: Threshold) -> str:
    """What is certified: ``certified up to T = 473 tokens``, ``certified up to T ≥ 4,096 tokens``."""
    relation = "≥" if threshold.censored_at else "="
    return f"certified up to T {relation} {format_count(threshold.tokens)} tokens"


def margin_words(margin: float) -> str:
    """What lies between T and the safe max_tokens: ``T minus a margin of 10 %``."""
    return f"T minus a margin of {percent(margin)}" if margin else "T, without a margin"


def certified_sentence(threshold: Threshold, answers: int | None = None, *, reasoning: bool = False) -> str:
    """What is certified, and what was counted: "certified up to T = 473 tokens: with 90 % confidence, …".

    It starts in lower case and has no full stop. answers: size of the sample, None where it is not known.
    reasoning: whether the threshold is one of the reasoning alone. The risk is conditional on answers (on
    reasoning) that have not ended healthy before T, so it bounds that of all answers.
    """
    where, ended = (" in their reasoning", "reasoning") if reasoning else ("", "answers")
    counted = f"{threshold.onsets or 'none'} of {threshold.n} in the sample"
    if threshold.looks > 1:  # each look is larger than the one before
        counted += f" of the look, of {threshold.looks} declared, that reached farthest"
    elif answers is None:
        counted += f"; healthy {ended} that ended or were cut sooner do not count"
    elif answers != threshold.n:
        counted += f", not counting healthy {ended} that ended or were cut sooner"
    return (
        f"{certified_reach(threshold)}: with {percent(threshold.confidence)} confidence, "
        f"{risk_words(threshold)}{where} by then ({counted})"
    )


def cause_words(verdict: PlaneVerdict) -> str:
    """The plane, and whether an intervention has confirmed it: "decoding (not tested yet)"."""
    if verdict.plane is None:
        return "nothing failed"
    if verdict.basis is Basis.CONFIRMED:
        return f"{verdict.plane} (confirmed)"
    return f"{verdict.plane} {NOT_TESTED if NOT_TESTED in verdict.sentence else '(not confirmed)'}"


def risk_words(threshold: Threshold) -> str:
    """What a threshold bounds, to stand between its confidence and its place: "at most 10 % of answers …"."""
    return f"at most {percent(threshold.alpha)} of answers degenerate"


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


def answer_name(job: Job) -> str:
    """A generation as people call it, counted from 1; documents keep its key."""
    number = f"answer {job.index + 1}"
    if job.phase is Phase.CERTIFY:
        return f"certifying {number}"
    if job.phase is Phase.COST:
        return f"{job.arm}, pair {job.rung + 1}, {number}"
    return f"{_CONTROL.sub(_control_words, job.arm) if job.arm else f'rung {job.rung}'}, {number}"


_CONTROL = re.compile(r"-(control|sham)-(\d+)$")


def _control_words(name: re.Match[str]) -> str:
    """What the name of a diagnosis's control ends in: of the second kind changes the request to no effect."""
    return f" {'control' if name[1] == 'control' else 'no-effect control'} {name[2]}"


def onset_place(verdict: GenerationVerdict, cut: int = 0) -> str:
    """``1,234``, or ``1,234, in the reasoning``: the onset's output token, and the part of the output.

    cut: tokens of the answer that is continued; the onset counts from that answer's first token.
    """
    at = format_count(None if verdict.onset is None else cut + verdict.onset)
    return f"{at}, in the reasoning" if verdict.onset_in is AnswerPart.REASONING else at


def generation_line(generation: GenerationRecord, cut: int = 0) -> str:
    """One generation on one line: tokens, symptom or units, and how it ended.

    cut: tokens of the answer that it continues; an onset counts from that answer's first token.
    """
    verdict = generation.verdict
    tokens = f"{answer_name(generation.job)}: {format_count(generation.output_tokens)} tokens"
    if cut:
        tokens += f" after the cut at {format_count(cut)}"
    if generation.failure is not None:
        return f"{tokens}, lost: {generation.failure.message}"
    if verdict.onset is not None and verdict.symptom is not None:
        ending = "stopped by stresstest" if generation.aborted else f"finish {generation.finish_reason}"
        what = f"{symptom_info(verdict.symptom).label} from token {onset_place(verdict, cut)}"
        return f"{tokens}, {what} ({ending})"
    asked = generation.job.units
    units = ""
    if verdict.units is not None:
        units = f", {verdict.units} of {asked} units" if asked else f", {verdict.units} units"
    return f"{tokens}, healthy{units} (finish {generation.finish_reason})"


def excerpt(generation: Generation, *, before: int = 60, after: int = 90) -> tuple[str, str]:
    """The sanitized text before and after the onset; both empty if there is no onset.

    before, after: tokens on either side. At most 4,000 characters of each side, nearest to the onset.
    """
    onset = generation.verdict.onset
    if onset is None:
        return "", ""
    tokens = generation.tokens
    cut = onset - 1
    head = "".join(t.text for t in tokens[max(0, cut - before) : cut])
    tail = "".join(t.text for t in tokens[cut : cut + after])
    return sanitize(head[-_LONGEST:]), sanitize(tail[:_LONGEST])
