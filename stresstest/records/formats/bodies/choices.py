"""Bodies with choices: of the chat and the completions endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stresstest.model.finish_reason import LENGTH, normalize_finish_reason, reason_with_match
from stresstest.model.tokens import MIN_UNSEEN_TOKENS
from stresstest.records.formats.bodies.answer import RecordedAnswer, read_several
from stresstest.records.formats.bodies.calls import has_calls
from stresstest.records.formats.bodies.content import is_refusal, join_content, message_text
from stresstest.records.formats.bodies.logprobs import logprob_tokens
from stresstest.records.formats.bodies.reasoning import find_reasoning
from stresstest.records.record import UnreadableError

_ENVELOPE_KEYS = frozenset({"object", "created", "usage"})
_TEXT_CHOICE_KEYS = frozenset({"text", "index", "logprobs", "stop_reason", "prompt_logprobs"})
"""Of a choice of the completions endpoint, where the logger left out why it ended."""


def has_choices(body: Mapping[str, Any]) -> bool:
    """Whether a body has the choices of a completion. A quiz has choices too, and models write them."""
    choices = body.get("choices")
    if not isinstance(choices, list):
        return False
    enveloped = not _ENVELOPE_KEYS.isdisjoint(body)
    return any(_is_choice(each, enveloped) for each in choices) if choices else enveloped


def _is_choice(choice: Any, enveloped: bool) -> bool:
    if not isinstance(choice, dict):
        return False
    of_text = enveloped and "text" in choice and choice.keys() <= _TEXT_CHOICE_KEYS
    return isinstance(choice.get("message"), dict) or "finish_reason" in choice or of_text


def choice_answers(body: Mapping[str, Any]) -> list[RecordedAnswer]:
    choices = body["choices"]
    if not choices:
        raise UnreadableError("the response has no choices")
    usage = body.get("usage")
    spent = usage.get("completion_tokens") if isinstance(usage, dict) and len(choices) == 1 else None
    return read_several(choices, lambda choice: _choice(choice, spent if isinstance(spent, int) else 0))


def _choice(choice: Any, spent: int) -> RecordedAnswer:
    """spent: the tokens that the server counted, as far as they are known to be this choice's."""
    if not isinstance(choice, dict):
        raise UnreadableError("a choice is not an object")
    message = choice.get("message")
    if message is not None and not isinstance(message, dict):
        raise UnreadableError("a message is not an object")
    reason = choice.get("finish_reason", choice.get("stop_reason"))
    matched = choice.get("stop_reason", choice.get("matched_stop"))
    finish = reason_with_match(reason if isinstance(reason, str) else None, matched)
    reasoning = ""
    if message is None:
        text = join_content(choice.get("text"))
    else:
        reasoning = find_reasoning(message) or find_reasoning(choice)
        text = message_text(message, finish, reasoning)
    hidden = spent >= MIN_UNSEEN_TOKENS or normalize_finish_reason(finish) == LENGTH
    if text is None and not reasoning and (message is None or not hidden):
        raise UnreadableError("no text in it")
    tokens = logprob_tokens(choice.get("logprobs"), text or "", reasoning)
    calls = message is not None and has_calls(message)
    refused = message is not None and is_refusal(message)
    return RecordedAnswer(text or "", reasoning, finish, tokens, calls=calls, refused=refused)
