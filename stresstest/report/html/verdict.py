"""The verdict as a reader meets it: the number, the sentence, the plane, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stresstest.model import Basis, Diagnosis, Plane, RunResult, RunStatus
from stresstest.report.sentences import sample_words
from stresstest.report.text import count, percent

PLANE_WORDS = {
    Plane.SYSTEM: "the system (GPU, memory, scheduler, network)",
    Plane.DECODING: "decoding (how tokens are chosen)",
    Plane.CONTEXT: "the context (how much text the model can hold)",
}


@dataclass(frozen=True, slots=True)
class Told:
    """number: in large type, or that there is none. unit: what it counts.

    causes: why it fails, one link of the chain a line.
    facts: (name, value) beneath. actions: what to do, one line each.
    """

    number: str
    unit: str
    sentence: str
    causes: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    actions: tuple[str, ...]
    banners: tuple[tuple[str, str], ...]


def told(result: RunResult, diagnosis: Diagnosis | None) -> Told:
    """The first screen of a report."""
    threshold = result.threshold
    return Told(
        number=count(result.safe_max_tokens) if threshold.certified else "Not certified",
        unit="safe max_tokens" if threshold.certified else "no max_tokens is safe to name yet",
        sentence=_sentence(result),
        causes=_causes(result, diagnosis),
        facts=_facts(result),
        actions=tuple(_actions(result)),
        banners=tuple(_banners(result)),
    )


def _sentence(result: RunResult) -> str:
    threshold = result.threshold
    if not threshold.certified or threshold.tokens is None:
        lacking = threshold.lacking or "too few data"
        return f"Nothing is certified: {lacking.rstrip('.')}."
    reach = count(threshold.tokens)
    risk, sure = percent(threshold.alpha), percent(threshold.confidence)
    n, failed = threshold.n, threshold.onsets
    if threshold.censored_at:
        return (
            f"No failure was seen up to {reach} tokens. With {sure} confidence at most {risk} of the "
            f"requests that run so long stop making sense by then: {n} did, none failed. "
            "Beyond that nothing was measured."
        )
    return (
        f"With {sure} confidence, at most {risk} of the requests that run to {reach} tokens stop making "
        f"sense by then: of {n} at risk, {failed or 'none'} failed. "
        f"{count(result.safe_max_tokens)} keeps {percent(result.run.settings.margin)} off that."
    )


def _causes(result: RunResult, diagnosis: Diagnosis | None) -> tuple[str, ...]:
    if diagnosis is not None and diagnosis.chain:
        return tuple(_capital(link.sentence) for link in diagnosis.chain)
    verdict = result.verdict
    if verdict.plane is None:
        return (_capital(verdict.sentence),)
    words = PLANE_WORDS[verdict.plane]
    if verdict.basis is Basis.CONFIRMED:
        where = f"Shown by intervention: {words} fails."
    else:
        where = f"Suspected is {words}, by what was observed; no intervention has tested it."
    return (where, _capital(verdict.sentence))


def _facts(result: RunResult) -> tuple[tuple[str, str], ...]:
    threshold = result.threshold
    reach = ("≥ " if threshold.censored_at else "") + count(threshold.tokens)
    failing = sum(1 for g in result.certifying if g.verdict.degenerate)
    facts = [
        ("certified threshold", reach),
        ("confidence", percent(threshold.confidence)),
        ("tolerated risk", percent(threshold.alpha)),
        ("requests at risk", f"{threshold.n:,}"),
        ("degenerated at some length", f"{failing:,} of {len(result.certifying):,}"),
        ("rigor", sample_words(result)),
        ("distinct prompts", f"{result.distinct_prompts:,}"),
        ("context window", count(result.run.profile.max_model_len)),
    ]
    return tuple(facts)


def _actions(result: RunResult) -> list[str]:
    lines = []
    if result.safe_max_tokens is not None:
        lines.append(f"Set max_tokens to {count(result.safe_max_tokens)} for this model, task and language.")
    return [*lines, *result.verdict.advice]


def _banners(result: RunResult) -> Sequence[tuple[str, str]]:
    found = []
    if result.run.profile.simulated:
        found.append(
            (
                "simulated",
                "Simulated. These numbers come from the simulator; they are no measurement of a model.",
            )
        )
    status = result.run.status
    if status is RunStatus.RUNNING:
        found.append(
            ("partial", "This run is still going on, or was killed. What it has measured so far is shown.")
        )
    elif status is not RunStatus.DONE:
        found.append(
            (
                "partial",
                f"This run was {status}. What it measured is shown; an unfinished sample certifies nothing. "
                f"Go on with: stresstest run --resume {result.run.id}",
            )
        )
    return found


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
