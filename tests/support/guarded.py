"""A guard before a scripted upstream, and what its clients get."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from stresstest.config.guard import guard_config
from stresstest.features.guard.journal import Journal, Sink
from stresstest.features.guard.server import serve_guard
from stresstest.features.guard.settings import GuardLimits, GuardSettings
from tests.support.fake_vllm import Answer, FakeVllm, Script, chunk, fake_vllm, sse

CHAT = "/v1/chat/completions"
ASK: dict[str, Any] = {
    "model": "lab",
    "messages": [{"role": "user", "content": "Tell a story."}],
    "max_tokens": 900,
    "stream": True,
}
HEALTHY = (
    "The old miller walks to the square and looks at the moon. His daughter has left early, because "
    "the market opens at seven. Nobody speaks of the storm that took the bridge. She buys bread, two apples "
    "and a small lamp, then waits for the cart that goes north."
)
LOOP = " and then he said that it was all the same to him," * 40


def words(text: str) -> list[str]:
    """A text as tokens."""
    return [word if i == 0 else f" {word}" for i, word in enumerate(text.split())]


def chat_events(
    text: str, *, index: int = 0, finish: str | None = "length", reasoning: bool = False
) -> list[bytes]:
    """A streamed chat answer of one choice, a token an event, without the end of the stream."""
    events = [chunk("", role="assistant")]
    tokens = words(text)
    for i, word in enumerate(tokens, 1):
        last = finish if i == len(tokens) else None
        events.append(chunk(finish=last, reasoning=word) if reasoning else chunk(word, finish=last))
    for event in events:
        event["choices"][0]["index"] = index
    return sse(*events)


DONE = b"data: [DONE]\n\n"


@dataclass
class Guarded:
    """upstream: the scripted server. url: of the guard. log: its lines so far."""

    upstream: FakeVllm
    url: str
    session: aiohttp.ClientSession
    out: io.BytesIO = field(default_factory=io.BytesIO)

    @property
    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.getvalue().splitlines()]

    async def ask(self, path: str = CHAT, body: Mapping[str, Any] = ASK, **headers: str) -> Reply:
        """The whole reply to a POST."""
        async with self.session.post(self.url + path, json=body, headers=headers) as response:
            return Reply(response.status, dict(response.headers), await response.read())

    async def direct(self, path: str = CHAT, body: Mapping[str, Any] = ASK) -> Reply:
        """The same from the upstream itself."""
        async with self.session.post(self.upstream.url.removesuffix("/v1") + path, json=body) as response:
            return Reply(response.status, dict(response.headers), await response.read())

    async def series(self) -> dict[str, float]:
        """The guard's series: name, or name{value of every label} → value."""
        async with self.session.get(self.url + "/guard/metrics") as response:
            text = await response.text()
        return {
            sample.name
            + ("{" + ",".join(sample.labels.values()) + "}" if sample.labels else ""): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    async def judged(self, requests: int) -> dict[str, float]:
        """The series once so many requests were judged; fails after a minute."""
        async with asyncio.timeout(60):
            while True:
                found = await self.series()
                if sum(n for name, n in found.items() if "requests_total" in name) >= requests:
                    return found
                await asyncio.sleep(0.01)


@dataclass(frozen=True)
class Reply:
    """What a client got."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events of a stream, which must end as one does."""
        parts = self.body.split(b"\n\n")
        assert parts[-2:] == [b"data: [DONE]", b""]
        return [json.loads(part.removeprefix(b"data: ")) for part in parts[:-2]]


@asynccontextmanager
async def guarded(
    script: Script | Answer,
    rules: Mapping[str, Any] | None = None,
    *,
    limits: GuardLimits | None = None,
    sinks: Sequence[Sink] = (),
    out: io.BytesIO | None = None,
    **settings: Any,
) -> AsyncIterator[Guarded]:
    """A guard with these rules before a server that answers by the script.

    out: takes the log. After the block everything was judged, and the log is complete.
    """
    journal = {name: settings.pop(name) for name in ("every", "text") if name in settings}
    async with fake_vllm(script) as upstream, aiohttp.ClientSession(auto_decompress=False) as session:
        if not callable(script):
            upstream.pages["/v1/responses"] = script
        out = io.BytesIO() if out is None else out
        told = GuardSettings(
            upstream.url.removesuffix("/v1"),
            guard_config(rules or {}, "test"),
            limits=limits or GuardLimits(drain=5),
            **settings,
        )
        async with serve_guard(told, Journal(out, **journal), sinks=sinks) as running:
            yield Guarded(upstream, running.url, session, out)


@asynccontextmanager
async def raw(here: Guarded) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to the guard, to write what no client library would."""
    port = int(here.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
