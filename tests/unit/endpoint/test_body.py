"""The body of a request: what the user brings, under what a measurement sets."""

from __future__ import annotations

from stresstest.endpoint.wire import RequestFeatures, build_body
from stresstest.model import Decoding, GenerationRequest, Message

EXTRA = '{"stop":["END"],"tools":[{"type":"function"}]}'


def test_fields_of_decoding_and_prompt_are_sent() -> None:
    """Both reach the server beside the parameters; image parts go as they were given."""
    turn = Message("user", "Look.", '{"content":[{"text":"Look.","type":"text"}],"role":"user"}')
    request = GenerationRequest(
        "m", 9, Decoding(temperature=0.5, extra_body=EXTRA), messages=(turn,), body='{"user":"u"}'
    )
    body = build_body(request, "m", RequestFeatures())
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Look."}]}]
    assert (body["stop"], body["user"], body["temperature"], body["max_tokens"]) == (["END"], "u", 0.5, 9)
    assert body["tools"]


def test_a_continuation_leaves_the_prompts_fields_out() -> None:
    """Its ids hold the prompt already, tools included."""
    request = GenerationRequest("m", 9, Decoding(extra_body=EXTRA), prompt=(1, 2))
    body = build_body(request, "m", RequestFeatures())
    assert "tools" not in body
    assert body["stop"] == ["END"]
