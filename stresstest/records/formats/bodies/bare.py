"""Answers that tracers log without the response body around them, put into one: a chat message, several of
them, an item of the Responses API, and LangChain's result of a call (`LLMResult`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stresstest.records.formats.bodies.body import is_body
from stresstest.records.formats.bodies.calls import has_calls, has_tool_call, is_tool_call
from stresstest.records.formats.bodies.content import is_refusal
from stresstest.records.formats.bodies.reasoning import find_reasoning, is_reasoning
from stresstest.records.formats.bodies.turns import MODEL_SPEAKS, role_of, unwrap_turn

_Body = dict[str, Any]
_FINISH = ("finish_reason", "stop_reason")
_CALLS = ("tool_calls", "invalid_tool_calls")
"""LangChain keeps calls whose arguments are no JSON apart."""


def as_body(value: Any) -> _Body | None:
    """The response body that this is, or that it came from; None where it is neither."""
    if isinstance(value, dict):
        if is_body(value):
            return value
        if is_message(value):
            return _of_messages([value])
        if _is_item(value):
            return {"object": "response", "output": [value]}
        return langchain_body(value)
    if not isinstance(value, list) or not value:
        return None
    if any(map(_says, value)) or all(map(_is_item, value)):
        return {"object": "response", "output": value}
    return _of_messages(value) if all(map(is_message, value)) else None


def _is_item(value: Any) -> bool:
    """Whether this is an item of the Responses API; parts of a content may look like one."""
    return _says(value) or is_tool_call(value) or is_reasoning(value)


def _says(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") == "message"


def is_message(value: Any) -> bool:
    """Whether this is a chat message of the model's that says something, if only in thought."""
    value = unwrap_turn(value)
    if not isinstance(value, dict) or role_of(value) not in MODEL_SPEAKS:
        return False
    if value.get("content") is not None or has_calls(value) or is_refusal(value):
        return True
    return bool(find_reasoning(value) or value.get("invalid_tool_calls"))


def _of_messages(kept: Sequence[Mapping[str, Any]]) -> _Body:
    messages = list(map(chat_message, kept))
    return _chat([(each, each) for each in messages])


def _chat(answers: Sequence[tuple[_Body, Any]], usage: Any = None) -> _Body:
    """A body of these messages. With each, what else may tell why it ended."""
    choices = [{"message": each, "finish_reason": _finish(beside, *_told(each))} for each, beside in answers]
    return {"object": "chat.completion", "choices": choices, "usage": usage}


def _finish(*holders: Any) -> Any:
    there = [each for each in holders if isinstance(each, dict)]
    return next((held[key] for held in there for key in _FINISH if held.get(key) is not None), None)


def langchain_body(result: Mapping[str, Any]) -> _Body | None:
    """Of ``{"generations": [[{"text", "generation_info"?, "message"?}]]}``; None for anything else."""
    prompts = result.get("generations")
    listed = prompts if isinstance(prompts, list) else []
    found = [each for of_one in listed for each in (of_one if isinstance(of_one, list) else [of_one])]
    if not found or not all(map(_is_generation, found)):
        return None
    messages = [chat_message(each.get("message") or {"content": each.get("text")}) for each in found]
    usage = messages[0].get("usage_metadata") if len(messages) == 1 else None
    told = (each.get("generation_info") for each in found)
    return _chat(list(zip(messages, told, strict=True)), usage)


def _is_generation(value: Any) -> bool:
    return isinstance(value, dict) and (
        isinstance(value.get("message"), dict) or ("text" in value and "generation_info" in value)
    )


def _told(message: Mapping[str, Any]) -> tuple[Any, Any]:
    """What the server told of an answer, and why it was incomplete."""
    told = message.get("response_metadata")
    details = told.get("incomplete_details") if isinstance(told, dict) else None
    return told, {"finish_reason": details.get("reason")} if isinstance(details, dict) else None


def chat_message(turn: Mapping[str, Any]) -> _Body:
    """A message in OpenAI's names; LangChain's are serialised, or dumped."""
    kept = unwrap_turn(turn)
    more = kept.get("additional_kwargs")
    more = {key: value for key, value in more.items() if value} if isinstance(more, dict) else {}
    listed = (kept[key] for key in _CALLS if isinstance(kept.get(key), list))
    calls = more.get("tool_calls") or [call for calls in listed for call in calls]
    in_content = has_tool_call(kept.get("content"))
    return {**kept, **more, "tool_calls": None if in_content else calls}
