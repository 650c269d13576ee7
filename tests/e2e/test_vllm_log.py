"""What real vLLM writes into its log of requests, and what it leaves out of it."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from stresstest.records import read_chunks
from stresstest.records.formats.registry import parse_line
from stresstest.records.record import FieldMapping, Record
from tests.lab.serve import MODELS, serve

pytestmark = pytest.mark.vllm

ASKED: dict[str, Any] = {
    "model": "lab",
    "messages": [{"role": "user", "content": "Scrivi una storia in 40 paragrafi numerati."}],
    "temperature": 0.8,
}
LEFT_AFTER = 40
"""Lines of a stream, every second of which holds a token, that its client reads."""


def ask(url: str, lines: int | None = None, **body: Any) -> None:
    """Send a request; lines: leave its stream after so many."""
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        if lines is None:
            answer.read()
        else:
            for _ in range(lines):
                answer.readline()


def read(path: Path) -> list[Record]:
    return [
        record
        for chunk in read_chunks(str(path))
        for line, raw in chunk.items
        for record in parse_line(raw, chunk.source, line, FieldMapping())
    ]


def test_every_request_is_an_answer_or_known_to_have_none(tmp_path: Path) -> None:
    """Whole and streamed answers, both choices of one request, the Responses API's, Anthropic's, what a
    client left in the midst of it, and the completions endpoint, of whose answers vLLM writes nothing."""
    log = tmp_path / "vllm.log"
    with serve(
        MODELS / "lab", "lab", None, ("--enable-log-requests", "--enable-log-outputs"), log_file=log
    ) as url:
        ask(f"{url}/chat/completions", **ASKED, max_tokens=60)
        ask(f"{url}/chat/completions", **ASKED, max_tokens=60, stream=True)
        ask(f"{url}/chat/completions", **ASKED, max_tokens=40, n=2)
        ask(f"{url}/responses", model="lab", input="Scrivi una storia.", max_output_tokens=40)
        ask(f"{url}/messages", **ASKED, max_tokens=40)
        ask(f"{url}/completions", model="lab", prompt="Paragrafo 1.", max_tokens=40)
        ask(f"{url}/chat/completions", LEFT_AFTER, **ASKED, max_tokens=3000, stream=True)
        ended = time.monotonic() + 240
        while not any(each.finish_reason == "abort" for each in read(log)) and time.monotonic() < ended:
            time.sleep(0.2)  # a busy server notices late that the client has left
    found = read(log)
    whole, streamed, *several, responses, messages, left = (each for each in found if each.has_text)
    (unseen,) = (each for each in found if not each.has_text)
    assert all(each.text.strip() for each in found if each.has_text)
    assert (whole.finish_reason, whole.max_tokens, streamed.max_tokens) == ("length", 60, 60)
    assert [(each.finish_reason, each.max_tokens) for each in (*several, responses, messages)] == [
        ("length", 40)
    ] * 4
    assert unseen.id.startswith("cmpl-")
    assert (left.finish_reason, left.max_tokens) == ("abort", 3000)
    assert len(left.text.split()) >= LEFT_AFTER // 8
