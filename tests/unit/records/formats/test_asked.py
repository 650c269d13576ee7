"""Where rows keep what was asked: answers to one prompt are one prompt's, and no independent evidence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stresstest.records import FieldMapping, Record, parse_line

TURNS = [{"role": "user", "content": "Why?"}]
REQUEST = {"model": "m", "messages": TURNS, "max_tokens": 512}
BODY = {
    "id": "a",
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "So."}, "finish_reason": "stop"}],
}


def read(row: dict[str, Any]) -> Record:
    (record,) = parse_line(row, "a.jsonl", 1, FieldMapping())
    return record


@pytest.mark.parametrize(
    "row",
    [
        {"request": json.dumps(REQUEST), "response": json.dumps(BODY)},  # Databricks, MLflow
        {"request_body": REQUEST, "response": BODY},
        {  # Kong's log of HTTP
            "request": {"body": json.dumps(REQUEST), "url": "/v1/chat/completions"},
            "response": {"status": 200, "body": json.dumps(BODY)},
        },
        {"messages": {}, "proxy_server_request": REQUEST, "response": BODY},  # LiteLLM's spend logs
        {"messages": "{}", "proxy_server_request": json.dumps(REQUEST), "response": json.dumps(BODY)},
        {"messages": json.dumps(TURNS), "max_tokens": 512, "response": BODY},
    ],
)
def test_a_request_is_read_wherever_it_is_kept(row: dict[str, Any]) -> None:
    """Two hundred answers to four prompts passed as two hundred independent ones."""
    record = read(row)
    assert (record.prompt_text, record.max_tokens) == ("Why?", 512)
    assert [(turn.role, turn.content) for turn in record.messages] == [("user", "Why?")]
    assert record.prompt_key == read({"request": REQUEST, "response": BODY}).prompt_key


@pytest.mark.parametrize("key", ["instruction", "question", "query", "user_input"])
def test_what_evaluations_call_the_prompt_is_one(key: str) -> None:
    """distilabel's instruction, Ragas' user_input; beside a prompt, they are part of it."""
    record = read({key: "Why?", "generation": "So."})
    assert record.prompt_text == "Why?"
    assert record.prompt_key == read({"prompt": "Why?", "generation": "So."}).prompt_key
    assert read({key: "Say it.", "prompt": "Why?", "generation": "So."}).prompt_text == "Why?"


@pytest.mark.parametrize("request_text", ["Why?", '{"question": "Why?"}', '{"prompt": "Why?"}'])
def test_the_request_of_a_trace_is_the_prompt(request_text: str) -> None:
    """MLflow's traces hold what a function was called with, whatever it calls it."""
    assert read({"request": request_text, "response": "So."}).prompt_text == "Why?"


@pytest.mark.parametrize("text", ["[1, 2]", '{"a": 1}'])
def test_a_prompt_that_is_json_stays_a_text(text: str) -> None:
    """It was asked so."""
    assert read({"prompt": text, "response": "So."}).prompt_text == text


@pytest.mark.parametrize(
    "asked",
    [
        {"args": ["Why?"], "kwargs": {"client": "<OpenAI object at 0x7f02a2271e40>"}},  # Langfuse's @observe
        {"question": "Why?"},  # Braintrust, Weave
        [128000, 10445, 30],  # the ids of tokens
    ],
)
def test_a_prompt_that_nobody_can_read_is_one_all_the_same(asked: Any) -> None:
    """Its answers share it, though it is no text to look for in them."""
    record, other = (read({"input": each, "output": "So."}) for each in (asked, ["How?"]))
    assert record.prompt_key is not None
    assert record.prompt_key != other.prompt_key
    assert (record.prompt_text, record.whole_prompt) == ("", False)
    assert record.prompt_key == read({"input": asked, "output": "Not so."}).prompt_key


@pytest.mark.parametrize(
    ("field", "one", "other", "same"),
    [
        ("system", "It is 04:00:17.", "It is 05:12:09.", True),
        ("system", "Be brief.", "Be verbose.", False),
        ("context", [1, 2, 3], [4, 5, 6], True),  # Ollama's: the tokens of prompt and answer
        ("context", ["The sea."], ["The wood."], False),
        ("previous_response_id", "resp_0a1b2c3d4e", "resp_9f8e7d6c5b", False),
    ],
)
def test_what_stands_beside_a_prompt_makes_it_another(field: str, one: Any, other: Any, same: bool) -> None:
    """But for times and ids, which are new in each request."""
    first, second = (read({"prompt": "Why?", field: value, "response": "So."}) for value in (one, other))
    assert (first.prompt_key == second.prompt_key) is same


def test_what_a_tool_returned_was_not_asked_for() -> None:
    """Its JSON has every title in quotes, as a line that is to be repeated: loops over one were healthy."""
    turns = [*TURNS, {"role": "tool", "tool_call_id": "c", "content": '[{"title": "How to reset it"}]'}]
    record = read({"messages": turns, "response": BODY})
    assert "How to reset it" in record.prompt_text
    assert record.requested_text == "Why?"


def test_a_history_within_a_message_is_no_request() -> None:
    """LangChain's chains and agents send one message of the user's with what was said and returned before."""
    loop = "The valve is closed. " * 6
    history = f"Current conversation:\nHuman: Why?\nAI: {loop}\nHuman: More.\nAI:"
    agent = f"Question: why?\nThought: look\nObservation: {loop}\nThought:"
    for content in (history, agent):
        record = read({"messages": [{"role": "user", "content": content}], "text": "So."})
        assert record.prompt_text == content
        assert record.requested_text is not None
        assert "valve" not in record.requested_text
    assert read({"messages": [{"role": "user", "content": loop}], "text": "So."}).requested_text is None


_JS = {"lc": 1, "type": "constructor", "kwargs": {"content": "SAID"}}


@pytest.mark.parametrize(
    "turn",
    [
        {"role": "assistant", "content": "SAID"},
        {"type": "AIMessageChunk", "data": {"content": "SAID", "type": "AIMessageChunk"}},
        {**_JS, "id": ["langchain_core", "messages", "AIMessage"]},
        {**_JS, "id": ["langchain_core", "messages", "ToolMessage"]},
        {"role": "tool-response", "content": "SAID"},
        {"role": "toolResult", "content": "SAID"},
        {"role": "CHATBOT", "content": "SAID"},
        {"type": "TextMessage", "source": "weather_agent", "content": "SAID"},
        {"type": "AssistantMessage", "source": "planner", "content": "SAID"},
        {"role": "user", "content": "Observation:\nSAID"},
        {"role": "user", "content": "<tool_response>\nSAID\n</tool_response>"},
    ],
)
def test_whoever_is_no_user_asks_for_nothing(turn: dict[str, Any]) -> None:
    """A menu of languages on a page, or a greeting, welcomed Chinese, and the gate passed at five times its
    limit: the names of speakers were a closed list."""
    asked = [{"role": "user", "content": "Why?"}, turn, {"type": "human", "content": "More."}]
    record = read({"messages": asked, "text": "So."})
    assert record.requested_text is not None
    assert "SAID" not in record.requested_text
    assert "Why?" in record.requested_text
    assert "More." in record.requested_text
