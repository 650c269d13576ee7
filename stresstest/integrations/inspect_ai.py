"""Inspect: a scorer that says which answers degenerate."""

from __future__ import annotations

from typing import Any

from inspect_ai.scorer import Score, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from stresstest.api.detection import detect

_FINISH_REASONS = {"stop": "stop", "max_tokens": "length", "model_length": "length"}


@scorer(metrics=[mean(), stderr()])  # type: ignore[untyped-decorator, unused-ignore]
def degeneration(language: str | None = None) -> Any:
    """1 for an answer that degenerates, 0 for a healthy one: the mean is the rate.

    language: that the answers are wanted in, as a code ("it"); without it each one's is inferred. The score's
    explanation is the symptom's sentence; its metadata holds the verdict's fields.
    """

    async def score(state: TaskState, target: Target) -> Score:
        del target  # what is right does not matter here
        verdict = detect(
            state.output.completion,
            language=language,
            prompt=state.input_text,
            finish_reason=_FINISH_REASONS.get(str(state.output.stop_reason)),
        )
        return Score(
            value=int(verdict.degenerate),
            answer=state.output.completion,
            explanation=verdict.summary,
            metadata=verdict.to_dict(),
        )

    return score
