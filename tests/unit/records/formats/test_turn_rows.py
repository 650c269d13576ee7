"""Conversations of a turn a row: only the model's turns are answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stresstest.records import FieldMapping, parse_fields, parse_line

SAID = "The harbour wakes early."


def texts(row: dict[str, Any], mapped: FieldMapping | None = None) -> list[str]:
    return [each.text for each in parse_line(json.dumps(row).encode(), "f", 1, mapped or FieldMapping())]


@pytest.mark.parametrize(
    "row",
    [
        {"role": "user", "content": SAID},
        {"role": "system", "content": SAID, "timestamp": "2026-11-26T10:00:00"},
        {"role": "tool", "content": SAID, "tool_call_id": "c1"},
        {"type": "human", "content": SAID},
        {"role": "tool-response", "content": SAID},
        {"type": "user_message", "output": SAID, "threadId": "t"},
        {"sender": "user", "text": SAID},
        {"author": {"role": "user"}, "content": SAID},
        *(
            {key: "User", "text": SAID}
            for key in ("speaker", "source", "actor", "event", "message_type", "sender_type")
        ),
        {"messageType": "human", "content": SAID},
        {"msg_type": "HumanMessage", "content": SAID},
        {"direction": "inbound", "text": SAID},
        {"name": "user", "text": SAID},
        {"kind": "request", "text": SAID},
        {"sender": "customer", "text": SAID},
        {"isUser": True, "text": SAID},
        {"is_bot": False, "text": SAID},
        {"isCreatedByUser": True, "text": SAID},
        {"type": "function_call_output", "call_id": "c1", "output": SAID},
        {"type": "user", "message": {"role": "user", "content": SAID}},
    ],
)
def test_what_others_said_is_no_answer(row: dict[str, Any]) -> None:
    """Healthy turns of users and tools would water the rate down, and their lengths would certify."""
    assert texts(row) == []


@pytest.mark.parametrize(
    "row",
    [
        {"role": "assistant", "content": SAID},
        {"sender": "assistant", "text": SAID},
        {"type": "ai", "content": SAID},
        {"role": "user", "prompt": "Well?", "response": SAID},
        {"role": "user", "prompt": "Well?", "output": SAID},
        {"role": "admin", "input": "Well?", "output": SAID},
        {"type": "text", "text": SAID},
        {"speaker": "bot", "text": SAID},
        {"direction": "outbound", "text": SAID},
        {"name": "User Guide", "text": SAID},
        {"is_user": False, "text": SAID},
        {"is_bot": True, "text": SAID},
        {"client_type": "customer", "text": SAID},
        {"user_role": "user", "text": SAID},
        {"task_type": "retrieval", "text": SAID},
        {"is_agent": False, "text": SAID},
        {"source": "assistant", "user_role": "user", "text": SAID},
        {"source": "human", "prompt": "Well?", "text": SAID},
    ],
)
def test_what_the_model_said_is_one(row: dict[str, Any]) -> None:
    """Also where the role is that of the user who asked."""
    assert texts(row) == [SAID]


def test_the_users_own_layout_decides() -> None:
    """A model may play the user."""
    row = {"role": "user", "content": SAID}
    assert texts(row, parse_fields(["response=content"])) == [SAID]
