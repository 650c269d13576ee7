"""Conversations of which each turn is a row: what the user, the system and the tools said is no answer."""

from __future__ import annotations

from typing import Any

from stresstest.records.formats.adapter import Envelope, Row
from stresstest.records.formats.bodies.turns import MODEL_SPEAKS
from stresstest.records.formats.plain import ANSWER_KEYS
from stresstest.records.record import FieldMapping

_OTHERS = frozenset(
    {"user", "human", "system", "developer", "tool", "function", "tool_result", "toolresult", "environment"}
    | {"user_message", "system_message", "retrieval", "rerank", "embedding"}
)
_SPEAKERS = ("sender", "from", "author", "type")
_SAID = frozenset({"content", "text", "output"})
"""Where a turn says it. A row with another key of an answer is more than a turn."""
_ASKED = frozenset({"prompt", "messages", "question", "request"})
_INPUTS = frozenset({"input", "inputs", "query", "instruction"})
"""Where a row keeps a prompt, and a step of a tool what it was given."""
_RESULT = "_output"
"""How the types of results end in the Responses API, for each kind of call."""


def _recognises(row: Row, mapped: FieldMapping) -> bool:
    if "response" in mapped.fields:
        return False
    turn = row["message"] if isinstance(row.get("message"), dict) else row
    asked = _ASKED | _INPUTS if "role" in turn else _ASKED
    if not asked.isdisjoint(turn) or not ANSWER_KEYS.isdisjoint(row.keys() - _SAID):
        return False  # an answer with its prompt: the role is that of an account
    return ANSWER_KEYS.isdisjoint(turn.keys() - _SAID) and _is_others(turn)


def _is_others(turn: Row) -> bool:
    kind = turn.get("type")
    if isinstance(kind, str) and kind.endswith(_RESULT) and "call_id" in turn:
        return True
    if role := _name(turn.get("role")):
        return role not in MODEL_SPEAKS  # smolagents' tool-call and tool-response, and whatever others have
    said = next((name for key in _SPEAKERS if (name := _name(turn.get(key)))), "")
    return said in _OTHERS


def _name(speaker: Any) -> str:
    speaker = speaker.get("role") if isinstance(speaker, dict) else speaker
    return speaker.lower() if isinstance(speaker, str) else ""


def _unwrapped(_row: Row, _mapped: FieldMapping) -> list[Row]:
    return []


FORMAT = Envelope("turn of somebody else", _recognises, _unwrapped)
