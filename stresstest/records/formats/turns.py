"""The turns of a conversation that a record keeps: who speaks, and where its answer stands among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from stresstest.detectors.text.thinking import thinking_end
from stresstest.records.formats.bodies import RecordedAnswer, find_reasoning, join_content, message_text
from stresstest.records.record import LENGTH, UnreadableError

MODEL_SPEAKS = frozenset({"assistant", "gpt", "model", "chatgpt", "bot"})
_ASKS = frozenset({"system", "developer", "user", "human"})


def before_the_answer(turns: list[Any], found: Sequence[RecordedAnswer]) -> list[Any]:
    """The turns without the record's own answer and what follows it, such as the results of its calls.

    Logs of agents and of evaluations keep the whole conversation beside the answer. Left in the prompt, the
    answer would give each answer a prompt of its own. Only turns after the last question are looked at: an
    earlier turn with the same words is part of the prompt.
    """
    said: set[str] | None = None
    for at in range(len(turns) - 1, -1, -1):
        turn = turns[at]
        role = str(turn.get("role")).lower() if isinstance(turn, dict) else None
        if role in _ASKS:
            break
        if role in MODEL_SPEAKS:
            if said is None:
                said = {_words(answer.text, answer.reasoning) for answer in found if answer.known}
            if not said.isdisjoint(_said(turn)):
                return turns[:at]
    return turns


def _said(turn: Mapping[str, Any]) -> Iterator[str]:
    """What a turn says, with the arguments of its calls and without them."""
    reasoning = find_reasoning(turn)
    with suppress(UnreadableError):
        yield _words(message_text(turn, LENGTH) or "", reasoning)
        if content := join_content(turn.get("content")):
            yield _words(content, reasoning)


def _words(text: str, reasoning: str) -> str:
    """A text for comparison: one log keeps the reasoning in it, another apart, and parts are joined with line
    breaks or without."""
    answer = text[thinking_end(text) :]
    return "".join((answer if answer.strip() else reasoning or text).split())
