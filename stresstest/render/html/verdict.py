"""The verdict at the top of a report: number, sentence, causes, actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stresstest.model import Diagnosis, RunResult
from stresstest.model.percent import percent
from stresstest.render.sentences import (
    condition,
    rigor_words,
    thinking_words,
    unfinished_notes,
    what_to_do,
)
from stresstest.render.text import (
    NOT_MEASURED,
    capital,
    certified_sentence,
    format_count,
    format_threshold,
    margin_words,
)


@dataclass(frozen=True, slots=True)
class VerdictText:
    """The texts at the top of a report.

    number: the limit, or a note that there is none. unit: of the number. causes: one sentence per link
    of the causal chain. facts: (name, value). actions: one sentence each.
    """

    number: str
    unit: str
    sentence: str
    causes: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    actions: tuple[str, ...]
    banners: tuple[tuple[str, str], ...]


def describe_verdict(result: RunResult, diagnosis: Diagnosis | None) -> VerdictText:
    """The texts at the top of a report. diagnosis: None if there is none."""
    number, unit = _number(result)
    return VerdictText(
        number=number,
        unit=unit,
        sentence=_sentence(result),
        causes=_causes(result, diagnosis),
        facts=_facts(result),
        actions=tuple(what_to_do(result)),
        banners=tuple(_banners(result, diagnosis)),
    )


def _number(result: RunResult) -> tuple[str, str]:
    if result.threshold.unfit:
        return "Unfit", "for this task and language: no max_tokens is recommended"
    if result.safe_max_tokens is not None:
        only = condition(result)
        return format_count(result.safe_max_tokens), f"safe max_tokens{only}"
    if result.threshold.certified:
        return "No cap", "recommended, although a threshold is certified"
    return "Not certified", "no safe max_tokens can be named yet"


def _sentence(result: RunResult) -> str:
    sentence = _certified_sentence(result)
    withheld = result.threshold.withheld
    if result.thinking is not None:
        sentence += f" {thinking_words(result.thinking, result.run.settings.margin)}"
    return sentence if withheld is None else f"{capital(withheld)}. {sentence}"


def _certified_sentence(result: RunResult) -> str:
    threshold = result.threshold
    if not threshold.certified or threshold.tokens is None:
        lacking = threshold.lacking or "too few data"
        return f"Nothing is certified: {lacking.rstrip('.')}."
    found = f"{capital(certified_sentence(threshold, len(result.certifying)))}."
    if threshold.censored_at:
        found += " That is the longest length measured."
    if result.safe_max_tokens is not None:
        return f"{found} The safe max_tokens is {margin_words(result.run.settings.margin)}."
    return found + _later(result)


def _later(result: RunResult) -> str:
    """Why more answers of the sample degenerate than by T, where no cap's effect says it; else empty."""
    tokens = result.threshold.tokens or 0
    onsets = [g.verdict.onset for g in result.certifying if g.verdict.onset is not None]
    later = sum(onset > tokens for onset in onsets)
    if not later:
        return ""
    everyone = len(result.certifying)
    which = f"All {everyone:,}" if len(onsets) == everyone else f"{len(onsets):,} of the {everyone:,}"
    after = f"{later:,} of them after token {tokens:,}"
    return f" {which} answers of the sample degenerate sooner or later, {after}."


def _causes(result: RunResult, diagnosis: Diagnosis | None) -> tuple[str, ...]:
    if diagnosis is not None and diagnosis.chain:
        return diagnosis.sentences
    return (capital(result.verdict.sentence),)


def _facts(result: RunResult) -> tuple[tuple[str, str], ...]:
    threshold = result.threshold
    failing = sum(1 for g in result.certifying if g.verdict.degenerate)
    within, by_then = "T", f"{NOT_MEASURED} of {threshold.n:,}"
    if threshold.certified:
        within, by_then = f"{format_count(threshold.tokens)} tokens", f"{threshold.onsets} of {threshold.n:,}"
    facts = [
        ("certified threshold T", format_threshold(threshold)),
        ("confidence", percent(threshold.confidence)),
        ("tolerated risk", percent(threshold.alpha)),
        (f"degenerated within {within}", by_then),
        ("degenerated at any length", f"{failing:,} of {len(result.certifying):,}"),
        ("rigor", rigor_words(result)),
        ("requests in flight", f"{result.run.settings.in_flight:,}"),
        ("distinct prompts", f"{result.distinct_prompts:,}"),
        ("context window", format_count(result.run.profile.max_model_len)),
    ]
    return tuple(facts)


def _banners(result: RunResult, diagnosis: Diagnosis | None) -> Sequence[tuple[str, str]]:
    found = []
    if result.run.profile.simulated:
        found.append(
            (
                "simulated",
                "Simulated. These numbers come from the simulator; they do not measure a real model.",
            )
        )
    return [*found, *(("partial", note) for note in unfinished_notes(result, diagnosis))]
