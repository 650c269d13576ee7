"""Answers that a log keeps in the pieces of their stream: no piece passes for an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stresstest.records import FieldMapping, Record, UnreadableError, parse_line
from tests.support.stories import story

TEXT = story(6)


def read(row: Any) -> list[Record]:
    return parse_line(json.dumps(row).encode(), "f.jsonl", 1, FieldMapping())


@pytest.mark.parametrize(
    "row",
    [
        {"model": "m", "created_at": "2026-01-01T00:00:00Z", "response": " lamp", "done": False},
        {"model": "m", "created_at": "2026-01-01T00:00:00Z", "message": {"content": " l"}, "done": False},
        {"object": "text_completion", "choices": [{"index": 0, "text": " lamp", "finish_reason": None}]},
        {"object": "text_completion", "choices": [{"text": "a", "finish_reason": None}], "usage": {"x": 1}},
        {"response": {"object": "text_completion", "choices": [{"text": "a", "finish_reason": None}]}},
        {"type": "AIMessageChunk", "content": "a"},
        {"prompt": "x", "outputs": [{"index": 0, "text": "a"}], "finished": False},
        {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": " lamp"}}]},
    ],
    ids=[
        "Ollama",
        "Ollama's chat",
        "a completion's event",
        "with usage",
        "logged",
        "LangChain",
        "vLLM",
        "a chat's event",
    ],
)
def test_an_event_of_a_stream_is_no_answer(row: Any) -> None:
    """Each is short and healthy, so that a thousand of them would pass as a thousand healthy answers."""
    with pytest.raises(UnreadableError, match="a piece of a streamed answer"):
        read(row)


@pytest.mark.parametrize("line", [b'data: {"choices": []}', b"data: [DONE]", b"event: message_stop"])
def test_a_dump_of_server_sent_events_is_named(line: bytes) -> None:
    """Each line was "not JSON (invalid character (byte 0))", which does not tell what to do."""
    with pytest.raises(UnreadableError, match="a piece of a streamed answer"):
        list(parse_line(line, "f.jsonl", 1, FieldMapping()))


def test_what_ends_a_stream_or_was_never_one_is_read() -> None:
    """Ollama's whole answers say that they are done; a completion's body has its end or its usage."""
    (whole,) = read({"model": "m", "created_at": "2026-01-01", "response": TEXT, "done": True})
    assert whole.text == TEXT
    choice = {"index": 0, "text": TEXT, "finish_reason": None}
    (used,) = read({"object": "text_completion", "choices": [choice], "usage": {"completion_tokens": 300}})
    assert used.text == TEXT
    (rollout,) = read({"prompt": "Tell.", "response": TEXT, "done": False, "reward": 0.1})
    assert rollout.text == TEXT
    message = {"role": "assistant", "content": TEXT}
    (joined,) = read({"object": "chat.completion.chunk", "choices": [{"message": message}]})
    assert joined.text == TEXT


@pytest.mark.parametrize("leading", [True, False])
def test_a_list_of_tokens_is_one_answer(leading: bool) -> None:
    """As Replicate returns it."""
    words = TEXT.split(" ")
    tokens = [f" {word}" if leading else f"{word} " for word in words]
    (record,) = read({"input": {"prompt": "Tell."}, "output": tokens, "status": "succeeded"})
    assert record.text.strip() == TEXT


def test_a_list_of_short_texts_that_may_be_pieces_is_refused() -> None:
    """Neither joined, which makes a loop of equal labels, nor counted, which makes health of a loop."""
    for texts in (["今日", "は", "良い"] * 20, [" positive"] * 64, ["Yes", "No"] * 8):
        with pytest.raises(UnreadableError, match="may be the pieces of one answer"):
            read({"prompt": "x", "output": texts})
    assert len(read({"prompt": "x", "output": ["Yes", "No"] * 3})) == 6
    assert len(read({"prompt": "x", "output": ["The answer is 7."] * 16})) == 16


def test_several_answers_stay_several() -> None:
    """Sixteen samples of one prompt are sixteen answers."""
    assert len(read({"prompt": "x", "output": [f"{n}. {TEXT}" for n in range(16)]})) == 16


def chunks(text: str) -> list[dict[str, Any]]:
    """A chat's events, a few characters each."""
    return [
        {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": text[n : n + 9]}}]}
        for n in range(0, len(text), 9)
    ]


def events(values: list[dict[str, Any]], before: str = "", newline: str = "\n") -> str:
    return "".join(f"{before}data: {json.dumps(each)}{newline}{newline}" for each in values)


DONE = "data: [DONE]\n\n"
DELTAS = [{"type": "content_block_delta", "index": 0, "delta": {"text": TEXT[n : n + 9]}} for n in (0, 9, 18)]
LINES = [
    {"model": "m", "created_at": "2026", "response": TEXT[n : n + 9], "done": False} for n in range(0, 90, 9)
]
PARTS = [{"candidates": [{"content": {"parts": [{"text": TEXT[n : n + 9]}]}}]} for n in range(0, 90, 9)]


@pytest.mark.parametrize(
    "body",
    [
        events(chunks(TEXT)) + DONE,
        events(chunks(TEXT), newline="\r\n"),
        ": ping\n\n" + events(chunks(TEXT)),
        events(DELTAS, before="event: content_block_delta\n"),
        "\n".join(map(json.dumps, LINES)),
        "\n".join(map(json.dumps, chunks(TEXT))),
        "".join(f"data: {TEXT[n : n + 9]}\n\n" for n in range(0, 90, 9)).replace("\n\n\n", "\n\n"),
        "".join(f"0:{json.dumps(TEXT[n : n + 9])}\n" for n in range(0, 90, 9)),
        json.dumps({"streamed_data": chunks(TEXT)}),
        json.dumps(chunks(TEXT)),
        json.dumps(PARTS),
        str(events(chunks(TEXT)).encode()),
    ],
    ids=[
        *("chat", "CRLF", "comment", "Anthropic", "Ollama", "lines of a chat", "plain text", "AI SDK"),
        *("Cloudflare", "list", "Gemini", "bytes"),
    ],
)
def test_the_body_of_a_stream_in_one_text_is_no_answer(body: str) -> None:
    """A proxy that logs bodies keeps streams like this: of 11 answers of gibberish 10 were healthy as JSON,
    and the gate passed."""
    with pytest.raises(UnreadableError, match="the events of a streamed answer"):
        read({"prompt": "Tell.", "response": body})
    with pytest.raises(UnreadableError, match="the events of a streamed answer"):
        mapped = FieldMapping({"response": ("log", "body")})
        parse_line(json.dumps({"log": {"body": body}}).encode(), "f.jsonl", 1, mapped)


@pytest.mark.parametrize(
    "text",
    [
        "data: {name: lamp}\nkind: light\n",
        "event: the opening of the harbour\ndata: unknown\n",
        "data: [1, 2]\nmore: [3]\n",
        "1: [a]\n2: [b]\nThe rest follows.\n",
        json.dumps({"candidates": ["Ada", "Grace"], "winner": "Ada"}),
        json.dumps({"done": False, "steps": ["a", "b"]}) + "\n" + json.dumps({"done": True}),
        "The server sends:\n\n" + events(chunks(TEXT[:60])),
    ],
)
def test_answers_that_look_like_events_are_read(text: str) -> None:
    """YAML, records, and an answer that explains a stream."""
    (found,) = read({"prompt": "Tell.", "response": text})
    assert found.text == text


@pytest.mark.parametrize("start", [":", "data: {}", "event: a", "0:{}", "id: 1\ndata: {}"])
def test_no_text_is_slow_to_tell_from_a_stream(start: str) -> None:
    """Blank lines without an end are matched in one way; with two ways each, this would take for ever."""
    text = start + "\n" * 50_000 + "x"
    assert read({"prompt": "Tell.", "response": text})
