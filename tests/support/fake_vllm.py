"""A vLLM-shaped server for tests of the wire: raw asyncio sockets, scripted to the byte.

It speaks just enough HTTP/1.1 to serve what a script says, and to misbehave on purpose: cut, stall, hang,
garbage, error objects, events split anywhere. It records what was asked and who hung up.
"""

from __future__ import annotations

import asyncio
import json
import math
import socket
import ssl
import struct
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True)
class Page:
    """A whole answer. delay: seconds until it comes."""

    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0


@dataclass(frozen=True)
class Events:
    """A streamed answer: each part is one write. end: "close" (orderly), "cut", "reset", "stall".

    pause: seconds between the writes; 0 still lets the other side read.
    """

    parts: Sequence[bytes]
    end: str = "close"
    pause: float = 0.0
    content_type: str = "text/event-stream"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hang:
    """Takes the request and never answers."""


@dataclass(frozen=True)
class Reset:
    """Takes the request and answers with a TCP reset. refuse: and from then on with no connection at all."""

    refuse: bool = False


Answer = Page | Events | Hang | Reset
Script = Callable[[Asked], Answer]


def page(value: object, status: int = 200, **headers: str) -> Page:
    """A JSON answer."""
    return Page(json.dumps(value).encode(), status, headers=headers)


def sse(*values: object) -> list[bytes]:
    """Server-sent events, one write each."""
    return [b"data: " + _JSON.encode(value).encode() + b"\n\n" for value in values]


_JSON = json.JSONEncoder(ensure_ascii=False)
DONE = b"data: [DONE]\n\n"


def entry(token: str, *, raw: bytes | None = None, p: float = 0.5, top: int = 20) -> dict[str, Any]:
    """One token's logprobs in the chat shape: `top` alternatives, the first with probability p."""
    rest = (1 - p) / max(1, top)
    tops = [{"token": token, "logprob": math.log(p), "bytes": None}]
    tops += [{"token": f"t{i}", "logprob": math.log(rest), "bytes": None} for i in range(top - 1)]
    given = list(token.encode() if raw is None else raw)
    return {"token": token, "logprob": math.log(p), "bytes": given, "top_logprobs": tops[:top]}


def chunk(
    text: str | None = None,
    *,
    ids: Sequence[int] | None = None,
    entries: Sequence[Mapping[str, Any]] | None = None,
    finish: str | None = None,
    usage: tuple[int, int] | None = None,
    **delta: str,
) -> dict[str, Any]:
    """A chat chunk. usage: (prompt tokens, completion tokens so far)."""
    choice: dict[str, Any] = {"index": 0, "delta": dict(delta), "logprobs": None, "finish_reason": finish}
    if text is not None:
        choice["delta"]["content"] = text
    if entries is not None:
        choice["logprobs"] = {"content": list(entries)}
    if ids is not None:
        choice["token_ids"] = list(ids)
    found: dict[str, Any] = {
        "id": "c",
        "object": "chat.completion.chunk",
        "model": "lab",
        "choices": [choice],
    }
    if usage is not None:
        found["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    return found


def usage_only(prompt: int, completion: int) -> dict[str, Any]:
    """The chunk without choices that ends a stream with include_usage."""
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}}


def answer(words: Sequence[str], *, finish: str | None = "stop", done: bool = True) -> list[bytes]:
    """A healthy chat stream as vLLM sends it: a token a chunk, with ids, logprobs and running usage."""
    events: list[object] = [chunk("", role="assistant", usage=(7, 0))]
    for i, word in enumerate(words, start=1):
        ending = finish if i == len(words) else None
        number = zlib.crc32(word.encode()) & 0xFFFFFF
        events.append(chunk(word, ids=[number], entries=[entry(word)], usage=(7, i), finish=ending))
    events.append(usage_only(7, len(words)))
    return sse(*events) + ([DONE] if done else [])


def refuse_fields(*names: str) -> Callable[[Asked], Page | None]:
    """A plain server's 400 for body fields it does not know; None when the body holds none of them."""

    def check(asked: Asked) -> Page | None:
        bad = [name for name in names if name in (asked.body or {})]
        return page({"error": {"message": f"unknown field {bad[0]}"}}, 400) if bad else None

    return check


class FakeVllm:
    """The server. `script` answers generations; `pages` answers everything else by path.

    everything: answers whatever is asked, when set. listener: the socket's server.
    """

    def __init__(self, script: Script | Answer) -> None:
        self.script = script
        self.everything: Answer | None = None
        self.listener: asyncio.Server | None = None
        self.asked: list[Asked] = []
        self.hung_up = 0
        self.open = 0
        self.changed = asyncio.Condition()
        self.connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.port = 0
        self.scheme = "http"
        self.pages: dict[str, Answer] = {
            "/v1/models": page({"data": [{"id": "lab", "max_model_len": 4096, "root": "lab-root"}]}),
            "/version": page({"version": "0.32.0"}),
            "/tokenize": page({"count": 5, "max_model_len": 4096, "tokens": [1, 2, 3, 4, 5]}),
            "/metrics": Page(
                b'vllm:cache_config_info{block_size="16",kv_cache_size_tokens="21824"} 1.0\n',
                content_type="text/plain",
            ),
        }

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/v1"

    @property
    def generations(self) -> list[Asked]:
        """The requests that asked for text."""
        return [asked for asked in self.asked if asked.path.endswith("/completions")]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the server has seen something; fails after a minute."""
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(condition)

    async def _note(self, *, hung_up: int = 0, opened: int = 0) -> None:
        async with self.changed:
            self.hung_up += hung_up
            self.open += opened
            self.changed.notify_all()

    async def close(self) -> None:
        """Hang up on everyone and wait until their handlers are through."""
        for writer in self.connections.values():
            writer.close()
        await asyncio.gather(*self.connections)

    def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection in a task of its own."""
        task = asyncio.create_task(self._serve(reader, writer))
        self.connections[task] = writer
        task.add_done_callback(self.connections.pop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (asked := await self._receive(reader)) is not None:
                self.asked.append(asked)
                await self._note()
                known = self.everything or self.pages.get(asked.path)
                if known is None and not asked.path.endswith("/completions"):
                    known = page({"detail": "Not Found"}, 404)
                reply = known or (self.script(asked) if callable(self.script) else self.script)
                if not await self._reply(reply, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            await self._note(hung_up=1)
        except ValueError:  # no HTTP: TLS, say
            writer.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")
        finally:
            writer.close()

    async def _receive(self, reader: asyncio.StreamReader) -> Asked | None:
        head = await reader.readline()
        if not head:
            return None
        method, path, _ = head.decode().split(" ", 2)
        headers: dict[str, str] = {}
        while (line := await reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().partition(":")
            headers[name.strip().lower()] = value.strip()
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        return Asked(method, path, headers, json.loads(raw) if raw else None)

    async def _reply(self, reply: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """True when the connection can serve another request."""
        if isinstance(reply, Hang):
            await self._await_hang_up(reader)
            return False
        if isinstance(reply, Reset):
            if reply.refuse and self.listener is not None:
                self.listener.close()
            _reset(writer)
            return False
        if isinstance(reply, Page):
            await asyncio.sleep(reply.delay)
            lines = [f"HTTP/1.1 {reply.status} X", f"content-type: {reply.content_type}"]
            lines += [f"{name.replace('_', '-')}: {value}" for name, value in reply.headers.items()]
            lines += [f"content-length: {len(reply.body)}", "", ""]
            writer.write("\r\n".join(lines).encode() + reply.body)
            await writer.drain()
            return True
        await self._note(opened=1)
        try:
            return await self._stream(reply, reader, writer)
        finally:
            await self._note(opened=-1)

    async def _stream(
        self, reply: Events, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        lines = ["HTTP/1.1 200 OK", f"content-type: {reply.content_type}", "transfer-encoding: chunked"]
        lines += [f"{name}: {value}" for name, value in reply.headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        gone = asyncio.create_task(self._await_hang_up(reader))
        try:
            for part in reply.parts:
                writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
                await writer.drain()
                await asyncio.sleep(reply.pause)
                if gone.done():
                    return False
            if reply.end == "stall":
                await gone
            if reply.end == "reset":
                _reset(writer)
            if reply.end == "close":
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        finally:
            gone.cancel()
        return False

    async def _await_hang_up(self, reader: asyncio.StreamReader) -> None:
        try:
            while await reader.read(1024):
                pass
        except ConnectionError:
            pass
        await self._note(hung_up=1)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close without lingering: the other side gets an RST, not an end of file."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@asynccontextmanager
async def fake_vllm(script: Script | Answer, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[FakeVllm]:
    """Serve `script` on a free local port."""
    fake = FakeVllm(script)
    fake.scheme = "https" if tls else "http"
    server = await asyncio.start_server(fake.connect, "127.0.0.1", 0, limit=2**20, ssl=tls)
    fake.listener = server
    fake.port = server.sockets[0].getsockname()[1]
    try:
        yield fake
    finally:
        server.close()
        await fake.close()
