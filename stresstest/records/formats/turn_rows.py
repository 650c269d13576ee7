"""Conversations of which each turn is a row: what the user, the system and the tools said is no answer."""

from __future__ import annotations

import re
from typing import Any

from stresstest.records.formats.adapter import Envelope, Row
from stresstest.records.formats.bodies.turns import MODEL_SPEAKS
from stresstest.records.formats.plain import ANSWER_KEYS
from stresstest.records.record import FieldMapping

_OTHERS = frozenset(
    {"system", "developer", "tool", "function", "tool_result", "toolresult", "environment"}
    | {"retrieval", "rerank", "embedding"}
)
_SPEAKERS = frozenset(
    {"sender", "from", "author", "type", "speaker", "actor", "participant"}
    | {"message_type", "messagetype", "msg_type"}
)
"""Fields, in lower case, that say who speaks, whoever that is."""
_ALSO = re.compile(
    r"^(name|source|origin|direction|event|party|who|(said|written)_?by"
    r"|(?!user|account|auth|client|owner)\w*(type|kind|role))$"
)
"""Fields that may say it, and name much else: they tell a user alone."""
_USERS = frozenset({"user", "human", "inbound", "incoming", "request"})
_PEOPLE = frozenset(
    {"customer", "visitor", "caller", "client", "guest", "patient", "student", "prompter", "end_user"}
)
_FLAG = r"^(is|from|by|sent_?by|is_?created_?by)_?({})(_?message)?$"
_BY_USER, _BY_MODEL = (re.compile(_FLAG.format(who)) for who in ("user|human", "bot|ai|assistant"))
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
    named = {key.lower(): value for key, value in turn.items()}
    flags = (
        (_BY_USER if value else _BY_MODEL, key) for key, value in named.items() if isinstance(value, bool)
    )
    if any(pattern.match(key) for pattern, key in flags):
        return True
    said = {_plain(_name(named[key])) for key in _SPEAKERS & named.keys()}
    also = {_plain(_name(value)) for key, value in named.items() if _ALSO.match(key)}
    if not MODEL_SPEAKS.isdisjoint(said | also):
        return False
    return not said.isdisjoint(_OTHERS | _USERS | _PEOPLE) or not also.isdisjoint(_USERS)


def _plain(name: str) -> str:
    """`HumanMessage` and `human_message` are a human's."""
    return re.sub(r"_?message$", "", name)


def _name(speaker: Any) -> str:
    speaker = speaker.get("role") if isinstance(speaker, dict) else speaker
    return speaker.lower() if isinstance(speaker, str) else ""


def _unwrapped(_row: Row, _mapped: FieldMapping) -> list[Row]:
    return []


FORMAT = Envelope("turn of somebody else", _recognises, _unwrapped)
