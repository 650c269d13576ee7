"""What nobody foresaw, and what of an upstream cannot be passed on: counted, logged, and never quoted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from stresstest.features.guard.relay import ClientPipe, Relay
from stresstest.features.guard.watch import JudgeQueue
from tests.support.fake_vllm import DONE, Events, Page, page, sse
from tests.support.guarded import ASK, CHAT, HEALTHY, chat_events, guarded, raw

UNSTREAMED = {name: value for name, value in ASK.items() if name != "stream"}
SECRET = "sk-secret"


def fail(*_: object) -> Any:
    raise RuntimeError(SECRET)


@pytest.mark.parametrize("policy", ["count", "abort"])
async def test_headers_with_control_characters_are_the_upstreams_failure(
    policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    """They cannot be written again: each was a traceback, a 500 of aiohttp's, and an answer that nobody
    counted or logged."""
    answers = (
        page({}, X_Steering=f"a\x1b[2J{SECRET}"),
        Events([*chat_events(HEALTHY), DONE], headers={"X-Steering": "a\x01b"}),
    )
    for script in answers:
        async with guarded(script, {"policy": policy}, every=True) as here:
            reply = await here.ask(body=UNSTREAMED)
            found = await here.judged(1)
        assert (reply.status, reply.headers["Server"]) == (502, "stresstest-guard")
        assert "no valid HTTP" in reply.json["error"]["message"]
        assert found[f"stresstest_guard_requests_total{{lab,upstream_error,{CHAT}}}"] == 1
        assert found["stresstest_guard_upstream_failures_total{protocol}"] == 1
        assert [line["finish_reason"] for line in here.log] == ["error"]
    assert SECRET not in caplog.text
    assert "Traceback" not in caplog.text


async def test_a_response_that_is_no_object_is_the_upstreams_failure() -> None:
    """It was a traceback where the guard adds its field to the answer that it puts together."""
    events = sse({"type": "response.completed", "response": "done"})
    body = {"model": "lab", "input": "hi"}
    async with guarded(Events(events), {"policy": "abort"}) as here:
        reply = await here.ask("/v1/responses", body)
        found = await here.judged(1)
    assert reply.status == 502
    assert found["stresstest_guard_upstream_failures_total{unreadable}"] == 1


async def test_an_error_of_the_guard_is_counted_and_not_quoted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client gets an error as the API words it, and the log the kind of error without its words."""
    monkeypatch.setattr(Relay, "begin", fail)
    async with guarded(page({}), every=True) as here:
        reply = await here.ask(body=UNSTREAMED)
        found = await here.judged(1)
    assert (reply.status, reply.headers["Server"]) == (500, "stresstest-guard")
    assert reply.json["error"]["type"] == "server_error"
    assert found[f"stresstest_guard_requests_total{{lab,guard_failed,{CHAT}}}"] == 1
    assert [line["finish_reason"] for line in here.log] == ["error"]
    assert "UnforeseenError: RuntimeError" in caplog.text
    assert SECRET not in caplog.text


async def test_an_error_within_an_answer_cuts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was seen of it is judged; an answer without its end must not pass for a whole one."""
    write, written = ClientPipe.write, 0

    def failing_later(self: ClientPipe, data: bytes) -> bool:
        nonlocal written
        written += 1
        return write(self, data) if written < 20 else fail()

    monkeypatch.setattr(ClientPipe, "write", failing_later)
    async with guarded(Events([*chat_events(HEALTHY), DONE], pause=0.001), every=True, text=True) as here:
        with pytest.raises(aiohttp.ClientError):
            await here.ask()
        found = await here.judged(1)
    assert found[f"stresstest_guard_requests_total{{lab,guard_failed,{CHAT}}}"] == 1
    (line,) = here.log
    assert line["finish_reason"] == "error"
    assert line["response"]
    assert HEALTHY.startswith(line["response"])


async def test_an_error_in_judging_is_not_quoted_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """It may quote the answer; the next one in the queue is judged."""
    queue, judged = JudgeQueue(lambda _: None), []
    for step in (fail, lambda: judged.append(1)):
        watch: Any = SimpleNamespace(queued=False, whole=False, step=step)
        queue.put(watch)
    await queue.empty()
    assert judged == [1]
    assert "UnforeseenError: RuntimeError" in caplog.text
    assert SECRET not in caplog.text


async def test_a_body_whose_chunks_are_none_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """By the client's fault: it was an error of the guard's own, with a traceback."""
    head = f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with guarded(Page()) as here, raw(here) as (reader, writer):
        writer.write(head.encode() + b"2\r\n{}\r\nxyz\r\n" + SECRET.encode())
        assert b" 400 " in await reader.readline()
        found = await here.series()
    assert not [name for name in found if "guard_failed" in name]
    assert SECRET not in caplog.text
    assert "Traceback" not in caplog.text
