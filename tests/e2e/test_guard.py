"""The guard before real vLLM: what passes is what vLLM sent, to the openai SDK and to curl as well."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.support.guard_process import guard

pytestmark = pytest.mark.vllm

CHAT, TEXT = "/chat/completions", "/completions"
BASE: dict[str, Any] = {"model": "lab", "max_tokens": 40, "seed": 5, "temperature": 0.8}
SAID = {"messages": [{"role": "user", "content": "Scrivi una storia in 40 paragrafi numerati."}]}
USAGE = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, {**BASE, **SAID}),
    "chat stream": (CHAT, {**BASE, **SAID, "stream": True}),
    "with everything": (CHAT, {**BASE, **SAID, **USAGE, "logprobs": True, "top_logprobs": 5, "n": 2}),
    "tools": (CHAT, {**BASE, **SAID, "tools": [TOOL], "tool_choice": "none", "stream": True}),
    "token ids": (CHAT, {**BASE, **SAID, "stream": True, "return_token_ids": True}),
    "text": (TEXT, {**BASE, "prompt": "Paragrafo 1."}),
    "text stream": (TEXT, {**BASE, "prompt": ["Paragrafo 1.", "Paragrafo 2."], **USAGE}),
    "responses": (
        "/responses",
        {"model": "lab", "input": "Scrivi.", "max_output_tokens": 20, "temperature": 0},
    ),
    "too long": (CHAT, {**BASE, **SAID, "max_tokens": 999_999}),
    "no model": (CHAT, {**BASE, **SAID, "model": "none"}),
    "no JSON": (CHAT, {}),
}
_OWN = re.compile(
    rb'"(?:id|created|created_at|completed_at|item_id)": ?(?:"[^"]*"|[\d.]+)'
    rb"|(?:chatcmpl|cmpl|resp|msg)[-_][0-9a-f]+"
)
"""What vLLM makes up anew for every answer."""


@pytest.fixture(scope="module")
def guarded(lab_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Base URL of a guard before the lab's vLLM."""
    with guard(lab_url, folder=tmp_path_factory.mktemp("guard")) as (url, _):
        yield url


def reply(url: str, body: dict[str, Any]) -> tuple[int, str | None, list[bytes]]:
    """(status, content type, events without what is new in every answer).

    vLLM itself changes the order of different choices' events from one answer to the next: they are sorted.
    """
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            found = answer.status, answer.headers["content-type"], answer.read()
    except urllib.error.HTTPError as error:
        found = error.code, error.headers["content-type"], error.read()
    status, content_type, got = found
    several = body.get("n") or isinstance(body.get("prompt"), list)
    events = _OWN.sub(b"", got).split(b"\n\n")
    return status, content_type, sorted(events) if several else events


@pytest.mark.parametrize("name", ASKED)
def test_an_answer_of_vllm_passes_byte_for_byte(guarded: str, lab_url: str, name: str) -> None:
    """Streamed or not, several choices, usage, logprobs, tools, errors: with a seed, answers repeat.

    A busy vLLM puts two tokens into one event now and then, with the guard or without it, so each answer has
    three tries; a guard that changed a byte would change it in all of them.
    """
    path, body = ASKED[name]
    for _ in range(3):
        passed, sent = reply(guarded + path, body), reply(lab_url + path, body)
        if passed == sent:
            return
    assert passed == sent


def test_the_openai_sdk_passes_through(guarded: str) -> None:
    """Streamed, not streamed, and an error with vLLM's own sentence."""
    client = openai.OpenAI(base_url=guarded, api_key="sk-none", max_retries=0)
    whole = client.chat.completions.create(**{**BASE, **SAID})
    stream = client.chat.completions.create(**{**BASE, **SAID, "stream": True})
    streamed = "".join(part.choices[0].delta.content or "" for part in stream if part.choices)
    assert streamed == whole.choices[0].message.content
    with pytest.raises(openai.BadRequestError, match="max_tokens"):
        client.chat.completions.create(**{**BASE, **SAID, "max_tokens": 999_999})


def test_curl_passes_through(guarded: str) -> None:
    """With its own framing, and events as they come."""
    body = json.dumps({**BASE, **SAID, "stream": True})
    done = subprocess.run(
        ["curl", "-sN", guarded + CHAT, "-H", "Content-Type: application/json", "-d", body],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert done.stdout.endswith("data: [DONE]\n\n")


def test_abort_ends_vllms_generation(lab_url: str, tmp_path: Path) -> None:
    """The openai SDK reads the end of an answer that is made to loop, and vLLM stops generating."""
    body = {**BASE, "prompt": "Paragrafo 1.", "max_tokens": 4000, "logit_bias": {"300": 100, "301": 99.9}}
    with guard(lab_url, "--policy", "abort", folder=tmp_path) as (url, _):
        client = openai.OpenAI(base_url=url, api_key="sk-none", max_retries=0)
        answer = client.completions.create(**body)
    assert answer.choices[0].finish_reason == "length"
    assert answer.model_extra is not None
    assert answer.model_extra["stresstest_guard"]["alarm"] < 4000
