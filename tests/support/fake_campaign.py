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
from functools import lru_cache

from tests.lab.grammar import StoryWriter, numbered
from tests.support.fake_vllm import (
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

_WORDS = re.compile(r"\s*\w+|[^\w]")
LOOP = [" e", " poi", " di", " nuovo", " la", " stessa", " cosa", ","]


@dataclass(frozen=True)
class Behaviour:
    """What the scripted model does.

    onset: token after which it loops, jittered by ±10 %, None for never. ends: it ends by itself after
    this many units whatever is asked. shy: asked for more units than the first number, it ends after the
    second, and does not fail. fault: called with the number of the generation request; an answer it returns
    is given instead. one_each: requests that are repeated get no fault and no number. pause: seconds between
    chunks. held: seconds for which a proxy holds back each answer, to give it whole. numbered: it writes the
    numbers that are asked for.
    """

    onset: int | None = None
    ends: int | None = None
    shy: tuple[int, int] | None = None
    fault: Callable[[int], Answer | None] | None = None
    one_each: bool = False
    pause: float = 0.0
    held: float = 0.0
    language: str = "it"
    numbered: bool = True


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
        request = body["messages"][-1]["content"], body.get("seed", 0)
        one_each = self.behaviour.one_each
        with self._lock:
            spared = one_each and request in self.served
            number = len(set(self.served)) if one_each else len(self.served)
            self.served.append(request)
        fault = self.behaviour.fault(number) if self.behaviour.fault and not spared else None
        if fault is not None:
            return fault
        words, finish = self.words(body["messages"][-1]["content"], body.get("seed", 0), limit)
        parts = stream(words, finish)
        if self.behaviour.held:
            # A comment, which is no token, until everything is there.
            return Events([b": wait\n\n", b"".join(parts)], pause=self.behaviour.held)
        return Events(parts, pause=self.behaviour.pause)

    def words(self, prompt: str, seed: int, limit: int) -> tuple[list[str], str]:
        """The answer's tokens and finish reason."""
        rng = random.Random(hashlib.sha256(f"{prompt}/{seed}".encode()).digest())
        found = re.search(r"\b(\d+)\b(?!.*\b\d+\b)", prompt.split("Tema")[0])
        asked = int(found[1]) if found else 8
        shy = self.behaviour.shy if self.behaviour.shy and asked > self.behaviour.shy[0] else None
        units = min(asked, shy[1] if shy else self.behaviour.ends or asked, limit // 30 + 1)
        writer = StoryWriter(self.behaviour.language, "narrative", rng)
        made = writer.units(units)
        text = (
            numbered(self.behaviour.language, "narrative", made)
            if self.behaviour.numbered
            else "\n\n".join(made)
        )
        words = _WORDS.findall(text)
        if self.behaviour.onset is not None and not shy:
            at = round(self.behaviour.onset * rng.uniform(0.9, 1.1))
            if len(words) > at:
                words = words[:at] + LOOP * (limit // len(LOOP) + 1)
        return words[:limit], "length" if len(words) > limit else "stop"


def stream(words: list[str], finish: str) -> list[bytes]:
    """A healthy stream, sixteen tokens a write, two alternatives a token: whole campaigns must be quick."""
    last = len(words)
    parts = [
        b"%s%d}}\n\n" % (_event_head(word, finish if i == last else None), i)
        for i, word in enumerate(words, start=1)
    ]
    parts += [*sse(usage_only(7, last)), DONE]
    return [b"".join(parts[i : i + 16]) for i in range(0, len(parts), 16)]


@lru_cache(maxsize=20_000)
def _event_head(word: str, finish: str | None) -> bytes:
    """The event of a token up to the number of tokens so far, which ends it: words recur, numbers do not."""
    number = zlib.crc32(word.encode()) & 0xFFFFFF
    [event] = sse(chunk(word, ids=[number], entries=[entry(word, top=2)], usage=(7, 0), finish=finish))
    head = event.removesuffix(b"0}}\n\n")
    assert head != event
    return head


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
        thread.join(60)
        loop.close()


__all__ = ["DONE", "Behaviour", "Script", "campaign_server", "cut_after"]
