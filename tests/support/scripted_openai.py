"""An endpoint of the OpenAI protocol whose answers are known: the name of the answer stands in the prompt."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SAID = (
    "The harbour wakes before the town does. Crates are counted by lamplight, and whoever comes late finds "
    "the best fish gone. By noon the quay is empty again, and only the gulls still argue about the price."
)
LOOP = "The quay was quiet at first. " + "The gulls came back and the gulls came back again. " * 40
_NAMED = re.compile(r"answer=([a-z+]+)")
_USAGE = {"prompt_tokens": 20, "completion_tokens": 512, "total_tokens": 532}


@dataclass(frozen=True, slots=True)
class Scripted:
    """One answer: content, reasoning, the arguments of a call, and why it ended."""

    content: str | None = None
    reasoning: str | None = None
    arguments: str | None = None
    finish: str = "stop"

    @property
    def text(self) -> str:
        """What the model wrote as the answer."""
        return (self.content or "") + (self.arguments or "")


ANSWERS = {
    "said": Scripted(SAID),
    "loops": Scripted(LOOP, finish="length"),
    "calls": Scripted(arguments='{"q": "' + LOOP, finish="length"),
    "thinks": Scripted(SAID, reasoning=LOOP),
    "thought": Scripted(reasoning=LOOP, finish="length"),
}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


def prompt_for(name: str) -> str:
    """The prompt that gets the answer, or of "said+loops" the two answers, of this name."""
    return f"Tell me of the harbour, answer={name} please."


def scripted(name: str) -> list[Scripted]:
    """The answers of a name, in order."""
    return [ANSWERS[each] for each in name.split("+")]


@contextmanager
def endpoint() -> Iterator[str]:
    """Serves for the length of a `with` block; the base address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answers = scripted(_NAMED.findall(json.dumps(asked))[-1])
        if self.path.endswith("/responses"):
            body, events = _response(answers[0]), None
        else:
            body, events = _chat(answers), _chunks(answers)
        if asked.get("stream") and events is not None:
            self._stream(events)
        else:
            self._send(json.dumps(body).encode(), "application/json")

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, events: Sequence[dict[str, Any]]) -> None:
        lines = [*(f"data: {json.dumps(event)}\n\n" for event in events), "data: [DONE]\n\n"]
        self._send("".join(lines).encode(), "text/event-stream")


def _chat(answers: Sequence[Scripted]) -> dict[str, Any]:
    choices = [
        {"index": n, "finish_reason": each.finish, "message": {"role": "assistant", **_message(each)}}
        for n, each in enumerate(answers)
    ]
    return {**_envelope("chat.completion"), "choices": choices, "usage": _USAGE}


def _message(answer: Scripted) -> dict[str, Any]:
    thought = {} if answer.reasoning is None else {"reasoning_content": answer.reasoning}
    return {"content": answer.content, **thought, **_calls(answer.arguments)}


def _calls(arguments: str | None) -> dict[str, Any]:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": arguments}}
    return {} if arguments is None else {"tool_calls": [call]}


def _chunks(answers: Sequence[Scripted]) -> list[dict[str, Any]]:
    found = []
    for n, answer in enumerate(answers):
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"reasoning_content": each} for each in _pieces(answer.reasoning)]
        deltas += [{"content": each} for each in _pieces(answer.content)]
        deltas += [_calls(answer.arguments)] if answer.arguments else []
        ends: list[tuple[dict[str, Any], str | None]] = [(delta, None) for delta in deltas] + [
            ({}, answer.finish)
        ]
        found += [
            {
                **_envelope("chat.completion.chunk"),
                "choices": [{"index": n, "delta": delta, "finish_reason": finish}],
            }
            for delta, finish in ends
        ]
    return [*found, {**_envelope("chat.completion.chunk"), "choices": [], "usage": _USAGE}]


def _pieces(text: str | None) -> list[str]:
    return re.findall(r"\s*\S+", text or "")


def _envelope(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1_795_291_200, "model": "m"}


def _response(answer: Scripted) -> dict[str, Any]:
    """A body of the Responses API."""
    items: list[dict[str, Any]] = []
    if answer.reasoning:
        content = [{"type": "reasoning_text", "text": answer.reasoning}]
        items.append({"type": "reasoning", "id": "r1", "summary": [], "content": content})
    if answer.content:
        said = [{"type": "output_text", "text": answer.content, "annotations": []}]
        items.append(
            {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": said}
        )
    if answer.arguments:
        call = {"id": "f1", "call_id": "c1", "name": "look", "arguments": answer.arguments}
        items.append({"type": "function_call", "status": "completed", **call})
    cut = answer.finish == "length"
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_795_291_200,
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "model": "m",
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 20,
            "output_tokens": 512,
            "total_tokens": 532,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }
