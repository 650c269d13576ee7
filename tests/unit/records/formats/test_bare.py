"""Answers without the response body around them, in the layouts that tracers and clients write.

`tests/integrations/check_writers.py` reads what their SDKs write; these are cut from it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from stresstest.records import FieldMapping, Record, UnreadableError, parse_line

SAID, CUT = "The harbour wakes early.", '{"q": "the gulls and the gulls'


def read(row: dict[str, Any]) -> list[Record]:
    return parse_line(json.dumps(row).encode(), "f", 1, FieldMapping())


def message(**more: Any) -> dict[str, Any]:
    return {"role": "assistant", **more}


def dumped(**more: Any) -> dict[str, Any]:
    """LangChain's message, as it serialises it."""
    kwargs = {"content": "", "type": "ai", "tool_calls": [], "invalid_tool_calls": [], **more}
    return {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "AIMessage"],
        "kwargs": kwargs,
    }


def generation(told: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"text": "", "generation_info": told, "message": dumped(**more)}


CALL = {"id": "c", "function": {"name": "look", "arguments": CUT}}
ITEM_CALL = {"type": "function_call", "name": "look", "arguments": CUT}
THOUGHT = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": SAID}]}
SAYS = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": SAID}]}


@pytest.mark.parametrize("key", ["response", "output", "completion", "result", "message"])
@pytest.mark.parametrize(
    ("held", "texts"),
    [
        (message(content=SAID), [(SAID, "")]),
        (message(content=None, tool_calls=[CALL]), [(CUT, "")]),
        (message(content=None, reasoning_content=SAID), [("", SAID)]),
        (message(content=None, refusal="I cannot."), [("I cannot.", "")]),
        ([message(content=SAID), message(content=None, tool_calls=[CALL])], [(SAID, ""), (CUT, "")]),
        (ITEM_CALL, [(CUT, "")]),
        ([THOUGHT, SAYS], [(SAID, SAID)]),
        ({"generations": [[generation(content=SAID), generation(content="No.")]]}, [(SAID, ""), ("No.", "")]),
        ({"generations": [[{"text": SAID, "generation_info": None}]]}, [(SAID, "")]),
        ({"generations": [[generation(invalid_tool_calls=[{"args": CUT}])]]}, [(CUT, "")]),
        (dumped(content=[{"type": "text", "text": SAID}]), [(SAID, "")]),
    ],
)
def test_what_a_client_returned_is_the_answer(key: str, held: Any, texts: list[tuple[str, str]]) -> None:
    """Most tracers log the message and not the body around it; several are several answers, not one text."""
    found = read({"prompt": "Tell me of the harbour.", key: held})
    assert [(each.text, each.reasoning) for each in found] == texts
    assert {each.prompt_text for each in found} == {"Tell me of the harbour."}


RESPONSE = {"object": "response", "status": "incomplete", "output": [SAYS]}
ANTHROPICS = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": SAID}]}
CHAT = {"object": "chat.completion", "choices": [{"message": message(content=SAID)}]}


@pytest.mark.parametrize("key", ["response", "output", "completion"])
@pytest.mark.parametrize("body", [RESPONSE, ANTHROPICS, CHAT], ids=["Responses", "Anthropic", "chat"])
def test_a_body_that_is_kept_as_json_text_is_a_body(key: str, body: dict[str, Any]) -> None:
    """`model_dump_json()`, LiteLLM's spend logs: judged as text, an empty answer at its cap looked whole, and
    Chinese was written in escapes."""
    [record] = read({key: json.dumps(body)})
    assert record.text == SAID


@pytest.mark.parametrize("said", [{"output": [{"content": SAID}]}, {"type": "message", "text": SAID}, [SAYS]])
def test_json_that_a_model_wrote_is_its_text(said: Any) -> None:
    """Only what says of itself that it is a body is one."""
    [record] = read({"response": json.dumps(said)})
    assert record.text == json.dumps(said)


@pytest.mark.parametrize(
    ("told", "more", "finish"),
    [
        ({"finish_reason": "length"}, {}, "length"),
        (None, {"response_metadata": {"finish_reason": "length"}}, "length"),
        (
            None,
            {"response_metadata": {"incomplete_details": {"reason": "max_output_tokens"}}},
            "max_output_tokens",
        ),
        (None, {}, None),
    ],
)
def test_langchain_tells_why_an_answer_ended(told: Any, more: dict[str, Any], finish: str | None) -> None:
    """In three places; a cut answer must not count as one that ended."""
    usage = {"usage_metadata": {"input_tokens": 9, "output_tokens": 512}}
    [record] = read({"output": {"generations": [[generation(told, content=SAID, **usage, **more)]]}})
    assert (record.finish_reason, record.completion_tokens) == (finish, 512)


def test_a_call_that_langchain_keeps_twice_is_read_once() -> None:
    """Parts of the content and `tool_calls` hold the same call: a doubled text looks like a repetition."""
    twice = {"type": "ai", "content": [ITEM_CALL], "tool_calls": [{"name": "look", "args": {"q": "x"}}]}
    for row in (twice, {"prompt": "Look.", "response": twice}):
        assert [each.text for each in read(row)] == [CUT]


@pytest.mark.parametrize(
    "turns",
    [
        [{"type": "human", "content": "Well?"}, {"type": "ai", "content": SAID}],
        [{"type": "human", "data": {"content": "Well?"}}, {"type": "ai", "data": {"content": SAID}}],
        [{**dumped(content="Well?", type="human")}, dumped(content=SAID)],
        [{"role": "user", "content": "Well?"}, {"role": "assistant", "content": None, "refusal": SAID}],
    ],
)
def test_conversations_of_clients(turns: list[dict[str, Any]]) -> None:
    """LangChain calls the speaker a type, and a refusal stands beside the content."""
    [record] = read({"messages": turns})
    assert (record.text, record.prompt_text) == (SAID, "Well?")


@pytest.mark.parametrize(
    ("row", "finish", "tokens"),
    [
        ({"message": message(content=SAID), "done_reason": "length", "eval_count": 9}, "length", 9),
        (
            {"text": SAID, "meta_info": {"finish_reason": {"type": "length"}, "completion_tokens": 9}},
            "length",
            9,
        ),
        (
            {"output": {"choices": [{"message": message(content=SAID), "stop_reason": "max_tokens"}]}},
            "max_tokens",
            None,
        ),
    ],
    ids=["Ollama", "SGLang", "Inspect"],
)
def test_why_an_answer_ended_in_other_words(row: dict[str, Any], finish: str, tokens: int | None) -> None:
    """A cut answer whose end is not known counts as one that ended."""
    [record] = read(row)
    assert (record.text, record.finish_reason, record.completion_tokens) == (SAID, finish, tokens)


@pytest.mark.parametrize(
    "held", [message(), message(content=None), {"answer": SAID}, [{"role": "user", "content": SAID}, 3], 7]
)
def test_anything_else_is_no_answer(held: Any) -> None:
    """It is refused with its reason, never read as an empty answer."""
    with pytest.raises(UnreadableError):
        read({"prompt": "Tell me.", "response": held})
