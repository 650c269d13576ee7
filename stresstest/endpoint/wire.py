"""The bytes of a stream: server-sent events, and the JSON chunks inside them.

The SDK's own chunk objects cost several hundred microseconds a chunk with logprobs; typed msgspec
structs that skip what we do not read cost a few.
"""

from __future__ import annotations

from typing import Any

import msgspec

_MAX_LINE = 16 * 1024 * 1024
_MOST = 2**31 - 1


def sane(number: int | None) -> int | None:
    """A count or an id that can be one; None for what no server in its right mind sends."""
    return number if number is not None and 0 <= number <= _MOST else None


def believable(characters: int) -> int:
    """The most tokens that so much text can be: some bytes a character, and some without any text."""
    return max(64, 8 * characters)


class Top(msgspec.Struct, gc=False):
    logprob: float


class Entry(msgspec.Struct, gc=False):
    """One token's logprobs in a chat chunk; `bytes` stays undecoded until a chunk needs splitting."""

    token: str = ""
    logprob: float | None = None
    bytes: msgspec.Raw = msgspec.Raw(b"null")
    top_logprobs: list[Top] | None = None


class Logprobs(msgspec.Struct, gc=False):
    """`content` in chat chunks; the other three, parallel lists, in completion chunks."""

    content: list[Entry] | None = None
    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None
    top_logprobs: list[dict[str, float] | None] | None = None


class Delta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: Delta | None = None
    text: str | None = None
    logprobs: Logprobs | None = None
    token_ids: list[int] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


class Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class Chunk(msgspec.Struct, gc=False):
    """One event of a stream. `error` is what a server sends when it fails after the headers."""

    choices: list[Choice] = []
    usage: Usage | None = None
    system_fingerprint: str | None = None
    error: Any = None
    object: str | None = None
    message: Any = None
    code: Any = None


_decoder = msgspec.json.Decoder(Chunk)
_ints = msgspec.json.Decoder(list[int] | None)


def decode_chunk(payload: bytes) -> Chunk:
    """Raises msgspec.DecodeError when the payload is not a chunk."""
    return _decoder.decode(payload)


def decode_bytes(raw: msgspec.Raw) -> bytes | None:
    """The bytes of one token; None where the server gives none."""
    try:
        values = _ints.decode(raw)
        return None if values is None else bytes(values)
    except ValueError:
        return None


class LineTooLongError(Exception):
    """A server sent megabytes without a line end: this is no event stream."""


class EventReader:
    """Cuts a byte stream into the payloads of server-sent events, however TCP has cut it.

    `foreign` keeps the beginning of what is no event stream at all (a web page, plain JSON).
    """

    def __init__(self) -> None:
        self._tail = b""
        self._event: list[bytes] = []
        self.foreign = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Payloads completed by these bytes. Raises LineTooLongError."""
        whole = data.startswith(b"data: ") and data.find(b"\n") == len(data) - 2 and data.endswith(b"\n\n")
        if whole and not self._tail and not self._event:
            return [data[6:-2]]  # as nearly every read is
        lines = (self._tail + data if self._tail else data).split(b"\n")
        self._tail = lines.pop()
        if len(self._tail) > _MAX_LINE:
            raise LineTooLongError
        payloads: list[bytes] = []
        for line in lines:
            self._line(line, payloads)
        return payloads

    def finish(self) -> list[bytes]:
        """Payloads that the end of the stream completes: a last event without its empty line."""
        payloads: list[bytes] = []
        tail, self._tail = self._tail, b""
        self._line(tail, payloads)
        self._line(b"", payloads)
        return payloads

    def _line(self, line: bytes, payloads: list[bytes]) -> None:
        if line.endswith(b"\r"):
            line = line[:-1]
        if line.startswith(b"data:"):
            self._event.append(line[6:] if line[5:6] == b" " else line[5:])
        elif not line:
            if self._event:
                payloads.append(self._event[0] if len(self._event) == 1 else b"\n".join(self._event))
                self._event.clear()
        elif not line.startswith((b":", b"event:", b"id:", b"retry:")) and len(self.foreign) < 4096:
            self.foreign += line[:4096] + b"\n"
