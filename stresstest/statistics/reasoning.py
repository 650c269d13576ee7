"""The reasoning of generations, as generations of its own: what a thinking budget is certified from.

The estimand is that of the threshold, q(T) = P(onset <= T | not healthily ended by T), over the reasoning
alone: reasoning that ends in health ends there, whatever becomes of the answer after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stresstest.model import AnswerPart, GenerationRecord, GenerationVerdict


def reasoning_records(generations: Iterable[GenerationRecord]) -> list[GenerationRecord]:
    """The generations as far as their reasoning goes. One without reasoning ends before its first token, and
    is at risk for no T."""
    return [_reasoning_record(generation) for generation in generations]


def _reasoning_record(generation: GenerationRecord) -> GenerationRecord:
    """Where the reasoning fails, or where the output ends in it, everything counts as it does for the whole
    output: an onset, a cap, a loss, what is still open. Otherwise the model ended its reasoning."""
    verdict = generation.verdict
    if verdict.onset_in is AnswerPart.REASONING or verdict.tokens <= verdict.reasoning:
        return generation
    ended = GenerationVerdict(
        tokens=verdict.reasoning,
        observed=min(verdict.observed, verdict.reasoning),
        reasoning=verdict.reasoning,
    )
    return replace(generation, verdict=ended, finish_reason="stop", failure=None, aborted=False)
