"""The faults of the wire, scripted to the byte, and what a campaign must make of each.

Each is played from the start, within a campaign that goes on, or from its twelfth generation to the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.fake_vllm import DONE, Answer, Events, Hang, Page, Reset, chunk, entry, page, sse

LOST_AFTER = 20
"""Tokens of a stream that breaks."""
_TEXT = "Paragrafo 1. Nel mattino chiaro la barca lasciò il porto, e nessuno la vide tornare prima di sera."
_LOGIN = b"<!doctype html><html><title>Sign in</title><body>Please sign in to the gateway</body></html>"
_GATEWAY = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"


@dataclass(frozen=True)
class Fault:
    """A fault and what is expected of it. said: part of the sentence that it must make.

    start: it is played from the first question on, and exit 3 follows. midway: what two generations of a
    campaign that meet it become: "retried", "lost" (kept, and not asked again) or None, where no campaign
    can go on. stays: it is also played from the twelfth generation to the end, and this exit code follows.
    everywhere: from the start, the model list and all else answer so too. hangs: it costs a time limit.
    """

    name: str
    answer: Answer
    said: str
    start: bool = True
    midway: str | None = "retried"
    stays: int | None = None
    everywhere: bool = True
    hangs: bool = False
    said_at_start: str | None = None


@dataclass(frozen=True)
class Shape:
    """Streams of an odd or poor shape: the whole campaign has them, and it must end with `code`.

    change: of the healthy stream's writes. strip: fields taken off each event. without: pages that are not
    served; pages: others in their place. said: what is told to be missing. hangs: it costs a time limit.
    """

    name: str
    change: Callable[[Sequence[bytes]], Sequence[bytes]] = lambda parts: parts
    content_type: str = "text/event-stream"
    without: tuple[str, ...] = ()
    strip: frozenset[str] = frozenset()
    said: str | None = None
    code: int = 0
    pages: Mapping[str, Answer] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    hangs: bool = False


def _begun() -> list[bytes]:
    """A stream of LOST_AFTER tokens that has not ended."""
    words = [w if i == 0 else f" {w}" for i, w in enumerate((_TEXT * 3).split()[:LOST_AFTER])]
    return sse(
        *(chunk(w, ids=[i + 1], entries=[entry(w, top=2)], usage=(7, i + 1)) for i, w in enumerate(words))
    )


def _status(status: int, said: str, *, midway: str | None = "retried", stays: int | None = None) -> Fault:
    answer = page({"error": {"message": "the gateway's reason"}}, status)
    return Fault(str(status), answer, f"{said} ({status})", midway=midway, stays=stays)


def _broken(
    name: str,
    parts: Sequence[bytes],
    said: str,
    *,
    end: str = "close",
    hangs: bool = False,
    stays: int | None = None,
) -> Fault:
    """A stream that breaks after LOST_AFTER tokens."""
    answer = Events([*_begun(), *parts], end=end)
    return Fault(name, answer, said, start=False, midway="lost", hangs=hangs, stays=stays)


FAULTS: tuple[Fault, ...] = (
    _status(401, "rejected the API key", midway=None, stays=3),
    _status(403, "rejected the API key", midway=None),
    _status(404, "does not know this address or model", midway=None),
    Fault(
        "429 with Retry-After",
        page({"error": {"message": "the gateway's reason"}}, 429, retry_after="0.3"),
        "limiting requests (429): the gateway's reason",
    ),
    _status(500, "answered with an error", stays=3),
    _status(503, "answered with an error"),
    Fault("502, a proxy's HTML page", Page(_GATEWAY, 502, "text/html"), "502 Bad Gateway nginx"),
    Fault("200, a login page", Page(_LOGIN, 200, "text/html"), "answered with a web page", stays=3),
    Fault(
        "a redirect to another host",
        page({}, 307, location="http://192.0.2.1:9/v1"),
        "answered with a redirect to 192.0.2.1: it is not followed",
        stays=3,
    ),
    Fault("connection reset", Reset(), "closed the connection before it answered"),
    Fault(
        "connection refused",
        Reset(refuse=True),
        "refused the connection. Is vLLM running there?",
        start=False,  # see the addresses
        midway=None,
        stays=3,
    ),
    Fault("hang before the headers", Hang(), "did not answer within", hangs=True),
    Fault(
        "headers, then a hang",
        Events([], end="stall"),
        "accepted the request but sent no token within",
        everywhere=False,
        hangs=True,
    ),
    Fault(
        "an error object as the first event",
        Events([*sse({"error": {"message": "engine is dead", "code": 500}}), DONE]),
        "reported an error inside the stream: engine is dead",
        everywhere=False,
    ),
    Fault(
        "a comment every 0.05 s, and never a token",
        Events([b": still here\n\n"] * 2_000, pause=0.05),
        "accepted the request but sent no token within",
        everywhere=False,
        hangs=True,
    ),
    Fault(
        "an event of 100 MiB without an end",
        Events([b"data: ", *[b" " * (1 << 20)] * 100]),
        "something that is not an event stream",
        everywhere=False,
    ),
    _broken("hang in mid-stream", [], "stood still for", end="stall", hangs=True),
    _broken("stream cut", [], f"after {LOST_AFTER} output tokens", end="cut", stays=4),
    _broken("connection reset in mid-stream", [], f"was cut after {LOST_AFTER} output tokens", end="reset"),
    _broken("stream closed without an end", [], f"closed the stream after {LOST_AFTER} output tokens"),
    _broken(
        "[DONE] without a finish reason",
        [DONE],
        f"ended the stream without a finish reason after {LOST_AFTER} output tokens",
    ),
    _broken(
        "an error object in mid-stream",
        sse({"error": {"message": "EngineCore encountered an issue", "code": 500}}),
        "reported an error inside the stream: EngineCore encountered an issue",
    ),
    _broken("malformed JSON", [b'data: {"choices":[{"delta"\n\n'], 'not a valid JSON chunk: {"choices":['),
    _broken(
        "bytes that are no UTF-8", [b'data: {"object":"\xff\xfe"}\n\n'], 'not a valid JSON chunk: {"object'
    ),
    _broken(
        "finish reason abort",
        sse(chunk("", ids=[], finish="abort")),
        "gave the request up (finish reason 'abort')",
    ),
)


def _cut_every(size: int) -> Callable[[Sequence[bytes]], Sequence[bytes]]:
    """The same bytes in writes of `size`: characters, numbers and line ends are cut apart."""

    def change(parts: Sequence[bytes]) -> Sequence[bytes]:
        whole = b"".join(parts)
        return [whole[i : i + size] for i in range(0, len(whole), size)]

    return change


def _without_done(parts: Sequence[bytes]) -> Sequence[bytes]:
    return [b"".join(parts).removesuffix(DONE)]


def _one_chunk(parts: Sequence[bytes]) -> Sequence[bytes]:
    """All tokens of the answer in one event, and a megabyte of a field that nobody reads."""
    events = events_of(b"".join(parts))
    first, last = events[0], events[-1]
    choices = [event["choices"][0] for event in events if event.get("choices")]
    whole = dict(choices[0])
    whole["delta"] = {"content": "".join(c["delta"].get("content", "") for c in choices)}
    whole["token_ids"] = [number for c in choices for number in c.get("token_ids", ())]
    whole["logprobs"] = {"content": [e for c in choices if c["logprobs"] for e in c["logprobs"]["content"]]}
    whole["finish_reason"] = choices[-1]["finish_reason"]
    return [*sse({**first, "choices": [whole], "padding": "x" * 1_000_000}, last), DONE]


def events_of(stream: bytes) -> list[Any]:
    """The JSON events of a well-formed stream."""
    blocks = stream.split(b"\n\n")[:-1]
    return [json.loads(block.removeprefix(b"data: ")) for block in blocks if block + b"\n\n" != DONE]


def stripped(parts: Sequence[bytes], fields: frozenset[str]) -> Sequence[bytes]:
    """The stream without these fields of its choices or chunks; `usage` keeps the final one."""
    events = []
    for event in events_of(b"".join(parts)):
        kept: Mapping[str, Any] = event
        if event["choices"]:
            choice = {k: v for k, v in event["choices"][0].items() if k not in fields}
            kept = {**{k: v for k, v in event.items() if k not in fields}, "choices": [choice]}
        elif "totals" in fields:
            continue
        events.append(kept)
    return [b"".join([*sse(*events), DONE])]


def _each_event(change: Callable[[Any], Sequence[Any]]) -> Callable[[Sequence[bytes]], Sequence[bytes]]:
    """Other events in the place of each."""

    def changed(parts: Sequence[bytes]) -> Sequence[bytes]:
        events = events_of(b"".join(parts))
        return [b"".join([*sse(*(one for event in events for one in change(event))), DONE])]

    return changed


def _surely(event: Any) -> Sequence[Any]:
    """Logprobs above 0, which no probability has."""
    for choice in event["choices"]:
        for token in (choice.get("logprobs") or {}).get("content", ()):
            token["logprob"] = 3.5
    return [event]


def _overflowed(event: Any) -> Sequence[Any]:
    """Of some tokens no number: vLLM writes null, and Python's own JSON NaN."""
    for choice in event["choices"]:
        for token in (choice.get("logprobs") or {}).get("content", ()):
            if len(token["token"]) % 3 == 0:
                token["logprob"] = float("nan")
                token["top_logprobs"] = [{**top, "logprob": None} for top in token["top_logprobs"]]
    return [event]


def _twice(event: Any) -> Sequence[Any]:
    """A second choice that nobody asked for."""
    second = [{**choice, "index": 1, "delta": {"content": " altro"}} for choice in event["choices"]]
    return [event, {**event, "choices": second}] if second else [event]


def _overcounted(event: Any) -> Sequence[Any]:
    """Twice the tokens that there are."""
    usage = event.get("usage") or {}
    return [{**event, "usage": {**usage, "completion_tokens": 2 * usage.get("completion_tokens", 0)}}]


def _at_any_time(event: Any) -> Sequence[Any]:
    """A server whose clock jumps by centuries."""
    return [{**event, "created": -5 if len(event["choices"]) else 4_102_444_800}]


def _one_id(event: Any) -> Sequence[Any]:
    """One id for every token."""
    for choice in event["choices"]:
        if "token_ids" in choice:
            choice["token_ids"] = [0] * len(choice["token_ids"])
    return [event]


_MODELS = [*({"id": f"model-{i}"} for i in range(100_000)), {"id": "lab", "max_model_len": 4096}]
_NO_COUNTS = "token counts while streaming — positions are counted in words, onsets are approximate"
_NOT_VLLM = ("/tokenize", "/metrics", "/version")
SHAPES: tuple[Shape, ...] = (
    Shape("writes of 7 bytes, UTF-8 split", _cut_every(7)),
    Shape("the whole answer in one event of 1 MB", _one_chunk),
    Shape("no [DONE]", _without_done),
    Shape("logprobs above 0", _each_event(_surely)),
    Shape("logprobs of NaN and null", _each_event(_overflowed)),
    Shape("a second choice in each answer (n > 1)", _each_event(_twice)),
    Shape("usage that says twice the tokens", _each_event(_overcounted)),
    Shape("a clock that jumps by centuries", _each_event(_at_any_time)),
    Shape(
        "100,000 models, and --model",
        pages={"/v1/models": page({"object": "list", "data": _MODELS})},
        options=("--model", "lab"),
    ),
    Shape(
        "/metrics that never answers",
        pages={"/metrics": Hang()},
        said="vLLM's /metrics — no KV-cache, queue or preemption evidence for the system plane",
        hangs=True,
    ),
    Shape("content type application/json", content_type="application/json"),
    Shape("content type text/html", content_type="text/html"),
    Shape(
        "no /metrics, no /version",
        without=("/metrics", "/version"),
        said="vLLM's /metrics — no KV-cache, queue or preemption evidence for the system plane",
    ),
    Shape(
        "no /tokenize",
        without=("/tokenize",),
        said="/tokenize — prompt lengths are known only after each request",
    ),
    Shape(
        "no logprobs",
        strip=frozenset({"logprobs"}),
        said="logprobs — no entropy: drifting before an onset cannot be seen",
    ),
    Shape(
        "no token ids",
        strip=frozenset({"token_ids"}),
        said="token ids — failing answers cannot be continued exactly from a cut",
    ),
    Shape("one id for all tokens", _each_event(_one_id)),
    Shape(
        "no ids, logprobs or running usage: a total at the end",
        strip=frozenset({"token_ids", "logprobs", "usage"}),
        without=_NOT_VLLM,
        said=_NO_COUNTS,
    ),
    Shape(
        "no count of tokens whatever",
        strip=frozenset({"token_ids", "logprobs", "usage", "totals"}),
        without=_NOT_VLLM,
        said=_NO_COUNTS,
        code=4,
    ),
)
