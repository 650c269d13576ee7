"""TRL: a reward for GRPO. Nothing of TRL is imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.screening.recorded import RecordedText, detect_many
from stresstest.model import GenerationVerdict
from stresstest.records.formats.fields import requested_text

Conversation = str | Sequence[Mapping[str, object]]
"""A prompt or completion as TRL hands it over: text, or messages."""


def coherence_reward(
    completions: Sequence[Conversation],
    prompts: Sequence[Conversation] | None = None,
    language: Sequence[str | None] | None = None,
    **_: object,
) -> list[float]:
    """0 for a coherent completion; for a degenerate one minus its share from the onset on, down to -1.

    The signature and the range are those of TRL's own reward functions, for `reward_funcs` of a GRPOTrainer.
    What the prompts ask to be repeated is exempt. language: a column of the data set, the code ("it") of the
    language each answer is wanted in; without it language is not judged. An empty completion is coherent.
    """
    asked = prompts or [""] * len(completions)
    wanted = language or [None] * len(completions)
    answers = [
        RecordedText(_text(completion), _spec(code, prompt))
        for completion, prompt, code in zip(completions, asked, wanted, strict=True)
    ]
    return [_reward(verdict) for verdict in detect_many(answers)]


def _spec(language: str | None, prompt: Conversation) -> DetectorSpec:
    requested = None if isinstance(prompt, str) else requested_text(list(prompt))
    return DetectorSpec(language=language, prompt_text=_text(prompt), requested_text=requested)


def _reward(verdict: GenerationVerdict) -> float:
    return 0.0 if verdict.onset is None else (verdict.onset - 1) / verdict.tokens - 1.0


def _text(conversation: Conversation) -> str:
    if isinstance(conversation, str):
        return conversation
    return "\n".join(str(message.get("content") or "") for message in conversation)
