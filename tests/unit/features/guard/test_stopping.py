"""A guard that is told twice to stop: what was seen of the open answers is not lost."""

from __future__ import annotations

import asyncio
import io
import json
from contextlib import suppress
from typing import Any

import aiohttp
import pytest

from stresstest.config.guard import guard_config
from stresstest.features.guard import server as guard_server
from stresstest.features.guard.journal import Journal
from stresstest.features.guard.server import guards_another, serve_guard
from stresstest.features.guard.settings import GuardSettings
from stresstest.features.guard.watch import JudgeQueue
from tests.support.fake_vllm import Events, fake_vllm
from tests.support.guarded import ASK, CHAT, HEALTHY, LOOP, chat_events


async def _stopped_twice(out: io.BytesIO, *texts: str) -> None:
    """Stop a guard, and again, while answers with these texts so far are open."""
    async with fake_vllm(lambda asked: scripts[int(asked.body["seed"])]) as upstream:
        scripts = [Events(chat_events(text, finish=None), end="stall") for text in texts]
        settings = GuardSettings(upstream.url.removesuffix("/v1"), guard_config({}, "test"))
        stop = asyncio.Event()
        urls: asyncio.Queue[str] = asyncio.Queue()

        async def serve() -> None:
            async with serve_guard(settings, Journal(out, every=True, text=True)) as guard:
                urls.put_nowait(guard.url)
                await stop.wait()

        async def ask(url: str, number: int) -> None:
            reading = text = ""
            async with session.post(url + CHAT, json={**ASK, "seed": number}) as response:
                while text != texts[number]:
                    reading += (await response.content.readany()).decode()
                    said = [json.loads(event.removeprefix("data: ")) for event in reading.split("\n\n")[:-1]]
                    text = "".join(event["choices"][0]["delta"].get("content") or "" for event in said)
                seen.release()
                await response.read()

        seen = asyncio.Semaphore(0)
        async with aiohttp.ClientSession() as session:
            serving = asyncio.create_task(serve())
            url = await urls.get()
            asking = [asyncio.create_task(ask(url, number)) for number in range(len(texts))]
            for _ in texts:
                await seen.acquire()
            stop.set()
            await asyncio.sleep(0.05)
            assert not serving.done()
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving
            ended: list[Any] = await asyncio.gather(*asking, return_exceptions=True)
            assert all(isinstance(each, aiohttp.ClientError) for each in ended)


async def test_open_answers_are_logged_when_the_guard_is_stopped_twice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whoever presses Ctrl-C twice waits for a loop, and the log had no line of it."""
    out = io.BytesIO()
    await _stopped_twice(out, HEALTHY + LOOP, HEALTHY)
    lines = {line["response"]: line for line in map(json.loads, out.getvalue().splitlines())}
    assert set(lines) == {HEALTHY + LOOP, HEALTHY}
    assert lines[HEALTHY + LOOP]["symptom"] == "loop"
    assert {line["finish_reason"] for line in lines.values()} == {"abort"}
    assert "not judged" not in capsys.readouterr().err


async def test_what_cannot_be_judged_in_time_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A guard with much to judge ends at once all the same, and says what it leaves."""
    monkeypatch.setattr(guard_server, "_LAST_JUDGING", 0.0)
    out = io.BytesIO()
    await _stopped_twice(out, HEALTHY, HEALTHY)
    assert out.getvalue() == b""
    assert "2 answers were not judged to the end" in capsys.readouterr().err


async def test_answers_that_are_known_to_fail_are_judged_first() -> None:
    """There may be time for some only."""

    class Watch:
        queued = whole = False

        def __init__(self, *, fails: bool) -> None:
            self.fails = fails

        def step(self) -> bool:
            judged.append(self.fails)
            return False

    judged: list[bool] = []
    queue = JudgeQueue(lambda _: None)
    for fails in (False, True, False):
        watch: Any = Watch(fails=fails)
        queue.put(watch)
    assert queue.judge_for(60) == 0
    assert judged == [True, False, False]
    await queue.empty()


async def test_guards_share_a_port_for_one_upstream_only() -> None:
    """The next guard starts before the last one stops. One of another upstream, by a slip, took half of the
    requests, and answered them with 502."""
    settings = GuardSettings("http://127.0.0.1:9", guard_config({}, "test"))
    async with serve_guard(settings, Journal(io.BytesIO())) as guard:
        port = int(guard.url.rpartition(":")[2])
        assert not await guards_another("127.0.0.1", port, "http://127.0.0.1:9")
        assert await guards_another("127.0.0.1", port, "http://127.0.0.1:10")
    async with fake_vllm(lambda asked: Events([])) as server:
        port = int(server.url.removesuffix("/v1").rpartition(":")[2])
        assert not await guards_another("127.0.0.1", port, "http://127.0.0.1:10")
    assert not await guards_another("127.0.0.1", port, "http://127.0.0.1:10")
