"""A scripted model behind the fake server: fluent stories that break at a known token.

Deterministic in the request (prompt and seed), so a resumed campaign can equal an uninterrupted one.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.fake_vllm import (
    DONE,
    Answer,
    Asked,
    Events,
    FakeVllm,
    Page,
    answer,
    chunk,
    entry,
    fake_vllm,
    sse,
    usage_only,
)
from tests.lab.grammar import StoryWriter, numbered

_WORDS = re.compile(r"\s*\w+|[^\w]")
LOOP = [" e", " poi", " di", " nuovo", " la", " stessa", " cosa", ","]


@dataclass(frozen=True)
class Behaviour:
    """What the scripted model does.

    onset: token after which it loops, jittered by ±10 %, None for never. ends: it ends by itself after
    this many units whatever is asked. fault: called with the number of the generation request; an
    answer it returns is given instead. pause: seconds between chunks.
    """

    onset: int | None = None
    ends: int | None = None
    fault: Callable[[int], Answer | None] | None = None
    pause: float = 0.0
    language: str = "it"


class Script:
    """Answers /chat/completions; counts generation requests (probes ask for very few tokens)."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.served: list[tuple[str, int]] = []
        self._lock = threading.Lock()

    def __call__(self, asked: Asked) -> Answer:
        body = asked.body
        limit = int(body["max_tokens"])
        if limit < 16:
            words = [" si"] * limit
            return Events([*answer(words, finish="length")]) if body.get("stream") else Page(b"{}", 400)
        with self._lock:
            number = len(self.served)
            self.served.append((body["messages"][-1]["content"], body.get("seed", 0)))
        fault = self.behaviour.fault(number) if self.behaviour.fault else None
        if fault is not None:
            return fault
        words, finish = self.words(body["messages"][-1]["content"], body.get("seed", 0), limit)
        return Events(_stream(words, finish), pause=self.behaviour.pause)

    def words(self, prompt: str, seed: int, limit: int) -> tuple[list[str], str]:
        """The answer's tokens and finish reason."""
        rng = random.Random(hashlib.sha256(f"{prompt}/{seed}".encode()).digest())
        found = re.search(r"\b(\d+)\b(?!.*\b\d+\b)", prompt.split("Tema")[0])
        asked = int(found[1]) if found else 8
        units = min(asked, self.behaviour.ends or asked, limit // 30 + 1)
        writer = StoryWriter(self.behaviour.language, "narrative", rng)
        text = numbered(self.behaviour.language, "narrative", writer.units(units))
        words = _WORDS.findall(text)
        if self.behaviour.onset is not None:
            at = round(self.behaviour.onset * rng.uniform(0.9, 1.1))
            if len(words) > at:
                words = words[:at] + LOOP * (limit // len(LOOP) + 1)
        return words[:limit], "length" if len(words) > limit else "stop"


def _stream(words: list[str], finish: str) -> list[bytes]:
    """A healthy stream, sixteen tokens a write, two alternatives a token: whole campaigns must be quick."""
    events = []
    for i, word in enumerate(words, start=1):
        ending = finish if i == len(words) else None
        entries = [entry(word, top=2)]
        events.append(
            chunk(
                word, ids=[zlib.crc32(word.encode()) & 0xFFFFFF], entries=entries, usage=(7, i), finish=ending
            )
        )
    parts = [*sse(*events, usage_only(7, len(words))), DONE]
    return [b"".join(parts[i : i + 16]) for i in range(0, len(parts), 16)]


def cut_after(tokens: int) -> Events:
    """A stream that is cut in its middle, without an ending."""
    words = _WORDS.findall("Paragrafo 1. C'era una volta una città sul mare, e nessuno ne parlava mai. " * 9)
    events = [chunk(w, ids=[i], entries=[entry(w)], usage=(7, i + 1)) for i, w in enumerate(words[:tokens])]
    return Events(sse(*events), end="cut")


@contextmanager
def campaign_server(
    behaviour: Behaviour, *, tls: ssl.SSLContext | None = None
) -> Iterator[tuple[FakeVllm, Script]]:
    """The server in a thread of its own, so that subprocesses and synchronous tests can use it."""
    script = Script(behaviour)
    ready = threading.Event()
    box: list[FakeVllm] = []
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def main() -> None:
        async with fake_vllm(script, tls=tls) as fake:
            box.append(fake)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(main()), daemon=True)
    thread.start()
    assert ready.wait(60)
    try:
        yield box[0], script
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


__all__ = ["DONE", "Behaviour", "Script", "campaign_server", "cut_after"]
