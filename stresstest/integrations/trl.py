"""TRL: a reward for GRPO. Nothing of TRL is imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.identification.names import read_language_name, require_language
from stresstest.detectors.screening.recorded import RecordedText, detect_many
from stresstest.errors import UsageError
from stresstest.model import GenerationVerdict
from stresstest.records.formats.asked import prompt_text, requested_text
from stresstest.records.formats.bodies.content import message_text
from stresstest.records.formats.bodies.reasoning import find_reasoning
from stresstest.records.record import TextlessError, UnreadableError

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
    What the prompts ask to be repeated is exempt. language: a column of the data set, the language that each
    answer is wanted in ("it", "Italian"); without it language is not judged. Of a completion in messages the
    assistant's turns are judged, with their reasoning and the arguments of their calls. An empty completion
    is coherent. Raises UsageError for a language that is not known, and for a message without readable text.
    """
    asked = prompts or [""] * len(completions)
    wanted = language or [None] * len(completions)
    answers, owners = [], []
    for number, (completion, prompt, code) in enumerate(zip(completions, asked, wanted, strict=True)):
        spec = _spec(code, prompt)
        for text in _turns(completion):
            answers.append(RecordedText(text, spec))
            owners.append(number)
    verdicts: list[list[GenerationVerdict]] = [[] for _ in completions]
    for owner, verdict in zip(owners, detect_many(answers), strict=True):
        verdicts[owner].append(verdict)
    return list(map(_reward, verdicts))


def _spec(language: str | None, prompt: Conversation) -> DetectorSpec:
    code = language and (read_language_name(language) or language)
    require_language(code)
    requested = requested_text(prompt if isinstance(prompt, str) else list(prompt))
    return DetectorSpec(language=code, prompt_text=_text(prompt), requested_text=requested)


def _reward(turns: Sequence[GenerationVerdict]) -> float:
    """Minus the share of all tokens from the first turn's onset on."""
    before = 0
    for verdict in turns:
        if verdict.onset is not None:
            return (before + verdict.onset - 1) / sum(turn.tokens for turn in turns) - 1.0
        before += verdict.tokens
    return 0.0


def _turns(completion: Conversation) -> list[str]:
    """What the model wrote, turn by turn; a tool's results are none of it."""
    if isinstance(completion, str):
        return [completion]
    own = [message for message in completion if message.get("role", "assistant") == "assistant"]
    return [_said(message) for message in own]


def _said(message: Mapping[str, object]) -> str:
    reasoning = find_reasoning(message)
    try:
        text = message_text(message, reasoning=reasoning) or ""
    except TextlessError:
        text = ""
    except UnreadableError as error:
        raise UsageError(f"A completion cannot be read: {error}.") from None
    return f"<think>\n{reasoning}\n</think>\n{text}" if reasoning else text


def _text(conversation: Conversation) -> str:
    if isinstance(conversation, str):
        return conversation
    return prompt_text(list(conversation))
