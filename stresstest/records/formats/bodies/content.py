"""What a message says: its text, its refusal, the arguments of its calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stresstest.model.finish_reason import LENGTH, normalize_finish_reason
from stresstest.records.formats.bodies.calls import ONLY_TOOL_CALLS, has_calls, is_nothing, message_arguments
from stresstest.records.formats.bodies.reasoning import is_reasoning
from stresstest.records.record import TextlessError, UnreadableError, describe_type


def message_text(message: Mapping[str, Any], finish: str | None = None, reasoning: str = "") -> str | None:
    """A message's content, what it says beside it (a refusal, the words of its audio), and then the arguments
    of its calls; None for neither.

    TextlessError for calls alone that have no arguments. A call that the cap cut is not in good order,
    whether it came to its arguments or not.
    """
    text = join_content(message.get("content"))
    beside = "".join(_spoken_beside(message))
    text = (text or "") + beside if beside else text
    if not has_calls(message):
        return text
    written = message_arguments(message)
    if not text and not reasoning and is_nothing(written) and normalize_finish_reason(finish) != LENGTH:
        raise TextlessError(ONLY_TOOL_CALLS)
    return (text or "") + written


def is_refusal(message: Mapping[str, Any]) -> bool:
    """Whether the API marks a message, or a part of it, as a refusal."""
    content = message.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return any(isinstance(held.get("refusal"), str) and held["refusal"] for held in (message, *parts))


def _spoken_beside(message: Mapping[str, Any]) -> Iterator[str]:
    audio = message.get("audio")
    for said in (message.get("refusal"), audio.get("transcript") if isinstance(audio, dict) else None):
        if isinstance(said, str):
            yield said


def join_content(content: Any) -> str | None:
    """A message's content: text, or a list of parts of which the texts count, but for those of reasoning;
    None for parts without any.

    UnreadableError for anything else.
    """
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list):
        shown = [p for p in content if not is_reasoning(p)]
        parts = [p.get("text", p.get("refusal")) if isinstance(p, dict) else p for p in shown]
        texts = [p for p in parts if isinstance(p, str)]
        return "".join(texts) if texts or not content else None
    raise UnreadableError(f"no text there: {describe_type(content)}")
