"""Conversations that the model ends: chats in OpenAI's layout and in ShareGPT's."""

from __future__ import annotations

from typing import Any

from stresstest.records.formats.adapter import Envelope, Row
from stresstest.records.formats.beside import PREDICTED_KEYS
from stresstest.records.formats.bodies.bare import chat_message
from stresstest.records.formats.bodies.calls import ONLY_TOOL_CALLS, has_calls, is_tool_call
from stresstest.records.formats.bodies.content import is_refusal, message_text
from stresstest.records.formats.bodies.reasoning import find_reasoning
from stresstest.records.formats.bodies.turns import MODEL_SPEAKS
from stresstest.records.formats.plain import ANSWER_KEYS
from stresstest.records.record import FieldMapping, TextlessError, as_text

_TURNS = (
    ("messages", "role", "content"),
    ("conversations", "from", "value"),
    ("conversation", "role", "content"),  # WildChat, LMSYS-Chat
    ("generated_text", "role", "content"),  # Transformers' pipelines
)
"""Keys of a conversation, of the speaker of a turn, and of the turn's content."""
_ROLES = {
    **{name: name for name in ("system", "developer", "user", "tool")},
    "human": "user",
    **dict.fromkeys(MODEL_SPEAKS, "assistant"),
}


def _recognises(row: Row, mapped: FieldMapping) -> bool:
    """Whether the last turn is an answer. Where the model does not speak last, all of it is a prompt."""
    answers = ANSWER_KEYS & row.keys()
    if "generated_text" in answers and isinstance(row["generated_text"], list):
        answers -= {"generated_text"}
    if "response" in mapped.fields or answers:
        return False
    if any(isinstance(row.get(key), str) and row[key] for key in PREDICTED_KEYS):
        return False  # the conversation ends with the right answer then
    found = _ended_by_the_model(row)
    if found is None:
        return False
    last = found[0][-1]
    return found[1] is not None or has_calls(last) or bool(find_reasoning(last)) or is_refusal(last)


def _unwrapped(row: Row, _mapped: FieldMapping) -> list[Row]:
    """The last turn as a plain record, apart from the turns that it answers."""
    found = _ended_by_the_model(row)
    said = found and _said(row, *found[:2])
    reasoning = find_reasoning(found[0][-1]) if found else ""
    if found is None or (said is None and not reasoning):
        raise TextlessError(ONLY_TOOL_CALLS)
    turns, _, speaker, key = found
    before = [
        {"role": _ROLES.get(str(turn.get(speaker)).lower()), "content": turn.get(key), **_calls(turn)}
        for turn in turns[:-1]
        if isinstance(turn, dict)
    ]
    thought = {"reasoning_content": reasoning} if reasoning else {}
    said = "" if said is None else said
    called: Row = {"tool_calls": [{}]} if _calls(turns[-1]) else {}  # what they say is in the text already
    own = {name: value for name, value in row.items() if value is not turns}
    return [{**own, **thought, **called, "response": said, "messages": before}]


def _calls(turn: Row) -> Row:
    """A turn's calls of tools, wherever it keeps them."""
    content = turn.get("content")
    parts = [part for part in content if is_tool_call(part)] if isinstance(content, list) else []
    calls = turn.get("tool_calls") or turn.get("function_call") or parts
    return {"tool_calls": calls if isinstance(calls, list) else [calls]} if calls else {}


def _said(row: Row, turns: list[Any], content: Any) -> Any:
    """The content of the last turn, with its refusal and the arguments of its calls where it has any."""
    more = has_calls(turns[-1]) or is_refusal(turns[-1])
    return message_text(turns[-1], as_text(row.get("finish_reason"))) if more else content


def _ended_by_the_model(row: Row) -> tuple[list[Any], Any, str, str] | None:
    """The turns, the content of the last one, and the keys of a turn's speaker and content; None where the
    model does not speak last."""
    for key, speaker, said in _TURNS:
        turns = row.get(key)
        if not isinstance(turns, list) or not turns or not isinstance(turns[-1], dict):
            continue
        if speaker not in turns[-1]:
            turns = [chat_message(turn) if isinstance(turn, dict) else turn for turn in turns]
        if str(turns[-1].get(speaker)).lower() in MODEL_SPEAKS:
            return turns, turns[-1].get(said), speaker, said
    return None


FORMAT = Envelope("conversation", _recognises, _unwrapped)
