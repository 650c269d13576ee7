"""The keys of a request, out of what is logged of its answer."""

from __future__ import annotations

import base64
import json

import pytest

from stresstest.features.guard.keys import request_keys
from tests.support.fake_vllm import DONE, Events, chunk, sse
from tests.support.guarded import ASK, CHAT, guarded

KEY = "sk-9f8e7d6c5b4a3b2c"


@pytest.mark.parametrize("name", ["Authorization", "api-key", "X-Api-Key", "x-goog-api-key"])
async def test_a_key_that_the_upstream_repeats_is_not_logged(name: str) -> None:
    """As the answer's id, its finish reason or its text it was in the log, which many may read."""
    words = [f" {word}" for word in f"The key is {KEY} and I say it.".split()] * 40
    events = [{**chunk(word), "id": KEY} for word in words] + [{**chunk(finish=f"stop {KEY}"), "id": KEY}]
    async with guarded(Events([*sse(*events), DONE]), every=True, text=True) as here:
        reply = await here.ask(CHAT, ASK, **{name: f"Bearer {KEY}" if name == "Authorization" else KEY})
        await here.judged(1)
    assert KEY in reply.body.decode()
    (line,) = here.log
    assert (line["id"], line["symptom"]) == ("***", "loop")
    shown = json.dumps(line)
    assert not any(KEY[at : at + 8] in shown for at in range(len(KEY) - 7))


def test_what_is_no_key_is_left() -> None:
    """And basic authentication has a password."""
    basic = base64.b64encode(b"ann:pass-word-1").decode()
    assert request_keys({"Content-Type": "application/json", "traceparent": "00-1234567890abcdef-01"}) == ()
    assert {basic, "pass-word-1"} <= set(request_keys({"authorization": f"Basic {basic}"}))
    azure = request_keys({"X-Session-Id": "s-123-abc"}, {"code": "AzFu-9876", "sig": "a/b-1234"})
    assert {"AzFu-9876", "s-123-abc", "a/b-1234", "a%2Fb-1234"} <= set(azure)
    several = request_keys({"Cookie": "session=abc-123-def; theme=dark"}, {"api_key": "k-12", "page": "3"})
    assert set(several) == {"abc-123-def", "dark", "k-12"}
    assert request_keys({"authorization": "Basic %%%"}) == ("%25%25%25", "%%%")
