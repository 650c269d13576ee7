"""Streams that vLLM really sent, and ways to break them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.fake_vllm import DONE, answer, chunk, entry, sse, usage_only

DATA = Path(__file__).parents[1] / "data"
SCALE = 1 << 16
_FIELDS = re.compile(
    rb'"(?:token_ids|logprobs?|content|text|usage|completion_tokens|prompt_tokens|bytes|top_logprobs|delta|'
    rb'index|choices|finish_reason|stop_reason|tokens|token_logprobs|reasoning|reasoning_content|error|object)":'
)
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_PIECES = (
    b"\n", b"\n\n", b"\r\n", b"\r", b"data: ", b"data:", b"data: [DONE]\n\n", b"[DONE]", b": ping\n\n",
    b"event: x\n", b"id: 7\n", b"retry: 9\n", b"\xef\xbb\xbf", b"\x00", b"\xff", b"\xf0\x9f", b"\xc3",
    b"\\ud800", b'"', b"{", b"}", b"[", b"]", b",", b":", b"[[[[[[[[", b"<html>", b"null", b"NaN",
    b"1e999", b"-1", b'data: {}\n\n', b"data: 12\n\n", b'data: {"choices":[]}\n\n',
    b'data: {"error":{"message":"boom","code":500}}\n\n', b'data: {"object":"error","message":"boom"}\n\n',
    b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n',
)  # fmt: skip
_VALUES = (
    b"null", b"[]", b"{}", b'""', b'"x"', b"0", b"-1", b"1.5", b"true", b"9" * 25, b"2147483648", b"1e308",
    b"-1e308", b"-9999.0", b"[1,2,3]", b"[256]", b"[-1]", b"[null]", b'"\\u0000"', b'"\\ud83d"', b'"abort"',
    b'"stop"', b'"\xf0\x9f\x99\x82"', b'[{"token":"a"}]', b"[" * 40 + b"]" * 40,
    b'[{"token":"a","logprob":-1,"bytes":[195],"top_logprobs":[]}]',
    b'{"content":[{"token":"x","logprob":0.0,"bytes":null,"top_logprobs":[{"logprob":-1e400}]}]}',
    b'{"completion_tokens":300000000,"prompt_tokens":1}',
)  # fmt: skip


_STORY = "Paragrafo 1. Nel mattino chiaro la barca lasciò il porto 🙂 e nessuno la vide"


@dataclass(frozen=True)
class Change:
    """One mutation: what, where (0 to SCALE, of the stream's length), and a number that it may need."""

    what: int
    where: int
    number: int


def corpus() -> tuple[bytes, ...]:
    """Whole streams: vLLM's recorded events, raw recordings, and rarer shapes that it can send."""
    recorded = json.loads((DATA / "conformance" / "vllm_0_32.json").read_text("utf-8"))
    streams = [
        b"".join(DONE if e == "[DONE]" else sse(e)[0] for e in reply["events"])
        for reply in recorded.values()
        if isinstance(reply, dict) and "events" in reply
    ]
    streams += [path.read_bytes() for path in sorted((DATA / "streams").glob("*.sse"))]
    return (*streams, *(b"".join(parts) for parts in _shapes()))


def _shapes() -> list[Sequence[bytes]]:
    face = "🙂".encode()
    split = sse(
        chunk("", ids=[1], entries=[entry("�", raw=face[:1], top=2)]),
        chunk("", ids=[2], entries=[entry("�", raw=face[1:3], top=2)]),
        chunk("🙂", ids=[3], entries=[entry("�", raw=face[3:], top=2)], finish="stop"),
    )
    entries = [entry("hm", top=2), entry("x</think>Sì", top=2), entry(".", top=2)]
    thought = sse(
        chunk(ids=[7], entries=[entry("hm", top=2)], reasoning="hm"),
        chunk("Sì.", ids=[1, 2, 3], entries=entries, reasoning_content="hmx"),
        chunk("fine", ids=[], finish="stop"),
    )
    running = sse(chunk("uno due tre", usage=(4, 3)), chunk(" fine", usage=(4, 4), finish="length"))
    bare = sse(chunk("uno"), chunk(" due", finish="stop"), usage_only(4, 2))
    broken = sse(chunk("uno", ids=[1]), {"error": {"message": "engine died", "code": 500}})
    story = answer([f" {word}" for word in _STORY.split()], finish="length")
    together = [b"".join(story[i : i + 3]) for i in range(0, len(story), 3)]
    windows = [b"".join(answer(["perché", " 日本", " no"])).replace(b"\n", b"\r\n")]
    return [
        [*split, DONE],
        [*thought, DONE],
        [*running, DONE],
        [*bare, DONE],
        broken,
        windows,
        story,
        together,
    ]


def mutated(stream: bytes, changes: Sequence[Change], others: Sequence[bytes]) -> bytes:
    """The stream after these changes, one after another; deterministic."""
    for change in changes:
        stream = _CHANGES[change.what % len(_CHANGES)](stream, change, others)[:65_536]
    return stream


def _at(stream: bytes, change: Change) -> int:
    return len(stream) * change.where // SCALE


def _flip(stream: bytes, change: Change, others: Sequence[bytes]) -> bytes:
    at = _at(stream, change)
    return stream[:at] + bytes(b ^ (1 << change.number % 8) for b in stream[at : at + 1]) + stream[at + 1 :]


def _set(stream: bytes, change: Change, others: Sequence[bytes]) -> bytes:
    at = _at(stream, change)
    return stream[:at] + bytes([change.number % 256]) + stream[at + 1 :]


def _delete(stream: bytes, change: Change, others: Sequence[bytes]) -> bytes:
    at = _at(stream, change)
    return stream[:at] + stream[at + 1 + change.number % 64 :]


def _double(stream: bytes, change: Change, others: Sequence[bytes]) -> bytes:
    at = _at(stream, change)
    return stream[:at] + stream[at : at + 1 + change.number % 200] + stream[at:]


def _insert(stream: bytes, change: Change, others: Sequence[bytes]) -> bytes:
    at = _at(stream, change)
    return stream[:at] + _PIECES[change.number % len(_PIECES)] + stream[at:]


def _truncate(stream: bytes, change: Change, others: Sequence[bytes]) -> bytes:
    return stream[: _at(stream, change)]


def _splice(stream: bytes, change: Change, others: Sequence[bytes]) -> bytes:
    other = others[change.number % len(others)]
    return stream[: _at(stream, change)] + other[_at(other, change) :]


def _events(stream: bytes, change: Change, others: Sequence[bytes]) -> bytes:
    """Drop, repeat or move a whole event."""
    blocks = stream.split(b"\n\n")
    at = len(blocks) * change.where // SCALE
    how, to = change.number % 3, change.number // 3 % len(blocks)
    if how == 0:
        del blocks[at]
    elif how == 1:
        blocks[at:at] = [blocks[at]] * (1 + to % 4)
    else:
        blocks.insert(to, blocks.pop(at))
    return b"\n\n".join(blocks)


def _renumber(stream: bytes, change: Change, others: Sequence[bytes]) -> bytes:
    found = _NUMBER.search(stream, _at(stream, change))
    if found is None:
        return stream
    return stream[: found.start()] + _VALUES[change.number % len(_VALUES)] + stream[found.end() :]


def _revalue(stream: bytes, change: Change, others: Sequence[bytes]) -> bytes:
    """Another value for a field: put before the old one, which is renamed, so that the JSON stays whole."""
    found = _FIELDS.search(stream, _at(stream, change))
    if found is None:
        return stream
    value = _VALUES[change.number % len(_VALUES)]
    return stream[: found.end()] + value + b',"old":' + stream[found.end() :]


def _line_ends(stream: bytes, change: Change, others: Sequence[bytes]) -> bytes:
    at = _at(stream, change)
    return stream[:at] + stream[at:].replace(b"\n", (b"\r\n", b"\r", b"\n\n")[change.number % 3])


_CHANGES: tuple[Callable[[bytes, Change, Sequence[bytes]], bytes], ...] = (
    _flip, _set, _delete, _double, _insert, _truncate, _splice, _events, _events, _events, _renumber,
    _renumber, _revalue, _revalue, _revalue, _revalue, _line_ends,
)  # fmt: skip
KINDS = len(_CHANGES)
